//! Li et al.: "A Comparative Study of Consistent Snapshot Algorithms for Main-Memory Database
//! Systems" (2018), figures 10 to 19 and table 2.
//!
//! Their workload: 4-byte items, pages drawn by Zipf with exponent 2, 16k to 256k updates in a tick
//! of 100 ms, an image every 10 s or as soon as the one before is on disk. Scaled, sizes are a
//! tenth to a twentieth, the disk twice as fast and the tick a fifth as long. What is cut is idle
//! time; where the state is a twentieth, so are the updates of a tick, or they would hide the
//! pauses that a twentieth of the state makes. Every image is of all the state, increments are
//! merged into the image before.
//!
//! Pages are drawn by Zipf; the paper does not say which words of a page, so the hot set has 2.9 MB
//! (any word) or 45 KB (one line). A claim is judged on both readings, and held if both agree.
//!
//! With exponent 2, one tick touches about 700 of 250,000 pages, which hides every cost of copying;
//! uniform updates and Zipf 0.99 over items stand beside it in each figure: with fewer points where
//! runs are scaled, and with half the state at full speed.
//!
//! The paper flags pages of 4 KB. Algorithms that this project flags by words have a facet with
//! units of pages in figures 10, 12 and 16, but for quick sets.

use stillframe::Unit;

use super::data::{Data, View};
use super::judge::{At, Judgement, within};
use super::metric::{BEGIN, IMAGE, MEAN, MEMORY, Metric, SPIKE, THROUGHPUT, WORST};
use super::plan::{Facet, Plot, Scale, Size, shrunk};
use super::{Claim, Figure};
use crate::case::{Case, Distribution, FLOOR};
use crate::report::Outcome;

/// NS, COU, Fork, ZZ, PP (both layouts), HG, PB; ours; the floor.
pub(super) const ALGORITHMS: &[&str] = &[
    FLOOR,
    "naive",
    "bacou",
    "fork",
    "bazz",
    "npp-merge",
    "ipp-merge",
    "hourglass",
    "piggyback",
    "imprint",
];
const PAPERS: &[&str] =
    &["naive", "bacou", "fork", "bazz", "npp-merge", "ipp-merge", "hourglass", "piggyback"];
const SLOW_BEGIN: &[&str] = &["naive", "bacou", "fork", "bazz"];
const FAST_BEGIN: &[&str] = &["npp-merge", "ipp-merge", "hourglass", "piggyback"];
const SCALABLE: &[&str] = &[FLOOR, "fork", "hourglass", "piggyback", "imprint"];

/// What does not grow. A value of less than a microsecond may well shrink.
pub(super) const FLAT: std::ops::RangeInclusive<f64> = f64::NEG_INFINITY..=0.35;

pub(super) const PAPER: Distribution = Distribution::Pages(2.0);
/// The paper draws pages and does not say which words of them: one line of each, or any.
const LINES: Distribution = Distribution::Lines(2.0);
pub(super) const UNIFORM: Distribution = Distribution::Uniform;
pub(super) const ZIPF: Distribution = Distribution::Zipf(0.99);

/// The workload at a size, a rate and a distribution.
pub(super) fn case(size: Size, mb: u64, updates_per_tick: u64, of: Distribution) -> Case {
    // Scaled, two images begin and end.
    let (tick_ms, rate, images) = size.pick((15, 800, 1), (20, 800, 1), (100, 250, 10));
    let image_ms = mb * 1000 / rate;
    let interval_ms = size.cut(image_ms * 13 / 10 + 40, (image_ms * 13 / 10).max(10_000));
    let case = Case {
        size_bytes: mb * 1_000_000,
        updates_per_tick,
        tick_ms,
        ticks: interval_ms * images / tick_ms + image_ms / tick_ms + 6,
        interval_ms,
        distribution: of,
        disk_rate: Some(rate * 1_000_000),
        trace: true,
        memory: updates_per_tick == 256_000,
        ..Case::default()
    };
    shrunk(case, size)
}

