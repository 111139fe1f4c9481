//! The thread that drops what would delay the writer: batches of entries, long values, indexes.
//!
//! The thread starts when first needed and runs at low priority. If the system gives none, garbage
//! is dropped where it arises: slower, never wrong.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

type Garbage = (Box<dyn Any + Send>, usize);

/// Drops garbage on its own thread. Dropping the reclaimer waits until all is dropped.
#[derive(Default)]
pub(crate) struct Reclaimer {
    worker: Worker,
    /// Bytes handed over and not dropped yet. A count for reports and for back-pressure: it orders
    /// nothing, so it is relaxed.
    pending: Arc<AtomicUsize>,
}

#[derive(Default)]
enum Worker {
    #[default]
    NotStarted,
    Refused,
    Started(Sender<Garbage>, JoinHandle<()>),
}

impl Reclaimer {
    /// Bytes handed over and not dropped yet.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// Drops `garbage` of about `bytes` bytes, soon and elsewhere.
    pub(crate) fn drop_later(&mut self, garbage: impl Send + 'static, bytes: usize) {
        if matches!(self.worker, Worker::NotStarted) {
            self.worker = start(Arc::clone(&self.pending));
        }
        if let Worker::Started(sender, _) = &self.worker {
            self.pending.fetch_add(bytes, Ordering::Relaxed);
            // The thread ends only after this sender is gone; were it gone, `send` would give the
            // garbage back to be dropped here.
            let _ = sender.send((Box::new(garbage), bytes));
        }
    }
}

fn start(pending: Arc<AtomicUsize>) -> Worker {
    let (sender, receiver): (_, Receiver<Garbage>) = channel();
    let spawned = Builder::new().name("reclaimer".into()).spawn(move || {
        stillframe::os::lower_priority();
        for (garbage, bytes) in receiver {
            drop(garbage);
            pending.fetch_sub(bytes, Ordering::Relaxed);
        }
    });
    spawned.map_or(Worker::Refused, |thread| Worker::Started(sender, thread))
}

impl Drop for Reclaimer {
    fn drop(&mut self) {
        if let Worker::Started(sender, thread) = std::mem::take(&mut self.worker) {
            drop(sender);
            let _ = thread.join(); // dropping plain data does not panic
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_dropped_before_the_reclaimer() {
        let witness = Arc::new(());
        let mut reclaimer = Reclaimer::default();
        for _ in 0..10 {
            reclaimer.drop_later(vec![Arc::clone(&witness); 5], 40);
        }
        drop(reclaimer);
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}
