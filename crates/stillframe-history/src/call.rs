//! What a client may call, and what comes back.

use std::fmt::{self, Display, Formatter};

/// A key by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub u32);

/// A command on one key.
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
        self.0.iter().all(|command| matches!(command, Command::Get(_) | Command::List(_)))
    }
}

impl Command {
    /// The key that it works on.
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
            | Self::List(key) => *key,
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
