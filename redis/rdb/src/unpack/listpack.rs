//! Listpacks, what Redis 7 packs small collections into.

use super::{Flaw, Item, count, field, flaw, framed, integer, text};
use crate::pack::backward_length;

const HEAD_BYTES: usize = 6;

pub(super) fn frame(bytes: &[u8]) -> Result<(usize, Option<u64>), Flaw> {
    framed(bytes, HEAD_BYTES + 1)?;
    Ok((HEAD_BYTES, count(bytes, 4)?))
}

/// The element at `at`, and where the next one starts.
pub(super) fn element(body: &[u8], at: usize) -> Result<(Item, usize), Flaw> {
    let [code] = field(body, at)?;
    let data = at + 1;
    let (item, end) = match code {
        0x00..0x80 => (Item::Int(code.into()), data),
        0x80..0xC0 => taken(body, data, usize::from(code & 0x3f))?,
        0xC0..0xE0 => {
            let [low] = field(body, data)?;
            let value = i64::from(code & 0x1f) << 8 | i64::from(low);
            // 13 bits with a sign.
            (Item::Int(if value < 1 << 12 { value } else { value - (1 << 13) }), data + 1)
        }
        0xE0..0xF0 => {
            let [low] = field(body, data)?;
            taken(body, data + 1, usize::from(code & 0x0f) << 8 | usize::from(low))?
        }
        0xF0 => {
            let length = u32::from_le_bytes(field(body, data)?);
            taken(body, data + 4, usize::try_from(length).unwrap_or(usize::MAX))?
        }
        0xF1 => (Item::Int(integer::<2>(body, data)?), data + 2),
        0xF2 => (Item::Int(integer::<3>(body, data)?), data + 3),
        0xF3 => (Item::Int(integer::<4>(body, data)?), data + 4),
        0xF4 => (Item::Int(integer::<8>(body, data)?), data + 8),
        _ => return flaw(at, "no element starts with this byte"),
    };
    let (backward, length) = backward_length(end - at);
    let backward = &backward[..length];
    if body.get(end..end + length) != Some(backward) {
        return flaw(end, "the element's length differs from the one behind it");
    }
    Ok((item, end + length))
}

fn taken(body: &[u8], at: usize, length: usize) -> Result<(Item, usize), Flaw> {
    let range = text(body, at, length)?;
    let end = range.end;
    Ok((Item::Text(range), end))
}
