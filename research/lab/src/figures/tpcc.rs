//! TPC-C with a log and checkpoints: Cao et al. 2011, figures 12 and 13.
//!
//! - One thread runs the standard mix without think time. Transactions are committed in batches of
//!   500: while the log writes one batch, the next one runs, and waits for the log when it is
//!   through. Checkpoints begin at the same times whichever algorithm takes them, about as often as
//!   the disk allows the slowest: their costs would not compare otherwise (section 5.5).
//! - With images the log has requests, which recovery runs again on the newest checkpoint. ARIES
//!   logs what was written.
//! - Each run ends with a recovery: the newest image must keep the consistency conditions of TPC-C,
//!   and the state that is found must be, word by word, the one that was left, and keep them too.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use stillframe::Algorithm;
use stillframe::algorithms::{ALL, Visitor};
use stillframe_durability::{Act, ActStore, Error, LogOptions, Options, Policy, Store};
use stillframe_measure::draw::Rng;

use super::child;
use super::data::Data;
use super::deciding::Extent;
use super::judge::Judgement;
use super::plan::{self, Size};
use super::{Claim, Direct, Figure, without_unit};
use crate::aries::Aries;
use crate::case::check::{dispatch, stated_copies};
use crate::case::record::quantile;
use crate::case::{FLOOR, is_floor};
use crate::machine::memory::available_bytes;
use crate::report::{Kind, Panel, Point, Series};
use crate::served::Scratch;
use crate::tpcc::{Layout, Names, Outcome, Plan, Read, Request, Scale, Words, check, fill};
use crate::trial::digest::digests_of;

/// Transactions that are committed together.
const BATCH: usize = 500;
/// Orders a second that there is room for, in all districts together. A run that is quicker ends
/// when a district is full.
const ORDERS_PER_S: f64 = 150e3;
/// The state at the most warehouses of the large scale.
const LARGE_BYTES: usize = 4_000_000_000;
/// Points of a line over time.
const POINTS: usize = 150;

const ARIES: &str = "aries";
const NAMES: [&str; 6] = [FLOOR, "ipp-copy", "ipp-merge", "naive", "imprint", ARIES];

const SALES: &str = "new orders a second [thousand]";
const LOSS: &str = "less than without checkpoints [%]";
const CHECKPOINTS: &str = "checkpoints a second";
const RAN: &str = "length of the run [s]";
const LOGGED: &str = "log of a transaction [bytes]";
const RECOVERY: &str = "recovery [s]";
const RESPONSES: &str = "response time of a batch [ms]";
const WORST: &str = "slowest batch [ms]";

/// What a process of its own is asked for.
pub(super) const PART: &str = "shop";

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        name: "cao-12",
        source: "Cao et al. 2011, figure 12",
        title: "TPC-C: new orders a second by warehouses",
        workload: "The standard mix as stored procedures on one thread, a log with group commit of \
                   500, checkpoints at the same times for all; 'none' has the log alone. A run \
                   ends when its time is over or a district has no room for another order; then \
                   the state is recovered. The newest image and what came back kept conditions 1 \
                   to 4 of the specification, and the latter was the state that was left, or the \
                   figure failed.",
        swept: "warehouses",
        direct: Some(Direct {
            seconds: |size| warehouses(size).into_iter().map(|it| estimate_s(size, it)).sum(),
            extent: |size| shops(warehouses(size).into_iter().max().unwrap_or_default()),
            measure: |size| by_warehouses(size, |shop| child::measure(PART, shop)),
        }),
        claims: &[
            Claim {
                id: "ipp-below-ns",
                text: "IPP loses less throughput than NS (10 and 28 % there, at 60 warehouses)",
                judge: |data| above(data, SALES, &["ipp-copy", "ipp-merge"], "naive"),
            },
            Claim {
                id: "ns-below-aries",
                text: "NS loses less than ARIES (28 and 34 % there)",
                judge: |data| above(data, SALES, &["naive"], ARIES),
            },
            Claim {
                id: "imprint",
                text: "Imprint loses no more than IPP-Copy (not in the paper)",
                judge: |data| above(data, SALES, &["imprint"], "ipp-copy"),
            },
        ],
        ..Figure::BLANK
    },
    Figure {
        name: "cao-13",
        source: "Cao et al. 2011, figure 13",
        title: "TPC-C: response time of each batch",
        workload: "As cao-12, at the most warehouses at which all find memory. From the start of \
                   a batch of 500 transactions to that of the next.",
        swept: "time [s]",
        direct: Some(Direct {
            seconds: |size| estimate_s(size, most_for_all(size)),
            extent: |size| shops(most_for_all(size)),
            measure: |size| over_time(size, |shop| child::measure(PART, shop)),
        }),
        claims: &[
            Claim {
                id: "ns-above-ipp",
                text: "the largest peaks of NS, which copies at begin, are above those of IPP",
                judge: |data| above(data, WORST, &["naive"], "ipp-copy"),
            },
            Claim {
                id: "aries-above-ipp",
                text: "those of ARIES are larger than those of IPP, since it logs more",
                judge: |data| above(data, WORST, &[ARIES], "ipp-copy"),
            },
            Claim {
                id: "imprint",
                text: "those of Imprint are at most those of IPP-Copy (not in the paper)",
                judge: |data| above(data, WORST, &["ipp-copy"], "imprint"),
            },
        ],
        ..Figure::BLANK
    },
];

