//! A root with every kind of place, the same in collections of the standard library, and random
//! acts on both.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use stillframe_peers::Random;
use stillframe_state::{
    Bytes, Column, List, Map, Slab, Slot, State, Store, Str, Table, Value, record,
};
use zerocopy::IntoBytes;

#[record]
pub struct Order {
    pub customer: Slot<Customer>,
    pub price: f64,
    pub note: Str,
    pub quantity: u32,
    pub side: [u8; 2],
    pub parts: [i16; 1],
}

#[record]
pub struct Customer {
    pub name: Str,
    pub credit: i64,
    pub total: u128,
}

#[record]
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(u16);

#[derive(Clone, Copy, State)]
pub struct World {
    pub tick: Value<u64>,
    pub prices: Column<f64, 9000>,
    pub shards: [Shard; 2],
    pub orders: Table<Order>,
    pub customers: Table<Customer>,
    pub trail: List<[u32; 3]>,
    pub days: Map<Day, ()>,
    pub blobs: Map<u64, Bytes>,
    pub text: Slab,
}

#[derive(Clone, Copy, State)]
pub struct Shard {
    pub open: Value<u8>,
    pub depth: Column<i32, 5>,
}

/// An order as the model has it.
#[derive(Clone)]
pub struct Ordered {
    customer: Option<Slot<Customer>>,
    price: f64,
    note: Option<String>,
    quantity: u32,
    side: [u8; 2],
}

/// What the world should hold.
#[derive(Clone)]
pub struct Model {
    tick: u64,
    prices: Vec<f64>,
    shards: [(u8, [i32; 5]); 2],
    orders: BTreeMap<u64, Ordered>,
    customers: BTreeMap<u64, (String, i64, u128)>,
    trail: Vec<[u32; 3]>,
    days: BTreeMap<u16, ()>,
    blobs: BTreeMap<u64, Vec<u8>>,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            tick: 0,
            prices: vec![0.0; 9000],
            shards: [(0, [0; 5]); 2],
            orders: BTreeMap::new(),
            customers: BTreeMap::new(),
            trail: Vec::new(),
            days: BTreeMap::new(),
            blobs: BTreeMap::new(),
        }
    }
}

fn word<T>(slot: Slot<T>) -> u64
where
    Slot<T>: IntoBytes + zerocopy::Immutable,
{
    u64::from_le_bytes(slot.as_bytes().try_into().expect("a slot is a word"))
}

fn slot<T>(word: u64) -> Slot<T>
where
    Slot<T>: zerocopy::FromBytes,
{
    zerocopy::FromBytes::read_from_bytes(&word.to_le_bytes()).expect("a slot is a word")
}

fn drawn<T>(random: &mut Random, all: &BTreeMap<u64, T>) -> Option<u64> {
    let index = random.below(all.len().max(1));
    all.keys().nth(index).copied()
}

impl World {
    /// One act on both.
    pub fn act(&self, store: &mut Store, model: &mut Model, random: &mut Random) {
        match random.below(9) {
            0 => {
                let (index, price) = (random.below(9000), random.below(1000) as f64 / 8.0);
                self.prices.set(store, index, price);
                model.prices[index] = price;
            }
            1 => {
                let (shard, at) = (random.below(2), random.below(5));
                let (open, depth) = (random.next() as u8, random.next() as i32);
                self.shards[shard].open.set(store, open);
                self.shards[shard].depth.set(store, at, depth);
                model.shards[shard].0 = open;
                model.shards[shard].1[at] = depth;
            }
            2..=4 => self.insert_order(store, model, random),
            5 => self.change_order(store, model, random),
            6 => self.act_on_customers(store, model, random),
            7 => {
                let item = [(); 3].map(|()| random.next() as u32);
                if random.below(3) == 0 {
                    self.trail.pop(store);
                    model.trail.pop();
                } else {
                    self.trail.push(store, item).expect("memory");
                    model.trail.push(item);
                }
            }
            _ => self.act_on_maps(store, model, random),
        }
        self.tick.update(store, |tick| *tick += 1);
        model.tick += 1;
    }

    fn insert_order(&self, store: &mut Store, model: &mut Model, random: &mut Random) {
        let customer = drawn(random, &model.customers).filter(|_| random.below(8) > 0);
        let note = (random.below(3) > 0).then(|| "ä, \"b\"\n".repeat(random.below(12)));
        let ordered = Ordered {
            customer: customer.map(slot),
            price: random.below(100_000) as f64 / 16.0,
            note,
            quantity: random.next() as u32 >> 8,
            side: *random.pick(&[b"bu", b"se"]),
        };
        let note = ordered.note.as_ref();
        let order = Order {
            customer: ordered.customer.unwrap_or(Slot::NONE),
            price: ordered.price,
            note: note.map_or(Str::NONE, |it| self.text.put_str(store, it).expect("memory")),
            quantity: ordered.quantity,
            side: ordered.side,
            parts: [-7],
        };
        let slot = self.orders.insert(store, order).expect("memory");
        model.orders.insert(word(slot), ordered);
    }