pub(super) fn base_mb(size: Size) -> u64 {
    size.pick(50, 1000, 1000)
}

/// The paper's distribution first, then those that do not hide what copying costs. No rule looks at
/// the last, which scaled runs leave to `ours-1`.
fn with_skews(size: Size, facet: impl Fn(Distribution) -> Facet) -> Vec<Facet> {
    let all = [PAPER, LINES, UNIFORM, ZIPF];
    size.cut(&all[..3], &all[..]).iter().map(|&of| facet(of)).collect()
}

/// What has no flags has no unit of a page, and stands among those that have.
const NO_FLAGS: &[(&str, Unit)] = &[("naive", Unit::Word)];

/// Behind them the paper's distribution with its unit, a page of 4 KiB, for all that can have it. A
/// quick set has no time for it.
fn with_pages(size: Size, facet: impl Fn(Distribution) -> Facet) -> Vec<Facet> {
    let pages = facet(PAPER).with_unit(Unit::Page).with_own(NO_FLAGS);
    let pages = Facet { title: format!("{}, unit of a page", pages.title), ..pages };
    let pages = (size.scale != Scale::Quick).then_some(pages);
    with_skews(size, facet).into_iter().chain(pages).collect()
}

/// The number of the facet with uniform updates among those of [`with_skews`].
const UNIFORM_FACET: usize = 2;

/// The workload with as small a part of the paper's updates in a tick as of its state.
fn in_proportion(size: Size, mb: u64, updates: u64, of: Distribution) -> Case {
    let cut = 1000 / base_mb(size).min(1000);
    let case = case(size, mb, updates, of);
    Case { updates_per_tick: (case.updates_per_tick / cut).max(8), ..case }
}

fn by_frequency(size: Size, of: Distribution, plots: &[Plot]) -> Facet {
    let all: &[u64] = &[16_000, 32_000, 64_000, 128_000, 256_000];
    let spot = |&rate: &u64| {
        let case = in_proportion(size, base_mb(size), rate, of);
        (case.updates_per_tick as f64, case)
    };
    let spots = size.cut(&[16_000, 256_000][..], all).iter().map(spot).collect();
    Facet::new(title(of), ALGORITHMS, spots, plots)
}

fn sizes(size: Size) -> &'static [u64] {
    size.pick(&[12, 25, 50], &[250, 500, 1000], &[1000, 2000, 4000, 8000])
}

