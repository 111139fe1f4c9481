//! Looks at all members all the time: who leads.
//!
//! openraft orders reigns by term, then by leader: in one term a second member may be elected if
//! its number is greater, which ends the reign of the first. So a member never goes back to an
//! earlier reign, from one life to the next neither, and nobody leads in the reign of another.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use stillframe_history::Connection;

use crate::support::Stop;

/// How long a member may take to answer.
const PATIENCE: Duration = Duration::from_millis(500);
/// No place.
const NOBODY: usize = usize::MAX;

/// Term and leader.
type Reign = (u64, u64);

#[derive(Default)]
struct Seen {
    reigns: BTreeSet<Reign>,
    /// By member, the last that it has said.
    last: BTreeMap<u64, Reign>,
    wrong: Option<String>,
    /// By member and its life, the greatest figure of each: reloads, images begun.
    figures: BTreeMap<(u64, String), [u64; 2]>,
}

struct Shared {
    stop: Stop,
    serves: AtomicUsize,
    seen: Mutex<Seen>,
}

pub(super) struct Watch {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Watch {
    pub(super) fn start(servers: &[SocketAddr]) -> Self {
        let (stop, seen) = (Stop::default(), Mutex::default());
        let shared = Arc::new(Shared { stop, serves: AtomicUsize::new(NOBODY), seen });
        let thread = |(place, &server): (usize, &SocketAddr)| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.watch_member(place, server))
        };
        let threads = servers.iter().enumerate().map(thread).collect();
        Self { shared, threads }
    }

    /// The place of the member that serves, as far as is known.
    pub(super) fn leader(&self) -> Option<usize> {
        Some(self.shared.serves.load(Ordering::Relaxed)).filter(|&place| place != NOBODY)
    }

    /// What must never be seen, if it was.
    pub(super) fn wrong(&self) -> Result<(), String> {
        self.shared.lock().wrong.clone().map_or(Ok(()), Err)
    }

    /// How many reigns there were, how often memory was loaded anew, and how many images were
    /// begun.
    pub(super) fn figures(&self) -> [u64; 3] {
        let seen = self.shared.lock();
        let sum = |which: usize| seen.figures.values().map(|it| it[which]).sum();
        [seen.reigns.len() as u64, sum(0), sum(1)]
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.stop.now();
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // its panic was printed
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch_member(&self, place: usize, server: SocketAddr) {
        let mut connection = None;
        while !self.stop.is_due() {
            std::thread::sleep(Duration::from_millis(10));
            if connection.is_none() {
                connection = Connection::open(server, PATIENCE).ok();
            }
            let info = ["INFO", "raft", "server"].map(str::to_owned).to_vec();
            let asked = connection.as_mut().and_then(|it: &mut Connection| it.ask(&[info]).ok());
            match asked.and_then(|mut replies| replies.pop()) {
                Some(reply) => self.note(place, &reply.text()),
                None => connection = None,
            }
        }
    }

    fn note(&self, place: usize, info: &str) {
        let field = |name: &str| {
            let value = |line: &str| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned);
            info.lines().find_map(value)
        };
        let number = |name: &str| field(name)?.parse::<u64>().ok();
        let id = place as u64 + 1;
        let Some((term, leader)) = number("raft_term").zip(number("raft_leader")) else { return };
        let mut seen = self.lock();
        if leader != 0 {
            let reign = (term, leader);
            seen.reigns.insert(reign);
            let before = seen.last.insert(id, reign).filter(|&before| before > reign);
            if let Some(before) = before {
                let went = format!("member {id} went back from reign {before:?} to {reign:?}");
                seen.wrong.get_or_insert(went);
            }
        }
        let leads = field("raft_role").as_deref() == Some("leader");
        if leads && leader != id {
            seen.wrong.get_or_insert(format!("member {id} leads in the reign of {leader}"));
        }
        match number("raft_serves") {
            Some(1) => self.serves.store(place, Ordering::Relaxed),
            _ => {
                let order = Ordering::Relaxed;
                let _ = self.serves.compare_exchange(place, NOBODY, order, order); // another serves
            }
        }
        let figures =
            [number("raft_reloads"), number("raft_snapshots")].map(Option::unwrap_or_default);
        seen.figures.insert((id, field("run_id").unwrap_or_default()), figures);
    }
}
