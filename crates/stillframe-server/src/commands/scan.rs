//! Commands that walk over keys: SCAN, KEYS, RANDOMKEY.

use stillframe::Algorithm;
use stillframe_keyspace::Entry;
use stillframe_resp::parse_integer;

use super::errors::{INVALID_CURSOR, NOT_AN_INTEGER, SYNTAX};
use super::flags::READONLY;
use super::keys::type_name;
use super::numbers::parse_cursor;
use super::{Context, NO_KEYS, Table, glob};

/// Slots a SCAN call looks at unless COUNT says otherwise.
const SCAN_COUNT: usize = 10;

/// Adds the commands of this module.
pub(crate) fn register<A: Algorithm>(table: &mut Table<A>) {
    table.add("keys", 2, READONLY, NO_KEYS, keys);
    table.add("randomkey", 1, READONLY, NO_KEYS, randomkey);
    table.add("scan", -2, READONLY, NO_KEYS, scan);
}

/// What SCAN and KEYS answer of the keys they meet.
struct Filter<'a> {
    /// `None`: any name.
    pattern: Option<&'a [u8]>,
    /// `None`: any type.
    type_name: Option<&'a [u8]>,
}

impl<'a> Filter<'a> {
    /// The one pattern that also fits the empty key is taken out of the matcher's hands.
    fn set_pattern(&mut self, pattern: &'a [u8]) {
        self.pattern = (pattern != b"*").then_some(pattern);
    }

    fn accepts(&self, entry: &Entry) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, entry.key()))
            && self
                .type_name
                .is_none_or(|name| name.eq_ignore_ascii_case(type_name(entry.value()).as_bytes()))
    }
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
fn scan<A: Algorithm>(ctx: &mut Context<'_, A>, args: &[&[u8]]) {
    let Some(cursor) = parse_cursor(args[1]) else {
        return ctx.out.error(INVALID_CURSOR);
    };
    let (mut filter, mut budget) = (Filter { pattern: None, type_name: None }, SCAN_COUNT);
    let mut rest = &args[2..];
    while let [option, argument, after @ ..] = rest {
        rest = after;
        if option.eq_ignore_ascii_case(b"COUNT") {
            let Some(count) = parse_integer(argument) else {
                return ctx.out.error(NOT_AN_INTEGER);
            };
            budget = match usize::try_from(count) {
                Ok(count @ 1..) => count,
                _ => return ctx.out.error(SYNTAX),
            };
        } else if option.eq_ignore_ascii_case(b"MATCH") {
            filter.set_pattern(argument);
        } else if option.eq_ignore_ascii_case(b"TYPE") {
            filter.type_name = Some(argument);
        } else {
            return ctx.out.error(SYNTAX);
        }
    }
    if !rest.is_empty() {
        return ctx.out.error(SYNTAX);
    }
    let start = ctx.out.position();
    let mut found = 0;
    let Context { keyspace, session, out, now, .. } = ctx;
    let next = keyspace.scan(session.db, cursor, budget, *now, |entry| {
        if filter.accepts(entry) {
            out.bulk(entry.key());
            found += 1;
        }
    });
    out.array_at(start, found);
    // The cursor goes before the keys, which are known only now.
    let keys_end = out.position();
    out.array(2);
    out.bulk(next.to_string());
    let header = out.position() - keys_end;
    out.buffer[start..].rotate_right(header);
}

/// `KEYS pattern`
fn keys<A: Algorithm>(ctx: &mut Context<'_, A>, args: &[&[u8]]) {
    let mut filter = Filter { pattern: None, type_name: None };
    filter.set_pattern(args[1]);
    let start = ctx.out.position();
    let mut found = 0;
    let Context { keyspace, session, out, now, .. } = ctx;
    keyspace.for_each(session.db, *now, |entry| {
        if filter.accepts(entry) {
            out.bulk(entry.key());
            found += 1;
        }
    });
    out.array_at(start, found);
}

/// `RANDOMKEY`
fn randomkey<A: Algorithm>(ctx: &mut Context<'_, A>, _args: &[&[u8]]) {
    let Context { keyspace, server, session, out, now, .. } = ctx;
    match keyspace.random(session.db, *now, &mut || server.random.next()) {
        Some(entry) => out.bulk(entry.key()),
        None => out.null(),
    }
}
