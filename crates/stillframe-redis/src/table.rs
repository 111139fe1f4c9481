//! The registry of commands: one `add` line per command, looked up by name for every request.
//!
//! - A name is ASCII and lower case; requests may use any case.
//! - A container (`CLIENT`, `CONFIG`, ...) has sub-commands; an unknown sub-command is an unknown
//!   command, found before anything runs.
//! - An index into the table stays valid for the life of the server: queued transactions hold it.

use std::collections::BTreeMap;

use stillframe_resp::parse_integer;

use crate::context::Context;
use crate::errors::Refusal;

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

/// Properties of a command, or-ed.
pub mod flags {
    /// Changes the data set: refused while saving fails.
    pub const WRITE: u32 = 1;
    /// Reads keys and changes none.
    pub const READONLY: u32 = 1 << 1;
    /// May take memory.
    pub const DENYOOM: u32 = 1 << 2;
    /// Administration.
    pub const ADMIN: u32 = 1 << 3;
    /// Not for scripts.
    pub const NOSCRIPT: u32 = 1 << 4;
    /// Allowed while the data set is being loaded.
    pub const LOADING: u32 = 1 << 5;
    /// Allowed on stale data.
    pub const STALE: u32 = 1 << 6;
    /// Constant or logarithmic time.
    pub const FAST: u32 = 1 << 7;
    /// Needs no authentication.
    pub const NO_AUTH: u32 = 1 << 8;
    /// Never inside a transaction.
    pub const NO_MULTI: u32 = 1 << 9;
    /// Runs at once inside a transaction instead of being queued.
    pub const NOT_QUEUED: u32 = 1 << 10;
    /// Not while a replica loads a new data set beside the old one.
    pub const NO_ASYNC_LOADING: u32 = 1 << 11;
    /// Concerns the connection rather than data.
    pub const CONNECTION: u32 = 1 << 12;
    /// Publishes, subscribes, or lists subscribers.
    pub const PUBSUB: u32 = 1 << 17;
    /// May reach replicas though it changes nothing; COMMAND hides this flag.
    pub const MAY_REPLICATE: u32 = 1 << 18;
    /// May make the client wait.
    pub const BLOCKING: u32 = 1 << 13;
    /// Allowed while a script runs too long.
    pub const ALLOW_BUSY: u32 = 1 << 14;
    /// Not for the slow log, as its parts are.
    pub const SKIP_SLOWLOG: u32 = 1 << 15;
    /// Not all keys are at fixed positions; follows from `Keys`.
    pub const MOVABLE_KEYS: u32 = 1 << 16;
    /// Redis has it, this server has not.
    pub const ABSENT: u32 = 1 << 19;

    /// What COMMAND calls the flags that it shows, in its order.
    pub const NAMES: [(u32, &str); 16] = [
        (WRITE, "write"),
        (READONLY, "readonly"),
        (DENYOOM, "denyoom"),
        (ADMIN, "admin"),
        (PUBSUB, "pubsub"),
        (NOSCRIPT, "noscript"),
        (LOADING, "loading"),
        (STALE, "stale"),
        (SKIP_SLOWLOG, "skip_slowlog"),
        (FAST, "fast"),
        (NO_AUTH, "no_auth"),
        (NO_ASYNC_LOADING, "no_async_loading"),
        (NO_MULTI, "no_multi"),
        (BLOCKING, "blocking"),
        (MOVABLE_KEYS, "movablekeys"),
        (ALLOW_BUSY, "allow_busy"),
    ];
}

/// Positions of the keys among the arguments: first, last (negative: from the end), step.
/// All zero when there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    /// Position of the first key.
    pub first: i8,
    /// Position of the last key.
    pub last: i8,
    /// Distance between keys.
    pub step: i8,
    /// Keys beyond those.
    pub more: More,
}

/// Keys whose positions other arguments give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum More {
    /// There are none.
    None,
    /// The argument at this position says how many keys follow it.
    Counted(u8),
    /// The argument after the option STORE or STOREDIST, where options begin at this position.
    Stored(u8),
    /// All arguments after the option KEYS of MIGRATE, if the key before is empty.
    Migrated,
}

impl Keys {
    /// These keys, and more.
    pub const fn and(self, more: More) -> Self {
        Self { more, ..self }
    }

    const fn at(first: i8, last: i8, step: i8) -> Self {
        Self { first, last, step, more: More::None }
    }

    /// The keys of a request.
    pub fn of<'a>(self, request: &[&'a [u8]]) -> Vec<&'a [u8]> {
        let first = usize::try_from(self.first).unwrap_or(0);
        let last = match usize::try_from(self.last) {
            Ok(last) => last,
            Err(_) => request.len().saturating_sub(self.last.unsigned_abs().into()),
        };
        let step = usize::try_from(self.step).unwrap_or(1).max(1);
        let span = if first == 0 { None } else { request.get(first..=last) };
        let mut keys: Vec<&[u8]> = span.unwrap_or_default().iter().step_by(step).copied().collect();
        match self.more {
            More::None => {}
            More::Counted(at) => {
                let counted = request.get(at.into()..).and_then(|from| {
                    let (count, rest) = from.split_first()?;
                    rest.get(..usize::try_from(parse_integer(count)?).ok()?)
                });
                match counted {
                    Some(counted @ [_, ..]) => keys.extend(counted),
                    // Such a request is refused whatever else it says.
                    _ => keys.clear(),
                }
            }
            More::Stored(from) => {
                keys.extend(stored(request.get(from.into()..).unwrap_or_default()));
            }
            More::Migrated => {
                let named = migrated(request.get(6..).unwrap_or_default());
                if let (Some([]), Some(named)) = (keys.first(), named) {
                    keys = named.to_vec();
                }
            }
        }
        keys
    }
}

