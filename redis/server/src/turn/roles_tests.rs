//! What a member of a group answers in each role, and when: the loop of `serve`, whose turns the
//! test takes, and a consensus that does what the test says. No time passes by itself.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use mio::net::UnixStream as Watched;
use stillframe_commands::facts::all;
use stillframe_commands::{Address, Facts, flags, write_request};
use stillframe_durability::disk::SimulatedDisk;

use super::Server;
use super::accept::limits;
use crate::commands::Meanwhile;
use crate::connections::client::{Client, Session, Wire};
use crate::connections::net::{Poller, Ready, Stream};
use crate::consensus::{
    Batch, Change, Consensus, Content, Entry, Event, MemberView, Message, Peer, Reign, Reply, View,
};
use crate::crash;
use crate::in_process::request_of;
use crate::node::process::{LastSave, Wish};
use crate::state::eviction::{counted_bytes, used_bytes};
use crate::state::shutdown::{self, Answer};

/// A turn's time lies so far ahead that a client which waits for a second is overdue in the next.
const AHEAD: Duration = Duration::from_secs(10);
const DOWN: &str = "-CLUSTERDOWN The cluster is down\r\n";
const TERM: u64 = 4;

/// What the loop has asked of the consensus, and what that has to tell.
#[derive(Default)]
struct Plot {
    events: VecDeque<Event>,
    proposed: Vec<Batch>,
    confirms: Vec<u64>,
    log_memory: u64,
}

#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<Plot>>);

impl Scripted {
    fn plot(&self) -> MutexGuard<'_, Plot> {
        self.0.lock().expect("no test panics with it")
    }
}

impl Consensus for Scripted {
    fn propose(&mut self, batch: Batch) {
        self.plot().proposed.push(batch);
    }

    fn confirm(&mut self, stamp: u64) {
        self.plot().confirms.push(stamp);
    }

    fn next_event(&mut self) -> Option<Event> {
        self.plot().events.pop_front()
    }

    fn publish(&mut self, _: Message) {}

    fn report_progress(&mut self, _: bool) {}

    fn take_image(&mut self) {}

    fn log_memory(&self) -> u64 {
        self.plot().log_memory
    }

    fn change(&mut self, _: Change, answer: Reply<Result<(), String>>) {
        answer(Err("the test says so".into()));
    }

    fn stop(&mut self) {}
}

/// A client's end of its connection.
struct Guest {
    place: usize,
    far: UnixStream,
}

impl Guest {
    fn send(&self, args: &[&[u8]]) {
        let mut bytes = Vec::new();
        write_request(&mut bytes, args);
        (&self.far).write_all(&bytes).expect("room for a request");
    }

    fn ask(&self, line: &str) {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.send(&words);
    }

    /// What has come so far.
    fn replies(&self) -> String {
        let (mut all, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = (&self.far).read(&mut piece) {
            all.extend_from_slice(&piece[..count]);
        }
        String::from_utf8_lossy(&all).into_owned()
    }
}

/// Member 1 of a group of three.
struct Stage {
    server: Server,
    consensus: Scripted,
    index: u64,
}

impl Stage {
    /// A member that knows nothing of its group yet.
    fn new() -> Self {
        let poller = Poller::new().expect("events");
        let disk = SimulatedDisk::default();
        let started = crash::Server::start_waking(&disk, false, poller.waker().into_wake());
        let crash::Server { keyspace, mut state, table, .. } = started.expect("a sound disk");
        state.config.set("enable-debug-command", &["yes"]).expect("a setting");
        state.config.raft.id = 1;
        let mut server = Server::new(keyspace, state, table, poller);
        let consensus = Scripted::default();
        let ours = consensus.clone();
        server.join(Box::new(move |_| Ok(Box::new(ours)))).expect("it takes part");
        Self { server, consensus, index: 0 }
    }

    fn leader() -> Self {
        let mut stage = Self::new();
        stage.lead();
        stage
    }

