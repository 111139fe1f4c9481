//! Requests, and which replies to them are right.
//!
//! The value of an item starts with eight bytes made from its number and the seed; the rest is
//! a stretch of random bytes. So values do not compress, and a value that is read can be checked
//! without a memory of the writes.

mod records;

use stillframe_measure::draw::{Rng, Scatter, gaussian, mix};
use stillframe_measure::zipf::Zipf;
use stillframe_resp::{Reply, format_integer};

pub(crate) use records::FollowUp;

use crate::plan::{Distribution, Plan, Ratio, Workload};
use records::Inserted;
use stillframe_measure::target::readable;

/// Stretches of random bytes start anywhere in here.
const POOL_BYTES: u64 = 64 << 10;
/// Keys of collections.
const HASH: &str = "load:hash";
const LIST: &str = "load:list";
const ZSET: &str = "load:zset";

/// How the latency of a query counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Write,
    Read,
}

/// What a query does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Write,
    Read,
    /// The insert of a new record.
    Insert,
    /// A scan of records that follow each other in the index.
    Scan,
    /// A read, and a write once its reply is there.
    Modify,
}

/// One query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Query {
    pub(crate) kind: Kind,
    /// Number of the key, field, member or record.
    pub(crate) item: u64,
    /// Score of a member; of a record, what chooses the field or the length of a scan.
    pub(crate) score: u32,
}

impl Query {
    pub(crate) fn op(self) -> Op {
        match self.kind {
            Kind::Write | Kind::Insert | Kind::Modify => Op::Write,
            Kind::Read | Kind::Scan => Op::Read,
        }
    }
}

/// A request without a reply so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentQuery {
    /// Intended time of the query.
    pub(crate) due: u64,
    pub(crate) query: Query,
    /// Whether its reply ends the query, unless that reply leads to more requests.
    pub(crate) is_last: bool,
}

/// What became of a query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    Good,
    /// A reply without a value.
    Missing,
    /// The server's error.
    Refused(String),
    /// A reply of the wrong kind, or a wrong value.
    Wrong(String),
}

/// Makes requests; the same ones from the same seed.
#[derive(Debug, Clone)]
pub(crate) struct Requests {
    workload: Workload,
    ratio: Ratio,
    pick: Pick,
    keys: u64,
    rng: Rng,
    values: Values,
    /// The first bytes of requests: writes, reads. Made once, since generating takes a core from
    /// the measured server.
    heads: [Vec<u8>; 2],
    /// What a write and a read are.
    kinds: [Kind; 2],
    inserted: Inserted,
    check: Check,
}

/// How strictly replies are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// Anything but an error is fine: the null server's replies.
    Nothing,
    /// The kind of the reply.
    Kind,
    /// And the value; with `filled` there must be one.
    Value { filled: bool },
}

#[derive(Debug, Clone)]
enum Pick {
    Uniform,
    Zipf(Zipf, Scatter),
    Latest(Zipf),
    Gaussian(f64),
}

#[derive(Debug, Clone)]
struct Values {
    seed: u64,
    size: usize,
    pool: Vec<u8>,
}

impl Values {
    fn new(seed: u64, size: usize) -> Self {
        let mut rng = Rng(seed ^ 0x00da_7a00);
        let words = (POOL_BYTES as usize + size).div_ceil(8);
        Self { seed, size, pool: (0..words).flat_map(|_| rng.next().to_le_bytes()).collect() }
    }
    fn mark(&self, item: u64) -> [u8; 8] {
        mix(item ^ self.seed.rotate_left(32)).to_le_bytes()
    }
    fn put(&self, item: u64, out: &mut Vec<u8>) {
        let mark = self.mark(item);
        let head = self.size.min(mark.len());
        let start = (mix(item) % POOL_BYTES) as usize;
        out.extend_from_slice(&mark[..head]);
        out.extend_from_slice(&self.pool[start..start + self.size - head]);
    }
    /// Appends a value as a word of a request.
    fn bulk(&self, item: u64, out: &mut Vec<u8>) {
        length(out, self.size);
        self.put(item, out);
        out.extend_from_slice(b"\r\n");
    }
    fn is_of(&self, item: u64, value: &[u8]) -> bool {
        let mark = self.mark(item);
        value.len() == self.size && value.iter().zip(&mark).all(|(a, b)| a == b)
    }
}

