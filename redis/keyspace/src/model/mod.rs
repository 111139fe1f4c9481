//! Collections against the standard library's, with nodes so small that the trees are deep.

mod arrays;
mod deadlines;
mod lists;
#[path = "../../tests/common/random.rs"]
mod random;
mod streams;

use std::collections::{BTreeMap, BTreeSet};

use stillframe::SinkError;
use stillframe::algorithms::naive::Naive;

use crate::collection::packed::score_head;
use crate::memory::value::Value;
use crate::{
    Defragmentation, EditError, Entry, EntrySink, Expire, IntText, Keyspace, KeyspaceOptions,
};

pub(crate) use random::{Random, sized};

const KEY: &[u8] = b"collection";

/// A text as it is, or the fields and values of a hash.
pub(crate) fn flat(entry: &Entry) -> Vec<u8> {
    match entry.value() {
        Value::Hash(hash) => {
            let fields: BTreeMap<&[u8], &[u8]> = hash.iter().collect();
            fields.into_iter().flat_map(|(field, value)| [field, value].concat()).collect()
        }
        text => text.to_bytes(&mut IntText::default()).to_vec(),
    }
}

/// Collects an image, slowly now and then; `show` makes of an entry what is compared.
pub(crate) struct Collect<T> {
    pub(crate) taken: BTreeMap<(usize, Vec<u8>), T>,
    pub(crate) show: fn(&Entry) -> T,
}

impl<T: Send> EntrySink for Collect<T> {
    fn entry(&mut self, db: usize, entry: &Entry) -> Result<(), SinkError> {
        let twice = self.taken.insert((db, entry.key().to_vec()), (self.show)(entry));
        assert!(twice.is_none(), "a key came twice in one image");
        if self.taken.len().is_multiple_of(16) {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        Ok(())
    }
}

impl Random {
    /// Mostly short, now and then larger than a leaf.
    fn text(&mut self, kinds: usize) -> Vec<u8> {
        let number = self.below(kinds);
        let mut text = format!("member:{number}").into_bytes();
        if number.is_multiple_of(13) {
            text.resize(text.len() + number % 300, b'x');
        }
        if number % 199 == 7 {
            text.resize(if cfg!(miri) { 300 } else { 9000 }, b'y');
        }
        text
    }
}

fn keyspace() -> Keyspace<Naive> {
    let options =
        KeyspaceOptions { max_keys: 1 << 12, budget_bytes: 1 << 16, ..KeyspaceOptions::default() };
    Keyspace::create(&options).unwrap()
}

/// Sizes that edits tend to, one after the other, so that trees grow and shrink through every
/// threshold.
const TIDES: [usize; 8] = [20, 0, 150, 90, 700, 130, 400, 0];

/// Calls `step` with whether to grow, `keyspace` checked against nothing but its own invariants.
fn tides(mut step: impl FnMut(&mut Keyspace<Naive>, bool) -> usize) {
    let mut keyspace = keyspace();
    for tide in &TIDES[..sized(TIDES.len(), 3).min(TIDES.len())] {
        let mut len = keyspace.get(0, KEY, 0).map_or(0, |entry| entry.value().len());
        let grow = len < *tide;
        let mut steps = 0;
        while if grow { len < *tide } else { len > *tide } && steps < sized(2000, 155) {
            len = step(&mut keyspace, grow);
            steps += 1;
            if steps % 20 == 0 {
                move_all(&mut keyspace);
            }
        }
        check(&mut keyspace);
    }
    keyspace.remove(0, KEY);
    keyspace.remove(0, b"copy"); // which a step may have made
    assert_eq!(keyspace.stats().entry_bytes, 0, "the books are right");
}

/// Moves everything to other memory.
fn move_all(keyspace: &mut Keyspace<Naive>) {
    let mut walk = Defragmentation::default();
    while keyspace.is_movable() && keyspace.defragment(&mut walk, 100, &|_| true) {}
}

/// The tree's own invariants.
fn check(keyspace: &mut Keyspace<Naive>) {
    let value = keyspace.get(0, KEY, 0).map(|entry| entry.value());
    if let Some(crate::collection::form::Form::Tree(trunk)) =
        value.and_then(Value::as_collection).map(|collection| collection.form)
    {
        trunk.main.check(&trunk.hasher);
        if let Some(ends) = &trunk.ends {
            ends.check();
        }
        if let Some(members) = &trunk.members {
            members.check(&trunk.hasher);
            assert_eq!(members.len(), trunk.main.len());
        }
        if let Some(stream) = &trunk.stream {
            stream.check(&trunk.hasher);
        }
    }
}

#[test]
fn a_hash_is_a_map() {
    let mut random = Random::seeded("hash");
    let mut oracle = BTreeMap::<Vec<u8>, Vec<u8>>::new();
    tides(|keyspace, grow| {
        let (field, value) = (random.text(1500), random.text(1000));
        let add = random.below(5) != 0;
        let field = match oracle.range(field.clone()..).next() {
            Some((there, _)) if add != grow => there.clone(),
            _ => field,
        };
        keyspace
            .edit_hash(0, KEY, |hash| {
                if add == grow {
                    assert_eq!(hash.set(&field, &value), !oracle.contains_key(&field));
                    oracle.insert(field.clone(), value.clone());
                } else {
                    assert_eq!(hash.remove(&field), oracle.remove(&field).is_some());
                }
                assert_eq!(hash.view().get(&field), oracle.get(&field).map(Vec::as_slice));
            })
            .unwrap();
        if let Some(Value::Hash(hash)) = keyspace.get(0, KEY, 0).map(|entry| entry.value()) {
            assert_eq!(hash.len(), oracle.len());
            assert_eq!(hash.get(&value), oracle.get(&value).map(Vec::as_slice));
            assert_eq!(hash.contains(&value), oracle.contains_key(&value));
            if random.below(10) == 0 {
                let all: BTreeMap<_, _> = hash.iter().collect();
                assert!(all.len() == hash.iter().count());
                assert!(all.into_iter().eq(oracle.iter().map(|(k, v)| (&k[..], &v[..]))));
                let at = random.below(hash.len());
                assert_eq!(hash.at(at), hash.iter().nth(at));
                assert_eq!(hash.at(hash.len()), None);
            }
        } else {
            assert!(oracle.is_empty());
        }
        oracle.len()
    });
}

#[test]
fn a_set_is_a_set() {
    let mut random = Random::seeded("set");
    let mut oracle = BTreeSet::<Vec<u8>>::new();
    tides(|keyspace, grow| {
        let text = random.text(1500);
        let add = random.below(5) != 0;
        let member = match oracle.range(text.clone()..).next() {
            Some(there) if add != grow => there.clone(),
            _ => text,
        };
        keyspace
            .edit_set(0, KEY, |set| {
                if add == grow {
                    assert_eq!(set.insert(&member), oracle.insert(member.clone()));
                } else {
                    assert_eq!(set.remove(&member), oracle.remove(&member));
                }
                assert_eq!(set.view().contains(&member), oracle.contains(&member));
            })
            .unwrap();
        if let Some(Value::Set(set)) = keyspace.get(0, KEY, 0).map(|entry| entry.value()) {
            assert_eq!(set.len(), oracle.len());
            if random.below(10) == 0 {
                let all: BTreeSet<_> = set.iter().collect();
                assert!(all.into_iter().eq(oracle.iter().map(Vec::as_slice)));
                assert_eq!(set.at(set.len() - 1), set.iter().last());
            }
        } else {
            assert!(oracle.is_empty());
        }
        oracle.len()
    });
}

/// Members by the heads of their scores, and scores by member.
#[derive(Default)]
struct Ranked {
    order: BTreeSet<(u64, Vec<u8>)>,
    scores: BTreeMap<Vec<u8>, f64>,
}

impl Ranked {
    fn set(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let old = self.remove(member);
        self.order.insert((score_head(score), member.to_vec()));
        self.scores.insert(member.to_vec(), score);
        old
    }

    fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let old = self.scores.remove(member)?;
        assert!(self.order.remove(&(score_head(old), member.to_vec())));
        Some(old)
    }

    fn pairs(&self) -> impl DoubleEndedIterator<Item = (&[u8], f64)> {
        self.order.iter().map(|(_, member)| (&member[..], self.scores[member]))
    }
}

/// `scores`: how many different scores there are, as few make members decide.
fn a_sorted_set_is_ordered(scores: usize) {
    let mut random = Random::seeded("sorted set");
    let mut oracle = Ranked::default();
    tides(|keyspace, grow| {
        let member = random.text(1500);
        let score = (random.below(scores) as f64 - scores as f64 / 2.0) * 0.5;
        let add = random.below(5) != 0;
        let there = oracle.scores.range(member.clone()..).next().map(|(there, _)| there.clone());
        let way = random.below(30);
        keyspace
            .edit_sorted(0, KEY, |sorted| match (add == grow, there) {
                (true, _) => assert_eq!(sorted.set(&member, score), oracle.set(&member, score)),
                (false, Some(_)) if way == 0 => {
                    let start = random.below(oracle.order.len());
                    let gone: Vec<Vec<u8>> =
                        oracle.pairs().skip(start).take(7).map(|(it, _)| it.to_vec()).collect();
                    sorted.remove_range(start, 7);
                    gone.iter().for_each(|gone| assert!(oracle.remove(gone).is_some()));
                }
                (false, Some(there)) => {
                    assert_eq!(sorted.remove(&there), oracle.remove(&there));
                }
                (false, None) => assert_eq!(sorted.remove(&member), oracle.remove(&member)),
            })
            .unwrap();
        let Some(Value::Sorted(sorted)) = keyspace.get(0, KEY, 0).map(|entry| entry.value()) else {
            assert!(oracle.order.is_empty());
            return 0;
        };
        assert_eq!(sorted.len(), oracle.order.len());
        assert_eq!(sorted.score(&member), oracle.scores.get(&member).copied());
        if random.below(20) == 0 {
            let rank = oracle.pairs().position(|(other, _)| other == member);
            assert_eq!(sorted.rank(&member), rank);
            let at = random.below(sorted.len());
            assert_eq!(sorted.at(at), oracle.pairs().nth(at));
            assert!(sorted.iter_from(at).eq(oracle.pairs().skip(at)));
            let skipped = sorted.len() - 1 - at;
            assert!(sorted.iter_back_from(at).eq(oracle.pairs().rev().skip(skipped)));
            for inclusive in [false, true] {
                let is_below = |other: f64| other < score || inclusive && other == score;
                let below = oracle.scores.values().filter(|&&other| is_below(other)).count();
                assert_eq!(sorted.below_score(score, inclusive), below);
                if scores == 1 {
                    let is_below =
                        |other: &[u8]| other < &member[..] || inclusive && other == member;
                    let below = oracle.scores.keys().filter(|other| is_below(other)).count();
                    assert_eq!(sorted.below_member(&member, inclusive), below);
                }
            }
        }
        sorted.len()
    });
}

