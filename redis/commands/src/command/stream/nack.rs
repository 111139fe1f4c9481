//! XNACK: what is pending is released, so that any consumer may claim it at once.
//!
//! Log and replicas get the number of deliveries that each release leaves, so that replicas that
//! know no XNACK get a [plain form](crate::plain_form).

use stillframe_keyspace::{Pending, Stream, StreamId};
use stillframe_resp::parse_integer;

use super::{Word, id, no_group};
use crate::context::Context;
use crate::errors::{NOT_AN_INTEGER, Refusal};
use crate::plain::RELEASE_END;
use crate::table::Table;
use crate::text::c_string;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("xnack", xnack);
}

/// The number of deliveries that is never exceeded, and says that an entry cannot be processed.
const COUNT_MAX: u64 = i64::MAX as u64;

/// The number of deliveries after one more.
pub(super) fn one_more(count: u64) -> u64 {
    if count == COUNT_MAX { count } else { count.saturating_add(1) }
}

/// What a release says of the last delivery.
#[derive(Debug, Clone, Copy)]
enum Mode {
    /// It does not count.
    Silent,
    /// It counts.
    Fail,
    /// No other one will do.
    Fatal,
}

/// What stands behind the mode.
#[derive(Debug, Default)]
struct Options {
    ids: Vec<StreamId>,
    /// The number of deliveries to note.
    count: Option<u64>,
    /// Also what is not pending.
    force: bool,
}

impl Options {
    /// `IDS numids id... [RETRYCOUNT count] [FORCE]`
    fn parse(mut rest: &[&[u8]]) -> Result<Self, Refusal> {
        let (mut options, mut ids) = (Self::default(), None);
        while let [option, after @ ..] = rest {
            rest = after;
            match (Word::from_option(option).as_slice(), after) {
                (b"ids", [number, after @ ..]) => {
                    let number = parse_integer(number).and_then(|it| i32::try_from(it).ok());
                    let number = number.filter(|&number| number > 0);
                    let number = number.ok_or("ERR numids must be a positive integer")?;
                    let parts = after.split_at_checked(number as usize);
                    let (given, after) = parts.ok_or("ERR number of IDs doesn't match numids")?;
                    (ids, rest) = (Some(given), after);
                }
                (b"force", _) => options.force = true,
                (b"retrycount", [number, after @ ..]) => {
                    let number = parse_integer(number).ok_or(NOT_AN_INTEGER)?;
                    let number = u64::try_from(number);
                    const NEGATIVE: &str = "ERR Invalid RETRYCOUNT value, must be >= 0";
                    options.count = Some(number.map_err(|_| Refusal::new(NEGATIVE))?);
                    rest = after;
                }
                _ => {
                    let option = c_string(option);
                    return Err([b"ERR Unrecognized XNACK option '", option, b"'"].concat().into());
                }
            }
        }
        let ids = ids.ok_or("ERR syntax error, expected IDS keyword")?;
        options.ids = ids.iter().map(|text| id::strict(text, 0)).collect::<Result<_, _>>()?;
        Ok(options)
    }

    /// The number of deliveries that a release leaves of so many.
    fn count_after(&self, mode: Mode, before: u64) -> u64 {
        self.count.unwrap_or(match mode {
            Mode::Silent => before.saturating_sub(1),
            Mode::Fail => before,
            Mode::Fatal => COUNT_MAX,
        })
    }
}

/// `XNACK key group SILENT | FAIL | FATAL IDS numids id... [RETRYCOUNT count] [FORCE]`
fn xnack(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, name) = (args[1], args[2]);
    let (_, stream) = ctx.found_to_edit::<Stream<'_>>(key)?;
    if stream.and_then(|stream| stream.group(name)).is_none() {
        return Err(no_group(key, name));
    }
    let mode = match Word::from_option(args[3]).as_slice() {
        b"silent" => Mode::Silent,
        b"fail" => Mode::Fail,
        b"fatal" => Mode::Fatal,
        _ => return Err("ERR mode must be SILENT, FAIL, or FATAL".into()),
    };
    let options = Options::parse(&args[4..])?;
    let db = ctx.caller.db;
    let released = ctx.keyspace.edit_stream(db, key, |edit| {
        let mut released = Vec::new();
        for &id in &options.ids {
            let stream = edit.view();
            let before = match stream.group(name).and_then(|group| group.pending(id)) {
                Some(pending) => pending.count,
                None if options.force && stream.get(id).is_some() => 0,
                None => continue,
            };
            let count = options.count_after(mode, before);
            edit.deliver(name, Pending { id, consumer: None, time_ms: 0, count });
            released.push((id, count));
        }
        released
    })?;
    if !released.is_empty() {
        ctx.ledger.dirty += released.len() as u64;
        // Who claims what is old enough gets it now.
        ctx.ledger.waiters.touch(db, key);
        note_released(ctx, key, name, &released);
    }
    ctx.out.integer(released.len() as i64);
    Ok(())
}

/// States the effects: a request for each run of entries with as many deliveries.
fn note_released(ctx: &mut Context<'_>, key: &[u8], group: &[u8], released: &[(StreamId, u64)]) {
    if !ctx.ledger.effects.wanted() {
        return;
    }
    for run in released.chunk_by(|one, next| one.1 == next.1) {
        let ids: Vec<_> = run.iter().map(|&(id, _)| id::text(id)).collect();
        let [number, count] = [run.len().to_string(), run[0].1.to_string()];
        let head: [&[u8]; 6] = [b"XNACK", key, group, b"FAIL", b"IDS", number.as_bytes()];
        let ids = ids.iter().map(<_ as AsRef<[u8]>>::as_ref);
        let end = [&[&b"RETRYCOUNT"[..], count.as_bytes()], &RELEASE_END[..]].concat();
        ctx.effect(&head.into_iter().chain(ids).chain(end).collect::<Vec<_>>());
    }
}
