//! CLIENT: what is known of the clients, their names, and how to get rid of them.

use std::fmt::Write as _;
use std::time::Duration;

use stillframe::Algorithm;
use stillframe_resp::{Protocol, parse_integer};

use super::connection::{INVALID_NAME, valid_name};
use super::errors::NOT_AN_INTEGER;
use super::pubsub::wrong_subcommand;
use super::tracking::redirection;
use super::{Context, NO_KEYS, Table, flags::*, wrong_arity};
use crate::acl::Users;
use crate::address::Address;
use crate::connection::Client;
use crate::pubsub::Kind;
use crate::replication::Replica;
use crate::session::{Replies, Session};

const SYNTAX: &str = "ERR syntax error";

/// Adds the commands of this module.
pub(crate) fn register<A: Algorithm>(table: &mut Table<A>) {
    let own = NOSCRIPT | LOADING | STALE | CONNECTION;
    let admin = own | ADMIN;
    table.add("client", -2, 0, NO_KEYS, id);
    table.add_sub("client|help", 2, LOADING | STALE | CONNECTION, NO_KEYS, help);
    table.add_sub("client|id", 2, own, NO_KEYS, id);
    table.add_sub("client|getname", 2, own, NO_KEYS, getname);
    table.add_sub("client|setname", 3, own, NO_KEYS, setname);
    table.add_sub("client|info", 2, own, NO_KEYS, info);
    table.add_sub("client|list", -2, admin, NO_KEYS, list);
    table.add_sub("client|kill", -3, admin, NO_KEYS, kill);
    table.add_sub("client|unblock", -3, admin, NO_KEYS, unblock);
    table.add_sub("client|no-evict", 3, admin, NO_KEYS, no_evict);
    table.add_sub("client|pause", -3, admin, NO_KEYS, pause);
    table.add_sub("client|reply", 3, own, NO_KEYS, reply);
    table.add_sub("client|unpause", 2, admin, NO_KEYS, unpause);
}

/// `CLIENT HELP`
fn help<A: Algorithm>(ctx: &mut Context<'_, A>, _args: &[&[u8]]) {
    ctx.help(&[
        "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CACHING (YES|NO)",
        "    Say whether the keys of the next request are tracked (OPTIN, OPTOUT).",
        "GETNAME",
        "    Show the name of this connection.",
        "GETREDIR",
        "    Show which client is told of changes in place of this one.",
        "ID",
        "    Show the number of this connection.",
        "INFO",
        "    Show what is known of this connection.",
        "KILL <ip:port>",
        "KILL <option> <value> [<option> <value> [...]]",
        "    Close connections: by ADDR, LADDR, ID, TYPE, USER; SKIPME yes spares this one.",
        "LIST [TYPE <type> | ID <id> [<id> ...]]",
        "    Show what is known of all connections.",
        "NO-EVICT (ON|OFF)",
        "    Mark this connection as one to be spared.",
        "PAUSE <milliseconds> [WRITE|ALL]",
        "    Hold all requests, or those that write.",
        "REPLY (ON|OFF|SKIP)",
        "    Say whether requests are answered.",
        "SETNAME <name>",
        "    Name this connection.",
        "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
        "         [OPTIN] [OPTOUT] [NOLOOP]",
        "    Be told when keys change that this connection has read.",
        "TRACKINGINFO",
        "    Show how this connection is told of changes.",
        "UNBLOCK <id> [TIMEOUT|ERROR]",
        "    End the waiting of another client.",
        "UNPAUSE",
        "    Let held requests run.",
        "HELP",
        "    Print this help.",
    ]);
}

/// `CLIENT ID`
fn id<A: Algorithm>(ctx: &mut Context<'_, A>, _args: &[&[u8]]) {
    ctx.out.integer(ctx.session.id as i64);
}

/// `CLIENT GETNAME`
fn getname<A: Algorithm>(ctx: &mut Context<'_, A>, _args: &[&[u8]]) {
    if ctx.session.name.is_empty() {
        ctx.out.null();
    } else {
        ctx.out.bulk(&ctx.session.name);
    }
}

/// `CLIENT SETNAME name`: an empty name takes it away.
fn setname<A: Algorithm>(ctx: &mut Context<'_, A>, args: &[&[u8]]) {
    if !valid_name(args[2]) {
        return ctx.out.error(INVALID_NAME);
    }
    ctx.session.name = args[2].to_vec();
    ctx.out.ok();
}

