//! What Redis's own tests turn: data out of nowhere, clocks that stand still, checks left out.

use std::io::Write;

use stillframe_keyspace::Expire;
use stillframe_resp::parse_integer;

use super::super::Context;
use crate::config::parse_size;
use stillframe_redis::Refusal;
use stillframe_redis::errors::TOO_LONG;

/// Whether a word switches something on, as C reads numbers.
fn is_on(word: &[u8]) -> bool {
    parse_integer(word).is_some_and(|number| number != 0)
}

/// `DEBUG POPULATE count [prefix] [bytes]`: as many strings that are not there yet. The log and the
/// replicas hear of each; in Redis they do not.
pub(super) fn populate(ctx: &mut Context<'_>, args: &[&[u8]]) {
    let number = |word: &[u8]| {
        let number = parse_integer(word).and_then(|number| usize::try_from(number).ok());
        number.ok_or("ERR value is out of range, must be positive")
    };
    let (count, prefix, bytes) = match *args {
        [count] => (number(count), &b"key"[..], Ok(0)),
        [count, prefix] => (number(count), prefix, Ok(0)),
        [count, prefix, bytes, ..] => (number(count), prefix, number(bytes)),
        [] => return,
    };
    let (count, bytes) = match count.and_then(|count| Ok((count, bytes?))) {
        Ok(numbers) => numbers,
        Err(error) => return ctx.out.error(error),
    };
    if bytes > ctx.server.config.bulk_bytes_max {
        return ctx.out.error(TOO_LONG);
    }
    let db = ctx.session.caller.db;
    let (start, mut key, mut value) = (ctx.out.position(), Vec::new(), Vec::new());
    let mut data = ctx.data();
    for number in 0..count {
        key.clear();
        key.extend_from_slice(prefix);
        let _ = write!(key, ":{number}");
        if data.exists(&key) {
            continue;
        }
        value.clear();
        let _ = write!(value, "value:{number}");
        if bytes > 0 {
            value.resize(bytes, 0);
        }
        if let Err(error) = data.keyspace.set(db, &key, &value, Expire::Never) {
            data.out.buffer.truncate(start);
            return data.out.error(Refusal::from(error));
        }
        data.changed(&key);
        data.effect(&[b"SET", &key, &value]);
        if !data.ledger.in_exec {
            data.ledger.effects.seal();
        }
    }
    ctx.out.ok();
}

/// `DEBUG CHANGE-REPL-ID`: no replica can go on from where it is.
pub(super) fn change_replication_id(ctx: &mut Context<'_>) {
    tracing::warn!("changing the name of the replication stream (DEBUG CHANGE-REPL-ID)");
    ctx.server.replication.id = ctx.server.ledger.random.identifier();
    ctx.server.replication.older = None;
    ctx.out.ok();
}

/// `DEBUG PAUSE-CRON 0|1`
pub(super) fn pause_cron(ctx: &mut Context<'_>, switch: &[u8]) {
    ctx.server.clock.stands = is_on(switch);
    ctx.out.ok();
}

/// `DEBUG QUICKLIST-PACKED-THRESHOLD size`: there is no such thing here.
pub(super) fn packed_threshold(ctx: &mut Context<'_>, size: &[u8]) {
    let bytes = std::str::from_utf8(size).ok().and_then(|text| parse_size(text).ok());
    match bytes {
        Some(..0xffff_ffff) => ctx.out.ok(),
        _ => {
            ctx.out.error("ERR argument must be a memory value bigger than 1 and smaller than 4gb")
        }
    }
}

/// `DEBUG REPLICATE word...`: replicas are sent the words as a request.
pub(super) fn replicate(ctx: &mut Context<'_>, words: &[&[u8]]) {
    ctx.server.replication.tell(None, words);
    ctx.out.ok();
}

/// `DEBUG SET-SKIP-CHECKSUM-VALIDATION 0|1`
pub(super) fn skip_checksums(ctx: &mut Context<'_>, switch: &[u8]) {
    ctx.server.ledger.skips_checksums = is_on(switch);
    ctx.out.ok();
}
