//! Mistakes of a checker, each of which the tests must find.

stillframe::mutants! {
    pub(crate) when test;
    /// A transaction is checked with the keys of its first command alone.
    SplitsTransactions,
    /// A call whose reply was lost is taken for one that had no effect.
    UnknownNeverHappens,
    /// A call that failed is taken for one that may have had its effect.
    FailedMayHappen,
    /// A call may take effect before it is invoked.
    TakesEffectBeforeItsInvocation,
    /// A call takes effect before every call that comes back later.
    OrdersByReturns,
    /// Of two ways to one state, the one that has used up more lost calls may be kept.
    KeepsAnyWay,
    /// The order of a list's elements is taken from its last read, not from its longest.
    GuidedByTheLastRead,
    /// The reply of a compare-and-set that failed is not looked at.
    TrustsSwaps,
    /// A lost write is left out although a read shows its value.
    LeavesOutWhatWasSeen,
    /// What a call overwrites does not precede it.
    ForgetsWhatIsOverwritten,
    /// What a call shows does not precede it.
    ForgetsWhatIsSeen,
    /// A read does not precede what it does not show.
    ForgetsWhatIsMissed,
    /// A call that came back does not precede those invoked later.
    ForgetsTheTime,
    /// A call precedes all that come back later, in the search for circles.
    OrdersWhatOverlaps,
    /// A lost call is in no circle, though another shows what it wrote.
    LeavesOutLostThatShow,
    /// Whether two calls show one element at one place of a list is not looked at.
    TrustsPlaces,
    /// Whether the commands of a transaction agree is not looked at.
    TrustsTransactions,
}
