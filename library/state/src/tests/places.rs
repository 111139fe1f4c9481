//! Places in plain memory.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use stillframe_peers::{Random, Watchdog, rounds};

use super::images::each_lost_word_is_told;
use super::model::{Model, World};
use crate::mutant::{Mutant, with_mutant};
use crate::{Column, List, Map, Record, Relation, Slab, Slot, State, Table, Target, Value, record};

/// Acts in plain memory; what was found wrong.
fn live(random: &mut Random, acts: usize) -> Result<(), String> {
    let mut words = vec![0; World::layout().words()];
    let world = World::attach_seeded(&mut words, random.next()).expect("it is new");
    let mut model = Model::default();
    let mut bias = 0;
    for act in 0..acts {
        if act % 200 == 0 {
            bias = random.pick(&[10, 30, 50, 70, 95]);
        }
        world.act(&mut words, &mut model, random, bias)?;
        if random.below(25) == 0 {
            world.check(&words, &model)?;
        }
    }
    world.check(&words, &model)
}

#[test]
fn places_hold_what_collections_hold() {
    let mut random = Random::new("places");
    for _ in 0..rounds(20, 2000) {
        live(&mut random, 3000).expect("it is as in collections");
    }
}

/// Lists, tables and maps full of words that look like heads of strings that were removed.
fn forged_heads() -> Result<(), String> {
    #[derive(Clone, Copy, State)]
    struct Root {
        text: Slab,
        other: Slab,
        list: List<u64>,
        table: Table<u64>,
        map: Map<u64, u64>,
    }
    for length in [0, 20, 100, 1000, 2040, 4088, 8000] {
        let mut words = vec![0; Root::layout().words()];
        let root = Root::attach(&mut words).expect("it is new");
        let stale = root.text.put(&mut words, &vec![7; length]).expect("memory");
        root.text.remove(&mut words, stale).expect("it is there");
        // Its tag was 1. The first word of a block is that of the first record in it.
        let head = (length as u64) << 24 | 1;
        (0..600).for_each(|_| _ = root.list.push(&mut words, head).expect("memory"));
        for number in 0..600 {
            let slot = root.table.insert(&mut words, head).expect("memory");
            root.map.insert(&mut words, head << 10 | number, head).expect("memory");
            root.other.put(&mut words, &head.to_le_bytes().repeat(9)).expect("memory");
            if number % 2 == 0 {
                root.table.remove(&mut words, slot).expect("it is there");
                root.map.remove(&mut words, &(head << 10 | number));
            }
        }
        let found = (root.text.len_of(&words, stale), root.text.remove(&mut words, stale));
        if found != (None, None) {
            return Err(format!("{stale:?} of {length} bytes that are gone: {found:?}"));
        }
    }
    Ok(())
}

#[test]
fn no_place_writes_what_a_stale_handle_takes_for_a_string() {
    forged_heads().expect("each is gone");
}

#[test]
fn each_mistake_with_places_is_found() {
    let _watchdog = Watchdog::start();
    let mut random = Random::new("mistakes with places");
    for &mutant in Mutant::ALL {
        if !mutant.is_chosen() {
            continue;
        }
        let found = with_mutant(mutant, || {
            (0..50).find_map(|_| {
                let lived = catch_unwind(AssertUnwindSafe(|| {
                    forged_heads()?;
                    each_lost_word_is_told()?;
                    live(&mut random, 3000)
                }));
                lived.map_or_else(|_| Some("a panic".into()), Result::err)
            })
        });
        println!("{mutant:?}: {}", found.expect("the mistake is found"));
    }
}

