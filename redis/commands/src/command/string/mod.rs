//! Strings: whole strings, parts of them, counters, and the common subsequence of two.

mod counters;
mod lcs;
mod parts;
mod set;

pub(super) use self::parts::length_of;

use crate::table::Table;

/// Adds the commands of all modules here.
pub(crate) fn register<S>(table: &mut Table<S>) {
    parts::register(table);
    set::register(table);
    counters::register(table);
    lcs::register(table);
}
