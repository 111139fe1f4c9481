//! What every algorithm must keep, proved for every line of the registry.
//!
//! A *property* is a function of a seed that runs one algorithm and says what it found broken. The
//! registry macro below makes each property a test of each algorithm; `mutants` turns the suite
//! against deliberately broken builds, and must reject each. The oracle is a plain `Vec`
//! that sees the same writes and is copied at begin; it knows nothing of how images are made.
//!
//! - `probe`: the sink, whose expectations and manners were fixed before begin, so that it also
//!   works in a forked child; what it finds lies in shared memory.
//! - `rig`: a state, its oracle, random writes, and captures stopped at every block.
//! - `properties`: images under random schedules. `race`: at full speed. `budget`: Imprint's arena.
//!   `engine`: the thread around an algorithm. `incremental`: units, images that do not count, and
//!   recovery from increments. `several`: images held at a time. `sinks`: whatever sinks may
//!   do, image after image. `sleep`: units that are not written for many images.
//!
//! A failure names its seed; `STILLFRAME_SEED=n` runs that seed alone. `STILLFRAME_LONG=1`
//! multiplies the work.

mod budget;
mod engine;
mod incremental;
mod mutants;
mod probe;
mod properties;
mod race;
mod rig;
mod several;
mod sinks;
mod sleep;

use std::io::Write as _;
use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::Algorithm;

/// Nothing, or what is broken.
type Verdict = Result<(), String>;
/// Something that must hold, as a function of a seed.
type Property = fn(u64) -> Verdict;

/// Fails with the sentence that follows unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $($sentence:tt)*) => {
        if !$holds {
            return Err(format!($($sentence)*));
        }
    };
}
use ensure;

fn is_long() -> bool {
    std::env::var_os("STILLFRAME_LONG").is_some_and(|value| value == "1")
}

/// `count` repetitions, fewer where each instruction is interpreted, more where asked for.
fn rounds(count: usize) -> usize {
    match () {
        () if cfg!(miri) => count.div_ceil(20),
        () if is_long() => count * 20,
        () => count,
    }
}

/// Whether this machine does not let an algorithm run. If so its tests pass, and say so past the
/// test harness's capture.
fn is_missing<A: Algorithm>() -> bool {
    let Err(why) = A::available() else { return false };
    let _ = writeln!(std::io::stderr(), "SKIPPED: {}: {why}", A::INFO.name);
    true
}

/// What `body` says, or that it does not end: a test that hangs would say nothing. The limit is a
/// hundred times what anything takes, so it decides no test that passes.
fn in_time(body: impl FnOnce() -> Verdict + Send + 'static) -> Verdict {
    let seconds = if is_long() { 3600 } else { 300 };
    let (sender, receiver) = channel();
    let thread = thread::spawn(move || _ = sender.send(body()));
    let limit = Duration::from_secs(if cfg!(miri) { u64::from(u32::MAX) } else { seconds });
    let verdict = receiver.recv_timeout(limit);
    if let Err(RecvTimeoutError::Timeout) = verdict {
        return Err(format!("not ended after {seconds} s: somebody waits for ever"));
    }
    match (thread.join(), verdict) {
        (Err(panic), _) => resume_unwind(panic),
        (Ok(()), verdict) => verdict.unwrap_or_else(|_| Err("said nothing".into())),
    }
}

/// Runs a property with several seeds.
fn prove(property: Property, seeds: usize) {
    let asked = std::env::var("STILLFRAME_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    // More work a seed where asked for, not more seeds as well: that would be 400 times the work.
    let seeds = if is_long() { seeds } else { rounds(seeds) };
    let all = 1..=seeds as u64;
    for seed in asked.map_or(all, |seed| seed..=seed) {
        if let Err(sentence) = in_time(move || property(seed)) {
            panic!("STILLFRAME_SEED={seed}: {sentence}");
        }
    }
}

macro_rules! suite {
    ($($module:ident::$algorithm:ident { $($facts:tt)* })*) => {
        $(#[allow(non_snake_case, reason = "named as the type")]
        mod $algorithm {
            use crate::algorithms::$module::$algorithm as Subject;
            suite!(@properties
                properties::every_word_of_every_image, 12;
                properties::every_size, 2;
                properties::partial_words, 8;
                properties::growth_during_images, 8;
                properties::images_that_fail, 12;
                properties::cancelled_images_have_no_words, 4;
                properties::hundreds_of_images, 1;
                properties::busy_while_held, 2;
                properties::out_of_bounds, 1;
                sleep::units_that_sleep, 1;
                incremental::every_unit, 4;
                incremental::increments_recover, 4;
                sinks::whatever_sinks_do, 6;
                race::pairs_stay_together, 4;
                race::random_access, 4;
                race::many_images_under_load, 2;
                race::writes_chase_the_capture, 8;
                engine::images_in_a_row, 2;
                engine::bad_sinks_and_publishers, 2;
                engine::drop_half_way, 6;
            );
        })*
    };
    (@properties $($part:ident::$property:ident, $seeds:expr;)*) => {
        $(#[test]
        fn $property() {
            use crate::Algorithm;
            // Nothing can be forked where every instruction is interpreted.
            if cfg!(miri) && !Subject::INFO.in_process || super::is_missing::<Subject>() {
                return;
            }
            super::prove(super::$part::$property::<Subject>, $seeds);
        })*
    };
}

crate::for_each_algorithm!(suite);
