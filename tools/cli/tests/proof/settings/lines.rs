//! What stands on the command line, and where relative paths lead.

use super::{all, refused};
use crate::support::{Client, Kind, Setup, own_port, redis_is_here, wait_until};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server started with a line of the test's own.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended before
        let _ = self.0.wait();
    }
}

fn program(kind: Kind) -> Command {
    match kind {
        Kind::Redis | Kind::Newer(_) => Command::new("redis-server"),
        Kind::Ours(_) => {
            let mut command = Command::new(env!("CARGO_BIN_EXE_stillframe"));
            command.arg("serve");
            command
        }
    }
}

fn kinds(test: &str) -> Vec<Kind> {
    let redis = redis_is_here(test).then_some(Kind::Redis);
    [Some(Kind::Ours("imprint")), redis].into_iter().flatten().collect()
}

const LOOKED_AT: [&str; 11] = [
    "maxmemory",
    "save",
    "appendonly",
    "hz",
    "client-output-buffer-limit",
    "requirepass",
    "masterauth",
    "notify-keyspace-events",
    "bind",
    "slowlog-max-len",
    "oom-score-adj-values",
];

/// What the settings are after a start with `line`, in which PORT is a port's number.
fn settings(kind: Kind, folder: &Path, line: &[&str], input: &str) -> Vec<String> {
    let port = own_port();
    let mut command = program(kind);
    command.args(line.iter().map(|word| word.replace("PORT", &port.to_string())));
    command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut started = Started(command.spawn().expect("it starts"));
    let mut stdin = started.0.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).expect("it is read");
    drop(stdin);
    let mut client = None;
    wait_until("the server answers", || {
        client = Client::try_connect(port);
        client.is_some() || started.0.try_wait().expect("a child's state").is_some()
    });
    let mut client = client.unwrap_or_else(|| panic!("{kind:?} does not start with {line:?}"));
    client.call(&[b"AUTH", b"--a b"]);
    wait_until("it has loaded", || client.ready());
    let all = all(&mut client);
    client.send(&[b"SHUTDOWN", b"NOSAVE"]);
    started.0.wait().expect("it ends");
    LOOKED_AT.iter().map(|name| format!("{name} {}", all[*name])).collect()
}

#[test]
fn lines_mean_what_they_mean_to_redis_server() {
    let lines: [&[&str]; 14] = [
        &["--port", "PORT", "--maxmemory", "1gb"],
        &["a.conf", "--port", "PORT"],
        &["a.conf", "--port", "PORT", "--save", "", "--hz", "77"],
        &["a.conf", "--port", "PORT", "--save", "5 5"],
        &["--port PORT", "--save", "60 1000", "--save", "5", "5"],
        &["--port", "PORT", "--save", "--appendonly", "no"],
        &["--port", "PORT", "--save"],
        &["--port", "PORT", "--client-output-buffer-limit", "pubsub", "1", "2", "3"],
        &["--port", "PORT", "--client-output-buffer-limit", "pubsub 1mb 2mb 3"],
        &["--port", "PORT", "--requirepass", "--a b", "--masterauth", "x\"y'z\\"],
        &["a.conf", "--port", "PORT", "-"],
        &["-", "--port", "PORT", "--HZ", "12"],
        &["a.conf", "--include", "b.conf", "--port", "PORT"],
        &["--port", "PORT", "--bind", "127.0.0.1", "-::1", "--oom-score-adj-values", "1 2 3"],
    ];
    let file = "\
maxmemory 100mb
save 900 1
save 300 10
hz 50
notify-keyspace-events \"KE\\x41\"
slowlog-max-len 7
";
    let kinds = kinds("lines_mean_what_they_mean_to_redis_server");
    for line in lines {
        let mut answers = Vec::new();
        for &kind in &kinds {
            let folder = tempfile::tempdir().expect("a folder");
            fs::write(folder.path().join("a.conf"), file).expect("a file");
            fs::write(folder.path().join("b.conf"), "masterauth 'it\\'s'\n").expect("a file");
            // Their defaults are others.
            let common = ["--bind", "127.0.0.1"];
            let line: Vec<&str> = match line.contains(&"--bind") || line.last() == Some(&"-") {
                true => line.to_vec(),
                false => {
                    let at = line.iter().position(|word| word.starts_with("--")).unwrap_or(0);
                    [&line[..at], &common, &line[at..]].concat()
                }
            };
            let input = "bind 127.0.0.1\nhz 33\n\n# no more\nsave 77 7\n";
            answers.push(settings(kind, folder.path(), &line, input));
        }
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{line:?}: {answers:#?}");
    }
}

#[test]
fn lines_that_mean_nothing_are_refused_with_a_hint() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.conf").display().to_string();
    fs::write(&file, "hz 10\nmaxmemoy 1gb\n").expect("a file");
    for (line, said) in [
        (&["--maxmemoy", "1gb"][..], "--maxmemoy: there is no setting 'maxmemoy'; did you mean"),
        (&[&file], "a.conf, line 2: there is no setting 'maxmemoy'; did you mean 'maxmemory'?"),
        (&["--sentinel"], "no Sentinel"),
        (&["--loadmodule", "x.so"], "no modules"),
        (&["--rename-command", "nosuch", "x"], "there is no command 'nosuch'"),
        (&["--port", "1", "2"], "--port: 'port \"1\" \"2\"': wrong number of arguments"),
        (&["-p", "7"], "'-p' is no flag"),
        (&["--include", "/nonexistent/file"], "/nonexistent/file"),
        (&["--hz", "many"], "--hz: 'hz \"many\"': argument couldn't be parsed"),
    ] {
        let (status, text) = refused(line);
        assert_eq!(status, Some(2), "{line:?}: {text}");
        assert!(text.contains(said), "{line:?}: {text}");
    }
}