/// `CLIENT PAUSE milliseconds [WRITE | ALL]`
fn pause<A: Algorithm>(ctx: &mut Context<'_, A>, args: &[&[u8]]) {
    let writes_only = match args.get(3..).unwrap_or_default() {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"all") => false,
        [word] if word.eq_ignore_ascii_case(b"write") => true,
        [_] => return ctx.out.error("ERR CLIENT PAUSE mode must be WRITE or ALL"),
        _ => return ctx.out.error(wrong_subcommand(args)),
    };
    match parse_integer(args[2]).map(u64::try_from) {
        None => ctx.out.error("ERR timeout is not an integer or out of range"),
        Some(Err(_)) => ctx.out.error("ERR timeout is negative"),
        Some(Ok(milliseconds)) => {
            ctx.server.pause_clients(Duration::from_millis(milliseconds), writes_only);
            ctx.keyspace.spare_expired(true);
            ctx.out.ok();
        }
    }
}

/// `CLIENT UNPAUSE`
fn unpause<A: Algorithm>(ctx: &mut Context<'_, A>, _args: &[&[u8]]) {
    ctx.server.pause = None;
    ctx.keyspace.spare_expired(ctx.server.spares_expired());
    ctx.out.ok();
}

/// `CLIENT NO-EVICT ON | OFF`: whether `maxmemory-clients` passes over this connection.
fn no_evict<A: Algorithm>(ctx: &mut Context<'_, A>, args: &[&[u8]]) {
    ctx.session.spared = match args[2].to_ascii_lowercase().as_slice() {
        b"on" => true,
        b"off" => false,
        _ => return ctx.out.error(SYNTAX),
    };
    ctx.out.ok();
}

/// `CLIENT REPLY ON | OFF | SKIP`: only ON is answered.
fn reply<A: Algorithm>(ctx: &mut Context<'_, A>, args: &[&[u8]]) {
    let silenced = ctx.session.replies == Replies::Dropped;
    match args[2].to_ascii_lowercase().as_slice() {
        b"on" => {
            ctx.session.replies = Replies::Sent;
            ctx.out.ok();
        }
        b"off" => ctx.session.replies = Replies::Dropped,
        b"skip" if silenced => {}
        b"skip" => ctx.session.replies = Replies::SkipNext,
        _ => ctx.out.error(SYNTAX),
    }
}

/// `CLIENT UNBLOCK id [TIMEOUT | ERROR]`
fn unblock<A: Algorithm>(ctx: &mut Context<'_, A>, args: &[&[u8]]) {
    let error = match args.get(3).map(|reason| reason.to_ascii_uppercase()).as_deref() {
        _ if args.len() > 4 => return ctx.out.error(wrong_arity("client|unblock")),
        None | Some(b"TIMEOUT") => false,
        Some(b"ERROR") => true,
        Some(_) => {
            return ctx.out.error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
        }
    };
    let Some(id) = parse_integer(args[2]) else { return ctx.out.error(NOT_AN_INTEGER) };
    let id = id.cast_unsigned();
    let unblocked = match error {
        true => ctx.server.unblock(id, |out| {
            out.error("UNBLOCKED client unblocked via CLIENT UNBLOCK");
        }),
        false => ctx.server.give_up(id),
    };
    ctx.out.integer(unblocked.into());
}

/// The line on the client that asks.
pub(super) fn describe_own<A: Algorithm>(ctx: &Context<'_, A>) -> String {
    describe(ctx, ctx.session, None).trim_end().to_owned()
}

/// `CLIENT INFO`
fn info<A: Algorithm>(ctx: &mut Context<'_, A>, _args: &[&[u8]]) {
    let line = describe(ctx, ctx.session, None);
    ctx.out.verbatim(b"txt", line);
}

