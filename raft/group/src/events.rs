//! The way to the loop: events, and the replies to them.

use std::sync::mpsc;

use stillframe_server::consensus::{Event, Reply};
use stillframe_storage::wake::Wake;
use tokio::sync::oneshot;

use crate::error::Error;

/// The way to the loop.
#[derive(Clone)]
pub(crate) struct Events {
    sender: mpsc::Sender<Event>,
    wake: Wake,
}

impl Events {
    pub(crate) fn new(sender: mpsc::Sender<Event>, wake: Wake) -> Self {
        Self { sender, wake }
    }

    /// Sends an event. A loop that has ended hears nothing.
    pub(crate) fn send(&self, event: Event) {
        if self.sender.send(event).is_ok() {
            (self.wake)();
        }
    }

    /// Sends an event, and waits for its reply.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        event: impl FnOnce(Reply<T>) -> Event,
    ) -> Result<T, Error> {
        let (sender, reply) = oneshot::channel();
        self.send(event(Box::new(move |answer| {
            let _ = sender.send(answer);
        })));
        reply.await.map_err(|_| Error::ServerEnded)
    }

    /// Sends an event, and waits for the outcome of what it asks for.
    pub(crate) async fn ask_for<T: Send + 'static>(
        &self,
        event: impl FnOnce(Reply<Result<T, String>>) -> Event,
    ) -> Result<T, Error> {
        self.ask(event).await?.map_err(Error::Server)
    }
}
