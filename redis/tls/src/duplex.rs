//! One TLS connection over a socket that blocks.
//!
//! - One thread reads while another may write, by [`Duplex::writer`]. Nobody holds the session
//!   while he waits for the socket, so that neither waits for the other.
//! - Bytes go to the socket in the order in which the session made them: who takes them from it
//!   holds `output` until they are written.
//! - Time-outs are those of the socket. After an error the connection is of no more use.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

/// Bytes read from the socket at once.
const READ_BYTES: usize = 32 << 10;

/// A TLS connection after its handshake, either side of it.
pub struct Duplex {
    /// Bytes from the socket, and how many the session has taken.
    arrived: Vec<u8>,
    used: usize,
    writer: Writer,
}

/// The way out of a [`Duplex`].
pub struct Writer {
    socket: TcpStream,
    session: Arc<Session>,
}

struct Session {
    connection: Mutex<Connection>,
    output: Mutex<()>,
}

impl Session {
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Duplex {
    /// Shakes hands as the client, over a socket with time-outs.
    ///
    /// # Errors
    /// The socket's, or what is wrong with the peer.
    pub fn connect(socket: TcpStream, config: Arc<ClientConfig>, host: &str) -> io::Result<Self> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Self::shake_hands(socket, connection.into())
    }

    /// Shakes hands as the server, over a socket with time-outs.
    ///
    /// # Errors
    /// The socket's, or what is wrong with the peer.
    pub fn accept(socket: TcpStream, config: Arc<ServerConfig>) -> io::Result<Self> {
        let connection = ServerConnection::new(config).map_err(io::Error::other)?;
        Self::shake_hands(socket, connection.into())
    }

    fn shake_hands(mut socket: TcpStream, mut connection: Connection) -> io::Result<Self> {
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        let session = Session { connection: Mutex::new(connection), output: Mutex::new(()) };
        let writer = Writer { socket, session: Arc::new(session) };
        Ok(Self { arrived: Vec::new(), used: 0, writer })
    }

    /// Its socket, to set time-outs.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.writer.socket
    }

    /// The way out, for another thread.
    ///
    /// # Errors
    /// The system's: no descriptor is left.
    pub fn writer(&self) -> io::Result<Writer> {
        let Writer { socket, session } = &self.writer;
        Ok(Writer { socket: socket.try_clone()?, session: Arc::clone(session) })
    }

    /// Passes what has come from the socket to the session, a piece at a time.
    fn take(&mut self) -> io::Result<()> {
        let mut connection = self.writer.session.connection();
        let mut rest = &self.arrived[self.used..];
        connection.read_tls(&mut rest)?;
        self.used = self.arrived.len() - rest.len();
        let processed = connection.process_new_packets();
        let answers = connection.wants_write();
        drop(connection);
        if answers {
            self.writer.send(&[])?; // an alert, or new keys
        }
        processed.map(drop).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }
}

impl Read for Duplex {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.writer.session.connection().reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            if self.used == self.arrived.len() {
                self.arrived.resize(READ_BYTES, 0);
                let read = self.writer.socket.read(&mut self.arrived);
                self.arrived.truncate(read.as_ref().map_or(0, |count| *count));
                self.used = 0;
                // An end that the peer does not announce ends the stream as well: what is sent here
                // has lengths.
                if read? == 0 {
                    return Ok(0);
                }
            }
            self.take()?;
        }
    }
}

impl Write for Duplex {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Writer {
    /// Writes bytes, and what the session has to say by itself.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Self { socket, session } = self;
        let _output = session.output.lock().unwrap_or_else(PoisonError::into_inner);
        let mut records = Vec::new();
        let mut connection = session.connection();
        let count = connection.writer().write(bytes)?;
        while connection.wants_write() {
            connection.write_tls(&mut records)?;
        }
        drop(connection);
        socket.write_all(&records)?;
        Ok(count)
    }

    /// Ends the connection in both directions, which the reading thread learns.
    pub fn shutdown(&mut self) {
        self.session.connection().send_close_notify();
        let _ = self.send(&[]); // not worth waiting for
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
