//! The threads of a member: openraft, its log and network, and the channels to the loop.

mod begin;
mod bind;
mod change;
mod elections;
mod heard;
mod messages;
mod propose;
mod purge;
mod questions;
mod tell;
#[cfg(test)]
mod tests;
mod votes;

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as StdMutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use openraft::error::{CheckIsLeaderError, RaftError};
use openraft::{Config, LogId, Raft, RaftMetrics, ServerState, SnapshotPolicy};
use stillframe_durability::disk::Directory;
use stillframe_durability::{Application, LogOptions};
use stillframe_openraft::LogStore;
use stillframe_raft_net::{
    Carrier, Identity, Limits, Listener, Member, Network, Settings as NetSettings, Tls, TlsFiles,
};
use stillframe_server::consensus::{
    Batch, Begin, Change, Consensus, Event, MemberView, Message, Peer, Reply, Settings, View,
};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Mutex, Semaphore, mpsc as channel, oneshot, watch};
use tokio::time::Instant;

use self::elections::Elections;
use self::heard::Heard;
use self::messages::Messages;
use self::propose::Queued;
use crate::error::Error;
use crate::events::Events;
use crate::identity::{self, LOG};
use crate::machine::{Machine, Newest, finish_install, remove_incoming};
use crate::mutant::{Mutant, Mutation};
use crate::types::{Label, Types, reign_of};

/// Threads of the runtime.
const THREADS: usize = 2;
/// How often figures are looked at that change all the time, at least.
const FIGURES: Duration = Duration::from_millis(100);
/// Heartbeats in an election timeout.
const HEARTBEATS: u64 = 5;
/// Most bytes of a message: a client may publish 512 MB at once, and an entry that a server of
/// before has put into the log has up to 1023 MB.
const FRAME_BYTES_MAX: u32 = 1 << 30;
/// Most bytes of large messages that are held at once, but for one giant.
const MEMORY_BYTES_MAX: usize = 512 << 20;

type Metrics = RaftMetrics<u64, Member>;

/// What the loop asks for.
enum Command {
    Publish(Message),
    TakeImage,
    Change(Change, Reply<Result<(), String>>),
}

/// A member that runs.
struct Node {
    events: mpsc::Receiver<Event>,
    batches: channel::UnboundedSender<Batch>,
    /// Those that openraft was not given yet.
    queued: Arc<watch::Sender<Queued>>,
    commands: channel::UnboundedSender<Command>,
    confirm: watch::Sender<u64>,
    closely: watch::Sender<bool>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    log: LogStore<Types>,
}

/// The label of the dump with which a member begins, and whether the one in memory is older: a log
/// that was cut for a newer dump has that among those that came in, or is refused.
fn newest_dump(
    log: &LogStore<Types>,
    files: &Directory,
    dump: &str,
    label: Option<Label>,
) -> Result<(Option<Label>, bool), Error> {
    let next = label.as_ref().map_or(0, Label::next);
    let Some(purged) = log.purged().map(|id| id.index).filter(|&purged| purged >= next) else {
        return Ok((label, false));
    };
    match finish_install(files, dump, purged)? {
        Some(label) => Ok((Some(label), true)),
        None => Err(Error::DumpBehindLog { path: files.at(dump), purged }),
    }
}

/// Starts a member: opens its log and its port, and begins to take part in the group, on threads of
/// its own.
///
/// # Errors
/// [`Error`]; nothing has changed.
pub fn start(begin: Begin) -> Result<Box<dyn Consensus>, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("raft")
        .enable_all()
        .build()
        .map_err(Error::Threads)?;
    let handle = runtime.handle().clone();
    let (mut node, parts, asked) = open(begin, &handle, None)?;
    let thread = std::thread::Builder::new().name("raft-main".into());
    let thread = thread.spawn(move || run(runtime, parts, asked)).map_err(Error::Threads)?;
    node.thread = Some(thread);
    Ok(Box::new(node))
}

/// As [`start`], on a runtime and over a carrier of the caller's. The member ends with the runtime,
/// or some time after it is told to stop.
///
/// # Errors
/// As of [`start`].
pub fn start_on(
    runtime: &Handle,
    carrier: Arc<dyn Carrier>,
    begin: Begin,
) -> Result<Box<dyn Consensus>, Error> {
    let (node, parts, asked) = open(begin, runtime, Some(carrier))?;
    let events = parts.events.clone();
    runtime.spawn(async move {
        if let Err(why) = take_part(parts, asked).await {
            events.send(Event::Failed(why.to_string()));
        }
    });
    Ok(Box::new(node))
}

