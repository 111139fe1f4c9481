//! How many registers a sketch has, and where they lie in its string.

/// log2 of the number of registers.
pub(super) const REGISTER_BITS: u32 = 14;
pub(super) const REGISTERS: usize = 1 << REGISTER_BITS;
/// Where the count lies.
pub(super) const COUNT_AT: usize = 8;
/// Where the registers begin.
pub(super) const REGISTERS_AT: usize = 16;
pub(super) const CORRUPT: &str = "INVALIDOBJ Corrupted HLL object detected";
