//! The data of one instant, in a file that can be read again and again.
//!
//! - A dump file is read where it lies, and stays open: a save that replaces it changes nothing.
//! - A directory with a log, an archive, or a server gives a dump in a temporary directory first.
//! - The whole file is checked before a row is shown.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use stillframe_durability::Until;
use stillframe_rdb::{DecodeError, Summary, scan_keys};
use stillframe_server::{Config, DataView, consensus};
use tempfile::TempDir;

use crate::error::QueryError;
use crate::server::{Address, Login};

/// The data of one instant.
pub struct Image {
    name: String,
    content: Content,
    instant: i64,
    /// How far a scan of a file has come.
    at: AtomicU64,
    notices: Vec<String>,
}

/// Where the data are.
enum Content {
    File { file: Arc<File>, bytes: u64, summary: Box<Summary> },
    View(DataView),
}

/// One of the parts that a scan reads at once.
pub(crate) enum Part<'a> {
    File(ReaderAt, u64),
    View(&'a DataView, Range<usize>),
}

/// How a source is opened.
#[derive(Debug, Default)]
pub struct Opening {
    /// The point in the past, for directories and archives.
    pub until: Option<Until>,
    /// How a server is asked.
    pub login: Login,
    /// Temporary files go there.
    pub temporary: Option<PathBuf>,
}

/// Slots of a view that a thread is worth.
const SLOTS_MIN: usize = 8192;

