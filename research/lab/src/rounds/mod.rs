//! Rounds: every case once, then every case again; each in a process of its own.

pub(crate) mod process;

use std::io::{self, Read, Write};
use std::ops::RangeInclusive;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use stillframe::Algorithm;
use stillframe::algorithms::fork_huge::ForkHuge;

use crate::case::Case;
use crate::case::record::Record;
use crate::error::LabError;
use crate::served::Scratch;
use stillframe_measure::environment;

/// The progress of the rounds, reported before each.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Rounds of cases that are finished.
    pub done: usize,
    /// Rounds of cases in all.
    pub total: usize,
    /// Since the first began.
    pub elapsed: Duration,
    /// The case about to run; `None` at the end.
    pub next: Option<Case>,
}

impl Progress {
    /// Estimate of the remaining time; `None` before the first round is finished.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        let each = self.elapsed.checked_div(u32::try_from(self.done).ok()?)?;
        Some(each * u32::try_from(self.total - self.done).ok()?)
    }
}

/// Runs the first round of every case, then the next of every case, each in a fresh process:
/// memory figures are clean, and a crash ends one round alone. `progress` is called before each and
/// at the end, `sink` with each record as soon as it is there. SIGINT stops the rounds.
///
/// The process is this very program with the arguments `lab case`.
///
/// # Errors
/// [`LabError::Interrupted`] after Ctrl-C, [`LabError::Spawn`] if the system gives no process. The
/// record of a round says what went wrong within it.
pub fn run_rounds(
    cases: &[Case],
    rounds: RangeInclusive<u32>,
    progress: &mut dyn FnMut(Progress),
    sink: &mut dyn FnMut(&Record),
) -> Result<Vec<Record>, LabError> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let signal = signal_hook::consts::SIGINT;
    environment(); // the load before the rounds, which are a load themselves
    let registered = signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    let started = Instant::now();
    let total = cases.len() * rounds.clone().count();
    let mut records = Vec::with_capacity(total);
    let mut run = || {
        for round in rounds.clone() {
            for case in cases {
                let (done, elapsed) = (records.len(), started.elapsed());
                progress(Progress { done, total, elapsed, next: Some(case.clone()) });
                let record = run_one(case, round, &interrupted)?;
                sink(&record);
                records.push(record);
            }
        }
        progress(Progress { done: total, total, elapsed: started.elapsed(), next: None });
        Ok(())
    };
    let outcome = run();
    signal_hook::low_level::unregister(registered);
    outcome.map(|()| records)
}

/// One round of one case in a process of its own.
fn run_one(case: &Case, round: u32, interrupted: &AtomicBool) -> Result<Record, LabError> {
    let program = std::env::current_exe()?;
    // Its files are removed even if it is killed.
    let scratch = Scratch::new("round")?;
    let mut command = Command::new(program);
    if case.service.is_none() && !case.huge_pages && case.algorithm != ForkHuge::INFO.name {
        // The allocator of the binary, mimalloc, takes pages of 2 MiB by itself, for logs of
        // before-images but not for the second copies of others, and in the figures of memory
        // each thread counts as two or four megabytes. This turns them off for the process.
        command.env("MIMALLOC_ALLOW_THP", "0");
    }
    let mut child = command
        .args(["lab", "case"])
        .env("TMPDIR", scratch.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let input = serde_json::to_vec(case).map_err(io::Error::from)?;
    if let Some(mut stdin) = child.stdin.take() {
        // The status of a process shows whether it died before it read.
        let _ = stdin.write_all(&input);
    }
    let mut stdout = child.stdout.take();
    let reader = thread::spawn(move || {
        let mut text = String::new();
        let _ = stdout.as_mut().map(|stdout| stdout.read_to_string(&mut text));
        text
    });
    let limit = longest(case);
    let status = wait(&mut child, limit, interrupted)?;
    let text = reader.join().unwrap_or_default();
    let failed = match (status, serde_json::from_str::<Record>(&text)) {
        (Some(status), Ok(record)) if status.success() => Ok(record),
        (Some(status), _) => Err(describe(status)),
        (None, _) => Err(format!("it did not end within {} s and was killed", limit.as_secs())),
    };
    let record = failed.unwrap_or_else(|why| Record { failed: Some(why), ..Record::new(case) });
    Ok(Record { round, environment: environment().clone(), ..record })
}

/// How long a round may take: many times what the slowest algorithm needs, so that one that hangs
/// does not hold up the others for ever.
fn longest(case: &Case) -> Duration {
    if let Some(service) = &case.service {
        return Duration::from_secs_f64(120.0 + 20.0 * service.expected_s(case.is_floor()));
    }
    let tick_s = case.tick_ms as f64 / 1e3 + case.updates_per_tick as f64 * 1e-6;
    let image_s =
        case.size_bytes as f64 / case.disk_rate.unwrap_or(u64::MAX).min(200_000_000) as f64;
    let expected_s = case.ticks as f64 * tick_s + 5.0 * (image_s + case.hold_ms as f64 / 1e3);
    Duration::try_from_secs_f64(120.0 + 20.0 * expected_s).unwrap_or(Duration::MAX)
}

/// Waits for the end of a round, or ends it: when asked to, or, with `None`, when it is late.
fn wait(
    child: &mut Child,
    limit: Duration,
    interrupted: &AtomicBool,
) -> Result<Option<ExitStatus>, LabError> {
    let started = Instant::now();
    loop {
        let status = child.try_wait()?;
        // On a terminal the same Ctrl-C ends the round.
        let is_interrupted = status.and_then(|it| it.signal()) == Some(signal_hook::consts::SIGINT);
        let is_late = started.elapsed() > limit;
        if status.is_none() && (is_late || interrupted.load(Ordering::Relaxed)) {
            let _ = child.kill(); // it may have ended this very moment
            let _ = child.wait();
        }
        if is_interrupted || interrupted.load(Ordering::Relaxed) {
            return Err(LabError::Interrupted);
        }
        if status.is_some() || is_late {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn describe(status: ExitStatus) -> String {
    match status.signal() {
        Some(9) => "its process was killed, most likely for lack of memory".to_owned(),
        Some(signal) => format!("its process died by signal {signal}"),
        None => format!("its process ended with {status}"),
    }
}
