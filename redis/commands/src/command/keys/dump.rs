//! DUMP and RESTORE: one value as bytes, and back.

use std::collections::BTreeMap;

use stillframe_keyspace::{EditError, Entry, Expire, HashField, MemoryError, Value as Keyed};
use stillframe_rdb::{
    DecodeError, Decoder, Encoder, Event, Head, Value, Version, Workspace, has_checksum,
    payload_number,
};
use stillframe_resp::parse_integer;

use super::note_arrived;
use crate::command::hashes::expires_at;
use crate::context::Context;
use crate::errors::{NOT_AN_INTEGER, Refusal, SYNTAX};
use crate::table::Table;
use crate::values::{LoadError, decode_elements, encode, payload_version};

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("dump", dump);
    table.add("restore", restore);
}

/// `DUMP key`
fn dump(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let value = payload(ctx, args[1], ctx.ledger.settings.expiring_version)?;
    ctx.out.bulk_or_null(value);
    Ok(())
}

/// The value of a key as RESTORE takes it; `None` if there is no such key. The payload has the
/// version `expiring` if it is a hash with fields that expire.
///
/// # Errors
/// What to answer: the value has no such form.
pub fn payload(
    ctx: &mut Context<'_>,
    key: &[u8],
    expiring: Version,
) -> Result<Option<Vec<u8>>, Refusal> {
    let mut workspace = ctx.ledger.dump_workspace.take();
    let compress = ctx.ledger.settings.compresses;
    let packed = ctx.read(key, |_, entry| {
        let value = entry.map(Entry::value)?;
        Some(pack(&mut workspace, value, compress, expiring))
    });
    ctx.ledger.dump_workspace = workspace;
    match packed {
        None => Ok(None),
        Some(None) => Err("ERR this value has no form as a payload".into()),
        Some(payload) => Ok(payload),
    }
}

/// The payload of a value, in the version `expiring` if it is a hash with fields that expire.
/// `None`: it has no form.
fn pack(
    workspace: &mut Option<Workspace>,
    value: Keyed<'_>,
    compress: bool,
    expiring: Version,
) -> Option<Vec<u8>> {
    let mut payload = Vec::new();
    let memory = workspace.take().unwrap_or_default();
    let mut encoder = Encoder::within(memory, &mut payload)
        .compress(compress)
        .version(payload_version(value, expiring));
    let written = encode(&mut encoder, Head::Payload, value)
        .and_then(|known| encoder.finish_payload().map(|_| known));
    *workspace = Some(encoder.take_workspace());
    written.is_ok_and(|known| known).then_some(payload)
}

/// What the arguments of RESTORE ask for.
struct Request<'a> {
    key: &'a [u8],
    /// Milliseconds from now, or since 1970 if `absolute`; 0 for never.
    ttl: &'a [u8],
    payload: &'a [u8],
    replace: bool,
    absolute: bool,
    idle_ms: Option<u64>,
    frequency: Option<u8>,
    /// All options, as they were given.
    options: &'a [&'a [u8]],
}

impl<'a> Request<'a> {
    fn parse(args: &'a [&'a [u8]]) -> Result<Self, Refusal> {
        let mut request = Request {
            key: args[1],
            ttl: args[2],
            payload: args[3],
            replace: false,
            absolute: false,
            idle_ms: None,
            frequency: None,
            options: &args[4..],
        };
        let mut rest = &args[4..];
        while let [option, after @ ..] = rest {
            rest = after;
            match (option.to_ascii_lowercase().as_slice(), rest) {
                (b"replace", _) => request.replace = true,
                (b"absttl", _) => request.absolute = true,
                (b"idletime", [seconds, after @ ..]) if request.frequency.is_none() => {
                    let seconds = parse_integer(seconds).ok_or(NOT_AN_INTEGER)?;
                    let seconds = u64::try_from(seconds)
                        .map_err(|_| "ERR Invalid IDLETIME value, must be >= 0")?;
                    (request.idle_ms, rest) = (Some(seconds.saturating_mul(1000)), after);
                }
                (b"freq", [count, after @ ..]) if request.idle_ms.is_none() => {
                    let count = parse_integer(count).ok_or(NOT_AN_INTEGER)?;
                    let count = u8::try_from(count)
                        .map_err(|_| "ERR Invalid FREQ value, must be >= 0 and <= 255")?;
                    (request.frequency, rest) = (Some(count), after);
                }
                _ => return Err(SYNTAX),
            }
        }
        Ok(request)
    }
}

