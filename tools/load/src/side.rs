//! The side connection: requests beside the load (AUTH, INFO, BGSAVE), one at a time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stillframe_measure::target::{Place, readable};
use stillframe_resp::{Reply, decode_reply};

use crate::LoadError;
use crate::connection::closed;
use crate::plan::Plan;

/// How often a wait checks whether to go on.
const LOOK: Duration = Duration::from_millis(50);
/// A server may be busy for long (a fork, a slow disk), but not for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// A blocking connection.
pub(crate) struct Side {
    stream: TcpStream,
    input: Vec<u8>,
}

/// The text of a reply, or of its error.
pub(crate) type Answer = Result<String, String>;

/// The place of a plan's target.
pub(crate) fn resolve(plan: &Plan) -> Result<Place, LoadError> {
    let wrong = |error| LoadError::Connect { target: plan.target.clone(), error };
    Place::from_target(&plan.target).map_err(wrong)
}

impl Side {
    /// Connects, authenticates as the plan says, and checks whether the server is ready.
    pub(crate) fn open(plan: &Plan, place: &Place) -> Result<Self, LoadError> {
        let target = || plan.target.clone();
        let wrong = |error| LoadError::Connect { target: target(), error };
        let stream = place.connect().map_err(wrong)?;
        stream.set_read_timeout(Some(LOOK)).map_err(wrong)?;
        let mut side = Self { stream, input: Vec::new() };
        let mut ask = |what: &'static str, words: &[&str]| {
            let answer = side.call(words, &AtomicBool::new(false));
            let broken = |error| LoadError::Broken { target: target(), doing: what, error };
            answer.map_err(broken)?.map_err(|answer| LoadError::Refused {
                target: target(),
                what,
                answer,
            })
        };
        match (&plan.user, &plan.password) {
            (Some(user), Some(password)) => ask("AUTH", &["AUTH", user, password])?,
            (_, Some(password)) => ask("AUTH", &["AUTH", password])?,
            _ => String::new(),
        };
        ask("PING", &["PING"])?;
        Ok(side)
    }

    /// Gives the stream away, for the load itself.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Sends a request, and waits for the reply unless `stop` is raised meanwhile.
    pub(crate) fn call(&mut self, words: &[&str], stop: &AtomicBool) -> io::Result<Answer> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
        self.stream.write_all(&request)?;
        self.answer(stop)
    }

    /// Sends encoded requests, and reads `count` replies; returns the first error, if any.
    pub(crate) fn batch(&mut self, requests: &[u8], count: usize) -> io::Result<Option<String>> {
        self.stream.write_all(requests)?;
        let mut refused = None;
        for _ in 0..count {
            if let Err(error) = self.answer(&AtomicBool::new(false))? {
                refused.get_or_insert(error);
            }
        }
        Ok(refused)
    }

    /// Sends encoded requests, and hands over each of `count` replies with its number.
    pub(crate) fn each(
        &mut self,
        requests: &[u8],
        count: usize,
        mut look: impl FnMut(usize, &Reply<'_>),
    ) -> io::Result<()> {
        self.stream.write_all(requests)?;
        let stop = AtomicBool::new(false);
        (0..count).try_for_each(|number| self.reply(&stop, |reply| look(number, reply)))
    }

    fn answer(&mut self, stop: &AtomicBool) -> io::Result<Answer> {
        self.reply(stop, text)
    }

    /// Waits for a reply, and returns what `look` makes of it.
    fn reply<T>(
        &mut self,
        stop: &AtomicBool,
        mut look: impl FnMut(&Reply<'_>) -> T,
    ) -> io::Result<T> {
        let deadline = Instant::now() + PATIENCE;
        let mut scratch = [0; 16 << 10];
        loop {
            let bad = |error| io::Error::new(ErrorKind::InvalidData, error);
            if let Some((reply, used)) = decode_reply(&self.input).map_err(bad)? {
                let seen = look(&reply);
                self.input.drain(..used);
                return Ok(seen);
            }
            match self.stream.read(&mut scratch) {
                Ok(0) => return Err(closed()),
                Ok(count) => self.input.extend_from_slice(&scratch[..count]),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => {}
                    _ => return Err(error),
                },
            }
            if stop.load(Ordering::Relaxed) {
                return Err(io::Error::new(ErrorKind::Interrupted, "stopped"));
            }
            if Instant::now() > deadline {
                return Err(io::Error::new(ErrorKind::TimedOut, "no reply for a minute"));
            }
        }
    }
}

fn text(reply: &Reply<'_>) -> Answer {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match reply {
        Reply::Error(error) => Err(readable(error)),
        Reply::Simple(bytes) | Reply::Bulk(bytes) | Reply::Verbatim(_, bytes) => Ok(text(bytes)),
        Reply::Integer(number) => Ok(number.to_string()),
        _ => Ok(String::new()),
    }
}

/// The value of a field of INFO.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}
