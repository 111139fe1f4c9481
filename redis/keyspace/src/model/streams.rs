//! Streams with their groups against maps, copies of earlier states kept and compared.

use std::collections::BTreeMap;

use stillframe::algorithms::naive::Naive;

use super::{KEY, Random, check, keyspace, sized};
use crate::{IntText, Keyspace, Pending, Stream, StreamEdit, StreamId, Text, Value};

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Model {
    last: StreamId,
    deleted: StreamId,
    added: u64,
    entries: BTreeMap<StreamId, Fields>,
    groups: BTreeMap<Vec<u8>, ModelGroup>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ModelGroup {
    last: StreamId,
    read: Option<u64>,
    /// When each consumer was seen, and active.
    consumers: BTreeMap<Vec<u8>, (i64, Option<i64>)>,
    /// Consumer, time, deliveries.
    pending: BTreeMap<StreamId, (Vec<u8>, i64, u64)>,
}

fn bytes(text: Text<'_>) -> Vec<u8> {
    text.to_bytes(&mut IntText::default()).to_vec()
}

impl Model {
    /// The stream by every way of reading it.
    fn of(stream: Stream<'_>) -> Self {
        let mut model = Self {
            last: stream.last_id(),
            deleted: stream.deleted_id(),
            added: stream.added(),
            ..Self::default()
        };
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
                of.pending.insert(it.id, (it.consumer.to_vec(), it.time_ms, it.count));
            }
            assert_eq!(group.pending_len(), of.pending.len());
            let mut by_age: Vec<_> = of.pending.iter().map(|(id, it)| (it.1, *id)).collect();
            by_age.sort_unstable();
            assert!(group.pending_by_age().map(|it| (it.time_ms, it.id)).eq(by_age));
            for consumer in group.consumers() {
                let owned = of.pending.iter().filter(|(_, (name, ..))| name == consumer.name());
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
                self.added += 5;
                edit.set_added(self.added);
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
        let group = self.groups.get_mut(&name);
        match (random.below(40), group) {
            (0, group) => {
                assert_eq!(edit.create_group(&name, id, read), group.is_none());
                let group = ModelGroup { last: id, read, ..ModelGroup::default() };
                self.groups.entry(name).or_insert(group);
            }
            (1, group) if number < 200 => {
                assert_eq!(edit.destroy_group(&name), group.is_some());
                self.groups.remove(&name);
            }
            (2..5, group) => {
                assert_eq!(edit.set_group(&name, id, read), group.is_some());
                if let Some(group) = group {
                    (group.last, group.read) = (id, read);
                }
            }
            (5, Some(group)) => {
                let there = group.consumers.remove(&consumer).is_some();
                let before = group.pending.len();
                group.pending.retain(|_, (name, ..)| *name != consumer);
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
                assert_eq!(edit.acknowledge(&name, id), there);
            }
            (_, Some(group)) => {
                let (time_ms, count) = (number as i64 - 200, number as u64);
                let there = group.consumers.contains_key(&consumer);
                let pending = Pending { id, consumer: &consumer, time_ms, count };
                assert_eq!(edit.deliver(&name, pending), there);
                if there {
                    group.pending.insert(id, (consumer, time_ms, count));
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
        let is_entry = random.below(2) == 0;
        keyspace
            .edit_stream(0, KEY, |edit| match is_entry {
                true => model.change_entries(edit, &mut random, grow),
                false => model.change_groups(edit, &mut random),
            })
            .unwrap();
        if step % sized(300, 15) != 0 {
            continue;
        }
        check(&mut keyspace);
        let now = stream_at(&mut keyspace, KEY, Model::of).unwrap_or_default();
        assert!(now == model, "step {step}");
        let copy = stream_at(&mut keyspace, b"copy", Model::of).unwrap_or_default();
        assert!(copy == kept, "step {step}: the copy has changed");
        if random.below(3) == 0 && keyspace.copy(0, KEY, 0, b"copy").unwrap() {
            kept = model.clone();
        }
    }
    for key in [KEY, b"copy"] {
        keyspace.remove(0, key);
    }
    assert_eq!(keyspace.stats().entry_bytes, 0, "the books are right");
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