/// `RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]`
fn restore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let request = Request::parse(args)?;
    let key = request.key;
    if !request.replace && ctx.exists(key) {
        return Err("BUSYKEY Target key name already exists.".into());
    }
    let ttl = match parse_integer(request.ttl) {
        None => return Err(NOT_AN_INTEGER),
        Some(..0) => return Err("ERR Invalid TTL value, must be >= 0".into()),
        Some(ttl) => ttl,
    };
    let decoder = if ctx.ledger.skips_checksums {
        Decoder::of_unverified_payload(request.payload)
    } else {
        Decoder::of_payload(request.payload)
    };
    let decoder = decoder.map_err(|_| "ERR DUMP payload version or checksum are wrong")?;
    // A key whose time has come is there, too: as in Redis, REPLACE deletes any key.
    let there = request.replace && ctx.holds(key);
    // The old value stays until the new one is whole, under an unused name.
    let name = if there { ctx.unused_name(key) } else { key.to_vec() };
    if let Err(refused) = take_over(ctx, decoder, &name) {
        ctx.keyspace.remove(ctx.caller.db, &name);
        if let Refused::Damaged(why) = &refused {
            let (id, peer) = (ctx.caller.id, &ctx.caller.peer);
            tracing::warn!(
                "client {id} at {peer}: integrity check failed of what it restores: {why}"
            );
        }
        return Err(refused.reply());
    }
    let instant = match (ttl, request.absolute) {
        (0, _) => None,
        (_, true) => Some(ttl),
        (_, false) => Some(ctx.now.saturating_add(ttl)),
    };
    put_in_place(ctx, &request, &name, there, instant)
}

/// Makes the value under `name` that of the key, which may be `there`, with its time to live.
fn put_in_place(
    ctx: &mut Context<'_>,
    request: &Request<'_>,
    name: &[u8],
    there: bool,
    instant: Option<i64>,
) -> Result<(), Refusal> {
    let (db, key) = (ctx.caller.db, request.key);
    if instant.is_some_and(|instant| instant <= ctx.now) {
        ctx.keyspace.remove(db, name);
        if there {
            ctx.keyspace.remove(db, key);
            ctx.effect(&[b"DEL", key]);
            ctx.changed_as(key, 'g', "del");
        }
        ctx.out.ok();
        return Ok(());
    }
    let mut before = None;
    if there {
        if !ctx.ledger.settings.notify.is_empty() {
            let entry = ctx.keyspace.peek(db, key, i64::MIN);
            before = entry.map(|entry| entry.value().kind());
        }
        if let Err(error) = ctx.keyspace.rename(db, name, db, key) {
            ctx.keyspace.remove(db, name);
            return Err(error.into());
        }
        ctx.ledger.forget_new(1); // as in Redis, the key is a new one
    }
    if instant.is_some() {
        ctx.keyspace.set_expire(db, key, instant);
    }
    note_restored(ctx, request, there, instant);
    if let Some(idle_ms) = request.idle_ms {
        ctx.keyspace.set_idle_ms(db, key, idle_ms);
    }
    if let Some(frequency) = request.frequency {
        ctx.keyspace.set_frequency(db, key, frequency);
    }
    ctx.changed_as(key, 'g', "restore");
    note_arrived(ctx, db, key, before);
    ctx.out.ok();
    Ok(())
}

/// Notes for log and replicas what was restored, if that is not the request itself. Replicas of
/// Redis and Valkey read payloads of version 10 alike; a newer one, or one without a checksum,
/// perhaps not at all.
fn note_restored(ctx: &mut Context<'_>, request: &Request<'_>, there: bool, instant: Option<i64>) {
    let is_oldest = payload_number(request.payload) == Some(Version::Redis10.number())
        && has_checksum(request.payload);
    if !ctx.ledger.effects.wanted() || is_oldest && instant.is_none() {
        return;
    }
    let fields = expiring_fields(ctx, request.key);
    if !fields.is_empty() {
        return note_fields(ctx, request.key, &fields, there, instant);
    }
    let entry = ctx.keyspace.peek(ctx.caller.db, request.key, i64::MIN);
    let older = entry.filter(|_| !is_oldest).and_then(|entry| {
        let compress = ctx.ledger.settings.compresses;
        pack(&mut ctx.ledger.dump_workspace, entry.value(), compress, Version::Redis10)
    });
    let text = instant.unwrap_or_default().to_string();
    let payload = older.as_deref().unwrap_or(request.payload);
    let mut words = vec![&b"RESTORE"[..], request.key, text.as_bytes(), payload];
    words.extend(request.options);
    if instant.is_some() && !request.absolute {
        words.push(b"ABSTTL");
    }
    ctx.effect(&words);
}