/// The sweep of size at the paper's most updates a tick.
pub(super) fn by_size(
    size: Size,
    of: Distribution,
    algorithms: &[&'static str],
    plots: &[Plot],
) -> Facet {
    let few = if of == PAPER {
        sizes(size)
    } else {
        size.pick(&[12, 50][..], &[250, 1000][..], sizes(size))
    };
    let spot = |&mb: &u64| (mb as f64, in_proportion(size, mb, 256_000, of));
    Facet::new(title(of), algorithms, few.iter().map(spot).collect(), plots)
}

/// Full speed, no limit of the disk.
pub(super) fn full_speed(size: Size, of: Distribution) -> Facet {
    let (mb, interval_ms, ticks) = size.pick((50, 65, 40), (1000, 1300, 800), (8000, 10_000, 4000));
    let base = case(size, mb, 256_000, of);
    let memory = size.is_full() || of == PAPER;
    // Nothing is read of an image until the next is near: the paper has the dump off.
    let hold_ms = interval_ms * 4 / 5;
    let case = Case { tick_ms: 0, interval_ms, hold_ms, ticks, disk_rate: None, memory, ..base };
    let spots = vec![(mb as f64, shrunk(case, size))];
    Facet::new(title(of), ALGORITHMS, spots, &[Plot::Rows(&THROUGHPUT)])
}

pub(super) fn title(of: Distribution) -> String {
    match of {
        Distribution::Uniform => "uniform".to_owned(),
        Distribution::Zipf(theta) => format!("Zipf {theta} over items"),
        Distribution::Pages(theta) => format!("Zipf {theta} over pages, any word"),
        Distribution::Lines(theta) => format!("Zipf {theta} over pages, one line"),
        other => other.to_string(),
    }
}

const RATE: &str = "updates per tick";
const SIZE: &str = "state [MB]";
const TRAVERSE: &str = "As li-14, through a disk of limited rate, as the paper's images are: \
                        increments merged. The last facet has images read as fast as they can \
                        be, with no disk: what an algorithm's own reading takes. No rule looks at \
                        that.";

const BASE: Figure = Figure {
    workload: "4-byte items, ticks with idle time, one image after the other into a sink of \
               limited rate, increments merged.",
    swept: RATE,
    columns: &[&MEAN, &WORST, &BEGIN, &IMAGE, &MEMORY],
    ..Figure::BLANK
};

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        name: "li-10",
        source: "Li et al. 2018, figure 10",
        title: "mean tick against update frequency",
        facets: |size| with_pages(size, |of| by_frequency(size, of, &[Plot::Lines(&MEAN)])),
        claims: &[
            Claim {
                id: "ns-lowest",
                text: "NS is the lowest at the highest frequency",
                judge: |data| {
                    on(data, &MEAN, |it| it.above(&PAPERS[1..], &["naive"], 0.95, At::Last))
                },
            },
            Claim {
                id: "cou-pp-high",
                text: "COU and Ping-Pong are clearly above NS, Fork, Hourglass and Piggyback",
                judge: |data| {
                    let low = ["naive", "fork", "hourglass", "piggyback"];
                    on_pages(data, &MEAN, |it| {
                        it.above(&["bacou", "npp-merge"], &low, 1.1, At::Last)
                    })
                },
            },
            Claim {
                id: "zigzag-low",
                text: "Zigzag is low, slightly above Hourglass and Piggyback",
                judge: |data| {
                    let low = ["hourglass", "piggyback"];
                    on_pages(data, &MEAN, |it| {
                        let above = it.above(&["bazz"], &low, 1.0, At::Last);
                        above.and(it.above(&low, &["bazz"], 0.6, At::Last))
                    })
                },
            },
            Claim {
                id: "uniform",
                text: "the order is the same under uniform updates (not in the paper): Hourglass, \
                       Piggyback and Fork stay within 1.3x of NS",
                judge: |data| {
                    let low = ["hourglass", "piggyback", "fork"];
                    within(data, UNIFORM_FACET, &MEAN, |it| {
                        it.above(&["naive"], &low, 1.0 / 1.3, At::Last)
                    })
                },
            },
        ],
        ..BASE
    },
    Figure {
        name: "li-11",
        source: "Li et al. 2018, figure 11",
        title: "mean tick against size of the state",
        swept: SIZE,
        facets: |size| with_skews(size, |of| by_size(size, of, ALGORITHMS, &[Plot::Lines(&MEAN)])),
        claims: &[
            Claim {
                id: "size-no-effect",
                text: "size has almost no effect on the mean tick",
                judge: |data| on(data, &MEAN, |it| it.flat(PAPERS, 1.25)),
            },
            Claim {
                id: "uniform",
                text: "nor has it under uniform updates (not in the paper)",
                judge: |data| within(data, UNIFORM_FACET, &MEAN, |it| it.flat(PAPERS, 1.25)),
            },
        ],
        ..BASE
    },
    Figure {
        name: "li-12",
        source: "Li et al. 2018, figure 12",
        title: "latency of every tick",
        facets: |size| with_pages(size, |of| trace(size, of, ALGORITHMS)),
        columns: &[&MEAN, &WORST, &SPIKE, &BEGIN],
        claims: &[
            Claim {
                id: "spikes",
                text: "NS, COU, Fork and Zigzag have a spike where an image begins",
                judge: |data| on(data, &SPIKE, |it| it.least(SLOW_BEGIN, 2.0)),
            },
            Claim {
                id: "no-spikes",
                text: "Ping-Pong, Hourglass and Piggyback have none",
                judge: |data| on(data, &SPIKE, |it| it.most(FAST_BEGIN, 2.0)),
            },
            Claim {
                id: "uniform",
                text: "nor have they under uniform updates (not in the paper)",
                judge: |data| within(data, UNIFORM_FACET, &SPIKE, |it| it.most(FAST_BEGIN, 2.0)),
            },
        ],
        ..BASE
    },
    Figure {
        name: "li-13",
        source: "Li et al. 2018, figure 13",
        title: "latency of every tick, without NS, COU and Ping-Pong",
        facets: |size| {
            let few = [FLOOR, "fork", "bazz", "hourglass", "piggyback", "imprint"];
            with_skews(size, |of| trace(size, of, &few))
        },
        columns: &[&MEAN, &WORST, &SPIKE, &BEGIN],
        claims: &[Claim {
            id: "spikes",
            text: "the spikes of Fork and Zigzag stand clear of Hourglass and Piggyback",
            judge: |data| {
                let low = ["hourglass", "piggyback"];
                on(data, &SPIKE, |it| it.above(&["fork", "bazz"], &low, 1.5, At::Last))
            },
        }],
        ..BASE
    },
    Figure {
        name: "li-14",
        source: "Li et al. 2018, figure 14",
        title: "worst tick against size of the state",
        swept: SIZE,
        facets: |size| with_skews(size, |of| by_size(size, of, ALGORITHMS, &[Plot::Lines(&WORST)])),
        claims: &[
            Claim {
                id: "orders-below",
                text: "Ping-Pong, Hourglass and Piggyback are orders of magnitude below NS, COU, \
                       Fork and Zigzag",
                judge: |data| {
                    on(data, &WORST, |it| it.above(SLOW_BEGIN, FAST_BEGIN, 10.0, At::Last))
                },
            },
            Claim {
                id: "flat",
                text: "they are flat in size",
                judge: |data| on(data, &WORST, |it| it.grows(FAST_BEGIN, FLAT)),
            },
            Claim {
                id: "grow",
                text: "NS, COU, Fork and Zigzag grow with size",
                judge: |data| on(data, &WORST, |it| it.grows(SLOW_BEGIN, 0.5..=1.5)),
            },
        ],
        ..BASE
    },
    Figure {
        name: "li-15",
        source: "Li et al. 2018, figure 15",
        title: "worst tick against update frequency",
        facets: |size| with_skews(size, |of| by_frequency(size, of, &[Plot::Lines(&WORST)])),
        claims: &[Claim {
            id: "independent",
            text: "the worst tick of NS, COU, Fork and Zigzag does not depend on the frequency",
            judge: |data| on(data, &WORST, |it| it.flat(SLOW_BEGIN, 1.5)),
        }],
        ..BASE
    },
    Figure {
        name: "li-16",
        source: "Li et al. 2018, figure 16",
        title: "most updates a second",
        workload: "4-byte items, no idle time, nothing of an image read for four fifths of \
                   the time to the next, as with the paper's dump off, the rest as fast as \
                   can be; increments merged.",
        swept: SIZE,
        facets: |size| with_pages(size, |of| full_speed(size, of)),
        columns: &[&THROUGHPUT, &MEAN, &WORST, &BEGIN, &MEMORY],
        claims: &[
            Claim {
                id: "most",
                text: "Hourglass, Piggyback and Fork reach the most",
                judge: |data| {
                    let high = ["hourglass", "piggyback", "fork"];
                    let low = ["naive", "bacou", "bazz", "npp-merge", "ipp-merge"];
                    on(data, &THROUGHPUT, |it| it.above(&high, &low, 0.97, At::Last))
                },
            },
            Claim {
                id: "ns-pulled-below",
                text: "NS is pulled below them by its spike",
                judge: |data| {
                    let high = ["hourglass", "piggyback", "fork"];
                    on(data, &THROUGHPUT, |it| it.above(&high, &["naive"], 1.03, At::Last))
                },
            },
            Claim {
                id: "uniform",
                text: "so it is under uniform updates (not in the paper)",
                judge: |data| {
                    let high = ["hourglass", "piggyback", "fork"];
                    within(data, UNIFORM_FACET, &THROUGHPUT, |it| {
                        it.above(&high, &["naive"], 1.03, At::Last)
                    })
                },
            },
        ],
        ..BASE
    },
    Figure {
        name: "li-17",
        source: "Li et al. 2018, figure 17",
        title: "time of an image against size of the state",
        swept: SIZE,
        workload: TRAVERSE,
        facets: |size| {
            let facet = |of| by_size(size, of, ALGORITHMS, &[Plot::Lines(&IMAGE)]);
            [facet(PAPER), facet(LINES), unpaced(size, facet(PAPER))].into()
        },
        claims: &[
            Claim {
                id: "linear",
                text: "it is linear in size",
                judge: |data| on(data, &IMAGE, |it| it.grows(PAPERS, 0.8..=1.2)),
            },
            Claim {
                id: "equal",
                text: "it is about equal among algorithms",
                judge: |data| on(data, &IMAGE, |it| it.alike(PAPERS, 1.25)),
            },
        ],
        ..BASE
    },
    Figure {
        name: "li-18",
        source: "Li et al. 2018, figure 18",
        title: "time of an image against update frequency",
        facets: |size| {
            let facet = |of| by_frequency(size, of, &[Plot::Lines(&IMAGE)]);
            [facet(PAPER), facet(LINES), unpaced(size, facet(PAPER))].into()
        },
        workload: TRAVERSE,
        claims: &[Claim {
            id: "independent",
            text: "it does not depend on the frequency",
            judge: |data| on(data, &IMAGE, |it| it.flat(PAPERS, 1.25)),
        }],
        ..BASE
    },
    Figure {
        name: "li-19",
        source: "Li et al. 2018, figure 19",
        title: "worst tick of Fork, Hourglass and Piggyback against size",
        swept: SIZE,
        facets: |size| {
            with_skews(size, |of| {
                by_size(size, of, SCALABLE, &[Plot::Lines(&WORST), Plot::Lines(&BEGIN)])
            })
        },
        claims: &[
            Claim {
                id: "fork-grows",
                text: "Fork's begin grows with the page table, 8 bytes for each 4 KiB",
                judge: |data| on(data, &BEGIN, |it| it.grows(&["fork"], 0.6..=1.4)),
            },
            Claim {
                id: "flat",
                text: "the worst ticks of Hourglass and Piggyback are flat",
                judge: |data| on(data, &WORST, |it| it.grows(&["hourglass", "piggyback"], FLAT)),
            },
        ],
        ..BASE
    },
    TABLE_2,
];

