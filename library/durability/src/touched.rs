//! Which blocks were written since the last durable checkpoint: what an increment of an algorithm
//! with full images holds.
//!
//! - One byte a block of 4 KiB, which each write stores and none reads: no branch on data, no
//!   atomic, and a table that the caches hold (0.02 % of the state).
//! - At begin the writer gives its table away and goes on with an empty one, O(1). The snapshotter
//!   owns the full one until the checkpoint is durable or has failed; then its marks are cleared,
//!   or kept for the next checkpoint. Neither thread touches the other's table.
//! - A table that is lost with its checkpoint (a panic, a failed begin) costs a full checkpoint,
//!   never a block.

use stillframe::BLOCK_WORDS;

/// The writer's table; empty if no increments are made.
#[derive(Debug, Default)]
pub(crate) struct Touched(Vec<u8>);

impl Touched {
    /// A table for a state of `words` words.
    pub(crate) fn new(words: usize) -> Self {
        Self(vec![0; words.div_ceil(BLOCK_WORDS)])
    }

    /// Word `index` is written.
    #[inline]
    pub(crate) fn mark(&mut self, index: usize) {
        if let Some(mark) = self.0.get_mut(index / BLOCK_WORDS) {
            *mark = 1;
        }
    }

    /// Words from `start` on are written.
    pub(crate) fn mark_run(&mut self, start: usize, words: usize) {
        let blocks = start / BLOCK_WORDS..(start + words).div_ceil(BLOCK_WORDS);
        if words > 0
            && let Some(marks) = self.0.get_mut(blocks)
        {
            marks.fill(1);
        }
    }

    /// The state has grown. New words are zero, and so they are where no file has a block of them.
    pub(crate) fn grow(&mut self, words: usize) {
        if !self.0.is_empty() {
            self.0.resize(words.div_ceil(BLOCK_WORDS), 0);
        }
    }
}

/// What was written up to a begin.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// Since the begin before.
    period: Vec<u8>,
    /// What was written before, and is in no durable checkpoint since those between failed.
    missed: Vec<u8>,
}

impl Tables {
    /// Exchanges the writer's table for an empty one. The caller has [concluded](Self::conclude)
    /// the checkpoint before.
    pub(crate) fn begin(&mut self, touched: &mut Touched) {
        std::mem::swap(&mut self.period, &mut touched.0);
        touched.0.resize(self.period.len(), 0);
    }

    /// Whether the block was written.
    pub(crate) fn has(&self, block: usize) -> bool {
        [&self.period, &self.missed].iter().any(|table| table.get(block).is_some_and(|&is| is != 0))
    }

    /// The checkpoint is durable, or its marks are still to be seen to.
    pub(crate) fn conclude(&mut self, is_durable: bool) {
        if is_durable {
            self.missed.fill(0);
        } else {
            self.missed.resize(self.period.len().max(self.missed.len()), 0);
            for (missed, &now) in self.missed.iter_mut().zip(&self.period) {
                *missed |= now;
            }
        }
        self.period.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(tables: &Tables) -> Vec<usize> {
        (0..9).filter(|&block| tables.has(block)).collect()
    }

    #[test]
    fn marks_are_of_their_period_and_survive_a_failure() {
        let (mut touched, mut tables) = (Touched::new(3 * BLOCK_WORDS), Tables::default());
        touched.mark(0);
        touched.mark_run(2 * BLOCK_WORDS - 1, 0);
        tables.begin(&mut touched);
        touched.mark_run(BLOCK_WORDS - 1, 2);
        assert_eq!(marked(&tables), [0]);
        tables.conclude(true);
        tables.begin(&mut touched);
        assert_eq!(marked(&tables), [0, 1]);
        tables.conclude(false);
        touched.grow(4 * BLOCK_WORDS);
        touched.mark(3 * BLOCK_WORDS);
        tables.begin(&mut touched);
        assert_eq!(marked(&tables), [0, 1, 3]);
        tables.conclude(true);
        tables.begin(&mut touched);
        assert_eq!(marked(&tables), []);
    }

    #[test]
    fn both_tables_grow_with_the_state() {
        let (mut touched, mut tables) = (Touched::new(BLOCK_WORDS), Tables::default());
        tables.begin(&mut touched);
        tables.conclude(true);
        touched.grow(2 * BLOCK_WORDS);
        for period in 0..4 {
            touched.mark(BLOCK_WORDS);
            tables.begin(&mut touched);
            assert_eq!(marked(&tables), [1], "period {period}");
            tables.conclude(true);
        }
    }

    #[test]
    fn nobody_asks_of_an_empty_table() {
        let mut touched = Touched::default();
        touched.mark(5);
        touched.grow(BLOCK_WORDS);
        touched.mark(5);
        let mut tables = Tables::default();
        tables.begin(&mut touched);
        assert_eq!(marked(&tables), []);
    }
}
