//! Sidlauskas, Jensen and Saltenis: "A Comparison of the Use of Virtual Versus Physical Snapshots
//! for Supporting Update-Intensive Workloads" (2012): the four charts of the poster.
//!
//! We know only the poster's text, so captions stand for charts. Query threads in the forked child
//! (chart 2) are left out: a forked child of a threaded process must run nothing that takes a lock,
//! so ours reads the image with one thread.

use super::data::{Data, View};
use super::deciding::Extent;
use super::direct;
use super::judge::{At, Judgement, within};
use super::metric::{BEGIN_MS, COPY_RATE, IMAGE, THROUGHPUT, WORST};
use super::plan::{Facet, Plot, Size, shrunk};
use super::queries;
use super::{Claim, Direct, Figure};
use crate::case::{Case, Distribution};
use crate::report::Table;
use stillframe_measure::environment;

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        name: "sidlauskas-1",
        source: "Sidlauskas et al. 2012, chart 1",
        title: "physical snapshots: copies by several threads",
        workload: "The C library's memcpy by several threads, as in the poster; beside it begin of \
                   Naive Snapshot, which copies all the state by an instruction of its own (rep \
                   movsq), with few updates. Memory bandwidth is what reading alone reaches with \
                   all cores in the same run; a copy moves every byte twice.",
        swept: "state [MB]",
        facets: by_threads,
        columns: &[&BEGIN_MS, &COPY_RATE],
        direct: Some(Direct {
            seconds: |_| 4.0,
            extent: |size| Extent { amount: size.pick(512.0, 2048.0, 2048.0), unit: "MiB" },
            measure: direct::bandwidth,
        }),
        tables: |_| Vec::new(),
        claims: &[Claim {
            id: "bandwidth",
            text: "memcpy uses 76 to 88 % of the memory bandwidth (held: 76 % or more)",
            judge: share_of_bandwidth,
        }],
    },
    Figure {
        name: "sidlauskas-2",
        source: "Sidlauskas et al. 2012, chart 2",
        title: "creating virtual and physical snapshots",
        workload: "Of the first image of a process: begin, and the time until all of the image was read once by one thread; few \
                   updates. Then with query threads, which read random words of the image while \
                   the writer updates random words without pause: threads of the forked child \
                   while the next image is created; threads on the physical copy, which has one \
                   place, until it is.",
        swept: "state [MB]",
        facets: |size| vec![creation(size)],
        columns: &[&BEGIN_MS, &IMAGE],
        direct: Some(Direct {
            seconds: |size| size.pick(8.0, 30.0, 80.0),
            extent: |size| Extent { amount: size.pick(256.0, 1024.0, 2048.0), unit: "MiB" },
            measure: queries::on_images,
        }),
        tables: |_| Vec::new(),
        claims: &[
            Claim {
                id: "virtual-only-small",
                text: "virtual snapshots on 4 KiB pages compete with physical ones only when small \
                       (held: at the largest size, fork's begin is no shorter than a parallel copy)",
                judge: |data| {
                    within(data, 0, &BEGIN_MS, |it| {
                        it.above(&["fork"], &["naive-parallel"], 1.0, At::Last)
                    })
                },
            },
            Claim {
                id: "huge-pages",
                text: "huge pages improve them significantly (held: begin at most half as long)",
                judge: |data| {
                    within(data, 0, &BEGIN_MS, |it| {
                        it.above(&["fork"], &["fork-huge"], 2.0, At::Last)
                    })
                },
            },
        ],
    },
    Figure {
        name: "sidlauskas-3",
        source: "Sidlauskas et al. 2012, chart 3",
        title: "cost of the first write to a page after fork",
        workload: "Each page of a forked state is written once, each write timed by itself; bars \
                   span the middle 90 % of writes.",
        direct: Some(Direct {
            seconds: |_| 3.0,
            extent: |size| Extent { amount: size.pick(256.0, 2048.0, 2048.0), unit: "MiB" },
            measure: direct::first_writes,
        }),
        claims: &[Claim {
            id: "huge-copy",
            text: "one copy-on-write of 2 MiB costs far more than one of 4 KiB (held: 10x)",
            judge: huge_fault,
        }],
        ..Figure::BLANK
    },
    Figure {
        name: "sidlauskas-4",
        source: "Sidlauskas et al. 2012, chart 4",
        title: "updates under physical and virtual snapshots, by skew",
        workload: "2^24 items of 8 bytes (128 MB), full speed, begin included; distributions of \
                   rising skew: uniform, then Zipf of rising exponent (0 stands for uniform).",
        swept: "exponent of Zipf",
        facets: by_skew,
        columns: &[&THROUGHPUT, &WORST, &BEGIN_MS],
        direct: None,
        tables: signs,
        claims: &[
            Claim {
                id: "physical-little-skew",
                text: "physical snapshots win with little skew",
                judge: |data| within(data, 0, &THROUGHPUT, |it| first(it, "naive", "fork")),
            },
            Claim {
                id: "virtual-high-skew",
                text: "virtual snapshots win only under high skew",
                judge: |data| {
                    within(data, 0, &THROUGHPUT, |it| {
                        it.above(&["fork"], &["naive"], 1.0, At::Last)
                    })
                },
            },
        ],
    },
];

