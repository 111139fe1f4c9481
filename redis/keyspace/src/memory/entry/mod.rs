//! One key with its value and time to live, in one allocation; the handles of the slot words.
//!
//! ```text
//! offset 0        8      12          28         40          48    48 + key_len
//!        +--------+------+-----------+----------+-----------+-----+-----------------------+
//!        | stamp  | info | [lengths] | [link]   | [expires] | key | inline value, reserve |
//!        +--------+------+-----------+----------+-----------+-----+-----------------------+
//!                        |<------------------------- tail ------------------------------->|
//! stamp: era 44 | length of the key 8 | timed, loose, wide, mortal | kind 4 | space 4
//! info:  units of 16 bytes that all takes 8 | length of the value 12 | elements 12
//! ```
//! What stands in brackets is there only if needed: most entries are small and live for ever.
//! - A *wide* entry, one that is larger or has a longer key than stamp and info can say, has the
//!   lengths as four numbers of 32 bits: of the key, units, of the value, elements.
//! - A *linked* one (the highest bit of the kind) has a pointer behind four bytes that align it:
//!   to a reference-counted blob, for texts above [`INLINE_MAX`], or to a reference-counted
//!   [`Trunk`] for a large collection. It always has a place for a deadline.
//! - A *mortal* one has a place for a deadline. An entry that gets one later is made anew.
//!
//! The inline value is, by kind, an integer of 1, 2, 4 or 8 bytes, a text, or a small collection as
//! a packed run.
//!
//! Invariants
//! - The address of an entry and its key never change; neither does `stamp`, except for the kind
//!   (but whether it is linked), `timed` and `loose`, and the era of an entry that is loaded.
//! - All bytes are initialised.
//! - [`Owned`] is the one owner. It is a bare pointer: unlike a `Box`, moving it asserts nothing
//!   about other readers, so it can lie in limbo while an image reads the entry.
//! - Mutation takes `&mut Entry`, which [`super::slots`] gives out only if no image can see
//!   the entry. Immutable sharing needs no more: no field is written behind a `&Entry`.

mod owned;
mod word;

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use crate::collection::form::{Collection, Form};
use crate::collection::kind::Type;
use crate::collection::packed::{NEVER, RUN_BYTES_MAX, Run};
use crate::collection::traits::Traits;
use crate::collection::tree::MOVED_BYTES_MAX;
use crate::collection::trunk::Trunk;
use crate::memory::value::Value;
pub(crate) use owned::{Birth, Owned};
pub(crate) use word::New;
use word::{Kind, Link};

/// Longest text or collection that lies in the entry itself. Above, copying costs more than the two
/// further allocations of a blob, and sharing it makes EXPIRE, RENAME and COPY independent of its
/// size.
pub(crate) const INLINE_MAX: usize = 4096;
const _: () = assert!(RUN_BYTES_MAX <= INLINE_MAX);
/// Bytes of a key beside its entry: a slot word, a cell of an index that is three quarters full,
/// and the number of its last use.
pub(crate) const KEY_BYTES: usize = 8 + 11 + 4;
/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1 << 30;

/// Sizes are multiples of this, as the allocator's are.
const UNIT: usize = 16;
const TAIL: usize = 12;
const _: () = assert!(std::mem::offset_of!(Header, tail) == TAIL);
/// Bytes of the lengths, of a link with what aligns it, of a deadline.
const LENGTHS: usize = 16;
const LINK: usize = PAD + 8;
const DEADLINE: usize = 8;
const PAD: usize = 4;

