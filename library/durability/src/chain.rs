//! Chains: a full checkpoint, the base, and the increments upon it.
//!
//! - A chain is whole if each increment names the file before it by number *and* identity.
//! - An increment builds on the durable checkpoint before it, so the increments between two full
//!   checkpoints belong to the older one: a full checkpoint and its increments are a *generation*.

use crate::checkpoint::reader::Reader;
use crate::checkpoint::{Header, Link};
use crate::damage::checkpoint::Damage;
use crate::disk::{Directory, Input};
use crate::error::Error;
use crate::names;

/// How long a chain of increments may become, before it is merged into a full checkpoint in the
/// background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Increments {
    /// Increments upon a base. A chain of twice as many is waited for, and if merges fail the next
    /// checkpoint is full (except with an algorithm whose images are increments).
    pub count_max: usize,
    /// Bytes of increments, in percent of their base.
    pub percent_max: u64,
}

impl Default for Increments {
    fn default() -> Self {
        Self { count_max: 16, percent_max: 100 }
    }
}

impl Increments {
    /// At most this many increments upon a base.
    #[must_use]
    pub fn at_most(count_max: usize) -> Self {
        Self { count_max, ..Self::default() }
    }

    /// Sets [`percent_max`](Self::percent_max). `u64::MAX`: however large they are.
    #[must_use]
    pub fn percent(self, percent_max: u64) -> Self {
        Self { percent_max, ..self }
    }

    /// Whether a chain is to be merged.
    pub(crate) fn are_many(&self, chain: &[Part]) -> bool {
        let Some((base, increments)) = chain.split_first() else { return false };
        let bytes: u64 = increments.iter().map(|part| part.bytes).sum();
        let most = u128::from(base.bytes) * u128::from(self.percent_max) / 100;
        !increments.is_empty() && (increments.len() >= self.count_max || u128::from(bytes) > most)
    }
}

/// A file of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) link: Link,
    /// Its length.
    pub(crate) bytes: u64,
}

/// A file of a chain, opened.
pub(crate) struct Opened {
    pub(crate) reader: Reader<Input>,
    pub(crate) input: Input,
    pub(crate) part: Part,
}

impl Opened {
    pub(crate) fn header(&self) -> &Header {
        self.reader.header()
    }
}

/// Opens checkpoint `number`.
pub(crate) fn open(directory: &Directory, number: u64) -> Result<Result<Opened, Damage>, Error> {
    let name = names::checkpoint(number);
    let (input, bytes) = directory.open_file(&name)?;
    let reader = match Reader::open(input.clone(), bytes) {
        Ok(reader) => reader,
        Err(damage) => return tolerable(directory, number, damage).map(Err),
    };
    if reader.header().number != number {
        let damage = Damage::Misnamed { number: reader.header().number, named: number };
        return Ok(Err(damage));
    }
    let part = Part { link: reader.header().link(), bytes };
    Ok(Ok(Opened { reader, input, part }))
}

/// A chain as far as it leads: the files from the newest back, and what is wrong with the last one
/// if it is not the base.
pub(crate) struct Traced {
    /// Newest first.
    pub(crate) files: Vec<Opened>,
    /// The number of a file that cannot be used, and why.
    pub(crate) broken: Option<(u64, Damage)>,
}

/// Follows the chain back from `newest`; `numbers` are all that there are.
pub(crate) fn trace(directory: &Directory, newest: u64, numbers: &[u64]) -> Result<Traced, Error> {
    let mut traced = Traced { files: Vec::new(), broken: None };
    let mut number = newest;
    loop {
        let file = match open(directory, number)? {
            Ok(file) => file,
            Err(damage) => {
                traced.broken = Some((number, damage));
                return Ok(traced);
            }
        };
        let link = file.part.link;
        let wanted = traced.files.last().and_then(|later| later.header().base);
        if wanted.is_some_and(|wanted| wanted != link) {
            let damage = Damage::BaseIsAnother { base: number };
            traced.broken = traced.files.pop().map(|later| (later.part.link.number, damage));
            return Ok(traced);
        }
        let base = file.header().base;
        traced.files.push(file);
        let Some(base) = base else { return Ok(traced) };
        if !numbers.contains(&base.number) {
            let damage = Damage::BaseMissing { base: base.number };
            traced.broken = traced.files.pop().map(|file| (file.part.link.number, damage));
            return Ok(traced);
        }
        number = base.number; // which is lower: the reader has checked that
    }
}

/// Damage of checkpoint `number` that lets recovery go back to an older one; otherwise the error.
pub(crate) fn tolerable(
    directory: &Directory,
    number: u64,
    damage: Damage,
) -> Result<Damage, Error> {
    let path = || directory.at(&names::checkpoint(number));
    match damage {
        Damage::NewerVersion { version, supported } => {
            Err(Error::NewerVersion { path: path(), version, supported })
        }
        Damage::Unreadable { .. } => Err(Error::Unreadable { path: path(), damage }),
        damage => Ok(damage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn increments_are_many_from_their_number_on_and_beyond_their_share() {
        let rule = Increments::at_most(3).percent(50);
        let are_many = |bytes: &[u64]| {
            let part = |(&bytes, number)| Part { link: Link { number, identity: 7 }, bytes };
            rule.are_many(&bytes.iter().zip(1..).map(part).collect::<Vec<_>>())
        };
        for few in [&[][..], &[100], &[100, 50], &[100, 25, 25], &[0, 0]] {
            assert!(!are_many(few), "{few:?}");
        }
        for many in [&[100, 51][..], &[100, 25, 26], &[100, 1, 1, 1], &[0, 1]] {
            assert!(are_many(many), "{many:?}");
        }
    }
}
