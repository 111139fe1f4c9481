//! What a store costs on this machine, algorithm by algorithm, beside a plain array.
//!
//! ```text
//! cargo run --release --example costs -- DIRECTORY [MEGABYTES]
//! ```

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use stillframe::Algorithm;
use stillframe::algorithms::{SERVED, Visitor, dispatch_served};
use stillframe_durability::{LogOptions, Options, Policy, Store};

const STEPS: usize = 20_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("usage: costs DIRECTORY [MEGABYTES]")?;
    let megabytes: usize = arguments.next().map_or(Ok(500), |number| number.parse())?;
    let words = (megabytes * 1_000_000 / 8).max(1);
    if cfg!(debug_assertions) {
        println!("this is a debug build: the figures say little");
    }

    println!("{megabytes} MB of state, random words; ns each, then ms and MB/s");
    println!("             read  write  point  begin us  checkpoint      publish  recovery");
    let mut plain: Vec<u64> = (0..words as u64).collect();
    let read = nanoseconds(words, |index| black_box(plain[index]));
    let write = nanoseconds(words, |index| plain[black_box(index)] = index as u64);
    println!("{:10} {read:6.2} {write:6.2}", "plain");
    for info in SERVED {
        let visit = Measure { words, directory: &Path::new(&directory).join(info.name) };
        dispatch_served(info.name, visit).ok_or("the registry knows its own names")??;
    }
    log_costs(Path::new(&directory))
}

const ACTION: [u8; 32] = [7; 32];
const ACTIONS: u32 = 1_000_000;

/// A log of small actions: what one costs the application, and how many become durable a second,
/// beside what the disk does if each is synced alone.
fn log_costs(directory: &Path) -> Result<(), Box<dyn Error>> {
    let open = |policy: Policy| -> Result<Store, Box<dyn Error>> {
        let options = Options::words(1).log(LogOptions::policy(policy));
        let directory = directory.join(format!("log-{policy:?}"));
        Ok(Store::open_with_log(directory, options, |_, _| Ok(()))?)
    };
    println!("\n{ACTIONS} actions of {} bytes   ns each  durable/s  records/sync", ACTION.len());
    for policy in [Policy::Always, Policy::EverySecond, Policy::No] {
        let mut store = open(policy)?;
        let started = Instant::now();
        let mut last = 0;
        for _ in 0..ACTIONS {
            last = store.log(black_box(&ACTION))?;
        }
        let logged = started.elapsed();
        store.wait_durable(last)?;
        let rate = f64::from(ACTIONS) / started.elapsed().as_secs_f64();
        let stats = store.stats().log.ok_or("it was opened with one")?;
        let each = logged.as_secs_f64() * 1e9 / f64::from(ACTIONS);
        let per_sync = stats.records / stats.syncs.max(1);
        println!("{:32} {each:7.1} {rate:10.0} {per_sync:13}", format!("{policy:?}"));
        store.close()?;
        let store = open(policy)?;
        let replayed = store.recovery().log.as_ref().ok_or("it was opened with one")?;
        println!("{:32} {} replayed in {:?}", "", replayed.records, replayed.duration);
    }
    let mut store = open(Policy::Always)?;
    let started = Instant::now();
    for _ in 0..1000 {
        let sequence = store.log(&ACTION)?;
        store.wait_durable(sequence)?;
    }
    println!("one by one: {:.0} a second", 1000.0 / started.elapsed().as_secs_f64());
    let mut file = File::create(directory.join("raw"))?;
    let started = Instant::now();
    for _ in 0..1000 {
        file.write_all(&[7; 60])?;
        file.sync_all()?;
    }
    println!("write and fsync of a file: {:.0} a second", 1000.0 / started.elapsed().as_secs_f64());
    Ok(())
}

struct Measure<'a> {
    words: usize,
    directory: &'a Path,
}

impl Visitor for Measure<'_> {
    type Output = Result<(), Box<dyn Error>>;
    fn visit<A: Algorithm>(self) -> Self::Output {
        let memory = stillframe::Options::words(self.words).prefault(true);
        let options = Options::memory(memory);
        let mut store = Store::<A>::open_with(self.directory, options.clone())?;
        for index in 0..self.words {
            store.write(index, index as u64);
        }
        let read = nanoseconds(self.words, |index| black_box(store.read(index)));
        let write = nanoseconds(self.words, |index| store.write(index, index as u64));
        let point = nanoseconds(self.words, |_| store.point());
        store.checkpoint_and_wait()?; // the first one touches memory for the first time
        store.checkpoint_and_wait()?;
        let stats = store.stats();
        store.close()?;
        let store = Store::<A>::open_with(self.directory, options)?;
        let loaded = store.recovery().loaded.as_ref().ok_or("two checkpoints were taken")?;
        let rate = |took: Duration| loaded.bytes as f64 / 1e6 / took.as_secs_f64();
        print!("{:10} {read:6.2} {write:6.2} {point:6.2} ", A::INFO.name);
        print!("{:9.1} ", stats.begin_last.as_secs_f64() * 1e6);
        let capture = stats.capture_last;
        print!("{:6.0} ({:4.0}) ", capture.as_secs_f64() * 1e3, rate(capture));
        print!("{:8.0} ", stats.publish_last.as_secs_f64() * 1e3);
        println!("{:6.0} ({:4.0})", loaded.duration.as_secs_f64() * 1e3, rate(loaded.duration));
        Ok(())
    }
}

/// Of one of many steps, at indices below `words` in no order that a processor foresees.
fn nanoseconds<T>(words: usize, mut step: impl FnMut(usize) -> T) -> f64 {
    let mut random = 1_u64;
    let started = Instant::now();
    for _ in 0..STEPS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        black_box(step(((u128::from(random) * words as u128) >> 64) as usize));
    }
    started.elapsed().as_secs_f64() * 1e9 / STEPS as f64
}
