//! One connection of another node, served.
//!
//! - Requests are read one after the other and answered each by a task of its own, so a ping is
//!   answered while an install takes its time.
//! - While a large message comes in, its sender hears so: bytes may be long on their way.
//! - Large messages take their share of the memory as they come, and wait where there is none. Of
//!   giants, which appends and pieces of snapshots never are, one is read and answered at a time:
//!   so those that wait do so for messages that need no more memory to end.
//! - A peer that sends what no node sends is disconnected.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use openraft::{Raft, RaftTypeConfig};
use serde::Serialize;
use tokio::io::{AsyncRead, BufReader, ReadHalf, WriteHalf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;

use crate::carrier::Stream;
use crate::error::Error;
use crate::frame::{self, Head, Kind};
use crate::hello::{Hello, Verdict};
use crate::identity::{End, Peer};
use crate::member::Member;
use crate::message::{self, Message};
use crate::mutant::Mutant;
use crate::seats::{Connections, Seat};
use crate::settings::Settings;
use crate::tls::{Bound, Certified};

/// Who sends a request that was [forwarded](crate::Network::forward).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sender {
    /// The number that it gives itself.
    pub node: u64,
    /// Whether it knows the id of the group. One that does not has a certificate at most: it may be
    /// on its way into the group, or pretend to be anybody.
    pub is_of_group: bool,
}

/// Bytes per permit of the memory for large messages.
pub(crate) const PERMIT_BYTES: usize = 1 << 10;
/// Replies that wait for the connection.
const REPLIES: usize = 16;
/// Bytes that are read at once.
const READ_BYTES: usize = 32 << 10;
/// Messages up to so many bytes are read without asking for memory.
const SMALL_BYTES: usize = 64 << 10;
/// Messages above so many bytes are giants: more than an append or a piece of a snapshot.
pub(crate) const GIANT_BYTES: usize = 2 << 20;
/// A message of so many bytes has a second more to come in.
const SLOWEST_BYTES: u32 = 256 << 10;

/// What all connections of a listener share.
pub(crate) struct Served<C: RaftTypeConfig, F> {
    pub(crate) raft: Raft<C>,
    pub(crate) forward: F,
    pub(crate) settings: Arc<Settings>,
    pub(crate) memory: Arc<Semaphore>,
    /// For the one giant.
    pub(crate) giant: Arc<Semaphore>,
    pub(crate) forwards: Arc<Semaphore>,
    pub(crate) connections: Arc<Connections>,
}

/// Serves a connection until it ends.
pub(crate) async fn serve<C, F, A>(
    served: Arc<Served<C, F>>,
    socket: Stream,
    peer: SocketAddr,
    mut seat: Seat,
) where
    C: RaftTypeConfig<NodeId = u64, Node = Member>,
    F: Fn(Sender, Vec<u8>) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Vec<u8>, String>> + Send + 'static,
{
    let leave = seat.leave();
    let error = tokio::select! {
        error = converse(&served, socket, peer, &mut seat) => error,
        () = Seat::left(leave) => Error::Replaced,
    };
    match error {
        // What the other end does when it stops or has found another way; it says so itself.
        Error::Closed | Error::Idle | Error::Replaced | Error::NotReady | Error::Broken(_) => {
            tracing::debug!("the connection of {peer} ends: {error}");
        }
        error if served.connections.is_new(peer.ip(), &error) => {
            tracing::warn!("the connection of {peer} ends: {error}");
        }
        error => tracing::debug!("the connection of {peer} ends: {error}"),
    }
}

