//! The mistakes that the tests of this crate must find.

stillframe::mutants! { pub when any(test, feature = "mutants");
    /// A snapshot is labelled when it is done, not when it begins (go-libp2p-raft #69).
    LabelsAtEnd,
    /// The state notes what was applied when the next entries come.
    NotesLate,
    /// An append is acknowledged before it is durable.
    AcknowledgesBeforeSync,
    /// A vote counts before it is durable.
    VotesBeforeSync,
    /// A purge lets go of the vote and of entries that follow.
    CutsTooMuch,
    /// A received snapshot becomes the state before its files are on the disk.
    InstallsUnsynced,
    /// A snapshot goes when the disk fails while it is installed.
    DropsWhatMayCount,
    /// A start reads from the first segment that it finds.
    ReadsFirstSegment,
    /// A truncation is not waited for, and the image of a snapshot becomes durable before it.
    TruncatesLate,
    /// Entries that were truncated come back after a restart.
    ForgetsTruncation,
}
