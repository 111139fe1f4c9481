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
    /// What takes the place of a removed record of a list is not moved there.
    ListForgetsToMove,
    /// A list that is truncated to more than it has grows.
    TruncateGrows,
    /// A record that is removed from a table counts as there.
    TableCountsRemoved,
    /// A slot that is used again stays free.
    TableKeepsSlotFree,
    /// A key that had a value before is said to have had the new one.
    MapReturnsNew,
    /// An entry that is moved back leaves the last word of its value.
    MapMovesShort,
    /// The last word of a record that does not fill it is not written.
    RecordsEndEarly,
    /// The size of a block is rounded down.
    BlocksRoundDown,
    /// Removed strings count as bytes that are there.
    SlabCountsRemoved,
    /// A state that grows for a block forgets where the last one ends.
    BlocksForgetEnd,
    /// Of an image that is lost words of odd numbers are read as if they were there.
    LossIsEven,
    /// Of the words of a record that an update changes the first alone is written.
    UpdateWritesOneWord,
    /// A string gives its block back as it is.
    SlabGivesBackUncleared,
    /// What was a string's block becomes any place's.
    SlabSharesItsBlocks,
    /// A new string gets the tag of the one before it.
    SlabKeepsTag,
}
