//! What choosing the algorithm at run time costs: nanoseconds per operation of a keyspace that is
//! compiled for Imprint alone, and of one that asks at each access which algorithm it has
//! ([`Any`]). Both do the same in turns of a few milliseconds, so that a busy machine hits both.
//!
//! Keys come in batches that are warmed, as pipelined requests are.
//!
//! `cargo run --release -p stillframe-keyspace --example dispatch [KEYS [ROUNDS [DEPTH]]]`

mod common;

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

use common::{key, processor_time};
use stillframe::Algorithm;
use stillframe::algorithms::any::Any;
use stillframe::algorithms::imprint::Imprint;
use stillframe_keyspace::{Expire, Keyspace, KeyspaceOptions};

/// The server's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Operations in one turn.
const TURN: usize = 20_000;
const OPERATIONS: [&str; 6] = ["GET", "SET", "SET, other size", "HSET", "HSET, other size", "ZADD"];

struct Bench<A: Algorithm> {
    keyspace: Keyspace<A>,
    random: u64,
    taken: [Vec<Duration>; OPERATIONS.len()],
    depth: usize,
}

impl<A: Algorithm> Bench<A> {
    fn new(keys: u64, depth: usize) -> Result<Self, Box<dyn Error>> {
        let mut keyspace = Keyspace::create(&KeyspaceOptions::default())?;
        for number in 0..keys {
            keyspace.set(0, &key(number), &[b'x'; 16], Expire::Never)?;
            keyspace.edit_hash(1, &key(number), |hash| hash.set(b"field", b"value"))?;
            keyspace.edit_sorted(2, &key(number), |set| set.set(b"member", 0.0))?;
        }
        Ok(Self { keyspace, random: 0x9e37_79b9, taken: Default::default(), depth })
    }

    fn next(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    /// One turn of every operation.
    fn turn(&mut self, keys: u64) -> Result<(), Box<dyn Error>> {
        for operation in 0..OPERATIONS.len() {
            let started = processor_time();
            for batch in 0..TURN / self.depth {
                let batch_keys: Vec<_> = (0..self.depth).map(|_| key(self.next(keys))).collect();
                if self.depth > 1 {
                    let db = [0, 0, 0, 1, 1, 2][operation];
                    self.keyspace.warm(db, batch_keys.iter().map(|key| &key[..]));
                }
                for key in &batch_keys {
                    self.call(operation, key, batch)?;
                }
            }
            self.taken[operation].push(processor_time() - started);
        }
        self.keyspace.tend();
        Ok(())
    }

    fn call(&mut self, operation: usize, key: &[u8], batch: usize) -> Result<(), Box<dyn Error>> {
        let (space, is_even) = (&mut self.keyspace, batch.is_multiple_of(2));
        let value = &[b'y'; 400][..if is_even { 16 } else { 400 }];
        match operation {
            0 => drop(black_box(space.get(0, key, 0).map(|entry| entry.value().len()))),
            1 => space.set(0, key, &[b'y'; 16], Expire::Never)?,
            2 => space.set(0, key, value, Expire::Never)?,
            3 | 4 => {
                let value = if operation == 3 { b"other" } else { value };
                black_box(space.get_to_edit(1, key, 0).is_some());
                space.edit_hash(1, key, |hash| hash.set(b"field", value))?;
            }
            _ => {
                black_box(space.get_to_edit(2, key, 0).is_some());
                let score = if is_even { 1.0 } else { 2.0 };
                space.edit_sorted(2, key, |set| set.set(b"member", score))?;
            }
        }
        Ok(())
    }

    /// The median of an operation, and the least, in nanoseconds.
    fn figures(&mut self, operation: usize) -> [f64; 2] {
        let taken = &mut self.taken[operation];
        taken.sort_unstable();
        [taken[taken.len() / 2], taken[0]].map(|it| it.as_secs_f64() * 1e9 / TURN as f64)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let keys: u64 = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(300), |text| text.parse())?;
    let depth: usize = arguments.next().map_or(Ok(16), |text| text.parse())?;
    if cfg!(debug_assertions) {
        println!("a debug build: its figures mean nothing");
    }
    // Two of each, made in this order: what differs between twins is the noise.
    let mut fixed = [Bench::<Imprint>::new(keys, depth)?, Bench::<Imprint>::new(keys, depth)?];
    let mut chosen = [Bench::<Any>::new(keys, depth)?, Bench::<Any>::new(keys, depth)?];
    for round in 0..rounds {
        for at in [round % 2, 1 - round % 2] {
            fixed[at].turn(keys)?;
            chosen[1 - at].turn(keys)?;
        }
    }
    println!("{keys} keys, {rounds} rounds: median (least) ns; fixed twice, then chosen twice");
    for (operation, name) in OPERATIONS.iter().enumerate() {
        print!("{name:<16}");
        for bench in &mut fixed {
            let [median, least] = bench.figures(operation);
            print!("  {median:6.1} ({least:6.1})");
        }
        for bench in &mut chosen {
            let [median, least] = bench.figures(operation);
            print!("  {median:6.1} ({least:6.1})");
        }
        println!();
    }
    Ok(())
}
