//! A server that replies `+OK` to every request and does nothing else. A load against it measures
//! the cost of the load itself, the kernel's sockets and the machine.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use stillframe_resp::{Limits, Parser};

/// The listening socket's number.
const LISTENER: u64 = u64::MAX;

/// A null server on a thread of its own, on a free port of this machine. Stops when dropped.
#[derive(Debug)]
pub struct NullServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<(Instant, Instant)>>>,
}

/// One time of silence, for tests of how a load reports it.
#[derive(Debug, Clone, Copy)]
struct Stall {
    after: usize,
    length: Duration,
}

impl NullServer {
    /// Starts it.
    ///
    /// # Errors
    /// The system gives no socket or no thread.
    pub fn start() -> io::Result<Self> {
        Self::start_with(None)
    }

    /// Starts one that replies to `after` requests and then is silent for `length`.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn stalling(after: usize, length: Duration) -> io::Result<Self> {
        Self::start_with(Some(Stall { after, length }))
    }

    fn start_with(stall: Option<Stall>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let (address, stop) = (listener.local_addr()?, Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let serve = move || {
            let mut stalled = None;
            // An error here shows as a lost connection on the other side.
            let _ = serve(&listener, &stopped, stall, &mut stalled);
            stalled
        };
        let thread = thread::Builder::new().name("null-server".to_owned()).spawn(serve)?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// The address of the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it, and returns when it began to stall and when it went on, if it did.
    #[must_use]
    pub fn stop(mut self) -> Option<(Instant, Instant)> {
        self.end()
    }

    fn end(&mut self) -> Option<(Instant, Instant)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).flatten()
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

struct Client {
    stream: TcpStream,
    parser: Parser,
    input: Vec<u8>,
}

fn serve(
    listener: &TcpListener,
    stop: &AtomicBool,
    stall: Option<Stall>,
    stalled: &mut Option<(Instant, Instant)>,
) -> io::Result<()> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut clients: HashMap<u64, Client> = HashMap::new();
    let (mut next, mut answered, mut scratch) = (0, 0, vec![0; 64 << 10]);
    let mut events: Vec<Event> = Vec::with_capacity(256);
    let look = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    while !stop.load(Ordering::Relaxed) {
        events.clear();
        match epoll::wait(&epoll, spare_capacity(&mut events), Some(&look)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let number = event.data.u64();
            if number == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    epoll::add(&epoll, &stream, EventData::new_u64(next), EventFlags::IN)?;
                    let parser = Parser::new(Limits::OPEN);
                    clients.insert(next, Client { stream, parser, input: Vec::new() });
                    next += 1;
                }
            } else if let Some(client) = clients.get_mut(&number) {
                match client.answer(&mut scratch) {
                    Ok(count) => answered += count,
                    Err(_) => drop(clients.remove(&number)), // which epoll forgets with it
                }
            }
            if let Some(Stall { length, .. }) =
                stall.filter(|stall| stalled.is_none() && answered >= stall.after)
            {
                let from = Instant::now();
                thread::sleep(length);
                *stalled = Some((from, Instant::now()));
            }
        }
    }
    Ok(())
}

impl Client {
    /// Replies to the requests that have come, and returns their number.
    fn answer(&mut self, scratch: &mut [u8]) -> io::Result<usize> {
        let count = match self.stream.read(scratch) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error),
        };
        self.input.extend_from_slice(&scratch[..count]);
        let (mut used, mut answers) = (0, Vec::new());
        while let Some(length) = self
            .parser
            .parse(&mut self.input[used..])
            .map_err(|_| io::Error::from(ErrorKind::InvalidData))?
        {
            used += length;
            answers.extend_from_slice(b"+OK\r\n");
        }
        self.input.drain(..used);
        // Replies of a few bytes always fit, unless they are not read at all.
        self.stream.write_all(&answers)?;
        Ok(answers.len() / 5)
    }
}
