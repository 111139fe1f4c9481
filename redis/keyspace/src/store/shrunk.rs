//! What has shrunk takes little more memory than what was never larger.

use stillframe::algorithms::naive::Naive;

use super::tests::keyspace;
use crate::model::sized;
use crate::{Expire, HashEdit, Keyspace, ListEdit, StreamId};

/// Nodes of these tests are small, and more of a tree is nodes.
const TIMES_MAX: f64 = 3.0;

fn assert_alike(what: &str, shrunk: &Keyspace<Naive>, fresh: &Keyspace<Naive>) {
    let bytes = |keyspace: &Keyspace<Naive>| keyspace.stats().entry_bytes as f64;
    let times = bytes(shrunk) / bytes(fresh);
    assert!(times < TIMES_MAX, "{what}: {times} times the bytes of a fresh key");
}

/// Gives each of so many parts of a key a value.
type Set = fn(&mut Keyspace<Naive>, usize, &[u8]);

#[test]
fn values_that_were_large() {
    let sets: [(&str, Set); 3] = [
        ("a string", |keyspace, _, value| keyspace.set(0, b"k", value, Expire::Keep).unwrap()),
        ("a hash", |keyspace, count, value| {
            let set = |it: &mut HashEdit<'_>| {
                for at in 0..count {
                    it.set(at.to_string().as_bytes(), value);
                }
            };
            keyspace.edit_hash(0, b"k", set).unwrap();
        }),
        ("a list", |keyspace, count, value| {
            let set = |it: &mut ListEdit<'_>| {
                for at in 0..count {
                    if !it.set(at, value) {
                        it.push_back(value);
                    }
                }
            };
            keyspace.edit_list(0, b"k", set).unwrap();
        }),
    ];
    let count = sized(2000, 40);
    let (small, large) = ([b's'; 16], vec![b'l'; sized(16 << 10, 1 << 10)]);
    for (what, set) in sets {
        let (mut fresh, mut shrunk) = (keyspace(), keyspace());
        set(&mut fresh, count, &small);
        set(&mut shrunk, count, &large);
        set(&mut shrunk, count, &small);
        assert_alike(what, &shrunk, &fresh);
    }
}

/// Adds a part of a key, or removes it: its number and its name, or what it holds.
type Edit = fn(&mut Keyspace<Naive>, usize, &[u8], bool);

#[test]
fn parts_that_are_gone() {
    let edits: [(&str, Edit); 5] = [
        ("a hash", |keyspace, _, name, add| {
            let edit =
                |it: &mut HashEdit<'_>| if add { it.set(name, b"v") } else { it.remove(name) };
            assert!(keyspace.edit_hash(0, b"k", edit).unwrap());
        }),
        ("a set", |keyspace, _, name, add| {
            let edited = keyspace
                .edit_set(0, b"k", |it| if add { it.insert(name) } else { it.remove(name) });
            assert!(edited.unwrap());
        }),
        ("a sorted set", |keyspace, at, name, add| {
            let score = at as f64;
            let edited = keyspace
                .edit_sorted(0, b"k", |it| if add { it.set(name, score) } else { it.remove(name) });
            assert_eq!(edited.unwrap().is_some(), !add);
        }),
        ("a list", |keyspace, _, name, add| {
            let edit = |it: &mut ListEdit<'_>| {
                if add { it.push_back(name) } else { it.remove_range(0, 1) }
            };
            keyspace.edit_list(0, b"k", edit).unwrap();
        }),
        ("a stream", |keyspace, at, name, add| {
            let id = StreamId { ms: at as u64 + 1, seq: 0 };
            let edited = keyspace.edit_stream(0, b"k", |it| {
                if add { it.add(id, [(&b"f"[..], name)].into_iter()) } else { it.delete(id) }
            });
            assert!(edited.unwrap());
        }),
    ];
    // Also in a quick run: a quarter of it is more than a small collection has.
    let count = if cfg!(miri) { 40 } else { 2000 };
    let stay = count..count + count / 4;
    for (what, edit) in edits {
        let (mut fresh, mut shrunk) = (keyspace(), keyspace());
        let large = |at: usize| format!("{at:01000}").into_bytes();
        (0..count).for_each(|at| edit(&mut shrunk, at, &large(at), true));
        for keyspace in [&mut shrunk, &mut fresh] {
            stay.clone().for_each(|at| edit(keyspace, at, at.to_string().as_bytes(), true));
        }
        (0..count).for_each(|at| edit(&mut shrunk, at, &large(at), false));
        assert_alike(what, &shrunk, &fresh);
    }
}
