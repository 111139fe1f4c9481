//! What the models share: programs of writes and begins, and how loom is run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use stillframe_loom::{Algorithm, CaptureError, Image, Mutant, OnFull, Options, Point};
use stillframe_loom::{BLOCK_WORDS, Before, Sink, SinkError, with_mutant};

/// Two blocks of two words.
pub(crate) const WORDS: usize = 2 * BLOCK_WORDS;
/// Room for every record and frame of a program.
pub(crate) const AMPLE: usize = 1 << 9;

fn is_long() -> bool {
    std::env::var_os("STILLFRAME_LONG").is_some_and(|value| value == "1")
}

/// Explores a model: every interleaving and every value that a relaxed load may return, with at
/// most `preemptions` involuntary switches of threads.
pub(crate) fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions + usize::from(is_long()));
    builder.max_branches = 20_000;
    builder.check(model);
}

/// As `explore`, with a switch less in a short run: for models that take most of a program's time,
/// and by which no mistake has to be found.
pub(crate) fn explore_briefly(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    explore(if is_long() { preemptions } else { preemptions - 1 }, model);
}

/// Whether the models of a family find the mistake `mutant`: one of them must end with a `fault`
/// of its own, not with a panic of any other kind.
pub(crate) fn rejects(mutant: Mutant, models: &[(usize, &dyn Fn(Faults) -> Model)]) {
    let found = models.iter().any(|(preemptions, model)| {
        let faults = Faults::default();
        let run = model(faults.clone());
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            explore(*preemptions, move || with_mutant(mutant, &run));
        }));
        assert_eq!(outcome.is_err(), faults.found(), "{mutant:?}: failed for another reason");
        faults.found()
    });
    assert!(found, "{mutant:?} is accepted");
}

/// Whether the models of a family, each with at most so many switches, find each of these mistakes.
pub(crate) fn rejects_each<M: Fn(Faults) -> Model>(
    mutants: &[Mutant],
    preemptions: usize,
    models: &[M],
) {
    for &mutant in mutants {
        let models = models.iter().map(|model| (preemptions, model as &dyn Fn(Faults) -> Model));
        rejects(mutant, &models.collect::<Vec<_>>());
    }
}

pub(crate) type Model = Box<dyn Fn() + Send + Sync>;

/// Remembers that a model found what it looks for, before the panic that stops loom.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults(Arc<AtomicBool>);

impl Faults {
    pub(crate) fn check(&self, holds: bool, sentence: impl FnOnce() -> String) {
        if !holds {
            self.0.store(true, Ordering::SeqCst);
            panic!("{}", sentence());
        }
    }
    pub(crate) fn found(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// What the writer does next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    /// Begins an image when the thread of the one before is gone.
    Begin,
    /// Begins an image as soon as the hand-over says that the one before has ended: nothing else
    /// orders the two. Takes loom much longer.
    Next,
    /// Begins an image beside those that are held, which the writer captures at the end: each
    /// thread more takes loom much longer.
    Beside,
    /// Drops the newest image that was begun beside others.
    Drop,
    /// Grows the state to this many words.
    Grow(usize),
    /// Writes a new value into a word.
    Write(usize),
    /// Writes new values into two words, as a batch.
    Both(usize, usize),
    /// Writes a new value into half a word.
    Half(usize),
    /// Does a slice of what the algorithm needs of the writer's thread.
    Tend,
    /// Lets the snapshotter go first. loom 0.7 remembers one access of an atomic: a lone read that
    /// comes before another thread's read and change of it is not tried after them, the reverse is.
    Yield,
    /// Reads a word, which must hold what was last written.
    Read(usize),
}

/// Collects an image; knows the one before. Its lock is none of loom's: it orders nothing.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) words: Vec<u64>,
    settled: Arc<Mutex<Vec<u64>>>,
}

impl Sink for Seen {
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        Sink::push(&mut self.words, start, words)
    }
    fn before(&mut self, start: usize, into: &mut [u64]) -> Result<Before, SinkError> {
        let settled = self.settled.lock().expect("never poisoned");
        for (index, word) in (start..).zip(into) {
            *word = settled.get(index).copied().unwrap_or(0);
        }
        Ok(Before::Given)
    }
}

/// What the snapshotter does with an image before it captures it.
pub(crate) type Look<A> = fn(&<A as Algorithm>::Image<Seen>, &[u64], &Faults);

/// Runs a program: the writer here, each image on a thread of its own. Every image that is captured
/// must equal the oracle at its begin; only an image over its budget may not be.
pub(crate) fn run<A: Algorithm>(
    program: &[Op],
    budget: (usize, OnFull),
    look: Option<Look<A>>,
    faults: &Faults,
) {
    run_with::<A>(&Options::words(WORDS).budget(budget.0, budget.1), program, look, faults);
}

