//! The store: words, acts and points.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use durability::{DynamicStore, LogHandle, NotClosed, Until};

use crate::door::door;
use crate::error::{Failure, sf_code, sf_error};
use crate::memory;
use crate::options::{Chosen, chosen, sf_options};
use crate::table::{Exclusive, Kept, Parts, Table};

/// An array of 64-bit words in memory that survives its process. One thread at a time may use it;
/// only `sf_store_durable` and `sf_store_wait_durable` may be called beside.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sf_store {
    /// 0: none.
    pub id: u64,
}

pub(crate) static STORES: Table<Option<LogHandle>, Cell> = Table::new(1, "store");

/// A store, and what its calls need.
pub(crate) struct Cell {
    pub(crate) store: Box<DynamicStore>,
    /// For scattered writes; kept from one to the next.
    writes: Vec<(usize, u64)>,
}

impl Cell {
    /// Collects writes, all of them in bounds.
    fn gather(&mut self, indices: &[u64], values: &[u64]) -> Result<(), Failure> {
        let words = self.store.words();
        self.writes.clear();
        for (&index, &value) in indices.iter().zip(values) {
            self.writes.push((in_bounds(index, words)?, value));
        }
        Ok(())
    }
}

/// Word `index` of `words`.
#[inline]
pub(crate) fn in_bounds(index: u64, words: usize) -> Result<usize, Failure> {
    match usize::try_from(index) {
        Ok(index) if index < words => Ok(index),
        _ => Err(out_of_bounds(index, words)),
    }
}

#[cold]
fn out_of_bounds(index: u64, words: usize) -> Failure {
    Failure::new(sf_code::SF_RANGE, format!("word {index} of {words}, which start with word 0"))
}

/// The first word of a run of `count` words, of `words`.
pub(crate) fn run_in_bounds(start: u64, count: usize, words: usize) -> Result<usize, Failure> {
    match usize::try_from(start) {
        Ok(first) if first <= words && count <= words - first => Ok(first),
        _ => {
            let message = format!("{count} words from word {start} on, of {words}");
            Err(Failure::new(sf_code::SF_RANGE, message))
        }
    }
}

/// Takes a store for this thread.
#[inline]
pub(crate) fn take(
    store: sf_store,
) -> Result<Exclusive<'static, Option<LogHandle>, Cell>, Failure> {
    STORES.take(store.id)
}

fn path<'a>(directory: *const c_char, name: &str) -> Result<&'a Path, Failure> {
    let text = memory::string(directory).map(CStr::to_bytes);
    match text {
        None => Err(Failure::new(sf_code::SF_NULL, format!("`{name}` is null"))),
        Some([]) => Err(Failure::argument(format!("`{name}` is empty; name a directory"))),
        Some(text) => Ok(Path::new(OsStr::from_bytes(text))),
    }
}

fn open(store: DynamicStore, into: *mut sf_store) -> Result<(), Failure> {
    let id =
        STORES.insert(store.log_handle(), Cell { store: Box::new(store), writes: Vec::new() })?;
    memory::put(into, "store", sf_store { id })
}

/// Opens the store in `directory`, which is created if need be: the newest sound checkpoint, then
/// the acts of the log since, or zeros if it never held a state. `sf_store_recovery` says which.
/// Nothing is lost by trying again.
#[unsafe(no_mangle)]
pub extern "C" fn sf_store_open(
    directory: *const c_char,
    options: *const sf_options,
    store: *mut sf_store,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        memory::put(store, "store", sf_store { id: 0 })?;
        let directory = path(directory, "directory")?;
        let Chosen { options, has_log } = chosen(options)?;
        let opened = if has_log {
            DynamicStore::open_logged(directory, options)
        } else {
            DynamicStore::open(directory, options)
        };
        open(opened?, store)
    })
}

/// For `sf_store_rewind`: how a point in the past is named.
#[repr(u32)]
#[allow(dead_code, reason = "callers have it from the header")]
pub enum sf_until {
    /// After the act whose record has this number.
    SF_UNTIL_RECORD = 0,
    /// After the last act that was logged no later than this many milliseconds since 1970.
    SF_UNTIL_TIME_MS = 1,
}

/// The state as it was in the past, in a new store in the directory `target`, durably. The store in
/// `source` must not be open, and stays as it is. `until` is an `sf_until`, and `value` its number
/// or time; the options must ask for a log. How far it goes back: `sf_options.keep_...`.
#[unsafe(no_mangle)]
pub extern "C" fn sf_store_rewind(
    source: *const c_char,
    until: u32,
    value: u64,
    target: *const c_char,
    options: *const sf_options,
    store: *mut sf_store,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        memory::put(store, "store", sf_store { id: 0 })?;
        let (source, target) = (path(source, "source")?, path(target, "target")?);
        let until = match until {
            0 => Until::Sequence(value),
            1 => Until::TimeMs(value),
            other => return Err(Failure::argument(format!("`until` is {other}, no sf_until"))),
        };
        let Chosen { options, has_log } = chosen(options)?;
        if !has_log {
            let message = "a rewound store has a log; set `log` in the options";
            return Err(Failure::argument(message));
        }
        open(DynamicStore::rewind(source, until, target, options)?, store)
    })
}

