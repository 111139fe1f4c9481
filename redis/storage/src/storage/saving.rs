//! Saving the data set to the dump file: begun between two commands, written in the background.

use std::time::{Duration, Instant};

use stillframe::{CaptureError, Point};
use stillframe_commands::Ledger;
use stillframe_keyspace::{HeldImage, Keyspace};
use stillframe_rdb::{Encoder, Workspace};

use super::Storage;
use crate::clock::unix_millis;
use crate::dump::{
    Counters, DataDirectory, DumpFile, Label, Purpose, RdbSink, Save, SaveError, Saved,
    StreamPoint, image_version, stage, whole_micros, with_header,
};
use crate::journal::{Cover, POSITION_FIELD};
use crate::settings::{RdbVersion, SavePoint};

/// Pause after a failed save before the schedule tries again.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

impl Storage {
    /// Begins a background save, held to `snapshot-bandwidth`, at a point of consistency: no
    /// command is half done, and all effects were handed on. The dump holds `point`, if there is
    /// one.
    ///
    /// # Errors
    /// One sentence; it is logged and counts as a failed save.
    pub fn begin(
        &mut self,
        keyspace: &mut Keyspace,
        ledger: &Ledger,
        point: Option<StreamPoint>,
        purpose: Purpose,
    ) -> Result<(), SaveError> {
        let bandwidth_bytes = self.settings.snapshot_bandwidth_bytes;
        self.begin_for(keyspace, ledger, point, bandwidth_bytes, purpose, false)
    }

    /// The image that begins next has this label behind its entries.
    pub fn label_next(&mut self, label: Label) {
        self.label = Some(label);
    }

    /// As [`begin`](Self::begin), with a label behind the entries, which a group gives the image:
    /// once it is known, and not if that image is dropped.
    ///
    /// # Errors
    /// As for [`begin`](Self::begin).
    pub fn begin_labelled(
        &mut self,
        keyspace: &mut Keyspace,
        ledger: &Ledger,
        label: Label,
    ) -> Result<(), SaveError> {
        self.label_next(label);
        let begun = self.begin(keyspace, ledger, None, Purpose::Dump);
        self.label = None;
        begun
    }

    /// As [`begin`](Self::begin), with another limit: `bandwidth_bytes`, most bytes written per
    /// second, 0 for none. `awaited`: a client waits for the save and gets its outcome, so a
    /// failure is no reason to refuse writes.
    pub(super) fn begin_for(
        &mut self,
        keyspace: &mut Keyspace,
        ledger: &Ledger,
        point: Option<StreamPoint>,
        bandwidth_bytes: u64,
        purpose: Purpose,
        awaited: bool,
    ) -> Result<(), SaveError> {
        debug_assert!(ledger.effects.is_empty(), "effects are handed on before an image begins");
        self.saves.last_try = Some(Instant::now());
        self.saves.scheduled = None;
        let keys_total = keyspace.stats().keys as u64;
        let started = Instant::now();
        let cover = self.journal.cover(&self.settings);
        let covered = cover.covered();
        match self.start(keyspace, point, bandwidth_bytes, cover) {
            Ok((counters, image)) => {
                let begin = image.begin;
                tracing::info!(
                    "saving {keys_total} keys; the server was held up for {} us, {} us of them to \
                     begin the image",
                    whole_micros(started.elapsed()),
                    whole_micros(begin)
                );
                let dirty = ledger.dirty;
                self.saves.latest_begin = begin;
                let cancelled = false;
                self.saves.running = Some(Save {
                    purpose,
                    started,
                    keys_total,
                    dirty,
                    counters,
                    covered,
                    image,
                    awaited,
                    cancelled,
                });
                Ok(())
            }
            Err(problem) => {
                self.saves.directory.discard();
                self.saves.last_ok &= awaited;
                self.saves.failures += u64::from(!awaited);
                tracing::error!("cannot save: {problem}");
                Err(problem)
            }
        }
    }

    fn start(
        &mut self,
        keyspace: &mut Keyspace,
        point: Option<StreamPoint>,
        bandwidth_bytes: u64,
        cover: Cover,
    ) -> Result<(Counters, HeldImage), SaveError> {
        let (settings, saves) = (&self.settings, &mut self.saves);
        let version = image_version(keyspace, settings.rdb_version)?;
        if settings.rdb_version == RdbVersion::Auto {
            saves.tell_version(version);
        }
        let file = saves.directory.create_temporary().inspect_err(|error| {
            if error.wants_room() {
                cover.give_way();
            }
        })?;
        let counters = saves.counters.clone();
        counters.reset();
        let (workspace, stage) =
            saves.workspace.take().unwrap_or_else(|| (Workspace::new(), stage()));
        let throttle = saves.throttle.renewed(bandwidth_bytes);
        let file = DumpFile::new(file, stage, throttle, counters.bytes.clone());
        let encoder = Encoder::within(workspace, file).compress(settings.rdbcompression);
        let encoder = encoder.version(version);
        let position = cover.position().map(|position| (POSITION_FIELD, position.text()));
        let fields = position.into_iter().chain(point.iter().flat_map(StreamPoint::fields));
        let encoder = with_header(encoder, keyspace, fields);
        let sink = RdbSink::new(encoder?, counters.clone());
        let sink = sink.dragged(saves.dragged(settings.key_save_delay_us));
        let sink = sink.telling_uses(settings.saves_uses).labelled(self.label.take());
        let (directory, taker) = (saves.directory.clone(), saves.handback.taker());
        let publish = move |sink: &mut RdbSink<DumpFile>, captured: Result<(), CaptureError>| {
            let saved = finish(&directory, sink, captured, &cover);
            let stage = sink.encoder.output_mut().take_stage();
            taker.report(saved, (sink.encoder.take_workspace(), stage));
        };
        let image = keyspace.image(Point::declare(), sink, saves.wake(), publish)?;
        Ok((counters, image))
    }

