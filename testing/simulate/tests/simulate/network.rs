//! The network between the members: connections with latency, bandwidth, loss and cuts by
//! direction, in memory.
//!
//! - A connection is two flows. Bytes of one flow come in their order. Flows overtake each other,
//!   or all that one member sends to another comes in its order ([`Quality::is_fifo`]).
//! - What goes from one member to another shares a bandwidth.
//! - What is lost comes later, as TCP sends it again, and so does all behind it on its way.
//! - Nothing passes a cut; connections stay, and what was sent comes when it is mended.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use stillframe_peers::Random;
use stillframe_raft_net::{Carrier, Door, Soon, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that a sender may have sent and the reader has not taken.
const ROOM: usize = 256 << 10;
/// How long it takes until something lost is sent again.
const AGAIN: u64 = 200;

/// Port of a member for the others; its clients' is 1000 below.
pub(crate) fn port(member: u64) -> u16 {
    7000 + member as u16
}

fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// How all links are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quality {
    /// Milliseconds that bytes are on their way, at least.
    pub(crate) latency: u64,
    /// And at most so many more.
    pub(crate) jitter: u64,
    /// Bytes a millisecond.
    pub(crate) bandwidth: usize,
    /// Of a thousand pieces so many are lost.
    pub(crate) loss: usize,
    /// What one member sends to another comes in its order, by whichever connection it goes; what
    /// is lost holds up its own connection alone.
    pub(crate) is_fifo: bool,
}

/// The network. Clones are the same.
#[derive(Clone)]
pub(crate) struct Network(Arc<Mutex<Inner>>);

struct Inner {
    now: u64,
    quality: Quality,
    random: Random,
    doors: BTreeMap<u16, Arrivals>,
    flows: BTreeMap<(u64, bool), Flow>,
    calls: BTreeMap<u64, Call>,
    last: u64,
    /// When the last bytes from one member to another arrive.
    arrives: BTreeMap<(u64, u64), u64>,
    /// From whom to whom nothing passes.
    cut: BTreeMap<(u64, u64), ()>,
    /// All that has happened, as a number.
    trace: u64,
    bytes: u64,
}

/// Connections that wait to be accepted.
#[derive(Default)]
struct Arrivals {
    waiting: VecDeque<(u64, u64)>,
    waker: Option<Waker>,
}

/// A connection that is being made.
struct Call {
    from: u64,
    to: u16,
    due: u64,
    answer: Option<bool>,
    waker: Option<Waker>,
}

