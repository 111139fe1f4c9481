//! State of the server that is neither data nor one client's: configuration, counters, clients.

mod admit;
mod clients;
pub(crate) mod give_back;
mod invalidate;
mod loading;
pub(crate) mod memory;
mod oom;
pub(crate) mod pause;
mod publish;
pub(crate) mod slowlog;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use stillframe_redis::{Ledger, Random};
use stillframe_resp::Out;

use self::give_back::FreeMemory;
use self::pause::Pause;
use self::slowlog::{Histogram, Latency, SlowLog};
use crate::acl::Users;
use crate::client::{Clients, Replies};
use crate::clock::unix_millis;
use crate::commands::migrate::Peers;
use crate::config::Config;
use crate::ending::Ending;
use crate::hub::{PubSub, Tracking};
use crate::journal::Journal;
use crate::loading::Loading;
use crate::metrics::Metrics;
use crate::net::Listeners;
use crate::persistence::Saves;
use crate::replication::{Replication, Transfers};
use crate::signals::Signals;
use crate::tls::Tls;

/// What every command may see and change of the server.
pub(crate) struct ServerState {
    /// Configuration.
    pub(crate) config: Config,
    /// Who may do what.
    pub(crate) users: Users,
    /// Counters for INFO.
    pub(crate) stats: Stats,
    /// All clients but the one being served.
    pub(crate) clients: Clients,
    /// What commands on data keep beside the data.
    pub(crate) ledger: Ledger,
    /// Channels that clients listen to.
    pub(crate) pubsub: PubSub,
    /// Keys that clients keep in caches.
    pub(crate) tracking: Tracking,
    /// Places of the clients that want to see every request.
    pub(crate) monitors: Vec<usize>,
    /// Requests are being held.
    pub(crate) pause: Option<Pause>,
    /// The clock looks for expired keys, unless a test has told it not to.
    pub(crate) expires_actively: bool,
    /// A test has stopped the clock.
    pub(crate) clock_stands: bool,
    /// Requests that took long.
    pub(crate) slowlog: SlowLog,
    /// Events that took long.
    pub(crate) latency: Latency,
    /// When the last request ended, or the one under way began: nanoseconds since `loop_time`.
    pub(crate) clock_ns: u64,
    /// Unix time in milliseconds when this turn of the loop began.
    pub(crate) loop_unix_ms: i64,
    /// Free memory that is not given back yet.
    pub(crate) free_memory: FreeMemory,
    /// Memory is above its limit and there are keys to evict.
    pub(crate) evicting: bool,
    /// Saving, and how it went.
    pub(crate) saves: Saves,
    /// Replicas, or the primary.
    pub(crate) replication: Replication,
    /// The log.
    pub(crate) journal: Journal,
    /// The data is being loaded, at start.
    pub(crate) loading: Option<Loading>,
    /// The loop ends after this turn.
    pub(crate) stopping: bool,
    /// Forty digits that name this run of the server.
    pub(crate) run_id: String,
    /// The sockets it listens on.
    pub(crate) listeners: Listeners,
    /// Where the server listens: the port for plain TCP, or 0.
    pub(crate) port: u16,
    /// The port for TLS, or 0.
    pub(crate) tls_port: u16,
    /// Who wants to know the figures.
    pub(crate) metrics: Metrics,
    /// The server is to end, and waits for its replicas.
    pub(crate) ending: Option<Ending>,
    /// Servers that keys were moved to lately.
    pub(crate) peers: Peers,
    /// What signals have asked for.
    pub(crate) signals: Signals,
    /// What the system's score of the process was before it was changed, if it was.
    pub(crate) oom_score_before: Option<i32>,
    /// What TLS connections are made with.
    pub(crate) tls: Tls,
    /// When the server started.
    pub(crate) started: Instant,
    /// When this turn of the loop began.
    pub(crate) loop_time: Instant,
    /// When all clients are looked at next.
    pub(crate) next_client_check: Instant,
}

