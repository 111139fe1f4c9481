//! The commands of Redis that work on data, on a stillframe keyspace: no sockets, no files, no
//! threads.
//!
//! Reading order: [`Context`] (what a command sees), [`Ledger`] (what is kept beside the data),
//! [`Table`] (how a request finds its command), then any file of `command`.
//!
//! - A command runs alone, to the end: between two commands the data set is at a point of
//!   consistency.
//! - Commands send no messages. They collect what happened in the ledger; their caller (a
//!   server, a replay, a test) sends messages to the clients that want them.
//! - No request can make this crate panic.

#![forbid(unsafe_code)]

mod address;
mod caller;
mod command;
mod context;
mod effects;
pub mod errors;
mod events;
pub mod facts;
mod few;
mod fieldsets;
#[cfg(test)]
mod harness;
mod ledger;
pub mod number;
mod plain;
mod progress;
mod random;
mod request;
mod table;
pub mod text;
mod transaction;
mod unsynced;
pub mod values;
mod waiters;
mod watches;

pub use address::Address;
pub use caller::Caller;
pub use command::{
    Slots, check_flush_option, digest, encoding, keys_by, parse_db, parse_swap, payload,
    read_by_sort, register, scan_by, scan_remarks_by, scan_slots_by, transactions,
};
pub use context::Context;
pub use effects::{Audience, Consumer, Effects, Needs};
pub use errors::Refusal;
pub use events::{Classes, Collected, Event, Events, Fields, NoSuchClass};
pub use facts::{Facts, Keys, categories, flags};
pub use few::Few;
pub use fieldsets::Fieldsets;
pub use ledger::{Ledger, Lookups, Settings};
pub use plain::{Unknown, plain_form};
pub use random::Random;
pub use request::{request_bytes, write_request};
pub use table::{Command, DataHandler, Handler, Lookup, RenameError, Table};
pub use transaction::{Requests, Transaction};
pub use waiters::{Acks, Found, GroupReader, LogAck, ReadFrom, Waiter, Waiters, Wanted};
pub use watches::{LISTED_BYTES, Watches};