impl Requests {
    /// The requests of worker `worker`.
    pub(crate) fn new(plan: &Plan, worker: usize, check: Check) -> Self {
        let pick = match plan.distribution {
            Distribution::Uniform => Pick::Uniform,
            Distribution::Zipf(theta) => {
                Pick::Zipf(Zipf::new(plan.keys, theta), Scatter::new(plan.keys))
            }
            Distribution::Latest(theta) => Pick::Latest(Zipf::new(plan.keys, theta)),
            Distribution::Gaussian(deviation) => Pick::Gaussian(deviation),
        };
        Self {
            workload: plan.workload,
            ratio: plan.ratio,
            pick,
            keys: plan.keys,
            rng: Rng(mix(plan.seed).wrapping_add(mix(worker as u64))),
            values: Values::new(plan.seed, plan.value_size),
            heads: [Op::Write, Op::Read].map(|op| head(plan.workload, op)),
            kinds: kinds(plan.workload),
            inserted: Inserted::new(plan.keys, worker, plan.threads),
            check,
        }
    }

    /// The next query.
    #[inline]
    pub(crate) fn next(&mut self) -> Query {
        let parts = u64::from(self.ratio.writes) + u64::from(self.ratio.reads);
        let is_write =
            self.ratio.reads == 0 || self.rng.below(parts.max(1)) < u64::from(self.ratio.writes);
        let kind = self.kinds[usize::from(!is_write)];
        let item = match &self.pick {
            _ if kind == Kind::Insert => self.inserted.next(),
            Pick::Uniform => self.rng.below(self.keys),
            Pick::Zipf(zipf, scatter) => scatter.place(zipf.draw(|| self.rng.unit())),
            Pick::Latest(zipf) => self.inserted.newest(zipf.draw(|| self.rng.unit())),
            Pick::Gaussian(deviation) => gaussian(self.keys, *deviation, &mut self.rng),
        };
        Query { kind, item, score: self.rng.next() as u32 }
    }

    /// The write of one item, for filling.
    pub(crate) fn fill(&mut self, item: u64) -> Query {
        let kind = if self.workload.has_records() { Kind::Insert } else { Kind::Write };
        Query { kind, item, score: self.rng.next() as u32 }
    }

    /// Appends the first requests of a query, and returns their number.
    pub(crate) fn encode(&self, query: Query, out: &mut Vec<u8>) -> usize {
        if self.workload.has_records() {
            return records::encode(&self.values, query, out);
        }
        let Query { item, score, .. } = query;
        let op = query.op();
        out.extend_from_slice(&self.heads[op as usize]);
        match (self.workload, op) {
            (Workload::Hash, Op::Write) => {
                name(out, b"$18\r\nfield:", item);
                self.values.bulk(item, out);
            }
            (Workload::Hash, Op::Read) => name(out, b"$18\r\nfield:", item),
            (Workload::List, Op::Write) => self.values.bulk(item, out),
            (Workload::List, Op::Read) => {}
            (Workload::Zset, Op::Write) => {
                bulk(out, format_integer(score.into(), &mut [0; 20]));
                name(out, b"$19\r\nmember:", item);
            }
            (Workload::Zset, Op::Read) => name(out, b"$19\r\nmember:", item),
            (_, Op::Write) => {
                name(out, b"$16\r\nkey:", item);
                self.values.bulk(item, out);
            }
            (_, Op::Read) => name(out, b"$16\r\nkey:", item),
        }
        1
    }

    /// Appends the requests that follow a good reply to `next`.
    #[inline]
    pub(crate) fn proceed(&mut self, sent: SentQuery, reply: &Reply<'_>, next: &mut FollowUp) {
        if self.workload.has_records() {
            records::proceed(&self.values, &mut self.inserted, sent, reply, next);
        }
    }

