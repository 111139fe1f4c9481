//! State memory: a page-aligned array of words that grows in place and can be seen by two threads.
//!
//! - The base address never moves: address space for the largest size is reserved at creation.
//! - Words are atomics used with relaxed ordering, which costs nothing on x86-64 and aarch64; a
//!   racing read is a stale value, never undefined behaviour.
//! - A view ([`Words::view`]) keeps the length it had and the memory alive.
//! - What other crates may do with words that two threads see, they do with whole words: halves and
//!   bytes are for the algorithms, which order accesses of different sizes (see [`Item`]), and for
//!   words with one owner ([`PlainWords`]).

mod tags;

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

pub(crate) use tags::Tags;

use crate::error::MemoryError;
use crate::info::Grain;
use crate::options::Options;
use crate::os::{self, Region};
use crate::sync::{AtomicU64, Ordering};

/// An array of 64-bit words, all zero at first.
///
/// Threads share whole words alone; halves are for [one owner](PlainWords):
///
/// ```compile_fail,E0599
/// # let words = stillframe::Words::create(&stillframe::Options::words(1)).expect("memory");
/// words.view().store_u32(0, 7);
/// ```
#[derive(Debug)]
pub struct Words {
    base: NonNull<AtomicU64>,
    len: usize,
    prefault: bool,
    region: Arc<Region>,
}

// SAFETY: `base` points into `region`, which is owned through the `Arc` and never moves or shrinks;
// what is shared through it is atomics.
unsafe impl Send for Words {}
// SAFETY: as above; `&Words` gives access to atomics only.
unsafe impl Sync for Words {}

impl Words {
    /// `options.words` zero words with room for `options.max_words`.
    ///
    /// # Errors
    /// [`MemoryError`] when the system refuses the memory.
    pub fn create(options: &Options) -> Result<Self, MemoryError> {
        let max_words = options.max_words.max(options.words);
        let region = Arc::new(Region::reserve(max_words, options.huge_pages)?);
        let mut words = Self { base: region.base(), len: 0, prefault: options.prefault, region };
        words.grow(options.words)?;
        Ok(words)
    }

    /// Words in use.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no word at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Extends to `len` words, the new ones zero; never shrinks.
    ///
    /// # Errors
    /// [`MemoryError`]; nothing changes.
    pub fn grow(&mut self, len: usize) -> Result<(), MemoryError> {
        if len > self.len {
            self.region.commit(len)?;
            if self.prefault {
                self.region.prefault(self.len, len)?;
            }
            self.len = len;
        }
        Ok(())
    }

    /// The same memory for another thread, with the length of now.
    #[must_use]
    pub fn view(&self) -> Self {
        Self {
            base: self.base,
            len: self.len,
            prefault: self.prefault,
            region: Arc::clone(&self.region),
        }
    }

    /// A view of the first `end` words. Panics out of bounds.
    pub(crate) fn until(&self, end: usize) -> Self {
        let mut view = self.view();
        view.set_end(end, self);
        view
    }

    /// Makes this view one of the first `end` words of `whole`. Panics out of bounds, or if it is
    /// a view of other words.
    pub(crate) fn set_end(&mut self, end: usize, whole: &Self) {
        assert!(end <= whole.len && self.base == whole.base, "{end} words of {}", whole.len);
        self.len = end;
    }

    /// The memory itself, for requests to the kernel.
    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Panics if word `index` is out of bounds.
    #[inline(always)]
    fn check(&self, index: usize) {
        if index >= self.len {
            self.out_of_bounds(index, 1);
        }
    }