impl ServerState {
    /// State of a server that has no clients yet.
    pub(crate) fn new(config: Config, saves: Saves, users: Users) -> Self {
        let now = Instant::now();
        let mut random = Random::seeded();
        let settings = config.of_commands();
        Self {
            replication: Replication::new(&mut random, Transfers::new(saves.waker()), now),
            journal: Journal::new(saves.directory().files(), &config, saves.waker()),
            config,
            stats: Stats::new(users.catalog.len(), now),
            users,
            clients: Clients::default(),
            pubsub: PubSub::default(),
            tracking: Tracking::default(),
            monitors: Vec::new(),
            pause: None,
            expires_actively: true,
            clock_stands: false,
            slowlog: SlowLog::default(),
            latency: Latency::default(),
            clock_ns: 0,
            loop_unix_ms: unix_millis(),
            free_memory: FreeMemory::default(),
            evicting: false,
            saves,
            loading: None,
            stopping: false,
            run_id: random.identifier(),
            ledger: Ledger::new(settings, random),
            listeners: Listeners::default(),
            port: 0,
            tls_port: 0,
            metrics: Metrics::default(),
            ending: None,
            peers: Peers::default(),
            signals: Signals::default(),
            oom_score_before: None,
            tls: Tls::default(),
            started: now,
            loop_time: now,
            next_client_check: now,
        }
    }

    /// Ends a client's waiting with the reply that `answer` writes; false if it does not wait.
    pub(crate) fn unblock(&mut self, id: u64, answer: impl FnOnce(&mut Out<'_>)) -> bool {
        let Some(waiter) = self.ledger.waiters.leave(id) else { return false };
        self.stats.commands[waiter.command].calls += 1;
        let Some(client) = self.clients.get_mut(waiter.place) else { return false };
        client.session.caller.waits = false;
        let start = client.output.len();
        answer(&mut Out::new(&mut client.output, client.session.protocol));
        if let Some([b'-', error @ ..]) = client.output.get(start..) {
            self.stats.commands[waiter.command].failed += 1;
            self.stats.count_error(error);
        }
        if client.session.replies == Replies::Dropped {
            client.output.truncate(start);
        }
        self.clients.woken.push(waiter.place);
        true
    }

    /// Ends a client's waiting as its timeout does; false if it does not wait.
    pub(crate) fn give_up(&mut self, id: u64) -> bool {
        let replicas = self.ledger.waiters.acks(id).map(|acks| self.replicas_at(acks.offset));
        self.unblock(id, |out| match replicas {
            Some(count) => out.integer(count as i64),
            None => out.null_array(),
        })
    }

    /// Unix time in milliseconds, at the start of the request under way.
    #[inline]
    pub(crate) fn unix_now(&self) -> i64 {
        self.loop_unix_ms.saturating_add_unsigned(self.clock_ns / 1_000_000)
    }

    /// Reads the clocks: a turn of the loop begins.
    pub(crate) fn begin_turn(&mut self) {
        self.loop_time = Instant::now();
        self.loop_unix_ms = unix_millis();
        self.clock_ns = 0;
    }

    /// Reads the clock: a request begins, or has ended. A number, as requests are so short that the
    /// arithmetic of [`Duration`] is a part of them.
    #[inline]
    pub(crate) fn read_clock(&mut self) {
        let since = self.loop_time.elapsed();
        self.clock_ns = since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos());
    }

    /// Why writes are refused: the data, or the log, could not be saved.
    pub(crate) fn writes_refused(&self) -> Option<Cow<'static, str>> {
        if let Some(problem) = self.journal.problem() {
            return Some(format!("MISCONF Errors writing to the AOF file: {problem}").into());
        }
        let refused = !self.saves.last_ok
            && self.config.stop_writes_on_bgsave_error
            && !self.config.save.is_empty();
        refused.then_some(MISCONF.into())
    }
}

