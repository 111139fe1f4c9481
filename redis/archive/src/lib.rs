//! Checkpoints, dumps and closed log segments of a data directory, kept in an object store: S3,
//! Google Cloud Storage, Azure, or a local directory, by URL.
//!
//! Reading order: [`Archiver`] (what a server or an embedder starts), `spool` (what waits on the
//! disk), `plan` (what is uploaded next), `worker` (how), `manifest` (what counts), `restore` (the
//! way back). `docs/run/archive.md` is for operators; the head of `manifest` has the format.
//!
//! - An object counts when a manifest names it, and a manifest is put under a new name, once, after
//!   all that it names.
//! - A thread links what is to be uploaded into a folder of the data directory, so that the server
//!   may delete its own name of it at any time; another uploads. Neither is ever waited for.
//! - Only the holder of the newest claim puts manifests. Claims are put under new names, too.
//! - tokio runs inside this crate alone, on the uploading thread.

#![forbid(unsafe_code)]

mod archiver;
mod claim;
mod error;
mod manifest;
mod mutant;
mod owner;
mod pace;
mod plan;
mod remote;
mod restore;
mod retain;
mod sealed;
mod settings;
mod shared;
mod spool;
mod upload;
mod walk;
mod worker;

#[cfg(test)]
mod tests;

pub use archiver::Archiver;
pub use error::ArchiveError;
pub use manifest::{Image, Manifest, Object, Segment, Set};
pub use restore::{Contents, Fetched, contents, fetch, fetch_set};
pub use settings::{Settings, Source};
pub use shared::{State, Status};
