//! The sink of every run, and its buffers, which go from one image to the next.
//!
//! The sink may run in a forked child: everything that it needs is made before begin, its `push`
//! neither allocates nor locks, and the digests lie in shared memory.

use std::fs::File;
use std::mem;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use stillframe::{
    BLOCK_WORDS, Before, CaptureError, CaptureReport, Completeness, Info, Publication, Sink,
    SinkError,
};

use crate::case::{Case, SinkKind, Verify};
use crate::machine::cores::Cores;
use crate::trial::digest::{Digests, digest};

/// Bytes written, and read of the image before, at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Blocks between two looks at the clock.
const PACE_BLOCKS: u64 = 16;

/// Gives out sinks and takes back what they worked with. One image at a time.
#[derive(Debug)]
pub(crate) struct Depot {
    words: usize,
    verify: Verify,
    corrupt: bool,
    rate: Option<u64>,
    hold: Duration,
    cores: Cores,
    digests: Digests,
    files: Option<Files>,
    images: usize,
    returned: Arc<Mutex<Returned>>,
}

#[derive(Debug, Default)]
struct Returned {
    parts: Parts,
    outcome: Option<Ended>,
}

/// The outcome of an image.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Why it was not captured whole.
    pub(crate) result: Result<(), CaptureError>,
    /// When the image was durable.
    pub(crate) done: Instant,
}

/// Buffers that go from one sink to the next.
#[derive(Debug, Default)]
struct Parts {
    /// Bytes for the file being written.
    out: Vec<u8>,
    /// Bytes from the file of the image before.
    window: Vec<u8>,
    /// The image before, where no file holds it and the algorithm asks for it.
    before: Vec<u64>,
}

/// Two files that take turns, gone when the run ends.
#[derive(Debug)]
struct Files {
    paths: [PathBuf; 2],
    files: [File; 2],
}

impl Files {
    fn create(directory: &Path) -> Result<Self> {
        let name = |number| format!("stillframe-lab-{}-{number}.image", std::process::id());
        let paths = [directory.join(name(0)), directory.join(name(1))];
        let open = |path: &PathBuf| {
            let open = File::options().read(true).write(true).create_new(true).open(path);
            open.with_context(|| format!("creating {} failed", path.display()))
        };
        let files = [open(&paths[0])?, open(&paths[1])?];
        Ok(Self { paths, files })
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for path in &self.paths {
            let _ = std::fs::remove_file(path); // it may be gone already
        }
    }
}

/// Where files in memory lie.
pub(crate) const TMPFS: &str = "/dev/shm";

impl Depot {
    /// Makes and touches all memory that images will need.
    pub(crate) fn new(case: &Case, info: Option<Info>, cores: Cores) -> Result<Self> {
        let files = match &case.sink {
            SinkKind::Discard => None,
            SinkKind::File(directory) => Some(Files::create(directory)?),
            SinkKind::Tmpfs => Some(Files::create(Path::new(TMPFS))?),
        };
        let mut parts = Parts::default();
        if files.is_some() {
            parts.out = vec![1; BUFFER_BYTES];
            parts.window = vec![1; BUFFER_BYTES];
        } else if info.is_some_and(|info| info.image == Completeness::Incremental) {
            parts.before = vec![1; case.words()]; // touched now: memory of the run
            parts.before.fill(0);
        }
        Ok(Self {
            words: case.words(),
            verify: case.verify,
            corrupt: case.corrupt,
            rate: case.disk_rate,
            hold: Duration::from_millis(case.hold_ms),
            cores,
            digests: Digests::new(case.blocks())?,
            files,
            images: 0,
            returned: Arc::new(Mutex::new(Returned { parts, outcome: None })),
        })
    }

    /// A sink for the next image; `paced` if it is held to the disk rate.
    pub(crate) fn sink(&mut self, paced: bool) -> Result<LabSink> {
        self.digests.clear();
        let turn = self.images % 2;
        self.images += 1;
        let mut parts = mem::take(&mut lock(&self.returned).parts);
        parts.out.clear();
        let store = match &self.files {
            None if parts.before.is_empty() => Store::Nothing,
            None => Store::Memory,
            Some(Files { files, .. }) => {
                let (current, before) = (files[turn].try_clone()?, files[1 - turn].try_clone()?);
                Store::File { current, written: 0, before, window: usize::MAX }
            }
        };
        Ok(LabSink {
            words: self.words,
            verify: self.verify,
            corrupt: self.corrupt,
            cores: self.cores,
            digests: self.digests.clone(),
            pace: Pace {
                rate: self.rate.filter(|_| paced),
                until: paced.then(|| Instant::now() + self.hold),
                started: None,
                blocks: 0,
            },
            store,
            parts,
        })
    }

    /// What runs after the capture, on the snapshotter's thread.
    pub(crate) fn publisher(&self) -> impl Publish {
        let returned = Arc::clone(&self.returned);
        move |sink: &mut LabSink, report: Result<CaptureReport, CaptureError>| {
            let publication = Publication::from_result(&report);
            let result = report.map(drop);
            let mut returned = lock(&returned);
            returned.parts = mem::take(&mut sink.parts);
            returned.outcome = Some(Ended { result, done: Instant::now() });
            publication
        }
    }

