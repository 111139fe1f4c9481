//! A run of a plan: one thread, one clock, a millisecond after the other.

use std::fmt::Write as _;

use stillframe_history::{Budget, Call, Command, Key, Operation, Verdict, check, find_anomaly};
use stillframe_peers::Random;

use crate::client::{Client, all_reads};
use crate::machine;
use crate::member::{End, Member, Other};
use crate::network::{Network, traced};
use crate::operator::{Change, Operator};
use crate::plan::{Plan, SETTLED, What};
use crate::questions::Questions;

/// How long a group that is whole again may take to serve, and to agree.
const WHOLE: u64 = 60_000;
/// How long a member that has ended by itself is away.
const AGAIN: u64 = 300;
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
    /// Questions to a leader that was cut off, which were answered in time.
    pub(crate) answered: usize,
}

struct World<'p> {
    plan: &'p Plan,
    network: Network,
    members: Vec<Member>,
    clients: Vec<Client>,
    operator: Operator,
    questions: Questions,
    random: Random,
    now: u64,
    /// What ends when.
    ends: Vec<(u64, Ends)>,
    leader: Option<(u64, u64)>,
    /// A member has run with an older disk: with two of them there may be no majority.
    went_back: bool,
    report: Report,
}

/// What comes to an end.
enum Ends {
    Cut(u64, u64),
    Away(u64),
    SlowDisk(u64),
    FullDisk(u64),
    /// A member that was let go runs.
    Gone(u64),
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
    let World { report, now, clients, questions, .. } = world;
    let done = clients.iter().flat_map(|client| &client.done);
    let returned = done.filter(|it| it.replies().is_some()).count();
    Report { wrong, bytes, returned, ms: now, answered: questions.answered, ..report }
}

