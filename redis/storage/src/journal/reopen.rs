//! The log that an image names, replayed at a start and then continued.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use stillframe_commands::{Consumer, Ledger};
use stillframe_durability::disk::Location;
use stillframe_durability::{Action, Application, ApplyError, Error, Log, LogOptions, Replayed};
use stillframe_keyspace::Keyspace;

use super::earlier::Reach;
use super::{Journal, LogError, Open, Position, RECORD_HEAD_BYTES};
use crate::settings::Settings;

/// A log to be replayed. It borrows nothing of the journal, which serves clients meanwhile.
pub(crate) struct Reopening {
    /// The log's directory.
    pub(crate) path: PathBuf,
    location: Location,
    position: Position,
    accept_loss: bool,
    /// Those of the log, if it is to be continued.
    options: Option<LogOptions>,
    failed: Arc<AtomicBool>,
}

/// A log that was replayed.
pub(crate) struct Reopened {
    /// What was found.
    pub(crate) replayed: Replayed,
    position: Position,
    log: Option<Log>,
    failed: Arc<AtomicBool>,
}

impl Reopening {
    /// Passes on all records from the position on.
    ///
    /// # Errors
    /// The log cannot be read or is damaged, or `apply` fails.
    pub(crate) fn replay(
        self,
        apply: impl FnMut(&Action<'_>) -> Result<(), ApplyError>,
    ) -> Result<Reopened, Error> {
        let Self { location, position, accept_loss, options, failed, .. } = self;
        let (from, own) = (position.from, Application::server());
        let (log, replayed) = match options {
            Some(options) => {
                let opened = Log::open(location, from, accept_loss, &own, options, apply);
                opened.map(|(log, replayed)| (Some(log), replayed))
            }
            None => {
                let read = Log::read(location, from, accept_loss, None, &own, apply);
                read.map(|replayed| (None, replayed))
            }
        }?;
        Ok(Reopened { replayed, position, log, failed })
    }
}

impl Journal {
    /// The manifest of a Redis server where the logs go, if there is one.
    pub(crate) fn foreign(&self) -> Result<Option<PathBuf>, Error> {
        self.history.generations.foreign()
    }

    /// Prepares to replay the log of an image, and to continue the log if one is wanted.
    pub(crate) fn reopening(
        &self,
        position: Position,
        settings: &Settings,
    ) -> Result<Reopening, Error> {
        let generations = &self.history.generations;
        let location = generations.location(position.generation)?;
        let failed = Arc::default();
        Ok(Reopening {
            path: generations.path(position.generation),
            location,
            position,
            accept_loss: settings.accept_log_loss,
            options: settings.appendonly.then(|| self.options(settings, &failed)),
            failed,
        })
    }

    /// Goes on behind a log that was replayed, and in that log if it is to be continued.
    pub(crate) fn go_on(
        &mut self,
        keyspace: &mut Keyspace,
        ledger: &mut Ledger,
        reopened: Reopened,
        settings: &Settings,
    ) -> Result<(), Error> {
        let Reopened { replayed, position, log, failed } = reopened;
        self.history.generations.sweep()?;
        let (newest, reach) = (self.history.generations.newest(), Reach::from_settings(settings));
        self.history.tidy(Some(position), newest, reach)?;
        self.last = replayed.last;
        self.base_bytes = self.history.dump_bytes();
        self.bytes = replayed.bytes + replayed.records * RECORD_HEAD_BYTES;
        if let Some(log) = log {
            let (generation, policy) = (position.generation, settings.appendfsync);
            self.open = Some(Open { log, generation, policy, published: true, failed });
            ledger.effects.want(keyspace, Consumer::Log, true);
        }
        Ok(())
    }

    /// Sets existing logs aside: the dump names none.
    pub(crate) fn clear(&self) -> Result<(), LogError> {
        let (history, generations) = (&self.history, &self.history.generations);
        generations.sweep()?;
        for generation in generations.list()? {
            if generations.is_unpublished(generation)? {
                generations.remove(generation)?;
            } else if !history.has_dump()? {
                let (log, dump) = (generations.path(generation), history.dump());
                return Err(LogError::WithoutDump { log, dump });
            } else if !history.needs(generation)? {
                let aside = generations.set_aside(generation)?;
                tracing::warn!(
                    "{} names no log, so the one that was there is not used; it is {} now",
                    history.dump().display(),
                    aside.display()
                );
            }
        }
        Ok(())
    }

    /// Goes on with numbers behind those of a log that is still kept.
    pub(crate) fn count_on(&mut self) -> Result<(), Error> {
        self.last = self.history.last_record_at_most()?;
        Ok(())
    }
}
