//! Transactions that survive their process: a log with group commit, checkpoints, recovery.
//!
//! ```
//! use stillframe_transactions::{Imprint, Settings, Stop};
//! use stillframe_transactions::log::{Durable, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let data = tempfile::tempdir()?;
//! # let data = data.path();
//! let settings = Settings::new(2, 1); // two accounts of one word
//! let (bank, _) = Durable::<Imprint>::open(data, settings, Options::default())?;
//! let mut clerk = bank.worker()?;
//! clerk.run(|tx| Ok::<_, Stop<()>>(tx.write(0, 0, 100)?)).expect("it is durable");
//! bank.checkpoint()?; // an image, while transactions go on; the log before it goes
//! clerk.run(|tx| Ok::<_, Stop<()>>(tx.update(0, 0, |have| have - 30)?)).expect("it is durable");
//! drop(clerk);
//! drop(bank); // or kill -9
//!
//! let (bank, recovery) = Durable::<Imprint>::open(data, settings, Options::default())?;
//! assert_eq!((recovery.records, recovery.commits), (1, 1));
//! let left = bank.worker()?.run(|tx| Ok::<_, Stop<()>>(tx.read(0, 0)?));
//! assert_eq!(left.expect("the log is sound"), 70);
//! # Ok(())
//! # }
//! ```
//!
//! What holds, and why:
//! - **A commit is a record of the log**: the new values of all it wrote, and the number of the
//!   first image that holds it. It is appended while the transaction holds all its locks, so
//!   records of transactions that met stand in their order, and a prefix of the log is a prefix of
//!   the serial order. A record is there wholly or not at all.
//! - **Group commit**: one sync for all records that wait. [`Worker::run`] returns when the record
//!   is durable, and so does a transaction that only read: it may have read what a crash would
//!   undo.
//! - **A checkpoint** notes the end of the log, begins an image, writes it, and is published when
//!   the log up to that note is durable. Commits that the image lacks stand behind the note, with a
//!   higher number; those behind it that the image holds have its number or a lower one, and are
//!   skipped. So recovery is the image and the records behind the note with a higher number.
//! - **A log that failed** stays failed: no transaction runs until a
//!   [checkpoint](Durable::checkpoint) has written the whole state anew and begun another log.
//!   Nothing that was not synced is taken for synced. Commits that were refused may be there
//!   afterwards, each wholly or not at all.

mod appliers;
mod commits;
mod durable;
mod error;
mod image;
mod manifest;
mod mutant;
mod record;
#[cfg(test)]
mod tests;

pub use commits::Commits;
pub use durable::{Checkpoint, Durable, Options, Recovery, Ticket, Worker};
pub use error::{Error, Refused};
