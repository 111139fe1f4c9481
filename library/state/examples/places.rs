//! What places cost beside plain memory: one thread, random accesses, nanoseconds each.
//!
//! ```text
//! cargo run --release -p stillframe-state --example places -- [ROUNDS] [LENGTH]
//! ```
//!
//! Each case runs beside its rival in turns, `ROUNDS` times (7), on `LENGTH` records (2^20): a
//! column, table, list and map in a store beside `Vec`, `SlotMap` and `HashMap`. Medians of the
//! times, and of the ratio within a round, with its quartiles. What was read must agree, or the
//! program fails.

use std::collections::HashMap;
use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use slotmap::{DefaultKey, SlotMap};
use stillframe_state::{Column, List, Map, Slot, State, Store, Table, record};

#[record]
#[derive(PartialEq)]
struct Order {
    account: u64,
    price: u32,
    quantity: u32,
}

/// Records in the column; `LENGTH` is at most so many.
const LENGTH_MAX: usize = 1 << 22;

#[derive(Clone, Copy, State)]
struct Root {
    column: Column<Order, LENGTH_MAX>,
    table: Table<Order>,
    list: List<Order>,
    map: Map<u64, Order>,
}

/// The same in collections of Rust.
#[derive(Default)]
struct Plain {
    records: Vec<Order>,
    /// Indices of records, as slots are.
    slots: Vec<usize>,
    table: SlotMap<DefaultKey, Order>,
    keys: Vec<DefaultKey>,
    map: HashMap<u64, Order>,
}

fn order(number: usize) -> Order {
    Order { account: number as u64 * 7, price: number as u32, quantity: 100 }
}

/// An index for each step, the same for all.
fn indices(length: usize) -> Vec<usize> {
    let mut draws = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        draws ^= draws << 13;
        draws ^= draws >> 7;
        draws ^= draws << 17;
        (draws >> 11) as usize % length
    };
    (0..length.max(1 << 16)).map(|_| next()).collect()
}

fn key(index: usize) -> u64 {
    (index as u64 + 1).wrapping_mul(0x2545_F491_4F6C_DD1D)
}

/// Accesses records of these indices, and folds what it has read.
type Access<S> = Box<dyn FnMut(&mut S, &[usize]) -> u64>;

/// A case: what one access does, in the store or in plain memory.
struct Case {
    name: &'static str,
    store: Access<Store>,
    plain: Access<Plain>,
}

macro_rules! case {
    ($name:literal, |$store:ident, $i:ident| $there:expr, |$plain:ident, $j:ident| $here:expr) => {
        Case {
            name: $name,
            store: Box::new(move |$store, indices| {
                indices.iter().fold(0, |all: u64, &$i| all ^ $there)
            }),
            plain: Box::new(move |$plain, indices| {
                indices.iter().fold(0, |all: u64, &$j| all ^ $here)
            }),
        }
    };
}

fn sum(order: &Order) -> u64 {
    order.account + u64::from(order.price) + u64::from(order.quantity)
}

fn cases(root: Root, slots: Vec<Slot<Order>>) -> Vec<Case> {
    let [again, others, more] = [(); 3].map(|()| slots.clone());
    let change = |order: &mut Order| {
        order.quantity = order.quantity.wrapping_add(1);
        u64::from(order.quantity)
    };
    vec![
        case!("column, read", |store, i| sum(&root.column.get(store, i)), |plain, i| {
            sum(&plain.records[i])
        }),
        case!(
            "table, read",
            |store, i| root.table.get(store, slots[i]).map_or(0, |order| sum(&order)),
            |plain, i| plain.records.get(plain.slots[i]).map_or(0, sum)
        ),
        case!(
            "table, slotmap, read",
            |store, i| root.table.get(store, others[i]).map_or(0, |order| sum(&order)),
            |plain, i| plain.table.get(plain.keys[i]).map_or(0, sum)
        ),
        case!(
            "list, read",
            |store, i| root.list.get(store, i).map_or(0, |order| sum(&order)),
            |plain, i| plain.records.get(i).map_or(0, sum)
        ),
        case!(
            "map, read",
            |store, i| root.map.get(store, &key(i)).map_or(0, |order| sum(&order)),
            |plain, i| plain.map.get(&key(i)).map_or(0, sum)
        ),
        case!("column, update", |store, i| root.column.update(store, i, change), |plain, i| {
            change(&mut plain.records[i])
        }),
        case!(
            "table, update",
            |store, i| root.table.update(store, again[i], change).unwrap_or(0),
            |plain, i| plain.records.get_mut(plain.slots[i]).map_or(0, change)
        ),
        case!(
            "table, slotmap, update",
            |store, i| root.table.update(store, more[i], change).unwrap_or(0),
            |plain, i| plain.table.get_mut(plain.keys[i]).map_or(0, change)
        ),
        case!(
            "map, update",
            |store, i| root.map.update(store, &key(i), change).unwrap_or(0),
            |plain, i| plain.map.get_mut(&key(i)).map_or(0, change)
        ),
    ]
}

/// The lower quartile, the median and the upper quartile.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[quarter * (values.len() - 1) / 4])
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>());
    let rounds = arguments.next().transpose()?.unwrap_or(7).max(1);
    let length = arguments.next().transpose()?.unwrap_or(1 << 20).clamp(1, LENGTH_MAX);
    let data = tempfile::tempdir()?;
    let mut options = Root::options("places", 1 << 27);
    options.memory = options.memory.prefault(true).huge_pages(true);
    let mut store: Store = Store::open(data.path(), options)?;
    let root = Root::attach(&mut store)?;
    let mut plain = Plain::default();
    let mut slots = Vec::new();
    for number in 0..length {
        root.column.set(&mut store, number, order(number));
        slots.push(root.table.insert(&mut store, order(number))?);
        root.list.push(&mut store, order(number))?;
        root.map.insert(&mut store, key(number), order(number))?;
        plain.records.push(order(number));
        plain.slots.push(number);
        plain.keys.push(plain.table.insert(order(number)));
        plain.map.insert(key(number), order(number));
    }
    let indices = indices(length);
    println!("{length} records of 16 bytes, {} random accesses, ns each", indices.len());
    for mut case in cases(root, slots) {
        let mut columns = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            // What updates return differs, since those of plain memory are fewer.
            let is_read = case.name.ends_with("read");
            let started = Instant::now();
            let there = black_box((case.store)(&mut store, &indices));
            let between = Instant::now();
            let here = black_box((case.plain)(&mut plain, &indices));
            let ns = 1e9 / indices.len() as f64;
            let times = [between - started, between.elapsed()].map(|time| time.as_secs_f64() * ns);
            let row = [times[0], times[1], times[0] / times[1]];
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
            assert!(!is_read || there == here, "{}: {there} is not {here}", case.name);
        }
        let [[_, there, _], [_, here, _], [low, ratio, high]] = columns.map(quartiles);
        println!(
            "{:<22} {there:6.1}, plain {here:6.1}, ratio {ratio:.2} ({low:.2} to {high:.2})",
            case.name
        );
    }
    Ok(())
}
