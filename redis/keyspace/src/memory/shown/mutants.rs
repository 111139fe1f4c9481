//! Deliberate mistakes about databases that are branches, and the test that must find each one:
//! random changes beside a keyspace that copies keys where this one makes branches, with images,
//! views and scans.

stillframe::mutants! {
    pub(crate) when test;

    /// An entry is changed in place though a branch shows it.
    ChangesBeneath,
    /// A key is replaced or deleted, and branches that show it lose it.
    ForgetsToPart,
    /// A key that was deleted in a branch is shown again.
    LeavesIt,
    /// Of several branches that show a key, the first alone gets a copy.
    GivesToOne,
    /// Clearing a database deletes what its branches show of it.
    ClearsBranches,
    /// An image gives an entry to the database alone that has it.
    ImagesLackBranches,
    /// A view of a branch looks for what the branch has itself alone.
    LooksInOwnSpace,
    /// A key that is loaded with a class gets the next one: fewer databases show it.
    ClassesAreOff,
    /// What a branch gets while it is scanned may lie behind the end of the scan.
    EndsEarly,
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, channel};

    use stillframe::algorithms::imprint::Imprint;
    use stillframe::{CaptureError, Point, SinkError};

    use super::{Mutant, with_mutant};
    use crate::memory::entry::KEY_BYTES;
    use crate::model::{Collect, Random, flat, sized};
    use crate::{
        Choice, Entry, EntrySink, Expire, HeldImage, Keyspace, KeyspaceOptions, Merit, Sharing,
        SharingError, Value,
    };

    const DBS: usize = 4;
    const KEYS: usize = if cfg!(miri) { 6 } else { 30 };
    /// Fields of a hash that is large, and lies in a tree.
    const FIELDS: usize = if cfg!(miri) { 4 } else { 60 };
    const VIEWS_MAX: usize = 3;
    const IMAGES_MAX: usize = 2;

    /// Values, a text as it is, or the fields and values of a hash; and deadlines.
    type Contents = BTreeMap<(usize, Vec<u8>), (Vec<u8>, Option<i64>)>;

    fn shown(entry: &Entry) -> (Vec<u8>, Option<i64>) {
        (flat(entry), entry.expire_at())
    }

    /// An image under way, and what it must show.
    struct Image {
        held: HeldImage,
        contents: Contents,
        taken: Receiver<Result<Contents, CaptureError>>,
    }

    /// A scan of a database under way.
    struct Scan {
        db: usize,
        cursor: u64,
        /// Keys that were there from the first call on.
        due: BTreeSet<Vec<u8>>,
    }

    struct Run {
        keyspace: Keyspace<Imprint>,
        /// The same contents without branches.
        twin: Keyspace<Imprint>,
        views: Vec<(u64, Contents)>,
        opened: u64,
        images: Vec<Image>,
        scan: Option<Scan>,
        now: i64,
        random: Random,
    }

    impl Run {
        fn new() -> Self {
            // Miri makes every word of them.
            let (max_keys, budget_bytes) =
                if cfg!(miri) { (1 << 8, 1 << 16) } else { (1 << 10, 1 << 20) };
            let options = KeyspaceOptions { max_keys, budget_bytes, ..KeyspaceOptions::default() };
            let [keyspace, twin] = [(); 2].map(|()| Keyspace::create(&options).unwrap());
            let random = Random::seeded("branches of databases");
            let (views, images) = (Vec::new(), Vec::new());
            Self { keyspace, twin, views, opened: 0, images, scan: None, now: 0, random }
        }

        fn key(&mut self) -> (usize, Vec<u8>) {
            let key = format!("key:{}", self.random.below(KEYS)).into_bytes();
            (self.random.below(DBS), key)
        }

        /// Does the same to both.
        fn both<R: PartialEq + std::fmt::Debug>(
            &mut self,
            mut f: impl FnMut(&mut Keyspace<Imprint>) -> R,
        ) {
            assert_eq!(f(&mut self.keyspace), f(&mut self.twin));
        }

        fn change(&mut self) {
            let ((db, key), (to_db, to)) = (self.key(), self.key());
            let (number, now) = (self.random.below(100_000), self.now);
            let text = format!("{number:0>0$}", 1 + number % 90).into_bytes();
            // Keys that have expired are gone from both.
            self.both(|it| (it.contains(db, &key, now), it.contains(to_db, &to, now)));
            match self.random.below(100) {
                0..20 => self.both(|it| it.set(db, &key, &text, Expire::Keep).unwrap()),
                20..25 => {
                    let expire = Expire::At(now + (number % 20) as i64);
                    self.both(|it| it.set(db, &key, &text, expire).unwrap());
                }
                25..40 => self.both(|it| it.remove(db, &key)),
                40..65 => self.both(|it| edit(it, db, &key, number, now)),
                65..69 => self.both(|it| it.rename(db, &key, to_db, &to).unwrap()),
                69..73 => self.both(|it| it.copy(db, &key, to_db, &to).unwrap()),
                73..76 => self.both(|it| it.set_expire(db, &key, Some(now + 9))),
                76..78 => self.both(|it| it.set_expire(db, &key, None)),
                78..80 => self.both(|it| {
                    let is_text = it.get(db, &key, now).is_none_or(|entry| {
                        matches!(entry.value(), Value::Bytes(_) | Value::Int(_))
                    });
                    if is_text { it.set_range(db, &key, number % 50, &text).unwrap() } else { 0 }
                }),
                80..83 => {
                    self.end_scan();
                    self.both(|it| it.swap(db, to_db));
                }
                83 => {
                    self.end_scan();
                    self.both(|it| it.clear(db));
                }
                84 if number % 9 == 0 => {
                    self.end_scan();
                    self.both(Keyspace::clear_all);
                }
                85..88 => self.branch(db, to_db),
                88..91 => self.now += 1,
                91..93 => drop(self.keyspace.expire_cycle(self.now, 10)),
                93 => self.evict(),
                94 => {
                    let keys = [&key[..], &to];
                    self.keyspace.warm(db, keys);
                    self.both(|it| keys.map(|key| it.get(db, key, now).map(shown)));
                }
                _ => drop(self.keyspace.tend()),
            }
        }

        fn branch(&mut self, from: usize, to: usize) {
            self.end_scan();
            self.keyspace.branch(from, to).unwrap();
            if from == to {
                return;
            }
            self.twin.clear(to);
            let mut keys = Vec::new();
            self.twin.for_each(from, i64::MIN, |entry| keys.push(entry.key().to_vec()));
            for key in keys {
                assert!(self.twin.copy(from, &key, to, &key).unwrap());
            }
        }

        fn evict(&mut self) {
            let choice = Choice { merit: Merit::Chance, mortal_only: false, samples: 1 };
            let random = &mut self.random;
            if let Some((db, key)) = self.keyspace.evict(choice, &mut || random.next()) {
                self.twin.remove(db, &key);
                self.forget(db, &key);
            }
        }

        /// A scan need not meet a key any more.
        fn forget(&mut self, db: usize, key: &[u8]) {
            if let Some(scan) = self.scan.as_mut().filter(|scan| scan.db == db) {
                scan.due.remove(key);
            }
        }

        fn check(&mut self) {
            let now = self.now;
            let [here, there] = [&mut self.keyspace, &mut self.twin].map(|it| contents(it, now));
            let keys: BTreeSet<_> = here.keys().chain(there.keys()).collect();
            if let Some(key) = keys.into_iter().find(|key| here.get(*key) != there.get(*key)) {
                let [here, there] = [&here, &there].map(|it| it.get(key));
                panic!("{key:?} is {here:?} and not {there:?}");
            }
            let (db, random) = (self.random.below(DBS), &mut self.random);
            let has = here.keys().any(|(its, _)| *its == db);
            let found = self.keyspace.random(db, now, &mut || random.next());
            let found = found.map(|entry| (db, entry.key().to_vec()));
            assert!(found.as_ref().is_some() == has, "a random key");
            assert!(found.is_none_or(|found| here.contains_key(&found)), "a random key is there");
        }

        /// After all keys that have expired are gone, both count the same.
        fn check_counts(&mut self) {
            let now = self.now;
            for _ in 0..=DBS {
                self.both(|it| while it.expire_cycle(now, 1 << 12) > 0 {});
            }
            self.both(|it| [0, 1, 2, 3].map(|db| (it.len(db), it.expires(db), it.is_empty(db))));
        }

        fn look(&mut self) {
            let (db, key) = self.key();
            let at = self.random.below(self.views.len());
            let (id, contents) = &self.views[at];
            let view = self.keyspace.view(*id).expect("it is open");
            let found = view.get(db, &key).map(shown);
            assert_eq!(found.as_ref(), contents.get(&(db, key)), "view {id}");
            if self.random.one_in(20) {
                let (mut walked, mut cursor) = (Contents::new(), 0);
                loop {
                    cursor = view.scan(db, cursor, 5, |entry| {
                        let twice = walked.insert((db, entry.key().to_vec()), shown(entry));
                        assert!(twice.is_none(), "met once");
                    });
                    if cursor == 0 {
                        break;
                    }
                }
                assert!(walked.iter().eq(contents.iter().filter(|((its, _), _)| *its == db)));
                let random = &mut self.random;
                let found = view.random(db, &mut || random.next());
                let key = found.map(|entry| (db, entry.key().to_vec()));
                let is_there = |key| contents.contains_key(&key);
                let is_expired = found.is_some_and(|entry| entry.is_expired(view.now()));
                assert!(key.is_none_or(is_there) || is_expired, "a random key of a view");
            }
        }

        fn image(&mut self) {
            if self.images.len() < IMAGES_MAX {
                let contents = contents(&mut self.keyspace, i64::MIN);
                let (sender, taken) = channel();
                let publish = move |sink: &mut Collect<_>, captured: Result<(), _>| {
                    let _ = sender.send(captured.map(|()| std::mem::take(&mut sink.taken)));
                };
                let sink = Collect { taken: Contents::new(), show: shown };
                let wake = Arc::new(|| ());
                let held = self.keyspace.image(Point::declare(), sink, wake, publish);
                let held = held.expect("memory and a thread");
                self.images.push(Image { held, contents, taken });
            } else {
                self.end_image();
            }
        }

        fn end_image(&mut self) {
            let at = self.random.below(self.images.len());
            let Image { held, contents, taken } = self.images.remove(at);
            self.keyspace.wait_for(held);
            let taken = taken.recv().expect("the image is published").expect("it is whole");
            assert!(taken == contents, "an image differs");
        }

        fn end_scan(&mut self) {
            while self.scan.is_some() {
                self.scan();
            }
        }

        fn scan(&mut self) {
            let now = self.now;
            let Some(mut scan) = self.scan.take() else {
                let db = self.random.below(DBS);
                let mut due = BTreeSet::new();
                self.keyspace.for_each(db, now, |entry| {
                    due.insert(entry.key().to_vec());
                });
                self.scan = Some(Scan { db, cursor: 0, due });
                return;
            };
            let budget = 1 + self.random.below(6);
            scan.cursor = self.keyspace.scan(scan.db, scan.cursor, budget, now, |entry| {
                scan.due.remove(entry.key());
            });
            if scan.cursor != 0 {
                self.scan = Some(scan);
                return;
            }
            assert!(scan.due.is_empty(), "a scan has missed {:?}", scan.due);
        }

        /// Keys that are gone now need not be met.
        fn spare_gone(&mut self) {
            let now = self.now;
            if let Some(scan) = &mut self.scan {
                let mut gone = |key: &Vec<u8>| self.twin.peek(scan.db, key, now).is_none();
                let gone: Vec<_> = scan.due.iter().filter(|key| gone(key)).cloned().collect();
                scan.due.retain(|key| !gone.contains(key));
            }
        }

        fn step(&mut self) {
            match self.random.below(40) {
                0 if self.views.len() < VIEWS_MAX => {
                    let contents = contents(&mut self.keyspace, self.now);
                    self.opened += 1;
                    self.keyspace.open_view(self.opened, self.now);
                    self.views.push((self.opened, contents));
                }
                1 if self.views.len() > 1 => {
                    let at = self.random.below(self.views.len());
                    assert!(self.keyspace.close_view(self.views.remove(at).0));
                }
                2..8 if !self.views.is_empty() => self.look(),
                8 => self.check(),
                9 if self.random.one_in(4) => self.check_counts(),
                10 => self.image(),
                11..16 => self.scan(),
                16 if self.random.one_in(16) => self.reload(),
                _ => self.change(),
            }
            self.spare_gone();
        }

        fn end(mut self) {
            while !self.images.is_empty() {
                self.end_image();
            }
            self.check();
            self.check_counts();
            for (id, _) in &self.views {
                assert!(self.keyspace.close_view(*id));
            }
            self.keyspace.clear_all();
            while self.keyspace.tend() {}
            let stats = self.keyspace.stats();
            assert_eq!((stats.keys, stats.expires, stats.entry_bytes), (0, 0, 0));
            assert_eq!((stats.limbo_entries, stats.view_entries), (0, 0), "nobody holds any");
        }
    }

    /// A key of an image, as a file has it.
    struct Record {
        class: u8,
        db: usize,
        key: Vec<u8>,
        text: Option<Vec<u8>>,
        fields: Vec<(Vec<u8>, Vec<u8>)>,
        expire_at: Option<i64>,
    }

    /// The keys of an image in their order.
    #[derive(Default)]
    struct Records {
        class: u8,
        all: Vec<Record>,
    }

    impl EntrySink for Records {
        fn entry(&mut self, db: usize, entry: &Entry) -> Result<(), SinkError> {
            let (key, expire_at) = (entry.key().to_vec(), entry.expire_at());
            let (mut text, mut fields) = (None, Vec::new());
            match entry.value() {
                Value::Hash(hash) => {
                    fields.extend(hash.iter().map(|(f, v)| (f.to_vec(), v.to_vec())));
                }
                _ => text = Some(flat(entry)),
            }
            self.all.push(Record { class: self.class, db, key, text, fields, expire_at });
            Ok(())
        }

        fn class(&mut self, class: u8) -> Result<(), SinkError> {
            self.class = class;
            Ok(())
        }
    }

    /// Loads the keys of an image as a reader of files does.
    fn load(keyspace: &mut Keyspace<Imprint>, records: &[Record], sharing: &Sharing) {
        assert!(keyspace.begin_sharing(sharing));
        let (mut copied, mut copies) = (Vec::new(), 0_u16);
        for Record { class, db, key, text, fields, expire_at } in records {
            if copies & 1 << db != 0 && copied == *key {
                copies &= !(1 << db);
                continue;
            }
            assert_eq!(copies, 0, "all databases that show it follow");
            if let Some(text) = text {
                keyspace.set(*db, key, text, Expire::Never).unwrap();
            }
            if !fields.is_empty() {
                let edited = keyspace.edit_hash(*db, key, |hash| {
                    for (field, value) in fields {
                        hash.set(field, value);
                    }
                });
                edited.unwrap();
            }
            if expire_at.is_some() {
                keyspace.set_expire(*db, key, *expire_at);
            }
            copies = keyspace.share_key(*db, key, *class).unwrap();
            copied.clone_from(key);
        }
        keyspace.end_sharing();
    }

    impl Run {
        /// Goes on with a keyspace that was loaded from an image, and shares as much.
        fn reload(&mut self) {
            self.end_scan();
            while !self.images.is_empty() {
                self.end_image();
            }
            for (id, _) in std::mem::take(&mut self.views) {
                assert!(self.keyspace.close_view(id));
            }
            let Some(sharing) = self.keyspace.sharing() else { return };
            let take = |keyspace: &mut Keyspace<Imprint>| {
                let (sender, taken) = channel();
                let publish = move |sink: &mut Records, captured: Result<(), CaptureError>| {
                    let _ = sender.send(captured.map(|()| std::mem::take(&mut sink.all)));
                };
                let wake = Arc::new(|| ());
                let held = keyspace.image(Point::declare(), Records::default(), wake, publish);
                (held.expect("memory and a thread"), taken)
            };
            // Now and then the image is read from a view, beside another one.
            let beside = self.random.one_in(2).then(|| take(&mut self.keyspace));
            let (held, taken) = take(&mut self.keyspace);
            self.keyspace.wait_for(held);
            let records = taken.recv().expect("it is published").expect("it is whole");
            if let Some((beside, _)) = beside {
                self.keyspace.wait_for(beside);
            }
            let mut loaded = Run::new().keyspace;
            load(&mut loaded, &records, &sharing);
            let count =
                |it: &Keyspace<Imprint>| [0, 1, 2, 3].map(|db| (it.len(db), it.shown_keys(db)));
            assert_eq!(count(&loaded), count(&self.keyspace), "as much is shared");
            self.keyspace = loaded;
        }
    }

    #[test]
    fn an_empty_keyspace_shares_what_an_image_does_until_it_is_looked_at() {
        let mut run = Run::new();
        let (keyspace, mut sharing) = (&mut run.keyspace, Sharing::default());
        assert!(sharing.add(1, 0, 1) && sharing.add(2, 1, 2) && !sharing.add(1, 1, 1));
        assert!(!sharing.add(16, 0, 1) && !sharing.add(1, 0, 0) && !sharing.add(1, 0, 16));
        keyspace.set(3, b"k", b"v", Expire::Never).unwrap();
        assert!(!keyspace.begin_sharing(&sharing), "there is a key");
        keyspace.clear_all();
        keyspace.open_view(1, 0);
        assert!(keyspace.begin_sharing(&sharing));
        for key in [b"a", b"b"] {
            keyspace.set(0, key, b"v", Expire::Never).unwrap();
        }
        assert_eq!(keyspace.share_key(0, b"a", 1).unwrap(), 1 << 1);
        assert_eq!(keyspace.share_key(0, b"b", 2).unwrap(), 0, "nobody shows this class");
        assert_eq!(keyspace.share_key(0, b"c", 1).unwrap(), 0, "there is no such key");
        // A database that has the key, or shows that of another one, cannot show it.
        keyspace.set(1, b"x", b"v", Expire::Never).unwrap();
        keyspace.set(0, b"x", b"v", Expire::Never).unwrap();
        assert!(matches!(keyspace.share_key(0, b"x", 1), Err(SharingError::Again { db: 1 })));
        assert_eq!(keyspace.shared_bytes(), keyspace.dbs[0].bytes / 3 + KEY_BYTES);
        assert!(keyspace.view(1).is_some_and(|view| view.get(0, b"a").is_none()), "it is older");
        keyspace.open_view(2, 0);
        keyspace.set(0, b"late", b"v", Expire::Never).unwrap();
        assert_eq!(keyspace.share_key(0, b"late", 1).unwrap(), 0, "a view was opened");
        assert!(keyspace.view(2).is_some_and(|view| view.get(0, b"late").is_none()));
        keyspace.remove(0, b"late");
        keyspace.end_sharing();
        assert_eq!([0, 1, 2, 3].map(|db| keyspace.shown_keys(db)), [0, 1, 0, 0]);
        assert_eq!([0, 1, 2, 3].map(|db| keyspace.len(db)), [3, 2, 0, 0]);
        keyspace.set(0, b"a", b"changed", Expire::Never).unwrap();
        assert_eq!(keyspace.get(1, b"a", 0).map(flat).as_deref(), Some(&b"v"[..]));
        assert_eq!(keyspace.sharing(), None);
        // What a load has left is gone with all else.
        keyspace.clear_all();
        assert!(keyspace.begin_sharing(&sharing));
        keyspace.set(0, b"a", b"v", Expire::Never).unwrap();
        keyspace.share_key(0, b"a", 1).unwrap();
        keyspace.clear_all();
        assert_eq!((keyspace.stats().keys, keyspace.shared_bytes()), (0, 0));
    }

    /// Appends to a text, or sets and removes fields of a hash.
    fn edit(it: &mut Keyspace<Imprint>, db: usize, key: &[u8], number: usize, now: i64) -> usize {
        let is_hash = |entry: &Entry| matches!(entry.value(), Value::Hash(_));
        if it.get_to_edit(db, key, now).is_some_and(|entry| !is_hash(entry)) {
            return it.append(db, key, b"more").unwrap();
        }
        let field = (number % 300).to_string().into_bytes();
        let edited = it.edit_hash(db, key, |hash| {
            (0..number % FIELDS).for_each(|more| {
                hash.set(&[&field[..], &[more as u8]].concat(), &field);
            });
            hash.remove(&field)
        });
        usize::from(edited.unwrap())
    }

    fn contents(keyspace: &mut Keyspace<Imprint>, now: i64) -> Contents {
        let mut contents = Contents::new();
        for db in 0..DBS {
            keyspace.for_each(db, now, |entry| {
                let twice = contents.insert((db, entry.key().to_vec()), shown(entry));
                assert!(twice.is_none(), "each key once");
            });
        }
        contents
    }

    fn branches_are_right(steps: usize) {
        let mut run = Run::new();
        (0..steps).for_each(|_| run.step());
        run.end();
    }

    /// Every key is changed in the midst of the scan, and lies in a new slot then.
    fn a_scan_is_right() {
        let mut keyspace = Run::new().keyspace;
        let keys: BTreeSet<Vec<u8>> = (b'a'..=b'z').map(|key| vec![key]).collect();
        keys.iter().for_each(|key| keyspace.set(0, key, b"1", Expire::Never).unwrap());
        keyspace.branch(0, 1).unwrap();
        let (mut met, mut cursor) = (BTreeSet::new(), 0);
        loop {
            cursor = keyspace.scan(1, cursor, 5, 0, |entry| {
                met.insert(entry.key().to_vec());
            });
            keys.iter().for_each(|key| keyspace.set(1, key, b"2", Expire::Never).unwrap());
            if cursor == 0 {
                break;
            }
        }
        assert!(met == keys, "a key in a new slot was missed");
    }

    #[test]
    fn a_branch_is_as_a_copy() {
        branches_are_right(sized(100_000, 300));
        a_scan_is_right();
    }

    #[test]
    fn a_branch_takes_memory_for_what_is_written() {
        let options = KeyspaceOptions { max_keys: 30, ..KeyspaceOptions::default() };
        let mut keyspace = Keyspace::<Imprint>::create(&options).unwrap();
        let text = [b'x'; 1000];
        let keys: Vec<[u8; 1]> = (0..10).map(|key| [key]).collect();
        keys.iter().for_each(|key| keyspace.set(0, key, &text, Expire::Never).unwrap());
        let before = keyspace.stats();
        keyspace.branch(0, 1).unwrap();
        keyspace.branch(1, 2).unwrap();
        let after = keyspace.stats();
        assert_eq!((after.keys, after.entry_bytes), (30, before.entry_bytes));
        assert!(keyspace.branch(0, 3).is_err(), "there are no slots for as many copies");
        assert!(keyspace.set(0, b"more", b"1", Expire::Never).is_err(), "nor for other keys");
        assert_eq!(keyspace.len(3), 0);
        keys.iter().for_each(|key| assert!(keyspace.remove(0, key), "copies have their slots"));
        assert_eq!([0, 1, 2, 3].map(|db| keyspace.len(db)), [0, 10, 10, 0]);
        keys.iter().for_each(|key| keyspace.set(2, key, b"1", Expire::Never).unwrap());
        assert_eq!(keyspace.get(1, b"\x05", 0).map(|it| it.value().len()), Some(1000));
        assert_eq!(keyspace.shown_keys(2), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes many steps")]
    fn every_mutant_is_found() {
        for &mutant in Mutant::ALL.iter().filter(|mutant| mutant.is_chosen()) {
            let run = || {
                a_scan_is_right();
                branches_are_right(20_000);
            };
            let right = || catch_unwind(AssertUnwindSafe(run)).is_ok();
            assert!(!with_mutant(mutant, right), "{mutant:?}");
        }
    }
}