/// Waits for the checkpoint under way, takes a last one if the options say so, makes the log
/// durable, and gives the directory free. The handle names nothing afterwards. Views and branches
/// live on.
///
/// After a failure (a full disk) the store is open as before: close it again, or discard it.
#[unsafe(no_mangle)]
pub extern "C" fn sf_store_close(store: sf_store, error: *mut sf_error) -> sf_code {
    door(error, || {
        STORES.remove_if(store.id, |Parts { shared, exclusive: Cell { store, writes } }| {
            store.close().map_err(|NotClosed { store, error }| {
                let parts = Parts { shared, exclusive: Cell { store, writes } };
                Kept { parts, failure: error.into() }
            })
        })
    })
}

/// Ends a store as a crash would: the act under way is undone, the checkpoint under way given up.
/// Records in the log are still written. A poisoned store can only be discarded.
#[unsafe(no_mangle)]
pub extern "C" fn sf_store_discard(store: sf_store, error: *mut sf_error) -> sf_code {
    door(error, || {
        drop(STORES.remove(store.id)?);
        Ok(())
    })
}

/// Words of state.
#[unsafe(no_mangle)]
pub extern "C" fn sf_store_words(
    store: sf_store,
    words: *mut u64,
    error: *mut sf_error,
) -> sf_code {
    door(error, || memory::put(words, "words", take(store)?.get().store.words() as u64))
}

/// Grows the state to `words` words, the new ones zero; never shrinks it. With a log, within an act
/// alone. Undoing the act keeps the length.
#[unsafe(no_mangle)]
pub extern "C" fn sf_store_grow(store: sf_store, words: u64, error: *mut sf_error) -> sf_code {
    door(error, || {
        let words = usize::try_from(words).unwrap_or(usize::MAX);
        Ok(take(store)?.get().store.grow(words)?)
    })
}

/// The latest value of a word, which the act under way may have written.
#[unsafe(no_mangle)]
pub extern "C" fn sf_store_read(
    store: sf_store,
    index: u64,
    value: *mut u64,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let mut store = take(store)?;
        let store = &store.get().store;
        memory::put(value, "value", store.read(in_bounds(index, store.words())?))
    })
}

/// The latest values of the `count` words from `start` on.
#[unsafe(no_mangle)]
pub extern "C" fn sf_store_read_run(
    store: sf_store,
    start: u64,
    values: *mut u64,
    count: usize,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let mut store = take(store)?;
        let store = &store.get().store;
        let start = run_in_bounds(start, count, store.words())?;
        store.read_run(start, memory::slice_mut(values, count, "values")?);
        Ok(())
    })
}

/// Replaces a word. With a log, within an act alone.
#[unsafe(no_mangle)]
pub extern "C" fn sf_store_write(
    store: sf_store,
    index: u64,
    value: u64,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let mut store = take(store)?;
        let store = &mut store.get().store;
        Ok(store.write(in_bounds(index, store.words())?, value)?)
    })
}

/// Replaces the `count` words from `start` on. With a log, within an act alone.
#[unsafe(no_mangle)]
pub extern "C" fn sf_store_write_run(
    store: sf_store,
    start: u64,
    values: *const u64,
    count: usize,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let mut store = take(store)?;
        let store = &mut store.get().store;
        let start = run_in_bounds(start, count, store.words())?;
        Ok(store.write_run(start, memory::slice(values, count, "values")?)?)
    })
}

/// Replaces `count` words in any places, in this order: faster than one by one. If one is out of
/// bounds, none is written. With a log, within an act alone; see `sf_act`.
#[unsafe(no_mangle)]
pub extern "C" fn sf_store_write_many(
    store: sf_store,
    indices: *const u64,
    values: *const u64,
    count: usize,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let mut store = take(store)?;
        let cell = store.get();
        let indices = memory::slice(indices, count, "indices")?;
        cell.gather(indices, memory::slice(values, count, "values")?)?;
        Ok(cell.store.write_many(&cell.writes)?)
    })
}

/// Begins an act: what is written until `sf_act_commit` happens whole or not at all. A store has
/// one at a time. No checkpoint or view begins meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn sf_act_begin(store: sf_store, error: *mut sf_error) -> sf_code {
    door(error, || Ok(take(store)?.get().store.begin_act()?))
}

/// Ends the act under way, and declares a point. With a log, its words become one record, whose
/// number is left in `record` (unless null); `sf_store_wait_durable` waits for it. An act that
/// changed nothing leaves the number of the last record.
///
/// After a failure the act is undone.
#[unsafe(no_mangle)]
pub extern "C" fn sf_act_commit(
    store: sf_store,
    record: *mut u64,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let mut store = take(store)?;
        let store = &mut store.get().store;
        store.commit()?;
        memory::put_if_wanted(record, "record", store.logged())
    })
}

