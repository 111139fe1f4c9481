//! The stream for replicas, and the part of it that is kept.
//!
//! - An offset counts the bytes of the stream from its beginning; those from `start` to `end` are
//!   kept, in blocks that all replicas share. Unsent bytes are not copied for a replica, which only
//!   has a position.
//! - The server keeps the configured backlog, and all that a replica still needs.
//! - Replicas that know no messages of producers, or no entries that are pending for nobody, get a
//!   [plain form](plain_form) of what tells of them, which has as many bytes.

use std::collections::VecDeque;

use stillframe_commands::{Needs, Unknown, plain_form};
use stillframe_rdb::Version;
use stillframe_resp::{Limits, Parser};

use crate::connections::client::Replica;

/// Bytes of a block: less than one is kept beyond the backlog.
const BLOCK_BYTES: usize = 16 << 10;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Stream {
    blocks: VecDeque<Block>,
    end: u64,
    /// See [`note_branch`](Self::note_branch).
    branched: u64,
    /// See [`note_needs`](Self::note_needs): fields of hashes, releases without a plain form,
    /// arrays.
    timed: u64,
    released: u64,
    arrays: u64,
    /// What some replicas get in place of kept bytes, in order.
    plain: VecDeque<Plain>,
    /// Bytes of all these.
    plain_bytes: usize,
}

/// What replicas get that do not know a part of a request.
struct Plain {
    start: u64,
    unknown: Unknown,
    bytes: Box<[u8]>,
}

impl Plain {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// What a replica knows beyond Redis 7.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// Branches: it is a server of this kind.
    pub(crate) branches: bool,
    /// Fields of hashes that expire.
    pub(crate) fields: bool,
    /// Messages of producers.
    pub(crate) messages: bool,
    /// Streams with released entries.
    pub(crate) released: bool,
    /// Arrays.
    pub(crate) arrays: bool,
}

impl Abilities {
    /// Those of a replica.
    pub(crate) fn of_replica(replica: &Replica) -> Self {
        // What Redis has loaded tells of its version.
        let is_redis = |version| replica.branches || replica.reads(version);
        Self {
            branches: replica.branches,
            fields: replica.knows_fields(),
            messages: is_redis(Version::Redis13),
            released: is_redis(Version::Redis14),
            arrays: is_redis(Version::Redis14),
        }
    }

    fn has(self, unknown: Unknown) -> bool {
        match unknown {
            Unknown::Messages => self.messages,
            Unknown::Released => self.released,
        }
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
        *self = Self { end, ..Self::default() };
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
        if needs.other_releases {
            self.released = self.end;
        }
        if needs.arrays {
            self.arrays = self.end;
        }
    }

