//! A set of slots, a bit each: a scan of one database passes slots that are empty, or belong to
//! other databases, 64 or 4096 at a step.
//!
//! ```text
//! slot:  31 .. 12: part  |  11 .. 6: line of the part  |  5 .. 0: bit of the line
//! ```
//! Invariants
//! - A part without slots takes no memory but its place in the list of parts.
//! - A bit of `filled` is set exactly if its line has slots.

use std::ops::Deref;

/// Bits of a line, and lines of a part.
const WIDTH: usize = u64::BITS as usize;
const PART: usize = WIDTH * WIDTH;

/// Slots, found in their order.
#[derive(Default)]
pub(crate) struct SlotSet {
    parts: Vec<Option<Box<Part>>>,
}

struct Part {
    /// A bit for each line.
    filled: u64,
    lines: [u64; WIDTH],
}

impl SlotSet {
    /// Adds a slot that is not there.
    pub(crate) fn insert(&mut self, slot: u32) {
        let (part, line, bit) = place(slot as usize);
        if part >= self.parts.len() {
            self.parts.resize_with(part + 1, || None);
        }
        let empty = || Box::new(Part { filled: 0, lines: [0; WIDTH] });
        let part = self.parts[part].get_or_insert_with(empty);
        part.lines[line] |= 1 << bit;
        part.filled |= 1 << line;
    }

    /// Removes a slot that is there.
    pub(crate) fn remove(&mut self, slot: u32) {
        let (number, line, bit) = place(slot as usize);
        let part = self.parts[number].as_mut().expect("a slot that was added has a part");
        part.lines[line] &= !(1 << bit);
        if part.lines[line] == 0 {
            part.filled &= !(1 << line);
        }
        if part.filled == 0 {
            self.parts[number] = None;
        }
    }

    /// The first slot from this one on.
    pub(crate) fn next(&self, from: usize) -> Option<u32> {
        let mut parts = self.parts.iter().enumerate().skip(from / PART);
        let mut from = from % PART;
        parts.find_map(|(number, part)| {
            let at = part.as_ref().and_then(|part| part.next(from));
            from = 0;
            at.map(|at| slot_of(number, at))
        })
    }

    /// The slots, in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        let parts = self.parts.iter().enumerate();
        parts.flat_map(|(number, part)| slots_of(number, part.as_deref()))
    }

    /// The slots, in their order, giving memory back part by part.
    pub(crate) fn into_slots(self) -> impl Iterator<Item = u32> + Send {
        let parts = self.parts.into_iter().enumerate();
        parts.flat_map(|(number, part)| slots_of(number, part))
    }
}

impl Part {
    /// The first slot of the part from this one on, counted from the part's first.
    fn next(&self, from: usize) -> Option<usize> {
        let (_, line, bit) = place(from);
        let here = self.lines[line] & (u64::MAX << bit);
        if here != 0 {
            return Some(line * WIDTH + here.trailing_zeros() as usize);
        }
        let after = self.filled & (u64::MAX << line) & !(1 << line);
        let line = (after != 0).then(|| after.trailing_zeros() as usize)?;
        Some(line * WIDTH + self.lines[line].trailing_zeros() as usize)
    }
}

/// The slots of a part.
fn slots_of(number: usize, part: Option<impl Deref<Target = Part>>) -> impl Iterator<Item = u32> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = part.as_deref().filter(|_| from < PART)?.next(from)?;
        from = at + 1;
        Some(slot_of(number, at))
    })
}

fn slot_of(part: usize, at: usize) -> u32 {
    (part * PART + at) as u32
}

/// Part, line and bit of a slot.
fn place(slot: usize) -> (usize, usize, usize) {
    (slot / PART, slot / WIDTH % WIDTH, slot % WIDTH)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::model::{Random, sized};

    #[test]
    fn a_set_of_slots_is_an_ordered_set() {
        let mut random = Random::seeded("slot set");
        let (mut set, mut oracle) = (SlotSet::default(), BTreeSet::new());
        for step in 0..sized(20_000, 600) {
            // Lines, parts and their borders, some of them far away.
            let near = random.below(3) * PART + random.below(4) * WIDTH + random.below(WIDTH);
            let slot = if random.below(20) == 0 { near * 50 } else { near } as u32;
            let grows = step % 4000 < 2000;
            if grows && oracle.insert(slot) {
                set.insert(slot);
            } else if !grows {
                let there = oracle.range(slot..).chain(&oracle).next().copied();
                if let Some(slot) = there {
                    set.remove(slot);
                    oracle.remove(&slot);
                }
            }
            let from = random.below(5 * PART);
            assert_eq!(set.next(from), oracle.range(from as u32..).next().copied(), "{from}");
            if step % 100 == 0 {
                assert!(set.iter().eq(oracle.iter().copied()), "step {step}");
            }
        }
        let slots = std::mem::take(&mut set).into_slots();
        assert!(slots.eq(oracle.iter().copied()));
        oracle.iter().for_each(|&slot| set.insert(slot));
        oracle.iter().for_each(|&slot| set.remove(slot));
        assert!(set.parts.iter().all(Option::is_none), "what is empty takes no memory");
        assert_eq!(set.next(0), None);
    }
}
