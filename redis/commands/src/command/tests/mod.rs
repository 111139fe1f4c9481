//! Tests of commands, run by [`crate::harness`]: what a client would see, what is logged, and who
//! is reported, without a server.
//!
//! - `transcripts/`: requests with the replies that redis-server gave.
//! - `notifications/`: requests with the events that redis-server sent.
//! - A file by the name of a file of commands compares these with naive models, by seed.

mod bits;
mod changes;
mod full;
mod groups;
mod lists;
mod lookups;
mod payloads;
mod producers;
mod recorded;
mod replay;
mod scan;
mod sets;
mod sorted;
mod strings;
mod transactions;
mod types;

use stillframe_peers::Random;
use stillframe_peers::reply::{Reply, decode};
use stillframe_peers::requests::Words;

use crate::harness::Harness;

/// Runs words, and reads the reply.
fn ask(harness: &mut Harness, line: &str) -> Reply {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    call(harness, &words)
}

fn call(harness: &mut Harness, words: &[&[u8]]) -> Reply {
    let reply = harness.ask('a', words);
    decode(&reply).expect("a whole reply").0
}

fn slices(words: &Words) -> Vec<&[u8]> {
    words.iter().map(Vec::as_slice).collect()
}

/// A number near 0 or near an end of what fits, or a power of two.
fn edge(random: &mut Random) -> i64 {
    let near = random.below(5) as i64 - 2;
    match random.below(6) {
        0 => i64::MAX.wrapping_add(near.min(0)),
        1 => i64::MIN.wrapping_add(near.max(0)),
        2 => (1_i64 << random.below(63)).wrapping_add(near),
        _ => random.below(40) as i64 - 20,
    }
}
