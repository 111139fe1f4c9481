//! The mistakes that the tests of ARIES must find.

stillframe::mutants! {
    pub when test;

    /// A copy counts though commits that it holds in part are not on the disk.
    CountsBeforeTheLog,
    /// Records are applied from the end of the copying on, not from its start.
    RedoFromTheEnd,
    /// A copy counts though its bytes are not on the disk.
    CopyNotSynced,
    /// A copy counts though its directory has no name on the disk.
    NameNotSynced,
    /// The copy before goes before the new one counts.
    OldCopyRemovedFirst,
    /// Records that the copy before needs go before the new one counts.
    RecordsRemovedFirst,
    /// A transaction may be logged in two records.
    CommitInTwoRecords,
}
