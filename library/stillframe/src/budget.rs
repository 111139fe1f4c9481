//! The memory that images may take, and what happens when it is used up.

/// What `budget` comes to for an image of `words` words, in bytes.
pub(crate) fn budget_for(budget: Option<usize>, words: usize) -> usize {
    budget.unwrap_or_else(|| (words / BUDGET_PART).saturating_mul(8).max(BUDGET_BYTES))
}

/// The part of the state that the default budget is.
const BUDGET_PART: usize = 4;
/// What it is at least; the model checkers make every word of it by hand.
const BUDGET_BYTES: usize =
    if cfg!(any(miri, feature = "loom", feature = "shuttle")) { 1 << 10 } else { 64 << 20 };

/// What happens when images have used up their budget. Of several, the oldest one is meant: what
/// the others need is part of what it needs, but for what was written since they began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFull {
    /// The writer waits for the capture to pass the block it must write. Another thread must be
    /// capturing the image, or the writer waits for ever.
    Slow,
    /// The image is cancelled with [`CaptureError::OverBudget`](crate::CaptureError::OverBudget);
    /// the writer goes on at once.
    Cancel,
}