    /// Whether a replica can go on from an offset, by what it knows.
    pub(crate) fn suits(&self, offset: u64, knows: Abilities) -> bool {
        self.suits_branches(offset, knows)
            && (knows.fields || offset >= self.timed)
            && (knows.released || offset >= self.released)
            && (knows.arrays || offset >= self.arrays)
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

    /// Adds whole requests, which need this.
    pub(crate) fn append_requests(&mut self, bytes: &[u8], needs: Needs) {
        if needs.messages || needs.releases {
            self.add_plain_forms(bytes);
        }
        self.append(bytes);
    }

    /// Notes what some replicas get in place of requests that are added next.
    fn add_plain_forms(&mut self, bytes: &[u8]) {
        let (mut parser, mut requests) = (Parser::new(Limits::OPEN), bytes.to_vec());
        let (mut rest, mut start) = (&mut requests[..], self.end);
        while let Ok(Some(used)) = parser.parse(rest) {
            let args: Vec<&[u8]> = parser.args().iter().map(|range| &rest[range.clone()]).collect();
            if let Some((unknown, bytes)) = plain_form(&args, used) {
                self.plain_bytes += bytes.len();
                self.plain.push_back(Plain { start, unknown, bytes: bytes.into() });
            }
            (rest, start) = (&mut rest[used..], start + used as u64);
        }
    }

    /// As [`from`](Self::from), for a replica by what it knows.
    pub(crate) fn bytes_for(&self, offset: u64, knows: Abilities) -> Option<&[u8]> {
        let bytes = self.from(offset)?;
        let next = self.plain.partition_point(|plain| plain.end() <= offset);
        let end = offset + bytes.len() as u64;
        let mut ahead = self.plain.range(next..).take_while(|plain| plain.start < end);
        Some(match ahead.find(|plain| !knows.has(plain.unknown)) {
            Some(plain) if plain.start <= offset => &plain.bytes[(offset - plain.start) as usize..],
            Some(plain) => &bytes[..bytes.len().min((plain.start - offset) as usize)],
            None => bytes,
        })
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
        let start = self.start();
        while let Some(plain) = self.plain.pop_front_if(|plain| plain.end() <= start) {
            self.plain_bytes -= plain.bytes.len();
        }
    }

    /// Its memory, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES + self.plain_bytes
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

    fn read(stream: &Stream, at: u64, messages: bool) -> String {
        read_by(stream, at, messages, false)
    }

    fn read_by(stream: &Stream, mut at: u64, messages: bool, released: bool) -> String {
        let mut read = Vec::new();
        let knows = Abilities { branches: false, fields: false, messages, released, arrays: false };
        while let Some(piece @ [_, ..]) = stream.bytes_for(at, knows) {
            read.extend_from_slice(piece);
            at += piece.len() as u64;
        }
        String::from_utf8(read).expect("it is text")
    }

    fn request(words: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        stillframe_commands::write_request(&mut bytes, &words);
        bytes
    }

    #[test]
    fn replicas_get_the_plain_form_of_what_they_do_not_know_alone() {
        let mut stream = Stream::default();
        let [add, release, set] = [
            "XADD s IDMP p i 1-1 f v",
            "XNACK s g FAIL IDS 1 1-1 RETRYCOUNT 2 FORCE FORCE",
            "SET a 1",
        ]
        .map(request);
        let needs = Needs { messages: true, releases: true, ..Needs::default() };
        stream.append_requests(&[&set[..], &add, &release, &set, &add].concat(), needs);
        stream.append_requests(&release, Needs { releases: true, ..Needs::default() });
        let all = String::from_utf8([&set[..], &add, &release, &set, &add, &release].concat());
        let all = all.expect("text");
        for at in 0..stream.end() {
            let read = |messages, released| read_by(&stream, at, messages, released);
            assert_eq!(read(true, true), all[at as usize..], "from {at}");
            let knows_messages = read(true, false);
            assert!(!knows_messages.contains("XNACK"), "from {at}");
            assert_eq!(
                knows_messages.matches("IDMP").count(),
                all[at as usize..].matches("IDMP").count()
            );
            let knows_none = read(false, false);
            assert!(!knows_none.contains("IDMP") && !knows_none.contains("XNACK"), "from {at}");
            assert_eq!([knows_messages.len(), knows_none.len()], [all.len() - at as usize; 2]);
        }
        assert!(read_by(&stream, 0, true, false).contains("XCLAIM"));
    }

    #[test]
    fn replicas_that_know_no_messages_get_as_many_bytes_without() {
        let mut stream = Stream::default();
        let value = "v".repeat(BLOCK_BYTES);
        let [set, add] = [request("SET a 1"), request(&format!("XADD s IDMP p i 1-1 f {value}"))];
        let again = request("XADD s NOMKSTREAM IDMP p i * f v");
        stream.append(&set);
        let needs = Needs { messages: true, ..Needs::default() };
        stream.append_requests(&[&add[..], &again, &set].concat(), needs);
        stream.append(&set);
        let all = String::from_utf8([&set[..], &add, &again, &set, &set].concat()).expect("text");
        let plain_add = String::from_utf8(request(&format!("XADD s 1-1 f {value}"))).expect("text");
        for at in (0..stream.end()).step_by(7).chain([stream.end()]) {
            assert_eq!(read(&stream, at, true), all[at as usize..], "from {at}");
            let plain = read(&stream, at, false);
            assert_eq!(plain.len(), all.len() - at as usize, "from {at}");
            assert!(!plain.contains("IDMP"), "from {at}");
        }
        let plain = read(&stream, set.len() as u64, false);
        let (first, rest) = plain.split_at(add.len());
        assert_eq!(first.trim_start_matches('\n'), plain_add);
        assert!(rest[..again.len()].ends_with("\n*1\r\n$4\r\nPING\r\n"), "{rest:?}");
        assert!(stream.memory() > stream.blocks.len() * BLOCK_BYTES + add.len());
        stream.trim(0, u64::MAX);
        assert_eq!((stream.memory(), stream.plain.len()), (0, 0));
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
