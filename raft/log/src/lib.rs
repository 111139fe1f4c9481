//! Log and state machine for openraft. What follows is the README.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![allow(clippy::result_large_err, reason = "openraft's errors are as large as they are")]

mod error;
mod images;
mod local;
mod log;
mod machine;
mod manifest;
mod mutant;
mod snapshot;
mod state;
mod words;
mod writer;

#[cfg(test)]
mod tests;

use openraft::RaftTypeConfig;
use stillframe_durability::disk::{Directory, Location};
use stillframe_durability::{Application, LogOptions};

pub use error::Error;
pub use local::{Local, LocalLink};
pub use log::LogStore;
pub use machine::{SnapshotBuilder, StateMachine, is_of_another_history};
#[cfg(feature = "mutants")]
pub use mutant::{Mutant, with_mutant};
pub use snapshot::{Incoming, SnapshotData};
pub use state::{File, Image, ImageSource, Note, State, Told};
pub use words::{Machine, WordState, Words};
pub use writer::{Batched, WriteError, Writer};

/// How a member is kept.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options<S: State> {
    /// The state.
    pub state: S::Options,
    /// The log. Entries are acknowledged when they are on the disk, whatever the policy; the
    /// default, [`Policy::Always`](stillframe_durability::Policy::Always), hurries them there.
    pub log: LogOptions,
    /// Whose log it is; another's is refused. The options of a [`WordState`] name that of the
    /// state.
    pub application: Application,
}

impl<S: State> Options<S> {
    /// A state that is kept so, with a log by the defaults.
    #[must_use]
    pub fn state(state: S::Options) -> Self {
        Self { state, log: LogOptions::default(), application: Application::default() }
    }
    /// With this log.
    #[must_use]
    pub fn log(self, log: LogOptions) -> Self {
        Self { log, ..self }
    }
    /// The log of this application.
    #[must_use]
    pub fn application(self, application: Application) -> Self {
        Self { application, ..self }
    }
}

/// Opens the member of a group that `location` holds, or makes a new one there: its log and its
/// state machine, for `openraft::Raft::new`.
///
/// One process opens a directory at a time. It must not be copied to another node: a vote is in it.
///
/// # Errors
/// [`Error`]; nothing is lost by trying again.
pub fn open<C: RaftTypeConfig, S: State>(
    location: impl Into<Location>,
    options: Options<S>,
) -> Result<(LogStore<C>, StateMachine<C, S>), Error> {
    let root = Directory::create_at(location)?.locked(manifest::LOCK)?;
    let found = manifest::Manifest::read(&root)?;
    if found.is_none() {
        manifest::check_new(&root)?;
        if !root.holds(manifest::LOG)? {
            root.create_below(manifest::LOG)?;
            root.sync()?;
        }
    }
    let Options { state, log, application } = options;
    let log = LogStore::open(root.below(manifest::LOG)?, found.is_none(), &application, log)?;
    let manifest = match found {
        Some(manifest) => manifest,
        None => {
            let manifest = manifest::Manifest { state: 1 };
            manifest.publish(&root)?;
            manifest
        }
    };
    let machine = StateMachine::open(root, manifest, state, log.purged())?;
    Ok((log, machine))
}
