//! The configuration file: read, changed by CONFIG SET, and written back as redis-server does it.

use crate::support::{
    Client, Kind, Peer, Reply, Setup, are_here, output_of, own_port, redis_is_here,
};
use std::fs;
use std::process::Command;
use stillframe_peers::conf;

const FILE: &str = "\
# A head comment
maxmemory 100000000

# saves
SAVE 100 1
save 200 2
  client-output-buffer-limit pubsub 1mb 1mb 10
timeout 5
timeout 6
requirepass \"a b\"
include INCLUDED
notify-keyspace-events KEA
";

/// What a server made of the file: its lines, those it added in alphabetical order.
fn rewritten(kind: Kind) -> (Vec<String>, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, included) = (folder.path().join("a.conf"), folder.path().join("b.conf"));
    fs::write(&included, "hz 20\n").expect("a file");
    let text = FILE.replace("INCLUDED", &included.display().to_string());
    fs::write(&file, &text).expect("a file");
    let name = file.display().to_string();
    let setup = match kind {
        Kind::Redis | Kind::Newer(_) => Setup::new(kind).first(&name),
        Kind::Ours(_) => Setup::new(kind).flags(&["--config", &name]),
    };
    let server = setup.folder(folder.path()).password("a b").start();
    let mut client = server.client();
    client.call(&[b"AUTH", b"a b"]);
    change(&mut client);
    let after = fs::read_to_string(&file).expect("the file");
    let after = after.replace(&included.display().to_string(), "INCLUDED");
    let dir = format!("dir \"{}\"", folder.path().display());
    let port = format!("port {}", server.port);
    let lines = after.lines().map(|line| line.replace(&dir, "DIR").replace(&port, "PORT"));
    // Redis leaves a blank line where it takes one away.
    let lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    let end = lines.iter().position(|line| line.starts_with("# Generated")).expect("a mark");
    let (kept, added) = lines.split_at(end);
    // Redis always adds the first two, and has other defaults of the rest.
    let quirks = ["latency-tracking", "user", "bind", "io-threads"];
    let common = |line: &&String| !quirks.iter().any(|quirk| line.starts_with(quirk));
    let mut added: Vec<String> = added.iter().filter(common).cloned().collect();
    added.sort();
    (kept.to_vec(), added)
}

fn change(client: &mut Client) {
    let set: &[&[u8]] = &[b"CONFIG", b"SET", b"maxmemory", b"200mb", b"timeout", b"7", b"save"];
    assert_eq!(
        client.call(&[set, &[b"10 1 20 2 30 3", b"lfu-decay-time", b"9"]].concat()).text(),
        "OK"
    );
    // One wrong pair, and nothing changes.
    let reply = client.call(&[set, &[b"5 5", b"hz", b"many"]].concat());
    assert!(matches!(reply, Reply::Error(_)), "{reply:?}");
    assert_eq!(client.ask("CONFIG GET save").list()[1].text(), "10 1 20 2 30 3");
    assert_eq!(client.ask("CONFIG REWRITE").text(), "OK");
    client.ok("CONFIG SET maxmemory 300mb");
    assert_eq!(client.ask("CONFIG REWRITE").text(), "OK", "a second time");
}

#[test]
fn config_rewrite_writes_what_redis_writes() {
    let (kept, added) = rewritten(Kind::subject("imprint"));
    assert!(kept.iter().any(|line| line == "maxmemory 300mb"), "{kept:?}");
    assert!(kept.iter().any(|line| line == "# A head comment"), "{kept:?}");
    if redis_is_here("config_rewrite_writes_what_redis_writes") {
        assert_eq!((kept, added), rewritten(Kind::Redis));
    }
}

#[test]
fn what_was_rewritten_is_loaded_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.conf");
    fs::write(&file, "requirepass \"it's \\\"quoted\\\" \\x07\"\n").expect("a file");
    let start = || {
        let setup = Setup::new(Kind::Ours("imprint")).folder(folder.path());
        let setup = setup.flags(&["--config", &file.display().to_string()]);
        setup.password("it's \"quoted\" \x07").start()
    };
    let mut server = start();
    let mut client = server.client();
    client.call(&[b"AUTH", b"it's \"quoted\" \x07"]);
    client.call(&[b"CONFIG", b"SET", b"save", b"", b"requirepass", b"it's \"quoted\" \x07"]);
    client.ok("CONFIG SET hash-max-listpack-entries 7");
    client.ok("CONFIG REWRITE");
    server.kill();
    let server = start();
    let mut client = server.client();
    client.call(&[b"AUTH", b"it's \"quoted\" \x07"]);
    assert_eq!(client.ask("CONFIG GET hash-max-listpack-entries").list()[1].text(), "7");
    assert_eq!(client.ask("CONFIG GET save").list()[1].text(), "");
}

