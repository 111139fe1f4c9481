//! Figures of our own: who is dominated by whom, what begin costs by size, and what an image does
//! to ticks.

use stillframe::Unit;
use stillframe::algorithms::ALL;

use super::data::{Data, View};
use super::judge::{At, Judgement, within};
use super::li;
use super::metric::{
    BEGIN, BUDGET, HELD, HELD_RATIO, IMAGE, MEAN, MEMORY, MEMORY_RATIO, Metric, READ, READ_RATIO,
    WAITS, WORST, WORST_RATIO,
};
use super::plan::{Facet, Plot, Scale, Size};
use super::{Claim, Figure};
use crate::case::{Case, Distribution, FLOOR, is_floor};
use crate::report::Table;

/// In each of these less is better.
const COLUMNS: &[&Metric] = &[&HELD, &WORST, &BEGIN, &READ, &MEMORY, &IMAGE];

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        name: "ours-1",
        source: "ours",
        title: "the frontier: who is dominated by whom",
        workload: "Every algorithm of the registry, 256k updates of 4 bytes a tick, one image after \
                   the other; each with the unit it was published with, then with one unit for all.",
        swept: "state [MB]",
        facets: frontier,
        columns: &[
            &HELD,
            &HELD_RATIO,
            &WORST,
            &WORST_RATIO,
            &BEGIN,
            &READ,
            &READ_RATIO,
            &MEMORY,
            &MEMORY_RATIO,
            &IMAGE,
        ],
        direct: None,
        tables: dominance,
        claims: &[
            Claim {
                id: "not-dominated",
                text: "no algorithm is as good as Imprint in every column, for any distribution",
                judge: undominated,
            },
            Claim {
                id: "mean",
                text: "Imprint at 1000 MB: mean tick while an image is held at most 1.25x of none",
                judge: |data| {
                    within(data, at_full_size(data), &HELD_RATIO, |it| it.most(&["imprint"], 1.25))
                },
            },
            Claim {
                id: "mean-batches",
                text: "the same with updates in batches of 256, for none as well: at most 1.15x",
                judge: |data| in_batches(data, UNIFORM_BATCHES, 1.15),
            },
            Claim {
                id: "mean-batches-zipf",
                text: "in batches of 256 under Zipf 0.99: at most 1.25x",
                judge: |data| in_batches(data, ZIPF_BATCHES, 1.25),
            },
            Claim {
                id: "worst",
                text: "Imprint at 1000 MB: worst tick at most 2x the worst of none",
                judge: |data| {
                    within(data, at_full_size(data), &WORST_RATIO, |it| it.most(&["imprint"], 2.0))
                },
            },
            Claim {
                id: "reads",
                text: "Imprint at 1000 MB: reads at most 1.02x of none",
                judge: |data| {
                    within(data, at_full_size(data), &READ_RATIO, |it| it.most(&["imprint"], 1.02))
                },
            },
            Claim {
                id: "memory",
                text: "Imprint at 1000 MB: peak memory at most 1.10x of none",
                judge: |data| {
                    within(data, at_full_size(data), &MEMORY_RATIO, |it| it.most(&["imprint"], 1.1))
                },
            },
            Claim {
                id: "none-better",
                text: "no algorithm of the papers is better than Imprint by more than 5 % in any \
                       column, uniform updates",
                judge: |data| unbeaten(data, Some(0)),
            },
            Claim {
                id: "none-better-batches",
                text: "nor in batches of 256, uniform updates",
                judge: |data| unbeaten(data, place_of(data, UNIFORM_BATCHES)),
            },
        ],
    },
    Figure {
        name: "ours-2",
        source: "ours",
        title: "begin against size of the state",
        workload: "As li-14, with those algorithms that Li et al. do not have.",
        swept: "state [MB]",
        facets: begin_by_size,
        columns: &[&BEGIN, &WORST],
        claims: &[
            Claim {
                id: "at-most-10-us",
                text: "begin of Imprint takes at most 10 us at every size",
                judge: |data| within(data, 0, &BEGIN, |it| it.most(&["imprint"], 10.0)),
            },
            Claim {
                id: "flat",
                text: "it is flat",
                judge: |data| within(data, 0, &BEGIN, |it| it.grows(&["imprint"], li::FLAT)),
            },
        ],
        ..Figure::BLANK
    },
    Figure {
        name: "ours-3",
        source: "ours",
        title: "memory of an image under a budget",
        workload: "256k uniform updates of 4 bytes a tick; one image after the other, each with a \
                   budget; a writer that meets its end waits for the capture.",
        swept: "budget [MB]",
        facets: under_budget,
        columns: &[&BUDGET, &MEMORY_RATIO, &WAITS, &HELD, &WORST],
        claims: &[Claim {
            id: "within-budget",
            text: "an image of Imprint takes its budget at most (held: 1.25x, with 8 bytes a page \
                   for heads and what the allocator adds)",
            judge: |data| within(data, 0, &BUDGET, |it| it.most(&["imprint"], 1.25)),
        }],
        ..Figure::BLANK
    },
    Figure {
        name: "ours-5",
        source: "ours",
        title: "latency of every tick, images shaded",
        workload: "256k uniform updates of 4 bytes a tick; one image after the other.",
        swept: "state [MB]",
        facets: ticks,
        columns: &[&MEAN, &HELD, &WORST, &BEGIN, &MEMORY],
        claims: &[
            Claim {
                id: "imprint-worst",
                text: "the worst tick of Imprint is at most 2x the worst of none",
                judge: |data| within(data, 0, &WORST_RATIO, |it| it.most(&["imprint"], 2.0)),
            },
            Claim {
                id: "fork-ns-worst",
                text: "those of Fork and Naive Snapshot are at least 2x that of Imprint",
                judge: |data| {
                    let above =
                        |it: View<'_>| it.above(&["fork", "naive"], &["imprint"], 2.0, At::Each);
                    within(data, 0, &WORST, above)
                },
            },
        ],
        ..Figure::BLANK
    },
];

