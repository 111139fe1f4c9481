//! Files that are written once, front to back.
//!
//! - A file that once failed a write or a sync refuses every later call. After a failed sync the
//!   page cache may show bytes that are on no disk, and a second sync would succeed all the same.
//! - A sync is never tried again, also not an interrupted one.
//! - Writing neither locks nor logs, and allocates nothing unless it may use a thread: without one
//!   it may run in a forked child.
//! - Gathered bytes, and those that the thread has, are in the file after [`Output::flush`]. The
//!   thread's stages, which are reused, bound what it has.
//! - Writes bypass the page cache where the disk can do that: an image of gigabytes would evict
//!   everything else, and making its pages takes the kernel about a second per gigabyte, during
//!   which many kernels let no other thread have the core.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use stillframe::Shared;

use super::calls::patiently;
use super::pace::{Pace, Throttle};
use super::{DiskFile, NoRoom, Stage, make_room};
use crate::mutant::{Mutant, Mutation};

/// Bytes written before they are hurried to the disk: large enough for a disk to be fast, small
/// enough that neither a sync at the end nor the page cache notices.
const BEHIND_BYTES: u64 = 8 << 20;

/// Bytes gathered for one write past the page cache.
const STAGE_BYTES: usize = 512 << 10;
/// Stages that go round between the thread that fills them and the one that writes.
const STAGES: usize = 4;

/// A file that is written once, front to back, and then perhaps
/// [published](super::Directory::publish).
#[derive(Debug)]
pub struct Output {
    /// `None` while the thread has it.
    file: Option<Sequence>,
    /// Where bytes are gathered, if they are; `None`, too, after the thread has failed.
    stage: Option<Stage>,
    may_use_thread: bool,
    thread: Option<Behind>,
    mutation: Mutation,
}

impl Output {
    pub(super) fn new(file: Box<dyn DiskFile>, mutation: Mutation) -> Self {
        let pace = Pace::default();
        let file =
            Sequence { file, end: 0, behind: 0, direct: false, failed: false, pace, written: None };
        Self { file: Some(file), stage: None, may_use_thread: false, thread: None, mutation }
    }

    /// From now on writes no faster than the throttle allows, and fails once it is cancelled.
    pub fn set_throttle(&mut self, throttle: Option<Throttle>) {
        if let Some(file) = &mut self.file {
            file.pace = Pace::new(throttle);
        }
    }

    /// Writes past the page cache, if the disk can do that, and then perhaps by a thread, so that
    /// the thread that makes the bytes need not wait for the disk.
    pub(crate) fn pass_cache(&mut self, may_use_thread: bool) {
        if let Some(file) = &mut self.file
            && file.file.set_direct(true)
        {
            file.direct = true;
            self.stage = Some(Stage::new(STAGE_BYTES));
            self.may_use_thread = may_use_thread;
        }
    }

    /// Gathers bytes in `stage`, and writes them past the page cache if the disk can do that.
    pub fn gather_in(&mut self, stage: Stage) {
        if let Some(file) = &mut self.file {
            file.direct = file.file.set_direct(true);
        }
        self.stage = Some(stage);
    }

    /// Takes the stage away, empty, for the next file. Nothing more can be written through this
    /// one.
    pub fn take_stage(&mut self) -> Option<Stage> {
        self.file.iter_mut().for_each(|file| file.failed = true);
        let mut stage = self.stage.take()?;
        stage.clear();
        Some(stage)
    }

    /// Keeps in `written` how many bytes are written, from now on: before the writer sleeps for
    /// its throttle, and also if a forked child writes.
    pub fn report_written(&mut self, written: Shared<AtomicU64>) {
        if let Some(file) = &mut self.file {
            file.written = Some(written);
        }
    }

    /// Asks for the room that the file will take, so that a full disk is found early.
    pub(crate) fn make_room(&mut self, bytes: u64) -> Result<(), NoRoom> {
        let Some(file) = &mut self.file else { return Ok(()) }; // its thread already writes
        let made = make_room(&*file.file, bytes);
        file.failed |= made.is_err();
        made
    }

