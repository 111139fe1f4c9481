//! What was committed, and what an image must hold.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use stillframe_transactions::{Completeness, Concurrent, Journal, Records, Writes};

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A number that was not given before.
pub(crate) fn next() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A commit: the first image that holds it, what it wrote, and all that it locked.
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    pub(crate) image: u64,
    pub(crate) writes: Vec<(usize, Option<Vec<u64>>)>,
    touched: Vec<usize>,
}

/// All commits in their order. Each one is noted while its locks are held, so that conflicting ones
/// stand here as they happened.
pub(crate) struct Commits {
    all: Mutex<Vec<Commit>>,
    /// The first word of each record, which one who holds its lock must read.
    newest: Vec<AtomicU64>,
}

impl Journal for Commits {
    fn commit(
        &self,
        _worker: usize,
        image: u64,
        writes: &Writes<'_>,
        touched: impl Iterator<Item = usize>,
    ) {
        let writes = writes.iter().map(|(record, words)| (record, words.map(<[u64]>::to_vec)));
        let commit = Commit { image, writes: writes.collect(), touched: touched.collect() };
        for (record, words) in &commit.writes {
            let first = words.as_ref().map_or(0, |words| words[0]);
            self.newest[*record].store(first, Ordering::Relaxed);
        }
        self.all.lock().expect("nobody panics here").push(commit);
    }
}

impl Commits {
    pub(crate) fn new(records: usize) -> Self {
        let newest = (0..records).map(|_| AtomicU64::new(0)).collect();
        Self { all: Mutex::default(), newest }
    }

    /// What the first word of a record is, for one who holds its lock.
    pub(crate) fn newest(&self, record: usize) -> u64 {
        self.newest[record].load(Ordering::Relaxed)
    }

    pub(crate) fn commits(&self) -> Vec<Commit> {
        self.all.lock().expect("nobody panics here").clone()
    }

    /// A commit that saw, or wrote over, what another one wrote is in no earlier image than that.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut written: BTreeMap<usize, u64> = BTreeMap::new();
        for commit in self.commits() {
            for record in &commit.touched {
                if let Some(&image) = written.get(record).filter(|&&image| image > commit.image) {
                    let of = commit.image;
                    return Err(format!("a commit of image {of} follows one of image {image}"));
                }
            }
            written.extend(commit.writes.iter().map(|(record, _)| (*record, commit.image)));
        }
        Ok(())
    }
}

/// Compares images, in rising order, with the state after all commits that they hold.
pub(crate) fn compare(
    mut commits: Vec<Commit>,
    images: &[(u64, BTreeMap<usize, Vec<u64>>)],
) -> Result<(), String> {
    commits.sort_by_key(|commit| commit.image); // stable: the order stands within an image
    let mut commits = commits.into_iter().peekable();
    let mut state = BTreeMap::new();
    for (number, found) in images {
        while let Some(commit) = commits.next_if(|commit| commit.image <= *number) {
            for (record, words) in commit.writes {
                match words {
                    Some(words) => drop(state.insert(record, words)),
                    None => drop(state.remove(&record)),
                }
            }
        }
        if *found != state {
            return Err(format!("image {number} is {found:?}, not {state:?}"));
        }
    }
    Ok(())
}

/// Keeps an image, or refuses to go on after some records.
pub(crate) struct Copy {
    pub(crate) records: Vec<(usize, Option<Vec<u64>>)>,
    pub(crate) takes: usize,
}

impl Default for Copy {
    fn default() -> Self {
        Self { records: Vec::new(), takes: usize::MAX }
    }
}

impl Copy {
    /// Makes a state, that of the image which was kept last, the state of this one.
    pub(crate) fn merge<A: Concurrent>(self, state: &mut BTreeMap<usize, Vec<u64>>) {
        if A::INFO.image == Completeness::Full {
            state.clear();
        }
        for (record, words) in self.records {
            match words {
                Some(words) => drop(state.insert(record, words)),
                None => drop(state.remove(&record)),
            }
        }
    }
}

impl Records for Copy {
    type Error = &'static str;
    fn record(&mut self, record: usize, words: Option<&[u64]>) -> Result<(), Self::Error> {
        if self.records.len() >= self.takes {
            return Err("full");
        }
        assert!(self.records.last().is_none_or(|(last, _)| *last < record), "out of order");
        self.records.push((record, words.map(<[u64]>::to_vec)));
        Ok(())
    }
}
