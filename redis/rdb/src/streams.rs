//! Reading streams: their entries, then their numbers, then their groups; `encode/streams` has the
//! drawing.
//!
//! - Memory is that of one node, as for other collections.
//! - Ids rise from entry to entry; a node's counts, and the length of each entry, are true.

use std::io::Read;

use crate::error::Problem;
use crate::format::*;
use crate::source::{Source, trim};
use crate::unpack::{Flaw, Form, Item, Walk};
use crate::{Element, Id, StreamHead, Texts};

/// Flags of an entry.
const DELETED: i64 = 1;
const SAME_NAMES: i64 = 2;
/// The time at which a consumer was active that never was.
pub(crate) const NEVER: i64 = -1;

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Entries,
    Group,
    Pending,
    Consumer,
    Owned,
    Released,
    Producers,
    Sent,
    End,
}

/// The stream being read.
#[derive(Debug)]
pub(crate) struct Streams {
    /// The type of value: forms differ in what they tell.
    kind: u8,
    part: Part,
    /// Longer strings are stepped over.
    most: u64,
    /// Nodes, groups, pending entries, consumers, their entries, and entries that no consumer has,
    /// still to be read.
    nodes: u64,
    groups: u64,
    pending: u64,
    consumers: u64,
    owned: u64,
    released: u64,
    /// Producers, and messages of one, still to be read.
    producers: u64,
    sent: u64,
    node: Node,
    last: Option<Id>,
    /// Entries so far, and whether a node was stepped over, whose entries nobody counted.
    seen: u64,
    is_partly_seen: bool,
    name: Vec<u8>,
}

/// The node under way.
#[derive(Debug, Default)]
struct Node {
    packed: Vec<u8>,
    walk: Option<Walk>,
    /// Where it begins in the file.
    offset: u64,
    first: Id,
    /// The names of the node, and those of an entry that has others.
    names: Kept,
    own_names: Kept,
    is_same: bool,
    values: Kept,
    /// Entries still to be read, and those among them that are not deleted.
    left: u64,
    valid: u64,
}

/// Texts, copied: those of a node are read once, however many entries share them.
#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Kept {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn keep(&mut self, item: &Item, packed: &[u8]) {
        match item {
            Item::Int(value) => {
                let mut room = [0; 32];
                self.bytes.extend_from_slice(number_text(&mut room, format_args!("{value}")));
            }
            Item::Text(range) => {
                self.bytes.extend_from_slice(packed.get(range.clone()).unwrap_or_default());
            }
        }
        self.ends.push(self.bytes.len());
    }

    fn texts(&self) -> Texts<'_> {
        Texts { bytes: &self.bytes, ends: &self.ends }
    }
}

impl Streams {
    /// As [`Elements::up_to`](crate::elements::Elements::up_to).
    pub(crate) fn up_to(most: u64) -> Self {
        Self {
            kind: TYPE_STREAM,
            part: Part::Entries,
            most,
            nodes: 0,
            groups: 0,
            pending: 0,
            consumers: 0,
            owned: 0,
            released: 0,
            producers: 0,
            sent: 0,
            node: Node::default(),
            last: None,
            seen: 0,
            is_partly_seen: false,
            name: Vec::new(),
        }
    }

    /// Starts on a stream of that form; about how many entries it has.
    pub(crate) fn begin<R: Read>(
        &mut self,
        source: &mut Source<R>,
        kind: u8,
    ) -> Result<u64, Problem> {
        *self = Self { kind, node: std::mem::take(&mut self.node), ..Self::up_to(self.most) };
        (self.node.left, self.node.walk) = (0, None);
        self.nodes = source.length("the number of nodes")?;
        Ok(self.nodes)
    }

