//! YCSB's core workloads: records of ten fields, each a hash, as YCSB's binding to Redis has them.
//!
//! - Record `n` is the hash `user` with the twelve digits of `n`; `_indices` is a sorted set with
//!   all their names, scored by a hash of the number: a scan follows no order of insertion.
//! - An insert is HSET of all fields and ZADD; a read HGETALL; an update HSET of one field; a
//!   scan ZRANGEBYSCORE and HGETALL of each record that it names; a read-modify-write HGETALL, and
//!   HSET once its reply is there.
//! - Item `n` of the values is field `n % 10` of record `n / 10`.
//!
//! Source: Cooper et al., "Benchmarking cloud serving systems with YCSB", 2010; YCSB's
//! `CoreWorkload` and `redis` binding. Departures: the Zipf ranks are exact and scattered by a
//! bijection, where YCSB hashes them; ranks of the newest are over as many records as were filled.

use std::collections::BTreeSet;

use stillframe_measure::draw::mix;
use stillframe_resp::{Reply, format_integer};

use super::{Check, Kind, Query, SentQuery, Values, Verdict, brief, bulk, name};

/// Fields of a record.
pub(super) const FIELDS: u64 = 10;
/// Most records of a scan.
const SCAN_MAX: u32 = 100;
const INDEX: &[u8] = b"_indices";
const PREFIX: &[u8] = b"user";

/// The requests that follow a reply.
#[derive(Debug, Default)]
pub(crate) struct FollowUp {
    pub(crate) bytes: Vec<u8>,
    pub(crate) queries: Vec<SentQuery>,
}

/// The records that one worker has inserted behind the filled ones. Workers take turns in numbers.
#[derive(Debug, Clone)]
pub(super) struct Inserted {
    filled: u64,
    worker: u64,
    workers: u64,
    next: u64,
    /// Number up to which all inserts have a reply.
    acknowledged: u64,
    /// Inserts beyond that number with a reply.
    ahead: BTreeSet<u64>,
}

impl Inserted {
    pub(super) fn new(filled: u64, worker: usize, workers: usize) -> Self {
        let (worker, workers) = (worker as u64, workers as u64);
        Self { filled, worker, workers, next: 0, acknowledged: 0, ahead: BTreeSet::new() }
    }
    /// The number of the next record.
    pub(super) fn next(&mut self) -> u64 {
        self.next += 1;
        self.number(self.next - 1)
    }
    fn number(&self, insert: u64) -> u64 {
        self.filled + insert * self.workers + self.worker
    }
    /// Notes that the server has the record.
    fn acknowledge(&mut self, number: u64) {
        self.ahead.insert((number - self.filled) / self.workers);
        while self.ahead.remove(&self.acknowledged) {
            self.acknowledged += 1;
        }
    }
    /// The record of that rank below `filled`, 0 being the newest that is surely there.
    pub(super) fn newest(&self, rank: u64) -> u64 {
        match self.acknowledged.checked_sub(rank + 1) {
            Some(insert) => self.number(insert),
            None => self.filled - 1 - (rank - self.acknowledged),
        }
    }
}

/// Appends the first requests of a query, and returns their number.
pub(super) fn encode(values: &Values, query: Query, out: &mut Vec<u8>) -> usize {
    let Query { kind, item, score } = query;
    match kind {
        Kind::Read | Kind::Modify => {
            command(out, 2, b"HGETALL");
            record(out, item);
            1
        }
        Kind::Write => {
            command(out, 4, b"HSET");
            record(out, item);
            field(values, item, u64::from(score) % FIELDS, out);
            1
        }
        Kind::Insert => {
            command(out, 2 + 2 * FIELDS as usize, b"HSET");
            record(out, item);
            (0..FIELDS).for_each(|number| field(values, item, number, out));
            command(out, 4, b"ZADD");
            bulk(out, INDEX);
            bulk(out, format_integer(place(item), &mut [0; 20]));
            record(out, item);
            2
        }
        Kind::Scan => {
            command(out, 7, b"ZRANGEBYSCORE");
            bulk(out, INDEX);
            bulk(out, format_integer(place(item), &mut [0; 20]));
            bulk(out, b"+inf");
            bulk(out, b"LIMIT");
            bulk(out, b"0");
            bulk(out, format_integer(i64::from(score % SCAN_MAX) + 1, &mut [0; 20]));
            1
        }
    }
}

/// Where a record stands in the index.
fn place(item: u64) -> i64 {
    (mix(item) >> 33) as i64
}

fn command(out: &mut Vec<u8>, words: usize, name: &[u8]) {
    out.push(b'*');
    out.extend_from_slice(format_integer(words as i64, &mut [0; 20]));
    out.extend_from_slice(b"\r\n");
    bulk(out, name);
}

fn record(out: &mut Vec<u8>, item: u64) {
    name(out, b"$16\r\nuser", item);
}

