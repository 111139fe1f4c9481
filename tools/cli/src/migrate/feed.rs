//! The one stream that the target follows: what all primaries wrote, in an order of its own.
//!
//! - Requests of one primary keep their order, and a transaction stays whole. Requests of two
//!   primaries concern different slots, so that their order does not matter.
//! - Bytes stay until the target reports them as applied: it can resume after a cut. A target that
//!   asks for an image gets an empty one and a new round, in which every primary starts anew.
//! - A primary alone cannot start anew: its old keys would have to go from the target first, which
//!   as a replica hides those that have expired. Then the target is made to begin a round.
//! - Links wait while too much is not applied, and then their primaries keep what they write.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stillframe_commands::write_request;

/// Bytes that wait for the target before links do.
const BYTES_MAX: usize = 256 << 20;
/// Longest sleep of a link that waits, between two reports to its primary.
const TICK: Duration = Duration::from_millis(200);

/// See the head of this file.
pub(super) struct Feed {
    state: Mutex<State>,
    changed: Condvar,
    bytes_max: usize,
}

#[derive(Default)]
struct State {
    /// The stream from `start` on.
    bytes: VecDeque<u8>,
    start: u64,
    /// The database of the last request.
    db: Option<u64>,
    /// How often the target began without data; 0: it has not connected.
    round: u64,
    /// The target is to begin a round.
    stale: bool,
    /// When the target was last heard of.
    heard: Option<Instant>,
    libraries: BTreeSet<Vec<u8>>,
}

impl State {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// Whole requests of one primary.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Block {
    /// The database in which they begin, and that in which they end.
    pub(super) db: [u64; 2],
    pub(super) bytes: Vec<u8>,
}

/// Why a block was not taken.
#[derive(Debug)]
pub(super) enum Refused<E> {
    /// The target has begun a new round.
    Round,
    /// The link does not wait.
    Ended(E),
}

impl Feed {
    pub(super) fn new() -> Self {
        Self::with_limit(BYTES_MAX)
    }

