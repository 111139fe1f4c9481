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
                         place 13; one of Ping-Pong 47 with flags of pages, 27 with flags of \
                         words. With an uncontended lock a page it executes 64 (row lock).";
/// Counted: what a first touch costs that copies its page.
const PAGE_COPIES: &str = "counted (example one_write, page bazz hourglass piggyback): a first \
                           write misses the first cache 11.6 to 11.8 times with units of pages, \
                           which it copies, and 2.0 times with units of words.";

/// Counted: what exponent 2 and uniform updates touch.
const TOUCHED: &str = "counted (lab cause touched, 1 GB): the 256,000 updates of a tick touch 680 \
                       pages by exponent 2 and 163,451, 62 % of all, when uniform; 5,590 lines \
                       against 254,058.";

/// Measured on an idle machine: the papers' size and interval.
const AT_1_GB: &str = "measured (lab compare --size 1000MB --updates-per-tick 256k --tick 100ms \
                       --interval 10s --disk-rate 250MB/s --distribution pages:2 --unit page), \
                       mean and worst tick in ms: none 0.77, 1.1; NS 1.56, 90; COU 1.30, 1.9; \
                       Fork 0.91, 11; Zigzag 2.67, 4.1; NPP 2.33, 3.9; IPP (words) 1.79, 2.7; \
                       Hourglass 2.07, 3.2; Piggyback 1.83, 2.1. lab figure --large is the same \
                       load without idle time.";
/// The same with fewer updates.
const AT_16K: &str = "measured at 1 GB, worst tick in ms at 16k and 256k updates: NS 99, 90; Fork \
                      10, 11; COU 0.3, 1.9; Zigzag 0.6, 4.1 (lab compare with --updates-per-tick \
                      16k and 256k, else as li-12).";
/// A disk as theirs.
const SLOW_DISK: &str = "measured (lab compare --size 200MB --disk-rate 60MB/s --tick 100ms \
                         --distribution pages:2 --unit page): 3.33 to 3.35 s for each algorithm \
                         at 16k updates, 3.33 to 3.36 s at 256k.";

/// What a fork of a scaled server takes.
const SMALL_FORK: &str = "a fork of 50 MB takes 1.6 ms, less than the longest query of the null \
                          server varies by (1.8 to 3.6 ms).";
/// Where a fork is seen.
const FORK_ALONE: &str = "measured (lab figure async-fork-3 --full): fork takes 8.5 ms at 1 GB, \
                          83.6 ms at 8 GB; the row 'none' of this figure is the null server.";
/// Counted: what Imprint's first touch takes.
const FIRST_TOUCH: &str = "counted (example one_write, word imprint naive), items of 4 bytes: a \
                           first touch executes 71 instructions with 1.43 misses of the first \
                           cache, a later write 48, a store in place 15 with 1.00.";
/// Of Imprint at 50 MB.
const FIRST_TICK: &str = "the 256k uniform updates of an image's first tick are first touches but \
                          for 2 %; a copy of 50 MB takes 4 to 7 ms, as long as these.";

