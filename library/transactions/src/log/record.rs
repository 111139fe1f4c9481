//! The bytes of a commit in the log, and of the records in an image.
//!
//! ```text
//! commit   u64 number of the first image that holds it, then entries
//! image    entries
//! entry    u64 record * 2 + 1, then its words; or u64 record * 2, if it is absent
//! ```
//!
//! All little-endian. The log guards them with checksums, so what does not fit is of another
//! program, never a torn write.

use crate::Shape;

/// Adds an entry.
pub(crate) fn push(bytes: &mut Vec<u8>, record: usize, words: Option<&[u64]>) {
    let head = (record as u64) << 1 | u64::from(words.is_some());
    bytes.extend_from_slice(&head.to_le_bytes());
    for word in words.unwrap_or_default() {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
}

/// Takes a number off the front.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (first, rest) = bytes.split_first_chunk::<8>()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*first))
}

/// Takes an entry off the front: the record, and the bytes of its words unless it is absent; `None`
/// at the end and where the bytes hold no entry of that shape.
pub(crate) fn entry<'b>(bytes: &mut &'b [u8], shape: Shape) -> Option<(usize, Option<&'b [u8]>)> {
    let head = take(bytes)?;
    let record = usize::try_from(head >> 1).ok().filter(|record| *record < shape.records)?;
    if head & 1 == 0 {
        return Some((record, None));
    }
    let (words, rest) = bytes.split_at_checked(shape.words.checked_mul(size_of::<u64>())?)?;
    *bytes = rest;
    Some((record, Some(words)))
}

/// The words that an entry holds.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word))
}

/// How many entries there are.
///
/// # Errors
/// What is wrong with the bytes.
pub(crate) fn count(bytes: &[u8], shape: Shape) -> Result<u64, String> {
    let mut count = 0;
    entries(bytes, shape, |_, _| count += 1)?;
    Ok(count)
}

/// Hands out all entries, in order.
///
/// # Errors
/// What is wrong with the bytes.
pub(crate) fn entries(
    mut bytes: &[u8],
    shape: Shape,
    mut each: impl FnMut(usize, Option<&[u8]>),
) -> Result<(), String> {
    while !bytes.is_empty() {
        let Some((record, words)) = entry(&mut bytes, shape) else {
            return Err(format!(
                "it holds no records of {} words below {}",
                shape.words, shape.records
            ));
        };
        each(record, words);
    }
    Ok(())
}
