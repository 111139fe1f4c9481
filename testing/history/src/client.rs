//! A client that knows what it does not know.
//!
//! - A call whose reply was lost, by a cut or by its time, is [`Outcome::Unknown`], and so is one
//!   with an error that does not surely mean that nothing happened.
//! - `-MOVED` is followed: the server that says it has done nothing.
//! - Nothing is sent twice but after a sure refusal.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use stillframe_peers::reply::{self, Reply as Raw};

use crate::call::{Call, Command, Key, Reply};
use crate::history::Outcome;

/// Errors that come before anything is done.
const REFUSALS: [&str; 12] = [
    "MOVED",
    "ASK",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "READONLY",
    "LOADING",
    "MASTERDOWN",
    "NOREPLICAS",
    "NOAUTH",
    "OOM",
    "MISCONF",
    "EXECABORT",
];

/// How often one call follows `-MOVED`.
const HOPS: usize = 4;

/// Adds an element to a stream as entry `length-0`; gives the length back.
const LOG: &str = "local length=redis.call('XLEN',KEYS[1])+1 \
                   redis.call('XADD',KEYS[1],length..'-0','e',ARGV[1]) return length";

/// Sets a key to its second argument if it holds the first.
const SWAP: &str = "if redis.call('GET',KEYS[1])==ARGV[1] then \
                    redis.call('SET',KEYS[1],ARGV[2]) return 1 end return 0";

/// A connection on which every reply has its time.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    patience: Duration,
}

