//! Changes of a key, made to keyspace and oracle alike.

use std::collections::BTreeMap;

use stillframe::Algorithm;
use stillframe_keyspace::{Expire, StreamId, Type, parse_int};

use crate::Pair;
use crate::common::{Content, Fields, sized};

impl<A: Algorithm> Pair<A> {
    fn store(&mut self, key: (usize, Vec<u8>), text: Vec<u8>, expire: Expire) {
        let kept = self.oracle.get(&key).and_then(|(_, expire)| *expire);
        let expire = match expire {
            Expire::Never => None,
            Expire::Keep => kept,
            Expire::At(at) => Some(at),
        };
        self.oracle.insert(key, (Content::Text(text), expire));
    }

    /// The text at a key, empty if there is none; nothing if it holds a collection.
    fn look_text(&mut self, key: &(usize, Vec<u8>)) -> Option<Vec<u8>> {
        match self.look(key) {
            None => Some(Vec::new()),
            Some((Content::Text(text), _)) => Some(text),
            Some(_) => None,
        }
    }

    pub(crate) fn set(&mut self, key: (usize, Vec<u8>)) {
        let (text, expire) = (self.text(), self.expire());
        if expire == Expire::Keep || self.random.one_in(2) {
            self.look(&key); // what is kept must not be of a dead key
        }
        self.keyspace.set(key.0, &key.1, &text, expire).unwrap();
        self.store(key, text, expire);
    }

    pub(crate) fn count(&mut self, key: (usize, Vec<u8>)) {
        let Some(old) = self.look_text(&key) else { return };
        let old = if old.is_empty() { Some(0) } else { parse_int(&old) };
        let Some(new) = old.and_then(|old| old.checked_add(1)) else { return };
        self.keyspace.set_int(key.0, &key.1, new, Expire::Keep).unwrap();
        self.store(key, new.to_string().into_bytes(), Expire::Keep);
    }

    pub(crate) fn append(&mut self, key: (usize, Vec<u8>)) {
        let (more, old) = (self.text(), self.look_text(&key));
        let Some(old) = old else { return };
        let text = [old, more.clone()].concat();
        assert_eq!(self.keyspace.append(key.0, &key.1, &more).unwrap(), text.len());
        self.store(key, text, Expire::Keep);
    }

    pub(crate) fn set_range(&mut self, key: (usize, Vec<u8>)) {
        let (patch, offset) = (self.text(), self.random.below(300));
        let Some(mut text) = self.look_text(&key) else { return };
        let exists = self.oracle.contains_key(&key);
        if !patch.is_empty() {
            text.resize(text.len().max(offset + patch.len()), 0);
            text[offset..offset + patch.len()].copy_from_slice(&patch);
        }
        let len = self.keyspace.set_range(key.0, &key.1, offset, &patch).unwrap();
        assert_eq!(len, text.len());
        if exists || !patch.is_empty() {
            self.store(key, text, Expire::Keep);
        }
    }

    pub(crate) fn set_expire(&mut self, key: &(usize, Vec<u8>)) {
        let was_there = self.look(key).is_some();
        let at = (!self.random.one_in(3)).then(|| self.now + self.random.below(50) as i64);
        assert_eq!(self.keyspace.set_expire(key.0, &key.1, at), was_there);
        if let Some((_, expire)) = self.oracle.get_mut(key) {
            *expire = at;
        }
    }

    /// Some elements into or out of a collection, whose type the key names.
    pub(crate) fn edit(&mut self, mut key: (usize, Vec<u8>)) {
        let number = self.random.below(12);
        use Type::{Array, Hash, List, Set, Sorted, Stream};
        let kind = [List, Hash, Set, Sorted, Stream, Array][number % 6];
        key.1 = format!("collection:{number}").into_bytes();
        self.look(&key);
        let mut old = self.oracle.remove(&key);
        if old.as_ref().is_some_and(|(content, _)| Content::empty(kind) != content.emptied()) {
            old = None; // RENAME has brought another type here
            self.keyspace.remove(key.0, &key.1);
        }
        let (mut content, expire) = old.unwrap_or((Content::empty(kind), None));
        // Large ones shrink, small ones grow, mostly.
        let grow = self.random.below(1000) > content.len();
        let edits = self.random.below(sized(80, 8));
        for _ in 0..edits {
            let add = grow == (self.random.below(5) != 0);
            self.edit_one(&key, &mut content, add);
        }
        if content.len() != 0 {
            self.oracle.insert(key.clone(), (content, expire));
        }
        self.look(&key);
    }

    /// Sets a field of a hash, or its deadline.
    fn set_field(
        &mut self,
        db: usize,
        key: &[u8],
        hash: &mut Fields,
        member: &[u8],
        text: Vec<u8>,
    ) {
        let until = self.now + 1 + self.random.below(2000) as i64;
        let old = hash.get(member).cloned();
        let (deadline, way) = match self.random.below(5) {
            0 | 1 => (None, 0),
            2 => (Some(until), 1),
            3 => (old.as_ref().and_then(|(_, deadline)| *deadline), 2),
            _ => (Some(until).filter(|at| at % 2 == 0), 3),
        };
        let is_new = old.is_none();
        let was_new = self.keyspace.edit_hash(db, key, |edit| match way {
            0 => edit.set(member, &text),
            1 => edit.set_until(member, &text, deadline),
            2 => edit.set_keeping(member, &text, i64::MIN),
            _ => !edit.set_deadline(member, deadline),
        });
        assert_eq!(was_new.unwrap(), is_new);
        match old {
            Some((value, _)) if way == 3 => hash.insert(member.to_vec(), (value, deadline)),
            None if way == 3 => None,
            _ => hash.insert(member.to_vec(), (text, deadline)),
        };
    }

