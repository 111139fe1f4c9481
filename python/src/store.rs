//! A store for Python, by bytes; `stillframe/_store.py` lays arrays upon it.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyDict;
use stillframe::{Live, OnFull};
use stillframe_durability::{
    self as durability, DynamicStore, Increments, LogOptions, NotClosed, Options, Policy,
};

use crate::dirty::PAGE_BYTES;
use crate::ends::{Behind, End, Ends, patiently};
use crate::errors::{Error, panicked, raise};
use crate::follow::Followed;
use crate::guard::{Guard, Trace};
use crate::memory::Memory;
use crate::own::Own;
use crate::view::{Branch, Reader, SLICE, View, seconds};

/// The layout of the words: see `stillframe/_layout.py`.
const LAYOUT: u32 = 1;

/// Words with checkpoints and a log.
#[pyclass(frozen, module = "stillframe._stillframe")]
pub(crate) struct Store(Own<Mutex<Slot>>);

enum Slot {
    Open(Box<Inner>),
    /// What `close` began, until somebody hears how it ended.
    Closing(Closing),
    Closed,
}

struct Closing {
    ended: Behind<Result<(), (Box<Inner>, PyErr)>>,
    /// It is given free where there is an interpreter.
    followed: Vec<Followed>,
}

impl Slot {
    fn inner(&mut self) -> PyResult<&mut Inner> {
        match self {
            Self::Open(inner) => Ok(inner),
            Self::Closing(_) | Self::Closed => Err(raise(&durability::Error::Closed)),
        }
    }

    /// Closes the store, which is open again if that fails; `None` if it takes longer.
    fn close(&mut self, give_up: bool) -> Option<PyResult<()>> {
        if let Self::Open(inner) = self {
            if inner.store.in_act()
                && let Err(error) = inner.end_act(false)
            {
                return Some(Err(error));
            }
            let followed = std::mem::take(&mut inner.followed);
            let Self::Open(inner) = std::mem::replace(self, Self::Closed) else { return None };
            match Behind::begin(inner, move |inner| inner.close(give_up)) {
                Ok(ended) => *self = Self::Closing(Closing { ended, followed }),
                Err((mut inner, error)) => {
                    inner.followed = followed;
                    *self = Self::Open(inner);
                    return Some(Err(error));
                }
            }
        }
        let Self::Closing(closing) = self else { return Some(Ok(())) };
        let ended = closing.ended.wait()?;
        let followed = std::mem::take(&mut closing.followed);
        *self = Self::Closed;
        Some(match ended {
            Ok(Err((mut inner, error))) => {
                inner.followed = followed;
                *self = Self::Open(inner);
                Err(error)
            }
            Ok(Ok(())) => Ok(()),
            Err(error) => Err(error),
        })
    }
}

struct Inner {
    store: DynamicStore,
    /// Mutations that are open.
    mutations: usize,
    /// What the store's methods wrote, to find what others wrote.
    shadow: Option<Vec<u64>>,
    /// Catches what others write, where it can.
    guard: Option<Guard>,
    /// Memory of others.
    followed: Vec<Followed>,
    ends: Ends,
}

impl Inner {
    fn write(&mut self, start: usize, words: &[u64]) -> PyResult<()> {
        let run = start * 8..(start + words.len()) * 8;
        let done = self.unguarded(&[run], |store| store.write_run(start, words));
        done.map_err(|error| raise(&error))?;
        if let Some(shadow) = &mut self.shadow {
            shadow[start..start + words.len()].copy_from_slice(words);
        }
        Ok(())
    }

    /// Does work on the store that writes these bytes.
    fn unguarded<R>(
        &mut self,
        runs: &[Range<usize>],
        work: impl FnOnce(&mut DynamicStore) -> R,
    ) -> R {
        if let Some(guard) = &mut self.guard {
            guard.open(runs);
        }
        let done = work(&mut self.store);
        if let Some(guard) = &mut self.guard {
            guard.close(runs);
        }
        done
    }

