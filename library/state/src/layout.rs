//! Where each field of a root struct lies.
//!
//! ```text
//! word 0         fingerprint of the layout; 0 before a state is laid out
//! word 1         the first word that was never given to a block; 0 likewise
//! words 2..162   the newest free block of each size (`blocks`)
//! word 162       what hashes of keys begin with (`State::attach_seeded`)
//! words 163..    the fields of the root struct, in order, those of nested structs within
//! then           blocks, up to word 1; zeros behind
//! ```
//!
//! - A layout follows from the root type alone. Its description names the fields, the kinds of
//!   places and the shapes of records; the fingerprint is a hash of that text.
//! - Words that are all zero are an empty place of every kind.

use stillframe::Algorithm;
use stillframe_durability::{ActStore, Error, Options};

use crate::blocks;
use crate::relation::Relation;
use crate::shape::Shape;
use crate::source::{Source, Target};

/// The kind of layout that this version makes: another one gets another name here, and so other
/// fingerprints.
const KIND: &str = "stillframe-state 3";

/// The word of the fingerprint.
const FINGERPRINT: usize = 0;

/// The root of a state, or a part of one: a struct of places, each of which knows where its words
/// lie. It holds no words itself: methods of places take the words that they read or write.
///
/// Derive it, with `Clone` and `Copy`, on a struct whose fields are places ([`Value`],
/// [`Column`], [`Table`], [`List`], [`Map`], [`Slab`]), arrays of such, or structs that derive it.
///
/// ```
/// use stillframe_state::{Column, State, Target, Value};
///
/// #[derive(Clone, Copy, State)]
/// struct World {
///     tick: Value<u64>,
///     temperature: Column<f32, 100>,
/// }
///
/// # let data = tempfile::tempdir()?;
/// # let data = data.path();
/// let options = World::options("weather", 1 << 20).checkpoint_on_close();
/// let mut store: stillframe_state::Store = stillframe_state::Store::open(data, options)?;
/// let world = World::attach(&mut store)?;
/// world.temperature.set(&mut store, 7, 21.5);
/// world.tick.update(&mut store, |tick| *tick += 1);
/// store.point(); // the state is valid: a checkpoint may begin here
/// assert_eq!(world.temperature.get(&store, 7), 21.5);
/// store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Value`]: crate::Value
/// [`Column`]: crate::Column
/// [`Table`]: crate::Table
/// [`List`]: crate::List
/// [`Map`]: crate::Map
/// [`Slab`]: crate::Slab
pub trait State: Copy {
    /// Takes the words of the next place.
    fn lay_out(layout: &mut Layout) -> Self;

    /// The layout that follows from this type as the root.
    #[must_use]
    fn layout() -> Layout {
        placed::<Self>().1
    }

