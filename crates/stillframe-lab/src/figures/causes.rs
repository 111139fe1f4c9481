//! Why claims do not hold here, where we have examined them: where the reason lies, and the
//! experiment that decides. A claim that is missing here and does not hold was not
//! examined.

use super::{Claim, Figure};
use crate::report::{Cause, Origin};

/// Name of the figure, start of the claim, cause.
type Line = (&'static str, &'static str, Cause);

/// The cause of that claim, if it was examined.
pub(super) fn of(figure: &Figure, claim: &Claim) -> Option<Cause> {
    let is_meant = |line: &&Line| line.0 == figure.name && claim.text.starts_with(line.1);
    CAUSES.iter().find(is_meant).map(|line| line.2)
}

const fn cause(origin: Origin, why: &'static str, experiment: &'static str) -> Cause {
    Cause { origin, why, experiment }
}

/// Counted: what a write executes after the first touch of its unit; not what their lock costs.
const LOCK_FREE: &str = "counted (example one_write, page cou npp-merge): a write to a page \
                         written before executes 29 instructions in Copy-on-Update, a store in \
                         place 13; one of Ping-Pong 56 with flags of pages, 38 with flags of \
                         words. Their lock was not counted.";
/// Counted: what a first touch costs that copies its page.
const PAGE_COPIES: &str = "counted (example one_write, page bazz hourglass piggyback): a first \
                           write misses the first cache 11.6 to 11.8 times with units of pages, \
                           which it copies, and 2.0 times with units of words.";

/// Counted: what exponent 2 and uniform updates touch.
const TOUCHED: &str = "counted (lab cause touched, 1 GB): the 256,000 updates of a tick touch 680 \
                       pages by exponent 2 and 163,451, 62 % of all, when uniform; 5,590 lines \
                       against 254,058.";

