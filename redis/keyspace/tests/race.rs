//! Two keys always written together are equal in every image, and what an image sees stays as it is
//! while the writer works at full speed.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::sync::Arc;
use std::sync::mpsc::channel;

use common::{Collect, Contents, Manner, Random, can_image, create, digest, sized};
use stillframe::algorithms::imprint::Imprint;
use stillframe::{Algorithm, Point, SinkError};
use stillframe_keyspace::{Entry, EntrySink, Expire, Keyspace, ReadView, ScanError};

/// Looks at every entry twice, and counts them.
struct Stare(Collect, usize);

impl EntrySink for Stare {
    fn entry(&mut self, db: usize, entry: &Entry) -> Result<(), SinkError> {
        let before = digest(entry.value());
        self.1 += 1;
        if self.1.is_multiple_of(32) {
            std::thread::yield_now();
        }
        self.0.entry(db, entry)?;
        if digest(entry.value()) != before {
            return Err(SinkError::new(format_args!("an entry changed while it was looked at")));
        }
        Ok(())
    }
    fn finish(&mut self) -> Result<(), SinkError> {
        self.0.finish()
    }
}

/// Writes both keys of a pair in the same way, by the pair's kind.
fn write<A: Algorithm>(keyspace: &mut Keyspace<A>, pair: usize, stamp: u64) {
    let text = format!("{stamp:020}");
    for side in [b'a', b'b'] {
        let mut key = vec![side];
        key.extend(pair.to_string().bytes());
        match pair % 11 {
            0 => keyspace.set_int(0, &key, stamp as i64, Expire::Keep).unwrap(),
            1 => keyspace.set(0, &key, text.as_bytes(), Expire::Never).unwrap(),
            2 => drop(keyspace.set_range(0, &key, 80, text.as_bytes()).unwrap()),
            3 => drop(keyspace.set_range(0, &key, 5000, text.as_bytes()).unwrap()), // a blob
            4 => drop(keyspace.append(0, &key, &text.as_bytes()[12..]).unwrap()),
            5 => {
                keyspace.remove(0, &key);
                keyspace.set(0, &key, text.as_bytes(), Expire::At(stamp as i64)).unwrap();
            }
            6 => {
                keyspace.set_int(0, &key, 1, Expire::Keep).unwrap();
                keyspace.set_expire(0, &key, Some(stamp as i64));
            }
            kind => write_collection(keyspace, &key, kind, stamp),
        }
        // What grows starts anew now and then.
        if pair % 11 == 4 && stamp.is_multiple_of(97) {
            keyspace.remove(0, &key);
        }
    }
}

/// One element of a collection in, and beyond some size one out.
fn write_collection<A: Algorithm>(keyspace: &mut Keyspace<A>, key: &[u8], kind: usize, stamp: u64) {
    let len_max = if stamp.is_multiple_of(2) { 200 } else { 60 }; // either side of small
    let number = stamp.wrapping_mul(0x9e37_79b9) % 1000;
    let (member, text) = (format!("member:{number}"), format!("{stamp:030}"));
    let (member, text) = (member.as_bytes(), text.as_bytes());
    match kind {
        7 => keyspace.edit_list(0, key, |list| {
            list.push_front(text);
            if list.len() > len_max {
                list.pop_back();
                list.set(number as usize % list.len(), text);
            }
        }),
        8 => keyspace.edit_hash(0, key, |hash| {
            let far = i64::MAX / 2 + stamp as i64;
            hash.set_until(member, text, stamp.is_multiple_of(3).then_some(far));
            if hash.view().len() > len_max {
                let other = hash.view().at(number as usize % len_max).unwrap().0.to_vec();
                hash.remove(&other);
            }
        }),
        9 => keyspace.edit_set(0, key, |set| {
            set.insert(member);
            if set.view().len() > len_max {
                let other = set.view().at(number as usize % len_max).unwrap().to_vec();
                set.remove(&other);
            }
        }),
        _ => keyspace.edit_sorted(0, key, |sorted| {
            sorted.set(member, stamp as f64);
            if sorted.view().len() > len_max {
                sorted.remove_range(number as usize % len_max, 2);
            }
        }),
    }
    .unwrap();
}

fn check(contents: &Contents) -> usize {
    let mut pairs = 0;
    for ((db, key), value) in contents.iter().filter(|((_, key), _)| key[0] == b'a') {
        let mut other = key.clone();
        other[0] = b'b';
        assert_eq!(contents.get(&(*db, other)), Some(value), "a torn pair");
        pairs += 1;
    }
    assert_eq!(pairs * 2, contents.len());
    pairs
}

