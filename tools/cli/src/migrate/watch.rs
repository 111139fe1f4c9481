//! All links at once: begins and ends them as the cluster changes, and knows when all have caught
//! up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::connection::{Connection, Login};
use super::link::{Follower, Link, Phase};
use super::topology::{Address, Primary, Topology};
use super::{Moved, Shared};

/// From one look at the cluster to the next.
const PERIOD: Duration = Duration::from_millis(500);
/// From one line about the progress to the next.
const REPORT_PERIOD: Duration = Duration::from_secs(5);
/// From one sign of life for the target to the next.
const PING_PERIOD: Duration = Duration::from_secs(5);
/// Longest wait in one attempt to have caught up.
const CATCH_UP_TIME: Duration = Duration::from_secs(1);

/// See the head of this file.
pub(super) struct Watch<'s, 'e> {
    scope: &'s Scope<'s, 'e>,
    shared: &'s Shared,
    links: Vec<Running<'s>>,
    /// Connections to nodes, to ask them.
    nodes: BTreeMap<Address, Connection>,
    /// Nodes that were known at some time.
    known: Vec<Address>,
    target: Connection,
    /// The target does not answer.
    is_lost: bool,
    /// Slots have moved, and links have not begun anew since.
    has_moved: bool,
    /// Whether all nodes agree on who has which slots.
    is_settled: bool,
    begun: Instant,
    reported: Instant,
    pinged: Instant,
}

/// A link with its thread.
struct Running<'s> {
    link: Arc<Link>,
    thread: ScopedJoinHandle<'s, ()>,
}

fn nodes(connection: &mut Connection, address: &Address) -> Result<Topology, String> {
    Topology::parse(&connection.ask_line("CLUSTER NODES")?.text(), address)
}

/// The cluster that a node belongs to, which must be at rest.
pub(super) fn first_look(from: &Address, login: &Login) -> Result<Topology, String> {
    let connection = &mut Connection::open(from, login)?;
    let topology =
        nodes(connection, from).map_err(|why| match why.contains("cluster support") {
            true => format!("{from} is no node of a cluster: follow it by REPLICAOF"),
            false => why,
        })?;
    if topology.primaries.is_empty() {
        return Err(format!("{from} knows no primary with slots"));
    }
    for primary in &topology.primaries {
        let connection = &mut Connection::open(&primary.address, login)?;
        let view = nodes(connection, &primary.address)?;
        if view.is_moving || view.primaries != topology.primaries {
            return Err(format!(
                "{} is moving slots, or does not agree with {from} about them: let that end first",
                primary.address
            ));
        }
    }
    Ok(topology)
}

impl<'s, 'e> Watch<'s, 'e> {
    /// Begins to follow all primaries.
    pub(super) fn new(
        scope: &'s Scope<'s, 'e>,
        shared: &'s Shared,
        topology: Topology,
        target: Connection,
    ) -> Self {
        let now = Instant::now();
        let mut watch = Self {
            scope,
            shared,
            links: Vec::new(),
            nodes: BTreeMap::new(),
            known: topology.nodes,
            target,
            is_lost: false,
            has_moved: false,
            is_settled: true,
            begun: now,
            reported: now,
            pinged: now,
        };
        topology.primaries.into_iter().for_each(|primary| watch.begin_link(primary));
        watch
    }

    /// Begins a link.
    fn begin_link(&mut self, primary: Primary) {
        let Primary { address, slots } = primary;
        tracing::info!("following {address}, with the slots {slots}");
        let link = Arc::new(Link::new(address, slots));
        let (shared, its) = (self.shared, Arc::clone(&link));
        let thread = self.scope.spawn(move || Follower::new(&its, shared).run());
        self.links.push(Running { link, thread });
    }

