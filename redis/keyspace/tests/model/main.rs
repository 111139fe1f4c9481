//! Against a plain map: every answer, and every image, is what the map says.

#![allow(clippy::unwrap_used, reason = "a test")]

mod changes;
#[path = "../common/mod.rs"]
mod common;

use std::sync::mpsc::Receiver;

use common::{Content, Contents, Manner, Random, begin, can_image, create, sized};
use stillframe::{Algorithm, CaptureError};
use stillframe_keyspace::{Expire, Keyspace};

const DBS: usize = 3;

/// A keyspace beside its oracle.
struct Pair<A: Algorithm> {
    keyspace: Keyspace<A>,
    oracle: Contents,
    now: i64,
    random: Random,
    image: Option<Expected>,
    views: Vec<Viewed>,
    views_opened: u64,
    images_whole: usize,
    images_failed: usize,
}

struct Expected {
    contents: Contents,
    begun_at: i64,
    manner: Manner,
    arrived: Receiver<Result<Contents, CaptureError>>,
}

/// A view, what it must show, and what a walk over it has shown so far.
struct Viewed {
    id: u64,
    now: i64,
    contents: Contents,
    walked: Contents,
    db: usize,
    cursor: u64,
}

fn alive(contents: &Contents, now: i64) -> Contents {
    let is_alive = |expire: Option<i64>| expire.is_none_or(|at| at > now);
    let entries = contents.iter().filter(|(_, (_, expire))| is_alive(*expire));
    entries
        .filter_map(|(key, (content, expire))| {
            Some((key.clone(), (content.clone().without_due(now)?, *expire)))
        })
        .collect()
}

impl<A: Algorithm> Pair<A> {
    fn new(random: Random) -> Self {
        Self {
            keyspace: create(),
            oracle: Contents::new(),
            now: 1000,
            random,
            image: None,
            views: Vec::new(),
            views_opened: 0,
            images_whole: 0,
            images_failed: 0,
        }
    }

    fn key(&mut self) -> (usize, Vec<u8>) {
        let number = self.random.below(sized(150, 12));
        let key =
            if number.is_multiple_of(7) { format!("{number:0>60}") } else { format!("k{number}") };
        (self.random.below(DBS), key.into_bytes())
    }

    fn text(&mut self) -> Vec<u8> {
        let len = match self.random.below(40) {
            0..5 => return (self.random.next() as i64 >> 40).to_string().into_bytes(),
            5..30 => self.random.below(30),
            30..38 => self.random.below(300),
            38 => 3000 + self.random.below(2000), // either side of the inline limit
            _ => 6000 + self.random.below(6000),
        };
        let byte = self.random.next() as u8;
        vec![byte; if cfg!(miri) { len / 8 } else { len }]
    }

    fn expire(&mut self) -> Expire {
        match self.random.below(5) {
            0 => Expire::At(self.now + self.random.below(60) as i64 - 5),
            1 => Expire::Keep,
            _ => Expire::Never,
        }
    }

    /// What the oracle holds alive, and that the keyspace agrees.
    fn look(&mut self, key: &(usize, Vec<u8>)) -> Option<(Content, Option<i64>)> {
        if self.oracle.get(key).is_some_and(|(_, expire)| expire.is_some_and(|at| at <= self.now)) {
            self.oracle.remove(key);
        }
        if let Some((content, expire)) = self.oracle.remove(key)
            && let Some(content) = content.without_due(self.now)
        {
            self.oracle.insert(key.clone(), (content, expire));
        }
        let found = self.keyspace.get(key.0, &key.1, self.now);
        let found = found.and_then(|entry| {
            assert_eq!(entry.key(), key.1);
            Some((Content::from_value(entry.value()).without_due(self.now)?, entry.expire_at()))
        });
        assert_eq!(found.as_ref(), self.oracle.get(key), "{key:?}");
        found
    }

    fn step(&mut self) {
        let key = self.key();
        match self.random.below(1000) {
            0..230 => self.set(key),
            230..320 => self.count(key),
            320..460 => self.append(key),
            460..560 => self.set_range(key),
            560..600 => self.edit(key),
            600..700 => self.set_expire(&key),
            700..800 => {
                let was_there = self.look(&key).is_some();
                assert_eq!(self.keyspace.remove(key.0, &key.1), was_there);
                self.oracle.remove(&key);
            }
            800..900 => self.transfer(key),
            900..930 => {
                self.now += self.random.below(8) as i64;
                self.keyspace.expire_cycle(self.now, 10);
                self.keyspace.expire_fields_cycle(self.now, 10);
            }
            930..932 => {
                self.keyspace.clear(key.0);
                self.oracle.retain(|(db, _), _| *db != key.0);
            }
            932 => {
                self.keyspace.clear_all();
                self.oracle.clear();
            }
            933..945 => self.swap(key.0),
            945..970 => drop(self.keyspace.tend()),
            970..980 => self.view(),
            980 => self.keyspace.wait_image(), // a busy machine gives the snapshotter little time
            _ => self.image(),
        }
        self.collect();
    }

