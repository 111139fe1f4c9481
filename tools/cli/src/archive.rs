//! Archives in object stores: the one that a server keeps, and what tools read at a URL.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use stillframe_archive::{Archiver, Contents, Segment, Settings, Source};
use stillframe_durability::Error;
use stillframe_durability::disk::Directory;
use stillframe_server::{Archive, ArchiveFigures, ArchiveWish};

use crate::files::{self, Finding};
use crate::moment::ago;

/// The archive of a server.
struct OfServer(Archiver);

/// Opens the archive that a server's settings name.
pub(crate) fn open(wish: &ArchiveWish) -> Result<Box<dyn Archive>, String> {
    let (directory, dump) = (wish.directory.clone(), wish.dbfilename.clone());
    let source = Source::server(directory, dump, wish.appenddirname.clone());
    let archiver = Archiver::start(source, settings(wish)).map_err(|error| error.to_string())?;
    Ok(Box::new(OfServer(archiver)))
}

fn settings(wish: &ArchiveWish) -> Settings {
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    Settings {
        bandwidth_bytes: wish.bandwidth_bytes,
        keep: Duration::from_secs(wish.keep_age_seconds),
        keep_images: wish.keep_images as usize,
        pending_bytes: wish.pending_bytes,
        interval: seconds(wish.interval_seconds),
        image_period: seconds(wish.image_period_seconds),
        take_over: wish.take_over,
        ..Settings::from_url(&wish.url)
    }
}

impl Archive for OfServer {
    fn obey(&self, wish: &ArchiveWish) {
        self.0.obey(&settings(wish));
    }

    fn figures(&self) -> ArchiveFigures {
        let it = self.0.status();
        ArchiveFigures {
            state: it.state.word(),
            behind_seconds: it.behind.as_secs(),
            pending_bytes: it.pending_bytes,
            uploaded_bytes: it.uploaded_bytes,
            manifest_ms: it.manifest_ms,
            last_record: it.last_record,
            sets: it.sets,
            errors: it.errors,
            last_error: it.last_error,
        }
    }
}

/// The URL that a path is, if it is one.
pub(crate) fn url(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| text.contains("://"))
}

fn read_contents(url: &str) -> Result<Contents, String> {
    stillframe_archive::contents(url).map_err(|error| error.to_string())
}

/// What the newest manifest says.
pub(crate) fn inspect(url: &str, json: bool) -> Result<String, String> {
    let Contents { url, manifest, .. } = read_contents(url)?;
    if json {
        let line = serde_json::to_string(&manifest).map_err(|error| error.to_string())?;
        return Ok(line + "\n");
    }
    let mut text = format!(
        "{url}: an archive\n  claim      {}, manifest {}, put {}\n  run        {}\n  bytes      {}\n",
        manifest.claim,
        manifest.number,
        ago(manifest.written_ms),
        manifest.run,
        manifest.bytes()
    );
    for (number, set) in manifest.sets.iter().enumerate() {
        let of = if set.store { "a Store" } else { "a server" };
        let (begun, why) = (ago(set.begun_ms), &set.why);
        let _ = writeln!(text, "  set {number:<6} of {of}, begun {begun}: {why}");
        for image in &set.images {
            let (begun, bytes) = (ago(image.begun_ms), image.object.bytes);
            let log = match (image.generation, image.from) {
                (_, 0) => "without a log".to_owned(),
                (0, from) => format!("its log begins with record {from}"),
                (generation, from) => format!("log {generation} from record {from}"),
            };
            let _ = writeln!(text, "    image    begun {begun}, {log}, {bytes} bytes");
        }
        let logs: BTreeSet<u64> = set.segments.iter().map(|it| it.generation).collect();
        for log in logs {
            let of_log = set.segments.iter().filter(|it| it.generation == log);
            let first = of_log.clone().map(|it| it.first).min().unwrap_or(0);
            let last = of_log.clone().map(|it| it.end).max().unwrap_or(0);
            let bytes: u64 = of_log.map(Segment::bytes).sum();
            let _ = writeln!(text, "    log {log:<4} records {first} to {last}, {bytes} bytes");
        }
    }
    Ok(text)
}

/// The findings of all objects of an archive, as if they were files.
pub(crate) fn find(url: &str) -> Result<Vec<Finding>, String> {
    let contents = read_contents(url)?;
    let scratch = Scratch::temporary();
    let mut findings = Vec::new();
    for number in 0..contents.manifest.sets.len() {
        let found = stillframe_archive::fetch_set(&contents, number, &scratch.0)
            .map_err(|error| error.to_string())
            .and_then(|files| if files == 0 { Ok(Vec::new()) } else { files::find(&scratch.0) });
        let removed = scratch.remove();
        for mut finding in found? {
            let name = finding.path.strip_prefix(&scratch.0).unwrap_or(&finding.path);
            finding.path = format!("{}#set-{number}/{}", contents.url, name.display()).into();
            findings.push(finding);
        }
        removed.map_err(|error| error.to_string())?;
    }
    Ok(findings)
}

/// A directory for files on their way, which goes when it is dropped.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// One in the directory for temporary files.
    pub(crate) fn temporary() -> Self {
        let name = format!("stillframe-check-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    /// One beside a directory, in which an earlier try may have left files.
    pub(crate) fn beside(path: &Path) -> Self {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".archived");
        Self(path.with_file_name(name))
    }

    /// Removes it with what is in it.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        let (Some(above), Some(name)) = (self.0.parent(), self.0.file_name()) else {
            return Ok(());
        };
        let above =
            Directory::existing(if above.as_os_str().is_empty() { Path::new(".") } else { above })?;
        empty(&above, &name.to_string_lossy())
    }
}

/// Removes a directory with those in it.
fn empty(above: &Directory, name: &str) -> Result<(), Error> {
    let inside = Directory::existing(above.below(name)?)?;
    for inner in inside.names()? {
        // A file cannot be opened as a directory.
        if inside.below(&inner).is_ok() {
            empty(&inside, &inner)?;
        } else {
            inside.remove(&inner)?;
        }
    }
    above.remove_below(name)
}
