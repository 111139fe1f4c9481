//! A collection while it is edited: small, large in its place, or a large one that is to become a
//! new entry.

use crate::collection::chunk::Chunk;
use crate::collection::form::{Collection, Form};
use crate::collection::kind::Type;
use crate::collection::limits::Limits;
use crate::collection::packed::{Element, RUN_BYTES_MAX};
use crate::collection::trunk::Trunk;
use crate::hash::Hasher;
use crate::integer::parse_int;

/// Most elements of a collection that lies in its entry.
const PACKED_MAX: usize = if cfg!(miri) { 8 } else { 128 };

/// A collection while it is edited.
pub(crate) struct Draft<'a> {
    pub(crate) kind: Type,
    pub(crate) body: Body<'a>,
    pub(crate) loose: bool,
    /// Whether elements may have deadlines.
    pub(crate) timed: bool,
    pub(crate) changed: bool,
    pub(crate) limits: &'a Limits,
    pub(crate) hasher: &'a Hasher,
}

pub(crate) enum Body<'a> {
    Packed(&'a mut Chunk),
    /// A large one that is to become a new entry.
    Clone(Box<Trunk>),
    /// A large one in its entry.
    InPlace(&'a mut Trunk),
}

impl Draft<'_> {
    pub(crate) fn view(&self) -> Collection<'_> {
        let form = match &self.body {
            Body::Packed(chunk) => {
                Form::Packed { run: chunk.run(self.kind.shape()), count: chunk.count }
            }
            Body::Clone(trunk) => Form::Tree(trunk),
            Body::InPlace(trunk) => Form::Tree(trunk),
        };
        Collection { form, loose: self.loose, timed: self.timed }
    }

    pub(crate) fn body(&mut self) -> Result<&mut Chunk, &mut Trunk> {
        match &mut self.body {
            Body::Packed(chunk) => Ok(chunk),
            Body::Clone(trunk) => Err(trunk),
            Body::InPlace(trunk) => Err(trunk),
        }
    }

    /// The small or large collection, for a change.
    pub(crate) fn change(&mut self) -> Result<&mut Chunk, &mut Trunk> {
        self.changed = true;
        self.body()
    }

    /// Makes a collection large if it is no longer small, after an element came in.
    pub(crate) fn grown(&mut self, element: Element<'_>) {
        let (len, limits) = (self.view().len(), self.limits);
        let longest = element.key.len().max(element.value.len());
        self.loose = self.loose
            || match self.kind {
                Type::Hash => len > limits.hash_entries || longest > limits.hash_value_bytes,
                Type::Set => len > limits.set_integers || parse_int(element.key).is_none(),
                Type::Sorted => {
                    len > limits.sorted_entries || element.key.len() > limits.sorted_value_bytes
                }
                Type::List | Type::String | Type::Stream | Type::Array => false,
            };
        if let Body::Packed(chunk) = &self.body
            && (chunk.count > PACKED_MAX || chunk.bytes.len() > RUN_BYTES_MAX)
        {
            self.body = Body::Clone(Box::new(Trunk::from_chunk(chunk, self.kind, self.hasher)));
        }
    }

    /// Sets the value under a key of a hash or set; true if the key is new.
    pub(crate) fn put(&mut self, element: Element<'_>) -> bool {
        let shape = self.kind.shape();
        self.timed |= element.is_timed();
        let is_new = match self.change() {
            Ok(chunk) => chunk.put(shape, element),
            Err(trunk) => trunk.put(element),
        };
        self.grown(element);
        is_new
    }

    /// Removes a key of a hash or set; false if it was not there.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let shape = self.kind.shape();
        let was_there = match self.body() {
            Ok(chunk) => chunk.remove_key(shape, key),
            Err(trunk) => trunk.remove(key),
        };
        self.changed |= was_there;
        was_there
    }

    pub(crate) fn insert_at(&mut self, at: usize, element: Element<'_>) {
        let shape = self.kind.shape();
        match self.change() {
            Ok(chunk) => {
                chunk.insert(chunk.span(shape, at), shape, element);
            }
            Err(trunk) => trunk.insert_at(at, element),
        }
        self.grown(element);
    }

    pub(crate) fn replace_at(&mut self, at: usize, element: Element<'_>) {
        let shape = self.kind.shape();
        match self.change() {
            Ok(chunk) => {
                chunk.replace(chunk.span(shape, at), shape, element);
            }
            Err(trunk) => trunk.replace_at(at, element),
        }
        self.grown(element);
    }

    /// Removes at most `count` elements of a list or sorted set from `start` on.
    pub(crate) fn remove_range(&mut self, start: usize, count: usize) {
        let count = count.min(self.view().len().saturating_sub(start));
        if count == 0 {
            return;
        }
        let shape = self.kind.shape();
        match self.change() {
            Ok(chunk) => drop(chunk.remove_range(shape, start, count)),
            Err(trunk) => trunk.remove_range(start, count),
        }
    }
}
