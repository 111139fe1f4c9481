//! Runs the commands of an append-only file as their client did.
//!
//! - Only commands that write, and SELECT, MULTI and EXEC, are in such a file; anything else is
//!   refused by name, as is a command that this server does not have.
//! - The commands between MULTI and EXEC are kept until EXEC has come: all of them run, or none.
//! - An error reply means that the data is not what it was when the command was logged: it ends the
//!   import.

use std::io::Read;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use stillframe::Algorithm;
use stillframe_keyspace::Keyspace;
use stillframe_resp::{Out, Protocol};

use super::Part;
use super::commands::{Commands, Next, whole_command_within};
use crate::commands::{self, Context, Lookup, Table, flags};
use crate::server::unix_millis;
use crate::session::Session;
use crate::state::ServerState;

const PROGRESS_PERIOD: Duration = Duration::from_secs(5);

/// The client that all commands come from.
pub(super) struct Replay<'a, A: Algorithm> {
    table: &'a Table<A>,
    /// Commands that ran.
    pub(super) commands: u64,
    pub(super) notices: Vec<String>,
    replies: Vec<u8>,
    told: Instant,
}

/// A transaction that waits for its EXEC.
struct Open {
    /// Where its MULTI stands.
    at: u64,
    commands: Vec<(u64, Vec<Vec<u8>>)>,
}

impl<'a, A: Algorithm> Replay<'a, A> {
    pub(super) fn new(table: &'a Table<A>) -> Self {
        let (notices, replies) = (Vec::new(), Vec::new());
        Self { table, commands: 0, notices, replies, told: Instant::now() }
    }

    /// Replays a file that stands at `offset`.
    ///
    /// # Errors
    /// One sentence: what is wrong, and where.
    pub(super) fn file(
        &mut self,
        keyspace: &mut Keyspace<A>,
        state: &mut ServerState,
        input: impl Read,
        offset: u64,
        part: &Part,
    ) -> Result<(), String> {
        let nobody = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut session = Session::new(0, nobody, nobody, -1, true, Instant::now());
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
    ) -> Result<(), String> {
        if let Some(within) = whole_command_within(file.tail()) {
            return Err(format!(
                "damaged in the command at byte {at}: it would reach past the end of the file, and \
                 a whole command stands in it at byte {}; cut a copy of the file at byte {at} to \
                 do without what follows",
                at + within as u64
            ));
        }
        match multi {
            None => self.leave_out("an unfinished command", at, part),
            Some(multi) => self.leave_out("an unfinished transaction", multi, part),
        }
    }

    fn leave_out(&mut self, what: &str, at: u64, part: &Part) -> Result<(), String> {
        let path = part.path.display();
        if !part.last {
            return Err(format!("damaged: it ends with {what}, at byte {at}, and another follows"));
        }
        let notice = format!("{path} ends with {what}, which is left out, from byte {at} on");
        tracing::warn!("{notice}");
        self.notices.push(notice);
        Ok(())
    }

    fn run(
        &mut self,
        keyspace: &mut Keyspace<A>,
        state: &mut ServerState,
        session: &mut Session,
        at: u64,
        args: &[&[u8]],
    ) -> Result<(), String> {
        let refused = |why: &str| format!("{} at byte {at} {why}", named(args));
        let Lookup::Found(index) = self.table.lookup(args) else {
            return Err(refused("cannot be replayed: this server does not have the command"));
        };
        let command = self.table.get(index);
        if !command.has(flags::WRITE) && command.name != "select" {
            return Err(refused("cannot be replayed: it is no command that changes data"));
        }
        // The clock stands still, unless a command counts from now on. Redis 7 logs none that does.
        let now = if counts_from_now(command.name, args) { unix_millis() } else { 0 };
        self.replies.clear();
        let mut ctx = Context {
            out: Out::new(&mut self.replies, Protocol::Resp2),
            keyspace,
            server: state,
            session,
            now,
            table: self.table,
        };
        commands::dispatch(&mut ctx, args);
        let _ = ctx.keyspace.tend(); // nobody waits for its housekeeping
        self.commands += 1;
        match &self.replies[..] {
            [b'-', error @ ..] => {
                let error = String::from_utf8_lossy(error.trim_ascii_end()).into_owned();
                Err(refused(&format!("does not succeed as it once did: {error}")))
            }
            _ => Ok(()),
        }
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

fn counts_from_now(name: &str, args: &[&[u8]]) -> bool {
    let options = match name {
        "setex" | "psetex" | "expire" | "pexpire" => return true,
        "set" => args.get(3..),
        "getex" => args.get(2..),
        _ => None,
    };
    options.unwrap_or_default().iter().any(|option| is(option, b"ex") || is(option, b"px"))
}

/// A command for an error's text: its name, and its first argument, which is the key of most.
fn named(args: &[&[u8]]) -> String {
    const SHOWN_BYTES_MAX: usize = 100;
    let shown = |bytes: &[u8]| match bytes.get(..SHOWN_BYTES_MAX) {
        Some(start) if bytes.len() > SHOWN_BYTES_MAX => format!("{}...", start.escape_ascii()),
        _ => bytes.escape_ascii().to_string(),
    };
    let name = shown(args.first().copied().unwrap_or_default()).to_uppercase();
    match args.get(1) {
        Some(key) => format!("{name} of key \"{}\"", shown(key)),
        None => name,
    }
}
