//! What producers send once (Redis's IDMP, idempotent message production): the ids of messages in
//! XADD, XCFGSET and XIDMPRECORD.
//!
//! A message is known for a while. That time passes on each server by itself: requests tell log and
//! replicas what became of a message, and these do not ask whether it is known.

use std::borrow::Cow;

use stillframe_keyspace::{IdmpLimits, IdmpMessage, Stream, StreamId};
use stillframe_resp::{format_integer, parse_integer};

use super::Word;
use super::id::{self, Given};
use crate::context::Context;
use crate::errors::{NO_SUCH_KEY, NOT_AN_INTEGER, Refusal, SYNTAX, WrongType};
use crate::table::Table;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("xcfgset", xcfgset);
    table.add("xidmprecord", xidmprecord);
}

/// A message of a producer, as XADD says it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Message<'a> {
    /// IDMP, with producer and message.
    Named(&'a [u8], &'a [u8]),
    /// IDMPAUTO, with the producer; its fields are the message.
    OfFields(&'a [u8]),
}

/// The words behind an option.
type Rest<'r, 'a> = &'r [&'a [u8]];

impl<'a> Message<'a> {
    /// Reads what stands behind IDMP or IDMPAUTO; nothing if that is too little.
    pub(super) fn parse<'r>(
        option: &[u8],
        after: &'r [&'a [u8]],
    ) -> Result<Option<(Self, Rest<'r, 'a>)>, Refusal> {
        let empty = |what: &str| -> Refusal {
            let name = String::from_utf8_lossy(option).to_uppercase();
            format!("ERR syntax error, {name} requires a non-empty {what}").into()
        };
        let is_auto = option.eq_ignore_ascii_case(b"idmpauto");
        Ok(match after {
            [[], ..] if is_auto => return Err(empty("producer ID")),
            [pid, rest @ ..] if is_auto => Some((Self::OfFields(pid), rest)),
            [[], _, ..] => return Err(empty("producer ID")),
            [_, [], ..] => return Err(empty("idempotent ID")),
            [pid, iid, rest @ ..] => Some((Self::Named(pid, iid), rest)),
            _ => None,
        })
    }

    pub(super) fn pid(self) -> &'a [u8] {
        match self {
            Self::Named(pid, _) | Self::OfFields(pid) => pid,
        }
    }

    /// The id of the message, which may be made of its fields.
    pub(super) fn iid(self, pairs: &[[&[u8]; 2]]) -> Cow<'a, [u8]> {
        match self {
            Self::Named(_, iid) => iid.into(),
            Self::OfFields(_) => iid_of(pairs).to_vec().into(),
        }
    }

    /// The words that say it.
    pub(super) fn words(&self) -> Vec<&'a [u8]> {
        match self {
            Self::Named(pid, iid) => vec![b"IDMP", pid, iid],
            Self::OfFields(pid) => vec![b"IDMPAUTO", pid],
        }
    }
}

/// The id that Redis makes of fields, whatever their order.
fn iid_of(pairs: &[[&[u8]; 2]]) -> [u8; 16] {
    let (mut sum, mut xor, mut bytes) = ([0_u64; 2], [0_u64; 2], Vec::new());
    for [name, value] in pairs {
        bytes.clear();
        // The length tells where the name ends.
        let len = (name.len() as u64).to_le_bytes();
        [*name, &len, *value].into_iter().for_each(|part| bytes.extend_from_slice(part));
        let hash = xxhash_rust::xxh3::xxh3_128(&bytes);
        for (half, hash) in [hash as u64, (hash >> 64) as u64].into_iter().enumerate() {
            sum[half] = sum[half].wrapping_add(hash);
            xor[half] ^= hash;
        }
    }
    let mut iid = [0; 16];
    iid[..8].copy_from_slice(&(sum[0] ^ xor[1].rotate_left(1)).to_le_bytes());
    iid[8..].copy_from_slice(&(sum[1] ^ xor[0].rotate_left(1)).to_le_bytes());
    iid
}

/// The id of the entry of a message that was sent before, if it was. An effect says so by that id
/// or, from Redis, by none.
pub(super) fn sent_before(
    ctx: &mut Context<'_>,
    key: &[u8],
    message: IdmpMessage<'_>,
    given: Option<Given>,
) -> Result<Option<StreamId>, WrongType> {
    let (now, is_effect) = (ctx.now, ctx.caller.internal);
    let (_, Some(stream)) = ctx.found_to_edit::<Stream<'_>>(key)? else { return Ok(None) };
    if !is_effect {
        return Ok(stream.sent(message, now));
    }
    let known = stream.sent(message, i64::MIN);
    Ok(match given {
        Some(Given::Whole(id)) => (known == Some(id) || id <= stream.last_id()).then_some(id),
        _ => Some(known.unwrap_or(stream.last_id())),
    })
}

