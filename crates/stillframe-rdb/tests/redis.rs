//! The real redis-server as the judge: its files are read right, and ours are by it.
//!
//! Without `redis-server` and `redis-check-rdb` in the path these tests say so and pass.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::*;
use stillframe_rdb::DecodeError;
use stillframe_resp::{Reply, decode_reply};
use tempfile::TempDir;

fn present(program: &str) -> bool {
    let found =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        // Past the test harness, which would swallow it.
        writeln!(std::io::stderr(), "SKIPPED, because {program} is not installed").ok();
    }
    found.is_ok()
}

/// A redis-server of this test's own, in its own directory, without network.
struct Redis {
    child: Child,
    connection: UnixStream,
    unread: Vec<u8>,
}

impl Redis {
    /// Starts one in `dir`, where it loads `dump.rdb` if there is one.
    fn start(dir: &Path, options: &[&str]) -> Redis {
        let socket = dir.join("socket");
        let mut child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(dir)
            .args(options)
            .stdout(fs::File::create(dir.join("log")).expect("a log file"))
            .spawn()
            .expect("redis-server starts");
        let begin = Instant::now();
        let connection = loop {
            if let Ok(connection) = UnixStream::connect(&socket) {
                break connection;
            }
            let ended = child.try_wait().expect("a child can be waited for");
            if ended.is_some() || begin.elapsed() > Duration::from_secs(60) {
                let log = fs::read_to_string(dir.join("log")).unwrap_or_default();
                panic!("redis-server does not serve:\n{log}");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut redis = Redis { child, connection, unread: Vec::new() };
        while redis.call(&[b"PING"]).starts_with("-LOADING") {
            std::thread::sleep(Duration::from_millis(10));
        }
        redis
    }

    fn send(&mut self, args: &[&[u8]]) {
        let mut request = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            request.extend_from_slice(arg);
            request.extend_from_slice(b"\r\n");
        }
        self.connection.write_all(&request).expect("redis-server reads");
    }

    fn receive<T>(&mut self, take: impl FnOnce(Reply<'_>) -> T) -> T {
        loop {
            if let Some((reply, used)) = decode_reply(&self.unread).expect("a reply") {
                let taken = take(reply);
                self.unread.drain(..used);
                return taken;
            }
            let mut bytes = [0; 65536];
            let count = self.connection.read(&mut bytes).expect("redis-server answers");
            assert!(count > 0, "redis-server hung up");
            self.unread.extend_from_slice(&bytes[..count]);
        }
    }

    /// A command whose reply is a line.
    fn call(&mut self, args: &[&[u8]]) -> String {
        self.send(args);
        self.receive(|reply| match reply {
            Reply::Simple(text) => String::from_utf8_lossy(text).into_owned(),
            Reply::Error(text) => format!("-{}", String::from_utf8_lossy(text)),
            Reply::Integer(number) => number.to_string(),
            Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
            other => format!("{other:?}"),
        })
    }

    fn bytes(&mut self, args: &[&[u8]]) -> Option<Vec<u8>> {
        self.send(args);
        self.receive(|reply| match reply {
            Reply::Bulk(bytes) => Some(bytes.to_vec()),
            _ => None,
        })
    }

    fn fill(&mut self, entries: &[Entry]) {
        for (db, key, value, expire_at_ms) in entries {
            assert_eq!(self.call(&[b"SELECT", db.to_string().as_bytes()]), "OK");
            assert_eq!(self.call(&[b"SET", key, &value.text()]), "OK");
            if let Some(at) = expire_at_ms {
                assert_eq!(self.call(&[b"PEXPIREAT", key, at.to_string().as_bytes()]), "1");
            }
        }
    }

    fn assert_holds(&mut self, entries: &[Entry]) {
        let mut counts = BTreeMap::new();
        for (db, key, value, expire_at_ms) in entries {
            *counts.entry(*db).or_insert(0) += 1;
            assert_eq!(self.call(&[b"SELECT", db.to_string().as_bytes()]), "OK");
            let shown = key.escape_ascii();
            assert!(self.bytes(&[b"GET", key]) == Some(value.text()), "key {shown}");
            let expires = self.call(&[b"PEXPIRETIME", key]);
            assert_eq!(expires, expire_at_ms.unwrap_or(-1).to_string(), "key {shown}");
        }
        for (db, count) in counts {
            assert_eq!(self.call(&[b"SELECT", db.to_string().as_bytes()]), "OK");
            assert_eq!(self.call(&[b"DBSIZE"]), count.to_string(), "database {db}");
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Keys in several databases with strings of every encoding.
fn dataset() -> Vec<Entry> {
    let mut values: Vec<Owned> = [0, 1, -1, 127, -129, 32767, -32769, 2147483647, -2147483649]
        .map(|value: i64| Owned::Bytes(value.to_string().into_bytes()))
        .into();
    values.extend([i64::MIN, -1 << 31, 1 << 15, i64::MAX].map(Owned::Int));
    values.extend(
        ["", "01", "-0", "+5", "1.5", "12345678901234567890123"]
            .map(|text| Owned::Bytes(text.into())),
    );
    for length in [1, 20, 21, 63, 64, 1000, 16383, 16384, 70_000, 200_000] {
        values.push(Owned::Bytes(noise(length as u64, length)));
        values.push(Owned::Bytes(b"abcdefghij".repeat(length / 10 + 1)));
        let mixed = [noise(3, length / 2), vec![b'z'; length]].concat();
        values.push(Owned::Bytes(mixed));
    }
    let entry = |(number, value): (usize, Owned)| {
        let key = match number % 4 {
            0 => number.to_string().into_bytes(),
            1 => format!("key:{number}").into_bytes(),
            2 => [&b"\xff\x00\r\n"[..], number.to_string().as_bytes()].concat(),
            _ => format!("long:{number}:").repeat(20).into_bytes(),
        };
        // Far in the future, in milliseconds.
        let expire_at_ms = (number % 3 == 0).then_some(4_000_000_000_123 + number as i64);
        (number as u64 * 7 % 16, key, value, expire_at_ms)
    };
    values.into_iter().enumerate().map(entry).collect()
}

fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort();
    entries
}

#[test]
fn files_of_redis_are_read_right() {
    if !present("redis-server") {
        return;
    }
    let entries = dataset();
    let expected = sorted(as_text(&entries));
    let eviction = ["--maxmemory", "1gb", "--maxmemory-policy"];
    for (options, verified) in [
        (vec![], true),
        (vec!["--rdbcompression", "no"], true),
        (vec!["--rdbchecksum", "no"], false),
        ([&eviction[..], &["allkeys-lru"]].concat(), true),
        ([&eviction[..], &["allkeys-lfu"]].concat(), true),
    ] {
        let dir = TempDir::new().expect("a temporary directory");
        let mut redis = Redis::start(dir.path(), &options);
        redis.fill(&entries);
        assert_eq!(redis.call(&[b"SAVE"]), "OK");
        let file = fs::read(dir.path().join("dump.rdb")).expect("redis-server has saved");
        let (found, was_verified) = read(&file[..]).expect("a whole file");
        assert!(sorted(found) == expected, "options {options:?}");
        assert_eq!(was_verified, verified, "options {options:?}");
    }
}

#[test]
fn types_not_held_yet_are_refused_by_name() {
    if !present("redis-server") {
        return;
    }
    let commands: &[(&[&str], &str)] = &[
        (&["RPUSH", "k", "a"], "a list (quicklist)"),
        (&["SADD", "k", "1"], "a set (intset)"),
        (&["SADD", "k", "a"], "a set (hash table)"),
        (&["ZADD", "k", "1", "a"], "a sorted set (listpack)"),
        (&["HSET", "k", "f", "v"], "a hash (listpack)"),
        (&["XADD", "k", "1-1", "f", "v"], "a stream (listpacks, second form)"),
    ];
    let dir = TempDir::new().expect("a temporary directory");
    let mut redis = Redis::start(dir.path(), &[]);
    let refused = |redis: &mut Redis| {
        assert_eq!(redis.call(&[b"SAVE"]), "OK");
        let file = fs::read(dir.path().join("dump.rdb")).expect("redis-server has saved");
        read(&file[..]).expect_err("only strings are read")
    };
    for (command, words) in commands {
        let args: Vec<&[u8]> = command.iter().map(|arg| arg.as_bytes()).collect();
        redis.call(&args);
        let error = refused(&mut redis);
        let DecodeError::UnsupportedType { key, kind, db: 0, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!((key.as_str(), kind.as_str()), ("k", *words));
        assert_eq!(redis.call(&[b"DEL", b"k"]), "1");
    }
    let library = b"#!lua name=mylib\nredis.register_function('f', function() return 1 end)";
    assert_eq!(redis.call(&[b"FUNCTION", b"LOAD", library]), "mylib");
    let error = refused(&mut redis).to_string();
    assert!(error.starts_with("function library \"#!lua name=mylib\" at byte "), "{error}");
}

#[test]
fn redis_reads_our_files_right() {
    if !present("redis-server") || !present("redis-check-rdb") {
        return;
    }
    let entries = dataset();
    let dir = TempDir::new().expect("a temporary directory");
    let path = dir.path().join("dump.rdb");
    fs::write(&path, write(&entries)).expect("room for a file");

    let check = Command::new("redis-check-rdb").arg(&path).output().expect("redis-check-rdb runs");
    let report = String::from_utf8_lossy(&check.stdout);
    assert!(check.status.success(), "{report}");
    assert!(report.contains("Checksum OK"), "{report}");
    assert!(report.contains(&format!("{} keys read", entries.len())), "{report}");

    Redis::start(dir.path(), &[]).assert_holds(&entries);
}
