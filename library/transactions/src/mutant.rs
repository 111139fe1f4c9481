//! The mistakes that the tests of this crate must find.

stillframe::mutants! { pub when feature = "mutants";
    /// Epochs: only Release and Acquire stand between an announcement and the look that follows.
    EpochAnnouncesByReleaseAlone,
    /// Epochs: a worker does not look whether the epoch that it announced is still the present one.
    EpochIsNotReadAgain,
    /// Epochs: an image is captured while commits of its epoch are still being installed.
    EpochDoesNotDrain,
    /// vHG, vPB, Imprint: the side of a transaction is fixed when it starts, as the paper has it.
    SideAtStart,
    /// vHG: what is owed of earlier images is taken from its list while a sink may fail or panic.
    HourglassTakesOwed,
    /// Imprint: a commit is installed before its journal is told, which may panic.
    InstallsBeforeJournal,
    /// Locks: a writer that waits does not keep other readers out.
    WriterIsNotWanted,
    /// A closure that swallowed a conflict aborts the transaction.
    AbortsThoughRefused,
    /// vPB: the copier does not claim a record with the writer's own step.
    PiggybackCopiesWithoutClaim,
    /// vPB: the copier starts before the commits of the image's epoch are installed.
    PiggybackCopiesBeforeDrain,
    /// CALC: the capture and a writer do not exclude one another.
    CalcWithoutLatch,
    /// CALC: a copy that a commit before the point of consistency made is kept.
    CalcKeepsTentative,
    /// CALC: the meaning of the flags changes before the transactions of the capture have ended.
    CalcFlipsEarly,
    /// CALC: a record that is inserted after the point of consistency is taken for part of it.
    CalcTakesLateInsert,
    /// Imprint: no before-image is kept.
    ImprintNeverSaves,
    /// Imprint: the new value is stored before the old one is saved.
    ImprintSavesAfterStore,
    /// Imprint: no Release fence between a before-image and the new value.
    ImprintNoReleaseFence,
    /// Imprint: no Acquire fence between the copied record and its head.
    ImprintNoAcquireFence,
    /// Imprint: a record counts as captured before it is.
    ImprintPublishesCursorEarly,
    /// Imprint: heads stay until the number of their image comes again.
    ImprintKeepsHeads,
    /// Imprint: what a later commit changes of a record that has a before-image is not saved.
    ImprintSavesARecordOnce,
    /// Imprint: of a record that was saved in two entries the capture sees the newer one.
    ImprintForgetsFirstEntry,
    /// Imprint: a commit for whose before-images the budget has no room goes on.
    ImprintWaitsNotForCapture,
    /// Imprint: an image is not told that a before-image of it was lost.
    ImprintHidesLoss,
    /// Imprint: a worker gives chunks back at each commit, and not at each image.
    ImprintGivesChunksBack,
    /// Imprint: a commit of the image's own epoch saves before-images.
    ImprintSavesOfOwnEpoch,
    /// A stop of all: the copy begins while commits are being installed.
    StoppedDoesNotWait,
}
