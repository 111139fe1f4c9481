//! Deliberate mistakes, compiled for tests alone: the tests must find each one.

stillframe::mutants! { pub when any(test, feature = "mutants");
    /// A member stands for election and asks nobody whether there is a leader.
    StandsUnasked,
    /// A member that led when it ended goes on in the same term.
    KeepsItsLead,
    /// A member agrees to an election though it hears its leader.
    DeniesLeader,
    /// A member agrees to the election of another that has less.
    AgreesToLess,
    /// Every election has the same time, however many nobody has won.
    NeverSlowsDown,
    /// A leader that hears of nobody goes on as if it did.
    ForgetsMajority,
    /// An image in the middle of a unit names the parts that were applied, and has none of them.
    LabelsParts,
    /// What the log binds members to is passed over.
    ForgetsBindings,
    /// An image does not say to what members are bound.
    LabelsNoBindings,
    /// Most members of one of two sets of voters are enough.
    CountsOneSet,
}
