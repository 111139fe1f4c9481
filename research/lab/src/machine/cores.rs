//! A core each for writer and snapshotter, where there are two.

use rustix::thread::{CpuSet, sched_setaffinity};
use stillframe_measure::environment::allowed_cores;

/// Which core is whose.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cores {
    pair: Option<(usize, usize)>,
}

impl Cores {
    /// Two of the cores that this process may use, if it may use two. With several copying threads
    /// nobody is pinned: threads inherit the cores of the one that starts them. With `cores` 1 all
    /// share one core.
    pub(crate) fn choose(threads: usize, cores: usize) -> Self {
        let allowed = allowed_cores();
        let pair = match allowed.as_slice() {
            [only, ..] if cores == 1 => Some((*only, *only)),
            [first, .., last] if threads <= 1 => Some((*last, *first)),
            _ => None,
        };
        Self { pair }
    }
    /// Keeps every thread of the process on one core, if they share one: threads started after this
    /// inherit the core.
    pub(crate) fn share(self) {
        if self.pair.is_some_and(|(writer, snapshotter)| writer == snapshotter) {
            self.enter_writer();
        }
    }
    pub(crate) fn are_pinned(self) -> bool {
        self.pair.is_some()
    }
    /// Keeps the calling thread on the writer's core.
    pub(crate) fn enter_writer(self) {
        if let Some((writer, _)) = self.pair {
            pin(writer);
        }
    }
    /// Keeps the calling thread, or forked child, on the snapshotter's core.
    pub(crate) fn enter_snapshotter(self) {
        if let Some((_, snapshotter)) = self.pair {
            pin(snapshotter);
        }
    }
}

/// Best effort: figures of an unpinned thread are noisier, not wrong.
fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    let _ = sched_setaffinity(None, &set);
}
