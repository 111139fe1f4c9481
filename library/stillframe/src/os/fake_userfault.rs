//! The interface of `userfault.rs` for Miri, loom and shuttle, which know no page faults: a page
//! table behind a lock, which a writer asks before it stores. Systems other than Linux have the
//! interface alone: [`UserFaults::available`] says so.
//!
//! - As with the kernel, a store to a protected page waits until the page is unprotected, and a
//!   message about it goes to the thread that answers.
//! - Asking first, then storing, is no weaker than the processor, which does both at once: what
//!   happens between them can only be an unprotecting, since pages are protected by the writer.
//! - A message outlives its wait, if another thread has unprotected the page: so does one that the
//!   handler has read, and is slow to look at.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, PoisonError};

use super::Region;
use crate::error::MemoryError;
use crate::sink::BLOCK_WORDS;
use crate::sync::{Condvar, Mutex, MutexGuard, thread};

#[derive(Debug, Default)]
struct Table {
    protected: Vec<bool>,
    /// Words that a writer waits for, or waited.
    messages: VecDeque<usize>,
    is_stopped: bool,
}

#[derive(Debug)]
pub(crate) struct UserFaults {
    table: Mutex<Table>,
    asked: Condvar,
    unprotected: Condvar,
}

impl UserFaults {
    #[allow(clippy::unnecessary_wraps, reason = "the interface of userfault.rs")]
    pub(crate) fn available() -> Result<(), &'static str> {
        if cfg!(any(miri, feature = "loom", feature = "shuttle")) {
            Ok(())
        } else {
            Err("userfaultfd is a part of Linux")
        }
    }

    pub(crate) fn register(_: &Arc<Region>) -> Result<Self, MemoryError> {
        Self::available().map_err(|what| MemoryError::Unavailable { what })?;
        let (asked, unprotected) = (Condvar::new(), Condvar::new());
        Ok(Self { table: Mutex::new(Table::default()), asked, unprotected })
    }

    #[allow(clippy::unused_self, reason = "the interface of userfault.rs")]
    pub(crate) fn needs_populated(&self) -> bool {
        false
    }

    #[allow(clippy::unnecessary_wraps, reason = "the interface of userfault.rs")]
    pub(crate) fn protect(&self, words: Range<usize>) -> Result<(), MemoryError> {
        let pages = words.start / BLOCK_WORDS..words.end / BLOCK_WORDS;
        let mut table = self.lock();
        let known = table.protected.len().max(pages.end);
        table.protected.resize(known, false);
        table.protected[pages].fill(true);
        Ok(())
    }

    pub(crate) fn unprotect(&self, words: Range<usize>) {
        let pages = words.start / BLOCK_WORDS..words.end / BLOCK_WORDS;
        self.lock().protected[pages].fill(false);
        self.unprotected.notify_all();
    }

    /// What the processor does before a store: faults, and waits.
    pub(crate) fn before_store(&self, word: usize) {
        let is_protected = |table: &Table| table.protected.get(word / BLOCK_WORDS) == Some(&true);
        let mut table = self.lock();
        if is_protected(&table) {
            table.messages.push_back(word);
            self.asked.notify_all();
        }
        while is_protected(&table) {
            table = self.unprotected.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn next(&self) -> Option<usize> {
        let mut table = self.lock();
        loop {
            if table.is_stopped {
                return None;
            }
            if let Some(word) = table.messages.pop_front() {
                return Some(word);
            }
            table = self.asked.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct FaultHandler {
    faults: Arc<UserFaults>,
    thread: Option<thread::JoinHandle<()>>,
}

impl FaultHandler {
    #[allow(clippy::unnecessary_wraps, reason = "the interface of userfault.rs")]
    pub(crate) fn start(
        faults: Arc<UserFaults>,
        answer: impl Fn(usize) + Send + 'static,
    ) -> Result<Self, MemoryError> {
        let theirs = Arc::clone(&faults);
        let run = move || {
            while let Some(word) = theirs.next() {
                answer(word);
            }
        };
        Ok(Self { faults, thread: Some(thread::spawn(run)) })
    }
}

impl Drop for FaultHandler {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // a model checker that gives a schedule up ends the threads of its own
        }
        self.faults.lock().is_stopped = true;
        self.faults.asked.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
