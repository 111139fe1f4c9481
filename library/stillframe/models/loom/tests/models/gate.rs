//! The gate before an object: what readers did with it happens before what the writer does once
//! nobody is within, and nobody comes in behind that.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::explore;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use stillframe_loom::{Gate, Mutant, with_mutant};

/// An object behind a gate: plain memory, every access of which loom knows.
#[derive(Default)]
struct Guarded {
    gate: Gate,
    object: UnsafeCell<u64>,
}

// SAFETY: loom reports every pair of accesses of which none happens before the other; that none
// does is what the models prove.
unsafe impl Sync for Guarded {}

impl Guarded {
    /// Whether the reader was let in.
    fn read(&self) -> bool {
        let within = self.gate.enter();
        if within.is_some() {
            self.object.with(|object| {
                // SAFETY: see `Sync`.
                assert_eq!(unsafe { *object }, 0, "the object is there");
            });
        }
        within.is_some()
    }

    fn free(&self) {
        self.object.with_mut(|object| {
            // SAFETY: see `Sync`.
            unsafe { *object = 1 };
        });
    }
}

/// Readers that come and go, and a writer that looks now and then.
fn readers_leave_before_it_is_freed() {
    let guarded = Arc::<Guarded>::default();
    let readers: Vec<_> = (0..2)
        .map(|reads| {
            let guarded = Arc::clone(&guarded);
            thread::spawn(move || (0..=reads).filter(|_| guarded.read()).count())
        })
        .collect();
    guarded.gate.clear();
    guarded.free();
    for reader in readers {
        reader.join().expect("no panic");
    }
    assert!(guarded.gate.is_shut() && !guarded.read());
}

#[test]
fn what_is_read_is_there() {
    explore(3, readers_leave_before_it_is_freed);
}

#[test]
fn gate_rejects() {
    for mutant in [
        Mutant::GateLooksBeforeItCounts,
        Mutant::GateStaysOpen,
        Mutant::GateForgetsReaders,
        Mutant::GateEmptyRelaxed,
        Mutant::GateLeavesRelaxed,
    ] {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            explore(3, move || with_mutant(mutant, readers_leave_before_it_is_freed));
        }));
        let Err(panic) = outcome else { panic!("{mutant:?} is accepted") };
        let said = panic.downcast_ref::<String>().map_or("", |text| text.as_str());
        let faults = ["ausality", "the object is there", "is_shut"];
        assert!(faults.iter().any(|fault| said.contains(fault)), "{mutant:?}: {said}");
    }
}
