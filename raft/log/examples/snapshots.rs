//! A group of three under writes at a steady rate, with snapshots back to back: how long writes
//! take, and how often a leader is lost, by the way in which a state machine takes its snapshots.
//!
//! `cargo run --release -p stillframe-openraft --example snapshots -- --mb 2048`
//!
//! - `none` takes no snapshots: the floor.
//! - `stillframe` is the state machine of this crate; `paced` is the same with 100 MB/s of the disk
//!   for images: the log is on the same disk.
//! - `copied` holds the lock of its state while it copies it, `encoded` while it encodes it, which
//!   is what most state machines do. Both then write and sync a file without the lock.
//!
//! All have the same log, the same network (within this process) and the same state: words, of
//! which a write replaces one. A write counts from the moment at which it is due. Each contender
//! runs in a process of its own.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use openraft::storage::{RaftSnapshotBuilder, RaftStateMachine, Snapshot};
use openraft::{
    BasicNode, Config, Entry, EntryPayload, LogId, OptionalSend, Raft, RaftTypeConfig,
    SnapshotMeta, SnapshotPolicy, StorageError, StorageIOError, StoredMembership,
};
use stillframe_measure::panel::{Kind, Panel, Point, Series};
use stillframe_measure::{plot, style, svg};
use stillframe_openraft::{
    Batched, Local, LogStore, Machine, Options, SnapshotData, WordState, Words, Writer, open,
};

/// Bytes a second for images that are paced.
const PACE: u64 = 100 << 20;

/// Most writes in an entry.
const BATCH: usize = 1000;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Replaces a word.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub(crate) struct Put {
    index: u64,
    value: u64,
}

openraft::declare_raft_types!(
    pub(crate) Ours: D = Vec<Put>, R = Vec<()>, Node = BasicNode, SnapshotData = SnapshotData
);
openraft::declare_raft_types!(
    pub(crate) Theirs: D = Vec<Put>, R = Vec<()>, Node = BasicNode, SnapshotData = Cursor<Vec<u8>>
);

/// Applies [`Put`].
struct Register;

impl Machine for Register {
    type Command = Put;
    type Reply = ();
    fn open(words: &mut Words<'_>) -> Self {
        (0..words.len()).for_each(|index| words.write(index, index as u64));
        Self
    }
    fn apply(&mut self, words: &mut Words<'_>, put: Put) {
        words.write(put.index as usize % words.len(), put.value);
    }
}

/// A state under a lock.
#[derive(Clone)]
struct Locked {
    state: Arc<Mutex<LockedState>>,
    file: PathBuf,
    copies: bool,
}

struct LockedState {
    words: Vec<u64>,
    applied: Option<LogId<u64>>,
    membership: StoredMembership<u64, BasicNode>,
}

impl Locked {
    fn new(words: usize, file: PathBuf, copies: bool) -> Self {
        let words = (0..words as u64).collect();
        let (applied, membership) = (None, StoredMembership::default());
        Self {
            state: Arc::new(Mutex::new(LockedState { words, applied, membership })),
            file,
            copies,
        }
    }

    /// A snapshot, in a file.
    fn take(&self) -> std::io::Result<SnapshotMeta<u64, BasicNode>> {
        let state = self.state.lock().expect("nothing panics while it holds this");
        let meta = SnapshotMeta {
            last_log_id: state.applied,
            last_membership: state.membership.clone(),
            snapshot_id: format!("{:?}", state.applied.map(|id| id.index)),
        };
        let bytes = if self.copies {
            let copy = state.words.clone();
            drop(state);
            encode(&copy)
        } else {
            encode(&state.words)
        };
        let mut file = std::fs::File::create(&self.file)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        Ok(meta)
    }
}

fn encode(words: &[u64]) -> Vec<u8> {
    postcard::to_allocvec(words).expect("there is memory")
}

impl RaftSnapshotBuilder<Theirs> for Locked {
    async fn build_snapshot(&mut self) -> Result<Snapshot<Theirs>, StorageError<u64>> {
        let this = self.clone();
        let taken = tokio::task::spawn_blocking(move || this.take()).await;
        let taken = taken.map_err(std::io::Error::other).and_then(|taken| taken);
        let meta = taken.map_err(|error| StorageIOError::write_snapshot(None, &error))?;
        Ok(Snapshot { meta, snapshot: Box::default() })
    }
}