    /// A leader with a write in flight, whose client waits.
    fn with_write() -> (Self, Guest) {
        let mut stage = Self::leader();
        let writer = stage.connect();
        writer.ask("SET K written");
        stage.turn();
        (stage, writer)
    }

    fn send(&self, event: Event) {
        self.consensus.plot().events.push_back(event);
    }

    fn see(&mut self, role: &'static str, leader: Option<u64>, has_quorum: bool) {
        let member = |id: u64| MemberView {
            peer: Peer { id, raft: format!("r:{id}"), client: format!("host{id}:{}", 7000 + id) },
            votes: true,
            reachable: true,
            matched: None,
        };
        let members = (1..=3).map(member).collect();
        let view = View { id: 1, term: TERM, leader, has_quorum, role, members, ..View::default() };
        self.send(Event::View(view));
        self.turn();
    }

    fn apply(&mut self, entries: Vec<(Reign, Content)>) {
        let entry = |(reign, content)| {
            self.index += 1;
            Entry { reign, index: self.index, content }
        };
        let entries = entries.into_iter().map(entry).collect();
        self.send(Event::Apply(entries, Box::new(|_| ())));
        self.turn();
    }

    fn lead(&mut self) {
        self.see("leader", Some(1), true);
        self.apply(vec![(Reign { term: TERM, leader: 1 }, Content::First)]);
        assert!(self.serves());
    }

    fn serves(&self) -> bool {
        self.server.state.group.member().is_some_and(|member| member.serves())
    }

    /// Most members have what was proposed.
    fn commit(&mut self) {
        let proposed = std::mem::take(&mut self.consensus.plot().proposed);
        let entry = |batch: Batch| (batch.reign, Content::Batch(batch));
        self.apply(proposed.into_iter().map(entry).collect());
    }

    /// Most members say who leads.
    fn confirm(&mut self, leads: bool) {
        self.poll();
        self.confirm_only(leads);
    }

    /// As [`confirm`](Self::confirm), while no client's time is over.
    fn confirm_only(&mut self, leads: bool) {
        let stamps = std::mem::take(&mut self.consensus.plot().confirms);
        let reign = leads.then_some(Reign { term: TERM, leader: 1 });
        if let Some(&stamp) = stamps.last() {
            self.send(Event::Confirmed { stamp, reign });
        }
        self.server.attend_group().expect("it goes on");
        self.server.finish_turn();
    }

    fn connect(&mut self) -> Guest {
        let (near, far) = UnixStream::pair().expect("two sockets");
        near.set_nonblocking(true).expect("a socket that does not wait");
        far.set_nonblocking(true).expect("a socket that does not wait");
        let state = &mut self.server.state;
        let (place, id) = (state.clients.reserve(), state.clients.next_id());
        let nowhere = || Address::Unix("test".into());
        let mut session = Session::new(id, nowhere(), nowhere(), -1, true, Instant::now());
        session.caller.place = place;
        let wire = Wire::Local(Stream::Unix(Watched::from_std(near)));
        let client = Client::new(wire, session, limits(&state.config, true));
        state.clients.put(place, Box::new(client));
        Guest { place, far }
    }

    /// The first part of a turn: what has come is known, and nothing ran yet.
    fn poll(&mut self) {
        let state = &mut self.server.state;
        state.clock.set(Instant::now() + AHEAD, 1_700_000_000_000);
        let places: Vec<usize> = state.clients.others().map(|(place, _)| place).collect();
        let event = |place| Ready::Client { place, readable: true, writable: true, ended: false };
        let mut events: Vec<Ready> = places.into_iter().map(event).collect();
        self.server.handle_events(&mut events);
    }

    fn turn(&mut self) {
        self.poll();
        self.server.attend_group().expect("it goes on");
        self.server.finish_turn();
    }

