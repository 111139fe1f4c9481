//! Consistent point-in-time snapshots of memory that is being written, without stopping the writer.

mod error;
mod point;
mod sink;

pub use error::{BeginError, CaptureError, MemoryError};
pub use point::Point;
pub use sink::{Sink, SinkError};
