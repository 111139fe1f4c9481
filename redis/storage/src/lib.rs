//! The data of a stillframe keyspace on the disk: dumps, the log, recovery, replay.
//!
//! Reading order: [`Settings`], [`Storage`] (what a server or tool calls, and when), `storage/`
//! (saves, the log, the start), [`dump`] (how an image becomes a file), [`journal`] (how changes
//! are logged), [`replay`] (how requests run again).
//!
//! - No sockets, no clients but by number: a server, an offline tool or a state machine that a
//!   consensus drives opens a directory, applies requests, saves and closes by the same calls.
//! - All files are reached through `stillframe_durability::disk`: tests fail every call and lose
//!   power anywhere.
//! - Nothing that a file holds can make this crate panic.
//!
//! A directory, without a server:
//!
//! ```
//! use stillframe_keyspace::KeyspaceOptions;
//! use stillframe_storage::dump::DataDirectory;
//! use stillframe_storage::{Settings, Standalone};
//!
//! # let folder = tempfile::tempdir()?;
//! let open = || {
//!     let directory = DataDirectory::open(folder.path(), "dump.rdb")?;
//!     Standalone::open(directory, Settings::default(), &KeyspaceOptions::default())
//! };
//! let mut data = open()?;
//! data.run(&[b"SET", b"greeting", b"hello"])?;
//! data.save()?;
//! drop(data);
//! let mut again = open()?;
//! assert_eq!(again.run(&[b"GET", b"greeting"])?, b"$5\r\nhello\r\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod clock;
pub mod dump;
mod error;
pub mod journal;
pub mod replay;
mod settings;
mod standalone;
mod storage;
pub mod wake;

pub use clock::unix_millis;
pub use error::StorageError;
pub use settings::{LogKeep, RdbVersion, SavePoint, Settings};
pub use standalone::{Client, Standalone};
pub use storage::{Host, Parts, Storage, load_dump, recover_log};
