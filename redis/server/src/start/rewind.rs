//! A data directory as it was: an image and the log behind it, up to a record or a time, saved as
//! the dump file of another directory.
//!
//! - The source is only read, without a lock: a server may run there. Files that it removes
//!   meanwhile are replaced first, so the listing is repeated.
//! - The log is replayed by a server's commands, FUNCTION among them, which `stillframe_storage`
//!   does not know: so this room lies here.
//! - The oldest image is the oldest state: an earlier point is refused, not approximated.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stillframe_durability::disk::{self, Location};
use stillframe_durability::{Action, Application, ApplyError, Error, Log, Replayed, Until};
use stillframe_storage::StorageError;
use stillframe_storage::dump::{self, DataDirectory};
use stillframe_storage::journal::{Generations, Position, position};
use stillframe_storage::replay::Records;

use crate::commands::replay_units;
use crate::consensus::MEMBER_FILE;
use crate::start::boot::Boot;
use crate::{Config, ServeError};

/// The result of a rewind.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rewound {
    /// Keys, including those that have expired by now.
    pub keys: u64,
    /// Records of the log that were applied.
    pub records: u64,
    /// The last record that is in the state; 0 if there is none.
    pub last: u64,
    /// The dump file that was written.
    pub dump: PathBuf,
    /// Losses, if any, a sentence each.
    pub notices: Vec<String>,
}

/// Why a data directory cannot be rewound.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RewindError {
    /// The settings cannot be met.
    #[error(transparent)]
    Server(#[from] ServeError),
    /// The image or the log cannot be used, or the result cannot be saved.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The data directory cannot be read.
    #[error(transparent)]
    Source(#[from] Error),
    /// There is no image to begin with.
    #[error("{} is not there; name a data directory", path.display())]
    NoImage {
        /// The dump file.
        path: PathBuf,
    },
    /// A server replaces its images faster than they are read.
    #[error("{} changes all the time; try again", path.display())]
    Changing {
        /// The data directory.
        path: PathBuf,
    },
    /// The name of an image names another position in the log than its content.
    #[error("{} is not the image of its name", path.display())]
    Misnamed {
        /// The image.
        path: PathBuf,
    },
    /// The one image there is has no log.
    #[error(
        "{} was made without a log, so that it is the only state there is; leave --until out",
        path.display()
    )]
    NoLog {
        /// The image.
        path: PathBuf,
    },
    /// An entry of a member's log cannot be applied.
    #[error("{}: the log of the group cannot be applied: {what}", path.display())]
    Batch {
        /// The directory of the member.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// All images are later.
    #[error(
        "{}, the oldest image, holds all records up to {last} and all changes up to unix ms \
         {begun_ms}; an earlier state needs an earlier dump file (log-keep-age)",
        path.display()
    )]
    TooEarly {
        /// The oldest image.
        path: PathBuf,
        /// The last record in it.
        last: u64,
        /// When it began, in milliseconds since 1970.
        begun_ms: u64,
    },
}

/// What a rewind leaves out of the directory of a member.
const ONLY_ITS_IMAGE: &str = "this is the directory of a member of a group: what its log has behind its image is not in the \
     result ('stillframe group export')";

/// Saves what the data directory `from` held at `until`, or all that it holds, in the data
/// directory of `config`, which must not have a dump file. The names of files in `from` and whether
/// a damaged log is read up to the damage are settings of `config`, too.
///
/// # Errors
/// [`RewindError`] in one sentence.
pub fn rewind(from: &Path, until: Option<Until>, config: Config) -> Result<Rewound, RewindError> {
    let absolute = std::path::absolute(&config.dir);
    let to =
        absolute.map_err(|error| StorageError::Directory { path: config.dir.clone(), error })?;
    rewind_at(from.into(), until, &config, &to.into())
}

/// As [`rewind`], wherever the two directories are.
pub(crate) fn rewind_at(
    from: Location,
    until: Option<Until>,
    config: &Config,
    to: &Location,
) -> Result<Rewound, RewindError> {
    let path = from.path().to_owned();
    let files = Arc::new(disk::Directory::existing(from)?);
    let mut images = ImageFile::all(&files, config)?;
    for _ in 0..TRIES {
        if images.is_empty() {
            return Err(RewindError::NoImage { path: path.join(&config.dbfilename) });
        }
        let mut outcome = newest_sound(&files, &images, until, config, to);
        if let Ok(rewound) = &mut outcome {
            if files.holds(MEMBER_FILE)? {
                rewound.notices.push(ONLY_ITS_IMAGE.to_owned());
            }
            return outcome;
        }
        // A server that runs there may have removed the file.
        let listed = ImageFile::all(&files, config)?;
        if listed == images {
            return outcome;
        }
        images = listed;
    }
    Err(RewindError::Changing { path })
}

