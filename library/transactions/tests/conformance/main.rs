//! Every algorithm under racing workers, against an oracle: each image equals the state after the
//! commits that the journal numbered for it, those are closed under what transactions have seen of
//! one another, and clients read what was committed last. Every mistake must be found.

mod oracle;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use oracle::{Commits, Copy, compare};
use stillframe_transactions::algorithms::{ALL, Visitor, with};
use stillframe_transactions::{Completeness, Concurrent, Deadlock, Engine, OnFull, Settings, Stop};

/// Random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }
}

/// A race of workers and images, and what was wrong with it.
#[derive(Clone, Copy)]
struct Race {
    records: usize,
    words: usize,
    workers: usize,
    transactions: usize,
    deadlock: Deadlock,
    /// Bytes for before-images, and what happens when they are used up.
    budget: (usize, OnFull),
    /// Transactions replace single words, so that a commit changes parts of records.
    by_word: bool,
    seed: u64,
}

impl Race {
    const SMALL: Self = Self {
        records: 12,
        words: 3,
        workers: 3,
        transactions: 400,
        deadlock: Deadlock::NoWait,
        budget: (usize::MAX, OnFull::Cancel),
        by_word: false,
        seed: 1,
    };
}

/// Runs random transactions on all workers while images are taken back to back, every third of them
/// given up or refused by its sink. Says how many words of images were compared.
fn race<A: Concurrent>(race: Race) -> Result<usize, String> {
    let Race { records, words, workers, transactions, deadlock, seed, .. } = race;
    let settings = Settings::new(records, words).workers(workers).deadlock(deadlock);
    let settings = settings.budget(race.budget.0, race.budget.1);
    let engine: Engine<A, Commits> =
        Engine::with_journal(settings, Commits::new(records)).map_err(|error| error.to_string())?;
    let over = AtomicBool::new(false);
    let images = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..workers as u64)
            .map(|client| {
                let engine = &engine;
                let seed = seed * 1000 + client;
                scope.spawn(move || clients_work(engine, transactions, race.by_word, seed))
            })
            .collect();
        let images = scope.spawn(|| take_images(&engine, &over, seed));
        let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        over.store(true, Ordering::Relaxed);
        let images = images.join().map_err(|_| "the images panicked".to_owned())?;
        for client in ended {
            client.map_err(|_| "a client panicked".to_owned())??;
        }
        Ok::<_, String>(images)
    })?;
    engine.journal().check()?;
    if A::INFO.image == Completeness::Nothing {
        return Ok(0);
    }
    compare(engine.journal().commits(), &images)?;
    Ok(images.iter().map(|(_, image)| image.len() * words).sum())
}

/// Random transactions. Each write has a number of its own. All words of a record repeat it, so
/// that a client can tell a torn read and a stale one; if words are written one by one, the first
/// one is looked at.
fn clients_work<A: Concurrent>(
    engine: &Engine<A, Commits>,
    transactions: usize,
    by_word: bool,
    seed: u64,
) -> Result<(), String> {
    let mut worker = engine.worker().map_err(|error| error.to_string())?;
    let mut random = Random(seed);
    let shape = engine.shape();
    for _ in 0..transactions {
        let records: Vec<usize> =
            (0..1 + random.below(4)).map(|_| random.below(shape.records)).collect();
        let kinds: Vec<usize> = records.iter().map(|_| random.below(10)).collect();
        let words: Vec<usize> = records.iter().map(|_| random.below(shape.words)).collect();
        let aborts = random.below(10) == 0;
        let done = worker.run(|tx| {
            let mut seen = vec![0; shape.words];
            let mut own = BTreeMap::new();
            for ((&record, &word), kind) in records.iter().zip(&words).zip(&kinds) {
                let present = tx.load(record, &mut seen)?;
                let newest = own.get(&record).copied();
                let newest = newest.unwrap_or_else(|| engine.journal().newest(record));
                let wrong = match by_word {
                    true => seen[0] != newest,
                    false => present != (newest != 0) || seen.iter().any(|&it| it != newest),
                };
                if wrong {
                    let wrong = format!("record {record} reads as {seen:?}, not {newest}");
                    return Err(Stop::Abort(wrong));
                }
                match kind {
                    0 => {
                        tx.delete(record)?;
                        own.insert(record, 0);
                    }
                    1..=3 => {}
                    _ if by_word => {
                        let number = oracle::next();
                        tx.write(record, word, number)?;
                        if word == 0 {
                            own.insert(record, number);
                        }
                    }
                    _ => {
                        let number = oracle::next();
                        tx.store(record, &vec![number; shape.words])?;
                        own.insert(record, number);
                    }
                }
            }
            if aborts { Err(Stop::Abort(String::new())) } else { Ok(()) }
        });
        match done {
            Err(wrong) if !wrong.is_empty() => return Err(wrong),
            _ => {}
        }
    }
    Ok(())
}

