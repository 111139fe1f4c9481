//! Pang et al.: "Async-fork: Mitigating Query Latency Spikes Incurred by the Fork-based Snapshot
//! Mechanism from the OS Level" (2023): the figures that need no server of ours. Those through
//! servers are in `served.rs`.
//!
//! - Figure 3 is measured on the kernel's fork; what page tables have of it, in a guest.
//! - What compares Async-fork with On-Demand-Fork or the default fork is judged by the record of
//!   guests with those kernels (`guest.rs`), with the comparator that the paper has. What no guest
//!   measured is not run yet.
//! - Figure 11 has user-level models of both beside: they show how often the writer is interrupted,
//!   and for how long by the model's own copies, not what a kernel's fault costs.
//! - KeyDB serves with four threads. The guests have redis-server with two threads for sockets.

use super::data::{Data, View};
use super::deciding::Extent;
use super::direct;
use super::guest::{self, LARGEST, Pair, SIZES, WRITES, sizes};
use super::judge::{Judgement, times, within};
use super::metric::{BEGIN_MS, WORST};
use super::plan::{Facet, Plot, Size, shrunk};
use super::{Claim, Direct, Figure};
use crate::case::Case;

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        name: "async-fork-3",
        source: "Pang et al. 2023, figure 3",
        title: "time of fork by size, and what page tables have of it",
        workload: "All state touched, few updates; begin is the time of the system call and of \
                   what is around it, of the first fork of a process: writes after a fork split \
                   pages of 2 MiB, which a later fork would find. 'fork-huge' needs such pages \
                   from the kernel.",
        swept: "state [MB]",
        facets: |size| vec![forks(size)],
        columns: &[&BEGIN_MS, &WORST],
        claims: &[
            Claim {
                id: "linear",
                text: "fork is linear in size",
                judge: |data| within(data, 0, &BEGIN_MS, |it| it.grows(&["fork"], 0.75..=1.25)),
            },
            Claim {
                id: "page-tables",
                text: "more than 97 % of it is copying page tables (section 3.1), at the largest \
                       size",
                judge: |_| guest::share_of_fork("rest_us", 0.03),
            },
            Claim {
                id: "huge-pages",
                text: "90 % of it is gone with pages of 2 MiB (not in the paper)",
                judge: |data| within(data, 0, &BEGIN_MS, tables),
            },
        ],
        tables: |_| guest::tables(&[guest::FORK, "rest_us"]),
        ..Figure::BLANK
    },
    Figure {
        name: "async-fork-9",
        source: "Pang et al. 2023, figure 9",
        title: "99th percentile of snapshot queries, Async-fork against On-Demand-Fork",
        workload: GUEST,
        tables: |_| guest::tables(&[guest::P99]),
        claims: &[
            Claim {
                id: "below-odf",
                text: "Async-fork's is below On-Demand-Fork's in Redis at every size",
                judge: |_| ODF_P99.below(&sizes(SIZES, WRITES), 1.0),
            },
            Claim {
                id: "gap-grows",
                text: "the gap grows with size",
                judge: |_| ODF_P99.gap_grows(&sizes(SIZES, WRITES)),
            },
            Claim {
                id: "keydb",
                text: "so it is in KeyDB (here redis-server with two threads for sockets)",
                judge: |_| threads(ODF_P99).below(&sizes(&[1024], WRITES), 1.0),
            },
        ],
        ..Figure::BLANK
    },
    Figure {
        name: "async-fork-10",
        source: "Pang et al. 2023, figure 10",
        title: "longest snapshot query, Async-fork against On-Demand-Fork",
        workload: GUEST,
        tables: |_| guest::tables(&[guest::LONGEST]),
        claims: &[
            Claim {
                id: "below-odf",
                text: "Async-fork's is far below On-Demand-Fork's in Redis even at 1 GB",
                judge: |_| ODF_LONGEST.below(&sizes(&[1024, 4096], WRITES), 1.0),
            },
            Claim {
                id: "keydb",
                text: "so it is in KeyDB (here redis-server with two threads for sockets)",
                judge: |_| threads(ODF_LONGEST).below(&sizes(&[1024], WRITES), 1.0),
            },
        ],
        ..Figure::BLANK
    },
    Figure {
        name: "async-fork-11",
        source: "Pang et al. 2023, figure 11",
        title: "interruptions of the writer: how many, how long",
        workload: "50,000 writes a second, 20 us apart, of 1 KiB each at random places of 400 MB (there: 16 GB), \
                   during one image at 250 MB/s; writes that raised the count of copied tables are \
                   timed. Models in user space of both.",
        direct: Some(Direct {
            seconds: |size| size.pick(4.5, 24.0, 24.0),
            extent: |size| Extent { amount: size.pick(400.0, 4000.0, 4000.0), unit: "MB" },
            measure: direct::interruptions,
        }),
        tables: |_| guest::tables(&[guest::INTERRUPTIONS]),
        claims: &[
            Claim {
                id: "fewer-interruptions",
                text: "Async-fork interrupts the parent far less often than On-Demand-Fork: 446 \
                       against 7348 times at 16 GB (held: a fifth or less at every size)",
                judge: |_| {
                    let counts = Pair { metric: guest::INTERRUPTIONS, ..ODF_P99 };
                    counts.below(&sizes(SIZES, WRITES), 5.0)
                },
            },
            Claim {
                id: "models",
                text: "so do the models in user space (not in the paper; held: a fifth or less)",
                judge: fewer,
            },
        ],
        ..Figure::BLANK
    },
    Figure {
        name: "async-fork-14",
        source: "Pang et al. 2023, figure 14",
        title: "snapshot queries with one and with eight threads that copy",
        workload: GUEST,
        tables: |_| guest::tables(&[guest::LONGEST]),
        claims: &[
            Claim {
                id: "one-below-odf",
                text: "with one thread the longest is below On-Demand-Fork's at every size, by a \
                       third on average",
                judge: |_| ODF_LONGEST.below(&sizes(SIZES, WRITES), 1.0),
            },
            Claim {
                id: "eight-below-one",
                text: "with eight threads it is lower still",
                judge: |_| EIGHT_LONGEST.below(&sizes(SIZES, WRITES), 1.0),
            },
        ],
        ..Figure::BLANK
    },
    Figure {
        name: "async-fork-15",
        source: "Pang et al. 2023, figure 15",
        title: "time of the copy, and snapshot queries, by threads that copy",
        workload: "As async-fork-9; the guest has two processors, so that more threads share them.",
        tables: |_| guest::tables(&[guest::CHILD]),
        claims: &[
            Claim {
                id: "shorter-copy",
                text: "more threads make the child's copy shorter",
                judge: |_| {
                    let copy = Pair { metric: guest::CHILD, ..EIGHT_LONGEST };
                    copy.below(&sizes(&[1024], guest::NO_LOAD), 1.0)
                },
            },
            Claim {
                id: "lower-latency",
                text: "the shorter the copy is, the lower are the 99th percentile and the longest \
                       of snapshot queries",
                judge: |_| {
                    let p99 = Pair { metric: guest::P99, ..EIGHT_LONGEST };
                    let at = sizes(&[1024], WRITES);
                    p99.below(&at, 1.0).and(EIGHT_LONGEST.below(&at, 1.0))
                },
            },
        ],
        ..Figure::BLANK
    },
    Figure {
        name: "async-fork-16",
        source: "Pang et al. 2023, figure 16",
        title: "snapshot queries in production, Async-fork against the default fork",
        workload: "There a rented Redis of 8 and 16 GB and clients over a network; here the guest \
                   of async-fork-9 at its largest size, clients in the same guest.",
        tables: |_| guest::tables(&[guest::P99, guest::LONGEST]),
        claims: &[
            Claim {
                id: "p99",
                text: "the 99th percentile falls to a seventh (held: a third or less)",
                judge: |_| Pair { more: "default", ..ODF_P99 }.below(&sizes(LARGEST, WRITES), 3.0),
            },
            Claim {
                id: "longest",
                text: "so does the longest (held: a third or less)",
                judge: |_| {
                    let pair = Pair { more: "default", ..ODF_LONGEST };
                    pair.below(&sizes(LARGEST, WRITES), 3.0)
                },
            },
        ],
        ..Figure::BLANK
    },
    Figure {
        name: "async-fork-18",
        source: "Pang et al. 2023, figure 18",
        title: "throughput of a KeyDB server while an image is taken",
        workload: "There KeyDB with four threads and 16 GB, counted in steps of 50 ms.",
        claims: &[Claim {
            id: "drops-less",
            text: "with Async-fork it drops less than with On-Demand-Fork, and recovers sooner",
            judge: |_| guest::not_run("throughput over time of a server with threads"),
        }],
        ..Figure::BLANK
    },
    Figure {
        name: "async-fork-20",
        source: "Pang et al. 2023, figure 20",
        title: "time for which the parent is out of service",
        workload: GUEST,
        tables: |_| guest::tables(&[guest::INTERRUPTED]),
        claims: &[Claim {
            id: "below-odf",
            text: "its sum over an image is lower with Async-fork than with On-Demand-Fork",
            judge: |_| {
                let sum = Pair { metric: guest::INTERRUPTED, ..ODF_P99 };
                sum.below(&sizes(SIZES, WRITES), 1.0)
            },
        }],
        ..Figure::BLANK
    },
    Figure {
        name: "async-fork-22",
        source: "Pang et al. 2023, figure 22",
        title: "time until fork returns, Async-fork and On-Demand-Fork",
        workload: GUEST,
        tables: |_| guest::tables(&[guest::FORK]),
        claims: &[
            Claim {
                id: "below-default",
                text: "both return far sooner than the default fork (held: a tenth, at the \
                       largest size)",
                judge: |_| {
                    let at = sizes(LARGEST, guest::NO_LOAD);
                    let of = |less| Pair { metric: guest::FORK, less, more: "default" };
                    of("async").below(&at, 10.0).and(of("odf").below(&at, 10.0))
                },
            },
            Claim {
                id: "below-odf",
                text: "Async-fork returns slightly sooner than On-Demand-Fork",
                judge: |_| {
                    let fork = Pair { metric: guest::FORK, ..ODF_P99 };
                    fork.below(&sizes(SIZES, guest::NO_LOAD), 1.0)
                },
            },
        ],
        ..Figure::BLANK
    },
];

