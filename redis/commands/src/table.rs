//! The commands of a server, each with its facts and its handler: looked up by name for every
//! request.
//!
//! - A name is ASCII and lower case; requests may use any case.
//! - A container (`CLIENT`, `CONFIG`, ...) has sub-commands; an unknown sub-command is an unknown
//!   command, found before anything runs.
//! - An index into the table stays valid for the life of the server: queued transactions hold it.

use std::collections::BTreeMap;

use stillframe_resp::parse_integer;

use crate::context::Context;
use crate::errors::Refusal;
use crate::facts::{self, Facts, Keys, flags};

/// Runs one command on data. `args[0]` is the name; the arity was checked. Writes exactly one
/// reply, or returns why the command is not done: its caller then writes that in place of whatever
/// was written.
pub type DataHandler = fn(&mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal>;

/// What runs a command.
#[derive(Debug, Clone, Copy)]
pub enum Handler<S> {
    /// It needs nothing but data.
    Data(DataHandler),
    /// It needs the server.
    Server(S),
    /// EXEC: it runs the queue of the caller's transaction, which may hold both.
    Exec,
}

/// One command or sub-command.
pub struct Command<S> {
    /// All that is known of it.
    pub facts: &'static Facts,
    /// Of its facts those that every request needs: the name,
    pub name: &'static str,
    /// the number of arguments,
    pub arity: i8,
    /// the flags,
    pub flags: u32,
    /// and the places of its keys.
    pub keys: Keys,
    /// What it does.
    pub handler: Handler<S>,
    /// Indices of sub-commands; empty unless a container.
    pub subcommands: Vec<usize>,
    /// The sub-command that runs its requests if their next argument is a number.
    pub numbered: Option<usize>,
}

impl<S> Command<S> {
    /// Whether a request of `count` arguments, the name included, has the right number of them.
    pub fn accepts(&self, count: usize) -> bool {
        let arity = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { count >= arity } else { count == arity }
    }

    /// Whether it runs the queue of the caller's transaction.
    pub fn is_exec(&self) -> bool {
        matches!(self.handler, Handler::Exec)
    }

    /// Whether any of `flags` is set.
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }

    /// The name of the container, or its own.
    pub fn container(&self) -> &'static str {
        self.name.split_once('|').map_or(self.name, |(container, _)| container)
    }

    /// The part of the name after the container's.
    fn own_name(&self) -> &'static str {
        self.name.split_once('|').map_or(self.name, |(_, own)| own)
    }
}

/// What a lookup found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// The command's index.
    Found(usize),
    /// No command of that name.
    Unknown,
    /// A container without a sub-command of that name.
    UnknownSubcommand,
}

/// Every command of the server.
pub struct Table<S> {
    commands: Vec<Command<S>>,
    /// Open addressing over the top-level commands, by [`hash`]; 0 = empty, else index + 1.
    buckets: [u16; BUCKETS],
    /// [`fold`] of the name of each command, and whether that is all of the name, except its
    /// length.
    folded: Vec<(u64, bool)>,
    /// Names, in lower case, that lead clients elsewhere than the table says: to another command,
    /// or nowhere (`rename-command`). Logs and replication know the real names alone.
    renamed: BTreeMap<Vec<u8>, Option<usize>>,
}

const BUCKETS: usize = 1024;

/// Why a command cannot have another name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenameError {
    /// No command has this name.
    #[error("there is no command '{name}' to be renamed")]
    Unknown {
        /// The name.
        name: String,
    },
    /// Another command has this name.
    #[error("there is a command '{name}' already")]
    Taken {
        /// The name.
        name: String,
    },
}

impl<S> Table<S> {
    /// An empty table.
    pub fn empty() -> Self {
        Self {
            commands: Vec::new(),
            buckets: [0; BUCKETS],
            folded: Vec::new(),
            renamed: BTreeMap::new(),
        }
    }

    /// Gives commands other names for clients, one after the other; an empty name takes a command
    /// away.
    ///
    /// # Errors
    /// [`RenameError`]: there is no such command, or one of that name.
    pub fn rename_all(&mut self, renames: &[[Vec<u8>; 2]]) -> Result<(), RenameError> {
        renames.iter().try_for_each(|[from, to]| self.rename(from, to))
    }

    fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), RenameError> {
        let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let command = self.find_for_client(from);
        let [from, to] = [from, to].map(<[u8]>::to_ascii_lowercase);
        if command.is_none() {
            return Err(RenameError::Unknown { name: shown(&from) });
        }
        self.renamed.insert(from, None);
        if self.find_for_client(&to).is_some() {
            return Err(RenameError::Taken { name: shown(&to) });
        }
        if !to.is_empty() {
            self.renamed.insert(to, command);
        }
        Ok(())
    }

    /// The top-level command that clients call by this name.
    pub fn find_for_client(&self, name: &[u8]) -> Option<usize> {
        if self.renamed.is_empty() {
            return self.find(name);
        }
        self.renamed.get(&name.to_ascii_lowercase()).copied().unwrap_or_else(|| self.find(name))
    }

    /// Whether clients can call a command, or its container, by any name.
    pub fn is_offered(&self, command: &Command<S>) -> bool {
        let name = command.container().as_bytes();
        let index = self.find(name);
        let is_reached = || {
            let reached = self.renamed.values().any(|found| *found == index);
            reached || self.find_for_client(name) == index
        };
        !command.has(flags::ABSENT) && is_reached()
    }

    /// Adds a command on data, or such a sub-command of the container added last: `container|name`.
    ///
    /// # Panics
    /// The list has no facts of it.
    pub fn add(&mut self, name: &str, handler: DataHandler) {
        self.insert(listed(name), Handler::Data(handler));
    }

    /// Adds a command, or a sub-command of the container added last, that needs the server.
    ///
    /// # Panics
    /// The list has no facts of it.
    pub fn add_server(&mut self, name: &str, handler: S) {
        self.insert(listed(name), Handler::Server(handler));
    }

    /// Adds EXEC.
    pub(crate) fn add_exec(&mut self) {
        self.insert(listed("exec"), Handler::Exec);
    }

    /// Adds a command with facts of its own.
    pub fn insert(&mut self, facts: &'static Facts, handler: Handler<S>) {
        assert!(self.commands.len() < BUCKETS / 2, "the command table is full; raise BUCKETS");
        let &Facts { name, arity, flags, keys, .. } = facts;
        let index = self.commands.len();
        let (subcommands, numbered) = (Vec::new(), None);
        let command = Command { facts, name, arity, flags, keys, handler, subcommands, numbered };
        self.commands.push(command);
        if let Some((container, _)) = name.split_once('|') {
            let owner = self.commands.iter_mut().rev().find(|command| command.name == container);
            owner.expect("the container is added before its sub-commands").subcommands.push(index);
            self.folded.push((0, false)); // not looked up by this
            return;
        }
        let folded = fold(name.as_bytes());
        let is_letters = name.bytes().all(|byte| byte.is_ascii_lowercase());
        self.folded.push((folded, is_letters && name.len() <= size_of_val(&folded)));
        let mut bucket = hash(name.as_bytes(), folded);
        while self.buckets[bucket] != 0 {
            bucket = (bucket + 1) % BUCKETS;
        }
        self.buckets[bucket] = self.commands.len() as u16;
    }

    /// Has requests for a sub-command whose next argument is a number run by another sub-command.
    ///
    /// # Panics
    /// One of the two was not added.
    pub fn add_numbered(&mut self, name: &str, numbered: &str) {
        let [at, numbered] = [name, numbered].map(|name| {
            let at = self.commands.iter().position(|command| command.name == name);
            at.expect("both sub-commands were added")
        });
        self.commands[at].numbered = Some(numbered);
    }

    /// The command at an index that a lookup gave.
    pub fn get(&self, index: usize) -> &Command<S> {
        &self.commands[index]
    }

    /// All commands, sub-commands included, in the order of registration.
    pub fn all(&self) -> &[Command<S>] {
        &self.commands
    }

    /// The top-level command of that name, in any case.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let folded = fold(name);
        let mut bucket = hash(name, folded);
        loop {
            let index = usize::from(self.buckets[bucket]).checked_sub(1)?;
            let known = self.commands[index].name.as_bytes();
            let (word, is_whole) = self.folded[index];
            if word == folded
                && known.len() == name.len()
                && (is_whole || known.eq_ignore_ascii_case(name))
            {
                return Some(index);
            }
            bucket = (bucket + 1) % BUCKETS;
        }
    }

    /// The command or sub-command that a request names.
    pub fn lookup(&self, args: &[&[u8]]) -> Lookup {
        self.lookup_behind(args.first().and_then(|name| self.find(name)), args)
    }

    /// The command or sub-command that a client's request names.
    pub fn lookup_for_client(&self, args: &[&[u8]]) -> Lookup {
        self.lookup_behind(args.first().and_then(|name| self.find_for_client(name)), args)
    }

    fn lookup_behind(&self, found: Option<usize>, args: &[&[u8]]) -> Lookup {
        let Some(index) = found else { return Lookup::Unknown };
        let command = &self.commands[index];
        match args.get(1) {
            Some(name) if !command.subcommands.is_empty() => {
                let found = self.find_sub(command, name).map(|index| {
                    let numbered = self.commands[index].numbered;
                    let has_number = || args.get(2).is_some_and(|arg| parse_integer(arg).is_some());
                    numbered.filter(|_| has_number()).unwrap_or(index)
                });
                found.map_or(Lookup::UnknownSubcommand, Lookup::Found)
            }
            _ => Lookup::Found(index),
        }
    }

    /// The name of the command that a client's request reached by another one.
    pub fn real_name(&self, index: usize, called: &[u8]) -> Option<&'static str> {
        if self.renamed.is_empty() {
            return None;
        }
        let name = self.commands[index].container();
        (!name.as_bytes().eq_ignore_ascii_case(called)).then_some(name)
    }

    /// A container's sub-command of that name, in any case.
    pub fn find_sub(&self, container: &Command<S>, name: &[u8]) -> Option<usize> {
        let named = |index: &&usize| {
            self.commands[**index].own_name().as_bytes().eq_ignore_ascii_case(name)
        };
        container.subcommands.iter().find(named).copied()
    }
}

/// The facts of a command in the list.
fn listed(name: &str) -> &'static Facts {
    let facts = facts::find(name);
    facts.unwrap_or_else(|| panic!("{name} has a handler and no facts: add it to commands.txt"))
}

/// The first bytes of a name with the bit set that makes letters small: no other byte becomes one.
#[inline]
fn fold(name: &[u8]) -> u64 {
    let word = if let Some(head) = name.first_chunk() {
        u64::from_le_bytes(*head)
    } else if let (Some(head), Some(tail)) = (name.first_chunk(), name.last_chunk()) {
        let [head, tail] = [head, tail].map(|half| u64::from(u32::from_le_bytes(*half)));
        head | tail << (8 * (name.len() - 4))
    } else {
        name.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
    };
    word | 0x2020_2020_2020_2020
}

/// Bucket of a name: its length, first eight bytes and last byte, case folded.
fn hash(name: &[u8], folded: u64) -> usize {
    let last = u64::from(name.last().copied().unwrap_or(0) | 0x20);
    let mixed =
        (folded ^ last.rotate_left(32) ^ name.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 54) as usize
}
