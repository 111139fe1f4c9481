//! CLUSTERSCAN of Valkey 9.1: SCAN with cursors that name a slot, so that a client of a cluster
//! knows which node to ask.
//!
//! - A cursor is `mark-{tag}-number`: the tag has the slot, and what the number means only the
//!   process with this mark knows; another one begins anew, and shows keys twice. It begins with
//!   `0`, which is answered by the first such cursor without keys.
//! - Keys of lower slots are not shown. No index knows slots: a walk looks at all keys.

use stillframe_keyspace::Entry;
use stillframe_resp::Out;

use super::scan::{Options, Walked, finish};
use crate::errors::{Refusal, SYNTAX};
use crate::number::integers::parse_cursor;

const INVALID_CURSOR: Refusal = Refusal::new("ERR Invalid cursor");

/// What CLUSTERSCAN has to know of slots.
pub struct Slots<'a> {
    /// The slot of a key.
    pub of_key: fn(&[u8]) -> u16,
    /// A hash tag with a slot.
    pub tag: fn(u16) -> String,
    /// What tells the cursors of this process from others', without a dash.
    pub mark: &'a str,
}

/// Where a walk goes on.
struct Cursor<'a> {
    mark: &'a [u8],
    tag: &'a [u8],
    number: u64,
}

impl<'a> Cursor<'a> {
    /// `None` for that with which a walk begins.
    fn parse(text: &'a [u8]) -> Result<Option<Self>, Refusal> {
        if text == b"0" {
            return Ok(None);
        }
        let mut parts = text.split(|&byte| byte == b'-');
        match [parts.next(), parts.next(), parts.next(), parts.next()] {
            [Some(mark), Some(tag), Some(number), None] if !number.is_empty() => {
                let number = parse_cursor(number).ok_or(INVALID_CURSOR)?;
                Ok(Some(Self { mark, tag, number }))
            }
            _ => Err(INVALID_CURSOR),
        }
    }
}

/// The part of a pattern by which all keys that match have one slot, if there is one: the pattern
/// itself, or what it says of their hash tag.
fn one_slot(pattern: &[u8]) -> Option<&[u8]> {
    let special = pattern.iter().position(|byte| b"*?[\\".contains(byte));
    let literal = &pattern[..special.unwrap_or(pattern.len())];
    let open = literal.iter().position(|&byte| byte == b'{');
    let tag = open.and_then(|open| {
        let len = literal[open..].iter().position(|&byte| byte == b'}')?;
        Some(&literal[open..=open + len])
    });
    match tag {
        Some(tag) => Some(tag).filter(|tag| tag.len() > 2),
        None => Some(pattern).filter(|it| special.is_none() && !it.is_empty()),
    }
}

/// CLUSTERSCAN, whose arguments begin with the cursor, over what `walk` shows: from a number on,
/// about so many keys.
///
/// # Errors
/// The refusals of CLUSTERSCAN.
pub fn scan_slots_by(
    out: &mut Out<'_>,
    args: &[&[u8]],
    slots: &Slots<'_>,
    walk: impl FnOnce(u64, usize, &mut dyn FnMut(&Entry)) -> u64,
) -> Result<(), Refusal> {
    let (cursor, args) = args.split_first().ok_or(SYNTAX)?;
    let Options { filter, count, slot, .. } = Options::parse(args, Walked::Slots)?;
    let cursor = Cursor::parse(cursor)?;
    let first = cursor.as_ref().map(|cursor| (slots.of_key)(cursor.tag));
    if first.zip(slot).is_some_and(|(first, slot)| first != slot) {
        return Err("ERR Cursor slot mismatch with SLOT argument".into());
    }
    let start = out.position();
    let by_pattern = filter.pattern.and_then(one_slot).map(slots.of_key);
    let wanted = slot.or(by_pattern);
    let is_contrary = slot.zip(by_pattern).is_some_and(|(slot, other)| slot != other);
    let is_past = first.zip(wanted).is_some_and(|(first, wanted)| first > wanted);
    if is_contrary || is_past {
        finish(out, start, 0, "0");
        return Ok(());
    }
    let Some(cursor) = cursor.filter(|_| wanted.is_none() || wanted == first) else {
        finish(out, start, 0, format!("0-{{{}}}-0", (slots.tag)(wanted.unwrap_or(0))));
        return Ok(());
    };
    let first = first.unwrap_or(0);
    let number = if cursor.mark == slots.mark.as_bytes() { cursor.number } else { 0 };
    let mut found = 0;
    let next = walk(number, count, &mut |entry| {
        let is_there = match wanted {
            Some(wanted) => (slots.of_key)(entry.key()) == wanted,
            None => first == 0 || (slots.of_key)(entry.key()) >= first,
        };
        if is_there && filter.accepts(entry) {
            out.bulk(entry.key());
            found += 1;
        }
    });
    if next == 0 {
        finish(out, start, found, "0");
    } else {
        let behind = format!("-{next}");
        finish(
            out,
            start,
            found,
            [slots.mark.as_bytes(), b"-", cursor.tag, behind.as_bytes()].concat(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::one_slot;

    #[test]
    fn patterns_of_one_slot_are_known() {
        for (pattern, part) in [
            ("t", Some("t")),
            ("{t}1", Some("{t}")),
            ("a{t}b*", Some("{t}")),
            ("{t]}x", Some("{t]}")),
            ("", None),
            ("*{t}", None),
            ("{t*", None),
            ("{t?}1", None),
            ("{}*", None),
            ("k[1]", None),
            ("\\{t}1", None),
            ("{t\\}}x", None),
            ("{a*}{t}", None),
        ] {
            assert_eq!(one_slot(pattern.as_bytes()), part.map(str::as_bytes), "{pattern}");
        }
    }
}
