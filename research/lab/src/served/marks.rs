//! Whether an image of a server is of one moment, and of the right one.
//!
//! One connection writes `n` to mark `n` modulo [`MARKS`], for `n` from 0. So at any moment the
//! marks hold the last [`MARKS`] numbers below some `n`, and nothing else. The save is asked for on
//! the same connection, between two marks. Therefore:
//! - an image that is *torn* has marks of two moments;
//! - one that is *stale* lacks a mark that was written before the save was asked for;
//! - one that is *late* has a mark that was written after the save had ended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use stillframe_resp::Reply;

use super::client::{Client, encode};

/// How many there are; they lie all over the server's memory.
pub(super) const MARKS: u64 = 4096;
/// Marks sent before their replies are read.
pub(super) const BATCH: u64 = 64;
/// Between two batches, so that other clients have the server.
const PAUSE: Duration = Duration::from_millis(2);

/// Signals between the writer of marks and its caller.
#[derive(Debug, Default)]
pub(super) struct Signals {
    /// The save may be asked for.
    pub(super) go: AtomicBool,
    /// The server has begun it.
    pub(super) begun: AtomicBool,
    /// No more marks are wanted.
    pub(super) stop: AtomicBool,
    /// Marks with a reply.
    pub(super) written: AtomicU64,
}

/// The marks that an image may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Marks written before the save was asked for.
    pub(super) before: u64,
    /// Marks that may have been written when it had ended.
    pub(super) until: u64,
}

/// Writes marks until asked to stop, and asks for the save by `request` on `go`. Returns the
/// numbers of marks written before that, and in all.
pub(super) fn write(port: u16, request: &str, signals: &Signals) -> Result<(u64, u64)> {
    let mut client = Client::local(port)?;
    let (mut next, mut before) = (0, None);
    while !signals.stop.load(Ordering::Acquire) {
        let mut requests = Vec::new();
        let asks = before.is_none() && next >= MARKS && signals.go.load(Ordering::Acquire);
        for number in next..next + BATCH {
            if asks && number == next + BATCH / 2 {
                encode(&[request], &mut requests);
                before = Some(number);
            }
            encode(&["SET", &name(number % MARKS), &number.to_string()], &mut requests);
        }
        next += BATCH;
        client.ask(&requests, BATCH as usize + usize::from(asks), |_| ())?;
        // Pairs with the loads of the caller, who then asks the server how it goes.
        signals.written.store(next, Ordering::Release);
        if asks {
            signals.begun.store(true, Ordering::Release);
        }
        thread::sleep(PAUSE);
    }
    let before = before.context("the save was never asked for")?;
    Ok((before, next))
}

fn name(mark: u64) -> String {
    format!("mark:{mark:04}")
}

/// Changes one mark, as no server may: the check of the marks must find the change.
pub(super) fn forge(client: &mut Client) -> Result<()> {
    client.call(&["SET", &name(7), "7000000007"]).map(|_| ())
}

/// The marks that a server holds.
pub(super) fn read(client: &mut Client) -> Result<Vec<Option<u64>>> {
    let mut requests = Vec::new();
    for mark in 0..MARKS {
        encode(&["GET", &name(mark)], &mut requests);
    }
    let mut marks = Vec::new();
    client.ask(&requests, MARKS as usize, |reply| {
        marks.push(match reply {
            Reply::Bulk(text) => std::str::from_utf8(text).ok().and_then(|it| it.parse().ok()),
            _ => None,
        });
    })?;
    Ok(marks)
}

/// How many marks are wrong for an image within these bounds, and what is wrong.
pub(super) fn judge(marks: &[Option<u64>], bounds: Bounds) -> (u64, Option<String>) {
    let newest = marks.iter().flatten().copied().max().unwrap_or(0);
    let (next, count) = (newest.saturating_add(1), marks.len() as u64);
    // The last number below `next` that belongs to the mark.
    let due = |mark: u64| (next > mark).then(|| mark + (next - 1 - mark) / count * count);
    let torn = (0..).zip(marks).filter(|&(mark, found)| *found != due(mark)).count() as u64;
    if newest >= bounds.until {
        let text = format!("late: mark {newest} was written after the save had ended");
        return (torn.max(1), Some(text));
    }
    if torn > 0 {
        return (torn, Some(format!("torn: {torn} of {count} marks are of another moment")));
    }
    if next < bounds.before {
        let text = format!("stale: it ends {} marks before the save began", bounds.before - next);
        return (bounds.before - next, Some(text));
    }
    (0, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The marks of a server after `next` writes.
    fn after(next: u64) -> Vec<Option<u64>> {
        let mut marks = vec![None; 16];
        (0..next).for_each(|number| marks[(number % 16) as usize] = Some(number));
        marks
    }

    #[test]
    fn every_moment_between_the_bounds_is_right() {
        for next in 1_u64..100 {
            let bounds = Bounds { before: next.saturating_sub(3), until: next + 3 };
            assert_eq!(judge(&after(next), bounds), (0, None), "after {next}");
        }
    }

    #[test]
    fn a_server_that_lies_is_found() {
        let bounds = Bounds { before: 40, until: 60 };
        let verdict = |marks: &[Option<u64>]| judge(marks, bounds).1.expect("a lie");
        let mut found = 0;
        for mark in 0..16 {
            let mut torn = after(50);
            torn[mark] = after(58)[mark].filter(|it| *it >= 50).or(after(40)[mark]);
            // A change of the newest mark alone makes another moment.
            if (0..60).all(|next| torn != after(next)) {
                assert!(verdict(&torn).starts_with("torn"), "{mark}: {}", verdict(&torn));
                found += 1;
            }
            let mut missing = after(50);
            missing[mark] = None;
            assert!(verdict(&missing).starts_with("torn"), "{mark}");
        }
        assert!(found >= 14, "{found} torn images");
        assert!(verdict(&after(39)).starts_with("stale"));
        assert!(verdict(&after(61)).starts_with("late"));
        assert!(verdict(&[None; 16]).starts_with("torn"));
    }
}
