//! The knobs of Redis's own tests: data out of nowhere, stopped clocks, omitted checks.

use std::io::Write;

use stillframe_keyspace::Expire;
use stillframe_resp::parse_integer;

use super::super::Context;
use crate::node::config::parse_size;
use stillframe_commands::Refusal;
use stillframe_commands::errors::{SYNTAX, TOO_LONG};

/// Whether a word turns something on, as C reads numbers.
fn is_on(word: &[u8]) -> bool {
    parse_integer(word).is_some_and(|number| number != 0)
}

/// `DEBUG POPULATE count [prefix] [bytes]`: so many new strings, each propagated to log and
/// replicas, unlike in Redis.
pub(super) fn populate(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let number = |word: &[u8]| {
        let number = parse_integer(word).and_then(|number| usize::try_from(number).ok());
        number.ok_or("ERR value is out of range, must be positive")
    };
    let (count, prefix, bytes) = match *args {
        [count] => (number(count)?, &b"key"[..], 0),
        [count, prefix] => (number(count)?, prefix, 0),
        [count, prefix, bytes, ..] => (number(count)?, prefix, number(bytes)?),
        [] => return Err(SYNTAX),
    };
    if bytes > ctx.server.config.bulk_bytes_max {
        return Err(TOO_LONG);
    }
    let db = ctx.session.caller.db;
    let (mut key, mut value) = (Vec::new(), Vec::new());
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
        data.keyspace.set(db, &key, &value, Expire::Never)?;
        data.changed(&key);
        data.effect(&[b"SET", &key, &value]);
        if !data.ledger.in_exec {
            data.ledger.effects.seal();
        }
    }
    ctx.out.ok();
    Ok(())
}

/// `DEBUG CHANGE-REPL-ID`: no replica can resume.
pub(super) fn change_replication_id(ctx: &mut Context<'_>) {
    tracing::warn!("changing the name of the replication stream (DEBUG CHANGE-REPL-ID)");
    ctx.server.replication.change_id(ctx.server.ledger.random.identifier());
    ctx.out.ok();
}

/// `DEBUG PAUSE-CRON 0|1`
pub(super) fn pause_cron(ctx: &mut Context<'_>, switch: &[u8]) {
    ctx.server.clock.stop(is_on(switch));
    ctx.out.ok();
}

/// `DEBUG QUICKLIST-PACKED-THRESHOLD size`: has no effect here.
pub(super) fn packed_threshold(ctx: &mut Context<'_>, size: &[u8]) -> Result<(), Refusal> {
    let bytes = std::str::from_utf8(size).ok().and_then(|text| parse_size(text).ok());
    if bytes.is_none_or(|bytes| bytes >= 0xffff_ffff) {
        return Err("ERR argument must be a memory value bigger than 1 and smaller than 4gb".into());
    }
    ctx.out.ok();
    Ok(())
}

/// `DEBUG REPLICATE word...`: sends the words to replicas as a request.
pub(super) fn replicate(ctx: &mut Context<'_>, words: &[&[u8]]) {
    ctx.server.replication.propagate(None, words);
    ctx.out.ok();
}

/// `DEBUG SET-DISABLE-DENY-SCRIPTS 0|1`
pub(super) fn open_to_scripts(ctx: &mut Context<'_>, switch: &[u8]) {
    ctx.server.scripts.run_all = is_on(switch);
    ctx.out.ok();
}

/// `DEBUG SET-SKIP-CHECKSUM-VALIDATION 0|1`
pub(super) fn skip_checksums(ctx: &mut Context<'_>, switch: &[u8]) {
    ctx.server.ledger.skips_checksums = is_on(switch);
    ctx.out.ok();
}