    /// The places of this root as rows of columns, but for slabs, whose texts are columns of the
    /// records that name them.
    ///
    /// ```
    /// use stillframe_state::{Column, List, Source, State, record};
    ///
    /// #[record]
    /// struct Trade {
    ///     price: u32,
    ///     quantity: u32,
    /// }
    ///
    /// #[derive(Clone, Copy, State)]
    /// struct Day {
    ///     open: Column<u64, 3>,
    ///     trades: List<Trade>,
    /// }
    ///
    /// let mut words = vec![0; Day::layout().words()]; // or a view
    /// let day = Day::attach(&mut words)?;
    /// day.trades.push(&mut words, Trade { price: 70, quantity: 2 })?;
    ///
    /// let trades = &Day::relations()[1];
    /// let names: Vec<&str> = trades.columns().iter().map(|it| it.name.as_str()).collect();
    /// assert_eq!((trades.name(), names), ("trades", vec!["price", "quantity"]));
    /// for run in trades.runs(&words) {
    ///     assert_eq!((run.items, words.read(run.start)), (1, 2 << 32 | 70));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    fn relations() -> Vec<Relation> {
        let mut layout = Layout { relations: Some(Vec::new()), ..Layout::new() };
        Self::lay_out(&mut layout);
        layout.relations.unwrap_or_default()
    }

    /// Options for a store of this root: the application `tag`, in at most 16 bytes, the
    /// [version](Layout::version) of the layout, and room to grow to `words_max` words of 8 bytes
    /// (address space: memory is taken as it is needed).
    #[must_use]
    fn options(tag: &str, words_max: usize) -> Options {
        let layout = Self::layout();
        let memory = stillframe::Options::words(layout.words()).max_words(words_max);
        Options::memory(memory).application(tag, layout.version())
    }

    /// The root in a store that was opened with these [options](Self::options), which is laid out
    /// if it is new; in an [`ActStore`](crate::ActStore) by an action, so that its log begins with
    /// that.
    ///
    /// # Errors
    /// [`OtherLayout`] if the words have another layout; [`AttachError`] of an `ActStore`.
    fn attach<T: Attach>(target: &mut T) -> Result<Self, T::Error> {
        Self::attach_seeded(target, 0)
    }

    /// As [`attach`](Self::attach), for maps whose keys strangers choose: who knows how keys
    /// are hashed can choose many of one hash, which makes lookups slow. A new state keeps `seed`,
    /// which should be random, and begins every hash with it; a state that is there has its own.
    ///
    /// Where a log of the caller's own bytes is replayed, or several members apply the same
    /// actions, give all of them the same seed if they depend on the order in which a map lists
    /// its keys.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    fn attach_seeded<T: Attach>(target: &mut T, seed: u64) -> Result<Self, T::Error> {
        let layout = Self::layout();
        if target.words() < layout.words() {
            return Err(OtherLayout { found: None, wanted: layout }.into());
        }
        let is_new = target.read(FINGERPRINT) == 0;
        let first = [(FINGERPRINT, layout.fingerprint()), (blocks::SEED, seed)];
        let begin = blocks::begin_at(target, layout.words());
        let writes: Vec<_> = first.into_iter().filter(|_| is_new).chain(begin).collect();
        target.write_together(&writes)?;
        Ok(Self::from_source(target)?)
    }

    /// The root in words to be read: an image, or a store that is [attached](Self::attach).
    ///
    /// # Errors
    /// [`OtherLayout`] if the words have another layout.
    fn from_source(source: &(impl Source + ?Sized)) -> Result<Self, OtherLayout> {
        let (root, layout) = placed::<Self>();
        let words = source.words();
        let found = (words >= layout.words()).then(|| source.read(FINGERPRINT));
        if found == Some(layout.fingerprint()) && blocks::end(source) <= words {
            return Ok(root);
        }
        Err(OtherLayout { found, wanted: layout })
    }
}

fn placed<S: State>() -> (S, Layout) {
    let mut layout = Layout::new();
    let root = S::lay_out(&mut layout);
    (root, layout)
}

impl<S: State, const N: usize> State for [S; N] {
    fn lay_out(layout: &mut Layout) -> Self {
        layout.describe(&format!("{N}*"));
        std::array::from_fn(|index| {
            let end = layout.text.len();
            let part = layout.within(|| index.to_string(), S::lay_out);
            if index > 0 {
                layout.text.truncate(end); // all have the shape of the first
            }
            part
        })
    }
}

/// A layout, from its first word to its last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    words: usize,
    text: String,
    /// The places so far, if they are asked for.
    relations: Option<Vec<Relation>>,
    /// Where the next place is, from the root on.
    path: Vec<String>,
}

impl Layout {
    fn new() -> Self {
        let text = format!("{KIND} ");
        Self { words: blocks::HEADER, text, relations: None, path: Vec::new() }
    }

    /// Words of header and fields; blocks come behind.
    #[must_use]
    pub fn words(&self) -> usize {
        self.words
    }

    /// What the layout is, as text: fields with their names, kinds and shapes.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.text
    }

    /// A hash of the [description](Self::description), which the state bears in its first word; not
    /// 0.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        // FNV-1a.
        let hash = self.text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
        hash.max(1)
    }

    /// The fingerprint in 32 bits, for [`Options::application`]: files of another layout are
    /// refused by it.
    #[must_use]
    pub fn version(&self) -> u32 {
        let fingerprint = self.fingerprint();
        (fingerprint ^ fingerprint >> 32) as u32
    }

    /// The field `name`.
    pub fn field<S: State>(&mut self, name: &str) -> S {
        self.describe(name);
        self.describe(":");
        let field = self.within(|| name.to_owned(), S::lay_out);
        self.describe(";");
        field
    }

    /// Fields that belong together.
    pub fn group<S>(&mut self, fields: impl FnOnce(&mut Self) -> S) -> S {
        self.describe("{");
        let group = fields(self);
        self.describe("}");
        group
    }

    /// Appends to the description.
    pub(crate) fn describe(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Appends the shape of records to the description.
    pub(crate) fn shapes(&mut self, kind: &str, shapes: &[Shape]) {
        self.describe(kind);
        for (index, shape) in shapes.iter().enumerate() {
            self.describe(if index == 0 { "<" } else { "," });
            self.describe(&shape.to_string());
        }
        self.describe(if shapes.is_empty() { "" } else { ">" });
    }

    /// Lays out what is called so in what is being laid out.
    fn within<S>(
        &mut self,
        name: impl FnOnce() -> String,
        lay_out: impl FnOnce(&mut Self) -> S,
    ) -> S {
        if self.relations.is_some() {
            self.path.push(name());
        }
        let part = lay_out(self);
        self.path.pop();
        part
    }

    /// Notes the place that is being laid out, if places are asked for.
    pub(crate) fn relate(&mut self, relation: impl FnOnce() -> Relation) {
        if let Some(relations) = &mut self.relations {
            relations.push(relation().named(self.path.join("_")));
        }
    }

    /// Takes the next `words` words, and returns the first of them.
    pub(crate) fn take(&mut self, words: usize) -> usize {
        let at = self.words;
        self.words = at.checked_add(words).expect("a layout fits the address space");
        at
    }
}

