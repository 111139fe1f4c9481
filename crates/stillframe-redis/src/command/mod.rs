//! The commands, by the type of value that they work on.

mod bitfield;
mod bits;
mod blocking;
mod collection;
mod counters;
pub mod digest;
mod dump;
mod expire;
mod geo;
mod hashes;
mod hyperloglog;
mod keys;
mod lcs;
mod lists;
mod pops;
mod sample;
mod scan;
mod set;
mod set_algebra;
mod sets;
mod sort;
mod sorted;
mod strings;
#[cfg(test)]
mod tests;

pub use dump::payload;
pub use keys::{encoding, parse_db};

use crate::table::Table;

/// Adds all commands on data to a table.
pub fn register<S>(table: &mut Table<S>) {
    strings::register(table);
    set::register(table);
    counters::register(table);
    lcs::register(table);
    bits::register(table);
    bitfield::register(table);
    hyperloglog::register(table);
    keys::register(table);
    scan::register(table);
    expire::register(table);
    dump::register(table);
    lists::register(table);
    pops::register(table);
    hashes::register(table);
    sets::register(table);
    set_algebra::register(table);
    sort::register(table);
    sorted::register(table);
    geo::register(table);
}