/// All names, the floor first.
fn everyone() -> Vec<&'static str> {
    [FLOOR].into_iter().chain(ALL.iter().map(|info| info.name)).collect()
}

/// The state of the frontier: at 1 GB those that fault for each page would run for minutes.
fn base_mb(size: Size) -> u64 {
    size.pick(50, 200, 1000)
}

/// The load that Imprint's claims speak of, uniform.
const FULL_SIZE: &str = "uniform, 1000 MB, ticks of 100 ms, 250 MB/s";

/// The same in batches, which algorithms take whole.
const UNIFORM_BATCHES: &str = "uniform, 1000 MB, ticks of 100 ms, 250 MB/s, batches of 256";
const ZIPF_BATCHES: &str = "Zipf 0.99, 1000 MB, ticks of 100 ms, 250 MB/s, batches of 256";

fn place_of(data: &Data<'_>, title: &str) -> Option<usize> {
    data.facets.iter().position(|facet| facet.title == title)
}

/// Imprint's mean tick while an image is held, in a facet of batches.
fn in_batches(data: &Data<'_>, title: &str, most: f64) -> Judgement {
    let facet = place_of(data, title).unwrap_or(usize::MAX);
    within(data, facet, &HELD_RATIO, |it| it.most(&["imprint"], most))
}

/// Scaled runs have a facet for the claims on Imprint; full runs have that load as their first.
fn at_full_size(data: &Data<'_>) -> usize {
    place_of(data, FULL_SIZE).unwrap_or(0)
}

/// Imprint at full size: one image.
fn full_size(size: Size) -> Facet {
    let case = li::case(Size { scale: Scale::Full, ..size }, 1000, 256_000, li::UNIFORM);
    let spots = vec![(1000.0, Case { ticks: case.ticks.min(46), ..case })];
    let few = [FLOOR, "imprint"];
    Facet::new(FULL_SIZE, &few, spots, &[Plot::Rows(&HELD), Plot::Rows(&WORST)])
}

