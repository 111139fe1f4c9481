//! Branches: a state that goes its own way from where a store was.

use std::sync::Arc;

use durability::Branch;

use crate::door::door;
use crate::error::{Failure, sf_code, sf_error};
use crate::memory;
use crate::store::{in_bounds, run_in_bounds, sf_store, take};
use crate::table::{Exclusive, Table};
use crate::view::{sf_view, share};

/// A copy of a state that can be written: it takes memory for what is written to it, and the store
/// knows nothing of it. What is written to a branch is gone with it. One thread at a time may use
/// it; each branch is a thing of its own.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sf_branch {
    /// 0: none.
    pub id: u64,
}

static BRANCHES: Table<(), Branch> = Table::new(4, "branch");

fn take_branch(branch: sf_branch) -> Result<Exclusive<'static, (), Branch>, Failure> {
    BRANCHES.take(branch.id)
}

fn open(made: Branch, branch: *mut sf_branch) -> Result<(), Failure> {
    memory::put(branch, "branch", sf_branch { id: BRANCHES.insert((), made)? })
}

/// A branch from the state of now, in microseconds. The state must be valid, as at a point; not
/// within an act. It counts as a view.
#[unsafe(no_mangle)]
pub extern "C" fn sf_branch_open(
    store: sf_store,
    branch: *mut sf_branch,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        memory::put(branch, "branch", sf_branch { id: 0 })?;
        open(take(store)?.get().store.branch()?, branch)
    })
}

/// A branch from the state of a view, which may grow to `words_max` words (0: it cannot).
#[unsafe(no_mangle)]
pub extern "C" fn sf_branch_of(
    view: sf_view,
    words_max: u64,
    branch: *mut sf_branch,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        memory::put(branch, "branch", sf_branch { id: 0 })?;
        let base = Arc::clone(share(view)?.get());
        open(Branch::from_view(base, usize::try_from(words_max).unwrap_or(usize::MAX)), branch)
    })
}

/// Another branch, from the state of this one: it takes the time and memory of what was written.
#[unsafe(no_mangle)]
pub extern "C" fn sf_branch_clone(
    branch: sf_branch,
    clone: *mut sf_branch,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        memory::put(clone, "clone", sf_branch { id: 0 })?;
        let made = take_branch(branch)?.get().clone();
        open(made, clone)
    })
}

/// Words of the branch.
#[unsafe(no_mangle)]
pub extern "C" fn sf_branch_words(
    branch: sf_branch,
    words: *mut u64,
    error: *mut sf_error,
) -> sf_code {
    door(error, || memory::put(words, "words", take_branch(branch)?.get().words() as u64))
}

/// Grows the branch to `words` words, the new ones zero; never shrinks it.
#[unsafe(no_mangle)]
pub extern "C" fn sf_branch_grow(branch: sf_branch, words: u64, error: *mut sf_error) -> sf_code {
    door(error, || {
        take_branch(branch)?.get().grow(usize::try_from(words).unwrap_or(usize::MAX))?;
        Ok(())
    })
}

/// The latest value of a word here.
#[unsafe(no_mangle)]
pub extern "C" fn sf_branch_read(
    branch: sf_branch,
    index: u64,
    value: *mut u64,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let mut branch = take_branch(branch)?;
        let branch = branch.get();
        let index = in_bounds(index, branch.words())?;
        memory::put(value, "value", branch.try_read(index)?)
    })
}

/// The latest values of the `count` words from `start` on: much faster than one by one.
#[unsafe(no_mangle)]
pub extern "C" fn sf_branch_read_run(
    branch: sf_branch,
    start: u64,
    values: *mut u64,
    count: usize,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let mut branch = take_branch(branch)?;
        let branch = branch.get();
        let start = run_in_bounds(start, count, branch.words())?;
        branch.read_run(start, memory::slice_mut(values, count, "values")?)?;
        Ok(())
    })
}

/// Replaces a word here.
#[unsafe(no_mangle)]
pub extern "C" fn sf_branch_write(
    branch: sf_branch,
    index: u64,
    value: u64,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let mut branch = take_branch(branch)?;
        let branch = branch.get();
        branch.write(in_bounds(index, branch.words())?, value);
        Ok(())
    })
}

/// Replaces the `count` words from `start` on here.
#[unsafe(no_mangle)]
pub extern "C" fn sf_branch_write_run(
    branch: sf_branch,
    start: u64,
    values: *const u64,
    count: usize,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let mut branch = take_branch(branch)?;
        let branch = branch.get();
        let start = run_in_bounds(start, count, branch.words())?;
        for (index, &value) in (start..).zip(memory::slice(values, count, "values")?) {
            branch.write(index, value);
        }
        Ok(())
    })
}

/// Gives a branch up.
#[unsafe(no_mangle)]
pub extern "C" fn sf_branch_close(branch: sf_branch, error: *mut sf_error) -> sf_code {
    door(error, || {
        drop(BRANCHES.remove(branch.id)?);
        Ok(())
    })
}
