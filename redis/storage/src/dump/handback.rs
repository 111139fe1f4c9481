//! How the thread that takes an image reports the outcome and hands back its tools.
//!
//! The end is reported while the image is still held. An image is over when it is no longer held:
//! only then may the next one begin. So the command thread checks *first* whether it is held;
//! otherwise it would miss an end reported, and an image released, between the two checks.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::wake::Wake;

/// The side of the command thread: ends `E`, and tools `T` that come back for the next image.
pub struct Handback<E, T> {
    end: Option<E>,
    receiver: Receiver<(E, T)>,
    sender: Sender<(E, T)>,
    wake: Wake,
}

/// The side of the thread that takes the image.
pub struct Taker<E, T> {
    sender: Sender<(E, T)>,
    wake: Wake,
}

impl<E, T> Handback<E, T> {
    /// No image yet.
    pub fn new(wake: Wake) -> Self {
        let (sender, receiver) = channel();
        Self { end: None, receiver, sender, wake }
    }

    /// For the next image.
    pub fn taker(&self) -> Taker<E, T> {
        Taker { sender: self.sender.clone(), wake: Arc::clone(&self.wake) }
    }

    /// Receives the outcome, if any, and gives the tools to `keep`; returns whether the image is
    /// held.
    pub fn poll(&mut self, held: impl FnOnce() -> bool, keep: impl FnOnce(T)) -> bool {
        let held = held();
        if let Ok((end, tools)) = self.receiver.try_recv() {
            self.end = Some(end);
            keep(tools);
        }
        held
    }

    /// Whether an end was received and not taken: its image is about to end.
    pub fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Takes the end. None: the image ended without a report.
    pub fn take(&mut self) -> Option<E> {
        self.end.take()
    }
}

impl<E, T> Taker<E, T> {
    /// Reports the outcome. A server that is stopping does not receive it, and need not.
    pub fn report(self, end: E, tools: T) {
        let _ = self.sender.send((end, tools));
        (self.wake)();
    }
}
