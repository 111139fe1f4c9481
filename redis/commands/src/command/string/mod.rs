//! Strings: whole strings, parts of them, counters, and the common subsequence of two.

mod compare;
mod counters;
mod increx;
mod lcs;
mod parts;
mod set;

pub(super) use self::parts::{length_of, string_bytes};

use crate::table::Table;

/// Adds the commands of all modules here.
pub(crate) fn register<S>(table: &mut Table<S>) {
    parts::register(table);
    set::register(table);
    compare::register(table);
    counters::register(table);
    increx::register(table);
    lcs::register(table);
}
