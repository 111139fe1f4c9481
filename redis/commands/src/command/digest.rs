//! DEBUG DIGEST and DIGEST-VALUE: one number for all that the server holds, or for one value.
//!
//! Redis gives the same number for the same data, so that one can compare two servers of either
//! kind. It is the exclusive or, over all keys, of a SHA-1 of key, type, value and whether the key
//! has a deadline; orders that mean nothing (of keys, members, fields) do not count.

use sha1::{Digest, Sha1};
use stillframe_keyspace::{DATABASES, Entry, HashField, IntText, Keyspace, StreamEntry, Value};
use stillframe_resp::format_double;

use crate::context::Context;

/// The number of all that the server holds.
pub fn of_all(keyspace: &mut Keyspace) -> String {
    let mut all = Sum::default();
    for db in (0..DATABASES).filter(|&db| keyspace.len(db) > 0).collect::<Vec<_>>() {
        all.mix(&(db as u32).to_be_bytes());
        // Expired keys count until a lookup or the clock deletes them, as in Redis.
        keyspace.for_each(db, i64::MIN, |entry| {
            let mut digest = Sum::default();
            digest.mix(entry.key());
            digest.mix_value(entry);
            all.add(&digest.0);
        });
    }
    all.to_text()
}

/// The number of one value.
pub fn of_value(entry: &Entry) -> String {
    let mut digest = Sum::default();
    digest.mix_value(entry);
    digest.to_text()
}

/// Answers the numbers of the values of keys.
pub fn of_keys(ctx: &mut Context<'_>, keys: &[&[u8]]) {
    ctx.out.array(keys.len());
    for key in keys {
        let entry = ctx.keyspace.peek(ctx.caller.db, key, ctx.now);
        let digest = entry.map_or_else(|| Sum::default().to_text(), of_value);
        ctx.out.simple(&digest);
    }
}

/// A digest of several things.
#[derive(Default)]
struct Sum([u8; 20]);

impl Sum {
    /// Adds something whose place does not matter.
    fn add(&mut self, bytes: &[u8]) {
        let hash = Sha1::digest(bytes);
        self.0.iter_mut().zip(hash).for_each(|(sum, byte)| *sum ^= byte);
    }

    /// Adds something whose place matters.
    fn mix(&mut self, bytes: &[u8]) {
        self.add(bytes);
        self.0 = Sha1::digest(self.0).into();
    }

    fn mix_value(&mut self, entry: &Entry) {
        /// Redis's numbers of types.
        const STRING: u32 = 0;
        const LIST: u32 = 1;
        const SET: u32 = 2;
        const SORTED: u32 = 3;
        const HASH: u32 = 4;
        const STREAM: u32 = 6;
        const ARRAY: u32 = 7;
        let mut of_type = |number: u32| self.mix(&number.to_be_bytes());
        match entry.value() {
            Value::List(list) => {
                of_type(LIST);
                list.iter_from(0).for_each(|element| self.mix(element));
            }
            Value::Set(set) => {
                of_type(SET);
                set.iter().for_each(|member| self.add(member));
            }
            Value::Sorted(sorted) => {
                of_type(SORTED);
                let mut text = Vec::new();
                for (member, score) in sorted.iter_from(0) {
                    text.clear();
                    format_double(score, &mut text);
                    self.add_pair(member, &text, false);
                }
            }
            Value::Hash(hash) => {
                of_type(HASH);
                for HashField { field, value, deadline } in hash.fields() {
                    self.add_pair(field, value, deadline.is_some());
                }
            }
            Value::Stream(stream) => {
                of_type(STREAM);
                for StreamEntry { id, fields } in stream.iter_from(0) {
                    self.mix(format!("{}.{}", id.ms, id.seq).as_bytes());
                    for text in fields.flat_map(|(name, value)| [name, value]) {
                        self.mix(text.to_bytes(&mut IntText::default()));
                    }
                }
            }
            Value::Array(array) => {
                of_type(ARRAY);
                let mut next = 0;
                for (index, value) in array.iter_from(0) {
                    self.mix_gap(index - next);
                    self.mix(value);
                    next = index.saturating_add(1);
                }
            }
            string => {
                of_type(STRING);
                self.mix(string.to_bytes(&mut IntText::default()));
            }
        }
        if entry.expire_at().is_some() {
            self.add(b"!!expire!!");
        }
    }

    /// Adds indices of an array that have no element: as Redis does, one by one, unless there are
    /// so many that it would take seconds.
    fn mix_gap(&mut self, indices: u64) {
        const INDICES_MAX: u64 = 10_000;
        if indices > INDICES_MAX {
            self.mix(&indices.to_be_bytes());
        } else {
            (0..indices).for_each(|_| self.mix(b"(null)"));
        }
    }

    fn add_pair(&mut self, one: &[u8], two: &[u8], expires: bool) {
        let mut pair = Sum::default();
        pair.mix(one);
        pair.mix(two);
        if expires {
            pair.add(b"!!hexpire!!");
        }
        self.add(&pair.0);
    }

    fn to_text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    /// Expectations were recorded from redis-server 8.0.6.
    #[test]
    fn fields_that_expire_count_otherwise() {
        let mut harness = Harness::new();
        harness.all(&["HSET h a 3 b 2 c 3", "HPEXPIREAT h 4102444800001 FIELDS 1 a"]);
        let digest =
            |harness: &mut Harness| harness.contents()[0].3.split(' ').next().map(str::to_owned);
        let timed = "65fb019065077947c15f222d49d88c9e4f6a7eb3";
        assert_eq!(digest(&mut harness).as_deref(), Some(timed));
        harness.all(&["HPERSIST h FIELDS 1 a"]);
        assert_ne!(digest(&mut harness).as_deref(), Some(timed));
    }
}
