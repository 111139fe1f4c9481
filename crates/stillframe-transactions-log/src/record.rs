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

use stillframe_transactions::Shape;

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

/// Takes an entry off the front: the record, and whether its words were read into `words`.
fn entry(bytes: &mut &[u8], shape: Shape, words: &mut [u64]) -> Option<(usize, bool)> {
    let head = take(bytes)?;
    let record = usize::try_from(head >> 1).ok().filter(|record| *record < shape.records)?;
    let present = head & 1 == 1;
    if present {
        for word in words {
            *word = take(bytes)?;
        }
    }
    Some((record, present))
}

/// Hands out all entries, in order.
///
/// # Errors
/// What is wrong with the bytes.
pub(crate) fn entries(
    mut bytes: &[u8],
    shape: Shape,
    mut each: impl FnMut(usize, Option<&[u64]>),
) -> Result<(), String> {
    let mut words = vec![0; shape.words];
    while !bytes.is_empty() {
        let Some((record, present)) = entry(&mut bytes, shape, &mut words) else {
            return Err(format!(
                "it holds no records of {} words below {}",
                shape.words, shape.records
            ));
        };
        each(record, present.then_some(&words[..]));
    }
    Ok(())
}
