//! One kind of data at a time: random commands by seed, sent to redis-server and to ours, must be
//! answered with the same bytes, and leave the same data.

mod bits;
mod geo;
mod sorted;

use crate::collections::redis;
use crate::support::{Client, Kind, Random, Reply, Server, redis_is_here, rounds};

/// Commands sent at once.
const BATCH: usize = 50;

/// A command as its words.
type Words = Vec<Vec<u8>>;

/// How the replies to a command are compared.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Bytes,
    /// As lists whose elements may stand in any order.
    Elements,
}

/// Sends random commands to both servers, in both protocols, and compares all replies.
fn prove(test: &str, by: fn(&[Vec<u8>]) -> By, command: fn(&mut Random) -> Words) {
    if !redis_is_here(test) {
        return;
    }
    let mut random = Random::new(test);
    let servers = [redis(None, ""), Server::start(Kind::subject("imprint"))];
    for round in 0..rounds(4, 100) {
        let mut clients = servers.each_ref().map(Server::client);
        for client in &mut clients {
            client.ok(["HELLO 2", "HELLO 3"][round % 2]);
            client.ok("FLUSHALL");
        }
        for _ in 0..rounds(15, 60) {
            let batch: Vec<_> = (0..BATCH).map(|_| command(&mut random)).collect();
            compare(&mut clients, &batch, by);
        }
        let [theirs, ours] = clients.each_mut().map(|client| client.ask("DEBUG DIGEST"));
        assert_eq!(theirs, ours, "the data of redis-server (left) and ours");
        // Images in between must not change what is read.
        if let Reply::Error(text) = clients[1].ask("BGSAVE") {
            assert!(text.contains("in progress"), "{text}");
        }
    }
}

fn compare(clients: &mut [Client; 2], batch: &[Words], by: fn(&[Vec<u8>]) -> By) {
    for client in &mut *clients {
        for command in batch {
            client.send(&command.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
    }
    for (index, command) in batch.iter().enumerate() {
        let [theirs, ours] = clients.each_mut().map(Client::raw);
        if theirs == ours || by(command) == By::Elements && elements(&theirs) == elements(&ours) {
            continue;
        }
        for earlier in &batch[index.saturating_sub(20)..index] {
            println!("  {}", shown(earlier));
        }
        let (command, theirs, ours) = (shown(command), theirs.escape_ascii(), ours.escape_ascii());
        panic!("{command}:\nredis {theirs}\nhere  {ours}");
    }
}

/// The lines of a reply, in order of their text.
fn elements(raw: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = raw.split(|&byte| byte == b'\n').collect();
    lines.sort();
    lines
}

fn shown(command: &[Vec<u8>]) -> String {
    let words = command.iter().map(|word| match word.len() {
        0 => "\"\"".to_owned(),
        1..=80 => word.escape_ascii().to_string(),
        length => format!("({length} bytes)"),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Words of a line of text, split at blanks.
fn words(line: &str) -> Words {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// A number in -`bound`..`bound`, now and then none at all.
fn integer(random: &mut Random, bound: usize) -> String {
    match random.below(40) {
        0 => random.pick(&["x", "", "1.5", "9223372036854775808"]).to_owned(),
        1 => random.pick(&["9223372036854775807", "-9223372036854775808"]).to_owned(),
        _ => (random.below(2 * bound) as i64 - bound as i64).to_string(),
    }
}

/// `word` in upper or lower case.
fn any_case(random: &mut Random, word: &str) -> String {
    if random.below(4) == 0 { word.to_lowercase() } else { word.to_owned() }
}
