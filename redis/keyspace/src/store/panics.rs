//! Panics of the caller's code: of each closure, sink and callback, at each of its calls. Totals,
//! contents and later images are right afterwards.

stillframe::mutants! {
    pub(crate) when test;

    /// An edit that panics leaves the totals of its database as they were.
    PanicLeavesBooks,
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex};

    use stillframe::algorithms::imprint::Imprint;
    use stillframe::{CaptureError, Point, SinkError};

    use super::{Mutant, with_mutant};
    use crate::{
        Branch, Choice, Defragmentation, Entry, EntrySink, Expire, IntText, Keyspace,
        KeyspaceOptions, Merit, StreamId, Type, Value,
    };

    /// Panics at a call, past the hook, which would print it.
    #[derive(Clone)]
    struct Fuse(Arc<AtomicUsize>);

    impl Fuse {
        fn new(calls: usize) -> Self {
            Self(Arc::new(AtomicUsize::new(calls)))
        }
        fn call(&self) {
            if self.0.fetch_sub(1, Ordering::Relaxed) == 1 {
                resume_unwind(Box::new("on purpose"));
            }
        }
        fn is_left(&self) -> bool {
            (1..usize::MAX / 2).contains(&self.0.load(Ordering::Relaxed))
        }
    }

    fn panics(body: impl FnOnce()) -> bool {
        catch_unwind(AssertUnwindSafe(body)).is_err()
    }

    type Contents = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

    /// Elements, without order where there is none.
    fn shown(entry: &Entry) -> Vec<Vec<u8>> {
        let mut shown: Vec<Vec<u8>> = match entry.value() {
            Value::List(list) => return list.iter_from(0).map(<[u8]>::to_vec).collect(),
            Value::Array(array) => {
                let bytes = |(index, it): (u64, &[u8])| [&index.to_be_bytes()[..], it].concat();
                let place = array.inserted().map(|index| index.to_be_bytes().to_vec());
                return array.iter_from(0).map(bytes).chain(place).collect();
            }
            Value::Hash(hash) => hash.iter().map(|(field, it)| [field, it].concat()).collect(),
            Value::Set(set) => set.iter().map(<[u8]>::to_vec).collect(),
            Value::Sorted(set) => set.iter_from(0).map(|(name, _)| name.to_vec()).collect(),
            Value::Stream(stream) => {
                stream.iter_from(0).map(|entry| entry.id.ms.to_be_bytes().to_vec()).collect()
            }
            text => vec![text.to_bytes(&mut IntText::default()).to_vec()],
        };
        shown.sort();
        shown
    }

    fn contents(keyspace: &mut Keyspace<Imprint>) -> Contents {
        let mut contents = Contents::new();
        keyspace.for_each(0, 0, |entry| drop(contents.insert(entry.key().to_vec(), shown(entry))));
        contents
    }

    /// Totals are those of the entries, and none is an empty collection, but for a stream.
    fn check(keyspace: &mut Keyspace<Imprint>) {
        let (mut bytes, mut keys) = (0, 0);
        keyspace.for_each(0, 0, |entry| {
            let may_be_empty = entry.value().kind() == Type::Stream;
            assert!(may_be_empty || !shown(entry).is_empty(), "{entry:?}");
            (bytes, keys) = (bytes + entry.memory_bytes(), keys + 1);
        });
        assert_eq!((keyspace.data_bytes(), keyspace.len(0)), (bytes, keys));
    }

    const SMALL: usize = 3;
    const LARGE: usize = 300;
    const KINDS: usize = 6;
    /// The kind that has no small form.
    const STREAM: usize = 4;

    fn key(kind: usize, len: usize) -> Vec<u8> {
        format!("{kind}:{len}").into_bytes()
    }

    fn member(number: usize) -> Vec<u8> {
        format!("member {number:04}").into_bytes()
    }

    fn number(member: &[u8]) -> u64 {
        let digits = std::str::from_utf8(&member[member.len() - 4..]).expect("a number");
        digits.parse().expect("a number")
    }

    /// The id of a member's entry in a stream.
    fn id(member: &[u8]) -> StreamId {
        StreamId { ms: 1 + number(member), seq: 0 }
    }

    /// The index of a member in an array, far from the next.
    fn index(member: &[u8]) -> u64 {
        17 * number(member)
    }

    /// Puts elements in, or takes all of them out; `between` is called before each.
    fn edit(
        keyspace: &mut Keyspace<Imprint>,
        kind: usize,
        key: &[u8],
        elements: std::ops::Range<usize>,
        adds: bool,
        between: impl Fn(),
    ) {
        let after_all = std::iter::once_with(|| {
            between();
            None
        });
        let members = elements.map(|number| {
            between();
            Some(member(number))
        });
        let members = members.chain(after_all).flatten();
        let edited = match (kind, adds) {
            (0, true) => keyspace.edit_list(0, key, |it| members.for_each(|m| it.push_back(&m))),
            (0, false) => keyspace.edit_list(0, key, |it| members.for_each(|_| _ = it.pop_front())),
            (1, true) => {
                keyspace.edit_hash(0, key, |it| members.for_each(|m| _ = it.set(&m, b"v")))
            }
            (1, false) => keyspace.edit_hash(0, key, |it| members.for_each(|m| _ = it.remove(&m))),
            (2, true) => keyspace.edit_set(0, key, |it| members.for_each(|m| _ = it.insert(&m))),
            (2, false) => keyspace.edit_set(0, key, |it| members.for_each(|m| _ = it.remove(&m))),
            (3, true) => {
                keyspace.edit_sorted(0, key, |it| members.for_each(|m| _ = it.set(&m, 1.0)))
            }
            (3, false) => {
                keyspace.edit_sorted(0, key, |it| members.for_each(|m| _ = it.remove(&m)))
            }
            (STREAM, true) => keyspace.edit_stream(0, key, |it| {
                members.for_each(|m| _ = it.add(id(&m), [(&b"field"[..], &m[..])].into_iter()));
            }),
            (STREAM, false) => {
                keyspace.edit_stream(0, key, |it| members.for_each(|m| _ = it.delete(id(&m))))
            }
            (_, true) => keyspace.edit_array(0, key, |it| {
                members.for_each(|m| {
                    it.set(index(&m), &m);
                    it.set_inserted(Some(index(&m)));
                });
            }),
            (_, false) => keyspace.edit_array(0, key, |it| {
                members.for_each(|m| _ = it.remove(index(&m), index(&m)));
            }),
        };
        edited.expect("there is memory");
    }

    fn filled() -> Keyspace<Imprint> {
        let options = KeyspaceOptions { max_keys: 1 << 8, ..KeyspaceOptions::default() };
        let mut keyspace = Keyspace::create(&options).expect("memory");
        for kind in 0..KINDS {
            for len in [SMALL, LARGE] {
                edit(&mut keyspace, kind, &key(kind, len), 0..len, true, || ());
            }
        }
        keyspace.set(0, b"text", &[b't'; 900], Expire::Never).expect("memory");
        keyspace
    }

    /// Takes images; `fuse` is called at each call.
    struct Copy {
        fuse: Fuse,
        contents: Contents,
    }

    impl EntrySink for Copy {
        fn entry(&mut self, _: usize, entry: &Entry) -> Result<(), SinkError> {
            self.fuse.call();
            self.contents.insert(entry.key().to_vec(), shown(entry));
            Ok(())
        }
        fn finish(&mut self) -> Result<(), SinkError> {
            self.fuse.call();
            Ok(())
        }
    }

    /// An image, whose sink and publisher call the fuse.
    fn image(keyspace: &mut Keyspace<Imprint>, fuse: &Fuse) -> Option<Contents> {
        let (sender, receiver) = channel();
        let theirs = fuse.clone();
        let publish = move |sink: &mut Copy, captured: Result<_, CaptureError>| {
            theirs.call();
            let contents = std::mem::take(&mut sink.contents);
            let _ = sender.send(captured.ok().map(|_| contents));
        };
        let sink = Copy { fuse: fuse.clone(), contents: Contents::new() };
        keyspace.snapshot(Point::declare(), sink, publish).expect("none is under way");
        keyspace.wait_image();
        receiver.recv().ok().flatten()
    }

    /// Edits of each kind that panic after each of their steps, beside an image or not.
    fn edits_that_panic(beside_image: bool) {
        for kind in 0..KINDS {
            for (len, adds) in [(SMALL, true), (LARGE, true), (SMALL, false), (LARGE, false)] {
                let name = key(kind, len);
                let elements = if adds { len..len + 9 } else { 0..len };
                let steps: Vec<usize> = match adds || len == SMALL {
                    true => (1..=elements.len() + 1).collect(),
                    false => vec![1, 2, len / 2, len - 1, len, len + 1],
                };
                for step in steps {
                    let mut keyspace = filled();
                    let (before, gate) = (contents(&mut keyspace), Arc::new(Mutex::new(())));
                    let (held, theirs) = (gate.lock().expect("nobody panics"), Arc::clone(&gate));
                    if beside_image {
                        let expected = before.clone();
                        let sink = Copy { fuse: Fuse::new(0), contents: Contents::new() };
                        let publish = move |sink: &mut Copy, _| {
                            let _open = theirs.lock();
                            assert!(sink.contents == expected, "the image is whole");
                        };
                        keyspace.snapshot(Point::declare(), sink, publish).expect("it begins");
                    }
                    let fuse = Fuse::new(step);
                    let ended = panics(|| {
                        edit(&mut keyspace, kind, &name, elements.clone(), adds, || fuse.call());
                    });
                    assert!(ended, "step {step} panics");
                    check(&mut keyspace);
                    let mut expected = before.clone();
                    let found = contents(&mut keyspace);
                    match found.get(&name) {
                        Some(found) => drop(expected.insert(name.clone(), found.clone())),
                        None => drop(expected.remove(&name)),
                    }
                    assert!(found == expected, "only {name:?} changes");
                    if len == SMALL && kind != STREAM {
                        assert!(found == before, "a small collection is as it was");
                    }
                    edit(&mut keyspace, kind, &name, 900..903, true, || ());
                    check(&mut keyspace);
                    drop(held);
                    keyspace.wait_image();
                    let now = contents(&mut keyspace);
                    assert!(image(&mut keyspace, &Fuse::new(0)) == Some(now), "the next is whole");
                    keyspace.clear_all();
                    while keyspace.tend() {}
                    assert_eq!(keyspace.data_bytes(), 0);
                }
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes many steps")]
    fn edits_that_panic_leave_right_totals_and_images() {
        edits_that_panic(false);
        edits_that_panic(true);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes many steps")]
    fn every_mutant_is_found() {
        for &mutant in Mutant::ALL {
            let run = || panics(|| edits_that_panic(false));
            assert!(with_mutant(mutant, run), "{mutant:?}");
        }
    }

    /// Fields of a stream's entry come from the caller's iterator.
    #[test]
    fn iterators_of_fields_may_panic_at_any_call() {
        for call in 1.. {
            let (mut keyspace, fuse) = (filled(), Fuse::new(call));
            let (name, before) = (key(STREAM, LARGE), contents(&mut keyspace));
            let fields = [(&b"a"[..], &b"1"[..]), (&b"other"[..], &b"text"[..])];
            let ended = panics(|| {
                let edited = keyspace.edit_stream(0, &name, |it| {
                    let burns = |_: &(_, _)| fuse.call();
                    let names = fields.into_iter().inspect(burns).map(|(_, name)| name);
                    let names = it.keep_names(names);
                    it.add_named(id(&member(900)), names, fields.into_iter().inspect(burns));
                    it.add(id(&member(901)), fields.into_iter().inspect(burns));
                });
                edited.expect("memory");
            });
            check(&mut keyspace);
            if !ended {
                break;
            }
            let mut expected = before;
            let found = contents(&mut keyspace);
            let added = found[&name].len() - expected[&name].len();
            assert!(added < 2, "the entry whose fields panic is not there");
            expected.insert(name.clone(), found[&name].clone());
            assert!(found == expected, "only {name:?} changes");
            edit(&mut keyspace, STREAM, &name, 910..913, true, || ());
            check(&mut keyspace);
            let now = contents(&mut keyspace);
            assert!(image(&mut keyspace, &Fuse::new(0)) == Some(now), "after call {call}");
        }
    }

    #[test]
    fn sinks_and_publishers_that_panic_at_any_call_harm_no_later_image() {
        let _watchdog = stillframe_peers::Watchdog::start();
        let mut keyspace = filled();
        for call in 1.. {
            let fuse = Fuse::new(call);
            let taken = image(&mut keyspace, &fuse);
            let expected = contents(&mut keyspace);
            if fuse.is_left() {
                assert!(taken == Some(expected));
                break;
            }
            assert!(taken.is_none(), "call {call} panics");
            keyspace.set(0, &member(call), b"value", Expire::Never).expect("memory");
            let now = contents(&mut keyspace);
            assert!(image(&mut keyspace, &Fuse::new(0)) == Some(now), "after call {call}");
            while keyspace.tend() {}
            assert_eq!((keyspace.stats().limbo_entries, keyspace.stats().limbo_bytes), (0, 0));
            keyspace.remove(0, &member(call));
        }
    }

    /// Images that are read from a view, whose sink, publisher and wake panic.
    #[test]
    fn images_beside_another_end_whatever_panics() {
        let _watchdog = stillframe_peers::Watchdog::start();
        for call in 1..60 {
            let mut keyspace = filled();
            let (gate, open) = channel::<()>();
            let hold = move |_: &mut Copy, _| _ = open.recv();
            let sink = Copy { fuse: Fuse::new(0), contents: Contents::new() };
            keyspace.snapshot(Point::declare(), sink, hold).expect("none is under way");
            let fuse = Fuse::new(call);
            let (wakes, publishes) = (fuse.clone(), fuse.clone());
            let sink = Copy { fuse: fuse.clone(), contents: Contents::new() };
            let publish = move |_: &mut Copy, _| publishes.call();
            let wake = Arc::new(move || wakes.call());
            let beside = keyspace.image(Point::declare(), sink, wake, publish).expect("a thread");
            keyspace.set(0, b"text", b"other", Expire::Never).expect("memory");
            keyspace.wait_for(beside);
            drop(gate);
            keyspace.wait_image();
            check(&mut keyspace);
            while keyspace.tend() {}
            assert_eq!((keyspace.stats().limbo_entries, keyspace.stats().view_entries), (0, 0));
            let now = contents(&mut keyspace);
            assert!(image(&mut keyspace, &Fuse::new(0)) == Some(now), "after call {call}");
        }
    }

    #[test]
    fn closures_that_read_may_panic_at_any_call() {
        let mut keyspace = filled();
        let before = contents(&mut keyspace);
        keyspace.open_view(1, 0);
        for call in 1..=before.len() {
            let (fuse, draws) = (Fuse::new(call), Cell::new(call));
            let mut random = || {
                draws.set(draws.get() - 1);
                if draws.get() == 0 {
                    resume_unwind(Box::new("on purpose"));
                }
                0
            };
            assert!(panics(|| _ = keyspace.scan(0, 0, 100, 0, |_| fuse.call())));
            let fuse = Fuse::new(call);
            assert!(panics(|| keyspace.for_each(0, 0, |_| fuse.call())));
            assert!(panics(|| (0..call).for_each(|_| _ = keyspace.random(0, 0, &mut random))));
            let (view, fuse) = (keyspace.view(1).expect("it is open"), Fuse::new(call));
            assert!(panics(|| _ = view.scan(0, 0, 100, |_| fuse.call())));
            let (branch, fuse) = (Branch::default(), Fuse::new(call));
            assert!(panics(|| _ = branch.scan(&view, 0, 0, 100, 0, |_| fuse.call())));
            let fuse = Fuse::new(call);
            assert!(panics(|| branch.for_each(&view, 0, 0, |_| fuse.call())));
        }
        keyspace.close_view(1);
        check(&mut keyspace);
        assert!(contents(&mut keyspace) == before);
    }

    /// A victim is gone whole, or is there.
    #[test]
    fn chance_may_panic_at_any_draw_of_an_eviction() {
        for merit in [Merit::Chance, Merit::NearEnd] {
            let choice = Choice { merit, mortal_only: merit == Merit::NearEnd, samples: 5 };
            // Each of the first draws, and then fewer.
            for draw in std::iter::successors(Some(1_usize), |draw| Some(draw + 1 + draw / 4)) {
                let mut keyspace = filled();
                for number in 0..20 {
                    let at = Expire::At(1_000 + number as i64);
                    keyspace.set(0, &member(number), b"value", at).expect("memory");
                }
                let fuse = Fuse::new(draw);
                let mut random = || {
                    fuse.call();
                    0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(draw as u64)
                };
                let ended = panics(|| while keyspace.evict(choice, &mut random).is_some() {});
                check(&mut keyspace);
                let now = contents(&mut keyspace);
                assert!(image(&mut keyspace, &Fuse::new(0)) == Some(now), "after draw {draw}");
                if !ended {
                    break;
                }
            }
        }
    }

    /// What is moved is whole, or where it was; the walk goes on.
    fn judge_that_panics(answer: bool) {
        let mut keyspace = filled();
        let before = contents(&mut keyspace);
        for call in 1.. {
            let (mut walk, fuse) = (Defragmentation::default(), Fuse::new(call));
            let judge = |_: *const u8| {
                fuse.call();
                answer
            };
            let ended = panics(|| while keyspace.defragment(&mut walk, 7, &judge) {});
            check(&mut keyspace);
            let looked = walk.looked;
            while keyspace.defragment(&mut walk, 7, &|_| true) {}
            assert!(contents(&mut keyspace) == before, "after call {call}");
            if !ended {
                break;
            }
            assert!(walk.looked > looked, "it goes on after call {call}");
        }
        assert!(image(&mut keyspace, &Fuse::new(0)) == Some(before), "the next is whole");
        keyspace.clear_all();
        while keyspace.tend() {}
        assert_eq!(keyspace.data_bytes(), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes many steps")]
    fn the_judge_of_memory_may_panic_at_any_call() {
        judge_that_panics(true);
        judge_that_panics(false);
    }
}
