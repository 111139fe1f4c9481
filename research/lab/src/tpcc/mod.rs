//! TPC-C on state words: all tables, the five transactions in their standard mix as stored
//! procedures, and the consistency conditions of the specification (revision 5.11).
//!
//! - A state is [`Words`]: plain memory, a state with images, or an image that was read back.
//!   Everything lies in it but what is derived from names that never change ([`Names`]).
//! - A [`Request`] holds all that a transaction needs. [`run`] depends on it and on the state
//!   alone, so a log of requests replays to the same words.
//! - [`check`] says whether conditions 1 to 4 hold (section 3.3.2).
//!
//! ```
//! use stillframe_measure::draw::Rng;
//! use stillframe_lab::tpcc::{Layout, Names, Plan, Scale, check, fill, run};
//!
//! let layout = Layout::new(Scale { orders_room: 200, ..Scale::tiny(1) })?;
//! let mut state = vec![0; layout.words()];
//! fill(&layout, &mut state, 1);
//! let names = Names::read(&layout, &state);
//! let (plan, mut random) = (Plan::new(7), Rng(7));
//! for now in 2..1002 {
//!     run(&layout, &names, &mut state, &plan.draw(&layout, &mut random, now));
//! }
//! check(&layout, &state)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where it leaves the specification: rows have numbers in place of indexes, but for customers by
//! name; a district has room for a given number of orders, and refuses more; the history of a
//! district is a ring of that many rows; money is whole cents, and taxes and discounts are whole
//! ten thousandths. There are no terminals and no think time (Cao et al. 2011, section 5.1).

mod check;
mod fill;
mod layout;
mod names;
mod request;
mod transactions;

pub use check::{Broken, check};
pub use fill::fill;
pub use layout::{Layout, Scale, TooLarge};
pub use names::Names;
pub use request::{Customer, Item, Malformed, Plan, Request};
pub use transactions::{Outcome, run};

/// A state that is read and written by words.
pub trait Words: Read {
    /// Replaces a word.
    fn write(&mut self, word: usize, value: u64);
}

/// A state, or an image of one, that is read by words.
pub trait Read {
    /// A word.
    fn read(&self, word: usize) -> u64;
}

impl Read for Vec<u64> {
    fn read(&self, word: usize) -> u64 {
        self[word]
    }
}

impl Words for Vec<u64> {
    fn write(&mut self, word: usize, value: u64) {
        self[word] = value;
    }
}
