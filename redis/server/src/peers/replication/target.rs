//! The sockets of replicas, as targets of an image.
//!
//! - This code runs on the snapshotter thread, in a forked child, or on a thread that sends a file.
//!   No other code of the server waits for a socket. The wait is never for ever: the command thread
//!   shuts the socket of a lost replica down, which ends the wait.
//! - One image goes to several replicas at once, as fast as the slowest takes it; a failed one is
//!   left out. Nothing is buffered beyond the encoder's buffer.
//! - Nothing here allocates, locks or logs after construction.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use stillframe::SinkError;
use stillframe_durability::disk::{Pace, Throttle};
use stillframe_rdb::Output;
use stillframe_storage::dump::{Destination, given_up};

use crate::connections::client::{FAILED, Sent};

/// One replica's socket.
pub(crate) struct Target {
    socket: OwnedFd,
    sent: Sent,
}

impl Target {
    /// A handle of a socket of its own, and the counter of progress.
    pub(crate) fn new(socket: OwnedFd, sent: Sent) -> Self {
        Self { socket, sent }
    }

    fn failed(&self) -> bool {
        self.sent.load(Ordering::Relaxed) == FAILED
    }

    /// Sends all of `bytes`, unless the replica fails.
    pub(crate) fn send(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.failed() {
            match send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(count) => {
                    bytes = &bytes[count..];
                    self.sent.fetch_add(count as u64, Ordering::Relaxed);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let mut events = [PollFd::new(&self.socket, PollFlags::OUT)];
                    if !matches!(poll(&mut events, None), Ok(_) | Err(Errno::INTR)) {
                        self.sent.store(FAILED, Ordering::Relaxed);
                    }
                }
                Err(_) => self.sent.store(FAILED, Ordering::Relaxed),
            }
        }
    }
}

/// The replicas that share one image.
pub(crate) struct Targets {
    targets: Vec<Target>,
    /// The first bytes for each: waiting replies, and the announcement of the image.
    greetings: Vec<Vec<u8>>,
    /// The mark behind the image.
    mark: [u8; 40],
    pace: Pace,
    written_bytes: u64,
}

impl Targets {
    /// Replicas, each with its first bytes.
    pub(crate) fn new(targets: Vec<(Target, Vec<u8>)>, mark: [u8; 40], throttle: Throttle) -> Self {
        let (targets, greetings) = targets.into_iter().unzip();
        let pace = Pace::new(Some(throttle));
        Self { targets, greetings, mark, pace, written_bytes: 0 }
    }
}

impl Output for Targets {
    type Error = SinkError;

    fn write(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        if self.written_bytes == 0 {
            for (target, greeting) in self.targets.iter().zip(&self.greetings) {
                target.send(greeting);
            }
        }
        self.targets.iter().for_each(|target| target.send(bytes));
        if self.targets.iter().all(Target::failed) {
            return Err(SinkError::new(format_args!("every replica has left")));
        }
        self.written_bytes += bytes.len() as u64;
        self.pace.keep(self.written_bytes).map_err(|_| given_up())
    }
}

impl Destination for Targets {
    fn finish(&mut self) -> Result<(), SinkError> {
        let mark = self.mark;
        self.write(&mark)
    }
}
