//! A record of the redo log: numbers of words and their new values.
//!
//! A word is the difference to the word before it, zigzag in LEB128, and its value in LEB128.

use std::sync::atomic::{AtomicU64, Ordering};

use stillframe_durability::ApplyError;

/// What a transaction has written so far.
#[derive(Debug, Default)]
pub(crate) struct Redo {
    bytes: Vec<u8>,
    last: usize,
}

impl Redo {
    pub(crate) fn push(&mut self, index: usize, value: u64) {
        let step = index.wrapping_sub(self.last) as i64;
        self.last = index;
        self.number((step << 1 ^ step >> 63) as u64);
        self.number(value);
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.last = 0;
    }
}

/// The next number of some bytes.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            // Nine groups are 63 bits: the tenth has one.
            return (shift < 63 || byte < 2).then_some(number);
        }
    }
    None
}

/// Writes the values of a record.
pub(crate) fn apply(mut bytes: &[u8], words: &[AtomicU64]) -> Result<(), ApplyError> {
    let mut last = 0_usize;
    while !bytes.is_empty() {
        let mut pair = || Some((number(&mut bytes)?, number(&mut bytes)?));
        let (step, value) = pair().ok_or("a record of the redo log ends too early")?;
        last = last.wrapping_add(((step >> 1) as i64 ^ -((step & 1) as i64)) as usize);
        let word = words.get(last).ok_or_else(|| format!("a record writes to word {last}"))?;
        word.store(value, Ordering::Relaxed);
    }
    Ok(())
}
