//! The image of a member on a disk without a time of its own: it takes a time by the clock of the
//! loop, and its thread none.
//!
//! - The thread takes all of the image before the loop goes on, and waits for the label then.
//! - When the time is over and the label is known, the loop hands it on, and waits for the end.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use stillframe_keyspace::Keyspace;
use stillframe_storage::dump::Label;

/// An image takes as long as so many syncs.
const SYNCS: u32 = 8;
/// How long the thread is left alone.
const LOOK: Duration = Duration::from_micros(50);

/// See the head of this file.
pub(super) struct Paced {
    label: Receiver<Vec<u8>>,
    /// Takes the label to the thread.
    gate: Sender<Vec<u8>>,
    /// The thread has taken all; or it has ended, and there is no sender.
    captured: Receiver<()>,
    until: Instant,
    /// The label, if it is known already.
    known: Option<Vec<u8>>,
}

/// The label as the thread of an image gets it.
pub(super) fn label(
    label: Receiver<Vec<u8>>,
    sync_time: Option<Duration>,
    now: Instant,
) -> (Label, Option<Paced>) {
    let Some(time) = sync_time else { return (Box::new(move || label.recv().ok()), None) };
    let ((gate, opened), (captures, captured)) = (channel(), channel());
    let wait: Label = Box::new(move || {
        let _ = captures.send(()); // the loop has ended
        opened.recv().ok()
    });
    let until = now + time * SYNCS;
    (wait, Some(Paced { label, gate, captured, until, known: None }))
}

impl Paced {
    /// Waits until the thread has taken all. False if it has failed.
    pub(super) fn await_capture(&self, keyspace: &mut Keyspace) -> bool {
        loop {
            match self.captured.try_recv() {
                Ok(()) => return true,
                Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => {
                    let _ = keyspace.tend();
                    std::thread::sleep(LOOK);
                }
            }
        }
    }

    /// Whether the thread goes on to the end now.
    pub(super) fn has_ended(&mut self, now: Instant) -> bool {
        match self.label.try_recv() {
            Ok(label) => self.known = Some(label),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) if self.known.is_none() => return true,
            Err(TryRecvError::Disconnected) => {}
        }
        let Some(label) = self.known.take_if(|_| now >= self.until) else { return false };
        let _ = self.gate.send(label); // the thread was given up
        true
    }
}
