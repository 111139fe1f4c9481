//! The stream for replicas, and the part of it that is kept.
//!
//! - An offset counts the bytes of the stream from its beginning; those from `start` to `end` are
//!   kept, in blocks that all replicas share. Unsent bytes are not copied for a replica, which only
//!   has a position.
//! - The server keeps the configured backlog, and all that a replica still needs.

use std::collections::VecDeque;

use stillframe_commands::Needs;

use crate::connections::client::{Fields, Replica};

/// Bytes of a block: less than one is kept beyond the backlog.
const BLOCK_BYTES: usize = 16 << 10;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Stream {
    blocks: VecDeque<Block>,
    end: u64,
    /// See [`note_branch`](Self::note_branch).
    branched: u64,
    /// See [`note_needs`](Self::note_needs): fields of hashes, and streams.
    timed: u64,
    produced: u64,
}

/// What a replica knows beyond Redis 7.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// Branches: it is a server of this kind.
    pub(crate) branches: bool,
    /// Fields of hashes that expire.
    pub(crate) fields: bool,
    /// Streams with messages of producers, and released entries.
    pub(crate) streams: bool,
}

impl Abilities {
    /// Those of a replica.
    pub(crate) fn of_replica(replica: &Replica) -> Self {
        // A server of this kind announces Valkey's version. What Redis has loaded tells of its own;
        // Valkey knows no such streams.
        let of_redis = replica.valkey.is_none() && replica.fields == Fields::Loaded;
        let streams = replica.branches || of_redis;
        Self { branches: replica.branches, fields: replica.knows_fields(), streams }
    }
}

struct Block {
    start: u64,
    bytes: Vec<u8>,
}

impl Stream {
    /// Offset of the first byte that is kept.
    pub(crate) fn start(&self) -> u64 {
        self.blocks.front().map_or(self.end, |block| block.start)
    }

    /// Bytes of the whole stream.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Drops the kept bytes; the stream continues at `end`.
    pub(crate) fn restart(&mut self, end: u64) {
        *self = Self { blocks: VecDeque::new(), end, branched: 0, timed: 0, produced: 0 };
    }

    /// A database was made a branch by a request in what was added last: replicas that know no
    /// branches cannot go on from before its end.
    pub(crate) fn note_branch(&mut self) {
        self.branched = self.end;
    }

    /// Requests in what was added last need what old servers do not know, as for a branch.
    pub(crate) fn note_needs(&mut self, needs: Needs) {
        if needs.fields {
            self.timed = self.end;
        }
        if needs.streams {
            self.produced = self.end;
        }
    }

    /// Whether a replica can go on from an offset, by what it knows.
    pub(crate) fn suits(&self, offset: u64, knows: Abilities) -> bool {
        self.suits_branches(offset, knows)
            && (knows.fields || offset >= self.timed)
            && (knows.streams || offset >= self.produced)
    }

    /// Whether no branch stands in the way.
    pub(crate) fn suits_branches(&self, offset: u64, knows: Abilities) -> bool {
        knows.branches || offset >= self.branched
    }

    /// Adds bytes.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = |block: &&mut Block| block.bytes.len() < BLOCK_BYTES;
            let block = match self.blocks.back_mut().filter(room) {
                Some(block) => block,
                None => {
                    let bytes = Vec::with_capacity(BLOCK_BYTES);
                    self.blocks.push_back(Block { start: self.end, bytes });
                    continue;
                }
            };
            let taken = bytes.len().min(BLOCK_BYTES - block.bytes.len());
            block.bytes.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            self.end += taken as u64;
        }
    }

    /// Some of the bytes from `offset` on; none at the end. `None`: they are not kept.
    pub(crate) fn from(&self, offset: u64) -> Option<&[u8]> {
        if offset == self.end {
            return Some(&[]);
        }
        let after = self.blocks.partition_point(|block| block.start <= offset);
        let block = self.blocks.get(after.checked_sub(1)?)?;
        block.bytes.get(usize::try_from(offset - block.start).ok()?..)
    }

    /// Whether all bytes from `offset` on are kept.
    pub(crate) fn reaches(&self, offset: u64) -> bool {
        (self.start()..=self.end).contains(&offset)
    }

    /// Drops bytes before the last `backlog_bytes` and before `needed`, an offset.
    pub(crate) fn trim(&mut self, backlog_bytes: u64, needed: u64) {
        let keep = needed.min(self.end.saturating_sub(backlog_bytes));
        while self.blocks.front().is_some_and(|it| it.start + it.bytes.len() as u64 <= keep) {
            self.blocks.pop_front();
        }
    }

    /// Its memory, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_can_be_read_from_anywhere() {
        let mut stream = Stream::default();
        stream.restart(1000);
        let bytes: Vec<u8> = (0..300_000u32).map(|at| at as u8).collect();
        bytes.chunks(77).for_each(|piece| stream.append(piece));
        assert_eq!((stream.start(), stream.end()), (1000, 301_000));
        for from in [1000, 1001, 66_536, 200_000, 301_000] {
            let (mut at, mut read) = (from, Vec::new());
            while let Some(piece @ [_, ..]) = stream.from(at) {
                read.extend_from_slice(piece);
                at += piece.len() as u64;
            }
            assert_eq!(read, bytes[from as usize - 1000..], "from {from}");
        }
        assert!(stream.from(999).is_none() && stream.from(301_001).is_none());
    }

    #[test]
    fn the_backlog_and_what_is_needed_stay() {
        let mut stream = Stream::default();
        stream.append(&vec![7; 1 << 20]);
        stream.trim(100_000, 600_000);
        assert!(stream.reaches(600_000) && !stream.reaches(500_000));
        stream.trim(100_000, u64::MAX);
        assert!(stream.reaches((1 << 20) - 100_000) && !stream.reaches(600_000));
        stream.trim(0, u64::MAX);
        assert_eq!((stream.start(), stream.memory()), (1 << 20, 0));
        assert!(!stream.reaches((1 << 20) + 1));
    }
}