/// Shakes hands and serves; says why the connection ended.
async fn converse<C, F, A>(
    served: &Arc<Served<C, F>>,
    socket: Stream,
    peer: SocketAddr,
    seat: &mut Seat,
) -> Error
where
    C: RaftTypeConfig<NodeId = u64, Node = Member>,
    F: Fn(Sender, Vec<u8>) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Vec<u8>, String>> + Send + 'static,
{
    let settings = &*served.settings;
    let shaken = timeout(settings.limits.handshake, shake(settings, socket, peer, seat)).await;
    let late = Err(Error::HandshakeTimeout { peer: peer.to_string() });
    let (stream, sender, shown) = match shaken.unwrap_or(late) {
        Ok(shaken) => shaken,
        Err(error) => return error,
    };
    let (read, write) = tokio::io::split(stream);
    let (replies, written) = mpsc::channel(REPLIES);
    let requests = Requests {
        served,
        sender,
        shown,
        replies,
        under_way: Arc::new(Semaphore::new(settings.limits.requests_max)),
    };
    tokio::select! {
        error = requests.read(read) => error,
        error = send(settings, write, written) => error,
    }
}

/// Learns who is there, and says whether it is welcome.
async fn shake(
    settings: &Settings,
    socket: Stream,
    peer: SocketAddr,
    seat: &mut Seat,
) -> Result<(Stream, Sender, Option<Bound>), Error> {
    let mut certified = None;
    let mut stream = match &settings.tls {
        None => socket,
        Some(tls) => {
            let stream = TlsAcceptor::from(tls.server()).accept(socket).await;
            let failed = |source| Error::Tls { peer: peer.to_string(), source };
            let stream = stream.map_err(failed)?;
            certified = Some(Certified::by(stream.get_ref().1.peer_certificates()));
            Box::new(stream) as Stream
        }
    };
    let hello = match Hello::read(&mut stream).await {
        Err(error @ Error::OtherVersion { .. }) => {
            let verdict = Verdict::OtherVersion;
            Hello::answer(settings.node, 0, verdict, &settings.group).write(&mut stream).await?;
            return Err(error);
        }
        hello => hello?,
    };
    let (node, said) = (hello.own, hello.statement.as_ref());
    let admitted = admit(settings, &hello, certified.as_ref(), seat).await;
    let verdict = admitted.as_ref().map_or_else(verdict_of, |()| Verdict::Welcome);
    let mut answer = Hello::answer(settings.node, node, verdict, &settings.group);
    if verdict == Verdict::Welcome {
        answer = answer.stating(settings.identity.answer(node, said));
    }
    let believes = settings.mutation.is(Mutant::BelievesStrangers);
    let is_of_group = believes || settings.identity.is_of_group(said);
    answer.in_answer_to(&hello).write(&mut stream).await?;
    let shown = certified.map(|certified| certified.bound(node));
    admitted.map(|()| (stream, Sender { node, is_of_group }, shown))
}

/// Whether a caller is taken in. `certified`: by its certificate; `None` without TLS.
async fn admit(
    settings: &Settings,
    hello: &Hello,
    certified: Option<&Certified>,
    seat: &mut Seat,
) -> Result<(), Error> {
    let Hello { own: sender, other: wanted, group: theirs, .. } = hello;
    let shown = certified.map(|certified| certified.bound(*sender));
    certified.map_or(Ok(()), |certified| certified.check(*sender))?;
    let (found, ours) = (settings.node, settings.group.clone());
    let lane = hello.lane()?;
    if *theirs != ours && !settings.mutation.is(Mutant::TakesAnyGroup) {
        return Err(Error::OtherGroup { theirs: theirs.clone(), ours });
    }
    if *wanted != found && !settings.mutation.is(Mutant::TakesAnyTarget) {
        return Err(Error::OtherNode { wanted: *wanted, found });
    }
    let said = hello.statement.as_ref();
    let peer = Peer { node: *sender, end: End::Listener, lane, said, shown };
    settings.identity.meet(peer, settings.mutation).await?;
    if seat.belongs_to(*sender) { Ok(()) } else { Err(Error::Full) }
}

/// What a caller is told that is not taken in.
fn verdict_of(error: &Error) -> Verdict {
    match error {
        Error::OtherGroup { .. } => Verdict::OtherGroup,
        Error::OtherNode { .. } => Verdict::OtherNode,
        Error::OtherIdentity { .. } | Error::Stranger { .. } => Verdict::OtherIdentity,
        Error::Blank { node: None } => Verdict::Blank,
        Error::Blank { node: Some(_) } => Verdict::CallerBlank,
        Error::OtherDirectory { .. } => Verdict::OtherDirectory,
        Error::WentBack { .. } => Verdict::WentBack,
        Error::NotReady => Verdict::NotReady,
        Error::OtherCertificate { .. }
        | Error::NamelessCertificate { .. }
        | Error::OtherKey { .. } => Verdict::OtherCertificate,
        Error::NoIdentity { .. } => Verdict::OtherVersion,
        _ => Verdict::Full,
    }
}

