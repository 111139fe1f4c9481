//! The connection of a link to its primary.

use std::fmt::Display;
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stillframe_commands::write_request;
use stillframe_tls::ClientConfig;

use super::connection::READ_BYTES;
use super::stream::{Stream, connect};
use super::topology::Address;

/// Longest wait for bytes, between two looks at what is wished.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// Why a link does not go on.
#[derive(Debug)]
pub(super) enum Broken {
    /// It is no longer needed.
    Over,
    /// It tries again, from where it is.
    Again(String),
    /// It starts anew.
    Anew(String),
    /// No attempt can succeed.
    Useless(String),
}

/// The connection of a link.
pub(super) struct Wire {
    pub(super) address: Address,
    pub(super) stream: Stream,
    pub(super) input: Vec<u8>,
    heard: Instant,
    pub(super) reported: Instant,
    timeout: Duration,
}

impl Wire {
    pub(super) fn open(
        address: &Address,
        tls: Option<&Arc<ClientConfig>>,
        timeout: Duration,
    ) -> Result<Self, Broken> {
        let stream = connect(address, tls).map_err(|error| again("cannot be reached", &error))?;
        let socket = stream.socket();
        let timeouts = socket.set_read_timeout(Some(TICK));
        timeouts
            .and_then(|()| socket.set_write_timeout(Some(timeout)))
            .map_err(|error| again("has no connection", &error))?;
        let now = Instant::now();
        let (address, input) = (address.clone(), Vec::new());
        Ok(Self { address, stream, input, heard: now, reported: now, timeout })
    }

    pub(super) fn send(&mut self, words: &[&[u8]]) -> Result<(), Broken> {
        let mut request = Vec::new();
        write_request(&mut request, words);
        self.stream.write_all(&request).map_err(|error| again("has gone", &error))
    }

    /// Reads once, if something comes within a tick; whether it did.
    pub(super) fn read(&mut self) -> Result<bool, Broken> {
        let mut piece = [0; READ_BYTES];
        match self.stream.read(&mut piece) {
            Ok(0) => Err(Broken::Again("has closed the connection".to_owned())),
            Ok(count) => {
                self.input.extend_from_slice(&piece[..count]);
                self.heard = Instant::now();
                Ok(true)
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {
                    match self.heard.elapsed() > self.timeout {
                        true => Err(Broken::Again(format!("is silent for {:?}", self.timeout))),
                        false => Ok(false),
                    }
                }
                _ => Err(again("has gone", &error)),
            },
        }
    }

    /// Tells the primary how far the stream is read.
    pub(super) fn report(&mut self, offset: u64) -> Result<(), Broken> {
        self.reported = Instant::now();
        self.send(&[b"REPLCONF", b"ACK", offset.to_string().as_bytes()])
    }
}

pub(super) fn again(what: &str, why: &dyn Display) -> Broken {
    Broken::Again(format!("{what}: {why}"))
}
