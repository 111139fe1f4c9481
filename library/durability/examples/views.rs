//! What views cost: to begin, to read, and the writer while they are kept.
//!
//! ```text
//! cargo run --release -p stillframe-durability --example views -- [WORDS]
//! ```
//!
//! A state of so many words (12,500,000: 100 MB), random writes, each row the median of five rounds
//! that take turns. Every view is checked word by word before it is dropped.

use std::error::Error;
use std::time::Instant;

use stillframe_durability::{Options, Store};
use stillframe_measure::draw::Rng;
use stillframe_measure::spread;

const ROUNDS: usize = 5;
/// Writes in a round, a tenth of the words.
const PART: usize = 10;

/// Nanoseconds for each of `count` calls.
fn each(count: usize, mut call: impl FnMut(usize)) -> f64 {
    let started = Instant::now();
    (0..count).for_each(&mut call);
    started.elapsed().as_secs_f64() * 1e9 / count as f64
}

fn print(what: &str, unit: &str, rounds: Vec<f64>) {
    println!("{what:46} {} {unit}", spread(rounds.into_iter()));
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: usize = std::env::args().nth(1).map_or(Ok(12_500_000), |it| it.parse())?;
    let directory = tempfile::tempdir()?;
    let mut options = Options::words(words);
    options.memory = options.memory.budget(words * 64, stillframe::OnFull::Cancel);
    let mut store: Store = Store::open(directory.path(), options)?;
    let writes = words / PART;
    let mut rng = Rng(1);
    let mut rows: [Vec<f64>; 8] = Default::default();
    for round in 0..=ROUNDS {
        let mut write = |store: &mut Store| {
            each(writes, |_| {
                let value = rng.next();
                store.write(rng.below(words as u64) as usize, value);
            })
        };
        let none = write(&mut store);
        let mut expected = vec![0; words];
        store.read_run(0, &mut expected);
        let started = Instant::now();
        let first = store.view()?;
        let alone = started.elapsed().as_secs_f64() * 1e6;
        let one = write(&mut store);
        let started = Instant::now();
        let mut others = vec![store.view()?];
        let beside = started.elapsed().as_secs_f64() * 1e6;
        for _ in 1..7 {
            others.push(store.view()?);
        }
        let eight = write(&mut store);
        let mut sum = 0;
        // The first reading sorts what was saved.
        let sort = each(1, |_| sum ^= first.read(0).unwrap_or(0)) / 1e6;
        let mut places = rng.clone();
        let mut place = || places.below(words as u64) as usize;
        let read = each(writes, |_| sum ^= first.read(place()).unwrap_or(0));
        let live = each(writes, |_| sum ^= store.read(place()));
        std::hint::black_box(sum);
        let mut found = vec![0; words];
        let run = each(1, |_| first.read_run(0, &mut found).expect("the budget suffices"));
        if found != expected {
            return Err(format!("round {round}: a view is not what the state was").into());
        }
        if round > 0 {
            // The first round touches memory for the first time.
            let measured = [none, one, eight, alone, beside, sort, read - live, run / words as f64];
            rows.iter_mut().zip(measured).for_each(|(row, it)| row.push(it));
        }
    }
    println!("{words} words, {writes} writes a round: median, least and most of {ROUNDS} rounds");
    let names = [
        ("a write, no view", "ns"),
        ("a write, a view", "ns"),
        ("a write, eight views", "ns"),
        ("view(), none kept", "us"),
        ("view(), one kept", "us"),
        ("the first read: sorts what was saved", "ms"),
        ("a random read, beyond one of the live state", "ns"),
        ("a word of a run", "ns"),
    ];
    names.into_iter().zip(rows).for_each(|((what, unit), row)| print(what, unit, row));
    Ok(())
}