/// Those of the paper at the full scale; at the large one as many as the state has room for.
fn warehouses(size: Size) -> Vec<usize> {
    let large = || {
        let fits = |warehouses: &usize| bytes(&shop(size, FLOOR, *warehouses)) <= LARGE_BYTES;
        vec![1, 2, 10, (10..).take_while(fits).last().unwrap_or(10)]
    };
    match size.scale {
        plan::Scale::Quick => vec![1, 2],
        plan::Scale::Large => large(),
        plan::Scale::Full => vec![20, 40, 60],
    }
}

/// The most warehouses at which no algorithm is left out.
fn most_for_all(size: Size) -> usize {
    let have_room = |at: &usize| NAMES.iter().all(|name| has_room(&shop(size, name, *at)));
    warehouses(size).into_iter().filter(have_room).max().unwrap_or(1)
}

/// Bytes of the state, room for orders included.
fn bytes(shop: &Shop) -> usize {
    layout(shop).map_or(usize::MAX, |layout| layout.words().saturating_mul(8))
}

/// Whether there is memory for the copies that an algorithm keeps.
fn has_room(shop: &Shop) -> bool {
    let info = ALL.iter().find(|info| info.name == shop.algorithm);
    let copies = info.map_or(1.0, |info| stated_copies(info.memory, 8.0));
    bytes(shop) as f64 * copies * 1.05 < available_bytes() as f64 * 0.9
}

/// Seconds from one checkpoint to the next: the tables of a warehouse have some 100 MB. What is
/// ordered meanwhile grows with the time alone and soon is most of the state.
fn interval_s(size: Size, warehouses: usize) -> f64 {
    let most_s = size.pick(2.4, 5.0, 20.0);
    let interval_s: f64 = size.pick(1.2, 2.0, 2.0) * warehouses as f64;
    interval_s.min(most_s) / (size.shrink as f64).min(50.0)
}

/// Checkpoints that begin in a run, which ends in the middle of the last one.
const CHECKPOINTS_BEGUN: f64 = 2.5;

/// Seconds of all runs with so many warehouses: each is filled, and recovered.
fn estimate_s(size: Size, warehouses: usize) -> f64 {
    let run_s = interval_s(size, warehouses) * CHECKPOINTS_BEGUN;
    NAMES.len() as f64 * (run_s * 1.5 + 2.0 * warehouses as f64 + 1.0)
}

/// The extent of a run with that number of warehouses.
fn shops(warehouses: usize) -> Extent {
    Extent { amount: warehouses as f64, unit: "warehouses" }
}

