//! The command table: found, documented, and the same to clients as redis-server's.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use stillframe::algorithms::naive::Naive;
use stillframe_resp::{Reply, decode_reply};

use crate::acl::categories;

use super::{Lookup, Table, flags, table};

fn commands() -> Table<Naive> {
    table()
}

#[test]
fn every_command_is_found_by_its_name_in_any_case() {
    let table = commands();
    for (index, command) in table.all().iter().enumerate() {
        assert_eq!(command.name, command.name.to_ascii_lowercase());
        let upper = command.name.to_ascii_uppercase();
        let args: Vec<&[u8]> = upper.split('|').map(str::as_bytes).collect();
        assert_eq!(table.lookup(&args), Lookup::Found(index), "{upper} is there twice, or not");
    }
}

#[test]
fn every_command_is_documented() {
    let page = include_str!("../../../../docs/redis-compatibility.md");
    let words: Vec<&str> = page.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    for command in commands().all().iter().filter(|command| !command.name.contains('|')) {
        let name = command.name.to_ascii_uppercase();
        assert!(words.contains(&&*name), "docs/redis-compatibility.md does not name {name}");
    }
}

fn categories_of(command: &super::Command<Naive>) -> Vec<String> {
    let bits = categories::of(command.name, command.flags);
    let mut names: Vec<String> = categories::names(bits).map(|name| format!("@{name}")).collect();
    names.sort();
    names
}

/// What clients are told of a command.
#[derive(Debug, PartialEq)]
struct Told {
    arity: i64,
    flags: Vec<String>,
    keys: [i64; 3],
    categories: Vec<String>,
}

#[test]
fn arity_flags_keys_and_categories_are_those_of_redis_server() {
    if Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_err() {
        // Past the test harness, which would swallow it.
        writeln!(std::io::stderr(), "SKIPPED, because redis-server is not installed").ok();
        return;
    }
    let mut redis = Redis::start();
    let mut differences = Vec::new();
    for command in commands().all() {
        let mut told: Vec<String> = flags::NAMES
            .into_iter()
            .filter(|(flag, _)| command.has(*flag))
            .map(|(_, name)| name.to_owned())
            .collect();
        told.sort();
        let keys = command.keys;
        let ours = Told {
            arity: command.arity.into(),
            flags: told,
            keys: [keys.first, keys.last, keys.step].map(i64::from),
            categories: categories_of(command),
        };
        let theirs = redis.command_info(command.name);
        if ours != theirs {
            differences.push(format!("{}: ours {ours:?}, redis-server's {theirs:?}", command.name));
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

/// A redis-server of this test's own, without network.
struct Redis {
    connection: UnixStream,
    _process: Process,
    _folder: tempfile::TempDir,
}

/// Ends with its owner.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn connect(socket: &Path) -> UnixStream {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Ok(connection) = UnixStream::connect(socket) {
            return connection;
        }
        assert!(Instant::now() < deadline, "redis-server does not serve");
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Redis {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let redis = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server starts");
        let process = Process(redis);
        Self { connection: connect(&socket), _process: process, _folder: folder }
    }

    fn command_info(&mut self, name: &str) -> Told {
        // Redis looks sub-commands up as `container|name`.
        write!(self.connection, "COMMAND INFO {name}\r\n").expect("redis-server reads");
        let mut received = Vec::new();
        loop {
            let mut bytes = [0; 4096];
            let count = self.connection.read(&mut bytes).expect("redis-server answers");
            assert!(count > 0, "redis-server hung up");
            received.extend_from_slice(&bytes[..count]);
            if let Some((reply, _)) = decode_reply(&received).expect("a reply") {
                return told(&reply).unwrap_or_else(|| panic!("{name} to redis-server: {reply:?}"));
            }
        }
    }
}

/// Reads one element of COMMAND INFO: name, arity, flags, first key, last key, step, ...
fn told(reply: &Reply<'_>) -> Option<Told> {
    let Reply::Array(commands) = reply else { return None };
    let Reply::Array(fields) = commands.first()? else { return None };
    let number = |at: usize| match fields.get(at)? {
        Reply::Integer(number) => Some(*number),
        _ => None,
    };
    let words = |at: usize| {
        let Reply::Array(names) = fields.get(at)? else { return None };
        let mut words: Vec<String> = names
            .iter()
            .filter_map(|name| match name {
                Reply::Simple(name) => Some(String::from_utf8_lossy(name).into_owned()),
                _ => None,
            })
            .collect();
        words.sort();
        Some(words)
    };
    let keys = [number(3)?, number(4)?, number(5)?];
    Some(Told { arity: number(1)?, flags: words(2)?, keys, categories: words(6)? })
}