fn pairs_are_equal<A: Algorithm>() {
    if !can_image::<A>() {
        return;
    }
    let mut random = Random::seeded(A::INFO.name);
    let mut keyspace = create::<A>();
    let pairs = sized(220, 22);
    let (sender, receiver) = channel::<Result<Contents, String>>();
    let (mut stamp, mut images, mut seen) = (1, 0, 0);
    while images < sized(12, 3) {
        write(&mut keyspace, random.below(pairs), stamp);
        stamp += 1;
        if stamp % 16 == 0 {
            keyspace.tend();
        }
        if stamp % 64 == 0 && !keyspace.saving() {
            let sender = sender.clone();
            let publish = move |sink: &mut Stare, result: Result<_, _>| {
                let result: Result<_, stillframe::CaptureError> = result;
                let contents = result.map(|_| sink.0.take()).map_err(|error| error.to_string());
                let _ = sender.send(contents);
            };
            let sink = Stare(Collect::new::<A>(Manner::Fast), 0);
            keyspace.snapshot(Point::declare(), sink, publish).unwrap();
        }
        if let Ok(contents) = receiver.try_recv() {
            seen += check(&contents.unwrap());
            images += 1;
        }
        if random.one_in(sized(10_000, 100)) {
            keyspace.wait_image(); // a busy machine gives the snapshotter little time
        }
    }
    assert!(seen > 0);
    println!("{stamp} writes, {images} images, {seen} pairs");
}

/// Reads a view again and again, by two threads that share out its slots: it stays as it is.
fn stare(view: &ReadView<Imprint>) -> Result<Contents, ScanError> {
    let read = |slots: std::ops::Range<usize>| {
        let mut sink = Stare(Collect::new::<Imprint>(Manner::Fast), 0);
        view.scan(slots, &mut sink).map(|()| sink.0.take())
    };
    let half = view.slots() / 2;
    let mut first = None;
    for _ in 0..3 {
        let found = std::thread::scope(|scope| {
            let other = scope.spawn(|| read(half..view.slots()));
            let mut found = read(0..half)?;
            found.extend(other.join().expect("no panic")?);
            Ok::<_, ScanError>(found)
        })?;
        assert_eq!(*first.get_or_insert_with(|| found.clone()), found, "the view has changed");
    }
    Ok(first.unwrap_or_default())
}

/// Views that other threads read, beside images, while the writer goes on; some are given up.
#[test]
fn pairs_are_equal_in_views_that_others_read() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let mut random = Random::seeded("read views");
    let mut keyspace = create::<Imprint>();
    let (pairs, wanted) = (sized(220, 22), sized(40, 3));
    let (sender, receiver) = channel::<Result<Contents, ScanError>>();
    let (mut stamp, mut ended, mut seen, mut lost, mut reading) = (1, 0, 0, 0, 0);
    while ended < wanted {
        write(&mut keyspace, random.below(pairs), stamp);
        stamp += 1;
        if stamp % 16 == 0 {
            keyspace.tend();
        }
        if stamp % 64 == 0 && reading < 3 && !random.one_in(4) {
            let view = keyspace.read_view(Point::declare(), 0, Arc::new(|| ())).unwrap();
            let sender = sender.clone();
            std::thread::spawn(move || sender.send(stare(&view)));
            reading += 1;
        }
        if stamp % 64 == 32 && !keyspace.saving() {
            let sink = Collect::new::<Imprint>(Manner::Fast);
            keyspace.snapshot(Point::declare(), sink, |_, _| ()).unwrap();
        }
        if random.one_in(sized(3_000, 200)) {
            keyspace.give_up_read_view();
        }
        if let Ok(read) = receiver.try_recv() {
            (ended, reading) = (ended + 1, reading - 1);
            match read {
                Ok(contents) => seen += check(&contents),
                Err(ScanError::Lost(_)) => lost += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    drop(keyspace); // while some are read
    for read in receiver.iter().take(reading) {
        assert!(matches!(read, Ok(_) | Err(ScanError::Lost(_))), "{read:?}");
    }
    assert!(seen > 0);
    println!("{stamp} writes, {ended} views, {lost} of them given up, {seen} pairs");
}

macro_rules! tests {
    ($($module:ident::$algorithm:ident { $($facts:tt)* })*) => {$(
        #[test]
        fn $module() {
            let _watchdog = stillframe_peers::Watchdog::start();
            pairs_are_equal::<stillframe::algorithms::$module::$algorithm>();
        }
    )*};
}
stillframe::for_each_algorithm!(core tests);
