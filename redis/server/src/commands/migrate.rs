//! MIGRATE: keys move to another server, by DUMP here and RESTORE there.
//!
//! - The whole server waits for the other one, as in Redis: nobody sees a key on both.
//! - A key is deleted here only after the other server has confirmed it.
//! - The server keeps a connection for a while, since a client that moves many keys calls MIGRATE
//!   again and again.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::time::Duration;

use stillframe_commands::errors::{NOT_AN_INTEGER, SYNTAX};
use stillframe_commands::{Refusal, payload};
use stillframe_rdb::Version;
use stillframe_resp::parse_integer;

use super::{Context, Table};
use crate::connections::net::{Failure, Peer, PeerReply};

/// Adds the command of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("migrate", migrate);
}

/// The parsed arguments.
struct Request<'a> {
    host: &'a [u8],
    port: &'a [u8],
    keys: Vec<&'a [u8]>,
    db: i64,
    timeout: Duration,
    /// Whether the keys also stay here.
    copies: bool,
    /// Whether they replace keys of the same names there.
    replaces: bool,
    /// The words behind AUTH.
    credentials: Vec<&'a [u8]>,
}

impl<'a> Request<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<Self, Refusal> {
        const BOTH: &str = "ERR When using MIGRATE KEYS option, the key argument must be set to \
            the empty string";
        let [_, host, port, key, db, timeout, options @ ..] = args else { return Err(SYNTAX) };
        let (mut copies, mut replaces) = (false, false);
        let (mut keys, mut credentials) = (vec![*key], Vec::new());
        let mut rest = options;
        while let [option, after @ ..] = rest {
            rest = after;
            match (option.to_ascii_lowercase().as_slice(), after) {
                (b"copy", _) => copies = true,
                (b"replace", _) => replaces = true,
                (b"auth", [password, after @ ..]) => {
                    (credentials, rest) = (vec![*password], after);
                }
                (b"auth2", [user, password, after @ ..]) => {
                    (credentials, rest) = (vec![*user, *password], after);
                }
                (b"keys", _) if !key.is_empty() => return Err(BOTH.into()),
                (b"keys", all) => (keys, rest) = (all.to_vec(), &[]),
                _ => return Err(SYNTAX),
            }
        }
        let timeout = parse_integer(timeout).ok_or(NOT_AN_INTEGER)?;
        let timeout = if timeout <= 0 { 1000 } else { timeout.unsigned_abs() };
        Ok(Self {
            host,
            port,
            keys,
            db: parse_integer(db).ok_or(NOT_AN_INTEGER)?,
            timeout: Duration::from_millis(timeout),
            copies,
            replaces,
            credentials,
        })
    }
}

/// `MIGRATE host port key|"" db timeout [COPY] [REPLACE] [AUTH password | AUTH2 user password]
/// [KEYS key...]`
fn migrate(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let mut request = Request::parse(args)?;
    let mut version = ctx.server.config.rdb_version.for_expiring_fields();
    let found = packed(ctx, &request, version)?;
    if found.is_empty() {
        ctx.out.simple("NOKEY");
        return Ok(());
    }
    let mut moved = Vec::new();
    let mut outcome = send(ctx, &request, &found, &mut moved);
    if ctx.keyspace.timed_hashes() > 0 && outcome.as_ref().is_err_and(is_about_version) {
        // Fields that expire have two forms, and no server reads both.
        version = if version == Version::Redis12 { Version::Valkey80 } else { Version::Redis12 };
        let done: HashSet<&[u8]> = moved.iter().copied().collect();
        request.keys.retain(|key| !done.contains(key));
        let found = packed(ctx, &request, version)?;
        outcome = send(ctx, &request, &found, &mut moved);
    }
    if !request.copies && !moved.is_empty() {
        let mut data = ctx.data();
        let db = data.caller.db;
        for key in &moved {
            data.keyspace.remove(db, key);
            data.changed_as(key, 'g', "del");
        }
        let words: Vec<&[u8]> = [&b"DEL"[..]].into_iter().chain(moved).collect();
        data.effect(&words);
    }
    outcome?;
    ctx.out.ok();
    Ok(())
}

/// Whether the other server does not know the version of a payload.
fn is_about_version(refusal: &Refusal) -> bool {
    refusal.to_string().contains("payload version")
}

