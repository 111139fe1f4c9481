//! Li et al., table 2: what each algorithm is good and bad at, as numbers.

use super::judge::{At, within};
use super::metric::{BEGIN, MEAN, MEMORY, SPIKE, THROUGHPUT, WORST};
use super::plan::{Facet, Plot, Size};
use super::{Claim, Figure, li};

pub(super) const FIGURE: Figure = Figure {
    name: "li-t2",
    source: "Li et al. 2018, table 2",
    title: "every algorithm in every respect",
    workload: "The workloads of li-14 (sizes) and li-16 (full speed). Full or incremental images: \
               see 'lab list'; Ping-Pong and Hourglass are the incremental ones.",
    swept: "state [MB]",
    facets,
    columns: &[&MEAN, &WORST, &SPIKE, &BEGIN, &THROUGHPUT, &MEMORY],
    direct: None,
    tables: |_| Vec::new(),
    claims: &[
        Claim {
            text: "(*) the mean tick of COU and Ping-Pong is high",
            judge: |data| {
                within(data, 0, &MEAN, |it| {
                    it.above(&["cou", "npp-merge"], &["naive"], 1.2, At::Last)
                })
            },
        },
        Claim {
            text: "(*) the spike of NS is high, above those of COU, Fork and Zigzag",
            judge: |data| {
                let rest = ["cou", "fork", "bazz"];
                within(data, 0, &WORST, |it| it.above(&["naive"], &rest, 1.0, At::Last))
            },
        },
        Claim {
            text: "(*) begin takes time in proportion to the state: NS, COU, Fork, Zigzag",
            judge: |data| {
                let slow = ["naive", "cou", "fork", "bazz"];
                within(data, 0, &BEGIN, |it| it.grows(&slow, 0.6..=1.4))
            },
        },
        Claim {
            text: "begin of Ping-Pong, Hourglass and Piggyback takes the same time at every size",
            judge: |data| {
                let fast = ["npp-merge", "ipp-merge", "hourglass", "piggyback"];
                within(data, 0, &BEGIN, |it| it.grows(&fast, -0.4..=0.4))
            },
        },
        Claim {
            text: "throughput of NS and Ping-Pong is low, of Fork, Hourglass and Piggyback high",
            judge: |data| {
                within(data, 1, &THROUGHPUT, |it| {
                    let high = ["fork", "hourglass", "piggyback"];
                    it.above(&high, &["naive", "npp-merge"], 1.03, At::Last)
                })
            },
        },
        Claim {
            text: "(*) Ping-Pong needs three times the state, all others about twice",
            judge: |data| {
                within(data, 0, &MEMORY, |it| {
                    let rest = ["naive", "cou", "fork", "bazz", "hourglass", "piggyback"];
                    it.above(&["npp-merge", "ipp-merge"], &rest, 1.3, At::Last)
                })
            },
        },
    ],
};

fn facets(size: Size) -> Vec<Facet> {
    let rows = [Plot::Rows(&MEAN), Plot::Rows(&WORST), Plot::Rows(&BEGIN), Plot::Rows(&MEMORY)];
    let sizes = |of, plots: &[Plot]| li::by_size(size, of, li::ALGORITHMS, plots);
    let full_speed = li::full_speed(size, li::PAPER);
    let full_speed = Facet { title: format!("{}, full speed", full_speed.title), ..full_speed };
    vec![sizes(li::PAPER, &rows), full_speed, sizes(li::UNIFORM, &[]), sizes(li::ZIPF, &[])]
}