#[test]
fn a_function_that_panics_changes_nothing() {
    #[derive(Clone, Copy, State)]
    struct Root {
        value: Value<u64>,
        column: Column<u64, 3>,
        table: Table<u64>,
        list: List<u64>,
        map: Map<u64, u64>,
    }
    let mut words = vec![0; Root::layout().words()];
    let root = Root::attach(&mut words).expect("it is new");
    let slot = root.table.insert(&mut words, 1).expect("memory");
    root.list.push(&mut words, 2).expect("memory");
    root.map.insert(&mut words, 3, 3).expect("memory");
    let before = words.clone();
    let change = |word: &mut u64| {
        *word += 7;
        resume_unwind(Box::new("on purpose")) // past the hook, which would print it
    };
    type Update<'a> = &'a dyn Fn(&mut Vec<u64>);
    let updates: [Update<'_>; 5] = [
        &|words| root.value.update(words, change),
        &|words| root.column.update(words, 1, change),
        &|words| _ = root.table.update(words, slot, change),
        &|words| _ = root.list.update(words, 0, change),
        &|words| _ = root.map.update(words, &3, change),
    ];
    for (number, update) in updates.iter().enumerate() {
        assert!(catch_unwind(AssertUnwindSafe(|| update(&mut words))).is_err(), "{number}");
        assert!(words == before, "{number}");
    }
}

/// What random acts keep small, over many chunks and tables.
#[test]
fn places_hold_many_records() {
    #[derive(Clone, Copy, State)]
    struct Root {
        table: Table<u64>,
        list: List<[u32; 3]>,
        map: Map<u64, u32>,
    }
    const MANY: u64 = 5000;
    let mut words = vec![0; Root::layout().words()];
    let Root { table, list, map } = Root::attach(&mut words).expect("it is new");
    let value = |number: u64| [number as u32, 7, !number as u32];
    let slots: Vec<_> = (0..MANY)
        .map(|number| {
            list.push(&mut words, value(number)).expect("memory");
            map.insert(&mut words, number * number, number as u32).expect("memory");
            table.insert(&mut words, number).expect("memory")
        })
        .collect();
    assert!(list.iter(&words).eq((0..MANY).map(value)));
    assert!(list.iter(&words).rev().eq((0..MANY).rev().map(value)));
    assert!(table.iter(&words).eq(slots.iter().copied().zip(0..MANY)));
    let mut found: Vec<_> = map.iter(&words).collect();
    found.sort_unstable();
    assert!(found.into_iter().eq((0..MANY).map(|number| (number * number, number as u32))));
    for number in (0..MANY).rev() {
        assert_eq!(list.pop(&mut words), Some(value(number)));
        assert_eq!(map.remove(&mut words, &(number * number)), Some(number as u32));
        assert_eq!(table.remove(&mut words, slots[number as usize]), Some(number));
    }
    assert!(list.is_empty(&words) && map.is_empty(&words) && table.is_empty(&words));
}

#[test]
fn a_root_of_another_shape_is_refused() {
    #[derive(Clone, Copy, State)]
    struct One {
        ticks: Value<u64>,
    }
    #[derive(Clone, Copy, State)]
    #[expect(dead_code, reason = "it is refused")]
    struct Other {
        tocks: Value<u64>,
    }
    let mut words = vec![0; One::layout().words()];
    assert!(One::from_source(&words).is_err(), "it is not laid out");
    let one = One::attach(&mut words).expect("it is new");
    one.ticks.set(&mut words, 7);
    assert_eq!(One::attach(&mut words).expect("it is the same").ticks.get(&words), 7);
    let error = Other::attach(&mut words).err().expect("it is another's").to_string();
    assert!(error.contains("and not layout") && error.contains("{tocks:value<u64>;}"), "{error}");
    let error = World::from_source(&words[..2]).err().expect("it is too short").to_string();
    assert!(error.contains("the state has too few words"), "{error}");
    let error =
        One::from_source(&words[..One::layout().words() - 1]).err().expect("too short").to_string();
    assert!(error.contains("too few words"), "{error}");
}

