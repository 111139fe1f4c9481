//! The real redis-server as the judge of requests: the same streams, cut at random, mean the same
//! to it as to the parser. Every request is an ECHO, so its replies show what it understood.
//!
//! Without `redis-server` in the path this says so and passes.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use stillframe_peers::{Peer, are_here};
use stillframe_resp::{Limits, Out, Parser, Protocol};
use tempfile::TempDir;

/// A redis-server of this test's own, in its own directory, without network.
struct Redis {
    child: Child,
    socket: PathBuf,
    _dir: TempDir,
}

impl Redis {
    fn start() -> Option<Redis> {
        if !are_here("requests, judged by redis-server", &[Peer::RedisServer]) {
            return None;
        }
        let dir = TempDir::new().expect("a temporary directory");
        let socket = dir.path().join("socket");
        let child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--zset-max-listpack-entries", "0", "--unixsocket"])
            .arg(&socket)
            .stdout(fs::File::create(dir.path().join("log")).expect("a log file"))
            .spawn()
            .expect("redis-server starts");
        let redis = Redis { child, socket, _dir: dir };
        let begin = Instant::now();
        while UnixStream::connect(&redis.socket).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(60), "redis-server does not serve");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(redis)
    }

    /// All it replies to `stream`, sent on a connection of its own.
    fn replies(&self, stream: &[u8], cut: usize) -> Vec<u8> {
        let mut connection = UnixStream::connect(&self.socket).expect("redis-server listens");
        let (start, end) = stream.split_at(cut);
        // Writing fails when it has hung up already, over what came first.
        connection.write_all(start).and_then(|()| connection.write_all(end)).ok();
        connection.shutdown(Shutdown::Write).ok();
        let mut replies = Vec::new();
        connection.read_to_end(&mut replies).ok();
        replies
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// What a server with our parser would reply; `None` as soon as a request is not an ECHO.
fn our_replies(mut stream: Vec<u8>) -> Option<Vec<u8>> {
    let (mut parser, mut at, mut replies) = (Parser::new(Limits::OPEN), 0, Vec::new());
    let mut out = Out::new(&mut replies, Protocol::Resp2);
    loop {
        match parser.parse(&mut stream[at..]) {
            Ok(None) => return Some(replies),
            Ok(Some(used)) => {
                let request = &stream[at..at + used];
                let args: Vec<_> = parser.args().iter().map(|r| &request[r.clone()]).collect();
                match args[..] {
                    [] => {}
                    [name, _] | [name, ..] if !name.eq_ignore_ascii_case(b"echo") => return None,
                    [_, text] => out.bulk(text),
                    _ => out.error("ERR wrong number of arguments for 'echo' command"),
                }
                at += used;
            }
            Err(error) => {
                out.protocol_error(&error);
                return Some(replies);
            }
        }
    }
}

/// Mostly right numbers, and all the ways in which they are not.
fn number(right: usize) -> impl Strategy<Value = String> {
    const WRONG: &[&str] =
        &["", "0", "-1", "-0", "02", "+2", " 2", "2 ", "x", "536870913", "2147483648"];
    prop_oneof![
        30 => Just(right.to_string()),
        1 => prop::sample::select(WRONG).prop_map(str::to_owned),
        1 => Just("9223372036854775808".to_owned()),
    ]
}

fn multibulk() -> impl Strategy<Value = Vec<u8>> {
    // No byte 0: in a line, to which a wrong length can turn the text, it blinds Redis's search.
    let text = prop::collection::vec(1u8.., 0..20);
    let dollar = prop_oneof![30 => Just("$"), 1 => Just("*"), 1 => Just("\r"), 1 => Just("")];
    text.prop_flat_map(move |text| {
        (number(2), number(4), dollar.clone(), number(text.len()), Just(text))
    })
    .prop_map(|(count, name_length, dollar, length, text)| {
        let start = format!("*{count}\r\n${name_length}\r\necho\r\n{dollar}{length}\r\n");
        [start.as_bytes(), &text, b"\r\n"].concat()
    })
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let inline = "[ \t]{0,2}(echo|ECHO|\"echo\"|'ec'ho)[ \t]\
                  (|[\"'])[ab\"'\\\\nx0fF \t\x0b]{0,12}(|[\"'])\r?\n";
    let part = prop_oneof![
        3 => multibulk(),
        3 => inline.prop_map(String::into_bytes),
        1 => Just(b"\r\n".to_vec()),
    ];
    prop::collection::vec(part, 1..6).prop_map(|parts| parts.concat())
}

#[test]
fn streams_mean_what_they_mean_to_redis() {
    let Some(redis) = Redis::start() else { return };
    let cases = if std::env::var_os("STILLFRAME_LONG").is_some() { 50_000 } else { 1000 };
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let streams = (stream(), any::<prop::sample::Index>());
    let result = TestRunner::new(config).run(&streams, |(stream, cut)| {
        if let Some(ours) = our_replies(stream.clone()) {
            let theirs = redis.replies(&stream, cut.index(stream.len()));
            let (ours, theirs) = (ours.escape_ascii(), theirs.escape_ascii());
            prop_assert_eq!(ours.to_string(), theirs.to_string(), "{}", stream.escape_ascii());
        }
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

#[test]
fn doubles_print_as_in_redis() {
    let Some(redis) = Redis::start() else { return };
    let config = ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() };
    let number = prop_oneof![any::<f64>(), -1e6..1e6, any::<i32>().prop_map(f64::from)];
    let numbers = prop::collection::vec(number, 1..20);
    let result = TestRunner::new(config).run(&numbers, |numbers| {
        let (mut requests, mut expected) = (String::new(), Vec::new());
        for number in numbers.iter().filter(|number| !number.is_nan()) {
            requests += &format!("zrem z m\r\nzadd z {number:e} m\r\nzscore z m\r\n");
            let mut out = Out::new(&mut expected, Protocol::Resp2);
            out.integer(1);
            out.integer(1);
            out.double(*number);
        }
        let theirs = redis.replies(format!("zadd z 1 m\r\n{requests}del z\r\n").as_bytes(), 0);
        let ours = [b":1\r\n", &expected[..], b":1\r\n"].concat();
        prop_assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&theirs));
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}
