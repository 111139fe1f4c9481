//! One connection to one node for one purpose, made anew whenever it breaks.
//!
//! - A task owns the connection. Requests come by a queue with few places; who finds no place waits
//!   within its own deadline.
//! - A request that its caller has given up is not sent, and its reply is dropped.
//! - While there is no connection, and until the next attempt, requests fail at once.
//! - A connection on which nothing is heard is given up: pings are answered even while requests
//!   take long, and pieces of a large message that the peer takes count as heard.

use std::collections::HashMap;
use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncWrite, BufReader, ReadHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use crate::carrier::Stream;
use crate::dial::{Dialed, dial};
use crate::directory::Id;
use crate::error::Error;
use crate::frame::{self, Kind};
use crate::hello::Lane;
use crate::message::Message;
use crate::mutant::Mutant;
use crate::settings::Settings;
use crate::tls::Bound;

/// Requests that may wait for a connection.
const QUEUE: usize = 64;
/// A connection that lived so long lets the next attempt begin without a longer pause.
const STEADY: Duration = Duration::from_secs(1);
/// Bytes that are read at once.
const READ_BYTES: usize = 32 << 10;

/// Why a request has no reply.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It did not reach the node.
    NotSent(Arc<Error>),
    /// It may have reached the node.
    Lost(Arc<Error>),
    /// No reply came in time.
    Timeout,
}

pub(crate) type Outcome = Result<Vec<u8>, Failure>;

struct Request {
    /// None if only a connection is wanted.
    wanted: Option<(Kind, Message)>,
    reply: oneshot::Sender<Outcome>,
}

/// What is known of a lane.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LaneState {
    /// The node.
    pub node: u64,
    /// What its connection is for.
    pub lane: Lane,
    /// Where the node is.
    pub address: String,
    /// Whether there is a connection.
    pub connected: bool,
    /// Connections that came about.
    pub connections: u64,
    /// Replies that nobody waited for any more.
    pub late: u64,
    /// To what of its certificate the node of this connection can be bound, if it has said that it
    /// is of this group.
    pub shown: Option<Bound>,
    /// Why there is no connection, or why the last one ended.
    pub error: Option<Arc<Error>>,
}

/// The way to the task of a lane. Clones are the same one; the task ends with the last.
#[derive(Debug, Clone)]
pub(crate) struct LaneHandle {
    queue: mpsc::Sender<Request>,
    state: Arc<Mutex<LaneState>>,
}

impl LaneHandle {
    /// Starts the task; a connection is made when it is needed.
    pub(crate) fn start(settings: Arc<Settings>, node: u64, address: &str, lane: Lane) -> Self {
        let (queue, requests) = mpsc::channel(QUEUE);
        let address = address.to_owned();
        let (connected, connections, late, shown, error) = Default::default();
        let state = LaneState { node, lane, address, connected, connections, late, shown, error };
        let state = Arc::new(Mutex::new(state));
        let task = Task { settings, state: Arc::clone(&state), requests };
        tokio::spawn(task.run());
        Self { queue, state }
    }

    /// Sends a request and waits for its reply, as long as `time` allows. The request is made once
    /// there is a connection: a node that is not reached costs no work.
    pub(crate) async fn call(
        &self,
        kind: Kind,
        message: impl FnOnce() -> Result<Message, Error>,
        time: Duration,
    ) -> Outcome {
        let called = async {
            self.connect().await?;
            let message = message().map_err(|error| Failure::NotSent(Arc::new(error)))?;
            self.send(kind, message).await
        };
        timeout(time, called).await.unwrap_or(Err(Failure::Timeout))
    }

    /// Returns when there is a connection.
    pub(crate) async fn connect(&self) -> Result<(), Failure> {
        let connected = lock(&self.state).connected;
        if connected { Ok(()) } else { self.clone().ask(None).await.map(drop) }
    }

    /// Sends a request and waits for its reply, as long as the connection lasts. One that is
    /// dropped is not sent, unless that has begun.
    pub(crate) fn send(
        &self,
        kind: Kind,
        message: Message,
    ) -> impl Future<Output = Outcome> + Send + use<> {
        self.clone().ask(Some((kind, message)))
    }

