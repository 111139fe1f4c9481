//! Loading the dump file at start: the whole of it or nothing.

use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stillframe::Algorithm;
use stillframe_durability::disk::{Directory, Input};
use stillframe_keyspace::{DATABASES, Expire, Keyspace};
use stillframe_rdb::{DecodeError, Decoder, Event, Uses, Value};

use super::values::{decode_elements, skip_elements};
use crate::ServeError;
use crate::journal::{POSITION_FIELD, Position};
use crate::replication::transfer::STREAM_DB_FIELD;

/// What was loaded.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Loaded {
    /// Keys.
    pub(crate) keys: u64,
    /// Keys in the file that had expired.
    pub(crate) expired: u64,
    /// Where the image stands in a log, if it was made beside one.
    pub(crate) position: Option<Position>,
    /// A signal asked to stop first.
    pub(crate) interrupted: bool,
}

const PROGRESS_PERIOD: Duration = Duration::from_secs(5);

/// Loads the dump file `name` of a directory into an empty keyspace; without a file it stays empty.
///
/// # Errors
/// [`ServeError::Load`]: what is wrong with the file and at which offset.
pub(crate) fn load<A: Algorithm>(
    keyspace: &mut Keyspace<A>,
    directory: &Directory,
    name: &str,
    now: i64,
    signalled: &AtomicBool,
) -> Result<Loaded, ServeError> {
    let path = directory.at(name);
    let failed = |problem| ServeError::Load { path: path.clone(), problem };
    let (file, bytes) = match directory.open_file(name) {
        Err(error) if error.kind() == Some(ErrorKind::NotFound) => return Ok(Loaded::default()),
        opened => opened.map_err(|error| failed(error.to_string()))?,
    };
    let (loaded, end) = load_file(keyspace, &path, (file, bytes), now, signalled)?;
    if end < bytes && !loaded.interrupted {
        return Err(failed(DecodeError::TrailingBytes { offset: end }.to_string()));
    }
    Ok(loaded)
}

/// The position in a log that the RDB file `name` tells at its head, if it is there and does.
///
/// # Errors
/// One sentence.
pub(crate) fn position(directory: &Directory, name: &str) -> Result<Option<Position>, String> {
    let (file, bytes) = match directory.open_file(name) {
        Err(error) if error.kind() == Some(ErrorKind::NotFound) => return Ok(None),
        opened => opened.map_err(|error| error.to_string())?,
    };
    let mut decoder = Decoder::new(file).with_file_bytes(bytes);
    loop {
        match decoder.next().map_err(|error| error.to_string())? {
            Some(Event::Aux { name: POSITION_FIELD, value: Value::Bytes(text) }) => {
                return Ok(Position::parse(text));
            }
            Some(Event::Aux { .. }) => {}
            _ => return Ok(None),
        }
    }
}

/// Loads an RDB file, of so many bytes, up to its end mark and checksum; tells where that is. More
/// may follow.
///
/// # Errors
/// As for [`load`].
pub(crate) fn load_file<A: Algorithm>(
    keyspace: &mut Keyspace<A>,
    path: &Path,
    (file, bytes): (Input, u64),
    now: i64,
    signalled: &AtomicBool,
) -> Result<(Loaded, u64), ServeError> {
    let failed = |problem| ServeError::Load { path: path.to_owned(), problem };
    let started = Instant::now();
    let mut told = started;
    let mut loaded = Loaded::default();
    let mut now = now;
    let mut decoder = Decoder::new(file).with_file_bytes(bytes);
    loop {
        let offset = decoder.offset();
        match next(&mut decoder, keyspace, now).map_err(failed)? {
            Next::End => break,
            Next::Other | Next::StreamDb(_) => continue,
            Next::Position(position) => {
                loaded.position = Some(position);
                // What the log holds may be about keys that have expired since.
                now = i64::MIN;
                continue;
            }
            Next::Expired => loaded.expired += 1,
            Next::Loaded => loaded.keys += 1,
        }
        if (loaded.keys + loaded.expired).is_multiple_of(1024) {
            loaded.interrupted = signalled.load(Ordering::Relaxed);
            if loaded.interrupted {
                return Ok((loaded, offset));
            }
            report_progress(&mut told, loaded.keys, offset, bytes);
        }
    }
    tracing::info!(
        "loaded {} keys from {} ({bytes} bytes) in {:.3} s; {} more had expired",
        loaded.keys,
        path.display(),
        started.elapsed().as_secs_f64(),
        loaded.expired
    );
    Ok((loaded, decoder.offset()))
}