const MISCONF: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently \
    unable to persist to disk. Commands that may modify the data set are disabled, because this \
    instance is configured to report errors during writes if RDB snapshotting fails \
    (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB \
    error.";

/// Counters since the start or CONFIG RESETSTAT.
pub(crate) struct Stats {
    /// One per command of the table.
    pub(crate) commands: Vec<CommandStats>,
    /// Commands run.
    pub(crate) commands_processed: u64,
    /// Error replies.
    pub(crate) error_replies: u64,
    /// Error replies by their first word.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Keys evicted.
    pub(crate) evicted_keys: u64,
    /// Clients closed because all of them took too much memory.
    pub(crate) evicted_clients: u64,
    /// Connections accepted, those turned away included.
    pub(crate) connections_received: u64,
    /// Connections turned away.
    pub(crate) rejected_connections: u64,
    /// Calls of `read` for clients.
    pub(crate) reads: u64,
    /// Calls of `write` for clients.
    pub(crate) writes: u64,
    /// Bytes received.
    pub(crate) input_bytes: u64,
    /// Bytes sent.
    pub(crate) output_bytes: u64,
    /// Bytes of the stream that replicas were sent.
    pub(crate) replicas_output_bytes: u64,
    /// Bytes of the primary's stream that were applied.
    pub(crate) primary_input_bytes: u64,
    /// Replicas that had to take a whole image.
    pub(crate) full_syncs: u64,
    /// Replicas that could go on.
    pub(crate) partial_syncs: u64,
    /// Replicas that asked to go on and could not.
    pub(crate) partial_refusals: u64,
    /// Errors of requests that a primary or a replica had sent.
    pub(crate) unexpected_errors: u64,
    /// Expired keys when the counters were reset.
    pub(crate) expired_base: u64,
    /// How long the clock has looked for expired keys.
    pub(crate) expire_time: Duration,
    /// How often its time was up before it had found all.
    pub(crate) expire_slices_spent: u64,
    rates: Rates,
}

/// Counters of one command.
#[derive(Default, Clone)]
pub(crate) struct CommandStats {
    /// Times it ran.
    pub(crate) calls: u64,
    /// Times it was refused before it ran.
    pub(crate) rejected: u64,
    /// Times it answered an error.
    pub(crate) failed: u64,
    /// How long it took all together.
    pub(crate) time_ns: u64,
    /// How often it took how long; none before its first run.
    pub(crate) times: Option<Box<Histogram>>,
}

impl Stats {
    fn new(commands: usize, now: Instant) -> Self {
        Self {
            commands: vec![CommandStats::default(); commands],
            commands_processed: 0,
            error_replies: 0,
            errors: BTreeMap::new(),
            evicted_keys: 0,
            evicted_clients: 0,
            connections_received: 0,
            rejected_connections: 0,
            reads: 0,
            writes: 0,
            input_bytes: 0,
            output_bytes: 0,
            replicas_output_bytes: 0,
            primary_input_bytes: 0,
            full_syncs: 0,
            partial_syncs: 0,
            partial_refusals: 0,
            unexpected_errors: 0,
            expired_base: 0,
            expire_time: Duration::ZERO,
            expire_slices_spent: 0,
            rates: Rates::new(now),
        }
    }

    /// All counters at zero, as CONFIG RESETSTAT has it.
    pub(crate) fn reset(&mut self, expired_total: u64, now: Instant) {
        *self = Self { expired_base: expired_total, ..Self::new(self.commands.len(), now) };
    }

    /// Counts an error reply, which starts with its code.
    pub(crate) fn count_error(&mut self, error: &[u8]) {
        /// Codes told apart; clients can make up error texts, but only so many are kept.
        const CODES_MAX: usize = 128;
        self.error_replies += 1;
        let code = error.split(|byte| !byte.is_ascii_alphanumeric()).next().unwrap_or_default();
        let code = String::from_utf8_lossy(&code[..code.len().min(64)]);
        if let Some(count) = self.errors.get_mut(&*code) {
            *count += 1;
        } else if self.errors.len() < CODES_MAX {
            self.errors.insert(code.into_owned(), 1);
        }
    }

    /// Takes a sample for the rates, at each run of the clock.
    pub(crate) fn sample(&mut self, now: Instant) {
        let counts = [
            self.commands_processed,
            self.input_bytes,
            self.output_bytes,
            self.primary_input_bytes,
            self.replicas_output_bytes,
        ];
        self.rates.sample(counts, now);
    }

    /// Per second, lately: commands, bytes received and sent, bytes of the primary's stream and of
    /// that to replicas.
    pub(crate) fn rates(&self) -> [f64; 5] {
        self.rates.smoothed
    }
}

/// Rates per second, smoothed over about two seconds.
struct Rates {
    at: Instant,
    counts: [u64; 5],
    smoothed: [f64; 5],
}

impl Rates {
    const PERIOD: Duration = Duration::from_millis(100);
    const WEIGHT: f64 = 1.0 / 16.0;

    fn new(now: Instant) -> Self {
        Self { at: now, counts: [0; 5], smoothed: [0.0; 5] }
    }

    fn sample(&mut self, counts: [u64; 5], now: Instant) {
        let elapsed = now.saturating_duration_since(self.at);
        if elapsed < Self::PERIOD {
            return;
        }
        for (index, count) in counts.into_iter().enumerate() {
            let rate = count.saturating_sub(self.counts[index]) as f64 / elapsed.as_secs_f64();
            self.smoothed[index] += (rate - self.smoothed[index]) * Self::WEIGHT;
        }
        (self.at, self.counts) = (now, counts);
    }
}
