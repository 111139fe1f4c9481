//! Deliberate mistakes with the deadlines of fields; `model::deadlines` must find each.

stillframe::mutants! {
    pub(crate) when test;

    /// A node split off knows of no deadline.
    SplitForgets,
    /// Of two nodes that are merged, only the deadline of the left one counts.
    MergeForgets,
    /// A deadline that is gone from a leaf stays noted above it.
    KeepsWhatIsGone,
    /// The greatest deadline that is gone from a leaf stays noted above it.
    KeepsLatest,
    /// A node counts as due if one of its elements is.
    CountsWhole,
    /// A walk over what is shown leaves out a node of which one element is due.
    SkipsMixed,
    /// A value put over one with a deadline keeps it.
    SetKeepsDeadline,
}
