//! The image that a replica starts from: received into a file, then loaded in slices.
//!
//! - The file has no name, so it never leaves anything behind.
//! - An image without a length ends with forty announced bytes; nothing follows them until this
//!   server sends a reply.

use std::io::Read;
use std::time::{Duration, Instant};

use stillframe_durability::disk::{Input, write_all_at};
use stillframe_keyspace::{DATABASES, Keyspace};
use stillframe_rdb::Decoder;
use stillframe_storage::dump::{EntryError, Next, Reader, StreamField};
use stillframe_storage::replay::{Loading, SLICE, delay};

use super::follower::Follower;
use super::handshake::line;
use crate::connections::hub::Delivery;
use crate::peers::replication::failure::Failure;
use crate::peers::replication::link::{Link, Step};
use crate::peers::replication::reception::{Load, Reception};
use crate::state::persistence;

/// Keys loaded between two readings of the clock.
const BATCH: usize = 32;

/// Reads the announcement of an image.
pub(super) fn announced(link: &mut Link) -> Result<(), Failure> {
    let Some(answer) = line(link)? else { return Ok(()) };
    link.step = Step::Receiving(Reception::announced(answer)?);
    Ok(())
}

impl Follower<'_> {
    /// Takes the received part of an image.
    pub(super) fn receive(&mut self, link: &mut Link) -> Result<(), Failure> {
        let Step::Receiving(receiving) = &mut link.step else { return Ok(()) };
        let before = receiving.bytes;
        let (taken, ends) = receiving.take(&link.input);
        receiving.check_head(&link.input[..taken]).map_err(Failure::Unreadable)?;
        let file = match receiving.file.take() {
            Some(file) => file,
            None => self.state.storage.saves.directory().create_nameless()?,
        };
        write_all_at(&*file, before, &link.input[..taken]).map_err(Failure::NotWritten)?;
        link.input.drain(..taken);
        if !ends {
            receiving.file = Some(file);
            return Ok(());
        }
        let bytes = receiving.image_bytes();
        tracing::info!("received the image: Loading DB in memory, {bytes} bytes");
        link.step = Step::Loading;
        self.begin_load(Input::new(file), bytes);
        Ok(())
    }

    fn begin_load(&mut self, file: Input, bytes: u64) {
        // The log belongs to the data that is replaced; a new one begins when there is something to
        // log.
        let _ = persistence::end_log(self.keyspace, self.state);
        self.state.replication.drop_replicas(&mut self.state.clients);
        for db in 0..DATABASES {
            self.state.ledger.dirty += self.keyspace.len(db) as u64;
            let keyspace = &mut *self.keyspace;
            self.state.ledger.watches.touch_all(db, |key| keyspace.contains(db, key, i64::MIN));
        }
        self.state.hub.invalidate_all(&mut Delivery::new(
            &mut self.state.clients,
            &self.state.config,
            &self.state.clock,
        ));
        self.keyspace.reset();
        self.state.replication.own.clear();
        let Some(following) = &mut self.state.replication.following else { return };
        following.lost = true;
        following.more = true;
        following.load = Some(Load {
            reader: Reader::new(Decoder::new(file.take(bytes)).with_file_bytes(bytes)),
            bytes,
            progress: Loading::new(bytes),
            keys: 0,
            db: 0,
        });
    }

    /// Loads for a while.
    pub(super) fn load_slice(&mut self) {
        let start = Instant::now();
        let Some(following) = &mut self.state.replication.following else { return };
        let Some(mut load) = following.load.take() else { return };
        let outcome = loop {
            if start.elapsed() > SLICE {
                break Ok(false);
            }
            match load.batch(self.keyspace, self.state.config.key_load_delay_us) {
                Ok(false) => {}
                other => break other,
            }
        };
        let Some(following) = &mut self.state.replication.following else { return };
        following.more = true;
        following.last_io = start;
        match outcome {
            Ok(false) => {
                // The primary waits meanwhile: show it that this server is alive.
                if let Some(link) = &mut following.link
                    && start >= link.next_ack
                {
                    link.next_ack = start + Duration::from_secs(1);
                    let _ = link.stream.write(b"\n");
                }
                following.load = Some(load);
            }
            Ok(true) => self.loaded(&load),
            Err(problem) => {
                self.keyspace.reset();
                following.fail(&Failure::NotLoaded(problem.into()));
            }
        }
    }

    fn loaded(&mut self, load: &Load) {
        tracing::info!(
            "loaded {} keys of the primary in {:.3} s",
            load.keys,
            load.progress.started.elapsed().as_secs_f64()
        );
        self.state.ledger.dirty += load.keys;
        let replication = &mut self.state.replication;
        if let Some((id, offset)) = replication.announced.take() {
            replication.name.id = id;
            replication.name.older = None;
            replication.stream.restart(offset);
            replication.db = load.db;
        }
        self.state.replication.activate(self.keyspace, &mut self.state.ledger.effects);
        let (offset, now) = (self.state.replication.stream.end(), self.state.clock.turn());
        let db = self.state.replication.db;
        let Some(following) = &mut self.state.replication.following else { return };
        if let Some(mut link) = following.link.take() {
            following.connected(&mut link, db);
            link.awaits_stream = true;
            link.acknowledge(offset, None, now);
            // Part of the stream may have come with the image.
            let outcome = self.advance(&mut link);
            let Some(following) = &mut self.state.replication.following else { return };
            following.link = Some(link);
            if let Err(failure) = outcome {
                following.fail(&failure);
            }
        }
    }
}

impl Load {
    /// Loads some keys; true at the end.
    fn batch(&mut self, keyspace: &mut Keyspace, delay_us: i32) -> Result<bool, EntryError> {
        for _ in 0..BATCH {
            // Expired keys wait for the primary's DEL, too.
            match self.reader.next(keyspace, i64::MIN)? {
                Next::End => return Ok(true),
                Next::Stream(StreamField::Db(db)) => self.db = db,
                Next::Loaded => self.keys += 1,
                Next::Expired { .. }
                | Next::Position(_)
                | Next::Stream(_)
                | Next::Memory(_)
                | Next::Field { .. }
                | Next::Empty
                | Next::Other => {}
            }
            if delay(delay_us) {
                break;
            }
        }
        let _ = keyspace.tend();
        Ok(false)
    }
}
