//! The line that tells of a client, in CLIENT INFO and LIST and in ACL LOG.

use std::fmt::Write as _;

use stillframe_resp::Protocol;

use super::Context;
use super::client_kinds::flags;
use super::tracking::redirection;
use crate::connections::client::{Client, Kind, Session};
use crate::connections::io_threads::Remote;

/// The line of the calling client.
pub(super) fn describe_own(ctx: &Context<'_>) -> String {
    describe(ctx, ctx.session, None).trim_end().to_owned()
}

/// The line of a client. `client` is `None` for the calling one, which is out of the registry, and
/// for the primary.
pub(super) fn describe(ctx: &Context<'_>, session: &Session, client: Option<&Client>) -> String {
    let now = ctx.server.clock.turn();
    let seconds = |since| now.saturating_duration_since(since).as_secs();
    let open = session.caller.transaction.as_ref();
    let queued = open.map(|open| (open.requests.len(), open.requests.memory()));
    let is_own = session.caller.id == ctx.session.caller.id;
    let (input_in_hand, served_bytes) = ctx.server.clients.served_bytes();
    let input = match client {
        Some(client) => {
            let kept = client.wire.remote().map_or(0, Remote::kept);
            (client.input.len() + kept, client.input.capacity() - client.input.len())
        }
        None if is_own => (input_in_hand, 0),
        None => (0, 0),
    };
    let pending = client.map_or(0, |client| client.pending() + client.unsent);
    let own_bytes = if is_own { served_bytes } else { size_of::<Client>() };
    let memory = client.map_or(own_bytes, Client::memory_bytes);
    let own_buffers = own_bytes.saturating_sub(size_of::<Client>()); // a replay has no client
    let buffers = client.map_or(own_buffers, Client::buffer_bytes);
    // As in Redis, a large argument under way is what the buffer holds; those before it are parsed.
    let parsed = client.map_or(0, |client| client.parser.before_large().min(input.0));
    let flags = flags(session);
    let listens = |kind| session.subscriptions.as_ref().map_or(0, |own| own.count(kind));
    let command =
        ctx.table.all().get(session.caller.last_command).map_or("NULL", |command| command.name);
    let user = match session.caller.internal {
        true => "(superuser)".into(),
        false => String::from_utf8_lossy(ctx.server.users.name(session.user)),
    };
    let mut line = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        line,
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db={} sub={} psub={} \
         ssub={} multi={} qbuf={} qbuf-free={} argv-mem={parsed} multi-mem={} rbs={} rbp={} \
         obl={pending} oll=0 omem={pending} tot-mem={} events=r cmd={command} user={} redir={} \
         resp={} lib-name={} lib-ver={}",
        session.caller.id,
        session.caller.peer,
        session.local,
        session.fd,
        String::from_utf8_lossy(&session.name),
        seconds(session.connected),
        seconds(session.active),
        session.caller.db,
        listens(Kind::Channel),
        listens(Kind::Pattern),
        listens(Kind::Shard),
        queued.map_or(-1, |(count, _)| count as i64),
        input.0 - parsed,
        input.1,
        queued.map_or(0, |(_, memory)| memory),
        buffers,
        pending,
        memory,
        user,
        redirection(session.tracking.as_deref()),
        if session.protocol == Protocol::Resp3 { 3 } else { 2 },
        String::from_utf8_lossy(&session.library.name),
        String::from_utf8_lossy(&session.library.version),
    );
    line
}