#[test]
fn a_sorted_set_is_ordered_by_score() {
    a_sorted_set_is_ordered(1000);
    a_sorted_set_is_ordered(12);
}

#[test]
fn a_sorted_set_of_one_score_is_ordered_by_member() {
    a_sorted_set_is_ordered(1);
}

#[test]
fn an_edit_of_another_type_is_refused() {
    let mut keyspace = keyspace();
    keyspace.set(0, b"text", b"value", Expire::Never).unwrap();
    let refused = keyspace.edit_list(0, b"text", |list| list.push_back(b"x"));
    assert!(matches!(refused, Err(EditError::WrongType)));
    keyspace.edit_list(0, b"list", |list| list.push_back(b"x")).unwrap();
    let refused = keyspace.edit_set(0, b"list", |set| set.insert(b"x"));
    assert!(matches!(refused, Err(EditError::WrongType)));
    keyspace.edit_set(0, b"none", |set| assert!(!set.remove(b"x"))).unwrap();
    assert!(!keyspace.contains(0, b"none", 0));
}

#[test]
fn a_scan_shows_what_is_there_throughout() {
    let mut random = Random::seeded("scan");
    for round in 0..sized(20, 2) {
        let mut keyspace = keyspace();
        let member = |number: usize| format!("{number}").into_bytes();
        let stay = 1 + random.below(sized(300, 40));
        let mut size = random.below(sized(1500, 40));
        let fill = |keyspace: &mut Keyspace<Naive>, from: usize, to: usize, sorted: bool| {
            for number in from.min(to)..from.max(to) {
                let (name, grow) = (member(1_000_000 + number), from < to);
                let _ = match (sorted, grow) {
                    (true, true) => {
                        keyspace.edit_sorted(0, KEY, |set| set.set(&name, 1.0)).unwrap().is_some()
                    }
                    (true, false) => {
                        keyspace.edit_sorted(0, KEY, |set| set.remove(&name)).unwrap().is_some()
                    }
                    (false, true) => keyspace.edit_set(0, KEY, |set| set.insert(&name)).unwrap(),
                    (false, false) => keyspace.edit_set(0, KEY, |set| set.remove(&name)).unwrap(),
                };
            }
        };
        let sorted = round % 2 == 0;
        for number in 0..stay {
            match sorted {
                true => drop(keyspace.edit_sorted(0, KEY, |set| set.set(&member(number), 0.0))),
                false => drop(keyspace.edit_set(0, KEY, |set| set.insert(&member(number)))),
            }
        }
        fill(&mut keyspace, 0, size, sorted);
        let (mut cursor, mut shown) = (0, BTreeSet::new());
        loop {
            let count = 1 + random.below(20);
            cursor = match keyspace.get(0, KEY, 0).unwrap().value() {
                Value::Set(set) => set.scan(cursor, count, |member| {
                    shown.insert(member.to_vec());
                }),
                Value::Sorted(set) => set.scan(cursor, count, |member, _| {
                    shown.insert(member.to_vec());
                }),
                other => panic!("{other:?}"),
            };
            if cursor == 0 {
                break;
            }
            let to = random.below(sized(1500, 40));
            fill(&mut keyspace, size, to, sorted);
            size = to;
        }
        assert!((0..stay).all(|number| shown.contains(&member(number))), "{stay} of {size}");
    }
}
