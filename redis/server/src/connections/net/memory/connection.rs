//! The end of a connection that the embedding program holds.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::BorrowedFd;
use std::process;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::porch::{Pipe, Readiness};
use super::queue::{Queue, Taken, Wanted};

/// A connection to a server in this process: a stream of requests and replies as over TCP.
///
/// - A read waits for bytes and a write for room, no longer than the time set; then the error is
///   [`TimedOut`](ErrorKind::TimedOut). 0 bytes read are the end: the server has closed it.
/// - One thread may read while another writes, as with a socket. Dropping it closes it.
/// - A process forked from the server's gets an error: the server is not there.
pub struct Connection {
    pipe: Arc<Pipe>,
    read_timeout: Mutex<Option<Duration>>,
    write_timeout: Mutex<Option<Duration>>,
    process: u32,
}

impl Connection {
    pub(crate) fn new(pipe: Arc<Pipe>) -> Self {
        let (read_timeout, write_timeout) = (Mutex::new(None), Mutex::new(None));
        Self { pipe, read_timeout, write_timeout, process: process::id() }
    }

    /// How long a read waits; `None`: for ever.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) {
        *self.read_timeout.lock().unwrap_or_else(PoisonError::into_inner) = timeout;
    }

    /// How long a write waits; `None`: for ever.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) {
        *self.write_timeout.lock().unwrap_or_else(PoisonError::into_inner) = timeout;
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if nothing is; then [`event_fd`](Self::event_fd) is
    /// readable once something may be.
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        self.try_take(|replies| replies.take(into))
    }

    /// Reads what is there into the spare room of a buffer.
    pub(crate) fn try_read_behind(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        self.try_take(|replies| replies.take_behind(into))
    }

    /// As [`try_read_behind`](Self::try_read_behind), and waits as a read does.
    pub(crate) fn read_behind(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        self.until_done(Wanted::Bytes, || self.try_read_behind(into))
    }

    /// Reads what is there, and leaves it for the next read.
    ///
    /// # Errors
    /// As for [`try_read`](Self::try_read).
    pub fn try_peek(&self, into: &mut [u8]) -> io::Result<usize> {
        self.look(|replies| replies.peek(into))
    }

    /// Looks at the replies if there are any. No lock is taken in a child, where nobody gives back
    /// one that was held at the fork.
    fn look<T>(&self, look: impl FnOnce(&Queue) -> Option<T>) -> io::Result<T> {
        let replies = &self.pipe.replies;
        if !replies.is_ready() {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.check_process()?;
        look(replies).ok_or_else(|| ErrorKind::WouldBlock.into())
    }

    fn try_take(&self, take: impl FnOnce(&Queue) -> Option<Taken>) -> io::Result<usize> {
        let taken = self.look(take)?;
        self.pipe.notify();
        if taken.gives_room {
            self.pipe.porch.notify(&self.pipe, Readiness::WRITABLE);
        }
        Ok(taken.bytes)
    }

    /// Writes what there is room for.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if there is no room, as for
    /// [`try_read`](Self::try_read); [`BrokenPipe`](ErrorKind::BrokenPipe) if the server has closed
    /// the connection.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let written = self.put(bytes);
        let is_blocked = matches!(&written, Err(error) if error.kind() == ErrorKind::WouldBlock);
        if self.pipe.wants_room.swap(is_blocked, Ordering::SeqCst) || is_blocked {
            self.pipe.notify();
        }
        written
    }

    fn put(&self, bytes: &[u8]) -> io::Result<usize> {
        self.check_process()?;
        match self.pipe.requests.put([bytes]) {
            None => Err(ErrorKind::BrokenPipe.into()),
            Some(0) => Err(ErrorKind::WouldBlock.into()),
            Some(written) => {
                self.pipe.porch.notify(&self.pipe, Readiness::READABLE);
                Ok(written)
            }
        }
    }

    /// A descriptor that is readable while there are bytes or the end for
    /// [`try_read`](Self::try_read), as that of a socket, and once there is room again after
    /// [`try_write`](Self::try_write) found none. For loops that wait for descriptors; do not read
    /// from it.
    ///
    /// # Errors
    /// The system's: no descriptor is left. Or the process was forked from the server's.
    pub fn event_fd(&self) -> io::Result<BorrowedFd<'_>> {
        self.check_process()?;
        let descriptor = self.pipe.notice.descriptor()?;
        self.pipe.notify();
        Ok(descriptor)
    }

    /// Sends no more; replies to what was sent still come.
    pub fn end_requests(&self) {
        if self.check_process().is_err() {
            return; // a lock of the pipe may have been held at the fork, and is held for ever here
        }
        self.pipe.requests.end();
        self.pipe.porch.notify(&self.pipe, Readiness::ENDED);
    }

    fn check_process(&self) -> io::Result<()> {
        if process::id() == self.process { Ok(()) } else { Err(forked()) }
    }

    /// Attempts it until it need not wait.
    fn until_done(
        &self,
        wanted: Wanted,
        mut attempt: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            match attempt() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(wanted)?,
                done => return done,
            }
        }
    }

    fn wait(&self, wanted: Wanted) -> io::Result<()> {
        self.check_process()?;
        let Pipe { requests, replies, porch, .. } = &*self.pipe;
        let (queue, timeout) = match wanted {
            Wanted::Bytes => (replies, &self.read_timeout),
            Wanted::Room => (requests, &self.write_timeout),
        };
        if wanted == Wanted::Bytes && porch.spin(|| replies.is_ready()) {
            return Ok(());
        }
        let timeout = *timeout.lock().unwrap_or_else(PoisonError::into_inner);
        // A time beyond the clock is for ever.
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        if queue.wait(wanted, until) { Ok(()) } else { Err(ErrorKind::TimedOut.into()) }
    }
}

/// The error of a child process.
pub(crate) fn forked() -> io::Error {
    io::Error::other(
        "this process was forked from that of the server, and the server is not in it: start one \
         here, or connect to its port or unix socket",
    )
}

impl Read for &Connection {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.until_done(Wanted::Bytes, || self.try_read(into))
    }
}

impl Write for &Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        self.until_done(Wanted::Room, || self.put(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Connection {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            return; // nobody holds the locks of its copy, or nobody lets go of them
        }
        self.pipe.replies.close();
        self.end_requests();
    }
}
