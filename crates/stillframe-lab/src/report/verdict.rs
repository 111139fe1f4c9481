//! Verdicts on claims.

/// A claim of a paper and what came of it here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The claim, in our words.
    pub claim: String,
    /// What came of it.
    pub outcome: Outcome,
    /// The ratio or numbers that decided.
    pub measured: String,
}

/// What came of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Measured here, too.
    Confirmed,
    /// Measured otherwise.
    Refuted,
    /// Nothing to judge by, and why.
    Untested(String),
}

impl Outcome {
    /// In words.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Confirmed => "held",
            Self::Refuted => "not held",
            Self::Untested(_) => "cannot be tested here",
        }
    }
    /// A sign that does not need colour.
    #[must_use]
    pub fn sign(&self) -> &'static str {
        match self {
            Self::Confirmed => "✓",
            Self::Refuted => "✗",
            Self::Untested(_) => "–",
        }
    }
    /// Class in the style sheet.
    #[must_use]
    pub(super) fn class(&self) -> &'static str {
        match self {
            Self::Confirmed => "held",
            Self::Refuted => "fell",
            Self::Untested(_) => "open",
        }
    }
}
