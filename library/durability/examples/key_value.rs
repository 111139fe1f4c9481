//! A key-value store of fixed slots: numbers to numbers, in a state of words, with a log of all
//! that was done. What was acknowledged survives any crash.
//!
//! ```text
//! cargo run --example key_value -- DIRECTORY set KEY VALUE
//! cargo run --example key_value -- DIRECTORY get KEY
//! cargo run --example key_value -- DIRECTORY count
//! cargo run --example key_value -- DIRECTORY transfer    # moves money about until it is killed
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use stillframe_durability::{Act, ActStore, Options, Store};

const SLOTS: usize = 1 << 16;

// The state in words: the number of keys, the number of actions, then for each slot its key, 0 if
// it is free, and its value. A key lies in the first slot from its hash on that was free.
const KEYS: usize = 0;
const ACTIONS: usize = 1;
const FIRST: usize = 2;
const WORDS: usize = FIRST + 2 * SLOTS;

/// What can be done to the table; the log is a sequence of these, three numbers each.
enum Action {
    Set { key: u64, value: u64 },
    Transfer { from: u64, to: u64, amount: u64 },
}

impl Action {
    fn encode(&self) -> Vec<u8> {
        // No key is 0, so a first number of 0 marks a `Set`.
        let numbers = match *self {
            Self::Set { key, value } => [0, key, value],
            Self::Transfer { from, to, amount } => [from, to, amount],
        };
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (numbers, rest) = bytes.as_chunks();
        match numbers.iter().map(|&number| u64::from_le_bytes(number)).collect::<Vec<_>>()[..] {
            _ if !rest.is_empty() => None,
            [0, key, value] => Some(Self::Set { key, value }),
            [from, to, amount] => Some(Self::Transfer { from, to, amount }),
            _ => None,
        }
    }

    /// Depends on nothing but the action and the table; run when it is made, and after a crash.
    fn apply(&self, table: &mut Act<'_>) {
        match *self {
            Self::Set { key, value } => set(table, key, value),
            Self::Transfer { from, to, amount } => {
                set(table, from, get(table.store(), from).unwrap_or(0) - amount);
                set(table, to, get(table.store(), to).unwrap_or(0) + amount);
            }
        }
        table.write(ACTIONS, table.read(ACTIONS) + 1);
    }
}

/// The word of the key: where it is, or where it would go.
fn find(table: &Store, key: u64) -> Option<usize> {
    let hash = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as usize;
    (0..SLOTS)
        .map(|step| FIRST + 2 * ((hash + step) % SLOTS))
        .find(|&word| [0, key].contains(&table.read(word)))
}

fn get(table: &Store, key: u64) -> Option<u64> {
    let word = find(table, key)?;
    (table.read(word) == key).then(|| table.read(word + 1))
}

fn set(table: &mut Act<'_>, key: u64, value: u64) {
    let Some(word) = find(table.store(), key) else { return }; // `act` does not let it come to that
    if table.read(word) == 0 {
        table.write(KEYS, table.read(KEYS) + 1);
    }
    table.write_run(word, &[key, value]);
}

fn open(directory: &str) -> Result<ActStore, Box<dyn Error>> {
    let options = Options::words(WORDS).every(Duration::from_millis(20)).checkpoint_on_close();
    let table = ActStore::open_records(directory, options, |table, action| {
        Action::decode(action.bytes).ok_or("this is no action of a table")?.apply(table);
        Ok(())
    })?;
    let used = (0..SLOTS).filter(|slot| table.read(FIRST + 2 * slot) != 0).count();
    if used as u64 != table.read(KEYS) {
        return Err(format!("{used} slots are in use, for {} keys", table.read(KEYS)).into());
    }
    Ok(table)
}

/// Logs an action, applies it, and returns its number. It may be acknowledged when that number is
/// durable.
fn act(table: &mut ActStore, action: &Action) -> Result<u64, Box<dyn Error>> {
    if let Action::Set { key, .. } = action {
        if *key == 0 {
            return Err("0 cannot be a key".into());
        }
        find(table, *key).ok_or("the table is full")?;
    }
    let mut act = table.log(&action.encode())?;
    action.apply(&mut act);
    act.commit()?; // the action is whole: a checkpoint may begin here
    Ok(table.logged())
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
    let mut table = open(directory)?;
    match command.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["set", key, value] => {
            let action = Action::Set { key: key.parse()?, value: value.parse()? };
            let sequence = act(&mut table, &action)?;
            table.wait_durable(sequence)?;
        }
        ["get", key] => match get(&table, key.parse()?) {
            Some(value) => println!("{value}"),
            None => println!("there is no such key"),
        },
        ["count"] => {
            let all: u64 = (0..SLOTS).map(|slot| table.read(FIRST + 2 * slot + 1)).sum();
            println!("{} keys, {} actions, {all} in all", table.read(KEYS), table.read(ACTIONS));
        }
        ["transfer"] => transfer(&mut table)?,
        _ => return Err(USAGE.into()),
    }
    Ok(table.close()?)
}

const USAGE: &str = "usage: key_value DIRECTORY (set KEY VALUE | get KEY | count | transfer)";
const ACCOUNTS: u64 = 5000;
const MONEY: u64 = 100;

/// Transactions of two writes: the money of all accounts together stays the same. Says which ones
/// are durable, as a server would send its replies.
fn transfer(table: &mut ActStore) -> Result<(), Box<dyn Error>> {
    for key in table.read(KEYS) + 1..=ACCOUNTS {
        act(table, &Action::Set { key, value: MONEY })?;
    }
    let all: u64 = (1..=ACCOUNTS).filter_map(|account| get(table, account)).sum();
    if all != ACCOUNTS * MONEY {
        return Err(format!("{all} is not the money that was put in").into());
    }
    let mut acknowledged = 0;
    for step in table.read(ACTIONS).. {
        let from = step.wrapping_mul(7919) % ACCOUNTS + 1;
        let to = step.wrapping_mul(104_729) % ACCOUNTS + 1;
        let amount = get(table, from).unwrap_or(0).min(step % 50);
        act(table, &Action::Transfer { from, to, amount })?;
        let durable = table.durable();
        if durable > acknowledged {
            acknowledged = durable;
            println!("acknowledged {acknowledged}");
        }
    }
    Ok(())
}
