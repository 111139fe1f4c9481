//! The real engine (its thread, its mailbox, its hand-over) under random and priority-driven
//! schedules, for each algorithm whose images live in this process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use shuttle::rand::{Rng as _, thread_rng};
use shuttle::{check_pct, check_random, thread};
use stillframe_shuttle::algorithms::{cou, imprint, page_table, piggyback, userfault, valkey};
use stillframe_shuttle::{Algorithm, CaptureError, CaptureReport, Engine, Image, Mutant, OnFull};
use stillframe_shuttle::{BLOCK_WORDS, Before, Options, Point, Publication, Sink, SinkError};
use stillframe_shuttle::{Unit, with_mutant};

const WORDS: usize = 3 * BLOCK_WORDS;
/// Written together, always: in one block, in two, in the first and last block.
const PAIRS: [(usize, usize); 3] = [(1, 2), (BLOCK_WORDS - 1, BLOCK_WORDS), (0, WORDS - 1)];
/// With room for half a block more.
const WORDS_MAX: usize = WORDS + BLOCK_WORDS / 2;
const AMPLE: usize = 1 << 13;

fn schedules(count: usize) -> usize {
    let long = std::env::var_os("STILLFRAME_LONG").is_some_and(|value| value == "1");
    if long { 20 * count } else { count }
}

/// shuttle prints the schedule that fails; `shuttle::replay` runs it again.
fn explore(model: fn()) {
    check_random(model, schedules(1500));
    check_pct(model, schedules(1500), 3);
}

/// Compares with the state at begin.
struct Expect {
    expected: Vec<u64>,
    found: Vec<u64>,
    /// The image before.
    settled: Settled,
}

type Settled = Arc<Mutex<Vec<u64>>>;

impl Sink for Expect {
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        assert_eq!(start, self.found.len(), "blocks come in order");
        assert_eq!(words, &self.expected[start..start + words.len()], "words from {start} on");
        self.found.extend_from_slice(words);
        thread::yield_now();
        Ok(())
    }

    fn before(&mut self, start: usize, into: &mut [u64]) -> Result<Before, SinkError> {
        let settled = self.settled.lock().expect("never poisoned");
        for (index, word) in (start..).zip(into) {
            *word = settled.get(index).copied().unwrap_or(0);
        }
        Ok(Before::Given)
    }
}

/// A unit that the algorithm knows, by the schedule.
fn any_unit<A: Algorithm>() -> Unit {
    A::INFO.units[thread_rng().gen_range(0..A::INFO.units.len())]
}

type Report = Result<CaptureReport, CaptureError>;
type Reports = Arc<Mutex<Vec<(Report, usize)>>>;

struct Rig<A: Algorithm> {
    engine: Engine<A>,
    oracle: Vec<u64>,
    value: u64,
    settled: Settled,
    reports: Reports,
}

impl<A: Algorithm> Rig<A> {
    fn new(budget: usize, on_full: OnFull) -> Self {
        let options = Options::words(WORDS).max_words(WORDS_MAX).unit(any_unit::<A>());
        let state = A::create(&options.budget(budget, on_full)).expect("memory");
        let engine = Engine::new(state).expect("a thread");
        let (settled, reports) = Default::default();
        Self { engine, oracle: vec![0; WORDS], value: 0, settled, reports }
    }

    fn write(&mut self, index: usize) {
        self.engine.write(index, self.value);
        self.oracle[index] = self.value;
        assert_eq!(self.engine.read(index), self.value, "read your latest write");
    }

    fn writes(&mut self, count: usize) {
        for _ in 0..count {
            self.value += 1;
            let (a, b) = PAIRS[thread_rng().gen_range(0..PAIRS.len())];
            self.write(a);
            self.write(b);
        }
    }

    fn snapshot(&mut self) {
        let settled = Arc::clone(&self.settled);
        let sink = Expect { expected: self.oracle.clone(), found: Vec::new(), settled };
        let reports = Arc::clone(&self.reports);
        let publish = move |sink: &mut Expect, report: Report| {
            let publication = Publication::from_result(&report);
            if publication == Publication::Durable {
                sink.settled.lock().expect("never poisoned").clone_from(&sink.expected);
            }
            reports.lock().expect("never poisoned").push((report, sink.found.len()));
            publication
        };
        self.engine.snapshot(Point::declare(), sink, publish).expect("no image is held");
    }

    fn reports(&self) -> Vec<(Report, usize)> {
        self.reports.lock().expect("never poisoned").clone()
    }
}

fn images_are_right<A: Algorithm>() {
    let mut rig = Rig::<A>::new(AMPLE, OnFull::Cancel);
    for image in 1..=3 {
        rig.writes(2);
        rig.snapshot();
        rig.writes(4);
        rig.engine.wait();
        assert!(!rig.engine.running());
        let reports = rig.reports();
        assert!(matches!(reports.last(), Some((Ok(_), WORDS))), "{reports:?}");
        assert_eq!(reports.len(), image);
    }
}

