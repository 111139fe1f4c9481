//! The thread beside the load: it begins and watches saves and rewrites of the log, and reports
//! progress.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::{SECOND, nanos};
use crate::phases::{LEAD, Stretch, Stretches, see};
use crate::progress::{Progress, Stage};
use crate::report::Quantiles;
use crate::side::{Side, field};
use crate::worker::{Common, Live};

/// How often to poll the server: while it saves, and otherwise.
const POLL_SAVING: u64 = 20_000_000;
const POLL: u64 = 50_000_000;
/// How often progress is reported.
pub(crate) const REPORT_NS: u64 = 250_000_000;

/// What the measurement asks the server to do beside the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Save,
    Rewrite,
}

impl Task {
    const ALL: [Self; 2] = [Self::Save, Self::Rewrite];

    fn name(self) -> &'static str {
        ["save", "rewrite"][self as usize]
    }
    fn command(self) -> &'static str {
        ["BGSAVE", "BGREWRITEAOF"][self as usize]
    }
    fn flag(self) -> &'static str {
        ["--bgsave-every", "--rewrite-every"][self as usize]
    }
    fn every(self, common: &Common<'_>) -> Option<Duration> {
        [common.plan.bgsave_every, common.plan.rewrite_every][self as usize]
    }
    fn stretches_mut(self, stretches: &mut Stretches) -> &mut Vec<Stretch> {
        match self {
            Self::Save => &mut stretches.saves,
            Self::Rewrite => &mut stretches.rewrites,
        }
    }
    fn stretches(self, stretches: &Stretches) -> &[Stretch] {
        match self {
            Self::Save => &stretches.saves,
            Self::Rewrite => &stretches.rewrites,
        }
    }
}

