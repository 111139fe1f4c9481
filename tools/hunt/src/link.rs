//! A blocking connection: requests out, replies and an image's bytes in, each within a time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stillframe_measure::target::{self, readable};
use stillframe_resp::{Reply, decode_reply};

use crate::error::HuntError;
use crate::plan::Plan;

/// How often a wait checks whether to go on.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes of a reply; the longest that the hunter asks for is INFO.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// Bytes of an image.
pub(crate) const IMAGE_BYTES_MAX: usize = 4 << 30;

/// A connection.
pub(crate) struct Link<'a> {
    stream: TcpStream,
    target: &'a str,
    patience: Duration,
    stop: &'a AtomicBool,
    /// Bytes that came and were not used.
    pub(crate) input: Vec<u8>,
}

/// A reply's text, or the text of its error.
pub(crate) type Answer = Result<String, String>;

impl<'a> Link<'a> {
    /// Connects, authenticates as the plan says, and checks whether the server is ready.
    pub(crate) fn open(plan: &'a Plan, stop: &'a AtomicBool) -> Result<Self, HuntError> {
        let stream = connect(&plan.target)
            .map_err(|error| HuntError::Connect { target: plan.target.clone(), error })?;
        let Plan { target, patience, .. } = plan;
        let mut link = Self { stream, target, patience: *patience, stop, input: Vec::new() };
        match (&plan.user, &plan.password) {
            (Some(user), Some(password)) => link.ok(&["AUTH", user, password])?,
            (_, Some(password)) => link.ok(&["AUTH", password])?,
            _ => String::new(),
        };
        link.ok(&["PING"])?;
        Ok(link)
    }

    /// An error of this connection.
    pub(crate) fn broken(&self, doing: &str, error: io::Error) -> HuntError {
        HuntError::Broken { target: self.target.to_owned(), doing: doing.to_owned(), error }
    }

    /// As [`broken`](Self::broken), of bytes that make no sense.
    pub(crate) fn wrong(&self, doing: &str, what: impl Into<String>) -> HuntError {
        self.broken(doing, io::Error::new(ErrorKind::InvalidData, what.into()))
    }

    pub(crate) fn send(&mut self, bytes: &[u8], doing: &str) -> Result<(), HuntError> {
        let deadline = Instant::now() + self.patience;
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(0) => return Err(self.broken(doing, ErrorKind::WriteZero.into())),
                Ok(count) => rest = &rest[count..],
                Err(error) => self.wait(error, deadline, doing)?,
            }
        }
        Ok(())
    }

    /// Receives more bytes.
    pub(crate) fn receive(&mut self, deadline: Instant, doing: &str) -> Result<(), HuntError> {
        let mut scratch = [0; 64 << 10];
        loop {
            // The time limit also ends a server that sends one byte after the other.
            if Instant::now() > deadline {
                return Err(self.late(doing));
            }
            match self.stream.read(&mut scratch) {
                Ok(0) => {
                    let closed = "the server closed the connection";
                    let error = io::Error::new(ErrorKind::UnexpectedEof, closed);
                    return Err(self.broken(doing, error));
                }
                Ok(count) => {
                    self.input.extend_from_slice(&scratch[..count]);
                    return Ok(());
                }
                Err(error) => self.wait(error, deadline, doing)?,
            }
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.patience
    }

    fn late(&self, doing: &str) -> HuntError {
        let what = format!("not done after {:?} (--patience)", self.patience);
        self.broken(doing, io::Error::new(ErrorKind::TimedOut, what))
    }

    /// Whether to go on after this error.
    fn wait(&self, error: io::Error, deadline: Instant, doing: &str) -> Result<(), HuntError> {
        match error.kind() {
            ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => {}
            _ => return Err(self.broken(doing, error)),
        }
        if self.stop.load(Ordering::Relaxed) {
            return Err(HuntError::Interrupted);
        }
        if Instant::now() > deadline { Err(self.late(doing)) } else { Ok(()) }
    }

    /// The next reply; the first error of an array is that of the reply, and so is its null.
    pub(crate) fn reply(&mut self, doing: &str) -> Result<Answer, HuntError> {
        let deadline = self.deadline();
        loop {
            match decode_reply(&self.input) {
                Ok(Some((reply, used))) => {
                    let answer = text(&reply);
                    self.input.drain(..used);
                    return Ok(answer);
                }
                Ok(None) if self.input.len() > REPLY_BYTES_MAX => {
                    return Err(self.wrong(doing, "the reply is longer than 1 MiB"));
                }
                Ok(None) => self.receive(deadline, doing)?,
                Err(error) => return Err(self.wrong(doing, error.to_string())),
            }
        }
    }

    pub(crate) fn call(&mut self, words: &[&str]) -> Result<Answer, HuntError> {
        let doing = format!("waiting for {}", words[0]);
        let mut bytes = Vec::new();
        encode(words, &mut bytes);
        self.send(&bytes, &doing)?;
        self.reply(&doing)
    }

    /// A request that has to succeed.
    pub(crate) fn ok(&mut self, words: &[&str]) -> Result<String, HuntError> {
        self.call(words)?.map_err(|answer| self.refused(words[0], answer))
    }

    pub(crate) fn refused(&self, what: &str, answer: String) -> HuntError {
        HuntError::Refused { target: self.target.to_owned(), what: what.to_owned(), answer }
    }

    /// Sends requests that all have to succeed, some hundred at a time.
    pub(crate) fn all<W: AsRef<str>>(
        &mut self,
        requests: &[Vec<W>],
        doing: &str,
    ) -> Result<(), HuntError> {
        for batch in requests.chunks(300) {
            let mut bytes = Vec::new();
            batch.iter().for_each(|request| encode(request, &mut bytes));
            self.send(&bytes, doing)?;
            for request in batch {
                let answer = self.reply(doing)?;
                answer.map_err(|answer| self.refused(request[0].as_ref(), answer))?;
            }
        }
        Ok(())
    }

    /// A field of INFO.
    pub(crate) fn info(&mut self, section: &str, field: &str) -> Result<String, HuntError> {
        let info = self.ok(&["INFO", section])?;
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value
            .map(|value| value.trim().to_owned())
            .ok_or_else(|| self.wrong("reading INFO", format!("INFO {section} lacks {field}")))
    }
}

fn connect(target: &str) -> io::Result<TcpStream> {
    let stream = target::connect(target.to_socket_addrs()?)?;
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(LOOK))?;
    Ok(stream)
}

/// Appends a request.
pub(crate) fn encode<W: AsRef<str>>(words: &[W], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        let word = word.as_ref();
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

fn text(reply: &Reply<'_>) -> Answer {
    let owned = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match reply {
        Reply::Error(error) => Err(readable(error)),
        Reply::Simple(bytes) | Reply::Bulk(bytes) | Reply::Verbatim(_, bytes) => Ok(owned(bytes)),
        Reply::Integer(number) => Ok(number.to_string()),
        Reply::Array(replies) => {
            replies.iter().try_for_each(|it| text(it).map(drop))?;
            Ok(String::new())
        }
        Reply::Null | Reply::NullArray => Err("no value".to_owned()),
        _ => Ok(String::new()),
    }
}
