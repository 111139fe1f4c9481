//! Huge pages are really there when they are asked for, if the machine gives any.

use stillframe::algorithms::{fork_huge::ForkHuge, naive::Naive};
use stillframe::{Algorithm, Options};

/// 64 MiB of state.
const WORDS: usize = 8 << 20;

/// KiB of this process in anonymous huge pages.
fn huge_kib() -> u64 {
    let smaps = std::fs::read_to_string("/proc/self/smaps").expect("Linux lists each mapping");
    let sizes = smaps.lines().filter_map(|line| line.strip_prefix("AnonHugePages:"));
    sizes.map(|size| size.trim().trim_end_matches(" kB").parse::<u64>().expect("a size")).sum()
}

/// One test, since it looks at the whole process.
#[test]
fn a_prefaulted_state_lies_in_huge_pages() {
    let before = huge_kib();
    let small = Naive::create(&Options::words(WORDS).prefault(true)).expect("memory");
    let without = huge_kib();
    drop(small);
    let huge = ForkHuge::create(&Options::words(WORDS).prefault(true)).expect("memory");
    let with = huge_kib() - before;
    drop(huge);
    let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    if with == 0 || enabled.is_ok_and(|text| text.contains("[always]") || text.contains("[never]"))
    {
        return stillframe_peers::skipped(
            "a_prefaulted_state_lies_in_huge_pages",
            "this machine gives no huge pages, or gives them unasked",
        );
    }
    assert_eq!(without, before, "huge pages that nobody asked for");
    // A machine short of whole 2 MiB may leave some of it in small ones.
    assert!(with * 1024 >= WORDS as u64 * 8 / 2, "{with} KiB of huge pages");
}
