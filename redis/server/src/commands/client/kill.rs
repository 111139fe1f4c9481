//! CLIENT KILL.

use super::super::Context;
use super::filter::{Filter, Verb};
use stillframe_commands::Refusal;

/// `CLIENT KILL address`, or `CLIENT KILL filter value [filter value]...`
pub(super) fn kill(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let single = args.len() == 3;
    let filter = match single {
        true => Filter::of_peer(args[2]),
        false => Filter::parse(&ctx.server.users, Verb::Kill, &args[2..])?,
    };
    let now = ctx.server.clock.turn();
    let others = ctx.server.clients.cut_all(|client| filter.matches(&client.session, now));
    if let Some(meanwhile) = &mut ctx.meanwhile {
        meanwhile.hang_up(ctx.server);
    }
    let following = ctx.server.replication.following_mut();
    let primary = following.filter(|it| it.client().is_some_and(|it| filter.matches(it, now)));
    let primary = primary.map(|following| following.cut()).is_some();
    let own = !filter.spares_self && filter.matches(ctx.session, now);
    ctx.session.closing |= own;
    let killed = others + usize::from(own) + usize::from(primary);
    match (single, killed) {
        (true, 0) => return Err("ERR No such client".into()),
        (true, _) => ctx.out.ok(),
        (false, killed) => ctx.out.integer(killed as i64),
    }
    Ok(())
}
