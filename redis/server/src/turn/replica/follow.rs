//! This server as a replica: the connection to its primary, from the first attempt on.
//!
//! - The server retries the connection until it is made, with growing pauses when the primary's
//!   bytes are unusable. It asks to resume at the offset of the data, and else takes a whole image.
//! - The image is received beside the data, and replaces the data only once it is whole, a slice a
//!   turn, so that clients get LOADING meanwhile.
//! - The offset of the data is the end of the stream: applied bytes are added to it, one for one.

use std::time::{Duration, Instant};

use super::apply::apply;
use super::follower::Follower;
use super::handshake::ask;
use crate::peers::replication::failure::Failure;
use crate::peers::replication::link::{Link, Question, Step};
use crate::state::ServerState;

/// Longest time that the stream takes of a turn, beyond one read: clients wait meanwhile.
const SLICE: Duration = Duration::from_millis(2);

/// Most bytes of requests to read while a pause holds them.
const POSTPONED_BYTES_MAX: usize = 1 << 20;

impl Follower<'_> {
    /// Does the work of the link to the primary. Called every turn.
    pub(crate) fn follow(&mut self) {
        let now = self.state.clock.turn();
        let ServerState { replication, config, net, .. } = &mut *self.state;
        let Some(following) = &mut replication.following else { return };
        following.more = false;
        if std::mem::take(&mut following.kill) && following.link.is_some() {
            following.fail(&Failure::Wished);
        }
        if following.load.is_some() {
            return self.load_slice();
        }
        if following.link.is_none() {
            if now < following.retry_at {
                return;
            }
            let tls = config.tls.replication.then_some(net.tls());
            let connected =
                following.connect(&config.replication.source, tls).and_then(|mut link| {
                    if let Some(link) = &mut link {
                        self.poller.add_primary(&mut link.stream)?;
                    }
                    Ok(link)
                });
            following.last_io = now;
            match connected {
                Ok(link) => following.link = link,
                Err(error) => following.fail(&Failure::NotConnected(error)),
            }
            return;
        }
        if let Some(mut link) = following.link.take() {
            let outcome = self.converse(&mut link);
            let timeout = Duration::from_secs(self.state.config.replication.timeout_s.into());
            let Some(following) = &mut self.state.replication.following else { return };
            let silent = now.saturating_duration_since(following.last_io) > timeout
                && !self.state.hub.is_paused();
            following.link = Some(link);
            match outcome {
                Err(failure) => following.fail(&failure),
                Ok(()) if silent => following.fail_silent(),
                Ok(()) => {}
            }
        }
    }

    fn converse(&mut self, link: &mut Link) -> Result<(), Failure> {
        let now = self.state.clock.turn();
        if matches!(link.step, Step::Connecting) {
            if !link.writable {
                return Ok(());
            }
            if let Some(error) = link.stream.take_error()? {
                return Err(error.into());
            }
            if link.stream.shake_hands()? {
                return Ok(());
            }
            ask(Question::Ping, link, self.state);
        }
        // A pause of clients holds the primary's requests, too, as in Redis: the server reads them,
        // up to a bound, and runs none.
        let waits = matches!(link.step, Step::Streaming) && self.state.hub.is_paused();
        if !waits && std::mem::take(&mut link.postponed) {
            self.advance(link)?;
        }
        let start = Instant::now();
        loop {
            let ends = start.elapsed() > SLICE;
            if let Some(following) = &mut self.state.replication.following {
                following.more = ends;
            }
            if ends || waits && link.input.len() >= POSTPONED_BYTES_MAX || !link.read()? {
                break;
            }
            if let Some(following) = &mut self.state.replication.following {
                following.last_io = now;
                if let Some(session) = &mut following.session {
                    session.active = now;
                }
            }
            if waits {
                link.postponed = true;
                continue;
            }
            self.advance(link)?;
            if matches!(link.step, Step::Loading) {
                break;
            }
        }
        if matches!(link.step, Step::Streaming) {
            let logged = self.state.logged_offset();
            if now >= link.next_ack || link.awaited.is_some_and(|awaited| logged >= Some(awaited)) {
                link.acknowledge(self.state.replication.stream.end(), logged, now);
            }
        }
        Ok(link.write()?)
    }

    /// Processes the received bytes.
    pub(super) fn advance(&mut self, link: &mut Link) -> Result<(), Failure> {
        loop {
            let left = link.input.len();
            match &mut link.step {
                Step::Connecting | Step::Loading => return Ok(()),
                Step::Asked(_) => self.answered(link)?,
                Step::Announced => super::receive::announced(link)?,
                Step::Receiving(_) => self.receive(link)?,
                Step::Streaming => {
                    link.skip_blanks();
                    return apply(self.keyspace, self.state, self.table, link)
                        .map_err(|error| Failure::Stream(error.into()));
                }
            }
            if link.input.len() == left {
                return Ok(());
            }
        }
    }
}