fn field(values: &Values, item: u64, number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"$6\r\nfield");
    out.push(b'0' + number as u8);
    out.extend_from_slice(b"\r\n");
    values.bulk(item * FIELDS + number, out);
}

/// Takes a good reply: it leads to the rest of its query, or shows that a record is there.
pub(super) fn proceed(
    values: &Values,
    inserted: &mut Inserted,
    sent: SentQuery,
    reply: &Reply<'_>,
    next: &mut FollowUp,
) {
    let SentQuery { due, query, is_last } = sent;
    match query.kind {
        Kind::Insert if is_last => inserted.acknowledge(query.item),
        Kind::Modify => {
            let query = Query { kind: Kind::Write, ..query };
            encode(values, query, &mut next.bytes);
            next.queries.push(SentQuery { due, query, is_last: true });
        }
        Kind::Scan => {
            let Reply::Array(names) = reply else { return };
            for (number, named) in names.iter().enumerate() {
                let Some(item) = item_of(named) else { continue };
                let query = Query { kind: Kind::Read, item, ..query };
                encode(values, query, &mut next.bytes);
                next.queries.push(SentQuery { due, query, is_last: number + 1 == names.len() });
            }
        }
        _ => {}
    }
}

fn item_of(named: &Reply<'_>) -> Option<u64> {
    let Reply::Bulk(text) = named else { return None };
    std::str::from_utf8(text.strip_prefix(PREFIX)?).ok()?.parse().ok()
}

/// What became of a request.
pub(super) fn judge(values: &Values, check: Check, query: Query, reply: &Reply<'_>) -> Verdict {
    let wrong = || Verdict::Wrong(format!("{:?} got the reply {}", query.kind, brief(reply)));
    match (query.kind, reply) {
        (Kind::Write | Kind::Insert, Reply::Integer(0..)) => Verdict::Good,
        (Kind::Scan, Reply::Array(names)) => match names.iter().all(|it| item_of(it).is_some()) {
            true => Verdict::Good,
            false => Verdict::Wrong("a scan names what is no record of this load".to_owned()),
        },
        (Kind::Read | Kind::Modify, Reply::Array(parts)) if parts.is_empty() => match check {
            Check::Value { filled: true } => {
                Verdict::Wrong(format!("record {} is not there", query.item))
            }
            _ => Verdict::Missing,
        },
        (Kind::Read | Kind::Modify, Reply::Array(parts)) => match check {
            Check::Value { .. } if !is_record(values, query.item, parts) => {
                Verdict::Wrong(format!("record {} was not written by this load", query.item))
            }
            _ => Verdict::Good,
        },
        _ => wrong(),
    }
}

