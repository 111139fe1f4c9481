//! Lua 5.1 scripts with the API of Redis 8: `redis.*`, `cjson`, `cmsgpack`, `struct`, `bit`,
//! `os.clock`.
//!
//! Reading order: [`Engine`] (loads and runs scripts), [`Host`] (what a script reaches outside),
//! `prelude.lua` (what scripts see), `redis.rs` and `reply.rs` (requests of scripts and their
//! replies), then any file of `library`.
//!
//! - A script reaches the world through [`Host`] alone: no files, no clock, no system calls.
//! - A script ends at its limits of memory and instructions with an error. What it wrote before
//!   stays, as in Redis.
//! - Between two runs a script leaves nothing behind: globals and libraries cannot be written.

#![forbid(unsafe_code)]

mod engine;
mod error;
mod functions;
mod host;
mod library;
mod redis;
mod reply;
mod sha;
mod shebang;
mod version;

pub use engine::{Call, Engine, Limits};
pub use error::{LibraryError, LoadError, RunError};
pub use functions::{Functions, Library, Registered};
pub use host::{Host, Level, NotACommand, Propagation, Verdict};
pub use sha::Sha;
pub use shebang::{Flags, flags_of, read_library as library_name};
pub use version::{NoVersion, RedisVersion};
