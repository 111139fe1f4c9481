//! Checkpoints and their recovery.

use std::hint::black_box;
use std::time::Instant;

use stillframe::BLOCK_WORDS;
use stillframe_durability::{Increments, Options, Store};

use crate::{Printed, Random, words};

const WRITES: usize = 20_000_000;

fn options(words: usize) -> Options {
    Options::memory(stillframe::Options::words(words).prefault(true))
}

/// Chains that are merged on request.
fn chains(count_max: usize) -> Increments {
    Increments::at_most(count_max).percent(u64::MAX)
}

/// The word that is in place `index`: half of it packs.
fn value(index: usize, round: u64) -> u64 {
    (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 ^ round
}

fn fill(store: &mut Store) {
    for index in 0..store.words() {
        store.write(index, value(index, 0));
    }
}

pub(crate) fn write(megabytes: usize) -> Printed {
    let words = words(megabytes);
    let mut array: Vec<u64> = (0..words as u64).collect();
    let plain = nanoseconds(words, |index| array[black_box(index)] = index as u64);
    black_box(&array); // or the compiler could drop the writes
    let store = |options: Options| -> Result<f64, Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir()?;
        let mut store: Store = Store::open(directory.path(), options)?;
        fill(&mut store);
        Ok(nanoseconds(words, |index| store.write(index, index as u64)))
    };
    let full = store(options(words))?;
    let increments = store(options(words).increments(chains(1)))?;
    Ok(format!(
        "{{\"plain_ns\":{plain:.3},\"full_ns\":{full:.3},\"increments_ns\":{increments:.3}}}"
    ))
}

fn nanoseconds(words: usize, mut step: impl FnMut(usize)) -> f64 {
    let mut random = Random(1);
    let started = Instant::now();
    for _ in 0..WRITES {
        step(random.below(words));
    }
    started.elapsed().as_secs_f64() * 1e9 / WRITES as f64
}

pub(crate) fn checkpoint(directory: &str, megabytes: usize, packs: bool) -> Printed {
    let options = options(words(megabytes));
    let options = if packs { options.pack() } else { options };
    let mut store: Store = Store::open(directory, options)?;
    fill(&mut store);
    store.checkpoint_and_wait()?;
    let (started, cpu_before) = (Instant::now(), cpu_seconds()?);
    store.checkpoint_and_wait()?;
    let took = started.elapsed().as_secs_f64();
    let cpu = (cpu_seconds()? - cpu_before).max(0.005); // less cannot be measured
    let stats = store.stats();
    let (bytes, begin) = (stats.bytes_last, stats.begin_last.as_secs_f64() * 1e6);
    store.close()?;
    Ok(format!(
        "{{\"bytes\":{bytes},\"state_bytes\":{},\"seconds\":{took:.6},\
         \"cpu_seconds\":{cpu:.6},\"begin_us\":{begin:.1}}}",
        words(megabytes) * 8
    ))
}

/// Processor time of all threads of this process so far, those that have ended included.
fn cpu_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name, in parentheses, is the second field; times are the 14th and the 15th, in 1/100 s.
    let rest = stat.rsplit_once(')').ok_or("/proc/self/stat has no name")?.1;
    let times = rest.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    let ticks = times.sum::<Result<u64, _>>()?;
    Ok(ticks as f64 / 100.0)
}

/// Writes this many percent of the blocks, others with another `shift`.
fn touch(store: &mut Store, percent: usize, shift: usize) {
    let step = |block: usize| (block + shift) * percent / 100;
    for block in (0..store.words() / BLOCK_WORDS).filter(|&block| step(block) != step(block + 1)) {
        let index = block * BLOCK_WORDS;
        store.write(index, store.read(index)); // the state stays as it is, to be verified
    }
}

pub(crate) fn chain(directory: &str, megabytes: usize, percent: usize, count: usize) -> Printed {
    let options = options(words(megabytes)).increments(chains(usize::MAX));
    let mut store: Store = Store::open(directory, options)?;
    fill(&mut store);
    store.checkpoint_and_wait()?;
    for shift in 0..count {
        touch(&mut store, percent, shift);
        store.checkpoint_and_wait()?;
    }
    let stats = store.stats();
    store.close()?;
    Ok(format!("{{\"bytes\":{},\"increments\":{}}}", stats.chain_bytes, stats.increments))
}

pub(crate) fn increment(directory: &str, megabytes: usize, percent: usize) -> Printed {
    let mut store: Store = Store::open(directory, options(words(megabytes)).increments(chains(1)))?;
    fill(&mut store);
    store.checkpoint_and_wait()?;
    store.wait_merged();
    touch(&mut store, percent, 0);
    let started = Instant::now();
    store.checkpoint_and_wait()?;
    let took = started.elapsed().as_secs_f64();
    let bytes = store.stats().bytes_last;
    let started = Instant::now();
    store.wait_merged();
    let merge = started.elapsed().as_secs_f64();
    let merges = store.stats().merges;
    store.close()?;
    Ok(format!(
        "{{\"bytes\":{bytes},\"seconds\":{took:.6},\"merge_seconds\":{merge:.6},\"merges\":{merges}}}"
    ))
}

pub(crate) fn recover(directory: &str, megabytes: usize, threads: Option<usize>) -> Printed {
    // Without the memory touched before, as a process that starts.
    let options = Options::words(words(megabytes));
    let options = match threads {
        Some(threads) => options.load_threads(threads),
        None => options,
    };
    let cpu_before = cpu_seconds()?;
    let store: Store = Store::open(directory, options.accept_chain_loss())?;
    let cpu = (cpu_seconds()? - cpu_before).max(0.005); // less cannot be measured
    let loaded = store.recovery().loaded.as_ref().ok_or("there is no checkpoint")?;
    let wrong = (0..store.words()).find(|&index| store.read(index) != value(index, 0));
    if let Some(index) = wrong {
        return Err(format!("word {index} is not what was written").into());
    }
    let (bytes, seconds) = (loaded.bytes, loaded.duration.as_secs_f64());
    Ok(format!(
        "{{\"bytes\":{bytes},\"seconds\":{seconds:.6},\"cpu_seconds\":{cpu:.6},\
         \"verified\":true}}"
    ))
}
