//! What compares the value at a key before it changes it: the conditions of SET, DELEX, DELIFEQ;
//! and DIGEST, which shows what some of them compare.

use stillframe_keyspace::{Entry, IntText};

use super::string_bytes;
use crate::context::Context;
use crate::errors::{Refusal, WRONG_TYPE, wrong_arity};
use crate::table::Table;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("delex", delex);
    table.add("delifeq", delifeq);
    table.add("digest", digest);
}

/// A condition on the string at a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Comparison<'a> {
    /// IFDEQ and IFDNE compare digests.
    of_digest: bool,
    /// IFEQ and IFDEQ: true.
    wants_equal: bool,
    given: &'a [u8],
}

impl<'a> Comparison<'a> {
    /// The condition of this name.
    pub(super) fn from_name(name: &[u8], given: &'a [u8]) -> Option<Self> {
        let (of_digest, wants_equal) = match name.to_ascii_lowercase().as_slice() {
            b"ifeq" => (false, true),
            b"ifne" => (false, false),
            b"ifdeq" => (true, true),
            b"ifdne" => (true, false),
            _ => return None,
        };
        Some(Self { of_digest, wants_equal, given })
    }

    fn check_digest(self) -> Result<(), Refusal> {
        match self.of_digest && self.given.len() != 16 {
            true => Err("ERR must be exactly 16 hexadecimal characters".into()),
            false => Ok(()),
        }
    }

    fn fits(self, value: &[u8]) -> bool {
        let equals = match self.of_digest {
            true => digest_text(value).as_bytes().eq_ignore_ascii_case(self.given),
            false => value == self.given,
        };
        equals == self.wants_equal
    }

    /// Whether the condition holds: a key that is absent equals nothing.
    pub(super) fn holds(self, ctx: &mut Context<'_>, key: &[u8]) -> Result<bool, Refusal> {
        self.check_digest()?;
        let mut text = IntText::default();
        let entry = ctx.keyspace.get(ctx.caller.db, key, ctx.now);
        let value = string_bytes(entry, &mut text)?;
        Ok(value.map_or(!self.wants_equal, |value| self.fits(value)))
    }
}

fn digest_text(value: &[u8]) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(value))
}

/// `DELEX key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]`
fn delex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let key = args[1];
    let comparison = match &args[2..] {
        [] => None,
        [name, given] => Some((name, given)),
        _ => return Err(wrong_arity("delex")),
    };
    if !ctx.exists(key) {
        ctx.out.integer(0);
        return Ok(());
    }
    if let Some((name, given)) = comparison {
        let comparison = Comparison::from_name(name, given)
            .ok_or("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE")?;
        let holds = comparison.holds(ctx, key).map_err(|refusal| match refusal == WRONG_TYPE {
            true => "ERR Key should be of string type if conditions are specified".into(),
            false => refusal,
        })?;
        if !holds {
            ctx.out.integer(0);
            return Ok(());
        }
    }
    delete(ctx, key);
    Ok(())
}

/// `DELIFEQ key value`
fn delifeq(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, given) = (args[1], args[2]);
    let comparison = Comparison { of_digest: false, wants_equal: true, given };
    match comparison.holds(ctx, key)? {
        true => delete(ctx, key),
        false => ctx.out.integer(0),
    }
    Ok(())
}

/// Deletes a key that is there; a replay compares nothing.
fn delete(ctx: &mut Context<'_>, key: &[u8]) {
    ctx.keyspace.remove(ctx.caller.db, key);
    ctx.changed_as(key, 'g', "del");
    ctx.effect(&[b"DEL", key]);
    ctx.out.integer(1);
}

/// `DIGEST key`
fn digest(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.read(args[1], |out, entry: Option<&Entry>| {
        let mut text = IntText::default();
        out.bulk_or_null(string_bytes(entry, &mut text)?.map(digest_text));
        Ok(())
    })
}
