//! The cursor of a scan over the slots: its position, and its end.
//!
//! - A key keeps its slot as long as it lives, so a key that exists from the first call to the last
//!   lies below the slots used at the first call. A scan ends there, however many keys are added.
//! - The lower 32 bits are the next slot. Above them is the end, rounded up to seven bits and an
//!   exponent, and a bit for the part of the scan: 46 bits in all, which every client's numbers
//!   hold.
//! - In a branch, a scan has two parts: first it meets what the database shows of others, then what
//!   it has. Keys go from there to here alone, so none is missed.

use crate::memory::shown::mutants::Mutant;

/// Bits of a slot.
const SLOT_BITS: u32 = 32;
/// Bits of the end's number, before its exponent.
const NUMBER_BITS: u32 = 7;
/// The bit of the first part of a scan in a branch.
const BENEATH: u64 = 1 << 45;

/// A scan that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The next slot.
    pub(crate) next: usize,
    end: u64,
    /// It meets what the database shows of others.
    pub(crate) is_beneath: bool,
}

impl Cursor {
    /// The cursor that a client's number stands for: 0 begins a scan over `used` slots, with what
    /// the database shows of others if it is a branch.
    pub(crate) fn read(cursor: u64, used: usize, is_branch: bool) -> Self {
        let is_beneath = if cursor == 0 { is_branch } else { cursor & BENEATH != 0 };
        let end = (cursor & !BENEATH) >> SLOT_BITS;
        let next = cursor & ((1 << SLOT_BITS) - 1);
        let end = if end == 0 { rounded_up(used as u64) } else { end };
        Self { next: next as usize, end, is_beneath }
    }

    /// The same scan, further on.
    pub(crate) fn at(self, next: usize) -> Self {
        Self { next, ..self }
    }

    /// The second part of this scan. What was changed meanwhile may lie in new slots.
    pub(crate) fn second_part(self, used: usize) -> Self {
        if Mutant::EndsEarly.is_made() {
            return Self { is_beneath: false, ..self.at(0) };
        }
        Self::read(0, used, false)
    }

    /// The slot before which the scan ends.
    pub(crate) fn end(self) -> usize {
        let number = self.end & ((1 << NUMBER_BITS) - 1);
        let end = u32::try_from(self.end >> NUMBER_BITS).ok().and_then(|e| 1u64.checked_shl(e));
        usize::try_from(number.saturating_mul(end.unwrap_or(u64::MAX))).unwrap_or(usize::MAX)
    }

    /// The number for the client.
    pub(crate) fn write(self) -> u64 {
        let part = if self.is_beneath { BENEATH } else { 0 };
        part | self.end << SLOT_BITS | self.next as u64
    }
}

/// The least number of that form that is not less.
fn rounded_up(end: u64) -> u64 {
    let exponent = (u64::BITS - end.leading_zeros()).saturating_sub(NUMBER_BITS - 1);
    let number = end.div_ceil(1 << exponent);
    u64::from(exponent) << NUMBER_BITS | number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_little_above_what_was_used() {
        let powers = (0..32).map(|power| 1usize << power);
        // Without slots in use the first call is the last.
        let around = powers.flat_map(|power| [power - 1, power, power + 1]);
        for used in around.chain([3000, 1 << 32]).filter(|&used| used > 0) {
            let cursor = Cursor::read(0, used, used % 2 == 1);
            assert_eq!(cursor.next, 0);
            let end = cursor.end();
            assert!(used <= end && end <= used + used / 32, "{used}: {end}");
            let later = Cursor { next: used.min(u32::MAX as usize), ..cursor };
            assert!(later.write() < 1 << 46, "{used}");
            assert_eq!(Cursor::read(later.write(), 7, false), later, "{used}");
        }
    }

    #[test]
    fn any_number_is_a_cursor() {
        for cursor in [1, u64::MAX, u64::MAX << 32, 1 << 39, 1 << 45, 0xffff_0000_0000] {
            let cursor = Cursor::read(cursor, 100, true);
            let _ = cursor.end();
        }
    }
}