const CAUSES: &[Line] = &[
    (
        "li-10",
        "NS is the lowest",
        cause(
            Origin::Substitution,
            "scaled, an image begins every 8 ticks, there every 100 or more: the copy of all \
             the state has a larger share in the mean tick.",
            "lab figure li-10 --full, which has their interval of 10 s.",
        ),
    ),
    (
        "li-10",
        "COU and Ping-Pong are",
        cause(
            Origin::Substitution,
            "their Copy-on-Update locks whenever it writes to a page, ours at the first touch \
             alone; their Ping-Pong flags pages, ours words.",
            LOCK_FREE,
        ),
    ),
    (
        "li-10",
        "Zigzag is low",
        cause(
            Origin::Paper,
            "their benchmark writes 4 bytes of a page that a flag describes and copies no page \
             (docs/errata.md, the unit rule), so that what a first write costs is in none of \
             their means.",
            PAGE_COPIES,
        ),
    ),
    (
        "li-10",
        "the order is the same",
        cause(
            Origin::Paper,
            "exponent 2 touches some 700 pages a tick, which stay in the cache; uniform \
             updates miss it in each array that an algorithm has.",
            TOUCHED,
        ),
    ),
    (
        "li-11",
        "nor has it under uniform",
        cause(
            Origin::Machine,
            "what 256k uniform updates cost depends on how much of the state the caches and \
             the TLB hold, for plain memory as well.",
            "the row 'none' of the same facet.",
        ),
    ),
    (
        "li-12",
        "NS, COU, Fork and Zigzag",
        cause(
            Origin::Substitution,
            "a twentieth of their state: clearing 2 bits a page (COU) or a word (Zigzag) takes \
             less than a tick of 256k updates; their own data show Zigzag's pause as short.",
            "lab figure ours-2, which shows begin alone by size, and lab figure li-12 --full.",
        ),
    ),
    (
        "li-12",
        "nor have they under uniform",
        cause(
            Origin::Paper,
            "no pause at begin, but a first touch of most units right after it, which exponent \
             2 hides.",
            TOUCHED,
        ),
    ),
    (
        "li-13",
        "the spikes of Fork",
        cause(
            Origin::Substitution,
            "a twentieth of their state, as in li-12.",
            "lab figure li-13 --full.",
        ),
    ),
    (
        "li-14",
        "Ping-Pong, Hourglass",
        cause(
            Origin::Substitution,
            "at 50 MB the updates of a tick take longer than most pauses, so that the worst \
             ticks cannot differ by orders of magnitude.",
            "lab figure ours-2 for begin alone, and lab figure li-14 --full.",
        ),
    ),
    (
        "li-14",
        "NS, COU, Fork and Zigzag grow",
        cause(
            Origin::Substitution,
            "the updates of a tick hide the shorter pauses at these sizes.",
            "lab figure ours-2 for begin alone.",
        ),
    ),
    (
        "li-15",
        "the worst tick of NS",
        cause(
            Origin::Substitution,
            "the worst tick holds its updates as well as the pause; at a twentieth of their \
             state 256k updates are the larger part.",
            "the column 'begin' of the same figure.",
        ),
    ),
    (
        "li-16",
        "Hourglass, Piggyback and Fork",
        cause(
            Origin::Paper,
            "their plotted means contradict their sentence that Fork is like NS, and their \
             first touches copy no pages (docs/errata.md).",
            PAGE_COPIES,
        ),
    ),
    (
        "li-16",
        "so it is under uniform",
        cause(
            Origin::Paper,
            "a first touch of most units costs more than one sequential copy of all of them; \
             exponent 2 hides it.",
            TOUCHED,
        ),
    ),
    (
        "li-17",
        "it is about equal",
        cause(
            Origin::Substitution,
            "there the disk takes most of an image's time and is the same for all; here \
             nothing but the algorithm's own reading is timed.",
            "lab compare --disk-rate 60MB/s, the rate of a disk of theirs.",
        ),
    ),
    (
        "li-18",
        "it does not depend",
        cause(
            Origin::Substitution,
            "without a disk the capture competes with the writer for memory, and loses more \
             when the writer writes more.",
            "lab compare --disk-rate 60MB/s, with --updates-per-tick 16k and 256k.",
        ),
    ),
    (
        "li-t2",
        "(*) the mean tick of COU",
        cause(
            Origin::Substitution,
            "one lock at the first touch of a page, and flags of words, as in li-10.",
            LOCK_FREE,
        ),
    ),
    (
        "cao-14",
        "large pages cut IPP",
        cause(
            Origin::Machine,
            "their processor of 2009 holds 512 translations of 4 KiB pages in its second TLB, \
             those of today three times as many or more.",
            "lab compare --algorithms ipp-merge --distribution objects:2000:0.5 with and \
             without --huge-pages, at 200MB and 1600MB.",
        ),
    ),
    ("cao-14", "they cut BAZZ", cause(Origin::Machine, "as for IPP.", "the same with bazz.")),
    (
        "async-fork-3",
        "more than 97",
        cause(
            Origin::Substitution,
            "making a process costs a constant time, which is a larger share at 300 MB than at \
             the gigabytes of the paper.",
            "lab figure async-fork-3 --full: the share grows with size.",
        ),
    ),
    (
        "async-fork-11",
        "Async-fork interrupts",
        cause(
            Origin::Substitution,
            "a thread of ours copies the tables and must be scheduled first; until it runs, \
             each write to another table interrupts.",
            "the panel 'how long' of the figure on a machine with an idle core, and --full.",
        ),
    ),
    (
        "sidlauskas-1",
        "copying uses",
        cause(
            Origin::Machine,
            "a store that misses reads its line first, so that a copy with plain stores moves \
             three bytes for two; and two cores may not fill the memory bus.",
            "the rates by number of threads in this figure, against the bandwidth of reading.",
        ),
    ),
    (
        "sidlauskas-2",
        "virtual snapshots on",
        cause(
            Origin::Machine,
            "fewer cores copy more slowly than their eight contexts, and fork's begin does not \
             grow with fewer cores.",
            "lab figure sidlauskas-1: the copy rate by number of threads.",
        ),
    ),
    (
        "sidlauskas-2",
        "huge pages improve",
        cause(
            Origin::Kernel,
            "without free pages of 2 MiB the kernel gives pages of 4 KiB, of which fork copies \
             all entries.",
            "lab cause huge-pages, which counts the pages of 2 MiB that the kernel gives.",
        ),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures;

    #[test]
    fn each_cause_is_that_of_one_claim() {
        for (name, start, _) in CAUSES {
            let figure = figures::find(name).expect("a figure");
            let meant = figure.claims.iter().filter(|claim| claim.text.starts_with(start));
            assert_eq!(meant.count(), 1, "{name}: {start}");
        }
    }
}
