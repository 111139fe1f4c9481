//! A data directory as it was: an image and the log behind it, up to a record or a time, saved as
//! the dump file of another directory.
//!
//! - The source is only read, and no lock is taken: a server may run there. What it removes
//!   meanwhile has been replaced, so one looks again.
//! - The oldest image is the oldest state there is: an earlier one is refused, not approximated.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stillframe::algorithms::imprint::Imprint;
use stillframe_durability::disk::{self, Place};
use stillframe_durability::{Action, Application, ApplyError, Error, Log, Replayed, Until};
use stillframe_keyspace::{CreateError, Keyspace};

use crate::acl::{Catalog, Users};
use crate::journal::{Applier, Generations, Position, position};
use crate::persistence::{self, DataDirectory, Loaded, Saves};
use crate::poll::Poller;
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
    let absolute = std::path::absolute(&config.dir);
    let to = absolute.map_err(|error| ServeError::Directory { path: config.dir.clone(), error })?;
    restore_at(from.into(), until, &config, &to.into())
}

/// As [`restore`], wherever the two directories are.
pub(crate) fn restore_at(
    from: Place,
    until: Option<Until>,
    config: &Config,
    to: &Place,
) -> Result<Restored, ServeError> {
    let path = from.path().to_owned();
    let files = disk::Directory::existing(from);
    let files = Arc::new(files.map_err(|error| refused(error.to_string()))?);
    for again in (0..TRIES).rev() {
        let images = Image::all(&files, config)?;
        if images.is_empty() {
            let dump = path.join(&config.dbfilename);
            return Err(refused(format!("{} is not there; name a data directory", dump.display())));
        }
        match newest_sound(&files, &images, until, config, to) {
            // A server runs there.
            Err(_) if again > 0 && Image::all(&files, config)? != images => {}
            outcome => return outcome,
        }
    }
    Err(refused(format!("{} changes all the time; try again", path.display())))
}

/// How often a directory that changes meanwhile is looked at.
const TRIES: u32 = 5;

/// An image in a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Image {
    name: String,
    position: Option<Position>,
}

impl Image {
    /// The earlier ones, oldest first, and the dump file.
    fn all(files: &disk::Directory, config: &Config) -> Result<Vec<Self>, ServeError> {
        let earlier = position::list(files).map_err(|error| refused(error.to_string()))?;
        let image = |position| Self { name: position::name(position), position: Some(position) };
        let mut images: Vec<Self> = earlier.into_iter().map(image).collect();
        let name = config.dbfilename.clone();
        if files.holds(&name).map_err(|error| refused(error.to_string()))? {
            // What is wrong with its head is told when it is loaded.
            let position = position::of_file(files, &name).unwrap_or(None);
            images.push(Self { name, position });
        }
        Ok(images)
    }

    fn generation(&self) -> Option<u64> {
        self.position.map(|position| position.generation)
    }

    /// Whether this is no later than `until`, as far as the log can tell.
    fn leads_to(&self, until: Option<Until>) -> bool {
        match (until, self.position) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(Until::Sequence(last)), Some(Position { from, .. })) => {
                from <= last.saturating_add(1)
            }
            (Some(Until::TimeMs(last)), Some(Position { begun_ms, .. })) => begun_ms <= last,
        }
    }
}

/// Restores from the newest image that leads to `until`, or, if that is damaged, from the one
/// before it that leads there, too.
fn newest_sound(
    files: &Arc<disk::Directory>,
    images: &[Image],
    until: Option<Until>,
    config: &Config,
    to: &Place,
) -> Result<Restored, ServeError> {
    let Some(mut at) = images.iter().rposition(|image| image.leads_to(until)) else {
        return Err(refused(too_early(files, &images[0])));
    };
    let mut notices = Vec::new();
    loop {
        let image = &images[at];
        let before = at.checked_sub(1).filter(|&before| {
            image.generation().is_some() && images[before].generation() == image.generation()
        });
        match (rebuild(files, image, images.get(at + 1), until, config, to), before) {
            (Err(ServeError::Load { path, problem }), Some(before)) => {
                let path = path.display();
                notices.push(format!("an earlier image was taken for {path}: {problem}"));
                at = before;
            }
            (outcome, _) => {
                let mut restored = outcome?;
                restored.notices.splice(0..0, notices);
                return Ok(restored);
            }
        }
    }
}