impl<'p> World<'p> {
    fn new(plan: &'p Plan) -> Self {
        Self {
            plan,
            network: Network::new(plan.seed ^ 1, plan.quality),
            members: (1..=plan.members + plan.spares)
                .map(|id| Member::new(id, id <= plan.members))
                .collect(),
            clients: (0..plan.clients).map(|number| Client::new(number, plan)).collect(),
            operator: Operator::default(),
            questions: Questions::default(),
            random: Random::with_seed(plan.seed ^ 2),
            now: 0,
            ends: Vec::new(),
            leader: None,
            went_back: false,
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
                self.go_wrong(&fault.what)?;
            }
            self.tick(true)?;
        }
        self.mend()?;
        let end = self.now + WHOLE;
        while !self.clients.iter().all(Client::has_done_all) && self.now < end {
            self.tick(false)?;
        }
        self.settle()?;
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
                self.has_ended(at, &why)?;
            }
        }
        for at in 0..self.clients.len() {
            let client = &mut self.clients[at];
            let before = client.done.len();
            client.go_on(self.plan, &self.members, self.now, calls);
            let done = client.done[before..].iter().map(Operation::to_string);
            for line in done.collect::<Vec<_>>() {
                self.report.calls += 1;
                self.note(self.now, line.as_bytes());
                self.narrate(line);
            }
        }
        self.questions.go_on(&self.members, self.now)?;
        if self.now.is_multiple_of(10) {
            self.note_leader()?;
            self.change_group();
            for member in &mut self.members {
                member.ping(self.now)?;
            }
        }
        Ok(())
    }

    fn note(&mut self, number: u64, bytes: &[u8]) {
        self.report.trace = traced(self.report.trace ^ number, bytes);
    }

    fn narrate(&mut self, line: impl Into<String>) {
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
            self.narrate(line.clone());
            if self.plan.is_calm && self.now > SETTLED {
                return Err(format!("{line}, though the leader before was well"));
            }
        }
        Ok(())
    }

    /// Starts a member that is to run, with its own disk if another is refused.
    fn start(&mut self, at: usize) -> Result<(), String> {
        let member = &mut self.members[at];
        let id = member.id;
        if member.runs() || !member.is_there {
            return Ok(());
        }
        let mut started = member.start(self.plan, &self.network, self.now);
        if let Err(why) = &started
            && member.is_displaced()
        {
            let line = format!("member {id} refuses: {why}");
            member.go_home();
            started = member.start(self.plan, &self.network, self.now);
            self.narrate(line);
        }
        self.narrate(format!("member {id} starts"));
        started.map_err(|why| format!("member {id} cannot start: {why}"))
    }

    /// A member has ended by itself: it may if its disk has failed, or is not its own.
    fn has_ended(&mut self, at: usize, why: &str) -> Result<(), String> {
        let member = &mut self.members[at];
        let line = format!("member {} has ended by itself: {why}", member.id);
        let is_lost = member.went_back && !member.is_displaced();
        if is_lost && why.contains("went back to an older copy") {
            member.is_there = false;
            self.operator.want(Change::Remove(member.id));
            self.narrate(line);
            return Ok(());
        }
        if !member.is_excused && !member.is_displaced() {
            return Err(line);
        }
        member.mend_disk();
        member.go_home();
        self.ends.push((self.now + AGAIN, Ends::Away(member.id)));
        self.narrate(line);
        Ok(())
    }

    /// What the operator has asked for goes on.
    fn change_group(&mut self) {
        let leader = self.leads().map(|(_, id)| &self.members[id as usize - 1]);
        let Some((change, refused)) = self.operator.go_on(leader, self.now) else { return };
        let line = format!("{change:?}: {}", refused.as_deref().unwrap_or("done"));
        self.note(self.now, line.as_bytes());
        self.narrate(line);
        if let Change::Remove(id) = change
            && refused.is_none_or(|why| why.contains("there is no member"))
        {
            let lasts = self.random.below(1000) as u64;
            self.members[id as usize - 1].is_there = false;
            self.ends.push((self.now + lasts, Ends::Gone(id)));
        }
    }

    fn go_wrong(&mut self, what: &What) -> Result<(), String> {
        self.narrate(format!("{what:?}"));
        let leader = self.leads().map(|(_, id)| id);
        match (what, leader) {
            (&What::Cut { from, to, ms }, _) => self.cut(from, to, ms),
            (&What::Isolate { who, ms }, _) => self.isolate(who, ms),
            (&What::IsolateLeader { ms }, Some(who)) => self.isolate(who, ms),
            (&What::End { who, how, ms }, _) => self.end_member(who, how, ms),
            (&What::EndLeader { how, ms }, Some(who)) => self.end_member(who, how, ms),
            (&What::EndAll { ms }, _) => {
                for who in 1..=self.members.len() as u64 {
                    self.end_member(who, End::Power, ms + who * 7);
                }
            }
            (&What::Stand { who, ms }, _) | (&What::StandLeader { ms }, Some(who)) => {
                self.members[who as usize - 1].stands_until = self.now + ms;
            }
            (&What::SuspendLeader { ms, cut_ms }, Some(who)) => {
                self.isolate(who, ms + cut_ms);
                self.members[who as usize - 1].suspend(self.now, self.now + ms);
            }
            (&What::CutLeader { hears, ms }, Some(who)) => {
                for other in self.others(who) {
                    let (from, to) = if hears { (who, other) } else { (other, who) };
                    self.cut(from, to, ms);
                }
            }
            (&What::AskCutLeader { ms }, Some(who)) => {
                self.isolate(who, ms);
                let leader = &self.members[who as usize - 1];
                self.questions.begin(leader, self.now, self.plan.patience_ms, ms);
            }
            (&What::PartClients { ms }, Some(who)) => {
                let until = self.now + ms;
                self.clients.iter_mut().for_each(|client| client.part(who, until));
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
                self.operator.want(Change::Transfer(to));
            }
            (&What::IsolateFollower { ms }, Some(leader)) => {
                let follows = (1..=self.plan.members).rev().find(|&id| id != leader);
                self.isolate(follows.unwrap_or(1), ms);
            }
            (&What::Change { who }, _) => return self.join_or_leave(who),
            (&What::Directory { who, other }, _) => return self.displace(who as usize - 1, other),
            (&What::FullDisk { who, bytes, ms }, _) => {
                self.members[who as usize - 1].fill_disk(bytes);
                self.ends.push((self.now + ms, Ends::FullDisk(who)));
            }
            (&What::FailCall { who, behind }, _) => {
                self.members[who as usize - 1].fail_call(behind);
            }
            (&What::Image { who }, _) => self.members[who as usize - 1].ask(&["BGSAVE"]),
            // Nobody leads.
            _ => {}
        }
        Ok(())
    }

    fn join_or_leave(&mut self, who: u64) -> Result<(), String> {
        let member = &mut self.members[who as usize - 1];
        if member.is_there {
            self.operator.want(Change::Remove(who));
            return Ok(());
        }
        if member.runs() || !self.operator.is_idle() {
            return Ok(()); // it was let go, or is to be, and has not ended yet
        }
        member.leave();
        member.is_there = true;
        self.operator.want(Change::Add(who));
        self.start(who as usize - 1)
    }

    /// Ends a member, and starts it with another disk.
    fn displace(&mut self, at: usize, other: Other) -> Result<(), String> {
        let next = self.members[(at + 1) % self.members.len()].platter();
        let member = &mut self.members[at];
        let is_second = other == Other::Earlier && self.went_back;
        if !member.runs() || member.is_displaced() || is_second {
            return Ok(());
        }
        self.went_back |= other == Other::Earlier;
        member.end(End::Kill, &self.network, &mut self.random);
        member.displace(other, next);
        self.start(at)
    }

    fn others(&self, who: u64) -> impl Iterator<Item = u64> + use<> {
        (1..=self.members.len() as u64).filter(move |&other| other != who)
    }

    fn cut(&mut self, from: u64, to: u64, ms: u64) {
        self.network.cut(from, to, true);
        self.ends.push((self.now + ms, Ends::Cut(from, to)));
    }

    fn isolate(&mut self, who: u64, ms: u64) {
        for other in self.others(who) {
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
            Ends::FullDisk(who) => self.members[who as usize - 1].mend_disk(),
            Ends::Gone(who) if self.members[who as usize - 1].is_there => {}
            Ends::Gone(who) => self.members[who as usize - 1].leave(),
            Ends::SlowNetwork => self.network.set_quality(self.plan.quality),
            Ends::Away(who) => return self.start(who as usize - 1),
        }
        Ok(())
    }

    /// From now on nothing goes wrong.
    fn mend(&mut self) -> Result<(), String> {
        self.narrate("all is mended");
        for (_, what) in std::mem::take(&mut self.ends) {
            self.end(what)?;
        }
        self.network.mend();
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            member.stands_until = 0;
            member.mend_disk();
            if member.is_displaced() {
                member.go_home();
                self.start(at)?;
            }
        }
        Ok(())
    }

    /// The group has those members that run.
    fn settle(&mut self) -> Result<(), String> {
        let end = self.now + 2 * WHOLE;
        while self.now < end {
            for _ in 0..100 {
                self.tick(false)?;
            }
            let is_idle = self.operator.is_idle() && self.ends.is_empty();
            let Some((_, leader)) = self.leads().filter(|_| is_idle) else {
                continue;
            };
            let Some(view) = self.members[leader as usize - 1].view() else { continue };
            let (changes, members) = (view.changes, view.members.clone());
            let mut is_settled = !changes;
            for at in 0..self.members.len() {
                let member = &mut self.members[at];
                match members.iter().find(|it| it.peer.id == member.id).map(|it| it.votes) {
                    None if member.is_there && !changes => member.leave(),
                    None => {}
                    Some(votes) if !votes || (!member.is_there && member.went_back) => {
                        is_settled = false;
                        self.operator.want(Change::Remove(at as u64 + 1));
                    }
                    Some(_) => member.is_there = true,
                }
                self.start(at)?;
            }
            if is_settled {
                return Ok(());
            }
        }
        Err("the group does not come to rest, though all members are there".into())
    }

    /// A write is acknowledged before long.
    fn serve_again(&mut self) -> Result<(), String> {
        let end = self.now + WHOLE;
        let plan = self.plan;
        let probe = self.clients.len();
        self.clients.push(Client::new(plan.clients, plan));
        while self.now < end {
            let write = Call::one(Command::Set(Key(99), self.now as i64));
            self.clients[probe].call_next(write);
            while !self.clients[probe].has_done_all() {
                self.tick(false)?;
            }
            if self.clients[probe].done.last().is_some_and(|it| it.replies().is_some()) {
                return self.read_all();
            }
        }
        Err(format!("no write is acknowledged for {WHOLE} ms, though all members are there"))
    }

    /// Reads all that was ever written, by all clients.
    fn read_all(&mut self) -> Result<(), String> {
        let mut reads = all_reads(self.plan, self.now).into_iter();
        loop {
            for client in self.clients.iter_mut().filter(|it| it.has_done_all()) {
                let Some(call) = reads.next() else { break };
                client.call_next(call);
            }
            if self.clients.iter().all(Client::has_done_all) {
                return Ok(());
            }
            self.tick(false)?;
        }
    }

    /// All members have the same data, and know the same members, before long.
    fn agree(&mut self) -> Result<(), String> {
        let end = self.now + WHOLE;
        let mut digests = Vec::new();
        while self.now < end {
            for _ in 0..500 {
                self.tick(false)?;
            }
            let known = |member: &mut Member| {
                let digest = member.digest()?;
                let ids = member.view()?.members.iter().map(|it| it.peer.id);
                Some((digest, ids.collect::<Vec<_>>()))
            };
            digests = self.members.iter_mut().filter_map(known).collect();
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
