//! Cao et al.: "Fast Checkpoint Recovery Algorithms for Frequently Consistent Applications"
//! (2011), figures 3 to 9 and 14.
//!
//! Their workload: objects of 8 KB (2,000 four-byte words), object and word both by Zipf with
//! exponent 0.5, 200 MB, a period of about 4 s, the writer of images turned off. What is measured
//! is the time of the mutator above the floor, over one period. Here nothing of an image is read
//! for four fifths of a period, so that whatever pays while an image is held pays as long as
//! theirs did. Then it is read at full speed, in some hundredth of the period: a reader that took
//! the whole last fifth would be the paper's writer of images, which it had turned off.
//!
//! A tick is 0.1 s of theirs, with most of the idle time cut. `--quick` has a quarter of the state
//! and of the period, so that as large a share of the state is written in a period; against size,
//! the period is theirs. `--large` has the state and the period of the paper.

use stillframe::Unit;

use super::data::{Data, View};
use super::deciding::Extent;
use super::judge::{At, Judgement, within};
use super::metric::{BEGIN, MEAN, Metric, OVERHEAD, PEAK, SPIKE, WORST};
use super::plan::{Facet, Plot, Size, shrunk};
use super::profile;
use super::{Claim, Direct, Figure};
use crate::case::{Case, Distribution, FLOOR};

const ZIGZAGS: &[&str] = &[FLOOR, "nzz", "izz", "pzz", "bazz"];
const PING_PONGS: &[&str] = &[FLOOR, "npp-merge", "ipp-merge"];
const BEST: &[&str] = &[FLOOR, "naive", "bacou", "bazz", "ipp-merge", "imprint"];
/// Their Copy-on-Update copies lines; that of Li et al., which `bacou` stands for elsewhere, pages.
const UNITS: &[(&str, Unit)] = &[("bacou", Unit::Line)];
const RATE: &str = "updates per second";

/// A workload at that many updates in a second of the paper's time.
fn case(size: Size, mb: u64, per_second: u64) -> Case {
    let (tick_ms, period) = size.pick((15, 10), (30, 40), (100, 40));
    with_period(size, mb, per_second, tick_ms, period)
}

/// The same with ticks of that length, and so many of them in a period.
fn with_period(size: Size, mb: u64, per_second: u64, tick_ms: u64, period: u64) -> Case {
    let case = Case {
        size_bytes: mb * 1_000_000,
        updates_per_tick: per_second / 10,
        tick_ms,
        ticks: period * size.cut(2, 10) + period / 2,
        interval_ms: period * tick_ms,
        hold_ms: period * tick_ms * 4 / 5,
        distribution: Distribution::Objects { object_words: 2000, theta: 0.5 },
        disk_rate: None,
        trace: true,
        memory: false,
        ..Case::default()
    };
    shrunk(case, size)
}

fn facet(
    title: &str,
    algorithms: &[&'static str],
    spots: Vec<(f64, Case)>,
    plots: &[Plot],
) -> Facet {
    Facet::new(title, algorithms, spots, plots).with_own(UNITS)
}

fn base_mb(size: Size) -> u64 {
    size.pick(50, 200, 200)
}

fn rates(size: Size) -> &'static [u64] {
    let full =
        &[10_000, 40_000, 80_000, 160_000, 320_000, 640_000, 1_280_000, 2_560_000, 5_120_000];
    size.cut(&[40_000, 320_000, 1_280_000, 5_120_000], full)
}

