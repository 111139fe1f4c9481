//! Commands that walk over keys or elements: SCAN and its family, KEYS, RANDOMKEY.

use stillframe_keyspace::{Entry, Hash, Set};
use stillframe_resp::{Out, parse_integer};

use super::type_name;
use crate::command::collection::View;
use crate::context::Context;
use crate::errors::{INVALID_CURSOR, NOT_AN_INTEGER, Refusal, SYNTAX};
use crate::number::integers::parse_cursor;
use crate::table::Table;
use crate::text::{c_string, glob};

/// Keys a SCAN call looks at unless COUNT says otherwise.
const SCAN_COUNT: usize = 10;

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("hscan", hscan);
    table.add("keys", keys);
    table.add("randomkey", randomkey);
    table.add("scan", scan);
    table.add("sscan", sscan);
}

/// What SCAN and KEYS answer of the keys they meet.
pub(super) struct Filter<'a> {
    /// `None`: any name.
    pub(super) pattern: Option<&'a [u8]>,
    /// `None`: any type.
    type_name: Option<&'a [u8]>,
}

impl<'a> Filter<'a> {
    /// The one pattern that also fits the empty key is taken out of the matcher's hands.
    fn set_pattern(&mut self, pattern: &'a [u8]) {
        self.pattern = (pattern != b"*").then_some(pattern);
    }

    pub(super) fn accepts(&self, entry: &Entry) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, entry.key()))
            && self
                .type_name
                .is_none_or(|name| name.eq_ignore_ascii_case(type_name(entry.value()).as_bytes()))
    }
}

/// Options of the SCAN family.
pub(super) struct Options<'a> {
    pub(super) filter: Filter<'a>,
    pub(super) count: usize,
    /// NOVALUES of HSCAN: fields alone.
    no_values: bool,
    /// SLOT of CLUSTERSCAN: keys of this slot alone.
    pub(super) slot: Option<u16>,
}

/// The types that CLUSTERSCAN knows.
const TYPES: [&str; 6] = ["string", "list", "set", "zset", "hash", "stream"];
const SLOTS: i64 = 16_384;

/// What is walked over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Walked {
    Keys,
    /// Keys, by CLUSTERSCAN.
    Slots,
    Fields,
    Others,
}

