//! The way to the loop: events, and the replies to them.

use std::sync::mpsc;

use stillframe_server::consensus::{Event, Reply};
use stillframe_storage::wake::Wake;
use tokio::sync::oneshot;

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
    ) -> Result<T, String> {
        let (sender, reply) = oneshot::channel();
        self.send(event(Box::new(move |answer| {
            let _ = sender.send(answer);
        })));
        reply.await.map_err(|_| "the server has ended".to_owned())
    }
}
