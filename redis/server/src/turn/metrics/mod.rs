//! Figures at a port of its own: `GET /metrics` for Prometheus, and `GET /`, a page for people,
//! whose script asks for them each second.
//!
//! - A scrape wakes the command thread, which only copies numbers; the thread of the connection
//!   formats the text.
//! - A request is one line and some headers within [`REQUEST_BYTES_MAX`] and [`REQUEST_TIME_MAX`];
//!   bodies are not read. At most [`CONNECTIONS_MAX`] are served at once, others are refused.

mod http;
mod text;

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use crate::ServeError;
use crate::commands::figures::Family;
use crate::connections::net::Waker;

/// Connections served at once.
const CONNECTIONS_MAX: usize = 8;
/// Longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Longest time for a request to arrive.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);
/// Longest wait for the command thread.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// A request for the figures.
type Question = SyncSender<Vec<Family>>;

/// The command thread's end.
#[derive(Default)]
pub(crate) struct Metrics(Option<Receiver<Question>>);

/// The state that each connection needs.
struct Service {
    questions: Sender<Question>,
    waker: Waker,
    busy: AtomicUsize,
}

/// Binds the port of the figures.
pub(crate) fn bind(address: IpAddr, port: u16) -> Result<TcpListener, ServeError> {
    let address = SocketAddr::from((address, port));
    TcpListener::bind(address)
        .map_err(|error| ServeError::Metrics { address: address.to_string(), error })
}

/// Starts serving the figures.
pub(crate) fn serve(listener: TcpListener, waker: Waker) -> std::io::Result<Metrics> {
    let (sender, receiver) = channel();
    let service = Arc::new(Service { questions: sender, waker, busy: AtomicUsize::new(0) });
    let accept = move || {
        loop {
            match listener.accept() {
                Ok((stream, _)) => Service::attend(&service, stream),
                // Descriptors or memory are short, but not for ever.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    };
    std::thread::Builder::new().name("metrics".to_owned()).spawn(accept)?;
    Ok(Metrics(Some(receiver)))
}

impl Service {
    /// Serves one connection beside others.
    fn attend(service: &Arc<Self>, stream: TcpStream) {
        if service.busy.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            service.busy.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let own = Arc::clone(service);
        let converse = move || {
            // Only the peer has failed.
            let _ = http::converse(&stream, || own.ask());
            own.busy.fetch_sub(1, Ordering::Relaxed);
        };
        let builder = std::thread::Builder::new().name("metrics-client".to_owned());
        if builder.spawn(converse).is_err() {
            service.busy.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The figures as text, unless the command thread is busy.
    fn ask(&self) -> Option<String> {
        let (sender, receiver) = sync_channel(1);
        self.questions.send(sender).ok()?;
        self.waker.wake();
        receiver.recv_timeout(ANSWER_TIME_MAX).ok().map(|found| text::write(&found))
    }
}

impl Metrics {
    /// Sends the figures to all who asked.
    pub(crate) fn answer(&self, copy: impl Fn() -> Vec<Family>) {
        let Some(questions) = &self.0 else { return };
        while let Ok(question) = questions.try_recv() {
            // A connection that has gone needs no answer.
            let _ = question.try_send(copy());
        }
    }
}