    /// What became of a query.
    #[inline]
    pub(crate) fn judge(&self, query: Query, reply: &Reply<'_>) -> Verdict {
        if let Reply::Error(text) = reply {
            return Verdict::Refused(readable(text));
        }
        let (check, workload) = (self.check, self.workload);
        let op = query.op();
        match (op, reply) {
            _ if check == Check::Nothing => Verdict::Good,
            _ if workload.has_records() => records::judge(&self.values, check, query, reply),
            (Op::Write, Reply::Simple(b"OK")) if workload == Workload::String => Verdict::Good,
            (Op::Write, Reply::Integer(0..)) if workload != Workload::String => Verdict::Good,
            (Op::Read, Reply::Null) => match check {
                Check::Value { filled: true } => {
                    Verdict::Wrong(format!("item {} has no value", query.item))
                }
                _ => Verdict::Missing,
            },
            (Op::Read, Reply::Double(_)) if workload == Workload::Zset => Verdict::Good,
            (Op::Read, Reply::Bulk(value)) => self.judge_value(query.item, value),
            (_, other) => Verdict::Wrong(format!("{op:?} got the reply {}", brief(other))),
        }
    }

    fn judge_value(&self, item: u64, value: &[u8]) -> Verdict {
        let is_right = match (self.check, self.workload) {
            (Check::Nothing | Check::Kind, _) => true,
            (_, Workload::List) => value.len() == self.values.size,
            (_, Workload::Zset) => {
                std::str::from_utf8(value).is_ok_and(|text| text.parse::<f64>().is_ok())
            }
            _ => self.values.is_of(item, value),
        };
        match is_right {
            true => Verdict::Good,
            false => Verdict::Wrong(format!(
                "item {item} has a value of {} bytes that was not written by this load",
                value.len()
            )),
        }
    }
}

/// What a write and a read of a workload are.
fn kinds(workload: Workload) -> [Kind; 2] {
    match workload {
        Workload::YcsbD => [Kind::Insert, Kind::Read],
        Workload::YcsbE => [Kind::Insert, Kind::Scan],
        Workload::YcsbF => [Kind::Modify, Kind::Read],
        _ => [Kind::Write, Kind::Read],
    }
}

/// The first words of all requests of a kind, and their number.
fn head(workload: Workload, op: Op) -> Vec<u8> {
    let (count, words): (usize, &[&str]) = match (workload, op) {
        (Workload::Hash, Op::Write) => (4, &["HSET", HASH]),
        (Workload::Hash, Op::Read) => (3, &["HGET", HASH]),
        (Workload::List, Op::Write) => (3, &["LPUSH", LIST]),
        (Workload::List, Op::Read) => (3, &["LINDEX", LIST, "0"]),
        (Workload::Zset, Op::Write) => (4, &["ZADD", ZSET]),
        (Workload::Zset, Op::Read) => (3, &["ZSCORE", ZSET]),
        // Records write their own.
        (_, Op::Write) => (3, &["SET"]),
        (_, Op::Read) => (2, &["GET"]),
    };
    let mut out = format!("*{count}\r\n").into_bytes();
    words.iter().for_each(|word| bulk(&mut out, word.as_bytes()));
    out
}

fn length(out: &mut Vec<u8>, length: usize) {
    out.push(b'$');
    out.extend_from_slice(format_integer(length as i64, &mut [0; 20]));
    out.extend_from_slice(b"\r\n");
}

