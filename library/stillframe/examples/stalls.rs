//! How long a writer waits for images that have used up their budget, beside threads that want all
//! the processors for themselves.
//!
//! ```text
//! cargo run --release -p stillframe --example stalls -- [busy] [MiB of state] [MiB of budget]
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, hint, thread};

use stillframe::algorithms::imprint::Imprint;
use stillframe::{Algorithm, Engine, OnFull, Options, Point, Publication, Sink, SinkError};

const IMAGES: usize = 5;

/// Does about what a checksum costs.
struct Checksum(u64);

impl Sink for Checksum {
    fn push(&mut self, _: usize, words: &[u64]) -> Result<(), SinkError> {
        for &word in words {
            self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = env::args().skip(1).map(|argument| argument.parse::<usize>());
    let mut next = |default| arguments.next().unwrap_or(Ok(default));
    let (busy, state_mib, budget_mib) = (next(2)?, next(512)?, next(64)?);
    let words = state_mib << 17;
    let options = Options::words(words).prefault(true).budget(budget_mib << 20, OnFull::Slow);
    let mut engine = Engine::new(Imprint::create(&options)?)?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..busy {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        println!("{busy} busy threads, {state_mib} MiB of state, {budget_mib} MiB of budget");
        for number in 1..=IMAGES {
            report(&mut engine, number);
        }
        stop.store(true, Ordering::Relaxed);
    });
    Ok(())
}

/// Takes an image under random writes, as many as the writer can do.
fn report(engine: &mut Engine<Imprint>, number: usize) {
    let waits = engine.progress().writer_waits();
    let publish = |sink: &mut Checksum, _| {
        hint::black_box(sink.0);
        Publication::Durable
    };
    let started = Instant::now();
    engine.snapshot(Point::declare(), Checksum(0), publish).expect("no other image is held");
    let (mut index, mut writes) = (number as u64, 0u64);
    let (mut longest, mut last) = (Duration::ZERO, started);
    while engine.running() {
        for _ in 0..16 {
            index = index.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let word = (index >> 32) as usize % engine.words();
            engine.write(word, index);
        }
        writes += 16;
        let now = Instant::now();
        (longest, last) = (longest.max(now - last), now);
    }
    engine.wait();
    println!(
        "image {number}: {:.2} s; longest time of 16 writes {:.1} ms; the writer waited {} times; \
         {:.1} million writes",
        started.elapsed().as_secs_f64(),
        longest.as_secs_f64() * 1e3,
        engine.progress().writer_waits() - waits,
        writes as f64 / 1e6,
    );
}
