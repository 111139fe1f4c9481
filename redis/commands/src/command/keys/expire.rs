//! Times to live: the EXPIRE and TTL families, and the time arguments of SET and GETEX.

use stillframe_resp::parse_integer;

use crate::context::Context;
use crate::errors::{NOT_AN_INTEGER, Refusal, invalid_expire_time};
use crate::table::Table;

/// How a time argument is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::command) struct TimeForm {
    /// Milliseconds in its unit.
    pub(in crate::command) unit_ms: i64,
    /// Counted from now, not from 1970.
    pub(in crate::command) relative: bool,
}

pub(in crate::command) const SECONDS: TimeForm = TimeForm { unit_ms: 1000, relative: true };
pub(in crate::command) const MILLISECONDS: TimeForm = TimeForm { unit_ms: 1, relative: true };
pub(in crate::command) const UNIX_SECONDS: TimeForm = TimeForm { unit_ms: 1000, relative: false };
pub(in crate::command) const UNIX_MILLISECONDS: TimeForm = TimeForm { unit_ms: 1, relative: false };

impl TimeForm {
    /// The instant, in unix milliseconds, or `None` if it is beyond 64 bits. The very last of
    /// them stands for "never" in the keyspace, so the one before it is given in its place.
    pub(in crate::command) fn instant(self, number: i64, now: i64) -> Option<i64> {
        let instant =
            number.checked_mul(self.unit_ms)?.checked_add(if self.relative { now } else { 0 })?;
        Some(instant.min(i64::MAX - 1))
    }

    /// The instant that SET's kin are given: only positive numbers will do.
    pub(in crate::command) fn future_instant(
        self,
        number: &[u8],
        now: i64,
        command: &str,
    ) -> Result<i64, Refusal> {
        let number = parse_integer(number).ok_or(NOT_AN_INTEGER)?;
        let instant = if number > 0 { self.instant(number, now) } else { None };
        instant.ok_or_else(|| invalid_expire_time(command))
    }
}

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("expire", |ctx, args| expire(ctx, args, "expire", SECONDS));
    table.add("expireat", |ctx, args| expire(ctx, args, "expireat", UNIX_SECONDS));
    table.add("expiretime", |ctx, args| remaining(ctx, args[1], UNIX_SECONDS));
    table.add("persist", persist);
    table.add("pexpire", |ctx, args| expire(ctx, args, "pexpire", MILLISECONDS));
    table.add("pexpireat", |ctx, args| expire(ctx, args, "pexpireat", UNIX_MILLISECONDS));
    table.add("pexpiretime", |ctx, args| remaining(ctx, args[1], UNIX_MILLISECONDS));
    table.add("pttl", |ctx, args| remaining(ctx, args[1], MILLISECONDS));
    table.add("ttl", |ctx, args| remaining(ctx, args[1], SECONDS));
}

/// When EXPIRE may change what a key has: NX, XX, GT, LT.
#[derive(Default)]
pub(in crate::command) struct Conditions {
    if_none: bool,
    if_some: bool,
    if_later: bool,
    if_sooner: bool,
}

