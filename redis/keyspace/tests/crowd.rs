//! A hash with a million fields that expire at one instant goes in pieces, each of as much work as
//! those of a hash with few: the work counts as fields deleted and as bytes that a piece allocates.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use stillframe::algorithms::imprint::Imprint;
use stillframe_keyspace::{Keyspace, KeyspaceOptions, Value};

/// Counts what each thread allocates.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.with(|bytes| bytes.set(bytes.get() + layout.size()));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const KEY: &[u8] = b"crowd";
const COPY: &[u8] = b"copy";
const DEADLINE: i64 = 10;
/// What the server deletes in one go, in its clock's cycle and at a look at the hash.
const BATCH: usize = 256;

type Crowd = Keyspace<Imprint>;
/// The most fields of a step, the most bytes of one, and the number of steps.
type Run = fn(usize) -> (usize, usize, usize);

fn crowd(fields: usize) -> Crowd {
    let mut keyspace = Crowd::create(&KeyspaceOptions::default()).unwrap();
    let added = keyspace.edit_hash(0, KEY, |hash| {
        for number in 0..fields {
            hash.set_until(format!("{number:07}").as_bytes(), b"value", Some(DEADLINE));
        }
    });
    added.unwrap();
    keyspace
}

fn len(keyspace: &mut Crowd, key: &[u8]) -> usize {
    match keyspace.peek(0, key, 0).map(|entry| entry.value()) {
        Some(Value::Hash(hash)) => hash.len(),
        _ => 0,
    }
}

/// Runs steps until both hashes are gone; the most fields that one deleted, the most bytes that one
/// allocated, and the number of steps.
fn drain(keyspace: &mut Crowd, mut step: impl FnMut(&mut Crowd)) -> (usize, usize, usize) {
    let (mut most, mut dearest, mut steps) = (0, 0, 0);
    let mut left = len(keyspace, KEY) + len(keyspace, COPY);
    while left > 0 {
        let before = ALLOCATED.get();
        step(keyspace);
        dearest = dearest.max(ALLOCATED.get() - before);
        let now = len(keyspace, KEY) + len(keyspace, COPY);
        assert!(now < left, "a step deletes something: {left} are left");
        most = most.max(left - now);
        (left, steps) = (now, steps + 1);
    }
    (most, dearest, steps)
}

/// As the clock does it, beside a copy that shares all nodes as an image does.
fn by_the_clock(fields: usize) -> (usize, usize, usize) {
    let mut keyspace = crowd(fields);
    keyspace.copy(0, KEY, 0, COPY).unwrap();
    drain(&mut keyspace, |keyspace| _ = keyspace.expire_fields_cycle(DEADLINE, BATCH))
}

/// As requests do it that look at the hash.
fn by_looks(fields: usize) -> (usize, usize, usize) {
    let mut keyspace = crowd(fields);
    drain(&mut keyspace, |keyspace| _ = keyspace.get(0, KEY, DEADLINE).is_some())
}

#[test]
fn a_million_fields_expire_in_pieces_of_bounded_work() {
    let (few, many) = if cfg!(miri) { (1000, 3000) } else { (10_000, 1_000_000) };
    for (name, run, copies) in [("clock", by_the_clock as Run, 2), ("looks", by_looks as Run, 1)] {
        let (_, dear, _) = run(few);
        let (most, dearest, steps) = run(many);
        assert!(most < 2 * BATCH, "{name}: {most} fields in one step");
        assert!(steps >= copies * many / (2 * BATCH), "{name}: {steps} steps");
        assert!(dearest < 2 * dear, "{name}: {dearest} bytes in one step, {dear} for few");
    }
}