    /// The next element; `None` at the end.
    pub(crate) fn next<R: Read>(
        &mut self,
        source: &mut Source<R>,
    ) -> Result<Option<Element<'_>>, Problem> {
        match self.part {
            Part::Entries => {
                while !self.next_entry()? {
                    let Some(nodes) = self.nodes.checked_sub(1) else { return self.head(source) };
                    self.nodes = nodes;
                    self.is_partly_seen |= !self.node.read(source, self.most)?;
                }
                let id = self.last.unwrap_or_default();
                let Node { names, own_names, is_same, values, .. } = &self.node;
                let node = is_same.then_some(self.nodes);
                let names = if *is_same { names } else { own_names }.texts();
                Ok(Some(Element::Entry { id, names, values: values.texts(), node }))
            }
            Part::Owned if self.owned > 0 => {
                self.owned -= 1;
                Ok(Some(Element::Owned(id(source.array("an id")?))))
            }
            Part::Owned | Part::Consumer if self.consumers > 0 => {
                self.consumers -= 1;
                self.consumer(source)
            }
            Part::Pending if self.pending > 0 => {
                self.pending -= 1;
                let id = id(source.array("an id")?);
                let time_ms = i64::from_le_bytes(source.array("a time")?);
                let count = source.length("a number of deliveries")?;
                Ok(Some(Element::Pending { id, time_ms, count }))
            }
            Part::Pending => {
                self.consumers = source.length("the number of consumers")?;
                self.part = Part::Consumer;
                self.next(source)
            }
            Part::Owned | Part::Consumer if self.kind == TYPE_STREAM_FIFTH => {
                self.released = source.length("the number of released entries")?;
                self.part = Part::Released;
                self.next(source)
            }
            Part::Released if self.released > 0 => {
                self.released -= 1;
                Ok(Some(Element::Released(id(source.array("an id")?))))
            }
            Part::Owned | Part::Consumer | Part::Released | Part::Group => {
                let Some(groups) = self.groups.checked_sub(1) else { return self.idmp(source) };
                self.groups = groups;
                self.group(source)
            }
            Part::Producers | Part::Sent => self.producer(source).map(Some),
            Part::End => {
                trim(&mut self.name);
                Ok(None)
            }
        }
    }

    /// Reads a message, a producer, or the counts behind them.
    fn producer<R: Read>(&mut self, source: &mut Source<R>) -> Result<Element<'_>, Problem> {
        if self.part == Part::Sent && self.sent > 0 {
            self.sent -= 1;
            source.text_up_to(self.most, &mut self.name)?;
            let id = (source.length("an id")?, source.length("an id")?);
            return Ok(Element::Sent(&self.name, id));
        }
        if self.producers > 0 {
            self.producers -= 1;
            source.text_up_to(self.most, &mut self.name)?;
            self.sent = source.length("the number of ids of messages")?;
            self.part = Part::Sent;
            return Ok(Element::Producer(&self.name));
        }
        self.part = Part::End;
        let added = source.length("the number of ids of messages ever")?;
        let duplicates = source.length("the number of messages sent again")?;
        Ok(Element::IdmpCounts { added, duplicates })
    }

    /// Reads what stands behind the groups.
    fn idmp<R: Read>(&mut self, source: &mut Source<R>) -> Result<Option<Element<'_>>, Problem> {
        if !matches!(self.kind, TYPE_STREAM_FOURTH | TYPE_STREAM_FIFTH) {
            self.part = Part::End;
            return self.next(source);
        }
        let duration_s = source.length("how long ids of messages are kept")?;
        let entries = source.length("how many ids of messages are kept")?;
        self.producers = source.length("the number of producers")?;
        self.part = Part::Producers;
        Ok(Some(Element::Idmp { duration_s, entries }))
    }

    fn head<R: Read>(&mut self, source: &mut Source<R>) -> Result<Option<Element<'_>>, Problem> {
        let offset = source.offset();
        let mut number = || source.length("a number of a stream");
        let (len, last) = (number()?, (number()?, number()?));
        let (mut first, mut deleted, mut added) = (Id::default(), Id::default(), len);
        if self.kind != TYPE_STREAM_FIRST {
            first = (number()?, number()?);
            deleted = (number()?, number()?);
            added = number()?;
        }
        let problem = |what: String| Err(Problem::Value { offset, what });
        if len < self.seen || (len > self.seen && !self.is_partly_seen) {
            return problem(format!("a stream of {} entries that says {len}", self.seen));
        }
        if self.last.is_some_and(|id| id > last) {
            return problem("a stream whose last id is below that of an entry".to_owned());
        }
        self.groups = source.length("the number of groups")?;
        self.part = Part::Group;
        trim(&mut self.node.packed);
        for kept in [&mut self.node.names, &mut self.node.own_names, &mut self.node.values] {
            trim(&mut kept.bytes);
        }
        Ok(Some(Element::Head(StreamHead { len, last, first, deleted, added })))
    }

    fn group<R: Read>(&mut self, source: &mut Source<R>) -> Result<Option<Element<'_>>, Problem> {
        source.text_up_to(self.most, &mut self.name)?;
        let mut number = || source.length("a number of a group");
        let last = (number()?, number()?);
        let is_told = self.kind != TYPE_STREAM_FIRST;
        let read = if is_told { number()? } else { u64::MAX };
        self.pending = source.length("the number of pending entries")?;
        self.part = Part::Pending;
        let read = (read != u64::MAX).then_some(read);
        Ok(Some(Element::Group { name: &self.name, last, read, is_told }))
    }

    fn consumer<R: Read>(
        &mut self,
        source: &mut Source<R>,
    ) -> Result<Option<Element<'_>>, Problem> {
        source.text_up_to(self.most, &mut self.name)?;
        let seen_ms = i64::from_le_bytes(source.array("a time")?);
        let mut active_ms = seen_ms;
        if self.kind >= TYPE_STREAM_THIRD {
            active_ms = i64::from_le_bytes(source.array("a time")?);
        }
        let active_ms = Some(active_ms).filter(|&at| at != NEVER);
        self.owned = source.length("the number of pending entries")?;
        self.part = Part::Owned;
        Ok(Some(Element::Consumer { name: &self.name, seen_ms, active_ms }))
    }

    /// Reads the next entry of the node, if there is one.
    fn next_entry(&mut self) -> Result<bool, Problem> {
        while self.node.left > 0 {
            let (is_deleted, id) = self.node.entry()?;
            if is_deleted {
                continue;
            }
            if self.last.is_some_and(|last| id <= last) || id == Id::default() {
                return Err(self.node.problem("an entry whose id is not above the one before"));
            }
            self.last = Some(id);
            self.seen += 1;
            return Ok(true);
        }
        Ok(false)
    }
}