/// Whether the values of some are at least that of another one, at the most warehouses that all of
/// them ran with: fewer are a state of another order than the paper's.
fn above(data: &Data<'_>, metric: &str, names: &[&str], to: &str) -> Judgement {
    let panels = data.direct();
    let Some(panel) = panels.iter().find(|panel| panel.y == metric) else {
        return Judgement::untested("it was not measured");
    };
    let points = |name: &str| {
        let series = panel.series.iter().find(|series| series.name == name);
        series.map(|series| series.points.as_slice()).unwrap_or_default()
    };
    let at = |name: &str, x: f64| points(name).iter().find(|point| point.x == x);
    let common = points(to).iter().map(|point| point.x);
    let common = common.filter(|&x| names.iter().all(|name| at(name, x).is_some()));
    let last = common.max_by(f64::total_cmp);
    let ratios = last.into_iter().flat_map(|x| {
        names.iter().filter_map(move |name| {
            Some((at(name, x)?.y / at(to, x)?.y, format!("{name} / {to} at {x}")))
        })
    });
    Judgement::from_ratio(ratios.min_by(|a, b| a.0.total_cmp(&b.0)), |ratio| ratio >= 1.0)
}

/// What one run gave.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Sold {
    orders_per_s: f64,
    /// Less than was meant if a district was full.
    ran_s: f64,
    checkpoints_per_s: f64,
    logged: f64,
    recovery_s: f64,
    /// Of each batch: when it began, and how long it took, in seconds.
    batches: Vec<(f64, f64)>,
}

fn shop(size: Size, algorithm: &str, warehouses: usize) -> Shop {
    let is_tiny = size.shrink > 1;
    let interval_s = interval_s(size, warehouses);
    let seconds = interval_s * CHECKPOINTS_BEGUN;
    Shop { algorithm: algorithm.to_owned(), warehouses, seconds, interval_s, is_tiny }
}

fn by_warehouses(size: Size, run: impl Fn(&Shop) -> Result<Sold>) -> Result<Vec<Panel>> {
    let mut runs = Vec::new();
    for warehouses in warehouses(size) {
        for name in NAMES {
            let shop = shop(size, name, warehouses);
            if !has_room(&shop) {
                continue;
            }
            runs.push((name, warehouses, run(&shop).context(name)?));
        }
    }
    let sales = |warehouses: usize| {
        let found = runs.iter().find(|(name, at, _)| is_floor(name) && *at == warehouses);
        found.map_or(f64::NAN, |(_, _, sold)| sold.orders_per_s)
    };
    let panel = |metric: &str, of: &dyn Fn(usize, &Sold) -> f64| {
        let of_one = |(index, name): (usize, &'static str)| {
            let runs = runs.iter().filter(|run| run.0 == name);
            let points = runs.map(|(_, at, sold)| Point::single(*at as f64, of(*at, sold)));
            Series::numbered(index, name, points.collect())
        };
        let series = NAMES.into_iter().enumerate().map(of_one).collect();
        Panel::new(without_unit(metric), Kind::Lines, "warehouses", metric, series)
    };
    Ok(vec![
        panel(SALES, &|_, sold| sold.orders_per_s / 1e3),
        panel(LOSS, &|at, sold| (1.0 - sold.orders_per_s / sales(at)) * 100.0),
        panel(RAN, &|_, sold| sold.ran_s),
        panel(CHECKPOINTS, &|_, sold| sold.checkpoints_per_s),
        panel(LOGGED, &|_, sold| sold.logged),
        panel(RECOVERY, &|_, sold| sold.recovery_s),
    ])
}

fn over_time(size: Size, run: impl Fn(&Shop) -> Result<Sold>) -> Result<Vec<Panel>> {
    let warehouses = most_for_all(size);
    let (mut lines, mut worst, mut middle) = (Vec::new(), Vec::new(), Vec::new());
    for (index, name) in NAMES.into_iter().enumerate() {
        let shop = shop(size, name, warehouses);
        let sold = run(&shop).context(name)?;
        let mut all: Vec<f64> = sold.batches.iter().map(|batch| batch.1 * 1e3).collect();
        lines.push(Series::numbered(index, name, over_the_run(&shop, &sold.batches)));
        all.sort_by(f64::total_cmp);
        let at = |part: f64| vec![Point::single(warehouses as f64, quantile(&all, part))];
        worst.push(Series::numbered(index, name, at(1.0)));
        middle.push(Series::numbered(index, name, at(0.5)));
    }
    Ok(vec![
        Panel::new("response time", Kind::Strips, "time [s]", RESPONSES, lines),
        Panel::new("slowest batch", Kind::Rows, "", WORST, worst),
        Panel::new("median batch", Kind::Rows, "", "median batch [ms]", middle),
    ])
}

