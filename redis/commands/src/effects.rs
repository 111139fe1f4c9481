//! What requests did, as requests that do the same again: for the log, and for replicas.
//!
//! - A *unit* is what one request did, or one transaction: it is kept, sent and replayed whole.
//!   Several requests of one unit stand between MULTI and EXEC.
//! - Nothing in a unit depends on the clock or on chance. Times are absolute, and a key whose time
//!   has come is deleted by a DEL of its own, before what was then done to it: the clock
//!   of a replay stands still.
//! - Units follow each other as on one connection: SELECT stands where the database changes.
//! - A script may choose who gets its effects (`redis.set_repl`): log, replicas, both or nobody.
//! - Without consumers no effects are kept, which costs a command one branch.

use stillframe_keyspace::Keyspace;

use crate::plain::{tells_of_messages, tells_of_released};
use crate::request::write_request;
use crate::unsynced::Unsynced;

/// The request by which log and replicas learn of a field's time to live.
pub(crate) const HPEXPIREAT: &[u8] = b"HPEXPIREAT";

/// The consumers of effects.
#[derive(Debug, Clone, Copy)]
pub enum Consumer {
    /// The log of this server.
    Log = 1,
    /// The replicas of this server.
    Replicas = 2,
}

/// Who gets the effects of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audience {
    /// The log of this server.
    pub log: bool,
    /// The replicas of this server.
    pub replicas: bool,
}

impl Audience {
    /// Log and replicas.
    pub const ALL: Self = Self { log: true, replicas: true };
}

/// What requests need that no server before Redis 7.4 knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Fields of hashes that expire: Redis 7.4 and Valkey 9 know them.
    pub fields: bool,
    /// Messages of producers: Redis 8.6 knows them; others get a [plain form](crate::plain_form).
    pub messages: bool,
    /// Releases of entries as this server says them, and claims of what cannot be processed: Redis
    /// 8.8 knows them; others get a plain form.
    pub releases: bool,
    /// Other releases, as a primary that is Redis sends them: there is no plain form.
    pub other_releases: bool,
    /// Arrays: Redis 8.8 knows them.
    pub arrays: bool,
}

impl Needs {
    /// Notes what a request needs.
    pub fn note(&mut self, args: &[&[u8]]) {
        let Some(name) = args.first() else { return };
        self.fields |= *name == HPEXPIREAT;
        self.arrays |= name.len() > 2 && name[..2].eq_ignore_ascii_case(b"AR");
        if let [b'x' | b'X', ..] = name {
            self.messages |= tells_of_messages(args);
            let released = tells_of_released(args);
            self.releases |= released;
            self.other_releases |= !released && name.eq_ignore_ascii_case(b"XNACK");
        }
    }

    /// Adds what other requests need.
    pub fn add(&mut self, other: Self) {
        let Self { fields, messages, releases, other_releases, arrays } = other;
        self.fields |= fields;
        self.messages |= messages;
        self.releases |= releases;
        self.other_releases |= other_releases;
        self.arrays |= arrays;
    }
}

/// The effects since they were last taken, at the end of each turn.
#[derive(Default)]
pub struct Effects {
    /// The consumers that take effects, or-ed.
    consumers: u8,
    /// What the log gets.
    log: Stream,
    /// What replicas get, from the first effect on that only one of the two gets.
    replicas: Option<Box<Stream>>,
    /// Who gets the effects of the requests that run.
    audience: Option<Audience>,
    /// What the requests for replicas need.
    needs: Needs,
    /// The process ends, and what it does until then is no effect.
    abandoned: bool,
    /// The handler that runs has stated its effects itself, or that it has none.
    stated: bool,
    /// The keys that have changed, where replies wait for the log.
    unsynced: Option<Unsynced>,
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

    /// From now on the effects of requests go to this audience: a script chooses it, and everybody
    /// gets them again at its end.
    pub fn set_audience(&mut self, audience: Audience) {
        self.audience = Some(audience).filter(|&audience| audience != Audience::ALL);
    }

    /// Makes the next effect start with SELECT: a new consumer is about to read.
    pub fn select_anew(&mut self) {
        self.streams().for_each(|stream| stream.set_db(None));
    }