/// The same with any options.
pub(crate) fn run_with<A: Algorithm>(
    options: &Options,
    program: &[Op],
    look: Option<Look<A>>,
    faults: &Faults,
) {
    let mut state = A::create(options).expect("loom has memory");
    let mut oracle = vec![0; options.words];
    let (mut value, settled) = (0, Arc::default());
    let (mut snapshotters, mut kept) = (Vec::new(), Vec::new());
    for &op in program {
        match op {
            Op::Write(index) => {
                value += 1;
                state.write(index, value);
                oracle[index] = value;
            }
            Op::Both(one, other) => {
                let writes = [(one, value + 1), (other, value + 2)];
                value += 2;
                state.write_many(&writes);
                writes.iter().for_each(|&(index, value)| oracle[index] = value);
            }
            Op::Half(half) => {
                value += 1;
                state.write_u32(half, value as u32);
                let shift = 32 * (half % 2);
                let word = &mut oracle[half / 2];
                *word = *word & !(u64::from(u32::MAX) << shift) | value << shift;
            }
            Op::Grow(words) => {
                state.grow(words).expect("loom has memory");
                oracle.resize(words, 0);
            }
            Op::Tend => _ = state.tend(),
            Op::Yield => loom::thread::yield_now(),
            Op::Read(index) => {
                let found = state.read(index);
                if found != oracle[index] {
                    // loom cannot unwind a thread that holds an image.
                    join_all(&mut snapshotters);
                }
                check_read(found, index, &oracle, faults);
            }
            Op::Begin | Op::Next | Op::Beside => {
                if matches!(op, Op::Begin) {
                    join_all_tending(&mut state, &mut snapshotters);
                }
                if !matches!(op, Op::Beside) {
                    tend_until_idle(&mut state);
                }
                let sink = Seen { words: Vec::new(), settled: Arc::clone(&settled) };
                let begun = state.begin(Point::declare(), sink);
                let image = begun.expect("the image before has ended");
                let (expected, faults) = (oracle.clone(), faults.clone());
                let taken = move |is_taken: bool| {
                    is_taken.then(|| take(image, look, &expected, &faults));
                };
                match op {
                    Op::Beside => kept.push(taken),
                    _ => snapshotters.push(loom::thread::spawn(move || taken(true))),
                }
            }
            Op::Drop => kept.pop().into_iter().for_each(|taken| taken(false)),
        }
    }
    join_all_tending(&mut state, &mut snapshotters);
    kept.into_iter().for_each(|taken| taken(true));
    (0..oracle.len()).for_each(|index| check_read(state.read(index), index, &oracle, faults));
}

/// Captures an image and compares it with what was expected.
fn take<I: Image<Sink = Seen>>(
    mut image: I,
    look: Option<fn(&I, &[u64], &Faults)>,
    expected: &[u64],
    faults: &Faults,
) {
    if let Some(look) = look {
        look(&image, expected, faults);
    }
    let outcome = image.capture();
    if outcome.is_ok() {
        let settled = Arc::clone(&image.sink_mut().settled);
        *settled.lock().expect("never poisoned") = expected.to_vec();
        image.settle();
    }
    let found = image.into_sink().words;
    let given_up = matches!(outcome, Err(CaptureError::OverBudget));
    let right = if given_up { expected.starts_with(&found) } else { found == expected };
    faults.check(right && (given_up || outcome.is_ok()), || {
        format!("the image is {found:?} ({outcome:?}), at begin {expected:?}")
    });
}

type Snapshotters = Vec<loom::thread::JoinHandle<()>>;

fn join_all(snapshotters: &mut Snapshotters) {
    snapshotters.drain(..).for_each(|thread| _ = thread.join());
}

/// Does what the images need of the writer's thread until they have ended.
fn join_all_tending<A: Algorithm>(state: &mut A, snapshotters: &mut Snapshotters) {
    if A::INFO.tended {
        tend_until_idle(state);
    }
    join_all(snapshotters);
}

/// Read your latest write.
fn check_read(found: u64, index: usize, oracle: &[u64], faults: &Faults) {
    faults.check(found == oracle[index], || {
        format!("word {index} reads {found}, the state is {oracle:?}")
    });
}

/// Waits until no image is held, doing what one needs of the writer's thread.
fn tend_until_idle<A: Algorithm>(state: &mut A) {
    while state.progress().running() {
        if !state.tend() {
            loom::thread::yield_now();
        }
    }
}