/// What was read.
pub(crate) enum Next {
    /// A key.
    Loaded,
    /// A key whose time had come.
    Expired,
    /// How much of the log is in the file.
    Position(Position),
    /// The database that a stream of replication has selected.
    StreamDb(usize),
    /// Something else that is no key.
    Other,
    /// The end mark.
    End,
}

/// Reads up to the end of the next key, or whatever comes before.
pub(crate) fn next<A: Algorithm, R: Read>(
    decoder: &mut Decoder<R>,
    keyspace: &mut Keyspace<A>,
    now: i64,
) -> Result<Next, String> {
    let offset = decoder.offset();
    let text = |error: DecodeError| error.to_string();
    match decoder.next().map_err(text)? {
        None | Some(Event::Eof { .. }) => return Ok(Next::End),
        Some(Event::Aux { name: POSITION_FIELD, value: Value::Bytes(text) }) => {
            let position = Position::parse(text);
            return position
                .map(Next::Position)
                .ok_or_else(|| format!("the position in a log, before offset {offset}, is none"));
        }
        Some(Event::Aux { name: STREAM_DB_FIELD, value }) => {
            let db = match value {
                Value::Int(db) => usize::try_from(db).ok(),
                Value::Bytes(text) => std::str::from_utf8(text).ok().and_then(|it| it.parse().ok()),
            };
            return Ok(Next::StreamDb(db.filter(|&db| db < DATABASES).unwrap_or(0)));
        }
        Some(Event::Entry { expire_at_ms: Some(at), .. }) if at <= now => return Ok(Next::Expired),
        Some(Event::Begin { expire_at_ms: Some(at), .. }) if at <= now => {
            skip_elements(decoder).map_err(text)?;
            return Ok(Next::Expired);
        }
        Some(Event::Entry { db, key, value, expire_at_ms, uses }) => {
            let db = database(db, offset)?;
            let expire = expire_at_ms.map_or(Expire::Never, Expire::At);
            match value {
                Value::Int(int) => keyspace.set_int(db, key, int, expire),
                Value::Bytes(bytes) => keyspace.set(db, key, bytes, expire),
            }
            .map_err(|error| error.to_string())?;
            keep_uses(keyspace, db, key, uses);
        }
        Some(Event::Begin { db, key, kind, expire_at_ms, uses, .. }) => {
            let (db, key) = (database(db, offset)?, key.to_vec());
            if keyspace.contains(db, &key, i64::MIN) {
                let key = key.escape_ascii();
                return Err(format!("key \"{key}\" at offset {offset} is there for a second time"));
            }
            decode_elements(decoder, keyspace, db, &key, kind)
                .map_err(|error| error.to_string())?;
            if !keyspace.contains(db, &key, i64::MIN) {
                tracing::warn!("passing over key \"{}\": it holds nothing", key.escape_ascii());
                return Ok(Next::Other);
            }
            if expire_at_ms.is_some() {
                keyspace.set_expire(db, &key, expire_at_ms);
            }
            keep_uses(keyspace, db, &key, uses);
        }
        Some(_) => return Ok(Next::Other),
    }
    Ok(Next::Loaded)
}

/// Makes a key look used as the file says, if that is what is counted here.
fn keep_uses<A: Algorithm>(keyspace: &mut Keyspace<A>, db: usize, key: &[u8], uses: Uses) {
    match uses {
        Uses::Unknown => {}
        Uses::IdleSeconds(seconds) => keyspace.set_idle_ms(db, key, seconds.saturating_mul(1000)),
        Uses::Frequency(count) => keyspace.set_frequency(db, key, count),
    }
}

/// The database that a file's number stands for.
fn database(db: u64, offset: u64) -> Result<usize, String> {
    let known = usize::try_from(db).ok().filter(|&db| db < DATABASES);
    known.ok_or_else(|| format!("database {db} at offset {offset} is beyond the {DATABASES}"))
}

fn report_progress(told: &mut Instant, keys: u64, offset: u64, bytes: u64) {
    if told.elapsed() >= PROGRESS_PERIOD {
        *told = Instant::now();
        tracing::info!("loading: {keys} keys, {}% of the file", offset * 100 / bytes.max(1));
    }
}
