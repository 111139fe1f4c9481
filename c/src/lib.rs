//! Stillframe for C: a durable store of words with acts, checkpoints, views and branches, and a
//! server that speaks Redis's protocol, in the process of its caller.
//!
//! `include/stillframe.h` is made of these files by cbindgen (`tests/header.rs`), in their order
//! there. What a caller must know stands in comments of the items that the header has.
//!
//! - **No pointer names a thing.** A handle is a number that [`table`] looks up; so one that was
//!   closed, is of another kind or was inherited by `fork` gets an answer, not undefined behaviour.
//! - **Every function is a [`door`].** A panic ends there, as a code; what the call had in hand is
//!   poisoned and takes only `discard` or `close`.
//! - **One thread at a time** is inside a store, a branch or a connection. A second one is told so.
//! - `unsafe` is in [`table`], in [`memory`] (what callers point to), in `door::forked` and in
//!   `store::Cell`, which holds an act beside the store that it borrows.

#![allow(non_camel_case_types, reason = "the names of the header")]

mod branch;
mod checkpoint;
mod door;
mod error;
mod memory;
mod options;
#[cfg(feature = "server")]
mod reply;
mod report;
#[cfg(feature = "server")]
mod server;
mod store;
mod table;
mod view;