impl Node {
    /// Reads a node up to its entries; false if it is too long, and was stepped over.
    fn read<R: Read>(&mut self, source: &mut Source<R>, most: u64) -> Result<bool, Problem> {
        self.offset = source.offset();
        source.text_up_to(most, &mut self.packed)?;
        let first: [u8; 16] = self.packed.as_slice().try_into().map_err(|_| {
            let what = "a node of a stream whose key is no id".to_owned();
            Problem::Value { offset: self.offset, what }
        })?;
        self.first = id(first);
        self.offset = source.offset();
        if !source.text_up_to(most, &mut self.packed)? {
            return Ok(false);
        }
        let walk = Walk::new(Form::Listpack, &self.packed);
        self.walk = Some(walk.map_err(|flaw| self.flaw(&flaw))?);
        let (valid, deleted, names) = (self.count()?, self.count()?, self.count()?);
        self.names.clear();
        for _ in 0..names {
            let name = self.item()?;
            self.names.keep(&name, &self.packed);
        }
        if self.integer()? != 0 {
            return Err(self.problem("the names of a node have no end"));
        }
        (self.left, self.valid) = (valid.saturating_add(deleted), valid);
        if self.left == 0 {
            self.end()?;
        }
        Ok(true)
    }

    /// Reads an entry into the texts; whether it is deleted, and its id.
    fn entry(&mut self) -> Result<(bool, Id), Problem> {
        let flags = self.integer()?;
        let beyond = [self.integer()? as u64, self.integer()? as u64];
        let id = (self.first.0.wrapping_add(beyond[0]), self.first.1.wrapping_add(beyond[1]));
        let is_same = flags & SAME_NAMES != 0;
        let fields = if is_same { self.names.ends.len() as u64 } else { self.count()? };
        self.is_same = is_same;
        self.own_names.clear();
        self.values.clear();
        for _ in 0..fields {
            if !is_same {
                let name = self.item()?;
                self.own_names.keep(&name, &self.packed);
            }
            let value = self.item()?;
            self.values.keep(&value, &self.packed);
        }
        // What Redis reads backwards by.
        let elements = if is_same { fields + 3 } else { 2 * fields + 4 };
        if u64::try_from(self.integer()?) != Ok(elements) {
            return Err(self.problem("an entry of another length than it says"));
        }
        let is_deleted = flags & DELETED != 0;
        self.left -= 1;
        if !is_deleted {
            let valid = self.valid.checked_sub(1);
            self.valid = valid.ok_or_else(|| self.problem("more entries than it says"))?;
        }
        if self.left == 0 {
            self.end()?;
        }
        Ok((is_deleted, id))
    }

    /// The end of the packed string has to be here.
    fn end(&mut self) -> Result<(), Problem> {
        if self.valid > 0 {
            return Err(self.problem("fewer entries than it says"));
        }
        match self.next_item()? {
            None => Ok(()),
            Some(_) => Err(self.problem("something behind its entries")),
        }
    }

    fn next_item(&mut self) -> Result<Option<Item>, Problem> {
        let Some(walk) = &mut self.walk else { return Ok(None) };
        walk.next(&self.packed).map_err(|flaw| self.flaw(&flaw))
    }

    fn item(&mut self) -> Result<Item, Problem> {
        self.next_item()?.ok_or_else(|| self.problem("it ends within an entry"))
    }

    fn integer(&mut self) -> Result<i64, Problem> {
        match self.item()? {
            Item::Int(value) => Ok(value),
            Item::Text(_) => Err(self.problem("a text stands where a number belongs")),
        }
    }

    fn count(&mut self) -> Result<u64, Problem> {
        let count = u64::try_from(self.integer()?);
        count.map_err(|_| self.problem("a count below zero"))
    }

    fn problem(&self, what: &str) -> Problem {
        let what = format!("a damaged node: {what} (Stream listpack integrity check failed)");
        Problem::Value { offset: self.offset, what }
    }

    fn flaw(&self, Flaw { at, what }: &Flaw) -> Problem {
        self.problem(&format!("{what}, at byte {at} of its {}", self.packed.len()))
    }
}

/// An id, its milliseconds first, the highest byte first.
fn id(bytes: [u8; 16]) -> Id {
    let both = u128::from_be_bytes(bytes);
    ((both >> 64) as u64, both as u64)
}