/// What stands behind KEYS among options of MIGRATE; a password may be any word.
fn migrated<'r, 'a>(mut options: &'r [&'a [u8]]) -> Option<&'r [&'a [u8]]> {
    while let [option, after @ ..] = options {
        let takes = match option.to_ascii_lowercase().as_slice() {
            b"keys" => return Some(after),
            b"auth" => 1,
            b"auth2" => 2,
            _ => 0,
        };
        options = after.get(takes..).unwrap_or_default();
    }
    None
}

/// The key behind the last STORE or STOREDIST among options of SORT or GEORADIUS. What another
/// option takes is no option, whatever word it is.
fn stored<'a>(options: &[&'a [u8]]) -> Option<&'a [u8]> {
    const TAKES: [(&[u8], usize); 6] =
        [(b"LIMIT", 2), (b"GET", 1), (b"BY", 1), (b"COUNT", 1), (b"STORE", 1), (b"STOREDIST", 1)];
    let (mut rest, mut found) = (options, None);
    while let [option, after @ ..] = rest {
        let known = TAKES.iter().find(|(name, _)| option.eq_ignore_ascii_case(name));
        let (name, takes) = known.copied().unwrap_or_default();
        if name.starts_with(b"STORE") {
            found = after.first().copied();
        }
        rest = after.get(takes..).unwrap_or_default();
    }
    found
}

/// No keys.
pub const NO_KEYS: Keys = Keys::at(0, 0, 0);
/// The first argument is the key.
pub const ONE_KEY: Keys = Keys::at(1, 1, 1);
/// All arguments are keys.
pub const ALL_KEYS: Keys = Keys::at(1, -1, 1);
/// All arguments but the last are keys.
pub const ALL_BUT_LAST: Keys = Keys::at(1, -2, 1);
/// All arguments but the first are keys.
pub const ALL_BUT_FIRST: Keys = Keys::at(2, -1, 1);
/// The first two arguments are keys.
pub const TWO_KEYS: Keys = Keys::at(1, 2, 1);
/// Key, value, key, value...
pub const KEY_VALUE_PAIRS: Keys = Keys::at(1, -1, 2);
/// The second argument is the key (sub-commands).
pub const SECOND_KEY: Keys = Keys::at(2, 2, 1);

/// The third argument is the key.
pub const THIRD_KEY: Keys = Keys::at(3, 3, 1);

/// One command or sub-command.
pub struct Command<S> {
    /// Lower case; a sub-command's is `container|name`.
    pub name: &'static str,
    /// Number of arguments with the name; negative: at least that many.
    pub arity: i8,
    /// See [`flags`].
    pub flags: u32,
    /// Where the keys are.
    pub keys: Keys,
    /// What it does.
    pub handler: Handler<S>,
    /// Indices of sub-commands; empty unless a container.
    pub subcommands: Vec<usize>,
}

impl<S> Command<S> {
    /// Whether a request of `count` arguments, the name included, has the right number of them.
    pub fn accepts(&self, count: usize) -> bool {
        let arity = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { count >= arity } else { count == arity }
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
    pub fn add(
        &mut self,
        name: &'static str,
        arity: i8,
        flags: u32,
        keys: Keys,
        handler: DataHandler,
    ) {
        self.insert(name, arity, flags, keys, Handler::Data(handler));
    }

    /// Adds a command, or a sub-command of the container added last, that needs the server.
    pub fn add_server(
        &mut self,
        name: &'static str,
        arity: i8,
        flags: u32,
        keys: Keys,
        handler: S,
    ) {
        self.insert(name, arity, flags, keys, Handler::Server(handler));
    }

    /// Adds EXEC.
    pub(crate) fn add_exec(&mut self, name: &'static str, arity: i8, flags: u32, keys: Keys) {
        self.insert(name, arity, flags, keys, Handler::Exec);
    }

    fn insert(
        &mut self,
        name: &'static str,
        arity: i8,
        flags: u32,
        keys: Keys,
        handler: Handler<S>,
    ) {
        assert!(self.commands.len() < BUCKETS / 2, "the command table is full; raise BUCKETS");
        let index = self.commands.len();
        let flags = flags | movable(keys);
        let subcommands = Vec::new();
        self.commands.push(Command { name, arity, flags, keys, handler, subcommands });
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
                self.find_sub(command, name).map_or(Lookup::UnknownSubcommand, Lookup::Found)
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

/// The flag of a command that has such keys.
fn movable(keys: Keys) -> u32 {
    if keys.more == More::None { 0 } else { flags::MOVABLE_KEYS }
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
