//! Whose a directory is: a small text file, written once, when the log has come to be.
//!
//! With it and without a log, the log has been lost, and the vote with it: the member is refused.

use stillframe_durability::disk::{Directory, with_sum, without_sum};
use stillframe_server::consensus::MEMBER_FILE;

use crate::error::Error;

const NAME: &str = MEMBER_FILE;
const TEMPORARY: &str = "raft-member.tmp";
const HEAD: &str = "stillframe raft member, version 1";

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) group: String,
    pub(crate) id: u64,
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "member {} of the group '{}'", self.id, self.group)
    }
}

impl Identity {
    /// Whether the directory is this member's already; another's is refused, and so is one with
    /// data of a server that was no member, or of another member, as its dump alone. `has_dump`:
    /// there is a dump.
    pub(crate) fn owns(&self, directory: &Directory, has_dump: bool) -> Result<bool, Error> {
        if !directory.holds(NAME)? {
            if has_dump {
                return Err(Error::NotOfAMember { directory: directory.path().into() });
            }
            return Ok(false);
        }
        let found = Self::read(directory)?;
        if found != *self {
            let (found, wanted) = (found.to_string(), self.to_string());
            return Err(Error::OfAnother { directory: directory.path().into(), found, wanted });
        }
        Ok(true)
    }

    /// Whose a directory is.
    pub(crate) fn read(directory: &Directory) -> Result<Self, Error> {
        if !directory.holds(NAME)? {
            return Err(Error::NoMember { directory: directory.path().into() });
        }
        let wrong = |what: String| Error::Identity { path: directory.at(NAME), what };
        Self::decode(&directory.read_text(NAME)?).map_err(wrong)
    }

    /// From now on the directory is this member's.
    pub(crate) fn claim(&self, directory: &Directory) -> Result<(), Error> {
        Ok(directory.replace(NAME, TEMPORARY, self.encode().as_bytes())?)
    }

    fn encode(&self) -> String {
        with_sum(format!("{HEAD}\nid {}\ngroup {}\n", self.id, self.group))
    }

    fn decode(text: &str) -> Result<Self, String> {
        let mut lines = without_sum(text)?.lines();
        if lines.next() != Some(HEAD) {
            return Err(format!("it does not begin with '{HEAD}'"));
        }
        let mut field = |name: &str| {
            let value = lines.next().and_then(|line| line.strip_prefix(name)?.strip_prefix(' '));
            value.map(str::to_owned).ok_or_else(|| format!("its line '{name}' is missing"))
        };
        let id = field("id")?.parse().map_err(|_| "its id is no number".to_owned())?;
        Ok(Self { id, group: field("group")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_as_it_was_written_or_refused() {
        let identity = Identity { id: 12, group: "some group".into() };
        let text = identity.encode();
        assert_eq!(Identity::decode(&text), Ok(identity));
        for at in 0..text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[at] ^= 1;
            let damaged = String::from_utf8(damaged).expect("it stays ASCII");
            Identity::decode(&damaged).expect_err("the sum guards each byte");
            Identity::decode(&text[..at]).expect_err("the sum guards its length");
        }
    }
}
