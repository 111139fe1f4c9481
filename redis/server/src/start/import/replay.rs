//! Runs the commands of an append-only file as their client did.
//!
//! - The commands between MULTI and EXEC wait for EXEC: all of them run, or none.
//! - A command that cannot be replayed, or that fails, ends the import.

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use stillframe_storage::dump::Skipped;
use stillframe_storage::replay::{ReplayError, Replays, named};

use super::commands::{Commands, Next, whole_command_within};
use super::{ImportError, Part};
use crate::node::clock::unix_millis;

const PROGRESS_PERIOD: Duration = Duration::from_secs(5);

/// The progress of the replay.
pub(super) struct Import {
    /// Commands that ran.
    pub(super) commands: u64,
    pub(super) notices: Vec<String>,
    reported: Instant,
}

/// A transaction that waits for its EXEC.
struct Open {
    /// The offset of its MULTI.
    at: u64,
    commands: Vec<(u64, Vec<Vec<u8>>)>,
}

impl Import {
    pub(super) fn new() -> Self {
        Self { commands: 0, notices: Vec::new(), reported: Instant::now() }
    }

    /// Replays a file from `offset` on.
    ///
    /// # Errors
    /// [`ImportError`]: what is wrong, and where.
    pub(super) fn file<R: Replays>(
        &mut self,
        to: &mut R,
        input: impl Read,
        offset: u64,
        part: &Part,
    ) -> Result<(), ImportError> {
        let mut client = R::Client::default();
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
                                self.run(to, &mut client, *at, &args)?;
                            }
                            None
                        }
                        (_, Some(mut open)) => {
                            let owned = args.iter().map(|arg| arg.to_vec()).collect();
                            open.commands.push((at, owned));
                            Some(open)
                        }
                        (args, None) => {
                            self.run(to, &mut client, at, args)?;
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
    ) -> Result<(), ImportError> {
        if let Some(within) = whole_command_within(file.tail()) {
            return Err(ImportError::Reaches { at, within: at + within as u64 });
        }
        match multi {
            None => self.leave_out("an unfinished command", at, part),
            Some(multi) => self.leave_out("an unfinished transaction", multi, part),
        }
    }

    /// Notes what was skipped in the RDB file that `path` is or starts with.
    pub(super) fn leave_out_skipped(&mut self, path: &Path, skipped: &Skipped) {
        let (path, Skipped { values, sections, first }) = (path.display(), skipped);
        if let Some(first) = first {
            self.notice(format!("{path}: values left out: {values}; the first is {first}"));
        }
        if *sections > 0 {
            self.notice(format!("{path}: sections with data of modules left out: {sections}"));
        }
    }

    fn notice(&mut self, notice: String) {
        tracing::warn!("{notice}");
        self.notices.push(notice);
    }

    fn leave_out(&mut self, what: &'static str, at: u64, part: &Part) -> Result<(), ImportError> {
        let path = part.path.display();
        if !part.last {
            return Err(ImportError::Cut { what, at });
        }
        let notice = format!("{path} ends with {what}, which is left out, from byte {at} on");
        self.notice(notice);
        Ok(())
    }

    fn run<R: Replays>(
        &mut self,
        to: &mut R,
        client: &mut R::Client,
        at: u64,
        args: &[&[u8]],
    ) -> Result<(), ImportError> {
        // The clock stands still, unless a command has a relative time, which Redis 7 never logs.
        let now = if counts_from_now(args) { unix_millis() } else { 0 };
        let applied = match args {
            [name] if is(name, b"multi") || is(name, b"exec") => Err(ReplayError::Transaction),
            _ => to.replay(client, now, args),
        };
        self.commands += 1;
        applied.map_err(|source| ImportError::Command { named: named(args), at, source })
    }

    fn report(&mut self, path: &Path, at: u64) {
        if self.commands.is_multiple_of(1024) && self.reported.elapsed() >= PROGRESS_PERIOD {
            self.reported = Instant::now();
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