/// Saves what the dump of a stopped member of a group holds, with the batches of its log behind it,
/// in the data directory of `config`, which must not have a dump file. Without a dump the batches
/// are all there is.
///
/// # Errors
/// [`RewindError`] in one sentence.
pub fn replay_batches(
    from: &Path,
    batches: &[Vec<u8>],
    config: Config,
) -> Result<Rewound, RewindError> {
    let files = Arc::new(disk::Directory::existing(from)?);
    let directory = DataDirectory::open(&config.dir, &config.dbfilename)?;
    let mut boot = Boot::offline(config)?;
    let name = boot.config.dbfilename.clone();
    if files.holds(&name)? {
        dump::load(&mut boot.keyspace, &files, &name, i64::MIN)?;
    }
    let mut opened = boot.open_empty(directory)?;
    let mut records = Records::default();
    for batch in batches {
        let replayed = replay_units(&mut records, &mut opened.alone(), batch);
        replayed.map_err(|what| RewindError::Batch { path: from.to_owned(), what })?;
    }
    let (keys, dump) = opened.save()?;
    let (last, notices) = (0, Vec::new());
    Ok(Rewound { keys, records: batches.len() as u64, last, dump, notices })
}

/// How often a changing directory is listed again.
const TRIES: u32 = 50;

/// An image in a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ImageFile {
    name: String,
    position: Option<Position>,
}

impl ImageFile {
    /// The earlier ones, oldest first, and the dump file.
    fn all(files: &disk::Directory, config: &Config) -> Result<Vec<Self>, RewindError> {
        let earlier = position::list(files)?;
        let image = |position| Self { name: position::name(position), position: Some(position) };
        let mut images: Vec<Self> = earlier.into_iter().map(image).collect();
        let name = config.dbfilename.clone();
        if files.holds(&name)? {
            // Loading reports problems of its head.
            let position = position::of_file(files, &name).unwrap_or(None);
            images.push(Self { name, position });
        }
        Ok(images)
    }

    fn generation(&self) -> Option<u64> {
        self.position.map(|position| position.generation)
    }

