//! Streams: entries in the order of their ids, with what [`parts`](super::parts) keeps beside them.

mod edit;
mod view;

pub use edit::StreamEdit;
pub use view::{Consumer, Group, Pending, Stream, StreamEntry};
