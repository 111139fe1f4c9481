//! The keys of one database that have a time to live, visited in turn.
//!
//! Slots lie in a dense list, and each slot knows its position in it (in [`Sparse`], one for all
//! databases), so that adding and removing are O(1). A walk goes downwards: a removal moves the
//! last slot of the list, which the walk has passed, into the gap. So a walk visits every key once
//! in `len` steps, which random sampling does only on average.

use crate::memory::chunks::{Sparse, Stack};

/// The slots of keys with a time to live, in no order.
pub(crate) struct Expiries {
    slots: Stack,
    /// Positions from here on were visited in this round.
    cursor: usize,
}

impl Default for Expiries {
    fn default() -> Self {
        Self { slots: Stack::default(), cursor: usize::MAX }
    }
}

impl Expiries {
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn add(&mut self, slot: u32, positions: &mut Sparse) {
        positions.set(slot as usize, self.slots.len() as u32);
        self.slots.push(slot);
    }

    /// Removes a slot that was added.
    pub(crate) fn remove(&mut self, slot: u32, positions: &mut Sparse) {
        let position = positions.get(slot as usize) as usize;
        debug_assert_eq!(self.slots.get(position), slot, "a slot knows its position");
        let last = self.slots.pop().expect("a slot that was added is in the list");
        if last != slot {
            self.slots.set(position, last);
            positions.set(last as usize, position as u32);
        }
    }

    /// Any slot, by random bits.
    pub(crate) fn random(&self, bits: u64) -> Option<u32> {
        let at = bits.checked_rem(self.slots.len() as u64)?;
        Some(self.slots.get(at as usize))
    }

    /// The next slot of the walk; `None` after each round.
    pub(crate) fn next(&mut self) -> Option<u32> {
        match self.cursor.min(self.slots.len()) {
            0 => {
                self.cursor = usize::MAX;
                None
            }
            cursor => {
                self.cursor = cursor - 1;
                Some(self.slots.get(cursor - 1))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_meets_every_slot_though_some_are_removed() {
        let (mut expiries, mut positions) = (Expiries::default(), Sparse::default());
        (0..50).for_each(|slot| expiries.add(slot * 3, &mut positions));
        let mut met = Vec::new();
        while let Some(slot) = expiries.next() {
            met.push(slot);
            if slot % 2 == 0 {
                expiries.remove(slot, &mut positions);
            }
        }
        met.sort_unstable();
        assert_eq!(met, (0..50).map(|slot| slot * 3).collect::<Vec<_>>());
        assert_eq!(expiries.len(), 25);
        expiries.add(7, &mut positions);
        while let Some(slot) = expiries.next() {
            expiries.remove(slot, &mut positions);
        }
        assert_eq!(expiries.len(), 0);
    }
}