    /// The stream has selected a database otherwise: the next effect need not.
    pub fn select(&mut self, db: usize) {
        self.streams().for_each(|stream| stream.set_db(Some(db)));
    }

    /// Adds a request to the open unit.
    pub fn add(&mut self, db: usize, args: &[&[u8]]) {
        match self.audience {
            None => self.add_for_all(db, args),
            Some(audience) => self.add_for(audience, db, args),
        }
    }

    /// As [`add`](Self::add), whatever audience a script has chosen for its requests: a key has
    /// gone by itself.
    pub(crate) fn add_for_all(&mut self, db: usize, args: &[&[u8]]) {
        if !self.abandoned {
            self.needs.note(args);
            self.note_changed(args);
            self.streams().for_each(|stream| stream.add(db, args));
        }
    }

    #[cold]
    fn add_for(&mut self, audience: Audience, db: usize, args: &[&[u8]]) {
        if self.abandoned {
            return;
        }
        if audience.log != audience.replicas && self.replicas.is_none() {
            self.replicas = Some(Box::new(self.log.clone()));
        }
        if audience.log {
            self.note_changed(args);
            self.log.add(db, args);
        }
        if let Some(stream) = self.replicas.as_mut().filter(|_| audience.replicas) {
            self.needs.note(args);
            stream.add(db, args);
        }
    }

    #[inline]
    fn note_changed(&mut self, args: &[&[u8]]) {
        if let Some(unsynced) = &mut self.unsynced {
            unsynced.note(args);
        }
    }

    /// What the log got is in its records up to this one. From now on, if replies `wait` for these,
    /// the keys that change are remembered.
    pub fn settle(&mut self, record: u64, wait: bool) {
        match &mut self.unsynced {
            Some(unsynced) if wait => unsynced.settle(record),
            unsynced => *unsynced = wait.then(|| Unsynced::since(record)),
        }
    }

    /// Whether it is known which records have changed a key.
    #[inline]
    pub fn know_changes(&self) -> bool {
        self.unsynced.is_some()
    }

    /// The place of a key for [`last_change`](Self::last_change).
    pub fn place(key: &[u8]) -> u16 {
        Unsynced::place(key)
    }

    /// The last record of the log that changed a key at one of these places, as far as is known.
    pub fn last_change(&self, places: &[u16]) -> u64 {
        self.unsynced.as_ref().map_or(0, |unsynced| unsynced.last(places))
    }

    /// What the requests need since [`take_needs`](Self::take_needs).
    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// What the requests since the last call need that older servers cannot run.
    pub fn take_needs(&mut self) -> Needs {
        std::mem::take(&mut self.needs)
    }

    /// Ends the open unit, if anything is in it.
    pub fn seal(&mut self) {
        self.streams().for_each(Stream::seal);
    }

    /// Drops the open unit, and takes no more effects: the process ends in the middle of that unit.
    pub fn abandon(&mut self) {
        self.streams().for_each(Stream::abandon);
        self.abandoned = true;
    }

    /// Whether [`abandon`](Self::abandon) was called.
    #[inline]
    pub fn are_abandoned(&self) -> bool {
        self.abandoned
    }

    /// The database that is selected after the whole units for replicas, if they select one.
    pub fn selected(&self) -> Option<usize> {
        self.for_replicas().open.db
    }

    /// Whether there is no whole unit.
    pub fn is_empty(&self) -> bool {
        self.log.units.is_empty() && self.for_replicas().units.is_empty()
    }

    /// Each whole unit for the log: the database that is selected before it, and its requests.
    pub fn units(&self) -> impl ExactSizeIterator<Item = (usize, &[u8])> + Clone {
        let mut start = 0;
        self.log.units.iter().map(move |unit| {
            let bytes = &self.log.bytes[start..unit.end];
            start = unit.end;
            (unit.db, bytes)
        })
    }

    /// All whole units for replicas, as they stand on one connection.
    pub fn stream(&self) -> &[u8] {
        let stream = self.for_replicas();
        &stream.bytes[..stream.open.start]
    }

    /// Bytes of all requests for replicas, those of the open unit included.
    pub fn stream_bytes(&self) -> usize {
        self.for_replicas().bytes.len()
    }

