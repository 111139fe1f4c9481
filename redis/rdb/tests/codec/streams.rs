//! Streams as this crate writes them, read by the real redis-server.

use std::collections::BTreeMap;

use crate::common::noise;
use crate::common::server::Redis;
use stillframe_peers::{Peer, Random, are_here, rounds};
use stillframe_rdb::{
    Encoder, Head, Id, StreamConsumer, StreamGroup, StreamHead, StreamValue, Value,
};
use tempfile::TempDir;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Default)]
struct Stream {
    head: StreamHead,
    entries: BTreeMap<Id, Fields>,
    groups: BTreeMap<Vec<u8>, Group>,
}

#[derive(Default)]
struct Group {
    last: Id,
    read: Option<u64>,
    consumers: BTreeMap<Vec<u8>, i64>,
    pending: BTreeMap<Id, (Vec<u8>, i64, u64)>,
}

#[derive(Clone, Copy)]
struct GroupOf<'a>(&'a [u8], &'a Group);

#[derive(Clone, Copy)]
struct ConsumerOf<'a>(&'a [u8], i64, &'a Group);

impl<'a> StreamValue<'a> for &'a Stream {
    fn head(self) -> StreamHead {
        self.head
    }

    fn entries(
        self,
    ) -> impl Iterator<Item = (Id, impl Iterator<Item = (Value<'a>, Value<'a>)> + Clone)> + Clone
    {
        self.entries.iter().map(|(id, fields)| {
            let pair = |(name, value): &'a (Vec<u8>, Vec<u8>)| (text(name), text(value));
            (*id, fields.iter().map(pair))
        })
    }

    fn group_count(self) -> usize {
        self.groups.len()
    }

    fn groups(self) -> impl Iterator<Item = impl StreamGroup> {
        self.groups.iter().map(|(name, group)| GroupOf(name, group))
    }

    // Redis 7 knows neither producers nor released entries.
    fn idmp_limits(self) -> (u64, u64) {
        (0, 0)
    }

    fn producer_count(self) -> usize {
        0
    }

    fn producers(
        self,
    ) -> impl Iterator<Item = (&'a [u8], usize, impl Iterator<Item = (&'a [u8], Id)>)> {
        std::iter::empty::<(&[u8], usize, std::iter::Empty<(&[u8], Id)>)>()
    }

    fn idmp_counts(self) -> (u64, u64) {
        (0, 0)
    }
}

fn text(bytes: &[u8]) -> Value<'_> {
    Value::Bytes(bytes)
}

impl StreamGroup for GroupOf<'_> {
    fn name(&self) -> &[u8] {
        self.0
    }

    fn last(self) -> Id {
        self.1.last
    }

    fn entries_read(self) -> Option<u64> {
        self.1.read
    }

    fn pending_count(self) -> usize {
        self.1.pending.len()
    }

    fn pending(self) -> impl Iterator<Item = (Id, i64, u64)> {
        self.1.pending.iter().map(|(id, (_, time, count))| (*id, *time, *count))
    }

    fn consumer_count(self) -> usize {
        self.1.consumers.len()
    }

    fn consumers(self) -> impl Iterator<Item = impl StreamConsumer> {
        self.1.consumers.iter().map(move |(name, seen)| ConsumerOf(name, *seen, self.1))
    }

    fn released_count(self) -> usize {
        0
    }

    fn released(self) -> impl Iterator<Item = Id> {
        std::iter::empty()
    }
}

impl StreamConsumer for ConsumerOf<'_> {
    fn name(&self) -> &[u8] {
        self.0
    }

    fn seen_ms(self) -> i64 {
        self.1
    }

    fn active_ms(self) -> Option<i64> {
        (self.1 % 2 == 0).then_some(self.1 / 2)
    }

    fn pending_count(self) -> usize {
        self.pending().count()
    }

    fn pending(self) -> impl Iterator<Item = Id> {
        let owned = move |(_, (name, ..)): &(&Id, &(Vec<u8>, i64, u64))| name == self.0;
        self.2.pending.iter().filter(owned).map(|(id, _)| *id)
    }
}

fn show((ms, seq): Id) -> Vec<u8> {
    format!("{ms}-{seq}").into_bytes()
}