fn batches(size: Size, title: &'static str, distribution: Distribution) -> Facet {
    let full = full_size(size);
    let (batch, item_bytes, memory) = (256, 8, size.is_full());
    let spot =
        |(x, case): (f64, Case)| (x, Case { batch, item_bytes, memory, distribution, ..case });
    let spots = full.spots.into_iter().map(spot).collect();
    let algorithms = if size.is_full() { everyone() } else { vec![FLOOR, "imprint"] };
    Facet::new(title, &algorithms, spots, &full.plots)
}

fn frontier(size: Size) -> Vec<Facet> {
    let mb = base_mb(size);
    let facet = |of: Distribution, plots: &[Plot]| {
        let spots = vec![(mb as f64, li::case(size, mb, 256_000, of))];
        Facet::new(li::title(of), &everyone(), spots, plots)
    };
    let rows = [Plot::Plane(&MEMORY, &HELD), Plot::Rows(&HELD), Plot::Rows(&WORST)];
    let mut facets = vec![facet(li::UNIFORM, &rows), facet(li::ZIPF, &rows[..1])];
    if size.is_full() {
        let rest = [Distribution::Zipf(0.5), Distribution::Zipf(2.0)];
        facets.extend(rest.map(|of| facet(of, &rows[..1])));
    } else {
        facets.push(full_size(size));
    }
    facets.push(batches(size, UNIFORM_BATCHES, li::UNIFORM));
    facets.push(batches(size, ZIPF_BATCHES, li::ZIPF));
    facets.push(one_core(facet(li::UNIFORM, &[Plot::Rows(&HELD), Plot::Rows(&WORST)])));
    let units = size.cut(&[Unit::Line, Unit::Page][..], Unit::ALL);
    facets.extend(units.iter().map(|&unit| {
        let facet = facet(li::UNIFORM, &[Plot::Rows(&HELD)]).with_unit(unit);
        Facet { title: format!("uniform, unit of a {}", unit.name()), ..facet }
    }));
    facets
}

/// Budgets of an eighth of the state and less.
fn under_budget(size: Size) -> Vec<Facet> {
    let mb = base_mb(size);
    let case = li::case(size, mb, 256_000, li::UNIFORM);
    let spot = |part: u64| {
        let budget_bytes = case.size_bytes / part;
        (budget_bytes as f64 / 1e6, Case { budget_bytes, ..case.clone() })
    };
    let spots = [32, 16, 8].map(spot).into();
    vec![Facet::new(li::title(li::UNIFORM), &[FLOOR, "imprint"], spots, &[Plot::Lines(&BUDGET)])]
}

/// The same with writer and snapshotter on one core.
fn one_core(facet: Facet) -> Facet {
    let spot = |(x, case): (f64, Case)| (x, Case { cores: 1, memory: false, ..case });
    let algorithms = vec![FLOOR, "naive", "fork", "ipp-merge", "hourglass", "piggyback", "imprint"];
    Facet {
        title: format!("{}, one core", facet.title),
        algorithms,
        spots: facet.spots.into_iter().map(spot).collect(),
        ..facet
    }
}

/// The same runs as the frontier's first facet.
fn ticks(size: Size) -> Vec<Facet> {
    let mb = base_mb(size);
    let spots = vec![(mb as f64, li::case(size, mb, 256_000, li::UNIFORM))];
    let algorithms = [FLOOR, "imprint", "fork", "naive"];
    let title = format!("uniform updates, {mb} MB");
    vec![Facet::new(title, &algorithms, spots, &[Plot::Strips])]
}

fn begin_by_size(size: Size) -> Vec<Facet> {
    let plots = [Plot::Lines(&BEGIN)];
    let mut facet = li::by_size(size, li::PAPER, &li::ALGORITHMS[1..], &plots);
    let more = ["naive-parallel", "fork-huge", "odf", "async-fork", "uffd", "valkey"];
    facet.algorithms.extend(more);
    vec![facet]
}

