//! The mistakes that the tests of this crate must find.

stillframe::mutants! { pub(crate) when test;
    /// A commit is acknowledged before its record is durable.
    AcknowledgesBeforeSync,
    /// The end of the log is noted when the image has begun.
    NotesEndAfterBegin,
    /// Numbers begin anew with each process.
    ForgetsNumbers,
    /// An increment counts as kept though its checkpoint was not published.
    KeepsUnpublished,
    /// Threads that recover share the log by turns, so that two of them put the same record.
    SharesByTurns,
    /// A log that failed is used again.
    TrustsFailedLog,
}