/// A rule on the paper's own distribution, in both readings of it.
fn on(data: &Data<'_>, metric: &Metric, rule: impl Fn(View<'_>) -> Judgement) -> Judgement {
    let (words, lines) = (within(data, 0, metric, &rule), within(data, 1, metric, &rule));
    words.named("any word").and(lines.named("one line"))
}

/// A rule on flags of pages, as the paper's are: what a flag costs rests on its unit.
fn on_pages(data: &Data<'_>, metric: &Metric, rule: impl Fn(View<'_>) -> Judgement) -> Judgement {
    match data.facets.iter().position(|facet| facet.unit == Some(Unit::Page)) {
        Some(place) => within(data, place, metric, rule).named("pages"),
        None => Judgement {
            outcome: Outcome::TooSmall("no unit is a page in runs of this size".to_owned()),
            ..Judgement::untested("")
        },
    }
}

/// The same facet as fast as images can be read: no rate of a disk decides how long they take.
fn unpaced(size: Size, facet: Facet) -> Facet {
    let spot = |(x, case): (f64, Case)| {
        let (interval_ms, ticks) = size.pick((60, 15), (700, 70), (case.interval_ms, case.ticks));
        let case = Case { disk_rate: None, interval_ms, ticks, memory: false, ..case };
        (x, shrunk(case, size))
    };
    Facet {
        title: format!("{}, without a disk", facet.title),
        algorithms: ALGORITHMS[1..].to_vec(),
        spots: facet.spots.into_iter().map(spot).collect(),
        ..facet
    }
}

