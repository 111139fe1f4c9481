//! A group of three members under faults, and what must hold behind each round of them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use stillframe_history::{
    Budget, Operation, Outcome, Recorder, Reply, Verdict, check, find_anomaly,
};
use stillframe_peers::reply::Reply as Raw;
use tempfile::TempDir;

use super::clients::{
    CLIENTS, Caller, KEYS, Keys, Seeker, Speed, Work, ask, ask_at_most, call_at_random, fill,
    read_all,
};
use super::expiry::Expiry;
use super::member::{Common, Member};
use super::nemesis::{Fault, Means, Other, Side, Step, Whom, links, weather};
use super::network::Network;
use super::watch::Watch;
use crate::support::machine::shim;
use crate::support::{Random, Stop, own_port};

const MEMBERS: usize = 3;

/// What came of a round in which nothing was wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Report {
    /// All calls but those that failed.
    pub(super) calls: usize,
    pub(super) unknown: usize,
    pub(super) undecided: bool,
}

pub(super) struct Group {
    members: Vec<Member>,
    servers: Vec<SocketAddr>,
    speed: Speed,
    network: Network,
    watch: Watch,
    expiry: Expiry,
    /// What the rounds so far have ended with.
    ends: Vec<(Keys, Vec<Vec<Reply>>)>,
    random: Random,
    pub(super) means: Means,
    patience: Duration,
    _folder: TempDir,
}

impl Group {
    /// A new group, all of whose members make the mistake `mutant`; whatever must come in the end
    /// may take `patience`.
    pub(super) fn start(
        seed: u64,
        bandwidth: Option<u64>,
        mutant: Option<&'static str>,
        patience: Duration,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (raft, client) = ([(); MEMBERS].map(|()| own_port()), [(); MEMBERS]);
        let client = client.map(|()| own_port());
        let (speed, network) =
            (Speed::from_bandwidth(bandwidth), Network::start(&raft, bandwidth, seed));
        let peer = |place: usize| {
            format!("{}={}/127.0.0.1:{}", place + 1, network.address(place), client[place])
        };
        let peers = (0..MEMBERS).map(peer).collect::<Vec<_>>().join(",");
        let shim = shim(folder.path());
        let means = Means { shim: shim.is_some() };
        let common = Common { folder: folder.path().to_owned(), shim, peers, mutant };
        let member = |place: usize| {
            let mut member = Member::new(&common, place as u64 + 1, client[place], raft[place]);
            member.start();
            member
        };
        let members: Vec<Member> = (0..MEMBERS).map(member).collect();
        let address = |member: &Member| SocketAddr::from(([127, 0, 0, 1], member.port));
        let servers: Vec<SocketAddr> = members.iter().map(address).collect();
        let (watch, expiry, ends) = (Watch::start(&servers), Expiry::default(), Vec::new());
        let (random, _folder) = (Random::with_seed(seed), folder);
        Self {
            members,
            servers,
            speed,
            network,
            watch,
            expiry,
            ends,
            random,
            means,
            patience,
            _folder,
        }
    }

