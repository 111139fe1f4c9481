//! The figures of the server: one list, which INFO and `/metrics` print.
//!
//! - An entry names the field of INFO, how to read it, and the metric of Prometheus, if any.
//!   Entries stand in the order of INFO's sections.
//! - Figures of several things of a kind (commands, errors, databases, replicas) are a line of INFO
//!   for each thing, and a family of metrics with labels for each field of the line ([`rows`]).

mod list;
mod rows;

use std::cell::OnceCell;
use std::fmt::Write as _;
use std::time::Duration;

use stillframe_keyspace::{Defragmentation, Keyspace, KeyspaceStats};
use stillframe_storage::dump::{Save, whole_micros};
use stillframe_storage::journal::LogFigures;

use super::Table;
pub(super) use list::{SECTIONS, Section};
use rows::Rows;

use crate::consensus::MemberView;
use crate::data::scripts::Taken;
use crate::node::archive::ArchiveFigures;
use crate::node::machine;
use crate::peers::group::Member;
use crate::peers::replication::Following;
use crate::peers::replication::known::Unable;
use crate::state::ServerState;
use crate::state::eviction::{counted_bytes, used_bytes};

/// What figures are read from.
pub(crate) struct Seen<'a> {
    pub(crate) keyspace: &'a Keyspace,
    pub(crate) server: &'a ServerState,
    pub(crate) table: &'a Table,
    stats: KeyspaceStats,
    process: OfProcess,
    used: OnceCell<u64>,
    log: OnceCell<Option<LogFigures>>,
}

/// What the operating system knows of the process; the server asks it at most once.
#[derive(Default)]
struct OfProcess {
    resident: OnceCell<(u64, u64)>,
    cpu_seconds: OnceCell<[f64; 4]>,
}

impl OfProcess {
    /// Memory of the process, and the most of it so far.
    fn resident(&self) -> (u64, u64) {
        *self.resident.get_or_init(machine::resident_bytes)
    }

    fn cpu(&self, which: usize) -> Value {
        Value::Real(self.cpu_seconds.get_or_init(machine::cpu_seconds)[which], 6)
    }
}

impl<'a> Seen<'a> {
    pub(crate) fn new(keyspace: &'a Keyspace, server: &'a ServerState, table: &'a Table) -> Self {
        let (process, used, log) = Default::default();
        Self { keyspace, server, table, stats: keyspace.stats(), process, used, log }
    }

    fn used(&self) -> u64 {
        *self.used.get_or_init(|| used_bytes(self.keyspace, self.server))
    }

    fn defragmented(&self) -> Defragmentation {
        self.server.memory.defrag.totals().0
    }

    fn counted(&self) -> u64 {
        counted_bytes(self.keyspace, self.server)
    }

    fn dataset(&self) -> u64 {
        self.stats.entry_bytes as u64
    }

    fn scripts(&self) -> Taken {
        self.server.scripts.taken_by_scripts()
    }

    fn functions(&self) -> Taken {
        self.server.scripts.taken_by_functions(self.keyspace.libraries())
    }