    /// For tests: whether this mistake is to be made.
    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.mutation.is(mutant)
    }

    /// Returns when all bytes that were flushed have reached the disk.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        let is_trusted = self.is(Mutant::FailedFileIsTrusted);
        let file = self.file()?;
        if is_trusted {
            return file.file.sync().or_else(|_| file.file.sync());
        }
        file.once(|file| file.sync())?;
        file.file.write_behind(0..u64::MAX);
        Ok(())
    }

    /// Bytes in the file, whichever process wrote them.
    pub(crate) fn length(&mut self) -> io::Result<u64> {
        self.file()?.once(|file| patiently(|| file.length()))
    }

    fn file(&mut self) -> io::Result<&mut Sequence> {
        self.file.as_mut().ok_or_else(|| ErrorKind::Other.into()) // allocates nothing
    }

    /// Writes what is gathered, or has it written.
    fn pass_on(&mut self, is_last: bool) -> io::Result<()> {
        if self.may_use_thread && self.thread.is_none() && !is_last {
            self.thread = self.file.take().map(Behind::start).transpose()?;
        }
        let Some(thread) = &self.thread else {
            let Some(stage) = &mut self.stage else { return Ok(()) };
            let file = self.file.as_mut().ok_or(ErrorKind::Other)?;
            file.write_all(stage.gathered())?;
            stage.clear();
            return Ok(());
        };
        if let Some(stage) = self.stage.take()
            && thread.full.send(stage).is_ok()
        {
            self.stage = thread.empty.recv().ok();
        }
        if self.stage.is_some() {
            return Ok(());
        }
        self.join()?;
        Err(ErrorKind::Other.into())
    }

    /// Waits for the thread, if there is one, and returns how it has ended.
    fn join(&mut self) -> io::Result<()> {
        let Some(Behind { full, thread, .. }) = self.thread.take() else { return Ok(()) };
        drop(full); // which ends it
        let panicked = |_| io::Error::other("the thread that writes the file panicked");
        let (file, result) = thread.join().map_err(panicked)?;
        self.file = Some(file);
        result
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(stage) = &mut self.stage else { return self.file()?.write(bytes) };
        let taken = stage.take(bytes);
        if stage.is_full() {
            self.pass_on(false)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.stage.as_ref().is_some_and(|stage| !stage.gathered().is_empty()) {
            self.pass_on(true)?;
        }
        self.join()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(thread) = &self.thread {
            thread.given_up.store(true, Ordering::Relaxed); // a hint: it saves time
        }
        let _ = self.join();
    }
}

/// The thread that writes, with the file.
#[derive(Debug)]
struct Behind {
    full: SyncSender<Stage>,
    empty: Receiver<Stage>,
    /// The rest need not be written.
    given_up: Arc<AtomicBool>,
    thread: JoinHandle<(Sequence, io::Result<()>)>,
}

impl Behind {
    /// Inherits the priority of the thread that calls.
    fn start(mut file: Sequence) -> io::Result<Self> {
        let (full, to_write) = sync_channel::<Stage>(STAGES);
        let (written, empty) = sync_channel(STAGES);
        for _ in 1..STAGES {
            let _ = written.send(Stage::new(STAGE_BYTES)); // there is room for all of them
        }
        let given_up = Arc::new(AtomicBool::new(false));
        let is_given_up = Arc::clone(&given_up);
        let thread = thread::Builder::new().name("checkpoint-disk".into()).spawn(move || {
            while let Ok(mut stage) = to_write.recv() {
                if is_given_up.load(Ordering::Relaxed) {
                    break;
                }
                if let Err(error) = file.write_all(stage.gathered()) {
                    return (file, Err(error)); // which the other side finds when it sends or takes
                }
                stage.clear();
                let _ = written.send(stage);
            }
            (file, Ok(()))
        })?;
        Ok(Self { full, empty, given_up, thread })
    }
}

/// The file, and the offset of the next byte.
#[derive(Debug)]
struct Sequence {
    file: Box<dyn DiskFile>,
    end: u64,
    /// The offset up to which bytes were hurried to the disk.
    behind: u64,
    /// Whether writes bypass the page cache.
    direct: bool,
    failed: bool,
    pace: Pace,
    /// Shows `end` to other threads.
    written: Option<Shared<AtomicU64>>,
}

impl Sequence {
    /// Makes a call of a file that has not failed, and notes a failure.
    fn once<T>(&mut self, call: impl FnOnce(&dyn DiskFile) -> io::Result<T>) -> io::Result<T> {
        if self.failed {
            return Err(ErrorKind::Other.into()); // allocates nothing
        }
        let result = call(&*self.file);
        self.failed |= result.is_err();
        result
    }

    /// Writes some of these aligned bytes past the page cache; none if that is not possible here.
    fn write_direct(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let whole = &bytes[..bytes.len() / Stage::ALIGN * Stage::ALIGN];
        let end = self.end;
        let written = match whole {
            [] => None,
            whole => self.once(|file| match patiently(|| file.write_at(end, whole)) {
                // This file cannot, or not at this offset.
                Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(None),
                written => written.map(Some),
            })?,
        };
        if written.is_none_or(|written| written % Stage::ALIGN > 0) {
            self.direct = false;
            self.file.set_direct(false);
        }
        Ok(written.unwrap_or(0))
    }
}