/// One direction of a connection.
struct Flow {
    from: u64,
    to: u64,
    unsent: VecDeque<u8>,
    flying: VecDeque<(u64, Vec<u8>)>,
    flying_bytes: usize,
    arrived: VecDeque<u8>,
    /// The sender sends no more; when the reader hears so.
    ends: bool,
    ended: bool,
    /// Nobody reads.
    closed: bool,
    /// The machine at one end has lost its power: nothing passes, and nobody hears why.
    is_mute: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// A trace behind these bytes.
pub(crate) fn traced(trace: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.chain([bytes.len() as u64]).fold(trace, |trace, word| {
        (trace ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

/// Takes so many bytes, of those that there are.
fn taken(queue: &mut VecDeque<u8>, count: usize) -> Vec<u8> {
    let (one, two) = queue.as_slices();
    let first = one.len().min(count);
    let bytes = [&one[..first], &two[..count - first]].concat();
    queue.drain(..count);
    bytes
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

impl Flow {
    fn new(from: u64, to: u64) -> Self {
        Self {
            from,
            to,
            unsent: VecDeque::new(),
            flying: VecDeque::new(),
            flying_bytes: 0,
            arrived: VecDeque::new(),
            ends: false,
            ended: false,
            closed: false,
            is_mute: false,
            reader: None,
            writer: None,
        }
    }

    fn room(&self) -> usize {
        ROOM.saturating_sub(self.flying_bytes + self.arrived.len())
    }
}

impl Network {
    pub(crate) fn new(seed: u64, quality: Quality) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            now: 0,
            quality,
            random: Random::with_seed(seed),
            doors: BTreeMap::new(),
            flows: BTreeMap::new(),
            calls: BTreeMap::new(),
            last: 0,
            arrives: BTreeMap::new(),
            cut: BTreeMap::new(),
            trace: 0,
            bytes: 0,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The network as a member has it.
    pub(crate) fn site_of(&self, member: u64) -> Arc<dyn Carrier> {
        Arc::new(Site { network: self.clone(), member })
    }

    /// Nothing passes from one to another, or it does again.
    pub(crate) fn cut(&self, from: u64, to: u64, is_cut: bool) {
        let mut inner = self.lock();
        match is_cut {
            true => drop(inner.cut.insert((from, to), ())),
            false => drop(inner.cut.remove(&(from, to))),
        }
    }

    /// All links are mended.
    pub(crate) fn mend(&self) {
        self.lock().cut.clear();
    }

    pub(crate) fn set_quality(&self, quality: Quality) {
        self.lock().quality = quality;
    }

    /// The power of a member is gone: nobody hears the end of its connections.
    pub(crate) fn lose(&self, member: u64) {
        let mut inner = self.lock();
        let flows =
            inner.flows.values_mut().filter(|flow| flow.from == member || flow.to == member);
        flows.for_each(|flow| flow.is_mute = true);
    }

    /// The machine of a member is there again, and knows nothing of those.
    pub(crate) fn find(&self, member: u64) {
        let mut inner = self.lock();
        let flows =
            inner.flows.values_mut().filter(|flow| flow.from == member || flow.to == member);
        for flow in flows.filter(|flow| flow.is_mute) {
            (flow.is_mute, flow.ends, flow.closed) = (false, true, true);
            flow.unsent.clear();
            flow.flying.clear();
            wake(&mut flow.writer);
        }
    }

    /// What has passed so far, as a number, and in bytes.
    pub(crate) fn trace(&self) -> (u64, u64) {
        let inner = self.lock();
        (inner.trace, inner.bytes)
    }

    /// It is so late.
    pub(crate) fn advance(&self, now: u64) {
        let mut inner = self.lock();
        inner.now = now;
        inner.answer_calls();
        inner.send();
        inner.deliver();
    }
}

impl Inner {
    fn is_cut(&self, from: u64, to: u64) -> bool {
        self.cut.contains_key(&(from, to))
    }

    fn note(&mut self, number: u64, bytes: &[u8]) {
        self.trace = traced(self.trace ^ number.wrapping_add(self.now << 20), bytes);
    }

    /// How long something is on its way, and how much longer because it was lost.
    fn late(&mut self) -> (u64, u64) {
        let Quality { latency, jitter, loss, .. } = self.quality;
        let lost = self.random.below(1000) < loss;
        let late = latency + self.random.below(jitter as usize + 1) as u64;
        (late, if lost { AGAIN } else { 0 })
    }

    /// When something arrives that is sent now.
    fn arrival(&mut self, link: (u64, u64)) -> u64 {
        let (late, lost) = self.late();
        let mut at = self.now + late;
        if self.quality.is_fifo {
            let last = self.arrives.entry(link).or_default();
            at = at.max(*last);
            *last = at;
        }
        at + lost
    }

    fn answer_calls(&mut self) {
        let due: Vec<u64> = self
            .calls
            .iter()
            .filter(|(_, call)| call.answer.is_none() && call.due <= self.now)
            .map(|(&id, _)| id)
            .collect();
        for id in due {
            let Call { from, to, .. } = self.calls[&id];
            let member = u64::from(to - port(0));
            if self.is_cut(from, member) || self.is_cut(member, from) {
                if let Some(call) = self.calls.get_mut(&id) {
                    call.due = self.now + AGAIN;
                }
                continue;
            }
            let is_there = self.doors.contains_key(&to);
            if let Some(door) = self.doors.get_mut(&to) {
                door.waiting.push_back((id, from));
                wake(&mut door.waker);
                self.flows.insert((id, true), Flow::new(from, member));
                self.flows.insert((id, false), Flow::new(member, from));
            }
            if let Some(call) = self.calls.get_mut(&id) {
                call.answer = Some(is_there);
                wake(&mut call.waker);
            }
            self.note(id, &[u8::from(is_there)]);
        }
    }

    /// Sends what fits into the bandwidth of a millisecond: of each flow its share, then the rest.
    fn send(&mut self) {
        let has_some = |flow: &Flow| !flow.unsent.is_empty() && !flow.is_mute;
        let flows = self.flows.iter().filter(|(_, flow)| has_some(flow));
        let flows: Vec<((u64, bool), (u64, u64))> =
            flows.map(|(&key, flow)| (key, (flow.from, flow.to))).collect();
        if flows.is_empty() {
            return;
        }
        let mut room = BTreeMap::new();
        for (_, link) in &flows {
            room.entry(*link).or_insert((self.quality.bandwidth, 0)).1 += 1;
        }
        let first = self.random.below(flows.len());
        for is_rest in [false, true] {
            for at in 0..flows.len() {
                let (key, link) = flows[(first + at) % flows.len()];
                let Some((left, count)) = room.get_mut(&link) else { continue };
                let most = if is_rest { *left } else { self.quality.bandwidth / *count };
                if !self.is_cut(link.0, link.1) {
                    *left -= self.send_some(key, most.min(*left));
                }
            }
        }
    }

    /// Sends so many bytes of a flow at most; returns how many.
    fn send_some(&mut self, key: (u64, bool), most: usize) -> usize {
        let Some(flow) = self.flows.get(&key) else { return 0 };
        let count = flow.unsent.len().min(most).min(flow.room());
        if count == 0 {
            return 0;
        }
        let arrival = self.arrival((flow.from, flow.to));
        let Some(flow) = self.flows.get_mut(&key) else { return 0 };
        let bytes = taken(&mut flow.unsent, count);
        let arrives = flow.flying.back().map_or(0, |(at, _)| *at).max(arrival);
        flow.flying_bytes += count;
        flow.flying.push_back((arrives, bytes));
        wake(&mut flow.writer);
        count
    }

    fn deliver(&mut self) {
        let keys: Vec<(u64, bool)> = self.flows.keys().copied().collect();
        for key in keys {
            let Flow { from, to, is_mute, .. } = self.flows[&key];
            if is_mute || self.is_cut(from, to) {
                continue;
            }
            let now = self.now;
            let mut came = Vec::new();
            let Some(flow) = self.flows.get_mut(&key) else { continue };
            while flow.flying.front().is_some_and(|(at, _)| *at <= now) {
                let Some((_, bytes)) = flow.flying.pop_front() else { break };
                flow.flying_bytes -= bytes.len();
                came.extend(bytes);
            }
            if !came.is_empty() {
                if !flow.closed {
                    flow.arrived.extend(&came);
                }
                wake(&mut flow.reader);
                wake(&mut flow.writer);
            }
            if flow.ends && !flow.ended && flow.unsent.is_empty() && flow.flying.is_empty() {
                flow.ended = true;
                wake(&mut flow.reader);
                // Who writes to one that is gone hears so.
                if let Some(back) = self.flows.get_mut(&(key.0, !key.1)) {
                    back.closed = true;
                    back.unsent.clear();
                    wake(&mut back.writer);
                }
                self.note(key.0, b"end");
            }
            if !came.is_empty() {
                self.bytes += came.len() as u64;
                self.note(key.0 << 1 | u64::from(key.1), &came);
            }
        }
        self.flows.retain(|_, flow| !(flow.ended && flow.closed));
    }
}

/// The network at one member.
struct Site {
    network: Network,
    member: u64,
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site").field("member", &self.member).finish_non_exhaustive()
    }
}

/// A call that ends when it is dropped.
struct Calling {
    network: Network,
    id: u64,
}

impl Future for Calling {
    type Output = io::Result<u64>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut inner = self.network.lock();
        let Some(call) = inner.calls.get_mut(&self.id) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionRefused.into()));
        };
        match call.answer {
            Some(true) => Poll::Ready(Ok(self.id)),
            Some(false) => Poll::Ready(Err(io::ErrorKind::ConnectionRefused.into())),
            None => {
                call.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        self.network.lock().calls.remove(&self.id);
    }
}

impl Carrier for Site {
    fn look_up<'c>(&'c self, _: &'c str, port: u16) -> Soon<'c, Vec<SocketAddr>> {
        Box::pin(async move { Ok(vec![address(port)]) })
    }

    fn connect(&self, to: SocketAddr) -> Soon<'_, Stream> {
        let id = {
            let mut inner = self.network.lock();
            inner.last += 1;
            let there_and_back = [(); 2].map(|()| inner.late()).map(|(late, lost)| late + lost);
            let (id, due) = (inner.last, inner.now + there_and_back.iter().sum::<u64>());
            let call = Call { from: self.member, to: to.port(), due, answer: None, waker: None };
            inner.calls.insert(id, call);
            id
        };
        let calling = Calling { network: self.network.clone(), id };
        Box::pin(async move {
            let id = calling.await?;
            Ok(Box::new(End { network: self.network.clone(), id, calls: true }) as Stream)
        })
    }

    fn listen<'c>(&'c self, at: &'c [SocketAddr]) -> Soon<'c, Box<dyn Door>> {
        Box::pin(async move {
            let port = at.first().ok_or(io::ErrorKind::InvalidInput)?.port();
            self.network.lock().doors.insert(port, Arrivals::default());
            Ok(Box::new(Entrance { network: self.network.clone(), port }) as Box<dyn Door>)
        })
    }
}

/// Where connections to a member come in.
struct Entrance {
    network: Network,
    port: u16,
}

impl std::fmt::Debug for Entrance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entrance").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Drop for Entrance {
    fn drop(&mut self) {
        let mut inner = self.network.lock();
        let waiting = inner.doors.remove(&self.port).map(|door| door.waiting);
        for (id, _) in waiting.into_iter().flatten() {
            inner.hang_up(id, false);
        }
    }
}

impl Door for Entrance {
    fn address(&self) -> io::Result<SocketAddr> {
        Ok(address(self.port))
    }