/// The calling thread, while others put the load on.
pub(crate) struct Watch<'a> {
    common: &'a Common<'a>,
    side: Option<&'a mut Side>,
    shown: &'a [Mutex<Live>],
    /// The caller's wish to end early.
    stop: &'a AtomicBool,
    progress: &'a mut dyn FnMut(&Progress),
    /// When the next save, and the next rewrite of the log, is asked for.
    next: [Option<u64>; 2],
    next_poll: u64,
    /// When the last poll was sent that saw no save, no sync, and no rewrite.
    quiet: [u64; 3],
    last_report: (u64, u64),
    pub(crate) warnings: Vec<String>,
    /// Whether the caller wished to end early.
    pub(crate) interrupted: bool,
    is_floor: bool,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(
        common: &'a Common<'a>,
        side: Option<&'a mut Side>,
        shown: &'a [Mutex<Live>],
        stop: &'a AtomicBool,
        progress: &'a mut dyn FnMut(&Progress),
    ) -> Self {
        Self {
            is_floor: side.is_none(),
            next: Task::ALL.map(|task| side.as_ref().and(task.every(common)).map(nanos)),
            common,
            side,
            shown,
            stop,
            progress,
            next_poll: 0,
            quiet: [0; 3],
            last_report: (0, 0),
            warnings: Vec::new(),
            interrupted: false,
        }
    }

    /// Does what is due.
    pub(crate) fn turn(&mut self) {
        if self.stop.load(Ordering::Relaxed) && !self.interrupted {
            self.interrupted = true;
            self.common.stop.store(true, Ordering::Relaxed);
        }
        let now = self.common.clock.now();
        if self.side.is_none() {
            self.common.phases.know(u64::MAX, |_| ());
        } else if let Some(task) = self.due(now) {
            self.begin_task(task, now);
        } else if now >= self.next_poll {
            self.poll();
        }
        if now - self.last_report.0 >= REPORT_NS {
            self.report(now);
        }
    }

    /// The request that is due now.
    fn due(&self, now: u64) -> Option<Task> {
        Task::ALL.into_iter().find(|&task| self.next[task as usize].is_some_and(|at| now >= at))
    }

    /// Begins a save or a rewrite, unless one runs or the measurement is over.
    fn begin_task(&mut self, task: Task, now: u64) {
        let every = task.every(self.common).map_or(u64::MAX, nanos);
        self.next[task as usize] = Some(now.saturating_add(every)).filter(|&at| at < self.end());
        if now >= self.end() {
            return;
        }
        let runs = |it: &Stretches| task.stretches(it).last().is_some_and(|it| it.to_ns.is_none());
        if self.common.phases.with(runs) {
            let (what, flag) = (task.name(), task.flag());
            self.warn(format!("a {what} took longer than {flag}: the next one was skipped"));
            return;
        }
        let begun = Stretch { from_ns: now.saturating_sub(LEAD), to_ns: None, asked: true };
        let known = self.common.phases.known_until().max(begun.from_ns);
        let mut before = 0;
        self.common.phases.know(known, |it| {
            let all = task.stretches_mut(it);
            before = all.len();
            // What the last poll saw has ended, so this one starts after it.
            let ended = all.last().and_then(|it| it.to_ns).unwrap_or(0);
            all.push(Stretch { from_ns: begun.from_ns.max(ended), ..begun });
        });
        let Some(side) = self.side.as_mut() else { return };
        match side.call(&[task.command()], self.common.stop) {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                // None ran: the time that was set aside for it was normal.
                self.common.phases.know(known, |it| task.stretches_mut(it).truncate(before));
                self.warn(format!("{} was refused: {error}", task.command()));
            }
            Err(error) => self.go_blind(&error),
        }
        self.next_poll = 0;
    }

    fn end(&self) -> u64 {
        nanos(self.common.plan.duration)
    }

    /// Sends a poll.
    fn poll(&mut self) {
        let sent = self.common.clock.now();
        let Some(side) = self.side.as_mut() else { return };
        let mut ask = |section| side.call(&["INFO", section], self.common.stop);
        let (saves, syncs) = match (ask("persistence"), ask("replication")) {
            (Ok(Ok(saves)), Ok(Ok(syncs))) => (saves, syncs),
            (Ok(Err(error)), _) | (_, Ok(Err(error))) => return self.go_blind(&error),
            (Err(error), _) | (_, Err(error)) => return self.go_blind(&error),
        };
        let answered = self.common.clock.now();
        let [saves, rewrites] = ["rdb_bgsave_in_progress", "aof_rewrite_in_progress"]
            .map(|name| field(&saves, name).is_some_and(|it| it != "0"));
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
            see(&mut it.rewrites, rewrites, quiet[2], answered);
        });
        for (quiet, runs) in self.quiet.iter_mut().zip([saves, syncs, rewrites]) {
            *quiet = if runs { *quiet } else { sent };
        }
        self.next_poll = answered + if saves || syncs || rewrites { POLL_SAVING } else { POLL };
    }

    /// Stops polling; the load goes on. If the server itself is gone, the load will notice.
    fn go_blind(&mut self, why: &dyn std::fmt::Display) {
        if !self.common.stop.load(Ordering::Relaxed) {
            self.warn(format!("from some point on the phases do not show saves: {why}"));
        }
        let now = self.common.clock.now();
        self.common.phases.know(now, |it| {
            for stretch in it.saves.iter_mut().chain(&mut it.syncs).chain(&mut it.rewrites) {
                stretch.to_ns.get_or_insert(now);
            }
        });
        (self.side, self.next) = (None, [None; 2]);
    }

    fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    fn report(&mut self, now: u64) {
        let mut sum = Live::new();
        for shown in self.shown {
            let live = shown.lock().unwrap_or_else(PoisonError::into_inner);
            sum.answered += live.answered;
            sum.latencies += &live.latencies;
        }
        let seconds = (now - self.last_report.0) as f64 / SECOND as f64;
        let stage = match self.common.phases.with(|it| it.phase(now)) {
            _ if self.is_floor => Stage::Floor,
            phase => Stage::Load(phase),
        };
        let share = (now as f64 / self.end() as f64).min(1.0);
        (self.progress)(&Progress {
            stage,
            share,
            rate: (sum.answered - self.last_report.1) as f64 / seconds,
            latencies: Some(Quantiles::from_histogram(&sum.latencies)),
            elapsed: Duration::from_nanos(now),
        });
        self.last_report = (now, sum.answered);
    }

    /// Warns of foreign saves, when every query has a reply or was given up.
    pub(crate) fn finish(&mut self) {
        let own = |all: &[Stretch]| all.iter().filter(|it| !it.asked).count();
        let foreign = self.common.phases.with(|it| own(&it.saves));
        let explained = |it: &Stretches| !it.syncs.is_empty() || !it.rewrites.is_empty();
        if foreign > 0 && !self.common.phases.with(explained) {
            self.warn(format!(
                "the server saved {foreign} times by itself (CONFIG SET save \"\" stops that): \
                 those saves are counted, too"
            ));
        }
    }
}