/// Opens log and port of a member: what its loop has of it, and what is to run.
fn open(
    begin: Begin,
    runtime: &Handle,
    carrier: Option<Arc<dyn Carrier>>,
) -> Result<(Node, Parts, Asked), Error> {
    let _entered = runtime.enter();
    let Begin { settings, files, dump, label, wake } = begin;
    let label = match label {
        Some(text) => Some(Label::decode(&text)?),
        None => None,
    };
    let (network, config) = (net_settings(&settings)?, config(&settings)?);
    let tls = network.tls.clone();
    let owner = identity::Member::from_settings(&settings);
    let has_dump = files.holds(&dump)?;
    let found = owner.find(&files, has_dump)?;
    if has_dump && label.is_none() {
        return Err(Error::label("it has none"));
    }
    if !files.holds(LOG)? {
        files.create_below(LOG)?;
        files.sync()?;
    }
    let log = LogStore::open(
        files.below(LOG)?,
        found.is_none(),
        &Application::server(),
        LogOptions::default(),
    )?;
    let (label, is_late) = newest_dump(&log, &files, &dump, label)?;
    remove_incoming(&files)?;
    if found.is_none() && !log.is_blank() {
        return Err(identity::Member::missing(&files));
    }
    let blank = log.is_blank() && label.is_none();
    let identity = owner.begin(Arc::clone(&files), found, label.as_ref(), blank, settings.joins)?;
    let mut network = network.identity(identity.clone());
    network.carrier = carrier.unwrap_or(network.carrier);
    if !Mutation::current().is(Mutant::KeepsItsLead) {
        log.resign(&settings.id)?;
    }
    let listener = runtime.block_on(Listener::bind(&settings.listen, network.clone()))?;
    let (sender, events) = mpsc::channel();
    let to_loop = Events::new(sender, wake);
    let machine = Machine::new(to_loop.clone(), log.clone(), files, dump, label, identity.clone())?;
    let machine = machine.late(is_late);
    let (batches, proposed) = channel::unbounded_channel();
    let queued = Arc::new(watch::Sender::new(Queued::default()));
    let (commands, asked) = channel::unbounded_channel();
    let (confirm, confirmed) = watch::channel(0);
    let (closely, looked) = watch::channel(false);
    let (stop, stopped) = oneshot::channel();
    let network = Network::new(network)?;
    let theirs = Arc::clone(&queued);
    let shared = log.clone();
    let (events_of, events) = (events, to_loop);
    let parts = Parts { settings, config, log, machine, network, identity, tls, listener, events };
    let (theirs, asked) = ((proposed, theirs), asked);
    let asked = Asked {
        batches: theirs,
        commands: asked,
        confirm: confirmed,
        closely: looked,
        stop: stopped,
    };
    let (stop, thread) = (Some(stop), None);
    let (events, log) = (events_of, shared);
    let node = Node { events, batches, queued, commands, confirm, closely, stop, thread, log };
    Ok((node, parts, asked))
}

impl Consensus for Node {
    fn propose(&mut self, batch: Batch) {
        // Nobody there: the member has failed, which the loop hears by an event.
        self.queued.send_modify(|queued| queued.add(&batch));
        let _ = self.batches.send(batch);
    }

    fn confirm(&mut self, stamp: u64) {
        let _ = self.confirm.send(stamp);
    }

    fn next_event(&mut self) -> Option<Event> {
        self.events.try_recv().ok()
    }

    fn report_progress(&mut self, closely: bool) {
        self.closely.send_if_modified(|was| std::mem::replace(was, closely) != closely);
    }

    fn publish(&mut self, message: Message) {
        let _ = self.commands.send(Command::Publish(message));
    }

    fn take_image(&mut self) {
        let _ = self.commands.send(Command::TakeImage);
    }

    fn log_memory(&self) -> u64 {
        self.log.memory_bytes() + self.queued.borrow().bytes as u64
    }