const KIND_AT: u32 = 4;
const LINKED: u64 = 8 << KIND_AT;
/// Kinds of collections and blobs have one of these bits, those of short texts none.
const NOT_SHORT: u64 = 12 << KIND_AT;
const MORTAL: u64 = 1 << 8;
const WIDE: u64 = 1 << 9;
const LOOSE: u64 = 1 << 10;
const TIMED: u64 = 1 << 11;
const KEY_LEN_AT: u32 = 12;
/// A million eras a second would last for half a year.
const ERA_AT: u32 = 20;
const KEY_LEN_MAX: usize = 0xff;
const UNITS_MAX: usize = 0xff;
const UNITS_AT: u32 = 24;
const LEN_AT: u32 = 12;
const LEN_MAX: usize = 0xfff;

/// A long text, shared by the entries that hold it.
pub(crate) type Blob = Arc<Vec<u8>>;

/// A key with its value and time to live.
#[repr(transparent)]
pub struct Entry(Header<[u8]>);

#[repr(C)]
struct Header<T: ?Sized = [u8; 0]> {
    stamp: u64,
    info: u32,
    tail: T,
}

/// The numbers of a wide entry.
#[derive(Clone, Copy)]
enum Length {
    Key,
    Units,
    Value,
    Elements,
}

impl Entry {
    /// The space of its database when it was born: SWAPDB swaps databases and leaves entries alone.
    pub(crate) fn space(&self) -> usize {
        (self.0.stamp & 0xf) as usize
    }

