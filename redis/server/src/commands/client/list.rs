//! CLIENT INFO and LIST.

use super::filter::{Filter, Verb};
use crate::commands::Context;
use crate::commands::client_line::describe;
use crate::connections::client::Session;
use stillframe_commands::Refusal;

/// `CLIENT INFO`
pub(super) fn info(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let line = describe(ctx, ctx.session, None);
    ctx.out.verbatim(b"txt", line);
    Ok(())
}

/// `CLIENT LIST [filter value [filter value]...]`
pub(super) fn list(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let filter = Filter::parse(&ctx.server.users, Verb::List, args.get(2..).unwrap_or_default())?;
    let (own_id, now) = (ctx.session.caller.id, ctx.server.clock.turn());
    let wanted = |session: &Session| {
        filter.matches(session, now) && !(filter.spares_self && session.caller.id == own_id)
    };
    let others = ctx.server.clients.others().map(|(_, client)| (&client.session, Some(client)));
    let primary = ctx.server.replication.following().and_then(|it| it.client());
    let own = [Some(&*ctx.session), primary];
    let clients = own.into_iter().flatten().map(|session| (session, None)).chain(others);
    let mut lines: Vec<(u64, String)> = clients
        .filter(|(session, _)| wanted(session))
        .map(|(session, client)| (session.caller.id, describe(ctx, session, client)))
        .collect();
    lines.sort_unstable_by_key(|(id, _)| *id);
    let text: String = lines.into_iter().map(|(_, line)| line).collect();
    ctx.out.verbatim(b"txt", text);
    Ok(())
}
