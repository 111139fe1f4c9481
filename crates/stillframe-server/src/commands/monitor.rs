//! MONITOR: every request that is run, shown to those who ask for it.
//!
//! - Administrative requests are not shown, and passwords in no request.
//! - Who does not read what it is shown is closed as a subscriber is, by
//!   `client-output-buffer-limit pubsub`.

use std::time::{SystemTime, UNIX_EPOCH};

use stillframe_resp::Out;

use super::{Context, NO_KEYS, Table, flags::*};
use crate::acl::redacted;
use crate::client::Session;
use crate::config::words::quote;
use crate::hub::Message;
use crate::state::ServerState;
use stillframe_redis::Address;
use stillframe_redis::Refusal;

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("monitor", 1, ADMIN | NOSCRIPT | LOADING | STALE, NO_KEYS, monitor);
}

/// `MONITOR`
fn monitor(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    if ctx.server.ledger.in_exec {
        return Err("ERR MONITOR isn't allowed for DENY BLOCKING client".into());
    }
    if !ctx.session.monitors {
        ctx.session.monitors = true;
        ctx.server.hub.monitors.push(ctx.session.caller.place);
        ctx.out.ok();
    }
    Ok(())
}

impl ServerState {
    /// A client is shown requests no more.
    pub(crate) fn stop_monitoring(&mut self, session: &mut Session) {
        if std::mem::take(&mut session.monitors) {
            self.hub.monitors.retain(|&place| place != session.caller.place);
        }
    }

    /// Shows a request that has just run.
    #[cold]
    pub(crate) fn show_request(&mut self, session: &Session, out: &mut Out<'_>, args: &[&[u8]]) {
        if session.caller.internal {
            return;
        }
        let line = line(session, args);
        let mut message = Message::new(|out: &mut Out<'_>| out.simple(&line));
        // Delivering changes no list of monitors: who is closed leaves it at the end of the turn.
        for at in 0..self.hub.monitors.len() {
            if self.hub.monitors[at] == session.caller.place {
                out.simple(&line); // behind the reply
            } else {
                self.deliver(self.hub.monitors[at], &mut message);
            }
        }
    }
}

fn line(session: &Session, args: &[&[u8]]) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, micros) = (since.as_secs(), since.subsec_micros());
    let peer = match &session.caller.peer {
        Address::Net(address) => address.to_string(),
        Address::Unix(path) => format!("unix:{path}"),
    };
    let mut line = format!("{seconds}.{micros:06} [{} {peer}]", session.caller.db);
    for arg in redacted(args) {
        line.push(' ');
        line.push_str(&quote(arg));
    }
    line
}
