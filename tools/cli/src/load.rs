//! `stillframe load`: flags to a plan, a report to text, JSON and a page.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use stillframe_load::{
    Distribution, LoadError, Plan, Progress, Rate, Ratio, Report, Stage, Workload, floor, html,
};

use crate::lab::progress::{clear_line, time};
use crate::outcome::{fail, print, watch_signals};
use crate::values::{count, milliseconds, size};

pub(crate) const EXAMPLES: &str = "\
Examples:
  stillframe load --target 127.0.0.1:6379 --rate 30000 --fill --keys 2M --bgsave-every 15s
      --duration 60s --html load.html           what saves of 2 GB do to latency
  stillframe load --target 127.0.0.1:6379 --rate max --pipeline 16      most writes a second
  stillframe load --target db:6379 --ratio 1:10 --distribution zipf:0.99 --protocol-check --fill
  stillframe load --target 127.0.0.1:6379 --workload hash --rate 5000   one hash of 1M fields
  stillframe load --target 127.0.0.1:6379 --workload ycsb-a --fill --protocol-check      YCSB's A

A query's latency counts from its intended time, which the rate alone fixes: a server that stalls
pays for all queries that it kept waiting, sent or not. A query is 'saving' if that time
lies between BGSAVE (less 1 ms) and the reply with rdb_bgsave_in_progress:0; 'syncing' while a
replica gets a full sync; 'rewriting' while aof_rewrite_in_progress is 1. The keys are those of
redis-benchmark (key:000000000000), or load:hash, load:list, load:zset; of YCSB user000000000000
and _indices. The load overwrites them: use a server whose data you can spare.
Counts: 256k, 1M (thousands); sizes: 1024, 64KB (powers of 1024); times: 500ms, 30s.
Exit status: 0 done, 1 no connection, a lost one, errors or wrong replies, 2 wrong usage, 130 Ctrl-C
(what was measured is shown).";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Server to put load on, or unix:PATH
    #[arg(long, value_name = "HOST:PORT")]
    target: String,
    /// Queries a second, fixed (open loop), or max: each connection sends again after its replies
    #[arg(long, value_name = "COUNT|max", default_value = "50000", value_parser = rate)]
    rate: Rate,
    /// Connections
    #[arg(long, value_name = "COUNT", default_value = "50", value_parser = count)]
    clients: u64,
    /// Keys, or fields, or members
    #[arg(long, value_name = "COUNT", default_value = "1M", value_parser = count)]
    keys: u64,
    /// Bytes of a value, which do not compress [default: 1024; YCSB: 100, of each of ten fields]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    value_size: Option<u64>,
    /// Ratio of writes to reads [default: 1:0; YCSB: that of the workload]
    #[arg(long, value_name = "SET:GET")]
    ratio: Option<Ratio>,
    /// Which keys: uniform, zipf:S (exponent S, scattered), latest or latest:S (newest first),
    /// gaussian or gaussian:DEVIATION (a share of the keys, 1/6 if not given) [default: uniform;
    /// YCSB: zipf:0.99, ycsb-d latest:0.99]
    #[arg(long, value_name = "NAME")]
    distribution: Option<Distribution>,
    /// How long to send queries
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = milliseconds)]
    duration: u64,
    /// Time before the first BGSAVE, and from each to the next
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    bgsave_every: Option<u64>,
    /// Time before the first BGREWRITEAOF, and from each to the next
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    rewrite_every: Option<u64>,
    /// string (SET, GET), or one of hash (HSET, HGET), list (LPUSH, LINDEX) and zset (ZADD, ZSCORE)
    /// with one key, or YCSB's core workloads: ycsb-a, ycsb-b, ycsb-c, ycsb-d, ycsb-e, ycsb-f
    #[arg(long, value_name = "NAME", default_value = "string")]
    workload: Workload,
    /// Write all keys before the measurement, as fast as possible
    #[arg(long)]
    fill: bool,
    /// Password of the server, or of --user
    #[arg(long, value_name = "PASSWORD")]
    password: Option<String>,
    /// User of the server's access control list
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Queries sent at once on a connection
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = count)]
    pipeline: u64,
    /// Threads that send; one leaves the other cores to the server
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = count)]
    threads: u64,
    /// Seed of keys and operations
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Compare each value read with the value this load writes under its key
    #[arg(long)]
    protocol_check: bool,
    /// Also run the load, for at most 10 s, against a built-in server that only replies +OK
    #[arg(long)]
    null_server: bool,
    /// File for the report as one JSON object; none or -: standard output, text on standard error
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// File for the report as a page, with latency against time
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Arguments {
    fn plan(&self) -> Result<Plan, String> {
        let small = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let plan = Plan {
            target: self.target.clone(),
            user: self.user.clone(),
            password: self.password.clone(),
            rate: self.rate,
            clients: small(self.clients),
            threads: small(self.threads),
            pipeline: small(self.pipeline),
            workload: self.workload,
            keys: self.keys,
            value_size: self.value_size.map_or(self.workload.value_size(), small),
            ratio: self.ratio.unwrap_or(self.workload.ratio()),
            distribution: self.distribution.unwrap_or(self.workload.distribution()),
            duration: Duration::from_millis(self.duration),
            bgsave_every: self.bgsave_every.map(Duration::from_millis),
            rewrite_every: self.rewrite_every.map(Duration::from_millis),
            fill: self.fill,
            check: self.protocol_check,
            seed: self.seed,
        };
        plan.check()?;
        if self.html.as_deref() == Some(Path::new("-")) {
            return Err("--html -: give a file".to_owned());
        }
        Ok(plan)
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    match text {
        "max" => Ok(Rate::Max),
        _ => count(text)
            .map(Rate::PerSecond)
            .map_err(|_| format!("'{text}' is not a rate such as 50000, 30k or max")),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), ExitCode> {
    let plan = arguments
        .plan()
        .map_err(|problem| fail(2, &format_args!("{problem} (see 'stillframe load --help')")))?;
    let stop = watch_signals(130)?;
    let mut progress = |now: &Progress| show(now);
    let outcome = stillframe_load::run(&plan, &stop, &mut progress);
    clear_line();
    let mut report = outcome.map_err(|error| match error {
        LoadError::Plan(_) => fail(2, &error),
        LoadError::Interrupted => fail(130, &error),
        error => fail(1, &error),
    })?;
    if arguments.null_server && !report.interrupted {
        match floor(&plan, &stop, &mut progress) {
            Ok(floor) => report.floor = Some(floor),
            Err(error) => report.warnings.push(format!("the null server gave no floor: {error}")),
        }
        clear_line();
    }
    write_report(arguments, &report)
}

/// One line that is overwritten, on a terminal.
fn show(progress: &Progress) {
    if !io::stderr().is_terminal() {
        return;
    }
    let Progress { stage, share, rate, latencies, elapsed } = progress;
    let name = match stage {
        Stage::Fill => "loading keys".to_owned(),
        Stage::Load(phase) => phase.name().to_owned(),
        Stage::Floor => "null server".to_owned(),
    };
    let times = latencies.map_or(String::new(), |it| {
        let [p50, p99, max] = [it.p50_us, it.p99_us, it.max_us].map(|us| us / 1e3);
        format!(", p50 {p50:.3} p99 {p99:.3} max {max:.3} ms so far")
    });
    let left = (*share > 0.0).then(|| elapsed.mul_f64((1.0 / share - 1.0).clamp(0.0, 1e6)));
    let left = left.map_or(String::new(), |left| format!(", {} left", time(left)));
    eprint!("\r\x1b[K[{:3.0} %] {name}: {rate:.0}/s{times}{left}", share * 100.0);
}

fn write_report(arguments: &Arguments, report: &Report) -> Result<(), ExitCode> {
    for warning in &report.warnings {
        eprintln!("stillframe: warning: {warning}");
    }
    let mut text = report.table().text() + &report.notes().join("\n") + "\n";
    if let Some(path) = &arguments.html {
        write(path, &html(report, &command()))?;
        text += &format!("Page: {}\n", path.display());
    }
    deliver(text, report, arguments.json.as_deref(), report.failure(), report.interrupted)
}

fn write(path: &Path, content: &str) -> Result<(), ExitCode> {
    let written = fs::write(path, content);
    written.map_err(|error| fail(1, &format_args!("writing {}: {error}", path.display())))
}

/// Hands a report over: as text, and as JSON into the file of --json; if that is standard output,
/// the text goes to standard error.
pub(crate) fn deliver(
    mut text: String,
    report: &impl Serialize,
    file: Option<&Path>,
    failure: Option<String>,
    interrupted: bool,
) -> Result<(), ExitCode> {
    let json = serde_json::to_string(report).unwrap_or_default() + "\n";
    match file {
        Some(path) if path == Path::new("-") => {
            let _ = io::stderr().lock().write_all(text.as_bytes()); // nobody would read the failure
            text = json;
        }
        Some(path) => {
            write(path, &json)?;
            text += &format!("JSON: {}\n", path.display());
        }
        None => {}
    }
    print(&text)?;
    match failure {
        Some(problem) => Err(fail(1, &problem)),
        None if interrupted => Err(ExitCode::from(130)),
        None => Ok(()),
    }
}

/// The command line, without the password.
fn command() -> String {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    for index in 0..words.len() {
        if words[index].starts_with("--password=") {
            words[index] = "--password=...".to_owned();
        } else if index > 0 && words[index - 1] == "--password" {
            words[index] = "...".to_owned();
        }
    }
    format!("stillframe {}", words.join(" "))
}