    /// One word. Panics if `index` is out of bounds.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        self.check(index);
        // SAFETY: `index < len`, and `len` words from `base` are committed for as long as `region`,
        // which `self` owns a share of, lives. Zeroed memory is a valid `AtomicU64`.
        unsafe { word_at(self.base, index) }
    }

    /// The value of a word. Panics if `index` is out of bounds.
    #[inline]
    #[must_use]
    pub fn load(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Relaxed)
    }

    /// Loads of the `len` words from `start` on, by their number there; `None` out of bounds.
    #[inline]
    pub(crate) fn window(&self, start: usize, len: usize) -> Option<impl Fn(usize) -> u64> {
        let words = self.find(start, len)?;
        Some(move |index: usize| words[index].load(Ordering::Relaxed))
    }

    /// Replaces a word. Panics if `index` is out of bounds.
    #[inline]
    pub fn store(&self, index: usize, value: u64) {
        self.word(index).store(value, Ordering::Relaxed);
    }

    /// Asks the processor to bring a word near: a hint, for any index.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        os::prefetch(self.base.as_ptr().wrapping_add(index));
    }

    /// Copies `into.len()` words from `start` on, each of them whole. Panics out of bounds.
    #[inline]
    pub fn copy_to(&self, start: usize, into: &mut [u64]) {
        os::load_words(self.range(start, into.len()), into);
    }

    /// Replaces `len` words from `start` on by those of `from` from `from_start` on, each of them
    /// whole. Panics out of bounds.
    #[inline]
    pub(crate) fn copy_from(&self, start: usize, from: &Self, from_start: usize, len: usize) {
        os::copy_words(from.range(from_start, len), self.range(start, len));
    }

    /// Replaces the first words by all those of `from`, with `threads` threads. Panics if they do
    /// not fit. As fast as memory goes if no [view](Self::view) of either lives, as there is none
    /// between images; word by word otherwise.
    pub(crate) fn copy_all(&mut self, from: &mut Self, threads: usize) {
        let len = from.len;
        match (self.alone(), from.alone()) {
            (Some(to), Some(from)) => os::copy_memory(from, &mut to[..len], threads),
            _ => self.copy_from(0, from, 0, len),
        }
    }

    /// Replaces the words from `start` on by `from`, each of them whole. Panics out of bounds.
    #[inline]
    pub fn store_run(&self, start: usize, from: &[u64]) {
        os::store_words(from, self.range(start, from.len()));
    }

    /// Record `index`, where every `N` words are one. Panics out of bounds.
    #[inline]
    pub(crate) fn record<const N: usize>(&self, index: usize) -> &[AtomicU64; N] {
        if index >= self.len / N {
            self.out_of_bounds(index.saturating_mul(N), N);
        }
        // SAFETY: the record lies below `len`, so its address is within the region.
        let record = unsafe { self.base.add(index * N) };
        // SAFETY: `N` words from there are below `len`; see `word`.
        unsafe { record.cast().as_ref() }
    }

    /// The eight words from `start` on. Panics out of bounds.
    #[inline]
    pub(crate) fn line(&self, start: usize) -> &[AtomicU64; 8] {
        self.range(start, 8).as_chunks().0.first().expect("eight words are one array of eight")
    }

    /// Copies word `column` of each record, from record `start` on. Panics out of bounds.
    #[inline]
    pub(crate) fn copy_column<const N: usize>(
        &self,
        start: usize,
        column: usize,
        into: &mut [u64],
    ) {
        let records = self.range(start * N, into.len() * N).as_chunks::<N>().0;
        for (value, record) in into.iter_mut().zip(records) {
            *value = record[column].load(Ordering::Relaxed);
        }
    }

    /// Byte `index % 8` in memory of word `index / 8` as an atomic. Panics out of bounds. The rule
    /// of [`byte`] holds.
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    #[inline]
    fn byte(&self, index: usize) -> &std::sync::atomic::AtomicU8 {
        if index / 8 >= self.len {
            self.out_of_bounds(index / 8, 1);
        }
        // SAFETY: `index / 8 < len`, so the address is within the region.
        let byte = unsafe { self.base.cast::<u8>().add(index) };
        // SAFETY: it lives as long as the region, of which `self` owns a share, and is only
        // accessed atomically. Accesses of another size that conflict are ordered, as the callers
        // see to.
        unsafe { std::sync::atomic::AtomicU8::from_ptr(byte.as_ptr()) }
    }

    /// The bytes of all words, in memory's order. The rule of [`byte`] holds.
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    #[inline]
    fn bytes(&self) -> &[std::sync::atomic::AtomicU8] {
        let bytes = NonNull::slice_from_raw_parts(self.base.cast(), self.len * 8);
        // SAFETY: `len` words from `base` are committed for as long as the region, of which `self`
        // owns a share; otherwise as for `byte`.
        unsafe { bytes.as_ref() }
    }

    /// Byte `index % 8` in memory of word `index / 8`. Panics out of bounds.
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    #[inline]
    pub(crate) fn load_byte(&self, index: usize) -> u8 {
        self.byte(index).load(Ordering::Relaxed)
    }

    /// Replaces one byte, and nothing beside it. Panics out of bounds.
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    #[inline]
    pub(crate) fn store_byte(&self, index: usize, value: u8) {
        self.byte(index).store(value, Ordering::Relaxed);
    }

    /// The model checkers know no bytes: see [`byte`].
    #[cfg(any(feature = "loom", feature = "shuttle"))]
    pub(crate) fn load_byte(&self, index: usize) -> u8 {
        byte::load(self.word(index / 8), index % 8)
    }

    #[cfg(any(feature = "loom", feature = "shuttle"))]
    pub(crate) fn store_byte(&self, index: usize, value: u8) {
        byte::store(self.word(index / 8), index % 8, value);
    }

    /// All words as plain memory, if no other thread can reach them.
    fn alone(&mut self) -> Option<&mut [u64]> {
        Arc::get_mut(&mut self.region)?; // acquires what other owners did before they let go
        // SAFETY: `len` words from `base` are committed and live as long as the region, of which
        // `self`, borrowed exclusively, is the only owner; so no other reference to them exists.
        os::plain(unsafe { NonNull::slice_from_raw_parts(self.base, self.len).as_mut() })
    }

    /// Replaces every word by zero; as fast as memory goes if no [view](Self::view) lives.
    pub(crate) fn clear(&mut self) {
        if let Some(words) = self.alone() {
            return words.fill(0);
        }
        for word in self.range(0, self.len) {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// All words.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[AtomicU64] {
        self.range(0, self.len)
    }

    /// The two words from `start` on; `None` out of bounds.
    #[inline(always)]
    pub(crate) fn pair(&self, start: usize) -> Option<&[AtomicU64; 2]> {
        self.find(start, 2)?.first_chunk()
    }

    /// Some words. Panics out of bounds.
    #[inline]
    pub(crate) fn range(&self, start: usize, len: usize) -> &[AtomicU64] {
        self.find(start, len).unwrap_or_else(|| self.out_of_bounds(start, len))
    }

    /// Some words; `None` out of bounds. Where `len` is a constant, a loop has but one comparison
    /// left.
    #[inline(always)]
    fn find(&self, start: usize, len: usize) -> Option<&[AtomicU64]> {
        if len > self.len || start > self.len - len {
            return None;
        }
        // SAFETY: `start <= self.len`, so the address is within the region or one past its end.
        let base = unsafe { self.base.add(start) };
        // SAFETY: the range was checked against `len`; see `word`.
        Some(unsafe { NonNull::slice_from_raw_parts(base, len).as_ref() })
    }

    /// Takes its numbers by value, so that nothing on the hot path has an address.
    #[cold]
    #[inline(never)]
    fn out_of_bounds(&self, start: usize, len: usize) -> ! {
        panic!("{len} words at {start} of {}", self.len);
    }

    /// Makes the words `from..to` resident. What the kernel refuses is touched later, at a cost.
    pub(crate) fn populate(&self, from: usize, to: usize) {
        let _ = self.region.prefault(from, to);
    }

    /// Gives the memory of the words from `from` on back to the operating system: they read as
    /// zero, or as they were where the backend cannot do it.
    pub(crate) fn release(&self, from: usize) {
        self.region.release(from);
    }
}

