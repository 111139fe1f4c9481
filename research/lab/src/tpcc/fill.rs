//! The tables at first (section 4.3.3).

use stillframe_measure::draw::Rng;

use super::Words;
use super::layout::{Layout, customer, district, history, item, line, order, stock, warehouse};

/// Fills a state of zeros, as a function of `seed`.
pub fn fill(layout: &Layout, state: &mut impl Words, seed: u64) {
    let mut fill = Fill { layout, state, random: Rng(seed) };
    (0..layout.scale.items).for_each(|number| fill.item(number));
    for number in 0..layout.scale.warehouses {
        fill.warehouse(number);
    }
}

/// Eight letters.
fn letters(random: &mut Rng) -> u64 {
    let mut bits = random.next();
    let letter = |_| {
        let letter = b'a' + (bits % 26) as u8;
        bits /= 26;
        letter
    };
    u64::from_le_bytes([0; 8].map(letter))
}

const ORIGINAL: u64 = u64::from_le_bytes(*b"ORIGINAL");

/// Whether a text has the word for what is original in it.
pub(crate) fn is_original(words: impl Iterator<Item = u64>) -> bool {
    words.fold(false, |found, word| found | (word == ORIGINAL))
}

struct Fill<'a, S> {
    layout: &'a Layout,
    state: &'a mut S,
    random: Rng,
}

impl<S: Words> Fill<'_, S> {
    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.random.below(high - low + 1)
    }

    fn set(&mut self, row: usize, fields: &[(usize, u64)]) {
        fields.iter().for_each(|&(field, value)| self.state.write(row + field, value));
    }

    fn text(&mut self, at: usize, words: usize) {
        (at..at + words).for_each(|word| self.state.write(word, letters(&mut self.random)));
    }

    /// A text that is original in one of ten rows.
    fn data(&mut self, at: usize, words: usize) {
        self.text(at, words);
        if self.random.below(10) == 0 {
            let place = self.random.below(words as u64) as usize;
            self.state.write(at + place, ORIGINAL);
        }
    }

    fn item(&mut self, number: usize) {
        let row = self.layout.item(number);
        let (price, image) = (self.between(100, 10_000), self.between(1, 10_000));
        self.set(row, &[(item::PRICE, price), (item::IMAGE, image)]);
        self.text(row + item::TEXT, item::DATA - item::TEXT);
        self.data(row + item::DATA, item::DATA_WORDS);
    }

    fn warehouse(&mut self, number: usize) {
        let scale = self.layout.scale;
        let row = self.layout.warehouse(number);
        let tax = self.between(0, 2000);
        // As much as its districts together (condition 1).
        let ytd = 3_000_000 * scale.districts as u64;
        self.set(row, &[(warehouse::TAX, tax), (warehouse::YTD, ytd)]);
        self.text(row + warehouse::TEXT, warehouse::WIDTH - warehouse::TEXT);
        for thing in 0..scale.items {
            let row = self.layout.stock(number, thing);
            let quantity = self.between(10, 100);
            self.set(row, &[(stock::QUANTITY, quantity)]);
            self.data(row + stock::DATA, stock::DATA_WORDS);
            self.text(row + stock::DISTRICTS, scale.districts * stock::DISTRICT_WORDS);
        }
        (0..scale.districts).for_each(|district| self.district(number, district));
    }

    fn district(&mut self, of: usize, number: usize) {
        let customers = self.layout.scale.customers as u64;
        let row = self.layout.district(of, number);
        let tax = self.between(0, 2000);
        // The last three of ten orders are new.
        let oldest_new = customers - customers * 3 / 10 + 1;
        self.set(
            row,
            &[
                (district::TAX, tax),
                (district::YTD, 3_000_000),
                (district::NEXT_ORDER, customers + 1),
                (district::OLDEST_NEW, oldest_new),
                (district::HISTORY, customers),
            ],
        );
        self.text(row + district::TEXT, district::WIDTH - district::TEXT);
        // Who gave which order is a permutation of all customers.
        let mut givers: Vec<u64> = (0..customers).collect();
        for place in (1..givers.len()).rev() {
            givers.swap(place, self.random.below(place as u64 + 1) as usize);
        }
        (0..customers as usize).for_each(|customer| self.customer(of, number, customer));
        for (order, giver) in (1..).zip(givers) {
            self.order(of, number, order, giver, order >= oldest_new);
        }
    }

    fn customer(&mut self, of: usize, district: usize, number: usize) {
        let row = self.layout.customer(of, district, number);
        let name = if number < 1000 { number as u64 } else { last_name(&mut self.random, 157) };
        let (discount, bad) = (self.between(0, 5000), u64::from(self.random.below(10) == 0));
        self.set(
            row,
            &[
                (customer::BALANCE, -1000_i64 as u64),
                (customer::YTD_PAYMENT, 1000),
                (customer::PAYMENTS, 1),
                (customer::DISCOUNT, discount),
                (customer::CREDIT_LIMIT, 5_000_000),
                (customer::HAS_BAD_CREDIT, bad),
                (customer::SINCE, 1),
                (customer::NAME, name),
            ],
        );
        self.text(row + customer::TEXT, customer::WIDTH - customer::TEXT);
        let row = self.layout.history(of, district, number as u64);
        let among = (of * self.layout.scale.districts + district) as u64;
        self.set(
            row,
            &[
                (history::CUSTOMER, number as u64),
                (history::CUSTOMER_DISTRICT, among),
                (history::DATE, 1),
                (history::AMOUNT, 1000),
            ],
        );
        self.text(row + history::DATA, history::WIDTH - history::DATA);
    }

    fn order(&mut self, of: usize, district: usize, number: u64, giver: u64, is_new: bool) {
        let lines = self.between(5, line::MOST as u64);
        let carrier = if is_new { 0 } else { self.between(1, 10) };
        let row = self.layout.order(of, district, number);
        self.set(
            row,
            &[
                (order::NUMBER, number),
                (order::CUSTOMER, giver),
                (order::ENTERED, 1),
                (order::CARRIER, carrier),
                (order::LINES, lines),
                (order::ALL_LOCAL, 1),
                (order::IS_NEW, u64::from(is_new)),
            ],
        );
        let customer = self.layout.customer(of, district, giver as usize);
        self.state.write(customer + customer::LAST_ORDER, number);
        for nth in 0..lines as usize {
            let row = self.layout.line(of, district, number, nth);
            let thing = self.between(1, self.layout.scale.items as u64);
            let amount = if is_new { self.between(1, 999_999) } else { 0 };
            self.set(
                row,
                &[
                    (line::ITEM, thing),
                    (line::SUPPLIER, of as u64),
                    (line::DELIVERED, u64::from(!is_new)),
                    (line::QUANTITY, 5),
                    (line::AMOUNT, amount),
                ],
            );
            self.text(row + line::DISTRICT, line::WIDTH - line::DISTRICT);
        }
    }
}

/// The number of a last name, skewed by `constant` (section 4.3.2.3).
pub(crate) fn last_name(random: &mut Rng, constant: u64) -> u64 {
    skewed(random, 255, constant, 0, 999)
}

/// NURand (section 2.1.6).
pub(crate) fn skewed(random: &mut Rng, a: u64, constant: u64, low: u64, high: u64) -> u64 {
    let (one, two) = (random.below(a + 1), low + random.below(high - low + 1));
    ((one | two) + constant) % (high - low + 1) + low
}