    /// Watches until the operator says stop, or everything has caught up if that is wished; then
    /// makes the target a primary.
    pub(super) fn run(&mut self, stop: &AtomicBool, until: bool) -> Result<Moved, String> {
        let mut was_caught_up = false;
        loop {
            let is_stopped = stop.load(Ordering::SeqCst);
            self.check_target()?;
            let caught_up = self.catch_up()?;
            if caught_up && (is_stopped || until) {
                return self.finish();
            }
            if caught_up && !was_caught_up {
                tracing::info!(
                    "caught up: the target has what all {} primaries wrote; Ctrl-C ends here",
                    self.links.len()
                );
            }
            was_caught_up = caught_up || was_caught_up && self.follows_all();
            if !caught_up {
                self.report();
            }
            std::thread::sleep(if is_stopped { PERIOD / 10 } else { PERIOD });
        }
    }

    /// Looks at the target and at the cluster.
    fn check_target(&mut self) -> Result<(), String> {
        if let Some(why) = self.shared.failure() {
            return Err(why);
        }
        if let Some(ended) = self.links.iter().find(|it| it.thread.is_finished()) {
            return Err(format!("the link to {} has ended by a fault", ended.link.address()));
        }
        let to = &self.shared.to;
        let silence = self.shared.feed.silence().unwrap_or(self.begun.elapsed());
        let timeout = self.shared.timeout;
        if silence > timeout {
            return Err(format!("nothing was heard of the target {to} for {timeout:?}"));
        }
        if self.pinged.elapsed() > PING_PERIOD {
            self.pinged = Instant::now();
            self.shared.feed.push_own(&[b"PING"]);
        }
        match self.shared.note_state(&mut self.target, false) {
            Ok(()) => self.is_lost = false,
            Err(why) => {
                if !std::mem::replace(&mut self.is_lost, true) {
                    tracing::warn!("{why}");
                }
                if let Ok(again) = Connection::open(to, &self.shared.login) {
                    self.target = again;
                }
            }
        }
        self.look_at_cluster();
        self.shared.judge()
    }

    /// The connection to a node, if it can be reached.
    fn node(&mut self, address: &Address) -> Option<&mut Connection> {
        if !self.nodes.contains_key(address) {
            let connection = Connection::open(address, &self.shared.cluster).ok()?;
            self.nodes.insert(address.clone(), connection);
        }
        self.nodes.get_mut(address)
    }

    fn view(&mut self, address: &Address) -> Option<Topology> {
        let view = nodes(self.node(address)?, address);
        if view.is_err() {
            self.nodes.remove(address);
        }
        view.ok()
    }

    fn look_at_cluster(&mut self) {
        let own: Vec<Address> = self.links.iter().map(|it| it.link.address()).collect();
        let mut views: Vec<Topology> = own.iter().filter_map(|it| self.view(it)).collect();
        if views.is_empty() {
            let known = self.known.clone();
            views.extend(known.iter().find_map(|it| self.view(it)));
        }
        let told = self.links.iter().filter(|it| it.link.take_move()).count() > 0;
        self.has_moved |= told || views.iter().any(|view| view.is_moving);
        let Some(first) = views.first() else {
            self.is_settled = false;
            return;
        };
        self.is_settled =
            views.iter().all(|view| !view.is_moving && view.primaries == first.primaries);
        if self.has_moved || !self.is_settled {
            self.shared.note_move();
        }
        if self.is_settled {
            let Topology { primaries, nodes, .. } = views.swap_remove(0);
            self.known = nodes;
            self.follow(primaries);
        }
    }

    /// Makes the links those of `primaries`, on which all nodes agree.
    fn follow(&mut self, primaries: Vec<Primary>) {
        let is_there = |link: &Link| primaries.iter().any(|primary| primary.slots == link.slots);
        let (kept, gone): (Vec<_>, Vec<_>) =
            self.links.drain(..).partition(|it| is_there(&it.link));
        self.links = kept;
        if self.has_moved || !gone.is_empty() {
            tracing::warn!("slots have moved: every primary starts anew");
            self.shared.note_move();
            self.shared.feed.end_round(self.shared.feed.round());
        }
        for Running { link, thread } in gone {
            tracing::warn!("{} no longer has the slots {}", link.address(), link.slots);
            link.stop();
            let _ = thread.join();
        }
        for primary in primaries {
            let running = self.links.iter().find(|it| it.link.slots == primary.slots);
            match running.map(|it| &it.link) {
                None => self.begin_link(primary),
                Some(link) if link.address() != primary.address => {
                    let (old, new, slots) = (link.address(), &primary.address, &primary.slots);
                    tracing::warn!("{new} has taken over the slots {slots} from {old}");
                    link.redirect(primary.address);
                }
                Some(_) => {}
            }
        }
        self.has_moved = false;
    }