/// The memory of a state of which no image was begun, borrowed from its algorithm: several threads
/// may fill it, and nothing else reaches the state meanwhile.
#[derive(Debug)]
pub struct InPlace<'a>(&'a Words);

impl<'a> InPlace<'a> {
    pub(crate) fn new(words: &'a Words) -> Self {
        Self(words)
    }

    /// Replaces the words from `start` on by `from`. Panics out of bounds.
    pub fn store_run(&self, start: usize, from: &[u64]) {
        self.0.store_run(start, from);
    }
}

/// The words of a state where they lie, for readers in other languages. The memory stays when the
/// state is gone, at the same address, with what was last written.
///
/// A program that writes there by other means [announces](crate::Algorithm::announce) the words
/// first.
#[derive(Debug)]
pub struct Live(Words);

impl Live {
    pub(crate) fn new(words: &Words) -> Self {
        Self(words.view())
    }

    /// Words, as many as the state had when this was made.
    #[must_use]
    pub fn words(&self) -> usize {
        self.0.len()
    }

    /// The first of the words, on a page of its own. Each is a `u64` of this machine's byte order.
    #[must_use]
    pub fn as_ptr(&self) -> *const u64 {
        self.0.base.as_ptr().cast_const().cast()
    }
}

/// Words that nobody else sees, in whole or in halves: a store takes the one owner's `&mut`.
#[derive(Debug)]
pub struct PlainWords(Words);

