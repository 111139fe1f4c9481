//! Panics of the caller's code, of each algorithm: of a transaction's closure and of the functions
//! that it gives, of the journal, and of a sink at each of its calls. What panicked has not
//! happened, and the images after it are right.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use stillframe_transactions::algorithms::{ALL, Visitor, with};
use stillframe_transactions::{
    Completeness, Concurrent, Engine, Journal, Mutant, Records, Settings, Stop, Writes, with_mutant,
};

const RECORDS: usize = 5;

/// Panics at one of its calls, past the hook, which would print it.
#[derive(Default)]
struct Fuse(AtomicUsize);

impl Fuse {
    fn set(&self, calls: usize) {
        self.0.store(calls, Ordering::Relaxed);
    }
    fn call(&self) {
        if self.0.fetch_sub(1, Ordering::Relaxed) == 1 {
            resume_unwind(Box::new("on purpose"));
        }
    }
    /// Whether it has not panicked since it was set, and is set no longer.
    fn was_left(&self) -> bool {
        let left = self.0.swap(0, Ordering::Relaxed);
        (1..usize::MAX / 2).contains(&left)
    }
}

type State = BTreeMap<usize, Vec<u64>>;

/// Notes commits, unless it panics.
#[derive(Default)]
struct Noted {
    fuse: Fuse,
    state: Mutex<State>,
}

impl Journal for Noted {
    fn commit(&self, _: usize, _: u64, writes: &Writes<'_>, _: impl Iterator<Item = usize>) {
        self.fuse.call();
        let mut state = self.state.lock().expect("nobody panics here");
        for (record, words) in writes.iter() {
            match words {
                Some(words) => drop(state.insert(record, words.to_vec())),
                None => drop(state.remove(&record)),
            }
        }
    }
}

/// An image, full or laid over the ones before that were kept.
struct Copy<'a> {
    fuse: &'a Fuse,
    taken: Vec<(usize, Option<Vec<u64>>)>,
}

impl Records for Copy<'_> {
    type Error = std::convert::Infallible;
    fn record(&mut self, record: usize, words: Option<&[u64]>) -> Result<(), Self::Error> {
        self.fuse.call();
        self.taken.push((record, words.map(<[u64]>::to_vec)));
        Ok(())
    }
    fn finish(&mut self) -> Result<(), Self::Error> {
        self.fuse.call();
        Ok(())
    }
}

struct World<A: Concurrent> {
    engine: Engine<A, Noted>,
    kept: State,
    next: u64,
}

impl<A: Concurrent> World<A> {
    fn new() -> Self {
        let engine = Engine::with_journal(Settings::new(RECORDS, 2).workers(1), Noted::default());
        Self { engine: engine.expect("it is small"), kept: State::new(), next: 0 }
    }

    /// Replaces two records, and deletes one; each step is a call of `between`.
    fn transact(&mut self, between: &Fuse) -> bool {
        self.next += 1;
        let (next, at) = (self.next, self.next as usize % RECORDS);
        let run = || {
            self.engine.run(|tx| {
                between.call();
                tx.store(at, &[next, next])?;
                tx.update((at + 1) % RECORDS, 0, |word| {
                    between.call();
                    word + next
                })?;
                tx.delete((at + 3) % RECORDS)?;
                between.call();
                Ok::<_, Stop<()>>(())
            })
        };
        catch_unwind(AssertUnwindSafe(run)).is_ok()
    }

    /// Takes an image; whether it was kept.
    fn image(&mut self, fuse: &Fuse) -> bool {
        let mut copy = Copy { fuse, taken: Vec::new() };
        let image = self.engine.begin().expect("none is under way");
        let capture = || image.capture(&mut copy).map_err(|_| ());
        let is_kept = matches!(catch_unwind(AssertUnwindSafe(capture)), Ok(Ok(())));
        if is_kept {
            if A::INFO.image == Completeness::Full {
                self.kept.clear();
            }
            for (record, words) in copy.taken {
                match words {
                    Some(words) => drop(self.kept.insert(record, words)),
                    None => drop(self.kept.remove(&record)),
                }
            }
        }
        is_kept
    }

    /// What transactions read is what the journal noted, and so is the next image.
    fn check(&mut self, what: &str) -> Result<(), String> {
        let wrong = |found: &State, noted: &State| {
            Err(format!("{}, {what}: {found:?}, not {noted:?}", A::INFO.name))
        };
        let noted = self.engine.journal().state.lock().expect("nobody panics here").clone();
        let read = self.engine.run(|tx| {
            let mut read = State::new();
            for record in 0..RECORDS {
                let mut words = vec![0; 2];
                if tx.load(record, &mut words)? {
                    read.insert(record, words);
                }
            }
            Ok::<_, Stop<()>>(read)
        });
        let read = read.expect("it does not abort");
        if read != noted {
            return wrong(&read, &noted);
        }
        if A::INFO.image == Completeness::Nothing {
            return Ok(());
        }
        assert!(self.image(&Fuse::default()), "nothing panics");
        if self.kept != noted { wrong(&self.kept, &noted) } else { Ok(()) }
    }
}

fn proof<A: Concurrent>() -> Result<(), String> {
    let sound = Fuse::default();
    let mut world = World::<A>::new();
    (0..7).for_each(|_| assert!(world.transact(&sound)));
    world.check("at first")?;
    for call in 1..=3 {
        let fuse = Fuse::default();
        fuse.set(call);
        assert!(!world.transact(&fuse), "the closure panics");
        world.check("the closure panicked")?;
        assert!(world.transact(&sound));
    }
    world.engine.journal().fuse.set(1);
    assert!(!world.transact(&sound), "the journal panics");
    world.check("the journal panicked")?;
    if A::INFO.image == Completeness::Nothing {
        return Ok(());
    }
    // Beside an image, and then in the one after it.
    let image = world.engine.begin().expect("none is under way");
    world.engine.journal().fuse.set(1);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        world.engine.run(|tx| Ok::<_, Stop<()>>(tx.store(0, &[9, 9])?))
    }));
    assert!(panicked.is_err(), "the journal panics");
    drop(image);
    world.check("the journal panicked beside an image")?;
    for call in 1.. {
        assert!(world.transact(&sound));
        // An image that is dropped: increments owe what it held.
        drop(world.engine.begin().expect("none is under way"));
        assert!(world.transact(&sound));
        let fuse = Fuse::default();
        fuse.set(call);
        let is_kept = world.image(&fuse);
        if fuse.was_left() {
            assert!(is_kept, "nothing panicked");
            break;
        }
        assert!(!is_kept, "the sink panicked");
        world.check(&format!("the sink panicked at call {call}"))?;
    }
    world.check("at last")
}

struct Proof;

impl Visitor for Proof {
    type Output = Result<(), String>;
    fn visit<A: Concurrent>(self) -> Self::Output {
        proof::<A>()
    }
}

#[test]
fn whatever_panics_has_not_happened() {
    for info in ALL {
        let proved = with(info.name, Proof).expect("it is in the registry");
        proved.unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

#[test]
fn mistakes_with_panics_are_found() {
    let mistakes =
        [("vhg", Mutant::HourglassTakesOwed), ("imprint", Mutant::InstallsBeforeJournal)];
    for (name, mutant) in mistakes {
        let found = with_mutant(mutant, || with(name, Proof)).expect("it is in the registry");
        println!("{mutant:?}: {}", found.expect_err("the mistake is found"));
    }
}
