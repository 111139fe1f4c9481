//! What the crate writes and reads, by itself; in one program, which compiles and links sooner than
//! seven.

mod arrays;
#[path = "../common/mod.rs"]
mod common;
mod damage;
mod expiring;
mod round_trip;
mod scan;
mod streams;
mod versions;
