//! Runs the commands of an append-only file as their client did.
//!
//! - The commands between MULTI and EXEC are kept until EXEC has come: all of them run, or none.
//! - A command that cannot be replayed, or that fails, ends the import.

use std::io::Read;
use std::time::{Duration, Instant};

use stillframe_keyspace::Keyspace;

use super::Part;
use super::commands::{Commands, CommandsError, Next, whole_command_within};
use crate::client::Session;
use crate::clock::unix_millis;
use crate::commands::{self, Table};
use crate::state::ServerState;

const PROGRESS_PERIOD: Duration = Duration::from_secs(5);

/// The client that all commands come from.
pub(super) struct Replay<'a> {
    table: &'a Table,
    /// Commands that ran.
    pub(super) commands: u64,
    pub(super) notices: Vec<String>,
    replies: Vec<u8>,
    told: Instant,
}

/// Why a file cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReplayError {
    /// Its commands cannot be read.
    #[error(transparent)]
    File(#[from] CommandsError),
    /// The length of an argument was changed.
    #[error(
        "damaged in the command at byte {at}: it would reach past the end of the file, and a whole \
         command stands in it at byte {within}; cut a copy of the file at byte {at} to do without \
         what follows"
    )]
    Reaches { at: u64, within: u64 },
    /// It is not the last file, and is cut.
    #[error("damaged: it ends with {what}, at byte {at}, and another follows")]
    Cut { what: &'static str, at: u64 },
    /// A command cannot run, or fails.
    #[error("{named} at byte {at} {why}")]
    Command { named: String, at: u64, why: String },
}

/// A transaction that waits for its EXEC.
struct Open {
    /// Where its MULTI stands.
    at: u64,
    commands: Vec<(u64, Vec<Vec<u8>>)>,
}

impl<'a> Replay<'a> {
    pub(super) fn new(table: &'a Table) -> Self {
        let (notices, replies) = (Vec::new(), Vec::new());
        Self { table, commands: 0, notices, replies, told: Instant::now() }
    }

    /// Replays a file that stands at `offset`.
    ///
    /// # Errors
    /// [`ReplayError`]: what is wrong, and where.
    pub(super) fn file(
        &mut self,
        keyspace: &mut Keyspace,
        state: &mut ServerState,
        input: impl Read,
        offset: u64,
        part: &Part,
    ) -> Result<(), ReplayError> {
        let mut session = Session::internal();
        let mut file = Commands::new(input, offset);
        let mut open: Option<Open> = None;
        loop {
            match file.next()? {
                Next::End => break,
                Next::Cut(at) => {
                    self.cut(&file, at, open.as_ref().map(|open| open.at), part)?;
                    return Ok(());
                }
                Next::Command(at) => {
                    let args = file.args();
                    open = match (&args[..], open.take()) {
                        ([name], None) if is(name, b"multi") => {
                            Some(Open { at, commands: Vec::new() })
                        }
                        ([name], Some(open)) if is(name, b"exec") => {
                            for (at, args) in &open.commands {
                                let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
                                self.run(keyspace, state, &mut session, *at, &args)?;
                            }
                            None
                        }
                        (_, Some(mut open)) => {
                            let owned = args.iter().map(|arg| arg.to_vec()).collect();
                            open.commands.push((at, owned));
                            Some(open)
                        }
                        (args, None) => {
                            self.run(keyspace, state, &mut session, at, args)?;
                            None
                        }
                    };
                    self.report(&part.path, at);
                }
            }
        }
        match open {
            None => Ok(()),
            Some(open) => self.leave_out("a transaction without its EXEC", open.at, part),
        }
    }

    /// The file ends within the command at `at`.
    fn cut<R: Read>(
        &mut self,
        file: &Commands<R>,
        at: u64,
        multi: Option<u64>,
        part: &Part,
    ) -> Result<(), ReplayError> {
        if let Some(within) = whole_command_within(file.tail()) {
            return Err(ReplayError::Reaches { at, within: at + within as u64 });
        }
        match multi {
            None => self.leave_out("an unfinished command", at, part),
            Some(multi) => self.leave_out("an unfinished transaction", multi, part),
        }
    }

    fn leave_out(&mut self, what: &'static str, at: u64, part: &Part) -> Result<(), ReplayError> {
        let path = part.path.display();
        if !part.last {
            return Err(ReplayError::Cut { what, at });
        }
        let notice = format!("{path} ends with {what}, which is left out, from byte {at} on");
        tracing::warn!("{notice}");
        self.notices.push(notice);
        Ok(())
    }

    fn run(
        &mut self,
        keyspace: &mut Keyspace,
        state: &mut ServerState,
        session: &mut Session,
        at: u64,
        args: &[&[u8]],
    ) -> Result<(), ReplayError> {
        // The clock stands still, unless a command counts from now on. Redis 7 logs none that does.
        let now = if counts_from_now(args) { unix_millis() } else { 0 };
        let applied = match args {
            [name] if is(name, b"multi") || is(name, b"exec") => {
                Err("cannot be replayed: no transaction begins or ends here".to_owned())
            }
            _ => {
                let parts = (keyspace, state, self.table);
                commands::replay(parts, (session, &mut self.replies), now, args)
            }
        };
        self.commands += 1;
        applied.map_err(|why| ReplayError::Command { named: commands::named(args), at, why })
    }

    fn report(&mut self, path: &std::path::Path, at: u64) {
        if self.commands.is_multiple_of(1024) && self.told.elapsed() >= PROGRESS_PERIOD {
            self.told = Instant::now();
            tracing::info!("replaying {}: byte {at}, {} commands", path.display(), self.commands);
        }
    }
}

fn is(name: &[u8], lower: &[u8]) -> bool {
    name.eq_ignore_ascii_case(lower)
}

fn counts_from_now(args: &[&[u8]]) -> bool {
    let Some((name, rest)) = args.split_first() else { return false };
    let options = match name.to_ascii_lowercase().as_slice() {
        b"setex" | b"psetex" | b"expire" | b"pexpire" => return true,
        b"set" => rest.get(2..),
        b"getex" => rest.get(1..),
        b"restore" => return !rest.iter().skip(3).any(|option| is(option, b"absttl")),
        _ => None,
    };
    options.unwrap_or_default().iter().any(|option| is(option, b"ex") || is(option, b"px"))
}