    fn change(&mut self, change: Change, answer: Reply<Result<(), String>>) {
        if let Err(unsent) = self.commands.send(Command::Change(change, answer))
            && let Command::Change(_, answer) = unsent.0
        {
            answer(Err("this member takes no part any more".into()));
        }
    }

    fn stop(&mut self) {
        drop(self.stop.take());
        // What waits for a reply of the loop gets none.
        while self.events.try_recv().is_ok() {}
        let (_, nothing) = mpsc::channel();
        self.events = nothing;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the group has panicked");
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What a member is made of.
struct Parts {
    settings: Settings,
    config: Arc<Config>,
    log: LogStore<Types>,
    machine: Machine,
    network: Network,
    identity: Identity,
    tls: Option<Tls>,
    listener: Listener,
    events: Events,
}

/// What comes from the loop.
struct Asked {
    batches: (channel::UnboundedReceiver<Batch>, Arc<watch::Sender<Queued>>),
    commands: channel::UnboundedReceiver<Command>,
    confirm: watch::Receiver<u64>,
    closely: watch::Receiver<bool>,
    stop: oneshot::Receiver<()>,
}

fn net_settings(settings: &Settings) -> Result<NetSettings, Error> {
    let mut limits = Limits::default();
    (limits.frame_bytes_max, limits.memory_bytes_max) = (FRAME_BYTES_MAX, MEMORY_BYTES_MAX);
    limits.heartbeat = Duration::from_millis((settings.election_timeout_ms / HEARTBEATS).max(1));
    limits.snapshot_rate = NonZeroU64::new(settings.image_rate);
    let network = NetSettings::new(settings.id, settings.group.clone()).limits(limits);
    let Some([cert, key, ca]) = &settings.tls else { return Ok(network) };
    let [cert, key, ca] = [cert, key, ca].map(PathBuf::from);
    Ok(network.tls(Tls::load(TlsFiles { cert, key, ca })?))
}

fn config(settings: &Settings) -> Result<Arc<Config>, Error> {
    let timeout = settings.election_timeout_ms;
    let config = Config {
        cluster_name: settings.group.clone(),
        heartbeat_interval: (timeout / HEARTBEATS).max(1),
        // `elections` says when. These are the time for a vote, and the lease: so long after it has
        // heard its leader a member refuses all votes.
        enable_elect: false,
        election_timeout_min: timeout * 2 / 5,
        election_timeout_max: timeout * 3 / 5,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(settings.entries_per_image),
        max_in_snapshot_log_to_keep: u64::MAX, // `purge` decides
        // The answer to the last chunk comes when the data is loaded.
        install_snapshot_timeout: timeout.max(60_000),
        ..Config::default()
    };
    config.validate().map(Arc::new).map_err(|error| Error::Setting(error.to_string()))
}

/// Runs a member until it is stopped.
fn run(runtime: Runtime, parts: Parts, asked: Asked) {
    let events = parts.events.clone();
    let ended = runtime.block_on(take_part(parts, asked));
    if let Err(why) = ended {
        events.send(Event::Failed(why.to_string()));
    }
    runtime.shutdown_timeout(Duration::from_secs(5));
}

async fn take_part(parts: Parts, asked: Asked) -> Result<(), Error> {
    let Parts { settings, config, log, machine, network, identity, tls, listener, events } = parts;
    let Asked { batches: (batches, queued), commands, confirm, closely, mut stop } = asked;
    let newest = machine.newest();
    let bounds = purge::Bounds::from_settings(&settings, log.clone());
    let made = Raft::new(settings.id, config, network.clone(), log.clone(), machine);
    let raft = tokio::select! {
        // It applies what it knows to be committed, for which it needs the loop.
        raft = made => raft.map_err(Error::raft)?,
        _ = &mut stop => return Ok(()),
    };
    let elections = Elections::new(&raft, settings.election_timeout_ms);
    let (changes, hands_over) = (Arc::default(), Arc::default());
    let (naming, told) = (Arc::default(), Arc::default());
    let looks = Arc::new(Semaphore::new(1));
    let (id, raft_of) = (settings.id, raft.clone());
    let node = Running {
        id,
        raft: raft_of,
        log,
        network,
        identity,
        events,
        newest,
        elections,
        queued,
        changes,
        naming,
        told,
        looks,
        hands_over,
    };
    let serving = questions::serve(listener, &node, &settings);
    let mut tasks = vec![
        tokio::spawn(node.clone().stand()),
        tokio::spawn(node.clone().begin(settings.clone())),
        tokio::spawn(node.clone().propose(batches)),
        tokio::spawn(node.clone().agree_on_identity(settings.clone())),
        tokio::spawn(node.clone().introduce(settings.clone())),
        tokio::spawn(node.clone().watch_directory()),
        tokio::spawn(node.clone().carry_out(commands)),
        tokio::spawn(node.clone().confirm(confirm)),
        tokio::spawn(node.clone().purge(bounds)),
        tokio::spawn(node.clone().watch(closely)),
    ];
    if let Some(tls) = tls {
        let pause = Duration::from_millis(settings.election_timeout_ms);
        tasks.push(tokio::spawn(node.clone().bind(tls.clone(), pause)));
        tasks.push(tokio::spawn(node.clone().learn_bindings()));
        tasks.push(tokio::spawn(node.follow_certificates(tls)));
    }
    let _ = stop.await; // a loop that has gone says nothing
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    serving.stop().await;
    raft.shutdown().await.map_err(Error::raft)
}

/// The last entry of the leader's log that a member has, as far as the leader knows.
fn matched(metrics: &Metrics, id: u64) -> Option<LogId<u64>> {
    *metrics.replication.as_ref()?.get(&id)?
}

pub(crate) fn member(peer: &Peer) -> Member {
    Member { raft: peer.raft.clone(), client: peer.client.clone() }
}

/// What the tasks of a member share.
#[derive(Clone)]
struct Running {
    id: u64,
    raft: Raft<Types>,
    log: LogStore<Types>,
    network: Network,
    identity: Identity,
    events: Events,
    newest: Arc<Newest>,
    elections: Elections,
    /// Batches that openraft was not given yet.
    queued: Arc<watch::Sender<Queued>>,
    /// Held while the group is being changed: one change at a time.
    changes: Arc<Mutex<()>>,
    /// Held while the id of the group or the first binding comes into its log, and while a node is
    /// taken in: one that has met nobody yet would be a stranger to all who know the id before it
    /// does, and one of before has no place for bindings.
    naming: Arc<Mutex<()>>,
    /// Those that have met this start, in a group without an id.
    told: Arc<StdMutex<BTreeSet<u64>>>,
    /// One permit: held while others are asked whether this member was let go.
    looks: Arc<Semaphore>,
    /// This leader falls silent, so that another member may be elected.
    hands_over: Arc<AtomicBool>,
}

impl Running {
    /// Does what the loop asks for.
    async fn carry_out(self, mut commands: channel::UnboundedReceiver<Command>) {
        let mut messages = Messages::default();
        while let Some(command) = commands.recv().await {
            match command {
                Command::Publish(message) => messages.pass_on(&self, message),
                Command::TakeImage => {
                    if let Err(error) = self.raft.trigger().snapshot().await {
                        return self.events.send(Event::Failed(error.to_string()));
                    }
                }
                Command::Change(change, answer) => {
                    let node = self.clone();
                    tokio::spawn(async move {
                        answer(node.change(change).await.map_err(|error| error.to_string()));
                    });
                }
            }
        }
    }

    /// Asks the group whether this member leads: one question for all stamps that came meanwhile.
    /// openraft gives the others a heartbeat's time; it is asked again for an election timeout, or
    /// longer if the others are slow.
    async fn confirm(self, mut stamps: watch::Receiver<u64>) {
        while stamps.changed().await.is_ok() {
            let patience = self.elections.pace.patience();
            let (mut stamp, begun) = (*stamps.borrow_and_update(), Instant::now());
            let read = loop {
                match self.raft.get_read_log_id().await {
                    Ok((read, _)) => break read,
                    Err(RaftError::APIError(CheckIsLeaderError::QuorumNotEnough(_)))
                        if begun.elapsed() < patience =>
                    {
                        // It may have been refused at once.
                        tokio::time::sleep(patience / 20).await;
                        stamp = *stamps.borrow_and_update();
                    }
                    Err(_) => break None,
                }
            };
            // The first of its reign, or a later one: it names the reign that was confirmed.
            let reign = read.map(|id| reign_of(&id.leader_id));
            self.events.send(Event::Confirmed { stamp, reign });
        }
    }

    /// Tells the loop what has changed in the group.
    async fn watch(self, mut closely: watch::Receiver<bool>) {
        let mut metrics = self.raft.metrics();
        let mut changes = self.raft.server_metrics();
        let mut missed = self.elections.missed();
        let (mut last, mut elections, mut voted) = (View::default(), 0, None);
        let (mut heard, pace) = (Heard::since(Instant::now()), Arc::clone(&self.elections.pace));
        let pause = FIGURES.min(pace.timeout() / 10);
        loop {
            let is_new = metrics.has_changed().unwrap_or(false);
            let now = metrics.borrow_and_update().clone();
            let age = now.millis_since_quorum_ack.map(Duration::from_millis);
            if let Some(since) = heard.look(Instant::now(), is_new, age) {
                pace.is_heard(since);
            }
            if now.running_state.is_err() {
                return self.tell_end(&now);
            }
            if now.vote.leader_id.node_id == self.id && voted != Some(now.vote.leader_id) {
                elections += 1;
                voted = Some(now.vote.leader_id);
            }
            let misses = *missed.borrow_and_update() == Some(now.vote.leader_id);
            let patience =
                pace.patience() * (1 + u32::from(self.hands_over.load(Ordering::SeqCst)));
            let has_quorum = heard.at().is_none_or(|at| at.elapsed() <= patience);
            let view = self.view(&now, has_quorum);
            let leader = view.leader.filter(|&id| id == self.id || !misses);
            let view = View { elections, leader, ..view };
            if now.state == ServerState::Leader && view.changes {
                let node = self.clone();
                tokio::spawn(async move { node.end_change().await });
            }
            if view != last {
                tell::differences(&last, &view);
                last = view.clone();
                self.events.send(Event::View(view));
            }
            tokio::select! {
                // Openraft has ended; its last words are in the metrics.
                changed = changes.changed() => if changed.is_err() {
                    return self.tell_end(&metrics.borrow());
                },
                changed = metrics.changed(), if *closely.borrow_and_update() => {
                    if changed.is_err() {
                        return self.tell_end(&metrics.borrow());
                    }
                }
                // The loop has gone.
                changed = closely.changed() => if changed.is_err() { return },
                _ = missed.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Tells the loop that openraft has ended, and why.
    fn tell_end(&self, last: &Metrics) {
        let why = match &last.running_state {
            // Its thread has panicked; the place stands in what the process wrote before.
            Ok(()) => {
                "openraft has found a state that cannot be, and ended: the others go on. If it \
                       does so again, REMOVE this member from the group, and ADD it with an empty \
                       directory and raft-join yes"
                    .to_owned()
            }
            Err(error) => error.to_string(),
        };
        self.events.send(Event::Failed(why));
    }

    /// What the loop is to know; `has_quorum`: of a leader, whether it hears of most others.
    fn view(&self, now: &Metrics, has_quorum: bool) -> View {
        let membership = now.membership_config.membership();
        let voters: BTreeSet<u64> = membership.voter_ids().collect();
        let leads = now.state == ServerState::Leader;
        let lost = if leads { self.network.lost() } else { Vec::new() };
        let member = |(id, member): (&u64, &Member)| MemberView {
            reachable: !lost.contains(id),
            peer: Peer { id: *id, raft: member.raft.clone(), client: member.client.clone() },
            votes: voters.contains(id),
            matched: matched(now, *id).map(|id| id.index),
        };
        View {
            id: self.id,
            term: now.current_term,
            leader: now.current_leader,
            has_quorum: !leads
                || has_quorum
                || voters.len() == 1
                || Mutation::current().is(Mutant::ForgetsMajority),
            role: match now.state {
                ServerState::Leader => "leader",
                ServerState::Candidate => "candidate",
                ServerState::Follower => "follower",
                ServerState::Learner => "learner",
                ServerState::Shutdown => "shutdown",
            },
            members: membership.nodes().map(member).collect(),
            changes: membership.get_joint_config().len() > 1,
            last: now.last_log_index.unwrap_or(0),
            applied: now.last_applied.map_or(0, |id| id.index),
            image: self.newest.index(),
            purged: now.purged.map_or(0, |id| id.index),
            elections: 0,
        }
    }
}
