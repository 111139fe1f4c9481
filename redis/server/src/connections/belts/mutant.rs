//! The mistakes in the hand-over, each of which the models must find.

stillframe::mutants! { pub when feature = "loom";
    /// A thread looks for work before all can see that it lies.
    LooksBeforeItLies,
    /// The one who hands over may miss that the other side lies.
    RingsWithoutFence,
    /// The one who makes room does not ring for a batch that was stuck.
    TellsNobodyOfRoom,
    /// A batch that finds no room is lost.
    DropsWhatIsStuck,
}