/// `CLIENT LIST [TYPE type] [ID id...]`
fn list<A: Algorithm>(ctx: &mut Context<'_, A>, args: &[&[u8]]) {
    let mut ids: Option<Vec<i64>> = None;
    let mut only = None;
    match args.get(2..).unwrap_or_default() {
        [] => {}
        [option, kind] if option.eq_ignore_ascii_case(b"type") => match Class::parse(kind) {
            Some(class) => only = Some(class),
            None => {
                return ctx.out.error([b"ERR Unknown client type '", *kind, b"'"].concat());
            }
        },
        [option, given @ ..] if option.eq_ignore_ascii_case(b"id") && !given.is_empty() => {
            ids = given.iter().map(|id| parse_integer(id)).collect();
            if ids.is_none() {
                return ctx.out.error("ERR Invalid client ID");
            }
        }
        _ => return ctx.out.error(SYNTAX),
    }
    let wanted = |session: &Session| {
        only.is_none_or(|class| class == Class::of(session))
            && ids.as_ref().is_none_or(|ids| ids.contains(&(session.id.cast_signed())))
    };
    let others = ctx.server.clients.others().map(|(_, client)| (&client.session, Some(client)));
    let primary = ctx.server.replication.following.as_ref().and_then(|it| it.client());
    let own = [Some(&*ctx.session), primary];
    let clients = own.into_iter().flatten().map(|session| (session, None)).chain(others);
    let mut lines: Vec<(u64, String)> = clients
        .filter(|(session, _)| wanted(session))
        .map(|(session, client)| (session.id, describe(ctx, session, client)))
        .collect();
    lines.sort_unstable_by_key(|(id, _)| *id);
    let text: String = lines.into_iter().map(|(_, line)| line).collect();
    ctx.out.verbatim(b"txt", text);
}

/// What a client is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Normal,
    Primary,
    Replica,
    Subscriber,
}

impl Class {
    fn parse(kind: &[u8]) -> Option<Self> {
        match kind.to_ascii_lowercase().as_slice() {
            b"normal" => Some(Self::Normal),
            b"master" => Some(Self::Primary),
            b"replica" | b"slave" => Some(Self::Replica),
            b"pubsub" => Some(Self::Subscriber),
            _ => None,
        }
    }

    fn of(session: &Session) -> Self {
        if session.internal {
            Self::Primary
        } else if session.replica.as_deref().is_some_and(Replica::is_real) {
            Self::Replica
        } else if session.subscriptions.is_some() {
            Self::Subscriber
        } else {
            Self::Normal
        }
    }
}

/// One line on a client. `client` is `None` for the one that asks, which is out of the registry.
fn describe<A: Algorithm>(
    ctx: &Context<'_, A>,
    session: &Session,
    client: Option<&Client>,
) -> String {
    let now = ctx.server.loop_time;
    let seconds = |since| now.saturating_duration_since(since).as_secs();
    let queued = session.transaction.as_ref().map(|open| (open.len(), open.memory()));
    let input = client.map_or((0, 0), |c| (c.input.len(), c.input.capacity() - c.input.len()));
    let pending = client.map_or(0, |client| client.pending() + client.unsent);
    let buffers = client.map_or(0, Client::buffer_bytes);
    let flags = flags(session);
    let listens = |kind| session.subscriptions.as_ref().map_or(0, |own| own.count(kind));
    let command = ctx.table.all().get(session.last_command).map_or("NULL", |command| command.name);
    let mut line = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        line,
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db={} sub={} psub={} \
         ssub={} multi={} qbuf={} qbuf-free={} argv-mem=0 multi-mem={} rbs={} rbp={} obl={pending} \
         oll=0 omem={pending} tot-mem={} events=r cmd={command} user={} redir={} resp={}",
        session.id,
        session.peer,
        session.local,
        session.fd,
        String::from_utf8_lossy(&session.name),
        seconds(session.connected),
        seconds(session.active),
        session.db,
        listens(Kind::Channel),
        listens(Kind::Pattern),
        listens(Kind::Shard),
        queued.map_or(-1, |(count, _)| count as i64),
        input.0,
        input.1,
        queued.map_or(0, |(_, memory)| memory),
        buffers,
        pending,
        buffers + size_of::<Client>() + queued.map_or(0, |(_, memory)| memory),
        String::from_utf8_lossy(ctx.server.users.name(session.user)),
        redirection(session.tracking.as_deref()),
        if session.protocol == Protocol::Resp3 { 3 } else { 2 },
    );
    line
}

