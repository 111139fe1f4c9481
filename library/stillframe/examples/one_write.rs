//! What one write executes while an image is held and nothing of it is captured: instructions of
//! user space, and misses of a simulated cache. Valgrind's cachegrind counts them, so the load on a
//! machine changes nothing.
//!
//! ```text
//! cargo run --release -p stillframe --example one_write -- [name, line, page, or lock] ...
//! ```
//!
//! A row is the difference of two runs, one of which stops before the counted writes. These go
//! anywhere in 64 MiB, nearly all to units that were not written since begin; under `again` they go
//! to a thousand items that were. The loop and its random index are about ten instructions of each
//! row: `naive` writes in place and nothing else. Caches: 48 KiB, and 8 MiB last.
//!
//! `line` counts units of lines, `page` of pages. `lock` counts each write under the lock of its
//! page of 4 KiB, which nobody else asks for: Li et al.'s Copy-on-Update pays that at every write,
//! ours at a first touch.

use std::hint::black_box;
use std::mem::ManuallyDrop;
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};
use std::{env, error};

use stillframe::algorithms::{self, ALL, Visitor};
use stillframe::{Algorithm, BLOCK_WORDS, Info, Options, Point, Sink, SinkError, Unit};

const WORDS: usize = 64 << 17;
/// Writes before begin, which bring the caches to where they stay.
const WARM: usize = 300_000;
const COUNTED: usize = 200_000;
/// Items that are written again and again.
const HOT: usize = 1000;

type Result<T, E = Box<dyn error::Error>> = std::result::Result<T, E>;

struct Nowhere;

impl Sink for Nowhere {
    fn push(&mut self, _: usize, _: &[u64]) -> Result<(), SinkError> {
        Ok(())
    }
}

/// One run, as the process under cachegrind does it.
#[derive(Debug, Clone, Copy)]
struct Run {
    item_bytes: usize,
    unit: Unit,
    is_uniform: bool,
    is_locked: bool,
    writes: usize,
}

impl Visitor for Run {
    type Output = Result<()>;

    fn visit<A: Algorithm>(self) -> Result<()> {
        A::available().map_err(|why| why.to_string())?;
        let mut state = A::create(&Options::words(WORDS).prefault(true).unit(self.unit))?;
        let items = WORDS * 8 / self.item_bytes;
        let all = if self.is_uniform { items } else { HOT };
        self.write_all(&mut state, 1, items, WARM);
        // Held to the end of the process: dropping it would copy what the writer has not, and so
        // cost less the more was written.
        let _held = ManuallyDrop::new(state.begin(Point::declare(), Nowhere)?);
        if !self.is_uniform {
            self.write_all(&mut state, 2, all, 20 * HOT); // each of them, as good as surely
        }
        self.write_all(&mut state, 3, all, self.writes);
        black_box(&state);
        Ok(())
    }
}

impl Run {
    /// The loop that is counted: an index from a generator of a few instructions, and a write.
    #[inline(never)]
    fn write_all<A: Algorithm>(self, state: &mut A, seed: u64, items: usize, count: usize) {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = || {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (((random >> 32) * items as u64) >> 32) as usize
        };
        if self.is_locked {
            let locks: Vec<_> = (0..WORDS / BLOCK_WORDS).map(|_| Mutex::new(())).collect();
            let per_page = BLOCK_WORDS * 8 / self.item_bytes;
            for value in 0..count {
                let item = next();
                let lock = black_box(&locks[item / per_page]);
                let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
                if self.item_bytes == 4 {
                    state.write_u32(item, value as u32);
                } else {
                    state.write(item, value as u64);
                }
            }
        } else if self.item_bytes == 4 {
            (0..count).for_each(|value| state.write_u32(next(), value as u32));
        } else {
            (0..count).for_each(|value| state.write(next(), value as u64));
        }
    }
}

/// Instructions, misses of the first cache and of the last one.
type Counts = [f64; 3];