impl PlainWords {
    /// As [`Words::create`].
    ///
    /// # Errors
    /// [`MemoryError`] when the system refuses the memory.
    pub fn create(options: &Options) -> Result<Self, MemoryError> {
        Words::create(options).map(Self)
    }

    /// The value of a word. Panics if `index` is out of bounds.
    #[inline]
    #[must_use]
    pub fn load(&self, index: usize) -> u64 {
        self.0.load(index)
    }

    /// Half a word: `index` counts 4-byte items, low half first. Panics out of bounds.
    #[inline]
    #[must_use]
    pub fn load_u32(&self, index: usize) -> u32 {
        u32::load(&self.0, index)
    }

    /// Replaces a word. Panics if `index` is out of bounds.
    #[inline]
    pub fn store(&mut self, index: usize, value: u64) {
        self.0.store(index, value);
    }

    /// Replaces half a word, and neither reads nor stores the other. Panics out of bounds.
    #[inline]
    pub fn store_u32(&mut self, index: usize, value: u32) {
        u32::store(&self.0, index, value);
    }

    /// Replaces the words from `start` on by `from`. Panics out of bounds.
    #[inline]
    pub fn store_run(&mut self, start: usize, from: &[u64]) {
        self.0.store_run(start, from);
    }

    /// Asks the processor to bring a word near: a hint, for any index.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        self.0.prefetch(index);
    }
}

/// Every `N` words of an array as one record of `ITEMS` items. One comparison with a number in
/// memory checks the bounds of an item.
#[derive(Debug)]
pub(crate) struct Records<const N: usize, const ITEMS: usize = 1> {
    words: Words,
    /// Items, in at most `words.len / N` records.
    len: usize,
}

impl<const N: usize, const ITEMS: usize> Records<N, ITEMS> {
    /// The first `len` items of these words, with their length of now, or as many as there are.
    pub(crate) fn new(words: &Words, len: usize) -> Self {
        Self { words: words.view(), len: len.min(words.len / N * ITEMS) }
    }

    /// All records of these words.
    pub(crate) fn all(words: &Words) -> Self {
        Self::new(words, usize::MAX)
    }

    /// The words that the records lie in.
    #[inline]
    pub(crate) fn words(&self) -> &Words {
        &self.words
    }

    /// The record of an item. Panics if it is out of bounds.
    #[inline(always)]
    pub(crate) fn at(&self, item: usize) -> &[AtomicU64; N] {
        let Some((record, _)) = self.find(item) else {
            out_of_bounds(item / ITEMS * N, self.words.len);
        };
        record
    }

    /// The record of an item, and which of its items that is; `None` out of bounds.
    #[inline(always)]
    pub(crate) fn find(&self, item: usize) -> Option<(&[AtomicU64; N], usize)> {
        if item >= self.len {
            return None;
        }
        // SAFETY: `item / ITEMS` is less than `words.len / N`, so the address is within the region.
        let record = unsafe { self.words.base.add(item / ITEMS * N) };
        // SAFETY: `N` words from there are below `words.len`; see `Words::word`.
        Some((unsafe { record.cast().as_ref() }, item % ITEMS))
    }
}

/// `N` arrays of the same words. Where units are single items, one comparison with a number in
/// memory shows that an item is a unit and in bounds, of all arrays.
#[derive(Debug)]
pub(crate) struct Arrays<const N: usize> {
    arrays: [Words; N],
    grain: Grain,
    /// Words, if units are words; else 0. No array is shorter.
    words: usize,
    /// Half words, if units are such; else 0.
    halves: usize,
}

