//! Views: the state of an instant, for any thread.

use std::sync::Arc;
use std::time::Duration;

use durability::{Reader, View};

use crate::door::door;
use crate::error::{Failure, sf_code, sf_error};
use crate::memory;
use crate::store::{in_bounds, run_in_bounds, sf_store, take};
use crate::table::{Shared, Table};

/// The state of a store as it was, which any number of threads may read while the store goes on. It
/// lives on when the store is closed.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sf_view {
    /// 0: none.
    pub id: u64,
}

static VIEWS: Table<Arc<View>, ()> = Table::new(2, "view");

pub(crate) fn share(view: sf_view) -> Result<Shared<'static, Arc<View>, ()>, Failure> {
    VIEWS.share(view.id)
}

fn open(kept: View, view: *mut sf_view) -> Result<(), Failure> {
    memory::put(view, "view", sf_view { id: VIEWS.insert(Arc::new(kept), ())? })
}

/// Keeps the state of now, in microseconds. The state must be valid, as at a point; not within an
/// act. Old values are kept until `sf_view_close`: at most 16 bytes for each word that changes.
#[unsafe(no_mangle)]
pub extern "C" fn sf_view_open(
    store: sf_store,
    view: *mut sf_view,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        memory::put(view, "view", sf_view { id: 0 })?;
        open(take(store)?.get().store.view()?, view)
    })
}

/// Words of the state.
#[unsafe(no_mangle)]
pub extern "C" fn sf_view_words(view: sf_view, words: *mut u64, error: *mut sf_error) -> sf_code {
    door(error, || memory::put(words, "words", share(view)?.get().words() as u64))
}

/// A word as it was.
#[unsafe(no_mangle)]
pub extern "C" fn sf_view_read(
    view: sf_view,
    index: u64,
    value: *mut u64,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let view = share(view)?;
        let index = in_bounds(index, view.get().words())?;
        memory::put(value, "value", view.get().read(index)?)
    })
}

/// The `count` words from `start` on as they were: much faster than one by one.
#[unsafe(no_mangle)]
pub extern "C" fn sf_view_read_run(
    view: sf_view,
    start: u64,
    values: *mut u64,
    count: usize,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let view = share(view)?;
        let start = run_in_bounds(start, count, view.get().words())?;
        view.get().read_run(start, memory::slice_mut(values, count, "values")?)?;
        Ok(())
    })
}

/// Gives a view up; branches of it live on. `SF_BUSY` while a thread reads it.
#[unsafe(no_mangle)]
pub extern "C" fn sf_view_close(view: sf_view, error: *mut sf_error) -> sf_code {
    door(error, || {
        drop(VIEWS.remove(view.id)?);
        Ok(())
    })
}

/// Asks a store for views, from any thread, while another one writes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sf_reader {
    /// 0: none.
    pub id: u64,
}

static READERS: Table<Reader, ()> = Table::new(3, "reader");

/// A reader of this store.
#[unsafe(no_mangle)]
pub extern "C" fn sf_reader_open(
    store: sf_store,
    reader: *mut sf_reader,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        memory::put(reader, "reader", sf_reader { id: 0 })?;
        let asks = take(store)?.get().store.reader();
        memory::put(reader, "reader", sf_reader { id: READERS.insert(asks, ())? })
    })
}

/// The state at the next point of the store's thread, which this waits for, `timeout_ms`
/// milliseconds at most. Never on that thread itself.
#[unsafe(no_mangle)]
pub extern "C" fn sf_reader_view(
    reader: sf_reader,
    timeout_ms: u64,
    view: *mut sf_view,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        memory::put(view, "view", sf_view { id: 0 })?;
        // Not within the share, so that it can be closed while a thread waits.
        let asks = READERS.share(reader.id)?.get().clone();
        open(asks.view_timeout(Duration::from_millis(timeout_ms))?, view)
    })
}

/// Gives a reader up. The views that it got live on.
#[unsafe(no_mangle)]
pub extern "C" fn sf_reader_close(reader: sf_reader, error: *mut sf_error) -> sf_code {
    door(error, || {
        drop(READERS.remove(reader.id)?);
        Ok(())
    })
}