    /// What came of the image that has just ended, and its digests.
    pub(crate) fn collect(&self) -> Option<(Ended, Vec<u64>)> {
        let outcome = lock(&self.returned).outcome.take()?;
        Some((outcome, self.digests.to_vec()))
    }
}

fn lock(returned: &Mutex<Returned>) -> std::sync::MutexGuard<'_, Returned> {
    // What a panicking holder left is whole: each change is one assignment.
    returned.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// What an engine runs after a capture.
pub(crate) trait Publish:
    FnOnce(&mut LabSink, Result<CaptureReport, CaptureError>) -> Publication + Send + 'static
{
}

impl<F> Publish for F where
    F: FnOnce(&mut LabSink, Result<CaptureReport, CaptureError>) -> Publication + Send + 'static
{
}

/// Looks at every block, and stores it if there is a place.
#[derive(Debug)]
pub(crate) struct LabSink {
    words: usize,
    verify: Verify,
    corrupt: bool,
    cores: Cores,
    digests: Digests,
    pace: Pace,
    store: Store,
    parts: Parts,
}

#[derive(Debug)]
enum Store {
    Nothing,
    /// In [`Parts::before`], which becomes this image word by word.
    Memory,
    File {
        current: File,
        written: u64,
        before: File,
        /// Where in the file of the image before the window begins.
        window: usize,
    },
}

impl LabSink {
    fn look_at(&self, block: usize, words: &[u64]) {
        if !self.verify.looks_at(block) {
            return;
        }
        let mut found = digest(words);
        if self.corrupt && block == 0 {
            let mut wrong = [0; BLOCK_WORDS];
            wrong[..words.len()].copy_from_slice(words);
            wrong[0] ^= 1;
            found = digest(&wrong[..words.len()]);
        }
        self.digests.set(block, found);
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        if let Store::File { current, written, .. } = &mut self.store {
            current
                .write_all_at(&self.parts.out, *written)
                .map_err(|e| io("writing an image", &e))?;
            *written += self.parts.out.len() as u64;
            self.parts.out.clear();
        }
        Ok(())
    }
}

impl Sink for LabSink {
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        let expected = BLOCK_WORDS.min(self.words.saturating_sub(start));
        if !start.is_multiple_of(BLOCK_WORDS) || words.len() != expected {
            let length = words.len();
            return Err(SinkError::new(format_args!("{length} words at {start} are no block")));
        }
        if start == 0 {
            self.cores.enter_snapshotter();
            self.pace.hold();
        }
        self.look_at(start / BLOCK_WORDS, words);
        match &self.store {
            Store::Nothing => {}
            Store::Memory => self.parts.before[start..start + expected].copy_from_slice(words),
            Store::File { .. } => {
                for word in words {
                    self.parts.out.extend_from_slice(&word.to_le_bytes());
                }
                if self.parts.out.len() + BLOCK_WORDS * 8 > BUFFER_BYTES {
                    self.flush()?;
                }
            }
        }
        self.pace.wait();
        Ok(())
    }

    fn before(&mut self, start: usize, into: &mut [u64]) -> Result<Before, SinkError> {
        match &mut self.store {
            Store::Nothing => {
                return Err(SinkError::new(format_args!("no image before this one was kept")));
            }
            Store::Memory => into.copy_from_slice(&self.parts.before[start..start + into.len()]),
            Store::File { before, window, .. } => {
                let (from, length) = (start * 8, into.len() * 8);
                let bytes = &mut self.parts.window;
                if *window == usize::MAX || from < *window || from + length > *window + bytes.len()
                {
                    let rest = (self.words * 8 - from).min(BUFFER_BYTES);
                    bytes.resize(rest, 0);
                    before
                        .read_exact_at(bytes, from as u64)
                        .map_err(|e| io("reading the image before", &e))?;
                    *window = from;
                }
                let bytes = &bytes[from - *window..][..length];
                for (word, bytes) in into.iter_mut().zip(bytes.as_chunks().0) {
                    *word = u64::from_le_bytes(*bytes);
                }
            }
        }
        Ok(Before::Given)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.flush()?;
        match &self.store {
            Store::File { current, .. } => {
                current.sync_data().map_err(|error| io("flushing an image", &error))
            }
            _ => Ok(()),
        }
    }
}

fn io(what: &str, error: &std::io::Error) -> SinkError {
    SinkError::from_errno(format_args!("{what} failed"), error.raw_os_error().unwrap_or(0))
}

/// Holds a sink to a rate: it sleeps when it is ahead.
#[derive(Debug)]
struct Pace {
    rate: Option<u64>,
    /// Nothing is read before this time.
    until: Option<Instant>,
    started: Option<Instant>,
    blocks: u64,
}

impl Pace {
    fn hold(&self) {
        let rest = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        rest.filter(|rest| !rest.is_zero()).into_iter().for_each(thread::sleep);
    }
    fn wait(&mut self) {
        let Some(rate) = self.rate else { return };
        let started = *self.started.get_or_insert_with(Instant::now);
        self.blocks += 1;
        if self.blocks.is_multiple_of(PACE_BLOCKS) {
            let bytes = self.blocks * BLOCK_WORDS as u64 * 8;
            let due = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
            let ahead = due.saturating_sub(started.elapsed());
            if ahead > Duration::from_micros(500) {
                thread::sleep(ahead);
            }
        }
    }
}