    /// Notes the end of a save. Called every turn; costs nothing without a save.
    pub fn attend(&mut self, keyspace: &mut Keyspace, ledger: &mut Ledger) {
        let saves = &mut self.saves;
        let Some(Save { image, .. }) = saves.running else { return };
        let held =
            saves.handback.poll(|| keyspace.holds(image), |tools| saves.workspace = Some(tools));
        if held {
            return;
        }
        let Some(running) = saves.running.take() else { return };
        let saved = saves.handback.take().unwrap_or(Err(SaveError::Silence));
        let elapsed = running.started.elapsed();
        saves.last_duration = Some(elapsed);
        saves.ended_well = saved.is_ok();
        // A client that cancels a save, or gets its failure, does not want writes refused for it.
        let is_spared = running.cancelled || running.awaited;
        saves.last_ok = saved.is_ok() || is_spared && saves.last_ok;
        saves.failures += u64::from(saved.is_err() && !is_spared);
        match saved {
            Ok(_) => {
                saves.last_success_s = unix_millis() / 1000;
                saves.failures = 0;
                saves.count += 1;
                saves.dump_bytes = running.bytes_done();
                saves.due = None;
                ledger.dirty = ledger.dirty.saturating_sub(running.dirty);
                self.journal.published(&running.covered, running.bytes_done());
                tracing::info!(
                    "saved {} keys, {} bytes in {:.3} s to {}",
                    running.keys_done(),
                    running.bytes_done(),
                    elapsed.as_secs_f64(),
                    saves.directory.dump().display()
                );
            }
            Err(problem) => {
                tracing::error!(
                    "the save failed after {:.3} s, the old dump file is untouched: {problem}",
                    elapsed.as_secs_f64()
                );
                let problem = Some(problem.to_string()).filter(|_| !running.cancelled);
                self.journal.not_published(keyspace, ledger, &running.covered, problem);
            }
        }
    }

    /// Stops the unwanted save under way. The old dump file stays, and so does INFO's status of the
    /// save before.
    pub fn abandon(&mut self, keyspace: &Keyspace) {
        let Some(running) = &mut self.saves.running else { return };
        running.cancelled = true;
        self.give_up(keyspace);
    }

    /// As [`abandon`](Self::abandon), for a server that stops: it counts as failed.
    pub fn give_up(&self, keyspace: &Keyspace) {
        let Some(running) = &self.saves.running else { return };
        self.saves.give_up(keyspace, running.image, &self.saves.throttle);
    }

    /// Stops the save under way and a scheduled one; false if there is neither.
    pub fn cancel(&mut self, keyspace: &Keyspace) -> bool {
        let scheduled = self.saves.scheduled.take().is_some();
        let runs = self.saves.running.is_some();
        self.abandon(keyspace);
        runs || scheduled
    }

    /// As [`begin`](Self::begin), at full speed, and waits for the end.
    ///
    /// # Errors
    /// One sentence; it was logged.
    pub fn save_and_wait(
        &mut self,
        keyspace: &mut Keyspace,
        ledger: &mut Ledger,
        point: Option<StreamPoint>,
    ) -> Result<(), SaveError> {
        self.begin_for(keyspace, ledger, point, 0, Purpose::Dump, true)?;
        self.wait(keyspace, ledger);
        if self.saves.ended_well { Ok(()) } else { Err(SaveError::Logged) }
    }

    /// Waits for the save under way to end.
    pub fn wait(&mut self, keyspace: &mut Keyspace, ledger: &mut Ledger) {
        if let Some(Save { image, .. }) = self.saves.running {
            keyspace.wait_for(image);
        }
        self.attend(keyspace, ledger);
    }

    /// For what a save should [begin](Self::begin): the schedule, BGSAVE SCHEDULE or the size of
    /// the log asks for one, and none is under way.
    pub fn due_save(&mut self, ledger: &Ledger) -> Option<Purpose> {
        let since = u64::try_from(unix_millis() / 1000 - self.saves.last_success_s).unwrap_or(0);
        let is_due = |point: &&SavePoint| ledger.dirty >= point.changes && since > point.seconds;
        let due = self.settings.save.iter().find(is_due);
        self.saves.note_due(due);
        let saves = &self.saves;
        if saves.running.is_some() {
            return None;
        }
        let may_try =
            saves.last_ok || saves.last_try.is_none_or(|last| last.elapsed() >= RETRY_PAUSE);
        if !may_try {
            return None;
        }
        if let Some(point) = due {
            tracing::info!("{} changes in {} seconds", ledger.dirty, point.seconds);
        }
        let rewrite = self.journal.rewrite_due(&self.settings);
        if rewrite {
            tracing::info!("the log has grown: an image takes its place");
        }
        let of_log = rewrite.then_some(Purpose::Log);
        due.map(|_| Purpose::Dump).or(saves.scheduled).or(of_log)
    }
}

/// On the snapshotter thread, while the image is held: publishes or discards the file.
fn finish(
    directory: &DataDirectory,
    sink: &mut RdbSink<DumpFile>,
    captured: Result<(), CaptureError>,
    cover: &Cover,
) -> Saved {
    let captured = captured.map_err(SaveError::Capture);
    let (file, bytes) = sink.encoder.output_mut().file();
    let saved = directory.publish(file, bytes, captured, || {
        cover.wait_durable().map_err(|error| SaveError::Log(error.into()))?;
        cover.keep_dump();
        Ok(())
    });
    match &saved {
        Ok(_) => cover.clean(),
        Err(error) if error.is_for_want_of_room() => cover.give_way(),
        Err(_) => {}
    }
    saved
}
