//! The findings of one pass over the repository.

/// The findings of one pass.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) files: usize,
    pub(crate) faults: Vec<String>,
    pub(crate) notes: Vec<String>,
}
