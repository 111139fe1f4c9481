//! How long a recovery takes by one thread that puts records and by one for each core, beside
//! reading the log alone, which is done one record after the other.
//!
//! `cargo run --release -p stillframe-transactions --features log --example replay`
//!
//! A million commits of ten records each, by four threads; 100 MB of records. The log lies in the
//! page cache. Seconds in rounds that take turns: medians, least and largest.

use std::time::Instant;

use stillframe_durability::{Application, Log, LogOptions, Policy};
use stillframe_measure::draw::Rng;
use stillframe_measure::spread;
use stillframe_transactions::log::{Durable, Options};
use stillframe_transactions::{Imprint, Settings, Stop};

const BYTES: usize = 100_000_000;
const COMMITS: u64 = 1_000_000;
const CLERKS: u64 = 4;
const TOUCHED: usize = 10;
const ROUNDS: usize = 7;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("| words of a record | log [MB] | reading [s] | one [s] | each core [s] | ratio |");
    println!("|---|---|---|---|---|---|");
    for words in [2, 8, 64] {
        let place = tempfile::tempdir()?;
        let records = BYTES / 8 / words;
        let settings = Settings::new(records, words);
        let policy = LogOptions::policy(Policy::No);
        let options = || Options::default().log(policy.clone());
        {
            let (bank, _) = Durable::<Imprint>::open(place.path(), settings, options())?;
            let commits = COMMITS / (words as u64 / 8).max(1);
            std::thread::scope(|scope| {
                (1..=CLERKS).for_each(|seed| {
                    let bank = &bank;
                    scope.spawn(move || work(bank, seed, commits / CLERKS, records));
                });
            });
        }
        let name = std::fs::read_dir(place.path())?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .find(|name| name.starts_with("log-"))
            .ok_or("there is a log")?;
        let mut rounds = Vec::new();
        let mut log_bytes = 0;
        for _ in 0..ROUNDS {
            let started = Instant::now();
            log_bytes = 0;
            let application = Application::default();
            let log = place.path().join(&name);
            drop(Log::open(log, 1, false, &application, policy.clone(), |action| {
                log_bytes += action.bytes.len();
                Ok(())
            })?);
            let reading = started.elapsed().as_secs_f64();
            let mut round = [reading, 0.0, 0.0];
            for (at, workers) in [(1, 1), (2, 16)] {
                let started = Instant::now();
                let settings = settings.workers(workers);
                let (_bank, found) = Durable::<Imprint>::open(place.path(), settings, options())?;
                assert!(found.commits > 0 && found.records == 0);
                round[at] = started.elapsed().as_secs_f64();
            }
            rounds.push(round);
        }
        let [reading, one, all] = [0, 1, 2].map(|at| spread(rounds.iter().map(|it| it[at])));
        let ratio = spread(rounds.iter().map(|round| round[1] / round[2]));
        println!("| {words} | {} | {reading} | {one} | {all} | {ratio} |", log_bytes / 1_000_000);
    }
    Ok(())
}

fn work(bank: &Durable<Imprint>, seed: u64, commits: u64, records: usize) {
    let mut worker = bank.worker().expect("there are sixteen");
    let mut random = Rng(seed);
    let mut draw = |bound: usize| random.below(bound as u64) as usize;
    for _ in 0..commits {
        let (first, step) = (draw(records), 1 + draw(records / TOUCHED - 1));
        let done = worker.run(|tx| {
            for place in 0..TOUCHED {
                tx.update((first + place * step) % records, 0, |have| have + 1)?;
            }
            Ok::<_, Stop<()>>(())
        });
        done.expect("the log takes it");
    }
}
