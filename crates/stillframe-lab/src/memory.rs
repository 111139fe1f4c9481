//! Memory of this process and its descendants, as proportional set size: a page that several
//! processes share counts in parts, so that a forked child is not counted twice.
//!
//! Reading it holds up page faults of the process for milliseconds. So no timed tick ever sees it:
//! after the timed ticks the load goes on for one more image, at 50, 90 and 99 % of which the sum
//! is taken. What the process held before the algorithm was made (buffers, digests, what a
//! discarding sink keeps for incremental images) is subtracted.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use stillframe::Progress;

/// Bytes of this process and its descendants; 0 where the kernel does not tell.
pub(crate) fn proportional_bytes() -> u64 {
    of_process("self") + descendants("self").iter().map(|pid| of_process(pid)).sum::<u64>()
}

fn of_process(pid: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    field_bytes(&text, "Pss:")
}

/// A line such as `Pss:    123 kB`.
pub(crate) fn field_bytes(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let kibibytes = line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
    kibibytes.unwrap_or_default().saturating_mul(1024)
}

fn descendants(pid: &str) -> Vec<String> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let children = tasks.flatten().flat_map(|task| {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    });
    children.flat_map(|child| [descendants(&child), vec![child]].concat()).collect()
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
        assert_eq!(field_bytes("Rss: 1 kB\nPss:       12 kB\n", "Pss:"), 12 << 10);
        assert_eq!(field_bytes("", "Pss:"), 0);
        let before = proportional_bytes();
        let kept = vec![1_u8; 64 << 20];
        let after = proportional_bytes();
        assert!(after >= before + (60 << 20), "{before} before, {after} after {}", kept.len());
    }
}