/// At each of some moments the slowest batch that was under way, in milliseconds.
fn over_the_run(shop: &Shop, batches: &[(f64, f64)]) -> Vec<Point> {
    let width = shop.seconds / POINTS as f64;
    let mut slowest = [0.0_f64; POINTS];
    for &(begun, took) in batches {
        let at = |seconds: f64| ((seconds / width) as usize).min(POINTS - 1);
        let under_way = &mut slowest[at(begun)..=at(begun + took)];
        under_way.iter_mut().for_each(|it| *it = it.max(took * 1e3));
    }
    let point = |(at, &slowest): (usize, &f64)| Point::single(at as f64 * width, slowest);
    slowest.iter().enumerate().map(point).collect()
}

/// A shop that runs TPC-C.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Shop {
    algorithm: String,
    warehouses: usize,
    /// Of the part that is timed.
    seconds: f64,
    /// From one checkpoint to the next, at least.
    interval_s: f64,
    /// A hundredth of the tables.
    is_tiny: bool,
}

/// One run, in this process.
pub(super) fn run(shop: &Shop) -> Result<Sold> {
    let scratch = Scratch::new(&format!("shop-{}", shop.algorithm))?;
    match &*shop.algorithm {
        ARIES => sell::<Redo>(shop, scratch.path()),
        // Without checkpoints it does not matter whose they would be.
        name if is_floor(name) => {
            sell::<Logged<stillframe::algorithms::naive::Naive>>(shop, scratch.path())
        }
        name => dispatch(name, Selling { shop, place: scratch.path() }),
    }
}

struct Selling<'a> {
    shop: &'a Shop,
    place: &'a Path,
}

impl Visitor for Selling<'_> {
    type Output = Result<Sold>;

    fn visit<A: Algorithm>(self) -> Self::Output {
        sell::<Logged<A>>(self.shop, self.place)
    }
}

/// A durable state that runs transactions.
trait Till: Read + Sized {
    /// A new one, full of wares, of which there is a checkpoint.
    fn create(place: &Path, layout: &Layout) -> Result<Self>;
    fn open(place: &Path, layout: &Layout) -> Result<Self>;
    /// Runs a transaction, which will be durable, and gives its number in the log.
    fn serve(
        &mut self,
        layout: &Layout,
        names: &Names,
        request: &Request,
    ) -> Result<(Outcome, u64)>;
    fn wait_durable(&self, number: u64) -> Result<()>;
    /// Begins a checkpoint, unless one is under way.
    fn checkpoint(&mut self) -> Result<()>;
    fn checkpoints(&self) -> u64;
    /// Bytes of the log since it was opened.
    fn logged(&self) -> u64;
    /// How long the newest image was looked at when it was opened.
    fn looked(&self) -> Duration {
        Duration::ZERO
    }
}

/// A state with images, and a log of requests.
struct Logged<A: Algorithm> {
    store: ActStore<A>,
    bytes: Vec<u8>,
    logged: u64,
    looked: Duration,
}

/// A store that has no log yet, as words.
struct Filling<A: Algorithm>(Store<A>);

impl<A: Algorithm> Read for Filling<A> {
    fn read(&self, word: usize) -> u64 {
        self.0.read(word)
    }
}

impl<A: Algorithm> Words for Filling<A> {
    fn write(&mut self, word: usize, value: u64) {
        self.0.write(word, value);
    }
}

/// A request that is served, or served again, as words.
struct Serving<'a, 's, A: Algorithm>(&'a mut Act<'s, A>);

impl<A: Algorithm> Read for Serving<'_, '_, A> {
    fn read(&self, word: usize) -> u64 {
        self.0.read(word)
    }
}

impl<A: Algorithm> Words for Serving<'_, '_, A> {
    fn write(&mut self, word: usize, value: u64) {
        self.0.write(word, value);
    }
}

impl<A: Algorithm> Read for Logged<A> {
    fn read(&self, word: usize) -> u64 {
        self.store.read(word)
    }
}

