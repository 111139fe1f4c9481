//! The commands of an append-only file, one after the other, each with its offset.
//!
//! Stricter than the parser of requests: everything is a list of strings, and their line ends are
//! checked, because a changed length shows there first.

use std::io::{self, ErrorKind, Read};

use stillframe_resp::{Limits, Parser, ProtocolError};

const READ_BYTES: usize = 64 << 10;
/// Longest line of a comment.
const COMMENT_BYTES_MAX: usize = 64 << 10;

/// The next part.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A command at this offset; [`Commands::args`] has its arguments.
    Command(u64),
    /// The file ends within the part that begins at this offset.
    Cut(u64),
    /// The file ends.
    End,
}

/// Why the commands of a file cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandsError {
    /// Neither a command nor a comment starts so.
    #[error("damaged at byte {at}: '{}' starts no command", [*.byte].escape_ascii())]
    NoStart { byte: u8, at: u64 },
    /// A list of no strings.
    #[error("damaged at byte {at}: a command without a name")]
    Nameless { at: u64 },
    /// A length or a count is wrong.
    #[error("damaged in the command at byte {at}: {error}")]
    Protocol { at: u64, error: ProtocolError },
    /// A comment is too long.
    #[error("damaged at byte {at}: a comment without end")]
    Comment { at: u64 },
    /// An argument is not followed by a line's end.
    #[error("damaged at byte {at}: an argument does not end here")]
    LineEnd { at: u64 },
    /// The rest cannot be read.
    #[error("cannot read on at byte {at}: {error}")]
    Read { at: u64, error: io::Error },
}

/// A file being read.
pub(super) struct Commands<R> {
    input: R,
    parser: Parser,
    buffer: Vec<u8>,
    /// Where the next command starts in `buffer`, and the current one.
    start: usize,
    current: usize,
    /// The offset in the file of `buffer[0]`.
    origin: u64,
    ended: bool,
}

impl<R: Read> Commands<R> {
    /// `input` stands at `offset` of its file.
    pub(super) fn new(input: R, offset: u64) -> Self {
        let parser = Parser::new(Limits { bulk_bytes_max: u32::MAX as usize, ..Limits::OPEN });
        let buffer = Vec::new();
        Self { input, parser, buffer, start: 0, current: 0, origin: offset, ended: false }
    }

    /// The arguments of the command found last.
    pub(super) fn args(&self) -> Vec<&[u8]> {
        let command = self.buffer.get(self.current..self.start).unwrap_or_default();
        let args = self.parser.args().iter();
        args.map(|range| command.get(range.clone()).unwrap_or_default()).collect()
    }

    /// The next part.
    ///
    /// # Errors
    /// [`CommandsError`]: what is wrong, and where.
    pub(super) fn next(&mut self) -> Result<Next, CommandsError> {
        // The parser remembers its progress in an unfinished command, so parsing starts only at the
        // start of one.
        loop {
            match self.buffer.get(self.start) {
                Some(b'*') => break,
                Some(b'#') => {
                    if !self.skip_comment()? {
                        return Ok(Next::Cut(self.offset()));
                    }
                }
                Some(&other) => {
                    return Err(CommandsError::NoStart { byte: other, at: self.offset() });
                }
                None if self.ended => return Ok(Next::End),
                None => self.fill(READ_BYTES)?,
            }
        }
        loop {
            let at = self.offset();
            match self.parser.parse(&mut self.buffer[self.start..]) {
                Ok(Some(used)) => {
                    self.current = self.start;
                    self.start += used;
                    if self.parser.args().is_empty() {
                        return Err(CommandsError::Nameless { at });
                    }
                    self.check_line_ends()?;
                    return Ok(Next::Command(at));
                }
                Ok(None) if self.ended => return Ok(Next::Cut(at)),
                Ok(None) => self.fill(self.parser.wanted().max(READ_BYTES))?,
                Err(error) => return Err(CommandsError::Protocol { at, error }),
            }
        }
    }

    /// The bytes of a command that was cut.
    pub(super) fn tail(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    fn offset(&self) -> u64 {
        self.origin + self.start as u64
    }

    /// Steps over a line (a time stamp, for example); `false`: the file ends within it.
    fn skip_comment(&mut self) -> Result<bool, CommandsError> {
        loop {
            let line = &self.buffer[self.start..];
            if let Some(length) = line.iter().position(|&byte| byte == b'\n') {
                self.start += length + 1;
                return Ok(true);
            }
            if line.len() > COMMENT_BYTES_MAX {
                return Err(CommandsError::Comment { at: self.offset() });
            }
            if self.ended {
                return Ok(false);
            }
            self.fill(READ_BYTES)?;
        }
    }

    fn check_line_ends(&self) -> Result<(), CommandsError> {
        let command = &self.buffer[self.current..self.start];
        let ends = self.parser.args().iter().map(|range| range.end);
        for end in ends {
            if command.get(end..end + 2) != Some(b"\r\n") {
                let at = self.origin + (self.current + end) as u64;
                return Err(CommandsError::LineEnd { at });
            }
        }
        Ok(())
    }

    /// Reads up to `bytes` more.
    fn fill(&mut self, bytes: usize) -> Result<(), CommandsError> {
        self.buffer.drain(..self.start);
        self.origin += self.start as u64;
        (self.start, self.current) = (0, 0);
        let there = self.buffer.len();
        self.buffer.resize(there + bytes, 0);
        let read = loop {
            match self.input.read(&mut self.buffer[there..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let count = *read.as_ref().unwrap_or(&0);
        self.buffer.truncate(there + count);
        self.ended = count == 0;
        let at = self.origin + there as u64;
        read.map(drop).map_err(|error| CommandsError::Read { at, error })
    }
}

/// The offset in `tail` of a whole command, if one begins a line there.
///
/// A command that holds another and reaches past the end of the file was not cut: the length of one
/// of its arguments was changed.
pub(super) fn whole_command_within(tail: &[u8]) -> Option<usize> {
    /// Most places to try: a value may look like commands.
    const TRIED_MAX: usize = 64;
    let starts = tail
        .windows(4)
        .enumerate()
        .filter(|(_, bytes)| bytes.starts_with(b"\r\n*") && bytes[3].is_ascii_digit());
    starts.take(TRIED_MAX).map(|(at, _)| at + 2).find(|&at| {
        let mut commands = Commands::new(&tail[at..], 0);
        matches!(commands.next(), Ok(Next::Command(0)))
    })
}