/// Sends replies as they come.
async fn send(
    settings: &Settings,
    mut to: WriteHalf<Stream>,
    mut replies: mpsc::Receiver<Message>,
) -> Error {
    while let Some(reply) = replies.recv().await {
        let sent = timeout(settings.limits.frame, frame::write(&mut to, &reply, || ())).await;
        if let Err(error) = sent.unwrap_or(Err(Error::Slow)) {
            return error;
        }
    }
    Error::Closed
}

/// The requests of a connection.
struct Requests<'s, C: RaftTypeConfig, F> {
    served: &'s Arc<Served<C, F>>,
    sender: Sender,
    /// To what of its certificate the sender can be bound; `None` without TLS.
    shown: Option<Bound>,
    replies: mpsc::Sender<Message>,
    under_way: Arc<Semaphore>,
}

impl<C, F, A> Requests<'_, C, F>
where
    C: RaftTypeConfig<NodeId = u64, Node = Member>,
    F: Fn(Sender, Vec<u8>) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Vec<u8>, String>> + Send + 'static,
{
    /// Reads requests until the connection ends.
    async fn read(&self, from: ReadHalf<Stream>) -> Error {
        let mut from = BufReader::with_capacity(READ_BYTES, from);
        loop {
            if let Err(error) = self.read_one(&mut from).await {
                return error;
            }
        }
    }

    async fn read_one(&self, from: &mut (impl AsyncRead + Unpin)) -> Result<(), Error> {
        let limits = &self.served.settings.limits;
        // A peer that lives sends pings long before that.
        let head = timeout(limits.idle, frame::read_head(from, limits.frame_bytes_max)).await;
        let head = head.unwrap_or(Err(Error::Idle))?.ok_or(Error::Closed)?;
        let check = !self.served.settings.mutation.is(Mutant::TrustsBytes);
        let mut held = Held { requests: self, told: Instant::now(), memory: None, giant: None };
        if self.served.settings.mutation.is(Mutant::ReservesPromises) {
            held.memory = self.promised(&head).await;
        }
        let time = limits.frame + Duration::from_secs((head.length / SLOWEST_BYTES).into());
        let body = timeout(time, frame::read_body(from, &head, check, &mut held)).await;
        let body = body.unwrap_or(Err(Error::Slow))?;
        let memory = (held.memory, held.giant);
        if head.kind == Kind::Ping {
            self.reply(Kind::Ping, head.id, frame::begin()).await;
            return Ok(());
        }
        // It may have been bound to another since it shook hands.
        let Settings { identity, mutation, .. } = &self.served.settings.as_ref();
        identity.check_shown(self.sender.node, self.shown, *mutation)?;
        let under_way = match head.kind {
            Kind::Forward => &self.served.forwards,
            _ => &self.under_way,
        };
        let Ok(permit) = Arc::clone(under_way).try_acquire_owned() else {
            self.reply(Kind::Busy, head.id, frame::begin()).await;
            return Ok(());
        };
        self.answer(&head, body, (memory, permit))
    }

    /// What [`Mutant::ReservesPromises`] takes.
    async fn promised(&self, head: &Head) -> Option<OwnedSemaphorePermit> {
        let Served { memory, settings, .. } = &**self.served;
        let bytes = (head.length as usize).min(settings.limits.memory_bytes_max);
        Arc::clone(memory).acquire_many_owned((bytes / PERMIT_BYTES) as u32).await.ok()
    }

    async fn reply(&self, kind: Kind, id: u64, mut message: Message) {
        frame::seal(&mut message, kind, id);
        let _ = self.replies.send(message).await; // the connection has ended
    }

    /// Starts the answer to a request.
    fn answer(&self, head: &Head, body: Vec<u8>, held: impl Send + 'static) -> Result<(), Error> {
        let Served { raft, forward, .. } = &**self.served;
        let (raft, sender) = (raft.clone(), self.sender);
        match head.kind {
            Kind::Append => {
                let request = message::append_of::<C>(&body, sender.node)?;
                self.run(
                    head.id,
                    held,
                    async move { encoded(&raft.append_entries(request).await) },
                );
            }
            Kind::Vote => {
                let request = message::vote_of(&body, sender.node)?;
                self.run(head.id, held, async move { encoded(&raft.vote(request).await) });
            }
            Kind::Snapshot => {
                let request = message::snapshot_of::<C>(body, sender.node)?;
                self.run(
                    head.id,
                    held,
                    async move { encoded(&raft.install_snapshot(request).await) },
                );
            }
            Kind::Forward => {
                let (answer, most) =
                    (forward(sender, body), self.served.settings.limits.frame_bytes_max);
                self.run(head.id, held, async move { forwarded(answer.await, most) });
            }
            Kind::Ping | Kind::Reply | Kind::Busy => {
                return Err(Error::Nonsense { what: "a reply in place of a request" });
            }
        }
        Ok(())
    }

    fn run(
        &self,
        id: u64,
        held: impl Send + 'static,
        answer: impl Future<Output = Result<Message, Error>> + Send + 'static,
    ) {
        let replies = self.replies.clone();
        tokio::spawn(async move {
            match answer.await {
                Ok(mut message) => {
                    frame::seal(&mut message, Kind::Reply, id);
                    let _ = replies.send(message).await; // the connection has ended
                }
                Err(error) => tracing::error!("a reply to a node: {error}"),
            }
            drop(held);
        });
    }
}

