//! An image by a full sync: the hunter is a replica, and then reads the stream behind the image.

use std::sync::atomic::AtomicBool;

use stillframe_measure::target::readable;
use stillframe_resp::{Limits, Parser};

use crate::content::{Contents, apply};
use crate::error::HuntError;
use crate::link::{IMAGE_BYTES_MAX, Link, encode};
use crate::plan::Plan;

const RECEIVING: &str = "receiving an image";
const FOLLOWING: &str = "reading the stream behind an image";

/// An image that a server sent to its replica, and the connection on which its stream follows.
pub(crate) struct Synced<'a> {
    link: Link<'a>,
    pub(crate) repl_id: String,
    /// The offset behind which the image's stream begins.
    pub(crate) offset: u64,
    /// Bytes of the stream that were read.
    pub(crate) followed: u64,
    /// The database in which the stream's next request runs.
    db: u64,
}

/// Asks for a full sync, and returns its image's bytes.
pub(crate) fn sync<'a>(
    plan: &'a Plan,
    stop: &'a AtomicBool,
) -> Result<(Synced<'a>, Vec<u8>), HuntError> {
    let mut link = Link::open(plan, stop)?;
    // Without `capa eof` no server delays the sync in order to serve several replicas at once.
    link.ok(&["REPLCONF", "capa", "psync2"])?;
    let mut request = Vec::new();
    encode(&["PSYNC", "?", "-1"], &mut request);
    link.send(&request, "asking for a full sync")?;
    let answer = line(&mut link)?;
    let mut words = answer.split(' ');
    let (Some("+FULLRESYNC"), Some(id), Some(offset)) = (words.next(), words.next(), words.next())
    else {
        let answer = answer.trim_start_matches('-').to_owned();
        return Err(link.refused("PSYNC", answer));
    };
    let Ok(offset) = offset.parse::<u64>() else {
        return Err(link.wrong(RECEIVING, format!("'{answer}' has no offset")));
    };
    let repl_id = id.to_owned();
    let image = image(&mut link)?;
    let mut ack = Vec::new();
    encode(&["REPLCONF", "ACK", &offset.to_string()], &mut ack);
    link.send(&ack, RECEIVING)?;
    Ok((Synced { link, repl_id, offset, followed: 0, db: 0 }, image))
}

/// The next line that is not empty: servers send empty ones while an image is under way.
fn line(link: &mut Link<'_>) -> Result<String, HuntError> {
    let deadline = link.deadline();
    loop {
        match link.input.iter().position(|&byte| byte == b'\n') {
            Some(end) => {
                let line: Vec<u8> = link.input.drain(..=end).collect();
                let line = line.trim_ascii();
                if !line.is_empty() {
                    return Ok(readable(line));
                }
            }
            None if link.input.len() > 4096 => {
                return Err(link.wrong(RECEIVING, "a line longer than 4 KiB"));
            }
            None => link.receive(deadline, RECEIVING)?,
        }
    }
}

/// An image: of announced length, or up to a mark.
fn image(link: &mut Link<'_>) -> Result<Vec<u8>, HuntError> {
    let head = line(link)?;
    let deadline = link.deadline();
    let mark = head.strip_prefix("$EOF:").map(|mark| mark.as_bytes().to_vec());
    let length = head.strip_prefix('$').and_then(|length| length.parse::<usize>().ok());
    // Bytes in which the mark does not begin.
    let mut searched = 0;
    loop {
        let end = match (&mark, length) {
            (Some(mark), _) if mark.len() == 40 => {
                let found = link.input[searched..].windows(40).position(|it| it == &mark[..]);
                match found {
                    Some(at) => Some((searched + at, 40)),
                    None => {
                        searched = link.input.len().saturating_sub(39);
                        None
                    }
                }
            }
            (_, Some(length)) if length <= IMAGE_BYTES_MAX => {
                (link.input.len() >= length).then_some((length, 0))
            }
            _ => return Err(link.wrong(RECEIVING, format!("'{head}' announces no image"))),
        };
        if let Some((length, behind)) = end {
            let rest = link.input.split_off(length + behind);
            let mut image = std::mem::replace(&mut link.input, rest);
            image.truncate(length);
            return Ok(image);
        }
        if link.input.len() > IMAGE_BYTES_MAX {
            return Err(link.wrong(RECEIVING, "the image is longer than 4 GiB"));
        }
        link.receive(deadline, RECEIVING)?;
    }
}

impl Synced<'_> {
    /// Runs the stream's requests on `contents` up to the one that sets `mark` to `value`. Requests
    /// on keys without the `prefix` are passed over.
    ///
    /// The inner error says why a request cannot be run: the stream does not fit the contents.
    pub(crate) fn follow(
        &mut self,
        contents: &mut Contents,
        prefix: &str,
        [mark, value]: [&str; 2],
    ) -> Result<Result<(), String>, HuntError> {
        let deadline = self.link.deadline();
        let mut parser = Parser::new(Limits::OPEN);
        let mut outcome = Ok(());
        loop {
            let parsed = parser.parse(&mut self.link.input);
            let used = match parsed {
                Ok(Some(used)) => used,
                Ok(None) => {
                    self.link.receive(deadline, FOLLOWING)?;
                    continue;
                }
                Err(error) => return Err(self.link.wrong(FOLLOWING, error.to_string())),
            };
            let input = &self.link.input;
            let words: Vec<&[u8]> = parser.args().iter().map(|it| &input[it.clone()]).collect();
            let is_mark = matches!(words[..], [_, key, text, ..]
                if key == mark.as_bytes() && text == value.as_bytes());
            let is_ours = words.iter().skip(1).any(|word| word.starts_with(prefix.as_bytes()));
            let selects = words.first().is_some_and(|word| word.eq_ignore_ascii_case(b"SELECT"));
            if (is_ours || selects) && !is_mark {
                let applied = apply(contents, &mut self.db, &words);
                outcome = outcome.and(applied);
            }
            self.followed += used as u64;
            self.link.input.drain(..used);
            if is_mark {
                return Ok(outcome);
            }
        }
    }
}
