//! Writing collections: packed where Redis keeps them packed, so that it loads them by copying,
//! otherwise element by element.
//!
//! - The writer allocates nothing: it packs in room of a fixed size.
//! - It visits elements twice where the first visit decides the form, so a closure gives the
//!   elements, and must give the same ones each time.

use crate::Value;
use crate::encode::{Encoder, Head};
use crate::format::*;
use crate::pack::{
    FRAME_BYTES, HASH_PAIRS_MAX, NODE_BYTES_MAX, SORTED_MEMBERS_MAX, TEXT_BYTES_MAX, intset,
    packed_bytes,
};
use crate::sheet::Output;

/// A field of a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashField<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// When it expires, in unix milliseconds.
    pub expire_at_ms: Option<i64>,
}

impl HashField<'_> {
    /// When it expires, as Redis takes it: neither 0, which means never, nor later than it knows.
    fn moment(&self) -> Option<i64> {
        self.expire_at_ms.map(|at| at.clamp(1, FIELD_EXPIRY_MAX as i64))
    }
}

/// Where a field lies in a listpack, with its value and its time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    /// When it expires; a field that never does comes after all that do.
    at_ms: i64,
    start: usize,
    end: usize,
}

impl<O: Output> Encoder<O> {
    /// Writes a list.
    ///
    /// # Errors
    /// Those of the output, here and in all methods below.
    pub fn list<'a, I>(&mut self, head: Head<'_>, elements: impl Fn() -> I) -> Result<(), O::Error>
    where
        I: Iterator<Item = &'a [u8]>,
    {
        let mut node = Node::default();
        let nodes = elements().filter(|element| node.next(element) != Next::Append).count();
        self.open(head, TYPE_LIST_NODES)?;
        self.out.length(nodes as u64)?;
        let mut node = Node::default();
        self.pack.clear();
        for element in elements() {
            let next = node.next(element);
            if next != Next::Append {
                self.end_node()?;
            }
            if next == Next::Alone {
                self.out.length(NODE_PLAIN)?;
                self.out.string(element)?;
            } else {
                self.pack.push(element).expect("a node is smaller than the room for it");
            }
        }
        self.end_node()
    }

    fn end_node(&mut self) -> Result<(), O::Error> {
        if self.pack.is_empty() {
            return Ok(());
        }
        self.out.length(NODE_PACKED)?;
        self.out.blob(self.pack.bytes())?;
        self.pack.clear();
        Ok(())
    }

    /// Writes a set of `len` members.
    ///
    /// # Errors
    /// Those of the output.
    pub fn set<'a, I>(
        &mut self,
        head: Head<'_>,
        len: usize,
        members: impl Fn() -> I,
    ) -> Result<(), O::Error>
    where
        I: Iterator<Item = &'a [u8]>,
    {
        let numbers = self.numbers.get_mut(..len).unwrap_or_default();
        let integers = members().map_while(canonical_int).zip(&mut *numbers);
        if len > 0 && integers.map(|(value, head)| *head = value).count() == len {
            let mut room = self.pack.take_room();
            let packed = intset(numbers, &mut room).expect("512 numbers are less than the room");
            let result = self.open(head, TYPE_SET_INTSET).and_then(|()| self.out.blob(packed));
            self.pack = crate::pack::Listpack::within(room);
            return result;
        }
        self.open(head, TYPE_SET)?;
        self.out.length(len as u64)?;
        for member in members() {
            self.out.string(member)?;
        }
        Ok(())
    }

    /// Writes a hash of `len` pairs of field and value.
    ///
    /// # Errors
    /// Those of the output.
    pub fn hash<'a, I>(
        &mut self,
        head: Head<'_>,
        len: usize,
        pairs: impl Fn() -> I,
    ) -> Result<(), O::Error>
    where
        I: Iterator<Item = (&'a [u8], &'a [u8])>,
    {
        self.pack.clear();
        let packed = len <= HASH_PAIRS_MAX
            && pairs().all(|(field, value)| {
                field.len().max(value.len()) <= TEXT_BYTES_MAX
                    && self.pack.push(field).and_then(|()| self.pack.push(value)).is_some()
            });
        if packed {
            self.open(head, TYPE_HASH_LISTPACK)?;
            return self.out.blob(self.pack.bytes());
        }
        self.open(head, TYPE_HASH)?;
        self.out.length(len as u64)?;
        for (field, value) in pairs() {
            self.out.string(field)?;
            self.out.string(value)?;
        }
        Ok(())
    }

    /// Writes a hash of `len` fields, of which some expire. `false`: the version has no form for
    /// that, and nothing was written.
    ///
    /// # Errors
    /// Those of the output.
    pub fn expiring_hash<'a, I>(
        &mut self,
        head: Head<'_>,
        len: usize,
        fields: impl Fn() -> I,
    ) -> Result<bool, O::Error>
    where
        I: Iterator<Item = HashField<'a>>,
    {
        match self.version {
            Version::Redis10 | Version::Redis11 => return Ok(false),
            Version::Redis12 | Version::Redis13 | Version::Redis14 => {
                let soonest = fields().filter_map(|field| field.moment()).min();
                self.hash_of_redis(head, len, soonest.unwrap_or(FIELD_EXPIRY_MAX as i64), fields)?;
            }
            Version::Valkey80 => {
                self.open(head, TYPE_HASH_VALKEY)?;
                self.out.length(len as u64)?;
                for field in fields() {
                    self.out.string(field.name)?;
                    self.out.string(field.value)?;
                    let at = field.expire_at_ms.map_or(NO_FIELD_EXPIRY, |at| at.max(0));
                    self.out.sheet.put(&at.to_le_bytes())?;
                }
            }
        }
        Ok(true)
    }

    /// In the form of Redis 7.4; no field expires before `soonest`.
    fn hash_of_redis<'a, I>(
        &mut self,
        head: Head<'_>,
        len: usize,
        soonest: i64,
        fields: impl Fn() -> I,
    ) -> Result<(), O::Error>
    where
        I: Iterator<Item = HashField<'a>>,
    {
        if self.pack_by_time(len, fields()).is_some() {
            self.open(head, TYPE_HASH_LISTPACK_EXPIRES)?;
            self.out.sheet.put(&soonest.to_le_bytes())?;
            return self.out.blob(self.ordered.bytes());
        }
        self.open(head, TYPE_HASH_EXPIRES)?;
        self.out.sheet.put(&soonest.to_le_bytes())?;
        self.out.length(len as u64)?;
        for field in fields() {
            let beyond = field.moment().map_or(0, |at| at - soonest + 1);
            self.out.length(beyond as u64)?;
            self.out.string(field.name)?;
            self.out.string(field.value)?;
        }
        Ok(())
    }

    /// Packs fields, values and times in `ordered`; `None` if they are too many or too long.
    fn pack_by_time<'a>(
        &mut self,
        len: usize,
        fields: impl Iterator<Item = HashField<'a>>,
    ) -> Option<()> {
        self.pack.clear();
        let places = self.places.get_mut(..len)?;
        for (field, place) in fields.zip(&mut *places) {
            if field.name.len().max(field.value.len()) > TEXT_BYTES_MAX {
                return None;
            }
            let (start, moment) = (self.pack.end(), field.moment());
            self.pack.push(field.name)?;
            self.pack.push(field.value)?;
            self.pack.push_value(Value::Int(moment.unwrap_or(0)))?;
            *place = Place { at_ms: moment.unwrap_or(i64::MAX), start, end: self.pack.end() };
        }
        places.sort_unstable_by_key(|place| (place.at_ms, place.start));
        self.ordered.clear();
        for place in places {
            self.ordered.push_from(&self.pack, place.start..place.end, 3)?;
        }
        Some(())
    }

    /// Writes a sorted set of `len` members with their scores, which are numbers; a large one from
    /// its end, where Redis inserts fastest.
    ///
    /// # Errors
    /// Those of the output.
    pub fn sorted<'a, I, J>(
        &mut self,
        head: Head<'_>,
        len: usize,
        rising: impl Fn() -> I,
        falling: impl Fn() -> J,
    ) -> Result<(), O::Error>
    where
        I: Iterator<Item = (&'a [u8], f64)>,
        J: Iterator<Item = (&'a [u8], f64)>,
    {
        self.pack.clear();
        let packed = len <= SORTED_MEMBERS_MAX
            && rising().all(|(member, score)| {
                member.len() <= TEXT_BYTES_MAX
                    && self.pack.push(member).and_then(|()| self.push_score(score)).is_some()
            });
        if packed {
            self.open(head, TYPE_SORTED_LISTPACK)?;
            return self.out.blob(self.pack.bytes());
        }
        self.open(head, TYPE_SORTED)?;
        self.out.length(len as u64)?;
        for (member, score) in falling() {
            self.out.string(member)?;
            self.out.sheet.put(&score.to_le_bytes())?;
        }
        Ok(())
    }

    fn push_score(&mut self, score: f64) -> Option<()> {
        self.pack.push(score_text(&mut [0; 32], score)) // a whole number becomes an integer
    }
}

/// The node of a list that takes elements.
#[derive(Default)]
struct Node {
    bytes: usize,
}

/// Where an element goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Into the node.
    Append,
    /// Into a new one.
    Fresh,
    /// Into a node of its own, not packed.
    Alone,
}

impl Node {
    fn next(&mut self, element: &[u8]) -> Next {
        let bytes = packed_bytes(Value::Bytes(element));
        if bytes > NODE_BYTES_MAX - FRAME_BYTES {
            self.bytes = 0;
            Next::Alone
        } else if self.bytes == 0 || self.bytes + bytes > NODE_BYTES_MAX {
            self.bytes = FRAME_BYTES + bytes;
            Next::Fresh
        } else {
            self.bytes += bytes;
            Next::Append
        }
    }
}
