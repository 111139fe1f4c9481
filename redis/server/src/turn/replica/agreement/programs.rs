//! Random programs: clients, expiry, eviction, pauses, cuts and changes of the primary.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::fleet::{ALL, Fleet, GUESTS};
use super::seeds;
use super::words::{pick, request};
use crate::state::eviction::counted_bytes;
use stillframe_commands::Random;
use stillframe_commands::write_request;

/// Rounds of a program: after each, all sides are compared.
const ROUNDS: usize = 25;
/// Turns of a round.
const STEPS: usize = 12;
/// Longer than a test.
const PAUSE: Duration = Duration::from_secs(100_000);

/// What a program does beside the requests of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    /// Connections are cut, and replicas follow anew.
    cuts: bool,
    /// Replicas take the primary's place.
    changes: bool,
    /// Keys are evicted.
    evicts: bool,
    /// Replicas take writes of their own, to keys of their own.
    own_writes: bool,
}

struct Program {
    fleet: Fleet,
    random: Random,
    plan: Plan,
    /// What was done since all agreed.
    steps: Vec<String>,
    /// Images that were needed, as far as the program shows.
    images: u64,
    /// The primary has changed since.
    changed: bool,
    /// Images that were cut off, perhaps, and are sent again.
    spare: u64,
}

impl Program {
    fn new(seed: u64, plan: Plan) -> Self {
        let fleet = Fleet::start(3, seed, true);
        let images = fleet.replicas().count() as u64;
        let (random, steps) = (Random::with_seed(seed), Vec::new());
        Self { fleet, random, plan, steps, images, changed: false, spare: 0 }
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.random.below(one_in) == 0
    }

    fn run(&mut self) -> Result<(), String> {
        self.fleet.converge();
        let expires = self.chance(3);
        self.fleet.nodes[0].server.state.clock.expire_actively(expires);
        if self.chance(2) {
            self.operate("CONFIG SET notify-keyspace-events KEA");
        }
        if self.plan.own_writes {
            for who in 1..self.fleet.nodes.len() {
                self.fleet.nodes[who].ask("CONFIG SET replica-read-only no");
            }
        }
        for _ in 0..ROUNDS {
            for _ in 0..STEPS {
                self.step();
            }
            (0..self.fleet.nodes.len()).for_each(|who| self.unpause(who));
            let converged = catch_unwind(AssertUnwindSafe(|| self.fleet.converge()));
            if converged.is_err() {
                return Err(self.steps.join("\n"));
            }
            if let Some(difference) = self.fleet.disagreement() {
                return Err(format!("{}\n{difference}", self.steps.join("\n")));
            }
            let found = self.fleet.images();
            if !(self.images..=self.images + self.spare).contains(&found) {
                let steps = self.steps.join("\n");
                return Err(format!("{steps}\n{found} images, {} were needed", self.images));
            }
            self.images = found;
            self.steps.clear();
            (self.changed, self.spare) = (false, 0);
        }
        Ok(())
    }

    /// Ends a pause of clients, which holds the operator, too.
    fn unpause(&mut self, who: usize) {
        let server = &mut self.fleet.nodes[who].server;
        if server.state.hub.is_paused() {
            self.steps.push(format!("{who} is paused no more"));
            server.state.unpause(&mut server.keyspace);
        }
    }

    /// Asks as the operator of the primary.
    fn operate(&mut self, line: &str) {
        let primary = self.fleet.primary;
        self.unpause(primary);
        self.steps.push(format!("{primary} operator: {line}"));
        let reply = self.fleet.nodes[primary].ask(line);
        assert!(!reply.starts_with('-') || line.starts_with("BG"), "{line}: {reply}");
    }