/// What a message that comes in holds.
struct Held<'r, 's, C: RaftTypeConfig, F> {
    requests: &'r Requests<'s, C, F>,
    /// When its sender was told last that bytes come.
    told: Instant,
    memory: Option<OwnedSemaphorePermit>,
    giant: Option<OwnedSemaphorePermit>,
}

impl<C: RaftTypeConfig, F: Send + Sync> frame::Room for &mut Held<'_, '_, C, F> {
    fn came(&mut self) {
        let Requests { served, replies, .. } = self.requests;
        if self.told.elapsed() > served.settings.limits.silence / 8 {
            self.told = Instant::now();
            let mut message = frame::begin();
            frame::seal(&mut message, Kind::Ping, 0);
            let _ = replies.try_send(message); // replies on their way say as much
        }
    }

    async fn grow(&mut self, bytes: usize) {
        if bytes <= SMALL_BYTES {
            return;
        }
        let Served { memory, giant, .. } = &**self.requests.served;
        if bytes > GIANT_BYTES && self.giant.is_none() {
            self.giant = Arc::clone(giant).acquire_owned().await.ok();
        }
        let has = self.memory.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = bytes.min(GIANT_BYTES).div_ceil(PERMIT_BYTES).saturating_sub(has);
        let Ok(more) = Arc::clone(memory).acquire_many_owned(more as u32).await else { return };
        match &mut self.memory {
            Some(memory) => memory.merge(more),
            none => *none = Some(more),
        }
    }
}

fn encoded(reply: &impl Serialize) -> Result<Message, Error> {
    message::encode(reply, u32::MAX)
}

/// A byte that says how it went, then the answer or why there is none.
fn forwarded(answer: Result<Vec<u8>, String>, most: u32) -> Result<Message, Error> {
    let (how, bytes) = match answer {
        Ok(bytes) if bytes.len() as u64 >= u64::from(most) => {
            let bytes = bytes.len() as u64 + 1;
            (1, Error::TooLarge { bytes, most }.to_string().into_bytes())
        }
        Ok(bytes) => (0, bytes),
        Err(text) => (1, text.into_bytes()),
    };
    let mut message = frame::begin();
    message.push(how);
    message.extend_from_slice(&bytes);
    Ok(message)
}
