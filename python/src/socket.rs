//! A connection with the methods of Python's sockets, for client libraries.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBlockingIOError, PyOSError, PyTimeoutError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use stillframe_server::Connection;

use crate::view::{SLICE, seconds};

/// Bytes that one read gives at most.
const READ_BYTES_MAX: usize = 64 << 10;

/// Python's `socket.MSG_PEEK`: look, and leave what is there.
const MSG_PEEK: u32 = 2;

/// A stream to a server in this process.
#[pyclass(frozen, weakref, module = "stillframe._stillframe")]
pub(crate) struct Socket {
    connection: Connection,
    /// How long a read or write waits; `None`: for ever.
    timeout: Mutex<Option<Duration>>,
    is_closed: AtomicBool,
    /// What reads are made into.
    buffer: Mutex<Vec<u8>>,
}

impl Socket {
    pub(crate) fn new(connection: Connection) -> Self {
        connection.set_read_timeout(Some(SLICE));
        connection.set_write_timeout(Some(SLICE));
        Self {
            connection,
            timeout: Mutex::new(None),
            is_closed: AtomicBool::new(false),
            buffer: Mutex::default(),
        }
    }

    fn timeout(&self) -> Option<Duration> {
        *self.timeout.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does it until it is done, it takes too long, or a signal raises.
    fn wait<T: Send>(
        &self,
        py: Python<'_>,
        at_once: impl Fn() -> std::io::Result<T>,
        later: impl Fn() -> std::io::Result<T> + Sync,
    ) -> PyResult<T> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(PyOSError::new_err("the connection is closed"));
        }
        let limit = self.timeout();
        if limit == Some(Duration::ZERO) {
            return at_once().map_err(|error| not_now(&error));
        }
        let started = Instant::now();
        loop {
            match py.detach(&later) {
                Err(error) if error.kind() == ErrorKind::TimedOut => py.check_signals()?,
                Err(error) => return Err(failed(&error)),
                Ok(done) => return Ok(done),
            }
            if limit.is_some_and(|limit| started.elapsed() >= limit) {
                return Err(PyTimeoutError::new_err("timed out"));
            }
            if self.is_closed.load(Ordering::Relaxed) {
                return Err(PyOSError::new_err("the connection was closed meanwhile"));
            }
        }
    }

    fn read(
        &self,
        py: Python<'_>,
        len: usize,
    ) -> PyResult<(usize, std::sync::MutexGuard<'_, Vec<u8>>)> {
        // One thread reads; another one would wait here for as long.
        let len = len.min(READ_BYTES_MAX);
        let once = || {
            let mut buffer = self.lock_buffer(len);
            self.connection.try_read(&mut buffer[..len])
        };
        let later = || {
            let mut buffer = self.lock_buffer(len);
            (&self.connection).read(&mut buffer[..len])
        };
        let count = self.wait(py, once, later)?;
        Ok((count, self.lock_buffer(len)))
    }

    fn lock_buffer(&self, len: usize) -> std::sync::MutexGuard<'_, Vec<u8>> {
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        buffer
    }
}

/// The error of a call that does not wait.
fn not_now(error: &std::io::Error) -> PyErr {
    match error.kind() {
        ErrorKind::WouldBlock => PyBlockingIOError::new_err((
            rustix::io::Errno::AGAIN.raw_os_error(),
            "nothing is there",
        )),
        _ => failed(error),
    }
}

fn failed(error: &std::io::Error) -> PyErr {
    PyOSError::new_err(error.to_string())
}

#[pymethods]
impl Socket {
    /// Bytes, as many as are there up to `len`; none at the end.
    #[pyo3(signature = (len, flags=0))]
    fn recv<'py>(&self, py: Python<'py>, len: usize, flags: u32) -> PyResult<Bound<'py, PyBytes>> {
        if flags & MSG_PEEK != 0 {
            let mut bytes = vec![0; len.min(READ_BYTES_MAX)];
            let count = self.connection.try_peek(&mut bytes).map_err(|error| not_now(&error))?;
            return Ok(PyBytes::new(py, &bytes[..count]));
        }
        let (count, buffer) = self.read(py, len)?;
        Ok(PyBytes::new(py, &buffer[..count]))
    }

    /// The same, into a buffer.
    #[pyo3(signature = (into, len=0, flags=0))]
    fn recv_into(
        &self,
        py: Python<'_>,
        into: PyBuffer<u8>,
        len: usize,
        flags: u32,
    ) -> PyResult<usize> {
        let room = into.item_count();
        let bytes = self.recv(py, if len == 0 { room } else { len.min(room) }, flags)?;
        let bytes = bytes.as_bytes();
        let Some(place) = into.as_slice_ptr().filter(|_| !into.readonly()) else {
            return Err(PyOSError::new_err("no memory in one piece to write to"));
        };
        // SAFETY: the buffer is held, writable and contiguous, and has room for what was asked for;
        // its memory is not that of `bytes`, which was made here.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.as_ptr().cast(), bytes.len())
        };
        Ok(bytes.len())
    }

    /// Sends all bytes.
    fn sendall(&self, py: Python<'_>, bytes: &Bound<'_, PyAny>) -> PyResult<()> {
        let copy;
        let bytes = match bytes.cast::<PyBytes>() {
            Ok(bytes) => bytes.as_bytes(),
            Err(_) => {
                copy = PyBuffer::<u8>::get(bytes)?.to_vec(py)?;
                &copy[..]
            }
        };
        let mut sent = 0;
        while sent < bytes.len() {
            let rest = &bytes[sent..];
            let now = || self.connection.try_write(rest);
            sent += self.wait(py, now, || (&self.connection).write(rest))?;
        }
        Ok(())
    }

    /// Sends what there is room for, and says how much that was.
    fn send(&self, py: Python<'_>, bytes: PyBuffer<u8>) -> PyResult<usize> {
        let bytes = bytes.to_vec(py)?;
        self.wait(py, || self.connection.try_write(&bytes), || (&self.connection).write(&bytes))
    }

    /// Seconds that a read or write waits; `None`: for ever; 0: not at all.
    fn settimeout(&self, timeout: Option<f64>) -> PyResult<()> {
        let limit = timeout.map(seconds).transpose()?;
        // Short limits are kept by the connection itself.
        let slice = limit.map_or(SLICE, |limit| limit.min(SLICE));
        self.connection.set_read_timeout(Some(slice));
        self.connection.set_write_timeout(Some(slice));
        *self.timeout.lock().unwrap_or_else(PoisonError::into_inner) = limit;
        Ok(())
    }

    /// What was set.
    fn gettimeout(&self) -> Option<f64> {
        self.timeout().map(|timeout| timeout.as_secs_f64())
    }

    /// A descriptor that is readable as that of a socket: a read that may wait will not. One whose
    /// writes do not wait is told there of room, too.
    fn fileno(&self) -> PyResult<i32> {
        match self.connection.event_fd() {
            Ok(descriptor) => Ok(descriptor.as_raw_fd()),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Sends no more.
    #[pyo3(signature = (_how=2))]
    fn shutdown(&self, _how: i32) {
        self.connection.end_requests();
    }

    /// Ends it: a read that waits ends too.
    fn close(&self) {
        if !self.is_closed.swap(true, Ordering::Relaxed) {
            self.connection.end_requests();
        }
    }
}
