//! The network between members: a proxy in front of each, with a line for each other one.

use std::net::SocketAddr;

use stillframe_raft_net::proxy::{Crossing, Direction, Faults, Line};
use tokio::runtime::Runtime;

/// From one member to another, by their places.
pub(super) type Link = (usize, usize);

pub(super) struct Network {
    crossings: Vec<Crossing>,
    /// What bytes meet where nothing is wrong.
    calm: Faults,
    // The last to go: the proxies live in it.
    _runtime: Runtime,
}

impl Network {
    /// In front of members that listen at these ports; bytes a second between two of them, if
    /// bounded.
    pub(super) fn start(ports: &[u16], bandwidth: Option<u64>, seed: u64) -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().expect("a runtime");
        let crossing = |(place, &port): (usize, &u16)| {
            let target = SocketAddr::from(([127, 0, 0, 1], port));
            let callers = (0..ports.len()).filter(|&it| it != place).map(|it| it as u64 + 1);
            let started = Crossing::start(target, callers, seed ^ place as u64);
            runtime.block_on(started).expect("a port for a proxy")
        };
        let crossings = ports.iter().enumerate().map(crossing).collect();
        let calm = Faults { bandwidth, ..Faults::default() };
        let network = Self { crossings, calm, _runtime: runtime };
        network.heal();
        network
    }

    /// What bytes meet where nothing is wrong.
    pub(super) fn calm(&self) -> &Faults {
        &self.calm
    }

    /// Where the others reach a member.
    pub(super) fn address(&self, place: usize) -> SocketAddr {
        self.crossings[place].address()
    }

    /// The line on which one member calls another.
    fn line(&self, (from, to): Link) -> &Line {
        self.crossings[to].line(from as u64 + 1).expect("they are members")
    }

    /// What one member sends to another, in requests and in replies, meets these faults.
    pub(super) fn set(&self, (from, to): Link, faults: &Faults) {
        self.line((from, to)).set(Direction::ToTarget, faults.clone());
        self.line((to, from)).set(Direction::ToCaller, faults.clone());
    }

    /// Cuts the connections that one member has made to another.
    pub(super) fn cut(&self, link: Link) {
        self.line(link).cut();
    }

    /// Whether one member cannot connect to another, and loses its connections.
    pub(super) fn refuse(&self, link: Link, refuses: bool) {
        self.line(link).refuse(refuses);
        if refuses {
            self.line(link).cut();
        }
    }

    /// Whether what one member sends to another comes twice, on connections to come.
    pub(super) fn double(&self, link: Link, doubles: bool) {
        self.line(link).double(doubles);
        self.line(link).cut();
    }

    /// Flips a bit of what one member sends to another next.
    pub(super) fn damage(&self, (from, to): Link) {
        self.line((from, to)).damage(Direction::ToTarget);
        self.line((to, from)).damage(Direction::ToCaller);
    }

    pub(super) fn heal(&self) {
        for to in 0..self.crossings.len() {
            for from in (0..self.crossings.len()).filter(|&from| from != to) {
                self.line((from, to)).heal();
                self.set((from, to), &self.calm);
            }
        }
    }
}