impl Write for Sequence {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = if self.direct { self.write_direct(bytes)? } else { 0 };
        if written == 0 && !self.direct {
            let end = self.end;
            written = self.once(|file| patiently(|| file.write_at(end, bytes)))?;
        }
        self.end += written as u64;
        if let Some(written) = &self.written {
            written.store(self.end, Ordering::Relaxed);
        }
        if !self.direct && self.end - self.behind >= BEHIND_BYTES {
            // The stretch before this one is on the disk by now, and leaves the page cache.
            self.file.write_behind(self.behind.saturating_sub(BEHIND_BYTES)..self.end);
            self.behind = self.end;
        }
        if self.pace.keep(self.end).is_err() {
            self.failed = true;
            return Err(ErrorKind::Other.into()); // allocates nothing
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::super::{Directory, Disk, Fault, Location, SimulatedDisk, Unpublished};
    use super::*;
    use crate::error::Error;

    const BYTES: usize = 6 * STAGE_BYTES + 4 * Stage::ALIGN + 17;

    /// Writes in pieces of all sizes, and looks whether they are in the file.
    fn write(disk: &SimulatedDisk, threaded: bool) -> io::Result<()> {
        let bytes: Vec<u8> = (0..BYTES as u32).map(|byte| ((byte * 7) >> 3) as u8).collect();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let directory =
            Directory::existing(Location::on("simulated", shared)).expect("it is there");
        let mut file = directory.create("f").map_err(|_| ErrorKind::Other)?;
        file.pass_cache(threaded);
        let (mut rest, mut size) = (&bytes[..], 1);
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(rest.len().min(size));
            let written = file.write_all(piece);
            if written.is_err() {
                assert!(file.flush().is_err() || file.sync().is_err(), "it is not trusted again");
                written?;
            }
            (rest, size) = (later, size * 5 % 100_003 + 1);
        }
        file.flush()?;
        file.sync()?;
        assert_eq!(file.length()?, BYTES as u64);
        let (_, contents) = disk.platter().lose_power(|_| true).into_iter().next().expect("f");
        assert!(*contents == bytes, "what is there is what was written");
        Ok(())
    }

    #[test]
    fn gathered_bytes_arrive_whole_with_a_thread_and_without() {
        for (direct, threaded) in [(false, false), (true, false), (true, true)] {
            write(&SimulatedDisk::default().with_direct(direct), threaded).expect("a sound disk");
        }
    }

    #[test]
    fn any_failure_of_a_gathered_write_is_reported_and_the_file_never_trusted() {
        for threaded in [false, true] {
            for (fault, is_harmless) in [(Fault::DISK_FULL, false), (Fault::ShortWrite, true)] {
                for call in 2.. {
                    let disk = SimulatedDisk::default().with_direct(true);
                    disk.fail_at(call, fault);
                    let written = write(&disk, threaded);
                    if !disk.has_failed() {
                        assert!(call > 8, "{call} calls");
                        break;
                    }
                    match written {
                        Ok(()) => assert!(is_harmless, "call {call} was to fail"),
                        Err(error) => assert_eq!(error.raw_os_error(), Some(28), "call {call}"),
                    }
                }
            }
        }
    }

    #[derive(Debug)]
    struct Panicking;

    impl DiskFile for Panicking {
        fn write_at(&self, _: u64, _: &[u8]) -> io::Result<usize> {
            panic!("on purpose")
        }
        fn reserve(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }
        fn length(&self) -> io::Result<u64> {
            Ok(0)
        }
        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
        fn set_direct(&self, _: bool) -> bool {
            true
        }
        fn write_behind(&self, _: Range<u64>) {}
    }

    #[test]
    fn a_panic_of_the_thread_is_reported() {
        let mut file = Output::new(Box::new(Panicking), Mutation::current());
        file.pass_cache(true);
        let error = file.write_all(&vec![1; BYTES]).and_then(|()| file.flush());
        assert!(error.expect_err("it panicked").to_string().contains("panicked"));
        assert!(file.sync().is_err() && file.length().is_err(), "not trusted");
    }

    #[test]
    fn a_file_that_is_not_as_long_as_promised_gets_no_name() {
        for promised in 2..=4 {
            let disk = SimulatedDisk::default();
            let location = Location::on("simulated", Arc::new(disk.clone()));
            let directory = Directory::existing(location).expect("it is there");
            let mut file = directory.create("t").expect("sound");
            file.write_all(&[1; 3]).and_then(|()| file.flush()).expect("sound");
            let (bytes, temporary, name) = (Some(promised), "t", "f");
            let unpublished = Unpublished { file: &mut file, bytes, temporary, name };
            let published = directory.publish(unpublished, Ok(()), || Ok::<_, Error>(()));
            assert_eq!(published.is_ok(), promised == 3);
            let names = disk.names().expect("a sound disk");
            assert_eq!(names, if promised == 3 { vec!["f"] } else { vec![] });
        }
    }

    #[test]
    fn a_file_given_up_ends_its_thread() {
        let disk = SimulatedDisk::default().with_direct(true);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let directory =
            Directory::existing(Location::on("simulated", shared)).expect("it is there");
        let mut file = directory.create("f").expect("sound");
        file.pass_cache(true);
        file.write_all(&vec![1; 2 * STAGE_BYTES]).expect("sound");
        drop(file); // joins it
        let calls = disk.calls();
        assert!((1..=3).contains(&calls), "{calls} calls: created, and two stages at most");
    }
}
