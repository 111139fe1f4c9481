//! A proxy for tests: it stands between two nodes and does what bad networks do.
//!
//! - Each [`Direction`] of a [`Line`] has [`Faults`] of its own. Connections are delayed each by a
//!   time of its own, so that messages of different connections overtake one another.
//! - A [`Proxy`] is one line. A [`Crossing`] has one for each node that calls, for groups whose
//!   nodes all know an address by one name.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::hello;

/// Bytes that are passed on at once.
const PIECE_BYTES: usize = 16 << 10;
/// Pieces under way.
const PIECES: usize = 256;
/// Time of a line that nobody used and the next piece may yet use: timers are late by as much.
const UNUSED_MAX: Duration = Duration::from_millis(10);

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the caller to the target.
    ToTarget,
    /// From the target to the caller.
    ToCaller,
}

/// What happens to bytes on one way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// Bytes arrive so much later.
    pub delay: Duration,
    /// And up to so much more, drawn once for each connection.
    pub spread: Duration,
    /// Bytes stay where they are, until this is false again.
    pub stalled: bool,
    /// Bytes a second of the line, if bounded: its connections take turns.
    pub bandwidth: Option<u64>,
}

/// The way of one caller to one target.
#[derive(Debug)]
pub struct Line {
    target: Mutex<SocketAddr>,
    ways: [watch::Sender<Faults>; 2],
    /// When each way has passed on all that its connections have given it.
    free: [Mutex<Instant>; 2],
    /// Counts the cuts.
    cuts: watch::Sender<u64>,
    damage: [AtomicBool; 2],
    refuses: AtomicBool,
    doubles: AtomicBool,
    chance: AtomicU64,
    connections: AtomicU64,
    /// Bytes that have arrived, of each direction.
    arrived: [AtomicU64; 2],
}

impl Line {
    fn new(target: SocketAddr, seed: u64) -> Self {
        Self {
            target: Mutex::new(target),
            ways: [watch::Sender::default(), watch::Sender::default()],
            free: [(); 2].map(|()| Mutex::new(Instant::now())),
            cuts: watch::Sender::default(),
            damage: Default::default(),
            refuses: AtomicBool::default(),
            doubles: AtomicBool::default(),
            chance: AtomicU64::new(seed),
            connections: AtomicU64::default(),
            arrived: Default::default(),
        }
    }

    /// When a piece has passed that comes now, at so many bytes a second.
    fn pass(&self, direction: Direction, bytes: usize, bandwidth: u64) -> Instant {
        let mut free = self.free[direction as usize].lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = Instant::now().checked_sub(UNUSED_MAX).unwrap_or(*free);
        let takes = Duration::from_secs_f64(bytes as f64 / bandwidth.max(1) as f64);
        *free = (*free).max(earliest) + takes;
        *free
    }

    fn random(&self) -> u64 {
        let mut z = self.chance.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The target has moved.
    pub fn retarget(&self, target: SocketAddr) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// From now on this happens on this way.
    pub fn set(&self, direction: Direction, faults: Faults) {
        self.ways[direction as usize].send_replace(faults);
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Flips a bit of the next piece on this way.
    pub fn damage(&self, direction: Direction) {
        self.damage[direction as usize].store(true, Ordering::Relaxed);
    }

    /// Whether new connections are closed at once.
    pub fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
    }

    /// Whether each new connection reaches the target twice: everything that the caller sends goes
    /// to both, and only the replies of the first come back.
    pub fn double(&self, doubles: bool) {
        self.doubles.store(doubles, Ordering::Relaxed);
    }

    /// The connections that have come so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// The bytes that have arrived here so far, to be passed on in this direction.
    #[must_use]
    pub fn arrived(&self, direction: Direction) -> u64 {
        self.arrived[direction as usize].load(Ordering::Relaxed)
    }

    /// No faults from now on; what was cut stays cut.
    pub fn heal(&self) {
        self.set(Direction::ToTarget, Faults::default());
        self.set(Direction::ToCaller, Faults::default());
        self.refuse(false);
        self.double(false);
        for damage in &self.damage {
            damage.store(false, Ordering::Relaxed);
        }
    }
}

/// A proxy in front of one address. It ends, with its connections, when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    line: Arc<Line>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// A proxy in front of `target`, at a free port of this machine. `seed` draws delays and
    /// damage.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn start(target: SocketAddr, seed: u64) -> io::Result<Self> {
        let socket = TcpListener::bind("127.0.0.1:0").await?;
        let address = socket.local_addr()?;
        let line = Arc::new(Line::new(target, seed));
        let task = tokio::spawn(accept(socket, Lines::One(Arc::clone(&line))));
        Ok(Self { address, line, task })
    }

    /// Where the proxy listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Deref for Proxy {
    type Target = Line;

    fn deref(&self) -> &Line {
        &self.line
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A proxy in front of one node with a line for each node that calls it, as their first bytes say;
/// so nothing passes that is under TLS. It ends, with its connections, when dropped.
#[derive(Debug)]
pub struct Crossing {
    address: SocketAddr,
    lines: BTreeMap<u64, Arc<Line>>,
    task: JoinHandle<()>,
}

impl Crossing {
    /// A proxy in front of `target`, at a free port of this machine, for these callers. `seed`
    /// draws delays and damage.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn start(
        target: SocketAddr,
        callers: impl IntoIterator<Item = u64>,
        seed: u64,
    ) -> io::Result<Self> {
        let socket = TcpListener::bind("127.0.0.1:0").await?;
        let address = socket.local_addr()?;
        let line = |caller: u64| (caller, Arc::new(Line::new(target, seed ^ (caller << 32))));
        let lines: BTreeMap<u64, Arc<Line>> = callers.into_iter().map(line).collect();
        let task = tokio::spawn(accept(socket, Lines::ByCaller(lines.clone())));
        Ok(Self { address, lines, task })
    }

    /// Where the proxy listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The line of a caller, if it is one of them.
    #[must_use]
    pub fn line(&self, caller: u64) -> Option<&Line> {
        self.lines.get(&caller).map(|line| &**line)
    }
}

