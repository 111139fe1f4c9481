//! What one pass over the repository found.

/// What one pass found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) files: usize,
    pub(crate) faults: Vec<String>,
    pub(crate) notes: Vec<String>,
}
