//! MONITOR: every request that runs, shown to its clients.
//!
//! Administrative requests are not shown.

use super::{Context, Table};
use stillframe_commands::Refusal;

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("monitor", monitor);
}

/// `MONITOR`
fn monitor(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    if ctx.server.ledger.in_exec {
        return Err("ERR MONITOR isn't allowed for DENY BLOCKING client".into());
    }
    if ctx.server.hub.monitor(ctx.session) {
        ctx.out.ok();
    }
    Ok(())
}