fn quiet(size: Size, mb: u64, threads: usize) -> Case {
    let case = Case {
        size_bytes: mb << 20,
        updates_per_tick: 1000,
        tick_ms: 10,
        ticks: 20 + mb / 4,
        interval_ms: 1,
        disk_rate: None,
        threads,
        memory: false,
        ..Case::default()
    };
    shrunk(case, size)
}

fn sizes(size: Size) -> &'static [u64] {
    size.pick(&[32, 128], &[256, 1024], &[32, 64, 128, 256, 512, 1024, 2048])
}

fn by_threads(size: Size) -> Vec<Facet> {
    let facet = |threads: usize| {
        let spot = |&mb: &u64| (mb as f64, quiet(size, mb, threads));
        let name = if threads == 1 { "naive" } else { "naive-parallel" };
        let title = if threads == 1 { "1 thread".into() } else { format!("{threads} threads") };
        let spots = sizes(size).iter().map(spot).collect();
        // One plot for all, drawn with the first.
        let plots: &[Plot] = if threads == 1 { &[Plot::Across(&COPY_RATE)] } else { &[] };
        Facet::new(title, &[name], spots, plots)
    };
    let cores = environment().cores.max(2);
    [1, 2, 4, 8, 16].into_iter().filter(|&threads| threads <= cores).map(facet).collect()
}

/// The first image of a process: writes after a fork split pages of 2 MiB, which a later fork would
/// find.
fn creation(size: Size) -> Facet {
    let spot = |&mb: &u64| {
        let case = quiet(size, mb, environment().cores.max(2));
        (mb as f64, Case { first: true, checkpoints: 1, ticks: case.ticks.min(20), ..case })
    };
    let names = ["naive-parallel", "fork", "fork-huge", "imprint"];
    let plots = [Plot::Lines(&BEGIN_MS), Plot::Lines(&IMAGE)];
    Facet::new("all cores copy", &names, sizes(size).iter().map(spot).collect(), &plots)
}

fn by_skew(size: Size) -> Vec<Facet> {
    let skews: &[f64] = size.cut(&[0.0, 0.99, 2.0], &[0.0, 0.5, 0.8, 0.99, 1.2, 1.5, 2.0]);
    let facet = |interval_ms: u64| {
        let spot = |&theta: &f64| {
            let uniform = theta == 0.0;
            let case = Case {
                size_bytes: size.pick(64, 128, 128) << 20,
                item_bytes: 8,
                updates_per_tick: 64_000,
                tick_ms: 0,
                ticks: size.pick(80, 400, 4000),
                interval_ms,
                distribution: if uniform {
                    Distribution::Uniform
                } else {
                    Distribution::Zipf(theta)
                },
                disk_rate: None,
                memory: false,
                ..Case::default()
            };
            (theta, shrunk(case, size))
        };
        let names = ["none", "naive", "fork", "fork-huge", "imprint"];
        let names = if size.is_full() { &names[..] } else { &["naive", "fork", "imprint"] };
        let spots = skews.iter().map(spot).collect();
        let title = match interval_ms {
            0 => "one image after the other".to_owned(),
            ms => format!("an image every {ms} ms"),
        };
        Facet::new(title, names, spots, &[Plot::Lines(&THROUGHPUT)])
    };
    size.cut(&[0, 500][..], &[0, 250, 500, 1000, 2000]).iter().map(|&ms| facet(ms)).collect()
}

