//! One round of a case whose algorithm is that of a server: the figures are what its clients see.
//!
//! ```text
//! fill | a save | full speed .......... | fixed rate .......... | fixed rate, marks, one save |
//!        untimed  throughput, with saves  latency, with saves     memory, size of the dump
//!                                   then: kill | start again | read everything back
//! ```
//! - Latency counts from intended times (`stillframe load`, open loop); throughput is that of a
//!   closed loop, each connection asking again when it has its replies.
//! - Memory is taken apart from latency, since reading it holds up page faults.
//! - The last save is verified: the server is killed, started again on the dump file, or the log,
//!   that the save left, and asked for every record and every mark ([`marks`]).
//! - A server ends with the process that started it, by Ctrl-C, panic or kill ([`process`]).
//!
//! Reading order: `run`, `process`, `marks`, `hunted`.

mod client;
mod hunted;
mod marks;
pub mod observe;
mod process;

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Error, Result, anyhow, bail};
use stillframe_load::{Phase, Plan, Quantiles, Rate, Ratio, Report, floor, verify};

use crate::case::record::{QueryMs, Record, Served};
use crate::case::{Case, Service};
use crate::error::sentence;
use crate::machine::memory::tree_bytes;
use marks::{Bounds, MARKS, Signals};
use process::{Server, Setup};

pub(crate) use client::Client;
pub(crate) use hunted::hunted;
pub(crate) use process::Scratch;
pub use process::leash;

/// How often memory is taken, and the server asked whether it saves.
const LOOK: Duration = Duration::from_millis(20);
/// Longest save that is waited for.
const SAVE: Duration = Duration::from_secs(600);
/// How long the load runs before memory is taken.
const SETTLE: Duration = Duration::from_millis(300);
/// Bins of the trace in which the least throughput is looked for: 50 ms of 10 ms each.
const WINDOW: usize = 5;

/// Runs one round; the record names what went wrong in it.
#[must_use]
pub(crate) fn run(case: &Case, service: &Service) -> Record {
    let named = Record { unit: case.unit.name().to_owned(), ..Record::new(case) };
    let record = if case.is_floor() {
        null(service).map(|served| Record { served: Some(served), ..named.clone() })
    } else {
        match Setup::from_algorithm(&case.algorithm, service.rewrite) {
            Ok(setup) => round(case, service, &setup, named.clone()),
            Err(why) => return Record { unavailable: Some(sentence(&why)), ..named },
        }
    };
    record.unwrap_or_else(|why| Record { failed: Some(sentence(&why)), ..named })
}

/// The same load on a server that does nothing: the floor of the generator and this machine.
fn null(service: &Service) -> Result<Served> {
    let plan = plan(service, 1)?;
    let run = |plan: &Plan| floor(plan, &AtomicBool::new(false), &mut |_| ());
    let fixed = run(&plan)?;
    let throughput = match service.full_speed {
        true => run(&Plan { rate: Rate::Max, ..plan })?.rate,
        false => 0.0,
    };
    let latency = query_ms(fixed.count, &fixed.latency);
    Ok(Served {
        server: "the null server".to_owned(),
        throughput_per_s: throughput,
        normal: Some(latency),
        busy: Some(latency),
        late_own: fixed.late.own,
        ..Served::default()
    })
}

fn round(case: &Case, service: &Service, setup: &Setup, record: Record) -> Result<Record> {
    let scratch = Scratch::new(&case.algorithm)?;
    let folder = scratch.path();
    let server = setup.start(folder)?;
    let plan = plan(service, server.port)?;
    // What only the first save touches is no part of the figures; this one fills, too.
    let first = Plan {
        fill: true,
        rate: Rate::PerSecond(service.rate.min(1000)),
        duration: Duration::from_millis(100),
        bgsave_every: None,
        rewrite_every: None,
        ..plan.clone()
    };
    load(&first)?;
    let mut client = server.client()?;
    wait_for_save(&mut client, || ())?;
    client.call(&[service.request()])?;
    wait_for_save(&mut client, || ())?;
    let full = match service.full_speed {
        true => Some(load(&Plan { rate: Rate::Max, check: false, ..plan.clone() })?),
        false => None,
    };
    wait_for_save(&mut client, || ())?;
    let fixed = load(&plan)?;
    // A save that outlasts the load is counted to its end.
    let loaded = Instant::now();
    wait_for_save(&mut client, || ())?;
    let images_s = lengths_s(&fixed, service, loaded.elapsed());
    let image = take_image(&server, service, &plan)?;
    let dump_bytes = fs::metadata(folder.join("dump.rdb")).map_or(0, |it| it.len());
    drop((client, server));
    let (wrong, what) = read_back(case, service, setup, folder, image.bounds)?;
    let served = served(full.as_ref(), &fixed, dump_bytes, what);
    Ok(Record {
        images: u32::try_from(images_s.len()).unwrap_or(u32::MAX),
        verified_images: 1,
        mismatched_words: wrong,
        memory_base_bytes: image.base_bytes,
        memory_peak_bytes: image.peak_bytes,
        image_s: (!images_s.is_empty())
            .then(|| images_s.iter().sum::<f64>() / images_s.len() as f64),
        images_s: images_s.iter().map(|&seconds| seconds as f32).collect(),
        served: Some(served),
        ..record
    })
}