/// What stands beside what guests measured.
const GUEST: &str = "redis-server in a guest with the patches of kernel/, 256 MiB to 4 GiB, 500 \
    SETs of 1 KiB a second in an open loop (there: 1 to 64 GB, 50,000 a second). The guest is \
    emulated: compare within a figure. One run is not compared with another of other systems, so \
    their whole spread decides.";

const ODF_P99: Pair = Pair { metric: guest::P99, less: "async", more: "odf" };
const ODF_LONGEST: Pair = Pair { metric: guest::LONGEST, ..ODF_P99 };
/// Eight threads that copy against one.
const EIGHT_LONGEST: Pair = Pair { metric: guest::LONGEST, less: "async:8", more: "async" };

/// The same of servers with two threads for sockets.
fn threads(pair: Pair) -> Pair {
    Pair { less: "async-threads", more: "odf-threads", ..pair }
}

fn forks(size: Size) -> Facet {
    let sizes: &[u64] = size.pick(&[75, 150, 300], &[500, 1000, 2000], &[1000, 2000, 4000, 8000]);
    let spot = |&mb: &u64| {
        let case = Case {
            size_bytes: mb * 1_000_000,
            updates_per_tick: 1000,
            tick_ms: 10,
            ticks: 20,
            checkpoints: 1,
            first: true,
            disk_rate: None,
            memory: false,
            ..Case::default()
        };
        (mb as f64, shrunk(case, size))
    };
    let names = ["fork", "fork-huge"];
    Facet::new("begin", &names, sizes.iter().map(spot).collect(), &[Plot::Lines(&BEGIN_MS)])
}

/// What of fork's time is gone when there is one entry for 2 MiB.
fn tables(it: View<'_>) -> Judgement {
    let last = it.facet.spots.len().saturating_sub(1);
    match (it.value("fork", last), it.value("fork-huge", last)) {
        (Some(small), Some(huge)) if small > 0.0 => {
            let share = 1.0 - huge / small;
            Judgement::new(share >= 0.9, format!("{:.1} % is gone", share * 100.0))
        }
        (None, _) => Judgement::untested("fork was not measured"),
        _ => {
            Judgement::untested("there are no 2 MiB pages here to separate the cost of page tables")
        }
    }
}

fn fewer(data: &Data<'_>) -> Judgement {
    match (data.direct_point("odf"), data.direct_point("async-fork")) {
        (Some(odf), Some(other)) => {
            let ratio = odf.y / other.y.max(1.0);
            let text = format!("{} against {}: {}", other.y, odf.y, times(ratio));
            Judgement::new(ratio >= 5.0, text)
        }
        _ => Judgement::untested("the models were not measured"),
    }
}
