//! What durability costs on this machine: one measurement per call, one JSON line each. The script
//! `scripts/bench.py store` drives it: it repeats them in turns and puts dd beside them.
//!
//! ```text
//! cargo run --release --example figures -- checkpoint DIRECTORY MEGABYTES [pack]
//! ```

mod log;
mod state;

use std::error::Error;
use std::process::ExitCode;

const USAGE: &str = "usage: figures CASE ARGUMENTS, where CASE is one of
  write MEGABYTES                             writes of random words, with and without increments
  checkpoint DIRECTORY MEGABYTES [pack]       a full checkpoint
  increment DIRECTORY MEGABYTES PERCENT       one of so many percent of the blocks, and a merge
  chain DIRECTORY MEGABYTES PERCENT COUNT     a base and so many of these, not merged
  recover DIRECTORY MEGABYTES [THREADS]       what checkpoint, increment or chain left
  replay DIRECTORY MEGABYTES ACTIONS          recovery of a log of so many actions
  log DIRECTORY POLICY ACTIONS                actions a second
  fsync FILE TIMES                            writes of 60 bytes, each synced
  latency DIRECTORY MEGABYTES SECONDS CAP     commits while checkpoints write CAP bytes/s
                                              (0: there are none, 1: there is no cap)
  tick DIRECTORY MEGABYTES POLICY             the writer's mean tick; POLICY may be none";

pub(crate) type Printed = Result<String, Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(line) => println!("{line}"),
        Err(error) => {
            eprintln!("figures: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn run(arguments: &[&str]) -> Printed {
    match *arguments {
        ["write", megabytes] => state::write(megabytes.parse()?),
        ["checkpoint", directory, megabytes] => {
            state::checkpoint(directory, megabytes.parse()?, false)
        }
        ["checkpoint", directory, megabytes, "pack"] => {
            state::checkpoint(directory, megabytes.parse()?, true)
        }
        ["increment", directory, megabytes, percent] => {
            state::increment(directory, megabytes.parse()?, percent.parse()?)
        }
        ["chain", directory, megabytes, percent, count] => {
            state::chain(directory, megabytes.parse()?, percent.parse()?, count.parse()?)
        }
        ["recover", directory, megabytes] => state::recover(directory, megabytes.parse()?, None),
        ["recover", directory, megabytes, threads] => {
            state::recover(directory, megabytes.parse()?, Some(threads.parse()?))
        }
        ["replay", directory, megabytes, actions] => {
            log::replay(directory, megabytes.parse()?, actions.parse()?)
        }
        ["log", directory, policy, actions] => {
            log::throughput(directory, log::policy(policy)?, actions.parse()?)
        }
        ["fsync", file, times] => log::fsync(file, times.parse()?),
        ["latency", directory, megabytes, seconds, cap] => {
            log::latency(directory, megabytes.parse()?, seconds.parse()?, cap.parse()?)
        }
        ["tick", directory, megabytes, "none"] => log::tick(directory, megabytes.parse()?, None),
        ["tick", directory, megabytes, policy] => {
            log::tick(directory, megabytes.parse()?, Some(log::policy(policy)?))
        }
        _ => Err(USAGE.into()),
    }
}

/// Words of this many megabytes.
pub(crate) fn words(megabytes: usize) -> usize {
    (megabytes * 1_000_000 / 8).max(1)
}

/// Numbers in no order that a processor foresees.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((u128::from(self.0) * bound as u128) >> 64) as usize
    }
}
