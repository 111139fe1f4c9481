//! Settings, beside redis-server: the values that they take, how these are shown and written in
//! files and on the command line, and that each survives CONFIG REWRITE and a restart.

mod daemons;
mod foreign;
mod lines;
mod named;
mod protected;
mod renames;

use crate::support::{
    Client, Kind, Peer, Reply, Server, Setup, are_here, redis_is_here, stillframe,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use stillframe_peers::conf;

/// Values that are tried with every setting.
const VALUES: [&str; 44] = [
    "",
    "yes",
    "NO",
    "0",
    "1",
    "-1",
    "7",
    "007",
    "+7",
    " 7",
    "1.5",
    "42",
    "600",
    "100000000000000000000",
    "64kb",
    "1MB",
    "1 mb",
    "50%",
    "0%",
    "a b",
    "\"",
    "'",
    "a\"b'c\\d",
    "#x",
    "gr\u{fc}\u{df}e",
    "tab\tnl\n",
    "\x01\x7f",
    "50 99 99.9",
    "0 200 800",
    "-3000 1 2",
    "normal 1 2 3 pubsub 4mb 5mb 6",
    "slave 1 2 -3",
    "60 1 300 10",
    "60 -1",
    "0 1",
    "KEA",
    "$lz",
    "default",
    "everysec",
    "allkeys-lru",
    "notice",
    "nosave force now",
    "clients",
    "TLSv1.3",
];

/// What CONFIG SET would move the server by, or end it; other tests look at them.
const MOVING: [&str; 12] = [
    "port",
    "bind",
    "dir",
    "dbfilename",
    "tls-port",
    "appendonly",
    "replicaof",
    "slaveof",
    "requirepass",
    "maxclients",
    "timeout",
    "io-threads",
];

/// Settings that cannot change, or are compared by eye: docs/reference/compatibility.md.
const OTHER: [&str; 13] = [
    "activedefrag",
    "aof-load-truncated",
    "aof-use-rdb-preamble",
    "hll-sparse-max-bytes",
    "no-appendfsync-on-rewrite",
    "proc-title-template",
    "propagation-error-behavior",
    "proto-max-bulk-len",
    "repl-disable-tcp-nodelay",
    "supervised",
    "syslog-enabled",
    "tls-replication",
    "databases",
];

fn all(client: &mut Client) -> BTreeMap<String, String> {
    let reply = client.ask("CONFIG GET *");
    let (pairs, _) = reply.list().as_chunks::<2>();
    pairs.iter().map(|[name, value]| (name.text(), value.text())).collect()
}

fn set(client: &mut Client, name: &str, value: &str) -> bool {
    let reply = client.call(&[b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()]);
    !matches!(reply, Reply::Error(_))
}

fn get(client: &mut Client, name: &str) -> String {
    client.call(&[b"CONFIG", b"GET", name.as_bytes()]).list()[1].text()
}

#[test]
fn settings_take_the_values_that_redis_takes_and_show_them_as_it_does() {
    let test = "settings_take_the_values_that_redis_takes";
    if !redis_is_here(test) {
        return;
    }
    let older = compare(Kind::Redis, |_| true);
    assert!(older.len() > 150, "{}", older.len());
    if are_here(test, &[Peer::Redis810]) {
        let newer = compare(Kind::Newer(Peer::Redis810), |name| LATER.contains(&name));
        assert_eq!(newer.len(), LATER.len(), "{newer:?}");
    }
}

/// Settings that Redis 8.10 has and 7.0 does not. It bounds those of arrays by each other; here
/// they have no effect.
const LATER: [&str; 8] = [
    "hash-max-template-entries",
    "hash-min-template-entries",
    "hash-rdb-load-max-template-entries",
    "hash-rdb-load-min-template-entries",
    "hash-rdb-load-template-disassembly-threshold",
    "lookahead",
    "slowlog-entry-max-argc",
    "slowlog-entry-max-string-len",
];

/// Sets those of the settings of a server that this one has, too. Returns which.
fn compare(kind: Kind, is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let servers = [kind, Kind::Ours("imprint")].map(Server::start);
    let [theirs, ours] = &mut servers.each_ref().map(Server::client);
    let (known, own) = (all(theirs), all(ours));
    let is_meant = |name: &String| own.contains_key(name) && is_meant(name);
    let both: Vec<_> = known.iter().filter(|(name, _)| is_meant(name)).collect();
    let mut wrong = Vec::new();
    for &(name, default) in &both {
        let is_tls = name.starts_with("tls-");
        if MOVING.contains(&&**name) || OTHER.contains(&&**name) || is_tls {
            continue;
        }
        assert_eq!(Some(default), own.get(name), "the default of {name}");
        for value in VALUES {
            // Empty lists and amounts, and amounts beyond all bounds, are refused here.
            let is_odd = value.is_empty() || value.len() > 20 && !value.contains(' ');
            let taken = [set(theirs, name, value), set(ours, name, value)];
            let shown = [get(theirs, name), get(ours, name)];
            let may_differ = is_odd && !taken[1];
            if taken[0] != taken[1] && !may_differ || taken == [true; 2] && shown[0] != shown[1] {
                wrong.push(format!(
                    "{name} {value:?}: redis {} {:?}, here {} {:?}",
                    taken[0], shown[0], taken[1], shown[1]
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    both.into_iter().map(|(name, _)| name.clone()).collect()
}

/// Restarts with the file alone, and compares what all settings are.
fn assert_survives(folder: &Path, text: &str, round: usize) {
    let start = || Setup::new(Kind::Ours("imprint")).folder(folder).password("a b");
    let server = start().config(text).start();
    let mut client = server.client();
    client.call(&[b"AUTH", b"a b"]);
    for name in all(&mut client).into_keys() {
        if MOVING[..8].contains(&&*name) || name.starts_with("tls-") {
            continue;
        }
        let taken: Vec<&str> =
            VALUES.into_iter().filter(|value| set(&mut client, &name, value)).collect();
        if !taken.is_empty() {
            assert!(set(&mut client, &name, taken[round % taken.len()]));
        }
    }
    client.ok("CONFIG SET timeout 0 maxclients 100 maxmemory 0");
    assert!(set(&mut client, "requirepass", "a b"));
    client.ok("ACL SETUSER odd on >secret ~\"a'b\\c\u{fc} &\" +get");
    client.call(&[b"ACL", b"SETUSER", b"bytes", b"on", b"~\xff\xfe*"]);
    let before = (all(&mut client), client.ask("ACL LIST"));
    assert_eq!(client.ask("CONFIG REWRITE").text(), "OK", "{}", server.log());
    drop(server);
    let file = folder.join("server.conf");
    let server = start().first(&file.display().to_string()).start();
    let mut client = server.client();
    client.call(&[b"AUTH", b"a b"]);
    let after = (all(&mut client), client.ask("ACL LIST"));
    for (name, value) in &before.0 {
        // The line of the test's server says these.
        if name != "port" && name != "save" {
            assert_eq!(after.0.get(name), Some(value), "{name}");
        }
    }
    assert_eq!(before.1, after.1);
}

#[test]
fn every_setting_survives_a_rewrite_and_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let sample = include_str!("../../../../../stillframe.conf");
    assert_survives(folder.path(), sample, 0);
    let late = folder.path().join("late.conf");
    fs::write(&late, "hz 20\nsave 900 9\nacllog-max-len 5\n").expect("a file");
    let odd = format!("# odd\nhz 30\nHZ 40\nsave 1 1\ninclude {}\ntimeout 3\n", late.display());
    assert_survives(folder.path(), &odd, 3);
    if are_here("every_setting_survives_a_rewrite, from Debian's file", &[Peer::RedisConf]) {
        let text = fs::read_to_string(conf()).expect("a text");
        // What leads out of the folder, or away from the terminal that the test watches.
        let leading = ["daemonize", "logfile", "dir", "pidfile", "port", "bind"];
        let stays =
            |line: &&str| !leading.contains(&line.split_whitespace().next().unwrap_or_default());
        let text: Vec<&str> = text.lines().filter(stays).collect();
        assert_survives(folder.path(), &text.join("\n"), 5);
    }
    let server = Server::start(Kind::subject("imprint"));
    let refused = server.client().ask("CONFIG REWRITE").text();
    assert_eq!(refused, "ERR The server is running without a config file");
}

#[test]
fn percentiles_are_as_configured() {
    let mut answers = Vec::new();
    for kind in [Kind::subject("imprint"), Kind::Redis] {
        if kind == Kind::Redis && !redis_is_here("percentiles_are_as_configured") {
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let text = "latency-tracking-info-percentiles \"50 99.5\"\n";
        let server = Setup::new(kind).folder(folder.path()).config(text).start();
        let mut client = server.client();
        client.ok("SET k v");
        let names = |client: &mut Client| {
            let text = client.ask("INFO latencystats").text();
            let line =
                text.lines().find_map(|line| line.strip_prefix("latency_percentiles_usec_set:"));
            let parts = line.unwrap_or("none").split(',').map(|it| it.split('=').next());
            parts.map(|name| name.unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        let mut own = vec![names(&mut client)];
        for value in ["0 12.345678 100", "", "99.9999999"] {
            assert!(set(&mut client, "latency-tracking-info-percentiles", value));
            own.push(names(&mut client));
            own.push(vec![get(&mut client, "latency-tracking-info-percentiles")]);
        }
        answers.push(own);
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
}

/// Our binary with a line that it cannot use: its exit status and message.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = stillframe(&[&["serve"], arguments].concat());
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}
