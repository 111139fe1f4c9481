//! Opens a store with a log: checkpoint, replay, log.
//!
//! - The actions are applied to a store that neither logs nor checkpoints; nothing on the disk
//!   changes until all of them were. So an interrupted replay is simply done again.
//! - Only then are leftovers removed, lost records moved aside, and a new segment begun.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use stillframe::Algorithm;

use super::act::Act;
use super::action::{Action, ApplyError};
use super::{Journal, Store};
use crate::checkpoint::Header as CheckpointHeader;
use crate::clock::now_ms;
use crate::disk::{Directory, LOCK};
use crate::error::Error;
use crate::log::logger::Logger;
use crate::log::reader::Report;
use crate::log::writer::Writer;
use crate::log::{self, Header, ahead};
use crate::mutant::Mutant;
use crate::names;
use crate::options::Options;
use crate::recovery::{
    Found, Loaded, LostRecords, Recovered, Recovery, Replayed, TornTail, find, new_directory,
    recover,
};
use crate::until::Until;

impl<A: Algorithm> Store<A> {
    /// A store with a log: `apply` does again what the application's records say.
    pub(crate) fn open_logged(
        directory: impl AsRef<Path>,
        options: Options,
        apply: impl FnMut(&mut Act<'_, A>, &Action<'_>) -> Result<(), ApplyError>,
    ) -> Result<Self, Error> {
        let directory = Directory::open(directory.as_ref(), options.disk.clone())?;
        let directory = Arc::new(directory.claimed(&options.application)?);
        let recovered = recover(&directory, &options)?;
        let mut store = Self::assemble(&directory, recovered, &options)?;
        let found = store.replay(&directory, options.accept_log_loss, None, apply)?;
        if directory.names()?.iter().any(|name| name == log::TEMPORARY) {
            store.recovery.leftover = true; // the first segment replaces it
        }
        if found.lost.is_some() {
            log::set_aside(&directory, found.next)?;
        }
        store.start_log(directory, &found, &options)?;
        Ok(store)
    }

    /// The state as it was in the past, in a new store in `target`, durably.
    pub(crate) fn rewind(
        source: impl AsRef<Path>,
        until: Until,
        target: impl AsRef<Path>,
        options: Options,
        apply: impl FnMut(&mut Act<'_, A>, &Action<'_>) -> Result<(), ApplyError>,
    ) -> Result<Self, Error> {
        let source = Directory::existing(source)?.claimed(&options.application)?.locked(LOCK)?;
        let (algorithm, recovery) = before(&source, Some(until), &options)?;
        let target = new_directory(target.as_ref(), &options)?;
        let fresh =
            Recovered { algorithm, recovery: Recovery::default(), next: 1, chain: Vec::new() };
        let mut store = Self::assemble(&target, fresh, &options)?;
        store.recovery = recovery;
        store.replay(&source, options.accept_log_loss, Some(until), apply)?;
        let fresh = Report { next: 1, ..Report::default() };
        if Mutant::RewoundLogFirst.is_made() {
            store.start_log(Arc::clone(&target), &fresh, &options)?;
        }
        store.log = Journal::None;
        // Before the log begins: a log alone would be one of a state of zeros.
        store.checkpoint_and_wait()?;
        store.start_log(target, &fresh, &options)?;
        Ok(store)
    }

    /// Applies the actions that are not in the checkpoint.
    fn replay(
        &mut self,
        directory: &Directory,
        accept_loss: bool,
        until: Option<Until>,
        mut apply: impl FnMut(&mut Act<'_, A>, &Action<'_>) -> Result<(), ApplyError>,
    ) -> Result<Report, Error> {
        let mut from = self.recovery.loaded.as_ref().map_or(0, |loaded| loaded.log_from);
        if directory.is(Mutant::PositionSkipped) {
            from = 0;
        }
        self.log = Journal::Replaying;
        let (report, replayed) = replay(directory, from, accept_loss, until, |action| {
            self.logged_act().redo(action, &mut apply)
        })?;
        self.recovery.log = Some(replayed);
        Ok(report)
    }

    /// Goes on logging after what was found.
    fn start_log(
        &mut self,
        directory: Arc<Directory>,
        found: &Report,
        options: &Options,
    ) -> Result<(), Error> {
        let created_ms = now_ms().max(found.time_ms);
        let header = Header::new(found.next, created_ms, log::nonce(), directory.owner());
        let writer = Writer::resume(directory, found, header)?;
        let checkpointed = self.recovery.loaded.as_ref().map_or(0, |loaded| loaded.created_ms);
        let logger = Logger::start(writer, found.time_ms.max(checkpointed), options.log.clone());
        self.log = Journal::Open(logger.map_err(Error::Thread)?);
        self.notes.words = self.words();
        self.start_schedule(options)
    }
}

