//! The log, alone and beside checkpoints.

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use stillframe_durability::{Act, ActStore, LogOptions, Options, Policy, Store};

use crate::{Printed, Random, words};

const ACTION_BYTES: usize = 32;
/// Actions that the latency is measured with, a second.
const COMMITS_PER_S: u32 = 200;
/// Updates in a tick, each logged.
const UPDATES: usize = 1000;
const TICKS: usize = 300;

pub(crate) fn policy(name: &str) -> Result<Policy, Box<dyn Error>> {
    match name {
        "always" => Ok(Policy::Always),
        "everysec" => Ok(Policy::EverySecond),
        "no" => Ok(Policy::No),
        _ => Err(format!("{name} is no policy: always, everysec, no").into()),
    }
}

/// An action adds to a word.
fn open(directory: &str, options: Options) -> Result<ActStore, Box<dyn Error>> {
    Ok(ActStore::open_records(directory, options, |store, action| {
        let Some((index, _)) = action.bytes.split_first_chunk() else {
            return Err("the action is too short".into());
        };
        add(store, u64::from_le_bytes(*index) as usize);
        Ok(())
    })?)
}

fn add(store: &mut Act<'_>, index: usize) {
    store.write(index, store.read(index) + 1);
}

fn act(store: &mut ActStore, index: usize) -> Result<u64, Box<dyn Error>> {
    let mut action = [7; ACTION_BYTES];
    action[..8].copy_from_slice(&(index as u64).to_le_bytes());
    add(&mut store.log(black_box(&action))?, index);
    Ok(store.logged())
}

pub(crate) fn throughput(directory: &str, policy: Policy, actions: u64) -> Printed {
    let options = || Options::words(1000).log(LogOptions::policy(policy));
    let mut store = open(directory, options())?;
    let started = Instant::now();
    let mut last = 0;
    for number in 0..actions {
        last = act(&mut store, number as usize % 1000)?;
    }
    let logged = started.elapsed().as_secs_f64();
    store.wait_durable(last)?;
    let took = started.elapsed().as_secs_f64();
    let stats = store.stats().log.ok_or("it has a log")?;
    store.close()?;
    let store = open(directory, options())?;
    let sum: u64 = (0..store.words()).map(|index| store.read(index)).sum();
    if sum != actions {
        return Err(format!("{sum} of {actions} actions came back").into());
    }
    Ok(format!(
        "{{\"actions\":{actions},\"seconds\":{took:.6},\"logged_seconds\":{logged:.6},\
         \"syncs\":{},\"verified\":true}}",
        stats.syncs
    ))
}

pub(crate) fn fsync(file: &str, times: u32) -> Printed {
    let mut file = File::create(file)?;
    let started = Instant::now();
    for _ in 0..times {
        file.write_all(&[7; 60])?;
        file.sync_data()?;
    }
    let took = started.elapsed().as_secs_f64();
    Ok(format!("{{\"times\":{times},\"seconds\":{took:.6}}}"))
}

pub(crate) fn replay(directory: &str, megabytes: usize, actions: usize) -> Printed {
    let options = || Options::words(words(megabytes)).log(LogOptions::policy(Policy::No));
    let mut store = open(directory, options())?;
    let mut random = Random(1);
    store.checkpoint_and_wait()?;
    for _ in 0..actions {
        let index = random.below(store.words());
        act(&mut store, index)?;
    }
    store.close()?;
    let started = Instant::now();
    let store = open(directory, options())?;
    let took = started.elapsed().as_secs_f64();
    let recovery = store.recovery();
    let records = recovery.log.as_ref().map_or(0, |log| log.records);
    if records != actions as u64 {
        return Err(format!("{records} of {actions} actions were replayed").into());
    }
    let load = recovery.loaded.as_ref().map_or(0.0, |loaded| loaded.duration.as_secs_f64());
    Ok(format!("{{\"records\":{records},\"seconds\":{took:.6},\"load_seconds\":{load:.6}}}"))
}

/// Commits at a fixed rate, each counted from when it was due.
pub(crate) fn latency(directory: &str, megabytes: usize, seconds: u32, cap: u64) -> Printed {
    let options = Options::words(words(megabytes)).log(LogOptions::policy(Policy::Always));
    let options = if cap > 1 { options.bandwidth(cap) } else { options };
    let mut store = Store::open(directory, options.clone())?;
    for index in 0..store.words() {
        store.write(index, index as u64);
    }
    store.checkpoint_and_wait()?;
    store.close()?;
    let mut store = open(directory, options)?;
    let mut random = Random(1);
    let mut latencies = Vec::new();
    let started = Instant::now();
    for number in 0..seconds * COMMITS_PER_S {
        let due = started + Duration::from_secs(1) * number / COMMITS_PER_S;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if cap > 0 {
            store.checkpoint(); // one after the other
        }
        let index = random.below(store.words());
        let sequence = act(&mut store, index)?;
        store.point();
        store.wait_durable(sequence)?;
        latencies.push(due.elapsed());
    }
    let checkpoints = store.stats().checkpoints;
    latencies.sort_unstable();
    let at = |part: f64| {
        let index = ((latencies.len() as f64 * part) as usize).min(latencies.len().max(1) - 1);
        latencies.get(index).map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
    };
    Ok(format!(
        "{{\"commits\":{},\"checkpoints\":{checkpoints},\"p50_ms\":{:.4},\"p99_ms\":{:.4},\
         \"max_ms\":{:.4}}}",
        latencies.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    ))
}

/// Ticks of random updates, each logged before it is done; no tick waits for the disk.
pub(crate) fn tick(directory: &str, megabytes: usize, policy: Option<Policy>) -> Printed {
    let options = Options::words(words(megabytes));
    let mut random = Random(1);
    let mut index = || random.below(words(megabytes));
    let started;
    let took;
    if let Some(policy) = policy {
        let mut store = open(directory, options.log(LogOptions::policy(policy)))?;
        started = Instant::now();
        for _ in 0..TICKS {
            for _ in 0..UPDATES {
                act(&mut store, index())?;
            }
            store.point();
        }
        took = started.elapsed();
        store.close()?;
    } else {
        let mut store = Store::open(directory, options)?;
        started = Instant::now();
        for _ in 0..TICKS {
            for _ in 0..UPDATES {
                store.update(index(), |word| word + 1);
            }
            store.point();
        }
        took = started.elapsed();
        store.close()?;
    }
    let mean = took.as_secs_f64() * 1e6 / TICKS as f64;
    Ok(format!("{{\"ticks\":{TICKS},\"updates\":{UPDATES},\"mean_us\":{mean:.3}}}"))
}