    fn running(&self) -> Option<&'a Save> {
        self.server.storage.saves.running()
    }

    fn of_save(&self, figure: fn(&Save) -> u64) -> u64 {
        self.running().map_or(0, figure)
    }

    /// The save under way, if the log begins anew with it.
    fn rewriting(&self) -> Option<&'a Save> {
        self.running().filter(|_| self.log().is_some())
    }

    /// The figures of the log, if it is on.
    fn log(&self) -> Option<&LogFigures> {
        self.log.get_or_init(|| self.server.storage.journal.figures()).as_ref()
    }

    fn of_archive(&self, figure: fn(ArchiveFigures) -> Value) -> Option<Value> {
        self.server.process.archive().map(figure)
    }

    fn of_log(&self, figure: fn(&LogFigures) -> Value) -> Option<Value> {
        self.log().map(figure)
    }

    fn following(&self, figure: fn(&Self, &Following) -> Value) -> Option<Value> {
        self.server.replication.following().map(|it| figure(self, it))
    }

    /// A replica that does not load its images.
    fn unable(&self) -> Option<Unable> {
        self.server.replication.known.unable(self.server.clock.turn())
    }

    /// A figure of this server as a member of a group.
    fn member(&self, figure: fn(&Member) -> Value) -> Option<Value> {
        self.server.group.member().map(figure)
    }

    /// A figure of the leader that this member of a group follows.
    fn leader(&self, figure: fn(&MemberView) -> Value) -> Option<Value> {
        self.server.group.followed().map(figure)
    }

    /// A figure of the first synchronisation under way: bytes received, and all bytes.
    fn syncing(&self, figure: fn(u64, u64) -> Value) -> Option<Value> {
        let following = self.server.replication.following().filter(|it| is_syncing(it))?;
        let (done, total) = match (following.reception(), following.load()) {
            (Some(receiving), _) => (receiving.bytes, receiving.total()),
            (None, Some(load)) => (load.bytes, load.bytes),
            (None, None) => (0, 0),
        };
        Some(figure(done, total))
    }

    fn seconds_since(&self, time: std::time::Instant) -> u64 {
        self.server.clock.turn().saturating_duration_since(time).as_secs()
    }

    /// Bytes of the stream kept beyond the backlog, for replicas that are behind.
    fn behind(&self) -> usize {
        let backlog = self.server.config.replication.backlog_bytes as usize;
        let kept = self.server.replication.stream().memory();
        if self.server.clients.replicas() > 0 { kept.saturating_sub(backlog) } else { 0 }
    }

    /// Whether writes wait until another server is the primary.
    fn fails_over(&self) -> bool {
        self.server.replication.failover().is_some()
    }

    fn forks(&self) -> bool {
        !self.keyspace.algorithm().in_process
    }
}

/// Whether the server receives or loads an image of its primary.
pub(crate) fn is_syncing(following: &Following) -> bool {
    following.state() == "sync" || following.is_loading()
}

/// A figure at one moment, as INFO shows it and as a number.
pub(crate) enum Value {
    Whole(i128),
    /// 1 or 0.
    Flag(bool),
    /// `ok` or `err`, 1 or 0.
    Status(bool),
    /// `up` or `down`, 1 or 0.
    Link(bool),
    /// A number with so many digits behind the point in INFO.
    Real(f64, usize),
    /// Whole seconds in INFO; -1 for none.
    Seconds(Option<Duration>),
    /// Whole microseconds in INFO, seconds in Prometheus.
    Micros(Duration),
    /// Bytes; INFO shows them a second time for people.
    Size(u64),
    Percent(u64, u64),
    Text(String),
}

macro_rules! whole {
    ($($type:ty)*) => { $(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::Whole(value as i128)
            }
        }
    )* };
}
whole!(u8 u16 u32 u64 u128 usize i32 i64);

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Flag(value)
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl Value {
    /// As Prometheus has it.
    fn number(&self) -> f64 {
        match *self {
            Self::Whole(value) => value as f64,
            Self::Flag(is) | Self::Status(is) | Self::Link(is) => f64::from(u8::from(is)),
            Self::Real(value, _) => value,
            Self::Seconds(time) => time.map_or(-1.0, |time| time.as_secs_f64()),
            Self::Micros(time) => time.as_secs_f64(),
            Self::Size(bytes) => bytes as f64,
            Self::Percent(part, whole) => part as f64 * 100.0 / whole.max(1) as f64,
            Self::Text(_) => f64::NAN,
        }
    }

    /// As INFO has it.
    fn shown(&self) -> String {
        match self {
            Self::Whole(value) => value.to_string(),
            Self::Flag(is) => u8::from(*is).to_string(),
            Self::Status(is) => if *is { "ok" } else { "err" }.to_owned(),
            Self::Link(is) => if *is { "up" } else { "down" }.to_owned(),
            Self::Real(value, digits) => format!("{value:.digits$}"),
            Self::Seconds(time) => time.map_or("-1".to_owned(), |it| it.as_secs().to_string()),
            Self::Micros(time) => whole_micros(*time).to_string(),
            Self::Size(bytes) => bytes.to_string(),
            Self::Percent(..) => format!("{:.2}%", self.number()),
            Self::Text(text) => text.clone(),
        }
    }
}