    fn with_limit(bytes_max: usize) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), bytes_max }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
    }

    /// The round of the target; 0 before the first.
    pub(super) fn round(&self) -> u64 {
        self.lock().round
    }

    /// The end of the stream.
    pub(super) fn end(&self) -> u64 {
        self.lock().end()
    }

    /// Bytes that the target has not applied.
    pub(super) fn waiting(&self) -> u64 {
        self.lock().bytes.len() as u64
    }

    /// Adds requests of a round. `idle` runs now and then while there is no room, and may end the
    /// wait.
    pub(super) fn push<E>(
        &self,
        round: u64,
        block: &Block,
        idle: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<(), Refused<E>> {
        let mut state = self.lock();
        while state.bytes.len() >= self.bytes_max && state.round == round {
            drop(state);
            idle().map_err(Refused::Ended)?;
            state = self.lock();
            if state.bytes.len() >= self.bytes_max {
                state = self.wait(state, TICK);
            }
        }
        if state.round != round {
            return Err(Refused::Round);
        }
        let [first, last] = block.db;
        if state.db != Some(first) {
            let mut select = Vec::new();
            write_request(&mut select, &[b"SELECT", first.to_string().as_bytes()]);
            state.bytes.extend(&select);
        }
        state.bytes.extend(&block.bytes);
        state.db = Some(last);
        self.changed.notify_all();
        Ok(())
    }

    /// Adds a request of this program, if the target follows.
    pub(super) fn push_own(&self, words: &[&[u8]]) {
        let mut state = self.lock();
        if state.round > 0 {
            let mut request = Vec::new();
            write_request(&mut request, words);
            state.bytes.extend(&request);
            self.changed.notify_all();
        }
    }

    /// Whether the target has applied the stream of a round up to `offset`; waits for it for a
    /// moment.
    pub(super) fn is_applied(&self, offset: u64) -> bool {
        if self.lock().start < offset {
            self.push_own(&[b"REPLCONF", b"GETACK", b"*"]);
        }
        let state = self.lock();
        let state = if state.start < offset { self.wait(state, TICK / 10) } else { state };
        state.start >= offset
    }

    /// Makes the target begin a round, if it has not done so since that one.
    pub(super) fn end_round(&self, round: u64) {
        let mut state = self.lock();
        state.stale |= state.round == round && round > 0;
        self.changed.notify_all();
    }

    /// Whether the target has yet to begin a round.
    pub(super) fn is_stale(&self) -> bool {
        let state = self.lock();
        state.stale || state.round == 0
    }

    /// The target begins without data, at the offset that is returned.
    pub(super) fn begin_round(&self) -> u64 {
        let mut state = self.lock();
        state.start = state.end();
        state.bytes.clear();
        state.db = None;
        state.round += 1;
        state.stale = false;
        state.libraries.clear();
        self.changed.notify_all();
        state.start
    }

    /// Whether the target can go on behind `offset`.
    pub(super) fn continues(&self, offset: u64) -> bool {
        let state = self.lock();
        state.round > 0 && !state.stale && (state.start..=state.end()).contains(&offset)
    }

    /// The target is there, and reports what it has applied.
    pub(super) fn note_reply(&self, applied: Option<u64>) {
        let mut state = self.lock();
        state.heard = Some(Instant::now());
        if let Some(applied) = applied.filter(|&it| it > state.start && it <= state.end()) {
            let count = usize::try_from(applied - state.start).unwrap_or(usize::MAX);
            let all = state.bytes.len();
            state.bytes.drain(..count.min(all));
            state.start = applied;
            if state.bytes.is_empty() {
                state.bytes.shrink_to(1 << 20);
            }
            self.changed.notify_all();
        }
    }

    /// For how long nothing was heard of the target; `None`: it has never connected.
    pub(super) fn silence(&self) -> Option<Duration> {
        self.lock().heard.map(|heard| heard.elapsed())
    }

    /// Bytes from `cursor` on, at most `most`; waits for a moment. `None`: they are gone.
    pub(super) fn from(&self, cursor: u64, most: usize) -> Option<Vec<u8>> {
        let mut state = self.lock();
        if state.end() == cursor {
            state = self.wait(state, TICK);
        }
        let at = usize::try_from(cursor.checked_sub(state.start)?).ok()?;
        let (one, two) = state.bytes.as_slices();
        let rest = if at < one.len() { &one[at..] } else { two.get(at - one.len()..)? };
        Some(rest[..rest.len().min(most)].to_vec())
    }

    /// Notes libraries of functions that requests load.
    pub(super) fn add_library(&self, source: &[u8]) {
        self.lock().libraries.extend(library(source).map(<[u8]>::to_vec));
    }

    /// Removes a library, which all primaries delete; whether it was there.
    pub(super) fn remove_library(&self, name: &[u8]) -> bool {
        self.lock().libraries.remove(name)
    }

    /// Removes all libraries.
    pub(super) fn clear_libraries(&self) {
        self.lock().libraries.clear();
    }
}