fn bulk(out: &mut Vec<u8>, word: &[u8]) {
    length(out, word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// The name of an item after its kind: twelve digits, as redis-benchmark spells keys; a plan has no
/// more than 10^12.
fn name(out: &mut Vec<u8>, kind: &[u8], item: u64) {
    let mut text = *b"000000000000\r\n";
    let (mut rest, digits) = (item, text.len() - 2);
    for place in text[..digits].iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(kind);
    out.extend_from_slice(&text);
}

/// A reply in a few words.
fn brief(reply: &Reply<'_>) -> String {
    match reply {
        Reply::Simple(text) => format!("+{}", readable(text)),
        Reply::Bulk(bytes) => format!("{} bytes", bytes.len()),
        other => format!("{other:.40?}"),
    }
}

#[cfg(test)]
mod tests {
    use stillframe_resp::{Limits, Parser};

    use super::*;

    fn plan(workload: Workload, distribution: Distribution) -> Plan {
        Plan { workload, distribution, keys: 1000, value_size: 100, ..Plan::default() }
    }

    /// A server can read every request, and its words are right.
    #[test]
    fn requests_are_well_formed_and_come_again_from_the_same_seed() {
        for workload in [
            Workload::String,
            Workload::Hash,
            Workload::List,
            Workload::Zset,
            Workload::YcsbA,
            Workload::YcsbD,
            Workload::YcsbE,
            Workload::YcsbF,
        ] {
            let ratio = Ratio { writes: 1, reads: 1 };
            let plan = Plan { ratio, ..plan(workload, Distribution::Uniform) };
            let mut one = Requests::new(&plan, 0, Check::Kind);
            let mut two = Requests::new(&plan, 0, Check::Kind);
            let mut reads = 0;
            for _ in 0..1000 {
                let (mut buffer, query) = (Vec::new(), one.next());
                assert_eq!(query, two.next());
                for _ in 0..one.encode(query, &mut buffer) {
                    let mut parser = Parser::new(Limits::OPEN);
                    let used = parser.parse(&mut buffer).expect("a request").expect("a whole one");
                    buffer.drain(..used);
                }
                assert!(buffer.is_empty(), "{workload:?}");
                reads += usize::from(query.op() == Op::Read);
            }
            assert!((400..600).contains(&reads), "{reads}");
        }
    }

    #[test]
    fn a_value_is_known_again_and_another_is_not() {
        for value_size in [1, 7, 8, 100, 5000] {
            let plan =
                Plan { value_size, check: true, ..plan(Workload::String, Distribution::Uniform) };
            let requests = Requests::new(&plan, 0, Check::Value { filled: true });
            let mut value = Vec::new();
            requests.values.put(5, &mut value);
            let query = Query { kind: Kind::Read, item: 5, score: 0 };
            assert_eq!(requests.judge(query, &Reply::Bulk(&value)), Verdict::Good);
            value[0] ^= 1;
            assert!(matches!(requests.judge(query, &Reply::Bulk(&value)), Verdict::Wrong(_)));
            assert!(matches!(requests.judge(query, &Reply::Bulk(b"")), Verdict::Wrong(_)));
            assert!(matches!(requests.judge(query, &Reply::Null), Verdict::Wrong(_)));
            let refused = Verdict::Refused("LOADING wait".to_owned());
            assert_eq!(requests.judge(query, &Reply::Error(b"LOADING wait")), refused);
        }
    }

    /// The most popular key of Zipf's law, and the middle of the bell curve.
    #[test]
    fn keys_come_as_often_as_their_distribution_says() {
        const DRAWS: usize = 100_000;
        let counts = |distribution| {
            let mut requests = Requests::new(&plan(Workload::String, distribution), 0, Check::Kind);
            let mut counts = vec![0_usize; 1000];
            for _ in 0..DRAWS {
                counts[requests.next().item as usize] += 1;
            }
            counts
        };
        let uniform = counts(Distribution::Uniform);
        assert!(uniform.iter().all(|count| (40..180).contains(count)));
        let mut zipf = counts(Distribution::Zipf(1.0));
        zipf.sort_unstable_by(|a, b| b.cmp(a));
        // The sum of 1/n up to 1000 is 7.485.
        assert!((12_500..14_300).contains(&zipf[0]), "{}", zipf[0]);
        assert!((6_000..7_400).contains(&zipf[1]), "{}", zipf[1]);
        let bell = counts(Distribution::Gaussian(0.1));
        let near: usize = bell[400..600].iter().sum();
        assert!((67_000..69_500).contains(&near), "{near}");
    }
}
