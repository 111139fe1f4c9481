//! No-wait against wait-die: what a commit costs when transactions meet, by threads and skew.
//!
//! `cargo run --release -p stillframe-transactions --example locks`
//!
//! A transaction moves money between ten of a million records. With probability `hot` a record is
//! one of a hundred. Rounds of both ways take turns; medians of five.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stillframe_measure::thread_time;
use stillframe_transactions::{Deadlock, Engine, Imprint, Settings, Stop};

const RECORDS: usize = 1_000_000;
const HOT_RECORDS: usize = 100;
const TOUCHED: usize = 10;
const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_millis(400);

/// Thousand commits a second, microseconds of the processor for a commit, runs for a commit.
type Figures = [f64; 3];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "| threads | hot | no-wait: k/s, us, runs | wait-die: k/s, us, runs |\n|---|---|---|---|"
    );
    for threads in [1, 2, 4, 16] {
        for hot in [0, 10, 50] {
            let mut both = [Vec::new(), Vec::new()];
            for _ in 0..ROUNDS {
                for (way, figures) in
                    [Deadlock::NoWait, Deadlock::WaitDie].into_iter().zip(&mut both)
                {
                    figures.push(run(threads, hot, way)?);
                }
            }
            let [no_wait, wait_die] = both.map(middle);
            println!("| {threads} | {hot} % | {no_wait} | {wait_die} |");
        }
    }
    Ok(())
}

fn middle(rounds: Vec<Figures>) -> String {
    let of = |figure: usize| {
        let mut values: Vec<f64> = rounds.iter().map(|round| round[figure]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    format!("{:.0}, {:.2}, {:.3}", of(0), of(1), of(2))
}

fn run(threads: usize, hot: u64, way: Deadlock) -> Result<Figures, Box<dyn std::error::Error>> {
    let settings = Settings::new(RECORDS, 1).workers(threads).deadlock(way);
    let bank: Engine<Imprint> = Engine::create(settings)?;
    let (start, over) = (Barrier::new(threads + 1), AtomicBool::new(false));
    let (elapsed, clerks) = std::thread::scope(|scope| {
        let clerk = |seed| {
            let (bank, start, over) = (&bank, &start, &over);
            scope.spawn(move || work(bank, seed, hot, start, over))
        };
        let clerks: Vec<_> = (1..=threads as u64).map(clerk).collect();
        start.wait();
        let started = Instant::now();
        std::thread::sleep(TIME);
        over.store(true, Ordering::Relaxed);
        let clerks: Vec<_> =
            clerks.into_iter().map(|it| it.join().expect("a clerk ends")).collect();
        (started.elapsed(), clerks)
    });
    let sum = |of: fn(&(u64, u64, f64)) -> f64| clerks.iter().map(of).sum::<f64>();
    let commits = sum(|clerk| clerk.0 as f64);
    let conflicts = sum(|clerk| clerk.1 as f64);
    let cpu_us = sum(|clerk| clerk.2);
    Ok([commits / elapsed.as_secs_f64() / 1e3, cpu_us / commits, 1.0 + conflicts / commits])
}

/// Commits, conflicts, and microseconds of the processor.
fn work(
    bank: &Engine<Imprint>,
    seed: u64,
    hot: u64,
    start: &Barrier,
    over: &AtomicBool,
) -> (u64, u64, f64) {
    let mut worker = bank.worker().expect("one for each clerk");
    let (mut state, mut commits) = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), 0);
    let mut below = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    start.wait();
    let before = thread_time();
    while !over.load(Ordering::Relaxed) {
        let mut records = [0; TOUCHED];
        for record in &mut records {
            let bound = if below(100) < hot { HOT_RECORDS } else { RECORDS };
            *record = below(bound as u64) as usize;
        }
        let moved = worker.run(|tx| {
            for (place, &record) in records.iter().enumerate() {
                let sign = if place % 2 == 0 { 1 } else { u64::MAX };
                tx.update(record, 0, |have| have.wrapping_add(sign))?;
            }
            Ok::<_, Stop<()>>(())
        });
        moved.expect("no abort");
        commits += 1;
    }
    (commits, worker.conflicts(), (thread_time() - before).as_secs_f64() * 1e6)
}
