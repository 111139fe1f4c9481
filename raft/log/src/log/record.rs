//! What a record of the log says.
//!
//! - Appends, truncations, votes and the rest are one sequence, in the order in which openraft
//!   asked for them: whatever prefix of it a crash leaves, it is a state that there was.
//! - The first byte is the kind, the rest is in the format of postcard, version 1.

use openraft::{LogId, RaftTypeConfig, Vote};
use serde::{Deserialize, Serialize};

/// What the log knows besides entries. Each record of it replaces the one before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) struct Head<C: RaftTypeConfig> {
    pub(crate) vote: Option<Vote<C::NodeId>>,
    pub(crate) committed: Option<LogId<C::NodeId>>,
    pub(crate) purged: Option<LogId<C::NodeId>>,
}

impl<C: RaftTypeConfig> Default for Head<C> {
    fn default() -> Self {
        Self { vote: None, committed: None, purged: None }
    }
}

/// A record.
#[derive(Debug)]
pub(crate) enum Record<C: RaftTypeConfig> {
    /// An entry, which comes behind all before it.
    Entry(C::Entry),
    /// The entries from this index on are gone.
    Truncate(u64),
    /// See [`Head`].
    Head(Head<C>),
}

const ENTRY: u8 = 1;
const TRUNCATE: u8 = 2;
const HEAD: u8 = 3;

fn encode<T: Serialize>(kind: u8, what: &T) -> Result<Vec<u8>, String> {
    postcard::to_extend(what, vec![kind]).map_err(|error| error.to_string())
}

fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    let (what, rest) = postcard::take_from_bytes(bytes).map_err(|error| error.to_string())?;
    if rest.is_empty() { Ok(what) } else { Err(format!("{} bytes too many", rest.len())) }
}

/// The record of an entry.
pub(crate) fn entry<C: RaftTypeConfig>(entry: &C::Entry) -> Result<Vec<u8>, String> {
    encode(ENTRY, entry)
}

/// The record of a truncation.
pub(crate) fn truncate(from: u64) -> Result<Vec<u8>, String> {
    encode(TRUNCATE, &from)
}

/// The record of a head.
pub(crate) fn head<C: RaftTypeConfig>(head: &Head<C>) -> Result<Vec<u8>, String> {
    encode(HEAD, head)
}

impl<C: RaftTypeConfig> Record<C> {
    /// What these bytes say.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        match bytes.split_first() {
            Some((&ENTRY, rest)) => decode(rest).map(Self::Entry),
            Some((&TRUNCATE, rest)) => decode(rest).map(Self::Truncate),
            Some((&HEAD, rest)) => decode(rest).map(Self::Head),
            Some((kind, _)) => Err(format!("its kind is {kind}, which a newer version may know")),
            None => Err("it is empty".into()),
        }
    }
}