/// A field of a hash: name, value, and when it expires.
struct Restored {
    name: Vec<u8>,
    value: Vec<u8>,
    at_ms: Option<i64>,
}

/// The fields of the hash under `key` if some expire; none otherwise.
fn expiring_fields(ctx: &mut Context<'_>, key: &[u8]) -> Vec<Restored> {
    let entry = ctx.keyspace.peek(ctx.caller.db, key, i64::MIN);
    let Some(Keyed::Hash(hash)) = entry.map(Entry::value) else { return Vec::new() };
    if !hash.has_deadlines() {
        return Vec::new();
    }
    let copied = |field: HashField<'_>| Restored {
        name: field.field.to_vec(),
        value: field.value.to_vec(),
        at_ms: field.deadline,
    };
    hash.fields().map(copied).collect()
}

/// Notes a hash by requests that every server knows which has fields that expire.
fn note_fields(
    ctx: &mut Context<'_>,
    key: &[u8],
    fields: &[Restored],
    there: bool,
    instant: Option<i64>,
) {
    const FIELDS_MAX: usize = 1000;
    if there {
        ctx.effect(&[b"DEL", key]);
    }
    for some in fields.chunks(FIELDS_MAX) {
        let pairs = some.iter().flat_map(|it| [&it.name[..], &it.value]);
        let words: Vec<&[u8]> = [&b"HSET"[..], key].into_iter().chain(pairs).collect();
        ctx.effect(&words);
    }
    let mut times: BTreeMap<i64, Vec<&[u8]>> = BTreeMap::new();
    for (at_ms, field) in fields.iter().filter_map(|it| Some((it.at_ms?, it))) {
        times.entry(at_ms).or_default().push(&field.name);
    }
    for (at_ms, names) in times {
        names.chunks(FIELDS_MAX).for_each(|some| expires_at(ctx, key, at_ms, some));
    }
    if let Some(instant) = instant {
        ctx.effect(&[b"PEXPIREAT", key, instant.to_string().as_bytes()]);
    }
}

/// Stores the value of a payload under `key`, which is not there.
///
/// # Errors
/// What to answer; a part of the value may be there.
fn take_over(
    ctx: &mut Context<'_>,
    mut decoder: Decoder<&[u8]>,
    key: &[u8],
) -> Result<(), Refused> {
    let db = ctx.caller.db;
    let memory = |error: MemoryError| Refused::Lacks(error.into());
    match decoder.next()? {
        Some(Event::Entry { value, .. }) => match value {
            Value::Int(int) => ctx.keyspace.set_int(db, key, int, Expire::Never),
            Value::Bytes(bytes) => ctx.keyspace.set(db, key, bytes, Expire::Never),
        }
        .map_err(memory)?,
        Some(Event::Begin { kind, .. }) => {
            decode_elements(&mut decoder, ctx.keyspace, db, key, kind).map_err(
                |error| match error {
                    LoadError::Edit(EditError::Memory(error)) => memory(error),
                    error => Refused::Damaged(error.to_string()),
                },
            )?;
        }
        _ => return Err(Refused::Damaged("it holds no value".to_owned())),
    }
    // No key holds an empty collection, and nothing follows a value.
    match (ctx.exists(key), decoder.next()) {
        (true, Ok(None)) => Ok(()),
        (_, Err(error)) => Err(error.into()),
        (false, _) => Err(Refused::Damaged("the value is empty".to_owned())),
        (true, Ok(Some(_))) => Err(Refused::Damaged("something follows the value".to_owned())),
    }
}

/// Why a payload is not restored.
enum Refused {
    /// What to answer: the server has no such values, or no memory.
    Lacks(Refusal),
    /// The bytes are at fault: for the log.
    Damaged(String),
}

impl Refused {
    /// The payload is a value that this server does not have.
    fn without(what: &str) -> Self {
        Self::Lacks(format!("ERR the payload is {what}, which this server cannot hold").into())
    }

    fn reply(self) -> Refusal {
        match self {
            Self::Lacks(reply) => reply,
            Self::Damaged(_) => "ERR Bad data format".into(),
        }
    }
}

impl From<DecodeError> for Refused {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::UnsupportedType { kind, .. } => Self::without(&kind),
            error => Self::Damaged(error.to_string()),
        }
    }
}
