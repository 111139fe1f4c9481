//! Notifies systemd when the server is ready and when it stops (`sd_notify`): one datagram to the
//! socket that `NOTIFY_SOCKET` names, if set.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::node::config::Supervised;

/// Whether a supervisor listens.
pub(crate) fn is_supervised(supervised: Supervised) -> bool {
    supervised != Supervised::No && std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// Notifies the supervisor, if there is one; it is not worth failing for.
pub(crate) fn notify(supervised: Supervised, state: &str) {
    let name = std::env::var_os("NOTIFY_SOCKET").filter(|_| supervised != Supervised::No);
    let Some(name) = name else {
        if supervised == Supervised::Systemd {
            tracing::warn!("cannot notify systemd of '{state}': NOTIFY_SOCKET is not set");
        }
        return;
    };
    if let Err(error) = send(&name, state) {
        tracing::warn!("cannot notify systemd of '{state}' at {}: {error}", name.display());
    }
}

fn send(name: &OsStr, state: &str) -> io::Result<()> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address).map(drop)
}
