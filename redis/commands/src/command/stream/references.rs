//! XDELEX and XACKDEL, and what deleting an entry does to the groups that refer to it.
//!
//! A group refers to an entry that it has yet to read, or that is pending in it. Logs and replicas
//! receive XDEL and XACK, which every version knows.

use std::collections::BTreeMap;

use stillframe_keyspace::{Stream, StreamEdit, StreamId};
use stillframe_resp::parse_integer;

use super::id;
use crate::context::Context;
use crate::errors::{Refusal, SYNTAX};
use crate::table::Table;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("xackdel", xackdel);
    table.add("xdelex", xdelex);
}

/// What becomes of references to an entry that is to be deleted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum References {
    /// KEEPREF: they stay.
    #[default]
    Keep,
    /// DELREF: they go.
    Delete,
    /// ACKED: an entry that any group refers to stays.
    Acked,
}

impl References {
    pub(super) fn from_word(word: &[u8]) -> Option<Self> {
        Some(match word {
            word if word.eq_ignore_ascii_case(b"keepref") => Self::Keep,
            word if word.eq_ignore_ascii_case(b"delref") => Self::Delete,
            word if word.eq_ignore_ascii_case(b"acked") => Self::Acked,
            _ => return None,
        })
    }
}

/// What was done to entries and their references.
#[derive(Default)]
pub(super) struct Removal {
    /// Entries that were deleted.
    pub(super) deleted: Vec<StreamId>,
    /// What is not pending any more, by groups.
    acknowledged: BTreeMap<Box<[u8]>, Vec<StreamId>>,
}

impl Removal {
    /// Takes an entry off what is pending in a group.
    fn acknowledge(&mut self, edit: &mut StreamEdit<'_>, group: &[u8], id: StreamId) -> bool {
        let was_pending = edit.acknowledge(group, id);
        if was_pending {
            self.acknowledged.entry(group.into()).or_default().push(id);
        }
        was_pending
    }

    /// Takes an entry off what is pending in all groups.
    pub(super) fn forget(&mut self, edit: &mut StreamEdit<'_>, id: StreamId) {
        let groups = edit.view().groups().filter(|group| group.pending(id).is_some());
        let groups: Vec<Vec<u8>> = groups.map(|group| group.name().to_vec()).collect();
        groups.iter().for_each(|group| {
            self.acknowledge(edit, group, id);
        });
    }

    /// Deletes an entry, unless it has to stay for its references; returns whether it had to.
    fn delete(&mut self, edit: &mut StreamEdit<'_>, id: StreamId, references: References) -> bool {
        match references {
            References::Acked if is_referenced(edit.view(), id) => return true,
            References::Delete => self.forget(edit, id),
            _ => {}
        }
        if edit.delete(id) {
            self.deleted.push(id);
        }
        false
    }

    /// Deletes the first entries that nothing refers to: at most `most` of the first `seen`.
    pub(super) fn trim_acked(&mut self, edit: &mut StreamEdit<'_>, seen: usize, most: usize) {
        let stream = edit.view();
        let free = stream.iter_from(0).take(seen).map(|entry| entry.id);
        let free: Vec<_> = free.filter(|&id| !is_referenced(stream, id)).take(most).collect();
        self.deleted.extend(free.into_iter().filter(|&id| edit.delete(id)));
    }

    /// How many changes these are.
    fn changes(&self) -> usize {
        self.deleted.len() + self.acknowledged.values().map(Vec::len).sum::<usize>()
    }

    /// Notes the changes of groups as requests, and those of entries if `with_deleted`.
    pub(super) fn note(&self, ctx: &mut Context<'_>, key: &[u8], with_deleted: bool) {
        if !ctx.ledger.effects.wanted() {
            return;
        }
        let texts = |ids: &[StreamId]| ids.iter().map(|&id| id::text(id)).collect::<Vec<_>>();
        for (group, ids) in &self.acknowledged {
            let ids = texts(ids);
            let mut words = vec![&b"XACK"[..], key, group];
            words.extend(ids.iter().map(AsRef::as_ref));
            ctx.effect(&words);
        }
        if with_deleted && !self.deleted.is_empty() {
            let ids = texts(&self.deleted);
            let mut words = vec![&b"XDEL"[..], key];
            words.extend(ids.iter().map(AsRef::as_ref));
            ctx.effect(&words);
        }
    }

