//! Nanoseconds per SET, GET and INCR through the keyspace, with and without an image under way,
//! and the longest single call. Processor time of the calling thread, so that a busy machine does
//! not show (much).
//!
//! `cargo run --release -p stillframe-keyspace --example throughput [KEYS [VALUE_BYTES]]`

mod common;

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use common::{key, processor_time};
use stillframe::algorithms::imprint::Imprint;
use stillframe::{CaptureError, CaptureReport, Point, SinkError};
use stillframe_keyspace::{Entry, EntrySink, Expire, IntText, Keyspace, KeyspaceOptions};

/// The server's allocator. That of the C library stops a thread for milliseconds when another
/// frees much.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Reads every byte of the image, as a writer of files would.
#[derive(Default)]
struct Digest {
    entries: u64,
    sum: u64,
}

impl EntrySink for Digest {
    fn entry(&mut self, _db: usize, entry: &Entry) -> Result<(), SinkError> {
        let mut text = IntText::default();
        let bytes = entry.key().iter().chain(entry.value().to_bytes(&mut text));
        self.entries += 1;
        self.sum = bytes.fold(self.sum, |sum, &byte| sum.wrapping_add(u64::from(byte)));
        Ok(())
    }
}

struct Bench {
    keyspace: Keyspace<Imprint>,
    keys: usize,
    value: Vec<u8>,
    random: u64,
    images: u64,
}

impl Bench {
    /// The text of a key chosen at random.
    fn key(&mut self) -> [u8; 16] {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        key(self.random % self.keys as u64)
    }

    /// Runs `operation` for `count` random keys; prints the mean of batches and the longest call.
    fn measure(
        &mut self,
        what: &str,
        count: usize,
        image: bool,
        mut operation: impl FnMut(&mut Self, &[u8]) -> Result<(), Box<dyn Error>>,
    ) -> Result<(), Box<dyn Error>> {
        let mut watch = Watch::start();
        for number in 0..count {
            if image && number % BATCH == 0 && !self.keyspace.saving() {
                self.begin()?;
            }
            let key = self.key();
            watch.call(number, || {
                operation(self, &key)?;
                if number % BATCH == 0 {
                    self.keyspace.tend();
                }
                Ok::<_, Box<dyn Error>>(())
            })?;
        }
        watch.report(what, count);
        self.keyspace.wait_image();
        Ok(())
    }

    fn begin(&mut self) -> Result<(), Box<dyn Error>> {
        let publish = |digest: &mut Digest, result: Result<CaptureReport, CaptureError>| {
            black_box(digest.sum);
            assert!(result.is_ok(), "the image was captured");
        };
        self.keyspace.snapshot(Point::declare(), Digest::default(), publish)?;
        self.images += 1;
        Ok(())
    }

    fn run(&mut self, image: bool) -> Result<(), Box<dyn Error>> {
        let count = self.keys * 2;
        let value = self.value.clone();
        let label = |what: &str| format!("{what}{}", if image { ", image under way" } else { "" });
        self.measure(&label("GET"), count, image, |bench, key| {
            black_box(bench.keyspace.get(0, key, 0));
            Ok(())
        })?;
        self.measure(&label("SET, same size"), count, image, |bench, key| {
            Ok(bench.keyspace.set(0, key, &value, Expire::Never)?)
        })?;
        self.measure(&label("INCR"), count, image, |bench, key| {
            let old = bench.keyspace.get(1, key, 0).map_or(Some(0), |entry| entry.value().as_int());
            let new = old.ok_or("an integer")? + 1;
            Ok(bench.keyspace.set_int(1, key, new, Expire::Keep)?)
        })
    }
}

/// Calls between two looks at the processor's clock, which costs a system call.
const BATCH: usize = 64;

/// Takes the time of calls.
struct Watch {
    started: Duration,
    batch: Duration,
    longest: Duration,
}

impl Watch {
    fn start() -> Self {
        Self { started: processor_time(), batch: processor_time(), longest: Duration::ZERO }
    }

    fn call<T>(&mut self, number: usize, call: impl FnOnce() -> T) -> T {
        if number.is_multiple_of(BATCH) {
            self.batch = processor_time();
        }
        let started = Instant::now();
        let result = call();
        let wall = started.elapsed();
        if wall > self.longest {
            // What the thread has worked since the start of the batch bounds what the call took.
            self.longest = self.longest.max(wall.min(processor_time() - self.batch));
        }
        result
    }

    fn report(self, what: &str, count: usize) {
        let taken = processor_time() - self.started;
        let mut idle = Self::start();
        (0..count).for_each(|number| idle.call(number, || black_box(())));
        let each = taken.saturating_sub(processor_time() - idle.started).as_secs_f64() * 1e9;
        println!("{what:<34} {:>6.0} ns   longest {:>9.1?}", each / count as f64, self.longest);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default| arguments.next().map_or(Ok(default), |text| text.parse());
    let (keys, value_bytes) = (argument(1_000_000)?, argument(16)?);
    if cfg!(debug_assertions) {
        println!("a debug build: its figures mean nothing");
    }
    let mut keyspace = Keyspace::<Imprint>::create(&KeyspaceOptions::default())?;
    let value = vec![b'x'; value_bytes];
    println!("{keys} keys of 16 bytes, values of {value_bytes} bytes");
    let mut watch = Watch::start();
    for number in 0..keys {
        let key = key(number as u64);
        watch.call(number, || keyspace.set(0, &key, &value, Expire::Never))?;
    }
    watch.report("SET, new keys", keys);
    for number in 0..keys as u64 {
        keyspace.set_int(1, &key(number), 0, Expire::Never)?;
    }
    let mut bench = Bench { keyspace, keys, value, random: 0x9e37_79b9, images: 0 };
    bench.run(false)?;
    bench.run(true)?;
    println!("{} images; {:?}", bench.images, bench.keyspace.stats());
    let mut watch = Watch::start();
    watch.call(0, || bench.keyspace.clear_all());
    println!("clear_all {:.1?}", watch.longest);
    let (mut watch, mut calls) = (Watch::start(), 0);
    while watch.call(0, || bench.keyspace.tend()) {
        calls += 1;
    }
    watch.report("tend, sweeping", calls);
    Ok(())
}
