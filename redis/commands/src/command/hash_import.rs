//! HIMPORT of Redis 8.10: a client says the names of fields once, and then sends the values of many
//! hashes. Redis keeps the names once, too; here each is a hash as any other.

use stillframe_keyspace::Hash;

use crate::context::Context;
use crate::errors::{Refusal, SYNTAX};
use crate::table::Table;

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("himport", |_, _| Err(SYNTAX)); // the arity refuses what would come here
    table.add("himport|discard", discard);
    table.add("himport|discardall", discard_all);
    table.add("himport|prepare", prepare);
    table.add("himport|set", set);
}

/// `HIMPORT PREPARE fieldset field...`
fn prepare(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (list, names) = (args[2], &args[3..]);
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    if sorted.windows(2).any(|two| two[0] == two[1]) {
        return Err("ERR duplicate field name in fieldset".into());
    }
    ctx.caller.fieldsets.get_or_insert_default().set(list, names);
    ctx.out.ok();
    Ok(())
}

/// `HIMPORT SET key fieldset value...`
fn set(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, list, values) = (args[2], args[3], &args[4..]);
    ctx.found_to_edit::<Hash<'_>>(key)?;
    let names = ctx.caller.fieldsets.as_ref().and_then(|lists| lists.get(list));
    let names = names.ok_or("ERR no such fieldset")?;
    if names.len() != values.len() {
        return Err("ERR value count does not match fieldset field count".into());
    }
    let replaces = ctx.exists(key);
    ctx.replaced(key, |keyspace, db, name| {
        keyspace.edit_hash(db, name, |hash| {
            names.iter().zip(values).for_each(|(name, value)| _ = hash.set(name, value));
        })
    })?;
    if ctx.ledger.effects.wanted() {
        if replaces {
            ctx.effect(&[b"DEL", key]);
        }
        let mut request = vec![&b"HSET"[..], key];
        request.extend(names.iter().zip(values).flat_map(|(name, value)| [&**name, value]));
        ctx.effect(&request);
    }
    ctx.changed_as(key, 'h', "hset");
    ctx.out.ok();
    Ok(())
}

/// `HIMPORT DISCARD fieldset`
fn discard(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let removed = ctx.caller.fieldsets.as_mut().is_some_and(|lists| lists.remove(args[2]));
    ctx.caller.fieldsets.take_if(|lists| lists.len() == 0);
    ctx.out.integer(removed.into());
    Ok(())
}

/// `HIMPORT DISCARDALL`
fn discard_all(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let removed = ctx.caller.fieldsets.take().map_or(0, |lists| lists.len());
    ctx.out.integer(removed as i64);
    Ok(())
}