#[test]
fn relative_paths_start_where_the_data_lies() {
    for kind in kinds("relative_paths_start_where_the_data_lies") {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        fs::create_dir(&data).expect("a folder");
        fs::write(
            data.join("users.acl"),
            "user default on nopass ~* &* +@all\nuser u on >p +get\n",
        )
        .expect("a file");
        fs::write(data.join("more.conf"), "hz 77\n").expect("a file");
        let text = "dir data\naclfile users.acl\nunixsocket socket\npidfile it.pid\n\
                    logfile it.log\ninclude more.conf\n";
        fs::write(folder.path().join("a.conf"), text).expect("a file");
        let mut command = program(kind);
        let port = own_port().to_string();
        command.args(["a.conf", "--bind", "127.0.0.1", "--save", "", "--port", &port]);
        command.current_dir(folder.path()).stdin(Stdio::null());
        let mut started = Started(command.spawn().expect("it starts"));
        wait_until("the pidfile is there", || data.join("it.pid").exists());
        let mut client = Client::unix(&data.join("socket"));
        wait_until("it has loaded", || client.ready());
        assert_eq!(client.ask("CONFIG GET hz").list()[1].text(), "77", "{kind:?}");
        assert_eq!(client.ask("CONFIG GET aclfile").list()[1].text(), "users.acl", "{kind:?}");
        let dir = client.ask("CONFIG GET dir").list()[1].text();
        assert_eq!(Path::new(&dir), fs::canonicalize(&data).expect("it is there"), "{kind:?}");
        assert!(client.ask("ACL LIST").list()[1].text().starts_with("user u on"), "{kind:?}");
        client.ok("ACL SETUSER w on nopass ~a\"b\\ +set");
        client.ok("ACL SAVE");
        client.ok("ACL LOAD");
        let rules = client.ask("ACL LIST").list()[2].text();
        assert!(rules.starts_with("user w on nopass ~a\"b\\ "), "{kind:?}: {rules}");
        let pid = fs::read_to_string(data.join("it.pid")).expect("the pidfile");
        assert_eq!(pid.trim(), started.0.id().to_string(), "{kind:?}");
        client.send(&[b"SHUTDOWN", b"NOSAVE"]);
        started.0.wait().expect("it ends");
        assert!(!data.join("it.pid").exists(), "{kind:?}: the pidfile goes at the end");
        assert!(data.join("it.log").exists(), "{kind:?}");
    }
}

#[test]
fn a_file_may_stand_first_or_be_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.conf").display().to_string();
    fs::write(&file, "hz 21\n").expect("a file");
    let setup = || Setup::new(Kind::Ours("imprint")).folder(folder.path());
    for setup in [setup().first(&file), setup().flags(&["--config", &file])] {
        let server = setup.start();
        assert_eq!(server.client().ask("CONFIG GET hz").list()[1].text(), "21");
        server.client().ok("CONFIG SET hz 22");
        server.client().ok("CONFIG REWRITE");
        assert!(fs::read_to_string(&file).expect("it").starts_with("hz 22\n"));
        fs::write(&file, "hz 21\n").expect("a file");
    }
}
