//! The manifest: which directory is the state. One small text file, replaced as a whole.
//!
//! - It comes to be when the log has: where it is, a log without files has been lost.
//! - A snapshot that was received becomes the state by it, in one step.

use stillframe_durability::disk::{Directory, with_sum, without_sum};

use crate::error::Error;

const NAME: &str = "raft";
const TEMPORARY: &str = "raft.tmp";
const HEAD: &str = "stillframe raft, version 1";
const STATE: &str = "state-";

/// The lock of a member's directory.
pub(crate) const LOCK: &str = "raft.lock";
/// The directory of the log.
pub(crate) const LOG: &str = "log";

/// What it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Which state.
    pub(crate) state: u64,
}

impl Manifest {
    /// The manifest of a directory, if it has one.
    pub(crate) fn read(directory: &Directory) -> Result<Option<Self>, Error> {
        if !directory.holds(NAME)? {
            return Ok(None);
        }
        let text = directory.read_text(NAME)?;
        let wrong = |what: String| Error::Manifest { path: directory.at(NAME), what };
        Self::decode(&text).map(Some).map_err(wrong)
    }

    /// Puts this one in the place of the one before.
    pub(crate) fn publish(self, directory: &Directory) -> Result<(), Error> {
        Ok(directory.replace(NAME, TEMPORARY, self.encode().as_bytes())?)
    }

    fn encode(self) -> String {
        with_sum(format!("{HEAD}\nstate {}\n", self.state))
    }

    fn decode(text: &str) -> Result<Self, String> {
        let mut lines = without_sum(text)?.lines();
        if lines.next() != Some(HEAD) {
            return Err(format!("it does not begin with '{HEAD}'"));
        }
        let state = lines.next().and_then(|line| line.strip_prefix("state ")?.parse().ok());
        state.map(|state| Self { state }).ok_or_else(|| "its line 'state' is missing".into())
    }
}

/// The directory of a state.
pub(crate) fn state(number: u64) -> String {
    format!("{STATE}{number}")
}

/// The numbers of the states, the current one and such as were not installed or not removed.
pub(crate) fn states(directory: &Directory) -> Result<Vec<u64>, Error> {
    let names = directory.names()?;
    Ok(names.iter().filter_map(|name| name.strip_prefix(STATE)?.parse().ok()).collect())
}

/// Refuses a directory with anything in it that a first start does not leave.
pub(crate) fn check_new(directory: &Directory) -> Result<(), Error> {
    let known = [LOCK, LOG, TEMPORARY];
    match directory.names()?.into_iter().find(|name| !known.contains(&&name[..])) {
        Some(name) => Err(Error::NotOurs { directory: directory.path().into(), name }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_as_it_was_written_or_refused() {
        let manifest = Manifest { state: 12 };
        let text = manifest.encode();
        assert_eq!(Manifest::decode(&text), Ok(manifest));
        for damaged in stillframe_peers::damaged(&text) {
            Manifest::decode(&damaged).expect_err("the sum guards each byte");
        }
    }
}