    /// Replaces bytes.
    fn put(&mut self, start: usize, bytes: &[u8]) -> PyResult<()> {
        let mut old = vec![0; words_of(start, bytes.len()).len()];
        self.store.read_run(start / 8, &mut old);
        self.write(start / 8, &patched(old, start % 8, bytes))
    }

    /// A single change: with a log an act of its own, unless one is open.
    fn change(&mut self, work: impl FnOnce(&mut Self) -> PyResult<()>) -> PyResult<()> {
        if !self.store.has_log() || self.store.in_act() {
            return work(self);
        }
        self.store.begin_act().map_err(|error| raise(&error))?;
        let done = work(self);
        self.end_act(done.is_ok()).and(done)
    }

    /// Ends the act: logs it and declares a point, or undoes it.
    fn end_act(&mut self, keep: bool) -> PyResult<()> {
        if !self.store.in_act() {
            return Err(Error::new_err("no act is open"));
        }
        // For the shadow, to which undoing is no write of others.
        let written: Vec<usize> =
            if self.shadow.is_some() { self.store.written().collect() } else { Vec::new() };
        self.guard.iter().for_each(Guard::open_all);
        let ended =
            if keep && self.mutations == 0 { self.store.commit() } else { self.store.undo() };
        self.guard.iter().for_each(Guard::close_all);
        if let Some(shadow) = &mut self.shadow
            && (!keep || self.mutations > 0 || ended.is_err())
        {
            written.into_iter().for_each(|index| shadow[index] = self.store.read(index));
        }
        ended.map_err(|error| raise(&error))?;
        if keep && self.mutations > 0 {
            return Err(Error::new_err("the act is undone: a mutation within it is still open"));
        }
        Ok(())
    }

    /// Ends the store; what failed leaves it as it was.
    fn close(self: Box<Self>, give_up: bool) -> Result<(), (Box<Self>, PyErr)> {
        let last = self.ends.clone();
        let closed = || last.complete(Err(&durability::Error::Closed)); // to who waits still
        if give_up {
            drop(self);
            closed();
            return Ok(());
        }
        let Self { store, mutations, shadow, guard, followed, ends } = *self;
        store.close().map(|()| closed()).map_err(|NotClosed { store, error }| {
            let store = *store;
            let inner = Self { store, mutations, shadow, guard, followed, ends };
            (Box::new(inner), raise(&error))
        })
    }

    fn check_point(&self) -> PyResult<()> {
        match (self.mutations, self.store.in_act()) {
            (0, false) => Ok(()),
            (0, true) => Err(Error::new_err("no point within an act; it ends with one")),
            (open, _) => Err(Error::new_err(format!(
                "no point while an array is being mutated ({open} mutations are open); leave the \
                 `with` block first"
            ))),
        }
    }
}

/// The words in which some bytes lie.
fn words_of(start: usize, len: usize) -> Range<usize> {
    start / 8..(start + len).div_ceil(8)
}

/// `words` with `bytes` in the place of theirs from byte `start` on.
pub(crate) fn patched(mut words: Vec<u64>, start: usize, bytes: &[u8]) -> Vec<u64> {
    let (head, bytes) = bytes.split_at(bytes.len().min((8 - start) % 8));
    let patch = |word: &mut u64, at: usize, part: &[u8]| {
        let mut whole = word.to_ne_bytes();
        whole[at..at + part.len()].copy_from_slice(part);
        *word = u64::from_ne_bytes(whole);
    };
    let rest = if head.is_empty() {
        &mut words[..]
    } else {
        patch(&mut words[0], start, head);
        &mut words[1..]
    };
    for (word, part) in rest.iter_mut().zip(bytes.chunks(8)) {
        patch(word, 0, part);
    }
    words
}

pub(crate) fn check_bytes(words: usize, start: usize, len: usize) -> PyResult<()> {
    let bytes = words * 8;
    if start > bytes || len > bytes - start {
        return Err(PyIndexError::new_err(format!("{len} bytes at {start} of {bytes}")));
    }
    Ok(())
}

