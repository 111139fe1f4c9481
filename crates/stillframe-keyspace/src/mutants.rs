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
    use crate::{Entry, EntrySink, Expire, IntText, Keyspace, KeyspaceOptions};

    type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

    /// Collects an image, but starts only when told.
    struct Gated {
        gate: Receiver<()>,
        contents: Contents,
    }

    impl EntrySink for Gated {
        fn entry(&mut self, entry: &Entry) -> Result<(), SinkError> {
            let _ = self.gate.recv(); // open, or gone and thereby open
            let mut text = IntText::default();
            let text = entry.value().to_bytes(&mut text).to_vec();
            self.contents.insert(entry.key().to_vec(), text);
            Ok(())
        }
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

    /// Whether an image taken while everything changes is what it should be.
    fn image_is_whole<A: Algorithm>(mutant: Option<Mutant>) -> bool {
        let (max_keys, budget_bytes) = (1 << 12, 1 << 16); // Miri makes every word of them
        let options = KeyspaceOptions { max_keys, budget_bytes, ..KeyspaceOptions::default() };
        let mut keyspace = Keyspace::<A>::create(&options).unwrap();
        keyspace.slots.mutant = mutant;
        let mut expected = Contents::new();
        for number in 0..60 {
            let text = [b'v'; 10].repeat(1 + number % 7 * (number % 2) * 100);
            keyspace.set(0, &key(number), &text, Expire::Never).unwrap();
            expected.insert(key(number), text);
        }
        keyspace.set(1, b"cleared", b"before", Expire::Never).unwrap();
        keyspace.clear(1);
        let (gate, outcome) = begin(&mut keyspace);
        for number in 0..60 {
            match number % 4 {
                0 => drop(keyspace.remove(0, &key(number))),
                1 => drop(keyspace.set_range(0, &key(number), 0, b"xxx").unwrap()),
                2 => drop(keyspace.append(0, &key(number), b"yyy").unwrap()),
                _ => keyspace.set(0, &key(number), &[b'z'; 10], Expire::Never).unwrap(),
            }
            keyspace.tend();
        }
        drop(gate);
        outcome.recv().unwrap().unwrap() == expected
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
                    assert!(!$algorithm::INFO.in_process || image_is_whole::<$algorithm>(None));
                }

                #[test]
                #[cfg_attr(miri, ignore = "the mistakes are undefined behaviour, as Miri says")]
                fn every_mutant_is_found() {
                    use Mutant::*;
                    let all = [FreesAtOnce, ChangesInPlace, ReleasesEarly, ShowsCleared];
                    for mutant in all.into_iter().filter(|_| $algorithm::INFO.in_process) {
                        assert!(!image_is_whole::<$algorithm>(Some(mutant)), "{mutant:?}");
                    }
                }
            }
        )*};
    }
    stillframe::for_each_algorithm!(served tests);
}