fn by_rate(size: Size, algorithms: &[&'static str]) -> Vec<Facet> {
    let spot = |&rate: &u64| (rate as f64, case(size, base_mb(size), rate));
    let spots = rates(size).iter().map(spot).collect();
    vec![facet("objects by Zipf 0.5", algorithms, spots, &[Plot::Lines(&OVERHEAD)])]
}

/// State of rising size, `base` updates a second at 200 MB and in proportion else; scaled, in
/// ticks of `tick_ms`.
fn by_size(size: Size, base: u64, tick_ms: u64) -> Vec<Facet> {
    let sizes: &[u64] = size.pick(&[25, 50], &[200, 800], &[100, 200, 400, 800, 1600]);
    let tick_ms = size.pick(tick_ms, 8 * tick_ms, 100);
    let spot = |&mb: &u64| (mb as f64, with_period(size, mb, base * mb / 200, tick_ms, 40));
    let spots = sizes.iter().map(spot).collect();
    vec![facet("objects by Zipf 0.5", BEST, spots, &[Plot::Lines(&OVERHEAD)])]
}

fn trace(size: Size, per_second: u64) -> Vec<Facet> {
    let spot = (per_second as f64, case(size, base_mb(size), per_second));
    vec![facet("one strip per algorithm", BEST, vec![spot], &[Plot::Strips])]
}

/// Updates of all players in a second.
const GAME: u64 = 531_530;
/// Attributes of a player, of four bytes.
const ATTRIBUTES: u64 = 25_000;

/// The workload of an online game.
pub(super) fn game_case(size: Size) -> Case {
    let distribution = Distribution::Players(ATTRIBUTES);
    Case { distribution, ..case(size, base_mb(size), GAME) }
}

fn game(size: Size, plots: &[Plot]) -> Vec<Facet> {
    vec![facet("players", BEST, vec![(GAME as f64, game_case(size))], plots)]
}

fn by_page(size: Size) -> Vec<Facet> {
    let facet = |(title, huge_pages)| {
        let spot =
            |rate: u64| (rate as f64, Case { huge_pages, ..case(size, base_mb(size), rate) });
        let spots = [320_000, 1_280_000].map(spot).into();
        self::facet(title, BEST, spots, &[Plot::Lines(&OVERHEAD)])
    };
    [("4 KiB pages", false), ("2 MiB pages", true)].map(facet).into()
}

fn on(data: &Data<'_>, metric: &Metric, rule: impl FnOnce(View<'_>) -> Judgement) -> Judgement {
    within(data, 0, metric, rule)
}

/// The share of the overhead that large pages remove, at the higher rate: within `share`.
fn cut(data: &Data<'_>, name: &str, share: std::ops::RangeInclusive<f64>) -> Judgement {
    let [small, large] = [0, 1].map(|facet| {
        let facet = data.facets.get(facet)?;
        View { data, facet, metric: &OVERHEAD }.value(name, 1)
    });
    match (small, large) {
        (Some(small), Some(large)) if small > 0.0 => {
            let cut = 1.0 - large / small;
            Judgement::new(share.contains(&cut), format!("{name}: cut by {:.0} %", cut * 100.0))
        }
        (Some(_), Some(_)) => Judgement::untested(format!("{name} has no overhead to cut")),
        _ => Judgement::untested(format!("{name} was not measured")),
    }
}

const BASE: Figure = Figure {
    workload: "Objects of 2,000 four-byte words, object and word by Zipf 0.5; an image each \
               period, of which nothing is read for four fifths of it, as with the paper's \
               writer of images off; time of the writer above the row 'none'.",
    swept: RATE,
    columns: &[&OVERHEAD, &MEAN, &WORST, &BEGIN],
    ..Figure::BLANK
};

