//! A checkpoint file, block by block.

use std::io::Read;
use std::ops::{ControlFlow, Range};

use super::{Examined, Flaw};
use crate::checkpoint::reader::Reader;
use crate::checkpoint::{FOOTER_BYTES, HEADER_BYTES_BY_VERSION};
use crate::damage::checkpoint::Damage;

/// Damaged blocks after which reading ends.
const FLAWS_MAX: usize = 100;

/// What the header of a checkpoint says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checkpoint {
    /// Version of the format.
    pub version: u32,
    /// Its number: the epoch of the image over the life of the state.
    pub number: u64,
    /// Words of state.
    pub words: u64,
    /// Words in each block but the last.
    pub words_per_block: u32,
    /// Blocks, if it is full: an increment's end counts its own.
    pub blocks: Option<u64>,
    /// Distinguishes the image from any other of its number, but for copies and merges of it; 0
    /// before version 3.
    pub identity: u64,
    /// Number and identity of the checkpoint that it adds to, if it is an increment.
    pub base: Option<(u64, u64)>,
    /// Whether blocks may be packed.
    pub packed: bool,
    /// When it was begun, in milliseconds since 1970 by the clock of then.
    pub created_ms: u64,
    /// The algorithm that took the image.
    pub algorithm: String,
    /// Number of the first record of the log that is not in it, 0 if there was no log.
    pub log_from: u64,
    /// The program that wrote it; empty in version 1.
    pub creator: String,
    /// Tag and layout of the application whose state it is, if it bears one.
    pub application: Option<(String, u32)>,
}

impl Checkpoint {
    /// Reads a file of `length` bytes to its end. `named` is the number in its name, if it has one.
    pub fn examine(input: impl Read, length: u64, named: Option<u64>) -> Examined<Self> {
        let flaw = |damage: &Damage| Flaw { bytes: range(damage, length), problem: text(damage) };
        let reader = match Reader::open(input, length) {
            Ok(reader) => reader,
            Err(damage) => {
                let newer = matches!(damage, Damage::NewerVersion { .. });
                return Examined { facts: None, flaws: vec![flaw(&damage)], newer };
            }
        };
        let header = *reader.header();
        let facts = Self {
            version: header.version,
            number: header.number,
            words: header.words,
            words_per_block: header.words_per_block,
            blocks: header.base.is_none().then(|| header.blocks()),
            identity: header.identity,
            base: header.base.map(|base| (base.number, base.identity)),
            packed: header.packs,
            created_ms: header.created_ms,
            algorithm: header.algorithm(),
            log_from: header.log_from,
            creator: header.creator(),
            application: header.owner.shown(),
        };
        let misnamed = named.filter(|&named| named != header.number);
        let misnamed = misnamed.map(|named| Damage::Misnamed { number: header.number, named });
        let mut flaws: Vec<Flaw> = misnamed.iter().map(flaw).collect();
        reader.verify(|damage| {
            flaws.push(flaw(&damage));
            if flaws.len() < FLAWS_MAX {
                return ControlFlow::Continue(());
            }
            let problem = "the rest was not looked at: there is too much damage".to_owned();
            let from = flaws.last().map_or(0, |last| last.bytes.end);
            flaws.push(Flaw { bytes: from..length.max(from), problem });
            ControlFlow::Break(())
        });
        Examined { facts: Some(facts), flaws, newer: false }
    }
}

fn text(damage: &Damage) -> String {
    let text = damage.to_string();
    // The place stands beside it.
    text.split_once(": ").map_or(text.clone(), |(_, problem)| problem.to_owned())
}

fn range(damage: &Damage, length: u64) -> Range<u64> {
    match *damage {
        Damage::Magic => 0..8,
        Damage::NewerVersion { .. } => 8..12,
        Damage::HeaderChecksum => 0..HEADER_BYTES_BY_VERSION[0] as u64,
        Damage::PartChecksum { start, end } => start..end,
        Damage::Field { offset, .. } => offset..offset + 4,
        Damage::Misnamed { .. } => 24..32,
        Damage::Truncated { length, expected } => {
            length..u64::try_from(expected).unwrap_or(u64::MAX)
        }
        Damage::Trailing { length, expected } => {
            u64::try_from(expected).unwrap_or(u64::MAX)..length
        }
        Damage::BlockHead { offset, .. } => offset..offset + 16,
        // Its head is wrong, or the file was cut.
        Damage::BlockCut { offset, end, .. } => offset..end,
        Damage::BaseMissing { .. } | Damage::BaseDamaged { .. } => 104..112,
        Damage::BaseIsAnother { .. } => 112..120,
        Damage::BlockContent { offset, bytes, .. }
        | Damage::BlockChecksum { offset, bytes, .. } => offset..offset + bytes,
        Damage::Footer { offset } => offset..offset + FOOTER_BYTES as u64,
        // Each block is sound by itself; the digest says that they are not of one file.
        Damage::Digest { .. } => 0..length,
        Damage::Unreadable { offset, .. } => offset..length.max(offset),
    }
}
