//! Deliberate mistakes, compiled for tests alone: the crash tests must find each one. In a normal
//! build the question whether one is made is the constant `false`.

pub(crate) use active::Mutation;

/// A mistake that a test must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutant {
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
}

#[cfg(not(test))]
mod active {
    use super::Mutant;

    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Mutation;

    impl Mutation {
        pub(crate) const fn current() -> Self {
            Self
        }
        pub(crate) const fn is(self, _: Mutant) -> bool {
            false
        }
    }
}

#[cfg(test)]
mod active {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        static CURRENT: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// The mistake that a store, once opened, keeps making.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Mutation(Option<Mutant>);

    impl Mutation {
        pub(crate) fn current() -> Self {
            Self(CURRENT.get())
        }
        pub(crate) fn is(self, mutant: Mutant) -> bool {
            self.0 == Some(mutant)
        }
        /// What this thread makes from now on makes the mistake.
        pub(crate) fn set(mutant: Option<Mutant>) {
            CURRENT.set(mutant);
        }
    }
}