    /// A round: clients call while the schedule goes on; then all is well again, and what they saw
    /// is judged.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn round(
        &mut self,
        length: u64,
        schedule: &[Step],
        apart: bool,
    ) -> Result<Report, String> {
        self.wait_for_a_leader()?;
        let leader = self.wait_for("a member says that it serves", |it| it.watch.leader())?;
        let work = if apart { Work::Apart(leader) } else { Work::Mixed };
        let keys = Keys(KEYS * self.ends.len() as u32);
        let mut recorders = Recorder::for_clients(CLIENTS + 1);
        let last = recorders.pop().expect("one for the reads of the end");
        let mut history = self.suffer(length, schedule, work, keys, recorders)?;
        self.heal()?;
        self.wait_for_a_leader()?;
        let reads = read_all(last, &self.servers, keys, self.speed, self.patience)?;
        let end = reads.iter().filter_map(Operation::replies).map(<[Reply]>::to_vec).collect();
        self.ends.push((keys, end));
        history.extend(reads);
        let count = |outcome: &Outcome| history.iter().filter(|it| it.outcome == *outcome).count();
        let unknown = count(&Outcome::Unknown);
        let calls = history.len() - count(&Outcome::Failed);
        if let Some(anomaly) = find_anomaly(&history) {
            return Err(anomaly.to_string());
        }
        let undecided = match check(&history, Budget::default()) {
            Verdict::Linearizable => false,
            Verdict::Violated(violation) => return Err(violation.to_string()),
            Verdict::Undecided(why) => {
                println!("undecided: {why}");
                true
            }
        };
        self.watch.wrong()?;
        self.members.iter().try_for_each(Member::has_not_panicked)?;
        self.are_equal()?;
        self.members.iter_mut().for_each(Member::settle);
        self.members.iter().try_for_each(Member::has_not_panicked)?;
        Ok(Report { calls, unknown, undecided })
    }

    /// The end of its life: what the rounds have ended with is still so, and keys expire.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn end(mut self) -> Result<(), String> {
        for (keys, end) in &self.ends {
            let recorder = Recorder::for_clients(1).remove(0);
            let reads = read_all(recorder, &self.servers, *keys, self.speed, self.patience)?;
            let reads = reads.iter().filter(|it| it.replies().is_some());
            for (read, before) in reads.zip(end) {
                if read.replies() != Some(before) {
                    return Err(format!("{read}\nwas {before:?} at the end of its round"));
                }
            }
        }
        self.members.iter_mut().for_each(|member| member.set_clock(60_000));
        self.expiry.end(&self.servers, self.patience)?;
        self.watch.wrong()?;
        self.members.iter().try_for_each(Member::has_not_panicked)
    }

    /// For people: reigns, loads anew, images.
    pub(super) fn figures(&self) -> [u64; 3] {
        self.watch.figures()
    }

    pub(super) fn logs(&self) -> String {
        let log = |(member, &server): (&Member, &SocketAddr)| {
            let info = ask(server, &["INFO", "raft"]).map_or_else(String::new, |it| it.text());
            format!("member {}:\n{}\n{info}\n", member.id, member.log())
        };
        self.members.iter().zip(&self.servers).map(log).collect()
    }

    /// Clients call while the schedule goes on.
    fn suffer(
        &mut self,
        length: u64,
        schedule: &[Step],
        work: Work,
        keys: Keys,
        recorders: Vec<Recorder>,
    ) -> Result<Vec<Operation>, String> {
        let stop = Stop::default();
        let seeds: Vec<u64> = (0..CLIENTS + 3).map(|_| self.random.next()).collect();
        let (servers, speed) = (self.servers.clone(), self.speed);
        let expiry = std::mem::take(&mut self.expiry);
        let (history, suffered) = std::thread::scope(|scope| {
            let _end = stop.at_the_end();
            let (stop, servers) = (&stop, &servers[..]);
            if work == Work::Mixed {
                for &seed in &seeds[CLIENTS + 1..] {
                    let expiry = &expiry;
                    scope.spawn(move || expiry.set_and_read(servers, seed, stop));
                }
                let fills = seeds[CLIENTS];
                scope.spawn(move || fill(servers, speed, fills, stop));
            }
            let call = |(number, recorder): (usize, Recorder)| {
                let seed = seeds[number];
                let caller = Caller { work, keys, number, speed };
                scope.spawn(move || call_at_random(recorder, servers, caller, seed, stop))
            };
            let calling: Vec<_> = recorders.into_iter().enumerate().map(call).collect();
            let suffered = self.go_through(length, schedule);
            stop.now();
            let mut history = Vec::new();
            for thread in calling {
                history.extend(thread.join().expect("a client does not panic"));
            }
            (history, suffered)
        });
        self.expiry = expiry;
        suffered.map(|()| history)
    }

    /// Has each fault of the schedule begin and end at its time.
    fn go_through(&mut self, length: u64, schedule: &[Step]) -> Result<(), String> {
        let start = Instant::now();
        let mut places = vec![0; schedule.len()];
        let mut events: Vec<(u64, bool, usize)> = Vec::new();
        for (index, step) in schedule.iter().enumerate() {
            events.extend([(step.at, false, index), (step.at + step.lasts, true, index)]);
        }
        events.sort_unstable();
        let sleep_until = |ms: u64| {
            let at = start + Duration::from_millis(ms);
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
        };
        for (at, is_end, index) in events {
            sleep_until(at);
            let Step { whom, fault, .. } = schedule[index];
            if is_end {
                self.end_fault(fault, places[index])?;
            } else {
                let leader = self.watch.leader().unwrap_or(index % MEMBERS);
                places[index] = match whom {
                    Whom::Leader => leader,
                    Whom::Follower => (leader + 1) % MEMBERS,
                    Whom::Place(place) => place,
                };
                self.begin_fault(fault, places[index]);
            }
        }
        sleep_until(length);
        Ok(())
    }

    fn begin_fault(&mut self, fault: Fault, place: usize) {
        if let Some((side, faults)) = weather(fault, self.network.calm()) {
            let hit = links(side, place, MEMBERS);
            hit.into_iter().for_each(|way| self.network.set(way, &faults));
        }
        let hit = |side: Side| links(side, place, MEMBERS);
        match fault {
            Fault::Kill => self.members[place].kill(),
            Fault::KillAll => self.members.iter_mut().for_each(Member::kill),
            Fault::End => self.members[place].end(),
            Fault::Stop => self.members[place].stop(true),
            Fault::Refuse(side) => {
                hit(side).into_iter().for_each(|way| self.network.refuse(way, true));
            }
            Fault::Cut(side) => hit(side).into_iter().for_each(|way| self.network.cut(way)),
            Fault::Double(side) => {
                hit(side).into_iter().for_each(|way| self.network.double(way, true));
            }
            Fault::Damage(side) => hit(side).into_iter().for_each(|way| self.network.damage(way)),
            Fault::FullDisk(bytes) => self.members[place].fill_disk(Some(bytes)),
            Fault::FailSyncs(count) => self.members[place].fail_syncs(count),
            Fault::Clock(ms) => self.members[place].set_clock(ms),
            Fault::Image => self.ask_quietly(place, &["BGSAVE"]),
            Fault::Transfer => {
                let to = ((place + 1) % MEMBERS + 1).to_string();
                self.ask_quietly(place, &["STILLFRAME", "RAFT", "TRANSFER", &to]);
            }
            Fault::Keep => self.members[place].keep(),
            Fault::Directory(other) => self.displace(place, other),
            Fault::Stall(_) | Fault::Delay(..) | Fault::Throttle(..) => {}
        }
    }

    fn end_fault(&mut self, fault: Fault, place: usize) -> Result<(), String> {
        if let Some((side, _)) = weather(fault, self.network.calm()) {
            let hit = links(side, place, MEMBERS);
            hit.into_iter().for_each(|way| self.network.set(way, self.network.calm()));
        }
        let hit = |side: Side| links(side, place, MEMBERS);
        let member = &mut self.members[place];
        match fault {
            Fault::Kill => member.revive()?,
            Fault::KillAll => self.members.iter_mut().try_for_each(Member::revive)?,
            Fault::End => {
                member.kill(); // if it has not ended
                member.revive()?;
            }
            Fault::Stop => member.stop(false),
            Fault::Refuse(side) => {
                hit(side).into_iter().for_each(|way| self.network.refuse(way, false));
            }
            Fault::Double(side) => {
                hit(side).into_iter().for_each(|way| self.network.double(way, false));
            }
            Fault::FullDisk(_) => {
                member.fill_disk(None);
                member.revive()?;
            }
            Fault::FailSyncs(_) => {
                member.fail_syncs(0);
                member.revive()?;
            }
            Fault::Directory(other) => {
                let displaced = match other {
                    Other::Empty | Other::Earlier => vec![],
                    Other::Copied => vec![place],
                    Other::Swapped => vec![place, (place + 1) % MEMBERS],
                };
                for place in displaced {
                    // It loads the other's data before it knows whose that is.
                    if !self.members[place].has_refused() {
                        return Err(format!("member {place} runs in the directory of another"));
                    }
                }
                self.members[place].revive()?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Starts a member in another directory.
    fn displace(&mut self, place: usize, other: Other) {
        let next = (place + 1) % MEMBERS;
        match other {
            Other::Empty => {
                self.members[place].leave();
                self.members[place].start_in(None);
            }
            Other::Earlier => {
                let [_, _, kept] = self.members[place].places();
                self.members[place].leave();
                self.members[place].start_in(Some(&kept));
            }
            Other::Copied => {
                let [data, ..] = self.members[next].places();
                self.members[place].leave();
                self.members[place].start_in(Some(&data));
            }
            Other::Swapped => {
                let pair = [place, next];
                pair.iter().for_each(|&it| self.members[it].leave());
                let aside = pair.map(|it| self.members[it].places()[1].clone());
                self.members[place].start_in(Some(&aside[1]));
                self.members[next].start_in(Some(&aside[0]));
            }
        }
    }

    /// Sends a request to a member, whose reply nobody waits for.
    fn ask_quietly(&self, place: usize, words: &[&str]) {
        let server = self.servers[place];
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        std::thread::spawn(move || {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            ask(server, &words);
        });
    }

    /// All is well again.
    fn heal(&mut self) -> Result<(), String> {
        self.network.heal();
        for member in &mut self.members {
            member.stop(false);
            member.fill_disk(None);
            member.fail_syncs(0);
            member.set_clock(0);
            member.revive()?;
        }
        Ok(())
    }

    /// Waits until something holds; members that may have ended are started meanwhile.
    fn wait_for<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, String> {
        let deadline = Instant::now() + self.patience;
        loop {
            if let Some(found) = look(self) {
                return Ok(found);
            }
            if Instant::now() > deadline {
                return Err(format!("waited {} s in vain: {what}", self.patience.as_secs()));
            }
            self.members.iter_mut().try_for_each(Member::revive)?;
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn wait_for_a_leader(&mut self) -> Result<(), String> {
        let mut seeker = Seeker::new(&self.servers, 0);
        self.wait_for("a leader takes writes", |_| seeker.ask(&["SET", "any", "1"]).map(drop))
    }

    /// All members have the same data once they have applied the same entries.
    fn are_equal(&mut self) -> Result<(), String> {
        let servers = self.servers.clone();
        let patience = self.patience;
        let everywhere = |words: &[&str]| {
            let reply = |&it: &SocketAddr| ask_at_most(it, words, patience);
            let replies: Option<Vec<Raw>> = servers.iter().map(reply).collect();
            replies.filter(|all| !all.iter().any(|it| matches!(it, Raw::Error(_))))
        };
        let mut seeker = Seeker::new(&self.servers, 0);
        let marker = self.random.next().to_string();
        // Nothing changes by itself from now on.
        let still = ["DEBUG", "SET-ACTIVE-EXPIRE", "0"];
        self.wait_for("all members answer", |_| everywhere(&still))?;
        // The members that took it have it; others may answer for what they have.
        let expected = self.wait_for("a leader takes writes", |_| {
            seeker.ask(&["SET", "marker", &marker])?;
            ask(seeker.at(), &["DEBUG", "DIGEST-VALUE", "marker"])
        })?;
        self.wait_for("all members apply all", |_| {
            everywhere(&["DEBUG", "DIGEST-VALUE", "marker"])
                .filter(|all| all.iter().all(|it| *it == expected))
        })?;
        let members = format!("raft_members:{MEMBERS}\r\n");
        self.wait_for("all members know the members", |_| {
            everywhere(&["INFO", "raft"])
                .filter(|all| all.iter().all(|it| it.text().contains(&members)))
        })?;
        let digests =
            self.wait_for("all members digest their data", |_| everywhere(&["DEBUG", "DIGEST"]))?;
        self.wait_for("all members answer", |_| everywhere(&["DEBUG", "SET-ACTIVE-EXPIRE", "1"]))?;
        if digests.iter().any(|it| *it != digests[0]) {
            let digests: Vec<String> = digests.iter().map(Raw::text).collect();
            return Err(format!("members differ: {digests:?}"));
        }
        Ok(())
    }
}
