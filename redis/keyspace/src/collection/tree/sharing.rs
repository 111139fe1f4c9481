//! How much images and copies of large collections share, and what that costs the writer.

use std::cell::Cell;
use std::sync::mpsc::{Receiver, Sender, channel};

use stillframe::algorithms::imprint::Imprint;
use stillframe::{CaptureError, CaptureReport, Point, SinkError};

use super::{FANOUT, LEAF_BYTES_MAX};
use crate::model::{Random, sized};
use crate::{
    Entry, EntrySink, IdmpMessage, Keyspace, KeyspaceOptions, Pending, StreamId, Type, Value,
};

thread_local! {
    /// Edits of trees by this thread, each of which takes microseconds.
    static EDITS: Cell<usize> = const { Cell::new(0) };
    /// Bytes that this thread has copied of nodes that others held, too.
    static COPIED_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// A leaf is about to be changed.
pub(super) fn note_edit() {
    EDITS.set(EDITS.get() + 1);
}

/// A node of this many bytes, which others hold too, is about to be copied.
pub(super) fn note_copy(bytes: usize) {
    COPIED_BYTES.set(COPIED_BYTES.get() + bytes);
}

/// Holds the image until its sender is gone, and reports what it saw.
struct Hold(Receiver<()>, String);

impl EntrySink for Hold {
    fn entry(&mut self, _db: usize, entry: &Entry) -> Result<(), SinkError> {
        let _ = self.0.recv();
        self.1 += &format!("{:?}", entry.value());
        Ok(())
    }
}

const KINDS: [Type; 6] =
    [Type::List, Type::Hash, Type::Set, Type::Sorted, Type::Stream, Type::Array];

fn keyspace() -> Keyspace<Imprint> {
    let options =
        KeyspaceOptions { max_keys: 1 << 12, budget_bytes: 1 << 16, ..KeyspaceOptions::default() };
    Keyspace::create(&options).unwrap()
}

fn id(number: usize) -> StreamId {
    StreamId { ms: number as u64 / 3, seq: number as u64 % 3 }
}

/// Begins an image that is held until the first of the two is dropped; the second then gets what
/// the image showed. Bytes copied count from here.
fn held_image(
    keyspace: &mut Keyspace<Imprint>,
) -> (Sender<()>, Receiver<Result<String, CaptureError>>) {
    let (gate, held) = channel();
    let (sender, image) = channel();
    let publish = move |sink: &mut Hold, result: Result<CaptureReport, CaptureError>| {
        let _ = sender.send(result.map(|_| std::mem::take(&mut sink.1)));
    };
    COPIED_BYTES.set(0);
    keyspace.snapshot(Point::declare(), Hold(held, String::new()), publish).unwrap();
    assert_eq!(COPIED_BYTES.get(), 0, "begin copies nothing");
    (gate, image)
}

/// Puts element `number` in.
fn put(keyspace: &mut Keyspace<Imprint>, key: &[u8], kind: Type, number: usize) {
    let member = format!("element:{number:07}").into_bytes();
    let score = (number % 1000) as f64;
    match kind {
        Type::List => drop(keyspace.edit_list(0, key, |it| it.insert(number / 2, &member))),
        Type::Hash => drop(keyspace.edit_hash(0, key, |it| it.set(&member, key))),
        Type::Set => drop(keyspace.edit_set(0, key, |it| it.insert(&member))),
        Type::Stream => {
            let fields = [(&b"member"[..], &member[..])];
            drop(keyspace.edit_stream(0, key, |it| it.add(id(number), fields.into_iter())));
        }
        Type::Array => {
            drop(keyspace.edit_array(0, key, |it| it.set(17 * number as u64, &member)));
        }
        _ => drop(keyspace.edit_sorted(0, key, |it| it.set(&member, score))),
    }
}

fn remove(keyspace: &mut Keyspace<Imprint>, key: &[u8], kind: Type, number: usize) {
    let member = format!("element:{number:07}").into_bytes();
    match kind {
        Type::List => drop(keyspace.edit_list(0, key, |it| it.remove_range(number, 1))),
        Type::Hash => drop(keyspace.edit_hash(0, key, |it| it.remove(&member))),
        Type::Set => drop(keyspace.edit_set(0, key, |it| it.remove(&member))),
        Type::Stream => drop(keyspace.edit_stream(0, key, |it| it.delete(id(number)))),
        Type::Array => {
            let index = 17 * number as u64;
            drop(keyspace.edit_array(0, key, |it| it.remove(index, index)));
        }
        _ => drop(keyspace.edit_sorted(0, key, |it| it.remove(&member))),
    }
}

fn filled(keyspace: &mut Keyspace<Imprint>, kind: Type, len: usize) {
    (0..len).for_each(|number| put(keyspace, b"key", kind, number));
    let value = keyspace.get(0, b"key", 0).unwrap().value();
    assert_eq!((value.kind(), value.len()), (kind, len));
}

fn shown(keyspace: &mut Keyspace<Imprint>, key: &[u8]) -> String {
    format!("{:?}", keyspace.get(0, key, 0).map(|entry| entry.value()))
}

/// Most bytes that one edit may copy: one path of full nodes, and the neighbours it merges. A
/// sorted set has two trees.
fn edit_bytes_max(kind: Type, len: usize) -> usize {
    let depth = len.ilog(FANOUT / 3 + 1) as usize + 1;
    let path = depth * 2 * (LEAF_BYTES_MAX + 2 * FANOUT * 64);
    if kind == Type::Sorted { 2 * path } else { path }
}

#[test]
fn a_long_element_pushed_during_an_image_copies_no_other_but_that_at_the_end() {
    let long = vec![b'x'; 5 * LEAF_BYTES_MAX];
    let mut keyspace = keyspace();
    let push = |keyspace: &mut Keyspace<Imprint>, is_front: bool| {
        let edit = keyspace.edit_list(0, b"key", |it| {
            let at = if is_front { 0 } else { it.len() };
            it.insert(at, &long);
        });
        edit.unwrap();
    };
    (0..100).for_each(|number| push(&mut keyspace, number % 2 == 0));
    let (gate, image) = held_image(&mut keyspace);
    for is_front in [true, false] {
        let before = COPIED_BYTES.get();
        push(&mut keyspace, is_front);
        let copied = COPIED_BYTES.get() - before;
        assert!((1..2 * long.len()).contains(&copied), "{copied} bytes copied");
    }
    drop(gate);
    image.recv().unwrap().unwrap();
    keyspace.wait_image();
    assert_eq!(keyspace.get(0, b"key", 0).unwrap().value().len(), 102);
}

/// Views of a hash between two changes. What the newer one has alone is the older one's when the
/// newer one is closed: about as much as if that had never been.
#[test]
fn what_a_closed_view_shared_with_an_older_one_counts_for_that() {
    let kept = |opens_second: bool| {
        let mut keyspace = keyspace();
        filled(&mut keyspace, Type::Hash, sized(2_000, 150));
        let change = |it: &mut Keyspace<Imprint>, number: usize| {
            let member = format!("element:{number:07}").into_bytes();
            it.edit_hash(0, b"key", |hash| hash.set(&member, b"new")).unwrap();
        };
        keyspace.open_view(1, 0);
        change(&mut keyspace, 0);
        if opens_second {
            keyspace.open_view(2, 0);
        }
        (1..60).for_each(|number| change(&mut keyspace, number));
        assert_eq!(keyspace.close_view(2), opens_second);
        while keyspace.tend() {}
        keyspace.stats().view_bytes
    };
    let (alone, beside) = (kept(false), kept(true));
    assert!(beside * 2 > alone, "{beside} bytes, and {alone} without another view");
}

#[test]
fn an_edit_during_an_image_copies_one_path_once() {
    let len = sized(100_000, 150);
    for kind in KINDS {
        let mut keyspace = keyspace();
        filled(&mut keyspace, kind, len);
        let before = shown(&mut keyspace, b"key");
        let size = keyspace.stats().entry_bytes;
        let (gate, image) = held_image(&mut keyspace);
        put(&mut keyspace, b"key", kind, len / 2);
        put(&mut keyspace, b"key", kind, len + 10);
        let first = COPIED_BYTES.get();
        let most = edit_bytes_max(kind, len);
        assert!((1..=2 * most).contains(&first), "{kind:?}: {first} of {size} bytes copied");
        for step in 0..20 {
            let before = COPIED_BYTES.get();
            remove(&mut keyspace, b"key", kind, step * len / 30);
            let copied = COPIED_BYTES.get() - before;
            assert!(copied <= most, "{kind:?}: {copied} of {size} bytes copied");
        }
        let before_same = COPIED_BYTES.get();
        for number in [len / 2, len + 10] {
            remove(&mut keyspace, b"key", kind, number);
            put(&mut keyspace, b"key", kind, number);
        }
        if kind != Type::List {
            let again = COPIED_BYTES.get() - before_same;
            assert!(again <= most, "{kind:?}: {again} bytes copied again");
        }
        drop(gate);
        let seen = image.recv().unwrap().unwrap();
        assert_eq!(before, format!("Some({seen})"), "{kind:?}");
        keyspace.wait_image();
    }
}

#[test]
fn a_copy_shares_and_diverges() {
    let mut random = Random::seeded("copy");
    let len = sized(3000, 140);
    for kind in KINDS {
        let mut keyspace = keyspace();
        filled(&mut keyspace, kind, len);
        COPIED_BYTES.set(0);
        assert!(keyspace.copy(0, b"key", 0, b"copy").unwrap());
        assert!(keyspace.set_expire(0, b"copy", Some(1 << 50)));
        assert!(keyspace.rename(0, b"copy", 0, b"other").unwrap());
        assert_eq!(COPIED_BYTES.get(), 0, "nothing is copied yet");
        let before = shown(&mut keyspace, b"key");
        assert!(shown(&mut keyspace, b"other") == before);
        put(&mut keyspace, b"other", kind, len + 1);
        assert!((1..edit_bytes_max(kind, len)).contains(&COPIED_BYTES.get()));
        for _ in 0..len {
            remove(&mut keyspace, b"other", kind, random.below(len));
            put(&mut keyspace, b"other", kind, len + random.below(len));
        }
        assert!(shown(&mut keyspace, b"key") == before, "{kind:?}: the original stays");
        let other = shown(&mut keyspace, b"other");
        assert!(other != before);
        keyspace.remove(0, b"key");
        assert!(shown(&mut keyspace, b"other") == other, "{kind:?}: the copy stays");
        assert!(keyspace.get(0, b"other", 0).unwrap().expire_at().is_some());
        keyspace.remove(0, b"other");
        assert_eq!(keyspace.stats().entry_bytes, 0);
    }
}

#[test]
fn memory_of_short_elements_stays_small() {
    for kind in KINDS {
        let mut keyspace = keyspace();
        let len = sized(5000, 140);
        filled(&mut keyspace, kind, len);
        for number in 0..len - 10 {
            remove(&mut keyspace, b"key", kind, if kind == Type::List { 0 } else { number });
        }
        let left = keyspace.stats().entry_bytes;
        let value = keyspace.get(0, b"key", 0).unwrap().value();
        assert!(matches!(value, Value::List(_)) == (kind == Type::List) && value.len() == 10);
        assert!(left < 10_000, "{kind:?}: {left} bytes for 10 elements");
    }
}

#[test]
fn limbo_counts_what_it_alone_holds() {
    let len = sized(100_000, 150);
    for kind in KINDS {
        let mut keyspace = keyspace();
        filled(&mut keyspace, kind, len);
        let size = keyspace.stats().entry_bytes;
        let (gate, _image) = held_image(&mut keyspace);
        let limbo = |keyspace: &Keyspace<_>| keyspace.stats().limbo_bytes;
        let slack = 1000; // the entry and its trunk
        let agrees = |keyspace: &Keyspace<_>, what: &str| {
            let (counted, copied) = (limbo(keyspace), COPIED_BYTES.get());
            let fits = (copied..=copied + slack).contains(&counted);
            assert!(fits, "{kind:?}, {what}: {counted} bytes, {copied} copied of {size}");
        };
        assert!(keyspace.set_expire(0, b"key", Some(1 << 50)));
        agrees(&keyspace, "another time to live");
        for number in 0..20 {
            put(&mut keyspace, b"key", kind, len + number);
            remove(&mut keyspace, b"key", kind, number * 7);
        }
        agrees(&keyspace, "edits");
        assert!(keyspace.rename(0, b"key", 0, b"other").unwrap());
        agrees(&keyspace, "another name");
        put(&mut keyspace, b"other", kind, len / 2);
        agrees(&keyspace, "an edit under the other name");
        assert!(keyspace.remove(0, b"other"));
        let all = limbo(&keyspace);
        assert!((size - slack..=size + slack).contains(&all), "{kind:?}: {all} of {size} bytes");
        drop(gate);
        keyspace.wait_image();
        assert_eq!(limbo(&keyspace), 0);
    }
}

/// A node that goes up in its neighbour is left to the image, as one that is copied.
#[test]
fn limbo_counts_what_was_merged_away() {
    let len = sized(2_000, 150);
    for kind in KINDS {
        let mut keyspace = keyspace();
        filled(&mut keyspace, kind, len);
        let size = keyspace.stats().entry_bytes;
        let (gate, _image) = held_image(&mut keyspace);
        for number in 1..len {
            remove(&mut keyspace, b"key", kind, if kind == Type::List { 1 } else { number });
        }
        let all = keyspace.stats().limbo_bytes;
        assert!(all.abs_diff(size) < 1000, "{kind:?}: {all} of {size} bytes");
        drop(gate);
        keyspace.wait_image();
    }
}

#[test]
fn limbo_counts_an_end_of_a_list_that_changes() {
    let mut keyspace = keyspace();
    let push = |keyspace: &mut Keyspace<Imprint>, is_front: bool, value: &[u8]| {
        let edited = keyspace.edit_list(0, b"key", |it| match is_front {
            true => it.push_front(value),
            false => it.push_back(value),
        });
        edited.unwrap();
    };
    (0..40).for_each(|number| push(&mut keyspace, number % 2 == 0, &[b'x'; 1000]));
    let (gate, _image) = held_image(&mut keyspace);
    for (pushed, is_front) in [(1, true), (2, false)] {
        push(&mut keyspace, is_front, b"short");
        let limbo = keyspace.stats().limbo_bytes;
        assert!(limbo > pushed * 1000, "{limbo} bytes after {pushed} ends");
    }
    drop(gate);
    keyspace.wait_image();
}

/// What one consumer does with an entry, delivered and acknowledged, touches every tree of groups.
#[test]
fn a_delivery_during_an_image_copies_a_path_of_each_tree_once() {
    let len = sized(50_000, 100);
    let consumer = |number: usize| format!("consumer:{number}").into_bytes();
    let deliver = |keyspace: &mut Keyspace<Imprint>, number: usize, to: usize| {
        keyspace
            .edit_stream(0, b"key", |it| {
                let (id, name) = (id(number), consumer(to));
                it.see_consumer(b"group", &name, number as i64, None);
                it.deliver(b"group", Pending { id, consumer: Some(&name), time_ms: 1, count: 2 });
                it.set_group(b"group", id, Some(number as u64));
            })
            .unwrap();
    };
    let mut keyspace = keyspace();
    keyspace.edit_stream(0, b"key", |it| it.create_group(b"group", id(0), None)).unwrap();
    (0..len).for_each(|number| deliver(&mut keyspace, number, number % 1000));
    let before = shown(&mut keyspace, b"key");
    let size = keyspace.stats().entry_bytes;
    let (gate, image) = held_image(&mut keyspace);
    let most = 12 * edit_bytes_max(Type::Stream, len);
    for step in 0..20 {
        let before = COPIED_BYTES.get();
        deliver(&mut keyspace, step * len / 30, 1000 + step);
        keyspace.edit_stream(0, b"key", |it| it.acknowledge(b"group", id(step * 7))).unwrap();
        let copied = COPIED_BYTES.get() - before;
        assert!((1..=most).contains(&copied) || step > 0 && copied <= most, "{copied} of {size}");
    }
    drop(gate);
    let seen = image.recv().unwrap().unwrap();
    assert!(before == format!("Some({seen})"), "the image shows the groups as they were");
    keyspace.wait_image();
    keyspace.remove(0, b"key");
    assert_eq!(keyspace.stats().entry_bytes, 0, "the books are right");
}

/// What is pending goes leaf by leaf, not entry by entry.
#[test]
fn a_consumer_or_a_group_is_removed_in_few_edits_whatever_is_pending() {
    const ENTRIES: usize = 2000;
    // In a test a leaf holds 8 elements.
    let most = ENTRIES / 4 * 3 + 50;
    let fill = |keyspace: &mut Keyspace<Imprint>, consumers: &[&[u8]]| {
        let edited = keyspace.edit_stream(0, b"key", |it| {
            it.create_group(b"g", StreamId::MIN, None);
            for name in consumers {
                it.see_consumer(b"g", name, 1, None);
            }
            for number in 0..ENTRIES {
                let consumer = Some(consumers[number % consumers.len()]);
                let pending =
                    Pending { id: id(number), consumer, time_ms: number as i64, count: 1 };
                assert!(it.deliver(b"g", pending));
            }
        });
        edited.unwrap();
        EDITS.set(0);
    };
    let both: [&[u8]; 2] = [b"one", b"other"];
    for consumers in [&both[..1], &both] {
        let mut keyspace = keyspace();
        fill(&mut keyspace, consumers);
        let removed = keyspace.edit_stream(0, b"key", |it| it.remove_consumer(b"g", b"one"));
        assert_eq!(removed.unwrap(), Some(ENTRIES / consumers.len()));
        assert!(EDITS.get() < most, "{} edits", EDITS.get());
        for groups in [1, 2] {
            fill(&mut keyspace, consumers);
            keyspace
                .edit_stream(0, b"key", |it| {
                    if groups == 2 {
                        it.create_group(b"h", StreamId::MIN, None);
                    }
                    assert!(it.destroy_group(b"g"));
                })
                .unwrap();
            assert!(EDITS.get() < most, "{} edits of {groups} groups", EDITS.get());
        }
    }
}

/// As others, for the trees of producers and for a group that goes whole while an image has it.
#[test]
fn what_is_dropped_whole_stays_in_an_image_and_the_books_are_right() {
    let mut keyspace = keyspace();
    let fill = |keyspace: &mut Keyspace<Imprint>| {
        let edited = keyspace.edit_stream(0, b"key", |it| {
            it.create_group(b"g", StreamId::MIN, None);
            it.see_consumer(b"g", b"c", 1, None);
            for number in 0..200 {
                let consumer = (number % 3 > 0).then_some(&b"c"[..]);
                let pending = Pending { id: id(number), consumer, time_ms: 1, count: 1 };
                assert!(it.deliver(b"g", pending));
                let iid = number.to_string();
                it.note_sent(
                    IdmpMessage { pid: &iid.as_bytes()[..1], iid: iid.as_bytes() },
                    id(number + 1),
                );
            }
        });
        edited.unwrap();
    };
    fill(&mut keyspace);
    let before = shown(&mut keyspace, b"key");
    let (gate, image) = held_image(&mut keyspace);
    let edited = keyspace.edit_stream(0, b"key", |it| {
        assert!(it.destroy_group(b"g"));
        it.set_idmp_limits(crate::IdmpLimits { duration_s: 9, entries: 9 });
    });
    edited.unwrap();
    let after = shown(&mut keyspace, b"key");
    assert!(before != after);
    drop(gate);
    let seen = image.recv().unwrap().unwrap();
    assert_eq!(format!("Some({seen})"), before);
    assert_eq!(shown(&mut keyspace, b"key"), after);
    keyspace.wait_image();
    keyspace.remove(0, b"key");
    assert_eq!(keyspace.stats().entry_bytes, 0, "the books are right");
}
