//! A book of orders with price and time priority.

use stillframe_state::{
    Column, Map, MemoryError, Slot, Source, State, Table, Target, Value, record,
};

/// Prices are numbers of ticks below this one.
const PRICES: usize = 1024;
pub(crate) const BUY: usize = 0;
pub(crate) const SELL: usize = 1;

#[record]
pub(crate) struct Order {
    /// Behind this one at its price.
    next: Slot<Order>,
    previous: Slot<Order>,
    number: u64,
    price: u32,
    quantity: u32,
    side: u64,
}

#[record]
pub(crate) struct Level {
    first: Slot<Order>,
    last: Slot<Order>,
}

#[derive(Clone, Copy, State)]
pub(crate) struct Book {
    pub(crate) commands: Value<u64>,
    pub(crate) traded: Value<u64>,
    /// The highest price that someone buys at, plus one; the lowest that someone sells at.
    best: Column<u64, 2>,
    levels: [Column<Level, PRICES>; 2],
    pub(crate) orders: Table<Order>,
    by_number: Map<u64, Slot<Order>>,
}

/// A number that follows from another one (splitmix64).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

impl Book {
    /// Does the next command of a course of events: two of five cancel an order, the others place
    /// one. The command follows from its number and that of the course alone.
    pub(crate) fn step(&self, words: &mut impl Target, course: u64) -> Result<(), MemoryError> {
        let number = self.commands.get(words);
        let (draw, more) = (mixed(number ^ course), mixed(!number ^ course));
        if draw % 5 < 2 {
            let some = number - more % (number.min(1000) + 1);
            if let Some(slot) = self.by_number.get(words, &some) {
                self.remove(words, slot);
            }
        } else {
            let side = (draw >> 32) as usize % 2;
            let away = (more % 32 + more / 32 % 32) as u32;
            let price = if side == BUY { 530 - away } else { 494 + away };
            let quantity = 1 + (more >> 32) as u32 % 100;
            let (next, previous) = (Slot::NONE, Slot::NONE);
            let side = side as u64;
            self.place(words, Order { next, previous, number, price, quantity, side })?;
        }
        self.commands.set(words, number + 1);
        Ok(())
    }

    /// Trades with each offer at that price or a better one; what is left waits.
    fn place(&self, words: &mut impl Target, mut order: Order) -> Result<(), MemoryError> {
        let (side, other) = (order.side as usize, 1 - order.side as usize);
        while order.quantity > 0 {
            let Some(price) = self.best(words, other) else { break };
            if if side == BUY { price > order.price } else { price < order.price } {
                break;
            }
            let slot = self.levels[other].get(words, price as usize).first;
            let Some(quantity) = self.orders.update(words, slot, |waiting| {
                let quantity = waiting.quantity.min(order.quantity);
                waiting.quantity -= quantity;
                order.quantity -= quantity;
                (quantity, waiting.quantity)
            }) else {
                break;
            };
            self.traded.update(words, |traded| *traded += u64::from(quantity.0));
            if quantity.1 == 0 {
                self.remove(words, slot);
            }
        }
        if order.quantity > 0 { self.wait(words, order) } else { Ok(()) }
    }

    /// Puts an order behind those of its price.
    fn wait(&self, words: &mut impl Target, order: Order) -> Result<(), MemoryError> {
        let (side, price) = (order.side as usize, order.price as usize);
        let last = self.levels[side].get(words, price).last;
        let slot = self.orders.insert(words, Order { previous: last, ..order })?;
        self.by_number.insert(words, order.number, slot)?;
        self.orders.update(words, last, |last| last.next = slot);
        self.levels[side].update(words, price, |level| {
            level.last = slot;
            if last.is_none() {
                level.first = slot;
            }
        });
        let price = price as u64;
        self.best.update(words, side, |best| match side {
            BUY => *best = (*best).max(price + 1),
            _ if *best == 0 => *best = price,
            _ => *best = (*best).min(price),
        });
        Ok(())
    }

    fn remove(&self, words: &mut impl Target, slot: Slot<Order>) {
        let Some(order) = self.orders.remove(words, slot) else { return };
        self.by_number.remove(words, &order.number);
        self.orders.update(words, order.next, |next| next.previous = order.previous);
        self.orders.update(words, order.previous, |previous| previous.next = order.next);
        let (side, price) = (order.side as usize, order.price as usize);
        let is_empty = self.levels[side].update(words, price, |level| {
            if order.previous.is_none() {
                level.first = order.next;
            }
            if order.next.is_none() {
                level.last = order.previous;
            }
            level.first.is_none()
        });
        if is_empty && self.best(words, side) == Some(order.price) {
            let there = |price: &usize| !self.levels[side].get(words, *price).first.is_none();
            let best = match side {
                BUY => (0..price).rev().find(there).map_or(0, |price| price as u64 + 1),
                _ => (price + 1..PRICES).find(there).unwrap_or(0) as u64,
            };
            self.best.set(words, side, best);
        }
    }

    /// The best price of a side; prices of sellers are above 0.
    pub(crate) fn best(&self, words: &impl Source, side: usize) -> Option<u32> {
        let best = self.best.get(words, side);
        let best =
            if side == SELL { Some(best).filter(|&best| best > 0) } else { best.checked_sub(1) };
        best.map(|best| best as u32)
    }
}
