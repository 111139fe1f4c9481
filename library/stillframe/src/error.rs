//! One error type per family of operations.

use crate::sink::SinkError;

/// Memory could not be had from the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The size does not fit the address space.
    #[error("{words} words of 8 bytes exceed the address space")]
    TooLarge {
        /// Words asked for.
        words: usize,
    },
    /// Growth beyond the address space that was reserved at creation.
    #[error("{words} words exceed the {reserved} words reserved; raise `max_words`")]
    Reserved {
        /// Words asked for.
        words: usize,
        /// Words of address space reserved.
        reserved: usize,
    },
    /// The operating system refused.
    #[error(
        "{what} of {bytes} bytes of memory failed: {error}",
        error = std::io::Error::from_raw_os_error(*errno)
    )]
    Refused {
        /// The operation: reserving, committing, prefaulting.
        what: &'static str,
        /// Size in bytes.
        bytes: usize,
        /// The operating system's code.
        errno: i32,
    },
    /// The algorithm needs what this machine does not allow; see
    /// [`Algorithm::available`](crate::Algorithm::available).
    #[error("{what}")]
    Unavailable {
        /// What is missing.
        what: &'static str,
    },
}

/// This machine does not let an algorithm run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// An image could not be begun. The state is unchanged and the writer may go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BeginError {
    /// As many images as may be are still held: one, where the
    /// [`Options`](crate::Options::images) ask for no more.
    #[error("image {epoch} is still being taken")]
    Busy {
        /// The epoch of the newest one.
        epoch: u64,
    },
    /// No memory for the image's own structures.
    #[error("no memory for the image: {0}")]
    Memory(#[from] MemoryError),
    /// `fork` failed.
    #[error("fork failed: {error}", error = std::io::Error::from_raw_os_error(*errno))]
    Fork {
        /// The operating system's code.
        errno: i32,
    },
}

/// An image was begun and could not be captured whole. What the sink has received is not an image.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// Cancelled through [`Progress::cancel`](crate::Progress::cancel).
    #[error("the image was cancelled")]
    Cancelled,
    /// The undo arena was full and the policy is [`OnFull::Cancel`](crate::OnFull::Cancel).
    #[error("the image needed more memory than its budget and was cancelled; raise the budget")]
    OverBudget,
    /// The sink refused.
    #[error("the sink failed: {0}")]
    Sink(#[from] SinkError),
    /// The sink panicked.
    #[error("the sink panicked")]
    Panicked,
    /// The forked child died of a signal before the image was complete.
    #[error("the snapshot process was killed by signal {signal}")]
    ChildKilled {
        /// The signal.
        signal: i32,
    },
    /// The forked child ended in a way it never should.
    #[error("the snapshot process ended with status {status} before the image was complete")]
    ChildExited {
        /// Its exit status.
        status: i32,
    },
    /// The image was captured already; an image is pushed once.
    #[error("the image was captured already")]
    Spent,
}
