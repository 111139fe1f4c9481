//! Recorded transcripts: the same commands give the same reply bytes as the real redis-server.
//!
//! A transcript (`tests/transcripts/*.txt`) holds one command a line and, indented under it, the
//! reply recorded from redis-server 7.0, escaped. A command starts with the letter of the
//! connection that sends it and with how its reply is compared:
//!
//! ```text
//! a> byte for byte               a% the elements of its lists in any order
//! a~ every number taken as 0     a? only what kind of reply it is
//! a< one more reply or message, byte for byte; the rest of the line is a remark
//! a= one more reply, every number taken as 0; the rest of the line is a remark
//! a! sent without waiting for a reply
//! .  20  (waits 20 ms)           #  a remark
//! ```
//!
//! Both servers play every transcript: ours must give what is recorded, and redis-server (where it
//! is installed) too, which shows that the recording is true. `STILLFRAME_RECORD=1` rewrites the
//! replies from redis-server.

use crate::support::{Client, Kind, Server, redis_is_here};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[test]
fn users_may_do_what_redis_lets_them_do() {
    prove("acl");
}

#[test]
fn bit_commands_reply_as_redis() {
    prove("bits");
}

#[test]
fn connection_commands_reply_as_redis() {
    prove("connection");
}

#[test]
fn databases_are_swapped_as_by_redis() {
    prove("databases");
}

#[test]
fn expiry_commands_reply_as_redis() {
    prove("expiry");
}

#[test]
fn hash_commands_reply_as_redis() {
    prove("hashes");
}

#[test]
fn geo_commands_reply_as_redis() {
    prove("geo");
}

#[test]
fn hyperloglog_commands_reply_as_redis() {
    prove("hyperloglog");
}

#[test]
fn key_commands_reply_as_redis() {
    prove("keys");
}

#[test]
fn list_commands_reply_as_redis() {
    prove("lists");
}

#[test]
fn requests_are_shown_as_by_redis() {
    prove("monitor");
}

#[test]
fn monitoring_commands_reply_as_redis() {
    prove("monitoring");
}

#[test]
fn publish_and_subscribe_as_redis() {
    prove("pubsub");
}

#[test]
fn resp3_replies_as_redis() {
    prove("resp3");
}

#[test]
fn server_commands_reply_as_redis() {
    prove("server");
}

#[test]
fn set_commands_reply_as_redis() {
    prove("sets");
}

#[test]
fn sort_replies_as_redis() {
    prove("sort");
}

#[test]
fn sorted_set_commands_reply_as_redis() {
    prove("sorted_sets");
}

#[test]
fn string_commands_reply_as_redis() {
    prove("strings");
}

#[test]
fn clients_are_told_of_changes_as_by_redis() {
    prove("tracking");
}

#[test]
fn transactions_reply_as_redis() {
    prove("transactions");
}

fn prove(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/transcripts/{name}.txt"));
    if std::env::var_os("STILLFRAME_RECORD").is_some() {
        return record(&path);
    }
    let text = std::fs::read_to_string(&path).expect("a transcript");
    let steps: Vec<Step> = text.lines().enumerate().filter_map(Step::parse).collect();
    let recorded: Vec<String> =
        text.lines().filter_map(|line| line.strip_prefix("  ")).map(str::to_owned).collect();
    let commands = steps.iter().filter(|step| !matches!(step, Step::Wait(_))).count();
    assert_eq!(commands, recorded.len(), "{name}: not one reply for each command: record it");
    if redis_is_here("transcript (against redis-server itself)") {
        compare(Kind::Redis, name, &steps, &recorded);
    }
    compare(Kind::subject("imprint"), name, &steps, &recorded);
}

fn compare(kind: Kind, name: &str, steps: &[Step], recorded: &[String]) {
    let replies = play(kind, steps);
    let commands = steps.iter().filter_map(|step| match step {
        Step::Command { line, text, .. } => Some((line, text)),
        Step::Wait(_) => None,
    });
    let mut wrong = 0;
    for ((reply, expected), (line, text)) in replies.iter().zip(recorded).zip(commands) {
        if reply != expected {
            wrong += 1;
            println!("{name}.txt:{line}: {text}\n  redis {expected}\n  here  {reply}");
        }
    }
    assert_eq!(wrong, 0, "replies of {kind:?} that differ, of {}", recorded.len());
}

fn record(path: &PathBuf) {
    let text = std::fs::read_to_string(path).expect("a transcript");
    let steps: Vec<Step> = text.lines().enumerate().filter_map(Step::parse).collect();
    let mut replies = play(Kind::Redis, &steps).into_iter();
    let mut out = String::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with("  ")) {
        out += &format!("{line}\n");
        if let Some(Step::Command { .. }) = Step::parse((number, line)) {
            out += &format!("  {}\n", replies.next().expect("a reply for each command"));
        }
    }
    std::fs::write(path, out).expect("a transcript can be written");
}

