//! Commands of replication: REPLICAOF, ROLE, WAIT, and what replicas send.

use std::time::{Duration, Instant};

use stillframe::Algorithm;
use stillframe_keyspace::Type;
use stillframe_resp::parse_integer;

use super::errors::NOT_AN_INTEGER;
use super::{Context, NO_KEYS, Table, flags::*};
use crate::blocked::{Acks, Waiter};
use crate::journal;
use crate::replication::{Phase, Replica};
use crate::session::Replies;

/// Adds the commands of this module.
pub(crate) fn register<A: Algorithm>(table: &mut Table<A>) {
    let admin = ADMIN | NOSCRIPT | STALE;
    table.add("replicaof", 3, admin | NO_ASYNC_LOADING, NO_KEYS, replicaof);
    table.add("slaveof", 3, admin | NO_ASYNC_LOADING, NO_KEYS, replicaof);
    table.add("role", 1, NOSCRIPT | LOADING | STALE | FAST, NO_KEYS, role);
    table.add("wait", 3, NOSCRIPT, NO_KEYS, wait);
    table.add("replconf", -1, admin | LOADING | ALLOW_BUSY, NO_KEYS, replconf);
    let sync = ADMIN | NOSCRIPT | NO_ASYNC_LOADING | NO_MULTI;
    table.add("psync", -3, sync, NO_KEYS, psync);
    table.add("sync", 1, sync, NO_KEYS, psync);
}

/// `REPLICAOF host port`, `REPLICAOF NO ONE`
fn replicaof<A: Algorithm>(ctx: &mut Context<'_, A>, args: &[&[u8]]) {
    if args[1].eq_ignore_ascii_case(b"no") && args[2].eq_ignore_ascii_case(b"one") {
        ctx.server.promote(ctx.keyspace);
        return ctx.out.ok();
    }
    if ctx.session.replica.as_deref().is_some_and(Replica::is_real) {
        return ctx.out.error("ERR Command is not valid when client is a replica.");
    }
    let port = parse_integer(args[2]).map(u16::try_from);
    let Some(Ok(port)) = port else { return ctx.out.error("ERR Invalid master port") };
    let Ok(host) = std::str::from_utf8(args[1]) else {
        return ctx.out.error("ERR the host must be UTF-8 text");
    };
    let following = ctx.server.replication.following.as_deref();
    if following.is_some_and(|it| it.host.eq_ignore_ascii_case(host) && it.port == port) {
        return ctx.out.simple("OK Already connected to specified master");
    }
    ctx.server.demote(ctx.keyspace, host.to_owned(), port);
    ctx.out.ok();
}

/// `ROLE`
fn role<A: Algorithm>(ctx: &mut Context<'_, A>, _args: &[&[u8]]) {
    let replication = &ctx.server.replication;
    let offset = replication.stream.end() as i64;
    if let Some(following) = &replication.following {
        ctx.out.array(5);
        ctx.out.bulk("slave");
        ctx.out.bulk(&following.host);
        ctx.out.integer(following.port.into());
        ctx.out.bulk(following.state());
        return ctx.out.integer(if following.is_connected() { offset } else { -1 });
    }
    let replicas = replication.places.iter().filter_map(|&place| ctx.server.clients.get(place));
    let online: Vec<_> = replicas
        .filter_map(|client| {
            let replica = client.replica().filter(|it| it.phase == Phase::Online)?;
            Some((replica.address(&client.session), replica.port, replica.acked))
        })
        .collect();
    ctx.out.array(3);
    ctx.out.bulk("master");
    ctx.out.integer(offset);
    ctx.out.array(online.len());
    for (ip, port, acked) in online {
        ctx.out.array(3);
        ctx.out.bulk(ip);
        ctx.out.bulk(port.to_string());
        ctx.out.bulk(acked.to_string());
    }
}

/// `WAIT replicas milliseconds`: answers how many replicas have what this client wrote.
fn wait<A: Algorithm>(ctx: &mut Context<'_, A>, args: &[&[u8]]) {
    if ctx.server.replication.is_replica() {
        return ctx.out.error(
            "ERR WAIT cannot be used with replica instances. Please also note that since Redis \
             4.0 if a replica is configured to be writable (which is not the default) writes to \
             replicas are just local and are not propagated.",
        );
    }
    let Some(wanted) = parse_integer(args[1]) else { return ctx.out.error(NOT_AN_INTEGER) };
    let timeout = match parse_integer(args[2]).map(u64::try_from) {
        None => return ctx.out.error("ERR timeout is not an integer or out of range"),
        Some(Err(_)) => return ctx.out.error("ERR timeout is negative"),
        Some(Ok(milliseconds)) => Duration::from_millis(milliseconds),
    };
    let offset = ctx.session.wrote_up_to;
    let count = ctx.server.replicas_at(offset);
    let wanted = usize::try_from(wanted).unwrap_or(0);
    if count >= wanted || !ctx.may_block() {
        return ctx.out.integer(count as i64);
    }
    let deadline = (!timeout.is_zero()).then(|| Instant::now().checked_add(timeout)).flatten();
    let waiter = Waiter {
        place: ctx.session.place,
        db: ctx.session.db,
        keys: Vec::new(),
        kind: Type::String, // of no key
        deadline,
        command: ctx.session.last_command,
        before: Vec::new(),
        after: Vec::new(),
        acks: Some(Acks { offset, wanted }),
        ticket: 0,
    };
    ctx.server.blocked.park(ctx.session.id, waiter);
    ctx.session.blocked = true;
    ctx.server.await_replicas(ctx.session.id);
}