/// The load of a case, with its saves.
fn plan(service: &Service, port: u16) -> Result<Plan> {
    let every = Some(Duration::from_millis(service.every_ms));
    let plan = Plan {
        target: format!("127.0.0.1:{port}"),
        rate: Rate::PerSecond(service.rate),
        clients: service.clients,
        workload: service.workload.parse().map_err(Error::msg)?,
        keys: service.keys,
        value_size: service.value_size,
        ratio: Ratio { writes: service.writes, reads: service.reads },
        distribution: service.distribution.parse().map_err(Error::msg)?,
        duration: Duration::from_millis(service.pass_ms),
        bgsave_every: every.filter(|_| !service.rewrite),
        rewrite_every: every.filter(|_| service.rewrite),
        check: true,
        ..Plan::default()
    };
    plan.check().map(|()| plan).map_err(Error::msg)
}

/// Runs a load. What the server refuses or answers wrongly ends the round; what it is too slow for
/// is a figure.
fn load(plan: &Plan) -> Result<Report> {
    let run = stillframe_load::run(plan, &AtomicBool::new(false), &mut |_| ());
    let report = run?;
    let is_broken = !report.errors.is_empty() || report.wrong.count > 0 || report.lost.is_some();
    match report.failure().filter(|_| is_broken) {
        Some(problem) => Err(Error::msg(problem)),
        None => Ok(report),
    }
}

/// Waits until the server neither saves nor rewrites its log, and looks at it meanwhile.
fn wait_for_save(client: &mut Client, mut look: impl FnMut()) -> Result<()> {
    let deadline = Instant::now() + SAVE;
    loop {
        let text = client.call(&["INFO", "persistence"])?;
        let runs = ["rdb_bgsave_in_progress:1", "aof_rewrite_in_progress:1"];
        if !runs.iter().any(|it| text.contains(it)) {
            let failed = ["rdb_last_bgsave_status:err", "aof_last_bgrewrite_status:err"];
            return match failed.iter().find(|it| text.contains(**it)) {
                Some(status) => bail!("a save failed: {status}"),
                None => Ok(()),
            };
        }
        if Instant::now() > deadline {
            bail!("a save took longer than {} s", SAVE.as_secs());
        }
        look();
        thread::sleep(LOOK);
    }
}

/// The cost of one image, and the marks that it may hold.
struct Taken {
    base_bytes: u64,
    peak_bytes: u64,
    bounds: Bounds,
}

/// One save under the load and the marks, with its memory.
fn take_image(server: &Server, service: &Service, plan: &Plan) -> Result<Taken> {
    let (signals, ended) = (Signals::default(), AtomicBool::new(false));
    let plan = Plan {
        duration: SAVE,
        bgsave_every: None,
        rewrite_every: None,
        check: false,
        ..plan.clone()
    };
    thread::scope(|scope| {
        let loads = scope.spawn(|| stillframe_load::run(&plan, &ended, &mut |_| ()));
        let writes = scope.spawn(|| marks::write(server.port, service.request(), &signals));
        let watched = watch(server, &signals, || writes.is_finished());
        signals.stop.store(true, Ordering::Release);
        ended.store(true, Ordering::Release);
        let gone = |_| anyhow!("a thread of the measurement panicked");
        let before = writes.join().map_err(gone)?;
        loads.join().map_err(gone)??;
        let (before, all) = before?;
        let (base_bytes, peak_bytes, then) = watched?;
        // A log goes on after its rewrite; beside a dump a batch of marks may be on its way.
        let until = if service.rewrite { all } else { then + marks::BATCH };
        Ok(Taken { base_bytes, peak_bytes, bounds: Bounds { before, until } })
    })
}