impl<const N: usize> Arrays<N> {
    pub(crate) fn create(options: &Options, grain: Grain) -> Result<Self, MemoryError> {
        let mut arrays = Vec::with_capacity(N);
        for _ in 0..N {
            arrays.push(Words::create(options)?);
        }
        Ok(Self::new(arrays.try_into().expect("there are N of them"), grain))
    }

    fn new(arrays: [Words; N], grain: Grain) -> Self {
        let len = arrays.iter().map(Words::len).min().unwrap_or(0);
        let [words, halves] = match grain {
            Grain { halves: true, .. } => [0, 2 * len],
            Grain { shift: 0, .. } => [len, 0],
            _ => [0, 0],
        };
        Self { arrays, grain, words, halves }
    }

    /// Words in each array.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.arrays[0].len
    }

    /// Extends all arrays; the first one last, since [`len`](Self::len) is its length.
    pub(crate) fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        self.arrays.iter_mut().rev().try_for_each(|array| array.grow(words))?;
        *self = self.view();
        Ok(())
    }

    /// The same memory for another thread, with the length of now.
    pub(crate) fn view(&self) -> Self {
        Self::new(self.arrays.each_ref().map(Words::view), self.grain)
    }

    /// One of the arrays.
    #[inline(always)]
    pub(crate) fn array(&self, array: usize) -> &Words {
        &self.arrays[array]
    }

    /// Brings word `index` of all arrays near.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        self.arrays.iter().for_each(|array| array.prefetch(index));
    }

    /// An item that is a unit; `None` if it is not, or out of bounds.
    #[inline(always)]
    pub(crate) fn find<T: Item>(&self, item: usize) -> Option<Place<'_, T, N>> {
        let len = if T::PER_WORD == 1 { self.words } else { self.halves };
        (item < len).then_some(Place { arrays: &self.arrays, item, is: PhantomData })
    }
}

/// An item of some arrays, in bounds of all.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a, T, const N: usize> {
    arrays: &'a [Words; N],
    item: usize,
    is: PhantomData<T>,
}

impl<T: Item, const N: usize> Place<'_, T, N> {
    /// The item's value in an array.
    #[inline(always)]
    pub(crate) fn load(self, array: usize) -> T {
        // SAFETY: `Arrays::find` has checked the item against the shortest array.
        unsafe { T::load_at(self.arrays[array].base, self.item) }
    }

    /// Replaces the item in an array.
    #[inline(always)]
    pub(crate) fn store(self, array: usize, value: T) {
        // SAFETY: as above.
        unsafe { T::store_at(self.arrays[array].base, self.item, value) }
    }
}

impl<const N: usize> Place<'_, u64, N> {
    /// Replaces half `half % 2` of the word in an array, and nothing beside it.
    #[inline(always)]
    pub(crate) fn store_half(self, array: usize, half: usize, value: u32) {
        // SAFETY: as above; both halves lie in the word.
        unsafe { u32::store_at(self.arrays[array].base, 2 * self.item + half % 2, value) }
    }
}

/// Takes its numbers by value, so that nothing on the hot path has an address.
#[cold]
#[inline(never)]
pub(crate) fn out_of_bounds(index: usize, words: usize) -> ! {
    panic!("word {index} of {words}");
}