#[test]
fn users_are_kept_in_the_configuration_or_in_a_file_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, acl) = (folder.path().join("a.conf"), folder.path().join("users.acl"));
    let setup = || Setup::new(Kind::subject("imprint")).folder(folder.path());
    let config = file.display().to_string();
    let start = |text: &str| {
        fs::write(&file, text).expect("a file");
        match Kind::subject("imprint") {
            Kind::Redis | Kind::Newer(_) => setup().first(&config).start(),
            Kind::Ours(_) => setup().flags(&["--config", &config]).start(),
        }
    };
    let mut server = start("user alice on >secret ~a:* +get +acl|whoami\n");
    let mut client = server.client();
    client.ok("ACL SETUSER bob on nopass +ping (+get ~b)");
    let before = client.ask("ACL LIST");
    client.ok("CONFIG REWRITE");
    server.kill();
    let text = fs::read_to_string(&file).expect("the file");
    let mut server = start(&text);
    let mut client = server.client();
    assert_eq!(client.ask("ACL LIST"), before);
    assert_eq!(client.ask("AUTH alice secret").text(), "OK");
    assert_eq!(client.ask("ACL WHOAMI").text(), "alice");
    server.kill();
    // The same users in a file of their own.
    fs::write(&acl, "user carol on nopass ~c +@all\n").expect("a file");
    let server = start(&format!("aclfile {}\n", acl.display()));
    let mut client = server.client();
    client.ok("ACL SETUSER dave on >pw +@read");
    client.ok("ACL SAVE");
    let saved = fs::read_to_string(&acl).expect("the file");
    assert!(saved.contains("user carol on nopass") && saved.contains("user dave on #"), "{saved}");
    let mut dave = server.client();
    assert_eq!(dave.ask("AUTH dave pw").text(), "OK");
    fs::write(&acl, "user carol on nopass ~c +@all\nuser erin nonsense\n").expect("a file");
    assert!(matches!(client.ask("ACL LOAD"), Reply::Error(_)), "a wrong line changes nothing");
    assert!(client.ask("ACL USERS").list().contains(&Reply::Text(b"dave".to_vec())));
    fs::write(&acl, "user carol off\n").expect("a file");
    assert_eq!(client.ask("ACL LOAD").text(), "OK");
    assert_eq!(client.ask("ACL USERS").list().len(), 2);
    assert_eq!(dave.try_call(&[b"PING"]), None, "a user who is gone has no connections");
}

#[test]
fn an_unknown_directive_is_named_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.conf");
    fs::write(&file, "port 0\n\nnosuch 1\n").expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_stillframe"));
    command.args(["serve", "--config"]).arg(&file);
    let output = output_of(command);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("a.conf, line 3: there is no setting 'nosuch'"), "{text}");
}

#[test]
fn the_configuration_file_of_debian_is_read() {
    if !are_here("the_configuration_file_of_debian_is_read", &[Peer::RedisConf]) {
        return;
    }
    let text = fs::read_to_string(conf()).expect("a text");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("redis.conf");
    // A daemon, its log and data where only root may write, and replication: not here.
    let elsewhere = ["daemonize", "logfile", "dir", "bind", "port"];
    let kept = text.lines().filter(|line| {
        let name = line.split_whitespace().next().unwrap_or_default();
        !elsewhere.contains(&name) && !name.starts_with("repl")
    });
    fs::write(&file, kept.collect::<Vec<_>>().join("\n")).expect("a file");
    let setup = Setup::new(Kind::Ours("imprint")).folder(folder.path());
    let server = setup.flags(&["--config", &file.display().to_string()]).start();
    assert_eq!(server.client().ask("CONFIG GET hz").list()[1].text(), "10");
}

