//! The real redis-server, started by tests for themselves.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use stillframe_resp::{Reply, decode_reply};

use super::{Entry, Owned, Score};

/// A redis-server of this test's own, in its own directory, without network.
pub(crate) struct Redis {
    child: Child,
    connection: UnixStream,
    unread: Vec<u8>,
}

impl Redis {
    /// Starts one in `dir`, where it loads `dump.rdb` if there is one.
    pub(crate) fn start(dir: &Path, options: &[&str]) -> Redis {
        let socket = dir.join("socket");
        let mut child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--enable-debug-command", "yes", "--unixsocket"])
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
    pub(crate) fn call(&mut self, args: &[&[u8]]) -> String {
        self.send(args);
        self.receive(|reply| match reply {
            Reply::Simple(text) => String::from_utf8_lossy(text).into_owned(),
            Reply::Error(text) => format!("-{}", String::from_utf8_lossy(text)),
            Reply::Integer(number) => number.to_string(),
            Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
            other => format!("{other:?}"),
        })
    }

    pub(crate) fn bytes(&mut self, args: &[&[u8]]) -> Option<Vec<u8>> {
        self.send(args);
        self.receive(|reply| match reply {
            Reply::Bulk(bytes) => Some(bytes.to_vec()),
            _ => None,
        })
    }

    pub(crate) fn fill(&mut self, entries: &[Entry]) {
        for (db, key, value, expire_at_ms) in entries {
            assert_eq!(self.call(&[b"SELECT", db.to_string().as_bytes()]), "OK");
            self.store(key, value);
            if let Some(at) = expire_at_ms {
                assert_eq!(self.call(&[b"PEXPIREAT", key, at.to_string().as_bytes()]), "1");
            }
        }
    }

    fn store(&mut self, key: &[u8], value: &Owned) {
        let (name, words): (&[u8], Vec<Vec<u8>>) = match value {
            Owned::Int(_) | Owned::Bytes(_) => {
                let Owned::Bytes(text) = value.text() else { panic!("a string is text") };
                return assert_eq!(self.call(&[b"SET", key, &text]), "OK");
            }
            Owned::List(list) => (b"RPUSH", list.clone()),
            Owned::Set(set) => (b"SADD", set.iter().cloned().collect()),
            Owned::Hash(hash) => {
                let pairs = hash.iter().flat_map(|(field, value)| [field.clone(), value.clone()]);
                (b"HSET", pairs.collect())
            }
            Owned::Stream(_) => unreachable!("streams have tests of their own"),
            Owned::Sorted(sorted) => {
                let pair = |(member, score): (&Vec<u8>, &Score)| {
                    [score.0.to_string().into_bytes(), member.clone()]
                };
                (b"ZADD", sorted.iter().flat_map(pair).collect())
            }
        };
        for words in words.chunks(1000) {
            let args = [name, key].into_iter().chain(words.iter().map(Vec::as_slice));
            let reply = self.call(&args.collect::<Vec<_>>());
            assert!(!reply.starts_with('-'), "{reply}");
        }
    }

    /// One checksum of all keys and values, and whether they expire.
    pub(crate) fn digest(&mut self) -> String {
        self.call(&[b"DEBUG", b"DIGEST"])
    }

    pub(crate) fn assert_expiries(&mut self, entries: &[Entry]) {
        for (db, key, _, expire_at_ms) in entries {
            assert_eq!(self.call(&[b"SELECT", db.to_string().as_bytes()]), "OK");
            let expires = self.call(&[b"PEXPIRETIME", key]);
            assert_eq!(expires, expire_at_ms.unwrap_or(-1).to_string(), "{}", key.escape_ascii());
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
