//! The commands, by the type of value that they work on.

mod array;
mod bits;
mod blocking;
mod branch;
mod collection;
pub mod digest;
mod geo;
mod hash_expiry;
mod hash_import;
mod hashes;
mod hyperloglog;
mod keys;
mod list;
mod sample;
mod set;
mod sort;
mod sorted;
mod stream;
mod string;
#[cfg(test)]
mod tests;
pub mod transactions;

pub use keys::{
    Slots, check_flush_option, encoding, keys_by, parse_db, parse_swap, payload, scan_by,
    scan_remarks_by, scan_slots_by,
};
pub use sort::read_by_sort;

use crate::table::Table;

/// Adds all commands on data to a table.
pub fn register<S>(table: &mut Table<S>) {
    string::register(table);
    bits::register(table);
    hyperloglog::register(table);
    keys::register(table);
    branch::register(table);
    list::register(table);
    hashes::register(table);
    hash_expiry::register(table);
    hash_import::register(table);
    set::register(table);
    sort::register(table);
    sorted::register(table);
    geo::register(table);
    stream::register(table);
    array::register(table);
    transactions::register(table);
}