    async fn ask(self, wanted: Option<(Kind, Message)>) -> Outcome {
        let (reply, replied) = oneshot::channel();
        let sent = self.queue.send(Request { wanted, reply }).await;
        sent.map_err(|_| Failure::NotSent(Arc::new(Error::Ended)))?;
        replied.await.map_err(|_| Failure::Lost(Arc::new(Error::Ended)))?
    }

    pub(crate) fn state(&self) -> LaneState {
        lock(&self.state).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Taken though poisoned: it is whole between statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Task {
    settings: Arc<Settings>,
    state: Arc<Mutex<LaneState>>,
    requests: mpsc::Receiver<Request>,
}

impl Task {
    async fn run(mut self) {
        let mut pauses = self.settings.limits.backoff();
        let mut next = None;
        while let Some(request) = match next.take() {
            Some(request) => Some(request),
            None => self.requests.recv().await,
        } {
            if request.reply.is_closed() {
                continue;
            }
            let LaneState { node, lane, address, .. } = lock(&self.state).clone();
            let said = Introduction::from_settings(&self.settings);
            let error = match dial(&self.settings, node, &address, lane).await {
                Ok(Dialed { stream, shown, is_of_group }) => {
                    let started = Instant::now();
                    if lane == Lane::Control && self.settled_error().is_some() {
                        tracing::info!("connected to node {node} at {address} again");
                    }
                    self.note(|state| {
                        (state.connected, state.error) = (true, None);
                        state.connections += 1;
                        state.shown = shown.filter(|_| is_of_group);
                    });
                    let error;
                    (error, next) = self.converse(stream, request, said, shown).await;
                    if started.elapsed() > STEADY {
                        pauses = self.settings.limits.backoff();
                    }
                    error
                }
                Err(error) => {
                    let error = Arc::new(error);
                    let _ = request.reply.send(Err(Failure::NotSent(Arc::clone(&error))));
                    error
                }
            };
            self.log_failure(&error);
            self.note(|state| {
                (state.connected, state.shown) = (false, None);
                state.error = Some(Arc::clone(&error));
            });
            if error.is_by_choice() {
                pauses = self.settings.limits.backoff();
                continue;
            }
            if let Some(Request { reply, .. }) = next.take() {
                let _ = reply.send(Err(Failure::NotSent(Arc::clone(&error))));
            }
            let pause = jittered(pauses.next().unwrap_or(self.settings.limits.backoff_max));
            self.refuse(Instant::now() + pause, &error).await;
        }
    }

    /// Why the last attempt failed or the last connection ended, but by itself.
    fn settled_error(&self) -> Option<Arc<Error>> {
        lock(&self.state).error.clone().filter(|error| !error.is_by_choice())
    }

    /// Logs why there is no connection: once while the node is away, and once for each other
    /// reason. Of the lanes, that of votes and heartbeats speaks.
    fn log_failure(&self, error: &Arc<Error>) {
        let LaneState { node, lane, address, connected, .. } = lock(&self.state).clone();
        let text = error.to_string();
        let is_known = self.settled_error().is_some_and(|last| {
            last.is_absence() && error.is_absence() || last.to_string() == text
        });
        let is_new = (connected || !is_known) && !error.is_by_choice();
        if is_new && lane == Lane::Control {
            tracing::warn!("no connection to node {node} at {address}: {text}");
        } else {
            tracing::debug!("no {lane:?} connection to node {node} at {address}: {text}");
        }
    }

    fn note(&self, change: impl FnOnce(&mut LaneState)) {
        change(&mut lock(&self.state));
    }

    /// Fails requests at once until then.
    async fn refuse(&mut self, until: Instant, error: &Arc<Error>) {
        let mut until = std::pin::pin!(sleep_until(until));
        loop {
            tokio::select! {
                biased;
                request = self.requests.recv() => match request {
                    Some(request) => {
                        let _ = request.reply.send(Err(Failure::NotSent(Arc::clone(error))));
                    }
                    None => return,
                },
                () = &mut until => return,
            }
        }
    }

    /// Sends requests and receives replies until the connection breaks; says why it did, and which
    /// request is to go by the next one. `said`: what the handshake has said; `shown`: what of its
    /// certificate the node has shown.
    async fn converse(
        &mut self,
        stream: Stream,
        first: Request,
        said: Introduction,
        shown: Option<Bound>,
    ) -> (Arc<Error>, Option<Request>) {
        let (read, write) = tokio::io::split(stream);
        let talk = Talk::new(&self.settings, &self.state, said, shown);
        let mut next = Some(first);
        let error = tokio::select! {
            error = talk.send(write, &mut next, &mut self.requests) => error,
            error = talk.receive(read) => error,
            error = talk.watch() => error,
        };
        let error = Arc::new(error);
        for (_, reply) in lock(&talk.waiting).drain() {
            let _ = reply.send(Err(Failure::Lost(Arc::clone(&error))));
        }
        (error, next)
    }
}

/// What a handshake says of this node, as far as others remember it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Introduction {
    group: Option<Id>,
    /// It has data, and no id of a group: it is known by its directory.
    is_known_by_data: bool,
}

impl Introduction {
    fn from_settings(settings: &Settings) -> Self {
        let said = settings.identity.read(|standing| Self {
            group: standing.group,
            is_known_by_data: standing.group.is_none() && !standing.is_blank,
        });
        said.unwrap_or(Self { group: None, is_known_by_data: false })
    }
}

/// Between half of a time and all of it, so that nodes do not try in step.
fn jittered(pause: Duration) -> Duration {
    let chance = RandomState::new().build_hasher().finish() as u32;
    pause.mul_f64(0.5 + 0.5 * f64::from(chance) / f64::from(u32::MAX))
}

/// One connection.
struct Talk<'t> {
    settings: &'t Settings,
    /// What the other end has heard of this node.
    said: Introduction,
    /// The other end, and what it has shown of its certificate.
    peer: (u64, Option<Bound>),
    state: &'t Mutex<LaneState>,
    /// Who waits for the reply to which request.
    waiting: Mutex<HashMap<u64, oneshot::Sender<Outcome>>>,
    started: Instant,
    /// When the peer was heard last, in milliseconds from the start.
    heard: AtomicU64,
    /// A ping was not answered yet.
    pinged: AtomicBool,
}