    /// What a new client is answered at once.
    fn answer(&mut self, args: &[&[u8]]) -> String {
        let guest = self.connect();
        guest.send(args);
        // A reply out of turn comes in the next one.
        (0..3).for_each(|_| self.turn());
        let reply = guest.replies();
        self.server.state.unpause(&mut self.server.keyspace);
        drop(guest);
        self.turn();
        reply
    }
}

/// How a member comes into a role, with a write in flight if it has led.
fn roles() -> Vec<(&'static str, Stage)> {
    let with = |role, leader| {
        let mut stage = Stage::new();
        stage.see(role, leader, true);
        stage
    };
    let fallen = |role, leader, has_quorum| {
        let (mut stage, _) = Stage::with_write();
        stage.see(role, leader, has_quorum);
        assert!(!stage.serves());
        stage
    };
    let elected = {
        let mut stage = Stage::new();
        stage.see("leader", Some(1), true);
        stage
    };
    vec![
        ("a leader without a majority", fallen("leader", Some(1), false)),
        ("a leader that was deposed", fallen("follower", Some(2), true)),
        ("a leader that was deposed and knows no other", fallen("follower", None, true)),
        ("a leader that stands again", fallen("candidate", None, true)),
        ("a leader whose first entry is not committed", elected),
        ("a member that follows", with("follower", Some(2))),
        ("a member that follows nobody", with("follower", None)),
        ("a candidate", with("candidate", None)),
        ("a learner", with("learner", Some(3))),
        ("a member that was let go", with("learner", None)),
        ("a member that knows nothing yet", Stage::new()),
    ]
}

/// All commands but those that are absent, and those that would end the test.
fn commands() -> impl Iterator<Item = &'static Facts> {
    all().iter().filter(|it| it.flags & flags::ABSENT == 0 && it.name != "shutdown")
}

fn words(request: &[Vec<u8>]) -> Vec<&[u8]> {
    request.iter().map(Vec::as_slice).collect()
}

/// The label comes of entries that the loop has yet to apply, so the loop must not wait for it.
#[test]
fn a_server_that_ends_waits_for_no_label_of_an_image() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let (mut stage, _) = Stage::with_write();
    let (label, named) = std::sync::mpsc::channel();
    let (ended, outcome) = std::sync::mpsc::channel();
    stage.send(Event::Image {
        label: named,
        give_up: Box::new(move || drop(label)),
        begun: Box::new(|begun| assert!(matches!(begun, Ok(Some(_))), "{begun:?}")),
        done: Box::new(move |outcome| ended.send(outcome).expect("the test waits")),
    });
    stage.turn();
    let Server { keyspace, state, .. } = &mut stage.server;
    assert!(state.storage.saves.running().is_some(), "it waits for its label");
    let wish = Wish { last_save: LastSave::IfScheduled, force: false, now: true };
    assert_eq!(shutdown::ask(keyspace, state, wish), Answer::Ends);
    stage.turn();
    outcome.recv().expect("it ends").expect_err("without a label there is no image");
}

