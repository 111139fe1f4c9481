//! The contract every snapshot algorithm fulfils, on one screen.

use crate::info::Info;
use crate::memory::{Item, Place, join, split, with_half};
use crate::{
    BeginError, CaptureError, InPlace, Live, MemoryError, Options, Point, Progress, Sink,
    Unavailable,
};

/// State words with one writer, from which images are taken. Algorithms only decide: no I/O, no
/// clock, no logging, no threads. Hot paths are static dispatch.
///
/// # Safety
/// The words may be addresses of objects, and what is built on an algorithm follows them. So a read
/// gives what was written last, 0 before the first write, and an image what was there at begin,
/// from the latest [`begin`](Self::begin) on, whatever was written, grown or panicked meanwhile. An
/// image reads in another process exactly if [`Info::in_process`] says so, and its
/// [`Progress`] is true of it.
pub unsafe trait Algorithm: Sized + Send + 'static {
    /// An image of this algorithm on its way into a sink.
    type Image<S: Sink + 'static>: Image<Sink = S> + 'static;
    /// Name, source and costs, from the registry line.
    const INFO: Info;

    /// Whether this machine lets the algorithm run.
    ///
    /// # Errors
    /// [`Unavailable`]: one sentence that says what is missing.
    fn available() -> Result<(), Unavailable> {
        Ok(())
    }
    /// The registry's line of this value: [`INFO`](Self::INFO), unless the type stands for several.
    fn info(&self) -> &'static Info {
        const { &Self::INFO }
    }
    /// State of `options.words` zero words.
    ///
    /// # Errors
    /// [`MemoryError`] when the system refuses the memory.
    fn create(options: &Options) -> Result<Self, MemoryError>;
    /// Words of state.
    fn words(&self) -> usize;
    /// Grows in place to `words` zero-extended words (never shrinks), at any time: an image under
    /// way keeps the length it had at begin.
    ///
    /// # Errors
    /// [`MemoryError`] beyond `options.max_words` or if the system refuses memory; nothing changes.
    fn grow(&mut self, words: usize) -> Result<(), MemoryError>;

    /// The latest value of a word. Panics if `index` is out of bounds.
    fn read(&self, index: usize) -> u64;
    /// [Reads](Self::read) of the `len` words from `start` on, by their number there; `None` if not
    /// all of them are in bounds. Where words have one home, that is checked once for all. A read
    /// of another number panics.
    fn window(&self, start: usize, len: usize) -> Option<impl Fn(usize) -> u64> {
        let is_whole = len <= self.words() && start <= self.words() - len;
        is_whole.then_some(move |index| {
            assert!(index < len, "word {index} of a window of {len}");
            self.read(start + index)
        })
    }
    /// The latest value of a word; `None` out of bounds.
    fn get(&self, index: usize) -> Option<u64> {
        (index < self.words()).then(|| self.read(index))
    }
    /// Replaces a word. Panics if `index` is out of bounds.
    fn write(&mut self, index: usize, value: u64);
    /// Replaces a run of words. Panics if the run is out of bounds, before any word is written.
    fn write_run(&mut self, start: usize, values: &[u64]) {
        write_each(self, start, values);
    }
    /// Replaces words in any places, in this order: as [`write`](Self::write) for each, and faster.
    /// Panics if one of them is out of bounds, before any word is written.
    fn write_many(&mut self, writes: &[(usize, u64)]) {
        check_many(self, writes);
        for group in writes.chunks(GROUP) {
            group.iter().for_each(|(index, _)| self.approach(*index));
            group.iter().for_each(|&(index, value)| self.write(index, value));
        }
    }
    /// Says that word `index`, which is in bounds, will be written soon, so that what its write
    /// looks at can be on its way: a hint, which changes nothing. A batch of scattered writes is
    /// fastest if each of them is announced some sixteen writes ahead.
    fn approach(&self, index: usize) {
        let _ = index;
    }
    /// The memory of the words, before the first image and for an algorithm in which a write is a
    /// store there and nothing else: then several threads may [fill](InPlace::store_run) the state.
    /// Nothing else reaches it meanwhile:
    ///
    /// ```compile_fail,E0499
    /// # use stillframe::{Algorithm, Options, algorithms::naive::Naive};
    /// let mut state = Naive::create(&Options::words(8)).expect("memory");
    /// let memory = state.in_place().expect("there was no image");
    /// state.write_u32(0, 7);
    /// memory.store_run(0, &[1, 2]);
    /// ```
    fn in_place(&mut self) -> Option<InPlace<'_>> {
        None
    }
    /// The memory of the words, for readers in other languages, where each word has one home.
    fn live(&self) -> Option<Live> {
        None
    }
    /// Says that the run of words may be written in place, through [`live`](Self::live), until the
    /// next [`begin`](Self::begin): images under way have what the words hold now, whatever is
    /// stored there later. What is in place must be written on this thread or after it. Panics if
    /// the run is out of bounds.
    fn announce(&mut self, start: usize, len: usize) {
        assert!(start <= self.words() && len <= self.words() - start, "run out of bounds");
        (start..start + len).for_each(|index| self.write(index, self.read(index)));
    }
    /// Half a word, for states of u32: `index` counts 4-byte items, low half first.
    fn read_u32(&self, index: usize) -> u32 {
        (self.read(index / 2) >> (32 * (index % 2))) as u32
    }
    /// Replaces a word by what `patch` makes of it. Panics if `index` is out of bounds. Each
    /// algorithm that looks at flags overrides this: a read and a write look twice.
    fn update(&mut self, index: usize, patch: impl Fn(u64) -> u64) {
        self.write(index, patch(self.read(index)));
    }
    /// Replaces half a word. Units of [half a word](crate::Unit::Half) and words with one home are
    /// stored so, and the other half is neither read nor written; where units are longer the unit
    /// is brought whole first, if it lies elsewhere. Otherwise the word is
    /// [updated](Self::update).
    fn write_u32(&mut self, index: usize, value: u32) {
        self.update(index / 2, |word| with_half(word, index, value));
    }

    /// Fixes the image of this instant, to be pushed into `sink`. The sink is given here because a
    /// fork's image lives in a child that can only run what it already holds.
    ///
    /// # Errors
    /// [`BeginError`]; the state is unchanged, the sink is dropped.
    fn begin<S: Sink + 'static>(
        &mut self,
        point: Point,
        sink: S,
    ) -> Result<Self::Image<S>, BeginError>;
    /// Does a slice of what the algorithm needs of the writer's thread between two actions: a few
    /// microseconds at most. Returns whether there is more to do. Most algorithms need nothing;
    /// one whose [`Info::tended`] says so makes no progress without it.
    fn tend(&mut self) -> bool {
        false
    }
    /// Progress and cancellation of the newest image of now, for any thread.
    fn progress(&self) -> Progress;
}

