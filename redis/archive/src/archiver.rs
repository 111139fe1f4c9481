//! The two threads of an archive.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::ArchiveError;
use crate::owner::Owner;
use crate::remote::Remote;
use crate::settings::{Settings, Source};
use crate::shared::{Shared, State, Status};
use crate::spool::Spool;
use crate::worker::Worker;

/// How long a start waits for the claim, before the archive goes on in the background.
const START_MAX: Duration = Duration::from_secs(5);

/// Uploads what is new in a directory, in the background, until it is dropped. What is under way
/// then is given up, and goes on at the next start.
#[derive(Debug)]
pub struct Archiver {
    shared: Arc<Shared>,
    stop: Arc<tokio::sync::Notify>,
    threads: Vec<JoinHandle<()>>,
}

impl Archiver {
    /// Begins to archive a directory that this process holds. Waits a few seconds for the claim; if
    /// the store cannot be reached, files are kept until it can.
    ///
    /// # Errors
    /// [`ArchiveError`]: the URL or the directory cannot be used, or the prefix belongs to another.
    pub fn start(source: Source, settings: Settings) -> Result<Self, ArchiveError> {
        let remote = Remote::open(&settings.url)?;
        let mut spool = Spool::open(&source)?;
        let owner = Owner::read(&spool.files, &remote.url)?;
        let shared = Arc::new(Shared::new(settings, source.is_store()));
        shared.rescan(&mut spool)?;
        let worker = Worker::new(remote, owner, &spool, Arc::clone(&shared));
        let stop = Arc::new(tokio::sync::Notify::new());
        let (told, claimed) = sync_channel(1);
        let mut archiver =
            Self { shared: Arc::clone(&shared), stop: Arc::clone(&stop), threads: Vec::new() };
        let looking = Arc::clone(&shared);
        archiver.run("archive-look", move || looking.look_on(spool))?;
        archiver.run("archive", move || upload(worker, &shared, &stop, &told))?;
        match claimed.recv_timeout(START_MAX) {
            Ok(Err(error)) if error.is_final() => Err(error),
            Ok(Err(error)) => {
                tracing::warn!("the archive cannot be reached yet, and is tried again: {error}");
                Ok(archiver)
            }
            Err(RecvTimeoutError::Timeout) => {
                tracing::warn!("the archive does not answer yet, and is tried again");
                Ok(archiver)
            }
            _ => Ok(archiver),
        }
    }

    fn run(
        &mut self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), ArchiveError> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        self.threads.push(thread.map_err(ArchiveError::Thread)?);
        Ok(())
    }

    /// From now on obeys these settings, but for the URL and `take_over`.
    pub fn obey(&self, settings: &Settings) {
        self.shared.obey(settings);
    }

    /// How far it is.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.status()
    }
}

impl Drop for Archiver {
    fn drop(&mut self) {
        self.shared.stop();
        self.stop.notify_one();
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// The uploading thread.
fn upload(
    mut worker: Worker,
    shared: &Shared,
    stop: &tokio::sync::Notify,
    told: &SyncSender<Result<(), ArchiveError>>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = told.send(Err(ArchiveError::Thread(error)));
            return;
        }
    };
    let work = async {
        let claimed = worker.claim().await;
        let refused = claimed.as_ref().is_err_and(ArchiveError::is_final);
        if let Err(error) = &claimed {
            shared.note_error(error.to_string());
        }
        let _ = told.send(claimed); // the start may have gone on
        if refused {
            return;
        }
        let error = worker.run().await;
        tracing::error!("nothing is archived any more: {error}");
        shared.note_error(error.to_string());
        shared.note_state(State::Refused);
    };
    // What is under way when somebody stops it is given up, as by a kill.
    let (work, stopped) = (std::pin::pin!(work), std::pin::pin!(stop.notified()));
    runtime.block_on(futures_util::future::select(work, stopped));
    runtime.shutdown_background();
}
