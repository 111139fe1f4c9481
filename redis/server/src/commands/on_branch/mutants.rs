//! Deliberate mistakes about requests on branches; `in_process/branch_tests.rs` must find each one.

stillframe::mutants! {
    pub(crate) when test;

    /// What a branch does is noted in the ledger of the data.
    SharesTheLedger,
    /// A command that writes changes the data.
    WritesBeside,
    /// A command on all keys works on those of the data.
    WalksBeside,
    /// The requests of a script run on the data.
    ScriptsLeave,
    /// Keys that a client watches are not there when its transaction begins.
    ForgetsTheWatched,
    /// A key that goes to another database is not laid there.
    LaysOneDatabase,
    /// Keys that SORT reads by patterns are not there.
    ForgetsPatterns,
    /// Swapping two databases is no change for who watches them.
    SwapsUnseen,
}

/// Whether this thread makes this mistake.
#[inline]
pub(crate) fn is_made(mutant: Mutant) -> bool {
    Mutation::current().is(mutant)
}
