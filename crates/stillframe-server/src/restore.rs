//! A data directory as it was: the image of the dump file and the log behind it, up to a record or
//! a time, saved as the dump file of another directory.
//!
//! - The source is only read, and must not be in use.
//! - The dump is the oldest state there is: an earlier one is refused, not approximated.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use stillframe::algorithms::imprint::Imprint;
use stillframe_durability::disk;
use stillframe_durability::{Error, Log, Until};
use stillframe_keyspace::{CreateError, Keyspace};

use crate::acl::{Catalog, Users};
use crate::journal::{Applier, Generations, Position};
use crate::persistence::{self, Directory, Loaded, Saves};
use crate::poll::Poller;
use crate::start::keyspace_options;
use crate::state::ServerState;
use crate::{Config, ServeError};

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// Keys, those included that have expired by now.
    pub keys: u64,
    /// Records of the log that were applied.
    pub records: u64,
    /// The last record that is in the state; 0 if there is none.
    pub last: u64,
    /// The dump file that was written.
    pub dump: PathBuf,
    /// What was left out, if anything: a sentence each.
    pub notices: Vec<String>,
}

/// Saves what the data directory `from` held at `until`, or all that it holds, in the data
/// directory of `config`, which must not have a dump file. The names of files in `from` and whether
/// a damaged log is read up to the damage are settings of `config`, too.
///
/// # Errors
/// [`ServeError`] in one sentence.
pub fn restore(from: &Path, until: Option<Until>, config: Config) -> Result<Restored, ServeError> {
    let source = from.join(&config.dbfilename);
    let files = disk::Directory::existing(from).ok();
    let files = files.filter(|files| files.holds(&config.dbfilename).unwrap_or(false));
    let Some(files) = files.map(Arc::new) else {
        return Err(refused(&format!("{} is not there; name a data directory", source.display())));
    };
    let mut keyspace = Keyspace::<Imprint>::create(&keyspace_options(&config))?;
    // Nothing has expired: what the log holds may be about such keys.
    let never = AtomicBool::new(false);
    let loaded = persistence::load(&mut keyspace, &files, &config.dbfilename, i64::MIN, &never)?;
    if let Some(problem) = too_early(loaded.position, until) {
        return Err(refused(&format!("{} {problem}", source.display())));
    }
    let directory = Directory::open(&config.dir, &config.dbfilename)?;
    let dump = directory.dump().to_owned();
    if directory.has_dump().unwrap_or(true) {
        return Err(ServeError::Occupied { path: dump });
    }
    let poller = Poller::new().map_err(ServeError::Events)?;
    let saves = Saves::new(directory, Loaded::default(), poller.waker());
    let saves = saves.map_err(CreateError::from)?;
    let table = crate::commands::table();
    let users = Users::new(Catalog::new(&table), &config).map_err(ServeError::Users)?;
    let mut state = ServerState::new(config, saves, users, 0);
    let (mut records, mut last, mut notices) = (0, 0, Vec::new());
    if let Some(position) = loaded.position {
        let generations = Generations::below(&files, &state.config.appenddirname);
        let place = generations.place(position.generation);
        let place = place.map_err(|error| ServeError::Log { problem: error.to_string() })?;
        let accept_loss = state.config.accept_log_loss;
        let mut applier = Applier::new();
        let replayed = Log::read(place, position.from, accept_loss, until, |action| {
            Ok(applier.apply(&mut keyspace, &mut state, &table, action.bytes)?)
        });
        let replayed = replayed.map_err(|error| match error {
            Error::Log { .. } => ServeError::DamagedLog { problem: error.to_string() },
            _ => ServeError::Log { problem: error.to_string() },
        })?;
        (records, last) = (replayed.records, replayed.last);
        notices.extend(replayed.torn.map(|torn| format!("the log has a torn tail: {torn}")));
        notices.extend(replayed.lost.map(|lost| format!("the loss was accepted: {lost}")));
    }
    let keys = keyspace.stats().keys as u64;
    let saved = persistence::save_and_wait(&mut keyspace, &mut state);
    saved.map_err(|problem| ServeError::Save { path: dump.clone(), problem })?;
    Ok(Restored { keys, records, last, dump, notices })
}

fn refused(problem: &str) -> ServeError {
    ServeError::Log { problem: problem.to_owned() }
}

/// Why `until` cannot be had from a dump with this position.
fn too_early(position: Option<Position>, until: Option<Until>) -> Option<String> {
    let until = until?;
    let Some(Position { from, begun_ms, .. }) = position else {
        return Some(
            "was made without a log, so that it is the only state there is; leave --until out"
                .to_owned(),
        );
    };
    let (is_early, holds) = match until {
        Until::Sequence(last) => {
            (last.saturating_add(1) < from, format!("all records up to {}", from - 1))
        }
        Until::TimeMs(last) => (last < begun_ms, format!("all changes up to unix ms {begun_ms}")),
    };
    is_early.then(|| format!("holds {holds}; an earlier state needs an earlier dump file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_before_the_dump_is_refused() {
        let position = Some(Position { generation: 1, from: 11, begun_ms: 5_000 });
        let early = |until| too_early(position, Some(until)).is_some();
        assert!(early(Until::Sequence(9)) && early(Until::TimeMs(4_999)));
        assert!(!early(Until::Sequence(10)) && !early(Until::TimeMs(5_000)));
        assert!(too_early(None, Some(Until::Sequence(1))).is_some());
        assert!(too_early(None, None).is_none() && too_early(position, None).is_none());
    }
}