    fn edit_one(&mut self, key: &(usize, Vec<u8>), content: &mut Content, add: bool) {
        let (text, number) = (self.text(), self.random.below(2000));
        let member = format!("member:{number}").into_bytes();
        let at = number % (content.len() + 1);
        let (db, key, score) = (key.0, &key.1[..], (number % 50) as f64 - 7.0);
        match (content, add) {
            (Content::Text(_), _) => {}
            (Content::List(list), true) => {
                list.insert(at, text.clone());
                assert!(self.keyspace.edit_list(db, key, |edit| edit.insert(at, &text)).unwrap());
            }
            (Content::List(list), false) => {
                let count = (list.len() - at).min(number % 4);
                list.drain(at..at + count);
                self.keyspace.edit_list(db, key, |edit| edit.remove_range(at, count)).unwrap();
            }
            (Content::Hash(hash), true) => self.set_field(db, key, hash, &member, text),
            (Content::Hash(hash), false) => {
                let there = hash.range(member..).next().map(|(field, _)| field.clone());
                let Some(field) = there else { return };
                hash.remove(&field);
                assert!(self.keyspace.edit_hash(db, key, |edit| edit.remove(&field)).unwrap());
            }
            (Content::Set(set), true) => {
                let is_new = set.insert(member.clone());
                let was_new = self.keyspace.edit_set(db, key, |edit| edit.insert(&member));
                assert_eq!(was_new.unwrap(), is_new);
            }
            (Content::Set(set), false) => {
                let was_there = set.remove(&member);
                let gone = self.keyspace.edit_set(db, key, |edit| edit.remove(&member)).unwrap();
                assert_eq!(gone, was_there);
            }
            (Content::Sorted(set), true) => {
                let old = set.insert(member.clone(), score.to_bits()).map(f64::from_bits);
                let was = self.keyspace.edit_sorted(db, key, |edit| edit.set(&member, score));
                assert_eq!(was.unwrap(), old);
            }
            (Content::Sorted(set), false) => {
                let old = set.remove(&member).map(f64::from_bits);
                let was = self.keyspace.edit_sorted(db, key, |edit| edit.remove(&member)).unwrap();
                assert_eq!(was, old);
            }
            (Content::Array(array), _) => self.edit_array(db, key, array, number as u64, text, add),
            (Content::Stream(stream), true) => {
                let id = StreamId { ms: number as u64 / 4, seq: number as u64 % 4 };
                let fields = [(&b"field"[..], &text[..])];
                let was_new =
                    self.keyspace.edit_stream(db, key, |it| it.add(id, fields.into_iter()));
                let is_new = !stream.contains_key(&id.to_bytes()[..]);
                assert_eq!(was_new.unwrap(), is_new);
                stream.entry(id.to_bytes().to_vec()).or_insert(text);
            }
            (Content::Stream(stream), false) => {
                let id = StreamId { ms: number as u64 / 4, seq: 0 };
                let there = stream.range(id.to_bytes().to_vec()..).next().map(|(id, _)| id.clone());
                // An emptied stream would stay.
                let Some(id) = there.filter(|_| stream.len() > 1) else { return };
                stream.remove(&id);
                let id = StreamId::from_bytes(id.try_into().unwrap());
                assert!(self.keyspace.edit_stream(db, key, |edit| edit.delete(id)).unwrap());
            }
        }
    }

    fn edit_array(
        &mut self,
        db: usize,
        key: &[u8],
        array: &mut BTreeMap<Vec<u8>, Vec<u8>>,
        number: u64,
        text: Vec<u8>,
        add: bool,
    ) {
        if add {
            // Far apart, or side by side.
            let index = if number.is_multiple_of(5) { !number - 1 } else { number };
            let was_new = self.keyspace.edit_array(db, key, |edit| {
                let is_new = edit.set(index, &text);
                edit.set_inserted(Some(index));
                is_new
            });
            let old = array.insert(index.to_be_bytes().to_vec(), text);
            assert_eq!(was_new.unwrap(), old.is_none());
        } else {
            let count = self.keyspace.edit_array(db, key, |edit| edit.remove(number, number + 3));
            let (before, range) = (array.len(), number.to_be_bytes()..=(number + 3).to_be_bytes());
            array.retain(|index, _| !range.contains(&index[..].try_into().unwrap()));
            assert_eq!(count.unwrap(), before - array.len());
        }
    }

    pub(crate) fn swap(&mut self, a: usize) {
        let b = self.key().0;
        self.keyspace.swap(a, b);
        let other = |db| {
            if db == a {
                b
            } else if db == b {
                a
            } else {
                db
            }
        };
        let oracle = std::mem::take(&mut self.oracle).into_iter();
        self.oracle = oracle.map(|((db, key), content)| ((other(db), key), content)).collect();
    }

    /// RENAME or COPY.
    pub(crate) fn transfer(&mut self, mut from: (usize, Vec<u8>)) {
        let mut to = self.key();
        if self.random.one_in(2) {
            from.1 = format!("collection:{}", self.random.below(12)).into_bytes();
            to.1 = format!("collection:{}", self.random.below(12)).into_bytes();
        }
        let content = self.look(&from);
        let rename = self.random.one_in(2);
        let done = if rename {
            self.keyspace.rename(from.0, &from.1, to.0, &to.1).unwrap()
        } else {
            self.keyspace.copy(from.0, &from.1, to.0, &to.1).unwrap()
        };
        assert_eq!(done, content.is_some());
        if let Some(content) = content {
            if rename {
                self.oracle.remove(&from);
            }
            self.oracle.insert(to, content);
        }
    }
}
