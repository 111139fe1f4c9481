//! The mistakes that the tests of this crate must find.

stillframe::mutants! { pub when test;
    /// Keys expire by the time of the machine.
    ExpiresByOwnClock,
    /// The time of a command counts though it lies before that of an earlier one.
    TimeGoesBack,
    /// What is random goes by the machine.
    OwnRandomness,
    /// What is chosen at random depends on where members lie in memory.
    ChoosesByPlace,
    /// An image does not say what time it is.
    ForgetsTime,
    /// An image has the notes of the one before.
    NotesLate,
    /// An image gets its name though its bytes are not on the disk.
    NamesUnsynced,
}
