//! The end of a connection that the embedding program holds.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::BorrowedFd;
use std::process;
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

    fn try_take(&self, mut take: impl FnMut(&Queue) -> Option<Taken>) -> io::Result<usize> {
        let mut taken = take(&self.pipe.replies);
        if taken.is_none() {
            self.pipe.notice.clear();
            taken = take(&self.pipe.replies);
        }
        let taken = taken.ok_or(ErrorKind::WouldBlock)?;
        if taken.gives_room {
            self.pipe.porch.tell(&self.pipe, Readiness::WRITABLE);
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
        self.check_process()?;
        let mut written = self.put(bytes)?;
        if written == 0 {
            self.pipe.notice.clear();
            written = self.put(bytes)?;
        }
        if written == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(written) }
    }

    fn put(&self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.pipe.requests.put([bytes]).ok_or(ErrorKind::BrokenPipe)?;
        if written > 0 {
            self.pipe.porch.tell(&self.pipe, Readiness::READABLE);
        }
        Ok(written)
    }

    /// A descriptor that is readable while the connection may have bytes, room or its end for
    /// [`try_read`](Self::try_read) and [`try_write`](Self::try_write), for loops that wait for
    /// descriptors. Do not read from it.
    ///
    /// # Errors
    /// The system's: no descriptor is left.
    pub fn event_fd(&self) -> io::Result<BorrowedFd<'_>> {
        self.pipe.notice.descriptor()
    }

    /// Sends no more; replies to what was sent still come.
    pub fn end_requests(&self) {
        if self.check_process().is_err() {
            return; // a lock of the pipe may have been held at the fork, and is held for ever here
        }
        self.pipe.requests.end();
        self.pipe.porch.tell(&self.pipe, Readiness::ENDED);
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
        self.until_done(Wanted::Room, || self.try_write(bytes))
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