fn share_of_bandwidth(data: &Data<'_>) -> Judgement {
    let panels = data.direct();
    let most = |title: &str| {
        let series = panels.iter().filter(|it| it.title == title).flat_map(|it| &it.series);
        series.flat_map(|it| &it.points).map(|point| point.y).fold(0.0, f64::max)
    };
    let (bandwidth, copied) = (most(direct::READING), most(direct::MEMCPY));
    if bandwidth <= 0.0 || copied <= 0.0 {
        return Judgement::untested("no copy or no bandwidth was measured");
    }
    let share = 2.0 * copied / bandwidth;
    let text = format!("{:.0} % ({copied:.1} of {bandwidth:.1} GB/s)", share * 100.0);
    Judgement::new(share >= 0.76, text)
}

fn huge_fault(data: &Data<'_>) -> Judgement {
    let named = |name| data.direct_point(name).map(|point| point.y);
    match (named(direct::FIRST_SMALL), named(direct::FIRST_HUGE)) {
        (Some(small), Some(huge)) if small > 0.0 => {
            let ratio = huge / small;
            let text = format!("{huge:.1} / {small:.1} us = {ratio:.1}x");
            let kernel = &environment().kernel;
            if splits_huge_pages(kernel) {
                let why = format!("Linux {kernel} splits a page of 2 MiB and copies 4 KiB of it");
                return Judgement { measured: text, ..Judgement::untested(why) };
            }
            Judgement::new(ratio >= 10.0, text)
        }
        _ => Judgement::untested("there are no 2 MiB pages here"),
    }
}

/// Whether this release splits a 2 MiB page at the first write after a fork: since 5.8; before, it
/// copied all of the page.
fn splits_huge_pages(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (5, 8),
        _ => false,
    }
}

/// The poster's table of signs for its seven distributions, and ours for those that were run.
fn signs(data: &Data<'_>) -> Vec<Table> {
    let text = str::to_owned;
    let poster = |who: &str, signs: &str| {
        let cells = [who, signs].map(text);
        cells.into_iter().chain([text("-")]).collect::<Vec<_>>()
    };
    let mut rows = vec![poster("virtual", "- + - - - - +"), poster("physical", "+ - + + + + -")];
    for facet in data.facets {
        let view = View { data, facet, metric: &THROUGHPUT };
        for (name, rival) in [("fork", "naive"), ("naive", "fork")] {
            let sign = |spot: usize| match (view.value(name, spot), view.value(rival, spot)) {
                (Some(own), Some(other)) if own >= other => "+",
                (Some(_), Some(_)) => "-",
                _ => "?",
            };
            let all: Vec<&str> = (0..facet.spots.len()).map(sign).collect();
            let who = format!("{name}, {}", facet.title);
            rows.push(vec![who, text("-"), all.join(" ")]);
        }
    }
    let columns = ["snapshots", "poster, distributions 1 to 7", "here, rising skew"].map(text);
    let title = text("who updates faster (+), by distribution of updates");
    vec![Table { title, columns: columns.into(), rows }]
}

/// At the first swept value, one is at least the other.
fn first(it: View<'_>, more: &str, less: &str) -> Judgement {
    match (it.value(more, 0), it.value(less, 0)) {
        (Some(a), Some(b)) if b > 0.0 => {
            Judgement::new(a >= b, format!("{more} / {less} = {:.2}x with uniform updates", a / b))
        }
        _ => Judgement::untested(format!("{more} or {less} was not measured")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_split_are_told_from_those_that_copy() {
        assert!(
            ["5.8.0", "5.15.0-91-generic", "6.1.0", "6", "10.0"].map(splits_huge_pages)
                == [true, true, true, false, true]
        );
        assert!(["5.7.19", "4.19.0", "", "linux"].iter().all(|it| !splits_huge_pages(it)));
    }
}