const CAUSES: &[Line] = &[
    (
        "li-10",
        "NS is the lowest",
        cause(
            Origin::Machine,
            "256k updates take 0.8 ms here and some ten there, so that copying 1 GB once in 100 \
             ticks doubles the mean; the 680 pages that Fork and COU copy cost less.",
            AT_1_GB,
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
             (docs/research/errata.md, the unit rule), so that what a first write costs is in none \
             of their means.",
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
        "size has almost no effect",
        cause(
            Origin::Substitution,
            "what is copied for NS in a tick grows less than the cost of copying it: 12 MB stay \
             in the caches, 50 MB do not.",
            "lab figure li-11 --large, whose states of 250 MB and more fit into no cache; not \
             yet run.",
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
            Origin::Paper,
            "NS and Fork have one. With the paper's own units, pages, clearing the flags of 1 GB \
             takes COU and Zigzag 7 us, with words 3 ms; its own data show Zigzag's pause as \
             short.",
            AT_1_GB,
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
            Origin::Paper,
            "Fork's does at 1 GB, Zigzag's does not: flags of pages are cleared in 7 us.",
            AT_1_GB,
        ),
    ),
    (
        "li-14",
        "Ping-Pong, Hourglass",
        cause(
            Origin::Paper,
            "NS is 23 to 42 times above them at 1 GB, Fork 3 to 5 times; COU and Zigzag, whose \
             flags of pages are cleared in 7 us, are among them. At 50 MB the updates of a tick \
             hide Fork's pause, too.",
            AT_1_GB,
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
            Origin::Paper,
            "that of NS and Fork does not at 1 GB. That of COU and Zigzag has no pause with \
             flags of pages and is one of updates; at a twentieth of the size so is Fork's.",
            AT_16K,
        ),
    ),
    (
        "li-16",
        "NS is pulled below",
        cause(
            Origin::Machine,
            "at full speed 50 MB are copied in some 4 ms, less than first touches of Hourglass \
             and Piggyback add to the ticks of one image.",
            PAGE_COPIES,
        ),
    ),
    (
        "li-t2",
        "throughput of NS and Ping-Pong is low",
        cause(Origin::Machine, "as NS is not pulled below in li-16.", PAGE_COPIES),
    ),
    (
        "li-t2",
        "(*) begin takes time in proportion",
        cause(
            Origin::Substitution,
            "COU clears 3 kB of flags of pages at 50 MB, which a constant hides.",
            "lab figure ours-2 --large, up to 1 GB; measured with words at 1 GB: COU 2.7 ms, \
             Zigzag 3.0 ms, NS 87 ms, Fork 8.5 ms.",
        ),
    ),
    (
        "li-24",
        "Hourglass and Piggyback need far less",
        cause(
            Origin::Substitution,
            "what an algorithm protects in our server is the words of slots, 8 bytes a key; there \
             it is the values, of which Redis's fork copies the pages that are written.",
            "by construction (docs/decisions/0024-algorithm-by-name.md); li-24 --large not yet run.",
        ),
    ),
    (
        "li-16",
        "Hourglass, Piggyback and Fork",
        cause(
            Origin::Paper,
            "their plotted means contradict their sentence that Fork is like NS, and their \
             first touches copy no pages (docs/research/errata.md).",
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
            SLOW_DISK,
        ),
    ),
    (
        "li-17",
        "it is linear",
        cause(
            Origin::Substitution,
            "making the child of Fork takes 2.3 to 3.4 ms at 12 to 50 MB, which are read in as long; \
             there a disk of 100 MB/s takes most of the time of each image.",
            SLOW_DISK,
        ),
    ),
    (
        "li-19",
        "Fork's begin grows",
        cause(
            Origin::Substitution,
            "at 12 to 50 MB a constant of some 0.5 ms is as much as the page table's share.",
            "measured (lab figure li-19 --large), where it holds: 6.1, 9.8 and 17.6 ms at 250, 500 \
             and 1000 MB.",
        ),
    ),
    ("li-22", "with fork it grows", cause(Origin::Substitution, SMALL_FORK, FORK_ALONE)),
    (
        "async-fork-4",
        "with fork that of snapshot queries grows",
        cause(Origin::Substitution, SMALL_FORK, FORK_ALONE),
    ),
    (
        "async-fork-5",
        "with fork the longest snapshot query grows",
        cause(Origin::Substitution, SMALL_FORK, FORK_ALONE),
    ),
    ("async-fork-19", "with fork it falls", cause(Origin::Substitution, SMALL_FORK, FORK_ALONE)),
    (
        "li-23",
        "with Hourglass and Piggyback it stays",
        cause(
            Origin::Machine,
            "server, save and generator share two cores: the longest query of the null server, \
             which saves nothing, varies by as much.",
            "the row 'none' of this figure.",
        ),
    ),
    (
        "li-25",
        "a dump is linear",
        cause(
            Origin::Substitution,
            "a dump of 15,000 records takes some 50 ms, of which starting and syncing it are a \
             constant part.",
            "the rows of this figure; li-25 --large not yet run.",
        ),
    ),
    (
        "cao-3",
        "BAZZ is the best",
        cause(
            Origin::Machine,
            "BAZZ has the fewest misses, two flags of a byte beside both copies of a unit; a \
             processor of today waits for several misses of other layouts at once.",
            "counted: cao-t2. Measured (lab figure cao-3 --large): IZZ 0.84x of BAZZ at 1.28M updates \
             a second, but with a begin of 25 ms in place of 0.6.",
        ),
    ),
    (
        "cao-14",
        "they do little",
        cause(
            Origin::Machine,
            "the overhead of an image varies from round to round by more than the bound.",
            "the spread of the rows of this figure.",
        ),
    ),
    ("li-23", "with fork it grows", cause(Origin::Substitution, SMALL_FORK, FORK_ALONE)),
    (
        "async-fork-17",
        "with fork it drops",
        cause(
            Origin::Substitution,
            "a fork of 50 MB holds up 1.6 of 50 ms; what drops is the share of the processor that \
             the child takes, 0.49 to 0.57 of the mean on two cores.",
            FORK_ALONE,
        ),
    ),
    ("async-fork-21", "with fork their 99th", cause(Origin::Substitution, SMALL_FORK, FORK_ALONE)),
    (
        "ours-1",
        "Imprint at 1000 MB: mean tick while",
        cause(
            Origin::Ours,
            "the bound was set for 64k updates a tick. Of 256k nearly all are first touches while \
             an image lasts, and each writes an index and a before-image.",
            FIRST_TOUCH,
        ),
    ),
    (
        "ours-1",
        "Imprint at 1000 MB: worst tick",
        cause(
            Origin::Machine,
            "each update touches a page of the state, one of the index and the log; a virtual machine \
             walks two page tables for each translation that is missing. It held on another machine.",
            "measured (lab compare --size 1000MB --updates-per-tick 256k --tick 100ms): 26 ms and 8 \
             for none; with --huge-pages --ahead 16 8.8 and 5.9.",
        ),
    ),
    (
        "ours-1",
        "Imprint at 1000 MB: reads",
        cause(
            Origin::Machine,
            "reads are plain loads, but the thread that captures streams the state through the \
             cache that they share, as the child of a fork does.",
            "measured (lab compare --algorithms imprint,fork --size 1000MB --updates-per-tick 256k \
             --tick 100ms --reads-per-update 1): 21.6 ns, of a fork 21.3, of none, without \
             images, 12.1.",
        ),
    ),
    (
        "ours-1",
        "no algorithm of the papers",
        cause(
            Origin::Ours,
            "a second copy that is there before costs less time than before-images that are \
             written now: Imprint spends time for memory. No other is better in all columns.",
            FIRST_TOUCH,
        ),
    ),
    (
        "ours-3",
        "an image of Imprint takes",
        cause(
            Origin::Ours,
            "index, marks and the stack of a thread take 0.35 MB at 50 MB, which the budget does \
             not count.",
            "measured (lab compare --algorithms imprint --size 50MB --budget 16kB): memory during \
             an image less that before it.",
        ),
    ),
    ("ours-5", "the worst tick of Imprint", cause(Origin::Ours, FIRST_TICK, FIRST_TOUCH)),
    ("ours-5", "those of Fork and Naive", cause(Origin::Ours, FIRST_TICK, FIRST_TOUCH)),
    (
        "li-18",
        "it does not depend",
        cause(
            Origin::Substitution,
            "without a disk the capture competes with the writer for memory, and loses more \
             when the writer writes more.",
            SLOW_DISK,
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
        "cao-4",
        "IPP has about a sixth",
        cause(
            Origin::Machine,
            "NPP misses the caches three times an update and IPP once, as there; a processor of \
             today waits for the misses of several updates at once.",
            "counted: cao-t2. Measured (lab figure cao-4 --large): 2.6 to 6.5 times.",
        ),
    ),
    (
        "cao-5",
        "NS is flat",
        cause(
            Origin::Machine,
            "begin, the copy itself, takes the same at each rate; what comes on top are updates \
             that miss the caches after the copy went through them.",
            "the column begin of this figure.",
        ),
    ),
    (
        "cao-8",
        "peaks",
        cause(
            Origin::Substitution,
            "a step writes as many updates as theirs into a quarter of the state.",
            "measured (lab figure cao-8 --large), where it holds: NS 27 ms, BACOU 8.5, BAZZ 5.1, \
             IPP 2.3.",
        ),
    ),
    (
        "cao-10",
        "IPP has nearly a seventh",
        cause(
            Origin::Machine,
            "NS copies the state once in a period, whatever is written; memory of today does that \
             several times as fast, while an update misses the caches about as long as theirs.",
            "the column begin of this figure: 4.3 of the 5.6 ms.",
        ),
    ),
    (
        "cao-10",
        "both strategies",
        cause(
            Origin::Substitution,
            "the paper does not say how few attributes are hot. Most updates of ours go to some \
             that are written again and again: Copy-on-Update saves them once an image, by lines \
             or by words; IPP and BAZZ pay at every write.",
            "measured (lab compare --algorithms bacou,bazz,ipp-merge --distribution players:25000 \
             --size 50MB --updates-per-tick 53153 --tick 15ms --interval 150ms --disk-rate off): \
             mean tick in ms BACOU 0.42 by lines and 0.50 by words, IPP 0.69 and 0.77, BAZZ 0.86 \
             and 0.95.",
        ),
    ),
    (
        "cao-11",
        "the worst step of NS",
        cause(
            Origin::Machine,
            "the worst step of IPP is little above that of plain memory, which other programs of \
             the machine disturb; NS copies faster than there.",
            "measured (lab figure cao-11 --large), the paper's state, one run, noisy: NS 21.9 ms, \
             IPP 2.8, plain memory 2.3.",
        ),
    ),
    (
        "cao-12",
        "Imprint loses no more",
        cause(
            Origin::Machine,
            "IPP pays the same at every write, Imprint at the first one to a word after a begin; \
             two cores run the capture, the log and the disk's work beside the transactions. Not \
             decided yet.",
            "the spread of the rounds of this figure (Imprint at two warehouses: 68 to 152 \
             thousand); one_write for what a first touch executes.",
        ),
    ),
    (
        "cao-13",
        "those of ARIES are larger",
        cause(
            Origin::Machine,
            "345 bytes of a transaction in place of 161 are some 90 MB a second, which this disk \
             takes and theirs, over a network, did not. What makes peaks here is the writing of \
             checkpoints, in which ARIES's thread is slower.",
            "cao-12's panels: bytes of the log, and checkpoints a second (0.17 in place of 0.34).",
        ),
    ),
    (
        "cao-rec",
        "recovery takes the same",
        cause(
            Origin::Machine,
            "a checkpoint is the same for all of them, but whoever has two arrays and flags beside \
             writes each word to them all. Their disk of 60 MB/s hid that.",
            "the panels of this figure: reading takes 0.04 s with one array, 0.15 with PZZ's \
             interleaved ones, applying 0.03 and 0.05.",
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
        "li-20",
        "vHG and vPB reach more",
        cause(
            Origin::Machine,
            "a latch costs where several cores ask for it at once. Two cores run all threads and \
             the capture here, so that who has a core decides.",
            "the processor's time of a commit in this figure, records of a page, at 1 thread: CALC \
             16.0 us, vHG 13.4, vPB 12.7.",
        ),
    ),
    (
        "li-20",
        "a commit of vHG and vPB takes no more",
        cause(
            Origin::Machine,
            "no latch is waited for on two cores, and of a line, unlike a page, what is copied \
             costs no more than the flags of three tables that are looked at.",
            "the same panel for records of a page, where both take less than CALC.",
        ),
    ),
    (
        "li-20",
        "a commit of Imprint takes",
        cause(
            Origin::Ours,
            "images follow one another without a pause, so that nearly every write is the first \
             one to its record: it looks at a head of its own and saves two words, and the capture \
             takes its part of the caches and the memory.",
            "cargo run --release -p stillframe-transactions --example commits, which has a reader of \
             the whole state without images beside it.",
        ),
    ),
    (
        "li-20",
        "memory of Imprint is at most",
        cause(
            Origin::Ours,
            "what the threads write before the capture comes by is saved: two words of a record for \
             a word that changes. A capture that waits for the processor lets more come before it.",
            "the commits a second and the processor's time of an image in this figure.",
        ),
    ),
    (
        "cao-9",
        "BAZZ's mean rises most",
        cause(
            Origin::Machine,
            "two of five updates are BACOU's first touches of a line. On average it executes three \
             times as many instructions as BAZZ and misses the caches less often; here the \
             misses of several of BAZZ's updates overlap, and instructions decide.",
            "counted (example one_write, line bacou, and bazz): a first touch of BACOU 186 \
             instructions and 2.85 misses, a later write 44, each write of BAZZ 32 and 1.99. \
             Measured (lab figure cao-9 --large): 0.86x, mean 9.4 and 8.1 ms.",
        ),
    ),
    (
        "async-fork-3",
        "fork is linear",
        cause(
            Origin::Substitution,
            "making a process costs a constant time, which is most of it below 300 MB.",
            "measured (lab figure async-fork-3 --full): 8.5 ms at 1 GB and 83.6 ms at 8 GB, size \
             to the 1.1.",
        ),
    ),
    (
        "async-fork-3",
        "more than 97",
        cause(
            Origin::Substitution,
            "making a process costs a constant time, which is a larger share at 300 MB than at \
             the gigabytes of the paper.",
            "measured (lab figure async-fork-3 --full, 1 to 8 GB): 94.1 % is gone, 83.6 ms of \
             which 5.0 are left at 8 GB.",
        ),
    ),
    (
        "async-fork-11",
        "Async-fork interrupts",
        cause(
            Origin::Substitution,
            "a thread of ours copies the tables and must be scheduled first; until it runs, \
             each write to another table interrupts.",
            "measured (lab figure async-fork-11 --full, 4 GB, idle): 44 interruptions against \
             1908, so that the claim holds there.",
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
