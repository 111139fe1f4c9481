//! How large the state is, and why it cannot be.

/// How the state is laid out: the record is the unit of locking, of an algorithm's flags, and of
/// images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Records.
    pub records: usize,
    /// Words of 8 bytes in a record.
    pub words: usize,
}

/// An engine could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// Memory for the state could not be had.
    #[error("{bytes} bytes of memory for the state could not be had")]
    Memory {
        /// Size asked for.
        bytes: usize,
    },
    /// The algorithm numbers its before-images by worker and record in 32 bits.
    #[error("{records} records for {workers} workers are too many; at most {most} are possible")]
    Records {
        /// Records asked for.
        records: usize,
        /// Workers asked for.
        workers: usize,
        /// Most records for so many workers.
        most: usize,
    },
}
