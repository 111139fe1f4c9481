//! Tests of commands, run by [`crate::harness`]: what a client would see, what is logged, and who
//! is told, without a server.
//!
//! - `transcripts/`: requests with the replies that redis-server gave.
//! - `notifications/`: requests with the events that redis-server told.
//! - A file by the name of a file of commands compares these with naive models, by seed.

mod full;
mod payloads;
mod scan;
mod transcripts;

use stillframe_peers::reply::{Reply, decode};

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