    /// Opens a view, closes one, or looks into one.
    fn view(&mut self) {
        if self.views.len() < 4 && self.random.one_in(4) {
            let contents = alive(&self.oracle, self.now);
            self.views_opened += 1;
            self.keyspace.open_view(self.views_opened, self.now);
            let (id, walked, db, cursor) = (self.views_opened, Contents::new(), 0, 0);
            self.views.push(Viewed { id, now: self.now, contents, walked, db, cursor });
        }
        if self.views.is_empty() {
            return;
        }
        let (at, key) = (self.random.below(self.views.len()), self.key());
        if self.random.one_in(6) {
            assert!(self.keyspace.close_view(self.views.remove(at).id));
            return;
        }
        let viewed = &mut self.views[at];
        let view = self.keyspace.view(viewed.id).unwrap();
        let content = |entry: &stillframe_keyspace::Entry| {
            (Content::from_value(entry.value()), entry.expire_at())
        };
        let found = view.get(key.0, &key.1).map(content);
        let found = found.and_then(|(content, at)| Some((content.without_due(viewed.now)?, at)));
        assert_eq!(found.as_ref(), viewed.contents.get(&key));
        let Viewed { walked, db, .. } = viewed;
        viewed.cursor = view.scan(*db, viewed.cursor, 15, |entry| {
            assert!(
                walked.insert((*db, entry.key().to_vec()), content(entry)).is_none(),
                "met once"
            );
        });
        if viewed.cursor == 0 {
            viewed.db += 1;
        }
        if viewed.db == DBS {
            assert!(alive(&viewed.walked, viewed.now) == viewed.contents, "a walk differs");
            (viewed.walked, viewed.db) = (Contents::new(), 0);
        }
    }

    fn image(&mut self) {
        if self.image.is_some() || !can_image::<A>() {
            return;
        }
        let manner = match self.random.below(6) {
            0..3 => Manner::Fast,
            3 | 4 => Manner::Slow(1 + self.random.below(20)),
            _ => Manner::Fails(self.random.below(60)),
        };
        self.keyspace.wait_image(); // publishing and letting go are not the same instant
        let contents = alive(&self.oracle, self.now);
        let arrived = begin(&mut self.keyspace, manner);
        self.image = Some(Expected { contents, begun_at: self.now, manner, arrived });
        if self.random.one_in(8) {
            self.keyspace.progress().cancel();
        }
    }

    /// Compares the image under way with the oracle of its begin, if it has arrived.
    fn collect(&mut self) {
        let Some(expected) = &self.image else { return };
        let Ok(result) = expected.arrived.try_recv() else { return };
        match result {
            Ok(contents) => {
                assert!(alive(&contents, expected.begun_at) == expected.contents, "image differs");
                self.images_whole += 1;
            }
            Err(CaptureError::Cancelled) => self.images_failed += 1,
            Err(CaptureError::Sink(_)) => {
                assert!(matches!(expected.manner, Manner::Fails(_)));
                self.images_failed += 1;
            }
            Err(other) => panic!("{other}"),
        }
        self.image = None;
    }

    /// Every way of walking the keys agrees with the oracle.
    fn check(&mut self) {
        self.oracle = alive(&self.oracle, self.now);
        let now = self.now;
        (0..4 * DBS).for_each(|_| _ = self.keyspace.expire_fields_cycle(now, 100_000));
        let mut expired = self.keyspace.stats().expires;
        while expired > 0 {
            expired -= 1;
            self.keyspace.expire_cycle(now, 2);
        }
        let mut walked = Contents::new();
        for db in 0..DBS {
            let mut add = |entry: &stillframe_keyspace::Entry| {
                let content = (Content::from_value(entry.value()), entry.expire_at());
                let key = (db, entry.key().to_vec());
                assert!(walked.insert(key, content).is_none(), "met once");
            };
            self.keyspace.for_each(db, now, &mut add);
            let mut cursor = 0;
            let mut scanned = 0;
            loop {
                cursor = self.keyspace.scan(db, cursor, 7, now, |_| scanned += 1);
                if cursor == 0 {
                    break;
                }
            }
            let of_db = self.oracle.iter().filter(|((of, _), _)| *of == db);
            let (keys, expiring) = of_db.fold((0, 0), |(keys, expiring), (_, (_, expire))| {
                (keys + 1, expiring + usize::from(expire.is_some()))
            });
            assert_eq!((scanned, self.keyspace.len(db)), (keys, keys));
            assert_eq!(self.keyspace.expires(db), expiring);
            let random = &mut self.random;
            assert_eq!(self.keyspace.random(db, now, &mut || random.next()).is_some(), keys > 0);
        }
        assert!(walked == self.oracle);
    }
}

fn model<A: Algorithm>() {
    let mut pair = Pair::<A>::new(Random::seeded(A::INFO.name));
    let (steps, images) = (sized(50_000, 300), if can_image::<A>() { sized(40, 3) } else { 0 });
    let mut step = 0;
    while step < steps || pair.images_whole < images {
        pair.step();
        step += 1;
        if step % 500 == 0 {
            pair.check();
        }
    }
    pair.keyspace.wait_image();
    pair.collect();
    pair.check();
    for viewed in std::mem::take(&mut pair.views) {
        assert!(pair.keyspace.close_view(viewed.id));
    }
    while pair.keyspace.tend() {}
    let stats = pair.keyspace.stats();
    assert_eq!((stats.limbo_entries, stats.limbo_bytes), (0, 0));
    assert_eq!((stats.view_entries, stats.view_bytes), (0, 0));
    println!("{step} steps, {} images whole, {} not", pair.images_whole, pair.images_failed);
    pair.keyspace.clear_all();
    assert_eq!(pair.keyspace.stats().entry_bytes, 0, "the books are right");
}

macro_rules! tests {
    ($($module:ident::$algorithm:ident { $($facts:tt)* })*) => {$(
        #[test]
        fn $module() {
            let _watchdog = stillframe_peers::Watchdog::start();
            model::<stillframe::algorithms::$module::$algorithm>();
        }
    )*};
}
stillframe::for_each_algorithm!(core tests);
