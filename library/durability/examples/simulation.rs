//! Particles on a ring, tick by tick. Kill it at any moment and start it again: it goes on from a
//! whole tick, never from the middle of one.
//!
//! ```text
//! cargo run --example simulation -- DIRECTORY [--ticks N] [--crash-after N]
//! ```
//!
//! Each tick depends on the state and on the wind, which comes from outside. So the wind is logged,
//! and ticks after the last checkpoint are done again with the wind that they had.
//!
//! Every tick moves every particle and lets some pairs collide: they swap their velocities. So two
//! sums are known at the end of each tick, and a state caught within one would give itself away:
//! the velocities always add up to the same, and the positions to that times the number of ticks.

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stillframe_durability::{Act, ActStore, LogOptions, Options, Policy, Store};

const PARTICLES: usize = 20_000;
const MOMENTUM: u64 = (PARTICLES * (PARTICLES + 1) / 2) as u64;

// The state in words: the number of ticks, then position and velocity of each particle.
const TICK: usize = 0;
const WORDS: usize = 1 + 2 * PARTICLES;

fn position(particle: usize) -> usize {
    1 + 2 * particle
}
fn velocity(particle: usize) -> usize {
    2 + 2 * particle
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("simulation: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: simulation DIRECTORY [--ticks N] [--crash-after N]";
    let directory = arguments.next().ok_or(usage)?;
    let (mut ticks, mut crash_after) = (1000, u64::MAX);
    while let Some(option) = arguments.next() {
        let number = arguments.next().ok_or(usage)?.parse()?;
        match option.as_str() {
            "--ticks" => ticks = number,
            "--crash-after" => crash_after = number,
            _ => return Err(usage.into()),
        }
    }

    let options = Options::words(WORDS)
        .every(Duration::from_millis(20))
        .checkpoint_on_close()
        .log(LogOptions::policy(Policy::EverySecond));
    let mut state = ActStore::open_records(directory, options, |state, action| {
        tick(state, u64::from_le_bytes(action.bytes.try_into()?));
        Ok(())
    })?;
    check(&state)?;
    println!("starting at tick {}", state.read(TICK));

    for done in 0..ticks {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let wind = u64::from(clock.subsec_nanos());
        let mut act = state.log(&wind.to_le_bytes())?;
        tick(&mut act, wind);
        act.commit()?; // the tick is over: a checkpoint may begin here
        if done == crash_after {
            std::process::abort();
        }
    }
    let stats = state.stats();
    println!("ending at tick {}", state.read(TICK));
    println!(
        "{} checkpoints; the longest held the simulation up for {:?}",
        stats.checkpoints, stats.begin_max
    );
    Ok(state.close()?)
}

fn tick(state: &mut Act<'_>, wind: u64) {
    let tick = state.read(TICK);
    if tick == 0 {
        for particle in 0..PARTICLES {
            state.write(velocity(particle), particle as u64 + 1);
        }
    }
    for particle in 0..PARTICLES {
        let moved = state.read(position(particle)).wrapping_add(state.read(velocity(particle)));
        state.write(position(particle), moved);
    }
    for collision in 0..PARTICLES / 10 {
        let left = (collision * 7919 + wind as usize) % PARTICLES;
        let right = (collision * 104_729 + tick as usize) % PARTICLES;
        let (one, other) = (state.read(velocity(left)), state.read(velocity(right)));
        state.write(velocity(left), other);
        state.write(velocity(right), one);
    }
    state.write(TICK, tick + 1);
}

fn check(state: &Store) -> Result<(), String> {
    let sum = |word: fn(usize) -> usize| {
        (0..PARTICLES).map(|particle| state.read(word(particle))).fold(0, u64::wrapping_add)
    };
    let (positions, momentum, tick) = (sum(position), sum(velocity), state.read(TICK));
    let expected = if tick == 0 { 0 } else { MOMENTUM }; // the first tick brings the particles
    if momentum == expected && positions == tick.wrapping_mul(MOMENTUM) {
        return Ok(());
    }
    Err(format!("tick {tick} is not whole: momentum {momentum}, positions {positions}"))
}
