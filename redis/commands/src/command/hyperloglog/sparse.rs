//! The sparse form: runs of equal registers, from register 0 to the last.
//!
//! ```text
//! 00llllll            l + 1 registers of 0
//! 01llllll llllllll   l + 1 registers of 0 (l: 14 bits, the high ones first)
//! 1vvvvvll            l + 1 registers of v + 1
//! ```
//!
//! The same registers have several possible forms, by the order of changes. They get the one that
//! Redis gives them, so that the strings are equal, not only the counts.

use super::layout::{CORRUPT, REGISTERS, REGISTERS_AT};

/// The highest value that a run can hold.
pub(super) const VALUE_MAX: u8 = 32;
const SHORT_ZEROS_MAX: usize = 64;
const VALUES_MAX: usize = 4;
/// Runs looked at for a merge after a change.
const MERGE_SCAN: usize = 5;

/// One run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// The value of each of its registers.
    pub(super) value: u8,
    /// How many they are.
    pub(super) length: usize,
    /// Bytes that it takes.
    width: usize,
}

impl Run {
    /// Whether it takes two bytes.
    pub(super) fn is_wide(self) -> bool {
        self.width == 2
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (&head, rest) = bytes.split_first()?;
        let low = usize::from(head & 0x3f);
        Some(match head >> 6 {
            0 => Self { value: 0, length: low + 1, width: 1 },
            1 => Self { value: 0, length: (low << 8 | usize::from(*rest.first()?)) + 1, width: 2 },
            _ => Self { value: (head >> 2 & 0x1f) + 1, length: (low & 3) + 1, width: 1 },
        })
    }

    fn write(value: u8, length: usize, out: &mut Vec<u8>) {
        let more = length - 1;
        match value {
            0 if length <= SHORT_ZEROS_MAX => out.push(more as u8),
            0 => out.extend_from_slice(&[0x40 | (more >> 8) as u8, more as u8]),
            _ => out.push(0x80 | (value - 1) << 2 | more as u8),
        }
    }
}

/// The runs of all registers; an error ends them if they are not exactly all.
pub(super) fn runs(registers: &[u8]) -> impl Iterator<Item = Result<Run, &'static str>> {
    let (mut at, mut covered, mut done) = (0, 0, false);
    std::iter::from_fn(move || {
        if done {
            return None;
        }
        let tail = &registers[at..];
        let run = Run::read(tail).filter(|run| covered + run.length <= REGISTERS);
        let Some(run) = run else {
            done = true;
            return (covered != REGISTERS || !tail.is_empty()).then_some(Err(CORRUPT));
        };
        at += run.width;
        covered += run.length;
        Some(Ok(run))
    })
}

/// The runs of a sketch without elements.
pub(super) fn empty() -> Vec<u8> {
    let mut runs = Vec::new();
    Run::write(0, REGISTERS, &mut runs);
    runs
}

/// What became of raising a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Raised {
    /// It was as high.
    No,
    /// It has the new value.
    Yes,
    /// It needs the dense form. Nothing is changed.
    TooLarge,
}

/// Raises one register of the sparse sketch `bytes` to at least `value`.
pub(super) fn raise(
    bytes: &mut Vec<u8>,
    index: usize,
    value: u8,
    bytes_max: usize,
) -> Result<Raised, &'static str> {
    if value > VALUE_MAX {
        return Ok(Raised::TooLarge);
    }
    let (mut at, mut first, mut before) = (REGISTERS_AT, 0, None);
    let run = loop {
        let run = Run::read(bytes.get(at..).unwrap_or_default()).ok_or(CORRUPT)?;
        if index < first + run.length {
            break run;
        }
        before = Some(at);
        at += run.width;
        first += run.length;
    };
    if run.value >= value {
        return Ok(Raised::No);
    }
    let mut split = Vec::with_capacity(5);
    let (left, right) = (index - first, first + run.length - index - 1);
    if left > 0 {
        Run::write(run.value, left, &mut split);
    }
    Run::write(value, 1, &mut split);
    if right > 0 {
        Run::write(run.value, right, &mut split);
    }
    if split.len() > run.width && bytes.len() + split.len() - run.width > bytes_max {
        return Ok(Raised::TooLarge);
    }
    bytes.splice(at..at + run.width, split);
    merge(bytes, before.unwrap_or(REGISTERS_AT));
    Ok(Raised::Yes)
}

/// Joins runs of one value that lie side by side, among the few from `at` on.
fn merge(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..MERGE_SCAN {
        let Some(run) = Run::read(&bytes[at..]) else { return };
        let next = Run::read(&bytes[at + run.width..]);
        match next {
            Some(next)
                if run.value > 0
                    && next.value == run.value
                    && run.length + next.length <= VALUES_MAX =>
            {
                let mut joined = Vec::with_capacity(1);
                Run::write(run.value, run.length + next.length, &mut joined);
                bytes.splice(at..at + 2, joined);
            }
            _ => at += run.width,
        }
    }
}
