//! CRC-64 as RDB uses it: polynomial of Jones, reflected, starting from 0.
//!
//! `crc-fast` does the work: it folds with carry-less multiplication where the processor has it. On
//! others (x86-64 before 2010) it falls back to tables behind a lock, a hazard in a forked child.

use std::fmt;

use crc_fast::{CrcParams, Digest};

/// A running checksum. Computing allocates and locks nothing after [`new`](Crc64::new).
#[derive(Clone)]
pub struct Crc64(Digest);

impl Crc64 {
    /// The checksum of nothing. Fills `crc-fast`'s process-wide tables if it is the first.
    #[must_use]
    pub fn new() -> Self {
        const POLYNOMIAL: u64 = 0xad93_d235_94c9_35a9;
        const CHECK: u64 = 0xe9c6_d914_c4b8_d9ca;
        let mut digest = Digest::new_with_params(CrcParams::new(
            "CRC-64/REDIS",
            64,
            POLYNOMIAL,
            0,
            true,
            0,
            CHECK,
        ));
        digest.update(b"the first use detects the processor");
        digest.reset();
        Crc64(digest)
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes so far.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.finalize()
    }
}

impl Default for Crc64 {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Crc64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Crc64({:016x})", self.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bitwise(bytes: &[u8]) -> u64 {
        bytes.iter().fold(0u64, |crc, &byte| {
            (0..8).fold(crc ^ u64::from(byte), |crc, _| {
                if crc & 1 == 1 {
                    crc >> 1 ^ 0xad93_d235_94c9_35a9u64.reverse_bits()
                } else {
                    crc >> 1
                }
            })
        })
    }

    #[test]
    fn the_check_value_is_that_of_the_catalogue() {
        let mut crc = Crc64::new();
        crc.update(b"123456789");
        assert_eq!(crc.value(), 0xe9c6_d914_c4b8_d9ca);
    }

    proptest! {
        #[test]
        fn any_pieces_give_what_the_definition_gives(
            bytes in prop::collection::vec(any::<u8>(), 0..1500), cut in 0usize..1500
        ) {
            let (start, end) = bytes.split_at(cut.min(bytes.len()));
            let mut crc = Crc64::new();
            crc.update(start);
            crc.update(end);
            prop_assert_eq!(crc.value(), bitwise(&bytes));
        }
    }
}