impl Conditions {
    pub(in crate::command) fn parse(options: &[&[u8]]) -> Result<Self, Refusal> {
        let mut conditions = Self::default();
        for option in options {
            let condition = match option.to_ascii_lowercase().as_slice() {
                b"nx" => &mut conditions.if_none,
                b"xx" => &mut conditions.if_some,
                b"gt" => &mut conditions.if_later,
                b"lt" => &mut conditions.if_sooner,
                _ => {
                    let option = crate::text::c_string(option);
                    return Err([b"ERR Unsupported option ", option].concat().into());
                }
            };
            *condition = true;
        }
        let Self { if_none, if_some, if_later, if_sooner } = conditions;
        if if_none && (if_some || if_later || if_sooner) {
            return Err(
                "ERR NX and XX, GT or LT options at the same time are not compatible".into()
            );
        }
        if if_later && if_sooner {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(conditions)
    }

    /// Whether a key that expires at `current` (never: `None`) may from now on at `new`.
    pub(in crate::command) fn allow(&self, current: Option<i64>, new: i64) -> bool {
        let refused = self.if_none && current.is_some()
            || self.if_some && current.is_none()
            || self.if_later && current.is_none_or(|current| new <= current)
            || self.if_sooner && current.is_some_and(|current| new >= current);
        !refused
    }
}

/// `EXPIRE key seconds [NX | XX | GT | LT]` and its three siblings
fn expire(
    ctx: &mut Context<'_>,
    args: &[&[u8]],
    command: &'static str,
    form: TimeForm,
) -> Result<(), Refusal> {
    let key = args[1];
    let conditions = Conditions::parse(&args[3..])?;
    let number = parse_integer(args[2]).ok_or(NOT_AN_INTEGER)?;
    let instant = form.instant(number, ctx.now).ok_or_else(|| invalid_expire_time(command))?;
    let entry = ctx.keyspace.get(ctx.caller.db, key, ctx.now);
    if !entry.is_some_and(|entry| conditions.allow(entry.expire_at(), instant)) {
        ctx.out.integer(0);
        return Ok(());
    }
    expire_at(ctx, key, instant);
    ctx.out.integer(1);
    Ok(())
}

/// Gives an existing key an end, or deletes it if that has come.
pub(in crate::command) fn expire_at(ctx: &mut Context<'_>, key: &[u8], instant: i64) {
    let db = ctx.caller.db;
    if instant <= ctx.now {
        ctx.keyspace.remove(db, key);
        ctx.effect(&[b"DEL", key]);
        ctx.changed_as(key, 'g', "del");
    } else {
        ctx.keyspace.set_expire(db, key, Some(instant));
        ctx.effect(&[b"PEXPIREAT", key, instant.to_string().as_bytes()]);
        ctx.changed_as(key, 'g', "expire");
    }
}

/// `TTL key` and its siblings: -2 if there is no key, -1 if it lives for ever.
fn remaining(ctx: &mut Context<'_>, key: &[u8], form: TimeForm) -> Result<(), Refusal> {
    let from = if form.relative { ctx.now } else { 0 };
    ctx.probe(key, |out, entry| {
        out.integer(match entry.map(|entry| entry.expire_at()) {
            None => -2,
            Some(None) => -1,
            Some(Some(instant)) => {
                let ms = instant.saturating_sub(from).max(0);
                // To the nearest unit.
                ms / form.unit_ms + (ms % form.unit_ms + form.unit_ms / 2) / form.unit_ms
            }
        });
    });
    Ok(())
}

/// `PERSIST key`
fn persist(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let persisted = make_eternal(ctx, args[1]);
    ctx.out.integer(persisted.into());
    Ok(())
}

/// Takes a key's end away; false if it has none or there is no key.
pub(in crate::command) fn make_eternal(ctx: &mut Context<'_>, key: &[u8]) -> bool {
    let db = ctx.caller.db;
    let entry = ctx.keyspace.get(db, key, ctx.now);
    let ends = entry.is_some_and(|entry| entry.expire_at().is_some());
    if ends {
        ctx.keyspace.set_expire(db, key, None);
        ctx.effect(&[b"PERSIST", key]);
        ctx.changed_as(key, 'g', "persist");
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_beyond_64_bits_are_refused() {
        assert_eq!(SECONDS.instant(10, 500), Some(10_500));
        assert_eq!(SECONDS.instant(-10, 500), Some(-9_500));
        assert_eq!(UNIX_SECONDS.instant(10, 500), Some(10_000));
        assert_eq!(SECONDS.instant(i64::MAX / 1000 + 1, 0), None);
        assert_eq!(SECONDS.instant(i64::MIN / 1000 - 1, 0), None);
        assert_eq!(MILLISECONDS.instant(i64::MAX, 1), None);
        assert_eq!(UNIX_MILLISECONDS.instant(i64::MAX, 1), Some(i64::MAX - 1));
    }

    #[test]
    fn set_takes_positive_times_only() {
        for number in ["0", "-1", "9223372036854775807"] {
            let error = SECONDS.future_instant(number.as_bytes(), 5, "set").unwrap_err();
            assert_eq!(error.text(), b"ERR invalid expire time in 'set' command", "{number}");
        }
        assert_eq!(SECONDS.future_instant(b"x", 5, "set").unwrap_err(), NOT_AN_INTEGER);
        assert_eq!(MILLISECONDS.future_instant(b"7", 5, "set"), Ok(12));
        assert_eq!(UNIX_MILLISECONDS.future_instant(b"7", 5, "set"), Ok(7), "past is allowed");
    }

    #[test]
    fn a_key_without_end_counts_as_the_latest_of_all() {
        let parse = |options: &[&[u8]]| Conditions::parse(options).unwrap();
        assert!(parse(&[]).allow(Some(5), 1));
        assert!(!parse(&[b"GT"]).allow(None, 10));
        assert!(parse(&[b"lt"]).allow(None, 10));
        assert!(parse(&[b"gt"]).allow(Some(9), 10));
        assert!(!parse(&[b"gt"]).allow(Some(10), 10));
        assert!(!parse(&[b"LT"]).allow(Some(10), 10));
        assert!(parse(&[b"Nx"]).allow(None, 10));
        assert!(!parse(&[b"nx"]).allow(Some(1), 10));
        assert!(!parse(&[b"xx"]).allow(None, 10));
        assert!(!parse(&[b"xx", b"gt"]).allow(None, 10));
    }
}
