//! How the thread that takes an image says how it went, and hands back what it worked with.
//!
//! The outcome is told while the image is still held. An image is over when it is held no more:
//! only then may the next one begin. So whether it is held is asked *first*; else an outcome that
//! is told, and an image that is let go, between the two questions would be missed.

use std::sync::mpsc::{Receiver, Sender, channel};

use crate::net::Waker;

/// The side of the command thread: endings `O`, and tools `T` that come back for the next image.
pub(crate) struct Handback<O, T> {
    outcome: Option<O>,
    receiver: Receiver<(O, T)>,
    sender: Sender<(O, T)>,
    waker: Waker,
}

/// The side of the thread that takes the image.
pub(crate) struct Taker<O, T> {
    sender: Sender<(O, T)>,
    waker: Waker,
}

impl<O, T> Handback<O, T> {
    /// No image yet.
    pub(crate) fn new(waker: Waker) -> Self {
        let (sender, receiver) = channel();
        Self { outcome: None, receiver, sender, waker }
    }

    /// For the next image.
    pub(crate) fn taker(&self) -> Taker<O, T> {
        Taker { sender: self.sender.clone(), waker: self.waker.clone() }
    }

    /// Hears what was told, if anything was, and gives the tools to `keep`; whether the image is
    /// held.
    pub(crate) fn hear(&mut self, held: impl FnOnce() -> bool, keep: impl FnOnce(T)) -> bool {
        let held = held();
        if let Ok((outcome, tools)) = self.receiver.try_recv() {
            self.outcome = Some(outcome);
            keep(tools);
        }
        held
    }

    /// Whether an outcome was heard that nobody has taken: its image is about to end.
    pub(crate) fn has_outcome(&self) -> bool {
        self.outcome.is_some()
    }

    /// Takes the outcome. None: the image ended without a word.
    pub(crate) fn take(&mut self) -> Option<O> {
        self.outcome.take()
    }
}

impl<O, T> Taker<O, T> {
    /// The image has ended so. Nobody hears it if the server is stopping: then nobody needs to.
    pub(crate) fn tell(self, outcome: O, tools: T) {
        let _ = self.sender.send((outcome, tools));
        self.waker.wake();
    }
}