/// The size of one access: a word, or half of one. Two threads must not access a half and the word
/// around it at a time, one of them storing, unless one access happens before the other; they may
/// access the two halves of a word. An algorithm of half words accesses by halves alone what two
/// threads share.
pub trait Item: Copy + Send + Sync + 'static {
    /// How many are a word.
    const PER_WORD: usize;
    /// The value of item `index` of the words from `base` on.
    ///
    /// # Safety
    /// The word that it lies in is committed, and stays so meanwhile.
    unsafe fn load_at(base: NonNull<AtomicU64>, index: usize) -> Self;
    /// Replaces item `index` of the words from `base` on, and nothing beside it.
    ///
    /// # Safety
    /// As of [`load_at`](Self::load_at).
    unsafe fn store_at(base: NonNull<AtomicU64>, index: usize, item: Self);
    /// The value of item `index`. Panics if it is out of bounds.
    #[inline(always)]
    fn load(words: &Words, index: usize) -> Self {
        words.check(index / Self::PER_WORD);
        // SAFETY: the word is in bounds, and `words` owns a share of the region.
        unsafe { Self::load_at(words.base, index) }
    }
    /// Replaces item `index`, and nothing beside it. Panics if it is out of bounds.
    #[inline(always)]
    fn store(words: &Words, index: usize, item: Self) {
        words.check(index / Self::PER_WORD);
        // SAFETY: as in `load`.
        unsafe { Self::store_at(words.base, index, item) }
    }
    /// The value of item `index % PER_WORD` of a word.
    fn load_part(word: &AtomicU64, index: usize) -> Self;
    /// Replaces item `index % PER_WORD` of a word, and nothing beside it.
    fn store_part(word: &AtomicU64, index: usize, item: Self);
}

/// Word `index` of those from `base` on.
///
/// # Safety
/// The word is committed, and stays so as long as it is used.
#[inline(always)]
unsafe fn word_at<'a>(base: NonNull<AtomicU64>, index: usize) -> &'a AtomicU64 {
    // SAFETY: the caller's: the address is within the region.
    let word = unsafe { base.add(index) };
    // SAFETY: the caller's.
    unsafe { word.as_ref() }
}

impl Item for u64 {
    const PER_WORD: usize = 1;
    #[inline(always)]
    unsafe fn load_at(base: NonNull<AtomicU64>, index: usize) -> Self {
        // SAFETY: the caller's.
        unsafe { word_at(base, index) }.load(Ordering::Relaxed)
    }
    #[inline(always)]
    unsafe fn store_at(base: NonNull<AtomicU64>, index: usize, item: Self) {
        // SAFETY: the caller's.
        unsafe { word_at(base, index) }.store(item, Ordering::Relaxed);
    }
    #[inline(always)]
    fn load_part(word: &AtomicU64, _index: usize) -> Self {
        word.load(Ordering::Relaxed)
    }
    #[inline(always)]
    fn store_part(word: &AtomicU64, _index: usize, item: Self) {
        word.store(item, Ordering::Relaxed);
    }
}

/// The low half of a word comes first.
impl Item for u32 {
    const PER_WORD: usize = 2;
    #[inline(always)]
    unsafe fn load_at(base: NonNull<AtomicU64>, index: usize) -> Self {
        // SAFETY: the caller's.
        unsafe { half::load_at(base, index) }
    }
    #[inline(always)]
    unsafe fn store_at(base: NonNull<AtomicU64>, index: usize, item: Self) {
        // SAFETY: the caller's.
        unsafe { half::store_at(base, index, item) }
    }
    #[inline(always)]
    fn load_part(word: &AtomicU64, index: usize) -> Self {
        half::load_part(word, index)
    }
    #[inline(always)]
    fn store_part(word: &AtomicU64, index: usize, item: Self) {
        half::store_part(word, index, item);
    }
}

