//! How the loop hears of connections within the process: the place of its poller.
//!
//! - News of a connection are told once: a flag for each kind, and the connection in the list while
//!   any is up.
//! - No sleep is for ever while there is news: who has some raises `has_news` and rings, and the
//!   loop lies down and looks at it once more (see [`Bell`]).

use std::collections::VecDeque;
use std::hint::spin_loop;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use mio::event::Source;
use mio::{Interest, Registry, Token};
use stillframe_storage::wake::Wake;

use super::notice::Notice;
use super::queue::Queue;
use crate::connections::belts::Bell;

/// The token of what nobody watches.
pub(super) const UNWATCHED: usize = usize::MAX;
/// How long a thread looks for what it waits for before it sleeps.
const SPIN: Duration = Duration::from_micros(50);
/// The loop looks before it sleeps for so long after the last news.
const HOT: Duration = Duration::from_micros(200);
/// Turns with news after which the loop looks at its sockets, too.
const TURNS_WITHOUT_POLL_MAX: u32 = 8;

/// What has become possible at a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Readiness(u8);

impl Readiness {
    /// Bytes can be read, or the end.
    pub(crate) const READABLE: Self = Self(1);
    /// Output that was blocked can go on.
    pub(crate) const WRITABLE: Self = Self(2);
    /// The peer sends no more.
    pub(crate) const ENDED: Self = Self(4);

    /// Whether this is among it.
    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// What the loop has not been told of a connection.
#[derive(Default)]
pub(super) struct News(AtomicU8);

/// A connection, shared by its two ends.
pub(crate) struct Pipe {
    /// To the server.
    pub(super) requests: Queue,
    /// From the server.
    pub(super) replies: Queue,
    pub(super) porch: Porch,
    /// The token by which the loop knows it.
    pub(super) token: AtomicUsize,
    /// What the loop has not been told yet.
    news: News,
    /// For the other end, if it waits by a descriptor.
    pub(super) notice: Notice,
    /// The other end has found no room, and does not wait for it in a call.
    pub(super) wants_room: AtomicBool,
}

impl Pipe {
    /// The server's end is gone.
    pub(super) fn hang_up(&self) {
        self.requests.close();
        self.replies.end();
        self.notify();
    }

