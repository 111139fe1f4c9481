//! A writer of orders beside questions about them, back to back: what the questions do to the
//! writer, how old their answers are, and how many rows a core reads.
//!
//! `cargo run --release -p stillframe-state-query --example htap -- --orders 10000000`
//!
//! - The writer changes orders at a fixed rate, in ticks of a millisecond; a tick is as late as
//!   its end is behind the time at which it should have begun. The state has the time of its newest
//!   tick, so each answer says of which instant it is.
//! - `null` is what questions are compared with: as many threads of the same priority, which burn
//!   as much processor time as the questions of the newest run did, and read nothing.
//! - `copy` locks the state, copies it, and asks the copy.
//! - Runs take turns, and `view` and `null` change places in each round.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::{Int64Type, UInt64Type};
use datafusion::prelude::{SessionConfig, SessionContext};
use rustix::time::{ClockId, clock_gettime};
use stillframe_peers::Random;
use stillframe_state::stillframe::os::lower_priority;
use stillframe_state::{Column, Reader, Slot, State, Store, Table, Value, record};
use stillframe_state_query::{Words, register};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const CUSTOMERS: usize = 100_000;
const REGIONS: usize = 50;
const STATES: usize = 8;
const TICK: Duration = Duration::from_millis(1);

#[record]
struct Order {
    changed_ns: u64,
    price: f64,
    customer: u32,
    quantity: u16,
    state: u16,
}

#[derive(Clone, Copy, State)]
struct Shop {
    /// When the newest tick began, since the program did.
    tick_ns: Value<u64>,
    orders: Table<Order>,
    regions: Column<u32, CUSTOMERS>,
}

