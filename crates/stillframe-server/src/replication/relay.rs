//! An image on its way to a replica behind TLS.
//!
//! - Only the event loop speaks TLS: whoever sends the image (the snapshotter, a forked child, a
//!   thread) writes it into a pair of sockets as if that were the replica, and the loop passes it
//!   on, a piece a turn. So the pace of the replica is the pace of the image, and the loop is held
//!   up by no more than a piece.
//! - What follows the image waits until the relay has come to its end.

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;

use mio::net::UnixStream;
use rustix::io::Errno;
use stillframe::Algorithm;

use crate::connection::Client;
use crate::server::Server;

/// Bytes passed on in one turn.
const PIECE_BYTES: usize = 64 << 10;

/// The near end of the pair, and what was read from it.
pub(crate) struct Relay {
    from: UnixStream,
    piece: Box<[u8]>,
    /// Bytes in `piece`, and how many of them are passed on.
    filled: usize,
    passed: usize,
    /// Its events wake the loop.
    watched: bool,
}

/// What a turn has brought.
enum Passed {
    /// It waits, for the image or for the replica.
    Waits,
    /// There is more to do at once.
    More,
    /// That was all.
    All,
}

impl Relay {
    /// A relay, and the socket that an image is to be written to.
    pub(super) fn new() -> io::Result<(Self, OwnedFd)> {
        let (near, far) = std::os::unix::net::UnixStream::pair()?;
        near.set_nonblocking(true)?;
        let piece = vec![0; PIECE_BYTES].into_boxed_slice();
        let from = UnixStream::from_std(near);
        Ok((Self { from, piece, filled: 0, passed: 0, watched: false }, far.into()))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // Whoever writes, a forked child perhaps, is to hear that nobody reads any more.
        let _ = self.from.shutdown(Shutdown::Both);
    }
}

impl Client {
    fn pass_on(&mut self, relay: &mut Relay) -> io::Result<Passed> {
        if relay.passed == relay.filled {
            relay.passed = 0;
            relay.filled = match rustix::io::read(&relay.from, &mut *relay.piece) {
                Ok(0) => return Ok(Passed::All),
                Ok(count) => count,
                Err(Errno::AGAIN | Errno::INTR) => 0,
                Err(error) => return Err(error.into()),
            };
        }
        if relay.passed == relay.filled {
            return Ok(Passed::Waits);
        }
        relay.passed += self.write_past(&relay.piece[relay.passed..relay.filled])?;
        // Replies that wait, or a full socket, bring their own event.
        Ok(if self.is_blocked() || self.pending() > 0 { Passed::Waits } else { Passed::More })
    }
}

impl<A: Algorithm> Server<A> {
    /// Passes images on to the replicas behind TLS. Called every turn.
    pub(crate) fn relay(&mut self) {
        for at in 0..self.state.replication.places.len() {
            let place = self.state.replication.places[at];
            let Some(client) = self.state.clients.get_mut(place) else { continue };
            let Some(mut relay) = client.relay.take() else { continue };
            let passed = if relay.watched {
                client.pass_on(&mut relay)
            } else {
                relay.watched = true;
                let added = self.poller.add_relay(&mut relay.from, place);
                added.and_then(|()| client.pass_on(&mut relay))
            };
            match passed {
                Ok(Passed::Waits) => client.relay = Some(relay),
                Ok(Passed::More) => {
                    client.relay = Some(relay);
                    self.state.replication.more = true;
                }
                Ok(Passed::All) => self.poller.remove_relay(&mut relay.from),
                Err(error) => {
                    tracing::info!("a replica does not take its image: {error}");
                    self.state.clients.doom(place);
                }
            }
        }
    }
}