/// Values of every column at the last spot.
fn columns(data: &Data<'_>, facet: &Facet, name: &str) -> Vec<Option<f64>> {
    let last = facet.spots.len().saturating_sub(1);
    let value = |metric: &&'static Metric| View { data, facet, metric }.value(name, last);
    COLUMNS.iter().map(value).collect()
}

/// Algorithms that are at least as good as `name` in every column and better by more than 5 % in
/// one.
fn dominators(data: &Data<'_>, facet: &Facet, name: &str) -> Vec<&'static str> {
    let own = columns(data, facet, name);
    let dominates = |other: &&&'static str| {
        let theirs = columns(data, facet, other);
        let pairs: Option<Vec<(f64, f64)>> =
            own.iter().zip(theirs).map(|(&a, b)| a.zip(b)).collect();
        let Some(pairs) = pairs else { return false };
        let no_worse = pairs.iter().all(|(own, theirs)| theirs <= own);
        no_worse && pairs.iter().any(|(own, theirs)| theirs * 1.05 < *own)
    };
    let others = facet.algorithms.iter().filter(|&&other| other != name && !is_floor(other));
    others.filter(dominates).copied().collect()
}

/// For each distribution: who dominates whom.
fn dominance(data: &Data<'_>) -> Vec<Table> {
    let names: Vec<String> = COLUMNS.iter().map(|metric| metric.name.to_owned()).collect();
    let table = |facet: &Facet| {
        let row = |&name: &&'static str| {
            let is_whole = columns(data, facet, name).iter().all(Option::is_some);
            let by = dominators(data, facet, name);
            let by = if by.is_empty() { "nobody".to_owned() } else { by.join(", ") };
            (!is_floor(name) && is_whole).then(|| vec![name.to_owned(), by])
        };
        Table {
            title: format!("{}: as good in {}, better in one", facet.title, names.join(", ")),
            columns: ["algorithm", "is dominated by"].map(str::to_owned).into(),
            rows: facet.algorithms.iter().filter_map(row).collect(),
        }
    };
    let tables = data.facets.iter().filter(|facet| facet.unit.is_none()).map(table);
    tables.filter(|table| !table.rows.is_empty()).collect()
}

fn undominated(data: &Data<'_>) -> Judgement {
    let measured = |facet: &&Facet| columns(data, facet, "imprint").iter().all(Option::is_some);
    let facets: Vec<&Facet> = data.facets.iter().filter(|f| f.unit.is_none()).collect();
    let facets: Vec<&Facet> = facets.into_iter().filter(measured).collect();
    if facets.is_empty() {
        return Judgement::untested("imprint was not measured in every column");
    }
    let beaten = |facet: &&Facet| {
        let by = dominators(data, facet, "imprint");
        (!by.is_empty()).then(|| format!("{}: {}", facet.title, by.join(", ")))
    };
    let by: Vec<String> = facets.iter().filter_map(beaten).collect();
    let text = if by.is_empty() { "by none".to_owned() } else { by.join("; ") };
    Judgement::new(by.is_empty(), text)
}

fn unbeaten(data: &Data<'_>, place: Option<usize>) -> Judgement {
    let Some(facet) = place.and_then(|place| data.facets.get(place)) else {
        return Judgement::untested("not among the runs of this size");
    };
    let own = columns(data, facet, "imprint");
    if own.iter().all(Option::is_none) {
        return Judgement::untested("imprint was not measured");
    }
    let mut beaten = Vec::new();
    for (column, own) in own.iter().enumerate() {
        let rivals = facet.algorithms.iter().filter(|&&name| name != "imprint" && !is_floor(name));
        let values = rivals.filter_map(|name| Some((columns(data, facet, name)[column]?, name)));
        let best = values.min_by(|a, b| a.0.total_cmp(&b.0));
        if let (Some(own), Some((best, name))) = (own, best)
            && best * 1.05 < *own
        {
            beaten.push(format!("{} by {name} ({:.2}x)", COLUMNS[column].name, own / best));
        }
    }
    let text = if beaten.is_empty() { "in none".to_owned() } else { beaten.join("; ") };
    Judgement::new(beaten.is_empty(), text)
}