/// Images back to back; what each one that was kept holds.
fn take_images<A: Concurrent>(
    engine: &Engine<A, Commits>,
    over: &AtomicBool,
    seed: u64,
) -> Vec<(u64, BTreeMap<usize, Vec<u64>>)> {
    let mut random = Random(seed ^ 0xABCD);
    let mut images = Vec::new();
    let mut merged = BTreeMap::new();
    loop {
        let last = over.load(Ordering::Relaxed);
        let image = engine.begin().expect("the one before has ended");
        let number = image.number();
        let mut copy = Copy::default();
        match random.below(6) {
            0 if !last => {
                drop(image);
                continue;
            }
            1 if !last => copy.takes = random.below(engine.shape().records),
            _ => {}
        }
        if image.capture(&mut copy).is_ok() {
            copy.merge::<A>(&mut merged);
            images.push((number, merged.clone()));
        }
        std::thread::yield_now();
        if last {
            return images;
        }
    }
}

struct Racing(Race);

impl Visitor for Racing {
    type Output = Result<usize, String>;
    fn visit<A: Concurrent>(self) -> Self::Output {
        race::<A>(self.0)
    }
}

fn is_long() -> bool {
    std::env::var_os("STILLFRAME_LONG").is_some_and(|value| value == "1")
}

/// Records of pages, until enough words of images of each algorithm were compared: a hundred
/// million in the long run.
#[test]
fn wide_images_are_prefixes_of_the_commit_order() {
    let enough = if is_long() { 100_000_000 } else { 1_000_000 };
    for info in ALL.iter().filter(|info| info.image != Completeness::Nothing) {
        let (mut words, mut seed) = (0, 0);
        while words < enough {
            seed += 1;
            let workers = 2 + seed as usize % 15;
            let by_word = seed % 2 == 0;
            let race = Race { records: 1000, words: 512, workers, by_word, seed, ..Race::SMALL };
            let ran = with(info.name, Racing(race)).expect("it is in the registry");
            words += ran.unwrap_or_else(|wrong| panic!("{}, seed {seed}: {wrong}", info.name));
        }
        println!("{}: {words} words in {seed} races", info.name);
    }
}

#[test]
fn images_are_prefixes_of_the_commit_order() {
    for seed in 1..=if is_long() { 200 } else { 4 } {
        for deadlock in [Deadlock::NoWait, Deadlock::WaitDie] {
            let shapes = [(12, 3, 3), (2, 1, 2), (300, 2, 4), (1, 5, 3), (5, 100, 3)];
            for ((records, words, workers), by_word) in
                shapes.into_iter().flat_map(|shape| [(shape, false), (shape, true)])
            {
                let race = Race { records, words, workers, deadlock, by_word, ..Race::SMALL };
                let race = Race { seed, ..race };
                for info in ALL {
                    let ran = with(info.name, Racing(race)).expect("it is in the registry");
                    ran.unwrap_or_else(|wrong| panic!("{}, seed {seed}: {wrong}", info.name));
                }
            }
        }
    }
}

/// A budget of one chunk for all workers: commits wait, or the image is cancelled; none is wrong.
#[test]
fn images_on_a_budget_are_right_or_cancelled() {
    for seed in 1..=if is_long() { 100 } else { 5 } {
        for on_full in [OnFull::Slow, OnFull::Cancel] {
            for by_word in [false, true] {
                let budget = (1, on_full);
                let race = Race { records: 300, words: 512, workers: 4, budget, ..Race::SMALL };
                let race = Race { by_word, seed, transactions: 200, ..race };
                let ran = with("imprint", Racing(race)).expect("it is in the registry");
                ran.unwrap_or_else(|wrong| panic!("{on_full:?}, seed {seed}: {wrong}"));
            }
        }
    }
}
