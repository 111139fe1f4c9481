//! One key with its value and time to live, in one allocation; the handles of the slot words.
//!
//! ```text
//! offset 0        8            16       20     24       32            32 + key_len
//!        +--------+------------+--------+------+--------+-------------+-----------------------+
//!        | stamp  | expire_at  |key_len | room | value  | key         | inline value, reserve |
//!        +--------+------------+--------+------+--------+-------------+-----------------------+
//!                                                       |<----------- room bytes ------------>|
//! ```
//! `stamp` is era << 8 | kind << 4 | space. `value` is, by kind: the integer; the length of the
//! inline text; a reference-counted blob for texts above [`INLINE_MAX`]; the length and count of a
//! small collection, which lies inline as a packed run; or a reference-counted [`Trunk`] for a
//! large one.
//!
//! Invariants
//! - The address of an entry and its key never change; neither does `stamp`, except the kind,
//!   and the era of an entry that is loaded.
//! - All `room` bytes are initialised.
//! - [`Owned`] is the one owner. It is a bare pointer: unlike a `Box`, moving it asserts nothing
//!   about other readers, so it can lie in limbo while an image reads the entry.
//! - Mutation takes `&mut Entry`, which [`super::slots`] gives out only if no image can see
//!   the entry. Immutable sharing needs no more: no field is written behind a `&Entry`.

mod owned;
mod word;

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;

use crate::collection::form::{Collection, Form};
use crate::collection::kind::Type;
use crate::collection::packed::{NEVER, RUN_BYTES_MAX, Run};
use crate::collection::trunk::Trunk;
use crate::memory::value::Value;
pub(crate) use owned::Owned;
pub(crate) use word::New;
use word::{Kind, Packed, Word};

/// Longest text or collection that lies in the entry itself. Above, copying costs more than the two
/// further allocations of a blob, and sharing it makes EXPIRE, RENAME and COPY independent of its
/// size.
pub(crate) const INLINE_MAX: usize = 4096;
const _: () = assert!(RUN_BYTES_MAX <= INLINE_MAX);
/// Bytes of a key beside its entry: a slot word, a cell of an index that is three quarters full, and
/// the number of its last use.
pub(crate) const KEY_BYTES: usize = 8 + 11 + 4;
/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1 << 30;

const HEADER: usize = 32;
const _: () = assert!(std::mem::offset_of!(Header, tail) == HEADER);
const _: () = assert!(std::mem::offset_of!(Header, room) == ROOM_AT);
const ROOM_AT: usize = 20;

/// A long text, shared by the entries that hold it.
pub(crate) type Blob = Arc<Vec<u8>>;

/// A key with its value and time to live.
#[repr(transparent)]
pub struct Entry(Header<[u8]>);

#[repr(C)]
struct Header<T: ?Sized = [u8; 0]> {
    stamp: u64,
    expire_at: i64,
    key_len: u32,
    room: u32,
    value: Word,
    tail: T,
}

impl Entry {
    /// The space of its database when it was born: SWAPDB swaps databases and leaves entries alone.
    pub(crate) fn space(&self) -> usize {
        (self.0.stamp & 0xf) as usize
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.0.tail[..self.0.key_len as usize]
    }