fn log_options() -> LogOptions {
    LogOptions::policy(Policy::Always).batch(BATCH, Duration::from_millis(5))
}

impl<A: Algorithm> Till for Logged<A> {
    fn create(place: &Path, layout: &Layout) -> Result<Self> {
        let store = Store::<A>::open_with(place, Options::words(layout.words()))?;
        let mut filling = Filling(store);
        fill(layout, &mut filling, 1);
        filling.0.checkpoint_and_wait()?;
        filling.0.close().map_err(Error::from)?;
        Self::open(place, layout)
    }

    fn open(place: &Path, layout: &Layout) -> Result<Self> {
        let options = Options::words(layout.words()).log(log_options());
        let mut names = None;
        let mut looked = Duration::ZERO;
        let store = ActStore::open_records_with(place, options, |act, action| {
            if names.is_none() {
                // Before the first action the state is the newest image.
                let looking = Instant::now();
                check(layout, &Serving(act)).map_err(|broken| format!("an image: {broken}"))?;
                looked = looking.elapsed();
            }
            let names = names.get_or_insert_with(|| Names::read(layout, &Serving(act)));
            let request = Request::decode(layout, action.bytes)?;
            crate::tpcc::run(layout, names, &mut Serving(act), &request);
            Ok(())
        });
        Ok(Self { store: store?, bytes: Vec::new(), logged: 0, looked })
    }

    fn serve(
        &mut self,
        layout: &Layout,
        names: &Names,
        request: &Request,
    ) -> Result<(Outcome, u64)> {
        self.bytes.clear();
        request.encode(&mut self.bytes);
        self.logged += self.bytes.len() as u64;
        let mut act = self.store.log(&self.bytes)?;
        let outcome = crate::tpcc::run(layout, names, &mut Serving(&mut act), request);
        act.commit()?;
        Ok((outcome, self.store.logged()))
    }

    fn wait_durable(&self, number: u64) -> Result<()> {
        Ok(self.store.wait_durable(number)?)
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.store.checkpoint();
        Ok(())
    }

    fn checkpoints(&self) -> u64 {
        self.store.stats().checkpoints
    }

    fn logged(&self) -> u64 {
        self.logged
    }

    fn looked(&self) -> Duration {
        self.looked
    }
}

/// A state with a log of what was written.
struct Redo {
    state: Aries,
    logged: u64,
}

impl Read for Redo {
    fn read(&self, word: usize) -> u64 {
        self.state.read(word)
    }
}

impl Words for Redo {
    fn write(&mut self, word: usize, value: u64) {
        self.state.write(word, value);
    }
}

impl Till for Redo {
    fn create(place: &Path, layout: &Layout) -> Result<Self> {
        let mut till = Self::open(place, layout)?;
        fill(layout, &mut till, 1);
        till.state.commit()?;
        till.state.checkpoint()?;
        till.state.wait_checkpoint()?;
        Ok(till)
    }

    fn open(place: &Path, layout: &Layout) -> Result<Self> {
        let options = crate::aries::Options::words(layout.words()).log(log_options());
        let (state, _) = Aries::open(place, options)?;
        Ok(Self { state, logged: 0 })
    }

    fn serve(
        &mut self,
        layout: &Layout,
        names: &Names,
        request: &Request,
    ) -> Result<(Outcome, u64)> {
        let outcome = crate::tpcc::run(layout, names, self, request);
        self.logged += self.state.written_bytes() as u64;
        let number = self.state.commit()?;
        Ok((outcome, number))
    }

    fn wait_durable(&self, number: u64) -> Result<()> {
        Ok(self.state.wait_durable(number)?)
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.state.checkpoint()?;
        Ok(())
    }

    fn checkpoints(&self) -> u64 {
        self.state.checkpoints()
    }

    fn logged(&self) -> u64 {
        self.logged
    }
}

/// Tables with room for the orders of the run.
fn layout(shop: &Shop) -> Result<Layout> {
    let scale = match shop.is_tiny {
        true => Scale::tiny(shop.warehouses),
        false => Scale::full(shop.warehouses),
    };
    let room = ORDERS_PER_S * shop.seconds / (scale.warehouses * scale.districts) as f64;
    let orders_room = scale.customers + room as usize + 100;
    Ok(Layout::new(Scale { orders_room, ..scale })?)
}