/// What needs no majority is answered, what needs one is refused, and nothing waits, whatever else
/// is in flight.
#[test]
fn every_command_is_answered_at_once_by_a_member_that_does_not_serve() {
    let mut wrong = Vec::new();
    for (role, mut stage) in roles() {
        for facts in commands() {
            let request = request_of(facts);
            let reply = stage.answer(&words(&request));
            let of_data = !facts.keys.in_request(&words(&request)).is_empty();
            let of_data = of_data && facts.flags & flags::PUBSUB == 0;
            let is_redirect = reply.starts_with("-MOVED ") || reply == DOWN;
            if reply.is_empty() || of_data && !is_redirect {
                wrong.push(format!("{role}: {}: {reply:?}", facts.name));
            }
        }
        for line in ["RAFT STATUS", "RAFT REMOVE 2", "RAFT TRANSFER 2", "RAFT ADD 4 a:1/b:2"] {
            let line = format!("STILLFRAME {line}");
            let request: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            if stage.answer(&request).is_empty() {
                wrong.push(format!("{role}: {line}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// While a write is in flight, exactly what tells of the data waits for it.
#[test]
fn a_write_in_flight_holds_up_what_tells_of_the_data_alone() {
    let slots = ["cluster|countkeysinslot", "cluster|getkeysinslot", "cluster|slot-stats"];
    let told = [&slots[..], &["function|dump", "exec", "function|list", "wait"]].concat();
    let mut waited = Vec::new();
    for facts in commands().filter(|it| it.flags & flags::BLOCKING == 0 || it.name == "wait") {
        let (mut stage, writer) = Stage::with_write();
        let request = request_of(facts);
        let (early, reply) = {
            let guest = stage.connect();
            guest.send(&words(&request));
            (0..2).for_each(|_| stage.turn());
            let early = guest.replies();
            for _ in 0..2 {
                stage.commit();
                stage.confirm(true);
            }
            (early, guest.replies())
        };
        assert_eq!(writer.replies(), "+OK\r\n", "{}", facts.name);
        assert!(early.is_empty() != reply.is_empty(), "{}: {early} {reply}", facts.name);
        let tells = facts.flags & (flags::READONLY | flags::WRITE) != 0 && facts.name != "lolwut";
        // Refused before it is run, it tells nothing.
        if early.is_empty() {
            assert!(tells || told.contains(&facts.name), "{} waits", facts.name);
            waited.push(facts.name);
        } else if tells || told.contains(&facts.name) {
            assert!(early.starts_with('-'), "{} tells of a write in flight: {early}", facts.name);
        }
    }
    assert!(waited.len() > 150 && waited.contains(&"get"), "{waited:?}");
    for name in told {
        assert!(waited.contains(&name) || name.starts_with("cluster|"), "{name}");
    }
}

#[test]
fn replies_keep_their_order_within_a_connection() {
    let (mut stage, writer) = Stage::with_write();
    let [other, reader, script] = [(); 3].map(|()| stage.connect());
    writer.ask("PING");
    script.ask("EVAL return{redis.call('get','K')} 0");
    other.ask("PING");
    reader.ask("GET K");
    stage.turn();
    reader.ask("PING");
    stage.turn();
    assert_eq!(other.replies(), "+PONG\r\n");
    assert_eq!((writer.replies(), reader.replies()), Default::default());
    assert_eq!(script.replies(), "", "what a script reads is told, too");
    stage.commit();
    stage.confirm(true);
    assert_eq!(writer.replies(), "+OK\r\n+PONG\r\n");
    assert_eq!(reader.replies(), "$7\r\nwritten\r\n+PONG\r\n");
    assert_eq!(script.replies(), "*1\r\n$7\r\nwritten\r\n");
}

/// Who wrote learns that the outcome is not known, who read may ask elsewhere.
#[test]
fn a_lost_majority_ends_what_waits_for_it() {
    let (mut stage, writer) = Stage::with_write();
    let [reader, blocked, idle] = [(); 3].map(|()| stage.connect());
    reader.ask("GET K");
    blocked.ask("BLPOP list 0");
    idle.ask("PING");
    stage.turn();
    assert_eq!((reader.replies(), idle.replies()), (String::new(), "+PONG\r\n".to_owned()));
    stage.see("leader", Some(1), false);
    stage.turn();
    let text = writer.replies();
    assert!(text.starts_with("-ERR this member no longer leads its group"), "{text}");
    assert_eq!((reader.replies(), blocked.replies()), (DOWN.to_owned(), DOWN.to_owned()));
    idle.ask("PING");
    stage.turn();
    assert_eq!(idle.replies(), "+PONG\r\n");
}

/// With much in flight, requests on data wait, and all others are served.
#[test]
fn a_group_that_lags_holds_up_requests_on_data_alone() {
    let mut stage = Stage::leader();
    let [writer, next, idle] = [(); 3].map(|()| stage.connect());
    writer.ask("EVAL return{redis.call('SET','K',string.rep('x',2000000))} 0");
    stage.turn();
    stage.turn();
    let parts = stage.consensus.plot().proposed.len();
    next.ask("SET K next");
    idle.ask("PING");
    stage.turn();
    assert_eq!(idle.replies(), "+PONG\r\n");
    assert_eq!(stage.consensus.plot().proposed.len(), parts, "the second write waits");
    stage.see("leader", Some(1), false);
    stage.turn();
    assert_eq!(next.replies(), DOWN);
    stage.see("leader", Some(1), true);
    next.ask("SET K next");
    stage.turn();
    stage.commit();
    stage.turn();
    stage.commit();
    assert_eq!(next.replies(), "+OK\r\n");
}

/// A request that waits for a second, and what it is told when that is over.
const LATE: [(&str, &str); 17] = [
    ("BLPOP none 1", "*-1\r\n"),
    ("BRPOP none other 1", "*-1\r\n"),
    ("BLMOVE none other LEFT LEFT 1", "*-1\r\n"),
    ("BLMOVEM none other LEFT LEFT 1", "*-1\r\n"),
    ("BRPOPLPUSH none other 1", "*-1\r\n"),
    ("BLMPOP 1 1 none LEFT", "*-1\r\n"),
    ("BZPOPMIN none 1", "*-1\r\n"),
    ("BZPOPMAX none 1", "*-1\r\n"),
    ("BZMPOP 1 1 none MIN", "*-1\r\n"),
    ("XREAD BLOCK 1000 STREAMS none 0", "*-1\r\n"),
    ("XREADGROUP GROUP g c BLOCK 1000 STREAMS stream >", "*-1\r\n"),
    ("WAIT 3 1000", ":1\r\n"),
    // Until a client is unblocked, which is told alike.
    ("BLPOP none 0", "*-1\r\n"),
    ("XREAD BLOCK 0 STREAMS none 0", "*-1\r\n"),
    ("BZMPOP 0 1 none MIN", "*-1\r\n"),
    ("WAIT 3 0", ":1\r\n"),
    ("WAITAOF 1 3 0", "*2\r\n:1\r\n:1\r\n"),
];

/// Tells a client that has waited; returns what it got before the group was asked, and behind that.
fn late(request: &str, leads: bool) -> [String; 2] {
    let mut stage = Stage::leader();
    let [guest, other] = [(); 2].map(|()| stage.connect());
    other.ask("XGROUP CREATE stream g $ MKSTREAM");
    stage.turn();
    stage.commit();
    stage.confirm(true);
    guest.ask(request);
    // Some ask the group when they come, others when they wait no more.
    stage.poll();
    stage.server.finish_turn();
    stage.confirm(true);
    let id = {
        let client = stage.server.state.clients.get(guest.place).expect("it is there");
        client.session.caller.id
    };
    other.ask(&format!("CLIENT UNBLOCK {id}"));
    stage.turn();
    stage.turn();
    let early = guest.replies();
    stage.confirm(leads);
    [early, guest.replies()]
}

fn no_late_reply_is_unconfirmed() -> bool {
    LATE.iter().all(|(request, told)| {
        let confirmed = late(request, true) == [String::new(), (*told).to_owned()];
        confirmed && late(request, false) == [String::new(), DOWN.to_owned()]
    })
}

#[test]
fn a_client_that_has_waited_is_told_what_the_group_confirms() {
    for (request, told) in LATE {
        assert_eq!(late(request, true), [String::new(), told.to_owned()], "{request}");
        assert_eq!(late(request, false), [String::new(), DOWN.to_owned()], "{request}");
    }
    let names = LATE.map(|(request, _)| request.split(' ').next().unwrap_or_default());
    for facts in commands().filter(|it| it.flags & flags::BLOCKING != 0) {
        assert!(names.contains(&facts.name.to_uppercase().as_str()), "{} blocks", facts.name);
    }
    #[cfg(feature = "mutants")]
    crate::mutant::with_mutant(crate::mutant::Mutant::AnswersLateUnasked, || {
        assert!(!no_late_reply_is_unconfirmed(), "the mistake is found");
    });
    assert!(no_late_reply_is_unconfirmed());
}

/// The time is over in the turn in which another leads: nobody confirms the reply then.
#[test]
fn a_client_that_has_waited_is_told_nothing_by_a_leader_that_is_deposed_in_that_turn() {
    let ends: [fn(&mut Stage); 3] = [
        |it| it.see("follower", Some(2), true),
        |it| it.see("leader", Some(1), false),
        |it| it.apply(vec![(Reign { term: TERM + 1, leader: 2 }, Content::First)]),
    ];
    for (request, _) in &LATE[..12] {
        for end in ends {
            let mut stage = Stage::leader();
            let [guest, other] = [(); 2].map(|()| stage.connect());
            other.ask("XGROUP CREATE stream g $ MKSTREAM");
            stage.turn();
            stage.commit();
            guest.ask(request);
            stage.poll();
            stage.server.finish_turn();
            stage.confirm_only(true);
            end(&mut stage);
            (0..2).for_each(|_| stage.turn());
            let reply = guest.replies();
            assert!(reply.starts_with("-MOVED ") || reply == DOWN, "{request}: {reply}");
        }
    }
}

/// The loop serves others in the middle of a long script, and asks the group only behind it.
#[test]
fn nothing_of_the_data_is_told_in_the_middle_of_a_script() {
    let mut stage = Stage::leader();
    let [guest, idle] = [(); 2].map(|()| stage.connect());
    guest.ask("BLPOP none 1");
    stage.poll();
    stage.server.finish_turn();
    stage.confirm(true);
    idle.ask("PING");
    stage.poll(); // the client's time is over
    let Server { keyspace, state, table, sockets, .. } = &mut stage.server;
    state.clients.flush_later(guest.place);
    sockets.serve_others(keyspace, state, table);
    assert_eq!((guest.replies(), idle.replies()), (String::new(), "+PONG\r\n".to_owned()));
    stage.server.finish_turn();
    assert_eq!(guest.replies(), "");
    stage.confirm(true);
    assert_eq!(guest.replies(), "*-1\r\n");
}

/// A member that follows may let clients read, but not what may be lost.
#[test]
fn a_deposed_leader_shows_nobody_what_it_may_have_lost() {
    let (mut stage, _writer) = Stage::with_write();
    stage.server.state.group.serve_reads(crate::node::config::Reads::Local);
    let reader = stage.connect();
    reader.ask("READONLY");
    stage.see("follower", Some(2), true);
    reader.ask("GET K");
    stage.turn();
    let text = reader.replies();
    assert!(text.starts_with("+OK\r\n-MOVED "), "{text}");
}

/// The log of a group is the server's memory, and no reason to evict keys.
#[test]
fn used_memory_has_the_log_of_the_group() {
    const LOG_BYTES: u64 = 5 << 20;
    let mut stage = Stage::leader();
    let bytes = |stage: &Stage| {
        let Server { keyspace, state, .. } = &stage.server;
        [used_bytes(keyspace, state), counted_bytes(keyspace, state)]
    };
    let [used, counted] = bytes(&stage);
    stage.consensus.plot().log_memory = LOG_BYTES;
    assert_eq!(bytes(&stage), [used + LOG_BYTES, counted]);
    let memory = stage.answer(&[b"INFO", b"memory"]);
    assert!(memory.contains(&format!("mem_raft_log:{LOG_BYTES}\r\n")), "{memory}");
    let told = memory.lines().find_map(|line| line.strip_prefix("used_memory:"));
    let told: u64 = told.expect("it is told").parse().expect("a number");
    assert!(told >= used + LOG_BYTES, "{memory}");
    let stats = stage.answer(&[b"MEMORY", b"STATS"]);
    assert!(stats.contains(&format!("$8\r\nraft.log\r\n:{LOG_BYTES}\r\n")), "{stats}");
}