/// What is to be known on a new stream, unless that is the default: effects say it, so that logs
/// do not depend on settings.
pub(super) fn limits_of_new(ctx: &Context<'_>) -> Option<IdmpLimits> {
    let limits = ctx.keyspace.limits().stream_idmp;
    (!ctx.caller.internal && limits != IdmpLimits::default()).then_some(limits)
}

/// Notes what is to be known on a stream, as a request that sets it.
pub(super) fn effect_of_limits(ctx: &mut Context<'_>, key: &[u8], limits: IdmpLimits) {
    let [mut duration, mut entries] = [[0; 20]; 2];
    let duration = format_integer(limits.duration_s.into(), &mut duration);
    let entries = format_integer(limits.entries.into(), &mut entries);
    ctx.effect(&[b"XCFGSET", key, b"IDMP-DURATION", duration, b"IDMP-MAXSIZE", entries]);
}

/// `XCFGSET key [IDMP-DURATION seconds] [IDMP-MAXSIZE entries]`
fn xcfgset(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let key = args[1];
    let (_, stream) = ctx.found_to_edit::<Stream<'_>>(key)?;
    let old = stream.ok_or(NO_SUCH_KEY)?.idmp_limits();
    let [mut duration, mut entries] = [None; 2];
    let mut rest = &args[2..];
    while let [option, after @ ..] = rest {
        let (name, place, most, unit) = match Word::from_option(option).as_slice() {
            b"idmp-duration" => ("IDMP-DURATION", &mut duration, 86_400, "seconds"),
            b"idmp-maxsize" => ("IDMP-MAXSIZE", &mut entries, 10_000, "entries"),
            _ => return Err(SYNTAX),
        };
        let [number, after @ ..] = after else { return Err(SYNTAX) };
        if place.is_some() {
            return Err(format!("ERR {name} specified multiple times").into());
        }
        let number = parse_integer(number).ok_or(NOT_AN_INTEGER)?;
        let fits = |number: &u32| (1..=most).contains(number);
        let number = u32::try_from(number).ok().filter(fits);
        let refusal = || Refusal::from(format!("ERR {name} must be between 1 and {most} {unit}"));
        *place = Some(number.ok_or_else(refusal)?);
        rest = after;
    }
    if duration.is_none() && entries.is_none() {
        return Err("ERR At least one parameter must be specified".into());
    }
    let limits = IdmpLimits {
        duration_s: duration.unwrap_or(old.duration_s),
        entries: entries.unwrap_or(old.entries),
    };
    if limits != old {
        ctx.keyspace.edit_stream(ctx.caller.db, key, |edit| edit.set_idmp_limits(limits))?;
        ctx.ledger.dirty += 1;
    }
    ctx.out.ok();
    Ok(())
}

/// `XIDMPRECORD key pid iid id`
fn xidmprecord(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, now) = (args[1], ctx.now);
    let message = IdmpMessage { pid: args[2], iid: args[3] };
    let is_effect = ctx.caller.internal;
    let id = id::strict(args[4], 0)?;
    for (text, what) in [(args[2], "producer"), (args[3], "idempotent")] {
        if text.is_empty() {
            return Err(format!("ERR {what} ID must be non-empty").into());
        }
    }
    let (out, stream) = ctx.found_to_edit::<Stream<'_>>(key)?;
    let stream = stream.ok_or(NO_SUCH_KEY)?;
    if stream.get(id).is_none() && !is_effect {
        return Err("ERR No such message in stream".into());
    }
    match stream.sent(message, now).filter(|_| !is_effect) {
        Some(known) if known == id => {
            out.ok();
            return Ok(());
        }
        Some(_) => {
            return Err(
                "ERR IID already exists for this producer with a different stream ID".into()
            );
        }
        None => {}
    }
    ctx.keyspace.edit_stream(ctx.caller.db, key, |edit| edit.note_sent(message, id))?;
    ctx.ledger.dirty += 1;
    ctx.out.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::iid_of;

    /// By the reference implementation of the hash, put together as Redis does.
    #[test]
    fn the_id_of_fields_is_that_of_redis_in_any_order() {
        let pairs: [[&[u8]; 2]; 2] = [[b"field", b"value"], [b"other", b"1"]];
        let hex = |iid: [u8; 16]| iid.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(iid_of(&pairs[..1])), "626368b66e85051415a2b01bf8e32dc5");
        assert_eq!(hex(iid_of(&pairs)), "f82c31f29288647af6a0c06a48ea0bd9");
        assert_eq!(iid_of(&[pairs[1], pairs[0]]), iid_of(&pairs));
        assert_ne!(iid_of(&[[b"ab", b"c"]]), iid_of(&[[b"a", b"bc"]]));
    }
}
