//! The plan of a hunt, and whether it can be run.

use std::path::PathBuf;
use std::time::Duration;

use stillframe_measure::target;

/// One hunt.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Host and port.
    pub target: String,
    /// Name of an ACL user.
    pub user: Option<String>,
    /// Its password, or the server's.
    pub password: Option<String>,
    /// Images to judge.
    pub images: u64,
    /// When to stop before all images are judged.
    pub time: Option<Duration>,
    /// The dump file that BGSAVE writes; `None`: images come by full syncs.
    pub dump: Option<PathBuf>,
    /// Connections that write.
    pub writers: usize,
    /// Strings of all writers; of each other type there is a tenth.
    pub keys: u64,
    /// Seed of the transactions.
    pub seed: u64,
    /// How long to wait for a reply, or for an image as a whole.
    pub patience: Duration,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            target: "127.0.0.1:6379".to_owned(),
            user: None,
            password: None,
            images: 20,
            time: None,
            dump: None,
            writers: 2,
            keys: 20_000,
            seed: 1,
            patience: Duration::from_secs(60),
        }
    }
}

impl Plan {
    /// Whether this can be run.
    ///
    /// # Errors
    /// One sentence that names the flag, what is wrong with it, and what to do.
    pub fn check(&self) -> Result<(), String> {
        target::host(&self.target)?;
        let limits = [
            ("images", self.images, 1_000_000),
            ("writers", self.writers as u64, 64),
            ("keys", self.keys, 10_000_000),
        ];
        for (flag, value, most) in limits {
            if value == 0 || value > most {
                return Err(format!("--{flag} {value}: give a number from 1 to {most}"));
            }
        }
        if self.keys < 10 * self.writers as u64 {
            return Err(format!(
                "--keys {} leaves a writer without keys: give 10 for each writer or more",
                self.keys
            ));
        }
        if self.patience.is_zero() {
            return Err("--patience 0: give a time such as 10s".to_owned());
        }
        if self.user.is_some() && self.password.is_none() {
            return Err("--user needs --password as well".to_owned());
        }
        Ok(())
    }
}