/// Sends every command in order, each after the reply to the one before it.
fn play(kind: Kind, steps: &[Step]) -> Vec<String> {
    let server = Server::start(kind);
    let mut clients = BTreeMap::<char, Client>::new();
    let mut replies = Vec::new();
    for step in steps {
        match step {
            Step::Wait(time) => std::thread::sleep(*time),
            Step::Command { client, by, arguments, .. } => {
                let client = clients.entry(*client).or_insert_with(|| server.client());
                let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
                if !arguments.is_empty() {
                    client.send(&arguments);
                }
                if matches!(by, Compared::Nothing) {
                    replies.push("(not awaited)".into());
                    continue;
                }
                let raw = client.try_raw();
                replies.push(raw.map_or("(closed)".into(), |raw| by.shape(&raw)));
            }
        }
    }
    replies
}

enum Step {
    Wait(Duration),
    Command { line: usize, client: char, by: Compared, text: String, arguments: Vec<Vec<u8>> },
}

impl Step {
    fn parse((number, line): (usize, &str)) -> Option<Self> {
        if line.is_empty() || line.starts_with(['#', ' ']) {
            return None;
        }
        if let Some(time) = line.strip_prefix('.') {
            let milliseconds = time.trim().parse().expect("milliseconds to wait");
            return Some(Self::Wait(Duration::from_millis(milliseconds)));
        }
        let (head, text) = line.split_once(' ').expect("a command after its connection");
        let mut head = head.chars();
        let client = head.next().expect("a connection's letter");
        let mark = head.next();
        let by = match mark {
            Some('>' | '<') => Compared::Bytes,
            Some('~' | '=') => Compared::Numbers,
            Some('%') => Compared::Unordered,
            Some('?') => Compared::Kind,
            Some('!') => Compared::Nothing,
            mark => panic!("line {}: no way of comparing: {mark:?}", number + 1),
        };
        let arguments = if matches!(mark, Some('<' | '=')) { Vec::new() } else { words(text) };
        Some(Self::Command { line: number + 1, client, by, text: text.into(), arguments })
    }
}

/// Splits a command line into arguments: `"..."` with the escapes `\"`, `\\`, `\r`, `\n`, `\xHH`.
fn words(text: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut rest = text.trim_end();
    while !rest.is_empty() {
        let Some(quoted) = rest.strip_prefix('"') else {
            let (word, tail) = rest.split_once(' ').unwrap_or((rest, ""));
            found.push(word.as_bytes().to_vec());
            rest = tail;
            continue;
        };
        let mut word = Vec::new();
        let mut characters = quoted.char_indices();
        let end = loop {
            match characters.next().expect("a closing quote") {
                (end, '"') => break end,
                (at, '\\') => match characters.next().expect("an escaped character").1 {
                    'r' => word.push(b'\r'),
                    'n' => word.push(b'\n'),
                    'x' => {
                        let digits = &quoted[at + 2..at + 4];
                        word.push(u8::from_str_radix(digits, 16).expect("two hex digits"));
                        characters.nth(1);
                    }
                    literal => word.push(literal as u8),
                },
                (_, literal) => word.push(literal as u8),
            }
        };
        found.push(word);
        rest = quoted[end + 1..].trim_start();
    }
    found
}

#[derive(Clone, Copy)]
enum Compared {
    Bytes,
    Numbers,
    Unordered,
    Kind,
    Nothing,
}

impl Compared {
    /// The part of a reply that has to be the same, as printable text.
    fn shape(self, raw: &[u8]) -> String {
        match self {
            Self::Bytes => escape(raw),
            Self::Numbers => numbers_as_zero(&escape(raw)),
            Self::Unordered => escape(&in_order(raw).0),
            // A null has a kind of its own, whatever it is a null of.
            Self::Kind if raw.get(1) == Some(&b'-') => escape(raw),
            Self::Kind => escape(&raw[..1]),
            Self::Nothing => String::new(),
        }
    }
}

fn escape(raw: &[u8]) -> String {
    let mut text = String::new();
    for &byte in raw {
        match byte {
            b'\r' => text.push_str("\\r"),
            b'\n' => text.push_str("\\n"),
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(byte as char),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

fn numbers_as_zero(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character.is_ascii_digit() {
            true if out.ends_with('0') => {}
            true => out.push('0'),
            false => out.push(character),
        }
    }
    // An age of less than a millisecond is 0, one of a few has a fraction.
    out.replace(r"age-seconds\r\n$0\r\n0.0\r\n", r"age-seconds\r\n$0\r\n0\r\n")
}

/// One reply with the elements of all its lists sorted, and the bytes it took.
fn in_order(raw: &[u8]) -> (Vec<u8>, usize) {
    let line = raw.windows(2).position(|pair| pair == b"\r\n").expect("a whole reply") + 2;
    let count: i64 = std::str::from_utf8(&raw[1..line - 2])
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(-1);
    let mut end = line;
    match raw[0] {
        b'$' if count >= 0 => end += count as usize + 2,
        b'*' | b'~' => {
            let mut elements = Vec::new();
            for _ in 0..count {
                let (element, length) = in_order(&raw[end..]);
                elements.push(element);
                end += length;
            }
            elements.sort();
            return ([&raw[..line], &elements.concat()].concat(), end);
        }
        _ => {}
    }
    (raw[..end].to_vec(), end)
}