/// Memory before and at the peak of the save, and how many marks there may be at its end.
fn watch(
    server: &Server,
    signals: &Signals,
    is_over: impl Fn() -> bool,
) -> Result<(u64, u64, u64)> {
    let mut client = server.client()?;
    thread::sleep(SETTLE);
    let base_bytes = tree_bytes(server.pid());
    let mut peak_bytes = base_bytes;
    signals.go.store(true, Ordering::Release);
    while !signals.begun.load(Ordering::Acquire) && !is_over() {
        thread::sleep(Duration::from_millis(1));
    }
    wait_for_save(&mut client, || peak_bytes = peak_bytes.max(tree_bytes(server.pid())))?;
    Ok((base_bytes, peak_bytes, signals.written.load(Ordering::Acquire)))
}

/// Starts a server on the files of the save, and compares everything that it holds. Returns how
/// much is wrong, and what.
fn read_back(
    case: &Case,
    service: &Service,
    setup: &Setup,
    folder: &std::path::Path,
    bounds: Bounds,
) -> Result<(u64, Option<String>)> {
    let server = setup.start(folder)?;
    let mut client = server.client()?;
    if case.corrupt {
        marks::forge(&mut client)?;
    }
    let (torn, what) = marks::judge(&marks::read(&mut client)?, bounds);
    let plan = plan(service, server.port)?;
    let records = verify(&plan, &AtomicBool::new(false))?;
    let index = u64::from(plan.workload.has_records());
    let keys = client.call(&["DBSIZE"])?.parse::<u64>().unwrap_or(0);
    let expected = service.keys + MARKS + index;
    let first = (records.wrong > 0).then_some(records.first);
    let count = (keys != expected).then(|| format!("{keys} keys in place of {expected}"));
    Ok((torn + records.wrong + keys.abs_diff(expected), what.or(first).or(count)))
}

/// Seconds of the saves, or rewrites; the last may have gone on for `after` the load.
fn lengths_s(report: &Report, service: &Service, after: Duration) -> Vec<f64> {
    let all = if service.rewrite { &report.rewrites } else { &report.saves };
    let end_ns = (report.elapsed_s * 1e9) as u64 + after.as_nanos() as u64;
    all.iter().map(|it| (it.to_ns.unwrap_or(end_ns) - it.from_ns) as f64 / 1e9).collect()
}

fn served(full: Option<&Report>, fixed: &Report, dump_bytes: u64, wrong: Option<String>) -> Served {
    let of = |phase| {
        let found = fixed.phases.iter().find(|it| it.phase == phase)?;
        Some(query_ms(found.count, &found.latency))
    };
    Served {
        server: fixed.server.clone(),
        throughput_per_s: full.map_or(0.0, |it| it.answered as f64 / it.elapsed_s),
        least_throughput_per_s: full.and_then(least_per_s),
        normal: of(Phase::Normal),
        busy: of(Phase::Saving).or_else(|| of(Phase::Rewriting)),
        unanswered: fixed.unanswered,
        late_own: fixed.late.own,
        dump_bytes,
        wrong,
    }
}

fn query_ms(count: u64, of: &Quantiles) -> QueryMs {
    QueryMs { count, p50: of.p50_us / 1e3, p99: of.p99_us / 1e3, max: of.max_us / 1e3 }
}

/// The least throughput over [`WINDOW`] bins that lie within a save.
fn least_per_s(report: &Report) -> Option<f64> {
    let (trace, bin_ns) = (&report.trace, report.trace.bin_ms * 1_000_000);
    let saves = report.saves.iter().chain(&report.rewrites);
    let least = saves.filter_map(|save| {
        // The first bin that the save has for itself, and the first after it.
        let from = save.from_ns.div_ceil(bin_ns) as usize;
        // The last bin of a measurement is not full.
        let end = trace.counts.len().saturating_sub(1);
        let to = save.to_ns.map_or(end, |to| (to / bin_ns) as usize).min(end);
        let bins = trace.counts.get(from..to)?;
        bins.windows(WINDOW).map(|bins| bins.iter().sum::<u64>()).min()
    });
    let seconds = (WINDOW as u64 * trace.bin_ms) as f64 / 1e3;
    least.min().map(|count| count as f64 / seconds)
}