/// Answers with a column `n` count all orders in it.
const QUESTIONS: [(&str, &str); 3] = [
    (
        "group",
        "select state, count(*) as n, sum(price * quantity) as sum from orders group by state",
    ),
    (
        "join",
        "select r.value as region, count(*) as n, sum(o.price) as sum from regions r \
         join orders o on o.customer = r.index group by r.value",
    ),
    ("top", "select slot, price, changed_ns from orders order by price desc limit 10"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Alone,
    View,
    Null,
    Copy,
}

struct Settings {
    orders: usize,
    rate: usize,
    seconds: f64,
    rounds: usize,
    threads: usize,
}

/// What a run showed.
struct Run {
    late_ms: Vec<f64>,
    answers: Vec<Answer>,
    /// Processor time of all threads but the writer's, and the same a second.
    burnt_s: f64,
    processors: f64,
    rss_mb: f64,
}

struct Answer {
    question: &'static str,
    took_ms: f64,
    /// From its instant to its end.
    age_ms: f64,
}

struct Bench {
    settings: Settings,
    store: Mutex<Store>,
    shop: Shop,
    slots: Vec<Slot<Order>>,
    started: Instant,
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn rss_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kb.unwrap_or_default() / 1024.0
}

impl Bench {
    fn fill(settings: Settings, path: &Path) -> Outcome<Self> {
        let words = Shop::layout().words() + 10 * settings.orders + (1 << 16);
        let mut store: Store = Store::open(path, Shop::options("htap", words))?;
        let shop = Shop::attach(&mut store)?;
        let mut random = Random::with_seed(7);
        for customer in 0..CUSTOMERS {
            shop.regions.set(&mut store, customer, random.below(REGIONS) as u32);
        }
        let mut slots = Vec::with_capacity(settings.orders);
        for _ in 0..settings.orders {
            let order = Order {
                changed_ns: 0,
                price: random.below(1_000_000) as f64 / 100.0,
                customer: random.below(CUSTOMERS) as u32,
                quantity: random.below(100) as u16,
                state: random.below(STATES) as u16,
            };
            slots.push(shop.orders.insert(&mut store, order)?);
        }
        Ok(Self { settings, store: Mutex::new(store), shop, slots, started: Instant::now() })
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Writes for as long as a run takes: how late each tick ended, and processor time.
    fn write(&self, random: &mut Random) -> (Vec<f64>, f64) {
        let cpu = seconds(ClockId::ThreadCPUTime);
        let ticks = (self.settings.seconds / TICK.as_secs_f64()) as u32;
        let each = (self.settings.rate as f64 * TICK.as_secs_f64()) as usize;
        let begun = Instant::now();
        let mut late_ms = Vec::with_capacity(ticks as usize);
        for tick in 0..ticks {
            let due = begun + TICK * tick;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let mut store = self.lock();
            let now = self.now_ns();
            self.shop.tick_ns.set(&mut *store, now);
            for _ in 0..each {
                let slot = random.pick(&self.slots);
                let (price, state) = (random.below(1_000_000), random.below(STATES));
                self.shop.orders.update(&mut *store, slot, |order| {
                    (order.price, order.state) = (price as f64 / 100.0, state as u16);
                    order.changed_ns = now;
                });
            }
            store.point();
            drop(store);
            late_ms.push(due.elapsed().as_secs_f64() * 1e3);
        }
        (late_ms, seconds(ClockId::ThreadCPUTime) - cpu)
    }

    /// Asks until the run is over.
    fn ask(&self, mode: Mode, is_over: &AtomicBool) -> Outcome<Vec<Answer>> {
        lower_priority();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(self.settings.threads).on_thread_start(lower_priority);
        let runtime = runtime.build()?;
        let reader = self.lock().reader();
        let mut answers = Vec::new();
        for &(question, sql) in QUESTIONS.iter().cycle() {
            let asked = Instant::now();
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let Some(words) = self.words(mode, &reader)? else { break };
            let threads = SessionConfig::new().with_target_partitions(self.settings.threads);
            let context = SessionContext::new_with_config(threads);
            register::<Shop>(&context, words)?;
            let ask = |sql| runtime.block_on(async { context.sql(sql).await?.collect().await });
            self.check(question, &ask(sql)?)?;
            let answered = self.now_ns();
            let tick = ask("select value from tick_ns")?;
            let tick = tick[0].column(0).as_primitive::<UInt64Type>().value(0);
            answers.push(Answer {
                question,
                took_ms: asked.elapsed().as_secs_f64() * 1e3,
                age_ms: (answered - tick) as f64 / 1e6,
            });
        }
        Ok(answers)
    }

    /// The state of now; `None` if the writer has ended.
    fn words(&self, mode: Mode, reader: &Reader) -> Outcome<Option<Arc<dyn Words>>> {
        if mode == Mode::Copy {
            let store = self.lock();
            let copy: Vec<u64> = (0..store.words()).map(|index| store.read(index)).collect();
            return Ok(Some(Arc::new(copy)));
        }
        match reader.view_timeout(Duration::from_millis(500)) {
            Ok(view) => Ok(Some(Arc::new(view))),
            Err(stillframe_state::Error::NoPoint { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn check(&self, question: &str, answer: &[RecordBatch]) -> Outcome<()> {
        let counts = answer.iter().filter_map(|batch| batch.column_by_name("n"));
        let counts = counts.flat_map(|it| it.as_primitive::<Int64Type>().values().to_vec());
        let counted: i64 = counts.sum();
        let rows: usize = answer.iter().map(RecordBatch::num_rows).sum();
        let is_right = match question {
            "top" => rows == self.settings.orders.min(10),
            _ => counted == self.settings.orders as i64,
        };
        if is_right { Ok(()) } else { Err(format!("{question}: {counted} in {rows} rows").into()) }
    }

    fn run(&self, mode: Mode, processors: f64, random: &mut Random) -> Outcome<Run> {
        let (is_over, before) = (AtomicBool::new(false), seconds(ClockId::ProcessCPUTime));
        let begun = Instant::now();
        let (threads, is_over) = (self.settings.threads, &is_over);
        thread::scope(|scope| {
            let asks = matches!(mode, Mode::View | Mode::Copy);
            let asking = asks.then(|| scope.spawn(|| self.ask(mode, is_over)));
            for _ in 0..if mode == Mode::Null { threads } else { 0 } {
                scope.spawn(move || burn(processors / threads as f64, is_over));
            }
            let (late_ms, own) = self.write(random);
            let burnt_s = seconds(ClockId::ProcessCPUTime) - before - own;
            let processors = burnt_s / begun.elapsed().as_secs_f64();
            let rss_mb = rss_mb();
            is_over.store(true, Ordering::Relaxed);
            let answers = match asking {
                Some(thread) => thread.join().map_err(|_| "the questions panicked")??,
                None => Vec::new(),
            };
            Ok(Run { late_ms, answers, burnt_s, processors, rss_mb })
        })
    }
}

/// Burns a share of a processor.
fn burn(share: f64, is_over: &AtomicBool) {
    lower_priority();
    let (begun, cpu) = (Instant::now(), seconds(ClockId::ThreadCPUTime));
    let mut sum = 0_u64;
    while !is_over.load(Ordering::Relaxed) {
        for number in 0..200_000_u64 {
            sum = std::hint::black_box(sum.wrapping_add(number));
        }
        let ahead = seconds(ClockId::ThreadCPUTime) - cpu - share * begun.elapsed().as_secs_f64();
        thread::sleep(Duration::from_secs_f64(ahead.max(0.0)));
    }
}

fn quantile(values: impl IntoIterator<Item = f64>, part: f64) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * part) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// The median with the lowest and the highest.
fn spread(values: impl IntoIterator<Item = f64>) -> String {
    let values: Vec<f64> = values.into_iter().collect();
    let [low, middle, high] = [0.0, 0.5, 1.0].map(|part| quantile(values.iter().copied(), part));
    format!("{middle:.2} [{low:.2} to {high:.2}]")
}

fn late(run: &Run, part: f64) -> f64 {
    quantile(run.late_ms.iter().copied(), part)
}

fn report_mode(text: &mut String, orders: usize, mode: Mode, runs: &[Run]) -> std::fmt::Result {
    let of = |figure: &dyn Fn(&Run) -> f64| spread(runs.iter().map(figure));
    let [middle, p99, longest] = [0.5, 0.99, 1.0].map(|part| of(&|run| late(run, part)));
    writeln!(text, "{mode:?}: tick, ms: median {middle}, p99 {p99}, longest {longest}")?;
    let over = of(&|run| run.late_ms.iter().filter(|&&late| late > 5.0).count() as f64);
    let (busy, rss) = (of(&|run| run.processors), of(&|run| run.rss_mb));
    writeln!(text, "  over 5 ms: {over}; processors beside: {busy}; RSS, MB: {rss}")?;
    if !matches!(mode, Mode::View | Mode::Copy) {
        return Ok(());
    }
    let age = |part| of(&|run| quantile(run.answers.iter().map(|it| it.age_ms), part));
    let rows = of(&|run| (orders * run.answers.len()) as f64 / run.burnt_s.max(1e-9) / 1e6);
    writeln!(text, "  age of an answer, ms: median {}, longest {}", age(0.5), age(1.0))?;
    writeln!(
        text,
        "  answers: {}; M rows a second a core: {rows}",
        of(&|it| it.answers.len() as f64)
    )?;
    for (question, _) in QUESTIONS {
        let answers = runs.iter().flat_map(|run| &run.answers);
        let took = answers.filter(|it| it.question == question).map(|it| it.took_ms);
        writeln!(text, "  {question}, ms: {}", spread(took))?;
    }
    Ok(())
}

fn report(orders: usize, all: &BTreeMap<Mode, Vec<Run>>) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    for (mode, runs) in all {
        report_mode(&mut text, orders, *mode, runs)?;
    }
    if let (Some(asked), Some(null)) = (all.get(&Mode::View), all.get(&Mode::Null)) {
        let ratio =
            |part| spread(asked.iter().zip(null).map(|(a, b)| late(a, part) / late(b, part)));
        let (p99, longest) = (ratio(0.99), ratio(1.0));
        writeln!(text, "View to Null, pair by pair: p99 {p99}, longest {longest}")?;
    }
    Ok(text)
}

fn settings() -> Outcome<Settings> {
    let threads = thread::available_parallelism()?.get();
    let mut settings =
        Settings { orders: 10_000_000, rate: 100_000, seconds: 20.0, rounds: 5, threads };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--orders" => settings.orders = value.parse()?,
            "--rate" => settings.rate = value.parse()?,
            "--seconds" => settings.seconds = value.parse()?,
            "--rounds" => settings.rounds = value.parse()?,
            "--threads" => settings.threads = value.parse()?,
            _ => return Err("htap: --orders --rate --seconds --rounds --threads".into()),
        }
    }
    Ok(settings)
}

fn main() -> Outcome<()> {
    let data = tempfile::tempdir()?;
    let bench = Bench::fill(settings()?, data.path())?;
    let mut random = Random::with_seed(11);
    let mut all: BTreeMap<Mode, Vec<Run>> = BTreeMap::new();
    let mut processors = bench.settings.threads as f64;
    for round in 0..bench.settings.rounds {
        let pair = if round % 2 == 0 { [Mode::View, Mode::Null] } else { [Mode::Null, Mode::View] };
        for mode in [Mode::Alone, pair[0], pair[1], Mode::Copy] {
            let run = bench.run(mode, processors, &mut random)?;
            if mode == Mode::View {
                processors = run.processors;
            }
            all.entry(mode).or_default().push(run);
        }
    }
    let Settings { orders, rate, seconds, rounds, threads } = &bench.settings;
    println!("{orders} orders, {rate} updates a second, {threads} threads, {rounds} x {seconds} s");
    print!("{}", report(*orders, &all)?);
    Ok(())
}