/// The names of a server's files, unless it was told otherwise.
const DUMP: &str = "dump.rdb";
const LOGS: &str = "appendonlydir";

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Image {
    /// Opens a dump file, a data directory, an archive by its URL, or a server by its address, and
    /// checks what is there. It waits: not for threads of an asynchronous runtime.
    ///
    /// # Errors
    /// [`QueryError`]: the source cannot be used; which file, why, and where it is damaged.
    pub fn open(source: &str, opening: &Opening) -> Result<Self, QueryError> {
        let source = source.strip_prefix("redis://").map_or(source, |it| it.trim_end_matches('/'));
        let path = Path::new(source);
        let is_one_instant = || match opening.until {
            Some(_) => Err(QueryError::Until { what: source.to_owned() }),
            None => Ok(()),
        };
        if source.contains("://") {
            return Self::of_archive(source, opening);
        }
        if path.is_dir() {
            return Self::of_directory(path, opening.until, source, opening);
        }
        is_one_instant()?;
        let address = match path.metadata() {
            Ok(facts) if facts.file_type().is_socket() => Address::Unix(path.to_owned()),
            Ok(_) => return Self::of_file(path, source, None),
            Err(_) => Address::parse(source)
                .ok_or_else(|| QueryError::Source { what: source.to_owned() })?,
        };
        let file = tempfile::tempfile_in(opening.temporary())
            .map_err(|source| QueryError::File { path: opening.temporary(), source })?;
        let (file, begun) = crate::server::receive(&address, &opening.login, file)?;
        let mut image = Self::new(file, source, None)?;
        // What the file says is cut to seconds. If the clocks agree, this one knows more.
        if (image.instant..image.instant + 1500).contains(&unix_millis(begun)) {
            image.instant = unix_millis(begun);
        }
        Ok(image)
    }

    fn of_archive(url: &str, opening: &Opening) -> Result<Self, QueryError> {
        let scratch = opening.scratch()?;
        let moment = |why: &dyn std::fmt::Display| QueryError::Moment(format!("{url}: {why}"));
        let fetched = stillframe_archive::fetch(url, opening.until, scratch.path())
            .map_err(|error| moment(&error))?;
        if fetched.store {
            return Err(moment(&"it is the archive of a Store, not of a server"));
        }
        let mut image = Self::of_directory(scratch.path(), fetched.until, url, opening)?;
        image.notices.extend(fetched.notices);
        Ok(image)
    }

    fn of_directory(
        path: &Path,
        until: Option<Until>,
        name: &str,
        opening: &Opening,
    ) -> Result<Self, QueryError> {
        if until.is_none() && is_of_redis(path) {
            return Self::of_redis(path, name, opening);
        }
        let dump = path.join(DUMP);
        let has_log = path.join(LOGS).is_dir() || path.join(consensus::MEMBER_FILE).exists();
        if until.is_none() && !has_log && dump.exists() {
            return Self::of_file(&dump, &dump.display().to_string(), None);
        }
        let instant = match until {
            Some(Until::TimeMs(ms)) => i64::try_from(ms).ok(),
            _ => None,
        };
        Self::of_copy(name, opening, instant, |config| {
            let rewound = stillframe_server::rewind(path, until, config);
            rewound.map(|it| (it.dump, it.notices)).map_err(|error| error.to_string())
        })
    }

    /// A directory of Redis or Valkey with an append-only log.
    fn of_redis(path: &Path, name: &str, opening: &Opening) -> Result<Self, QueryError> {
        Self::of_copy(name, opening, None, |config| {
            let imported = stillframe_server::import(path, config, true);
            imported.map(|it| (it.dump, it.notices)).map_err(|error| error.to_string())
        })
    }

    /// A dump that `make` makes in a directory of its own, with notices.
    fn of_copy(
        name: &str,
        opening: &Opening,
        instant: Option<i64>,
        make: impl FnOnce(Config) -> Result<(PathBuf, Vec<String>), String>,
    ) -> Result<Self, QueryError> {
        let scratch = opening.scratch()?;
        let moment = |why: &dyn std::fmt::Display| QueryError::Moment(format!("{name}: {why}"));
        let mut config = Config::default();
        let out = scratch.path().join("state").display().to_string();
        config.set("dir", &[out]).map_err(|error| moment(&error))?;
        let (dump, notices) = make(config).map_err(|error| moment(&error))?;
        let image = Self::of_file(&dump, name, instant)?;
        Ok(Self { notices, ..image })
    }

    fn of_file(path: &Path, name: &str, instant: Option<i64>) -> Result<Self, QueryError> {
        let file = File::open(path)
            .map_err(|source| QueryError::File { path: path.to_owned(), source })?;
        Self::new(file, name, instant)
    }

    fn new(file: File, name: &str, instant: Option<i64>) -> Result<Self, QueryError> {
        let unread = |source| QueryError::File { path: PathBuf::from(name), source };
        let facts = file.metadata().map_err(unread)?;
        let (file, bytes) = (Arc::new(file), facts.len());
        let (summary, problem) = scan_keys(ReaderAt { file: Arc::clone(&file), at: 0 }, bytes);
        if let Some(source) = problem {
            return Err(QueryError::Damaged { name: name.to_owned(), source });
        }
        let made = summary.aux.iter().find(|(field, _)| field == "ctime");
        let made = made.and_then(|(_, value)| value.parse::<i64>().ok()?.checked_mul(1000));
        let written = || facts.modified().map_or(0, unix_millis);
        let instant = instant.or(made).unwrap_or_else(written);
        let content = Content::File { file, bytes, summary: Box::new(summary) };
        let (name, at) = (name.to_owned(), AtomicU64::new(0));
        Ok(Self { name, content, instant, at, notices: Vec::new() })
    }

    /// The data of a server in this process, as a view shows them.
    pub fn of_view(view: DataView) -> Self {
        let (name, instant, at) = ("the server".to_owned(), view.now(), AtomicU64::new(0));
        Self { name, content: Content::View(view), instant, at, notices: Vec::new() }
    }

    /// The view, if it is one.
    pub(crate) fn view(&self) -> Option<&DataView> {
        if let Content::View(view) = &self.content { Some(view) } else { None }
    }

    /// Whether it is a view that was given up.
    pub fn is_lost(&self) -> bool {
        matches!(&self.content, Content::View(view) if view.check().is_err())
    }

    /// What a person calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is in its file, if it has one.
    pub fn summary(&self) -> Option<&Summary> {
        match &self.content {
            Content::File { summary, .. } => Some(summary),
            Content::View(_) => None,
        }
    }

    /// Bytes of its file; 0 if it has none.
    pub fn bytes(&self) -> u64 {
        match &self.content {
            Content::File { bytes, .. } => *bytes,
            Content::View(_) => 0,
        }
    }

    /// Its instant, in unix milliseconds.
    pub fn instant(&self) -> i64 {
        self.instant
    }

    /// What a person should know of it: one sentence each.
    pub fn notices(&self) -> impl Iterator<Item = String> {
        let databases = self.summary().into_iter().flat_map(|it| &it.databases);
        let skipped = databases.map(|db| {
            let names = stillframe_rdb::VALUE_TYPES.iter();
            let foreign = names.zip(db.keys).filter(|(name, _)| ["module", "array"].contains(name));
            foreign.map(|(_, keys)| keys).sum::<u64>()
        });
        let skipped: u64 = skipped.sum();
        let text = format!("{skipped} values of modules or arrays are in no table");
        self.notices.iter().cloned().chain((skipped > 0).then_some(text))
    }

    /// In how many parts it is read, if so many threads are there.
    pub(crate) fn parts(&self, threads: usize) -> usize {
        match &self.content {
            Content::File { .. } => 1,
            Content::View(view) => threads.min(view.slots().div_ceil(SLOTS_MIN)).max(1),
        }
    }

    /// The part of this number, of so many.
    pub(crate) fn part(&self, number: usize, parts: usize) -> Part<'_> {
        match &self.content {
            Content::File { file, bytes, .. } => {
                self.show(0);
                Part::File(ReaderAt { file: Arc::clone(file), at: 0 }, *bytes)
            }
            Content::View(view) => {
                let share = view.slots().div_ceil(parts);
                let slots = number * share..((number + 1) * share).min(view.slots());
                Part::View(view, slots)
            }
        }
    }

    /// Notes how far a scan has come.
    pub(crate) fn show(&self, offset: u64) {
        self.at.store(offset, Ordering::Relaxed);
    }

    /// How far the newest scan has come, in bytes.
    pub fn progress(&self) -> u64 {
        self.at.load(Ordering::Relaxed)
    }

    pub(crate) fn damaged(&self, source: DecodeError) -> QueryError {
        QueryError::Damaged { name: self.name.clone(), source }
    }
}

/// Whether a directory has a log as Redis writes it.
fn is_of_redis(path: &Path) -> bool {
    let names = |path: &Path| path.read_dir().into_iter().flatten().flatten();
    path.join("appendonly.aof").is_file()
        || names(&path.join(LOGS)).any(|it| it.path().extension() == Some("manifest".as_ref()))
}

impl Opening {
    fn temporary(&self) -> PathBuf {
        self.temporary.clone().unwrap_or_else(std::env::temp_dir)
    }

    fn scratch(&self) -> Result<TempDir, QueryError> {
        let path = self.temporary();
        let builder = tempfile::Builder::new().prefix("stillframe-query-").tempdir_in(&path);
        builder.map_err(|source| QueryError::File { path, source })
    }
}

fn unix_millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A reader of a file that others read, too.
#[derive(Debug)]
pub(crate) struct ReaderAt {
    file: Arc<File>,
    at: u64,
}

impl Read for ReaderAt {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(into, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for ReaderAt {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (base, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::Current(by) => (self.at, by),
            SeekFrom::End(by) => (self.file.metadata()?.len(), by),
        };
        let at = base.checked_add_signed(by).ok_or(io::ErrorKind::InvalidInput)?;
        self.at = at;
        Ok(at)
    }
}
