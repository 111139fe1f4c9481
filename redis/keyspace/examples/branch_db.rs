//! A database as a branch of another, beside a copy of all its keys: time, memory, and what a
//! change costs afterwards.
//!
//! ```text
//! cargo run --release -p stillframe-keyspace --example branch_db -- [KEYS] [ROUNDS]
//! ```
//!
//! Fills database 0 with so many texts of 100 bytes (1,000,000), then makes database 1 a branch of
//! it and database 2 a copy, in turns. In each a tenth of the keys is then changed, and in database
//! 0 as many others; then every key of both is compared with what it must be. At last database 0 is
//! cleared while it has a branch, which keeps all keys.

#[allow(dead_code, reason = "other examples use the rest")]
#[path = "common/mod.rs"]
mod common;

use std::error::Error;
use std::time::{Duration, Instant};

use stillframe_keyspace::{Entry, Expire, IntText, Keyspace, KeyspaceOptions};

use common::key;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn Error>;

/// The database that is branched off, the branch of it, and the copy.
const DBS: usize = 3;

/// The text of a key that a database has changed in a round.
fn text(number: usize, round: usize, db: usize) -> Vec<u8> {
    format!("{number:>60} {round:>20} {db:>18}").into_bytes()
}

struct Bench {
    keyspace: Keyspace,
    keys: Vec<[u8; 16]>,
    /// Who has changed each key last, and when.
    expected: [Vec<(usize, usize)>; DBS],
}

impl Bench {
    fn new(count: usize) -> Result<Self, Failure> {
        let mut keyspace = Keyspace::create(&KeyspaceOptions::default())?;
        let keys: Vec<_> = (0..count).map(|number| key(number as u64)).collect();
        for (number, key) in keys.iter().enumerate() {
            keyspace.set(0, key, &text(number, 0, 0), Expire::Never)?;
        }
        let expected = [vec![(0, 0); count], Vec::new(), Vec::new()];
        Ok(Self { keyspace, keys, expected })
    }

    /// Has a database hold what database 0 holds.
    fn make(&mut self, db: usize) -> Result<Duration, Failure> {
        self.expected[db] = self.expected[0].clone();
        let started = Instant::now();
        if db == 1 {
            self.keyspace.branch(0, db)?;
        } else {
            for key in &self.keys {
                self.keyspace.copy(0, key, db, key)?;
            }
        }
        Ok(started.elapsed())
    }

    /// Changes every tenth key of a database, from the first or the fifth on, and says how long one
    /// took.
    fn change(&mut self, db: usize, round: usize) -> Result<Duration, Failure> {
        let numbers = (if db == 0 { 0 } else { 5 }..self.keys.len()).step_by(10);
        let started = Instant::now();
        for number in numbers.clone() {
            let text = text(number, round, db);
            self.keyspace.set(db, &self.keys[number], &text, Expire::Never)?;
        }
        let took = started.elapsed() / self.keys.len().div_ceil(10) as u32;
        numbers.for_each(|number| self.expected[db][number] = (round, db));
        Ok(took)
    }

    fn check(&mut self, db: usize) -> Result<(), Failure> {
        for (number, key) in self.keys.iter().enumerate() {
            let (round, changer) = self.expected[db][number];
            let expected = text(number, round, changer);
            let found = self.keyspace.get(db, key, 0);
            let is_it =
                |entry: &Entry| *entry.value().to_bytes(&mut IntText::default()) == *expected;
            if !found.is_some_and(is_it) || self.keyspace.len(db) != self.keys.len() {
                return Err(format!("key {number} of database {db} differs").into());
            }
        }
        Ok(())
    }
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>());
    let count = arguments.next().transpose()?.unwrap_or(1_000_000).max(10);
    let rounds = arguments.next().transpose()?.unwrap_or(5).max(1);
    let mut bench = Bench::new(count)?;
    let floor = bench.keyspace.data_bytes();
    println!("{count} keys, {} MB; bytes are those beside them", floor >> 20);
    println!("          made       bytes      a change there   a change here   bytes then");
    for round in 1..=rounds {
        for (way, db) in [("branch", 1), ("copy", 2)] {
            let made = bench.make(db)?;
            let bytes = bench.keyspace.data_bytes() - floor;
            let [there, here] = [bench.change(db, round)?, bench.change(0, round)?];
            let then = bench.keyspace.data_bytes() - floor;
            let [made, there, here] = [made, there, here].map(|took| format!("{took:.1?}"));
            println!("{way:<8}{made:>10}{bytes:>12}{there:>16}{here:>16}{then:>13}");
            bench.check(0)?;
            bench.check(db)?;
            bench.keyspace.clear(db);
            while bench.keyspace.tend() {}
        }
    }
    bench.make(1)?;
    let started = Instant::now();
    bench.keyspace.clear(0);
    println!("clearing the database that has a branch: {:.1?}", started.elapsed());
    bench.check(1)
}
