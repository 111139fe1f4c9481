//! A run from the first connection to the report.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::clock::{Clock, SECOND, nanos};
use crate::connection::Connection;
use crate::fill::fill;
use crate::phases::{LEAD, Phase, Phases, Stretch, see};
use crate::plan::Plan;
use crate::report::{Floor, Measured, Quantiles, Report};
use crate::requests::{Check, Requests};
use crate::schedule::Schedule;
use crate::side::{Side, field, resolve};
use crate::tally::Tally;
use crate::worker::{Common, Live, Worker};
use crate::{LoadError, NullServer};

/// From the last connection to the first query.
const AHEAD: Duration = Duration::from_millis(20);
/// How often the server is asked what it is doing: while it saves, and else.
const POLL_SAVING: u64 = 20_000_000;
const POLL: u64 = 50_000_000;
/// How often progress is told.
const TELL: u64 = 250_000_000;
/// How long the thread beside the load sleeps at most.
const NAP: Duration = Duration::from_millis(5);
/// Longest run against the null server.
const FLOOR: Duration = Duration::from_secs(10);

/// How far a run is.
#[derive(Debug, Clone)]
pub struct Progress {
    /// What is going on.
    pub stage: Stage,
    /// Of 1.
    pub share: f64,
    /// Keys or queries a second, since the last time progress was told.
    pub rate: f64,
    /// Latencies so far; `None` while keys are loaded.
    pub latencies: Option<Quantiles>,
    /// Since the stage began.
    pub elapsed: Duration,
}

/// Part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Loading the keys.
    Fill,
    /// The load, and what the server is doing.
    Load(Phase),
    /// The same load against the null server.
    Floor,
}

/// Runs a plan. `stop` ends it early: what was measured is reported. `told` hears how far it is,
/// about four times a second.
///
/// # Errors
/// The plan cannot be run, the server cannot be reached or refuses before the first query, or this
/// machine lacks something. What goes wrong later is in the report.
pub fn run(
    plan: &Plan,
    stop: &AtomicBool,
    told: &mut dyn FnMut(&Progress),
) -> Result<Report, LoadError> {
    plan.check().map_err(LoadError::Plan)?;
    let addresses = resolve(plan)?;
    let mut side = Side::open(plan, &addresses)?;
    let server = describe(&mut side, stop);
    if plan.fill {
        fill_and_tell(plan, &mut side, stop, told)?;
    }
    let check = match plan.check {
        true => Check::Value { filled: plan.fill },
        false => Check::Kind,
    };
    let measured = measure(plan, &addresses, check, Some(&mut side), stop, told)?;
    Ok(Report::new(plan.clone(), server, measured))
}

/// Runs the load of a plan against a null server: the floor of what can be measured here.
///
/// # Errors
/// This machine lacks something.
pub fn floor(
    plan: &Plan,
    stop: &AtomicBool,
    told: &mut dyn FnMut(&Progress),
) -> Result<Floor, LoadError> {
    let failed = |error| LoadError::System { doing: "starting the null server", error };
    let server = NullServer::start().map_err(failed)?;
    let plan = Plan {
        target: server.address().to_string(),
        user: None,
        password: None,
        bgsave_every: None,
        fill: false,
        check: false,
        duration: plan.duration.min(FLOOR),
        ..plan.clone()
    };
    let measured = measure(&plan, &[server.address()], Check::Nothing, None, stop, told)?;
    Ok(Floor::new(&plan, &measured))
}

fn fill_and_tell(
    plan: &Plan,
    side: &mut Side,
    stop: &AtomicBool,
    told: &mut dyn FnMut(&Progress),
) -> Result<(), LoadError> {
    let clock = Clock::starting_in(Duration::ZERO);
    let mut last = (0, 0);
    fill(plan, side, stop, &mut |done| {
        let now = clock.now();
        if now - last.0 >= TELL {
            let seconds = (now - last.0) as f64 / SECOND as f64;
            told(&Progress {
                stage: Stage::Fill,
                share: done as f64 / plan.keys as f64,
                rate: (done - last.1) as f64 / seconds,
                latencies: None,
                elapsed: Duration::from_nanos(now),
            });
            last = (now, done);
        }
    })
}

/// Which server this is, in its own words.
fn describe(side: &mut Side, stop: &AtomicBool) -> String {
    let Ok(Ok(info)) = side.call(&["INFO", "server"], stop) else { return "unknown".to_owned() };
    let version = |name: &str, label: &str| field(&info, name).map(|it| format!("{label} {it}"));
    version("stillframe_version", "stillframe")
        .or_else(|| version("valkey_version", "valkey"))
        .or_else(|| version("redis_version", "redis"))
        .unwrap_or_else(|| "unknown".to_owned())
}