    fn change_order(&self, store: &mut Store, model: &mut Model, random: &mut Random) {
        let Some(key) = drawn(random, &model.orders) else { return };
        if random.below(2) == 0 {
            let quantity = random.below(1000) as u32;
            self.orders.update(store, slot(key), |it| it.quantity = quantity);
            model.orders.get_mut(&key).expect("it was drawn").quantity = quantity;
            return;
        }
        let order = self.orders.remove(store, slot(key)).expect("it is there");
        if !order.note.is_none() {
            self.text.remove(store, order.note);
        }
        model.orders.remove(&key);
    }

    fn act_on_customers(&self, store: &mut Store, model: &mut Model, random: &mut Random) {
        let name = format!("Customer {}", random.below(1000));
        let (credit, total) = (random.next() as i64, u128::from(random.next()) << 40);
        let text = self.text.put_str(store, &name).expect("memory");
        let customer = Customer { name: text, credit, total };
        let slot = self.customers.insert(store, customer).expect("memory");
        model.customers.insert(word(slot), (name, credit, total));
    }

    fn act_on_maps(&self, store: &mut Store, model: &mut Model, random: &mut Random) {
        let day = random.below(3000) as u16;
        if random.below(3) == 0 {
            self.days.remove(store, &Day(day));
            model.days.remove(&day);
        } else {
            self.days.insert(store, Day(day), ()).expect("memory");
            model.days.insert(day, ());
        }
        let (key, length) = (random.below(500) as u64, random.below(40));
        let blob: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        let named = self.text.put(store, &blob).expect("memory");
        let old = self.blobs.insert(store, key, named).expect("memory");
        old.map(|old| self.text.remove(store, old));
        model.blobs.insert(key, blob);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

impl Model {
    /// The tables as CSV, by their names, with rows in the order of their first columns.
    pub fn tables(&self) -> Vec<(&'static str, String)> {
        let mut orders = "slot,customer,price,note,quantity,side\n".to_owned();
        for (slot, it) in &self.orders {
            let customer = it.customer.map_or_else(String::new, |it| word(it).to_string());
            let note = it.note.as_deref().map_or_else(String::new, quoted);
            let (price, quantity, side) = (it.price, it.quantity, hex(&it.side));
            let _ = writeln!(orders, "{slot},{customer},{price},{note},{quantity},{side}");
        }
        let mut customers = "slot,name,credit,total\n".to_owned();
        for (slot, (name, credit, total)) in &self.customers {
            let _ = writeln!(customers, "{slot},{},{credit},{total}", quoted(name));
        }
        let listed = |head: &str, rows: Vec<String>| {
            let rows = rows.into_iter().enumerate();
            rows.fold(format!("{head}\n"), |all, (at, row)| format!("{all}{at},{row}\n"))
        };
        let depth = |shard: usize| self.shards[shard].1.iter().map(i32::to_string).collect();
        let trail = self.trail.iter().map(|[a, b, c]| format!("{a},{b},{c}")).collect();
        let days = self.days.keys().fold("key\n".to_owned(), |all, day| format!("{all}{day}\n"));
        let blobs = self.blobs.iter();
        let blobs = blobs.fold("key,value\n".to_owned(), |all, (key, blob)| {
            format!("{all}{key},{}\n", quoted(&hex(blob)))
        });
        vec![
            ("tick", format!("value\n{}\n", self.tick)),
            ("prices", listed("index,value", self.prices.iter().map(f64::to_string).collect())),
            ("shards_0_open", format!("value\n{}\n", self.shards[0].0)),
            ("shards_1_depth", listed("index,value", depth(1))),
            ("orders", orders),
            ("customers", customers),
            ("trail", listed("index,a,b,c", trail)),
            ("days", days),
            ("blobs", blobs),
        ]
    }
}

/// A question for each of the tables, whose answer is its CSV.
pub const QUESTIONS: [(&str, &str); 9] = [
    ("tick", "select value from tick"),
    ("prices", "select index, value from prices order by index"),
    ("shards_0_open", "select value from shards_0_open"),
    ("shards_1_depth", "select index, value from shards_1_depth order by index"),
    (
        "orders",
        "select slot, customer, price, note, quantity, side from orders \
         where parts[1] = -7 order by slot",
    ),
    ("customers", "select slot, name, credit, total from customers order by slot"),
    (
        "trail",
        "select index, value[1] as a, value[2] as b, value[3] as c from trail order by index",
    ),
    ("days", "select key from days order by key"),
    ("blobs", "select key, value from blobs order by key"),
];
