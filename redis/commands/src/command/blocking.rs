//! What blocking commands share: the timeout, and parking the client.

use std::time::{Duration, Instant};

use stillframe_keyspace::{StreamId, Type};

use crate::context::Context;
use crate::errors::{Refusal, SYNTAX};
use crate::number::extended::Extended;
use crate::number::integers::at_least;
use crate::waiters::{GroupReader, ReadFrom, Waiter, Wanted};

/// What a client waits for.
pub(super) struct Wish<'a> {
    /// Any of these keys.
    pub(super) keys: &'a [&'a [u8]],
    /// The type of value that one of them has to hold.
    pub(super) kind: Type,
    /// How long; `None` for ever.
    pub(super) timeout: Option<Duration>,
    /// The request to run once `key` is ready is `before key after`, for streams `before keys ids
    /// after`.
    pub(super) before: &'a [&'a [u8]],
    /// What to read of each stream; empty: they are no streams.
    pub(super) from: &'a [(&'a [u8], StreamId)],
    /// See `before`.
    pub(super) after: &'a [&'a [u8]],
    /// See [`Waiter::group`].
    pub(super) group: Option<GroupReader>,
}

impl Wish<'_> {
    /// A wish for nothing.
    pub(super) const NONE: Self = Self {
        keys: &[],
        kind: Type::String,
        timeout: None,
        before: &[],
        from: &[],
        after: &[],
        group: None,
    };
}

impl Context<'_> {
    /// Whether a command may make its client wait: not within a transaction.
    pub fn may_block(&self) -> bool {
        !self.ledger.in_exec && !self.caller.internal
    }

    /// Leaves a client waiting whose request was run for a key that has nothing for it.
    pub(super) fn wait_on(&mut self) {
        self.caller.waits = true;
    }

    /// Makes the client wait; nothing is answered now. The request that is run for it in the end
    /// has to find what it needs in a key that holds `wish.kind`.
    pub(super) fn block(&mut self, wish: &Wish<'_>) {
        let wanted = |(at, key): (usize, &&[u8])| {
            let from = wish.from.get(at);
            let from = from.map(|&(text, behind)| ReadFrom { text: text.into(), behind });
            Wanted { key: (*key).into(), from }
        };
        let copied = |words: &[&[u8]]| words.iter().map(|&word| word.into()).collect();
        let waiter = Waiter {
            place: self.caller.place,
            db: self.caller.db,
            keys: wish.keys.iter().enumerate().map(wanted).collect(),
            kind: wish.kind,
            group: wish.group.clone(),
            // A time that no clock reaches is none.
            deadline: wish.timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            command: self.caller.last_command,
            before: copied(wish.before),
            after: copied(wish.after),
            acks: None,
            again: self.caller.again.take(),
            ticket: 0,
        };
        if waiter.group.is_some() {
            self.keyspace.keep_expired(true); // an expired key ends the wait
        }
        self.ledger.waiters.park(self.caller.id, waiter);
        self.caller.waits = true;
    }
}

/// What LMPOP, ZMPOP and their blocking forms are asked for.
pub(super) struct MultiPop<'a, End> {
    pub(super) keys: &'a [&'a [u8]],
    /// Where elements are taken from.
    pub(super) end: End,
    pub(super) count: usize,
}

impl<'a, End> MultiPop<'a, End> {
    /// Reads `numkeys key... END [COUNT count]`, where `parse_end` reads END.
    pub(super) fn parse(
        args: &'a [&'a [u8]],
        parse_end: impl FnOnce(&[u8]) -> Result<End, Refusal>,
    ) -> Result<Self, Refusal> {
        const TOO_FEW_KEYS: &str = "ERR numkeys should be greater than 0";
        const TOO_FEW: &str = "ERR count should be greater than 0";
        let (number, rest) = args.split_first().ok_or(SYNTAX)?;
        let number = at_least(number, 1, TOO_FEW_KEYS)?;
        let (keys, rest) = rest.split_at_checked(number).ok_or(SYNTAX)?;
        let (end, options) = rest.split_first().ok_or(SYNTAX)?;
        let end = parse_end(end)?;
        let count = match options {
            [] => 1,
            [name, count, rest @ ..] if name.eq_ignore_ascii_case(b"COUNT") => {
                let count = at_least(count, 1, TOO_FEW)?;
                if !rest.is_empty() {
                    return Err(SYNTAX);
                }
                count
            }
            _ => return Err(SYNTAX),
        };
        Ok(Self { keys, end, count })
    }
}

/// A timeout in seconds, fractions allowed and rounded up to milliseconds; 0 is for ever.
pub(super) fn parse_timeout(text: &[u8]) -> Result<Option<Duration>, Refusal> {
    const NOT_A_TIME: &str = "ERR timeout is not a float or out of range";
    const NEGATIVE: &str = "ERR timeout is negative";
    let seconds = Extended::parse(text).ok_or(NOT_A_TIME)?;
    // What exceeds 64 bits has wrapped around to a negative number when Redis looks at it.
    let millis = seconds.times_rounded_up(1000).ok_or(NEGATIVE)?;
    match u64::try_from(millis) {
        Ok(0) => Ok(None),
        Ok(millis) => Ok(Some(Duration::from_millis(millis))),
        Err(_) => Err(NEGATIVE.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_rounded_up_to_milliseconds() {
        let millis =
            |text: &str| parse_timeout(text.as_bytes()).map(|time| time.map(|t| t.as_millis()));
        for (text, expected) in [
            ("0", None),
            ("-0", None),
            ("-0.0001", None),
            ("1", Some(1000)),
            ("0.1", Some(100)),
            ("0.0001", Some(1)),
            ("1.2345", Some(1235)),
            ("0x1", Some(1000)),
            ("9223372036854775", Some(9_223_372_036_854_775_000)),
        ] {
            assert_eq!(millis(text), Ok(expected), "{text}");
        }
        for text in ["", "x", "nan", "1s"] {
            assert_eq!(
                millis(text),
                Err("ERR timeout is not a float or out of range".into()),
                "{text}"
            );
        }
        for text in ["-1", "-0.002", "1e30", "inf", "-inf", "9223372036854775807"] {
            assert_eq!(millis(text), Err("ERR timeout is negative".into()), "{text}");
        }
    }
}
