//! Deliberate mistakes in the memory model, and the test that must find each one.
//!
//! A normal build makes none: [`Mutant::is_made`] is then the constant `false`. What a mistake
//! frees too early is overwritten with a pattern and kept, so that the test sees it without
//! touching freed memory. (A leak and a double free need no mutant: the counting allocator of
//! `tests/memory.rs` and Miri see them.)

stillframe::mutants! {
    pub(crate) when test;

    /// A replaced entry is freed though the image has still to read it.
    FreesAtOnce,
    /// An entry is changed in place though the image has still to read it.
    ChangesInPlace,
    /// Limbo is released before the capture has passed.
    ReleasesEarly,
    /// A range of limbo is released when the capture has passed part of it.
    ReleasesPart,
    /// The slot that the capture comes to next counts as captured.
    SeesOneSlotLess,
    /// A value is overwritten in a node of a tree that the image holds too.
    OverwritesShared,
    /// Entries move to other memory though the image has still to read them.
    MovesWhatIsSeen,
    /// An image shows the entries of databases cleared before it.
    ShowsCleared,
}

#[cfg(test)]
pub(crate) use tests::shared_mut;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::{Duration, Instant};

    use stillframe::{Algorithm, CaptureError, Point, SinkError};

    use super::{Mutant, with_mutant};
    use crate::{
        DATABASES, Defragmentation, Entry, EntrySink, Expire, IntText, Keyspace, KeyspaceOptions,
        Value,
    };

    /// A mistake that safe code cannot make: the caller knows that nobody reads it now.
    pub(crate) fn shared_mut<T>(shared: &mut Arc<T>) -> &mut T {
        // SAFETY: it is alive; that others hold it too is the mistake.
        unsafe { &mut *Arc::as_ptr(shared).cast_mut() }
    }

    type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

    /// Collects an image, each entry on request.
    struct Gated {
        gate: Receiver<()>,
        contents: Contents,
    }

    impl EntrySink for Gated {
        fn entry(&mut self, _db: usize, entry: &Entry) -> Result<(), SinkError> {
            let _ = self.gate.recv(); // one more, or gone and thereby open
            self.contents.insert(entry.key().to_vec(), shown(entry));
            Ok(())
        }
    }

    /// A text as it is, or the elements of a collection: to print them takes Miri minutes.
    fn shown(entry: &Entry) -> Vec<u8> {
        let elements: Vec<&[u8]> = match entry.value() {
            Value::List(list) => list.iter_from(0).collect(),
            Value::Hash(hash) => hash.iter().flat_map(|(field, value)| [field, value]).collect(),
            Value::Set(set) => set.iter().collect(),
            Value::Sorted(set) => {
                let score = |member| set.score(member).unwrap_or(-1.0) as u8;
                let members = set.iter_from(0);
                return members.flat_map(|(name, _)| [name, &[score(name)]].concat()).collect();
            }
            text => return text.to_bytes(&mut IntText::default()).to_vec(),
        };
        elements.join(&b'|')
    }

    type Ended = Receiver<Result<Contents, CaptureError>>;

    fn begin<A: Algorithm>(keyspace: &mut Keyspace<A>) -> (Sender<()>, Ended) {
        let (opener, gate) = channel();
        let (sender, receiver) = channel();
        let publish = move |sink: &mut Gated, ended: Result<_, _>| {
            let contents = std::mem::take(&mut sink.contents);
            let _ = sender.send(ended.map(|_: stillframe::CaptureReport| contents));
        };
        let sink = Gated { gate, contents: Contents::new() };
        keyspace.snapshot(Point::declare(), sink, publish).unwrap();
        (opener, receiver)
    }

    /// Words of a block of the library.
    const BLOCK: usize = stillframe::BLOCK_WORDS;

    /// Lets the image take the entries below slot `slots`, all in use, a multiple of the blocks.
    fn pass<A: Algorithm>(keyspace: &Keyspace<A>, gate: &Sender<()>, slots: usize) {
        let started = Instant::now();
        let passed = keyspace.progress().captured_words();
        (passed..slots).for_each(|_| gate.send(()).unwrap());
        while keyspace.progress().captured_words() < slots {
            assert!(started.elapsed() < Duration::from_secs(300), "the capture stands still");
            std::thread::yield_now();
        }
    }

    fn key(number: usize) -> Vec<u8> {
        format!("key:{number}").into_bytes()
    }

    /// Keys of the keyspace. Miri is slow: each kind of key and change comes up a few times still.
    const KEYS: usize = if cfg!(miri) { 16 } else { 60 };
    /// Enough that a range of limbo is larger than a block, and there are several.
    const MANY_KEYS: usize = 5000;
    const RANGE: usize = 2 * BLOCK;
    /// Elements that a change adds to a collection.
    const MORE: usize = if cfg!(miri) { 2 } else { 5 };

    /// Keys with texts of many lengths.
    fn fill_texts<A: Algorithm>(keyspace: &mut Keyspace<A>, keys: usize) {
        for number in 0..keys {
            let text = [b'v'; 10].repeat(1 + number % 7 * (number % 2) * 100);
            keyspace.set(0, &key(number), &text, Expire::Never).unwrap();
        }
    }

    fn change_texts<A: Algorithm>(keyspace: &mut Keyspace<A>, number: usize) {
        match number % 4 {
            0 => drop(keyspace.remove(0, &key(number))),
            1 => drop(keyspace.set_range(0, &key(number), 0, b"xxx").unwrap()),
            2 => drop(keyspace.append(0, &key(number), b"yyy").unwrap()),
            _ => keyspace.set(0, &key(number), &[b'z'; 10], Expire::Never).unwrap(),
        }
    }

    /// Elements of collection `number`.
    fn elements(number: usize) -> usize {
        let (small, large) = if cfg!(miri) { (2, 9) } else { (10, 200) };
        if number % 8 < 4 { small } else { large }
    }

    /// Keys with small and large collections of all types.
    fn fill_collections<A: Algorithm>(keyspace: &mut Keyspace<A>, keys: usize) {
        for number in 0..keys {
            let key = key(number);
            (0..elements(number)).for_each(|element| insert(keyspace, number, element, &key));
        }
    }

    /// Puts an element in; the value of a hash's field and the score of a member are by `value`.
    fn insert<A: Algorithm>(
        keyspace: &mut Keyspace<A>,
        number: usize,
        element: usize,
        value: &[u8],
    ) {
        let (key, member) = (key(number), element.to_string().into_bytes());
        let score = f64::from(value[0]);
        match number % 4 {
            0 => keyspace.edit_list(0, &key, |list| list.push_front(&member)).unwrap(),
            1 => drop(keyspace.edit_hash(0, &key, |hash| hash.set(&member, value)).unwrap()),
            2 => drop(keyspace.edit_set(0, &key, |set| set.insert(&member)).unwrap()),
            _ => drop(keyspace.edit_sorted(0, &key, |set| set.set(&member, score)).unwrap()),
        }
    }

    fn change_collections<A: Algorithm>(keyspace: &mut Keyspace<A>, number: usize) {
        let name = key(number);
        match number / 4 % 4 {
            0 => drop(keyspace.remove(0, &name)),
            1 => drop(keyspace.rename(0, &name, 0, &key(number + 1)).unwrap()),
            _ => (0..MORE).for_each(|new| insert(keyspace, number, 1000 + new, &name)),
        }
    }

    /// Puts values of the same length in the place of those of hashes and sorted sets.
    fn change_values<A: Algorithm>(keyspace: &mut Keyspace<A>, number: usize) {
        let value: Vec<u8> = key(number).into_iter().rev().collect();
        if !number.is_multiple_of(2) {
            (0..elements(number)).for_each(|old| insert(keyspace, number, old, &value));
        }
    }

    /// What an image is taken of, how many slots it has passed when changes begin, and the changes.
    struct Case<A: Algorithm> {
        keys: usize,
        passed: usize,
        fill: fn(&mut Keyspace<A>, usize),
        change: fn(&mut Keyspace<A>, usize),
    }

    fn texts<A: Algorithm>() -> Case<A> {
        Case { keys: KEYS, passed: 0, fill: fill_texts, change: change_texts }
    }

    fn collections<A: Algorithm>() -> Case<A> {
        Case { fill: fill_collections, change: change_collections, ..texts() }
    }

    fn values<A: Algorithm>() -> Case<A> {
        Case { change: change_values, ..collections() }
    }

    /// All entries move at once.
    fn moving<A: Algorithm>() -> Case<A> {
        let change: fn(&mut Keyspace<A>, usize) = |keyspace, number| {
            if number == 0 {
                keyspace.defragment(&mut Defragmentation::default(), KEYS, &|_| true);
            }
        };
        Case { change, ..texts() }
    }

    /// Stopped at the first slot of a block, in the middle of a range of limbo.
    fn half_a_range<A: Algorithm>() -> Case<A> {
        Case { keys: MANY_KEYS, passed: RANGE + BLOCK, ..texts() }
    }

    fn create<A: Algorithm>() -> Keyspace<A> {
        // Miri makes every word of them.
        let (max_keys, budget_bytes) =
            if cfg!(miri) { (1 << 8, 1 << 16) } else { (1 << 13, 1 << 20) };
        let options = KeyspaceOptions { max_keys, budget_bytes, ..KeyspaceOptions::default() };
        Keyspace::create(&options).unwrap()
    }

    /// Whether an image taken while everything changes is what it should be.
    fn image_is_whole<A: Algorithm>(case: &Case<A>) -> bool {
        let mut keyspace = create::<A>();
        (case.fill)(&mut keyspace, case.keys);
        keyspace.set(1, b"cleared", b"before", Expire::Never).unwrap();
        keyspace.clear(1);
        let mut expected = Contents::new();
        for db in 0..DATABASES {
            keyspace.for_each(db, 0, |entry| {
                expected.insert(entry.key().to_vec(), shown(entry));
            });
        }
        let (gate, ended) = begin(&mut keyspace);
        pass(&keyspace, &gate, case.passed);
        for number in 0..case.keys {
            (case.change)(&mut keyspace, number);
            if number % KEYS == 0 || number < KEYS {
                keyspace.tend();
            }
        }
        drop(gate);
        // A reader may also stumble over what a mistake has left.
        ended.recv().unwrap().is_ok_and(|contents| contents == expected)
    }

    /// What leaves slots of several ranges stays in limbo until the capture has passed the range,
    /// and no longer.
    fn ranges_leave_one_by_one<A: Algorithm>() {
        let mut keyspace = create::<A>();
        fill_texts(&mut keyspace, MANY_KEYS);
        let (gate, ended) = begin(&mut keyspace);
        for number in 0..MANY_KEYS {
            keyspace.set(0, &key(number), b"new", Expire::Never).unwrap();
        }
        let mut bytes = usize::MAX;
        for passed in (0..4 * RANGE).step_by(BLOCK) {
            pass(&keyspace, &gate, passed);
            keyspace.tend();
            let stats = keyspace.stats();
            assert_eq!(stats.limbo_entries, MANY_KEYS - passed / RANGE * RANGE, "at {passed}");
            let is_start = passed.is_multiple_of(RANGE);
            assert_eq!(stats.limbo_bytes < bytes, is_start, "bytes leave with their entries");
            bytes = stats.limbo_bytes;
        }
        drop(gate);
        let contents = ended.recv().unwrap().unwrap();
        assert!(contents.len() == MANY_KEYS && contents.values().all(|text| text[0] == b'v'));
        keyspace.wait_image();
        assert_eq!((keyspace.stats().limbo_entries, keyspace.stats().limbo_bytes), (0, 0));
    }

    macro_rules! tests {
        ($($module:ident::$algorithm:ident { $($facts:tt)* })*) => {$(
            #[allow(non_snake_case, reason = "named as the type")]
        mod $algorithm {
                use super::*;
                use stillframe::algorithms::$module::$algorithm;

                // The sink allocates and waits for a lock: not for a forked child.

                #[test]
                fn an_image_is_whole() {
                    let cases: [Case<$algorithm>; 4] =
                        [texts(), collections(), values(), moving()];
                    for case in cases.iter().filter(|_| $algorithm::INFO.in_process) {
                        assert!(image_is_whole(case));
                    }
                }

                #[test]
                #[cfg_attr(miri, ignore = "thousands of keys")]
                fn limbo_releases_range_by_range() {
                    if $algorithm::INFO.in_process {
                        assert!(image_is_whole::<$algorithm>(&half_a_range()));
                        ranges_leave_one_by_one::<$algorithm>();
                    }
                }

                #[test]
                #[cfg_attr(miri, ignore = "the mistakes are undefined behaviour, as Miri says")]
                fn every_mutant_is_found() {
                    use Mutant::*;
                    type Make = fn() -> Case<$algorithm>;
                    let all: [(Mutant, &[Make]); 8] = [
                        (FreesAtOnce, &[texts, collections]),
                        (ChangesInPlace, &[texts, collections]),
                        (ReleasesEarly, &[texts, collections]),
                        (ReleasesPart, &[half_a_range]),
                        (SeesOneSlotLess, &[half_a_range, texts]),
                        (OverwritesShared, &[values]),
                        (MovesWhatIsSeen, &[moving]),
                        (ShowsCleared, &[texts, collections]),
                    ];
                    assert_eq!(all.map(|(mutant, _)| mutant), Mutant::ALL, "each has cases");
                    for (mutant, cases) in all.iter().filter(|_| $algorithm::INFO.in_process) {
                        if !mutant.is_chosen() {
                            continue;
                        }
                        for case in *cases {
                            let is_whole = with_mutant(*mutant, || image_is_whole(&case()));
                            assert!(!is_whole, "{mutant:?}");
                        }
                    }
                }
            }
        )*};
    }
    stillframe::for_each_algorithm!(core tests);
}
