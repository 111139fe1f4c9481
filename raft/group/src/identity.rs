//! Whose a directory is, and of which group: a small text file that comes to be with the log.
//!
//! - With it and without a log, the log has been lost, and the vote with it: the member is refused.
//! - It is written at each start, before others are told of that, and when another member was
//!   started: [`stillframe_raft_net::Identity`] says why.
//! - Bindings to certificates stand in it as the log has them: a member that starts checks others
//!   before it has read its log.
//! - That of version 1 has the number of the member and the name of the group alone.

use std::collections::{BTreeMap, BTreeSet};
use std::str::{FromStr, Lines};
use std::sync::Arc;

use stillframe_durability::disk::{Directory, with_sum, without_sum};
use stillframe_raft_net::{Bindings, Bound, Id, Identity, Met, Standing, Starts};
use stillframe_server::consensus::{MEMBER_FILE, Settings};

use crate::error::Error;
use crate::types::Label;

const NAME: &str = MEMBER_FILE;
/// The directory of the log.
pub(crate) const LOG: &str = "raft-log";
const TEMPORARY: &str = "raft-member.tmp";
const HEAD: &str = "stillframe raft member, version 2";
const OLDER: &str = "stillframe raft member, version 1";

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) group: String,
    pub(crate) id: u64,
}

/// What the file of a directory says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) member: Member,
    pub(crate) group: Option<Id>,
    /// `None` in version 1.
    starts: Option<Starts>,
    met: BTreeMap<u64, Met>,
    named: BTreeSet<u64>,
    bound: Bindings,
}

impl std::fmt::Display for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "member {} of the group '{}'", self.id, self.group)
    }
}

impl Member {
    pub(crate) fn from_settings(settings: &Settings) -> Self {
        Self { group: settings.group.clone(), id: settings.id }
    }

    /// What the directory says if it is this member's already; another's is refused, and so is one
    /// with data of a server that was no member, or of another member, as its dump alone.
    /// `has_dump`: there is a dump.
    pub(crate) fn find(
        &self,
        directory: &Directory,
        has_dump: bool,
    ) -> Result<Option<Owned>, Error> {
        if !directory.holds(NAME)? {
            if has_dump {
                if directory.holds(LOG)? {
                    return Err(Self::missing(directory));
                }
                return Err(Error::NotOfAMember { directory: directory.path().into() });
            }
            return Ok(None);
        }
        let found = Owned::read(directory)?;
        if found.member != *self {
            let (found, wanted) = (found.member.to_string(), self.to_string());
            return Err(Error::OfAnother { directory: directory.path().into(), found, wanted });
        }
        Ok(Some(found))
    }

    /// The log has records, and nothing says whose it is.
    pub(crate) fn missing(directory: &Directory) -> Error {
        Error::IdentityMissing { path: directory.at(NAME) }
    }

    /// Another start in the directory, which is this member's from now on. `in_dump`: the label of
    /// its dump.
    pub(crate) fn begin(
        self,
        directory: Arc<Directory>,
        found: Option<Owned>,
        in_dump: Option<&Label>,
        is_blank: bool,
        joins: bool,
    ) -> Result<Identity, Error> {
        let (group, starts, met, named, mut bound) = found.map_or_else(Default::default, |it| {
            let Owned { member: _, group, starts, met, named, bound } = it;
            (group, starts, met, named, bound)
        });
        if let Some(later) = in_dump.filter(|label| label.index() > bound.at) {
            bound = Bindings { at: later.index(), of: later.bound.clone() };
        }
        let in_dump = in_dump.and_then(|label| label.group);
        if let (Some(group), Some(in_dump)) = (group, in_dump)
            && group != in_dump
        {
            return Err(Error::OfAnotherGroup { found: in_dump, own: group });
        }
        let starts = starts.map_or_else(Starts::new, Ok).and_then(Starts::and_one_more)?;
        let (voters, removed) = Default::default();
        let (group, is_ready) = (group.or(in_dump), false);
        let standing = Standing {
            group,
            starts,
            met,
            named,
            bound,
            is_blank,
            joins,
            is_ready,
            voters,
            removed,
        };
        let keep = {
            let (directory, member) = (Arc::clone(&directory), self);
            move |standing: &Standing| {
                let text = member.encode(standing);
                Ok(directory.replace(NAME, TEMPORARY, text.as_bytes())?)
            }
        };
        let is_direct = directory.sync_time().is_some();
        let identity = Identity::with(standing, keep, is_direct);
        identity.change(|_| ()).map_err(Error::Unwritten)?;
        Ok(identity)
    }

