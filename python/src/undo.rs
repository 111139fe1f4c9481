//! What words held before an act, newest last.

use std::ops::Range;

use stillframe_durability::Store;

/// Runs of words with what they held.
#[derive(Default)]
pub(crate) struct Undo {
    runs: Vec<Range<usize>>,
    values: Vec<u64>,
}

impl Undo {
    pub(crate) fn note(&mut self, store: &Store, run: Range<usize>) {
        let at = self.values.len();
        self.values.resize(at + run.len(), 0);
        store.read_run(run.start, &mut self.values[at..]);
        self.runs.push(run);
    }

    /// Puts everything back.
    pub(crate) fn undo(mut self, mut write: impl FnMut(usize, &[u64])) {
        for run in self.runs.into_iter().rev() {
            let old = self.values.split_off(self.values.len() - run.len());
            write(run.start, &old);
        }
    }

    /// The runs in rising order, none of them touching another.
    pub(crate) fn written(&self) -> Vec<Range<usize>> {
        let mut runs: Vec<_> = self.runs.iter().filter(|run| !run.is_empty()).cloned().collect();
        runs.sort_unstable_by_key(|run| run.start);
        runs.dedup_by(|next, run| {
            let touches = next.start <= run.end;
            if touches {
                run.end = run.end.max(next.end);
            }
            touches
        });
        runs
    }
}