/// How a figure changes over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trend {
    /// Goes up and down.
    Gauge,
    /// Only rises, until a restart or CONFIG RESETSTAT.
    Counter,
    /// Counts that do so, by upper bounds.
    Histogram,
}

/// How Prometheus knows a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) trend: Trend,
}

/// One figure.
pub(crate) struct Figure {
    /// Its field in INFO; empty if only Prometheus has it.
    field: &'static str,
    read: Read,
    metric: Option<Metric>,
    /// What the metric says beside the number.
    labels: fn(&Seen<'_>) -> Labels,
}

/// Names and values of labels in Prometheus.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// A metric at one moment: a line for each thing that it counts.
pub(crate) struct Family {
    pub(crate) metric: Metric,
    pub(crate) lines: Vec<Line>,
}

/// A line of a family.
pub(crate) struct Line {
    /// What follows the name of the family: in a histogram, which part of it this is.
    pub(crate) part: &'static str,
    pub(crate) labels: Labels,
    pub(crate) value: f64,
}

impl Line {
    /// A line with the name of its family.
    const fn new(labels: Labels, value: f64) -> Self {
        Self { part: "", labels, value }
    }
}

/// Where a figure comes from.
enum Read {
    /// The server; `None` if there is nothing to show now.
    Server(fn(&Seen<'_>) -> Option<Value>),
    /// The operating system, which any thread can ask.
    Process(fn(&OfProcess) -> Value),
    /// Things of a kind.
    Rows(&'static Rows),
    /// How often something took how long.
    Spread(fn(&Seen<'_>) -> Spread),
}

/// How often something took how long.
struct Spread {
    /// Upper bounds in seconds, and how often it took no longer.
    upto: Vec<(f64, u64)>,
    count: u64,
    sum: Duration,
}

impl Spread {
    /// The lines of its family: those of a histogram.
    fn lines(self) -> Vec<Line> {
        let bucket = |le: String, count: u64| Line {
            part: "_bucket",
            labels: vec![("le", le)],
            value: count as f64,
        };
        let whole = |part, value| Line { part, labels: Labels::new(), value };
        let buckets = self.upto.into_iter().map(|(bound, count)| bucket(bound.to_string(), count));
        let all = [
            bucket("+Inf".to_owned(), self.count),
            whole("_sum", self.sum.as_secs_f64()),
            whole("_count", self.count as f64),
        ];
        buckets.chain(all).collect()
    }
}

const fn figure(field: &'static str, read: fn(&Seen<'_>) -> Option<Value>) -> Figure {
    Figure { field, read: Read::Server(read), metric: None, labels: |_| Vec::new() }
}

const fn of_process(field: &'static str, read: fn(&OfProcess) -> Value) -> Figure {
    Figure { read: Read::Process(read), ..figure(field, |_| None) }
}

const fn rows(rows: &'static Rows) -> Figure {
    Figure { read: Read::Rows(rows), ..figure("", |_| None) }
}

const fn spread(spread: fn(&Seen<'_>) -> Spread) -> Figure {
    Figure { read: Read::Spread(spread), ..figure("", |_| None) }
}

/// A figure of Redis that this server lacks.
const fn none(field: &'static str) -> Figure {
    figure(field, |_| Some(Value::Whole(0)))
}

/// A figure that is always there: its expression, of what is seen.
macro_rules! always {
    ($field:literal, |$seen:pat_param| $value:expr) => {
        figure($field, |$seen| Some(Value::from($value)))
    };
}
use always;

impl Figure {
    const fn gauge(self, name: &'static str, help: &'static str) -> Self {
        Self { metric: Some(Metric { name, help, trend: Trend::Gauge }), ..self }
    }

    const fn counter(self, name: &'static str, help: &'static str) -> Self {
        Self { metric: Some(Metric { name, help, trend: Trend::Counter }), ..self }
    }

    const fn histogram(self, name: &'static str, help: &'static str) -> Self {
        Self { metric: Some(Metric { name, help, trend: Trend::Histogram }), ..self }
    }

    const fn labelled(self, labels: fn(&Seen<'_>) -> Labels) -> Self {
        Self { labels, ..self }
    }

    /// Writes its lines of INFO.
    pub(super) fn show(&self, seen: &Seen<'_>, text: &mut String) {
        let value = match self.read {
            Read::Rows(rows) => return rows.show(seen, text),
            _ if self.field.is_empty() => return,
            Read::Server(read) => read(seen),
            Read::Process(read) => Some(read(&seen.process)),
            Read::Spread(_) => None,
        };
        let Some(value) = value else { return };
        // Writing to a string cannot fail.
        let _ = write!(text, "{}:{}\r\n", self.field, value.shown());
        if let Value::Size(bytes) = value {
            let _ = write!(text, "{}_human:{}\r\n", self.field, human(bytes));
        }
    }
}

fn human(bytes: u64) -> String {
    let units = [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')];
    match units.into_iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, unit)) => format!("{:.2}{unit}", bytes as f64 / f64::from(shift).exp2()),
        None => format!("{bytes}B"),
    }
}

/// Every figure.
fn all() -> impl Iterator<Item = &'static Figure> {
    let unlisted = list::UNLISTED.iter();
    unlisted.chain(list::SECTIONS.iter().flat_map(|section| section.figures))
}

/// The metrics that the server's state gives.
pub(crate) fn families(seen: &Seen<'_>) -> Vec<Family> {
    let families = all().flat_map(|figure| match figure.read {
        Read::Rows(rows) => rows.families(seen),
        Read::Process(_) => Vec::new(),
        Read::Server(read) => {
            let value = figure.metric.and_then(|metric| Some((metric, read(seen)?)));
            let family = value.map(|(metric, value)| Family {
                metric,
                lines: vec![Line::new((figure.labels)(seen), value.number())],
            });
            family.into_iter().collect()
        }
        Read::Spread(read) => {
            let family = figure.metric.map(|metric| Family { metric, lines: read(seen).lines() });
            family.into_iter().collect()
        }
    });
    families.filter(|family| !family.lines.is_empty()).collect()
}

/// The metrics that the operating system gives.
pub(crate) fn families_of_process() -> Vec<Family> {
    let process = OfProcess::default();
    let family = |it: &Figure| match it.read {
        Read::Process(read) => {
            let lines = vec![Line::new(Labels::new(), read(&process).number())];
            it.metric.map(|metric| Family { metric, lines })
        }
        Read::Server(_) | Read::Rows(_) | Read::Spread(_) => None,
    };
    all().filter_map(family).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_figure_stands_once() {
        let (mut fields, mut metrics) = (HashSet::new(), HashSet::new());
        for figure in all() {
            let is_new = figure.field.is_empty() || fields.insert(figure.field);
            assert!(is_new, "{} stands twice", figure.field);
            let of_rows = match figure.read {
                Read::Rows(rows) => rows.metrics().collect(),
                Read::Server(_) | Read::Process(_) | Read::Spread(_) => Vec::new(),
            };
            for metric in figure.metric.into_iter().chain(of_rows) {
                assert!(metrics.insert(metric.name), "{} stands twice", metric.name);
                assert!(metric.help.ends_with('.'), "{}", metric.name);
            }
        }
        assert!(fields.len() > 150 && metrics.len() > 60);
    }

    #[test]
    fn values_are_shown_as_redis_does() {
        let time = Duration::from_micros(1_500_000);
        for (value, shown, number) in [
            (Value::from(true), "1", 1.0),
            (Value::Status(false), "err", 0.0),
            (Value::Link(true), "up", 1.0),
            (Value::from(-1), "-1", -1.0),
            (Value::Real(1.0 / 3.0, 2), "0.33", 1.0 / 3.0),
            (Value::Seconds(Some(time)), "1", 1.5),
            (Value::Seconds(None), "-1", -1.0),
            (Value::Micros(time), "1500000", 1.5),
            (Value::Percent(1, 0), "100.00%", 100.0),
        ] {
            assert_eq!((value.shown().as_str(), value.number()), (shown, number));
        }
        assert_eq!((human(1023), human(3 << 19)), ("1023B".to_owned(), "1.50M".to_owned()));
    }
}