/// The new value of an item, for the one function that replaces items in an algorithm. It loads the
/// old value only if the new one depends on it, so that a plain write does not load.
pub trait New<T> {
    /// The new value; `old` loads the one that it replaces.
    fn resolve(self, old: impl FnOnce() -> T) -> T;
}

/// A value that needs no other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Value<T>(pub(crate) T);

impl<T> New<T> for Value<T> {
    #[inline(always)]
    fn resolve(self, _old: impl FnOnce() -> T) -> T {
        self.0
    }
}

/// What a function makes of the old value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patched<F>(pub(crate) F);

impl<T, F: FnOnce(T) -> T> New<T> for Patched<F> {
    #[inline(always)]
    fn resolve(self, old: impl FnOnce() -> T) -> T {
        (self.0)(old())
    }
}

/// A unit of one item: its latest value lies in one array, and it is to be replaced in another one.
pub trait Put<T: Item>: Sized {
    /// The same, with all that is the caller's code done: a function of the old value may panic,
    /// and nothing has changed then. The latest value lies in array `from`.
    fn resolve<const N: usize>(self, place: Place<'_, T, N>, from: usize) -> impl Put<T>;
    /// Replaces the unit, or part of it, in array `to`; it is then whole there.
    fn put<const N: usize>(self, place: Place<'_, T, N>, from: usize, to: usize);
    /// Replaces the unit, or part of it, in the array where its latest value is.
    fn put_here<const N: usize>(self, place: Place<'_, T, N>, array: usize);
}

impl<T: Item, V: New<T>> Put<T> for V {
    #[inline(always)]
    fn resolve<const N: usize>(self, place: Place<'_, T, N>, from: usize) -> impl Put<T> {
        Value(self.resolve(|| place.load(from)))
    }

    #[inline(always)]
    fn put<const N: usize>(self, place: Place<'_, T, N>, from: usize, to: usize) {
        place.store(to, self.resolve(|| place.load(from)));
    }

    #[inline(always)]
    fn put_here<const N: usize>(self, place: Place<'_, T, N>, array: usize) {
        self.put(place, array, array);
    }
}

/// Half of a word that is a unit: the word is copied, and then its half stored, which takes fewer
/// instructions than to patch it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Half {
    /// The half: its last bit says which of the word's.
    pub(crate) item: usize,
    pub(crate) value: u32,
    /// Whether the neighbour is copied. Only a mutant forgets it.
    pub(crate) whole: bool,
}

impl Put<u64> for Half {
    #[inline(always)]
    fn resolve<const N: usize>(self, _: Place<'_, u64, N>, _: usize) -> impl Put<u64> {
        self
    }

    #[inline(always)]
    fn put<const N: usize>(self, place: Place<'_, u64, N>, from: usize, to: usize) {
        if self.whole {
            place.store(to, place.load(from));
        }
        self.put_here(place, to);
    }

    #[inline(always)]
    fn put_here<const N: usize>(self, place: Place<'_, u64, N>, array: usize) {
        place.store_half(array, self.item, self.value);
    }
}

/// [`Algorithm::write`] and [`Algorithm::update`] by the type's `replace(index, new)`, which looks
/// at flags once. With `in_place`, what has one home is replaced there, in halves too:
/// `replace::<T>(item, new)`. With `by_halves`, items may be half words: where `halves()` says so
/// each has a flag of its own, and all is read by `get::<T>(item)` and replaced by halves alone.
/// There `replace::<T>` replaces an item that is a unit, and `replace_half` half of a word that is
/// one. Both return `false` and replace nothing if items are not such, or out of bounds, so that
/// one comparison shows both. What is left is part of a longer unit, for `replace_in_unit`.
macro_rules! write_by_replace {
    () => {
        #[inline(always)]
        fn write(&mut self, index: usize, value: u64) {
            self.replace(index, $crate::algorithm::Value(value));
        }

        #[inline(always)]
        fn update(&mut self, index: usize, patch: impl Fn(u64) -> u64) {
            self.replace(index, $crate::algorithm::Patched(patch));
        }
    };
    (in_place) => {
        write_by_replace!();

        #[inline(always)]
        fn write_u32(&mut self, index: usize, value: u32) {
            self.replace(index, $crate::algorithm::Value(value));
        }
    };
    (by_halves) => {
        #[inline(always)]
        fn read(&self, index: usize) -> u64 {
            if self.halves() {
                return $crate::algorithm::read_halves(self, index);
            }
            self.get::<u64>(index)
        }

        #[inline(always)]
        fn read_u32(&self, index: usize) -> u32 {
            if self.halves() {
                return self.get::<u32>(index);
            }
            $crate::memory::split(self.get::<u64>(index / 2))[index % 2]
        }

        #[inline(always)]
        fn write(&mut self, index: usize, value: u64) {
            if self.replace(index, $crate::algorithm::Value(value)) {
                return;
            }
            if self.halves() {
                return $crate::algorithm::write_halves(self, index, value);
            }
            self.replace_in_unit(index, $crate::algorithm::Value(value));
        }

        #[inline(always)]
        fn update(&mut self, index: usize, patch: impl Fn(u64) -> u64) {
            if self.replace(index, $crate::algorithm::Patched(&patch)) {
                return;
            }
            if self.halves() {
                let value = patch($crate::algorithm::read_halves(self, index));
                return $crate::algorithm::write_halves(self, index, value);
            }
            self.replace_in_unit(index, $crate::algorithm::Patched(&patch));
        }

        #[inline(always)]
        fn write_u32(&mut self, index: usize, value: u32) {
            if self.replace(index, $crate::algorithm::Value(value))
                || self.replace_half(index, value)
            {
                return;
            }
            if self.halves() {
                $crate::memory::out_of_bounds(index / 2, self.words());
            }
            self.replace_in_unit(index, $crate::algorithm::Value(value));
        }
    };
}
pub(crate) use write_by_replace;

/// A word whose halves have a flag each.
pub(crate) fn read_halves(state: &impl Algorithm, index: usize) -> u64 {
    assert!(index < state.words(), "word {index} of {}", state.words());
    join([0, 1].map(|half| state.read_u32(2 * index + half)))
}

/// Replaces a word whose halves have a flag each. Apart from what replaces words, which so stays
/// short. Panics if it is out of bounds.
#[inline(never)]
pub(crate) fn write_halves(state: &mut impl Algorithm, index: usize, value: u64) {
    assert!(index < state.words(), "word {index} of {}", state.words());
    for (half, value) in split(value).into_iter().enumerate() {
        state.write_u32(2 * index + half, value);
    }
}

/// [`Algorithm::write_run`], word by word.
pub(crate) fn write_each<A: Algorithm>(state: &mut A, start: usize, values: &[u64]) {
    assert!(start <= state.words() && values.len() <= state.words() - start, "run out of bounds");
    for (offset, &value) in values.iter().enumerate() {
        state.write(start + offset, value);
    }
}

/// Writes of a batch that are announced before the first of them is written: their lines must find
/// room in the first cache until they are.
pub(crate) const GROUP: usize = if crate::BLOCK_WORDS == 512 { 256 } else { 2 };

/// Panics unless all these words are in bounds.
pub(crate) fn check_many(state: &impl Algorithm, writes: &[(usize, u64)]) {
    let words = state.words();
    for (index, _) in writes {
        assert!(*index < words, "word {index} of {words}");
    }
}

/// The state as it was at begin, until dropped. Dropping it (half-way or after the capture) ends
/// the image: only then can the next one begin.
pub trait Image: Send {
    /// Where the image goes.
    type Sink;
    /// Words of state at begin.
    fn words(&self) -> usize;
    /// Number of this image, from 1.
    fn epoch(&self) -> u64;
    /// The image that this one completes, if what its sink receives may be less than the whole: the
    /// last one that was [settled](Self::settle) before begin. A keeper of increments keeps this
    /// number with each: an increment that does not build on the newest one kept must not be
    /// applied, since one between them is missing. `None`: the image is complete by itself.
    fn builds_on(&self) -> Option<u64> {
        None
    }
    /// One word of the image, or `None` if the image lives in another process or `index` is out of
    /// bounds. Valid until the image is captured or dropped.
    fn get(&self, index: usize) -> Option<u64>;
    /// The words of the image from `start` on, as many as `into` has; `None` as for
    /// [`get`](Self::get), and `into` then holds anything.
    fn get_run(&self, start: usize, into: &mut [u64]) -> Option<()> {
        for (word, index) in into.iter_mut().zip(start..) {
            *word = self.get(index)?;
        }
        Some(())
    }
    /// Pushes the whole image into the sink, except the blocks that the sink
    /// [declines](Sink::wants), and finishes the sink. Whatever the sink does, declining, failing
    /// or panicking at any call, the images after this one are right.
    ///
    /// # Errors
    /// [`CaptureError`]; the sink then holds no image.
    fn capture(&mut self) -> Result<(), CaptureError>;
    /// Declares the captured image durable: from now on it is the image before, which the next
    /// [incremental](crate::Completeness::Incremental) image builds on. An image that ends without
    /// this call does not count, and the next one carries its changes too. Does nothing to an image
    /// that was not captured whole.
    fn settle(&mut self) {}
    /// The sink as this process holds it.
    fn sink_mut(&mut self) -> &mut Self::Sink;
    /// Ends the image and returns the sink.
    fn into_sink(self) -> Self::Sink;
}
