//! Deliberate mistakes with keys, times to live and databases, and a keyspace beside a map, which
//! must find each.

stillframe::mutants! {
    pub(crate) when test;

    /// A value that is replaced in place keeps its time to live.
    SetKeepsDeadline,
    /// A key that loses its time to live stays among those that have one.
    BooksForgetDeadline,
    /// A copied key lives for ever.
    CopyForgetsDeadline,
    /// A copied key is of the first database, wherever its index has it.
    CopyIsInFirstDatabase,
    /// Bytes that are appended in place are not counted.
    AppendLeavesBooks,
    /// A small collection that became empty stays as it was.
    EmptyStays,
    /// A scan that goes on leaves out the key where it stopped.
    ScanSkipsKey,
    /// A database that was cleared counts its bytes.
    ClearKeepsBytes,
    /// Entries of databases that were swapped stay with their numbers.
    SwapForgetsSpaces,
    /// A key is there in the millisecond in which it expires.
    ExpiresLate,
    /// A hash of which no field expires any more stays among those with such fields.
    BooksForgetTimed,
    /// A field is there in the millisecond in which it expires.
    FieldExpiresLate,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use stillframe::algorithms::imprint::Imprint;
    use stillframe_peers::{Random, rounds};

    use super::{Mutant, with_mutant};
    use crate::{Entry, Expire, IntText, Keyspace, KeyspaceOptions, Value};

    const DBS: usize = 3;
    const KEYS: usize = 12;

    /// A text, a list of which each element is one, or the fields of a hash with their deadlines.
    #[derive(Debug, Clone, PartialEq)]
    enum Held {
        Text(Vec<u8>),
        List(Vec<Vec<u8>>),
        Hash(BTreeMap<Vec<u8>, Option<i64>>),
    }

    #[derive(Debug, Clone, PartialEq)]
    struct Known {
        held: Held,
        expire_at: Option<i64>,
    }

    type Map = BTreeMap<Vec<u8>, Known>;

    /// Deletes what has expired.
    fn expire(map: &mut Map, now: i64) {
        let is_alive = |at: &Option<i64>| at.is_none_or(|at| at > now);
        map.retain(|_, known| {
            if let Held::Hash(fields) = &mut known.held {
                fields.retain(|_, at| is_alive(at));
            }
            let is_void = matches!(&known.held, Held::Hash(fields) if fields.is_empty());
            is_alive(&known.expire_at) && !is_void
        });
    }

    fn known(entry: &Entry) -> Known {
        let held = match entry.value() {
            Value::List(list) => Held::List(list.iter_from(0).map(<[u8]>::to_vec).collect()),
            Value::Hash(hash) => {
                Held::Hash(hash.fields().map(|it| (it.field.to_vec(), it.deadline)).collect())
            }
            text => Held::Text(text.to_bytes(&mut IntText::default()).to_vec()),
        };
        Known { held, expire_at: entry.expire_at() }
    }

    struct World {
        keyspace: Keyspace<Imprint>,
        maps: [Map; DBS],
        now: i64,
        random: Random,
    }

    impl World {
        fn new() -> Self {
            let options = KeyspaceOptions { max_keys: 1 << 8, ..KeyspaceOptions::default() };
            let keyspace = Keyspace::create(&options).expect("memory");
            let random = Random::new("a keyspace beside a map");
            Self { keyspace, maps: Default::default(), now: 1000, random }
        }

        fn key(&mut self) -> Vec<u8> {
            format!("key {}", self.random.below(KEYS)).into_bytes()
        }

        fn step(&mut self) {
            let (db, key, now) = (self.random.below(DBS), self.key(), self.now);
            let found = self.keyspace.get(db, &key, now).map(known);
            let map = &mut self.maps[db];
            expire(map, now);
            assert_eq!(found.as_ref(), map.get(&key), "{key:?} at {now}");
            let expire_at = now + 1 + self.random.below(6) as i64;
            match self.random.below(12) {
                0 | 1 => self.set(db, &key, expire_at),
                2 => {
                    assert_eq!(self.keyspace.remove(db, &key), map.remove(&key).is_some());
                }
                3 => {
                    let at = (self.random.below(2) == 0).then_some(expire_at);
                    let is_there = map.get_mut(&key).map(|known| known.expire_at = at).is_some();
                    assert_eq!(self.keyspace.set_expire(db, &key, at), is_there);
                }
                4 | 5 => self.append(db, &key),
                6 => self.edit(db, &key),
                7 => self.edit_fields(db, &key),
                8 => self.move_to(db, &key),
                9 => {
                    let other = self.random.below(DBS);
                    self.keyspace.swap(db, other);
                    self.maps.swap(db, other);
                }
                10 if self.random.below(8) == 0 => {
                    self.keyspace.clear(db);
                    self.maps[db].clear();
                }
                _ => self.now += self.random.below(3) as i64,
            }
            self.keyspace.tend();
        }

        fn set(&mut self, db: usize, key: &[u8], expire_at: i64) {
            let text = vec![b't'; self.random.below(40)];
            let old = self.maps[db].get(key).and_then(|known| known.expire_at);
            let (expire, expire_at) = match self.random.below(3) {
                0 => (Expire::Never, None),
                1 => (Expire::Keep, old),
                _ => (Expire::At(expire_at), Some(expire_at)),
            };
            self.keyspace.set(db, key, &text, expire).expect("memory");
            self.maps[db].insert(key.to_vec(), Known { held: Held::Text(text), expire_at });
        }

        fn append(&mut self, db: usize, key: &[u8]) {
            let more = self.random.pick(&[1, 2, 9, 3000, 3000]);
            let more = vec![b'm'; more];
            let fresh = Known { held: Held::Text(Vec::new()), expire_at: None };
            if let Some(Known { held: Held::List(_) | Held::Hash(_), .. }) = self.maps[db].get(key)
            {
                return;
            }
            let known = self.maps[db].entry(key.to_vec()).or_insert(fresh);
            let Held::Text(text) = &mut known.held else { unreachable!("it is no list") };
            text.extend(&more);
            assert_eq!(self.keyspace.append(db, key, &more).expect("memory"), text.len());
        }

        fn edit(&mut self, db: usize, key: &[u8]) {
            let fresh = Known { held: Held::List(Vec::new()), expire_at: None };
            if let Some(Known { held: Held::Text(_) | Held::Hash(_), .. }) = self.maps[db].get(key)
            {
                return assert!(self.keyspace.edit_list(db, key, |_| ()).is_err());
            }
            let known = self.maps[db].entry(key.to_vec()).or_insert(fresh);
            let Held::List(list) = &mut known.held else { unreachable!("it is a list") };
            let (grows, count) = (self.random.below(2) == 0, self.random.below(4));
            let count = if self.random.below(6) == 0 { 150 } else { count };
            let edited = self.keyspace.edit_list(db, key, |it| {
                for number in 0..count {
                    if grows {
                        it.push_back(&number.to_string().into_bytes());
                        list.push(number.to_string().into_bytes());
                    } else {
                        let popped = (!list.is_empty()).then(|| list.remove(0));
                        assert_eq!(it.pop_front(), popped);
                    }
                }
            });
            edited.expect("memory");
            if list.is_empty() {
                self.maps[db].remove(key);
            }
        }

        /// Sets or removes some fields of a hash.
        fn edit_fields(&mut self, db: usize, key: &[u8]) {
            let fresh = Known { held: Held::Hash(BTreeMap::new()), expire_at: None };
            let known = self.maps[db].entry(key.to_vec()).or_insert(fresh);
            let Held::Hash(fields) = &mut known.held else {
                return assert!(self.keyspace.edit_hash(db, key, |_| ()).is_err());
            };
            let (count, grows) = (self.random.below(4), self.random.below(3) != 0);
            let deadline = (self.random.below(2) == 0).then(|| self.now + 1 + count as i64);
            let edited = self.keyspace.edit_hash(db, key, |it| {
                for number in 0..count {
                    let field = format!("field {number}").into_bytes();
                    if grows {
                        assert_eq!(
                            it.set_until(&field, b"v", deadline),
                            !fields.contains_key(&field)
                        );
                        fields.insert(field, deadline);
                    } else {
                        assert_eq!(it.remove(&field), fields.remove(&field).is_some());
                    }
                }
            });
            edited.expect("memory");
            if fields.is_empty() {
                self.maps[db].remove(key);
            }
        }

        /// Copies or renames a key, into another database too.
        fn move_to(&mut self, db: usize, key: &[u8]) {
            let (to_db, to) = (self.random.below(DBS), self.key());
            let (now, renames) = (self.now, self.random.below(2) == 0);
            expire(&mut self.maps[to_db], now);
            self.keyspace.get(to_db, &to, now);
            let known = self.maps[db].get(key).cloned();
            let moved = match renames {
                true => self.keyspace.rename(db, key, to_db, &to),
                false => self.keyspace.copy(db, key, to_db, &to),
            };
            assert_eq!(moved.expect("memory"), known.is_some());
            if let Some(known) = known {
                if renames {
                    self.maps[db].remove(key);
                }
                self.maps[to_db].insert(to, known);
            }
        }

        /// All of it, once what has expired is gone.
        fn check(&mut self) {
            let now = self.now;
            // Each begins in the midst of a database, or of several that were swapped.
            (0..4 * DBS).for_each(|_| _ = self.keyspace.expire_cycle(now, DBS * KEYS));
            (0..4 * DBS).for_each(|_| _ = self.keyspace.expire_fields_cycle(now, 4 * KEYS));
            let (mut bytes, mut timed) = (0, 0);
            for (db, map) in self.maps.iter_mut().enumerate() {
                expire(map, now);
                let is_timed = |held: &Held| match held {
                    Held::Hash(fields) => fields.values().any(Option::is_some),
                    Held::Text(_) | Held::List(_) => false,
                };
                timed += map.values().filter(|known| is_timed(&known.held)).count();
                assert_eq!(self.keyspace.len(db), map.len(), "database {db}");
                let mortal = map.values().filter(|known| known.expire_at.is_some()).count();
                assert_eq!(self.keyspace.expires(db), mortal, "database {db}");
                let (mut scanned, mut cursor) = (Map::new(), 0);
                loop {
                    cursor = self.keyspace.scan(db, cursor, 3, now, |entry| {
                        bytes += entry.memory_bytes();
                        let before = scanned.insert(entry.key().to_vec(), known(entry));
                        assert!(before.is_none(), "a scan meets a key once");
                    });
                    if cursor == 0 {
                        break;
                    }
                }
                assert_eq!(&scanned, map, "database {db}");
            }
            assert_eq!((self.keyspace.data_bytes(), self.keyspace.timed_hashes()), (bytes, timed));
        }
    }

    fn is_as_a_map(steps: usize) {
        let mut world = World::new();
        for step in 0..steps {
            world.step();
            if step % 20 == 0 {
                world.check();
            }
        }
        world.check();
    }

    #[test]
    fn a_keyspace_is_as_a_map() {
        is_as_a_map(if cfg!(miri) { 60 } else { rounds(20_000, 1_000_000) });
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes many steps")]
    fn every_mutant_is_found() {
        for &mutant in Mutant::ALL.iter().filter(|mutant| mutant.is_chosen()) {
            let run = || catch_unwind(AssertUnwindSafe(|| is_as_a_map(20_000)));
            assert!(with_mutant(mutant, run).is_err(), "{mutant:?}");
        }
    }
}
