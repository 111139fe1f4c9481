//! What a client may call, and what comes back.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// A key by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub u32);

/// A command on a key, or on two.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// SET: OK.
    Set(Key, i64),
    /// SET NX: OK, or nothing where the key was there.
    SetAbsent(Key, i64),
    /// SET XX: OK, or nothing where the key was not there.
    SetPresent(Key, i64),
    /// Sets the key to `to` if it holds `from`, by a script: 1 if so, otherwise 0.
    Swap {
        /// The key.
        key: Key,
        /// What it must hold.
        from: i64,
        /// What it then holds.
        to: i64,
    },
    /// GET: a number, or nothing.
    Get(Key),
    /// INCRBY: the sum.
    Add(Key, i64),
    /// RPUSH of one element: the length.
    Append(Key, i64),
    /// LRANGE of the whole list.
    List(Key),
    /// SET .. GET: the number before, or nothing.
    Exchange(Key, i64),
    /// SET of a text of so many bytes that begins with a number, which GET then shows.
    Large {
        /// The key.
        key: Key,
        /// The number.
        value: i64,
        /// The length of the text, unless the number is longer.
        bytes: usize,
    },
    /// XADD of one element, by a script: the length of the stream.
    Log(Key, i64),
    /// XREAD of the elements of a stream behind its first `after`; nothing where there are none.
    Tail {
        /// The key.
        key: Key,
        /// How many elements are not asked for.
        after: usize,
        /// How long it waits for one.
        wait_ms: u32,
    },
    /// BLPOP: the first element of a list, which goes; nothing where there is none.
    Pop {
        /// The key.
        key: Key,
        /// How long it waits for one.
        wait_ms: u32,
    },
    /// BLMOVE of the first element of a list to the end of another; nothing where there is none.
    Move {
        /// The list that loses it.
        from: Key,
        /// The list that gets it.
        to: Key,
        /// How long it waits for one.
        wait_ms: u32,
    },
}

/// What a command gives back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// OK.
    Done,
    /// No value.
    Nothing,
    /// A number.
    Number(i64),
    /// All elements of a list.
    List(Vec<i64>),
}

/// One command, or several within MULTI and EXEC.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call(Vec<Command>);

impl Call {
    /// One command by itself.
    #[must_use]
    pub fn one(command: Command) -> Self {
        Self(vec![command])
    }

    /// At least two commands, as a transaction.
    #[must_use]
    pub fn transaction(commands: Vec<Command>) -> Self {
        assert!(commands.len() > 1, "a transaction of at least two commands");
        Self(commands)
    }

    /// Its commands in order.
    #[must_use]
    pub fn commands(&self) -> &[Command] {
        &self.0
    }

    /// Whether it is a transaction.
    #[must_use]
    pub fn is_transaction(&self) -> bool {
        self.0.len() > 1
    }

    /// Whether it changes nothing, whatever it gives back.
    pub(crate) fn only_reads(&self) -> bool {
        let reads =
            |it: &Command| matches!(it, Command::Get(_) | Command::List(_) | Command::Tail { .. });
        self.0.iter().all(reads)
    }

    /// How long it waits before it gives nothing back. Within a transaction nothing waits.
    #[must_use]
    pub fn wait(&self) -> Duration {
        match self.0[..] {
            [
                Command::Tail { wait_ms, .. }
                | Command::Pop { wait_ms, .. }
                | Command::Move { wait_ms, .. },
            ] => Duration::from_millis(wait_ms.into()),
            _ => Duration::ZERO,
        }
    }

    /// The bytes of its large values.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |command: &Command| match command {
            Command::Large { bytes, .. } => *bytes,
            _ => 0,
        };
        self.0.iter().map(bytes).sum()
    }
}

impl Command {
    /// The keys that it works on.
    pub fn keys(&self) -> impl Iterator<Item = Key> + use<> {
        let other = match self {
            Self::Move { to, .. } => Some(*to),
            _ => None,
        };
        std::iter::once(self.key()).chain(other)
    }

    /// The key that it works on, or the first of them.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::Set(key, _)
            | Self::SetAbsent(key, _)
            | Self::SetPresent(key, _)
            | Self::Swap { key, .. }
            | Self::Get(key)
            | Self::Add(key, _)
            | Self::Append(key, _)
            | Self::List(key)
            | Self::Exchange(key, _)
            | Self::Large { key, .. }
            | Self::Log(key, _)
            | Self::Tail { key, .. }
            | Self::Pop { key, .. }
            | Self::Move { from: key, .. } => *key,
        }
    }
}

impl Display for Key {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "k{}", self.0)
    }
}

impl Display for Command {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(key, value) => write!(f, "SET {key} {value}"),
            Self::SetAbsent(key, value) => write!(f, "SET {key} {value} NX"),
            Self::SetPresent(key, value) => write!(f, "SET {key} {value} XX"),
            Self::Swap { key, from, to } => write!(f, "SWAP {key} {from} FOR {to}"),
            Self::Get(key) => write!(f, "GET {key}"),
            Self::Add(key, by) => write!(f, "INCRBY {key} {by}"),
            Self::Append(key, element) => write!(f, "RPUSH {key} {element}"),
            Self::List(key) => write!(f, "LRANGE {key}"),
            Self::Exchange(key, value) => write!(f, "SET {key} {value} GET"),
            Self::Large { key, value, bytes } => write!(f, "SET {key} {value} IN {bytes} BYTES"),
            Self::Log(key, element) => write!(f, "XADD {key} {element}"),
            Self::Tail { key, after, wait_ms } => {
                write!(f, "XREAD {key} BEHIND {after} WITHIN {wait_ms} ms")
            }
            Self::Pop { key, wait_ms } => write!(f, "BLPOP {key} WITHIN {wait_ms} ms"),
            Self::Move { from, to, wait_ms } => {
                write!(f, "BLMOVE {from} TO {to} WITHIN {wait_ms} ms")
            }
        }
    }
}

impl Display for Reply {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => write!(f, "OK"),
            Self::Nothing => write!(f, "nil"),
            Self::Number(number) => write!(f, "{number}"),
            Self::List(elements) => {
                // The end of a list is where two of them differ.
                let cut = elements.len().saturating_sub(8);
                let dots = if cut > 0 { format!("({cut} more) ") } else { String::new() };
                let shown: Vec<_> = elements[cut..].iter().map(i64::to_string).collect();
                write!(f, "[{dots}{}]", shown.join(" "))
            }
        }
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let commands: Vec<_> = self.0.iter().map(Command::to_string).collect();
        match self.is_transaction() {
            true => write!(f, "MULTI {{ {} }}", commands.join("; ")),
            false => write!(f, "{}", commands.join("")),
        }
    }
}
