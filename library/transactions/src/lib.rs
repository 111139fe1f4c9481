//! Transactions on several threads, from whose state consistent images are taken without a quiet
//! moment: an image is exactly the state after a prefix of the commit order.
//!
//! ```
//! use stillframe_transactions::{Engine, Imprint, Records, Settings, Stop};
//!
//! // Two accounts of one word each.
//! let engine: Engine<Imprint> = Engine::create(Settings::new(2, 1))?;
//! engine.run(|tx| Ok::<_, Stop<()>>(tx.write(0, 0, 100)?)).unwrap();
//!
//! let image = engine.begin()?; // the state of this moment, whatever is committed meanwhile
//! let moved = engine.run(|tx| {
//!     let have = tx.read(0, 0)?;
//!     if have < 30 {
//!         return Err(Stop::Abort("not enough"));
//!     }
//!     tx.write(0, 0, have - 30)?;
//!     tx.update(1, 0, |there| there + 30)?;
//!     Ok(())
//! });
//! assert_eq!(moved, Ok(()));
//!
//! struct Print(Vec<(usize, u64)>);
//! impl Records for Print {
//!     type Error = std::convert::Infallible;
//!     fn record(&mut self, record: usize, words: Option<&[u64]>) -> Result<(), Self::Error> {
//!         self.0.extend(words.map(|words| (record, words[0])));
//!         Ok(())
//!     }
//! }
//! let mut print = Print(Vec::new());
//! image.capture(&mut print)?;
//! assert_eq!(print.0, [(0, 100)]); // account 1 was not there yet
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Engine`] holds records of words; a [`Worker`] runs transactions by strict two-phase locking
//!   with a lock for each record, and keeps their writes to itself until they commit.
//! - [`Concurrent`] is the contract of the algorithms, [`algorithms`] has them all; [`Imprint`] is
//!   the one to use unless you compare.
//! - [`Journal`] is told of each commit in order, with the number of the first image that holds it.
//! - `log`, behind the feature of that name, keeps the state in a directory: group commit,
//!   checkpoints, recovery.

#![forbid(unsafe_code)]

pub mod algorithms;
mod contract;
mod engine;
mod epochs;
mod locks;
#[cfg(feature = "log")]
pub mod log;
mod mutant;
mod settings;
mod shape;
mod sync;
mod table;
mod transaction;

pub use algorithms::imprint::Imprint;
pub use contract::{CaptureError, Completeness, Concurrent, Info, Journal, Records, Writes};
pub use engine::{Engine, Image, ImageError, NoWorker, Stop, Worker};
pub use epochs::{Epochs, Section};
pub use locks::{Conflict, Deadlock};
#[doc(hidden)]
pub use mutant::Mutant;
#[cfg(feature = "mutants")]
#[doc(hidden)]
pub use mutant::with_mutant;
pub use settings::Settings;
pub use shape::{CreateError, Shape};
pub use stillframe::OnFull;
pub use table::Table;
pub use transaction::Transaction;
