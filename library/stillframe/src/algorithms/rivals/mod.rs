//! The rivals: algorithms of papers and of other servers, for comparison. No program that embeds
//! the library compiles them unless it turns on the feature `rivals`.

mod claim;
pub mod cou;
mod flags;
pub mod fork_huge;
pub mod hourglass;
pub mod naive_parallel;
pub mod page_table;
pub mod piggyback;
pub mod pingpong;
pub mod userfault;
pub mod valkey;
pub mod zigzag;

/// Calls the macro `$then` with every algorithm: a line each, in the order of docs/algorithms.
#[doc(hidden)]
#[macro_export]
macro_rules! with_rivals {
    ($then:ident) => {
        $crate::for_each_algorithm! { @core $then
            naive_parallel::NaiveParallel {
                name: "naive-parallel", title: "Naive Snapshot, parallel copy",
                citation: "Sidlauskas et al. 2012, physical snapshot",
                memory: "2", begin: "O(state / threads)", write: "nothing",
            }
            cou::Cou {
                name: "cou", title: "Copy-on-Update", citation: "Li et al. 2018, section 3.1.2",
                memory: "2 + 8 bytes a unit", begin: "O(1)",
                write: "a load; latch and copy of the unit on first touch",
                units: &[Page, Line, Word],
            }
            cou::CouReset {
                name: "cou-reset", title: "Copy-on-Update, states reset",
                citation: "Li et al. 2018, section 3.1.2",
                memory: "2 + 1 byte a unit", begin: "O(units), a byte each",
                write: "a load; latch and copy of the unit on first touch",
                units: &[Page, Line, Word],
            }
            cou::Bacou {
                name: "bacou", title: "Bit-Array Packed Copy-on-Update",
                citation: "Cao et al. 2011, section 4.1",
                memory: "2 + 2 bits a unit", begin: "O(state / unit / 32)", read: "two shifts",
                write: "a load; latch and copy of the unit on first touch",
                units: &[Page, Line, Word],
            }
            fork_huge::ForkHuge {
                name: "fork-huge", title: "Fork on 2 MiB pages",
                citation: "Sidlauskas et al. 2012, virtual snapshot; fork(2)",
                memory: "1 to 2", begin: "O(page table), 1/512 of fork's",
                write: "a split mapping and a page copy on first touch",
                units: &[Page], in_process: false, random_access: false,
            }

            // -- Zigzag; Ping-Pong
            zigzag::Nzz {
                name: "nzz", title: "Zigzag, naive layout",
                citation: "Cao et al. 2011, sections 3.2 and 4.2",
                memory: "2 + 2 bytes a unit", begin: "O(units), 8 at a time",
                read: "a flag", write: "2 flags; a unit copy on first touch",
                units: &[Word, Half, Line, Page],
            }
            zigzag::Izz {
                name: "izz", title: "Zigzag, interleaved",
                citation: "Cao et al. 2011, sections 3.2 and 4.2",
                memory: "2.7", begin: "O(state), a line each",
                read: "a flag in the same line", write: "2 flags in the same line",
                units: &[Word, Half],
            }
            zigzag::Pzz {
                name: "pzz", title: "Zigzag, packed lines",
                citation: "Cao et al. 2011, sections 3.2 and 4.2",
                memory: "2.7", begin: "O(state), a line each",
                read: "a flag in the same line", write: "2 flags in the same line",
                units: &[Word, Half],
            }
            zigzag::Bazz {
                name: "bazz", title: "Zigzag, packed bits",
                citation: "Cao et al. 2011, sections 3.2 and 4.2",
                memory: "2 + 2 bits a unit", begin: "O(units), 64 at a time",
                read: "a bit", write: "2 bits; a unit copy on first touch",
                units: &[Word, Half, Line, Page],
            }
            pingpong::NppCopy {
                name: "npp-copy", title: "Ping-Pong, separate arrays, Copy",
                citation: "Cao et al. 2011, sections 3.3 and 4", memory: "4 + 2 bytes a unit",
                begin: "O(1)", write: "a second store and a byte", units: &[Word, Half, Line, Page],
            }
            pingpong::NppMerge {
                name: "npp-merge", title: "Ping-Pong, separate arrays, Merge",
                citation: "Cao et al. 2011, sections 3.3 and 4", memory: "3 + 2 bytes a unit",
                begin: "O(1)", write: "a second store and a byte", units: &[Word, Half, Line, Page],
                image: Incremental, random_access: false,
            }
            pingpong::IppCopy {
                name: "ipp-copy", title: "Ping-Pong, interleaved, Copy",
                citation: "Cao et al. 2011, sections 3.3 and 4", memory: "5",
                begin: "O(1)", write: "a second store and a byte, in the same line",
                units: &[Word, Half],
            }
            pingpong::IppMerge {
                name: "ipp-merge", title: "Ping-Pong, interleaved, Merge",
                citation: "Cao et al. 2011, sections 3.3 and 4", memory: "4",
                begin: "O(1)", write: "a second store and a byte, in the same line",
                units: &[Word, Half], image: Incremental, random_access: false,
            }

            // -- Hourglass; Piggyback
            hourglass::Hourglass {
                name: "hourglass", title: "Hourglass, Merge",
                citation: "Li et al. 2018, section 3.2.1",
                memory: "2 + 4 bits a unit", begin: "O(1)", read: "one bit", write: "two bits",
                units: &[Word, Half, Line, Page], image: Incremental, random_access: false,
            }
            hourglass::HourglassCopy {
                name: "hourglass-copy", title: "Hourglass, Copy",
                citation: "Li et al. 2018, section 3.2.1; the authors' code",
                memory: "3 + 4 bits a unit", begin: "O(1)", read: "one bit", write: "two bits",
                units: &[Word, Half, Line, Page],
            }
            piggyback::Piggyback {
                name: "piggyback", title: "Piggyback",
                citation: "Li et al. 2018, section 3.2.2",
                memory: "2 + 1 byte a unit", begin: "O(1)", read: "a flag",
                write: "a flag; a claim and a unit copy on first touch",
                units: &[Word, Half, Line, Page],
            }

            // -- models of page tables; userfaultfd; Valkey's shape
            page_table::OnDemandFork {
                name: "odf", title: "On-Demand-Fork, a model in user space",
                citation: "Zhao et al. 2021, as described by Pang et al. 2023, section 3",
                memory: "1 to 2 + tables", begin: "O(state / 2 MiB)", read: "two loads (the model's)",
                write: "a table copy, then a page copy on first touch", units: &[Page],
            }
            page_table::AsyncFork {
                name: "async-fork", title: "Async-fork, a model in user space",
                citation: "Pang et al. 2023, section 4",
                memory: "1 to 2 + tables", begin: "O(state / 2 MiB)", read: "two loads (the model's)",
                write: "a page copy on first touch, seldom a table copy", units: &[Page],
            }
            valkey::Valkey {
                name: "valkey", title: "Valkey's shape", citation: "Valkey, forkless save, 2026",
                memory: "1 + 8 bytes a unit + clones", begin: "O(1)",
                write: "a load; clone of the unit on first touch; slices of a copy of the state",
                units: &[Word, Line, Page], tended: true,
            }
            userfault::UserFault {
                name: "uffd", title: "Write protection by userfaultfd",
                citation: "ours; userfaultfd(2)", memory: "1 to 2", begin: "O(page table)",
                write: "a fault answered by another thread, on first touch", units: &[Page],
            }
        }
    };
}
