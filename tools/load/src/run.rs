//! A measurement from the first connection to the report.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use stillframe_measure::target::Place;

use crate::clock::{Clock, SECOND, nanos};
use crate::connection::Connection;
use crate::fill::fill;
use crate::phases::Phases;
use crate::plan::Plan;
use crate::progress::{Progress, Stage};
use crate::report::{Floor, Measured, Report};
use crate::requests::{Check, Requests};
use crate::schedule::Schedule;
use crate::side::{Side, field, resolve};
use crate::tally::Tally;
use crate::watch::{REPORT_NS, Watch};
use crate::worker::{Common, Live, Worker};
use crate::{LoadError, NullServer};

/// From the last connection to the first query: threads start meanwhile.
const AHEAD: Duration = Duration::from_millis(20);
/// How long the thread beside the load sleeps at most.
const NAP: Duration = Duration::from_millis(5);
/// Longest measurement against the null server.
const FLOOR: Duration = Duration::from_secs(10);

/// Runs a plan. `stop` ends it early, with a report up to there. `progress` receives the progress
/// about four times a second.
///
/// # Errors
/// The plan cannot be run, the server cannot be reached or refuses before the first query, or this
/// machine lacks something. The report has later errors.
pub fn run(
    plan: &Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Report, LoadError> {
    plan.check().map_err(LoadError::Plan)?;
    let place = resolve(plan)?;
    let mut side = Side::open(plan, &place)?;
    let server = describe(&mut side, stop);
    if plan.fill {
        fill_and_report(plan, &mut side, stop, progress)?;
    }
    let check = match plan.check {
        true => Check::Value { filled: plan.fill },
        false => Check::Kind,
    };
    let measured = measure(plan, &place, check, Some(&mut side), stop, progress)?;
    Ok(Report::new(plan.clone(), server, measured))
}

/// Runs the load of a plan against a null server: the floor of what can be measured here.
///
/// # Errors
/// This machine lacks something.
pub fn floor(
    plan: &Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
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
    let measured =
        measure(&plan, &Place::Net(vec![server.address()]), Check::Nothing, None, stop, progress)?;
    Ok(Floor::new(&plan, &measured))
}

fn fill_and_report(
    plan: &Plan,
    side: &mut Side,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(), LoadError> {
    let clock = Clock::starting_in(Duration::ZERO);
    let mut last = (0, 0);
    fill(plan, side, stop, &mut |done| {
        let now = clock.now();
        if now - last.0 >= REPORT_NS {
            let seconds = (now - last.0) as f64 / SECOND as f64;
            progress(&Progress {
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
    place: &Place,
    check: Check,
    side: Option<&mut Side>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Measured, LoadError> {
    let groups = connect_all(plan, place)?;
    let (phases, ended) = (Phases::default(), AtomicBool::new(false));
    let requests: Vec<Requests> =
        (0..plan.threads).map(|index| Requests::new(plan, index, check)).collect();
    let clock = Clock::starting_in(AHEAD);
    let common = Common { plan, clock, phases: &phases, stop: &ended };
    let shown: Vec<Mutex<Live>> = groups.iter().map(|_| Mutex::new(Live::new())).collect();
    let end = nanos(plan.duration);
    let cpu = cpu_ns();
    let mut watch = Watch::new(&common, side, &shown, stop, progress);
    let tallies = thread::scope(|scope| {
        let parts = groups.into_iter().zip(requests).zip(&shown).enumerate();
        let common = &common;
        let start = |(index, ((group, requests), shown))| {
            let schedule = Schedule::new(plan.rate, plan.pipeline, index, plan.threads, end);
            scope.spawn(move || {
                let worker = Worker::new(common, group, schedule, requests, shown)?;
                common.clock.wait_for_start();
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
    tally.assign(u64::MAX, &stretches);
    Ok(Measured { tally, stretches, elapsed_ns, cpu_ns, warnings, interrupted })
}

/// Every connection, in as many groups as there are threads.
fn connect_all(plan: &Plan, place: &Place) -> Result<Vec<Vec<Connection>>, LoadError> {
    let mut groups: Vec<Vec<Connection>> = (0..plan.threads).map(|_| Vec::new()).collect();
    for number in 0..plan.clients {
        let stream = Side::open(plan, place)?.into_stream();
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
