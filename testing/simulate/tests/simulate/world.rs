//! A run of a plan: one thread, one clock, a millisecond after the other.

use std::fmt::Write as _;

use stillframe_history::{Budget, Call, Command, Key, Operation, Verdict, check, find_anomaly};
use stillframe_peers::Random;

use crate::client::{Client, all_reads};
use crate::machine;
use crate::member::{End, Member};
use crate::network::Network;
use crate::plan::{Plan, SETTLED, What};

/// How long a group that is whole again may take to serve, and to agree.
const WHOLE: u64 = 60_000;
/// How much the check of a history may cost.
const BUDGET: Budget = Budget { steps: 2_000_000, states: 100_000 };
/// Most lines of a story.
const LINES: usize = 4000;

/// What a run has shown.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// All that has happened, as a number: the same for the same plan.
    pub(crate) trace: u64,
    /// What must not be.
    pub(crate) wrong: Option<String>,
    pub(crate) story: Vec<String>,
    pub(crate) calls: usize,
    pub(crate) returned: usize,
    /// Bytes between members.
    pub(crate) bytes: u64,
    pub(crate) terms: u64,
    /// Milliseconds that were simulated.
    pub(crate) ms: u64,
    pub(crate) undecided: bool,
}

struct World<'p> {
    plan: &'p Plan,
    network: Network,
    members: Vec<Member>,
    clients: Vec<Client>,
    random: Random,
    now: u64,
    /// What ends when.
    ends: Vec<(u64, Ends)>,
    leader: Option<(u64, u64)>,
    report: Report,
}

/// What comes to an end.
enum Ends {
    Cut(u64, u64),
    Away(u64),
    SlowDisk(u64),
    SlowNetwork,
}

/// Runs a plan.
pub(crate) fn run(plan: &Plan) -> Report {
    machine::enter(plan.seed);
    stillframe_raft_net::draw_ids_by(plan.seed);
    let mut world = World::new(plan);
    let wrong = world.live().and_then(|()| world.judge()).err();
    let (trace, bytes) = world.network.trace();
    world.note(trace, b"network");
    let World { report, now, clients, .. } = world;
    let done = clients.iter().flat_map(|client| &client.done);
    let returned = done.filter(|it| it.replies().is_some()).count();
    Report { wrong, bytes, returned, ms: now, ..report }
}

impl<'p> World<'p> {
    fn new(plan: &'p Plan) -> Self {
        Self {
            plan,
            network: Network::new(plan.seed ^ 1, plan.quality),
            members: (1..=plan.members).map(Member::new).collect(),
            clients: (0..plan.clients).map(|number| Client::new(number, plan)).collect(),
            random: Random::with_seed(plan.seed ^ 2),
            now: 0,
            ends: Vec::new(),
            leader: None,
            report: Report::default(),
        }
    }

    /// All that happens.
    fn live(&mut self) -> Result<(), String> {
        for at in 0..self.members.len() {
            self.start(at)?;
        }
        let mut faults = self.plan.faults.iter().peekable();
        while self.now < self.plan.lasts {
            while let Some(fault) = faults.next_if(|fault| fault.at <= self.now) {
                self.go_wrong(&fault.what);
            }
            self.tick(true)?;
        }
        self.mend()?;
        let end = self.now + WHOLE;
        while self.clients.iter().any(|client| !client.is_idle()) && self.now < end {
            self.tick(false)?;
        }
        self.serve_again()?;
        self.agree()
    }