impl Drop for Crossing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The lines behind one address.
#[derive(Clone)]
enum Lines {
    One(Arc<Line>),
    ByCaller(BTreeMap<u64, Arc<Line>>),
}

impl Lines {
    /// That of a connection which has come.
    async fn line_of(&self, near: &TcpStream) -> Option<Arc<Line>> {
        match self {
            Self::One(line) => Some(Arc::clone(line)),
            Self::ByCaller(lines) => lines.get(&hello::caller(near).await?).cloned(),
        }
    }
}

async fn accept(socket: TcpListener, lines: Lines) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            accepted = socket.accept() => {
                let Ok((near, _)) = accepted else { continue };
                let lines = lines.clone();
                tasks.spawn(async move {
                    if let Some(line) = lines.line_of(&near).await {
                        pass(near, line).await;
                    }
                });
            }
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
        }
    }
}

/// Passes on one connection until either end or a cut ends it.
async fn pass(near: TcpStream, line: Arc<Line>) {
    line.connections.fetch_add(1, Ordering::Relaxed);
    if line.refuses.load(Ordering::Relaxed) {
        return;
    }
    let mut cuts = line.cuts.subscribe();
    let target = *line.target.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok(far) = TcpStream::connect(target).await else { return };
    // Only the faults delay anything.
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let second = match line.doubles.load(Ordering::Relaxed) {
        true => TcpStream::connect(target).await.ok(),
        false => None,
    };
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    let (sink, copy) = second.map(TcpStream::into_split).unzip();
    tokio::select! {
        () = pump(&line, Direction::ToTarget, near_read, far_write, copy) => {}
        () = pump(&line, Direction::ToCaller, far_read, near_write, None) => {}
        () = swallow(sink) => {}
        _ = cuts.changed() => {}
    }
}

/// Bytes that a connection passes on before it is the turn of another one: some milliseconds.
fn turn_bytes(bandwidth: u64) -> usize {
    usize::try_from(bandwidth / 250).unwrap_or(PIECE_BYTES).clamp(512, PIECE_BYTES)
}

/// Reads and forgets.
async fn swallow(from: Option<OwnedReadHalf>) {
    if let Some(mut from) = from {
        let mut bytes = [0; 4096];
        while from.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
    }
    std::future::pending::<()>().await;
}

/// Passes bytes on, one way.
async fn pump(
    line: &Line,
    direction: Direction,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut copy: Option<OwnedWriteHalf>,
) {
    let mut faults = line.ways[direction as usize].subscribe();
    let (pieces, mut due) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES);
    let share = (line.random() % 1000) as u32;
    let read = async move {
        let pieces = pieces; // gone when nothing more comes
        loop {
            let mut bytes = vec![0; PIECE_BYTES];
            let Ok(count @ 1..) = from.read(&mut bytes).await else { return };
            bytes.truncate(count);
            line.arrived[direction as usize].fetch_add(count as u64, Ordering::Relaxed);
            if line.damage[direction as usize].swap(false, Ordering::Relaxed) {
                let at = line.random() as usize % (count * 8);
                bytes[at / 8] ^= 1 << (at % 8);
            }
            let Faults { delay, spread, .. } = *line.ways[direction as usize].borrow();
            let late = delay + spread * share / 1000;
            if pieces.send((Instant::now() + late, bytes)).await.is_err() {
                return;
            }
        }
    };
    let write = async {
        while let Some((at, bytes)) = due.recv().await {
            sleep_until(at).await;
            let flows = faults.wait_for(|faults| !faults.stalled).await;
            let Ok(bandwidth) = flows.map(|faults| faults.bandwidth) else { return };
            let most = bandwidth.map_or(PIECE_BYTES, turn_bytes);
            for bytes in bytes.chunks(most) {
                if let Some(bandwidth) = bandwidth {
                    sleep_until(line.pass(direction, bytes.len(), bandwidth)).await;
                }
                if let Some(copy) = &mut copy {
                    let _ = copy.write_all(bytes).await; // the target may refuse it
                }
                if to.write_all(bytes).await.is_err() {
                    return;
                }
            }
        }
    };
    // What was read before the end is written, too.
    let reads = async {
        read.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = reads => {}
        () = write => {}
    }
}
