//! The hunter of wrong images: writes transactions to a Redis-compatible server, takes its images
//! back to back meanwhile, and judges each against what the transactions leave.
//!
//! Invariants:
//! - A transaction is a function of seed, writer and number. So an image is right if and only if it
//!   is what the first `m` transactions of each writer leave, for an `m` between what that writer
//!   had acknowledged when the image was asked for and what it had sent when the image had come.
//! - The counts `m` are those that the image itself holds. A stamp and accounts that all writers
//!   change tie their counts together.
//! - The hunter touches keys of its own prefix only, and deletes them at the end.
//! - Whatever the server sends, the hunter ends with a verdict or one sentence, in bounded time.
//!
//! Reading order: `workload`, `content`, `judge`, `link`, `writers`, `image`, `sync`, `hunt`.
#![forbid(unsafe_code)]

mod content;
mod error;
mod hunt;
mod image;
mod judge;
mod link;
mod plan;
mod report;
mod sync;
mod workload;
mod writers;

pub use content::{Content, Contents, Keys, Name, apply};
pub use error::HuntError;
pub use hunt::hunt;
pub use judge::{Class, Fault, Judge};
pub use plan::Plan;
pub use report::{Found, Report};
pub use workload::{Request, Workload};
