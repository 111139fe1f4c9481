//! The state of one client between two requests.

use std::net::SocketAddr;
use std::time::Instant;

use stillframe_resp::Protocol;

use crate::node::config::{OutputLimit, OutputLimits};

use crate::connections::client::{Listener, Replica, Subscriptions, TrackingMode, Who};
use stillframe_commands::{Address, Caller, Requests};

/// State of one client that commands see and change.
pub(crate) struct Session {
    /// The client as commands on data know it.
    pub(crate) caller: Caller,
    /// Protocol of replies.
    pub(crate) protocol: Protocol,
    /// Whether the password was given, or none is required.
    pub(crate) authenticated: bool,
    /// The number of its user.
    pub(crate) user: usize,
    /// Name given by CLIENT SETNAME, or empty.
    pub(crate) name: Vec<u8>,
    /// The library of the client, as it has told.
    pub(crate) library: Library,
    /// Its subscriptions, if any.
    pub(crate) subscriptions: Option<Box<Subscriptions>>,
    /// Its mode of CLIENT TRACKING, if on.
    pub(crate) tracking: Option<Box<TrackingMode>>,
    /// CLIENT NO-EVICT is on.
    pub(crate) spared: bool,
    /// CLIENT NO-TOUCH is on: its requests are no uses of keys, but for TOUCH.
    pub(crate) touches_nothing: bool,
    /// READONLY is on: it may read at a member that follows.
    pub(crate) reads_locally: bool,
    /// Its last requests go to the leader of the group, and all that follow.
    pub(crate) to_forward: bool,
    /// It is the connection of another member for one of its clients: it is not passed on again.
    pub(crate) forwarded: bool,
    /// The user and the password that it gave, to pass them on.
    pub(crate) credentials: Option<Box<[Vec<u8>; 2]>>,
    /// The branch on which its requests run.
    pub(crate) branch: Option<u64>,
    /// It receives every request (MONITOR).
    pub(crate) monitors: bool,
    /// Whether it gets replies.
    pub(crate) replies: Replies,
    /// The request that waits until nothing postpones it any more.
    pub(crate) postponed: Option<Box<Requests>>,
    /// Its state as a replica, if it is one or announces to become one.
    pub(crate) replica: Option<Box<Replica>>,
    /// The offset in the stream of replication up to which its own writes reach.
    pub(crate) wrote_up_to: u64,
    /// Replies since the last flush show data, so that they wait for the group, or the log.
    pub(crate) shows_data: bool,
    /// The places of the keys that replies since then show, which wait for these keys alone.
    pub(crate) reads: Vec<u16>,
    /// In a group: it has changed something, and nobody knows yet whether that counts.
    pub(crate) in_doubt: bool,
    /// Close the connection once the replies are sent.
    pub(crate) closing: bool,
    /// The server's address it is connected to.
    pub(crate) local: Address,
    /// Descriptor of its socket, for display.
    pub(crate) fd: i32,
    /// When it connected.
    pub(crate) connected: Instant,
    /// When it last sent anything.
    pub(crate) active: Instant,
}

/// What CLIENT SETINFO sets.
#[derive(Debug, Default)]
pub(crate) struct Library {
    /// LIB-NAME
    pub(crate) name: Vec<u8>,
    /// LIB-VER
    pub(crate) version: Vec<u8>,
}

/// The state of CLIENT REPLY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replies {
    /// They are sent.
    Sent,
    /// None is sent until CLIENT REPLY ON.
    Dropped,
    /// The reply to the next request is not sent.
    SkipNext,
    /// The reply to the request under way is not sent.
    Skip,
}

/// The flags of all that a request runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    some: u32,
    lacked: u32,
}

impl Needs {
    /// Whether something of it has one of `flags`.
    #[inline]
    pub(crate) fn has(self, flags: u32) -> bool {
        self.some & flags != 0
    }

    /// Whether something of it lacks `flag`.
    #[inline]
    pub(crate) fn lacks(self, flag: u32) -> bool {
        self.lacked & flag != 0
    }
}

