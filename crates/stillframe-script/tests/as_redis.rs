//! Scripts that use no data give the replies of redis-server, byte for byte.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use stillframe_peers::{Peer, are_here};
use stillframe_resp::{Out, Protocol, decode_reply};
use stillframe_script::{Call, Engine, Host, Level, Limits, NotACommand, Propagation, Verdict};

/// Scripts, one a paragraph.
const SCRIPTS: &str = include_str!("scripts.txt");

/// A host that knows ECHO alone.
struct Echo;

impl Host for Echo {
    fn call(&mut self, args: &[&[u8]], protocol: Protocol, reply: &mut Vec<u8>) {
        let mut out = Out::new(reply, protocol);
        match args {
            [b"echo", text] => out.bulk(text),
            [b"echo", ..] => {
                out.error("ERR Wrong number of args calling Redis command from script")
            }
            _ => out.error("ERR Unknown Redis command called from script"),
        }
    }

    fn may_run(&mut self, args: &[&[u8]]) -> Result<bool, NotACommand> {
        if args[0] == b"echo" { Ok(true) } else { Err(NotACommand) }
    }

    fn log(&mut self, _: Level, _: &[u8]) {}

    fn propagate(&mut self, _: Propagation) -> bool {
        true
    }

    fn pause(&mut self) -> Verdict {
        Verdict::GoOn
    }
}

fn ours(engine: &mut Engine, source: &[u8], keys: &[&[u8]], args: &[&[u8]]) -> Vec<u8> {
    let mut buffer = Vec::new();
    let mut out = Out::new(&mut buffer, Protocol::Resp2);
    match engine.load(source) {
        Err(error) => out.error(format!("ERR {error}")),
        Ok(sha) => {
            let start = out.position();
            if let Err(error) = engine.run(Call { sha, keys, args }, &mut Echo, &mut out) {
                out.buffer.truncate(start);
                out.error(error.text);
            }
        }
    }
    buffer
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

struct Redis {
    child: Child,
    stream: TcpStream,
    _directory: tempfile::TempDir,
}

impl Redis {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a folder");
        let port = free_port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--save", "", "--dir"])
            .arg(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server starts");
        let begun = Instant::now();
        let stream = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => break stream,
                Err(error) if begun.elapsed() > Duration::from_secs(60) => panic!("{error}"),
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        };
        Self { child, stream, _directory: directory }
    }

    fn ask(&mut self, request: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        stillframe_peers::reply::encode(request, &mut bytes);
        self.stream.write_all(&bytes).expect("redis-server reads");
        let mut reply = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let length = self.stream.read(&mut piece).expect("redis-server replies");
            assert!(length > 0, "redis-server went away");
            reply.extend_from_slice(&piece[..length]);
            if matches!(decode_reply(&reply), Ok(Some(_))) {
                return reply;
            }
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn scripts_without_data_reply_as_redis_server_does() {
    if !are_here("scripts_without_data_reply_as_redis_server_does", &[Peer::RedisServer]) {
        return;
    }
    // An unoptimized build uses much stack for each level of a nested value.
    let compared = thread::Builder::new().stack_size(64 << 20).spawn(compare).expect("a thread");
    assert_eq!(compared.join().expect("no panic"), 0, "differences");
}

/// How many scripts reply otherwise than in redis-server.
fn compare() -> usize {
    let mut redis = Redis::start();
    let limits = Limits { memory_bytes: 256 << 20, instructions: 0 };
    let mut engine = Engine::new(limits).expect("an interpreter");
    let mut differences = 0;
    for script in SCRIPTS.split("\n\n").map(str::trim_end).filter(|script| !script.is_empty()) {
        let theirs =
            redis.ask(&[b"EVAL", script.as_bytes(), b"2", b"key1", b"key2", b"arg1", b"7"]);
        let ours = ours(&mut engine, script.as_bytes(), &[b"key1", b"key2"], &[b"arg1", b"7"]);
        if ours != theirs {
            differences += 1;
            println!(
                "{script}\n  ours   {}\n  theirs {}",
                ours.escape_ascii(),
                theirs.escape_ascii()
            );
        }
    }
    differences
}
