//! Requests without a client library: arguments are encoded and replies decoded here.

use std::io::ErrorKind;
use std::sync::{Mutex, MutexGuard, TryLockError};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple};
use stillframe_resp::Reply;
use stillframe_server::{Client, ClientError, Handle};

use crate::errors::{CommandError, Error, refuse_fork};
use crate::own::Own;
use crate::reply::{error, to_python};
use crate::view::SLICE;

/// A client on a connection of its own.
#[pyclass(frozen, module = "stillframe._stillframe")]
pub(crate) struct Direct {
    /// `None` after a failure; the next request connects anew.
    client: Own<Mutex<Option<Client>>>,
    handle: Handle,
    decode: bool,
}

impl Direct {
    pub(crate) fn new(handle: Handle, decode: bool) -> PyResult<Self> {
        let client = Some(connect(&handle)?);
        Ok(Self { client: Own::new(Mutex::new(client)), handle, decode })
    }
}

fn connect(handle: &Handle) -> PyResult<Client> {
    let client = handle.client().map_err(|error| refuse_fork(&error))?;
    client.connection().set_read_timeout(Some(SLICE));
    Ok(client)
}

#[pymethods]
impl Direct {
    /// Sends a request and returns its reply; one that is an error is raised.
    #[pyo3(signature = (*args))]
    fn execute<'py>(&self, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let request = encode(args)?;
        self.with(py, |client| {
            client.send(request.args());
            receive(py, client, self.decode, true)
        })
    }

    /// Sends requests together and returns their replies. The first that is an error is raised
    /// once all have come, unless `errors` is to have them as values.
    fn pipeline<'py>(
        &self,
        py: Python<'py>,
        requests: Vec<Bound<'py, PyTuple>>,
        errors: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let encoded: PyResult<Vec<_>> = requests.iter().map(encode).collect();
        let encoded = encoded?;
        let replies = self.with(py, |client| {
            for request in &encoded {
                client.send(request.args());
            }
            let replies = encoded.iter().map(|_| receive(py, client, self.decode, false));
            replies.collect::<PyResult<Vec<_>>>()
        })?;
        let is_error = |reply: &&Bound<'py, PyAny>| reply.is_instance_of::<Error>();
        if !errors && let Some(error) = replies.iter().find(is_error) {
            return Err(PyErr::from_value(error.clone()));
        }
        PyList::new(py, replies)
    }

    /// Closes the connection; the next request opens another.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        *self.lock(py)? = None;
        Ok(())
    }
}

impl Direct {
    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Option<Client>>> {
        let client = self.client.get()?;
        Ok(match client.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                client.lock_py_attached(py).unwrap_or_else(|poisoned| poisoned.into_inner())
            }
        })
    }

    /// Work on the client, which is given up if a reply may be missing afterwards.
    fn with<'py, R>(
        &self,
        py: Python<'py>,
        work: impl FnOnce(&mut Client) -> PyResult<R>,
    ) -> PyResult<R> {
        let mut slot = self.lock(py)?;
        let mut client = match slot.take() {
            Some(client) => client,
            None => connect(&self.handle)?,
        };
        let done = work(&mut client);
        if done.as_ref().err().is_none_or(|error| error.is_instance_of::<CommandError>(py)) {
            *slot = Some(client);
        }
        done
    }
}

/// What came of a wait for a reply.
enum Received {
    Reply(PyResult<Py<PyAny>>),
    /// A message that answers no request.
    Push,
}

/// Waits for a reply, detached, and lets signals through.
fn receive<'py>(
    py: Python<'py>,
    client: &mut Client,
    decode: bool,
    raise: bool,
) -> PyResult<Bound<'py, PyAny>> {
    loop {
        let received = py.detach(|| {
            client.receive(|reply| match reply {
                Reply::Push(_) => Received::Push,
                Reply::Error(text) if raise => Received::Reply(Err(error(text))),
                reply => Received::Reply(Python::attach(|py| {
                    to_python(py, &reply, decode).map(Bound::unbind)
                })),
            })
        });
        match received {
            Ok(Received::Reply(reply)) => return reply.map(|reply| reply.into_bound(py)),
            Ok(Received::Push) => {}
            Err(ClientError::Connection(error)) if error.kind() == ErrorKind::TimedOut => {
                py.check_signals()?;
            }
            Err(ClientError::Connection(error)) => return Err(lost(&error)),
            Err(error) => return Err(Error::new_err(error.to_string())),
        }
    }
}

fn lost(error: &std::io::Error) -> PyErr {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe => {
            pyo3::exceptions::PyConnectionError::new_err("the server has closed the connection")
        }
        _ => refuse_fork(error),
    }
}

/// The arguments of a request, one behind the other.
#[derive(Default)]
struct Request {
    bytes: Vec<u8>,
    /// The end of each.
    ends: Vec<usize>,
}

impl Request {
    fn args(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        (0..self.ends.len()).map(|number| {
            let start = if number == 0 { 0 } else { self.ends[number - 1] };
            &self.bytes[start..self.ends[number]]
        })
    }

    /// Adds a text, bytes or a number.
    fn push(&mut self, arg: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(text) = arg.cast::<PyString>() {
            self.bytes.extend_from_slice(text.to_str()?.as_bytes());
        } else if let Ok(bytes) = arg.cast::<PyBytes>() {
            self.bytes.extend_from_slice(bytes.as_bytes());
        } else if arg.is_instance_of::<PyBool>() {
            return Err(PyTypeError::new_err("a bool is no argument; give a number or a text"));
        } else if arg.is_exact_instance_of::<PyInt>() || arg.is_exact_instance_of::<PyFloat>() {
            self.bytes.extend_from_slice(arg.repr()?.to_str()?.as_bytes());
        } else if let Some(number) = plain_number(arg) {
            self.bytes.extend_from_slice(number.repr()?.to_str()?.as_bytes());
        } else if let Ok(buffer) = PyBuffer::<u8>::get(arg) {
            self.bytes.extend_from_slice(&buffer.to_vec(arg.py())?);
        } else {
            let kind = arg.get_type();
            return Err(PyTypeError::new_err(format!(
                "an argument is a text, bytes or a number, not {}",
                kind.name()?
            )));
        }
        self.ends.push(self.bytes.len());
        Ok(())
    }
}

/// The number that a member of an enumeration or a scalar of numpy stands for; their own texts have
/// more in them.
fn plain_number<'py>(arg: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    if let Ok(float) = arg.cast::<PyFloat>() {
        return Some(PyFloat::new(arg.py(), float.value()).into_any());
    }
    let index = arg.call_method0("__index__").ok()?;
    index.is_exact_instance_of::<PyInt>().then_some(index)
}

fn encode(args: &Bound<'_, PyTuple>) -> PyResult<Request> {
    let mut request = Request::default();
    for arg in args.iter_borrowed() {
        request.push(&arg)?;
    }
    if request.ends.is_empty() {
        return Err(PyValueError::new_err("a request has a name at least"));
    }
    Client::check_reply(request.args()).map_err(|error| {
        PyValueError::new_err(format!("{error}; use it through client() or connect()"))
    })?;
    Ok(request)
}
