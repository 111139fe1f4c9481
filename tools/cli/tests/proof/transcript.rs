//! Recorded transcripts ([`stillframe_peers::transcript`]): the same requests give the same reply
//! bytes as the real redis-server.
//!
//! Both servers play every transcript of `tests/transcripts`: ours must give what is recorded, and
//! redis-server (where it is installed) too, which shows that the recording is true. Transcripts
//! of requests that need no socket stand beside their commands and are played there, without a
//! server; here redis-server plays them. `STILLFRAME_RECORD=1` rewrites the replies from
//! redis-server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use stillframe_peers::transcript::{Stage, Transcript};

use crate::support::{Client, Kind, Server, redis_is_here, wait_until};

/// Where crates keep transcripts that they play without a server.
const BESIDE: [&str; 3] = [
    "../../redis/commands/src/command/tests/transcripts",
    "../../redis/commands/src/command/tests/notifications",
    "../../redis/server/src/in_process/transcripts",
];

#[test]
fn connection_commands_reply_as_redis() {
    prove("connection");
}

#[test]
fn who_waits_and_listens_hears_of_swaps_as_in_redis() {
    prove("databases");
}

#[test]
fn requests_are_shown_as_by_redis() {
    prove("monitor");
}

#[test]
fn publish_and_subscribe_as_redis() {
    prove("pubsub");
}

#[test]
fn replies_are_skipped_as_in_redis() {
    prove("replies");
}

#[test]
fn scripts_reply_as_in_redis() {
    prove("scripts");
}

#[test]
fn functions_reply_as_in_redis() {
    prove("functions");
}

#[test]
fn server_commands_reply_as_redis() {
    prove("server");
}

#[test]
fn clients_hear_of_changes_as_from_redis() {
    prove("tracking");
}

#[test]
fn commands_wait_as_in_redis() {
    prove("waiting");
}

/// redis-server gives the replies that are recorded for our commands elsewhere.
#[test]
fn transcripts_beside_commands_are_those_of_redis() {
    let mut played = 0;
    for folder in BESIDE {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let files = std::fs::read_dir(&folder).expect("a folder of transcripts");
        let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
        paths.sort();
        for path in paths {
            played += 1;
            prove_true(&path);
        }
    }
    assert!(played > 10, "{played} transcripts");
}

fn prove(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/transcripts/{name}.txt"));
    prove_true(&path);
    if std::env::var_os("STILLFRAME_RECORD").is_none() {
        compare(Kind::subject("imprint"), &path);
    }
}

/// Has redis-server, if it is there, play a transcript, whose recorded replies it must give; or
/// records them.
fn prove_true(path: &Path) {
    if std::env::var_os("STILLFRAME_RECORD").is_some() {
        let text = read(path).record(&mut Theatre::open(Kind::Redis));
        std::fs::write(path, text).expect("a transcript can be written");
    } else if redis_is_here("transcript (against redis-server itself)") {
        compare(Kind::Redis, path);
    }
}

fn read(path: &Path) -> Transcript {
    Transcript::parse(std::fs::read_to_string(path).expect("a transcript"))
}

/// Replies of a server to a transcript that are not those recorded.
pub(crate) fn differences(kind: Kind, path: &Path) -> Vec<String> {
    read(path).differences(&mut Theatre::open(kind))
}

pub(crate) fn compare(kind: Kind, path: &Path) {
    let (wrong, of) = (differences(kind, path), read(path).replies());
    let path = path.display();
    assert!(wrong.is_empty(), "{path}: {kind:?} differs, of {of} replies:\n{}", wrong.join("\n"));
}

/// A server and the connections to it.
pub(crate) struct Theatre {
    server: Server,
    clients: BTreeMap<char, Client>,
}

impl Theatre {
    pub(crate) fn open(kind: Kind) -> Self {
        Self { server: Server::start(kind), clients: BTreeMap::new() }
    }

    fn client(&mut self, connection: char) -> &mut Client {
        let Self { server, clients } = self;
        clients.entry(connection).or_insert_with(|| server.client())
    }
}

impl Stage for Theatre {
    fn wait(&mut self, milliseconds: u64) {
        std::thread::sleep(Duration::from_millis(milliseconds));
    }

    fn wait_until(&mut self, line: &str) {
        let mut client = self.server.client();
        wait_until(line, || {
            let info = client.ask("INFO everything").text();
            match line.strip_prefix("no ") {
                Some(line) => !info.lines().any(|it| it.starts_with(line)),
                None => info.lines().any(|it| it == line),
            }
        });
    }

    fn send(&mut self, connection: char, arguments: &[&[u8]]) {
        self.client(connection).send(arguments);
    }

    fn receive(&mut self, connection: char) -> Option<Vec<u8>> {
        self.client(connection).try_raw()
    }
}
