//! Intsets: small sets of integers.

use super::{Flaw, Item, field, flaw, integer as signed};

const HEAD_BYTES: usize = 8;

pub(super) fn frame(bytes: &[u8]) -> Result<(usize, Option<u64>), Flaw> {
    let width = u32::from_le_bytes(field(bytes, 0)?);
    if !matches!(width, 2 | 4 | 8) {
        return flaw(0, "its integers have a width other than 2, 4 and 8 bytes");
    }
    let count = u64::from(u32::from_le_bytes(field(bytes, 4)?));
    if count * u64::from(width) + HEAD_BYTES as u64 != bytes.len() as u64 {
        return flaw(4, "its length is not that of the integers announced");
    }
    Ok((HEAD_BYTES, Some(count)))
}

/// The integer at `at`, which follows `before`, and where the next one starts.
pub(super) fn integer(bytes: &[u8], at: usize, before: Option<i64>) -> Result<(Item, usize), Flaw> {
    let (value, next) = match field::<1>(bytes, 0)? {
        [2] => (signed::<2>(bytes, at)?, at + 2),
        [4] => (signed::<4>(bytes, at)?, at + 4),
        [_] => (signed::<8>(bytes, at)?, at + 8),
    };
    if before.is_some_and(|before| before >= value) {
        return flaw(at, "its integers do not rise");
    }
    Ok((Item::Int(value), next))
}
