//! How willing the system is to kill this process when memory is short (`oom-score-adj`).
//!
//! The score is that of the role: a replica is worth less than a primary, so that it dies first. A
//! forked child of `--snapshot fork` keeps its parent's.

use std::io;

use super::ServerState;
use crate::config::{Config, OomScore};
use crate::process;

/// What the system takes.
const SCORES: std::ops::RangeInclusive<i32> = -1000..=1000;

impl ServerState {
    /// Sets the score as `config` says for the server's role, or back to what it was before.
    pub(crate) fn set_oom_score(&mut self, config: &Config) -> io::Result<()> {
        let running = &config.process;
        let [primary, replica, _] = running.oom_scores;
        let own = if self.replication.is_replica() { replica } else { primary };
        if running.oom_score == OomScore::Kept {
            let Some(before) = self.oom_score_before.take() else { return Ok(()) };
            return process::set_oom_score(before);
        }
        let before = match self.oom_score_before {
            Some(before) => before,
            None => *self.oom_score_before.insert(process::oom_score()?),
        };
        let score = if running.oom_score == OomScore::Relative { before + own } else { own };
        process::set_oom_score(score.clamp(*SCORES.start(), *SCORES.end()))
    }

    /// As [`set_oom_score`](Self::set_oom_score), as the configuration in force says: at the start,
    /// and when the role has changed. It is not worth failing for.
    pub(crate) fn tend_oom_score(&mut self) {
        let config = std::mem::take(&mut self.config);
        if let Err(error) = self.set_oom_score(&config) {
            tracing::warn!("the OOM score stays as it is (oom-score-adj): {error}");
        }
        self.config = config;
    }
}
