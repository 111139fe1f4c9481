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
        stream.set_write_timeout(Some(patience))?;
        Ok(Self { stream, received: Vec::new(), patience })
    }

    /// Sends requests and reads a reply for each.
    ///
    /// # Errors
    /// The connection was cut, or the replies did not come in time. Then the connection is of no
    /// use any more: a late reply would be taken for one of another request.
    pub fn ask(&mut self, requests: &[Vec<String>]) -> io::Result<Vec<Raw>> {
        let mut bytes = Vec::new();
        for words in requests {
            let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            reply::encode(&words, &mut bytes);
        }
        self.stream.write_all(&bytes)?;
        let deadline = Instant::now() + self.patience;
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
            let mut piece = [0; 1 << 14];
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
    follows: bool,
}

impl Client {
    /// A client that begins with the server of index `first`; a call may take `patience`.
    #[must_use]
    pub fn new(servers: Vec<SocketAddr>, first: usize, patience: Duration) -> Self {
        Self { servers, next: first, named: None, connection: None, patience, follows: true }
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
            let Some(connection) = self.connection() else { return Err(Outcome::Failed) };
            let Ok(raw) = connection.ask(&requests) else {
                self.leave();
                return Err(Outcome::Unknown);
            };
            let refusal = match replies(call, raw) {
                Ok(replies) => return Ok(replies),
                Err(refusal) => refusal,
            };
            if let Some(address) = moved(&refusal) {
                if !self.follows {
                    return Err(Outcome::Failed);
                }
                self.connection = None;
                self.named = Some(address);
                continue;
            }
            self.leave();
            let sure = REFUSALS.contains(&refusal.split(' ').next().unwrap_or_default());
            return Err(if sure { Outcome::Failed } else { Outcome::Unknown });
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
    }
}

fn requests(call: &Call) -> Vec<Vec<String>> {
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
        (Command::SetAbsent(..) | Command::SetPresent(..) | Command::Get(_), Raw::Null) => {
            Reply::Nothing
        }
        (Command::Get(_), Raw::Text(_)) => Reply::Number(number(&raw)),
        (Command::Swap { .. } | Command::Add(..) | Command::Append(..), Raw::Int(value)) => {
            Reply::Number(*value)
        }
        (Command::List(_), Raw::List(elements)) => {
            Reply::List(elements.iter().map(number).collect())
        }
        _ => panic!("{command} gave {raw:?}"),
    }
}