/// Words that a state is [attached](State::attach) to: those of a [`Target`], or of a store of
/// actions, whose places are written by actions alone.
///
/// ```
/// # use stillframe_state::{ActStore, Error, State, Value};
/// # #[derive(Clone, Copy, State)]
/// # struct World { tick: Value<u64> }
/// # let data = tempfile::tempdir()?;
/// let mut store = ActStore::open(data.path(), World::options("world", 1 << 10))?;
/// let world = World::attach(&mut store)?;
/// store.act(|words| Ok::<_, Error>(world.tick.set(words, 7)))?;
/// assert_eq!(world.tick.get(&store), 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0277
/// # use stillframe_state::{ActStore, Error, State, Value};
/// # #[derive(Clone, Copy, State)]
/// # struct World { tick: Value<u64> }
/// # let data = tempfile::tempdir()?;
/// # let mut store = ActStore::open(data.path(), World::options("world", 1 << 10))?;
/// # let world = World::attach(&mut store)?;
/// world.tick.set(&mut store, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Attach: Source {
    /// Why it cannot be.
    type Error: From<OtherLayout>;
    /// Replaces these words, in an action if the store logs those.
    ///
    /// # Errors
    /// The log takes no action; nothing changes.
    fn write_together(&mut self, writes: &[(usize, u64)]) -> Result<(), Self::Error>;
}

impl<T: Target> Attach for T {
    type Error = OtherLayout;

    fn write_together(&mut self, writes: &[(usize, u64)]) -> Result<(), OtherLayout> {
        writes.iter().for_each(|&(index, value)| self.write(index, value));
        Ok(())
    }
}

impl<A: Algorithm> Attach for ActStore<A> {
    type Error = AttachError;

    fn write_together(&mut self, writes: &[(usize, u64)]) -> Result<(), AttachError> {
        self.act(|words| {
            words.write_many(writes);
            Ok(())
        })
    }
}

/// Why a state cannot be attached to a store of actions.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Its words have another layout.
    #[error(transparent)]
    Layout(#[from] OtherLayout),
    /// Its log does not take the layout.
    #[error("the layout could not be logged: {0}")]
    Log(#[from] Error),
}

/// Words that have another layout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the state has {}, and not layout {:016x}, which is \"{}\"; open it by the type that wrote it, \
     and convert it",
    found.map_or_else(|| "too few words".into(), |found| format!("layout {found:016x}")),
    wanted.fingerprint(),
    wanted.description()
)]
pub struct OtherLayout {
    /// The fingerprint that the state bears; `None` if it is too short to bear one.
    pub found: Option<u64>,
    /// The layout of the type that should read it.
    pub wanted: Layout,
}

/// Places are numbers: they are copied whatever lies there.
macro_rules! places {
    ($([$($parameters:tt)*] $place:ty),*) => {
        $(
            impl<$($parameters)*> Clone for $place {
                fn clone(&self) -> Self {
                    *self
                }
            }
            impl<$($parameters)*> Copy for $place {}
        )*
    };
}
pub(crate) use places;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::List;

    #[derive(Debug, Clone, Copy, crate::State)]
    struct Root {
        list: List<u64>,
    }

    #[test]
    fn the_first_seed_stays() {
        let mut words = vec![0; Root::layout().words()];
        for seed in [7, 8] {
            Root::attach_seeded(&mut words, seed).expect("it is its own");
            assert_eq!(words[blocks::SEED], 7);
        }
    }

    #[test]
    fn a_state_whose_end_is_lost_is_refused() {
        let mut words = vec![0; Root::layout().words()];
        let root = Root::attach(&mut words).expect("it is new");
        root.list.push(&mut words, 1).expect("memory");
        words.truncate(blocks::end(&words));
        Root::from_source(&words).expect("it is whole");
        words.pop();
        let refused = Root::from_source(&words).expect_err("a block ends behind it");
        assert_eq!(refused.found, Some(refused.wanted.fingerprint()));
    }
}