/// `REPLCONF option value...`: what a replica tells of itself.
fn replconf<A: Algorithm>(ctx: &mut Context<'_, A>, args: &[&[u8]]) {
    let (pairs, rest) = args.get(1..).unwrap_or_default().as_chunks::<2>();
    if !rest.is_empty() {
        return ctx.out.error("ERR syntax error");
    }
    let now = ctx.server.loop_time;
    let replica = ctx.session.replica.get_or_insert_with(|| Box::new(Replica::greeting(now)));
    for &[option, value] in pairs {
        match option.to_ascii_lowercase().as_slice() {
            b"listening-port" => match parse_integer(value).map(u16::try_from) {
                Some(Ok(port)) => replica.port = port,
                _ => return ctx.out.error(NOT_AN_INTEGER),
            },
            b"ip-address" if value.len() <= 255 => {
                replica.ip = String::from_utf8_lossy(value).into_owned();
            }
            b"ip-address" => {
                return ctx.out.error(
                    "ERR REPLCONF ip-address provided by replica instance is too \
                                      long: 255 bytes at most",
                );
            }
            b"capa" => {
                replica.eof |= value.eq_ignore_ascii_case(b"eof");
                replica.psync2 |= value.eq_ignore_ascii_case(b"psync2");
            }
            // These are not answered: what a replica is sent after PSYNC is the stream.
            b"ack" => {
                let offset = parse_integer(value).and_then(|offset| u64::try_from(offset).ok());
                if let Some(offset) = offset.filter(|_| replica.is_real()) {
                    replica.acked = replica.acked.max(offset);
                    replica.acked_at = now;
                    replica.silent &= replica.phase != Phase::Online;
                    ctx.server.replication.acked = true;
                }
                return;
            }
            b"getack" => return,
            _ => {
                let option = option.escape_ascii();
                return ctx.out.error(format!("ERR Unrecognized REPLCONF option: {option}"));
            }
        }
    }
    ctx.out.ok();
}

/// `PSYNC stream offset`, or `SYNC`: the client becomes a replica.
fn psync<A: Algorithm>(ctx: &mut Context<'_, A>, args: &[&[u8]]) {
    if ctx.session.replica.as_deref().is_some_and(Replica::is_real) {
        return;
    }
    let replication = &ctx.server.replication;
    if replication.following.as_ref().is_some_and(|it| !it.is_connected()) {
        return ctx.out.error("NOMASTERLINK Can't SYNC while not connected with my master");
    }
    if ctx.session.replies != Replies::Sent || ctx.session.subscriptions.is_some() {
        return ctx.out.error("ERR SYNC and PSYNC are invalid with pending output");
    }
    journal::settle(ctx.keyspace, ctx.server);
    ctx.server.activate(ctx.keyspace);
    let now = ctx.server.loop_time;
    let replication = &mut ctx.server.replication;
    let replica = ctx.session.replica.get_or_insert_with(|| Box::new(Replica::greeting(now)));
    replica.phase = Phase::Waiting(Instant::now());
    let next = args.get(2).and_then(|offset| parse_integer(offset));
    let has = next.and_then(|next| u64::try_from(next).ok()?.checked_sub(1));
    if let (Some(id), Some(has)) = (args.get(1), has) {
        if replication.continues(id, has) {
            replication.partial_syncs += 1;
            replica.go_online(now, false);
            (replica.cursor, replica.acked) = (has, has);
            let name = if replica.psync2 { format!(" {}", replication.id) } else { String::new() };
            ctx.out.simple(&format!("CONTINUE{name}"));
        } else if id != b"?" {
            replication.partial_refusals += 1;
        }
    }
    tracing::info!(
        "the replica at {} {}",
        ctx.session.peer,
        if replica.phase == Phase::Online { "goes on where it was" } else { "needs an image" }
    );
    replication.places.push(ctx.session.place);
    // Whatever else it asks, it only hears the stream.
    ctx.session.replies = Replies::Dropped;
}