/// Runs of bytes, given as pairs of first byte and length.
fn runs(numbers: &[i64], words: usize) -> PyResult<Vec<Range<usize>>> {
    let (pairs, _) = numbers.as_chunks::<2>();
    let mut runs = Vec::with_capacity(pairs.len());
    for &[start, len] in pairs {
        let (Ok(start), Ok(len)) = (usize::try_from(start), usize::try_from(len)) else {
            return Err(PyIndexError::new_err("a run starts before the words"));
        };
        check_bytes(words, start, len)?;
        runs.push(start..start + len);
    }
    Ok(runs)
}

/// How a store is opened.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Settings {
    words: usize,
    words_max: usize,
    every: Option<f64>,
    log: Option<String>,
    increments: bool,
    pack: bool,
    bandwidth: Option<u64>,
    keep: usize,
    checkpoint_on_close: bool,
    views: usize,
    budget: Option<usize>,
    accept_loss: bool,
    debug: Option<Trace>,
}

impl Settings {
    fn options(&self) -> PyResult<Options> {
        let memory = stillframe::Options::words(self.words).max_words(self.words_max);
        let memory = match self.budget {
            Some(bytes) => memory.budget(bytes, OnFull::Slow),
            None => memory,
        };
        let mut options = Options::memory(memory)
            .views(self.views, OnFull::Cancel)
            .application("arrays", LAYOUT)
            .keep_generations(self.keep);
        options.every = self.every.map(seconds).transpose()?.filter(|every| !every.is_zero());
        options.bandwidth = self.bandwidth;
        options.pack = self.pack;
        options.checkpoint_on_close = self.checkpoint_on_close;
        options.accept_chain_loss = self.accept_loss;
        options.accept_log_loss = self.accept_loss;
        options.increments = self.increments.then(Increments::default);
        if let Some(policy) = &self.log {
            options = options.log(LogOptions::policy(match &policy[..] {
                "always" => Policy::Always,
                "everysec" => Policy::EverySecond,
                "no" => Policy::No,
                _ => {
                    return Err(PyValueError::new_err(format!(
                        "log={policy:?}; give \"always\", \"everysec\", \"no\", or None"
                    )));
                }
            }));
        }
        Ok(options)
    }
}

