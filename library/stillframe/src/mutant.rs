//! Deliberately broken variants, compiled for tests alone: the suite must reject each one.
//!
//! An algorithm asks `self.handover.is(Mutant::X)` at the spot where a mistake is easy. In a normal
//! build the question is the constant `false` and takes no space.

/// Lists the mistakes of a crate, each of which a test must find: makes the enum `Mutant`, a
/// `Mutation` for what keeps making the mistake with which it was created, and, where tests are
/// built (`when`), `with_mutant`, which has a closure make one.
#[doc(hidden)]
#[macro_export]
macro_rules! mutants {
    ($vis:vis when $tests:meta; $($(#[$doc:meta])* $mutant:ident,)*) => {
        /// A mistake that a test must find.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(not($tests), allow(dead_code, reason = "only tests make mistakes"))]
        #[non_exhaustive]
        $vis enum Mutant {
            $($(#[$doc])* $mutant,)*
        }

        impl Mutant {
            /// Every mistake.
            #[cfg_attr(not($tests), allow(dead_code, reason = "only tests make mistakes"))]
            $vis const ALL: &[Self] = &[$(Self::$mutant),*];

            /// Whether this run of a test is to make it: `STILLFRAME_MUTANT` names one, by default
            /// all are made.
            #[cfg($tests)]
            #[allow(dead_code, reason = "not every list is run through")]
            $vis fn is_chosen(self) -> bool {
                ::std::env::var("STILLFRAME_MUTANT").map_or(true, |it| it == format!("{self:?}"))
            }

            /// Whether this thread makes it now: for what has no room to keep a [`Mutation`].
            #[inline]
            #[allow(dead_code, reason = "not every list is asked in this way")]
            pub(crate) fn is_made(self) -> bool {
                Mutation::current().is(self)
            }
        }

        /// The mistake that a thing, once created, keeps making.
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct Mutation {
            #[cfg($tests)]
            made: Option<Mutant>,
        }

        #[cfg(not($tests))]
        impl Mutation {
            /// None.
            #[inline]
            pub(crate) const fn current() -> Self {
                Self {}
            }
            /// No.
            #[inline]
            pub(crate) const fn is(self, _: Mutant) -> bool {
                false
            }
        }

        #[cfg($tests)]
        ::std::thread_local! {
            static MADE: ::std::cell::Cell<Option<Mutant>> = const { ::std::cell::Cell::new(None) };
        }

        #[cfg($tests)]
        impl Mutation {
            /// What this thread is to make.
            pub(crate) fn current() -> Self {
                Self { made: MADE.get() }
            }
            /// Whether it is this one.
            pub(crate) fn is(self, mutant: Mutant) -> bool {
                self.made == Some(mutant)
            }
        }

        /// What `body` creates on this thread makes the mistake `mutant`.
        #[cfg($tests)]
        $vis fn with_mutant<R>(mutant: Mutant, body: impl FnOnce() -> R) -> R {
            struct Reset;
            impl Drop for Reset {
                fn drop(&mut self) {
                    MADE.set(None);
                }
            }
            MADE.set(Some(mutant));
            let _reset = Reset;
            body()
        }
    };
}

mutants! {
    pub when any(test, feature = "mutants");

    // -- naive, fork
    /// Naive: the copy is taken when the capture starts, not at begin.
    NaiveCopiesLate,
    /// Fork: the parent captures its own, live memory.
    ForkCapturesParent,
    // -- copy-on-update
    /// Copy-on-Update: the unit is copied after the new value was stored.
    CouSavesNewValue,
    /// Copy-on-Update: the capture decides by a look at the unit's state and takes no latch.
    CouSkipsLatch,
    /// Copy-on-Update: begin leaves the states of the image before.
    CouKeepsOldBits,
    /// Copy-on-Update: the latch is let go without Release.
    CouRelaxedRelease,
    /// Copy-on-Update: the number of an image in the state of a unit has sixteen bits.
    CouStampsWrap,

    // -- zigzag, piggyback
    /// Zigzag: the second copy of the state starts with whatever memory held.
    ZigzagSecondCopyUninitialised,
    /// Zigzag: begin negates nothing.
    ZigzagForgetsNegation,
    /// Zigzag: begin lets all targets change sides, those of units not written as well.
    ZigzagFlipsTargets,
    /// Two homes: a word of a larger unit is written into the other home alone.
    TwoHomesWritePart,
    /// Piggyback: a half that only `A[D]` has is copied with the other half of its word.
    PiggybackCopiesWord,
    /// Piggyback as printed: the copier sets the flag, then copies; nobody claims.
    PiggybackFlagThenCopy,
    /// Piggyback as published in C: the copier copies, then sets the flag; nobody claims.
    PiggybackCopyThenFlag,
    /// Piggyback: a unit is claimed before its new value is known, which a panic may prevent.
    PiggybackClaimsFirst,
    /// Piggyback: that a unit was copied is published without Release.
    PiggybackRelaxedCopied,
    /// Piggyback: an image that ends half-way leaves the other units uncopied.
    PiggybackForgetsRest,
    /// Piggyback: the units of a block that the sink declines are left uncopied.
    PiggybackForgetsDeclined,
    /// Piggyback: an image that ends half-way copies the other units after its end.
    PiggybackEndsBeforeRest,

    // -- ping-pong, hourglass
    /// Ping-Pong: the shadow being written is dumped (the authors' code).
    PingPongDumpsCurrent,
    /// Ping-Pong: the base image is flagged in `prev`, and not dumped before the first begin.
    PingPongFlagsBaseInPrevious,
    /// Ping-Pong: part of a unit is written into `cur`.
    PingPongWritesPartOfUnit,
    /// Hourglass: a read takes the array being written (the authors' code).
    HourglassReadsCurrent,
    /// Hourglass: the base image is flagged in `A1`, and not dumped before the first begin.
    HourglassFlagsBaseInOtherArray,
    /// Hourglass: part of a unit is written into `A[U]`.
    HourglassWritesPartOfUnit,
    /// Incremental images: flags are cleared while an image is dumped (the paper's listing).
    IncrementForgetsWhileDumping,
    /// Incremental images: a word of which one half changed is taken as if both had.
    IncrementTakesWholeWord,
    /// Incremental images, Copy: a block that the sink declines is not rolled forward.
    IncrementLeavesDeclined,
    /// Incremental images, Merge: the changes of a block that the sink declined are forgotten.
    IncrementForgetsDeclined,

    // -- models of page tables, userfaultfd
    /// On-Demand-Fork: a page is written that the image shares.
    OdfWritesSharedPage,
    /// On-Demand-Fork: a new page is entered in a table that the image shares.
    OdfWritesSharedTable,
    /// On-Demand-Fork: a page that the image holds is taken for the next copy.
    OdfReusesPages,
    /// Async-fork: a table is copied without being claimed.
    AsyncForkCopiesUnclaimed,
    /// Async-fork: the writer goes on though its table is being copied.
    AsyncForkDoesNotWait,
    /// Async-fork, as printed: a table is declared copied before its pages are marked.
    AsyncForkMarksLate,
    /// Async-fork: a table is declared copied without Release.
    AsyncForkRelaxedCopied,
    /// Async-fork: a new page is entered in a table that may be being copied.
    AsyncForkAddsToSharedTable,
    /// Claims: the number of an image in the state of an item has sixteen bits.
    ClaimsWrap,
    /// userfaultfd: a page is unprotected before it is saved.
    UserFaultUnprotectsFirst,
    /// userfaultfd: the capture takes the live page though it was saved.
    UserFaultIgnoresShadow,
    /// userfaultfd: a page counts as finished before it is unprotected.
    UserFaultFinishesFirst,
    /// userfaultfd: the handler has the image before its pages are protected.
    UserFaultAnswersEarly,

    // -- Valkey's shape
    /// Valkey's shape: a unit is cloned after the new value was stored.
    ValkeySavesAfterWrite,
    /// Valkey's shape: the walk takes live words where there is a clone.
    ValkeyForgetsClone,
    /// Valkey's shape: the walk puts blocks into places that the capture has not read.
    ValkeyOverrunsQueue,
    /// Valkey's shape: a block is handed over without Release.
    ValkeyRelaxedHandOver,
    /// Valkey's shape: the number of an image in the stamp of a unit has sixteen bits.
    ValkeyStampsWrap,

    // -- imprint
    /// Imprint: no before-image is kept.
    ImprintNeverLogs,
    /// Imprint: the Release fence of a batch comes before its records.
    ImprintFencesBeforeBatch,
    /// Imprint: a record of a batch is published before it is there.
    ImprintPublishesBatchEarly,
    /// Imprint: the new value is stored before the old one is logged.
    ImprintStoresBeforeLog,
    /// Imprint: no Release between an entry, the end of the log and the new value.
    ImprintNoReleaseFence,
    /// Imprint: no Acquire fence between the copied values and the end of the log.
    ImprintNoAcquireFence,
    /// Imprint: the end of the log is read before the block is copied.
    ImprintReadsEndFirst,
    /// Imprint: a block counts as captured before it is.
    ImprintPublishesCursorEarly,
    /// Imprint: a block is closed to the log before it is copied.
    ImprintClosesEarly,
    /// Imprint: the marks of an older image are taken for those of this image.
    ImprintKeepsMarks,
    /// Imprint: an entry of an older image is taken for one of this image.
    ImprintTrustsStaleHead,
    /// Imprint: a frame alone is taken for the image, without the records before it.
    ImprintFrameWithoutChain,
    /// Imprint: a frame is copied after the new value was stored.
    ImprintFrameAfterStore,
    /// Imprint: only the newest record of a block is put back.
    ImprintAppliesNewestOnly,
    /// Imprint: half a word is saved, as if a partial write needed no more.
    ImprintSavesHalfWord,
    /// Imprint: no Release fence between giving the image up and the first word not saved.
    ImprintNoFenceOnStop,
    /// Imprint: the image ends before the marks for the next one are cleared.
    ImprintEndsBeforeClear,
    /// Imprint: a writer that waits for room does not look for the stop.
    ImprintWaitsPastStop,
    /// Imprint, several images: an image is restored from the volume of its own begin alone.
    ImprintForgetsLaterVolumes,
    /// Imprint, several images: the newest value of a word wins, not the oldest.
    ImprintNewestVolumeWins,
    /// Imprint, several images: the end of a log is read before one looks for a later volume.
    ImprintLooksForVolumesLast,
    /// Imprint, several images: what one has captured is closed for those before it, too.
    ImprintClosesForOthers,
    /// Imprint, several images: when the newest has ended the writer saves nothing more.
    ImprintForgetsOlderImages,
    /// Imprint, several images: a volume that is merged takes over words that have entries, too.
    ImprintMergesAll,
    /// Imprint, several images: of a frame that is merged the words stay behind.
    ImprintMergesNoFrames,
    /// Imprint, several images: readers are led past a volume before it is merged.
    ImprintLeadsPastUnmerged,

    // -- the hand-over
    /// Hand-over: begin is published without Release.
    HandoverRelaxedBegin,
    /// Hand-over: the end of an image is published without Release.
    HandoverRelaxedDone,
    /// Hand-over: progress is published without Release.
    HandoverRelaxedCaptured,
    /// Hand-over: a new image may begin while the old one is held.
    HandoverIgnoresDone,
    /// Hand-over: begin leaves the progress of the image before.
    HandoverKeepsCaptured,
    /// Hand-over: a block counts as captured before the sink is done with it.
    HandoverAdvancesFirst,
    /// Hand-over: a capture goes on after the stop.
    HandoverForgetsStop,
    /// Hand-over: the wish to stop is looked at before a block is copied.
    HandoverChecksStopFirst,
    /// Hand-over: the wish to stop is looked at before a word asked for at random is found.
    HandoverGetChecksStopFirst,
    /// Hand-over: a failed capture leaves a writer waiting.
    HandoverFailsSilently,
    /// Hand-over: a late wish to stop an older image hides the wish for this one.
    HandoverLateCancelWins,
    /// Hand-over: a sink that panics leaves its image as if it were captured on.
    HandoverForgetsPanic,

    // -- the gate
    /// Gate: a reader looks whether it is open, and counts itself then.
    GateLooksBeforeItCounts,
    /// Gate: readers come in though it is shut.
    GateStaysOpen,
    /// Gate: it counts as empty when it is shut.
    GateForgetsReaders,
    /// Gate: the writer looks at the count without Acquire.
    GateEmptyRelaxed,
    /// Gate: a reader leaves without Release.
    GateLeavesRelaxed,
}
