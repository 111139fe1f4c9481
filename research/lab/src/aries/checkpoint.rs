//! A fuzzy checkpoint: a thread copies the state while the writer goes on. The copy is a log of its
//! own, whose records are pieces, so that checksums and torn tails are those of the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use stillframe_durability::disk::Directory;
use stillframe_durability::{Application, Log, LogHandle, LogOptions, Policy};

use super::error::Error;
use super::manifest::{LOG, Manifest, directory_of};
use super::mutant::{Mutant, Mutation};

/// Words of a piece.
const PIECE_WORDS: usize = if cfg!(test) { 2 } else { 1 << 15 };
/// Bytes of pieces that wait for the disk.
const WAITING_BYTES: usize = 8 << 20;

/// A checkpoint under way.
#[derive(Debug)]
pub(crate) struct Running {
    is_copied: Arc<AtomicBool>,
    /// Takes the number of the last commit once everything is copied.
    end: Option<Sender<u64>>,
    thread: Option<JoinHandle<Result<Manifest, Error>>>,
}

impl Drop for Running {
    /// Waits for the thread, which gives up: it holds the directory.
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // nobody asks any more
        }
    }
}

impl Running {
    pub(crate) fn start(
        directory: &Arc<Directory>,
        application: &Application,
        words: Arc<[AtomicU64]>,
        log: LogHandle,
        next: Manifest,
    ) -> Result<Self, Error> {
        let is_copied = Arc::new(AtomicBool::new(false));
        let (end, last) = channel();
        let copier = Copier {
            directory: Arc::clone(directory),
            application: application.clone(),
            words,
            log,
            is_copied: Arc::clone(&is_copied),
            last,
            mutation: Mutation::current(),
        };
        let builder = thread::Builder::new().name("checkpoint".to_owned());
        let thread = builder.spawn(move || copier.run(next)).map_err(Error::Thread)?;
        Ok(Self { is_copied, end: Some(end), thread: Some(thread) })
    }

    /// Between two transactions, when `last` is the number of the last one: everything that was
    /// copied is in a record with that number or a lower one. `wait` says that the number will not
    /// change until the checkpoint has ended.
    pub(crate) fn copied_at(&mut self, last: u64, wait: bool) {
        // Acquire: what was copied was written before this moment.
        if (wait || self.is_copied.load(Ordering::Acquire))
            && let Some(end) = self.end.take()
        {
            let _ = end.send(last); // it may have failed before
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Its outcome, when it has ended.
    pub(crate) fn end(mut self) -> Option<Result<Manifest, Error>> {
        let joined = self.thread.take()?.join();
        Some(joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

struct Copier {
    directory: Arc<Directory>,
    application: Application,
    words: Arc<[AtomicU64]>,
    log: LogHandle,
    is_copied: Arc<AtomicBool>,
    last: Receiver<u64>,
    mutation: Mutation,
}

impl Copier {
    /// Copies the state, waits until the copy counts, and makes it count.
    fn run(self, mut next: Manifest) -> Result<Manifest, Error> {
        let Self { directory, application, words, log, is_copied, last, mutation } = self;
        let number = next.image.map_or(1, |(number, _)| number);
        let name = directory_of(number);
        if directory.holds(&name)? {
            directory.remove_all_below(&name)?; // an earlier attempt has left it
        }
        directory.create_below(&name)?;
        let options = LogOptions::policy(Policy::No).waiting_bytes_max(WAITING_BYTES);
        let copy = Log::create(directory.below(&name)?, 1, &application, options)?;
        let (mut piece, mut pieces) = (Vec::new(), 0);
        for part in words.chunks(PIECE_WORDS) {
            piece.clear();
            for word in part {
                piece.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
            }
            pieces = copy.append(&piece)?;
        }
        is_copied.store(true, Ordering::Release);
        if !mutation.is(Mutant::CopyNotSynced) {
            copy.close()?;
        }
        let Ok(last) = last.recv() else { return Ok(next) }; // the state is gone, nobody looks
        if !mutation.is(Mutant::CountsBeforeTheLog) {
            log.wait_durable(last)?;
        }
        if !mutation.is(Mutant::NameNotSynced) {
            directory.sync()?;
        }
        next.image = Some((number, pieces));
        if mutation.is(Mutant::RedoFromTheEnd) {
            next.position = last + 1;
        }
        if mutation.is(Mutant::OldCopyRemovedFirst) {
            next.clean(&directory)?;
        }
        if mutation.is(Mutant::RecordsRemovedFirst) {
            Log::remove_below(directory.below(LOG)?, next.position)?;
        }
        next.publish(&directory)?;
        next.clean(&directory)?;
        Log::remove_below(directory.below(LOG)?, next.position)?;
        Ok(next)
    }
}

/// Reads the copy that counts, and says how many words it has.
pub(crate) fn read(
    directory: &Directory,
    manifest: &Manifest,
    application: &Application,
    words: &[AtomicU64],
) -> Result<usize, Error> {
    let Some((number, due)) = manifest.image else { return Ok(0) };
    let name = directory_of(number);
    let (mut pieces, mut at) = (0, 0);
    Log::read(directory.below(&name)?, 1, false, None, application, |action| {
        let (values, rest) = action.bytes.as_chunks::<8>();
        let into = words.get(at..at + values.len()).filter(|_| rest.is_empty());
        let into = into.ok_or("a piece is longer than the state")?;
        for (word, value) in into.iter().zip(values) {
            word.store(u64::from_le_bytes(*value), Ordering::Relaxed);
        }
        (pieces, at) = (pieces + 1, at + values.len());
        Ok(())
    })?;
    if pieces == due && at == words.len() {
        return Ok(at);
    }
    let what = format!("it ends after {pieces} of {due} pieces");
    Err(Error::Damaged { path: directory.at(&name), what })
}
