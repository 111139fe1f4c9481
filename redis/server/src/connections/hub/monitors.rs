//! MONITOR: clients that see every request.
//!
//! - No password is shown.
//! - A client that does not read is closed by `client-output-buffer-limit pubsub`, as a subscriber
//!   is.

use std::time::{SystemTime, UNIX_EPOCH};

use stillframe_commands::Address;
use stillframe_resp::Out;

use super::deliver::Message;
use super::{Delivery, Hub};
use crate::connections::client::Session;
use crate::node::acl::redacted;
use crate::node::config::words::quote;

/// Monitors that see no request for a moment.
pub(crate) struct Hidden(Vec<usize>);

impl Hub {
    /// Whether any client sees requests.
    #[inline]
    pub(crate) fn is_monitored(&self) -> bool {
        !self.monitors.is_empty()
    }

    /// Starts showing requests to a client; false if it saw them already.
    pub(crate) fn monitor(&mut self, session: &mut Session) -> bool {
        let is_new = !std::mem::replace(&mut session.monitors, true);
        if is_new {
            self.monitors.push(session.caller.place);
        }
        is_new
    }

    /// Stops showing requests to a client.
    pub(crate) fn stop_monitoring(&mut self, session: &mut Session) {
        if std::mem::take(&mut session.monitors) {
            self.monitors.retain(|&place| place != session.caller.place);
        }
    }

    /// Hides requests until [`show_again`](Self::show_again).
    pub(crate) fn hide_requests(&mut self) -> Hidden {
        Hidden(std::mem::take(&mut self.monitors))
    }

    /// Shows requests again to the monitors of before.
    pub(crate) fn show_again(&mut self, Hidden(monitors): Hidden) {
        self.monitors = monitors;
    }

    /// Shows a request that has just run, to the client that sent it behind its reply in `out`.
    #[cold]
    pub(crate) fn show_request(
        &mut self,
        to: &mut Delivery<'_>,
        session: &Session,
        out: &mut Out<'_>,
        args: &[&[u8]],
        by_script: bool,
    ) {
        if session.caller.internal {
            return;
        }
        let line = line(session, args, by_script);
        let mut message = Message::new(|out: &mut Out<'_>| out.simple(&line));
        // Delivering does not change the list: a closed client leaves it at the end of the turn.
        for at in 0..self.monitors.len() {
            if self.monitors[at] == session.caller.place {
                out.simple(&line);
            } else {
                to.send(self.monitors[at], &mut message);
            }
        }
    }
}

fn line(session: &Session, args: &[&[u8]], by_script: bool) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, micros) = (since.as_secs(), since.subsec_micros());
    let peer = match &session.caller.peer {
        _ if by_script => "lua".to_owned(),
        Address::Net(address) => address.to_string(),
        Address::Unix(path) => format!("unix:{path}"),
        Address::Memory => "memory".to_owned(),
    };
    let mut line = format!("{seconds}.{micros:06} [{} {peer}]", session.caller.db);
    for arg in redacted(args) {
        line.push(' ');
        line.push_str(&quote(arg));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_shown_each_request_once() {
        let (mut hub, mut session) = (Hub::default(), Session::in_process());
        assert!(hub.monitor(&mut session) && !hub.monitor(&mut session));
        assert_eq!(hub.monitors, [session.caller.place]);
        let hidden = hub.hide_requests();
        assert!(!hub.is_monitored());
        hub.show_again(hidden);
        assert!(hub.is_monitored());
        hub.stop_monitoring(&mut session);
        assert!(!hub.is_monitored() && hub.monitor(&mut session), "it can begin anew");
    }
}
