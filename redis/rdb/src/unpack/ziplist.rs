//! Ziplists, what Redis before 7 packed small collections into.

use super::{Flaw, Item, count, field, flaw, framed, integer, text};

const HEAD_BYTES: usize = 10;
const WIDE: u8 = 0xFE;

pub(super) fn frame(bytes: &[u8]) -> Result<(usize, Option<u64>), Flaw> {
    framed(bytes, HEAD_BYTES + 1)?;
    Ok((HEAD_BYTES, count(bytes, 8)?))
}

/// Whether the head gives `last` as the place of the last entry.
pub(super) fn ends_with(bytes: &[u8], last: usize) -> bool {
    let stated = field(bytes, 4).map(u32::from_le_bytes);
    stated.is_ok_and(|stated| usize::try_from(stated) == Ok(last))
}

/// The entry at `at`, behind one of `before` bytes, and where the next one starts.
pub(super) fn entry(body: &[u8], at: usize, before: usize) -> Result<(Item, usize), Flaw> {
    let [first] = field(body, at)?;
    let (stated, head) = match first {
        WIDE => (u32::from_le_bytes(field(body, at + 1)?), at + 5),
        0xFF => return flaw(at, "the end mark stands too early"),
        length => (length.into(), at + 1),
    };
    if usize::try_from(stated) != Ok(before) {
        return flaw(at, "the entry before has another length than stated");
    }
    let [code] = field(body, head)?;
    let data = head + 1;
    let number = |value: Result<i64, Flaw>, width| value.map(|v| (Item::Int(v), data + width));
    match code {
        0x00..0x40 => taken(body, data, usize::from(code)),
        0x40..0x80 => {
            let [low] = field(body, data)?;
            taken(body, data + 1, usize::from(code & 0x3f) << 8 | usize::from(low))
        }
        0x80 => {
            let length = u32::from_be_bytes(field(body, data)?);
            taken(body, data + 4, usize::try_from(length).unwrap_or(usize::MAX))
        }
        0xC0 => number(integer::<2>(body, data), 2),
        0xD0 => number(integer::<4>(body, data), 4),
        0xE0 => number(integer::<8>(body, data), 8),
        0xF0 => number(integer::<3>(body, data), 3),
        0xFE => number(integer::<1>(body, data), 1),
        0xF1..=0xFD => Ok((Item::Int(i64::from(code & 0x0f) - 1), data)),
        _ => flaw(head, "no entry starts with this byte"),
    }
}

fn taken(body: &[u8], at: usize, length: usize) -> Result<(Item, usize), Flaw> {
    let range = text(body, at, length)?;
    let end = range.end;
    Ok((Item::Text(range), end))
}
