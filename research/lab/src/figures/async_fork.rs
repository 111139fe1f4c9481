//! Pang et al.: "Async-fork: Mitigating Query Latency Spikes Incurred by the Fork-based Snapshot
//! Mechanism from the OS Level" (2023), figures 3 and 11.
//!
//! Figure 3 is measured on the kernel's fork. The share of page tables is what fork on pages of
//! 2 MiB saves, which has one entry to copy in place of 512. Figure 11 is measured on user-level
//! models of On-Demand-Fork and Async-fork: they show how often the writer is interrupted, and for
//! how long by the model's own copies, not what a kernel's fault costs.

use super::data::{Data, View};
use super::direct;
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
                text: "more than 97 % of it is copying page tables (held here: 90 % or more is \
                       gone with 2 MiB pages)",
                judge: |data| within(data, 0, &BEGIN_MS, tables),
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
            measure: direct::interruptions,
        }),
        claims: &[Claim {
            id: "fewer-interruptions",
            text: "Async-fork interrupts the writer far less often: 446 against 7348 times (held: \
                   a fifth or less)",
            judge: fewer,
        }],
        ..Figure::BLANK
    },
];

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