    fn encode(&self, standing: &Standing) -> String {
        let Standing { group, starts, met, named, bound, .. } = standing;
        let group = group.map_or_else(|| "-".to_owned(), |id| id.to_string());
        let mut text = format!(
            "{HEAD}\nid {}\ngroup {}\ngroup-id {group}\ndirectory {}\nstarts {}",
            self.id, self.group, starts.directory, starts.count
        );
        starts.drawn.iter().for_each(|drawn| text += &format!(" {drawn}"));
        for (node, Met { directory, count, drawn }) in met {
            text += &format!("\nmet {node} {directory} {count} {drawn}");
        }
        named.iter().for_each(|node| text += &format!("\nnamed {node}"));
        // Only then: a version of before, to which a group may go back until it binds, reads none.
        if !bound.of.is_empty() {
            text += &format!("\nbound-at {}", bound.at);
        }
        for (node, bound) in &bound.of {
            text += &format!("\nbound {node} {}", shown(bound));
        }
        with_sum(text + "\n")
    }
}

/// Checks the id of a group against that of this member, which takes it if it has none.
pub(crate) fn agree(identity: &Identity, id: Id) -> Result<(), Error> {
    match identity.read(|standing: &Standing| standing.group).flatten() {
        Some(own) if own == id => Ok(()),
        Some(own) => Err(Error::OfAnotherGroup { found: id, own }),
        None => identity.change(|standing| standing.group = Some(id)).map_err(Error::Unwritten),
    }
}

/// Keeps what the log binds members to, once as much is applied as what is kept comes from.
pub(crate) fn bind(identity: &Identity, label: &Label) -> Result<(), Error> {
    let (at, of) = (label.index(), &label.bound);
    let is_new = |it: &Standing| at >= it.bound.at && *of != it.bound.of;
    if !identity.read(is_new).unwrap_or_default() {
        return Ok(());
    }
    let bound = Bindings { at, of: of.clone() };
    identity.change(|it| it.bound = bound).map_err(Error::Unwritten)
}