/// The name of a library of functions, which its first line tells.
fn library(source: &[u8]) -> Option<&[u8]> {
    let line = source.split(|&byte| byte == b'\n').next()?;
    line.split(|byte| byte.is_ascii_whitespace()).find_map(|word| word.strip_prefix(b"name="))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(db: [u64; 2], text: &str) -> Block {
        Block { db, bytes: text.as_bytes().to_vec() }
    }

    fn push(feed: &Feed, block: &Block) {
        let mut never = || -> Result<(), ()> { panic!("there is room") };
        feed.push(feed.round(), block, &mut never).expect("it is of this round");
    }

    fn all(feed: &Feed, cursor: u64) -> String {
        let (mut text, mut at) = (Vec::new(), cursor);
        while at < feed.end() {
            let piece = feed.from(at, 7).expect("it is there");
            at += piece.len() as u64;
            text.extend(piece);
        }
        String::from_utf8(text).expect("text").replace("\r\n", " ")
    }

    #[test]
    fn the_database_is_selected_where_it_changes() {
        let feed = Feed::new();
        feed.begin_round();
        for (db, text) in [([0, 0], "a "), ([0, 2], "b "), ([2, 2], "c "), ([0, 0], "d ")] {
            push(&feed, &block(db, text));
        }
        let select = |db: u64| format!("*2 $6 SELECT $1 {db} ");
        assert_eq!(all(&feed, 0), select(0) + "a b c " + &select(0) + "d ");
    }

    #[test]
    fn what_is_applied_goes_and_the_rest_can_be_resumed() {
        let feed = Feed::new();
        assert!(!feed.continues(0), "nobody has followed yet");
        assert_eq!(feed.begin_round(), 0);
        push(&feed, &block([0, 0], "0123456789"));
        let end = feed.end();
        feed.note_reply(Some(end - 4));
        assert_eq!(all(&feed, end - 4), "6789");
        assert!(feed.from(end - 5, 9).is_none() && !feed.continues(end - 5));
        assert!(feed.continues(end - 2) && feed.continues(end) && !feed.continues(end + 1));
        feed.note_reply(Some(end + 1));
        assert_eq!([feed.waiting(), feed.end()], [4, end], "more than there is");
        assert!(feed.is_applied(end - 4) && !feed.is_applied(end));
    }

    /// What waits lies in two pieces once in a while.
    #[test]
    fn the_stream_is_whole_wherever_it_lies_in_memory() {
        let feed = Feed::new();
        feed.begin_round();
        let (mut cursor, mut sent, mut got) = (0, String::new(), Vec::new());
        for n in 0..5000_u32 {
            let text = format!("{n};");
            push(&feed, &block([0, 0], &text));
            sent += &text;
            for _ in 0..n % 3 {
                if cursor == feed.end() {
                    break; // there is nothing to wait for
                }
                let piece = feed.from(cursor, 11).expect("it is there");
                assert!(!piece.is_empty(), "at {cursor}");
                cursor += piece.len() as u64;
                got.extend(piece);
            }
            feed.note_reply(Some(cursor - u64::from(n % 4).min(cursor)));
        }
        let got = String::from_utf8(got).expect("text") + &all(&feed, cursor);
        assert!(got.replace("\r\n", " ").ends_with(&sent));
    }

    #[test]
    fn a_new_round_refuses_requests_of_the_old_one() {
        let feed = Feed::new();
        feed.begin_round();
        push(&feed, &block([0, 0], "old"));
        let round = feed.round();
        let at = feed.begin_round();
        let refused = feed.push(round, &block([0, 0], "late"), &mut || Ok::<(), ()>(()));
        assert!(matches!(refused, Err(Refused::Round)));
        assert_eq!([feed.end(), feed.waiting()], [at, 0]);
        feed.end_round(round);
        assert!(feed.continues(at) && !feed.is_stale(), "that round has ended already");
        feed.end_round(feed.round());
        assert!(!feed.continues(at) && feed.is_stale());
        feed.begin_round();
        assert!(!feed.is_stale());
    }

    #[test]
    fn a_link_waits_while_there_is_no_room() {
        let feed = Feed::with_limit(4);
        feed.begin_round();
        push(&feed, &block([0, 0], "more than that"));
        let mut ticks = 0;
        let mut wait = || {
            ticks += 1;
            if ticks == 2 { Err("stopped") } else { Ok(()) }
        };
        let refused = feed.push(feed.round(), &block([0, 0], "x"), &mut wait);
        assert!(matches!(refused, Err(Refused::Ended("stopped"))));
        let end = feed.end();
        let mut hear = || -> Result<(), ()> {
            feed.note_reply(Some(end));
            Ok(())
        };
        feed.push(feed.round(), &block([0, 0], "x"), &mut hear).expect("there is room now");
        assert_eq!(all(&feed, end), "x");
    }

    #[test]
    fn a_library_is_deleted_once() {
        let feed = Feed::new();
        feed.add_library(b"#!lua name=mine\nredis.register_function('f', f)");
        feed.add_library(b"no library");
        assert_eq!([feed.remove_library(b"mine"), feed.remove_library(b"mine")], [true, false]);
    }
}