#[pymethods]
impl Store {
    /// Opens the store in a directory.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf, settings: Settings) -> PyResult<Self> {
        let ends = Ends::default();
        let told = ends.clone();
        let options = settings.options()?.on_checkpoint(move |ended| told.complete(ended));
        let is_logged = settings.log.is_some();
        let open = move |path: PathBuf| {
            let opened = if is_logged {
                DynamicStore::open_logged(path, options)
            } else {
                DynamicStore::open(path, options)
            };
            opened.map_err(|error| raise(&error))
        };
        let mut opened = Behind::begin(path, open).map_err(|(_, error)| error)?;
        let store = patiently(py, || opened.wait())??;
        let (mut shadow, mut guard) = (None, None);
        if let Some(trace) = settings.debug {
            let mut words = vec![0; store.words()];
            store.read_run(0, &mut words);
            shadow = Some(words);
            guard = Some(Guard::new(live(&store)?, trace)?);
        }
        let inner = Inner { store, mutations: 0, shadow, guard, followed: Vec::new(), ends };
        Ok(Self(Own::new(Mutex::new(Slot::Open(Box::new(inner))))))
    }

    /// Words of the state.
    fn words(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |inner| Ok(inner.store.words()))
    }

    /// Grows to so many words.
    fn grow(&self, py: Python<'_>, words: usize) -> PyResult<()> {
        self.with(py, |inner| {
            inner.store.grow(words).map_err(|error| raise(&error))?;
            if let (Some(shadow), Some(guard)) = (&mut inner.shadow, &mut inner.guard) {
                shadow.resize(inner.store.words(), 0);
                guard.grow(inner.store.words());
            }
            Ok(())
        })
    }

    /// Bytes, to read.
    fn memory(&self, py: Python<'_>, start: usize, len: usize) -> PyResult<Memory> {
        self.with(py, |inner| inner.memory(start, len, false))
    }

    /// Bytes, to write until `mutated`; only those in `runs`, if there are any.
    fn mutate(
        &self,
        py: Python<'_>,
        start: usize,
        len: usize,
        runs_in: Option<PyBuffer<i64>>,
    ) -> PyResult<Memory> {
        let numbers = runs_in.map(|runs| runs.to_vec(py)).transpose()?;
        self.with(py, |inner| {
            let memory = inner.memory(start, len, true)?;
            let announced = match numbers {
                Some(numbers) => runs(&numbers, inner.store.words())?,
                None => std::iter::once(start..start + len).collect(),
            };
            for run in &announced {
                let words = words_of(run.start, run.len());
                let done = inner.store.announce(words.start, words.len());
                done.map_err(|error| raise(&error))?;
            }
            if let Some(guard) = &mut inner.guard {
                guard.open(&announced);
            }
            inner.mutations += 1;
            Ok(memory)
        })
    }

    /// Says that what `mutate` gave is not written any more.
    fn mutated(
        &self,
        py: Python<'_>,
        start: usize,
        len: usize,
        runs_in: Option<PyBuffer<i64>>,
    ) -> PyResult<()> {
        let numbers = runs_in.map(|runs| runs.to_vec(py)).transpose()?;
        self.with(py, |inner| {
            inner.mutations = inner.mutations.saturating_sub(1);
            check_bytes(inner.store.words(), start, len)?;
            if let (Some(shadow), Some(guard)) = (&mut inner.shadow, &mut inner.guard) {
                let written = match numbers {
                    Some(numbers) => runs(&numbers, inner.store.words())?,
                    None => std::iter::once(start..start + len).collect(),
                };
                guard.close(&written);
                for run in written {
                    let words = words_of(run.start, run.len());
                    inner.store.read_run(words.start, &mut shadow[words]);
                }
            }
            Ok(())
        })
    }

    /// Replaces some bytes.
    fn write(&self, py: Python<'_>, start: usize, bytes: PyBuffer<u8>) -> PyResult<()> {
        let bytes = bytes.to_vec(py)?;
        self.with(py, |inner| {
            check_bytes(inner.store.words(), start, bytes.len())?;
            inner.change(|inner| inner.put(start, &bytes))
        })
    }

    /// Replaces rows of `row` bytes, of `rows` that begin at byte `start`: the one that `index`
    /// names first by the first of `values`, and so on. Nothing is written if an index is wrong.
    #[pyo3(signature = (start, row, rows, index, values))]
    fn scatter(
        &self,
        py: Python<'_>,
        start: usize,
        row: usize,
        rows: usize,
        index: PyBuffer<i64>,
        values: PyBuffer<u8>,
    ) -> PyResult<()> {
        let (index, values) = (index.to_vec(py)?, values.to_vec(py)?);
        let scatter = Scatter { start, row, rows, index, values };
        self.with(py, |inner| {
            let places = scatter.places(inner.store.words())?;
            inner.change(|inner| inner.scatter(&scatter, &places))
        })
    }

    /// Opens an act.
    fn begin_act(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |inner| {
            if inner.store.in_act() || inner.mutations > 0 {
                return Err(Error::new_err("an act or a mutation is open already"));
            }
            inner.store.begin_act().map_err(|error| raise(&error))
        })
    }

    /// Ends it: keeps what was written, or undoes it.
    fn end_act(&self, py: Python<'_>, keep: bool) -> PyResult<()> {
        self.with(py, |inner| inner.end_act(keep))
    }

    /// Whether an act is open.
    fn in_act(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |inner| Ok(inner.store.in_act()))
    }

    /// Declares a point; the number of the checkpoint that began.
    fn point(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.with(py, |inner| {
            inner.check_point()?;
            inner.store.point().map_err(|error| raise(&error))
        })
    }

    /// Asks for a checkpoint at the next point.
    fn request_checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |inner| {
            inner.store.checkpoint();
            Ok(())
        })
    }

    /// Begins a checkpoint of now, and returns whether that is so, and its end; if one is under
    /// way, the end of that.
    fn begin_checkpoint(&self, py: Python<'_>) -> PyResult<(bool, End)> {
        self.with(py, |inner| {
            inner.check_point()?;
            if inner.store.stats().running.is_some() {
                return Ok((false, inner.ends.next()));
            }
            let _ = inner.store.wait(); // it may have ended, and not have been told
            let end = inner.ends.next();
            inner.store.checkpoint();
            let begun = inner.store.point().map_err(|error| raise(&error))?;
            Ok((begun.is_some() || end.is_told(), end))
        })
    }

    /// Waits until everything that was logged is durable.
    fn wait_durable(&self, py: Python<'_>) -> PyResult<()> {
        let (handle, last) =
            self.with(py, |inner| Ok((inner.store.log_handle(), inner.store.logged())))?;
        let handle = handle.ok_or_else(|| raise(&durability::Error::NoLog))?;
        patiently(py, || match handle.is_durable_within(last, SLICE) {
            Ok(is_durable) => is_durable.then_some(Ok(())),
            Err(error) => Some(Err(raise(&error))),
        })
    }

    /// The state of now.
    fn view(&self, py: Python<'_>) -> PyResult<View> {
        self.with(py, |inner| {
            inner.check_point()?;
            inner.store.view().map(View::new).map_err(|error| raise(&error))
        })
    }

    /// The state of now, to be written apart.
    fn branch(&self, py: Python<'_>) -> PyResult<Branch> {
        self.with(py, |inner| {
            inner.check_point()?;
            inner.store.branch().map(Branch::new).map_err(|error| raise(&error))
        })
    }

    /// For threads that ask for views.
    fn reader(&self, py: Python<'_>) -> PyResult<Reader> {
        self.with(py, |inner| Ok(Reader::new(inner.store.reader())))
    }

    /// Follows memory, which is copied to byte `start` on now and at each `snapshot`; returns
    /// whether the kernel tells what changes.
    fn follow(&self, py: Python<'_>, start: usize, source: PyBuffer<u8>) -> PyResult<bool> {
        if !source.is_c_contiguous() {
            return Err(PyValueError::new_err("memory in several pieces cannot be followed"));
        }
        self.attached(py, |inner| {
            check_bytes(inner.store.words(), start, source.len_bytes())?;
            let followed = Followed::new(source, start);
            let place = followed.place();
            let meets = |other: &Followed| {
                other.place().start < place.end && place.start < other.place().end
            };
            if inner.followed.iter().any(meets) {
                return Err(PyValueError::new_err("the array follows other memory already"));
            }
            let is_told = followed.is_told();
            inner.change(|inner| inner.copy(&followed, 0..place.len()).map(drop))?;
            inner.followed.push(followed);
            Ok(is_told)
        })
    }

    /// Copies what changed in all memory that is followed, while no code of Python runs; returns
    /// how many bytes that were.
    fn snapshot(&self, py: Python<'_>) -> PyResult<usize> {
        self.attached(py, |inner| {
            let followed = std::mem::take(&mut inner.followed);
            let mut copied = 0;
            let done = inner.change(|inner| {
                for one in &followed {
                    for change in one.changes() {
                        copied += inner.copy(one, change)?;
                    }
                }
                Ok(())
            });
            inner.followed = followed;
            done.map(|()| copied)
        })
    }

    /// The first byte that something else wrote since this was last asked, and the last one; and
    /// if one was caught at that, the number under which the trace has the line.
    fn unannounced(&self, py: Python<'_>) -> PyResult<Option<(usize, usize, Option<usize>)>> {
        self.with(py, |inner| {
            let (Some(shadow), Some(guard)) = (&mut inner.shadow, &inner.guard) else {
                return Ok(None);
            };
            let caught = guard.take();
            let mut written: Option<Range<usize>> = None;
            for (index, word) in shadow.iter_mut().enumerate() {
                let now = inner.store.read(index);
                if std::mem::replace(word, now) != now {
                    written = Some(written.map_or(index, |written| written.start)..index + 1);
                }
            }
            let written = written.map(|words| words.start * 8..words.end * 8);
            // What was caught may have left all as it was.
            let written = written.or(caught.map(|byte| byte..byte + 1));
            Ok(written.map(|bytes| (bytes.start, bytes.end - 1, caught.map(|_| guard.slot()))))
        })
    }

    /// What was found when the store was opened.
    fn recovery<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = self.with(py, |inner| Ok(inner.store.recovery().clone()))?;
        let dict = PyDict::new(py);
        dict.set_item("checkpoint", found.loaded.as_ref().map(|loaded| loaded.number))?;
        dict.set_item("acts", found.log.as_ref().map_or(0, |log| log.records))?;
        let skipped: Vec<String> = found.skipped.iter().map(ToString::to_string).collect();
        dict.set_item("skipped", skipped)?;
        let torn = found.log.and_then(|log| log.torn).map(|torn| torn.to_string());
        dict.set_item("torn", torn)?;
        Ok(dict)
    }

    /// Counts and times.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (stats, words) =
            self.with(py, |inner| Ok((inner.store.stats(), inner.store.words())))?;
        let dict = PyDict::new(py);
        dict.set_item("bytes", words * 8)?;
        dict.set_item("checkpoints", stats.checkpoints)?;
        dict.set_item("failures", stats.failures)?;
        dict.set_item("last_error", stats.last_error)?;
        dict.set_item("newest", stats.newest)?;
        dict.set_item("newest_age", stats.newest_age.map(|age| age.as_secs_f64()))?;
        dict.set_item("overdue", stats.overdue)?;
        dict.set_item("running", stats.running.map(|running| running.number))?;
        dict.set_item("begin_last", stats.begin_last.as_secs_f64())?;
        dict.set_item("begin_max", stats.begin_max.as_secs_f64())?;
        dict.set_item("capture_last", stats.capture_last.as_secs_f64())?;
        dict.set_item("bytes_last", stats.bytes_last)?;
        dict.set_item("increments", stats.increments)?;
        dict.set_item("views", stats.views)?;
        dict.set_item("views_bytes", stats.views_bytes)?;
        dict.set_item("writer_waits", stats.writer_waits)?;
        dict.set_item("logged", stats.log.as_ref().map(|log| log.last))?;
        dict.set_item("durable", stats.log.as_ref().map(|log| log.durable))?;
        Ok(dict)
    }

    /// Raises in a child that inherited it.
    fn check_process(&self) -> PyResult<()> {
        self.0.get().map(|_| ())
    }

    /// Whether it is open.
    fn is_open(&self, py: Python<'_>) -> PyResult<bool> {
        let store = self.0.get()?;
        Ok(py.detach(|| store.lock().is_ok_and(|slot| matches!(*slot, Slot::Open(_)))))
    }

    /// Ends it; what failed leaves it open. `give_up` takes no last checkpoint. Ctrl-C ends the
    /// wait alone, and the next call waits on.
    fn close(&self, py: Python<'_>, give_up: bool) -> PyResult<()> {
        let store = self.0.get()?;
        patiently(py, || store.lock().unwrap_or_else(PoisonError::into_inner).close(give_up))
    }
}