/// The writer polls instead of waiting, as a server's loop does.
fn polled_images_are_right<A: Algorithm>() {
    let mut rig = Rig::<A>::new(AMPLE, OnFull::Cancel);
    for _ in 0..2 {
        rig.snapshot();
        let mut captured = 0;
        while rig.engine.running() {
            rig.writes(1);
            let now = rig.engine.captured();
            assert!(captured <= now && now <= WORDS, "{captured}, then {now} captured");
            captured = now;
            rig.engine.tend();
            thread::yield_now();
        }
    }
    rig.engine.wait();
    assert!(rig.reports().iter().all(|(report, words)| report.is_ok() && *words == WORDS));
}

/// The state grows while an image is taken, which keeps its length.
fn growth_during_images<A: Algorithm>() {
    let mut rig = Rig::<A>::new(AMPLE, OnFull::Cancel);
    rig.writes(1);
    for words in [WORDS, WORDS_MAX] {
        rig.snapshot();
        rig.writes(1);
        rig.engine.grow(WORDS_MAX).expect("reserved");
        rig.oracle.resize(WORDS_MAX, 0);
        rig.value += 1;
        rig.write(WORDS_MAX - 1);
        rig.writes(1);
        rig.engine.wait();
        let reports = rig.reports();
        let last = reports.last().map(|(report, found)| (report.is_ok(), *found));
        assert_eq!(last, Some((true, words)), "{reports:?}");
        let read: Vec<u64> = (0..WORDS_MAX).map(|index| rig.engine.read(index)).collect();
        assert_eq!(read, rig.oracle, "read your latest write");
    }
}

/// Words of an image asked for at random while the writer goes on, then all of it.
fn words_at_random<A: Algorithm>() {
    let options = Options::words(WORDS).unit(any_unit::<A>()).budget(AMPLE, OnFull::Cancel);
    let mut state = A::create(&options).expect("memory");
    for value in 1..=2 {
        state.write(0, value);
        let expected: Vec<u64> = (0..WORDS).map(|index| state.read(index)).collect();
        let (found, settled) = (Vec::new(), Settled::default());
        settled.lock().expect("never poisoned").clone_from(&expected);
        let sink = Expect { expected: expected.clone(), found, settled };
        let mut image = state.begin(Point::declare(), sink).expect("no image is held");
        let reader = thread::spawn(move || {
            for _ in 0..4 {
                let index = thread_rng().gen_range(0..WORDS);
                let word = A::INFO.random_access.then_some(expected[index]);
                assert_eq!(image.get(index), word, "word {index}");
            }
            image.capture().expect("whole");
            image.settle();
        });
        for (a, b) in PAIRS {
            state.write(a, value + 10);
            state.write(b, value + 10);
        }
        while state.progress().running() {
            state.tend();
            thread::yield_now();
        }
        reader.join().expect("right");
    }
}