impl RaftStateMachine<Theirs> for Locked {
    type SnapshotBuilder = Self;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogId<u64>>, StoredMembership<u64, BasicNode>), StorageError<u64>> {
        let state = self.state.lock().expect("nothing panics while it holds this");
        Ok((state.applied, state.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Vec<()>>, StorageError<u64>>
    where
        I: IntoIterator<Item = Entry<Theirs>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut replies = Vec::new();
        let mut state = self.state.lock().expect("nothing panics while it holds this");
        for Entry { log_id, payload } in entries {
            state.applied = Some(log_id);
            match payload {
                EntryPayload::Blank => {}
                EntryPayload::Normal(puts) => {
                    for put in &puts {
                        let at = put.index as usize % state.words.len();
                        state.words[at] = put.value;
                    }
                    replies.push(vec![(); puts.len()]);
                    continue;
                }
                EntryPayload::Membership(membership) => {
                    state.membership = StoredMembership::new(Some(log_id), membership);
                }
            }
            replies.push(Vec::new());
        }
        Ok(replies)
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(
        &mut self,
    ) -> Result<Box<Cursor<Vec<u8>>>, StorageError<u64>> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        _: &SnapshotMeta<u64, BasicNode>,
        _: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError<u64>> {
        unreachable!("no member falls behind here: the log is kept")
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<Snapshot<Theirs>>, StorageError<u64>> {
        Ok(None)
    }
}

/// What is asked for.
#[derive(Debug, Clone)]
struct Load {
    megabytes: usize,
    rate: u64,
    seconds: u64,
    directory: PathBuf,
    svg: Option<PathBuf>,
    only: Option<String>,
}

impl Load {
    fn parse() -> Outcome<Self> {
        let mut load = Self {
            megabytes: 512,
            rate: 5_000,
            seconds: 20,
            directory: std::env::temp_dir(),
            svg: None,
            only: None,
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match &word[..] {
                "--mb" => load.megabytes = value()?.parse()?,
                "--rate" => load.rate = value()?.parse()?,
                "--seconds" => load.seconds = value()?.parse()?,
                "--dir" => load.directory = value()?.into(),
                "--svg" => load.svg = Some(value()?.into()),
                "--only" => load.only = Some(value()?),
                other => Err(format!("unknown word {other}; see the head of this example"))?,
            }
        }
        if load.megabytes == 0 || load.rate == 0 || load.seconds == 0 {
            Err("--mb, --rate and --seconds are at least 1")?;
        }
        Ok(load)
    }

    fn words(&self) -> usize {
        self.megabytes * (1 << 20) / 8
    }
}

/// What came of it, in seconds.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
struct Record {
    /// Moment and duration of each write.
    writes: Vec<(f32, f32)>,
    failed: u64,
    elections: u64,
    snapshots: u64,
    resident_mb: u64,
}

/// Starts three members, of which each has `start` for a log and a state machine.
async fn group<C, M, F>(load: &Load, folder: &Path, mut start: F) -> Outcome<Local<C>>
where
    C: RaftTypeConfig<NodeId = u64, Node = BasicNode, Entry = Entry<C>, D = Vec<Put>, R = Vec<()>>,
    C: RaftTypeConfig<Responder = openraft::impls::OneshotResponder<C>>,
    Local<C>: openraft::network::RaftNetworkFactory<C>,
    M: RaftStateMachine<C>,
    F: FnMut(&Load, PathBuf) -> Outcome<(LogStore<C>, M)>,
{
    // The defaults of openraft for heartbeats and elections.
    let config = Config {
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: 1 << 40,
        ..Config::default()
    };
    let config = Arc::new(config.validate()?);
    let network = Local::default();
    for node in 1..=3 {
        let (log, machine) = start(load, folder.join(node.to_string()))?;
        let raft = Raft::new(node, Arc::clone(&config), network.clone(), log, machine).await?;
        network.add(node, raft);
    }
    let members = (1..=3).map(|node| (node, BasicNode::default()));
    let first = network.get(&1).ok_or("it was added")?;
    first.initialize(members.collect::<BTreeMap<_, _>>()).await?;
    first.wait(None).metrics(|metrics| metrics.current_leader.is_some(), "a leader").await?;
    Ok(network)
}

/// The node that leads, by what the first says.
fn leader<C: RaftTypeConfig<NodeId = u64>>(network: &Local<C>) -> Option<Raft<C>> {
    let metrics = network.get(&1)?.metrics().borrow().clone();
    network.get(&metrics.current_leader?)
}

async fn measure<C>(load: &Load, network: Local<C>, snapshots: bool) -> Outcome<Record>
where
    C: RaftTypeConfig<NodeId = u64, Node = BasicNode, Entry = Entry<C>, D = Vec<Put>, R = Vec<()>>,
    C: RaftTypeConfig<Responder = openraft::impls::OneshotResponder<C>>,
{
    let term = || network.get(&1).map_or(0, |node| node.metrics().borrow().current_term);
    let term_before = term();
    let over = Arc::new(AtomicBool::new(false));
    let taken = Arc::new(AtomicU64::new(0));
    let saver =
        tokio::spawn(save(network.clone(), Arc::clone(&over), Arc::clone(&taken), snapshots));
    let resident = tokio::spawn(watch_memory(Arc::clone(&over)));
    let writers: BTreeMap<u64, Writer<C, Put, ()>> =
        (1..=3).filter_map(|node| Some((node, Writer::new(network.get(&node)?, BATCH)))).collect();
    let writers = Arc::new(writers);
    let writes = Arc::new(Mutex::new(Vec::new()));
    let failed = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let (mut tasks, mut value) = (Vec::new(), 0x9e37_79b9_7f4a_7c15_u64);
    for number in 0..load.rate * load.seconds {
        let due = start + Duration::from_secs(1) * number as u32 / load.rate as u32;
        if let Some(early) = due.checked_duration_since(Instant::now()) {
            tokio::time::sleep(early).await;
        }
        value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let put = Put { index: value >> 20, value };
        let (writes, failed) = (Arc::clone(&writes), Arc::clone(&failed));
        let (network, writers) = (network.clone(), Arc::clone(&writers));
        tasks.push(tokio::spawn(async move {
            loop {
                let leads = leader(&network).map(|leader| leader.metrics().borrow().id);
                let written = match leads.and_then(|leader| writers.get(&leader)) {
                    Some(writer) => writer.write(put).await.is_ok(),
                    None => false,
                };
                if written {
                    break;
                }
                failed.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let moment = (due - start).as_secs_f32();
            writes.lock().expect("sound").push((moment, due.elapsed().as_secs_f32()));
        }));
    }
    for task in tasks {
        task.await?;
    }
    over.store(true, Ordering::Relaxed);
    saver.await?;
    let writes = std::mem::take(&mut *writes.lock().expect("sound"));
    Ok(Record {
        writes,
        failed: failed.load(Ordering::Relaxed),
        elections: term() - term_before,
        snapshots: taken.load(Ordering::Relaxed),
        resident_mb: resident.await?,
    })
}

/// Makes the leader take one snapshot after the other.
async fn save<C>(network: Local<C>, over: Arc<AtomicBool>, taken: Arc<AtomicU64>, wanted: bool)
where
    C: RaftTypeConfig<NodeId = u64, Node = BasicNode>,
{
    while wanted && !over.load(Ordering::Relaxed) {
        if let Some(leader) = leader(&network) {
            let applied = leader.metrics().borrow().last_applied;
            let wait = leader.wait(Some(Duration::from_secs(60)));
            if applied.is_some()
                && leader.trigger().snapshot().await.is_ok()
                && wait.metrics(|metrics| metrics.snapshot >= applied, "it").await.is_ok()
            {
                taken.fetch_add(1, Ordering::Relaxed);
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The most memory that was resident, in megabytes.
async fn watch_memory(over: Arc<AtomicBool>) -> u64 {
    let mut most = 0;
    while !over.load(Ordering::Relaxed) {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
        most = most.max(pages);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (most * 4096) >> 20
}

async fn run(load: &Load, contender: &str) -> Outcome<Record> {
    let folder = tempfile::tempdir_in(&load.directory)?;
    if matches!(contender, "none" | "stillframe" | "paced") {
        let start = |load: &Load, folder: PathBuf| {
            let words = stillframe_durability::Options::words(load.words());
            let words = if contender == "paced" { words.bandwidth(PACE) } else { words };
            let options = Options::<WordState<Batched<Register>>>::state(words);
            Ok(open::<Ours, _>(folder, options)?)
        };
        let network = group(load, folder.path(), start).await?;
        return measure(load, network, contender != "none").await;
    }
    let copies = contender == "copied";
    let start = |load: &Load, folder: PathBuf| {
        // The log alone is used: a state of one word.
        let words = stillframe_durability::Options::words(1);
        let options = Options::<WordState<Batched<Register>>>::state(words);
        let file = folder.join("snapshot");
        let (log, _) = open::<Theirs, _>(folder, options)?;
        Ok((log, Locked::new(load.words(), file, copies)))
    };
    let network = group(load, folder.path(), start).await?;
    measure(load, network, true).await
}

fn main() -> ExitCode {
    match compare() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("snapshots: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare() -> Outcome<()> {
    let load = Load::parse()?;
    if let Some(contender) = &load.only {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let record = runtime.block_on(run(&load, contender))?;
        println!("{}", serde_json::to_string(&record)?);
        return Ok(());
    }
    println!(
        "{} MB in each of three members, {} writes a second for {} s; milliseconds\n",
        load.megabytes, load.rate, load.seconds
    );
    println!("| state machine | p50 | p99 | max | elections | snapshots | resident, MB |");
    println!("|---|---|---|---|---|---|---|");
    let mut series = Vec::new();
    for (index, contender) in
        ["none", "paced", "stillframe", "copied", "encoded"].into_iter().enumerate()
    {
        let mut process = Command::new(std::env::current_exe()?);
        process.args(std::env::args().skip(1)).args(["--only", contender]);
        let output = process.stderr(std::process::Stdio::inherit()).output()?;
        if !output.status.success() {
            Err(format!("{contender} did not end well"))?;
        }
        let record: Record = serde_json::from_slice(&output.stdout)?;
        println!("{}", line(contender, &record));
        series.push(Series::numbered(index, contender, slowest(&record)));
    }
    if let Some(file) = &load.svg {
        let panel = Panel {
            title: "slowest write of each 20 ms, snapshots back to back".into(),
            kind: Kind::Strips,
            x: "time [s]".into(),
            y: "write [ms]".into(),
            series,
            ..Panel::default()
        };
        std::fs::write(file, picture(&panel))?;
    }
    Ok(())
}

/// A plot that stands alone.
fn picture(panel: &Panel) -> String {
    let svg = plot::svg(panel, "snapshots", "latencies of writes over time, a strip for each");
    let paper = "svg{color:#222;background:#fff}";
    let rules = format!("<style>{paper}{}{}</style></svg>", svg::SHEET, style::sheet());
    svg.replacen("</svg>", &rules, 1).replacen("<svg ", "<svg width=\"880\" ", 1)
}

fn line(contender: &str, record: &Record) -> String {
    let mut took: Vec<f32> = record.writes.iter().map(|&(_, took)| took * 1e3).collect();
    took.sort_unstable_by(f32::total_cmp);
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize];
    let Record { elections, snapshots, resident_mb, .. } = record;
    format!(
        "| {contender} | {:.1} | {:.1} | {:.0} | {elections} | {snapshots} | {resident_mb} |",
        at(0.5),
        at(0.99),
        at(1.0)
    )
}

/// The slowest write of each 20 ms, for the plot.
fn slowest(record: &Record) -> Vec<Point> {
    let mut slots: BTreeMap<u64, f32> = BTreeMap::new();
    for &(moment, took) in &record.writes {
        let slot = slots.entry((moment * 50.0) as u64).or_default();
        *slot = slot.max(took * 1e3);
    }
    slots.into_iter().map(|(slot, most)| Point::single(slot as f64 / 50.0, most.into())).collect()
}
