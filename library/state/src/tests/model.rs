//! A world of every kind of place, the same in collections of the standard library, and random acts
//! on both.

use std::collections::BTreeMap;
use std::fmt::Debug;

use stillframe::MemoryError;
use stillframe_peers::Random;

use crate::blocks;
use crate::{
    Bytes, Column, List, Map, Relation, Run, Slab, Slot, Source, State, Str, Table, Target, Value,
};

#[crate::record]
#[derive(Debug, PartialEq)]
pub(crate) struct Order {
    next: Slot<Order>,
    account: u64,
    price: u32,
    quantity: u16,
    side: [u8; 2],
}

#[crate::record]
#[derive(Debug, PartialEq, PartialOrd, Eq, Ord)]
pub(crate) struct Odd([u8; 13]);

#[derive(Clone, Copy, State)]
pub(crate) struct World {
    pub(crate) acts: Value<u64>,
    odd: Column<Odd, 3>,
    rows: [Row; 2],
    orders: Table<Order>,
    numbers: Table<u64>,
    trail: List<[u32; 3]>,
    set: Map<u16, ()>,
    twin: Map<u16, ()>,
    by_odd: Map<Odd, Slot<Order>>,
    text: Slab,
    names: Map<u64, Str>,
}

#[derive(Clone, Copy, State)]
struct Row {
    price: Column<f64, 5>,
    flag: Value<u8>,
}

/// What the world should hold.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) acts: u64,
    odd: [Odd; 3],
    rows: [([f64; 5], u8); 2],
    orders: Slots<Order>,
    numbers: Slots<u64>,
    trail: Vec<[u32; 3]>,
    set: BTreeMap<u16, ()>,
    twin: BTreeMap<u16, ()>,
    by_odd: BTreeMap<Odd, Slot<Order>>,
    texts: Vec<(Bytes, Vec<u8>)>,
    gone: Vec<Bytes>,
    names: BTreeMap<u64, Str>,
}

#[derive(Debug, Clone)]
struct Slots<T> {
    there: BTreeMap<usize, (Slot<T>, T)>,
    gone: Vec<Slot<T>>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { there: BTreeMap::new(), gone: Vec::new() }
    }
}

impl Default for Model {
    fn default() -> Self {
        Self {
            acts: 0,
            odd: [Odd([0; 13]); 3],
            rows: [([0.0; 5], 0); 2],
            orders: Slots::default(),
            numbers: Slots::default(),
            trail: Vec::new(),
            set: BTreeMap::new(),
            twin: BTreeMap::new(),
            by_odd: BTreeMap::new(),
            texts: Vec::new(),
            gone: Vec::new(),
            names: BTreeMap::new(),
        }
    }
}

type Outcome = Result<(), String>;

/// Says what is wrong, instead of panicking: a mistake is to be found.
fn same<T: PartialEq + Debug>(what: &str, found: T, wanted: T) -> Outcome {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{what}: {found:?}, and not {wanted:?}"))
}