/// Rows and what replaces them.
struct Scatter {
    start: usize,
    row: usize,
    rows: usize,
    index: Vec<i64>,
    values: Vec<u8>,
}

impl Scatter {
    /// The first byte of each row.
    fn places(&self, words: usize) -> PyResult<Vec<usize>> {
        let Self { start, row, rows, ref index, ref values } = *self;
        if row == 0 {
            return Err(PyValueError::new_err("a row holds nothing"));
        }
        let whole = rows.saturating_mul(row);
        check_bytes(words, start, whole)?;
        if index.len().checked_mul(row) != Some(values.len()) {
            return Err(PyValueError::new_err(format!(
                "{} rows of {row} bytes for {} indices",
                values.len() / row,
                index.len()
            )));
        }
        let place = |&index: &i64| {
            let from_end = if index < 0 { rows.cast_signed() as i64 + index } else { index };
            let number = usize::try_from(from_end).ok().filter(|&number| number < rows);
            number.map(|number| start + number * row).ok_or_else(|| {
                PyIndexError::new_err(format!("row {index} of {rows}; nothing was written"))
            })
        };
        index.iter().map(place).collect()
    }
}

impl Inner {
    fn memory(&self, start: usize, len: usize, writable: bool) -> PyResult<Memory> {
        Memory::live(live(&self.store)?, start, len, writable)
    }

