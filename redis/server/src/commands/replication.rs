//! Commands of replication: REPLICAOF, ROLE, WAIT, and those of replicas.

use std::time::{Duration, Instant};

use stillframe_resp::parse_integer;

use super::{Context, Table};
use crate::connections::client::Replies;
use crate::connections::client::{Phase, Reads, Replica};
use crate::node::config::words::words;
use crate::peers::replication::Failover;
use crate::peers::replication::stream::Abilities;
use crate::state::ServerState;
use crate::state::persistence;
use crate::state::primary::waits::NO_LOG;
use crate::state::roles;
use stillframe_commands::Refusal;
use stillframe_commands::errors::{NOT_AN_INTEGER, SYNTAX};
use stillframe_commands::{Acks, LogAck, Waiter};

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("replicaof", replicaof);
    table.add_server("slaveof", replicaof);
    table.add_server("failover", failover);
    table.add_server("role", role);
    table.add_server("wait", wait);
    table.add_server("waitaof", waitaof);
    table.add_server("replconf", replconf);
    table.add_server("psync", psync);
    table.add_server("sync", psync);
}

/// `REPLICAOF host port`, `REPLICAOF NO ONE`
fn replicaof(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    if ctx.server.group.is_member() {
        return Err("ERR REPLICAOF not allowed in cluster mode.".into());
    }
    if ctx.server.replication.failover().is_some() {
        return Err("ERR REPLICAOF not allowed while failing over.".into());
    }
    if args[1].eq_ignore_ascii_case(b"no") && args[2].eq_ignore_ascii_case(b"one") {
        roles::promote(ctx.keyspace, ctx.server);
        ctx.out.ok();
        return Ok(());
    }
    if ctx.session.replica.as_deref().is_some_and(Replica::is_real) {
        return Err("ERR Command is not valid when client is a replica.".into());
    }
    let port = parse_integer(args[2]).map(u16::try_from);
    let Some(Ok(port)) = port else { return Err("ERR Invalid master port".into()) };
    let Ok(host) = std::str::from_utf8(args[1]) else {
        return Err("ERR the host must be UTF-8 text".into());
    };
    let following = ctx.server.replication.following();
    if following.is_some_and(|it| it.host.eq_ignore_ascii_case(host) && it.port == port) {
        ctx.out.simple("OK Already connected to specified master");
        return Ok(());
    }
    roles::demote(ctx.keyspace, ctx.server, host.to_owned(), port);
    ctx.out.ok();
    Ok(())
}

/// `FAILOVER [TO host port [FORCE]] [TIMEOUT milliseconds]`, `FAILOVER ABORT`: this server and one
/// of its replicas change places.
fn failover(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    if ctx.server.group.is_member() {
        return Err(
            "ERR FAILOVER not allowed in cluster mode. Use STILLFRAME RAFT TRANSFER instead."
                .into(),
        );
    }
    if let [_, word] = args
        && word.eq_ignore_ascii_case(b"abort")
    {
        if !roles::abort_failover(ctx.keyspace, ctx.server, "as a client wishes") {
            return Err("ERR No failover in progress.".into());
        }
        ctx.out.ok();
        return Ok(());
    }
    let failover = wished_failover(ctx.server, args)?;
    ctx.server.replication.begin_failover(failover);
    ctx.keyspace.spare_expired(true);
    tracing::info!("a failover begins: writes are held");
    ctx.out.ok();
    Ok(())
}