/// The load itself.
fn measure(
    plan: &Plan,
    addresses: &[SocketAddr],
    check: Check,
    side: Option<&mut Side>,
    stop: &AtomicBool,
    told: &mut dyn FnMut(&Progress),
) -> Result<Measured, LoadError> {
    let groups = connect_all(plan, addresses)?;
    let (phases, ended) = (Phases::default(), AtomicBool::new(false));
    let requests: Vec<Requests> =
        (0..plan.threads).map(|index| Requests::new(plan, index, check)).collect();
    let clock = Clock::starting_in(AHEAD);
    let common = Common { plan, clock, phases: &phases, stop: &ended };
    let shown: Vec<Mutex<Live>> = groups.iter().map(|_| Mutex::new(Live::new())).collect();
    let end = nanos(plan.duration);
    let cpu = cpu_ns();
    let mut watch = Watch::new(&common, side, &shown, stop, told);
    let tallies = thread::scope(|scope| {
        let parts = groups.into_iter().zip(requests).zip(&shown).enumerate();
        let common = &common;
        let start = |(index, ((group, requests), shown))| {
            let schedule = Schedule::new(plan.rate, plan.pipeline, index, plan.threads, end);
            scope.spawn(move || {
                let worker = Worker::new(common, group, schedule, requests, shown)?;
                // Until then the clock stands at zero.
                thread::sleep(AHEAD);
                Ok(worker.run())
            })
        };
        let threads: Vec<ScopedJoinHandle<'_, io::Result<Tally>>> = parts.map(start).collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            watch.turn();
            thread::sleep(NAP);
        }
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|tally| tally.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<io::Result<Vec<Tally>>>()
    });
    let failed = |error| LoadError::System { doing: "preparing to wait for sockets", error };
    let tallies = tallies.map_err(failed)?;
    let elapsed_ns = clock.now();
    watch.finish();
    let (warnings, interrupted) = (watch.warnings, watch.interrupted);
    let cpu_ns = cpu_ns() - cpu;
    let mut tally = Tally::new(plan);
    tallies.into_iter().for_each(|other| tally.merge(other));
    let stretches = phases.with(Clone::clone);
    tally.settle(u64::MAX, &stretches);
    Ok(Measured { tally, stretches, elapsed_ns, cpu_ns, warnings, interrupted })
}

/// Every connection, in as many groups as there are threads.
fn connect_all(plan: &Plan, addresses: &[SocketAddr]) -> Result<Vec<Vec<Connection>>, LoadError> {
    let mut groups: Vec<Vec<Connection>> = (0..plan.threads).map(|_| Vec::new()).collect();
    for number in 0..plan.clients {
        let stream = Side::open(plan, addresses)?.into_stream();
        let failed = |error| LoadError::System { doing: "preparing a connection", error };
        groups[number % plan.threads].push(Connection::new(stream).map_err(failed)?);
    }
    Ok(groups)
}

/// Time that this process has spent on cores.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    (time.tv_sec as u64) * SECOND + time.tv_nsec as u64
}

/// What goes on beside the load: saves are begun and watched, progress is told.
struct Watch<'a> {
    common: &'a Common<'a>,
    side: Option<&'a mut Side>,
    shown: &'a [Mutex<Live>],
    /// The caller's wish to end early.
    stop: &'a AtomicBool,
    told: &'a mut dyn FnMut(&Progress),
    next_save: Option<u64>,
    next_poll: u64,
    /// When the last poll was sent that saw no save, and no sync.
    quiet: [u64; 2],
    last_told: (u64, u64),
    warnings: Vec<String>,
    interrupted: bool,
    is_floor: bool,
}

impl<'a> Watch<'a> {
    fn new(
        common: &'a Common<'a>,
        side: Option<&'a mut Side>,
        shown: &'a [Mutex<Live>],
        stop: &'a AtomicBool,
        told: &'a mut dyn FnMut(&Progress),
    ) -> Self {
        Self {
            is_floor: side.is_none(),
            next_save: side.as_ref().and(common.plan.bgsave_every).map(nanos),
            common,
            side,
            shown,
            stop,
            told,
            next_poll: 0,
            quiet: [0; 2],
            last_told: (0, 0),
            warnings: Vec::new(),
            interrupted: false,
        }
    }

    fn turn(&mut self) {
        if self.stop.load(Ordering::Relaxed) && !self.interrupted {
            self.interrupted = true;
            self.common.stop.store(true, Ordering::Relaxed);
        }
        let now = self.common.clock.now();
        if self.side.is_none() {
            self.common.phases.know(u64::MAX, |_| ());
        } else if self.next_save.is_some_and(|at| now >= at) {
            self.begin_save(now);
        } else if now >= self.next_poll {
            self.poll();
        }
        if now - self.last_told.0 >= TELL {
            self.tell(now);
        }
    }