fn shown(bound: &Bound) -> String {
    match bound {
        Bound::Name => "name".to_owned(),
        Bound::Key(key) => key.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// The reverse of [`shown`].
fn bound_of(text: &str) -> Result<Bound, Malformed> {
    let wrong = || Malformed::Word(text.to_owned());
    if text == "name" {
        return Ok(Bound::Name);
    }
    let digits = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(digits).collect();
    Ok(Bound::Key(bytes.and_then(|it| it.try_into().ok()).ok_or_else(wrong)?))
}

/// Why the file says nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Malformed {
    #[error("{0}")]
    Sum(String),
    #[error("it does not begin with '{HEAD}'")]
    Head,
    #[error("its line '{0}' is missing")]
    LineMissing(&'static str),
    #[error("'{0}' is no line of it")]
    Line(String),
    #[error("'{0}' makes no sense in it")]
    Word(String),
}

/// The rest of the next line, which begins with this word.
fn field<'t>(lines: &mut Lines<'t>, name: &'static str) -> Result<&'t str, Malformed> {
    let value = lines.next().and_then(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.ok_or(Malformed::LineMissing(name))
}

fn word<T: FromStr>(word: &str) -> Result<T, Malformed> {
    word.parse().map_err(|_| Malformed::Word(word.to_owned()))
}

impl Owned {
    /// Whose a directory is.
    pub(crate) fn read(directory: &Directory) -> Result<Self, Error> {
        if !directory.holds(NAME)? {
            return Err(Error::NoMember { directory: directory.path().into() });
        }
        let wrong =
            |what: Malformed| Error::Identity { path: directory.at(NAME), what: what.to_string() };
        Self::decode(&directory.read_text(NAME)?).map_err(wrong)
    }

    fn decode(text: &str) -> Result<Self, Malformed> {
        let mut lines = without_sum(text).map_err(|why| Malformed::Sum(why.into()))?.lines();
        let head = lines.next();
        let lines = &mut lines;
        let id = word(field(lines, "id")?)?;
        let member = Member { id, group: field(lines, "group")?.to_owned() };
        match head {
            Some(HEAD) => {}
            Some(OLDER) => {
                let (met, named, bound) = Default::default();
                return Ok(Self { member, group: None, starts: None, met, named, bound });
            }
            _ => return Err(Malformed::Head),
        }
        let group = match field(lines, "group-id")? {
            "-" => None,
            id => Some(word(id)?),
        };
        let directory = word(field(lines, "directory")?)?;
        let mut words = field(lines, "starts")?.split(' ');
        let count = word(words.next().unwrap_or_default())?;
        let drawn = words.map(word);
        let starts = Some(Starts { directory, count, drawn: drawn.collect::<Result<_, _>>()? });
        let (mut met, mut named) = (BTreeMap::new(), BTreeSet::new());
        let mut bound = Bindings::default();
        for line in lines {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["met", node, directory, count, drawn] => {
                    let (count, drawn) = (word(count)?, word(drawn)?);
                    let directory = word(directory)?;
                    met.insert(word(node)?, Met { directory, count, drawn });
                }
                ["named", node] => drop(named.insert(word(node)?)),
                ["bound-at", at] => bound.at = word(at)?,
                ["bound", node, to] => drop(bound.of.insert(word(node)?, bound_of(to)?)),
                _ => return Err(Malformed::Line(line.to_owned())),
            }
        }
        Ok(Self { member, group, starts, met, named, bound })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_as_it_was_written_or_refused() {
        let member = Member { id: 12, group: "some group".into() };
        let starts = Starts::new().and_then(Starts::and_one_more).and_then(Starts::and_one_more);
        let starts = starts.expect("random bytes");
        let met = Met { directory: Id::draw().expect("random bytes"), count: 3, drawn: u64::MAX };
        let own = |(&node, bound): (&u64, Bound)| (node, bound);
        let standing = |group, met: BTreeMap<u64, Met>| Standing {
            group,
            starts: starts.clone(),
            named: met.keys().copied().take(1).collect(),
            bound: Bindings {
                at: met.len() as u64, // 0 without bindings
                of: met.keys().zip([Bound::Key([0xa7; 32]), Bound::Name]).map(own).collect(),
            },
            met,
            is_blank: false,
            joins: false,
            is_ready: true,
            voters: BTreeSet::new(),
            removed: BTreeSet::new(),
        };
        let group = Some(Id::draw().expect("random bytes"));
        let full = standing(group, BTreeMap::from([(1, met), (7, met)]));
        for standing in [standing(None, BTreeMap::new()), full] {
            let text = member.encode(&standing);
            let Standing { group, starts, met, named, bound, .. } = standing;
            let (member, starts) = (member.clone(), Some(starts));
            let owned = Owned { member, group, starts, met, named, bound };
            assert_eq!(Owned::decode(&text), Ok(owned));
            for at in 0..text.len() {
                let mut damaged = text.clone().into_bytes();
                damaged[at] ^= 1;
                let damaged = String::from_utf8(damaged).expect("it stays ASCII");
                Owned::decode(&damaged).expect_err("the sum guards each byte");
                Owned::decode(&text[..at]).expect_err("the sum guards its length");
            }
        }
        let older = with_sum(format!("{OLDER}\nid 12\ngroup some group\n"));
        let older = Owned::decode(&older).expect("it is of the version before");
        assert_eq!((older.member, older.starts), (member, None));
    }
}