fn trace(size: Size, of: Distribution, algorithms: &[&'static str]) -> Facet {
    let case = in_proportion(size, base_mb(size), 256_000, of);
    let spot = (case.updates_per_tick as f64, case);
    Facet::new(title(of), algorithms, vec![spot], &[Plot::Strips])
}

/// What each algorithm is good and bad at, as numbers.
const TABLE_2: Figure = Figure {
    name: "li-t2",
    source: "Li et al. 2018, table 2",
    title: "every algorithm in every respect",
    workload: "The workloads of li-14 (sizes) and li-16 (full speed). Full or incremental images: \
               see 'lab list'; Ping-Pong and Hourglass are the incremental ones.",
    swept: "state [MB]",
    facets: facets_of_table_2,
    columns: &[&MEAN, &WORST, &SPIKE, &BEGIN, &THROUGHPUT, &MEMORY],
    claims: &[
        Claim {
            id: "cou-pp-mean",
            text: "(*) the mean tick of COU and Ping-Pong is high",
            judge: |data| {
                within(data, 0, &MEAN, |it| {
                    it.above(&["bacou", "npp-merge"], &["naive"], 1.2, At::Last)
                })
            },
        },
        Claim {
            id: "ns-spike",
            text: "(*) the spike of NS is high, above those of COU, Fork and Zigzag",
            judge: |data| {
                let rest = ["bacou", "fork", "bazz"];
                within(data, 0, &WORST, |it| it.above(&["naive"], &rest, 1.0, At::Last))
            },
        },
        Claim {
            id: "begin-proportional",
            text: "(*) begin takes time in proportion to the state: NS, COU, Fork, Zigzag",
            judge: |data| {
                let slow = ["naive", "bacou", "fork", "bazz"];
                within(data, 0, &BEGIN, |it| it.grows(&slow, 0.6..=1.4))
            },
        },
        Claim {
            id: "begin-constant",
            text: "begin of Ping-Pong, Hourglass and Piggyback takes the same time at every size",
            judge: |data| {
                let fast = ["npp-merge", "ipp-merge", "hourglass", "piggyback"];
                within(data, 0, &BEGIN, |it| it.grows(&fast, -0.4..=0.4))
            },
        },
        Claim {
            id: "throughput",
            text: "throughput of NS and Ping-Pong is low, of Fork, Hourglass and Piggyback high",
            judge: |data| {
                within(data, 1, &THROUGHPUT, |it| {
                    let high = ["fork", "hourglass", "piggyback"];
                    it.above(&high, &["naive", "npp-merge"], 1.03, At::Last)
                })
            },
        },
        Claim {
            id: "memory",
            text: "(*) Ping-Pong needs three times the state, all others about twice",
            judge: |data| {
                within(data, 0, &MEMORY, |it| {
                    let rest = ["naive", "bacou", "fork", "bazz", "hourglass", "piggyback"];
                    it.above(&["npp-merge", "ipp-merge"], &rest, 1.3, At::Last)
                })
            },
        },
    ],
    ..Figure::BLANK
};

fn facets_of_table_2(size: Size) -> Vec<Facet> {
    let rows = [Plot::Rows(&MEAN), Plot::Rows(&WORST), Plot::Rows(&BEGIN), Plot::Rows(&MEMORY)];
    let sizes = |of, plots: &[Plot]| by_size(size, of, ALGORITHMS, plots);
    let full_speed = full_speed(size, PAPER);
    let full_speed = Facet { title: format!("{}, full speed", full_speed.title), ..full_speed };
    let rest = size.cut(&[UNIFORM][..], &[UNIFORM, ZIPF]);
    let rest = rest.iter().map(|&of| sizes(of, &[]));
    [sizes(PAPER, &rows), full_speed].into_iter().chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::data::{Cache, Direct};

    /// What hides pauses is cut as the state is, that makes them.
    #[test]
    fn updates_of_a_tick_are_cut_as_the_state_is() {
        for name in ["li-12", "li-13", "li-14", "li-15"] {
            let figure = FIGURES.iter().find(|figure| figure.name == name).expect("a figure");
            for (size, mb, most) in [(Size::QUICK, 50, 12_800), (Size::FULL, 1000, 256_000)] {
                let facets = (figure.facets)(size);
                let cases = facets.iter().flat_map(Facet::cases);
                let full = cases.filter(|case| case.size_bytes == mb * 1_000_000);
                assert_eq!(full.map(|case| case.updates_per_tick).max(), Some(most), "{name}");
            }
        }
    }

    /// Words judge nothing that rests on flags of pages.
    #[test]
    fn what_flags_cost_is_judged_with_pages_alone() {
        let (cache, direct) = (Cache::default(), Direct::new());
        let figure = FIGURES.iter().find(|figure| figure.name == "li-10").expect("a figure");
        for id in ["cou-pp-high", "zigzag-low"] {
            let claim = figure.claims.iter().find(|claim| claim.id == id).expect("a claim");
            let quick = (figure.facets)(Size::QUICK);
            let judged = (claim.judge)(&Data::new(&quick, &cache, &direct));
            assert!(matches!(judged.outcome, Outcome::TooSmall(_)), "{id}: {judged:?}");
            let large = (figure.facets)(Size { scale: Scale::Large, shrink: 1 });
            let data = Data::new(&large, &cache, &direct);
            let _ = (claim.judge)(&data);
            let asked = data.asked().cases;
            assert!(!asked.is_empty());
            let is_page = |key: &String| {
                ["\"page\"", "\"naive\"", "\"none\""].iter().any(|it| key.contains(it))
            };
            assert!(asked.iter().all(is_page), "{asked:?}");
        }
        let large = (figure.facets)(Size { scale: Scale::Large, shrink: 1 });
        assert!(large.last().is_some_and(|pages| pages.case("naive", 0).is_ok()));
    }

    /// The time of an image is that with a disk, as in the paper.
    #[test]
    fn rules_on_the_time_of_an_image_look_at_facets_with_a_disk() {
        for name in ["li-17", "li-18"] {
            let figure = FIGURES.iter().find(|figure| figure.name == name).expect("a figure");
            let facets = (figure.facets)(Size::QUICK);
            let paced = |facet: &Facet| facet.cases().all(|case| case.disk_rate.is_some());
            assert!(facets[..2].iter().all(paced) && !paced(&facets[2]), "{name}");
        }
    }

    /// The paper's unit stands beside ours, behind the facets that rules read.
    #[test]
    fn figures_show_flags_of_pages_beside_words() {
        for name in ["li-10", "li-12", "li-16"] {
            let figure = FIGURES.iter().find(|figure| figure.name == name).expect("a figure");
            for scale in [Scale::Large, Scale::Full] {
                let facets = (figure.facets)(Size { scale, shrink: 1 });
                let [words @ .., pages] = &facets[..] else { panic!("{name} has no facets") };
                assert!(words.len() > UNIFORM_FACET, "{name}: rules read a facet of pages");
                assert!(words.iter().all(|facet| facet.unit.is_none()), "{name}");
                let flagged = ["bacou", "fork", "bazz", "npp-merge", "hourglass", "piggyback"];
                for algorithm in flagged {
                    assert!(pages.algorithms.contains(&algorithm), "{name}: {algorithm}");
                    let unit = pages.case(algorithm, 0).expect("registered").unit;
                    assert_eq!(unit, Unit::Page, "{name}: {algorithm}");
                }
            }
        }
    }
}