fn memory<T>(result: Result<T, MemoryError>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

impl World {
    /// One act on `target` and on the model. The `bias` makes places rather grow (below 50) or
    /// shrink.
    pub(crate) fn act(
        &self,
        target: &mut impl Target,
        model: &mut Model,
        random: &mut Random,
        bias: usize,
    ) -> Outcome {
        let grows = random.below(100) >= bias;
        match random.below(8) {
            0 => self.act_on_columns(target, model, random),
            1 => act_on_table(self.orders, target, &mut model.orders, random, grows, order)?,
            2 => act_on_table(self.numbers, target, &mut model.numbers, random, grows, number)?,
            3 => self.act_on_list(target, model, random, grows)?,
            4 => act_on_set(self.set, target, &mut model.set, random, grows)?,
            5 => act_on_set(self.twin, target, &mut model.twin, random, grows)?,
            6 => self.act_on_map(target, model, random, grows)?,
            _ => self.act_on_text(target, model, random, grows)?,
        }
        model.acts += 1;
        self.acts.update(target, |acts| *acts += 1);
        Ok(())
    }

    fn act_on_columns(&self, target: &mut impl Target, model: &mut Model, random: &mut Random) {
        let (row, index) = (random.below(2), random.below(5));
        let price = random.next() as f64;
        self.rows[row].price.set(target, index, price);
        model.rows[row].0[index] = price;
        self.rows[row].flag.set(target, random.next() as u8);
        model.rows[row].1 = self.rows[row].flag.get(target);
        let (index, byte) = (random.below(3), random.below(13));
        // Bytes of both words.
        let change =
            |odd: &mut Odd| [byte, 12].map(|byte| odd.0[byte] = odd.0[byte].wrapping_add(1));
        self.odd.update(target, index, change);
        change(&mut model.odd[index]);
    }

    fn act_on_list(
        &self,
        target: &mut impl Target,
        model: &mut Model,
        random: &mut Random,
        grows: bool,
    ) -> Outcome {
        let value = [(); 3].map(|()| random.next() as u32);
        let index = random.below(model.trail.len() + 1);
        match random.below(4) {
            0 => {
                let is_there = model.trail.get_mut(index).map(|there| *there = value).is_some();
                let set = self.trail.set(target, index, value).is_some();
                same("set", set, is_there)
            }
            1 => {
                let change = |value: &mut [u32; 3]| *value = value.map(|part| part ^ 5);
                let changed = self.trail.update(target, index, change);
                same("update", changed, model.trail.get_mut(index).map(change))
            }
            _ if grows => {
                same("number", memory(self.trail.push(target, value))?, model.trail.len())?;
                model.trail.push(value);
                Ok(())
            }
            2 if random.below(8) == 0 => {
                let len = index + random.below(2); // more than there are changes nothing
                self.trail.truncate(target, len);
                model.trail.truncate(len);
                Ok(())
            }
            2 => same("popped", self.trail.pop(target), model.trail.pop()),
            _ => {
                let is_there = index < model.trail.len();
                let wanted = is_there.then(|| model.trail.swap_remove(index));
                same("removed", self.trail.swap_remove(target, index), wanted)
            }
        }
    }

    fn act_on_map(
        &self,
        target: &mut impl Target,
        model: &mut Model,
        random: &mut Random,
        grows: bool,
    ) -> Outcome {
        let mut key = Odd([0; 13]);
        key.0[random.below(13)] = random.below(64) as u8;
        let value = model.orders.there.values().next().map_or(Slot::NONE, |&(slot, _)| slot);
        if grows {
            let old = memory(self.by_odd.insert(target, key, value))?;
            return same("old value", old, model.by_odd.insert(key, value));
        }
        if random.below(4) == 0 {
            let changed = self.by_odd.update(target, &key, |slot| *slot = Slot::NONE);
            let wanted = model.by_odd.get_mut(&key).map(|slot| *slot = Slot::NONE);
            return same("changed", changed, wanted);
        }
        same("removed", self.by_odd.remove(target, &key), model.by_odd.remove(&key))
    }

    fn act_on_text(
        &self,
        target: &mut impl Target,
        model: &mut Model,
        random: &mut Random,
        grows: bool,
    ) -> Outcome {
        let key = random.below(200) as u64;
        if !grows {
            let Some(name) = model.names.remove(&key) else { return Ok(()) };
            same("name", self.names.remove(target, &key), Some(name))?;
            model.texts.retain(|(text, _)| *text != name.bytes());
            model.gone.push(name.bytes());
            return same("removed", self.text.remove(target, name), Some(()));
        }
        let length = random.pick(&[0, 1, 7, 8, 9, 40, 40, 300]);
        let text: String = (0..random.below(length + 1)).map(|_| 'ä').collect();
        let name = memory(self.text.put_str(target, &text))?;
        model.texts.push((name.bytes(), text.into_bytes()));
        let old = memory(self.names.insert(target, key, name))?;
        same("old name", old, model.names.insert(key, name))?;
        let Some(old) = old else { return Ok(()) };
        model.texts.retain(|(text, _)| *text != old.bytes());
        model.gone.push(old.bytes());
        same("removed", self.text.remove(target, old.bytes()), Some(()))
    }

    /// Compares all that can be read with the model.
    pub(crate) fn check(&self, source: &impl Source, model: &Model) -> Outcome {
        same("acts", self.acts.get(source), model.acts)?;
        let unclear = blocks::unclear(source, blocks::FREE).or(self.text.unclear(source));
        same("free block with something in it", unclear, None)?;
        same("odd", self.odd.iter(source).collect(), model.odd.to_vec())?;
        for (row, (prices, flag)) in self.rows.iter().zip(&model.rows) {
            same("prices", row.price.iter(source).collect(), prices.to_vec())?;
            same("price", row.price.get(source, 4), prices[4])?;
            same("flag", row.flag.get(source), *flag)?;
        }
        check_table(self.orders, source, &model.orders)?;
        check_table(self.numbers, source, &model.numbers)?;
        same("length of the list", self.trail.len(source), model.trail.len())?;
        same("list", self.trail.iter(source).collect(), model.trail.clone())?;
        same("last", self.trail.get(source, model.trail.len()), None)?;
        check_map(self.set, source, &model.set, (0..600).collect())?;
        check_map(self.twin, source, &model.twin, (0..600).collect())?;
        check_map(self.by_odd, source, &model.by_odd, vec![Odd([1; 13])])?;
        check_map(self.names, source, &model.names, (0..201).collect())?;
        for (name, text) in &model.texts {
            same("text", self.text.get(source, *name).as_ref(), Some(text))?;
            same("length of a text", self.text.len_of(source, *name), Some(text.len()))?;
        }
        for name in &model.gone {
            same("text that is gone", self.text.get(source, *name), None)?;
        }
        self.check_relations(source, model)?;
        same("texts", self.text.len(source), model.texts.len())?;
        let bytes = model.texts.iter().map(|(_, text)| text.len() as u64).sum();
        same("bytes of text", self.text.bytes(source), bytes)
    }
}

impl World {
    /// Each place has as many rows as things.
    fn check_relations(&self, source: &impl Source, model: &Model) -> Outcome {
        let rows = |relation: &Relation| {
            let runs = relation.runs(source).into_iter();
            let items = runs.flat_map(|run| (0..run.items).map(move |item| (run, item)));
            let is_row = |&(run, item): &(Run, usize)| {
                let head = [source.read(run.start + item * relation.item_words())];
                relation.is_row(run.first + item, &head)
            };
            (relation.name().to_owned(), items.filter(is_row).count())
        };
        let wanted = [
            ("acts", 1),
            ("odd", 3),
            ("rows_0_price", 5),
            ("rows_0_flag", 1),
            ("rows_1_price", 5),
            ("rows_1_flag", 1),
            ("orders", model.orders.there.len()),
            ("numbers", model.numbers.there.len()),
            ("trail", model.trail.len()),
            ("set", model.set.len()),
            ("twin", model.twin.len()),
            ("by_odd", model.by_odd.len()),
            ("names", model.names.len()),
        ];
        let wanted = wanted.map(|(name, rows)| (name.to_owned(), rows)).to_vec();
        same("rows", Self::relations().iter().map(rows).collect(), wanted)
    }
}

fn order(random: &mut Random) -> Order {
    let (account, price) = (random.next(), random.next() as u32);
    Order { next: Slot::NONE, account, price, quantity: random.next() as u16, side: *b"ab" }
}

fn number(random: &mut Random) -> u64 {
    random.next()
}

fn act_on_table<T: crate::Record + Debug + PartialEq>(
    table: Table<T>,
    target: &mut impl Target,
    model: &mut Slots<T>,
    random: &mut Random,
    grows: bool,
    draw: impl Fn(&mut Random) -> T,
) -> Outcome {
    if grows {
        let value = draw(random);
        let slot = memory(table.insert(target, value))?;
        let before = model.there.insert(slot.index(), (slot, value));
        return same("slot in use", before.map(|(slot, _)| slot), None);
    }
    let index = random.below(model.there.len() + 1);
    let Some(&(slot, value)) = model.there.values().nth(index) else {
        let Some(&slot) = model.gone.last() else { return Ok(()) };
        same("set of what is gone", table.set(target, slot, draw(random)), None)?;
        return same("removal of what is gone", table.remove(target, slot), None);
    };
    if random.below(3) == 0 {
        let value = draw(random);
        model.there.insert(slot.index(), (slot, value));
        same("set", table.set(target, slot, value), Some(()))?;
        return same("update", table.update(target, slot, |value| *value), Some(value));
    }
    model.there.remove(&slot.index());
    model.gone.push(slot);
    same("removed", table.remove(target, slot), Some(value))
}

fn check_table<T: crate::Record + Debug + PartialEq>(
    table: Table<T>,
    source: &impl Source,
    model: &Slots<T>,
) -> Outcome {
    same("length of the table", table.len(source), model.there.len())?;
    same("table", table.iter(source).collect(), model.there.values().copied().collect::<Vec<_>>())?;
    for (slot, value) in model.there.values() {
        same("record", table.get(source, *slot), Some(*value))?;
    }
    for slot in model.gone.iter().chain([&Slot::NONE]) {
        same("record that is gone", table.get(source, *slot), None)?;
    }
    Ok(())
}

fn act_on_set(
    set: Map<u16, ()>,
    target: &mut impl Target,
    model: &mut BTreeMap<u16, ()>,
    random: &mut Random,
    grows: bool,
) -> Outcome {
    for _ in 0..1 + random.below(8) {
        let key = random.below(600) as u16;
        if grows {
            same("old value", memory(set.insert(target, key, ()))?, model.insert(key, ()))?;
        } else {
            same("removed", set.remove(target, &key), model.remove(&key))?;
        }
    }
    Ok(())
}

fn check_map<K: crate::Record + Ord + Debug, V: crate::Record + PartialEq + Debug>(
    map: Map<K, V>,
    source: &impl Source,
    model: &BTreeMap<K, V>,
    others: Vec<K>,
) -> Outcome {
    same("length of the map", map.len(source), model.len())?;
    let mut found: Vec<(K, V)> = map.iter(source).collect();
    found.sort_by_key(|entry| entry.0);
    same("map", found, model.iter().map(|(key, value)| (*key, *value)).collect())?;
    for key in model.keys().copied().chain(others) {
        same("value", map.get(source, &key), model.get(&key).copied())?;
    }
    Ok(())
}
