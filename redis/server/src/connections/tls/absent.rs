//! A build without TLS: it refuses settings that ask for TLS.

use std::io;

use mio::net::TcpStream;
use rustix::io::Errno;

use super::TlsError;
use crate::node::config::Config;

/// The material of TLS connections: none.
#[derive(Default)]
pub(crate) struct Tls(());

impl Tls {
    /// Refuses settings that ask for TLS.
    pub(crate) fn new(config: &Config) -> Result<Self, TlsError> {
        if config.tls.port > 0 || config.tls.replication {
            return Err(TlsError);
        }
        Ok(Self::default())
    }

    /// There is none.
    pub(crate) fn accept(&self, _socket: TcpStream) -> Option<TlsStream> {
        None
    }

    /// There is none.
    pub(crate) fn connect(&self, _socket: TcpStream, _host: &str) -> io::Result<TlsStream> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A TLS connection: never.
pub(crate) enum TlsStream {}

impl TlsStream {
    pub(crate) fn read(&mut self, _into: &mut [u8]) -> Result<usize, Errno> {
        match *self {}
    }

    pub(crate) fn read_behind(&mut self, _into: &mut Vec<u8>) -> Result<usize, Errno> {
        match *self {}
    }

    pub(crate) fn write(&mut self, _bytes: &[u8]) -> Result<usize, Errno> {
        match *self {}
    }

    pub(crate) fn holds_output(&self) -> bool {
        match *self {}
    }

    pub(crate) fn holds_input(&self) -> bool {
        match *self {}
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        match *self {}
    }

    pub(crate) fn shake_hands(&mut self) -> Result<bool, Errno> {
        match *self {}
    }

    pub(crate) fn close(&mut self) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        match *self {}
    }

    pub(crate) fn socket_mut(&mut self) -> &mut TcpStream {
        match *self {}
    }
}