/// Whether these are the fields of a record with their values.
fn is_record(values: &Values, item: u64, parts: &[Reply<'_>]) -> bool {
    let mut seen = 0_u32;
    for pair in parts.chunks(2) {
        let [Reply::Bulk(name), Reply::Bulk(value)] = pair else { return false };
        let number = match name.strip_prefix(b"field") {
            Some([digit @ b'0'..=b'9']) => u64::from(digit - b'0'),
            _ => return false,
        };
        if !values.is_of(item * FIELDS + number, value) {
            return false;
        }
        seen |= 1 << number;
    }
    seen == (1 << FIELDS) - 1 && parts.len() as u64 == 2 * FIELDS
}

#[cfg(test)]
mod tests {
    use super::super::Requests;
    use super::*;
    use crate::plan::{Plan, Workload};

    fn requests(workload: Workload, worker: usize, workers: usize) -> Requests {
        let plan = Plan {
            workload,
            keys: 1000,
            ratio: workload.ratio(),
            distribution: workload.distribution(),
            value_size: workload.value_size(),
            threads: workers,
            ..Plan::default()
        };
        Requests::new(&plan, worker, Check::Value { filled: true })
    }

    /// YCSB's own shares of operations, by five deviations; the draws are those of one seed.
    #[test]
    fn each_workload_has_its_mix() {
        const DRAWS: usize = 20_000;
        let expected = [
            (Workload::YcsbA, [(Kind::Read, 0.5), (Kind::Write, 0.5)]),
            (Workload::YcsbB, [(Kind::Read, 0.95), (Kind::Write, 0.05)]),
            (Workload::YcsbC, [(Kind::Read, 1.0), (Kind::Write, 0.0)]),
            (Workload::YcsbD, [(Kind::Read, 0.95), (Kind::Insert, 0.05)]),
            (Workload::YcsbE, [(Kind::Scan, 0.95), (Kind::Insert, 0.05)]),
            (Workload::YcsbF, [(Kind::Read, 0.5), (Kind::Modify, 0.5)]),
        ];
        for (workload, shares) in expected {
            let mut requests = requests(workload, 0, 1);
            let drawn: Vec<Kind> = (0..DRAWS).map(|_| requests.next().kind).collect();
            let of = |kind| drawn.iter().filter(|it| **it == kind).count();
            assert_eq!(shares.map(|(kind, _)| of(kind)).iter().sum::<usize>(), DRAWS);
            for (kind, share) in shares {
                let deviation = (DRAWS as f64 * share * (1.0 - share)).sqrt();
                let off = (of(kind) as f64 - DRAWS as f64 * share).abs();
                assert!(off <= 5.0 * deviation, "{workload} {kind:?}: {}", of(kind));
            }
        }
    }

    /// Zipf over all but in D, where the last filled record comes first, and new ones before it
    /// once they are acknowledged.
    #[test]
    fn keys_follow_their_distribution() {
        let hottest = |requests: &mut Requests| {
            let mut counts = vec![0_usize; 20_000];
            for query in (0..50_000).map(|_| requests.next()) {
                counts[query.item as usize] += usize::from(query.kind == Kind::Read);
            }
            let (item, count) = counts.iter().enumerate().max_by_key(|it| *it.1).expect("some");
            (item, *count)
        };
        let mut all = requests(Workload::YcsbC, 0, 1);
        // The sum of n^-0.99 up to 1000 is 7.72: 6,470 of 50,000.
        let (_, count) = hottest(&mut all);
        assert!((6_000..7_000).contains(&count), "{count}");
        let mut latest = requests(Workload::YcsbD, 0, 1);
        assert_eq!(hottest(&mut latest).0, 999, "no insert has a reply yet");
        let query = Query { kind: Kind::Insert, item: 1000, score: 0 };
        let sent = SentQuery { due: 0, query, is_last: true };
        latest.proceed(sent, &Reply::Integer(1), &mut FollowUp::default());
        assert_eq!(hottest(&mut latest).0, 1000);
    }

    #[test]
    fn workers_insert_apart_and_read_only_what_is_there() {
        let mut one = Inserted::new(10, 0, 2);
        let mut two = Inserted::new(10, 1, 2);
        let numbers: Vec<u64> = (0..3).flat_map(|_| [one.next(), two.next()]).collect();
        assert_eq!(numbers, [10, 11, 12, 13, 14, 15]);
        one.acknowledge(12);
        assert_eq!(one.newest(0), 9, "10 has no reply yet");
        one.acknowledge(10);
        assert_eq!([0, 1, 2, 3].map(|rank| one.newest(rank)), [12, 10, 9, 8]);
        assert_eq!(one.newest(9), 2);
    }

    #[test]
    fn a_scan_and_a_modification_go_on_after_their_reply() {
        let mut requests = requests(Workload::YcsbE, 0, 1);
        let ask =
            |kind| SentQuery { due: 7, query: Query { kind, item: 5, score: 3 }, is_last: true };
        let mut next = FollowUp::default();
        let names =
            Reply::Array(vec![Reply::Bulk(b"user000000000012"), Reply::Bulk(b"user000000000003")]);
        requests.proceed(ask(Kind::Scan), &names, &mut next);
        let asked: Vec<_> = next.queries.iter().map(|it| (it.query.item, it.is_last)).collect();
        assert_eq!(asked, [(12, false), (3, true)]);
        let mut next = FollowUp::default();
        requests.proceed(ask(Kind::Modify), &Reply::Array(Vec::new()), &mut next);
        assert_eq!((next.queries.len(), next.queries[0].query.kind), (1, Kind::Write));
        assert!(next.bytes.starts_with(b"*4\r\n$4\r\nHSET\r\n"));
        let mut none = FollowUp::default();
        requests.proceed(ask(Kind::Scan), &Reply::Array(Vec::new()), &mut none);
        assert!(none.queries.is_empty(), "a scan behind the last record ends at once");
    }

    #[test]
    fn a_record_is_known_again_and_another_is_not() {
        let requests = requests(Workload::YcsbA, 0, 1);
        let query = Query { kind: Kind::Read, item: 5, score: 0 };
        let values: Vec<(String, Vec<u8>)> = (0..FIELDS)
            .map(|number| {
                let mut value = Vec::new();
                requests.values.put(5 * FIELDS + number, &mut value);
                (format!("field{number}"), value)
            })
            .collect();
        let parts = |fields: &[(String, Vec<u8>)]| {
            let pair =
                |(name, value): &(String, Vec<u8>)| [name.as_bytes().to_vec(), value.clone()];
            fields.iter().flat_map(pair).collect::<Vec<_>>()
        };
        let judged = |parts: &[Vec<u8>]| {
            requests.judge(query, &Reply::Array(parts.iter().map(|it| Reply::Bulk(it)).collect()))
        };
        let whole = parts(&values);
        assert_eq!(judged(&whole), Verdict::Good);
        let mut bent = whole.clone();
        bent[7][0] ^= 1;
        for bad in [&bent[..], &whole[2..], &[], &whole[1..]] {
            assert!(matches!(judged(bad), Verdict::Wrong(_)), "{} parts", bad.len());
        }
    }
}