    fn step(&mut self) {
        let clock = &self.fleet.clock;
        clock.set(clock.get() + self.random.below(12) as i64);
        self.disturb();
        self.fleet.reconnect();
        let primary = self.fleet.primary;
        self.let_send(primary, "k");
        self.fleet.nodes[primary].turn();
        for who in self.fleet.replicas() {
            if self.plan.own_writes {
                self.let_send(who, "w");
            }
            let budget = match self.random.below(4) {
                0 => 0,
                1 => self.random.below(100),
                _ => ALL,
            };
            self.fleet.pass(who, budget);
            self.fleet.nodes[who].turn();
        }
    }

    /// Has some clients of a node send requests, which all run in its next turn.
    fn let_send(&mut self, who: usize, prefix: &str) {
        for guest in 1..GUESTS {
            if !self.fleet.nodes[who].is_free(guest) || self.chance(3) {
                continue;
            }
            for _ in 0..1 + self.random.below(3) {
                let now = self.fleet.clock.get();
                let args = match self.random.below(12) {
                    0 => vec![b"MULTI".to_vec()],
                    1 | 2 => vec![b"EXEC".to_vec()],
                    _ => request(&mut self.random, now, prefix),
                };
                // Of all keys and of libraries a replica has only what its primary has.
                let is_shared = |word: &&[u8]| {
                    let names = ["STILLFRAME", "SWAPDB", "FLUSHDB", "FLUSHALL", "FUNCTION"];
                    names
                        .iter()
                        .any(|name| word.windows(name.len()).any(|part| part == name.as_bytes()))
                };
                if prefix == "w" && args.iter().any(|word| is_shared(&word.as_slice())) {
                    continue;
                }
                let shown: Vec<_> = args.iter().map(|arg| arg.escape_ascii().to_string()).collect();
                self.steps.push(format!("{who} client {guest} at {now}: {}", shown.join(" ")));
                let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
                self.fleet.nodes[who].send(guest, &args);
            }
        }
    }

    /// Does something that no client asks for, now and then.
    fn disturb(&mut self) {
        let primary = self.fleet.primary;
        match self.random.below(40) {
            0..=1 => {
                let clock = &mut self.fleet.nodes[primary].server.state.clock;
                clock.expire_actively(!clock.expires());
                self.steps.push(format!("{primary} expires actively: {}", clock.expires()));
            }
            2..=4 if self.plan.evicts => self.limit_memory(),
            5..=7 => {
                let (who, writes_only) = (self.random.below(3), self.chance(2));
                self.steps.push(format!("{who} is paused, writes only: {writes_only}"));
                let server = &mut self.fleet.nodes[who].server;
                server.state.hub.pause(PAUSE, writes_only);
                server.keyspace.spare_expired(true);
            }
            8..=11 => {
                let who = self.random.below(3);
                self.unpause(who);
            }
            12..=15 => {
                let guest = 1 + self.random.below(GUESTS - 1);
                let id = self.fleet.nodes[primary].guests[guest].id;
                self.operate(&format!("CLIENT UNBLOCK {id}"));
            }
            16 => self.operate("BGREWRITEAOF"),
            17..=19 if self.plan.cuts => {
                let who = self.any_replica();
                self.steps.push(format!("the link of {who} is cut"));
                self.interrupt(who);
                self.fleet.cut(who);
            }
            20..=21 if self.plan.cuts => {
                let who = self.any_replica();
                self.steps.push(format!("{who} follows anew"));
                self.interrupt(who);
                self.fleet.follow(who, self.fleet.whom[who], true);
            }
            22 if self.plan.changes => self.change_primary(),
            _ => {}
        }
    }

    /// The link of a replica is about to end. It may be taking an image since the last change of
    /// the primary.
    fn interrupt(&mut self, who: usize) {
        self.spare += u64::from(self.changed && !self.fleet.nodes[who].is_connected());
    }

    fn any_replica(&mut self) -> usize {
        let replicas: Vec<usize> = self.fleet.replicas().collect();
        pick(&mut self.random, &replicas)
    }