    /// Begins a save, unless one runs or the run is over.
    fn begin_save(&mut self, now: u64) {
        let every = self.common.plan.bgsave_every.map_or(u64::MAX, nanos);
        self.next_save = Some(now.saturating_add(every)).filter(|&at| at < self.end());
        if now >= self.end() {
            return;
        }
        if self.common.phases.with(|it| it.saves.last().is_some_and(|it| it.to_ns.is_none())) {
            self.warn("a save took longer than --bgsave-every: the next one was left out".into());
            return;
        }
        let save = Stretch { from_ns: now.saturating_sub(LEAD), to_ns: None, asked: true };
        let known = self.common.phases.known_until().max(save.from_ns);
        let mut before = 0;
        self.common.phases.know(known, |it| {
            before = it.saves.len();
            // A save that the last poll saw has ended, so this one starts after it.
            let ended = it.saves.last().and_then(|it| it.to_ns).unwrap_or(0);
            it.saves.push(Stretch { from_ns: save.from_ns.max(ended), ..save });
        });
        let Some(side) = self.side.as_mut() else { return };
        match side.call(&["BGSAVE"], self.common.stop) {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                // No save ran: the time that was set aside for it was normal.
                self.common.phases.know(known, |it| it.saves.truncate(before));
                self.warn(format!("BGSAVE was refused: {error}"));
            }
            Err(error) => self.lose(&error),
        }
        self.next_poll = 0;
    }

    fn end(&self) -> u64 {
        nanos(self.common.plan.duration)
    }

    /// Asks what the server is doing.
    fn poll(&mut self) {
        let sent = self.common.clock.now();
        let Some(side) = self.side.as_mut() else { return };
        let mut ask = |section| side.call(&["INFO", section], self.common.stop);
        let (saves, syncs) = match (ask("persistence"), ask("replication")) {
            (Ok(Ok(saves)), Ok(Ok(syncs))) => (saves, syncs),
            (Ok(Err(error)), _) | (_, Ok(Err(error))) => {
                self.warn(format!("INFO was refused, so saves cannot be told apart: {error}"));
                self.next_poll = sent + POLL;
                return;
            }
            (Err(error), _) | (_, Err(error)) => return self.lose(&error),
        };
        let answered = self.common.clock.now();
        let saves = field(&saves, "rdb_bgsave_in_progress").is_some_and(|it| it != "0");
        let under_way = |line: &str| {
            line.starts_with("slave")
                && ["state=wait_bgsave", "state=send_bulk"].iter().any(|state| line.contains(state))
        };
        let syncs = syncs.lines().any(under_way);
        let quiet = self.quiet;
        // A save may yet begin as much before now as queries are counted with it.
        self.common.phases.know(sent.saturating_sub(LEAD), |it| {
            see(&mut it.saves, saves, quiet[0], answered);
            see(&mut it.syncs, syncs, quiet[1], answered);
        });
        for (quiet, runs) in self.quiet.iter_mut().zip([saves, syncs]) {
            *quiet = if runs { *quiet } else { sent };
        }
        self.next_poll = answered + if saves || syncs { POLL_SAVING } else { POLL };
    }

    /// The side connection is gone; the load will notice soon if the server is.
    fn lose(&mut self, error: &io::Error) {
        if !self.common.stop.load(Ordering::Relaxed) {
            self.warn(format!(
                "the side connection was lost, so saves are not told apart: {error}"
            ));
        }
        (self.side, self.next_save) = (None, None);
    }

    fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    fn tell(&mut self, now: u64) {
        let mut sum = Live::new();
        for shown in self.shown {
            let live = shown.lock().unwrap_or_else(PoisonError::into_inner);
            sum.answered += live.answered;
            sum.latencies += &live.latencies;
        }
        let seconds = (now - self.last_told.0) as f64 / SECOND as f64;
        let stage = match self.common.phases.with(|it| it.phase(now)) {
            _ if self.is_floor => Stage::Floor,
            phase => Stage::Load(phase),
        };
        let share = (now as f64 / self.end() as f64).min(1.0);
        (self.told)(&Progress {
            stage,
            share,
            rate: (sum.answered - self.last_told.1) as f64 / seconds,
            latencies: Some(Quantiles::of(&sum.latencies)),
            elapsed: Duration::from_nanos(now),
        });
        self.last_told = (now, sum.answered);
    }

    /// The last look, when every query has been answered or given up.
    fn finish(&mut self) {
        let own = |all: &[Stretch]| all.iter().filter(|it| !it.asked).count();
        let foreign = self.common.phases.with(|it| own(&it.saves));
        if foreign > 0 && self.common.phases.with(|it| it.syncs.is_empty()) {
            self.warn(format!(
                "the server saved {foreign} times by itself (CONFIG SET save \"\" stops that): \
                 those saves are counted, too"
            ));
        }
    }
}