impl<'a> Options<'a> {
    /// Reads `[MATCH pattern] [COUNT count]`, and `[TYPE type]` for keys, `[SLOT slot]` for slots,
    /// `[NOVALUES]` for fields.
    pub(super) fn parse(mut args: &[&'a [u8]], walked: Walked) -> Result<Self, Refusal> {
        let filter = Filter { pattern: None, type_name: None };
        let mut options = Self { filter, count: SCAN_COUNT, no_values: false, slot: None };
        while let Some((option, rest)) = args.split_first() {
            if option.eq_ignore_ascii_case(b"NOVALUES") {
                if walked != Walked::Fields {
                    return Err("ERR NOVALUES option can only be used in HSCAN".into());
                }
                options.no_values = true;
                args = rest;
                continue;
            }
            let (argument, rest) = rest.split_first().ok_or(SYNTAX)?;
            args = rest;
            if option.eq_ignore_ascii_case(b"COUNT") {
                let count = parse_integer(argument).ok_or(NOT_AN_INTEGER)?;
                let count = usize::try_from(count).ok().filter(|&count| count > 0);
                options.count = count.ok_or(SYNTAX)?;
            } else if option.eq_ignore_ascii_case(b"MATCH") {
                options.filter.set_pattern(argument);
            } else if walked == Walked::Keys && option.eq_ignore_ascii_case(b"TYPE") {
                options.filter.type_name = Some(argument);
            } else if walked != Walked::Slots || !options.take_of_slots(option, argument)? {
                return Err(SYNTAX);
            }
        }
        Ok(options)
    }

    /// Reads an option of CLUSTERSCAN; false if it is none.
    fn take_of_slots(&mut self, option: &[u8], argument: &'a [u8]) -> Result<bool, Refusal> {
        if option.eq_ignore_ascii_case(b"TYPE") {
            if !TYPES.iter().any(|name| argument.eq_ignore_ascii_case(name.as_bytes())) {
                return Err([b"ERR unknown type name '", c_string(argument), b"'"].concat().into());
            }
            self.filter.type_name = Some(argument);
        } else if option.eq_ignore_ascii_case(b"SLOT") {
            if self.slot.is_some() {
                return Err("ERR SLOT option can only be specified once".into());
            }
            let slot = parse_integer(argument).filter(|slot| (0..SLOTS).contains(slot));
            self.slot = Some(slot.ok_or("ERR Invalid or out of range slot")? as u16);
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

/// The reply of the SCAN family: the cursor to go on from, and `found` replies that were written
/// from `start` on.
pub(super) fn finish(out: &mut Out<'_>, start: usize, found: usize, next: impl AsRef<[u8]>) {
    out.array_at(start, found);
    // The cursor goes before what was found, which is known only now.
    let end = out.position();
    out.array(2);
    out.bulk(next);
    let header = out.position() - end;
    out.buffer[start..].rotate_right(header);
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
fn scan(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let Context { keyspace, caller, out, now, .. } = ctx;
    scan_by(out, &args[1..], |cursor, count, show| {
        keyspace.scan(caller.db, cursor, count, *now, show)
    })?;
    ctx.ledger.note_expired_apart(ctx.keyspace);
    Ok(())
}

/// As SCAN, whose arguments begin with the cursor, over what `walk` shows: from a cursor on, about
/// so many keys.
///
/// # Errors
/// The refusals of SCAN.
pub fn scan_by(
    out: &mut Out<'_>,
    args: &[&[u8]],
    walk: impl FnOnce(u64, usize, &mut dyn FnMut(&Entry)) -> u64,
) -> Result<(), Refusal> {
    let (cursor, args) = args.split_first().ok_or(SYNTAX)?;
    let cursor = parse_cursor(cursor).ok_or(INVALID_CURSOR)?;
    let Options { filter, count, .. } = Options::parse(args, Walked::Keys)?;
    let start = out.position();
    let mut found = 0;
    let next = walk(cursor, count, &mut |entry| {
        if filter.accepts(entry) {
            out.bulk(entry.key());
            found += 1;
        }
    });
    finish(out, start, found, next.to_string());
    Ok(())
}

/// As [`scan_by`], over keys of which each has a remark; none is asked for its type.
///
/// # Errors
/// The refusals of SCAN.
pub fn scan_remarks_by(
    out: &mut Out<'_>,
    args: &[&[u8]],
    walk: impl FnOnce(u64, usize, &mut dyn FnMut(&Entry, &str)) -> u64,
) -> Result<(), Refusal> {
    let (cursor, args) = args.split_first().ok_or(SYNTAX)?;
    let cursor = parse_cursor(cursor).ok_or(INVALID_CURSOR)?;
    let Options { filter, count, .. } = Options::parse(args, Walked::Others)?;
    let start = out.position();
    let mut found = 0;
    let next = walk(cursor, count, &mut |entry, remark| {
        if filter.accepts(entry) {
            out.bulk(entry.key());
            out.bulk(remark);
            found += 2;
        }
    });
    finish(out, start, found, next.to_string());
    Ok(())
}

/// `SSCAN key cursor [MATCH pattern] [COUNT count]` and its siblings: `walk` shows elements from a
/// cursor on, about so many, each by its name and what is answered after the name.
pub(in crate::command) fn scan_collection<'s, V: View<'s>>(
    ctx: &'s mut Context<'_>,
    args: &[&[u8]],
    walk: impl FnOnce(V, u64, usize, &mut dyn FnMut(&[u8], Option<&[u8]>)) -> u64,
) -> Result<(), Refusal> {
    scan_elements(ctx, args, Walked::Others, walk)
}

fn scan_elements<'s, V: View<'s>>(
    ctx: &'s mut Context<'_>,
    args: &[&[u8]],
    walked: Walked,
    walk: impl FnOnce(V, u64, usize, &mut dyn FnMut(&[u8], Option<&[u8]>)) -> u64,
) -> Result<(), Refusal> {
    let cursor = parse_cursor(args[2]).ok_or(INVALID_CURSOR)?;
    let (out, view) = ctx.found::<V>(args[1])?;
    let start = out.position();
    let Some(view) = view else {
        finish(out, start, 0, "0");
        return Ok(());
    };
    let Options { filter, count, no_values, .. } = Options::parse(&args[3..], walked)?;
    let mut found = 0;
    let next = walk(view, cursor, count, &mut |name, value| {
        if filter.pattern.is_none_or(|pattern| glob::matches(pattern, name)) {
            out.bulk(name);
            found += 1;
            if let Some(value) = value.filter(|_| !no_values) {
                out.bulk(value);
                found += 1;
            }
        }
    });
    finish(out, start, found, next.to_string());
    Ok(())
}

/// `HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]`
fn hscan(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    scan_elements(ctx, args, Walked::Fields, |hash: Hash<'_>, cursor, count, show| {
        hash.scan(cursor, count, |field, value| show(field, Some(value)))
    })
}

/// `SSCAN key cursor [MATCH pattern] [COUNT count]`
fn sscan(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    scan_collection(ctx, args, |set: Set<'_>, cursor, count, show| {
        set.scan(cursor, count, |member| show(member, None))
    })
}

/// `KEYS pattern`
fn keys(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let Context { keyspace, caller, out, now, .. } = ctx;
    keys_by(out, args[1], |show| keyspace.for_each(caller.db, *now, show));
    Ok(())
}

/// As KEYS, over all that `walk` shows.
pub fn keys_by(out: &mut Out<'_>, pattern: &[u8], walk: impl FnOnce(&mut dyn FnMut(&Entry))) {
    let mut filter = Filter { pattern: None, type_name: None };
    filter.set_pattern(pattern);
    let start = out.position();
    let mut found = 0;
    walk(&mut |entry| {
        if filter.accepts(entry) {
            out.bulk(entry.key());
            found += 1;
        }
    });
    out.array_at(start, found);
}

/// `RANDOMKEY`
fn randomkey(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let Context { keyspace, ledger, caller, out, now, .. } = ctx;
    out.bulk_or_null(
        keyspace.random(caller.db, *now, &mut || ledger.random.bits()).map(|entry| entry.key()),
    );
    ctx.ledger.note_expired_apart(ctx.keyspace);
    Ok(())
}