    /// Its key.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        let start = self.key_at();
        &self.0.tail[start..start + self.key_len()]
    }

    /// When it expires, in unix milliseconds.
    #[must_use]
    pub fn expire_at(&self) -> Option<i64> {
        Some(self.deadline()).filter(|&at| at != NEVER)
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> Value<'_> {
        match self.kind() {
            Kind::Int => Value::Int(read_int(self.inline())),
            Kind::Inline => Value::Bytes(self.inline()),
            Kind::Blob => Value::Bytes(self.blob()),
            Kind::Packed(kind) => {
                let run = Run::new(self.inline(), kind.shape());
                let form = Form::Packed { run, count: self.elements() };
                let (loose, timed) = (self.has(LOOSE), self.has(TIMED));
                Value::collection(kind, Collection { form, loose, timed })
            }
            Kind::Trunk(kind) => {
                let trunk = self.trunk();
                let form = Form::Tree(trunk);
                let (loose, timed) = (trunk.loose, trunk.main.is_timed());
                Value::collection(kind, Collection { form, loose, timed })
            }
        }
    }

    /// Its value, if it is a long text: as it is, whatever becomes of the key.
    #[must_use]
    pub fn long_text(&self) -> Option<&Arc<Vec<u8>>> {
        (self.kind() == Kind::Blob).then(|| self.blob())
    }

    /// The type of its value.
    pub(crate) fn value_type(&self) -> Type {
        self.kind().value_type()
    }

    /// The era it was born in: it belongs to images of this era and later ones.
    pub(crate) fn era(&self) -> u64 {
        self.0.stamp >> ERA_AT
    }

    #[inline]
    pub(crate) fn deadline(&self) -> i64 {
        if !self.has(MORTAL) {
            return NEVER;
        }
        let end = self.key_at();
        let bytes = self.0.tail[end - DEADLINE..end].try_into().expect("its length is fixed");
        i64::from_ne_bytes(bytes)
    }

    /// What it has that most values have not.
    #[inline]
    pub(crate) fn traits(&self) -> Traits {
        match self.kind() {
            Kind::Packed(Type::Hash) => Traits::NONE.and_if(self.has(TIMED), Traits::FIELDS),
            Kind::Trunk(Type::Hash | Type::Stream) => self.trunk().traits(),
            Kind::Packed(Type::Array) | Kind::Trunk(Type::Array) => Traits::ARRAY,
            _ => Traits::NONE,
        }
    }

    /// Whether a field of it has expired, or a message of a producer. Each read asks.
    #[inline(always)]
    pub(crate) fn has_due(&self, now: i64) -> bool {
        self.has(NOT_SHORT) && self.part_is_due(now)
    }

    #[inline(never)]
    fn part_is_due(&self, now: i64) -> bool {
        match self.kind() {
            Kind::Trunk(Type::Stream) => {
                let parts = self.trunk().stream.as_deref();
                parts.is_some_and(|parts| parts.soonest() <= now)
            }
            _ if !self.traits().is_timed() => false,
            _ => self.value().as_collection().is_some_and(|it| it.soonest() <= now),
        }
    }

    /// Whether it has expired.
    #[inline]
    pub(crate) fn is_expired(&self, now: i64) -> bool {
        self.deadline() <= now
    }

    /// Bytes of memory it takes, with its place in slots and index; what it shares with other
    /// keys is counted in full.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes() + KEY_BYTES
    }

    /// Bytes it takes, a shared blob or node counted in full.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self) + self.outside_bytes()
    }

    /// The bytes outside of the entry itself, which [`share`](Self::share) shares.
    pub(crate) fn outside_bytes(&self) -> usize {
        match self.kind() {
            Kind::Blob => size_of::<Vec<u8>>() + 16 + self.blob().capacity(),
            Kind::Trunk(_) => self.trunk().bytes(),
            Kind::Int | Kind::Inline | Kind::Packed(_) => 0,
        }
    }

    /// The value for another entry: shares what does not lie inline.
    pub(crate) fn share(&self) -> New<'_> {
        match (self.kind(), self.value()) {
            (Kind::Trunk(kind), _) => New::Trunk(kind, Arc::clone(self.trunk())),
            (Kind::Packed(kind), _) => New::Packed {
                kind,
                run: self.inline(),
                count: self.elements(),
                loose: self.has(LOOSE),
                timed: self.has(TIMED),
            },
            (_, Value::Int(int)) => New::Int(int),
            (Kind::Inline, Value::Bytes(text)) => New::Inline(text, &[]),
            _ => New::Blob(Arc::clone(self.blob())),
        }
    }

    /// Whether nothing was changed of an entry since it was copied by [`share`](Self::share): a
    /// change of what is shared copies it first.
    pub(crate) fn is_unchanged(&self, copy: &Self) -> bool {
        let is_same = match (self.share(), copy.share()) {
            (New::Int(this), New::Int(other)) => this == other,
            (New::Inline(this, _), New::Inline(other, _)) => this == other,
            (New::Blob(this), New::Blob(other)) => Arc::ptr_eq(&this, &other),
            (New::Trunk(this, trunk), New::Trunk(other, copied)) => {
                this == other && Arc::ptr_eq(&trunk, &copied)
            }
            (
                New::Packed { kind, run, count, loose, timed: _ }, // as the run says
                New::Packed { kind: other, run: copied, count: counted, loose: loosened, .. },
            ) => (kind, run, count, loose) == (other, copied, counted, loosened),
            _ => false,
        };
        is_same && self.deadline() == copy.deadline()
    }

    /// Gives it the era of its class, before an image or a view can see it.
    pub(crate) fn set_era(&mut self, era: u64) {
        self.0.stamp = era << ERA_AT | self.0.stamp & ((1 << ERA_AT) - 1);
    }

    /// An entry of the same era with the same contents, which shares what lies outside of it.
    pub(crate) fn copy(&self) -> Owned {
        self.copy_born(self.birth())
    }

    fn birth(&self) -> Birth {
        Birth { era: self.era(), space: self.space() }
    }

    /// As [`copy`](Self::copy), of this era and space.
    pub(crate) fn copy_born(&self, birth: Birth) -> Owned {
        Owned::new(birth, self.key(), self.share(), self.deadline(), 0)
    }

    /// Whether some of its memory is sparse, as `is_sparse` says of an address.
    pub(crate) fn is_sparse(&self, is_sparse: &dyn Fn(*const u8) -> bool) -> bool {
        is_sparse(ptr::from_ref(self).cast())
            || (self.has_text_to_move()
                && (is_sparse(self.blob().as_ptr()) || is_sparse(Arc::as_ptr(self.blob()).cast())))
    }

    /// An entry of the same birth with the same contents and room, in other memory. It shares a
    /// large collection, and a text that others hold too or that is long.
    pub(crate) fn moved(&self) -> Owned {
        let used = self.key_at() + self.key_len() + self.len();
        let reserve = if self.has(LINKED) { 0 } else { self.0.tail.len() - used };
        let value = if self.has_text_to_move() {
            let mut text = Vec::with_capacity(self.blob().capacity());
            text.extend_from_slice(self.blob());
            New::Blob(Arc::new(text))
        } else {
            self.share()
        };
        Owned::new(self.birth(), self.key(), value, self.deadline(), reserve)
    }

    /// Whether it has a long text that may move: nobody else holds it, and the allocator puts texts
    /// of this length beside others.
    fn has_text_to_move(&self) -> bool {
        self.kind() == Kind::Blob
            && self.blob().capacity() <= MOVED_BYTES_MAX
            && Arc::strong_count(self.blob()) == 1
    }

    /// Whether it has a place for this deadline.
    pub(crate) fn has_place_for(&self, at: i64) -> bool {
        at == NEVER || self.has(MORTAL)
    }

    /// Sets its deadline, for which it [has a place](Self::has_place_for).
    pub(crate) fn set_deadline(&mut self, at: i64) {
        assert!(self.has_place_for(at), "no place for a deadline");
        if self.has(MORTAL) {
            let end = self.key_at();
            self.0.tail[end - DEADLINE..end].copy_from_slice(&at.to_ne_bytes());
        }
    }

    /// Replaces an inline value in place, or gives `new` back if it needs another allocation (or
    /// would leave much of this one unused).
    pub(crate) fn overwrite<'a>(&mut self, new: New<'a>) -> Result<(), New<'a>> {
        let facts = new.facts();
        let reserve = self.reserve_mut().len();
        let fits = facts.len <= reserve && facts.len + 64 >= reserve / 2;
        if facts.kind.is_linked() || self.has(LINKED) || !fits {
            return Err(new);
        }
        let mut int = [0; 8];
        let [first, second] = new.inline(&mut int);
        reserve_write(self.reserve_mut(), first, second);
        self.0.stamp = self.0.stamp & !(0xf << KIND_AT | LOOSE | TIMED) | facts.bits();
        self.set_len(facts.len);
        self.set_elements(facts.count);
        Ok(())
    }

    /// Appends to an inline text if there is room; false if not.
    pub(crate) fn append_inline(&mut self, more: &[u8]) -> bool {
        if self.kind() != Kind::Inline {
            return false;
        }
        let len = self.len();
        let Some(room) = self.reserve_mut().get_mut(len..len + more.len()) else { return false };
        room.copy_from_slice(more);
        self.set_len(len + more.len());
        true
    }

    /// The inline text, to be changed without changing its length.
    pub(crate) fn inline_mut(&mut self) -> Option<&mut [u8]> {
        let len = self.len();
        (self.kind() == Kind::Inline).then(|| &mut self.reserve_mut()[..len])
    }

    /// The blob, if no other entry holds it.
    pub(crate) fn blob_mut(&mut self) -> Option<&mut Vec<u8>> {
        if self.kind() != Kind::Blob {
            return None;
        }
        // SAFETY: kind `Blob` says that it links one.
        let blob = unsafe { &mut self.link_mut().blob };
        Arc::get_mut(blob)
    }

    /// The large collection, to be changed, if there is one here: a trunk that other entries hold
    /// too is copied first, its nodes shared.
    pub(crate) fn trunk_mut(&mut self) -> Option<&mut Trunk> {
        self.linked_trunk_mut().map(Arc::make_mut)
    }

    /// The large collection, if there is one here that no other entry holds.
    pub(crate) fn own_trunk_mut(&mut self) -> Option<&mut Trunk> {
        self.linked_trunk_mut().and_then(Arc::get_mut)
    }

    fn linked_trunk_mut(&mut self) -> Option<&mut Arc<Trunk>> {
        if !matches!(self.kind(), Kind::Trunk(_)) {
            return None;
        }
        // SAFETY: kind `Trunk` says that it links one.
        Some(unsafe { &mut self.link_mut().trunk })
    }

    fn trunk(&self) -> &Arc<Trunk> {
        assert!(matches!(self.kind(), Kind::Trunk(_)), "asked only of trunks");
        // SAFETY: kind `Trunk` says that it links one.
        unsafe { &self.link().trunk }
    }

    fn blob(&self) -> &Blob {
        assert_eq!(self.kind(), Kind::Blob, "asked only of blobs");
        // SAFETY: kind `Blob` says that it links one.
        unsafe { &self.link().blob }
    }

    /// The link of a linked entry.
    fn link(&self) -> &Link {
        let place = self.0.tail[self.link_place()].as_ptr().cast();
        // SAFETY: a linked entry has one there from its birth on, aligned by what stands before it,
        // and it is borrowed as the entry is.
        unsafe { &*place }
    }

    fn link_mut(&mut self) -> &mut Link {
        let place = self.link_place();
        let place = self.0.tail[place].as_mut_ptr().cast();
        // SAFETY: as above.
        unsafe { &mut *place }
    }

    fn link_place(&self) -> Range<usize> {
        assert!(self.has(LINKED), "asked only of linked entries");
        let start = self.lengths_bytes() + PAD;
        start..start + size_of::<Link>()
    }

    /// The inline value.
    #[inline]
    fn inline(&self) -> &[u8] {
        let start = self.key_at() + self.key_len();
        &self.0.tail[start..start + self.len()]
    }

    /// The bytes behind the key.
    fn reserve_mut(&mut self) -> &mut [u8] {
        let start = self.key_at() + self.key_len();
        &mut self.0.tail[start..]
    }

    #[inline]
    fn has(&self, flag: u64) -> bool {
        self.0.stamp & flag != 0
    }

    #[inline]
    fn kind(&self) -> Kind {
        Kind::of_bits(self.0.stamp >> KIND_AT & 0xf)
    }

    #[inline]
    fn lengths_bytes(&self) -> usize {
        if self.has(WIDE) { LENGTHS } else { 0 }
    }

    /// Where the key begins in the tail.
    #[inline]
    fn key_at(&self) -> usize {
        let link = if self.has(LINKED) { LINK } else { 0 };
        let deadline = if self.has(MORTAL) { DEADLINE } else { 0 };
        self.lengths_bytes() + link + deadline
    }

    #[inline]
    fn key_len(&self) -> usize {
        if self.has(WIDE) {
            return self.length(Length::Key);
        }
        (self.0.stamp >> KEY_LEN_AT) as usize & KEY_LEN_MAX
    }

    /// Length of the inline value.
    #[inline]
    fn len(&self) -> usize {
        if self.has(WIDE) {
            return self.length(Length::Value);
        }
        (self.0.info >> LEN_AT) as usize & LEN_MAX
    }

    fn set_len(&mut self, len: usize) {
        if self.has(WIDE) {
            return self.set_length(Length::Value, len);
        }
        self.0.info = self.0.info & !((LEN_MAX as u32) << LEN_AT) | (len as u32) << LEN_AT;
    }

    fn elements(&self) -> usize {
        if self.has(WIDE) {
            return self.length(Length::Elements);
        }
        self.0.info as usize & LEN_MAX
    }

    fn set_elements(&mut self, count: usize) {
        if self.has(WIDE) {
            return self.set_length(Length::Elements, count);
        }
        self.0.info = self.0.info & !(LEN_MAX as u32) | count as u32;
    }

    /// One of the lengths of a wide entry.
    fn length(&self, which: Length) -> usize {
        let bytes = self.0.tail[4 * which as usize..][..4].try_into();
        u32::from_ne_bytes(bytes.expect("its length is fixed")) as usize
    }

    fn set_length(&mut self, which: Length, length: usize) {
        let bytes = (length as u32).to_ne_bytes();
        self.0.tail[4 * which as usize..][..4].copy_from_slice(&bytes);
    }

    /// The entry of a slot word.
    ///
    /// # Safety
    /// `word` came from [`Owned::into_word`], and for the whole of `'a` the entry is neither freed
    /// nor borrowed mutably.
    pub(crate) unsafe fn from_word<'a>(word: u64) -> &'a Self {
        // SAFETY: the caller's promise.
        let entry = unsafe { fat(ptr::with_exposed_provenance_mut(word as usize)) };
        // SAFETY: the caller's promise.
        unsafe { &*entry }
    }

    /// The entry of a slot word, for its only user.
    ///
    /// # Safety
    /// As for [`from_word`](Self::from_word), and there is no other reference during `'a`.
    pub(crate) unsafe fn from_word_mut<'a>(word: u64) -> &'a mut Self {
        // SAFETY: the caller's promise.
        let entry = unsafe { fat(ptr::with_exposed_provenance_mut(word as usize)) };
        // SAFETY: the caller's promise.
        unsafe { &mut *entry }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.has(LINKED) {
            return;
        }
        if self.kind() == Kind::Blob {
            // SAFETY: kind `Blob` says that it links one.
            let blob = unsafe { &mut self.link_mut().blob };
            // SAFETY: it is not used afterwards.
            unsafe { ManuallyDrop::drop(blob) };
        } else {
            // SAFETY: the other kinds that link something link a trunk.
            let trunk = unsafe { &mut self.link_mut().trunk };
            // SAFETY: it is not used afterwards.
            unsafe { ManuallyDrop::drop(trunk) };
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("space", &self.space())
            .field("key", &self.key())
            .field("expire_at", &self.expire_at())
            .field("value", &self.value())
            .finish()
    }
}