#[test]
fn ports_and_addresses_change_at_run_time() {
    for kind in [Kind::subject("imprint"), Kind::Redis] {
        if kind == Kind::Redis && !redis_is_here("ports and addresses") {
            continue;
        }
        let server = Setup::new(kind).start();
        let mut client = server.client();
        let refused = |client: &mut Client, words: [&[u8]; 2]| {
            let reply = client.call(&[b"CONFIG", b"SET", words[0], words[1]]);
            assert!(matches!(&reply, Reply::Error(text) if text.contains(" - ")), "{reply:?}");
            reply.text()
        };
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let number = taken.local_addr().expect("its address").port().to_string();
        let text = refused(&mut client, [b"port", number.as_bytes()]);
        assert!(text.ends_with("Unable to listen on this port. Check server logs."), "{text}");
        server.client().ok("PING");
        let port = own_port();
        client.ok(&format!("CONFIG SET port {port}"));
        assert!(Client::try_connect(server.port).is_none(), "nobody listens there any more");
        let mut moved = Client::try_connect(port).expect("the new port");
        moved.ok("PING");
        assert_eq!(moved.info("tcp_port"), port.to_string());
        assert_eq!(client.ask("CONFIG GET port").list()[1].text(), port.to_string());
        let text = refused(&mut client, [b"bind", b"203.0.113.7"]);
        assert!(text.ends_with("Failed to bind to specified addresses."), "{text}");
        Client::try_connect(port).expect("as before").ok("PING");
        client.ok("CONFIG SET bind 0.0.0.0");
        Client::try_connect(port).expect("any address").ok("PING");
    }
}

#[test]
fn settings_that_mean_nothing_here_and_old_names_are_kept_as_redis_keeps_them() {
    let settings = [
        ("hash-max-ziplist-entries", "7"),
        ("zset-max-ziplist-value", "70"),
        ("list-max-ziplist-size", "-5"),
        ("slave-priority", "3"),
        ("min-slaves-max-lag", "11"),
        ("lua-time-limit", "4000"),
        ("activerehashing", "NO"),
        ("active-defrag-cycle-max", "0"),
        ("active-defrag-cycle-max", "50"),
        ("active-expire-effort", "many"),
        ("oom-score-adj", "Relative"),
        ("oom-score-adj", "perhaps"),
        ("oom-score-adj-values", "1 2 3"),
        ("stream-node-max-bytes", "2kb"),
        ("stream-node-max-bytes", "x"),
        ("set-proc-title", "no"),
        ("pidfile", "x"),
        ("appenddirname", "x"),
        ("rdbchecksum", "no"),
        ("sanitize-dump-payload", "clients"),
        ("maxmemory-eviction-tenacity", "101"),
    ];
    let patterns =
        ["*ziplist*", "slave-*", "oom-*", "stream-node-*", "*-defrag*", "LUA-time-limit"];
    let answers = |kind: Kind| {
        let folder = tempfile::tempdir().expect("a folder");
        let setup = Setup::new(kind).folder(folder.path()).config("dynamic-hz no\n");
        let server = setup.start();
        let mut client = server.client();
        let mut answers = Vec::new();
        for (name, value) in settings {
            answers
                .push(client.call(&[b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()]).text());
            answers.push(format!("{:?}", client.ask(&format!("CONFIG GET {name}"))));
        }
        for pattern in patterns {
            let reply = client.ask(&format!("CONFIG GET {pattern}"));
            let (pairs, _) = reply.list().as_chunks::<2>();
            let mut pairs: Vec<_> = pairs.iter().map(|[n, v]| (n.text(), v.text())).collect();
            pairs.sort();
            answers.push(format!("{pairs:?}"));
        }
        client.ok("CONFIG REWRITE");
        let file = fs::read_to_string(folder.path().join("server.conf")).expect("the file");
        let kept = |line: &&str| {
            ["dynamic", "active", "oom", "stream", "list", "hash", "busy"]
                .iter()
                .any(|start| line.starts_with(start))
        };
        let mut lines: Vec<&str> = file.lines().filter(kept).collect();
        lines.sort_unstable();
        answers.push(lines.join("\n"));
        answers
    };
    let ours = answers(Kind::subject("imprint"));
    assert!(ours.iter().any(|reply| reply == "OK"), "{ours:?}");
    if redis_is_here("settings_that_mean_nothing_here") {
        assert_eq!(ours, answers(Kind::Redis));
    }
}

#[test]
fn a_small_output_limit_locks_nobody_out() {
    let kinds = [Kind::subject("imprint"), Kind::Redis];
    let count = if redis_is_here("a_small_output_limit_locks_nobody_out") { 2 } else { 1 };
    for kind in kinds.into_iter().take(count) {
        let server = crate::support::Server::start(kind);
        let mut client = server.client();
        client.call(&[b"CONFIG", b"SET", b"client-output-buffer-limit", b"normal 1 1 1"]);
        client.ok("SET k v");
        assert_eq!(client.ask("GET k").text(), "v");
        let large = vec![b'x'; 200_000];
        client.call(&[b"SET", b"large", &large]);
        assert_eq!(client.try_call(&[b"MGET", b"large", b"large"]), None, "{kind:?}");
        let mut other = server.client();
        let reply =
            other.call(&[b"CONFIG", b"SET", b"client-output-buffer-limit", b"normal 0 0 0"]);
        assert_eq!(reply.text(), "OK");
    }
}
