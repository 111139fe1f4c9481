//! Where the keys of a request are, as ACL rules, caches and COMMAND need them; derived from the
//! specifications.

use super::specs::counted_keys;
use super::{Begin, Find, Spec};

/// Positions of the keys among the arguments: first, last (negative: from the end), step.
/// All zero when there are none.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
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
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum More {
    /// There are none.
    #[default]
    None,
    /// The argument at this position says how many keys follow it.
    Counted {
        /// The position of the count.
        at: u8,
        /// The distance between keys.
        step: u8,
    },
    /// The argument after the option STORE or STOREDIST, where options begin at this position.
    Stored(u8),
    /// All arguments after the option KEYS of MIGRATE, if the key before is empty.
    Migrated,
    /// The first half of the arguments after the option STREAMS, where options begin at this
    /// position.
    Streams(u8),
}

impl Keys {
    /// The places that key specifications say. What only the command knows is a key behind STORE
    /// where it is written (SORT), and no key else.
    pub(super) fn of_specs(specs: &[Spec]) -> Self {
        let narrow = |index: usize| i8::try_from(index).unwrap_or(i8::MAX);
        let mut keys = Self::default();
        for spec in specs {
            match (&spec.begin, spec.find) {
                (Begin::Index(at), Find::Range { last, step, .. }) => {
                    if keys.first == 0 {
                        (keys.first, keys.step) = (narrow(*at), step);
                    }
                    keys.last = if last < 0 { last } else { narrow(*at) + last };
                }
                (Begin::Index(at), Find::Counted { step }) => {
                    keys.more = More::Counted { at: *at as u8, step };
                }
                (Begin::Index(_), Find::Unknown) => {}
                (Begin::Keyword("KEYS", _), _) => keys.more = More::Migrated,
                (Begin::Keyword("STREAMS", _), _) => keys.more = More::Streams(1),
                (Begin::Keyword(_, from), _) => keys.more = More::Stored(from.unsigned_abs() as u8),
                (Begin::Unknown, _) if spec.flags.contains(&"OW") => keys.more = More::Stored(2),
                (Begin::Unknown, _) => {}
            }
        }
        keys
    }

    /// The keys of a request.
    pub fn in_request<'a>(self, request: &[&'a [u8]]) -> Vec<&'a [u8]> {
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
            More::Counted { at, step } => {
                match request.get(at.into()..).and_then(|from| counted_keys(from, step)) {
                    Some(counted) => keys.extend(counted),
                    // Such a request is refused whatever else it says.
                    None => keys.clear(),
                }
            }
            More::Stored(from) => {
                keys.extend(stored(request.get(from.into()..).unwrap_or_default()));
            }
            More::Streams(from) => {
                keys.extend(streams(request.get(from.into()..).unwrap_or_default()));
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

/// The first half of what stands behind STREAMS among options of XREAD and XREADGROUP. A group or a
/// consumer may have any name.
fn streams<'r, 'a>(mut options: &'r [&'a [u8]]) -> &'r [&'a [u8]] {
    while let [option, after @ ..] = options {
        let takes = match option.to_ascii_lowercase().as_slice() {
            b"streams" => return &after[..after.len() / 2],
            b"block" | b"count" => 1,
            b"group" => 2,
            _ => 0,
        };
        options = after.get(takes..).unwrap_or_default();
    }
    &[]
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
