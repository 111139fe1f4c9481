//! What requests did, as requests that do the same again: for the log, and for replicas.
//!
//! - A *unit* is what one request did, or one transaction: it is kept, sent and replayed whole.
//!   Several requests of one unit stand between MULTI and EXEC.
//! - Nothing in a unit depends on the clock or on chance. Times are absolute, and a key whose time
//!   has come is deleted by a DEL of its own, before what was then done to it: the clock
//!   of a replay stands still.
//! - Units follow each other as on one connection: SELECT stands where the database changes.
//! - Without consumers no effects are kept, which costs a command one branch.

use stillframe_keyspace::Keyspace;
use stillframe_resp::{Out, Protocol};

/// The consumers of effects.
#[derive(Debug, Clone, Copy)]
pub enum Consumer {
    /// The log of this server.
    Log = 1,
    /// The replicas of this server.
    Replicas = 2,
}

/// The effects since they were last taken, at the end of each turn.
#[derive(Default)]
pub struct Effects {
    /// The consumers that take effects, or-ed.
    consumers: u8,
    /// Requests as clients send them.
    bytes: Vec<u8>,
    /// The whole units in `bytes`.
    units: Vec<Unit>,
    /// The database that is selected at the end of `bytes`; `None`: the next effect must select.
    db: Option<usize>,
    open: Open,
    /// The process ends, and what it does until then is no effect.
    abandoned: bool,
    /// The handler that runs has stated its effects itself, or that it has none.
    stated: bool,
}

/// What one request or transaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unit {
    /// The database that is selected where it begins.
    db: usize,
    /// Where it ends in the bytes of all.
    end: usize,
}

/// The unit that is being made.
#[derive(Default)]
struct Open {
    start: usize,
    /// Behind the SELECT that it begins with, if it does: Redis says MULTI there.
    body: usize,
    db: Option<usize>,
    requests: usize,
}

impl Effects {
    /// Whether any consumer takes effects.
    #[inline]
    pub fn wanted(&self) -> bool {
        self.consumers != 0
    }

    /// From now on `consumer` takes effects, or takes them no more.
    pub fn want(&mut self, keyspace: &mut Keyspace, consumer: Consumer, wanted: bool) {
        let bit = consumer as u8;
        self.consumers = if wanted { self.consumers | bit } else { self.consumers & !bit };
        self.stated = false;
        if self.wanted() {
            keyspace.keep_expired(true);
        }
    }

    /// Makes the next effect start with SELECT: a new consumer is about to read.
    pub fn select_anew(&mut self) {
        self.db = None;
        if self.open.requests == 0 {
            self.open.db = None;
        }
    }

    /// The stream has selected a database otherwise: the next effect need not.
    pub fn select(&mut self, db: usize) {
        self.db = Some(db);
        if self.open.requests == 0 {
            self.open.db = Some(db);
        }
    }

    /// Adds a request to the open unit.
    pub fn add(&mut self, db: usize, args: &[&[u8]]) {
        if self.abandoned {
            return;
        }
        if self.db != Some(db) {
            self.db = Some(db);
            write_request(&mut self.bytes, &[b"SELECT", db.to_string().as_bytes()]);
            if self.open.requests == 0 {
                self.open.body = self.bytes.len();
            }
        }
        write_request(&mut self.bytes, args);
        self.open.requests += 1;
    }

    /// Ends the open unit, if anything is in it.
    pub fn seal(&mut self) {
        if self.open.requests == 0 {
            return;
        }
        if self.open.requests > 1 {
            let mut multi = Vec::new();
            write_request(&mut multi, &[b"MULTI"]);
            let body = self.open.body;
            self.bytes.splice(body..body, multi);
            write_request(&mut self.bytes, &[b"EXEC"]);
        }
        let end = self.bytes.len();
        self.units.push(Unit { db: self.open.db.unwrap_or(0), end });
        self.open = Open { start: end, body: end, db: self.db, requests: 0 };
    }

    /// Drops the open unit, and takes no more effects: the process ends in the middle of that unit.
    pub fn abandon(&mut self) {
        self.bytes.truncate(self.open.start);
        (self.db, self.open.requests, self.abandoned) = (self.open.db, 0, true);
    }

    /// Whether [`abandon`](Self::abandon) was called.
    #[inline]
    pub fn are_abandoned(&self) -> bool {
        self.abandoned
    }

    /// The database that is selected after the whole units, if they select one.
    pub fn selected(&self) -> Option<usize> {
        self.open.db
    }

    /// Whether there is no whole unit.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Each whole unit: the database that is selected before it, and its requests.
    pub fn units(&self) -> impl ExactSizeIterator<Item = (usize, &[u8])> + Clone {
        let mut start = 0;
        self.units.iter().map(move |unit| {
            let bytes = &self.bytes[start..unit.end];
            start = unit.end;
            (unit.db, bytes)
        })
    }

    /// All whole units, as they stand on one connection.
    pub fn stream(&self) -> &[u8] {
        &self.bytes[..self.open.start]
    }

    /// Bytes of all requests, those of the open unit included.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets the whole units: every consumer has taken them.
    pub fn clear(&mut self) {
        /// A buffer above this is given back to the allocator, in bytes.
        const BUFFER_KEPT_BYTES_MAX: usize = 1 << 20;
        self.units.clear();
        self.bytes.drain(..self.open.start);
        self.open.body -= self.open.start;
        self.open.start = 0;
        if self.bytes.capacity() > BUFFER_KEPT_BYTES_MAX {
            self.bytes.shrink_to(BUFFER_KEPT_BYTES_MAX);
        }
    }

    /// The handler that runs states its effects itself, or that it has none.
    pub fn set_stated(&mut self) {
        self.stated = true;
    }

    /// Whether the handler that has just run stated its effects; true once.
    pub fn take_stated(&mut self) -> bool {
        std::mem::take(&mut self.stated)
    }
}

/// Writes a request as clients send it.
pub fn write_request(bytes: &mut Vec<u8>, args: &[&[u8]]) {
    let mut out = Out::new(bytes, Protocol::Resp2);
    out.array(args.len());
    for arg in args {
        out.bulk(arg);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(effects: &Effects) -> Vec<(usize, String)> {
        let words = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let words = text.lines().filter(|line| !line.starts_with(['*', '$']));
            words.collect::<Vec<_>>().join(" ")
        };
        effects.units().map(|(db, bytes)| (db, words(bytes))).collect()
    }

    #[test]
    fn units_are_whole_and_say_their_database() {
        let mut effects = Effects::default();
        effects.add(0, &[b"SET", b"a", b"1"]);
        effects.seal();
        effects.seal();
        effects.add(3, &[b"DEL", b"a"]);
        effects.add(3, &[b"DEL", b"b"]);
        effects.add(0, &[b"DEL", b"c"]);
        effects.seal();
        effects.add(0, &[b"DEL", b"open"]);
        let unit = |db, text: &str| (db, text.to_owned());
        let expected = [
            unit(0, "SELECT 0 SET a 1"),
            unit(0, "SELECT 3 MULTI DEL a DEL b SELECT 0 DEL c EXEC"),
        ];
        assert_eq!(shown(&effects), expected);
        effects.clear();
        assert!(effects.is_empty());
        effects.seal();
        effects.add(2, &[b"DEL", b"d"]);
        effects.seal();
        assert_eq!(shown(&effects), [unit(0, "DEL open"), unit(0, "SELECT 2 DEL d")]);
        effects.clear();
        effects.add(2, &[b"DEL", b"e"]);
        effects.seal();
        assert_eq!(shown(&effects), [unit(2, "DEL e")]);
    }
}
