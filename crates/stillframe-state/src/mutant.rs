//! Deliberate mistakes, compiled for tests alone: the random tests must find each one.

stillframe::mutants! {
    pub(crate) when test;

    /// The slot of a record that is gone names the record that has its place now.
    SlotKeepsGeneration,
    /// A free slot that is the last one of its chain links to itself, as if it were in use.
    SlotEndsInItself,
    /// A key is looked for in the new table of a map alone while the old one is moved there.
    MapForgetsOldTable,
    /// A removed entry leaves a hole, and the entries behind it are not found.
    MapLeavesHoles,
    /// A map gives its old table back before that is cleared.
    MapGivesBackUncleared,
    /// A string gives its block back as it is.
    SlabGivesBackUncleared,
    /// A new string gets the tag of the one before it.
    SlabKeepsTag,
}