/// A stream, and the requests that make it under `key`.
fn random(random: &mut Random, key: &[u8]) -> (Stream, Vec<Vec<Vec<u8>>>) {
    let mut stream = Stream::default();
    let mut requests = Vec::new();
    let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
    let mut id = (0, 1);
    for number in 0..random.pick(&[1, 3, 99, 100, 101, 350]) {
        id = if random.below(3) == 0 {
            (id.0 + (1 << random.below(50)), 0)
        } else {
            (id.0, id.1 + 1)
        };
        let fields: Fields = match random.below(8) {
            0 => vec![(b"other".to_vec(), noise(number as u64, random.below(300)))],
            1 if random.below(40) == 0 => {
                vec![(b"large".to_vec(), noise(7, 70_000)), (b"more".to_vec(), b"1".to_vec())]
            }
            _ => (0..3)
                .map(|at| (format!("field:{at}"), (i64::from(number) << (at * 20)).to_string()))
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        };
        let mut request = words(&[b"XADD", key, &show(id)]);
        request.extend(fields.iter().flat_map(|(name, value)| [name.clone(), value.clone()]));
        requests.push(request);
        stream.entries.insert(id, fields);
        stream.head.last = id;
        stream.head.added += 1;
    }
    let ids: Vec<Id> = stream.entries.keys().copied().collect();
    for number in 0..random.below(4) {
        let name = format!("group:{number}").into_bytes();
        let last = ids[random.below(ids.len())];
        requests.push(words(&[b"XGROUP", b"CREATE", key, &name, &show(last)]));
        let mut group = Group { last, ..Group::default() };
        for _ in 0..random.below(6) {
            let consumer = format!("consumer:{}", random.below(4)).into_bytes();
            // Redis notes when it sees a consumer: the comparison leaves that out.
            requests.push(words(&[b"XGROUP", b"CREATECONSUMER", key, &name, &consumer]));
            group.consumers.insert(consumer.clone(), 5);
            let (id, time, count) = (ids[random.below(ids.len())], 1_000_000_007, random.below(9));
            let claim = words(&[b"XCLAIM", key, &name, &consumer, b"0", &show(id), b"TIME"]);
            let more = [time.to_string(), "RETRYCOUNT".into(), count.to_string(), "FORCE".into()];
            let more = more.into_iter().map(String::into_bytes);
            requests.push([claim, more.collect(), words(&[b"JUSTID"])].concat());
            group.pending.insert(id, (consumer, time, count as u64));
        }
        stream.groups.insert(name, group);
    }
    for _ in 0..random.below(5) {
        let id = ids[random.below(ids.len())];
        requests.push(words(&[b"XDEL", key, &show(id)]));
        if stream.entries.remove(&id).is_some() {
            stream.head.deleted = stream.head.deleted.max(id);
        }
    }
    stream.head.len = stream.entries.len() as u64;
    stream.head.first = stream.entries.keys().next().copied().unwrap_or_default();
    (stream, requests)
}

/// What XINFO says of a stream, without how it lies in memory and when consumers were seen.
fn told(redis: &mut Redis, key: &[u8]) -> String {
    let mut all = redis.call(&[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"]);
    for hidden in ["radix-tree-keys", "radix-tree-nodes", "seen-time"] {
        let before = format!("Bulk({:?}), Integer(", hidden.as_bytes());
        let mut parts = all.split(&before);
        let first = parts.next().unwrap_or_default().to_owned();
        let digits =
            |part: &str| part.trim_start_matches(|digit: char| digit.is_ascii_digit()).to_owned();
        all = parts.fold(first, |all, part| all + &before + &digits(part));
    }
    all
}

#[test]
fn redis_reads_every_stream_with_its_groups() {
    if !are_here("redis_reads_every_stream_with_its_groups", &[Peer::RedisServer]) {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let mut redis = Redis::start(folder.path(), &["--sanitize-dump-payload", "yes"]);
    let mut chance = Random::new("redis_reads_every_stream_with_its_groups");
    for _ in 0..rounds(60, 3000) {
        redis.call(&[b"FLUSHALL"]);
        let (stream, requests) = random(&mut chance, b"theirs");
        let mut created = std::collections::BTreeSet::new();
        for request in requests {
            let is_again = request[0] == b"XGROUP" && !created.insert(request.clone());
            let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            let reply = redis.call(&words);
            assert!(is_again || !reply.starts_with('-'), "{reply}");
        }
        let mut payload = Vec::new();
        let mut encoder = Encoder::new(&mut payload).compress(chance.below(2) == 0);
        encoder.stream(Head::Payload, &stream).expect("memory takes all");
        encoder.finish_payload().expect("memory takes all");
        assert_eq!(redis.call(&[b"RESTORE", b"ours", b"0", &payload]), "OK");
        let digest = |redis: &mut Redis, key: &[u8]| redis.call(&[b"DEBUG", b"DIGEST-VALUE", key]);
        assert_eq!(digest(&mut redis, b"ours"), digest(&mut redis, b"theirs"));
        assert_eq!(told(&mut redis, b"ours"), told(&mut redis, b"theirs"));
        let len = redis.call(&[b"XLEN", b"ours"]);
        assert_eq!(len, stream.entries.len().to_string());
    }
}