impl<'t> Talk<'t> {
    fn new(
        settings: &'t Settings,
        state: &'t Mutex<LaneState>,
        said: Introduction,
        shown: Option<Bound>,
    ) -> Self {
        let peer = (lock(state).node, shown);
        let (waiting, started) = (Mutex::default(), Instant::now());
        let (heard, pinged) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { settings, said, peer, state, waiting, started, heard, pinged }
    }

    /// This node has learnt its group since, or has got data: the other end is to hear so.
    fn says_less(&self) -> bool {
        Introduction::from_settings(self.settings) != self.said
    }

    /// What is asked now is asked with data, which others remember: not by a handshake without.
    fn hides_data(&self) -> bool {
        !self.said.is_known_by_data && Introduction::from_settings(self.settings).is_known_by_data
    }

    /// The other end has been bound to another certificate since it shook hands.
    fn is_with_another(&self) -> bool {
        let (node, shown) = self.peer;
        let Settings { identity, mutation, .. } = self.settings;
        identity.check_shown(node, shown, *mutation).is_err()
    }

    fn mark_heard(&self) {
        // These atomics are of one task.
        self.heard.store(self.started.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    fn silent_for(&self) -> Duration {
        let heard = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(heard)
    }

    /// How often to look, and to ping a peer that says nothing.
    fn beat(&self) -> Duration {
        (self.settings.limits.silence / 4).max(Duration::from_millis(1))
    }

    /// Sends requests, and pings between them. At its end `next` has what was not sent because the
    /// other end is to hear something else first.
    async fn send(
        &self,
        mut to: impl AsyncWrite + Unpin,
        next: &mut Option<Request>,
        requests: &mut mpsc::Receiver<Request>,
    ) -> Error {
        let mut beat = interval(self.beat());
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut used = Instant::now();
        for id in 1.. {
            if next.is_some() && (self.hides_data() || self.is_with_another()) {
                return Error::Outdated;
            }
            let sent = match next.take() {
                Some(request) => {
                    used = Instant::now();
                    self.send_request(&mut to, id, request).await
                }
                None => tokio::select! {
                    request = requests.recv() => match request {
                        Some(request) => {
                            *next = Some(request);
                            Ok(())
                        }
                        None => return Error::Ended,
                    },
                    _ = beat.tick() => {
                        lock(&self.waiting).retain(|_, reply| !reply.is_closed());
                        let unused = used.elapsed() > self.settings.limits.idle;
                        if unused && !self.has_waiting() {
                            return Error::Idle;
                        }
                        if self.says_less() || self.is_with_another() {
                            return Error::Outdated;
                        }
                        self.ping(&mut to, id).await
                    }
                },
            };
            if let Err(error) = sent {
                return error;
            }
        }
        Error::Ended
    }

    fn has_waiting(&self) -> bool {
        !lock(&self.waiting).is_empty()
    }

    async fn send_request(
        &self,
        to: &mut (impl AsyncWrite + Unpin),
        id: u64,
        request: Request,
    ) -> Result<(), Error> {
        let Request { wanted, reply } = request;
        let Some((kind, mut message)) = wanted else {
            let _ = reply.send(Ok(Vec::new())); // its caller may have given up
            return Ok(());
        };
        if reply.is_closed() {
            return Ok(());
        }
        let most = self.settings.limits.forwards_max.max(self.settings.limits.requests_max);
        {
            let mut waiting = lock(&self.waiting);
            if waiting.len() >= most {
                waiting.retain(|_, reply| !reply.is_closed());
            }
            if waiting.len() >= most {
                let _ = reply.send(Err(Failure::NotSent(Arc::new(Error::Busy))));
                return Ok(());
            }
            waiting.insert(id, reply);
        }
        frame::seal(&mut message, kind, id);
        frame::write(to, &message, || self.mark_heard()).await
    }

    async fn ping(&self, to: &mut (impl AsyncWrite + Unpin), id: u64) -> Result<(), Error> {
        if self.silent_for() < self.beat() || self.pinged.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let mut message = frame::begin();
        frame::seal(&mut message, Kind::Ping, id);
        frame::write(to, &message, || ()).await
    }

    async fn receive(&self, from: ReadHalf<Stream>) -> Error {
        let mut from = BufReader::with_capacity(READ_BYTES, from);
        loop {
            if let Err(error) = self.receive_reply(&mut from).await {
                return error;
            }
        }
    }

    async fn receive_reply(&self, from: &mut BufReader<ReadHalf<Stream>>) -> Result<(), Error> {
        let Settings { limits, mutation, .. } = self.settings;
        let head = frame::read_head(from, limits.frame_bytes_max).await?.ok_or(Error::Closed)?;
        self.mark_heard();
        let check = !mutation.is(Mutant::TrustsBytes);
        let body = frame::read_body(from, &head, check, || self.mark_heard()).await?;
        let outcome = match head.kind {
            Kind::Ping => {
                self.pinged.store(false, Ordering::Relaxed);
                return Ok(());
            }
            Kind::Reply => Ok(body),
            Kind::Busy => Err(Failure::NotSent(Arc::new(Error::Busy))),
            _ => return Err(Error::Nonsense { what: "a request in place of a reply" }),
        };
        let reply = {
            let mut waiting = lock(&self.waiting);
            let first = waiting.keys().min().copied().unwrap_or_default();
            let id = if mutation.is(Mutant::MatchesByOrder) { first } else { head.id };
            waiting.remove(&id)
        };
        let taken = reply.is_some_and(|reply| reply.send(outcome).is_ok());
        if !taken {
            lock(self.state).late += 1;
        }
        Ok(())
    }

    /// Ends when nothing was heard for too long.
    async fn watch(&self) -> Error {
        let mut beat = interval(self.beat());
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looked = Instant::now();
        loop {
            beat.tick().await;
            // While this process stood still it heard nobody.
            if looked.elapsed() > 2 * self.beat() {
                self.mark_heard();
            }
            looked = Instant::now();
            let keeps = self.settings.mutation.is(Mutant::KeepsSilent);
            if self.silent_for() > self.settings.limits.silence && !keeps {
                return Error::Silent;
            }
        }
    }
}
