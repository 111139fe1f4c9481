//! The figures of the papers that the lab runs again.

/// A figure as `lab list` shows it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Listing {
    /// Name on the command line.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Paper and number.
    pub source: &'static str,
}

/// Every figure.
#[must_use]
pub fn list() -> Vec<Listing> {
    Vec::new()
}