    /// Counts and notes the outcome of a command that deletes entries.
    fn finish(&self, ctx: &mut Context<'_>, key: &[u8]) {
        if self.changes() == 0 {
            return;
        }
        if self.deleted.is_empty() {
            ctx.ledger.dirty += self.changes() as u64;
        } else {
            ctx.changed_times(key, self.changes(), 't', "xdel");
        }
        self.note(ctx, key, true);
    }
}

/// Whether a group refers to an entry.
fn is_referenced(stream: Stream<'_>, id: StreamId) -> bool {
    stream.groups().any(|group| group.last_id() < id || group.pending(id).is_some())
}

/// The replies to an id.
const NO_ENTRY: i64 = -1;
const DELETED: i64 = 1;
const STAYS: i64 = 2;

/// What stands behind the key, or the group.
struct Request<'r, 'a> {
    references: References,
    /// As texts: where there is no stream or group, nobody looks at them.
    ids: &'r [&'a [u8]],
}

impl<'r, 'a> Request<'r, 'a> {
    /// Reads `[KEEPREF | DELREF | ACKED] IDS numids id...`.
    fn parse(mut rest: &'r [&'a [u8]]) -> Result<Self, Refusal> {
        let (mut references, mut ids) = (None, None);
        while let [option, after @ ..] = rest {
            if let Some(given) = References::from_word(option).filter(|_| references.is_none()) {
                references = Some(given);
                rest = after;
                continue;
            }
            let [count, after @ ..] = after else { return Err(SYNTAX) };
            if ids.is_some() || !option.eq_ignore_ascii_case(b"IDS") {
                return Err(SYNTAX);
            }
            let count = parse_integer(count).and_then(|count| usize::try_from(count).ok());
            let count = count.filter(|&count| count > 0);
            let count = count.ok_or("ERR Number of IDs must be a positive integer")?;
            let (given, after) = after
                .split_at_checked(count)
                .ok_or("ERR The `numids` parameter must match the number of arguments")?;
            ids = Some(given);
            rest = after;
        }
        Ok(Self { references: references.unwrap_or_default(), ids: ids.ok_or(SYNTAX)? })
    }
}

/// `XDELEX key [KEEPREF | DELREF | ACKED] IDS numids id...`
fn xdelex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.found_to_edit::<Stream<'_>>(args[1])?;
    let Request { references, ids } = Request::parse(&args[2..])?;
    delete_each(
        ctx,
        args[1],
        |_| true,
        ids,
        |removal, edit, id| {
            let is_there = edit.view().get(id).is_some();
            match references {
                // As in Redis, also of an entry that is not there.
                References::Acked if is_referenced(edit.view(), id) => return Some(true),
                References::Delete if !is_there => removal.forget(edit, id),
                _ => {}
            }
            is_there.then(|| removal.delete(edit, id, references))
        },
    )
}

/// `XACKDEL key group [KEEPREF | DELREF | ACKED] IDS numids id...`
fn xackdel(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let group = args[2];
    ctx.found_to_edit::<Stream<'_>>(args[1])?;
    let Request { references, ids } = Request::parse(&args[3..])?;
    let has_group = |stream: Stream<'_>| stream.group(group).is_some();
    delete_each(ctx, args[1], has_group, ids, |removal, edit, id| {
        let was_pending = removal.acknowledge(edit, group, id);
        was_pending.then(|| removal.delete(edit, id, references))
    })
}

/// Replies to each id what `delete` did to its entry: `None`, there was none; whether it had to
/// stay. Of a stream that does not `fit` there is none.
fn delete_each(
    ctx: &mut Context<'_>,
    key: &[u8],
    fits: impl FnOnce(Stream<'_>) -> bool,
    ids: &[&[u8]],
    delete: impl Fn(&mut Removal, &mut StreamEdit<'_>, StreamId) -> Option<bool>,
) -> Result<(), Refusal> {
    let (out, stream) = ctx.found_to_edit::<Stream<'_>>(key)?;
    if !stream.is_some_and(fits) {
        out.array(ids.len());
        ids.iter().for_each(|_| out.integer(NO_ENTRY));
        return Ok(());
    }
    let ids = ids.iter().map(|text| id::strict(text, 0)).collect::<Result<Vec<_>, _>>()?;
    out.array(ids.len());
    let Context { keyspace, out, caller, .. } = ctx;
    let removal = keyspace.edit_stream(caller.db, key, |edit| {
        let mut removal = Removal::default();
        for &id in &ids {
            out.integer(match delete(&mut removal, edit, id) {
                None => NO_ENTRY,
                Some(true) => STAYS,
                Some(false) => DELETED,
            });
        }
        removal
    })?;
    removal.finish(ctx, key);
    Ok(())
}
