//! Memory of this process and its descendants, as proportional set size: a page that several
//! processes share counts in parts, so that a forked child is not counted twice.
//!
//! Reading that sum holds up page faults of the process for milliseconds. So no timed tick sees it:
//! after the timed ticks the load goes on for one more image, and the sum is taken at 50, 90 and
//! 99 % of that image. What the process held before the algorithm was made (buffers, digests, what
//! a discarding sink keeps for incremental images) is subtracted.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use stillframe::Progress;
use stillframe_measure::environment::field_bytes;

/// Bytes of this process and its descendants; 0 where the kernel does not say.
pub(crate) fn proportional_bytes() -> u64 {
    of_tree("self")
}

/// The same for the process with that id.
pub(crate) fn tree_bytes(pid: u32) -> u64 {
    of_tree(&pid.to_string())
}

fn of_tree(pid: &str) -> u64 {
    of_process(pid) + descendants(pid).iter().map(|pid| of_process(pid)).sum::<u64>()
}

fn of_process(pid: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    field_bytes(&text, "Pss:")
}

fn descendants(pid: &str) -> Vec<String> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let children = tasks.flatten().flat_map(|task| {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    });
    children.flat_map(|child| [descendants(&child), vec![child]].concat()).collect()
}

/// Memory available without swapping, within the limit of a control group.
pub(crate) fn available_bytes() -> u64 {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let machine = field_bytes(&read("/proc/meminfo"), "MemAvailable:");
    let number = |name: &str| read(&format!("/sys/fs/cgroup/{name}")).trim().parse::<u64>().ok();
    match (number("memory.max"), number("memory.current")) {
        (Some(most), Some(used)) => machine.min(most.saturating_sub(used)),
        _ => machine,
    }
}

/// Takes the most that is seen at 50, 90 and 99 % of the images under way, until `stop`.
pub(crate) fn watch(progress: &Progress, stop: &AtomicBool) -> u64 {
    stillframe::os::lower_priority();
    let mut peak = 0;
    let mut marks = [50, 90, 99].into_iter().peekable();
    while !stop.load(Ordering::Acquire) {
        let share = progress.captured_words() * 100 / progress.total_words().max(1);
        match marks.peek() {
            Some(mark) if progress.running() && share >= *mark => {
                peak = peak.max(proportional_bytes());
                marks.next();
            }
            Some(_) => thread::sleep(Duration::from_millis(1)),
            None => break,
        }
    }
    peak
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_touched_counts() {
        assert!(available_bytes() > 0);
        let before = proportional_bytes();
        let kept = vec![1_u8; 64 << 20];
        // Tests beside this one fork: a child that ends between two readings takes its share of
        // these pages along.
        let readings = (0..1000).map(|_| proportional_bytes());
        let after = readings.take_while(|&bytes| bytes < before + (60 << 20)).count();
        assert!(after < 1000, "{before} before, never so much after {}", kept.len());
    }
}
