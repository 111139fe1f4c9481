//! A key-value store of fixed slots: numbers to numbers, in a state of words.
//!
//! ```text
//! cargo run --example key_value -- DIRECTORY set KEY VALUE
//! cargo run --example key_value -- DIRECTORY get KEY
//! cargo run --example key_value -- DIRECTORY transfer    # moves money about until it is killed
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use stillframe_durability::{Options, Store};

const SLOTS: usize = 1 << 16;

/// Word 0 counts the keys; then each slot has a word for its key, 0 if it is free, and a word for
/// its value. A key lies in the first slot from its hash on that was free.
struct Table {
    words: Store,
}

impl Table {
    fn open(directory: &str) -> Result<Self, Box<dyn Error>> {
        let options = Options::words(1 + 2 * SLOTS).every(Duration::from_millis(20));
        let table = Self { words: Store::open(directory, options.checkpoint_on_close())? };
        let used = (0..SLOTS).filter(|slot| table.words.read(1 + 2 * slot) != 0).count();
        if used as u64 != table.len() {
            return Err(format!("{used} slots are in use, for {} keys", table.len()).into());
        }
        Ok(table)
    }

    fn len(&self) -> u64 {
        self.words.read(0)
    }

    /// The word of the key: where it is, or where it would go.
    fn find(&self, key: u64) -> Option<usize> {
        let hash = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as usize;
        (0..SLOTS)
            .map(|step| 1 + 2 * ((hash + step) % SLOTS))
            .find(|&word| [0, key].contains(&self.words.read(word)))
    }

    fn get(&self, key: u64) -> Option<u64> {
        let word = self.find(key)?;
        (self.words.read(word) == key).then(|| self.words.read(word + 1))
    }

    fn set(&mut self, key: u64, value: u64) -> Result<(), String> {
        if key == 0 {
            return Err("0 cannot be a key".into());
        }
        let word = self.find(key).ok_or("the table is full")?;
        if self.words.read(word) == 0 {
            self.words.write(0, self.len() + 1);
        }
        self.words.write_run(word, &[key, value]);
        Ok(())
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("key_value: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, command @ ..] = &arguments[..] else { return Err(USAGE.into()) };
    let mut table = Table::open(directory)?;
    match command.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["set", key, value] => {
            table.set(key.parse()?, value.parse()?)?;
            table.words.point();
        }
        ["get", key] => match table.get(key.parse()?) {
            Some(value) => println!("{value}"),
            None => println!("there is no such key"),
        },
        ["transfer"] => transfer(&mut table)?,
        _ => return Err(USAGE.into()),
    }
    Ok(table.words.close()?)
}

const USAGE: &str = "usage: key_value DIRECTORY (set KEY VALUE | get KEY | transfer)";
const ACCOUNTS: u64 = 5000;
const MONEY: u64 = 100;

/// Transactions of two writes: the money of all accounts together stays the same.
fn transfer(table: &mut Table) -> Result<(), Box<dyn Error>> {
    let all: u64 = (1..=ACCOUNTS).filter_map(|account| table.get(account)).sum();
    match table.len() {
        0 => (1..=ACCOUNTS).try_for_each(|account| table.set(account, MONEY))?,
        _ if all == ACCOUNTS * MONEY => println!("the books balance"),
        _ => return Err(format!("{all} is not the money that was put in").into()),
    }
    for step in 0_u64.. {
        let from = step.wrapping_mul(7919) % ACCOUNTS + 1;
        let to = step.wrapping_mul(104_729) % ACCOUNTS + 1;
        let available = table.get(from).unwrap_or(0);
        let amount = available.min(step % 50);
        table.set(from, available - amount)?;
        table.set(to, table.get(to).unwrap_or(0) + amount)?;
        table.words.point(); // the books balance: a checkpoint may begin here
    }
    Ok(())
}