fn reserve_write(reserve: &mut [u8], first: &[u8], second: &[u8]) {
    let len = first.len() + second.len();
    reserve[..first.len()].copy_from_slice(first);
    reserve[first.len()..len].copy_from_slice(second);
}

/// The integer of 1, 2, 4 or 8 bytes.
fn read_int(bytes: &[u8]) -> i64 {
    match *bytes {
        [a] => i64::from(a.cast_signed()),
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        _ => i64::from_le_bytes(bytes.try_into().expect("the kind says it is an integer")),
    }
}

/// The entry at a thin pointer.
///
/// # Safety
/// `start` is the start of a live entry.
unsafe fn fat(start: *mut u8) -> *mut Entry {
    // SAFETY: the caller says that a header is there, aligned and initialised. Nobody writes it
    // during this call: who changes an entry has the only reference.
    let header = unsafe { &*start.cast::<Header>() };
    let units = if header.stamp & WIDE == 0 {
        header.info >> UNITS_AT
    } else {
        let units = start.wrapping_add(TAIL + 4 * Length::Units as usize).cast::<u32>();
        // SAFETY: a wide entry has its lengths there, aligned as the entry is; as above.
        unsafe { units.read() }
    };
    ptr::slice_from_raw_parts_mut(start, units as usize * UNIT - TAIL) as *mut Entry
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Random, sized};

    #[derive(Debug, Clone, PartialEq, Eq)]
    enum Held {
        Int(i64),
        Text(Vec<u8>),
        Set { run: Vec<u8>, count: usize, loose: bool },
    }

    fn text(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at % 251) as u8).collect()
    }

    impl Held {
        fn any(random: &mut Random) -> Self {
            let sizes = [0, 3, 40, 254, 255, 256, 2040, 4000, INLINE_MAX, INLINE_MAX + 1, 9000];
            match random.below(4) {
                0 => Self::Int((random.next().cast_signed()) >> random.below(64)),
                1 => {
                    let count = [1, 7, 1365][random.below(3)];
                    let run = [2, b'a', b'b'].repeat(count);
                    Self::Set { run, count, loose: random.below(2) == 0 }
                }
                _ => Self::Text(text(sizes[random.below(sizes.len())] + random.below(3))),
            }
        }

        fn to_new(&self) -> New<'_> {
            match self {
                Self::Int(int) => New::Int(*int),
                Self::Text(text) => New::text(text),
                Self::Set { run, count, loose } => {
                    let (count, loose) = (*count, *loose);
                    New::Packed { kind: Type::Set, run, count, loose, timed: false }
                }
            }
        }

        fn from_entry(entry: &Entry) -> Self {
            match entry.value() {
                Value::Int(int) => Self::Int(int),
                Value::Bytes(text) => Self::Text(text.to_vec()),
                value => {
                    let Some(Collection { form: Form::Packed { run, count }, loose, timed }) =
                        value.as_collection()
                    else {
                        panic!("a small collection")
                    };
                    assert_eq!((value.kind(), timed), (Type::Set, false));
                    Self::Set { run: run.rest.to_vec(), count, loose }
                }
            }
        }
    }

    #[test]
    fn entries_of_all_forms_hold_what_they_were_given() {
        let mut random = Random::seeded("entries");
        for _ in 0..sized(4000, 60) {
            let key = text([0, 16, 255, 256, 70_000][random.below(5)]);
            let (mut held, mut deadline) =
                (Held::any(&mut random), [NEVER, 1 << 50][random.below(2)]);
            let (era, space) = (1 + random.next() % ((1 << 44) - 1), random.below(16));
            let reserve = [0, 100, 3000][random.below(3)];
            let mut owned =
                Owned::new(Birth { era, space }, &key, held.to_new(), deadline, reserve);
            for _ in 0..4 {
                // SAFETY: it is in no slot.
                let entry = unsafe { Entry::from_word_mut(owned.into_word()) };
                let size = size_of_val(entry);
                match random.below(4) {
                    0 if entry.has_place_for(5) => {
                        entry.set_deadline(5);
                        deadline = 5;
                    }
                    1 => {
                        let other = Held::any(&mut random);
                        if entry.overwrite(other.to_new()).is_ok() {
                            held = other;
                        }
                    }
                    2 => {
                        if entry.append_inline(b"more")
                            && let Held::Text(text) = &mut held
                        {
                            text.extend_from_slice(b"more");
                        }
                    }
                    _ => {}
                }
                assert_eq!(size_of_val(entry), size);
                let word = ptr::from_mut(entry).cast::<u8>().expose_provenance() as u64;
                // SAFETY: it was taken from `owned` above.
                owned = unsafe { Owned::from_word(word) };
                for entry in
                    [owned.entry(), owned.entry().copy().entry(), owned.entry().moved().entry()]
                {
                    assert_eq!((entry.era(), entry.space()), (era, space));
                    assert_eq!((entry.key(), entry.deadline()), (&key[..], deadline));
                    assert_eq!(Held::from_entry(entry), held);
                }
            }
        }
    }

    #[test]
    fn small_entries_are_small() {
        let bytes = |key: &[u8], value: New<'_>, deadline| {
            size_of_val(Owned::new(Birth { era: 1, space: 0 }, key, value, deadline, 0).entry())
        };
        let key = [b'k'; 16];
        assert_eq!(bytes(&key, New::Int(2_000_000_000), NEVER), 32);
        assert_eq!(bytes(&key, New::text(&[0; 20]), NEVER), 48);
        assert_eq!(bytes(&key, New::text(&[0; 12]), 5), 48);
        assert_eq!(bytes(&key, New::text(&[0; 4000]), NEVER), 4032);
    }
}
