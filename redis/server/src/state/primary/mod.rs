//! This server as a primary: what it sends to its replicas.

mod feed;
mod passing;
pub(crate) mod transfer;
pub(crate) mod waits;

pub(crate) use feed::feed;
pub(crate) use passing::relay;
pub(crate) use waits::{answer_waits, tend_replicas};