/// The state of a client in letters, in Redis's order.
fn flags(session: &Session) -> String {
    let told = session.tracking.as_deref();
    let replica = session.replica.as_deref().is_some_and(Replica::is_real);
    let letters = [
        (session.monitors, 'O'),
        (replica, 'S'),
        (session.internal, 'M'),
        (session.subscriptions.is_some(), 'P'),
        (session.transaction.is_some(), 'x'),
        (session.held.is_some() || session.blocked, 'b'),
        (told.is_some(), 't'),
        (told.is_some_and(|mode| mode.broken), 'R'),
        (told.is_some_and(|mode| mode.broadcast), 'B'),
        (session.closing, 'c'),
        (matches!(session.peer, Address::Unix(_)), 'U'),
        (session.spared, 'e'),
    ];
    let flags: String = letters.into_iter().filter(|(is, _)| *is).map(|(_, c)| c).collect();
    if flags.is_empty() { "N".to_owned() } else { flags }
}

/// What a client must be to be killed.
#[derive(Default)]
struct Filter {
    id: Option<u64>,
    peer: Option<String>,
    local: Option<String>,
    class: Option<Class>,
    user: Option<usize>,
    spare_self: bool,
}

impl Filter {
    fn matches(&self, session: &Session) -> bool {
        self.class.is_none_or(|class| class == Class::of(session))
            && self.user.is_none_or(|user| user == session.user)
            && self.id.is_none_or(|id| id == session.id)
            && self.peer.as_ref().is_none_or(|peer| *peer == session.peer.to_string())
            && self.local.as_ref().is_none_or(|local| *local == session.local.to_string())
    }
}

/// `CLIENT KILL address`, or `CLIENT KILL [ID id] [ADDR a] [LADDR a] [TYPE t] [USER u] [SKIPME b]`
fn kill<A: Algorithm>(ctx: &mut Context<'_, A>, args: &[&[u8]]) {
    let single = args.len() == 3;
    let filter = if single {
        Ok(Filter { peer: Some(text(args[2])), ..Filter::default() })
    } else {
        kill_filter(&ctx.server.users, args.get(2..).unwrap_or_default())
    };
    let filter = match filter {
        Ok(filter) => filter,
        Err(problem) => return ctx.out.error(problem),
    };
    let others = ctx.server.clients.others();
    let places: Vec<usize> = others
        .filter(|(_, client)| filter.matches(&client.session))
        .map(|(place, _)| place)
        .collect();
    let following = ctx.server.replication.following.as_mut();
    let primary = following.filter(|it| it.client().is_some_and(|it| filter.matches(it)));
    let primary = primary.map(|following| following.kill = true).is_some();
    let own = !filter.spare_self && filter.matches(ctx.session);
    ctx.session.closing |= own;
    let killed = places.len() + usize::from(own) + usize::from(primary);
    places.into_iter().for_each(|place| ctx.server.clients.doom(place));
    match (single, killed) {
        (true, 0) => ctx.out.error("ERR No such client"),
        (true, _) => ctx.out.ok(),
        (false, killed) => ctx.out.integer(killed as i64),
    }
}

fn kill_filter(users: &Users, options: &[&[u8]]) -> Result<Filter, Vec<u8>> {
    let mut filter = Filter { spare_self: true, ..Filter::default() };
    let (pairs, rest) = options.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(SYNTAX.into());
    }
    for [option, value] in pairs {
        match option.to_ascii_lowercase().as_slice() {
            b"id" => {
                let id = parse_integer(value).and_then(|id| u64::try_from(id).ok());
                filter.id = id.filter(|&id| id > 0);
                if filter.id.is_none() {
                    return Err(b"ERR client-id should be greater than 0".into());
                }
            }
            b"addr" => filter.peer = Some(text(value)),
            b"laddr" => filter.local = Some(text(value)),
            b"type" => match Class::parse(value) {
                Some(class) => filter.class = Some(class),
                None => return Err([b"ERR Unknown client type '", *value, b"'"].concat()),
            },
            b"user" => {
                filter.user = users.find(value);
                if filter.user.is_none() {
                    return Err([b"ERR No such user '", *value, b"'"].concat());
                }
            }
            b"skipme" => match value.to_ascii_lowercase().as_slice() {
                b"yes" => filter.spare_self = true,
                b"no" => filter.spare_self = false,
                _ => return Err(SYNTAX.into()),
            },
            _ => return Err(SYNTAX.into()),
        }
    }
    Ok(filter)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