const PLAYERS: &str = "2,000 players of 25,000 attributes of four bytes, fewer if scaled; five state \
                       machines of each, nearly independent, decide which attributes a step \
                       updates; else as cao-3.";

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        name: "cao-3",
        source: "Cao et al. 2011, figure 3",
        title: "overhead of the Zigzag layouts",
        facets: |size| by_rate(size, ZIGZAGS),
        claims: &[Claim {
            id: "bazz-best",
            text: "BAZZ is the best layout except at extreme rates",
            judge: |data| {
                on(data, &OVERHEAD, |it| {
                    it.above(&["nzz", "izz", "pzz"], &["bazz"], 0.95, At::ButLast)
                })
            },
        }],
        ..BASE
    },
    Figure {
        name: "cao-4",
        source: "Cao et al. 2011, figure 4",
        title: "overhead of the Ping-Pong layouts",
        facets: |size| by_rate(size, PING_PONGS),
        claims: &[Claim {
            id: "ipp-sixth-of-npp",
            text: "IPP has about a sixth of NPP's overhead (held: a third or less at every rate)",
            judge: |data| {
                on(data, &OVERHEAD, |it| it.above(&["npp-merge"], &["ipp-merge"], 3.0, At::Each))
            },
        }],
        ..BASE
    },
    Figure {
        name: "cao-5",
        source: "Cao et al. 2011, figure 5",
        title: "overhead against update rate",
        facets: |size| by_rate(size, BEST),
        claims: &[
            Claim {
                id: "ns-flat",
                text: "NS is flat",
                judge: |data| on(data, &OVERHEAD, |it| it.flat(&["naive"], 1.5)),
            },
            Claim {
                id: "ns-best-at-high-rates",
                text: "NS is below BACOU and BAZZ at high rates",
                judge: |data| {
                    on(data, &OVERHEAD, |it| {
                        it.above(&["bacou", "bazz"], &["naive"], 1.0, At::Last)
                    })
                },
            },
            Claim {
                id: "ipp-near-best",
                text: "IPP is the best or near the best (1.2x) except at the highest rate",
                judge: |data| {
                    on(data, &OVERHEAD, |it| {
                        let rest = ["naive", "bacou", "bazz"];
                        it.above(&rest, &["ipp-merge"], 1.0 / 1.2, At::ButLast)
                    })
                },
            },
        ],
        ..BASE
    },
    Figure {
        name: "cao-6",
        source: "Cao et al. 2011, figure 6",
        title: "overhead against size, 0.08 % of the state updated a second",
        swept: "state [MB]",
        facets: |size| by_size(size, 40_000, 5),
        claims: &[Claim {
            id: "ipp-tenth-of-ns",
            text: "IPP has about a tenth of NS's overhead at every size (held: a fifth or less)",
            judge: |data| {
                on(data, &OVERHEAD, |it| it.above(&["naive"], &["ipp-merge"], 5.0, At::Each))
            },
        }],
        ..BASE
    },
    Figure {
        name: "cao-7",
        source: "Cao et al. 2011, figure 7",
        title: "overhead against size, 2.56 % of the state updated a second",
        swept: "state [MB]",
        facets: |size| by_size(size, 1_280_000, 12),
        claims: &[
            Claim {
                id: "ns-best",
                text: "NS is the best at every size",
                judge: |data| {
                    on(data, &OVERHEAD, |it| {
                        it.above(&["bacou", "bazz", "ipp-merge"], &["naive"], 0.95, At::Each)
                    })
                },
            },
            Claim {
                id: "ipp-below-bacou-bazz",
                text: "IPP stays below BACOU and BAZZ",
                judge: |data| {
                    on(data, &OVERHEAD, |it| {
                        it.above(&["bacou", "bazz"], &["ipp-merge"], 1.0, At::Each)
                    })
                },
            },
        ],
        ..BASE
    },
    Figure {
        name: "cao-8",
        source: "Cao et al. 2011, figure 8",
        title: "latency in steps of 0.1 s, 320,000 updates a second",
        facets: |size| trace(size, 320_000),
        columns: &[&MEAN, &WORST, &PEAK, &SPIKE, &OVERHEAD],
        claims: &[
            Claim {
                id: "ipp-constant",
                text: "IPP is nearly constant (worst step at most twice the median)",
                judge: |data| on(data, &PEAK, |it| it.most(&["ipp-merge"], 2.0)),
            },
            Claim {
                id: "peaks",
                text: "peaks: NS far above BACOU and BAZZ (29, 6 and 4 ms there), IPP lowest",
                judge: |data| {
                    let first = on(data, &WORST, |it| {
                        it.above(&["naive"], &["bacou", "bazz"], 2.0, At::Last)
                    });
                    first.and(on(data, &WORST, |it| {
                        it.above(&["bacou", "bazz"], &["ipp-merge"], 1.0, At::Last)
                    }))
                },
            },
        ],
        ..BASE
    },
    Figure {
        name: "cao-9",
        source: "Cao et al. 2011, figure 9",
        title: "latency in steps of 0.1 s, 1,280,000 updates a second",
        facets: |size| trace(size, 1_280_000),
        columns: &[&MEAN, &WORST, &PEAK, &SPIKE, &OVERHEAD],
        claims: &[Claim {
            id: "bazz-rises-most",
            text: "BAZZ's mean rises most (10 ms a step there), above IPP and BACOU",
            judge: |data| {
                on(data, &MEAN, |it| it.above(&["bazz"], &["ipp-merge", "bacou"], 1.0, At::Last))
            },
        }],
        ..BASE
    },
    Figure {
        name: "cao-10",
        source: "Cao et al. 2011, figure 10",
        title: "overhead in an online game, 531,530 updates a second",
        workload: PLAYERS,
        facets: |size| game(size, &[Plot::Rows(&OVERHEAD)]),
        claims: &[
            Claim {
                id: "ipp-seventh-of-ns",
                text: "IPP has nearly a seventh of NS's overhead (held: a fifth or less)",
                judge: |data| {
                    on(data, &OVERHEAD, |it| it.above(&["naive"], &["ipp-merge"], 5.0, At::Last))
                },
            },
            Claim {
                id: "ipp-least",
                text: "IPP has the least overhead of the four",
                judge: |data| {
                    on(data, &OVERHEAD, |it| {
                        it.above(&["naive", "bacou", "bazz"], &["ipp-merge"], 1.0, At::Last)
                    })
                },
            },
            Claim {
                id: "wait-free-below-bacou",
                text: "both strategies that are free of waits have less than BACOU",
                judge: |data| {
                    on(data, &OVERHEAD, |it| {
                        it.above(&["bacou"], &["bazz", "ipp-merge"], 1.0, At::Last)
                    })
                },
            },
            Claim {
                id: "bazz-like-ns",
                text: "BAZZ is comparable to NS (held: within 1.5x)",
                judge: |data| {
                    on(data, &OVERHEAD, |it| {
                        let least = it.above(&["bazz"], &["naive"], 1.0 / 1.5, At::Last);
                        least.and(it.above(&["naive"], &["bazz"], 1.0 / 1.5, At::Last))
                    })
                },
            },
        ],
        ..BASE
    },
    Figure {
        name: "cao-11",
        source: "Cao et al. 2011, figure 11",
        title: "latency in steps of 0.1 s in an online game",
        workload: PLAYERS,
        facets: |size| game(size, &[Plot::Strips]),
        columns: &[&MEAN, &WORST, &PEAK, &SPIKE, &OVERHEAD],
        claims: &[
            Claim {
                id: "ns-step-above-ipp",
                text: "the worst step of NS is far above that of IPP (29 and 0.9 ms there; held: \
                       ten times)",
                judge: |data| {
                    on(data, &WORST, |it| it.above_floor(&["naive"], &["ipp-merge"], 10.0))
                },
            },
            Claim {
                id: "ipp-uniform",
                text: "IPP is almost uniform (worst step at most twice the median)",
                judge: |data| on(data, &PEAK, |it| it.most(&["ipp-merge"], 2.0)),
            },
        ],
        ..BASE
    },
    Figure {
        name: "cao-t2",
        source: "Cao et al. 2011, table 2",
        title: "what one update executes, at 320,000 a second",
        workload: "Instructions and misses of simulated caches (32 KiB, 1 MiB) of the writer for \
                   one update while an image is held of which nothing is read; the state is cut \
                   as the last cache is. Times are not in it.",
        swept: "",
        columns: &[],
        direct: Some(Direct {
            seconds: |size| size.cut(25.0, 900.0),
            extent: |size| Extent { amount: size.cut(8.0, 200.0), unit: "MB" },
            measure: profile::counts,
        }),
        claims: &[
            Claim {
                id: "ipp-few-misses",
                text: "IPP adds few misses to those of the raw mutator (held: 1.43x at most, which \
                       is the time there)",
                judge: |data| profile::misses_at_most(data, "ipp-merge", 1.43),
            },
            Claim {
                id: "npp-more-misses",
                text: "NPP misses far more often than IPP (held: twice at least)",
                judge: |data| profile::misses_at_least(data, "npp-merge", "ipp-merge", 2.0),
            },
        ],
        ..BASE
    },
    Figure {
        name: "cao-14",
        source: "Cao et al. 2011, figure 14",
        title: "overhead with pages of 4 KiB and 2 MiB",
        facets: by_page,
        claims: &[
            Claim {
                id: "ipp-cut",
                text: "large pages cut IPP's overhead by about 80 % (held: 60 to 100)",
                judge: |data| cut(data, "ipp-merge", 0.6..=1.0),
            },
            Claim {
                id: "bazz-cut",
                text: "they cut BAZZ's by 40 to 60 % (held: 30 to 70)",
                judge: |data| cut(data, "bazz", 0.3..=0.7),
            },
            Claim {
                id: "ns-bacou-same",
                text: "they do little for NS and BACOU (held: within 25 %)",
                judge: |data| {
                    cut(data, "naive", -0.25..=0.25).and(cut(data, "bacou", -0.25..=0.25))
                },
            },
        ],
        ..BASE
    },
];