/// What cachegrind counts in one run of this program with these arguments.
fn count(arguments: &[String]) -> Result<Counts> {
    let cachegrind = [
        "--tool=cachegrind",
        "--cache-sim=yes",
        "--cachegrind-out-file=/dev/null",
        "--child-silent-after-fork=yes",
        "--I1=32768,8,64",
        "--D1=49152,12,64",
        "--LL=8388608,16,64",
    ];
    let mut valgrind = Command::new("valgrind");
    let ran = valgrind.args(cachegrind).arg(env::current_exe()?).args(arguments).output();
    let ran =
        ran.map_err(|error| format!("running valgrind failed (is it installed?): {error}"))?;
    let printed = String::from_utf8_lossy(&ran.stderr);
    if !ran.status.success() {
        let why = printed
            .lines()
            .find(|line| !line.starts_with("==") && !line.starts_with("--"))
            .unwrap_or("no reason is given");
        return Err(why.into());
    }
    let number = |name: &str| {
        let line = printed.lines().find(|line| line.contains(name));
        let digits = line.and_then(|line| line.split(':').nth(1)?.split_whitespace().next());
        let number = digits.and_then(|digits| digits.replace(',', "").parse().ok());
        number.ok_or_else(|| format!("cachegrind printed no '{name}'"))
    };
    Ok([number("I   refs:")?, number("D1  misses:")?, number("LLd misses:")?])
}

/// What the rows are asked for.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// The unit of all rows.
    unit: Option<Unit>,
    lock: bool,
}

impl Asked {
    /// What a row is named.
    fn label(self, name: &str) -> String {
        if self.lock { format!("`{name}`, locked") } else { format!("`{name}`") }
    }
}

fn per_write(
    name: &str,
    item_bytes: usize,
    unit: Unit,
    place: &str,
    asked: Asked,
) -> Result<Counts> {
    let lock = if asked.lock { "lock" } else { "free" };
    let run = |writes: usize| {
        let (item_bytes, writes) = (item_bytes.to_string(), writes.to_string());
        count(&["--one", name, &item_bytes, unit.name(), place, lock, &writes].map(str::to_owned))
    };
    let (all, none) = (run(COUNTED)?, run(0)?);
    Ok([0, 1, 2].map(|at| (all[at] - none[at]) / COUNTED as f64))
}

fn row(info: &Info, item_bytes: usize, unit: Unit, asked: Asked) -> Result<String> {
    let [instructions, first, last] = per_write(info.name, item_bytes, unit, "uniform", asked)?;
    let [again, ..] = per_write(info.name, item_bytes, unit, "again", asked)?;
    let (name, unit) = (asked.label(info.name), unit.name());
    Ok(format!(
        "| {name} | {item_bytes} | {unit} | {instructions:.0} | {first:.2} | {last:.2} | {again:.0} |"
    ))
}

fn one(arguments: &[String]) -> Result<()> {
    let [name, item_bytes, unit, place, lock, writes] = arguments else {
        return Err("--one takes: name, bytes of an item, unit, uniform or again, lock or free, \
                    writes"
            .into());
    };
    let unit = Unit::ALL.iter().find(|known| known.name() == unit).ok_or("no such unit")?;
    let (item_bytes, writes) = (item_bytes.parse()?, writes.parse()?);
    let (is_uniform, is_locked) = (place == "uniform", lock == "lock");
    let run = Run { item_bytes, unit: *unit, is_uniform, is_locked, writes };
    algorithms::dispatch(name, run).ok_or("no such algorithm")?
}

fn table(names: &[String]) -> Result<()> {
    println!("| name | item, bytes | unit | instructions | misses | of the last cache | again |");
    println!("|---|---|---|---|---|---|---|");
    let is_asked = |word: &str| names.iter().any(|name| name == word);
    let unit = [Unit::Line, Unit::Page].into_iter().find(|unit| is_asked(unit.name()));
    let asked = Asked { unit, lock: is_asked("lock") };
    let is_named = |info: &&Info| {
        let is_name = |it: &&String| !["line", "page", "lock"].contains(&it.as_str());
        let named: Vec<_> = names.iter().filter(is_name).collect();
        named.is_empty() || named.iter().any(|name| *name == info.name)
    };
    for info in ALL.iter().filter(is_named) {
        let cases = [(4, Unit::Half), (4, Unit::Word), (8, Unit::Word)];
        let mut shown = Vec::new();
        for (item_bytes, unit) in cases {
            let unit = info.unit(asked.unit.unwrap_or(unit));
            if shown.contains(&(item_bytes, unit)) {
                continue; // there is but one
            }
            shown.push((item_bytes, unit));
            match row(info, item_bytes, unit, asked) {
                Ok(row) => println!("{row}"),
                Err(why) => {
                    let name = asked.label(info.name);
                    println!("| {name} | {item_bytes} | not counted: {why} |");
                }
            }
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    const _: () = assert!(BLOCK_WORDS == 512);
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = match arguments.split_first() {
        Some((first, rest)) if first == "--one" => one(rest),
        _ => table(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
