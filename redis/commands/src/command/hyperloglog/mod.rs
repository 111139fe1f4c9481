//! HyperLogLog: how many different elements were seen, within 0.81 %, in at most 12 KiB.
//!
//! The value is a string in Redis's own form, so that files and replicas of either server are read
//! by the other:
//!
//! ```text
//! 0      4    5      8                16
//! | HYLL | e  | 0 0 0 | count, 8 bytes | registers
//!          e: 0 dense, 1 sparse          dense: 16384 x 6 bits, from the lowest bit up
//!                                        sparse: runs, see `sparse`
//! ```
//!
//! The count is what the last PFCOUNT found; its highest bit is set when that is out of date.
//! Algorithm: Flajolet et al., HyperLogLog, AofA 2007, with 64-bit hashes (Heule et al., EDBT 2013)
//! and the estimator of O. Ertl, arXiv:1702.01284 (`estimate`).

mod debug;
mod estimate;
mod layout;
mod sketch;
mod sparse;

use stillframe_keyspace::{Entry, Expire, IntText};

use self::sketch::{Registers, Sketch, check};
use super::string::string_bytes;
use crate::context::Context;
use crate::errors::Refusal;
use crate::table::Table;

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("pfadd", pfadd);
    table.add("pfcount", pfcount);
    table.add("pfdebug", debug::pfdebug);
    table.add("pfmerge", pfmerge);
    table.add("pfselftest", debug::pfselftest);
}

/// Calls `use_it` with the bytes of a sketch, if there is one.
fn with_sketch<R>(
    entry: Option<&Entry>,
    use_it: impl FnOnce(&[u8]) -> Result<R, &'static str>,
) -> Result<Option<R>, Refusal> {
    let mut text = IntText::default();
    let Some(bytes) = string_bytes(entry, &mut text)? else { return Ok(None) };
    check(bytes)?;
    Ok(Some(use_it(bytes)?))
}

fn load(entry: Option<&Entry>) -> Result<Option<Sketch>, Refusal> {
    with_sketch(entry, |bytes| Ok(Sketch(bytes.to_vec())))
}

/// `PFADD key [element...]`: 1 if that changed anything.
fn pfadd(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let key = args[1];
    let entry = ctx.keyspace.get(ctx.caller.db, key, ctx.now);
    let found = load(entry)?;
    let is_new = found.is_none();
    let mut sketch = found.unwrap_or_default();
    let changes = u64::from(is_new) + sketch.add_all(&args[2..])?;
    if changes > 0 {
        sketch.outdate();
        let outcome = ctx.keyspace.set(ctx.caller.db, key, &sketch.0, Expire::Keep);
        ctx.stored_as(key, "pfadd", outcome)?;
        ctx.ledger.dirty += changes - 1;
    }
    ctx.out.integer((changes > 0).into());
    Ok(())
}

/// `PFCOUNT key...`: how many different elements were added to any of the keys.
fn pfcount(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    if args.len() > 2 {
        let (registers, _) = merged(ctx, &args[1..])?;
        ctx.out.integer(estimate::count(&registers.histogram()) as i64);
        return Ok(());
    }
    let key = args[1];
    let found = ctx.read(key, |_, entry| {
        with_sketch(entry, |bytes| match sketch::cached_count(bytes) {
            Some(count) => Ok((count, true)),
            None => sketch::count(bytes).map(|count| (count, false)),
        })
    });
    let (count, is_cached) = found?.unwrap_or((0, true));
    if !is_cached {
        let (db, cache) = (ctx.caller.db, count.to_le_bytes());
        ctx.keyspace.set_range(db, key, layout::COUNT_AT, &cache)?;
        ctx.changed(key);
    }
    ctx.out.integer(count as i64);
    Ok(())
}

/// The largest of each register over all keys, and whether one of them is dense.
fn merged(ctx: &mut Context<'_>, keys: &[&[u8]]) -> Result<(Registers, bool), Refusal> {
    let mut registers = Registers::default();
    let mut any_dense = false;
    for key in keys {
        let registers = &mut registers;
        let dense = ctx.read(key, |_, entry| {
            with_sketch(entry, |bytes| registers.merge(bytes).map(|()| sketch::is_dense(bytes)))
        })?;
        any_dense |= dense.unwrap_or(false);
    }
    Ok((registers, any_dense))
}

/// `PFMERGE destination [source...]`
fn pfmerge(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let key = args[1];
    let (registers, any_dense) = merged(ctx, &args[1..])?;
    let entry = ctx.keyspace.get(ctx.caller.db, key, ctx.now);
    let mut sketch = load(entry)?.unwrap_or_default();
    sketch.raise_all(&registers, any_dense)?;
    let outcome = ctx.keyspace.set(ctx.caller.db, key, &sketch.0, Expire::Keep);
    ctx.stored_as(key, "pfadd", outcome)?;
    ctx.out.ok();
    Ok(())
}