/// A key, and the request that restores it.
type Packed<'a> = (&'a [u8], Vec<u8>);

/// The existing keys, each with the request that restores it; `expiring` is the version for hashes
/// with fields that expire.
fn packed<'a>(
    ctx: &mut Context<'_>,
    request: &Request<'a>,
    expiring: Version,
) -> Result<Vec<Packed<'a>>, Refusal> {
    let mut data = ctx.data();
    let mut found = Vec::new();
    for &key in &request.keys {
        let Some(payload) = payload(&mut data, key, expiring)? else { continue };
        let (db, now) = (data.caller.db, data.now);
        let expiry = data.keyspace.peek(db, key, now).and_then(|entry| entry.expire_at());
        let ttl = expiry.map_or(0, |at| at.saturating_sub(now).max(1)).to_string();
        let mut words = vec![&b"RESTORE"[..], key, ttl.as_bytes(), &payload];
        if request.replaces {
            words.push(b"REPLACE");
        }
        let mut bytes = Vec::new();
        stillframe_commands::write_request(&mut bytes, &words);
        found.push((key, bytes));
    }
    Ok(found)
}

/// Sends all keys; calls `moved` for each that the other server has.
fn send<'a>(
    ctx: &mut Context<'_>,
    request: &Request<'_>,
    found: &[Packed<'a>],
    moved: &mut Vec<&'a [u8]>,
) -> Result<(), Refusal> {
    let net = &mut ctx.server.net;
    let mut kept = net.take_peer(request.host, request.port);
    loop {
        let is_kept = kept.is_some();
        let peer = match kept.take() {
            Some(peer) => Ok(peer),
            None => Peer::connect(request.host, request.port, request.timeout),
        };
        let mut peer = peer.map_err(|error| {
            tracing::warn!("MIGRATE: {error}");
            match error.kind() {
                // Redis detects a lost connection by a write.
                ErrorKind::ConnectionRefused => "IOERR error or timeout writing to target instance",
                _ => "IOERR error or timeout connecting to the client",
            }
        })?;
        match exchange(&mut peer, request, found, moved) {
            Ok(refused) => {
                if !peer.is_doubted() {
                    net.keep_peer(request.host, request.port, peer);
                }
                return refused.map_or(Ok(()), |error| {
                    Err(format!("ERR Target instance replied with error: {error}").into())
                });
            }
            // A kept connection may have been closed meanwhile.
            Err(failure) if is_kept && moved.is_empty() && !failure.timed_out => {}
            Err(Failure { doing, .. }) => {
                return Err(format!("IOERR error or timeout {doing} to target instance").into());
            }
        }
    }
}

/// One attempt: all requests, then all replies. Returns the first error of the other server.
fn exchange<'a>(
    peer: &mut Peer,
    request: &Request<'_>,
    found: &[Packed<'a>],
    moved: &mut Vec<&'a [u8]>,
) -> Result<Option<String>, Failure> {
    peer.set_timeout(request.timeout)?;
    let mut bytes = Vec::new();
    let mut before = Vec::new();
    if !request.credentials.is_empty() {
        let words: Vec<&[u8]> =
            [&b"AUTH"[..]].into_iter().chain(request.credentials.iter().copied()).collect();
        stillframe_commands::write_request(&mut bytes, &words);
        before.push("AUTH");
    }
    let selects = peer.db != Some(request.db);
    if selects {
        let db = request.db.to_string();
        stillframe_commands::write_request(&mut bytes, &[b"SELECT", db.as_bytes()]);
        before.push("SELECT");
    }
    found.iter().for_each(|(_, request)| bytes.extend_from_slice(request));
    peer.write(&bytes)?;
    let mut refused = None;
    for _ in before {
        if let PeerReply::Error(error) = peer.read()? {
            refused.get_or_insert(error);
        }
    }
    // Without AUTH and SELECT the keys would be nowhere, or in another database.
    let is_there = refused.is_none();
    for (key, _) in found {
        match peer.read()? {
            PeerReply::Ok if is_there => moved.push(key),
            PeerReply::Ok => {}
            PeerReply::Error(error) => _ = refused.get_or_insert(error),
        }
    }
    peer.db = is_there.then_some(request.db);
    Ok(refused)
}
