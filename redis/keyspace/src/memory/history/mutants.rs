//! Deliberate mistakes about views, and the test that must find each one: random changes, with
//! views that are opened, read in steps and closed in any order, and images beside them.

stillframe::mutants! {
    pub(crate) when test;

    /// An entry is changed in place though an open view sees it.
    ChangesInPlace,
    /// A view shows the entries of databases cleared before it.
    ShowsCleared,
    /// A view that is closed drops what an older one sees, too.
    ForgetsOlder,
    /// A view does not look for a key in databases that were cleared and not yet swept.
    OverlooksUnswept,
    /// Walking a view takes only what lies in the slots now.
    WalksPresent,
    /// Slots count as passed that a walk has not come to yet.
    PassesEarly,
    /// What an image can see as well is kept for the image alone.
    KeepsForImage,
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use stillframe::algorithms::imprint::Imprint;
    use stillframe::{CaptureError, Point, SinkError};

    use super::{Mutant, with_mutant};
    use crate::model::{Collect, Random, flat as shown, sized};
    use crate::{
        Choice, Entry, EntrySink, Expire, HeldImage, Keyspace, KeyspaceOptions, Merit, ReadView,
        ReadViewError, ScanError, Value, View,
    };

    const DBS: usize = 3;
    const KEYS: usize = if cfg!(miri) { 8 } else { 40 };
    /// More than most edits of a hash add.
    const FIELDS: usize = if cfg!(miri) { 4 } else { 50 };
    const VIEWS_MAX: usize = 5;

    type Contents = BTreeMap<(usize, Vec<u8>), Vec<u8>>;

    /// Takes entries when the gate is gone.
    struct Hold(Receiver<()>);

    impl EntrySink for Hold {
        fn entry(&mut self, _: usize, _: &Entry) -> Result<(), SinkError> {
            let _ = self.0.recv();
            Ok(())
        }
    }

    type Taken = Result<Contents, CaptureError>;

    /// A view, what it must show, and what a walk over one database has shown so far.
    struct Open {
        id: u64,
        contents: Contents,
        walked: Contents,
        db: usize,
        cursor: u64,
    }

    struct Run {
        /// The gate of an image that stands still; before the keyspace, which waits for the image.
        image: Option<Sender<()>>,
        keyspace: Keyspace<Imprint>,
        views: Vec<Open>,
        /// Views for other threads, and what they must show.
        read_views: Vec<(ReadView<Imprint>, Contents)>,
        opened: u64,
        now: i64,
        /// An image beside it, and what it must show.
        beside: Option<(HeldImage, Contents, Receiver<Taken>)>,
        random: Random,
    }

    impl Run {
        fn new() -> Self {
            // Miri makes every word of them.
            let (max_keys, budget_bytes) =
                if cfg!(miri) { (1 << 8, 1 << 16) } else { (1 << 10, 1 << 20) };
            let options = KeyspaceOptions { max_keys, budget_bytes, ..KeyspaceOptions::default() };
            let keyspace = Keyspace::create(&options).unwrap();
            let random = Random::seeded("views");
            Self {
                keyspace,
                views: Vec::new(),
                read_views: Vec::new(),
                opened: 0,
                now: 0,
                image: None,
                beside: None,
                random,
            }
        }

        fn key(&mut self) -> (usize, Vec<u8>) {
            let key = format!("key:{}", self.random.below(KEYS)).into_bytes();
            (self.random.below(DBS), key)
        }

        fn change(&mut self) {
            let ((db, key), (to_db, to)) = (self.key(), self.key());
            let (number, keyspace) = (self.random.below(100_000), &mut self.keyspace);
            let text = format!("{number:0>0$}", 1 + number % 90).into_bytes();
            match self.random.below(100) {
                0..30 => keyspace.set(db, &key, &text, Expire::Never).unwrap(),
                30..35 => {
                    let expire = Expire::At(self.now + (number % 20) as i64);
                    keyspace.set(db, &key, &text, expire).unwrap();
                }
                35..50 => drop(keyspace.remove(db, &key)),
                50..80 => {
                    let is_hash = |entry: &Entry| matches!(entry.value(), Value::Hash(_));
                    if keyspace.get(db, &key, self.now).is_some_and(|it| !is_hash(it)) {
                        keyspace.append(db, &key, &text[..1]).unwrap();
                    } else {
                        let field = (number % 300).to_string().into_bytes();
                        drop(keyspace.edit_hash(db, &key, |hash| {
                            (0..number % FIELDS).for_each(|more| {
                                hash.set(&[&field[..], &[more as u8]].concat(), &text);
                            });
                            hash.remove(&field);
                        }));
                    }
                }
                80..84 => drop(keyspace.rename(db, &key, to_db, &to).unwrap()),
                84..86 => drop(keyspace.copy(db, &key, to_db, &to).unwrap()),
                86..88 => keyspace.swap(db, to_db),
                88 => keyspace.clear(db),
                89..92 => self.now += 1,
                92..94 => drop(keyspace.expire_cycle(self.now, 10)),
                94 => self.image(),
                95 => self.beside(),
                96 => self.evict(),
                _ => drop(keyspace.tend()),
            }
        }

        fn evict(&mut self) {
            let choice = Choice { merit: Merit::Chance, mortal_only: false, samples: 1 };
            let random = &mut self.random;
            let _ = self.keyspace.evict(choice, &mut || random.next());
        }

        /// Begins an image that stands still, or lets it go on.
        fn image(&mut self) {
            if self.image.take().is_some() {
                return self.keyspace.wait_image();
            }
            let (gate, held) = channel();
            self.keyspace.snapshot(Point::declare(), Hold(held), |_, _| {}).unwrap();
            self.image = Some(gate);
        }

        fn contents(&mut self, now: i64) -> Contents {
            let mut contents = Contents::new();
            for db in 0..DBS {
                self.keyspace.for_each(db, now, |entry| {
                    contents.insert((db, entry.key().to_vec()), shown(entry));
                });
            }
            contents
        }

        /// Begins an image beside the one that stands still, or ends it.
        fn beside(&mut self) {
            if let Some((held, contents, taken)) = self.beside.take() {
                let is_cancelled = self.random.one_in(4);
                if is_cancelled {
                    self.keyspace.cancel(held);
                }
                self.keyspace.wait_for(held);
                match taken.recv().expect("the image is published") {
                    Ok(taken) => assert!(taken == contents, "an image beside another differs"),
                    Err(error) => assert!(is_cancelled, "{error}"),
                }
            } else if self.image.is_some() {
                let contents = self.contents(i64::MIN);
                let (sender, taken) = channel();
                let publish = move |sink: &mut Collect<_>, captured: Result<(), _>| {
                    let _ = sender.send(captured.map(|()| std::mem::take(&mut sink.taken)));
                };
                let sink = Collect { taken: Contents::new(), show: shown };
                let wake = Arc::new(|| ());
                let held = self.keyspace.image(Point::declare(), sink, wake, publish);
                self.beside = Some((held.expect("memory and a thread"), contents, taken));
            }
        }

        fn open(&mut self) {
            let contents = self.contents(self.now);
            self.opened += 1;
            self.keyspace.open_view(self.opened, self.now);
            let (walked, db, cursor) = (Contents::new(), self.random.below(DBS), 0);
            self.views.push(Open { id: self.opened, contents, walked, db, cursor });
        }

        /// Opens a view for other threads, if no slot has a dead entry.
        fn open_for_others(&mut self) {
            let contents = self.contents(self.now);
            let wake = Arc::new(|| ());
            match self.keyspace.read_view(Point::declare(), self.now, wake) {
                Ok(view) => self.read_views.push((view, contents)),
                Err(ReadViewError::Unswept) => {}
                Err(error) => panic!("{error}"),
            }
        }

        /// Reads one of them, by two threads that share out its slots.
        fn look_as_another(&mut self) {
            let (view, contents) = &self.read_views[self.random.below(self.read_views.len())];
            let half = view.slots() / 2;
            let read = |slots| {
                let mut sink = Collect { taken: Contents::new(), show: shown };
                view.scan(slots, &mut sink).map(|()| sink.taken)
            };
            let found = std::thread::scope(|scope| {
                let other = scope.spawn(|| read(half..usize::MAX));
                let mut found = read(0..half)?;
                found.extend(other.join().expect("no panic")?);
                Ok::<_, ScanError>(found)
            });
            let found = found.expect("the view is there");
            assert!(found == *contents, "what another thread reads differs");
            let keys = (0..DBS).map(|db| view.len(db)).sum::<usize>();
            assert!(keys >= contents.len() && view.is_empty() == (keys == 0));
        }

        /// A step of the walk over a view, and a key of it.
        fn look(&mut self) {
            let (db, key) = self.key();
            let at = self.random.below(self.views.len());
            let open = &mut self.views[at];
            let view: View<'_, _> = self.keyspace.view(open.id).expect("it is open");
            let found = view.get(db, &key).map(shown);
            assert_eq!(found.as_ref(), open.contents.get(&(db, key)), "view {}", open.id);
            open.cursor = view.scan(open.db, open.cursor, 1 + at, |entry| {
                let twice = open.walked.insert((open.db, entry.key().to_vec()), shown(entry));
                assert!(twice.is_none(), "met once");
            });
            if open.cursor == 0 {
                let of_db = open.contents.iter().filter(|((db, _), _)| *db == open.db);
                assert!(open.walked.iter().eq(of_db), "a walk meets all");
                open.walked.clear();
                open.db = (open.db + 1) % DBS;
            }
        }

        fn step(&mut self) {
            match self.random.below(40) {
                0 if self.views.len() < VIEWS_MAX => self.open(),
                1 if self.views.len() > 1 => {
                    let at = self.random.below(self.views.len());
                    let closed = self.views.remove(at).id;
                    assert!(self.keyspace.close_view(closed) && !self.keyspace.close_view(closed));
                    assert!(self.keyspace.view(closed).is_none());
                }
                2..14 if !self.views.is_empty() => self.look(),
                20 if self.read_views.len() < VIEWS_MAX => self.open_for_others(),
                21 if self.read_views.len() > 1 => {
                    let at = self.random.below(self.read_views.len());
                    drop(self.read_views.remove(at));
                }
                22 if !self.read_views.is_empty() => self.look_as_another(),
                14..20 => drop(self.keyspace.tend()),
                _ => self.change(),
            }
        }

        fn end(mut self) {
            self.image = None;
            if self.beside.is_some() {
                self.beside();
            }
            for open in &self.views {
                assert!(self.keyspace.close_view(open.id));
            }
            self.read_views.clear();
            self.keyspace.wait_image();
            while self.keyspace.tend() {}
            let stats = self.keyspace.stats();
            assert_eq!((stats.view_entries, stats.view_bytes), (0, 0), "closed views keep nothing");
            assert_eq!(self.keyspace.read_views(), 0);
        }
    }

    fn views_are_right(steps: usize) {
        let mut run = Run::new();
        (0..steps).for_each(|_| run.step());
        run.end();
    }

    /// Whether the mistake of now is not found.
    pub(crate) fn is_right() -> bool {
        catch_unwind(AssertUnwindSafe(|| views_are_right(20_000))).is_ok()
    }

    #[test]
    fn views_show_their_instant() {
        views_are_right(sized(60_000, 200));
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes many steps")]
    fn every_mutant_is_found() {
        for &mutant in Mutant::ALL.iter().filter(|mutant| mutant.is_chosen()) {
            assert!(!with_mutant(mutant, is_right), "{mutant:?}");
        }
    }
}
