//! Checkpoints, a log and recovery for state held in stillframe memory.
//!
//! A [`Store`] is an array of 64-bit words that survives its process. The application reads and
//! writes it at the speed of memory and says where its state is valid; checkpoints begin there in
//! microseconds and are written in the background.
//!
//! ```
//! use std::time::Duration;
//! use stillframe_durability::{Options, Store};
//!
//! # fn main() -> Result<(), stillframe_durability::Error> {
//! # let data = tempfile::tempdir().expect("a temporary directory");
//! # let data = data.path();
//! // Two accounts and the tick number: three words, kept in the directory `data`.
//! let options = Options::words(3).every(Duration::from_secs(10)).checkpoint_on_close();
//! let mut state: Store = Store::open(data, options)?; // the last checkpoint, or zeros
//! let first = state.read(2);
//!
//! for tick in first..first + 1000 {
//!     state.write(0, state.read(0).wrapping_sub(7)); // from one account...
//!     state.write(1, state.read(1).wrapping_add(7)); // ...to the other
//!     state.write(2, tick + 1);
//!     state.point(); // the books balance: a checkpoint may begin here, in microseconds
//! }
//! assert_eq!(state.read(0).wrapping_add(state.read(1)), 0); // in every checkpoint as well
//!
//! println!("{:?}", state.stats());
//! state.close()?; // waits until the last checkpoint is durable
//! # Ok(())
//! # }
//! ```
//!
//! An application that must lose nothing between two checkpoints changes an [`ActStore`] by
//! actions: the log holds the words that each wrote, or a record of the application's own, which
//! it applies again after a crash.
//!
//! Reading order: [`Store`], [`ActStore`], [`Options`], [`LogOptions`], [`Stats`], [`Recovery`].
//! Inside: `checkpoint` is the format, reader and writer; `recovery` finds the newest sound
//! checkpoint; `store::replay` applies the log after it; `desk` makes a checkpoint durable;
//! `retention` removes old ones; `log` is the format, reader and writer of the logical log, and
//! its thread, `logger`; [`disk`] is the seam to the file system, with the disk that tests crash.

#![forbid(unsafe_code)]

/// The example of the README is compiled with the tests of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod application;
mod caught;
mod chain;
mod checkpoint;
mod clock;
#[cfg(test)]
mod crash;
mod damage;
mod desk;
pub mod disk;
mod error;
mod fields;
mod files;
pub mod inspect;
mod log;
mod manner;
mod merge;
mod mutant;
mod names;
mod options;
mod recovery;
mod retention;
mod rewind;
mod schedule;
mod standalone;
mod stats;
mod store;
mod told;
mod touched;
mod until;

pub use application::Application;
pub use chain::Increments;
pub use damage::checkpoint::{Damage, Skipped};
pub use damage::log::Damage as LogDamage;
pub use error::Error;
pub use files::{ChainFile, CheckpointFiles, Checkpoints, checkpoint_name};
pub use log::handle::LogHandle;
pub use log::options::{LogOptions, Policy};
pub use log::reader::Progress;
pub use options::Options;
pub use recovery::{Loaded, LostRecords, Recovery, Replayed, TornTail};
pub use retention::Retention;
pub use rewind::{Accepted, Rewound, rewind};
pub use standalone::Log;
pub use stats::{CheckpointProgress, LogStats, Stats};
pub use store::act::{Act, NotWords};
pub use store::action::{Action, ApplyError};
pub use store::acts::ActStore;
pub use store::dynamic::DynamicStore;
pub use store::reader::Reader;
pub use store::view::{Branch, View, ViewLost};
pub use store::{NotClosed, Store};
pub use until::{NoPoint, Until};