#[test]
fn every_difference_between_roots_shows_in_the_fingerprint() {
    macro_rules! layout {
        ($($field:ident: $ty:ty),*) => {{
            #[derive(Clone, Copy, State)]
            #[expect(dead_code, reason = "only its layout is looked at")]
            struct Root {
                $($field: $ty),*
            }
            Root::layout()
        }};
    }
    #[record]
    struct Pair {
        a: u32,
        b: u32,
    }
    #[record]
    struct Swapped {
        b: u32,
        a: u32,
    }
    let layouts = [
        layout!(a: Value<u64>),
        layout!(b: Value<u64>),
        layout!(a: Value<i64>),
        layout!(a: Value<u64>, b: Value<u64>),
        layout!(b: Value<u64>, a: Value<u64>),
        layout!(a: Column<u64, 2>),
        layout!(a: Column<u64, 3>),
        layout!(a: [Column<u64, 3>; 1]),
        layout!(a: [Column<u64, 3>; 2]),
        layout!(a: List<u64>),
        layout!(a: Table<u64>),
        layout!(a: Map<u64, ()>),
        layout!(a: Map<u64, u32>),
        layout!(a: Map<u64, Pair>),
        layout!(a: Map<u64, Swapped>),
        layout!(a: Map<u64, [u32; 2]>),
        layout!(a: Map<u64, Slot<Pair>>),
    ];
    for (index, layout) in layouts.iter().enumerate() {
        for other in &layouts[..index] {
            assert_ne!(layout.fingerprint(), other.fingerprint(), "{}", layout.description());
            assert_ne!(layout.version(), other.version(), "{}", layout.description());
        }
    }
    let shape = layouts[14].description().to_owned();
    assert_eq!(shape, "stillframe-state 3 {a:map<u64,{b:u32,a:u32,}>;}");
}

#[test]
fn relations_say_what_lies_where() {
    let shown = |name: &str| {
        let all = World::relations();
        let relation = all.iter().find(|it| it.name() == name).expect("it is a place");
        let columns = relation.columns().iter();
        let columns: Vec<_> =
            columns.map(|it| format!("{} {} {}", it.name, it.offset, it.shape)).collect();
        (relation.number().map(str::to_owned), relation.item_words(), columns.join(", "))
    };
    let order = "slot 0 slot, next 8 slot, account 16 u64, price 24 u32, quantity 28 u16, \
                 side 30 [u8;2]";
    assert_eq!(shown("orders"), (None, 4, order.to_owned()));
    let by_odd = "key 8 [u8;13], value 24 slot".to_owned();
    assert_eq!(shown("by_odd"), (None, 4, by_odd));
    assert_eq!(shown("set"), (None, 2, "key 8 u16".to_owned()));
    assert_eq!(shown("numbers"), (None, 2, "slot 0 slot, value 8 u64".to_owned()));
    let index = || Some("index".to_owned());
    assert_eq!(shown("trail"), (index(), 2, "value 0 [u32;3]".to_owned()));
    assert_eq!(shown("odd"), (index(), 2, "value 0 [u8;13]".to_owned()));
    assert_eq!(shown("acts"), (None, 1, "value 0 u64".to_owned()));
}

/// Names that meet are told apart.
#[test]
fn no_two_columns_have_one_name() {
    #[record]
    struct Pair {
        index: u32,
        key: u32,
    }
    #[record]
    struct Value2(u32, u32);
    #[derive(Clone, Copy, State)]
    #[expect(dead_code, reason = "only its relations are looked at")]
    struct Root {
        list: List<Pair>,
        map: Map<Pair, Pair>,
        twins: Map<u64, Value2>,
    }
    let names = |relation: &Relation| {
        let columns = relation.columns().iter().map(|it| it.name.as_str());
        relation.number().into_iter().chain(columns).collect::<Vec<_>>().join(" ")
    };
    let all: Vec<String> = Root::relations().iter().map(names).collect();
    assert_eq!(all, ["index_ index key", "key_index key_ index key", "key value_0 value_1"]);
}

#[test]
fn records_take_whole_words_and_leave_the_rest_zero() {
    #[derive(Clone, Copy, State)]
    struct Root {
        odd: Value<[u8; 9]>,
        next: Value<u8>,
    }
    let mut words = vec![0; Root::layout().words()];
    let root = Root::attach(&mut words).expect("it is new");
    assert_eq!((<[u8; 9]>::WORDS, u8::WORDS, <()>::WORDS), (2, 1, 0));
    root.odd.set(&mut words, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    root.next.set(&mut words, 10);
    let end = words.len();
    assert_eq!(words[end - 3..], [0x0807_0605_0403_0201, 9, 10]);
    words.write(end - 2, 0xFF09); // what is behind a record is none of it
    assert_eq!(root.odd.get(&words), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}
