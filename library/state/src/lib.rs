//! Records, tables, maps and strings in the state of a [`Store`]: typed state that is checkpointed
//! while it is written, at the speed of memory.
//!
//! A *root* is a struct of places, laid out from its type. A place is a number: it knows where its
//! words lie, and its methods take the words to read or write: the store, an image, a state
//! collected by a sink ([`Source`], [`Target`]). So everything that is written goes through the
//! store, and everything can be read in an image, too.
//!
//! ```
//! use stillframe_state::{Map, Slot, State, Store, Table, record};
//!
//! #[record]
//! struct Order {
//!     account: u64,
//!     price: u32,
//!     quantity: u32,
//! }
//!
//! #[derive(Clone, Copy, State)]
//! struct Book {
//!     orders: Table<Order>,
//!     by_number: Map<u64, Slot<Order>>,
//! }
//!
//! # let data = tempfile::tempdir()?;
//! # let data = data.path();
//! // Room to grow to 2^27 words, a gigabyte.
//! let options = Book::options("order-book", 1 << 27).checkpoint_on_close();
//! let mut store: Store = Store::open(data, options)?;
//! let book = Book::attach(&mut store)?;
//!
//! // Whole or not at all; a checkpoint may begin at the end of an action.
//! store.act(|words| {
//!     let order = Order { account: 7, price: 9_950, quantity: 100 };
//!     let slot = book.orders.insert(words, order)?;
//!     book.by_number.insert(words, 1, slot)?;
//!     Ok::<_, Box<dyn std::error::Error>>(())
//! })?;
//!
//! // The same at the speed of memory, for what cannot fail half-way.
//! let slot = book.by_number.get(&store, &1).expect("it was inserted");
//! book.orders.update(&mut store, slot, |order| order.quantity -= 30);
//! store.point(); // the book is valid: a checkpoint may begin here
//! assert_eq!(book.orders.get(&store, slot).map(|order| order.quantity), Some(70));
//! store.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | place | holds | grows | takes, beside the records |
//! |---|---|---|---|
//! | [`Value<T>`] | one record | no | nothing |
//! | [`Column<T, N>`](Column) | `N` records | no | nothing |
//! | [`Table<T>`] | records in slots that are used again | yes | a word a slot |
//! | [`List<T>`] | records in a row | yes | nothing |
//! | [`Map<K, V>`] | values by keys | yes | a word an entry; a quarter to five eighths are empty |
//! | [`Slab`] | bytes and strings | yes | a word each |
//!
//! What grows takes memory in pieces, each up to as long as all before it, and returns a
//! [`MemoryError`] if the state has its full size (`words_max`), having changed nothing.
//!
//! The guide is `docs/embed/state.md`; the examples are an order book and a game world.
//! Reading order: [`State`], [`Record`], the places, [`read_image`].

#![forbid(unsafe_code)]

/// The guide is compiled with the tests of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embed/state.md")]
struct Guide;

// So that what the macros make compiles here as well.
extern crate self as stillframe_state;

mod blocks;
mod chunks;
mod column;
mod layout;
mod list;
mod map;
mod mutant;
mod record;
mod relation;
mod shape;
mod slab;
mod source;
mod table;
#[cfg(test)]
mod tests;

pub use chunks::Run;
pub use column::{Column, Value};
pub use layout::{Attach, AttachError, Layout, OtherLayout, State};
pub use list::List;
pub use map::Map;
pub use record::Record;
pub use relation::Relation;
pub use shape::{Field, Shape};
pub use slab::{Bytes, Slab, Str};
pub use source::{Frozen, Lost, Source, Target, read_image};
pub use stillframe::{self, MemoryError};
pub use stillframe_durability::{
    self as durability, Act, ActStore, Branch, Error, LogOptions, NotClosed, Options, Reader,
    Store, View, ViewLost,
};
pub use stillframe_state_derive::State;
/// Makes a struct of records a [`Record`]: `Clone`, `Copy` and `repr(C)`, and refused if it has
/// padding. Derive what else it should have (`Debug`, `PartialEq`).
///
/// ```
/// # use stillframe_state::record;
/// #[record]
/// #[derive(Debug, PartialEq)]
/// struct Trade {
///     time_ns: u64,
///     price: u32,
///     quantity: u32,
/// }
/// ```
///
/// Fields lie one behind the other, each at a multiple of its own size. Where that leaves a gap,
/// the struct is refused; order the fields from large to small, and fill up with an array:
///
/// ```compile_fail
/// # use stillframe_state::record;
/// #[record]
/// struct Gap {
///     time_ns: u64,
///     price: u32, // four bytes are missing behind it
/// }
/// ```
///
/// What is not valid for each pattern of bits is no record: a `bool` is a `u8` there, an enum a
/// number.
///
/// ```compile_fail
/// # use stillframe_state::record;
/// #[record]
/// struct Flag {
///     is_on: bool,
/// }
/// ```
pub use stillframe_state_derive::record;
pub use table::{Slot, Table};
/// For what [`record`] makes.
#[doc(hidden)]
pub use zerocopy;