    /// Shows the other end by its descriptor what there is.
    #[inline]
    pub(super) fn notify(&self) {
        self.notice.update(|| {
            let has_room = || self.wants_room.load(Ordering::SeqCst) && self.requests.has_room();
            self.replies.is_ready() || has_room()
        });
    }
}

/// See the head of this file.
#[derive(Clone)]
pub(crate) struct Porch(Arc<Shared>);

struct Shared {
    /// Connections with news; `None` once the loop has ended: a connection holds the porch, so what
    /// nobody takes off the list would never be freed.
    told: Mutex<Option<Vec<Arc<Pipe>>>>,
    /// Connections that nobody has accepted yet; `None` once nobody does.
    arrived: Mutex<Option<VecDeque<Arc<Pipe>>>>,
    has_arrivals: AtomicBool,
    /// The token by which the loop knows the porch itself.
    token: AtomicUsize,
    has_news: AtomicBool,
    /// Wakes the loop.
    bell: Bell,
    /// There is a processor to look on while another works.
    spins: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Porch {
    /// A porch whose loop is woken by `wake`.
    pub(crate) fn new(wake: Wake) -> Self {
        Self(Arc::new(Shared {
            told: Mutex::new(Some(Vec::new())),
            arrived: Mutex::new(Some(VecDeque::new())),
            has_arrivals: AtomicBool::new(false),
            token: AtomicUsize::new(UNWATCHED),
            has_news: AtomicBool::new(false),
            bell: Bell::new(move || wake()),
            spins: available_parallelism().is_ok_and(|count| count.get() > 1),
        }))
    }

    /// A new connection, which the loop will accept.
    ///
    /// # Errors
    /// The server accepts nobody any more.
    pub(crate) fn connect(&self) -> io::Result<Arc<Pipe>> {
        let pipe = Arc::new(Pipe {
            requests: Queue::default(),
            replies: Queue::default(),
            porch: self.clone(),
            token: AtomicUsize::new(UNWATCHED),
            news: News::default(),
            notice: Notice::default(),
            wants_room: AtomicBool::new(false),
        });
        match &mut *lock(&self.0.arrived) {
            Some(arrived) => arrived.push_back(Arc::clone(&pipe)),
            None => return Err(io::ErrorKind::ConnectionRefused.into()),
        }
        self.0.has_arrivals.store(true, Ordering::SeqCst);
        self.rouse();
        Ok(pipe)
    }

    /// The next connection that waits.
    ///
    /// # Errors
    /// `WouldBlock` if none waits.
    pub(crate) fn accept(&self) -> io::Result<Arc<Pipe>> {
        let next = lock(&self.0.arrived).as_mut().and_then(VecDeque::pop_front);
        next.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// Accepts nobody any more; those that wait find the end.
    pub(crate) fn close(&self) {
        let waiting = lock(&self.0.arrived).take();
        waiting.into_iter().flatten().for_each(|pipe| pipe.hang_up());
    }

    /// Tells the loop news of a connection.
    pub(super) fn notify(&self, pipe: &Arc<Pipe>, what: Readiness) {
        if pipe.news.0.fetch_or(what.0, Ordering::SeqCst) == 0
            && let Some(told) = &mut *lock(&self.0.told)
        {
            told.push(Arc::clone(pipe));
        }
        self.rouse();
    }

    /// Makes the wait under way, or the next one, return at once.
    pub(crate) fn rouse(&self) {
        self.0.has_news.store(true, Ordering::Release);
        self.0.bell.ring();
    }

    fn has_news(&self) -> bool {
        self.0.has_news.load(Ordering::Acquire)
    }

    /// Looks until something is so, for a short time; false if it is not so by then.
    pub(super) fn spin(&self, is_so: impl Fn() -> bool) -> bool {
        if !self.0.spins {
            return is_so();
        }
        let start = Instant::now();
        loop {
            for _ in 0..16 {
                if is_so() {
                    return true;
                }
                spin_loop();
            }
            if start.elapsed() > SPIN {
                return false;
            }
        }
    }
}

/// A new listening socket is watched as others are: the token is kept.
impl Source for Porch {
    fn register(&mut self, _: &Registry, token: Token, _: Interest) -> io::Result<()> {
        self.0.token.store(token.0, Ordering::SeqCst);
        self.0.has_arrivals.store(true, Ordering::SeqCst);
        self.rouse();
        Ok(())
    }

    fn reregister(&mut self, to: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        self.register(to, token, interest)
    }

    fn deregister(&mut self, _: &Registry) -> io::Result<()> {
        self.0.token.store(UNWATCHED, Ordering::SeqCst);
        Ok(())
    }
}

/// The porch as its loop sees it.
pub(crate) struct Doorstep {
    porch: Porch,
    hot_until: Instant,
    turns_without_poll: u32,
}

impl Doorstep {
    pub(crate) fn new(porch: Porch) -> Self {
        Self { porch, hot_until: Instant::now(), turns_without_poll: 0 }
    }

    pub(crate) fn porch(&self) -> Porch {
        self.porch.clone()
    }

    /// How long the poller may wait for sockets, after a look at the news; `None` if it need not
    /// look at them in this turn.
    pub(crate) fn lie_down(&mut self, timeout: Duration) -> Option<Duration> {
        let porch = &self.porch;
        let is_hot = || Instant::now() < self.hot_until;
        if porch.has_news() || !timeout.is_zero() && is_hot() && porch.spin(|| porch.has_news()) {
            self.turns_without_poll += 1;
            if self.turns_without_poll < TURNS_WITHOUT_POLL_MAX {
                return None;
            }
            self.turns_without_poll = 0;
            return Some(Duration::ZERO);
        }
        self.turns_without_poll = 0;
        if timeout.is_zero() {
            return Some(timeout);
        }
        porch.0.bell.lie_down();
        Some(if porch.has_news() { Duration::ZERO } else { timeout })
    }

    /// The sleep is over: hands on the news, each with its token.
    pub(crate) fn get_up(&mut self, mut on_news: impl FnMut(Token, Readiness)) {
        let shared = &*self.porch.0;
        shared.bell.get_up();
        if !shared.has_news.swap(false, Ordering::AcqRel) {
            return;
        }
        self.hot_until = Instant::now() + HOT;
        if shared.has_arrivals.swap(false, Ordering::SeqCst) {
            let token = shared.token.load(Ordering::SeqCst);
            if token != UNWATCHED {
                on_news(Token(token), Readiness::READABLE);
            }
        }
        let told = lock(&shared.told).as_mut().map(std::mem::take);
        for pipe in told.unwrap_or_default() {
            let news = Readiness(pipe.news.0.swap(0, Ordering::SeqCst));
            let token = pipe.token.load(Ordering::SeqCst);
            if token != UNWATCHED {
                on_news(Token(token), news);
            }
        }
    }
}

impl Drop for Doorstep {
    fn drop(&mut self) {
        let told = lock(&self.porch.0.told).take();
        drop(told); // which may be all that holds a connection
    }
}
