//! Facts of this process and machine from `/proc`, and the process's settings there.
//!
//! Figures for INFO: one that cannot be read is 0.

use std::time::Duration;
use std::{fs, io};

use rustix::time::{ClockId, clock_gettime};

/// Memory of the machine, in bytes.
pub(crate) fn machine_memory_bytes() -> u64 {
    labelled("/proc/meminfo", "MemTotal:")
}

/// Memory of this process: in use now, and the most so far, in bytes.
pub(crate) fn resident_bytes() -> (u64, u64) {
    (labelled("/proc/self/status", "VmRSS:"), labelled("/proc/self/status", "VmHWM:"))
}

/// A line `Label:  123 kB`, in bytes.
fn labelled(path: &str, label: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(label)).unwrap_or_default();
    let kilobytes = line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
    kilobytes.unwrap_or(0).saturating_mul(1024)
}

/// Processor time in seconds: of this process in user and kernel mode, then of its ended children.
pub(crate) fn cpu_seconds() -> [f64; 4] {
    cpu_seconds_in("/proc/self/stat")
}

/// Processor time of this process, exactly.
pub(crate) fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// As [`cpu_seconds`], of the calling thread.
pub(crate) fn thread_cpu_seconds() -> [f64; 4] {
    cpu_seconds_in("/proc/thread-self/stat")
}

fn cpu_seconds_in(path: &str) -> [f64; 4] {
    const TICKS_PER_SECOND: f64 = 100.0; // USER_HZ, the same on every Linux
    let text = fs::read_to_string(path).unwrap_or_default();
    // The name of the process, in brackets, may hold blanks; the numbers are behind it.
    let numbers: Vec<&str> =
        text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let seconds = |index: usize| {
        let ticks = numbers.get(index).and_then(|number| number.parse::<f64>().ok());
        ticks.unwrap_or(0.0) / TICKS_PER_SECOND
    };
    [seconds(11), seconds(12), seconds(13), seconds(14)]
}

const OOM_SCORE: &str = "/proc/self/oom_score_adj";

/// How likely the system kills this process when memory is short, relative to others.
pub(crate) fn oom_score() -> io::Result<i32> {
    let text = fs::read_to_string(OOM_SCORE)?;
    text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// See [`oom_score`]. Lowering it takes a capability (CAP_SYS_RESOURCE).
pub(crate) fn set_oom_score(score: i32) -> io::Result<()> {
    fs::write(OOM_SCORE, score.to_string())
}

/// The operating system as INFO shows it.
pub(crate) fn system_name() -> String {
    let name = rustix::system::uname();
    format!(
        "{} {} {}",
        name.sysname().to_string_lossy(),
        name.release().to_string_lossy(),
        name.machine().to_string_lossy()
    )
}

/// Descriptors the server needs beside those of its clients.
const OTHER_DESCRIPTORS: u64 = 32;

/// Raises the limit of descriptors for so many connections; returns how many fit.
pub(crate) fn room_for_clients(maxclients: u32) -> u32 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let wanted = u64::from(maxclients) + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return maxclients;
    }
    let current = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let raised = Rlimit { current: Some(current), maximum: limit.maximum };
    if setrlimit(Resource::Nofile, raised).is_ok() && current == wanted {
        return maxclients;
    }
    let room = getrlimit(Resource::Nofile).current.unwrap_or(wanted);
    u32::try_from(room.saturating_sub(OTHER_DESCRIPTORS).max(1)).unwrap_or(u32::MAX)
}
