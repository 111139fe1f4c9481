//! One sketch as a string: dense or sparse, and its registers.

use super::estimate::{Histogram, count as estimate, register};
use super::layout::{COUNT_AT, REGISTERS, REGISTERS_AT};
use super::sparse::{self, Raised};

const ENCODING_AT: usize = 4;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// Bits of a register in the dense form.
const WIDTH: usize = 6;
const DENSE_BYTES: usize = REGISTERS_AT + REGISTERS * WIDTH / 8;
/// Longest sparse form: Redis's default of `hll-sparse-max-bytes`.
const SPARSE_BYTES_MAX: usize = 3000;
/// Set in the last byte of the count when it is out of date.
const STALE: u8 = 0x80;

/// Refuses a string that is no sketch.
pub(super) fn check(bytes: &[u8]) -> Result<(), &'static str> {
    let is_sketch = bytes.len() >= REGISTERS_AT
        && bytes.starts_with(b"HYLL")
        && match bytes[ENCODING_AT] {
            DENSE => bytes.len() == DENSE_BYTES,
            encoding => encoding == SPARSE,
        };
    if is_sketch { Ok(()) } else { Err("WRONGTYPE Key is not a valid HyperLogLog string value.") }
}

pub(super) fn is_dense(bytes: &[u8]) -> bool {
    bytes[ENCODING_AT] == DENSE
}

/// The count of the last PFCOUNT, if nothing changed since.
pub(super) fn cached_count(bytes: &[u8]) -> Option<u64> {
    let count = bytes[COUNT_AT..REGISTERS_AT].try_into().map(u64::from_le_bytes).ok()?;
    (bytes[REGISTERS_AT - 1] & STALE == 0).then_some(count)
}

/// Estimates how many elements a checked sketch has seen.
pub(super) fn count(bytes: &[u8]) -> Result<u64, &'static str> {
    let mut histogram: Histogram = [0; 64];
    let registers = &bytes[REGISTERS_AT..];
    if is_dense(bytes) {
        (0..REGISTERS).for_each(|index| histogram[usize::from(dense(registers, index))] += 1);
    } else {
        for run in sparse::runs(registers) {
            let run = run?;
            histogram[usize::from(run.value)] += run.length as u32;
        }
    }
    Ok(estimate(&histogram))
}

/// A register of the dense form.
fn dense(registers: &[u8], index: usize) -> u8 {
    let (byte, shift) = (index * WIDTH / 8, index * WIDTH % 8);
    let next = registers.get(byte + 1).copied().unwrap_or(0);
    (u16::from_le_bytes([registers[byte], next]) >> shift) as u8 & 0x3f
}

fn set_dense(registers: &mut [u8], index: usize, value: u8) {
    let (byte, shift) = (index * WIDTH / 8, index * WIDTH % 8);
    let next = registers.get(byte + 1).copied().unwrap_or(0);
    let pair = u16::from_le_bytes([registers[byte], next]) & !(0x3f << shift);
    let [low, high] = (pair | u16::from(value) << shift).to_le_bytes();
    registers[byte] = low;
    if let Some(next) = registers.get_mut(byte + 1) {
        *next = high;
    }
}

/// A sketch that may change: checked bytes.
pub(super) struct Sketch(pub(super) Vec<u8>);

impl Default for Sketch {
    fn default() -> Self {
        let mut bytes = vec![0; REGISTERS_AT];
        bytes[..ENCODING_AT].copy_from_slice(b"HYLL");
        bytes[ENCODING_AT] = SPARSE;
        bytes.extend(sparse::empty());
        Self(bytes)
    }
}

impl Sketch {
    /// Adds elements; how many of them changed a register.
    pub(super) fn add_all(&mut self, elements: &[&[u8]]) -> Result<u64, &'static str> {
        let mut changes = 0;
        for element in elements {
            let (index, value) = register(element);
            changes += u64::from(self.raise(index, value)?);
        }
        Ok(changes)
    }

    /// Raises each register to at least the given one.
    pub(super) fn raise_all(
        &mut self,
        registers: &Registers,
        in_dense_form: bool,
    ) -> Result<(), &'static str> {
        if in_dense_form {
            self.make_dense()?;
        }
        for (index, &value) in registers.0.iter().enumerate().filter(|(_, value)| **value > 0) {
            // As in Redis, what a damaged sketch has no place for is left out.
            let _ = self.raise(index, value);
        }
        self.outdate();
        Ok(())
    }

    /// The count is no longer right.
    pub(super) fn outdate(&mut self) {
        self.0[REGISTERS_AT - 1] |= STALE;
    }

    /// Raises one register to at least `value`; whether that changed it.
    fn raise(&mut self, index: usize, value: u8) -> Result<bool, &'static str> {
        if !is_dense(&self.0) {
            match sparse::raise(&mut self.0, index, value, SPARSE_BYTES_MAX)? {
                Raised::No => return Ok(false),
                Raised::Yes => return Ok(true),
                Raised::TooLarge => self.make_dense()?,
            }
        }
        let registers = &mut self.0[REGISTERS_AT..];
        let raised = dense(registers, index) < value;
        if raised {
            set_dense(registers, index, value);
        }
        Ok(raised)
    }

    /// Gives it the dense form.
    pub(super) fn make_dense(&mut self) -> Result<(), &'static str> {
        if is_dense(&self.0) {
            return Ok(());
        }
        let mut bytes = self.0[..REGISTERS_AT].to_vec();
        bytes[ENCODING_AT] = DENSE;
        bytes.resize(DENSE_BYTES, 0);
        let mut index = 0;
        for run in sparse::runs(&self.0[REGISTERS_AT..]) {
            let run = run?;
            if run.value > 0 {
                let covered = index..index + run.length;
                covered.for_each(|i| set_dense(&mut bytes[REGISTERS_AT..], i, run.value));
            }
            index += run.length;
        }
        self.0 = bytes;
        Ok(())
    }
}

/// All registers, a byte each.
pub(super) struct Registers([u8; REGISTERS]);

impl Default for Registers {
    fn default() -> Self {
        Self([0; REGISTERS])
    }
}

impl Registers {
    /// Those of the checked sketch `bytes`.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut registers = Self::default();
        registers.merge(bytes)?;
        Ok(registers)
    }

    /// The values, from register 0 on.
    pub(super) fn values(&self) -> &[u8] {
        &self.0
    }

    /// Raises each register to at least that of the checked sketch `bytes`.
    pub(super) fn merge(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        let registers = &bytes[REGISTERS_AT..];
        if is_dense(bytes) {
            for (index, into) in self.0.iter_mut().enumerate() {
                *into = (*into).max(dense(registers, index));
            }
            return Ok(());
        }
        let mut index = 0;
        for run in sparse::runs(registers) {
            let run = run?;
            for into in &mut self.0[index..index + run.length] {
                *into = (*into).max(run.value);
            }
            index += run.length;
        }
        Ok(())
    }

    pub(super) fn histogram(&self) -> Histogram {
        let mut histogram = [0; 64];
        self.0.iter().for_each(|&value| histogram[usize::from(value)] += 1);
        histogram
    }
}
