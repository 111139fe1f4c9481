//! The cursor of a scan over the slots: its position, and its end.
//!
//! - A key keeps its slot as long as it lives, so a key that exists from the first call to the last
//!   lies below the slots used at the first call. A scan ends there, however many keys are added.
//! - The lower 32 bits are the next slot. Above them is the end, rounded up to seven bits and an
//!   exponent: 45 bits in all, which every client's numbers hold.

/// Bits of a slot.
const SLOT_BITS: u32 = 32;
/// Bits of the end's number, before its exponent.
const NUMBER_BITS: u32 = 7;

/// A scan that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The next slot.
    pub(crate) next: usize,
    end: u64,
}

impl Cursor {
    /// The cursor that a client's number stands for: 0 begins a scan over `used` slots.
    pub(crate) fn read(cursor: u64, used: usize) -> Self {
        let end = cursor >> SLOT_BITS;
        let next = cursor & ((1 << SLOT_BITS) - 1);
        Self { next: next as usize, end: if end == 0 { rounded_up(used as u64) } else { end } }
    }

    /// The same scan, further on.
    pub(crate) fn at(self, next: usize) -> Self {
        Self { next, ..self }
    }

    /// The slot before which the scan ends.
    pub(crate) fn end(self) -> usize {
        let number = self.end & ((1 << NUMBER_BITS) - 1);
        let end = u32::try_from(self.end >> NUMBER_BITS).ok().and_then(|e| 1u64.checked_shl(e));
        usize::try_from(number.saturating_mul(end.unwrap_or(u64::MAX))).unwrap_or(usize::MAX)
    }

    /// The number for the client.
    pub(crate) fn write(self) -> u64 {
        self.end << SLOT_BITS | self.next as u64
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
            let cursor = Cursor::read(0, used);
            assert_eq!(cursor.next, 0);
            let end = cursor.end();
            assert!(used <= end && end <= used + used / 32, "{used}: {end}");
            let later = Cursor { next: used.min(u32::MAX as usize), ..cursor };
            assert!(later.write() < 1 << 45, "{used}");
            assert_eq!(Cursor::read(later.write(), 7), later, "{used}");
        }
    }

    #[test]
    fn any_number_is_a_cursor() {
        for cursor in [1, u64::MAX, u64::MAX << 32, 1 << 39, 1 << 45, 0xffff_0000_0000] {
            let cursor = Cursor::read(cursor, 100);
            let _ = cursor.end();
        }
    }
}
