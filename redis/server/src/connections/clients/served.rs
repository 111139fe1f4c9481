//! The client whose request is running. It is out of the registry meanwhile, and messages for it
//! wait as mail.

use stillframe_resp::Protocol;

use crate::connections::client::Session;
use crate::connections::client::Who;

/// See the head of this file.
#[derive(Default)]
pub(super) struct Served {
    who: Who,
    protocol: Protocol,
    /// Its limit of unread replies, in bytes.
    output_most: usize,
    /// Bytes of its memory, without the reader's shared buffer.
    bytes: usize,
    /// Bytes of its requests in hand.
    input: usize,
    /// Bytes of those in its own buffer.
    input_own: usize,
    /// Messages to it; they go out before the reply.
    pub(super) mail: Vec<u8>,
    /// See [`silence`](Self::silence).
    silent: bool,
}

impl Served {
    /// Begins a request of this client, which may have so many bytes of unread replies.
    pub(super) fn begin(&mut self, session: &Session, output_most: usize) {
        self.identify(session.who());
        (self.protocol, self.output_most) = (session.protocol, output_most);
    }

    /// Begins a replayed request, of a client outside of the registry.
    pub(super) fn begin_replay(&mut self, session: &Session) {
        self.identify(Who { place: usize::MAX, ..session.who() });
    }

    /// Restores the client of the request under way, after a replay.
    pub(super) fn identify(&mut self, who: Who) {
        self.who = who;
    }

    /// Returns the client to the registry, which counts its memory.
    pub(super) fn end(&mut self) {
        self.bytes = 0;
    }

    /// The client.
    pub(super) fn who(&self) -> Who {
        self.who
    }

    /// The protocol of messages to it.
    pub(super) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Notes its memory, without its own buffer of requests.
    #[inline]
    pub(super) fn weigh(&mut self, bytes: usize) {
        self.bytes = self.input_own + bytes;
    }

    /// Bytes of its memory.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Notes how many bytes of requests are in hand.
    pub(super) fn hold_input(&mut self, bytes: usize) {
        self.input = bytes;
    }

    /// Notes how many of those are in its own buffer.
    pub(super) fn own_input(&mut self, bytes: usize) {
        self.input_own = bytes;
    }

    /// Bytes of requests in hand.
    pub(super) fn input(&self) -> usize {
        self.input
    }

    /// Whether messages wait: the reply to the request under way will be dropped, or a script runs.
    /// Returns whether they waited before.
    pub(super) fn silence(&mut self, silent: bool) -> bool {
        std::mem::replace(&mut self.silent, silent)
    }

    /// Whether it may get one more message; above its limit it gets none, and is closed after the
    /// request.
    pub(super) fn takes_mail(&self) -> bool {
        self.mail.len() <= self.output_most
    }

    /// The messages that go out before the reply just written, if any.
    #[inline]
    pub(super) fn due_mail(&mut self) -> Option<&mut Vec<u8>> {
        (!self.silent && !self.mail.is_empty()).then_some(&mut self.mail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_waits_for_a_reply_that_is_not_dropped_and_has_a_limit() {
        let session = Session::in_process();
        let mut served = Served::default();
        served.begin(&session, 3);
        assert!(served.due_mail().is_none() && served.takes_mail());
        served.mail.extend_from_slice(b"mail");
        assert!(!served.takes_mail(), "it is above the limit");
        served.silence(true);
        assert!(served.due_mail().is_none());
        served.silence(false);
        assert_eq!(served.due_mail().map(std::mem::take), Some(b"mail".to_vec()));
        assert!(served.due_mail().is_none());
    }

    #[test]
    fn a_replay_is_nobodys_at_the_place_of_a_client() {
        let session = Session::in_process();
        let mut served = Served::default();
        served.begin(&session, 0);
        served.begin_replay(&session);
        assert_eq!(served.who(), Who { place: usize::MAX, id: session.caller.id });
        served.identify(session.who());
        assert_eq!(served.who(), session.who());
    }

    #[test]
    fn memory_counts_until_the_client_is_back() {
        let mut served = Served::default();
        served.own_input(5);
        served.weigh(10);
        assert_eq!(served.bytes(), 15);
        served.end();
        assert_eq!(served.bytes(), 0);
    }
}