impl Connection {
    /// Connects; each reply may take `patience`.
    ///
    /// # Errors
    /// Nobody listens, or nobody answers in time.
    pub fn open(address: SocketAddr, patience: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::new(), patience })
    }

    /// Sends requests and reads a reply for each.
    ///
    /// # Errors
    /// The connection was cut, or the replies did not come in time. Then the connection is of no
    /// use any more: a late reply would be taken for one of another request.
    pub fn ask(&mut self, requests: &[Vec<String>]) -> io::Result<Vec<Raw>> {
        self.ask_within(self.patience, requests)
    }

    fn ask_within(&mut self, patience: Duration, requests: &[Vec<String>]) -> io::Result<Vec<Raw>> {
        let mut bytes = Vec::new();
        for words in requests {
            let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            reply::encode(&words, &mut bytes);
        }
        let deadline = Instant::now() + patience;
        self.stream.set_write_timeout(Some(patience))?;
        self.stream.write_all(&bytes)?;
        requests.iter().map(|_| self.reply(deadline)).collect()
    }

    fn reply(&mut self, deadline: Instant) -> io::Result<Raw> {
        loop {
            if let Some((reply, length)) = reply::decode(&self.received) {
                self.received.drain(..length);
                return Ok(reply);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
            let mut piece = [0; 1 << 16];
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.received.extend_from_slice(&piece[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A client of the servers of a group.
#[derive(Debug)]
pub struct Client {
    servers: Vec<SocketAddr>,
    /// The index of the server to try next.
    next: usize,
    /// A server that another has named.
    named: Option<SocketAddr>,
    connection: Option<Connection>,
    patience: Duration,
    /// The least bytes a second at which large values come to most members.
    rate: u64,
    follows: bool,
}

impl Client {
    /// A client that begins with the server of index `first`; a call may take `patience`.
    #[must_use]
    pub fn new(servers: Vec<SocketAddr>, first: usize, patience: Duration) -> Self {
        let (named, connection, rate, follows) = (None, None, u64::MAX, true);
        Self { servers, next: first, named, connection, patience, rate, follows }
    }

    /// A call may take longer by what its large values take at so many bytes a second.
    #[must_use]
    pub fn at_rate(self, rate: u64) -> Self {
        Self { rate, ..self }
    }

    /// A client of one server that goes nowhere else: a call that is done elsewhere fails.
    #[must_use]
    pub fn of_one(server: SocketAddr, patience: Duration) -> Self {
        Self { follows: false, ..Self::new(vec![server], 0, patience) }
    }

    /// Performs `call`: its replies, or how it ended without.
    ///
    /// # Errors
    /// [`Outcome::Failed`] or [`Outcome::Unknown`].
    pub fn perform(&mut self, call: &Call) -> Result<Vec<Reply>, Outcome> {
        for _ in 0..HOPS {
            let requests = requests(call);
            let large = Duration::from_secs_f64(call.bytes() as f64 / self.rate as f64);
            let patience = self.patience + call.wait() + large;
            let Some(connection) = self.connection() else { return Err(Outcome::Failed) };
            let Ok(raw) = connection.ask_within(patience, &requests) else {
                self.leave();
                return Err(Outcome::Unknown);
            };
            match answer(call, raw) {
                Answer::Replies(replies) => return Ok(replies),
                Answer::Moved(_) if !self.follows => return Err(Outcome::Failed),
                Answer::Moved(address) => {
                    self.connection = None;
                    self.named = Some(address);
                }
                Answer::Refused(outcome) => {
                    self.leave();
                    return Err(outcome);
                }
            }
        }
        self.leave();
        Err(Outcome::Failed)
    }

    fn connection(&mut self) -> Option<&mut Connection> {
        if self.connection.is_none() {
            let address = self.named.unwrap_or(self.servers[self.next % self.servers.len()]);
            self.connection = Connection::open(address, self.patience).ok();
            if self.connection.is_none() {
                self.leave();
            }
        }
        self.connection.as_mut()
    }

    /// Tries another server next time.
    fn leave(&mut self) {
        self.connection = None;
        if self.named.take().is_none() {
            self.next += 1;
        }
    }
}

/// What a server has answered to a call.
#[derive(Debug)]
pub enum Answer {
    /// It was done.
    Replies(Vec<Reply>),
    /// It is done by this server.
    Moved(SocketAddr),
    /// It was refused: surely, or so that nobody knows.
    Refused(Outcome),
}

/// What the replies to the requests of a call mean.
///
/// # Panics
/// A server has given what no server gives.
#[must_use]
pub fn answer(call: &Call, raw: Vec<Raw>) -> Answer {
    let refusal = match replies(call, raw) {
        Ok(replies) => return Answer::Replies(replies),
        Err(refusal) => refusal,
    };
    if let Some(address) = moved(&refusal) {
        return Answer::Moved(address);
    }
    let sure = REFUSALS.contains(&refusal.split(' ').next().unwrap_or_default());
    Answer::Refused(if sure { Outcome::Failed } else { Outcome::Unknown })
}

/// The address that `MOVED slot host:port` names.
fn moved(refusal: &str) -> Option<SocketAddr> {
    let mut words = refusal.split(' ');
    (words.next() == Some("MOVED")).then_some(())?;
    words.nth(1)?.parse().ok()
}

/// The name of a key: all have one tag, so that a transaction may join any of them in a cluster.
fn name(key: Key) -> String {
    format!("{{h}}:{key}")
}

fn seconds(ms: u32) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

/// What fills a text behind its number, again and again.
fn filler(value: i64) -> String {
    (0..8).map(|part| format!("{:016x}", value.wrapping_mul(part * 2 + 1))).collect()
}

/// A text of so many bytes that shows its number, and where it is torn.
fn large(value: i64, bytes: usize) -> String {
    let mut text = format!("{value}:");
    if bytes <= text.len() {
        return value.to_string();
    }
    let filler = filler(value);
    text += &filler.repeat((bytes - text.len()).div_ceil(filler.len()));
    text.truncate(bytes);
    text
}

/// The number of a text, which must be whole.
fn number_of(text: &[u8]) -> Option<i64> {
    let mut parts = text.splitn(2, |&byte| byte == b':');
    let value = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    let (filler, rest) = (filler(value), parts.next().unwrap_or_default());
    let is_whole = rest.chunks(filler.len()).all(|part| filler.as_bytes().starts_with(part));
    is_whole.then_some(value)
}

fn words(command: &Command) -> Vec<String> {
    let line = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let (key, number) = (&name(command.key()), |value: &i64| value.to_string());
    match command {
        Command::Set(_, value) => line(&["SET", key, &number(value)]),
        Command::SetAbsent(_, value) => line(&["SET", key, &number(value), "NX"]),
        Command::SetPresent(_, value) => line(&["SET", key, &number(value), "XX"]),
        Command::Swap { from, to, .. } => {
            line(&["EVAL", SWAP, "1", key, &number(from), &number(to)])
        }
        Command::Get(_) => line(&["GET", key]),
        Command::Add(_, by) => line(&["INCRBY", key, &number(by)]),
        Command::Append(_, element) => line(&["RPUSH", key, &number(element)]),
        Command::List(_) => line(&["LRANGE", key, "0", "-1"]),
        Command::Exchange(_, value) => line(&["SET", key, &number(value), "GET"]),
        Command::Large { value, bytes, .. } => line(&["SET", key, &large(*value, *bytes)]),
        Command::Log(_, element) => line(&["EVAL", LOG, "1", key, &number(element)]),
        Command::Tail { after, wait_ms, .. } => {
            let behind = format!("{after}-0");
            let rest = ["STREAMS", key, &behind];
            match wait_ms {
                0 => line(&[&["XREAD"], &rest[..]].concat()),
                _ => line(&[&["XREAD", "BLOCK", &wait_ms.to_string()], &rest[..]].concat()),
            }
        }
        Command::Pop { wait_ms: 0, .. } => line(&["LPOP", key]),
        Command::Pop { wait_ms, .. } => line(&["BLPOP", key, &seconds(*wait_ms)]),
        Command::Move { to, wait_ms: 0, .. } => line(&["LMOVE", key, &name(*to), "LEFT", "RIGHT"]),
        Command::Move { to, wait_ms, .. } => {
            line(&["BLMOVE", key, &name(*to), "LEFT", "RIGHT", &seconds(*wait_ms)])
        }
    }
}

/// The requests of a call, each of which has a reply.
#[must_use]
pub fn requests(call: &Call) -> Vec<Vec<String>> {
    let commands = call.commands().iter().map(words);
    if call.is_transaction() {
        let word = |word: &str| vec![word.to_owned()];
        [word("MULTI")].into_iter().chain(commands).chain([word("EXEC")]).collect()
    } else {
        commands.collect()
    }
}

/// What a server's replies to `call` mean, or its error.
fn replies(call: &Call, mut raw: Vec<Raw>) -> Result<Vec<Reply>, String> {
    if call.is_transaction() {
        let last = raw.pop().expect("a reply for each request");
        // The reason why a transaction was discarded says more than EXEC.
        let moved = raw.iter().find(|it| matches!(it, Raw::Error(text) if moved(text).is_some()));
        raw = match (last, moved) {
            (Raw::Error(_), Some(Raw::Error(text))) => return Err(text.clone()),
            (Raw::Error(text), _) => return Err(text),
            (Raw::List(elements), _) => elements,
            (other, _) => panic!("EXEC gave {other:?} for {call}"),
        };
    }
    if let Some(Raw::Error(text)) = raw.iter().find(|it| matches!(it, Raw::Error(_))) {
        // Within a transaction the other commands have had their effects.
        return Err(if call.is_transaction() { format!("EXEC {text}") } else { text.clone() });
    }
    assert_eq!(raw.len(), call.commands().len(), "{call} gave {raw:?}");
    Ok(call.commands().iter().zip(raw).map(|(command, raw)| reply(command, raw)).collect())
}

fn reply(command: &Command, raw: Raw) -> Reply {
    let number = |raw: &Raw| raw.text().parse().unwrap_or_else(|_| panic!("{command}: {raw:?}"));
    match (command, &raw) {
        (Command::Set(..) | Command::SetAbsent(..) | Command::SetPresent(..), Raw::Text(text))
            if text == b"OK" =>
        {
            Reply::Done
        }
        (Command::Large { .. }, Raw::Text(text)) if text == b"OK" => Reply::Done,
        (Command::SetAbsent(..) | Command::SetPresent(..) | Command::Get(_), Raw::Null) => {
            Reply::Nothing
        }
        (Command::Exchange(..), Raw::Null) => Reply::Nothing,
        (Command::Tail { .. } | Command::Pop { .. } | Command::Move { .. }, Raw::Null) => {
            Reply::Nothing
        }
        (Command::Tail { after, .. }, Raw::List(streams)) => match elements_of(streams, *after) {
            Some(elements) => Reply::List(elements),
            None => panic!("{command} gave {raw:?}"),
        },
        // BLPOP names the list, too.
        (Command::Pop { .. }, Raw::List(pair)) if pair.len() == 2 => {
            Reply::Number(number(&pair[1]))
        }
        (Command::Pop { .. } | Command::Move { .. }, Raw::Text(_)) => Reply::Number(number(&raw)),
        (Command::Get(_) | Command::Exchange(..), Raw::Text(text)) => match number_of(text) {
            Some(value) => Reply::Number(value),
            None => panic!("{command} gave {} bytes that were never written", text.len()),
        },
        (
            Command::Swap { .. } | Command::Add(..) | Command::Append(..) | Command::Log(..),
            Raw::Int(value),
        ) => Reply::Number(*value),
        (Command::List(_), Raw::List(elements)) => {
            Reply::List(elements.iter().map(number).collect())
        }
        _ => panic!("{command} gave {raw:?}"),
    }
}

/// The elements that XREAD gave of one stream behind its first `after`: one an entry, each named by
/// its place.
fn elements_of(streams: &[Raw], after: usize) -> Option<Vec<i64>> {
    let [Raw::List(stream)] = streams else { return None };
    let [_, Raw::List(entries)] = &stream[..] else { return None };
    let element = |(place, entry): (usize, &Raw)| {
        let Raw::List(entry) = entry else { return None };
        let [Raw::Text(id), Raw::List(fields)] = &entry[..] else { return None };
        let is_there = *id == format!("{place}-0").into_bytes();
        let [_, Raw::Text(value)] = &fields[..] else { return None };
        number_of(value).filter(|_| is_there)
    };
    (after + 1..).zip(entries).map(element).collect()
}