/// Hands the actions from record `from` on to `apply`, up to `until`.
pub(crate) fn replay(
    directory: &Directory,
    from: u64,
    accept_loss: bool,
    until: Option<Until>,
    mut apply: impl FnMut(&Action<'_>) -> Result<(), ApplyError>,
) -> Result<(Report, Replayed), Error> {
    let started = Instant::now();
    let mut replayed = Replayed { last: from.saturating_sub(1), ..Replayed::default() };
    let report = ahead::recover(directory, from, accept_loss, |record, progress| {
        let (sequence, time_ms, bytes) = (record.sequence, record.time_ms, record.payload);
        let is_beyond = match until {
            None => false,
            Some(Until::Sequence(last)) => sequence > last,
            Some(Until::TimeMs(last)) => time_ms > last,
        };
        if is_beyond {
            return Ok(ControlFlow::Break(()));
        }
        let action = Action { sequence, time_ms, bytes, progress };
        let times = if directory.is(Mutant::ReplayedTwice) { 2 } else { 1 };
        for _ in 0..times {
            apply(&action).map_err(|source| Error::Replay { sequence, source })?;
        }
        replayed.records += 1;
        replayed.bytes += bytes.len() as u64;
        replayed.last = sequence;
        Ok(ControlFlow::Continue(()))
    })?;
    replayed.duration = started.elapsed();
    replayed.torn = report.torn.as_ref().map(|torn| TornTail {
        path: directory.at(&log::name(torn.segment)),
        offset: torn.offset,
        bytes: torn.bytes,
    });
    replayed.lost = report.lost.as_ref().map(|lost| LostRecords {
        path: directory.at(&log::name(lost.segment)),
        damage: lost.damage.clone(),
        first: report.next,
        last: (lost.last >= report.next).then_some(lost.last),
    });
    Ok((report, replayed))
}

/// The newest checkpoint that is not after `until`; zeros, if the log has all from the start.
pub(crate) fn before<A: Algorithm>(
    directory: &Directory,
    until: Option<Until>,
    options: &Options,
) -> Result<(A, Recovery), Error> {
    let numbers = names::list(directory)?.numbers;
    let is_before = |header: &CheckpointHeader| match until {
        None => true,
        Some(Until::Sequence(last)) => header.log_from.saturating_sub(1) <= last,
        Some(Until::TimeMs(last)) => header.created_ms <= last,
    };
    let (found, skipped) = find(directory, &numbers, options, is_before)?;
    let from_the_start = log::segments(directory)?.first() == Some(&1);
    let recovery = |loaded: Option<Loaded>| Recovery { loaded, skipped, ..Recovery::default() };
    match (found, numbers.last()) {
        (Some(Found { algorithm, loaded, .. }), _) => Ok((algorithm, recovery(Some(loaded)))),
        (None, Some(&oldest)) if !from_the_start => {
            let directory = directory.path().to_path_buf();
            let Recovery { skipped, .. } = recovery(None);
            Err(match skipped.last() {
                // There are others only if they are after that point.
                Some(skipped_last) if skipped_last.number == oldest => {
                    Error::NoneSound { directory, skipped }
                }
                _ => Error::TooEarly { directory, oldest },
            })
        }
        _ => Ok((A::create(&options.memory)?, recovery(None))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Location, SimulatedDisk};
    use crate::standalone::Log;
    use crate::store::acts::ActStore;

    /// Times do not fall, whatever the clock does: neither in the log once a checkpoint has all
    /// that it held, nor from a record to a checkpoint that has it.
    #[test]
    fn records_and_checkpoints_are_not_older_than_what_was_before_them() {
        let disk: Arc<SimulatedDisk> = Arc::default();
        let directory = Directory::existing(Location::on("simulated", disk.clone()));
        let header =
            Header::new(1, 0, 7, Directory::owner(directory.as_ref().expect("it is there")));
        let first = Report { next: 1, ..Report::default() };
        let directory = Arc::new(directory.expect("it is there"));
        let mut writer = Writer::resume(directory, &first, header).expect("a sound disk");
        let later = now_ms() + 3_600_000; // the clock was wrong
        writer.append(later, b"record").expect("it is short");
        writer.sync().expect("a sound disk");
        drop(writer);
        let open = || {
            let options = Options::words(1).disk(disk.clone());
            ActStore::open_records("simulated", options, |act, _| {
                act.update(0, |count| count + 1);
                Ok(())
            })
        };
        let mut store = open().expect("sound");
        store.checkpoint_and_wait().expect("a sound disk");
        store.close().expect("a sound disk");
        let mut store = open().expect("sound");
        let loaded = store.recovery().loaded.clone().expect("there is one");
        assert_eq!((loaded.created_ms >= later, loaded.log_from), (true, 2));
        store.log(b"more").and_then(Act::commit).expect("a sound disk");
        store.close().expect("a sound disk");
        let (location, mut times) = (Location::on("simulated", disk), Vec::new());
        let read = Log::read(location, 2, false, None, &Options::words(1).application, |action| {
            times.push(action.time_ms);
            Ok(())
        });
        read.expect("sound");
        assert!(times.len() == 1 && times[0] >= later, "{times:?} are not from {later} on");
    }
}