fn sell<T: Till>(shop: &Shop, place: &Path) -> Result<Sold> {
    let layout = layout(shop)?;
    let mut till = T::create(place, &layout)?;
    let names = Names::read(&layout, &till);
    let (plan, mut random, mut now) = (Plan::new(7), Rng(7), 1);
    let (before, logged) = (till.checkpoints(), till.logged());
    let (mut orders, mut transactions, mut last) = (0_u64, 0_u64, 0);
    let mut batches = Vec::new();
    let mut requests = Vec::with_capacity(BATCH);
    let mut checkpoints = 0_u32;
    let (started, mut spent, mut is_full) = (Instant::now(), Duration::ZERO, false);
    while !is_full && started.elapsed().as_secs_f64() < shop.seconds {
        // The trace lies in memory: drawing it is not timed.
        let drawing = Instant::now();
        requests.clear();
        for _ in 0..BATCH {
            now += 1;
            requests.push(plan.draw(&layout, &mut random, now));
        }
        spent += drawing.elapsed();
        let (begun, before) = (Instant::now(), last);
        let due_s = f64::from(checkpoints) * shop.interval_s;
        if !is_floor(&shop.algorithm) && started.elapsed().as_secs_f64() >= due_s {
            till.checkpoint()?;
            checkpoints += 1;
        }
        for request in &requests {
            let (outcome, number) = till.serve(&layout, &names, request)?;
            match outcome {
                Outcome::Ordered { .. } => orders += 1,
                Outcome::Full => is_full = true,
                _ => {}
            }
            last = number;
        }
        transactions += BATCH as u64;
        till.wait_durable(before)?;
        batches.push(((begun - started).as_secs_f64(), begun.elapsed().as_secs_f64()));
    }
    let elapsed_s = (started.elapsed() - spent).as_secs_f64();
    till.wait_durable(last)?;
    let (taken, logged) = (till.checkpoints() - before, till.logged() - logged);
    let left = digests_of(layout.words(), |word| till.read(word));
    check(&layout, &till)?;
    drop(till); // as a crash would leave it, but for what the disk has not

    let opening = Instant::now();
    let till = T::open(place, &layout)?;
    let recovery_s = opening.elapsed().saturating_sub(till.looked()).as_secs_f64();
    if digests_of(layout.words(), |word| till.read(word)) != left {
        bail!("the state that was recovered is not the one that was left");
    }
    check(&layout, &till).context("after recovery")?;
    Ok(Sold {
        orders_per_s: orders as f64 / elapsed_s,
        ran_s: elapsed_s,
        checkpoints_per_s: taken as f64 / elapsed_s,
        logged: logged as f64 / transactions as f64,
        recovery_s,
        batches,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Size = Size { shrink: 1000, ..Size::QUICK };

    /// More than two warehouses, and the most that four gigabytes take.
    #[test]
    fn the_large_scale_has_as_many_warehouses_as_its_memory_takes() {
        let large = Size { scale: plan::Scale::Large, shrink: 1 };
        let all = warehouses(large);
        assert_eq!(all[..3], [1, 2, 10]);
        assert!(bytes(&shop(large, FLOOR, all[3])) <= LARGE_BYTES);
        assert!(bytes(&shop(large, FLOOR, all[3] + 1)) > LARGE_BYTES);
    }

    #[test]
    fn every_way_to_checkpoint_sells_and_recovers() {
        let panels = by_warehouses(SMALL, super::run).expect("every state is recovered");
        assert_eq!(panels.len(), 6);
        for panel in &panels {
            assert_eq!(panel.series.len(), NAMES.len(), "{}", panel.title);
            assert!(panel.series.iter().all(|it| it.points.len() == warehouses(SMALL).len()));
        }
        let sales = &panels[0];
        assert!(sales.series.iter().flat_map(|it| &it.points).all(|point| point.y > 0.0));
        let panels = over_time(SMALL, super::run).expect("every state is recovered");
        assert!(panels[0].series.iter().all(|series| !series.points.is_empty()));
    }
}
