//! Zipmaps, what Redis before 2.6 packed small hashes into.

use super::{Flaw, Item, MARK, field, flaw, text};

/// Counts and lengths from here on stand elsewhere, or nowhere.
const WIDE: u8 = 0xFE;

pub(super) fn frame(bytes: &[u8]) -> Result<(usize, Option<u64>), Flaw> {
    let [pairs] = field(bytes, 0)?;
    if bytes.len() < 2 || bytes.last() != Some(&MARK) {
        return flaw(bytes.len() - 1, "there is no end mark");
    }
    if bytes.len() == 2 {
        return flaw(0, "it holds no field");
    }
    Ok((1, (pairs < WIDE).then_some(u64::from(pairs) * 2)))
}

/// The field or value at `at`, and where the next one starts.
pub(super) fn part(body: &[u8], at: usize, is_value: bool) -> Result<(Item, usize), Flaw> {
    let [first] = field(body, at)?;
    let (length, mut start) = match first {
        MARK => return flaw(at, "the end mark stands too early"),
        WIDE => match u32::from_le_bytes(field(body, at + 1)?) {
            length if length < WIDE.into() => {
                return flaw(at, "a length takes five bytes where one would do");
            }
            length => (length, at + 5),
        },
        length => (length.into(), at + 1),
    };
    let mut gap = 0;
    if is_value {
        [gap] = field(body, start)?;
        start += 1;
    }
    let range = text(body, start, usize::try_from(length).unwrap_or(usize::MAX))?;
    let end = text(body, range.end, gap.into())?.end;
    Ok((Item::Text(range), end))
}