    fn accept(&mut self) -> Soon<'_, (Stream, SocketAddr)> {
        Box::pin(std::future::poll_fn(|cx| {
            let mut inner = self.network.lock();
            let Some(door) = inner.doors.get_mut(&self.port) else { return Poll::Pending };
            match door.waiting.pop_front() {
                Some((id, from)) => {
                    let end = End { network: self.network.clone(), id, calls: false };
                    let from = address(20_000 + from as u16);
                    Poll::Ready(Ok((Box::new(end) as Stream, from)))
                }
                None => {
                    door.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        }))
    }
}

/// One end of a connection: that of the caller, or the other.
struct End {
    network: Network,
    id: u64,
    calls: bool,
}

impl Inner {
    /// The end that sends on this flow is gone.
    fn hang_up(&mut self, id: u64, calls: bool) {
        if let Some(flow) = self.flows.get_mut(&(id, calls)) {
            flow.ends = true;
        }
        if let Some(flow) = self.flows.get_mut(&(id, !calls)) {
            flow.closed = true;
            flow.arrived.clear();
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.network.lock().hang_up(self.id, self.calls);
    }
}

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut inner = self.network.lock();
        let Some(flow) = inner.flows.get_mut(&(self.id, !self.calls)) else {
            return Poll::Ready(Ok(()));
        };
        if flow.arrived.is_empty() {
            if flow.ended {
                return Poll::Ready(Ok(()));
            }
            flow.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = flow.arrived.len().min(into.remaining());
        into.put_slice(&taken(&mut flow.arrived, count));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for End {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut inner = self.network.lock();
        let Some(flow) = inner.flows.get_mut(&(self.id, self.calls)) else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        if flow.closed && !flow.is_mute {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let count = bytes.len().min(ROOM.saturating_sub(flow.unsent.len()));
        if count == 0 {
            flow.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        flow.unsent.extend(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