    fn tick(&mut self, calls: bool) -> Result<(), String> {
        self.now += 1;
        let ended: Vec<Ends> = {
            let now = self.now;
            self.ends.extract_if(.., |(at, _)| *at <= now).map(|(_, what)| what).collect()
        };
        for what in ended {
            self.end(what)?;
        }
        self.network.advance(self.now);
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            if let Err(why) = member.go_on(self.now) {
                return Err(format!("member {} has ended by itself: {why}", member.id));
            }
        }
        for at in 0..self.clients.len() {
            let client = &mut self.clients[at];
            let before = client.done.len();
            client.go_on(self.plan, &self.members, self.now, calls);
            if client.done.len() > before {
                let line = client.done[before].to_string();
                self.report.calls += 1;
                self.note(self.now, line.as_bytes());
                self.tell(line);
            }
        }
        if self.now.is_multiple_of(10) {
            self.note_leader()?;
            for member in &mut self.members {
                member.ping(self.now)?;
            }
        }
        Ok(())
    }

    fn note(&mut self, number: u64, bytes: &[u8]) {
        let mut trace = self.report.trace ^ number;
        for &byte in bytes.iter().chain(&[0xff]) {
            trace = (trace ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(5);
        }
        self.report.trace = trace;
    }

    fn tell(&mut self, line: impl Into<String>) {
        if self.report.story.len() < LINES {
            let mut text = String::new();
            let _ = write!(text, "{:>8} ms  {}", self.now, line.into()); // to a text
            self.report.story.push(text);
        }
    }

    /// The member that leads in the latest term, as it says itself.
    fn leads(&self) -> Option<(u64, u64)> {
        let leads = |member: &Member| Some((member.leads()?, member.id));
        self.members.iter().filter_map(leads).max()
    }

    fn note_leader(&mut self) -> Result<(), String> {
        let now = self.leads();
        if now != self.leader {
            self.leader = now;
            let line = match now {
                Some((term, id)) => {
                    self.report.terms = self.report.terms.max(term);
                    format!("member {id} leads in term {term}")
                }
                None => "nobody leads".to_owned(),
            };
            self.note(self.now, line.as_bytes());
            self.tell(line.clone());
            if self.plan.is_calm && self.now > SETTLED {
                return Err(format!("{line}, though the leader before was well"));
            }
        }
        Ok(())
    }

    fn start(&mut self, at: usize) -> Result<(), String> {
        let started = self.members[at].start(self.plan, &self.network, self.now);
        let id = self.members[at].id;
        self.tell(format!("member {id} starts"));
        started.map_err(|why| format!("member {id} cannot start: {why}"))
    }

    fn go_wrong(&mut self, what: &What) {
        self.tell(format!("{what:?}"));
        let leader = self.leads().map(|(_, id)| id);
        match (what, leader) {
            (&What::Cut { from, to, ms }, _) => self.cut(from, to, ms),
            (&What::Isolate { who, ms }, _) => self.isolate(who, ms),
            (&What::IsolateLeader { ms }, Some(who)) => self.isolate(who, ms),
            (&What::End { who, how, ms }, _) => self.end_member(who, how, ms),
            (&What::EndLeader { how, ms }, Some(who)) => self.end_member(who, how, ms),
            (&What::EndAll { ms }, _) => {
                for who in 1..=self.plan.members {
                    self.end_member(who, End::Power, ms + who * 7);
                }
            }
            (&What::Stand { who, ms }, _) | (&What::StandLeader { ms }, Some(who)) => {
                self.members[who as usize - 1].stands_until = self.now + ms;
            }
            (&What::Jump { who, by_ms }, _) => self.members[who as usize - 1].off_ms += by_ms,
            (&What::SlowDisk { who, sync_ms, ms }, _) => {
                self.members[who as usize - 1].set_sync_ms(sync_ms);
                self.ends.push((self.now + ms, Ends::SlowDisk(who)));
            }
            (&What::SlowNetwork { quality, ms }, _) => {
                self.network.set_quality(quality);
                self.ends.push((self.now + ms, Ends::SlowNetwork));
            }
            (&What::Transfer { to }, Some(leader)) if to != leader => {
                let request = ["STILLFRAME", "RAFT", "TRANSFER", &to.to_string()];
                self.members[leader as usize - 1].ask(&request);
            }
            (&What::IsolateFollower { ms }, Some(leader)) => {
                let follows = (1..=self.plan.members).rev().find(|&id| id != leader);
                self.isolate(follows.unwrap_or(1), ms);
            }
            // Nobody leads.
            _ => {}
        }
    }

    fn cut(&mut self, from: u64, to: u64, ms: u64) {
        self.network.cut(from, to, true);
        self.ends.push((self.now + ms, Ends::Cut(from, to)));
    }

    fn isolate(&mut self, who: u64, ms: u64) {
        for other in (1..=self.plan.members).filter(|&other| other != who) {
            self.cut(who, other, ms);
            self.cut(other, who, ms);
        }
    }

    fn end_member(&mut self, who: u64, how: End, ms: u64) {
        let member = &mut self.members[who as usize - 1];
        if member.runs() {
            member.end(how, &self.network, &mut self.random);
            self.ends.push((self.now + ms, Ends::Away(who)));
        }
    }

    fn end(&mut self, what: Ends) -> Result<(), String> {
        match what {
            Ends::Cut(from, to) => self.network.cut(from, to, false),
            Ends::SlowDisk(who) => self.members[who as usize - 1].set_sync_ms(self.plan.sync_ms),
            Ends::SlowNetwork => self.network.set_quality(self.plan.quality),
            Ends::Away(who) => return self.start(who as usize - 1),
        }
        Ok(())
    }

    /// From now on nothing goes wrong.
    fn mend(&mut self) -> Result<(), String> {
        self.tell("all is mended");
        for (_, what) in std::mem::take(&mut self.ends) {
            self.end(what)?;
        }
        self.network.mend();
        for member in &mut self.members {
            member.stands_until = 0;
        }
        Ok(())
    }

    /// A write is acknowledged before long.
    fn serve_again(&mut self) -> Result<(), String> {
        let end = self.now + WHOLE;
        let plan = self.plan;
        let mut probe = Client::new(plan.clients, plan);
        while self.now < end {
            probe.call_next(Call::one(Command::Set(Key(99), self.now as i64)));
            while !probe.is_idle() || probe.has_next() {
                self.tick(false)?;
                probe.go_on(plan, &self.members, self.now, true);
            }
            if probe.done.last().is_some_and(|it| it.replies().is_some()) {
                return self.read_all(probe);
            }
        }
        Err(format!("no write is acknowledged for {WHOLE} ms, though all members are there"))
    }

    /// Reads all that was ever written.
    fn read_all(&mut self, mut probe: Client) -> Result<(), String> {
        for call in all_reads(self.now) {
            probe.call_next(call);
            while !probe.is_idle() || probe.has_next() {
                self.tick(false)?;
                probe.go_on(self.plan, &self.members, self.now, true);
            }
        }
        self.clients.push(probe);
        Ok(())
    }

    /// All members have the same data before long.
    fn agree(&mut self) -> Result<(), String> {
        let end = self.now + WHOLE;
        let mut digests = Vec::new();
        while self.now < end {
            for _ in 0..500 {
                self.tick(false)?;
            }
            digests = self.members.iter_mut().map(Member::digest).collect();
            if digests.windows(2).all(|two| two[0] == two[1]) {
                self.note(self.now, format!("{digests:?}").as_bytes());
                return Ok(());
            }
        }
        Err(format!("members have other data than others: {digests:?}"))
    }

    fn judge(&mut self) -> Result<(), String> {
        let done = self.clients.iter().flat_map(|client| client.done.iter().cloned());
        let history: Vec<Operation> = done.collect();
        match check(&history, BUDGET) {
            Verdict::Linearizable => {}
            Verdict::Violated(violation) => return Err(violation.to_string()),
            Verdict::Undecided(_) => self.report.undecided = true,
        }
        match find_anomaly(&history) {
            Some(anomaly) => Err(anomaly.to_string()),
            None => Ok(()),
        }
    }
}
