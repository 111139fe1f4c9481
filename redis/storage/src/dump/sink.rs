//! The sink of an image's entries: RDB bytes into an open file, or open sockets.
//!
//! - Runs on the snapshotter thread or in a forked child: nothing here allocates, locks or logs
//!   after construction.
//! - [`Counters`] hold what the other side must see meanwhile, shared with a forked child. All else
//!   that a child changes stays in the child: the parent publishes the file without it.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stillframe::{MemoryError, Shared, SinkError};
use stillframe_keyspace::{Entry, EntrySink, Usage};
use stillframe_rdb::{Encoder, Head, Output, Uses, Value};

use stillframe_commands::values;

use super::sharing::CLASS_FIELD;

/// The aux field behind the last entry: by which name a group knows the state.
pub(super) const LABEL_FIELD: &[u8] = b"raft-label";

/// Progress of one save.
#[derive(Debug, Clone)]
pub struct Counters {
    /// Keys encoded.
    pub keys: Shared<AtomicU64>,
    /// Bytes written.
    pub bytes: Shared<AtomicU64>,
}

impl Counters {
    /// Counters at zero.
    pub fn new() -> Result<Self, MemoryError> {
        let count = || Shared::new(AtomicU64::new(0));
        Ok(Self { keys: count()?, bytes: count()? })
    }

    /// Begins again, for the next save.
    pub fn reset(&self) {
        self.keys.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }
}

/// `rdb-key-save-delay`: a pause after each key, so that tests can observe a save under way. The
/// writer of the image, perhaps a forked child, sees changes.
#[derive(Debug, Clone)]
pub struct Drag(Shared<AtomicI32>);

impl Drag {
    /// No pause.
    pub fn new() -> Result<Self, MemoryError> {
        Shared::new(AtomicI32::new(0)).map(Self)
    }

    /// Sets the pause to so many microseconds; if negative, one once in so many times.
    pub fn set(&self, delay_us: i32) {
        self.0.store(delay_us, Ordering::Relaxed);
    }

    /// Pauses, after so many keys. A pause ends early when the setting is withdrawn.
    fn pause(&self, keys: u64) {
        const LOOK: Duration = Duration::from_millis(10);
        let delay_us = match self.0.load(Ordering::Relaxed) {
            0 => return,
            delay_us @ 1.. => delay_us.unsigned_abs(),
            often if keys.is_multiple_of(often.unsigned_abs().into()) => 1,
            _ => return,
        };
        let end = Instant::now() + Duration::from_micros(delay_us.into());
        while self.0.load(Ordering::Relaxed) != 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(LOOK));
        }
    }
}

/// A target of RDB bytes.
pub trait Destination: Output<Error = SinkError> + Send {
    /// After the last byte: writes the buffered rest.
    fn finish(&mut self) -> Result<(), SinkError>;
}

/// Returns the label of an image, once it is known; `None` if it never will be. It may wait.
pub type Label = Box<dyn FnOnce() -> Option<Vec<u8>> + Send>;

/// Encodes the entries of one image.
pub struct RdbSink<O> {
    /// The encoder, its header written.
    pub encoder: Encoder<O>,
    counters: Counters,
    drag: Option<Drag>,
    keys: u64,
    class: u8,
    tells_uses: bool,
    label: Option<Label>,
}

impl<O: Destination> RdbSink<O> {
    /// A sink in front of an encoder whose header is written.
    pub fn new(encoder: Encoder<O>, counters: Counters) -> Self {
        let (drag, label) = (None, None);
        Self { encoder, counters, drag, keys: 0, class: 0, tells_uses: false, label }
    }

    /// With pauses.
    pub fn dragged(self, drag: Drag) -> Self {
        Self { drag: Some(drag), ..self }
    }

    /// Whether to write how each key was used, for a server that evicts by that.
    pub fn telling_uses(self, tells_uses: bool) -> Self {
        Self { tells_uses, ..self }
    }
}

impl<O: Destination> RdbSink<O> {
    /// With a label behind the last entry. Not for an image in another process: the label may have
    /// to be waited for.
    pub fn labelled(self, label: Option<Label>) -> Self {
        Self { label, ..self }
    }

    fn add_label(&mut self) -> Result<(), SinkError> {
        let Some(label) = self.label.take() else { return Ok(()) };
        let lost = || SinkError::new(format_args!("the group did not agree to what is in it"));
        let label = label().ok_or_else(lost)?;
        self.encoder.aux(LABEL_FIELD, Value::Bytes(&label))
    }
}

impl<O: Destination> EntrySink for RdbSink<O> {
    fn entry(&mut self, db: usize, entry: &Entry) -> Result<(), SinkError> {
        let (db, key, expire_at_ms) = (db as u64, entry.key(), entry.expire_at());
        let head = Head::Key { db, key, expire_at_ms };
        if !values::encode(&mut self.encoder, head, entry.value())? {
            return Err(SinkError::new(format_args!("a value has no head in a dump file")));
        }
        self.keys += 1;
        self.counters.keys.store(self.keys, Ordering::Relaxed);
        if let Some(drag) = &self.drag {
            drag.pause(self.keys);
        }
        Ok(())
    }

    fn used_entry(&mut self, db: usize, entry: &Entry, usage: Usage) -> Result<(), SinkError> {
        if self.tells_uses {
            self.encoder.set_uses(match usage {
                Usage::IdleMs(ms) => Uses::IdleSeconds(ms / 1000),
                Usage::Frequency(count) => Uses::Frequency(count),
            });
        }
        self.entry(db, entry)
    }

    fn class(&mut self, class: u8) -> Result<(), SinkError> {
        if class == self.class {
            return Ok(());
        }
        self.class = class;
        self.encoder.aux(CLASS_FIELD, Value::Int(class.into()))
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.add_label()?;
        self.encoder.finish()?;
        self.encoder.output_mut().finish()
    }
}
