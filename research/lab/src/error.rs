//! Errors around the runs; the record of a run has the errors in it.

use std::io;

/// The rounds could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The system gave no process for a round.
    #[error("starting a process for a round failed: {0}")]
    Spawn(#[from] io::Error),
    /// Ctrl-C; the finished records have been handed over.
    #[error("interrupted; finished rounds are kept")]
    Interrupted,
}

/// An error in one sentence: each context, then its cause. A cause that an error of ours has in its
/// own text is not told again.
#[must_use]
pub fn sentence(error: &anyhow::Error) -> String {
    let parts = error.chain().map(ToString::to_string);
    let whole = parts.reduce(|told, cause| match told.contains(&cause) {
        true => told,
        false => format!("{told}: {cause}"),
    });
    whole.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_tells_each_cause_once() {
        let spawn = LabError::from(io::Error::other("no memory"));
        let error = anyhow::Error::from(spawn).context("li-10");
        let told = "li-10: starting a process for a round failed: no memory";
        assert_eq!(sentence(&error), told);
    }
}
