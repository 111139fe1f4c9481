//! What tests of several crates share: the programs that they use or compare this project with,
//! each of which may be missing by itself; transcripts of redis-server; random requests by seed;
//! damaged texts; examples as programs; a watchdog for tests that may hang.
//!
//! - A test asks for all its peers before it uses one, and passes where one is missing. A line on
//!   standard error names each missing one, past the capture of the test harness, which shows a
//!   skipped test as passed.
//! - Every machine has a shell and the tools of POSIX. Every other program is a peer.
//! - `scripts/test-without-peers.sh` runs these tests without all peers, or without one at a time.
#![forbid(unsafe_code)]

mod damage;
pub mod list;
mod random;
pub mod reply;
pub mod requests;
pub mod scanning;
pub mod transcript;
mod watchdog;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub use damage::damaged;
pub use random::{Random, rounds};
pub use watchdog::Watchdog;

/// A program that is not part of this project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// `redis-server`, which is Redis's Sentinel, too.
    RedisServer,
    /// Redis 7.2, whose files have version 11.
    Redis72,
    /// Redis 7.4, whose files have version 12.
    Redis74,
    /// Redis 8.0.
    Redis8,
    /// Redis 8.2.
    Redis82,
    /// Redis 8.6, which knows messages of producers.
    Redis86,
    /// Redis 8.10, whose streams have entries that are pending for nobody.
    Redis810,
    /// Valkey 8, whose files are those of Redis 7.2.
    Valkey8,
    /// Valkey 9, whose files begin with another word.
    Valkey,
    /// `redis-cli`.
    RedisCli,
    /// `redis-benchmark`.
    RedisBenchmark,
    /// `redis-check-rdb`.
    RedisCheckRdb,
    /// Python with redis-py.
    RedisPy,
    /// Debian's configuration of redis-server.
    RedisConf,
    /// `openssl`.
    Openssl,
    /// `strace`.
    Strace,
    /// VersityGW, a server of S3 over a directory.
    Versitygw,
    /// Azurite, Microsoft's server of Azure's blobs.
    Azurite,
}

/// Where Debian keeps the configuration of redis-server.
pub const REDIS_CONF: &str = "/etc/redis/redis.conf";

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Self::RedisServer => "redis-server",
            Self::Redis72 => "redis-7.2-server",
            Self::Redis74 => "redis-7.4-server",
            Self::Redis8 => "redis-8-server",
            Self::Redis82 => "redis-8.2-server",
            Self::Redis86 => "redis-8.6-server",
            Self::Redis810 => "redis-8.10-server",
            Self::Valkey8 => "valkey-8-server",
            Self::Valkey => "valkey-server",
            Self::RedisCli => "redis-cli",
            Self::RedisBenchmark => "redis-benchmark",
            Self::RedisCheckRdb => "redis-check-rdb",
            Self::RedisPy => "redis-py",
            Self::RedisConf => REDIS_CONF,
            Self::Openssl => "openssl",
            Self::Strace => "strace",
            Self::Versitygw => "versitygw",
            Self::Azurite => "azurite",
        }
    }

    /// A server where `scripts/install-peers.sh` puts it, else the one in `PATH`.
    #[must_use]
    pub fn program(self) -> String {
        installed(self.name(), self.name())
    }

    fn is_here(self) -> bool {
        match self {
            Self::RedisPy => succeeds(&python(), &["-c", "import redis"]) == Some(true),
            Self::RedisConf => std::fs::File::open(conf()).is_ok(),
            Self::Openssl => succeeds(self.name(), &["version"]).is_some(),
            Self::Redis72
            | Self::Redis74
            | Self::Redis8
            | Self::Redis82
            | Self::Redis86
            | Self::Redis810
            | Self::Valkey8
            | Self::Valkey => succeeds(&self.program(), &["--version"]) == Some(true),
            Self::Versitygw => succeeds(&versitygw(), &["--version"]) == Some(true),
            Self::Azurite => succeeds(&azurite(), &["--version"]) == Some(true),
            // An old redis-check-rdb takes the flag for a file: its exit status means nothing.
            _ => succeeds(self.name(), &["--version"]).is_some(),
        }
    }
}

/// Whether a program succeeds; `None` if it does not start.
fn succeeds(program: &str, arguments: &[&str]) -> Option<bool> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().ok().map(|status| status.success())
}

/// The Python that redis-py belongs to: Debian's own, by its path, since another may stand before
/// it in `PATH`. `STILLFRAME_PYTHON` names another.
#[must_use]
pub fn python() -> String {
    std::env::var("STILLFRAME_PYTHON").unwrap_or_else(|_| "/usr/bin/python3".to_owned())
}

/// Debian's configuration of redis-server. `STILLFRAME_REDIS_CONF` names another.
#[must_use]
pub fn conf() -> String {
    std::env::var("STILLFRAME_REDIS_CONF").unwrap_or_else(|_| REDIS_CONF.to_owned())
}

/// VersityGW where `scripts/install-peers.sh` puts it, else the one in `PATH`.
#[must_use]
pub fn versitygw() -> String {
    installed("versitygw", "versitygw")
}

/// Azurite's server of blobs, from the same place.
#[must_use]
pub fn azurite() -> String {
    installed("azurite/node_modules/.bin/azurite-blob", "azurite-blob")
}

/// A program below the folder of `scripts/install-peers.sh`, else the one of this name in `PATH`.
fn installed(below: &str, name: &str) -> String {
    let folder = |name, below: &str| Some(PathBuf::from(std::env::var_os(name)?).join(below));
    let cache = folder("XDG_CACHE_HOME", "").or_else(|| folder("HOME", ".cache"));
    let ours = cache.map(|it| it.join("stillframe").join(below)).filter(|it| it.exists());
    ours.map_or_else(|| name.to_owned(), |path| path.display().to_string())
}

/// Whether all of `peers` are there; if not, prints loudly which ones `test` lacks.
#[must_use]
pub fn are_here(test: &str, peers: &[Peer]) -> bool {
    let missing: Vec<&str> =
        peers.iter().filter(|peer| !peer.is_here()).map(|peer| peer.name()).collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        skipped(test, &format!("this machine lacks {missing}; run scripts/install-peers.sh"));
    }
    missing.is_empty()
}

/// An example of the package that is tested, as a program beside its tests.
///
/// # Panics
/// If it was not built.
#[must_use]
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this program has a path");
    let target = test.ancestors().nth(2).expect("tests lie in target/*/deps");
    let path = target.join("examples").join(name);
    assert!(path.exists(), "build it first: cargo build --example {name}");
    path
}

/// Prints loudly, in one line, that `test` proves nothing, or less, on this machine.
pub fn skipped(test: &str, why: &str) {
    // In one write, past the test harness, which would swallow it.
    let line = format!("\nSKIPPED: {test}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes()); // nobody would read the failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_differs_from_one_that_fails() {
        assert_eq!(succeeds("/nonexistent/program", &[]), None);
        assert_eq!(succeeds("sh", &["-c", "exit 1"]), Some(false));
        assert_eq!(succeeds("sh", &["-c", "exit 0"]), Some(true));
    }
}