/// The failover that the request describes.
fn wished_failover(server: &ServerState, args: &[&[u8]]) -> Result<Failover, Refusal> {
    let mut wish = Failover { target: None, deadline: None, force: false, handed_over: false };
    let mut rest = args.get(1..).unwrap_or_default();
    while let [word, behind @ ..] = rest {
        rest = match (word.to_ascii_lowercase().as_slice(), behind) {
            (b"timeout", [milliseconds, behind @ ..]) if wish.deadline.is_none() => {
                let milliseconds = parse_integer(milliseconds).ok_or(NOT_AN_INTEGER)?;
                let timeout = u64::try_from(milliseconds).ok().filter(|&timeout| timeout > 0);
                let timeout = timeout.ok_or("ERR FAILOVER timeout must be greater than 0")?;
                let end = server.clock.turn().checked_add(Duration::from_millis(timeout));
                wish.deadline = Some(end.ok_or(NOT_AN_INTEGER)?);
                behind
            }
            (b"to", [host, port, behind @ ..]) if wish.target.is_none() => {
                let port = parse_integer(port).ok_or(NOT_AN_INTEGER)?;
                let host = String::from_utf8_lossy(host).into_owned();
                wish.target = Some((host, u16::try_from(port).unwrap_or(0)));
                behind
            }
            (b"force", behind) if !wish.force => {
                wish.force = true;
                behind
            }
            _ => return Err(SYNTAX),
        };
    }
    let replication = &server.replication;
    if replication.failover().is_some() {
        return Err("ERR FAILOVER already in progress.".into());
    } else if replication.is_replica() {
        return Err("ERR FAILOVER is not valid when server is a replica.".into());
    } else if replication.replica_count() == 0 {
        return Err("ERR FAILOVER requires connected replicas.".into());
    } else if wish.force && (wish.deadline.is_none() || wish.target.is_none()) {
        return Err(
            "ERR FAILOVER with force option requires both a timeout and target HOST and IP.".into(),
        );
    }
    if let Some((host, port)) = &wish.target {
        match replication.replica_known_as(&server.clients, host, *port) {
            None => return Err("ERR FAILOVER target HOST and PORT is not a replica.".into()),
            Some(replica) if replica.phase != Phase::Online => {
                return Err("ERR FAILOVER target replica is not online.".into());
            }
            Some(_) => {}
        }
    }
    Ok(wish)
}

