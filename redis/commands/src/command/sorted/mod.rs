//! Sorted sets: members, each with a score, in the order of scores and then of members.

mod add;
mod bounds;
mod combine;
mod lookup;
mod pop;
mod range;
mod remove;

use stillframe_resp::{Out, Protocol};

pub(super) use self::add::{Condition, Options as AddOptions, add};

use crate::context::Context;
use crate::errors::Refusal;
use crate::table::Table;

/// Adds the commands of all modules here.
pub(crate) fn register<S>(table: &mut Table<S>) {
    add::register(table);
    lookup::register(table);
    range::register(table);
    remove::register(table);
    pop::register(table);
    combine::register(table);
}

/// Members with their scores, apart from any key.
pub(super) type Members = Vec<(Vec<u8>, f64)>;

/// The head of a reply of `count` members: with scores, RESP3 has an array of pairs, and RESP2
/// members and scores in turn.
fn members_head(out: &mut Out<'_>, count: usize, with_scores: bool) {
    let flat = with_scores && out.protocol == Protocol::Resp2;
    out.array(if flat { count * 2 } else { count });
}

/// One member of such a reply.
fn member(out: &mut Out<'_>, member: &[u8], score: f64, with_scores: bool) {
    if with_scores && out.protocol == Protocol::Resp3 {
        out.array(2);
    }
    out.bulk(member);
    if with_scores {
        out.double(score);
    }
}

/// Stores a result under a key, in place of what is there, and answers how many members it has.
pub(super) fn store(
    ctx: &mut Context<'_>,
    key: &[u8],
    members: &Members,
    event: &'static str,
) -> Result<(), Refusal> {
    if members.is_empty() {
        ctx.store_nothing(key);
        ctx.out.integer(0);
        return Ok(());
    }
    ctx.replaced(key, |keyspace, db, name| {
        keyspace.edit_sorted(db, name, |edit| {
            for (member, score) in members {
                edit.set(member, *score);
            }
        })
    })?;
    ctx.changed_as(key, 'z', event);
    ctx.out.integer(members.len() as i64);
    Ok(())
}
