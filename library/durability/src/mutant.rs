//! Deliberate mistakes, compiled for tests alone: the crash tests must find each one. A normal
//! build makes none: each test for one is the constant `false`.

stillframe::mutants! {
    pub(crate) when test;

    /// The file gets its name though its bytes are not on the disk.
    FileNotSynced,
    /// A checkpoint counts as durable before its name is on the disk.
    NamesNotSynced,
    /// The file gets its name before its footer.
    PublishBeforeFooter,
    /// A checkpoint that is still needed goes before the next one is on the disk.
    OldRemovedFirst,
    /// A file whose sync failed is synced again, and trusted.
    FailedFileIsTrusted,
    /// A merged checkpoint takes the place of an increment though its bytes are not on the disk.
    MergeNotSynced,
    /// What a failed increment had is not in the next one.
    FailedIncrementForgotten,
    /// An increment builds on the one that failed.
    BuildsOnFailed,
    /// An update of a word is in no increment.
    UpdateMarksNothing,
    /// Of words that are written together the block of the first alone is in the next increment.
    BatchMarksFirst,
    /// Of a run of words the block of the first alone is in the next increment.
    RunMarksFirst,
    /// Half a word is taken for the block of the word with its number.
    HalfMarksItsNumber,
    /// Blocks by which a state has grown are in no increment.
    GrowthMarksNothing,
    /// The record of an action lacks the last word of each run of several.
    RecordEndsEarly,
    /// Of a run of words an action notes the first alone.
    NotesFirstOfRun,
    /// A branch counts as whole though a word of an odd number that it was asked for is lost.
    LossIsEven,
    /// A clone of a branch counts as whole though a word that it was asked for is lost.
    CloneForgetsLoss,
    /// The newest image is cancelled in place of the checkpoint, be it a view.
    CancelsNewest,
    /// The progress of the newest image is taken for that of the checkpoint.
    StatsOfNewest,
    /// A word that was written in a branch is looked for below.
    BranchReadsBelow,
    /// Files of a chain go before the merged one is on the disk.
    ChainRemovedFirst,
    /// A segment of the log gets its name though its start is not on the disk.
    LogStartNotSynced,
    /// A record counts as durable though its segment has no name on the disk.
    LogNamesNotSynced,
    /// A segment begins though records before it are not on the disk.
    LogRotatesUnsynced,
    /// What was recovered counts as durable, though nothing proves that it is on the disk.
    LogTrustsItsTail,
    /// A record says that all before it are on the disk.
    LogProvesTooMuch,
    /// A mark says that records are on the disk before they are synced.
    LogMarkedEarly,
    /// A mark says so before their segment has its name.
    LogMarkedUnnamed,
    /// A record counts as durable before it is synced.
    LogAcknowledgedEarly,
    /// The log loses what a checkpoint covers before the checkpoint is on the disk.
    LogTruncatedFirst,
    /// Actions are applied twice.
    ReplayedTwice,
    /// Actions that are in the checkpoint are applied again.
    PositionSkipped,
    /// A checkpoint is published though actions in it are not in the log yet.
    CheckpointOvertakesLog,
    /// A failed action is undone from its first write to its last.
    UndoneForward,
    /// An action that panics leaves what it has written.
    PanicKeepsWrites,
    /// A callback that panics takes the thread that tells it along.
    PanicsGoOn,
    /// A checkpoint may begin between the end of an action and its record.
    ActPointsEarly,
    /// An action that only grows the state leaves no record.
    GrowthNotLogged,
    /// A checkpoint may begin while a state is converted.
    ConvertedInPart,
    /// The log of a state of the past begins before its checkpoint is on the disk.
    RewoundLogFirst,
    /// A file that goes is cut before its new name is on the disk.
    CutsBeforeRenamed,
}