/// Loads an image, applies the log behind it, and saves that. `next` is the image after it.
fn rebuild(
    files: &Arc<disk::Directory>,
    image: &Image,
    next: Option<&Image>,
    until: Option<Until>,
    config: &Config,
    to: &Place,
) -> Result<Restored, ServeError> {
    let mut keyspace = Keyspace::<Imprint>::create(&config.keyspace_options())?;
    // Nothing has expired: what the log holds may be about such keys.
    let loaded = persistence::load(&mut keyspace, files, &image.name, i64::MIN)?;
    if loaded.position != image.position {
        let path = files.at(&image.name);
        return Err(refused(format!("{} is not the image of its name", path.display())));
    }
    let directory = DataDirectory::at(to.clone(), &config.dbfilename)?;
    let dump = directory.dump().to_owned();
    if directory.has_dump().unwrap_or(true) {
        return Err(ServeError::Occupied { path: dump });
    }
    let poller = Poller::new().map_err(ServeError::Events)?;
    let saves = Saves::new(directory, Loaded::default(), poller.waker());
    let saves = saves.map_err(CreateError::from)?;
    let table = crate::commands::table();
    let users = Users::new(Catalog::new(&table), config).map_err(ServeError::Users)?;
    let mut state = ServerState::new(config.clone(), saves, users, 0);
    let (mut records, mut last, mut notices) = (0, 0, Vec::new());
    if let Some(position) = loaded.position {
        let mut applier = Applier::new();
        let replayed = read(files, position, until, config, |action| {
            Ok(applier.apply(&mut keyspace, &mut state, &table, action.bytes)?)
        })?;
        (records, last) = (replayed.records, replayed.last);
        notices.extend(replayed.torn.map(|torn| format!("the log has a torn tail: {torn}")));
        notices.extend(replayed.lost.map(|lost| format!("the loss was accepted: {lost}")));
        let is_another = |next: &&Image| next.generation() != image.generation();
        if let Some(next) = next.filter(is_another) {
            notices.push(format!(
                "this log goes no further than to the image {}; what was not logged before that \
                 is not in it",
                next.name
            ));
        }
    }
    let keys = keyspace.stats().keys as u64;
    let saved = persistence::save_and_wait(&mut keyspace, &mut state);
    saved.map_err(|error| ServeError::Save { path: dump.clone(), problem: error.to_string() })?;
    Ok(Restored { keys, records, last, dump, notices })
}

/// Hands the log behind an image on, up to `until`.
fn read(
    files: &Arc<disk::Directory>,
    position: Position,
    until: Option<Until>,
    config: &Config,
    apply: impl FnMut(&Action<'_>) -> Result<(), ApplyError>,
) -> Result<Replayed, ServeError> {
    let failed = |error: Error| match error {
        Error::Log { .. } => ServeError::DamagedLog { problem: error.to_string() },
        _ => refused(error.to_string()),
    };
    let generations = Generations::below(files, &config.appenddirname);
    let place = generations.place(position.generation).map_err(failed)?;
    let (from, accept_loss, own) = (position.from, config.accept_log_loss, Application::server());
    Log::read(place, from, accept_loss, until, &own, apply).map_err(failed)
}

fn refused(problem: String) -> ServeError {
    ServeError::Log { problem }
}

/// Why nothing leads to a point in the past, of which `oldest` is after.
fn too_early(files: &disk::Directory, oldest: &Image) -> String {
    let path = files.at(&oldest.name);
    let path = path.display();
    match oldest.position {
        None => format!(
            "{path} was made without a log, so that it is the only state there is; leave --until \
             out"
        ),
        Some(Position { from, begun_ms, .. }) => format!(
            "{path}, the oldest image, holds all records up to {} and all changes up to unix ms \
             {begun_ms}; an earlier state needs an earlier dump file (log-keep-age)",
            from - 1
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_leads_to_what_is_not_before_it() {
        let position = Some(Position { generation: 1, from: 11, begun_ms: 5_000 });
        let leads = |position, until| Image { name: String::new(), position }.leads_to(until);
        let to = |until| leads(position, Some(until));
        assert!(!to(Until::Sequence(9)) && !to(Until::TimeMs(4_999)));
        assert!(to(Until::Sequence(10)) && to(Until::TimeMs(5_000)));
        assert!(!leads(None, Some(Until::Sequence(1))));
        assert!(leads(None, None) && leads(position, None));
    }
}