/// A word of two halves, the low one first.
#[inline]
pub(crate) fn join([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The halves of a word, the low one first.
#[inline]
pub(crate) fn split(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

/// A word with one half replaced.
#[inline]
pub(crate) fn with_half(word: u64, half: usize, value: u32) -> u64 {
    let shift = 32 * (half % 2);
    let changed = (word >> shift) as u32 ^ value;
    word ^ u64::from(changed) << shift
}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod half {
    use super::{AtomicU64, NonNull, Ordering};
    use std::sync::atomic::AtomicU32;

    /// From the number of a half to its place in memory.
    const FLIP: usize = if cfg!(target_endian = "big") { 1 } else { 0 };

    /// Safe where [`Item::load_at`](super::Item::load_at) is.
    #[inline(always)]
    unsafe fn at<'a>(base: NonNull<AtomicU64>, index: usize) -> &'a AtomicU32 {
        // SAFETY: the address lies in a word that is committed.
        let half = unsafe { base.cast::<u32>().add(index ^ FLIP) };
        // SAFETY: it stays so while the caller uses it, and is only accessed atomically. Accesses
        // of another size that conflict are ordered: see `Item`.
        unsafe { AtomicU32::from_ptr(half.as_ptr()) }
    }
    #[inline(always)]
    fn part(word: &AtomicU64, index: usize) -> &AtomicU32 {
        let start = word.as_ptr().cast::<u32>();
        // SAFETY: the address of one of the word's two halves.
        let half = unsafe { start.add((index % 2) ^ FLIP) };
        // SAFETY: it lives as long as `word`; else as above.
        unsafe { AtomicU32::from_ptr(half) }
    }
    #[inline(always)]
    pub(super) unsafe fn load_at(base: NonNull<AtomicU64>, index: usize) -> u32 {
        // SAFETY: the caller's.
        unsafe { at(base, index) }.load(Ordering::Relaxed)
    }
    #[inline(always)]
    pub(super) unsafe fn store_at(base: NonNull<AtomicU64>, index: usize, value: u32) {
        // SAFETY: the caller's.
        unsafe { at(base, index) }.store(value, Ordering::Relaxed);
    }
    #[inline(always)]
    pub(super) fn load_part(word: &AtomicU64, index: usize) -> u32 {
        part(word, index).load(Ordering::Relaxed)
    }
    #[inline(always)]
    pub(super) fn store_part(word: &AtomicU64, index: usize, value: u32) {
        part(word, index).store(value, Ordering::Relaxed);
    }
}

/// The model checkers' words have no halves: one is replaced by an atomic change of its word.
#[cfg(any(feature = "loom", feature = "shuttle"))]
mod half {
    use super::{AtomicU64, NonNull, Ordering, split, with_half, word_at};

    pub(super) unsafe fn load_at(base: NonNull<AtomicU64>, index: usize) -> u32 {
        // SAFETY: the caller's.
        load_part(unsafe { word_at(base, index / 2) }, index)
    }
    pub(super) unsafe fn store_at(base: NonNull<AtomicU64>, index: usize, value: u32) {
        // SAFETY: the caller's.
        store_part(unsafe { word_at(base, index / 2) }, index, value);
    }
    pub(super) fn load_part(word: &AtomicU64, index: usize) -> u32 {
        split(word.load(Ordering::Relaxed))[index % 2]
    }
    pub(super) fn store_part(word: &AtomicU64, index: usize, value: u32) {
        let replace = |old: u64| Some(with_half(old, index, value));
        let replaced = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, replace);
        debug_assert!(replaced.is_ok(), "it always has a new value");
    }
}

/// Bytes of words. A byte and the word around it must not be accessed by two threads at a time, one
/// of them storing, unless one access happens before the other; two bytes of a word may.
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub(crate) mod byte {
    use super::{AtomicU64, Ordering};
    use std::sync::atomic::AtomicU8;

    #[inline]
    fn byte(word: &AtomicU64, index: usize) -> &AtomicU8 {
        let start = word.as_ptr().cast::<u8>();
        // SAFETY: the address of one of the word's eight bytes.
        let byte = unsafe { start.add(index % 8) };
        // SAFETY: the byte lives as long as `word`, and is only accessed atomically. Accesses of
        // another size that conflict are ordered, as the callers see to.
        unsafe { AtomicU8::from_ptr(byte) }
    }
    #[inline]
    pub(crate) fn load(word: &AtomicU64, index: usize) -> u8 {
        byte(word, index).load(Ordering::Relaxed)
    }
    #[inline]
    pub(crate) fn store(word: &AtomicU64, index: usize, value: u8) {
        byte(word, index).store(value, Ordering::Relaxed);
    }
}

/// The model checkers know no bytes: one of a word is replaced by an atomic change of the word.
#[cfg(any(feature = "loom", feature = "shuttle"))]
pub(crate) mod byte {
    use super::{AtomicU64, Ordering};

    pub(crate) fn load(word: &AtomicU64, index: usize) -> u8 {
        word.load(Ordering::Relaxed).to_le_bytes()[index]
    }
    pub(crate) fn store(word: &AtomicU64, index: usize, value: u8) {
        let replace = |old: u64| {
            let mut bytes = old.to_le_bytes();
            bytes[index] = value;
            Some(u64::from_le_bytes(bytes))
        };
        let replaced = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, replace);
        debug_assert!(replaced.is_ok(), "it always has a new value");
    }
}