    /// Whether this is no later than `until`, as far as the log shows.
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

/// Rewinds from the newest image that leads to `until`, or, if that is damaged, from the one
/// before it that leads there, too.
fn newest_sound(
    files: &Arc<disk::Directory>,
    images: &[ImageFile],
    until: Option<Until>,
    config: &Config,
    to: &Location,
) -> Result<Rewound, RewindError> {
    let Some(mut at) = images.iter().rposition(|image| image.leads_to(until)) else {
        return Err(too_early(files, &images[0]));
    };
    let mut notices = Vec::new();
    loop {
        let image = &images[at];
        let before = at.checked_sub(1).filter(|&before| {
            image.generation().is_some() && images[before].generation() == image.generation()
        });
        match (rebuild(files, image, images.get(at + 1), until, config, to), before) {
            (Err(RewindError::Storage(StorageError::Load { path, problem })), Some(before)) => {
                let path = path.display();
                notices.push(format!("an earlier image was taken for {path}: {problem}"));
                at = before;
            }
            (outcome, _) => {
                let mut rewound = outcome?;
                rewound.notices.splice(0..0, notices);
                return Ok(rewound);
            }
        }
    }
}

/// Loads an image, applies the log behind it, and saves that. `next` is the image after it.
fn rebuild(
    files: &Arc<disk::Directory>,
    image: &ImageFile,
    next: Option<&ImageFile>,
    until: Option<Until>,
    config: &Config,
    to: &Location,
) -> Result<Rewound, RewindError> {
    let mut boot = Boot::offline(config.clone())?;
    // Nothing has expired: what the log holds may be about such keys.
    let loaded = dump::load(&mut boot.keyspace, files, &image.name, i64::MIN)?;
    // A server may have replaced the dump file since it was listed; the new one counts.
    let found = &ImageFile { name: image.name.clone(), position: loaded.position };
    if found != image {
        if image.name != config.dbfilename {
            return Err(RewindError::Misnamed { path: files.at(&image.name) });
        }
        if !found.leads_to(until) {
            return Err(RewindError::Changing { path: files.path().to_owned() });
        }
    }
    let image = found;
    let directory = DataDirectory::at(to.clone(), &config.dbfilename)?;
    let mut opened = boot.open_empty(directory)?;
    let (mut records, mut last, mut notices) = (0, 0, Vec::new());
    if let Some(position) = loaded.position {
        let mut replaying = Records::default();
        let replayed = read(files, position, until, config, |action| {
            Ok(replaying.apply(&mut opened.alone(), action.bytes)?)
        })?;
        (records, last) = (replayed.records, replayed.last);
        notices.extend(replayed.torn.map(|torn| format!("the log has a torn tail: {torn}")));
        notices.extend(replayed.lost.map(|lost| format!("the loss was accepted: {lost}")));
        let is_another = |next: &&ImageFile| next.generation() != image.generation();
        if let Some(next) = next.filter(is_another) {
            notices.push(format!(
                "this log goes no further than to the image {}; what was not logged before that \
                 is not in it",
                next.name
            ));
        }
    }
    let (keys, dump) = opened.save()?;
    Ok(Rewound { keys, records, last, dump, notices })
}

/// Passes on the log behind an image, up to `until`.
fn read(
    files: &Arc<disk::Directory>,
    position: Position,
    until: Option<Until>,
    config: &Config,
    apply: impl FnMut(&Action<'_>) -> Result<(), ApplyError>,
) -> Result<Replayed, RewindError> {
    let generations = Generations::below(files, &config.appenddirname);
    let location = generations.location(position.generation).map_err(StorageError::of_log)?;
    let (from, accept_loss, own) = (position.from, config.accept_log_loss, Application::server());
    Ok(Log::read(location, from, accept_loss, until, &own, apply).map_err(StorageError::of_log)?)
}

/// Why no image leads to a point in the past, which is before `oldest`.
fn too_early(files: &disk::Directory, oldest: &ImageFile) -> RewindError {
    let path = files.at(&oldest.name);
    match oldest.position {
        None => RewindError::NoLog { path },
        Some(Position { from, begun_ms, .. }) => {
            RewindError::TooEarly { path, last: from - 1, begun_ms }
        }
    }
}

#[cfg(test)]
mod tests {
    use stillframe_durability::disk::SimulatedDisk;

    use super::*;
    use crate::crash::Server;

    /// The log has nothing to do with it.
    #[test]
    fn a_missing_dump_is_told_as_such() {
        let location = |name| Location::on(name, Arc::new(SimulatedDisk::default()));
        let refused = rewind_at(location("from"), None, &Config::default(), &location("to"));
        let error = refused.expect_err("there is nothing");
        assert!(matches!(error, RewindError::NoImage { .. }), "{error:?}");
        assert_eq!(error.to_string(), "from/dump.rdb is not there; name a data directory");
    }

    /// A server replaces its dump file between the listing and the reading.
    #[test]
    fn a_dump_file_that_was_replaced_counts_as_it_is() {
        let (disk, config) = (SimulatedDisk::default(), Config::default());
        let mut server = Server::start(&disk, true).expect("a sound disk");
        let mut save = |change: &str| {
            server.run(change);
            assert!(server.commit());
            server.save().expect("a sound disk");
        };
        let from = Location::on("from", Arc::new(disk.clone()));
        let files = Arc::new(disk::Directory::existing(from).expect("it is there"));
        save("SET a 1");
        let images = ImageFile::all(&files, &config).expect("it can be listed");
        save("SET b 2");
        let to = || Location::on("to", Arc::new(SimulatedDisk::default()));
        let newest = newest_sound(&files, &images, None, &config, &to());
        assert_eq!(newest.expect("the new one is sound").keys, 2);
        let first = Some(Until::Sequence(1));
        let late = newest_sound(&files, &images, first, &config, &to());
        assert!(matches!(late, Err(RewindError::Changing { .. })), "{late:?}");
        let location = Location::on("from", Arc::new(disk.clone()));
        let again = rewind_at(location, first, &config, &to());
        assert_eq!(again.expect("an earlier image leads there").keys, 1);
    }

    #[test]
    fn an_image_leads_to_what_is_not_before_it() {
        let position = Some(Position { generation: 1, from: 11, begun_ms: 5_000 });
        let leads = |position, until| ImageFile { name: String::new(), position }.leads_to(until);
        let to = |until| leads(position, Some(until));
        assert!(!to(Until::Sequence(9)) && !to(Until::TimeMs(4_999)));
        assert!(to(Until::Sequence(10)) && to(Until::TimeMs(5_000)));
        assert!(!leads(None, Some(Until::Sequence(1))));
        assert!(leads(None, None) && leads(position, None));
    }
}
