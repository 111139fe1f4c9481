//! The server in this process: start, requests with their replies, stop.

use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use stillframe_server::{
    Client, ClientError, Config, Embedded, Handle, LogLevel, OnLog, ServeError,
};
use stillframe_storage::StorageError;

use crate::door::door;
use crate::error::{Failure, sf_code, sf_error};
use crate::memory;
use crate::reply::{root_of, sf_reply};
use crate::table::{Exclusive, Kept, Parts, Table};

/// A server that speaks Redis's protocol, in this process, with a directory of its own. It runs on
/// a thread of its own and opens no port unless the settings name one. Several share nothing. Any
/// thread may open clients of it. A library that was made with `FEATURES=` has none of this.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sf_server {
    /// 0: none.
    pub id: u64,
}

static SERVERS: Table<Handle, Embedded> = Table::new(5, "server");

/// A directive of redis.conf, such as "appendonly" and "yes".
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sf_setting {
    /// Its name.
    pub name: *const c_char,
    /// Its value; several words are separated by spaces, as CONFIG SET takes them.
    pub value: *const c_char,
}

/// What is told each line of a server's log, on the server's thread, which waits for it: with your
/// context, a level (0 debug, 1 verbose, 2 notice, 3 warning), and a line that ends with a zero.
pub type sf_on_log =
    Option<unsafe extern "C" fn(context: *mut c_void, level: i32, line: *const c_char)>;

/// A function of the caller's with its context.
struct Listener {
    on_log: unsafe extern "C" fn(context: *mut c_void, level: i32, line: *const c_char),
    context: *mut c_void,
}

// SAFETY: the header asks for a function and a context that the server's thread may use.
unsafe impl Send for Listener {}
// SAFETY: as above.
unsafe impl Sync for Listener {}

impl Listener {
    fn call(&self, level: LogLevel, line: &str) {
        let level = match level {
            LogLevel::Debug => 0,
            LogLevel::Verbose => 1,
            LogLevel::Notice => 2,
            LogLevel::Warning => 3,
        };
        let line = CString::new(line.replace('\0', "\\0")).unwrap_or_default();
        // SAFETY: the header asks for a function that can be called so.
        unsafe { (self.on_log)(self.context, level, line.as_ptr()) };
    }
}

/// Starts a server whose data is in `directory`, which is created if need be, and returns once it
/// has loaded them and serves. `settings` are `count` directives of redis.conf (`stillframe.conf`
/// lists them). `on_log` may be null; it and `context` are used until the server has ended.
#[unsafe(no_mangle)]
pub extern "C" fn sf_server_start(
    directory: *const c_char,
    settings: *const sf_setting,
    count: usize,
    on_log: sf_on_log,
    context: *mut c_void,
    server: *mut sf_server,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        memory::put(server, "server", sf_server { id: 0 })?;
        let directory = required(directory, "directory")?;
        if directory.is_empty() {
            return Err(Failure::argument("`directory` is empty; name a directory"));
        }
        let mut config = Config::embedded(OsStr::from_bytes(directory.to_bytes()));
        for setting in memory::slice(settings, count, "settings")? {
            let name = required(setting.name, "settings[..].name")?;
            let value = required(setting.value, "settings[..].value")?.to_bytes();
            let name = name.to_string_lossy();
            config.set(&name, &[value]).map_err(|refused| {
                let message = format!("the setting '{name}': {refused}");
                Failure::new(sf_code::SF_SETTING, message)
            })?;
        }
        let listener = on_log.map(|on_log| Listener { on_log, context });
        let started = match listener {
            Some(listener) => {
                let on_log: OnLog = Arc::new(move |level, line| listener.call(level, line));
                Embedded::start_logging(config, on_log)?
            }
            None => Embedded::start(config)?,
        };
        let id = SERVERS.insert(started.handle(), started)?;
        memory::put(server, "server", sf_server { id })
    })
}

fn required<'a>(text: *const c_char, name: &str) -> Result<&'a CStr, Failure> {
    memory::string(text).ok_or_else(|| Failure::new(sf_code::SF_NULL, format!("`{name}` is null")))
}

/// Stops a server as SIGTERM does: saves if the settings have a schedule, ends the log of commands.
/// Its clients find the end of their connections. If it cannot save, it goes on, and this can be
/// tried again.
#[unsafe(no_mangle)]
pub extern "C" fn sf_server_stop(server: sf_server, error: *mut sf_error) -> sf_code {
    door(error, || {
        let mut ended = Ok(());
        SERVERS.remove_if(server.id, |mut parts| match parts.exclusive.shutdown() {
            Err(error @ ServeError::NotSaved) => Err(Kept { parts, failure: error.into() }),
            other => {
                ended = other;
                Ok(())
            }
        })?;
        Ok(ended?)
    })
}

/// Stops a server in any case: as `sf_server_stop`, but if it cannot save, that is lost.
#[unsafe(no_mangle)]
pub extern "C" fn sf_server_discard(server: sf_server, error: *mut sf_error) -> sf_code {
    door(error, || {
        let Parts { exclusive, .. } = SERVERS.remove(server.id)?;
        drop(exclusive);
        Ok(())
    })
}

/// A connection to a server in this process. One thread at a time may use it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sf_client {
    /// 0: none.
    pub id: u64,
}

static CLIENTS: Table<(), Client> = Table::new(6, "client");

/// A new connection, as a client's over a unix socket.
#[unsafe(no_mangle)]
pub extern "C" fn sf_client_open(
    server: sf_server,
    client: *mut sf_client,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        memory::put(client, "client", sf_client { id: 0 })?;
        let connected = SERVERS.share(server.id)?.get().client();
        let connected = connected.map_err(|error| failed(&ClientError::from(error)))?;
        memory::put(client, "client", sf_client { id: CLIENTS.insert((), connected)? })
    })
}