    /// Bytes of the open unit for the log.
    pub fn open_bytes(&self) -> usize {
        self.log.bytes.len() - self.log.open.start
    }

    /// Forgets the whole units: every consumer has taken them.
    pub fn clear(&mut self) {
        self.streams().for_each(Stream::clear);
        let replicas = self.replicas.take_if(|it| it.bytes.is_empty() && self.log.bytes.is_empty());
        if let Some(stream) = replicas {
            self.log.set_db(stream.db); // each unit of the log says its own
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

    #[inline]
    fn streams(&mut self) -> impl Iterator<Item = &mut Stream> {
        std::iter::once(&mut self.log).chain(self.replicas.as_deref_mut())
    }

    #[inline]
    fn for_replicas(&self) -> &Stream {
        self.replicas.as_deref().unwrap_or(&self.log)
    }
}

/// Effects in the order in which a consumer gets them.
#[derive(Clone, Default)]
struct Stream {
    /// Requests as clients send them.
    bytes: Vec<u8>,
    /// The whole units in `bytes`.
    units: Vec<Unit>,
    /// The database that is selected at the end of `bytes`; `None`: the next effect must select.
    db: Option<usize>,
    open: Open,
}

/// What one request or transaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unit {
    /// The database that is selected where it begins.
    db: usize,
    /// Where it ends in the bytes of all.
    end: usize,
}

/// The unit that is being made.
#[derive(Clone, Copy, Default)]
struct Open {
    start: usize,
    /// Behind the SELECT that it begins with, if it does: Redis says MULTI there.
    body: usize,
    db: Option<usize>,
    requests: usize,
}

impl Stream {
    fn set_db(&mut self, db: Option<usize>) {
        self.db = db;
        if self.open.requests == 0 {
            self.open.db = db;
        }
    }

    fn add(&mut self, db: usize, args: &[&[u8]]) {
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

    fn seal(&mut self) {
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

    fn abandon(&mut self) {
        self.bytes.truncate(self.open.start);
        (self.db, self.open.requests) = (self.open.db, 0);
    }

    fn clear(&mut self) {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let words = text.lines().filter(|line| !line.starts_with(['*', '$']));
        words.collect::<Vec<_>>().join(" ")
    }

    fn shown(effects: &Effects) -> Vec<(usize, String)> {
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

    #[test]
    fn an_audience_gets_its_effects_and_both_go_on_together() {
        const LOG: Audience = Audience { log: true, replicas: false };
        const REPLICAS: Audience = Audience { log: false, replicas: true };
        const NOBODY: Audience = Audience { log: false, replicas: false };
        let mut effects = Effects::default();
        effects.add(0, &[b"SET", b"all", b"1"]);
        for (audience, name) in [(LOG, b"log"), (REPLICAS, b"rep"), (NOBODY, b"non")] {
            effects.set_audience(audience);
            effects.add(1, &[b"SET", name, b"1"]);
        }
        effects.add_for_all(1, &[b"DEL", b"expired"]);
        effects.set_audience(Audience::ALL);
        effects.seal();
        let logged = "SELECT 0 MULTI SET all 1 SELECT 1 SET log 1 DEL expired EXEC";
        assert_eq!(shown(&effects), [(0, logged.to_owned())]);
        let sent = "SELECT 0 MULTI SET all 1 SELECT 1 SET rep 1 DEL expired EXEC";
        assert_eq!(words(effects.stream()), sent);
        assert_eq!(effects.stream().len(), effects.stream_bytes());
        effects.clear();

        // The next unit of the log begins in the database that only replicas have selected.
        effects.set_audience(REPLICAS);
        effects.add(5, &[b"SET", b"rep", b"2"]);
        effects.seal();
        effects.set_audience(Audience::ALL);
        assert!(!effects.is_empty() && effects.units().len() == 0);
        assert_eq!(words(effects.stream()), "SELECT 5 SET rep 2");
        effects.clear();
        assert!(effects.is_empty() && effects.replicas.is_none());
        effects.add(1, &[b"SET", b"all", b"2"]);
        effects.seal();
        assert_eq!(shown(&effects), [(5, "SELECT 1 SET all 2".to_owned())]);
        assert_eq!(words(effects.stream()), "SELECT 1 SET all 2");
    }
}