/// Another thread cancels at any moment.
fn cancelled_images_end<A: Algorithm>() {
    let mut rig = Rig::<A>::new(2 * 16, OnFull::Slow);
    for _ in 0..2 {
        rig.snapshot();
        let progress = rig.engine.progress();
        let cancel = thread::spawn(move || progress.cancel());
        rig.writes(4);
        rig.engine.wait();
        cancel.join().expect("cancelled");
        rig.writes(1);
    }
    for (report, words) in rig.reports() {
        match report {
            Ok(_) => assert_eq!(words, WORDS),
            Err(CaptureError::Cancelled) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// The budget is used up; a late cancel may come as well.
fn images_over_budget_end<A: Algorithm>() {
    let mut rig = Rig::<A>::new(2 * 16, OnFull::Cancel);
    rig.snapshot();
    let progress = rig.engine.progress();
    let cancel = thread::spawn(move || progress.cancel());
    rig.engine.wait();
    rig.snapshot();
    rig.writes(6);
    rig.engine.wait();
    cancel.join().expect("cancelled");
    for (report, words) in rig.reports() {
        match report {
            Ok(_) => assert_eq!(words, WORDS),
            Err(CaptureError::Cancelled | CaptureError::OverBudget) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Dropped half-way, the engine waits until its image was published as cancelled, or whole.
fn drop_half_way<A: Algorithm>() {
    let mut rig = Rig::<A>::new(AMPLE, OnFull::Cancel);
    rig.snapshot();
    rig.writes(2);
    let reports = Arc::clone(&rig.reports);
    drop(rig);
    let reports = reports.lock().expect("never poisoned");
    match reports[..] {
        [(Ok(_), words)] => assert_eq!(words, WORDS),
        [(Err(CaptureError::Cancelled), _)] => {}
        ref other => panic!("{other:?}"),
    }
}

fn expect(oracle: &[u64]) -> Expect {
    Expect { expected: oracle.to_vec(), found: Vec::new(), settled: Settled::default() }
}

/// Writes pairs, and frames too: a block whose words all change.
fn change(state: &mut imprint::Imprint, oracle: &mut [u64], value: u64) {
    let mut write = |index| {
        state.write(index, value);
        oracle[index] = value;
    };
    let (a, b) = PAIRS[thread_rng().gen_range(0..PAIRS.len())];
    write(a);
    write(b);
    if thread_rng().gen_range(0..4) == 0 {
        let block = thread_rng().gen_range(0..WORDS / BLOCK_WORDS);
        (block * BLOCK_WORDS..(block + 1) * BLOCK_WORDS).for_each(write);
    }
}

/// A held image is read at random while later ones begin and end, so that their volumes are merged
/// into that of its begin.
fn merging_beside_readers() {
    let options = Options::words(WORDS).images(4).budget(AMPLE, OnFull::Cancel);
    let mut state = imprint::Imprint::create(&options).expect("memory");
    let mut oracle = vec![0; WORDS];
    change(&mut state, &mut oracle, 1);
    let mut held = state.begin(Point::declare(), expect(&oracle)).expect("room");
    let expected = oracle.clone();
    let reader = thread::spawn(move || {
        for _ in 0..6 {
            let (a, b) = PAIRS[thread_rng().gen_range(0..PAIRS.len())];
            for index in [a, b, thread_rng().gen_range(0..WORDS)] {
                assert_eq!(held.get(index), Some(expected[index]), "word {index}");
            }
        }
        held.capture().expect("whole");
        held.settle();
    });
    let mut others = Vec::new();
    for value in 2..5 {
        change(&mut state, &mut oracle, 2 * value);
        let mut later = state.begin(Point::declare(), expect(&oracle)).expect("room");
        others.push(thread::spawn(move || {
            later.capture().expect("whole");
            later.settle();
        }));
        change(&mut state, &mut oracle, 2 * value + 1);
    }
    for thread in others.into_iter().chain([reader]) {
        thread.join().expect("right");
    }
}

#[test]
fn held_images_stay_right_while_volumes_are_merged() {
    explore(merging_beside_readers);
}

macro_rules! suite {
    ($($module:ident::$algorithm:ident { $($facts:tt)* })*) => {
        $(#[allow(non_snake_case, reason = "named as the type")]
        mod $algorithm {
            use stillframe_shuttle::algorithms::$module::$algorithm as Subject;
            suite!(@properties images_are_right polled_images_are_right cancelled_images_end
                images_over_budget_end drop_half_way growth_during_images words_at_random);
        })*
    };
    (@properties $($property:ident)*) => {
        $(#[test]
        fn $property() {
            use stillframe_shuttle::Algorithm;
            // A forked child is another process, which no scheduler of threads drives.
            // Nor does one answer page faults.
            if Subject::INFO.in_process && Subject::available().is_ok() {
                super::explore(super::$property::<Subject>);
            }
        })*
    };
}

stillframe_shuttle::for_each_algorithm!(suite);

/// The schedules suffice to find mistakes that sequential consistency shows. The first that fails
/// ends the search; the rarest mistake, a frame after the store, is met once in thousands.
#[test]
fn broken_builds_are_rejected() {
    for (mutant, model) in [
        (Mutant::ImprintNeverLogs, images_are_right::<imprint::Imprint> as fn()),
        (Mutant::ImprintStoresBeforeLog, images_are_right::<imprint::Imprint>),
        (Mutant::ImprintReadsEndFirst, images_are_right::<imprint::Imprint>),
        (Mutant::ImprintPublishesCursorEarly, polled_images_are_right::<imprint::Imprint>),
        (Mutant::ImprintFrameAfterStore, images_are_right::<imprint::Imprint>),
        (Mutant::CouSkipsLatch, images_are_right::<cou::Cou>),
        (Mutant::CouSkipsLatch, images_are_right::<cou::Bacou>),
        (Mutant::ValkeyForgetsClone, polled_images_are_right::<valkey::Valkey>),
        (Mutant::HandoverChecksStopFirst, images_over_budget_end::<imprint::Imprint>),
        (Mutant::PiggybackFlagThenCopy, images_are_right::<piggyback::Piggyback>),
        (Mutant::PiggybackCopyThenFlag, images_are_right::<piggyback::Piggyback>),
        (Mutant::AsyncForkDoesNotWait, images_are_right::<page_table::AsyncFork>),
        (Mutant::AsyncForkMarksLate, images_are_right::<page_table::AsyncFork>),
        (Mutant::ImprintMergesNoFrames, merging_beside_readers),
        (Mutant::ImprintLeadsPastUnmerged, merging_beside_readers),
        (Mutant::UserFaultIgnoresShadow, images_are_right::<userfault::UserFault>),
    ] {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            check_random(move || with_mutant(mutant, model), schedules(100_000));
        }));
        assert!(outcome.is_err(), "{mutant:?} is accepted");
    }
}
