//! Deliberate mistakes about branches, and the test that must find each one: random changes of
//! several branches and of what they branched off, each beside a keyspace of its own.

stillframe::mutants! {
    pub(crate) when test;

    /// A key that is deleted leaves no mark.
    ForgetsDeletions,
    /// A key that was changed and then deleted is as in the view again.
    ShowsTheViewAgain,
    /// The first change of a key is not kept.
    LosesTheFirstChange,
    /// Emptying a database deletes only what the branch has changed.
    ClearsOwnAlone,
    /// A walk meets keys that were changed both in the view and behind it.
    MeetsChangedTwice,
    /// A walk ends with the view.
    MeetsNoCreated,
    /// A branch reads keys as they are now, and not as they were.
    ReadsThePresent,
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use stillframe::algorithms::imprint::Imprint;

    use super::{Mutant, with_mutant};
    use crate::model::{Random, sized};
    use crate::mutants as memory;
    use crate::{Branch, Change, Entry, Expire, IntText, Keyspace, KeyspaceOptions, Value, View};

    const DBS: usize = 3;
    const KEYS: usize = if cfg!(miri) { 6 } else { 30 };
    const BRANCHES_MAX: usize = 4;
    /// Fields of a hash that is large, and lies in a tree.
    const FIELDS: usize = if cfg!(miri) { 4 } else { 60 };

    type Key = (usize, Vec<u8>);
    /// Values and deadlines.
    type Contents = BTreeMap<Key, Shown>;
    type Shown = (Vec<(Vec<u8>, Vec<u8>)>, Option<i64>);

    /// A text as it is, or the fields and values of a hash.
    fn shown(entry: &Entry) -> Shown {
        let value = match entry.value() {
            Value::Hash(hash) => {
                let fields: BTreeMap<&[u8], &[u8]> = hash.iter().collect();
                fields.into_iter().map(|(field, value)| (field.into(), value.into())).collect()
            }
            text => vec![(Vec::new(), text.to_bytes(&mut IntText::default()).to_vec())],
        };
        (value, entry.expire_at())
    }

    fn keyspace() -> Keyspace<Imprint> {
        let max_keys = if cfg!(miri) { 1 << 8 } else { 1 << 10 };
        let options =
            KeyspaceOptions { max_keys, budget_bytes: 1 << 16, ..KeyspaceOptions::default() };
        Keyspace::create(&options).unwrap()
    }

    fn contents(keyspace: &mut Keyspace<Imprint>, now: i64) -> Contents {
        let mut contents = Contents::new();
        for db in 0..DBS {
            keyspace.for_each(db, now, |entry| {
                contents.insert((db, entry.key().to_vec()), shown(entry));
            });
        }
        contents
    }

    /// A keyspace of its own with these contents.
    fn twin(contents: &Contents) -> Keyspace<Imprint> {
        let mut twin = keyspace();
        for ((db, key), (value, deadline)) in contents {
            if let [(field, text)] = &value[..]
                && field.is_empty()
            {
                twin.set(*db, key, text, Expire::Never).unwrap();
            } else {
                let set = |(field, text): &(Vec<u8>, Vec<u8>)| (field.clone(), text.clone());
                let fields: Vec<_> = value.iter().map(set).collect();
                twin.edit_hash(*db, key, |hash| {
                    fields.iter().for_each(|(field, text)| {
                        hash.set(field, text);
                    });
                })
                .unwrap();
            }
            twin.set_expire(*db, key, *deadline);
        }
        twin
    }

    /// A request: which, its two keys, and a number that says the rest.
    struct Request {
        kind: usize,
        keys: [Key; 2],
        number: usize,
    }

    impl Request {
        fn random(random: &mut Random) -> Self {
            let mut key = || {
                let key = format!("key:{}", random.below(KEYS)).into_bytes();
                (random.below(DBS), key)
            };
            let keys = [key(), key()];
            Self { kind: random.below(100), keys, number: random.below(100_000) }
        }

        /// The keys that it names.
        fn keys(&self) -> Vec<(usize, &[u8])> {
            self.keys.iter().map(|(db, key)| (*db, &key[..])).collect()
        }

        /// Does what commands do: looks its keys up, then changes them.
        fn run(&self, keyspace: &mut Keyspace<Imprint>, now: i64) {
            let Self { kind, keys: [(db, key), (to_db, to)], number } = self;
            let (db, number) = (*db, *number);
            let is_there = keyspace.contains(db, key, now);
            keyspace.contains(*to_db, to, now);
            let text = format!("{number:0>0$}", 1 + number % 90).into_bytes();
            match kind {
                0..20 => keyspace.set(db, key, &text, Expire::Never).unwrap(),
                20..30 => {
                    let expire = Expire::At(now + (number % 20) as i64);
                    keyspace.set(db, key, &text, expire).unwrap();
                }
                30..50 => drop(keyspace.remove(db, key)),
                50..75 => {
                    let is_hash = |entry: &Entry| matches!(entry.value(), Value::Hash(_));
                    if keyspace.get(db, key, now).is_some_and(|it| !is_hash(it)) {
                        keyspace.append(db, key, &text.repeat(1 + number % 80)).unwrap();
                        return;
                    }
                    // Of one length, so that one value may take another's place.
                    let (first, text) = (number % 100, format!("{number:0>90}"));
                    drop(keyspace.edit_hash(db, key, |hash| {
                        (first..first + 1 + number % FIELDS).for_each(|field| {
                            hash.set(field.to_string().as_bytes(), text.as_bytes());
                        });
                        hash.remove(first.to_string().as_bytes());
                    }));
                }
                75..80 => drop(keyspace.set_expire(db, key, Some(now + (number % 9) as i64))),
                80..83 => drop(keyspace.set_expire(db, key, None)),
                83..90 if is_there => drop(keyspace.rename(db, key, *to_db, to).unwrap()),
                90..95 if is_there => drop(keyspace.copy(db, key, *to_db, to).unwrap()),
                _ => {}
            }
        }
    }

    /// A walk over a database of a branch.
    #[derive(Default)]
    struct Walk {
        db: usize,
        cursor: u64,
        /// The keys that were there ever since it began.
        stayed: BTreeSet<Vec<u8>>,
        met: BTreeMap<Vec<u8>, usize>,
    }

    /// A branch, and the keyspace that goes the same way.
    struct Open {
        view: u64,
        branch: Branch,
        twin: Keyspace<Imprint>,
        /// What the view has, expired keys included.
        held: Contents,
        /// The database of the view that is below each.
        below: [Option<usize>; DBS],
        walk: Walk,
    }

    impl Open {
        /// A branch of what is there now.
        fn at(view: u64, live: &mut Keyspace<Imprint>, now: i64) -> Self {
            live.open_view(view, now);
            let (held, twin) = (contents(live, i64::MIN), twin(&contents(live, now)));
            let (branch, below, walk) =
                (Branch::default(), std::array::from_fn(Some), Walk::default());
            Self { view, branch, twin, held, below, walk }
        }

        /// A branch of this one.
        fn branched(&mut self, live: &Keyspace<Imprint>, now: i64) -> Self {
            let branch = self.branch.copied(&live.view(self.view).unwrap());
            assert_eq!(branch.bytes(), self.branch.bytes());
            let twin = twin(&contents(&mut self.twin, now));
            let Self { view, ref held, below, .. } = *self;
            Self { view, branch, twin, held: held.clone(), below, walk: Walk::default() }
        }

        fn change(
            &mut self,
            live: &Keyspace<Imprint>,
            bench: &mut Keyspace<Imprint>,
            random: &mut Random,
            now: i64,
        ) {
            let view = live.view(self.view).unwrap();
            match random.below(60) {
                0 => {
                    let db = random.below(DBS);
                    self.branch.clear(db, bench);
                    self.twin.clear(db);
                    (self.below[db], self.walk) = (None, Walk::default());
                }
                1 => {
                    let (a, b) = (random.below(DBS), random.below(DBS));
                    self.branch.swap(a, b);
                    self.twin.swap(a, b);
                    self.below.swap(a, b);
                    self.walk = Walk::default();
                }
                _ => {
                    let request = Request::random(random);
                    let keys = request.keys();
                    self.branch.lay(&view, bench, &keys, now).unwrap();
                    request.run(bench, now);
                    self.branch.take_back(&view, bench, &keys);
                    request.run(&mut self.twin, now);
                }
            }
            self.note_who_stays(now);
        }

        fn note_who_stays(&mut self, now: i64) {
            let Walk { db, stayed, .. } = &mut self.walk;
            stayed.retain(|key| self.twin.contains(*db, key, now));
        }

        /// Each key by its name.
        fn look(&mut self, live: &Keyspace<Imprint>, now: i64) {
            let view = live.view(self.view).unwrap();
            let alive = contents(&mut self.twin, now);
            for db in 0..DBS {
                for number in 0..KEYS {
                    let key = format!("key:{number}").into_bytes();
                    let found = self.branch.get(&view, db, &key, now).map(shown);
                    assert!(found.as_ref() == alive.get(&(db, key)), "key:{number} of {db}");
                }
            }
        }

        /// A step of a walk.
        fn walk(&mut self, live: &Keyspace<Imprint>, budget: usize, now: i64) {
            let view = live.view(self.view).unwrap();
            let alive = contents(&mut self.twin, now);
            let Walk { db, cursor, stayed, met } = &mut self.walk;
            if *cursor == 0 {
                let of_db = alive.keys().filter(|(of, _)| of == db);
                *stayed = of_db.map(|(_, key)| key.clone()).collect();
            }
            *cursor = self.branch.scan(&view, *db, *cursor, budget, now, |entry| {
                let key = entry.key().to_vec();
                assert!(alive.get(&(*db, key.clone())) == Some(&shown(entry)), "it is there");
                *met.entry(key).or_default() += 1;
            });
            if *cursor == 0 {
                for key in &*stayed {
                    assert_eq!(met.get(key), Some(&1), "a key that stays is met once");
                }
                self.walk = Walk { db: (*db + 1) % DBS, ..Walk::default() };
            }
        }

        /// Every way to see all of it agrees with the twin.
        fn check(&mut self, live: &Keyspace<Imprint>, random: &mut Random, now: i64) {
            let view: View<'_, _> = live.view(self.view).unwrap();
            let alive = contents(&mut self.twin, now);
            for db in 0..DBS {
                let mut all = BTreeMap::new();
                self.branch.for_each(&view, db, now, |entry| {
                    let twice = all.insert((db, entry.key().to_vec()), shown(entry));
                    assert!(twice.is_none(), "met once");
                });
                let of_db = || alive.iter().filter(|((of, _), _)| *of == db);
                assert!(all.iter().eq(of_db()), "{} keys of {db}", all.len());
                let mut with_expired = 0;
                self.branch.for_each(&view, db, i64::MIN + 1, |_| with_expired += 1);
                assert_eq!(self.branch.len(&view, db), with_expired);
                let chosen = self.branch.random(&view, db, now, &mut || random.next());
                let chosen = chosen.map(|entry| (db, entry.key().to_vec()));
                assert_eq!(chosen.is_some(), !all.is_empty());
                assert!(chosen.is_none_or(|key| all.contains_key(&key)));
                self.check_changes(&view, db, &all, now);
            }
        }

        fn check_changes(&self, view: &View<'_, Imprint>, db: usize, alive: &Contents, now: i64) {
            let below = self.below[db];
            let held = |key: &Vec<u8>| self.held.get(&(below?, key.clone()));
            let mut changed = BTreeMap::new();
            let mut cursor = 0;
            loop {
                cursor = self.branch.scan_changes(view, db, cursor, 7, now, |change, entry| {
                    let twice = changed.insert(entry.key().to_vec(), change);
                    assert!(twice.is_none(), "met once");
                });
                if cursor == 0 {
                    break;
                }
            }
            for (key, change) in &changed {
                let is_alive = alive.contains_key(&(db, key.clone()));
                let expected = match (held(key).is_some(), is_alive) {
                    (true, true) => Change::Changed,
                    (true, false) => Change::Deleted,
                    (false, _) => Change::Created,
                };
                assert_eq!(*change, expected, "{key:?}");
            }
            for ((_, key), value) in alive {
                let is_listed = changed.contains_key(key);
                assert!(is_listed || held(key) == Some(value), "{key:?} was changed");
            }
            let held = self.held.iter().filter(|((db, _), _)| Some(*db) == below);
            for ((_, key), (_, deadline)) in held {
                let is_gone = !alive.contains_key(&(db, key.clone()));
                let has_expired = deadline.is_some_and(|at| at <= now);
                assert!(!is_gone || has_expired || changed.contains_key(key), "{key:?} is gone");
            }
        }
    }

    fn branches_go_their_own_ways(steps: usize) {
        let mut random = Random::seeded("branches");
        let (mut live, mut alone, mut now) = (keyspace(), keyspace(), 0);
        let mut bench = live.relative(1 << 8).unwrap();
        let (mut branches, mut opened): (Vec<Open>, u64) = (Vec::new(), 0);
        for _ in 0..steps {
            let at = random.below(branches.len().max(1));
            match random.below(100) {
                0..3 if branches.len() < BRANCHES_MAX => {
                    opened += 1;
                    branches.push(Open::at(opened, &mut live, now));
                }
                3 if !branches.is_empty() => {
                    let Open { view, branch, .. } = branches.swap_remove(at);
                    branch.close(&mut bench);
                    if branches.iter().all(|open| open.view != view) {
                        assert!(live.close_view(view));
                    }
                }
                4 if !branches.is_empty() && branches.len() < BRANCHES_MAX => {
                    let another = branches[at].branched(&live, now);
                    branches.push(another);
                }
                5..9 if !branches.is_empty() => branches[at].check(&live, &mut random, now),
                9..15 if !branches.is_empty() => branches[at].look(&live, now),
                15..40 if !branches.is_empty() => branches[at].walk(&live, 1 + at, now),
                40..75 if !branches.is_empty() => {
                    branches[at].change(&live, &mut bench, &mut random, now);
                }
                75..79 => {
                    now += 1;
                    branches.iter_mut().for_each(|open| open.note_who_stays(now));
                }
                79 => {
                    let (a, b) = (random.below(DBS), random.below(DBS));
                    [&mut live, &mut alone].into_iter().for_each(|it| it.swap(a, b));
                }
                80 => {
                    let db = random.below(DBS);
                    [&mut live, &mut alone].into_iter().for_each(|it| it.clear(db));
                }
                81 => [&mut live, &mut alone].into_iter().for_each(|it| {
                    it.expire_cycle(now, 5);
                }),
                82..86 => [&mut live, &mut alone].into_iter().for_each(|it| {
                    it.tend();
                }),
                86 => assert!(contents(&mut live, now) == contents(&mut alone, now), "it leaks"),
                87 => {
                    let (a, b) = (random.below(DBS), random.below(DBS));
                    [&mut live, &mut alone].into_iter().for_each(|it| it.branch(a, b).unwrap());
                }
                _ => {
                    let request = Request::random(&mut random);
                    [&mut live, &mut alone].into_iter().for_each(|it| request.run(it, now));
                }
            }
        }
        branches.iter_mut().for_each(|open| open.check(&live, &mut random, now));
        for Open { view, branch, .. } in branches {
            branch.close(&mut bench);
            live.close_view(view);
        }
        while live.tend() || bench.tend() {}
        assert!(contents(&mut live, now) == contents(&mut alone, now), "it leaks");
        assert_eq!(bench.stats().entry_bytes + live.stats().view_entries, 0);
    }

    #[test]
    fn a_branch_is_a_copy_of_its_own() {
        branches_go_their_own_ways(sized(40_000, 30));
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes many steps")]
    fn every_mutant_is_found() {
        let right = || {
            let outcome = catch_unwind(AssertUnwindSafe(|| branches_go_their_own_ways(15_000)));
            outcome.is_ok()
        };
        assert!(right(), "without a mistake");
        for &mutant in Mutant::ALL.iter().filter(|mutant| mutant.is_chosen()) {
            assert!(!with_mutant(mutant, right), "{mutant:?}");
        }
        let shared = memory::Mutant::OverwritesShared;
        assert!(!memory::with_mutant(shared, right), "{shared:?}");
    }
}
