//! Deliberate mistakes with arrays; `model::arrays` must find each.

stillframe::mutants! {
    pub(crate) when test;

    /// The place of the last insertion outlives the last element.
    PlaceStays,
    /// An array that has no element takes a place of an insertion.
    PlaceAlone,
    /// The place of the last insertion counts as an element.
    PlaceCounts,
    /// An element to replace is sought by its new value, too.
    SeeksByValue,
}