    fn follows_all(&self) -> bool {
        let mut links = self.links.iter();
        links.all(|it| matches!(it.link.phase(), Phase::Following { .. }))
    }

    /// Whether the target has applied all that the primaries had written when this was called.
    fn catch_up(&mut self) -> Result<bool, String> {
        let is_stale = self.shared.feed.is_stale();
        let is_moving = !self.is_settled || self.has_moved;
        if is_stale || is_moving || self.shared.trouble().is_some() || !self.follows_all() {
            return Ok(false);
        }
        let round = self.shared.feed.round();
        let links: Vec<Arc<Link>> = self.links.iter().map(|it| Arc::clone(&it.link)).collect();
        let mut ends = Vec::new();
        for link in &links {
            let address = link.address();
            let info = self.node(&address).map(|it| it.info("replication"));
            let end = info.and_then(Result::ok);
            let end = end.and_then(|it| it.field("master_repl_offset")?.parse::<u64>().ok());
            let Some(end) = end else {
                self.nodes.remove(&address);
                return Ok(false);
            };
            ends.push(end);
        }
        let begun = Instant::now();
        let has_read = |(link, end): (&Arc<Link>, &u64)| match link.phase() {
            Phase::Following { offset } => offset >= *end,
            _ => false,
        };
        while !links.iter().zip(&ends).all(has_read) {
            if begun.elapsed() > CATCH_UP_TIME {
                return Ok(false);
            }
            std::thread::sleep(PERIOD / 100);
        }
        Ok(self.is_applied(CATCH_UP_TIME) && self.shared.feed.round() == round)
    }

    /// Whether the target applies all that waits for it within some time.
    fn is_applied(&self, time: Duration) -> bool {
        let (end, begun) = (self.shared.feed.end(), Instant::now());
        while !self.shared.feed.is_applied(end) {
            if begun.elapsed() > time || self.shared.is_over() {
                return false;
            }
        }
        true
    }

    /// Ends the links, and makes the target a primary.
    fn finish(&mut self) -> Result<Moved, String> {
        let round = self.shared.feed.round();
        let primaries = self.links.len();
        self.links.iter().for_each(|running| running.link.stop());
        for Running { thread, .. } in self.links.drain(..) {
            let _ = thread.join();
        }
        let to = &self.shared.to;
        if !self.is_applied(self.shared.timeout) || self.shared.feed.round() != round {
            let why = self.shared.failure();
            return Err(why.unwrap_or_else(|| format!("the target {to} has gone at the end")));
        }
        self.shared.note_state(&mut self.target, false)?;
        if let Some(why) = self.shared.trouble() {
            return Err(why);
        }
        self.target.ask_line("REPLICAOF NO ONE")?;
        Ok(Moved { primaries, keys: self.target.info("keyspace")?.keys() })
    }

    /// Says now and then how far all is.
    fn report(&mut self) {
        if self.reported.elapsed() < REPORT_PERIOD {
            return;
        }
        self.reported = Instant::now();
        for Running { link, .. } in &self.links {
            let mb = |bytes: u64| bytes >> 20;
            let text = match link.phase() {
                Phase::Asking => "asking for its data".to_owned(),
                Phase::Receiving { bytes, total: 0 } => format!("image, {} MB", mb(bytes)),
                Phase::Receiving { bytes, total } => {
                    format!("image, {} of {} MB", mb(bytes), mb(total))
                }
                Phase::Restoring { keys } => format!("image, {keys} keys passed on"),
                Phase::Following { offset } => format!("following, at offset {offset}"),
            };
            tracing::info!("{}: {text}", link.address());
        }
        let (waiting, to) = (self.shared.feed.waiting(), &self.shared.to);
        let moving =
            if self.is_settled && !self.has_moved { "" } else { "; slots are being moved" };
        tracing::info!("{to}: {waiting} bytes to apply{moving}");
    }
}
