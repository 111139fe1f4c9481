//! What every test here needs: servers as child processes, a raw client, seeds, datasets.

pub(crate) mod beside;
mod client;
pub(crate) mod dataset;
pub(crate) mod directories;
mod disk;
pub(crate) mod machine;
mod server;
mod stop;

pub(crate) use client::Client;
pub(crate) use disk::Disk;
pub(crate) use server::{Kind, Server, Setup, output_of, stillframe};
pub(crate) use stillframe_measure::own_port;
pub(crate) use stillframe_peers::reply::{Reply, decode, encode};
pub(crate) use stillframe_peers::{Peer, Random, are_here, python, rounds, skipped};
pub(crate) use stop::{Stop, at_the_end};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The algorithms of our own and of plain Redis and its like.
pub(crate) const ALGORITHMS: [&str; 3] = ["imprint", "fork", "naive"];
/// Those of the papers, by the names of their families.
pub(crate) const PUBLISHED: [&str; 5] =
    ["hourglass", "piggyback", "zigzag", "ping-pong", "copy-on-update"];

/// Whether Redis's own server is installed; if not, prints that loudly.
pub(crate) fn redis_is_here(test: &str) -> bool {
    are_here(test, &[Peer::RedisServer])
}

/// Sends a signal to a process.
pub(crate) fn send_signal(process: u32, signal: Signal) {
    let process = Pid::from_raw(process.cast_signed()).expect("not zero");
    kill_process(process, signal).expect("it is there");
}

/// Lets a process write files of so many bytes at most.
pub(crate) fn limit_file_size(process: u32, bytes: Option<u64>) {
    let process = Pid::from_raw(process.cast_signed());
    let limit = Rlimit { current: bytes, maximum: None };
    prlimit(process, Resource::Fsize, limit).expect("a limit may be set");
}

/// Now, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    i64::try_from(now.as_millis()).expect("milliseconds of this age fit")
}

/// A busy machine may take long, a broken server for ever.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Polls `condition` until it holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited 120 s in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
