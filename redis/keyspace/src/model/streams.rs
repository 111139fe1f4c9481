//! Streams with their groups against maps, copies of earlier states kept and compared.

use std::collections::{BTreeMap, BTreeSet};

use stillframe::algorithms::naive::Naive;

use super::{KEY, Random, check, keyspace, sized};
use crate::{
    IdmpLimits, IdmpMessage, IntText, Keyspace, Pending, Stream, StreamEdit, StreamId, Text, Value,
};

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Model {
    last: StreamId,
    deleted: StreamId,
    added: u64,
    entries: BTreeMap<StreamId, Fields>,
    groups: BTreeMap<Vec<u8>, ModelGroup>,
    limits: IdmpLimits,
    /// Messages of producers: added, sent again, and known, by producer and the ids of entries.
    counts: (u64, u64),
    sent: BTreeMap<Vec<u8>, BTreeSet<(StreamId, Vec<u8>)>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ModelGroup {
    last: StreamId,
    read: Option<u64>,
    /// When each consumer was seen, and active.
    consumers: BTreeMap<Vec<u8>, (i64, Option<i64>)>,
    /// Consumer, time, deliveries.
    pending: BTreeMap<StreamId, (Option<Vec<u8>>, i64, u64)>,
    /// What no consumer has, in the order in which it was released.
    released: Vec<StreamId>,
}

fn bytes(text: Text<'_>) -> Vec<u8> {
    text.to_bytes(&mut IntText::default()).to_vec()
}

impl Model {
    /// The stream by every way of reading it.
    fn from_stream(stream: Stream<'_>) -> Self {
        let mut model = Self {
            last: stream.last_id(),
            deleted: stream.deleted_id(),
            added: stream.added(),
            limits: stream.idmp_limits(),
            counts: stream.idmp_counts(),
            ..Self::default()
        };
        for producer in stream.producers() {
            let sent: BTreeSet<_> = producer.sent().map(|(iid, id)| (id, iid.to_vec())).collect();
            assert!(stream.knows_producer(producer.pid) && producer.len() == sent.len());
            for (id, iid) in &sent {
                assert_eq!(
                    stream.sent(IdmpMessage { pid: producer.pid, iid }, i64::MIN),
                    Some(*id)
                );
            }
            assert!(model.sent.insert(producer.pid.to_vec(), sent).is_none());
        }
        assert_eq!(stream.producer_count(), model.sent.len());
        for now in [0, 1000, 200_000, 3_000_000] {
            assert_eq!(stream.idmp_known(now), model.known_at(now), "at {now}");
        }
        for (rank, entry) in stream.iter_from(0).enumerate() {
            assert_eq!(stream.below(entry.id), rank);
            let fields = entry.fields.map(|(name, value)| (bytes(name), bytes(value))).collect();
            assert!(model.entries.insert(entry.id, fields).is_none(), "an id came twice");
        }
        let ids = stream.iter_back_from(stream.len()).map(|entry| entry.id);
        assert!(ids.eq(model.entries.keys().rev().copied()));
        for group in stream.groups() {
            let mut of = ModelGroup {
                last: group.last_id(),
                read: group.entries_read(),
                ..ModelGroup::default()
            };
            for it in group.pending_from(StreamId::MIN) {
                assert_eq!(group.pending(it.id), Some(it));
                of.pending.insert(it.id, (it.consumer.map(Into::into), it.time_ms, it.count));
            }
            assert_eq!(group.pending_len(), of.pending.len());
            of.released = group.released().collect();
            assert_eq!(group.released_len(), of.released.len());
            let owned = of.pending.iter().filter(|(_, it)| it.0.is_some());
            let mut by_age: Vec<_> = owned.map(|(id, it)| (it.1, *id)).collect();
            by_age.sort_unstable();
            let by_age = of.released.iter().map(|&id| (0, id)).chain(by_age);
            assert!(group.pending_by_age().map(|it| (it.time_ms, it.id)).eq(by_age));
            for consumer in group.consumers() {
                let has = |name: &Option<Vec<u8>>| name.as_deref() == Some(consumer.name());
                let owned = of.pending.iter().filter(|(_, (name, ..))| has(name));
                let owned: Vec<_> = owned.map(|(id, _)| *id).collect();
                assert_eq!(consumer.pending_len(), owned.len());
                assert!(consumer.pending_from(StreamId::MIN).eq(owned));
                let times = (consumer.seen_ms(), consumer.active_ms());
                of.consumers.insert(consumer.name().to_vec(), times);
            }
            assert_eq!(group.consumer_count(), of.consumers.len());
            assert!(model.groups.insert(group.name().to_vec(), of).is_none());
        }
        model
    }

    /// When a message is known no more.
    fn deadline(&self, id: StreamId) -> i64 {
        id.ms as i64 + i64::from(self.limits.duration_s) * 1000
    }

    fn known_at(&self, now: i64) -> (usize, usize) {
        let known = |sent: &BTreeSet<(StreamId, Vec<u8>)>| {
            sent.iter().filter(|(id, _)| self.deadline(*id) > now).count()
        };
        let known: Vec<_> = self.sent.values().map(known).collect();
        (known.iter().filter(|&&count| count > 0).count(), known.iter().sum())
    }

    /// One change of what producers have sent.
    fn change_producers(&mut self, edit: &mut StreamEdit<'_>, random: &mut Random) {
        let pid = format!("producer:{}", random.below(5)).into_bytes();
        let iid = random.below(60).to_string().into_bytes();
        match random.below(60) {
            0 => {
                let [duration_s, entries] = [1 + random.below(2000), 1 + random.below(30)];
                self.limits = IdmpLimits { duration_s: duration_s as u32, entries: entries as u32 };
                edit.set_idmp_limits(self.limits);
                self.sent.clear();
            }
            1..4 => {
                let (now, most) = (random.below(2_000_000) as i64, random.below(5));
                let mut due: Vec<_> = self
                    .sent
                    .iter()
                    .flat_map(|(pid, sent)| {
                        sent.iter().map(|message| (pid.clone(), message.clone()))
                    })
                    .filter(|(_, (id, _))| self.deadline(*id) <= now)
                    .collect();
                assert_eq!(edit.forget_sent(now, most), due.len().min(most));
                // Which of them is not said.
                due.retain(|(pid, (_, iid))| {
                    edit.view().sent(IdmpMessage { pid, iid }, i64::MIN).is_none()
                });
                for (pid, message) in due {
                    self.sent.get_mut(&pid).unwrap().remove(&message);
                    self.sent.retain(|_, sent| !sent.is_empty());
                }
            }
            4..10 => {
                edit.note_sent_again();
                self.counts.1 += 1;
            }
            _ => {
                let id = StreamId { ms: random.below(1_000_000) as u64, seq: 0 };
                edit.note_sent(IdmpMessage { pid: &pid, iid: &iid }, id);
                self.counts.0 += 1;
                let sent = self.sent.entry(pid).or_default();
                sent.retain(|(_, known)| *known != iid);
                sent.insert((id, iid));
                if sent.len() > self.limits.entries as usize {
                    sent.pop_first();
                }
            }
        }
    }

    fn some_id(&self, random: &mut Random) -> StreamId {
        let most = self.last.ms as usize + 2;
        let id = StreamId { ms: random.below(most) as u64, seq: random.below(3) as u64 };
        if random.below(4) == 0 {
            return id;
        }
        self.entries.range(id..).next().map_or(id, |(id, _)| *id)
    }

    /// One change of the entries.
    fn change_entries(&mut self, edit: &mut StreamEdit<'_>, random: &mut Random, grow: bool) {
        match random.below(12) {
            0 => {
                let count = random.below(if grow { 3 } else { 40 });
                edit.trim(count);
                (0..count).for_each(|_| drop(self.entries.pop_first()));
            }
            1..5 => {
                let id = self.some_id(random);
                let there = self.entries.remove(&id).is_some();
                assert_eq!(edit.delete(id), there);
                if there {
                    self.deleted = self.deleted.max(id);
                }
            }
            5 => {
                let id = self.some_id(random);
                let fields = [(&b"late"[..], &b"1"[..])];
                let is_new = !self.entries.contains_key(&id);
                assert_eq!(edit.add(id, fields.into_iter()), is_new);
                if is_new {
                    let fields = fields.map(|(name, value)| (name.to_vec(), value.to_vec()));
                    self.entries.insert(id, fields.to_vec());
                    self.last = self.last.max(id);
                    self.added += 1;
                }
            }
            _ if grow => {
                let ms = self.last.ms + random.below(2) as u64;
                let seq = if ms == self.last.ms { self.last.seq + 1 } else { 0 };
                let fields: Fields = match random.below(3) {
                    0 => {
                        (0..random.below(4)).map(|_| (random.text(50), random.text(900))).collect()
                    }
                    // The same body under many ids.
                    1 => vec![(b"same".to_vec(), b"body".to_vec())],
                    _ => vec![(b"a".to_vec(), random.below(1 << 40).to_string().into())],
                };
                let pairs = fields.iter().map(|(name, value)| (&name[..], &value[..]));
                assert!(edit.add(StreamId { ms, seq }, pairs));
                self.last = StreamId { ms, seq };
                self.added += 1;
                self.entries.insert(self.last, fields);
            }
            6 => {
                self.added = match random.below(2) {
                    0 => self.added + 5,
                    _ => self.added / 2,
                };
                edit.set_added(self.added);
                for group in self.groups.values_mut() {
                    group.read = group.read.map(|read| read.min(self.added));
                }
                self.deleted = self.some_id(random);
                edit.set_deleted_id(self.deleted);
                self.last = self.last.next().unwrap();
                edit.set_last_id(self.last);
            }
            _ => {}
        }
    }

    /// One change of the groups.
    fn change_groups(&mut self, edit: &mut StreamEdit<'_>, random: &mut Random) {
        let name = format!("group:{}", random.below(3)).into_bytes();
        let consumer = format!("consumer:{}", random.below(12)).into_bytes();
        let (id, number) = (self.some_id(random), random.below(1000));
        let read = (random.below(2) == 0).then_some(number as u64);
        let kept = read.map(|read| read.min(self.added));
        let group = self.groups.get_mut(&name);
        match (random.below(40), group) {
            (0, group) => {
                assert_eq!(edit.create_group(&name, id, read), group.is_none());
                let group = ModelGroup { last: id, read: kept, ..ModelGroup::default() };
                self.groups.entry(name).or_insert(group);
            }
            (1, group) if number < 200 => {
                assert_eq!(edit.destroy_group(&name), group.is_some());
                self.groups.remove(&name);
            }
            (2..5, group) => {
                assert_eq!(edit.set_group(&name, id, read), group.is_some());
                if let Some(group) = group {
                    (group.last, group.read) = (id, kept);
                }
            }
            (5, Some(group)) => {
                let there = group.consumers.remove(&consumer).is_some();
                let before = group.pending.len();
                group.pending.retain(|_, (name, ..)| name.as_ref() != Some(&consumer));
                let removed = there.then(|| before - group.pending.len());
                assert_eq!(edit.remove_consumer(&name, &consumer), removed);
            }
            (6..10, Some(group)) => {
                let (seen, is_new) = (number as i64, !group.consumers.contains_key(&consumer));
                let active = (random.below(2) == 0).then_some(seen);
                let times = group.consumers.entry(consumer.clone()).or_default();
                *times = (seen, active.or(times.1));
                assert_eq!(edit.see_consumer(&name, &consumer, seen, active), is_new);
            }
            (10..20, Some(group)) => {
                let there = group.pending.remove(&id).is_some();
                group.released.retain(|&released| released != id);
                assert_eq!(edit.acknowledge(&name, id), there);
            }
            (20..24, Some(group)) => {
                let count = number as u64;
                let pending = Pending { id, consumer: None, time_ms: 7, count };
                assert!(edit.deliver(&name, pending));
                group.pending.insert(id, (None, 0, count));
                group.released.retain(|&released| released != id);
                group.released.push(id);
            }
            (_, Some(group)) => {
                let (time_ms, count) = (number as i64 - 200, number as u64);
                let there = group.consumers.contains_key(&consumer);
                let pending = Pending { id, consumer: Some(&consumer), time_ms, count };
                assert_eq!(edit.deliver(&name, pending), there);
                if there {
                    group.pending.insert(id, (Some(consumer), time_ms, count));
                    group.released.retain(|&released| released != id);
                }
            }
            (_, None) => assert!(!edit.acknowledge(&name, id)),
        }
    }
}

fn stream_at<R>(
    keyspace: &mut Keyspace<Naive>,
    key: &[u8],
    of: impl FnOnce(Stream<'_>) -> R,
) -> Option<R> {
    let value = keyspace.get(0, key, 0)?.value();
    let Value::Stream(stream) = value else { panic!("another type: {value:?}") };
    Some(of(stream))
}

#[test]
fn a_stream_is_a_map_and_so_are_its_groups_and_its_copies_stay() {
    let mut random = Random::seeded("stream");
    let (mut keyspace, mut model, mut kept) = (keyspace(), Model::default(), Model::default());
    let mut grow = true;
    for step in 0..sized(30_000, 150) {
        if random.below(sized(2500, 40)) == 0 {
            grow = !grow;
        }
        let part = random.below(5);
        keyspace
            .edit_stream(0, KEY, |edit| match part {
                0 | 1 => model.change_entries(edit, &mut random, grow),
                2 | 3 => model.change_groups(edit, &mut random),
                _ => model.change_producers(edit, &mut random),
            })
            .unwrap();
        let has_released = model.groups.values().any(|group| !group.released.is_empty());
        assert!(!has_released || keyspace.streams_with_released() > 0);
        if step % sized(300, 15) != 0 {
            continue;
        }
        check(&mut keyspace);
        let now = stream_at(&mut keyspace, KEY, Model::from_stream).unwrap_or_default();
        assert!(now == model, "step {step}");
        let copy = stream_at(&mut keyspace, b"copy", Model::from_stream).unwrap_or_default();
        assert!(copy == kept, "step {step}: the copy has changed");
        if random.below(3) == 0 && keyspace.copy(0, KEY, 0, b"copy").unwrap() {
            kept = model.clone();
        }
    }
    for key in [KEY, b"copy"] {
        keyspace.remove(0, key);
    }
    assert_eq!(keyspace.stats().entry_bytes, 0, "the books are right");
    assert_eq!((keyspace.streams_with_released(), keyspace.streams_with_idmp()), (0, 0));
}

#[test]
fn an_emptied_stream_stays_and_an_edit_without_a_change_makes_none() {
    let mut keyspace = keyspace();
    keyspace.edit_stream(0, KEY, |edit| assert!(!edit.delete(StreamId::MIN))).unwrap();
    keyspace.edit_stream(0, KEY, |edit| assert!(!edit.acknowledge(b"g", StreamId::MIN))).unwrap();
    assert!(keyspace.get(0, KEY, 0).is_none());
    let fields = [(&b"f"[..], &b"v"[..])];
    let id = StreamId { ms: 7, seq: u64::MAX };
    keyspace.edit_stream(0, KEY, |edit| assert!(edit.add(id, fields.into_iter()))).unwrap();
    keyspace.edit_stream(0, KEY, |edit| edit.trim(1)).unwrap();
    let (len, last) = stream_at(&mut keyspace, KEY, |it| (it.len(), it.last_id())).unwrap();
    assert_eq!((len, last, last.next()), (0, id, Some(StreamId { ms: 8, seq: 0 })));
    assert_eq!(last.next().and_then(StreamId::previous), Some(last));
    assert!(StreamId::MAX.next().is_none() && StreamId::MIN.previous().is_none());
    assert!(keyspace.edit_list(0, KEY, |_| ()).is_err(), "another type");
}