impl Session {
    /// State of a client that has just connected.
    pub(crate) fn new(
        id: u64,
        peer: Address,
        local: Address,
        fd: i32,
        authenticated: bool,
        now: Instant,
    ) -> Self {
        Self {
            caller: Caller::new(id, peer),
            protocol: Protocol::Resp2,
            authenticated,
            user: crate::node::acl::DEFAULT,
            name: Vec::new(),
            library: Library::default(),
            subscriptions: None,
            tracking: None,
            spared: false,
            touches_nothing: false,
            reads_locally: false,
            to_forward: false,
            forwarded: false,
            credentials: None,
            branch: None,
            monitors: false,
            replies: Replies::Sent,
            postponed: None,
            replica: None,
            wrote_up_to: 0,
            shows_data: false,
            reads: Vec::new(),
            in_doubt: false,
            closing: false,
            local,
            fd,
            connected: now,
            active: now,
        }
    }

    /// What its request with these flags needs; that of EXEC needs what its queue does, too.
    #[inline]
    pub(crate) fn needs(&self, flags: u32, is_exec: bool) -> Needs {
        let own = Needs { some: flags, lacked: !flags };
        match &self.caller.transaction {
            Some(open) if is_exec => {
                let [some, lacked] = open.requests.flags();
                Needs { some: own.some | some, lacked: own.lacked | lacked }
            }
            _ => own,
        }
    }

    /// Whether the reply that is due now is not sent; the next one is, after CLIENT REPLY SKIP.
    pub(crate) fn drops_reply(&mut self) -> bool {
        let drops = self.replies != Replies::Sent;
        if self.replies == Replies::Skip {
            self.replies = Replies::Sent;
        }
        drops
    }

    /// Whether nothing of it is kept here beyond what a greeting tells another server.
    pub(crate) fn is_portable(&self) -> bool {
        self.is_between_transactions() && !self.is_settled()
    }

    /// Whether it would be portable but for what only the end of the connection takes from it.
    pub(crate) fn is_stuck(&self) -> bool {
        self.is_between_transactions() && self.is_settled()
    }

    fn is_between_transactions(&self) -> bool {
        let caller = &self.caller;
        let is_free = !caller.internal && caller.transaction.is_none() && caller.watched_bytes == 0;
        is_free && self.branch.is_none() && self.replica.is_none()
    }

    /// Whether it listens, or does not get each reply.
    fn is_settled(&self) -> bool {
        let listens = self.subscriptions.is_some() || self.tracking.is_some() || self.monitors;
        listens || self.replies != Replies::Sent
    }

    /// The limit on its unread replies, which depends on its class.
    pub(crate) fn output_limit(&self, limits: &OutputLimits) -> OutputLimit {
        if self.replica.as_ref().is_some_and(|replica| replica.is_real()) {
            // The unsent part of its stream is checked where it is sent.
            OutputLimit::default()
        } else if self.subscriptions.is_some() || self.monitors {
            limits.pubsub
        } else {
            limits.normal
        }
    }

    /// The client as the list of channels knows it.
    pub(crate) fn listener(&mut self) -> Listener<'_> {
        (&mut self.subscriptions, self.caller.place)
    }

    /// The client as others know it.
    pub(crate) fn who(&self) -> Who {
        Who { place: self.caller.place, id: self.caller.id }
    }

    /// Bytes of memory of its queued requests, watched keys, lists of names and subscriptions.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        let listens = self.subscriptions.as_ref().map_or(0, |own| own.bytes());
        let tracks = self.tracking.as_ref().map_or(0, |mode| mode.prefix_bytes);
        let lists = self.caller.fieldsets.as_ref().map_or(0, |lists| lists.memory());
        self.queued_bytes() + self.caller.watched_bytes + lists + listens + tracks
    }

    /// Bytes of memory of its queued requests and a postponed one.
    #[inline]
    fn queued_bytes(&self) -> usize {
        let queued = self.caller.transaction.as_deref().map(|open| &open.requests);
        let queues = [queued, self.postponed.as_deref()].into_iter().flatten();
        queues.map(Requests::memory).sum()
    }

    /// The session of a client without a socket.
    #[cfg(any(test, feature = "in-process"))]
    pub(crate) fn in_process() -> Self {
        let mut session = Self::internal();
        (session.caller.internal, session.caller.id) = (false, u64::MAX);
        session
    }

    /// The session of requests that come from a log, an append-only file or a primary.
    pub(crate) fn internal() -> Self {
        let nobody = Address::Net(SocketAddr::from(([127, 0, 0, 1], 0)));
        let mut session = Self::new(0, nobody.clone(), nobody, -1, true, Instant::now());
        session.caller.internal = true;
        session
    }
}
