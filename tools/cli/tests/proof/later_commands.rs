//! Commands that redis-server 7.0 does not have, beside the servers that have them; and what a
//! replica that does not know them makes of their effects.

use std::fs;
use std::path::{Path, PathBuf};

use stillframe_peers::transcript::words;
use stillframe_peers::{Peer, are_here};

use crate::replayed::contents;
use crate::support::{Kind, Setup, redis_is_here, wait_until};
use crate::transcript::compare;

/// Transcripts of commands on data, which the commands play without a server.
const ON_DATA: &str = "../../redis/commands/src/command/tests/newer";
/// Those of commands on connections.
const ON_CONNECTIONS: &str = "tests/transcripts/newer";

fn file(folder: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(name)
}

#[test]
fn clients_are_told_apart_as_by_newer_servers() {
    for name in ["redis_8.txt", "valkey_9.txt"] {
        compare(Kind::subject("imprint"), &file(ON_CONNECTIONS, name));
    }
}

#[test]
fn transcripts_of_redis_8_are_those_of_redis_8() {
    if are_here("transcripts (against Redis 8)", &[Peer::Redis8]) {
        for folder in [ON_DATA, ON_CONNECTIONS] {
            compare(Kind::Newer(Peer::Redis8), &file(folder, "redis_8.txt"));
        }
    }
}

#[test]
fn transcripts_of_valkey_are_those_of_valkey() {
    if are_here("transcripts (against Valkey)", &[Peer::Valkey]) {
        for folder in [ON_DATA, ON_CONNECTIONS] {
            compare(Kind::Newer(Peer::Valkey), &file(folder, "valkey_9.txt"));
        }
    }
}

/// Logs and replicas receive requests that Redis 7.0 knows: after each request of the transcripts
/// a redis-server that follows holds the same, and so does a server that replays the log.
#[test]
fn replicas_of_redis_7_0_follow_newer_commands() {
    if !redis_is_here("a replica of newer commands") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let setup = || Setup::new(Kind::Ours("imprint")).folder(folder.path());
    let flags = ["--appendonly", "yes", "--repl-diskless-sync-delay", "0"];
    let mut primary = setup().flags(&flags).start();
    let replica = Setup::new(Kind::Redis).start();
    let (mut ours, mut theirs) = (primary.client(), replica.client());
    theirs.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    wait_until("the replica follows", || theirs.info("master_link_status") == "up");
    let mut compared = 0;
    for name in ["redis_8.txt", "valkey_9.txt", "newest.txt"] {
        ours.ok("FLUSHALL");
        let text = fs::read_to_string(file(ON_DATA, name)).expect("a transcript");
        for line in text.lines().filter_map(|line| line.strip_prefix("a> ")) {
            let words = words(line);
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            ours.call(&words);
            ours.call(&[b"SET", b"mark", compared.to_string().as_bytes()]);
            assert_eq!(ours.ask("WAIT 1 0").int(), 1);
            let [here, there] = [&mut ours, &mut theirs].map(contents);
            assert_eq!(here, there, "{name}: {line}: ours, then the replica's");
            ours.ok("SELECT 0");
            compared += 1;
        }
    }
    assert!(compared > 200, "{compared}");
    let before = contents(&mut ours);
    primary.kill();
    let again = setup().flags(&flags).start();
    assert_eq!(contents(&mut again.client()), before, "after a replay of the log");
}