    /// Copies those pages of a range that differ; how many bytes that were.
    fn copy(&mut self, from: &Followed, range: Range<usize>) -> PyResult<usize> {
        let mut copied = 0;
        let mut page = [0; PAGE_BYTES];
        let mut words = [0; PAGE_BYTES / 8 + 2];
        for at in range.clone().step_by(PAGE_BYTES) {
            let bytes = &mut page[..PAGE_BYTES.min(range.end - at)];
            from.read(at, bytes);
            let start = from.place().start + at;
            let run = words_of(start, bytes.len());
            let words = &mut words[..run.len()];
            self.store.read_run(run.start, words);
            if patched(words.to_vec(), start % 8, bytes) != words {
                self.put(start, bytes)?;
                copied += bytes.len();
            }
        }
        Ok(copied)
    }

    fn scatter(&mut self, scatter: &Scatter, places: &[usize]) -> PyResult<()> {
        let row = scatter.row;
        if !(row.is_multiple_of(8) && scatter.start.is_multiple_of(8)) {
            let mut rows = places.iter().zip(scatter.values.chunks(row));
            return rows.try_for_each(|(&place, value)| self.put(place, value));
        }
        let (values, _) = scatter.values.as_chunks::<8>();
        if row > 8 {
            let words: Vec<u64> = values.iter().map(|&value| u64::from_ne_bytes(value)).collect();
            let mut rows = places.iter().zip(words.chunks(row / 8));
            return rows.try_for_each(|(&place, words)| self.write(place / 8, words));
        }
        let write = |(&place, &value): (&usize, &[u8; 8])| (place / 8, u64::from_ne_bytes(value));
        let writes: Vec<(usize, u64)> = places.iter().zip(values).map(write).collect();
        let bytes = |&(index, _): &(usize, u64)| index * 8..index * 8 + 8;
        let runs: Vec<_> =
            if self.guard.is_some() { writes.iter().map(bytes).collect() } else { Vec::new() };
        let done = self.unguarded(&runs, |store| store.write_many(&writes));
        done.map_err(|error| raise(&error))?;
        if let Some(shadow) = &mut self.shadow {
            writes.iter().for_each(|&(index, value)| shadow[index] = value);
        }
        Ok(())
    }
}

fn live(store: &DynamicStore) -> PyResult<Live> {
    store.live().ok_or_else(|| Error::new_err("words without a home"))
}

impl Store {
    /// Does work on the store while no other code of Python runs.
    fn attached<R>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Inner) -> PyResult<R>,
    ) -> PyResult<R> {
        let mut slot = self.0.get()?.lock_py_attached(py).map_err(|_| panicked())?;
        work(slot.inner()?)
    }

    /// Does work on the store, detached from the interpreter.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Inner) -> PyResult<R> + Send,
    ) -> PyResult<R> {
        let store = self.0.get()?;
        py.detach(|| work(store.lock().map_err(|_| panicked())?.inner()?))
    }
}
