//! Digit for digit: scores at the edges of a double, and places. Random commands by seed, sent to
//! redis-server and to ours, must be answered with the same bytes, and leave the same data. Such
//! numbers would change what Redis does with the forms of the list of commands (`mixed`).

mod fields;
mod geo;
mod sorted;

use crate::collections::redis;
use crate::support::beside::{By, Words, compare};
use crate::support::{Kind, Random, Reply, Server, redis_is_here, rounds};

/// Commands sent at once.
const BATCH: usize = 50;

/// Sends random commands to both servers, in both protocols, and compares all replies.
fn prove(test: &str, by: fn(&Words) -> By, command: fn(&mut Random) -> Words) {
    if redis_is_here(test) {
        prove_beside(test, redis(None, ""), by, command);
    }
}

/// As [`prove`], beside a server of any kind.
fn prove_beside(
    test: &str,
    server: Server,
    by: fn(&Words) -> By,
    command: fn(&mut Random) -> Words,
) {
    let mut random = Random::new(test);
    let servers = [server, Server::start(Kind::subject("imprint"))];
    for round in 0..rounds(5, 150) {
        let mut clients = servers.each_ref().map(Server::client);
        for client in &mut clients {
            client.ok(["HELLO 2", "HELLO 3"][round % 2]);
            client.ok("FLUSHALL");
        }
        for _ in 0..rounds(20, 60) {
            let batch: Vec<_> = (0..BATCH).map(|_| command(&mut random)).collect();
            compare(&mut clients, &batch, by);
            // An image that is taken meanwhile must not change what is read.
            if random.below(8) == 0
                && let Reply::Error(text) = clients[1].ask("BGSAVE")
            {
                assert!(text.contains("in progress"), "{text}");
            }
        }
        let [theirs, ours] = clients.each_mut().map(|client| client.ask("DEBUG DIGEST"));
        assert_eq!(theirs, ours, "the data of redis-server (left) and ours");
    }
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