    fn limit_memory(&mut self) {
        let policies =
            ["allkeys-lru", "allkeys-lfu", "volatile-ttl", "allkeys-random", "noeviction"];
        let policy = pick(&mut self.random, &policies);
        let server = &self.fleet.nodes[self.fleet.primary].server;
        let bytes = counted_bytes(&server.keyspace, &server.state) as usize;
        let data = server.keyspace.data_bytes();
        let limit = match self.random.below(3) {
            0 => 0,
            _ => bytes - data / (2 + self.random.below(20)),
        };
        self.operate(&format!("CONFIG SET maxmemory-policy {policy} maxmemory {limit}"));
    }

    /// A replica, which may be behind, takes the primary's place; the others follow it or each
    /// other. A replica that is ahead of the one it follows needs an image, and with the image
    /// forgets what others could go on from.
    fn change_primary(&mut self) {
        self.operate("CONFIG SET maxmemory 0");
        // After two changes at once it is unclear who follows whom.
        if std::mem::replace(&mut self.changed, true) || self.chance(2) {
            (0..self.fleet.nodes.len()).for_each(|who| self.unpause(who));
            self.fleet.converge();
        }
        let new = self.any_replica();
        self.steps.push(format!("{new} takes the place of {}", self.fleet.primary));
        self.fleet.promote(new);
        let mut others: Vec<usize> = self.fleet.replicas().collect();
        if self.chance(2) {
            others.reverse();
        }
        let (mut whom, mut forgets) = (new, false);
        for who in others {
            // The rest of the old primary's last turn is sent as it becomes a replica.
            self.fleet.follow(who, whom, true);
            let end = self.fleet.nodes[whom].offset();
            let needs = forgets || self.fleet.nodes[who].offset() > end;
            self.images += u64::from(needs);
            if self.chance(2) {
                (whom, forgets) = (who, needs);
            }
        }
    }
}

fn run(plan: Plan, count: usize) {
    for seed in seeds(count) {
        println!("{plan:?} STILLFRAME_SEED={seed}");
        if let Err(problem) = Program::new(seed, plan).run() {
            panic!("{plan:?}, STILLFRAME_SEED={seed}:\n{problem}");
        }
    }
}

const PLAIN: Plan = Plan { cuts: false, changes: false, evicts: false, own_writes: false };

#[test]
fn log_and_replicas_hold_what_memory_holds() {
    run(PLAIN, 6);
}

#[test]
fn log_and_replicas_hold_what_memory_holds_while_keys_are_evicted() {
    run(Plan { evicts: true, ..PLAIN }, 4);
}

#[test]
fn log_and_replicas_hold_what_memory_holds_after_cuts_and_changes_of_the_primary() {
    run(Plan { cuts: true, ..PLAIN }, 3);
    run(Plan { cuts: true, changes: true, evicts: true, ..PLAIN }, 4);
}

#[test]
fn the_log_of_a_replica_that_takes_writes_holds_what_its_memory_holds() {
    run(Plan { cuts: true, own_writes: true, ..PLAIN }, 4);
}

/// A key expires in the database that takes another's place, and a client waits for its name.
#[test]
fn what_a_swap_finds_expired_is_propagated_after_the_swap() {
    let mut fleet = Fleet::start(2, 1, true);
    fleet.converge();
    let mut bytes = Vec::new();
    write_request(&mut bytes, &[b"BLPOP", b"k", b"0"]);
    let node = &mut fleet.nodes[0];
    node.server.state.clock.expire_actively(false);
    node.send(1, &[b"BLPOP", b"k", b"0"]);
    node.turn();
    for line in ["SET k live", "SELECT 1", "RPUSH k x", "PEXPIRE k 30"] {
        assert!(!node.ask(line).starts_with('-'), "{line}");
    }
    fleet.clock.set(fleet.clock.get() + 100);
    assert_eq!(fleet.nodes[0].ask("SWAPDB 0 1"), "+OK\r\n");
    fleet.converge();
    assert_eq!(fleet.disagreement(), None);
    assert_eq!(fleet.nodes[0].contents().len(), 1, "the one that did not expire");
}