/// `ROLE`
fn role(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let replication = &ctx.server.replication;
    let offset = replication.stream().end() as i64;
    if let Some(following) = replication.following() {
        ctx.out.array(5);
        ctx.out.bulk("slave");
        ctx.out.bulk(&following.host);
        ctx.out.integer(following.port.into());
        ctx.out.bulk(following.state());
        ctx.out.integer(if following.is_connected() { offset } else { -1 });
        return Ok(());
    }
    if ctx.server.group.follows() {
        let Context { server: ServerState { group, .. }, out, .. } = ctx;
        let own = group.view().and_then(|view| view.member(view.id));
        let leader = group.followed();
        out.array(5);
        out.bulk("slave");
        out.bulk(leader.map_or("", |it| it.host()));
        out.integer(leader.map_or(0, |it| it.port()).into());
        out.bulk(if leader.is_some() { "connected" } else { "connect" });
        out.integer(own.map_or(0, |it| it.applied().cast_signed()));
        return Ok(());
    }
    let replicas = replication.replicas(&ctx.server.clients);
    let online = replicas.filter(|(_, replica)| replica.phase == Phase::Online);
    let online: Vec<_> = online
        .map(|(client, it)| {
            (it.address(&client.session.caller.peer), it.port, it.acked.unwrap_or(0))
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
    Ok(())
}

/// `WAIT replicas milliseconds`: replies how many replicas have this client's writes.
fn wait(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    if ctx.server.follows() {
        return Err(
            "ERR WAIT cannot be used with replica instances. Please also note that since Redis \
             4.0 if a replica is configured to be writable (which is not the default) writes to \
             replicas are just local and are not propagated."
                .into(),
        );
    }
    let wanted = parse_integer(args[1]).ok_or(NOT_AN_INTEGER)?;
    let timeout = wait_timeout(args[2])?;
    let wanted = usize::try_from(wanted).unwrap_or(0);
    await_acks(ctx, Acks { offset: ctx.session.wrote_up_to, wanted, log: None }, timeout);
    Ok(())
}

/// `WAITAOF numlocal numreplicas timeout`: replies whether all writes up to now are on the disk in
/// the log of this server, and how many replicas say that this client's are in theirs.
fn waitaof(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let local = match parse_integer(args[1]).ok_or(NOT_AN_INTEGER)? {
        local @ (0 | 1) => local == 1,
        _ => return Err("ERR value is out of range, value must between 0 and 1".into()),
    };
    let wanted = parse_integer(args[2]).and_then(|number| usize::try_from(number).ok());
    let wanted = wanted.ok_or("ERR value is out of range, must be positive")?;
    let timeout = wait_timeout(args[3])?;
    let end = i64::try_from(timeout.as_millis()).ok();
    if end.and_then(|end| end.checked_add(ctx.server.clock.unix_now())).is_none() {
        return Err("ERR timeout is out of range".into());
    }
    if ctx.server.follows() {
        return Err("ERR WAITAOF cannot be used with replica instances. Please also note that \
                    writes to replicas are just local and are not propagated."
            .into());
    }
    if local && !ctx.server.config.appendonly && !ctx.server.group.is_member() {
        return Err(NO_LOG.into());
    }
    if ctx.data().may_block() {
        persistence::hand_on(ctx.keyspace, ctx.server);
    }
    // What is not handed on yet, within a transaction, is on no disk.
    let effects = &ctx.server.ledger.effects;
    let is_unwritten = !effects.is_empty() || effects.open_bytes() > 0;
    let record = ctx.server.storage.journal.last() + u64::from(is_unwritten);
    let log = Some(LogAck { record, wanted: local });
    await_acks(ctx, Acks { offset: ctx.session.wrote_up_to, wanted, log }, timeout);
    Ok(())
}

/// The timeout of WAIT and WAITAOF, in milliseconds.
fn wait_timeout(text: &[u8]) -> Result<Duration, Refusal> {
    match parse_integer(text).map(u64::try_from) {
        None => Err("ERR timeout is not an integer or out of range".into()),
        Some(Err(_)) => Err("ERR timeout is negative".into()),
        Some(Ok(milliseconds)) => Ok(Duration::from_millis(milliseconds)),
    }
}

/// Replies who has a client's writes, at once or once enough do.
fn await_acks(ctx: &mut Context<'_>, acks: Acks, timeout: Duration) {
    let acked = ctx.server.acked(acks);
    if acked.suffices(acks) || !ctx.data().may_block() {
        acked.answer(acks, &mut ctx.out);
        return;
    }
    let deadline = (!timeout.is_zero()).then(|| Instant::now().checked_add(timeout)).flatten();
    let waiter = Waiter { deadline, acks: Some(acks), ..Waiter::without_keys(&ctx.session.caller) };
    ctx.server.ledger.waiters.park(ctx.session.caller.id, waiter);
    ctx.session.caller.waits = true;
    if let Some(log) = acks.log {
        ctx.server.storage.journal.hurry(log.record);
    }
    match ctx.server.group.member_mut() {
        Some(member) => member.await_others(ctx.session.caller.id),
        None => ctx.server.replication.await_replicas(ctx.session.caller.id, acks.log.is_some()),
    }
}

/// `REPLCONF option value...`: a replica's reports on itself.
fn replconf(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (pairs, rest) = args.get(1..).unwrap_or_default().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(SYNTAX);
    }
    let now = ctx.server.clock.turn();
    let replica = ctx.session.replica.get_or_insert_with(|| Box::new(Replica::greeting(now)));
    for &[option, value] in pairs {
        match option.to_ascii_lowercase().as_slice() {
            b"listening-port" => match parse_integer(value).map(u16::try_from) {
                Some(Ok(port)) => replica.port = port,
                _ => return Err(NOT_AN_INTEGER),
            },
            b"ip-address" if value.len() <= 255 => {
                replica.ip = String::from_utf8_lossy(value).into_owned();
            }
            b"ip-address" => {
                return Err("ERR REPLCONF ip-address provided by replica instance is too long: \
                            255 bytes at most"
                    .into());
            }
            b"capa" => {
                replica.eof |= value.eq_ignore_ascii_case(b"eof");
                replica.psync2 |= value.eq_ignore_ascii_case(b"psync2");
                replica.branches |= value.eq_ignore_ascii_case(b"branches");
                replica.rdb_channel |= value.eq_ignore_ascii_case(b"rdb-channel-repl");
            }
            b"version" => replica.valkey = Some(major_version(value)?),
            b"rdb-only" => match parse_integer(value) {
                Some(only @ (0 | 1)) => replica.image_only = only == 1,
                Some(_) => {
                    return Err("ERR value is out of range, value must between 0 and 1".into());
                }
                None => return Err(NOT_AN_INTEGER),
            },
            b"rdb-filter-only" => {
                filter(value)?;
                replica.no_data = true;
            }
            // These get no reply: after PSYNC a replica receives only the stream.
            b"ack" => {
                let number = |text| parse_integer(text).and_then(|it| u64::try_from(it).ok());
                let offset = number(value);
                let logged = pairs.iter().find(|pair| pair[0].eq_ignore_ascii_case(b"fack"));
                let logged = logged.and_then(|pair| number(pair[1])).filter(|&logged| logged > 0);
                replica.logged = replica.logged.max(logged);
                if let Some(offset) = offset.filter(|_| replica.is_real()) {
                    replica.acked = replica.acked.max(Some(offset));
                    replica.acked_at = now;
                    replica.silent &= replica.phase != Phase::Online;
                    if let (Reads::Sent(version), Phase::Online) = (replica.reads, replica.phase) {
                        replica.reads = Reads::Loaded(version);
                        let name = replica.name(&ctx.session.caller.peer);
                        ctx.server.replication.known.note_loaded(&name, now);
                    }
                    ctx.server.replication.note_ack();
                }
                return Ok(());
            }
            b"getack" => return Ok(()),
            _ => {
                let option = option.escape_ascii();
                return Err(format!("ERR Unrecognized REPLCONF option: {option}").into());
            }
        }
    }
    ctx.out.ok();
    Ok(())
}

/// The first number of a version that Valkey announces, as `9.1.2`.
fn major_version(text: &[u8]) -> Result<u32, Refusal> {
    let mut numbers = text.split(|&byte| byte == b'.').map(parse_integer);
    let major = numbers.next().flatten().and_then(|number| u32::try_from(number).ok());
    let unknown = || format!("ERR Unrecognized version format: {}", text.escape_ascii()).into();
    major.filter(|_| numbers.all(|number| number.is_some())).ok_or_else(unknown)
}

/// Whether the filter of an image (`rdb-filter-only`) is supported: functions, of which there are
/// none here, or nothing at all.
fn filter(value: &[u8]) -> Result<(), Refusal> {
    let parts = words(value).map_err(|_| "ERR Missing rdb-filter-only values")?;
    match parts.iter().find(|part| !part.eq_ignore_ascii_case(b"functions")) {
        Some(part) => {
            let part = String::from_utf8_lossy(part);
            Err(format!("ERR Unsupported rdb-filter-only option: {part}").into())
        }
        None => Ok(()),
    }
}

/// Members of a group get its log in another way.
fn refuse_member(ctx: &Context<'_>) -> Result<(), Refusal> {
    match ctx.server.group.member() {
        None => Ok(()),
        Some(_) => {
            Err("ERR a member of a group has no replicas: STILLFRAME RAFT ADD adds members".into())
        }
    }
}

/// Takes over if the primary asks for it by `PSYNC stream offset FAILOVER`.
fn heed_failover(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    if let [_, id, _, word, ..] = args
        && word.eq_ignore_ascii_case(b"failover")
    {
        tracing::info!("the primary at {} asks this server to take over", ctx.session.caller.peer);
        if !ctx.server.replication.is_replica() {
            return Err("ERR PSYNC FAILOVER can't be sent to a master.".into());
        } else if !id.eq_ignore_ascii_case(ctx.server.replication.id().as_bytes()) {
            return Err("ERR PSYNC FAILOVER replid must match my replid.".into());
        }
        roles::promote(ctx.keyspace, ctx.server);
    }
    Ok(())
}

/// `PSYNC stream offset`, or `SYNC`: the client becomes a replica.
fn psync(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    refuse_member(ctx)?;
    if ctx.session.replica.as_deref().is_some_and(Replica::is_real) {
        return Ok(());
    }
    heed_failover(ctx, args)?;
    let replication = &ctx.server.replication;
    if replication.failover().is_some() {
        return Err("NOMASTERLINK Can't SYNC while failing over".into());
    }
    if replication.following().is_some_and(|it| !it.is_connected()) {
        return Err("NOMASTERLINK Can't SYNC while not connected with my master".into());
    }
    if ctx.session.replies != Replies::Sent || ctx.session.subscriptions.is_some() {
        return Err("ERR SYNC and PSYNC are invalid with pending output".into());
    }
    if ctx.session.replica.as_deref().is_some_and(|it| it.no_data && !it.eof) {
        return Err("ERR Filtered replica requires EOF capability".into());
    }
    let next = match args.get(2).map(|offset| parse_integer(offset)) {
        Some(None) => {
            let peer = &ctx.session.caller.peer;
            tracing::warn!("Replica {peer} asks for synchronization but with a wrong offset");
            return Err(NOT_AN_INTEGER);
        }
        next => next.flatten(),
    };
    persistence::hand_on(ctx.keyspace, ctx.server);
    ctx.server.replication.activate(ctx.keyspace, &mut ctx.server.ledger.effects);
    let now = ctx.server.clock.turn();
    let limit = ctx.server.config.replica_output_limit();
    let behind_max = if limit.hard_bytes == 0 { u64::MAX } else { limit.hard_bytes };
    let arrays = ctx.keyspace.arrays() > 0;
    let replication = &mut ctx.server.replication;
    let replica = ctx.session.replica.get_or_insert_with(|| Box::new(Replica::greeting(now)));
    replica.phase = Phase::Waiting(Instant::now());
    replica.old = args.len() == 1;
    let name = replica.name(&ctx.session.caller.peer);
    if let Some(version) = replication.known.loaded(&name) {
        replica.reads = Reads::Loaded(version);
    }
    let knows = Abilities::of_replica(replica);
    let has = next.and_then(|next| u64::try_from(next).ok()?.checked_sub(1));
    if let (Some(id), Some(has)) = (args.get(1), has) {
        if replication.continues(id, has, behind_max, knows) {
            ctx.server.meter.asked_to_resume(true);
            replica.go_online(now, false);
            (replica.cursor, replica.acked) = (has, Some(has));
            let name =
                if replica.psync2 { format!(" {}", replication.id()) } else { String::new() };
            ctx.out.simple(&format!("CONTINUE{name}"));
        } else if id != b"?" {
            ctx.server.meter.asked_to_resume(false);
        }
    }
    if replica.phase != Phase::Online
        && let Some(unable) = replication.known.note_asked(&name, now, arrays)
    {
        tracing::warn!("{}", unable.text());
    }
    tracing::info!(
        "the replica at {} {}",
        ctx.session.caller.peer,
        if replica.phase == Phase::Online { "goes on where it was" } else { "needs an image" }
    );
    replication.add_replica(ctx.session.caller.place);
    // The replica receives only the stream, whatever else it requests.
    ctx.session.replies = Replies::Dropped;
    Ok(())
}
