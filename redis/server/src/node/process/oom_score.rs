//! How willing the system is to kill this process when memory is short (`oom-score-adj`).
//!
//! The score follows the role: a replica dies before a primary. A forked child of `--snapshot fork`
//! keeps its parent's.

use std::io;

use crate::node::config::{Config, OomScore};
use crate::node::machine;

/// The range that the system accepts.
const SCORES: std::ops::RangeInclusive<i32> = -1000..=1000;

/// The state of the score.
#[derive(Default)]
pub(super) struct OomScores {
    /// The score before the first change, if any.
    before: Option<i32>,
}

impl OomScores {
    /// Sets the score as `config` says for the server's role, or restores the original.
    pub(super) fn set(&mut self, config: &Config, is_replica: bool) -> io::Result<()> {
        let settings = &config.process;
        let [primary, replica, _] = settings.oom_scores;
        let own = if is_replica { replica } else { primary };
        if settings.oom_score == OomScore::Kept {
            let Some(before) = self.before.take() else { return Ok(()) };
            return machine::set_oom_score(before);
        }
        let before = match self.before {
            Some(before) => before,
            None => *self.before.insert(machine::oom_score()?),
        };
        let score = if settings.oom_score == OomScore::Relative { before + own } else { own };
        machine::set_oom_score(score.clamp(*SCORES.start(), *SCORES.end()))
    }
}
