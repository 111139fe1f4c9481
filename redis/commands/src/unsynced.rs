//! Which keys have changed by what the log may not have on its disk yet: replies that show other
//! keys need not wait for it.
//!
//! - A key has one of a fixed number of places, by its hash, whatever its database; a place has
//!   the last record that changed one of its keys. So two keys may share one, and then a reply
//!   waits for no reason, which is harmless; the reverse cannot happen.
//! - A request that names no key, or whose keys nobody can tell, changes all.

use crate::facts;

/// Bits of a place: 512 KiB in all.
const PLACE_BITS: u32 = 16;
/// The record of a change that has none yet.
const OPEN: u64 = u64::MAX;

/// See the head of this file.
pub(crate) struct Unsynced {
    /// By place: the last record that changed a key there.
    records: Box<[u64]>,
    /// The last record that changed all keys.
    all: u64,
    /// Places that have changed since the last record.
    open: Vec<u16>,
}

impl Unsynced {
    /// Up to here, any key may have changed by any record.
    pub(crate) fn since(last: u64) -> Self {
        Self { records: vec![0; 1 << PLACE_BITS].into(), all: last, open: Vec::new() }
    }

    /// The place of a key.
    pub(crate) fn place(key: &[u8]) -> u16 {
        (xxhash_rust::xxh3::xxh3_64(key) >> (64 - PLACE_BITS)) as u16
    }

    /// Notes a request that will be in the next record.
    pub(crate) fn note(&mut self, args: &[&[u8]]) {
        let keys = keys_of(args);
        if keys.is_empty() {
            self.all = OPEN;
        }
        for key in keys {
            let place = Self::place(key);
            if std::mem::replace(&mut self.records[usize::from(place)], OPEN) != OPEN {
                self.open.push(place);
            }
        }
    }

    /// What was noted is in records up to this one.
    pub(crate) fn settle(&mut self, record: u64) {
        if self.all == OPEN {
            self.all = record;
        }
        for place in self.open.drain(..) {
            self.records[usize::from(place)] = record;
        }
    }

    /// The last record that changed a key at one of these places.
    pub(crate) fn last(&self, places: &[u16]) -> u64 {
        places.iter().map(|&place| self.records[usize::from(place)]).fold(self.all, u64::max)
    }
}

/// The keys that a request names; none if it changes others, too, or nobody knows.
fn keys_of<'a>(args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let word = |at: usize| args.get(at).and_then(|word| std::str::from_utf8(word).ok());
    let Some(name) = word(0).map(str::to_ascii_lowercase) else { return Vec::new() };
    let sub = || facts::find(&format!("{name}|{}", word(1)?.to_ascii_lowercase()));
    let found = facts::find(&name).filter(|it| it.keys != facts::Keys::default());
    found.or_else(sub).map_or_else(Vec::new, |facts| facts.keys.in_request(args))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Harness;

    fn words(line: &str) -> Vec<&[u8]> {
        line.split(' ').map(str::as_bytes).collect()
    }

    #[test]
    fn a_key_waits_for_the_last_record_that_changed_it() {
        let last =
            |unsynced: &Unsynced, key: &str| unsynced.last(&[Unsynced::place(key.as_bytes())]);
        let mut unsynced = Unsynced::since(5);
        assert_eq!(last(&unsynced, "a"), 5, "nothing is known of what came before");
        unsynced.note(&words("set a 1"));
        assert_eq!((last(&unsynced, "a"), last(&unsynced, "b")), (OPEN, 5));
        unsynced.settle(7);
        unsynced.note(&words("MSET b 1 c 2"));
        unsynced.note(&words("RENAME d e"));
        unsynced.note(&words("XGROUP CREATE f g 0"));
        unsynced.settle(9);
        let found = ["a", "b", "c", "d", "e", "f", "g", "1"].map(|key| last(&unsynced, key));
        assert_eq!(found, [7, 9, 9, 9, 9, 9, 5, 5]);
        assert_eq!(unsynced.last(&[Unsynced::place(b"a"), Unsynced::place(b"b")]), 9);
        for (record, line) in (10..).zip(["FLUSHALL", "SWAPDB 0 1", "NONSENSE a", "FUNCTION FLUSH"])
        {
            unsynced.note(&words(line));
            assert_eq!(last(&unsynced, "untouched"), OPEN, "{line}");
            unsynced.settle(record);
            assert_eq!(last(&unsynced, "untouched"), record, "{line}");
        }
    }

    /// What a request changes is named by its effects.
    #[test]
    fn effects_name_the_keys_that_have_changed() {
        for (request, changed) in [
            ("SORT list STORE to", "to"),
            ("COPY string to", "to"),
            ("MOVE string 1", "string"),
            ("BITOP NOT to string", "to"),
            ("ZUNIONSTORE to 1 sorted", "to"),
            ("GEOSEARCHSTORE to places FROMLONLAT 0 0 BYRADIUS 1 km", "to"),
            ("GEORADIUS places 0 0 1 km STORE to", "to"),
            ("LMOVE list to LEFT RIGHT", "list to"),
            ("LMPOP 2 none list LEFT", "list"),
            ("SPOP set", "set"),
            ("XREADGROUP GROUP g c STREAMS stream >", "stream"),
            ("XADD stream * f v", "stream"),
            ("GETDEL string", "string"),
            ("GETEX string EX 10", "string"),
            ("PFMERGE to none", "to"),
            ("MSETNX to 1 other 2", "to other"),
            ("HSETEX hash EX 10 FIELDS 1 f v", "hash"),
        ] {
            let mut harness = Harness::new().notes_effects();
            harness.all(&[
                "SET string a",
                "RPUSH list 1 2",
                "SADD set a b",
                "ZADD sorted 1 a",
                "GEOADD places 0 0 a",
                "HSET hash f v",
                "XADD stream 1-1 f v",
                "XGROUP CREATE stream g 0",
            ]);
            harness.effects();
            let reply = harness.run(request);
            assert!(!reply.starts_with('-'), "{request}: {reply}");
            let told = harness.effects();
            let named: Vec<String> = told
                .iter()
                .flat_map(|unit| unit.split("; "))
                .filter(|line| !["MULTI", "EXEC", "SELECT 0"].contains(line))
                .flat_map(|line| {
                    let keys = keys_of(&words(line));
                    assert!(!keys.is_empty(), "{request}: of {line} nobody knows the keys");
                    keys.into_iter().map(|key| String::from_utf8_lossy(key).into_owned())
                })
                .collect();
            for key in changed.split(' ') {
                assert!(named.iter().any(|it| it == key), "{request}: {told:?} names {named:?}");
            }
        }
    }
}