/// Undoes the act under way: all words are what they were.
#[unsafe(no_mangle)]
pub extern "C" fn sf_act_undo(store: sf_store, error: *mut sf_error) -> sf_code {
    door(error, || Ok(take(store)?.get().store.undo()?))
}

/// A whole act in one call: replaces `count` words in any places, in this order, all or none. For
/// languages in which a call of C is dear.
#[unsafe(no_mangle)]
pub extern "C" fn sf_act(
    store: sf_store,
    indices: *const u64,
    values: *const u64,
    count: usize,
    record: *mut u64,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let mut store = take(store)?;
        let cell = store.get();
        let indices = memory::slice(indices, count, "indices")?;
        cell.gather(indices, memory::slice(values, count, "values")?)?;
        let Cell { store, writes } = cell;
        store.act(|act| {
            act.write_many(writes);
            Ok::<_, durability::Error>(())
        })?;
        memory::put_if_wanted(record, "record", store.logged())
    })
}

/// Declares that the state is valid now, by the application's own rules. If a checkpoint is due, it
/// begins here, in microseconds, and its number is left in `checkpoint` (unless null), else 0. A
/// commit is a point, too.
#[unsafe(no_mangle)]
pub extern "C" fn sf_store_point(
    store: sf_store,
    checkpoint: *mut u64,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let mut store = take(store)?;
        let begun = store.get().store.point()?;
        memory::put_if_wanted(checkpoint, "checkpoint", begun.unwrap_or(0))
    })
}

fn log_of(store: sf_store) -> Result<LogHandle, Failure> {
    let shared = STORES.share(store.id)?;
    Ok(shared.get().clone().ok_or(durability::Error::NoLog)?)
}

/// The number of the last record that is certain to survive; 0: none. Any thread, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn sf_store_durable(
    store: sf_store,
    record: *mut u64,
    error: *mut sf_error,
) -> sf_code {
    door(error, || memory::put(record, "record", log_of(store)?.durable()))
}

/// Returns when the records up to this one are certain to survive, whatever the policy. Any thread,
/// at any time: others may commit meanwhile, and one sync serves all who wait.
#[unsafe(no_mangle)]
pub extern "C" fn sf_store_wait_durable(
    store: sf_store,
    record: u64,
    error: *mut sf_error,
) -> sf_code {
    door(error, || Ok(log_of(store)?.wait_durable(record)?))
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::ptr::null_mut;

    use super::*;
    use crate::options::sf_options_init;

    fn opened(directory: &Path) -> sf_store {
        let mut options = std::mem::MaybeUninit::<sf_options>::zeroed();
        sf_options_init(options.as_mut_ptr(), size_of::<sf_options>(), null_mut());
        // SAFETY: all zeros were options already.
        let mut options = unsafe { options.assume_init() };
        options.words = 3;
        let directory = CString::new(directory.as_os_str().as_bytes()).expect("no zero in it");
        let mut store = sf_store { id: 0 };
        let code =
            sf_store_open(directory.as_ptr(), &raw const options, &raw mut store, null_mut());
        assert_eq!(code, sf_code::SF_OK);
        store
    }

    fn word(store: sf_store, index: u64) -> Result<u64, sf_code> {
        let mut value = 0;
        let code = sf_store_read(store, index, &raw mut value, null_mut());
        if code == sf_code::SF_OK { Ok(value) } else { Err(code) }
    }

    /// A panic of the library, wherever it comes from, leaves the door and no half of an act.
    #[test]
    fn a_panic_in_an_act_poisons_the_store_and_loses_only_the_act() {
        let directory = tempfile::tempdir().expect("a directory");
        let [store, other] = ["one", "other"].map(|name| opened(&directory.path().join(name)));
        let (index, value) = (0, 7);
        let done = sf_act(store, &raw const index, &raw const value, 1, null_mut(), null_mut());
        assert_eq!(done, sf_code::SF_OK);
        assert_eq!(sf_act_begin(store, null_mut()), sf_code::SF_OK);
        assert_eq!(sf_store_write(store, 0, 8, null_mut()), sf_code::SF_OK);
        let panicked = door(null_mut(), || Ok(take(store)?.get().store.write(3, 9)?));
        assert_eq!(panicked, sf_code::SF_PANIC);
        assert_eq!(word(store, 0), Err(sf_code::SF_POISONED));
        assert_eq!(sf_act_commit(store, null_mut(), null_mut()), sf_code::SF_POISONED);
        assert_eq!(sf_store_wait_durable(store, 1, null_mut()), sf_code::SF_POISONED);
        assert_eq!(sf_store_close(store, null_mut()), sf_code::SF_POISONED);
        assert_eq!(word(other, 0), Ok(0), "others are sound");
        assert_eq!(sf_store_discard(store, null_mut()), sf_code::SF_OK);
        assert_eq!(sf_store_discard(store, null_mut()), sf_code::SF_HANDLE);
        let store = opened(&directory.path().join("one"));
        assert_eq!(word(store, 0), Ok(7));
        assert_eq!(sf_store_close(store, null_mut()), sf_code::SF_OK);
        assert_eq!(sf_store_close(other, null_mut()), sf_code::SF_OK);
    }
}