    /// When it expires, in unix milliseconds.
    #[must_use]
    pub fn expire_at(&self) -> Option<i64> {
        (self.0.expire_at != NEVER).then_some(self.0.expire_at)
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> Value<'_> {
        match self.kind() {
            // SAFETY: every bit pattern is an integer, and kind `Int` says it was written as one.
            Kind::Int => Value::Int(unsafe { self.0.value.int }),
            Kind::Inline => {
                let start = self.0.key_len as usize;
                Value::Bytes(&self.0.tail[start..start + self.inline_len()])
            }
            Kind::Blob => Value::Bytes(self.blob()),
            Kind::Packed(kind) => {
                let (run, packed) = self.packed(kind);
                let form = Form::Packed { run, count: packed.elements() };
                let (loose, timed) = (packed.is_loose(), packed.is_timed());
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
        self.0.stamp >> 8
    }

    pub(crate) fn deadline(&self) -> i64 {
        self.0.expire_at
    }

    /// Whether it is a hash with a field that expires.
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        match self.kind() {
            Kind::Packed(Type::Hash) => self.packed(Type::Hash).1.is_timed(),
            Kind::Trunk(Type::Hash) => self.trunk().main.is_timed(),
            _ => false,
        }
    }

    /// Whether a field of it has expired.
    #[inline]
    pub(crate) fn has_due(&self, now: i64) -> bool {
        let collection = if self.is_timed() { self.value().as_collection() } else { None };
        collection.is_some_and(|collection| collection.soonest() <= now)
    }

    /// Whether it has expired.
    #[inline]
    pub(crate) fn is_expired(&self, now: i64) -> bool {
        self.0.expire_at <= now
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
            (Kind::Packed(kind), _) => {
                let (run, packed) = self.packed(kind);
                let (count, loose, timed) =
                    (packed.elements(), packed.is_loose(), packed.is_timed());
                New::Packed { kind, run: run.rest, count, loose, timed }
            }
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
        self.0.stamp = era << 8 | self.0.stamp & 0xff;
    }

    /// An entry of the same era with the same contents, which shares what lies outside of it.
    pub(crate) fn copy(&self) -> Owned {
        self.copy_born((self.era(), self.space()))
    }

    /// As [`copy`](Self::copy), of this era and space.
    pub(crate) fn copy_born(&self, birth: (u64, usize)) -> Owned {
        Owned::new(birth, self.key(), self.share(), self.deadline(), 0)
    }

    pub(crate) fn set_deadline(&mut self, at: i64) {
        self.0.expire_at = at;
    }

    /// Replaces an integer or inline value in place, or gives `new` back if it needs another
    /// allocation (or would leave much of this one unused).
    pub(crate) fn overwrite<'a>(&mut self, new: New<'a>) -> Result<(), New<'a>> {
        let [first, second] = new.inline();
        let len = first.len() + second.len();
        let is_inline = matches!(new, New::Inline(..) | New::Packed { .. });
        let reserve = self.reserve_mut();
        let fits = len <= reserve.len() && len + 64 >= reserve.len() / 2;
        if matches!(new, New::Blob(_) | New::Trunk(..)) || self.owns() || is_inline && !fits {
            return Err(new);
        }
        reserve_write(self.reserve_mut(), first, second);
        let (kind, word) = new.into_word();
        self.set_kind(kind);
        self.0.value = word;
        Ok(())
    }

    /// Appends to an inline text if there is room; false if not.
    pub(crate) fn append_inline(&mut self, more: &[u8]) -> bool {
        if self.kind() != Kind::Inline {
            return false;
        }
        let len = self.inline_len();
        let Some(room) = self.reserve_mut().get_mut(len..len + more.len()) else { return false };
        room.copy_from_slice(more);
        self.0.value.len = (len + more.len()) as u64;
        true
    }

    /// The inline text, to be changed without changing its length.
    pub(crate) fn inline_mut(&mut self) -> Option<&mut [u8]> {
        let len = self.inline_len();
        (self.kind() == Kind::Inline).then(|| &mut self.reserve_mut()[..len])
    }

    /// The blob, if no other entry holds it.
    pub(crate) fn blob_mut(&mut self) -> Option<&mut Vec<u8>> {
        if self.kind() != Kind::Blob {
            return None;
        }
        // SAFETY: kind `Blob` says that the field holds one.
        let blob = unsafe { &mut self.0.value.blob };
        Arc::get_mut(blob)
    }

    /// The large collection, to be changed, if there is one here: a trunk that other entries hold
    /// too is copied first, its nodes shared.
    pub(crate) fn trunk_mut(&mut self) -> Option<&mut Trunk> {
        if !matches!(self.kind(), Kind::Trunk(_)) {
            return None;
        }
        // SAFETY: kind `Trunk` says that the field holds one.
        let trunk = unsafe { &mut self.0.value.trunk };
        Some(Arc::make_mut(trunk))
    }

    /// The run of a small collection, and the word that describes it.
    fn packed(&self, kind: Type) -> (Run<'_>, Packed) {
        assert_eq!(self.kind(), Kind::Packed(kind), "asked only of small collections");
        // SAFETY: every bit pattern is two numbers, and the kind says they were written so.
        let packed = unsafe { self.0.value.packed };
        let start = self.0.key_len as usize;
        let run = Run::new(&self.0.tail[start..start + packed.len as usize], kind.shape());
        (run, packed)
    }

    fn trunk(&self) -> &Arc<Trunk> {
        assert!(matches!(self.kind(), Kind::Trunk(_)), "asked only of trunks");
        // SAFETY: kind `Trunk` says that the field holds one.
        unsafe { &self.0.value.trunk }
    }

    /// Whether the value word owns something, so that it must not be overwritten.
    fn owns(&self) -> bool {
        matches!(self.kind(), Kind::Blob | Kind::Trunk(_))
    }

    fn blob(&self) -> &Blob {
        assert_eq!(self.kind(), Kind::Blob, "asked only of blobs");
        // SAFETY: kind `Blob` says that the field holds one.
        unsafe { &self.0.value.blob }
    }

    fn inline_len(&self) -> usize {
        if self.kind() != Kind::Inline {
            return 0;
        }
        // SAFETY: every bit pattern is an integer, and kind `Inline` says it is a length.
        (unsafe { self.0.value.len }) as usize
    }

    /// The bytes behind the key.
    fn reserve_mut(&mut self) -> &mut [u8] {
        let key_len = self.0.key_len as usize;
        &mut self.0.tail[key_len..]
    }

    fn kind(&self) -> Kind {
        Kind::of_bits(self.0.stamp >> 4 & 0xf)
    }

    fn set_kind(&mut self, kind: Kind) {
        self.0.stamp = self.0.stamp & !0xf0 | kind.bits() << 4;
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
        if self.kind() == Kind::Blob {
            // SAFETY: kind `Blob` says that the field holds one.
            let blob = unsafe { &mut self.0.value.blob };
            // SAFETY: it is not used afterwards.
            unsafe { ManuallyDrop::drop(blob) };
        } else if matches!(self.kind(), Kind::Trunk(_)) {
            // SAFETY: kind `Trunk` says that the field holds one.
            let trunk = unsafe { &mut self.0.value.trunk };
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

/// The entry at a thin pointer.
///
/// # Safety
/// `start` is the start of a live entry.
unsafe fn fat(start: *mut u8) -> *mut Entry {
    // SAFETY: inside the header, which the caller says is there.
    let room = unsafe { start.add(ROOM_AT) }.cast::<u32>();
    // SAFETY: as above; it is aligned, initialised, and never written after birth.
    let room = unsafe { room.read() };
    ptr::slice_from_raw_parts_mut(start, room as usize) as *mut Entry
}