fn take(client: sf_client) -> Result<Exclusive<'static, (), Client>, Failure> {
    CLIENTS.take(client.id)
}

/// How long a reply may take; 0: for ever, the default. After an `SF_TIMEOUT` the reply may still
/// come: `sf_receive` waits for it again.
#[unsafe(no_mangle)]
pub extern "C" fn sf_client_timeout(
    client: sf_client,
    timeout_ms: u64,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let limit = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms));
        let mut client = take(client)?;
        client.get().connection().set_read_timeout(limit);
        client.get().connection().set_write_timeout(limit);
        Ok(())
    })
}

/// The arguments of a request.
fn arguments<'a>(
    count: usize,
    args: *const *const c_char,
    lengths: *const usize,
) -> Result<Vec<&'a [u8]>, Failure> {
    if count == 0 {
        return Err(Failure::argument("`count` is 0; a request begins with its command"));
    }
    let args = memory::slice(args, count, "args")?;
    if lengths.is_null() {
        return args.iter().map(|&arg| Ok(required(arg, "args[..]")?.to_bytes())).collect();
    }
    let lengths = memory::slice(lengths, count, "lengths")?;
    let bytes = args.iter().zip(lengths);
    bytes.map(|(&arg, &length)| memory::slice(arg.cast(), length, "args[..]")).collect()
}

/// Sends a request of `count` arguments, the command first, and waits for its reply, which
/// `sf_reply_free` frees. Without `lengths` (null) each argument ends with a zero. A request that
/// the server refuses is `SF_OK` with a reply `SF_REFUSAL`. Messages of RESP3 that come before the
/// reply wait for `sf_receive`. `SF_ARGUMENT`, and nothing is sent: the request has no single reply
/// (`CLIENT REPLY OFF`, `SUBSCRIBE`; use `sf_send`), or the replies of `sf_send` come first.
#[unsafe(no_mangle)]
pub extern "C" fn sf_execute(
    client: sf_client,
    count: usize,
    args: *const *const c_char,
    lengths: *const usize,
    reply: *mut sf_reply,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        memory::put(reply, "reply", sf_reply::NONE)?;
        let mut client = take(client)?;
        let args = arguments(count, args, lengths)?;
        let root = client.get().ask(&args, |reply| root_of(&reply));
        memory::put(reply, "reply", root.map_err(|error| failed(&error))??)
    })
}

/// Adds a request to those that the next `sf_receive` sends: a pipeline.
#[unsafe(no_mangle)]
pub extern "C" fn sf_send(
    client: sf_client,
    count: usize,
    args: *const *const c_char,
    lengths: *const usize,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let mut client = take(client)?;
        client.get().send(arguments(count, args, lengths)?.iter());
        Ok(())
    })
}

/// Sends what was added, and waits for the next reply, or message of a subscription.
#[unsafe(no_mangle)]
pub extern "C" fn sf_receive(
    client: sf_client,
    reply: *mut sf_reply,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        memory::put(reply, "reply", sf_reply::NONE)?;
        let root = take(client)?.get().receive(|reply| root_of(&reply));
        memory::put(reply, "reply", root.map_err(|error| failed(&error))??)
    })
}

/// Ends a connection.
#[unsafe(no_mangle)]
pub extern "C" fn sf_client_close(client: sf_client, error: *mut sf_error) -> sf_code {
    door(error, || {
        drop(CLIENTS.remove(client.id)?);
        Ok(())
    })
}

fn failed(error: &ClientError) -> Failure {
    use std::io::ErrorKind;

    let kind = match error {
        ClientError::Connection(error) => Some(error.kind()),
        ClientError::NoReply(_) => {
            return Failure::argument(format!("{error}; use sf_send"));
        }
        ClientError::Owed(_) | ClientError::Stream => {
            return Failure::argument(format!("{error}; use sf_receive"));
        }
        ClientError::Messages => {
            return Failure::new(sf_code::SF_MEMORY, format!("{error} (sf_receive)"));
        }
        _ => None,
    };
    match kind {
        Some(ErrorKind::TimedOut) => Failure::new(sf_code::SF_TIMEOUT, "no reply came in time"),
        Some(ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe) => {
            Failure::new(sf_code::SF_CLOSED, "the server has closed the connection, or has ended")
        }
        _ => Failure::new(sf_code::SF_CLOSED, error.to_string()),
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let code = match &error {
            ServeError::Storage(error) => match error {
                StorageError::Directory { .. } => sf_code::SF_FILE,
                StorageError::Locked { .. } => sf_code::SF_LOCKED,
                StorageError::OfAStore { .. } | StorageError::ForeignLog { .. } => {
                    sf_code::SF_FOREIGN
                }
                StorageError::Keyspace(_) => sf_code::SF_MEMORY,
                StorageError::Load { .. } | StorageError::DamagedLog(_) => sf_code::SF_DAMAGED,
                _ => sf_code::SF_FILE,
            },
            ServeError::NotSaved => sf_code::SF_NOT_SAVED,
            ServeError::Embedded(_)
            | ServeError::Commands(_)
            | ServeError::Users(_)
            | ServeError::Tls(_) => sf_code::SF_SETTING,
            ServeError::ForeignData { .. } => sf_code::SF_FOREIGN,
            ServeError::Bind { .. } | ServeError::UnixSocket { .. } => sf_code::SF_ADDRESS,
            ServeError::Died => sf_code::SF_PANIC,
            _ => sf_code::SF_OTHER,
        };
        Self::new(code, error.to_string())
    }
}
