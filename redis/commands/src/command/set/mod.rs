//! Sets: commands on one set, and SMOVE; those on several are in `algebra`.

mod algebra;

use stillframe_keyspace::Set;
use stillframe_resp::Out;

pub(super) use self::algebra::Operation;

use crate::command::sample::Count;
use crate::context::Context;
use crate::errors::{MUST_BE_POSITIVE, Refusal, SYNTAX};
use crate::number::integers::at_least;
use crate::random::Random;
use crate::table::Table;

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("sadd", sadd);
    table.add("scard", scard);
    table.add("sismember", sismember);
    table.add("smembers", smembers);
    table.add("smismember", smismember);
    table.add("smove", smove);
    table.add("spop", spop);
    table.add("srandmember", srandmember);
    table.add("srem", srem);
    algebra::register(table);
}

/// `SADD key member...`
fn sadd(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, members) = (args[1], &args[2..]);
    ctx.found_to_edit::<Set<'_>>(key)?;
    let added = ctx.keyspace.edit_set(ctx.caller.db, key, |set| {
        members.iter().filter(|member| set.insert(member)).count()
    })?;
    if added > 0 {
        ctx.changed_times(key, added, 's', "sadd");
    }
    ctx.out.integer(added as i64);
    Ok(())
}

/// `SREM key member...`
fn srem(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, members) = (args[1], &args[2..]);
    let (out, set) = ctx.found_to_edit::<Set<'_>>(key)?;
    if set.is_none() {
        out.integer(0);
        return Ok(());
    }
    let removed = remove(ctx, key, members, "srem")?;
    ctx.out.integer(removed as i64);
    Ok(())
}

/// Removes members from a set that was looked up; how many were there.
fn remove(
    ctx: &mut Context<'_>,
    key: &[u8],
    members: &[impl AsRef<[u8]>],
    event: &'static str,
) -> Result<usize, Refusal> {
    let (removed, left) = ctx.keyspace.edit_set(ctx.caller.db, key, |set| {
        let removed = members.iter().filter(|member| set.remove(member.as_ref())).count();
        (removed, set.view().len())
    })?;
    if removed > 0 {
        ctx.changed_times(key, removed, 's', event);
        ctx.emptied(key, left);
    }
    Ok(removed)
}

/// `SCARD key`
fn scard(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, set) = ctx.found::<Set<'_>>(args[1])?;
    out.integer(set.map_or(0, |set| set.len() as i64));
    Ok(())
}

/// `SISMEMBER key member`
fn sismember(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, set) = ctx.found::<Set<'_>>(args[1])?;
    out.integer(set.is_some_and(|set| set.contains(args[2])).into());
    Ok(())
}

/// `SMISMEMBER key member...`
fn smismember(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, set) = ctx.found::<Set<'_>>(args[1])?;
    out.array(args.len() - 2);
    for member in &args[2..] {
        out.integer(set.is_some_and(|set| set.contains(member)).into());
    }
    Ok(())
}

/// `SMEMBERS key`
fn smembers(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, set) = ctx.found::<Set<'_>>(args[1])?;
    answer_all(out, set);
    Ok(())
}

fn answer_all(out: &mut Out<'_>, set: Option<Set<'_>>) {
    out.set(set.map_or(0, |set| set.len()));
    set.iter().flat_map(|set| set.iter()).for_each(|member| out.bulk(member));
}

/// `SMOVE source destination member`
fn smove(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (source, target, member) = (args[1], args[2], args[3]);
    // What the target holds does not matter if there is no source.
    if !ctx.exists(source) {
        ctx.out.integer(0);
        return Ok(());
    }
    let (_, set) = ctx.found_to_edit::<Set<'_>>(source)?;
    let there = set.is_some_and(|set| set.contains(member));
    let (out, _) = ctx.found_to_edit::<Set<'_>>(target)?;
    if !there || source == target {
        out.integer(there.into());
        return Ok(());
    }
    // Added before it is removed, so that a failure loses nothing.
    let added = ctx.keyspace.edit_set(ctx.caller.db, target, |set| set.insert(member))?;
    // The event of a new target comes with what it got, after what the source lost.
    let new = ctx.ledger.put_off_new(ctx.keyspace);
    remove(ctx, source, &[member], "srem")?;
    ctx.ledger.forget_new(new);
    if added {
        ctx.changed_as(target, 's', "sadd");
    }
    ctx.out.integer(1);
    Ok(())
}

/// `SPOP key [count]`
fn spop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let key = args[1];
    if args.len() > 3 {
        return Err(SYNTAX);
    }
    let count = args.get(2).map(|count| at_least(count, 0, MUST_BE_POSITIVE)).transpose()?;
    let (mut random, agrees) = (ctx.ledger.random.split(), ctx.ledger.agrees);
    let (out, set) = ctx.found_to_edit::<Set<'_>>(key)?;
    let Some(set) = set else {
        if count.is_some() {
            out.set(0);
        } else {
            out.null();
        }
        return Ok(());
    };
    let size = set.len();
    let members = if agrees {
        chosen(set, count.unwrap_or(1), &mut random)
    } else {
        let ranks = Count::Distinct(count.unwrap_or(1)).ranks(&mut random, set.len());
        members_at(set, &ranks)
    };
    if members.is_empty() {
        out.set(0);
        return Ok(());
    }
    remove(ctx, key, &members, "spop")?;
    if count.is_some() && members.len() == size {
        ctx.effect(&[b"del", key]);
    } else {
        let removal = [&b"srem"[..], key].into_iter().chain(members.iter().map(Vec::as_slice));
        ctx.effect(&removal.collect::<Vec<_>>());
    }
    if count.is_some() {
        ctx.out.set(members.len());
    }
    members.iter().for_each(|member| ctx.out.bulk(member));
    Ok(())
}

fn members_at(set: Set<'_>, ranks: &[usize]) -> Vec<Vec<u8>> {
    ranks.iter().filter_map(|&rank| set.at(rank)).map(<[u8]>::to_vec).collect()
}

/// As many members, every choice being as likely, whatever their order: those of the lowest hashes
/// under a random key.
fn chosen(set: Set<'_>, count: usize, random: &mut Random) -> Vec<Vec<u8>> {
    let seed = random.bits();
    let hash = |member: &[u8]| {
        let whole = member.chunks(8).fold(seed ^ member.len() as u64, |hash, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            Random::with_seed(hash ^ u64::from_le_bytes(word)).bits()
        });
        Random::with_seed(whole ^ seed).bits()
    };
    let mut members: Vec<(u64, &[u8])> = set.iter().map(|member| (hash(member), member)).collect();
    if count < members.len() && count > 0 {
        members.select_nth_unstable(count - 1);
    }
    members.truncate(count);
    members.sort_unstable();
    members.into_iter().map(|(_, member)| member.to_vec()).collect()
}

/// `SRANDMEMBER key [count]`
fn srandmember(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let room = ctx.out.room();
    if args.len() > 3 {
        return Err(SYNTAX);
    }
    let count = args.get(2).map(|count| Count::parse(count, room)).transpose()?;
    let mut random = ctx.ledger.random.split();
    let (out, set) = ctx.found::<Set<'_>>(args[1])?;
    match (set, count) {
        (None, None) => out.null(),
        (None, Some(_)) => out.array(0),
        (Some(set), None) => out.bulk(set.at(random.below(set.len())).unwrap_or_default()),
        (Some(set), Some(count)) => {
            let ranks = count.ranks(&mut random, set.len());
            out.array(ranks.len());
            ranks.iter().filter_map(|&rank| set.at(rank)).for_each(|member| out.bulk(member));
        }
    }
    Ok(())
}
