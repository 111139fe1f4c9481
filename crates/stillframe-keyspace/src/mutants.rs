//! Deliberate mistakes in the memory model, and the test that must find each one.
//!
//! A normal build makes none of them: `Slots::is` is then the constant `false`. What a mistake
//! frees too early is overwritten with a pattern and kept, so that the test sees it without
//! touching freed memory. (A leak and a double free need no mutant: the counting allocator of
//! `tests/memory.rs` and Miri see them.)

/// A mistake that a test must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "only tests make mistakes"))]
pub(crate) enum Mutant {
    /// A replaced entry is freed though the image has still to read it.
    FreesAtOnce,
    /// An entry is changed in place though the image has still to read it.
    ChangesInPlace,
    /// Limbo is released before the capture has passed.
    ReleasesEarly,
    /// An image shows the entries of databases cleared before it.
    ShowsCleared,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use stillframe::{Algorithm, CaptureError, Point, SinkError};

    use super::Mutant;
    use crate::{DATABASES, Entry, EntrySink, Expire, IntText, Keyspace, KeyspaceOptions, Value};

    type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

    /// Collects an image, but starts only when told.
    struct Gated {
        gate: Receiver<()>,
        contents: Contents,
    }

    impl EntrySink for Gated {
        fn entry(&mut self, _db: usize, entry: &Entry) -> Result<(), SinkError> {
            let _ = self.gate.recv(); // open, or gone and thereby open
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
            Value::Sorted(set) => set.iter_from(0).map(|(member, _)| member).collect(),
            text => return text.to_bytes(&mut IntText::default()).to_vec(),
        };
        elements.join(&b'|')
    }

    type Outcome = Receiver<Result<Contents, CaptureError>>;

    fn begin<A: Algorithm>(keyspace: &mut Keyspace<A>) -> (Sender<()>, Outcome) {
        let (opener, gate) = channel();
        let (sender, receiver) = channel();
        let publish = move |sink: &mut Gated, outcome: Result<_, _>| {
            let contents = std::mem::take(&mut sink.contents);
            let _ = sender.send(outcome.map(|_: stillframe::CaptureReport| contents));
        };
        let sink = Gated { gate, contents: Contents::new() };
        keyspace.snapshot(Point::declare(), sink, publish).unwrap();
        (opener, receiver)
    }

    fn key(number: usize) -> Vec<u8> {
        format!("key:{number}").into_bytes()
    }

    /// Keys of the keyspace. Miri is slow: each kind of key and change comes up a few times still.
    const KEYS: usize = if cfg!(miri) { 16 } else { 60 };
    /// Elements that a change adds to a collection.
    const MORE: usize = if cfg!(miri) { 2 } else { 5 };

    /// Keys with texts of many lengths.
    fn fill_texts<A: Algorithm>(keyspace: &mut Keyspace<A>) {
        for number in 0..KEYS {
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

    /// Keys with small and large collections of all types.
    fn fill_collections<A: Algorithm>(keyspace: &mut Keyspace<A>) {
        for number in 0..KEYS {
            let (small, large) = if cfg!(miri) { (2, 9) } else { (10, 200) };
            let len = if number % 8 < 4 { small } else { large };
            let key = key(number);
            (0..len).for_each(|element| insert(keyspace, &key, number, element));
        }
    }

    fn insert<A: Algorithm>(keyspace: &mut Keyspace<A>, key: &[u8], number: usize, element: usize) {
        let member = element.to_string().into_bytes();
        match number % 4 {
            0 => keyspace.edit_list(0, key, |list| list.push_front(&member)).unwrap(),
            1 => drop(keyspace.edit_hash(0, key, |hash| hash.set(&member, key)).unwrap()),
            2 => drop(keyspace.edit_set(0, key, |set| set.insert(&member)).unwrap()),
            _ => drop(keyspace.edit_sorted(0, key, |set| set.set(&member, 1.0)).unwrap()),
        }
    }

    fn change_collections<A: Algorithm>(keyspace: &mut Keyspace<A>, number: usize) {
        match number / 4 % 4 {
            0 => drop(keyspace.remove(0, &key(number))),
            1 => drop(keyspace.rename(0, &key(number), 0, &key(number + 1)).unwrap()),
            _ => (0..MORE).for_each(|new| insert(keyspace, &key(number), number, 1000 + new)),
        }
    }

    type Act<A> = fn(&mut Keyspace<A>, usize);

    /// Whether an image taken while everything changes is what it should be.
    fn image_is_whole<A: Algorithm>(
        fill: fn(&mut Keyspace<A>),
        change: Act<A>,
        mutant: Option<Mutant>,
    ) -> bool {
        // Miri makes every word of them.
        let (max_keys, budget_bytes) = (if cfg!(miri) { 1 << 8 } else { 1 << 12 }, 1 << 16);
        let options = KeyspaceOptions { max_keys, budget_bytes, ..KeyspaceOptions::default() };
        let mut keyspace = Keyspace::<A>::create(&options).unwrap();
        keyspace.slots.mutant = mutant;
        fill(&mut keyspace);
        keyspace.set(1, b"cleared", b"before", Expire::Never).unwrap();
        keyspace.clear(1);
        let mut expected = Contents::new();
        for db in 0..DATABASES {
            keyspace.for_each(db, 0, |entry| {
                expected.insert(entry.key().to_vec(), shown(entry));
            });
        }
        let (gate, outcome) = begin(&mut keyspace);
        for number in 0..KEYS {
            change(&mut keyspace, number);
            keyspace.tend();
        }
        drop(gate);
        // A reader may also stumble over what a mistake has left.
        outcome.recv().unwrap().is_ok_and(|contents| contents == expected)
    }

    macro_rules! tests {
        ($($module:ident::$algorithm:ident { $($facts:tt)* })*) => {$(
            #[allow(non_snake_case, reason = "named as the type")]
        mod $algorithm {
                use super::*;
                use stillframe::algorithms::$module::$algorithm;

                #[test]
                fn an_image_is_whole() {
                    // The sink allocates and waits for a lock: not for a forked child.
                    if $algorithm::INFO.in_process {
                        assert!(image_is_whole::<$algorithm>(fill_texts, change_texts, None));
                        let change = change_collections;
                        assert!(image_is_whole::<$algorithm>(fill_collections, change, None));
                    }
                }

                #[test]
                #[cfg_attr(miri, ignore = "the mistakes are undefined behaviour, as Miri says")]
                fn every_mutant_is_found() {
                    use Mutant::*;
                    let all = [FreesAtOnce, ChangesInPlace, ReleasesEarly, ShowsCleared];
                    for mutant in all.into_iter().filter(|_| $algorithm::INFO.in_process) {
                        let fill: [fn(&mut Keyspace<_>); 2] = [fill_texts, fill_collections];
                        let change: [Act<_>; 2] = [change_texts, change_collections];
                        for (fill, change) in fill.into_iter().zip(change) {
                            let found = !image_is_whole::<$algorithm>(fill, change, Some(mutant));
                            assert!(found, "{mutant:?}");
                        }
                    }
                }
            }
        )*};
    }
    stillframe::for_each_algorithm!(served tests);
}
