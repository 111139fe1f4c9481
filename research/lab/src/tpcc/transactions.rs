//! The five transactions. Each reads all that it needs before it writes, so that one which is
//! refused or rolled back has written nothing.

use super::fill::is_original;
use super::layout::{Layout, customer, district, history, item, line, order, stock, warehouse};
use super::request::{Customer, Item, Request};
use super::{Names, Words};

/// What came of a transaction: what its terminal would show, in short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// An order has this number, and costs so many cents.
    Ordered {
        /// Number in its district, from 1.
        number: u64,
        /// Cents, taxes and discount included.
        total: u64,
        /// Lines of which item and stock are original.
        original: u64,
    },
    /// An item does not exist: nothing was written.
    RolledBack,
    /// The district has room for no more orders: nothing was written.
    Full,
    /// A customer has paid, and this is the balance, in cents.
    Paid(i64),
    /// The last order of a customer.
    Status {
        /// Its number; 0 if there is none.
        number: u64,
        /// The balance of the customer, in cents.
        balance: i64,
        /// Cents of its lines.
        amount: u64,
    },
    /// The number of orders delivered, at most one a district.
    Delivered(u64),
    /// The number of items that are short.
    Low(u64),
    /// Nobody has that name: nothing was written.
    Nobody,
}

/// Runs a transaction.
pub fn run(layout: &Layout, names: &Names, state: &mut impl Words, request: &Request) -> Outcome {
    let mut run = Run { layout, names, state };
    match request {
        Request::NewOrder { warehouse, district, customer, items, now } => {
            run.new_order(*warehouse, *district, *customer, items, *now)
        }
        Request::Payment { warehouse, district, home, customer, amount, now } => {
            run.payment(*warehouse, *district, *home, *customer, *amount, *now)
        }
        Request::OrderStatus { warehouse, district, customer } => {
            run.order_status(*warehouse, *district, *customer)
        }
        Request::Delivery { warehouse, carrier, now } => run.delivery(*warehouse, *carrier, *now),
        Request::StockLevel { warehouse, district, threshold } => {
            run.stock_level(*warehouse, *district, *threshold)
        }
    }
}

/// Orders that a stock level looks at.
const RECENT: u64 = 20;

struct Run<'a, S> {
    layout: &'a Layout,
    names: &'a Names,
    state: &'a mut S,
}

impl<S: Words> Run<'_, S> {
    fn get(&self, row: usize, field: usize) -> u64 {
        self.state.read(row + field)
    }

    fn set(&mut self, row: usize, fields: &[(usize, u64)]) {
        fields.iter().for_each(|&(field, value)| self.state.write(row + field, value));
    }

    fn add(&mut self, row: usize, field: usize, value: u64) -> u64 {
        let sum = self.get(row, field).wrapping_add(value);
        self.state.write(row + field, sum);
        sum
    }

    fn copy(&mut self, from: usize, to: usize, words: usize) {
        for word in 0..words {
            let value = self.state.read(from + word);
            self.state.write(to + word, value);
        }
    }

    fn find(&self, warehouse: usize, district: usize, customer: Customer) -> Option<usize> {
        let number = match customer {
            Customer::Number(number) => number,
            Customer::Name(name) => self.names.middle(warehouse, district, name)?,
        };
        Some(number)
    }

    /// What a line costs and whether it is original; `None` if there is no such item.
    fn price(&self, wanted: Item) -> Option<(u64, bool)> {
        if wanted.number >= self.layout.scale.items {
            return None;
        }
        let (item, stock) =
            (self.layout.item(wanted.number), self.layout.stock(wanted.supplier, wanted.number));
        let words = |row: usize, data: usize, words: usize| {
            is_original((row + data..row + data + words).map(|word| self.state.read(word)))
        };
        let is_original = words(item, item::DATA, item::DATA_WORDS)
            & words(stock, stock::DATA, stock::DATA_WORDS);
        Some((self.get(item, item::PRICE) * wanted.quantity, is_original))
    }

    fn new_order(
        &mut self,
        of: usize,
        within: usize,
        giver: usize,
        items: &[Item],
        now: u64,
    ) -> Outcome {
        let layout = self.layout;
        let district = layout.district(of, within);
        let customer = layout.customer(of, within, giver);
        let tax =
            self.get(layout.warehouse(of), warehouse::TAX) + self.get(district, district::TAX);
        let discount = self.get(customer, customer::DISCOUNT);
        let Some(prices) = items.iter().map(|&it| self.price(it)).collect::<Option<Vec<_>>>()
        else {
            return Outcome::RolledBack;
        };
        let number = self.get(district, district::NEXT_ORDER);
        if number > layout.scale.orders_room as u64 {
            return Outcome::Full;
        }
        self.state.write(district + district::NEXT_ORDER, number + 1);
        self.state.write(customer + customer::LAST_ORDER, number);
        let all_local = items.iter().all(|item| item.supplier == of);
        self.set(
            layout.order(of, within, number),
            &[
                (order::NUMBER, number),
                (order::CUSTOMER, giver as u64),
                (order::ENTERED, now),
                (order::CARRIER, 0),
                (order::LINES, items.len() as u64),
                (order::ALL_LOCAL, u64::from(all_local)),
                (order::IS_NEW, 1),
            ],
        );
        for (nth, (&item, &(amount, _))) in items.iter().zip(&prices).enumerate() {
            let stock = layout.stock(item.supplier, item.number);
            let quantity = self.get(stock, stock::QUANTITY);
            let left = match quantity >= item.quantity + 10 {
                true => quantity - item.quantity,
                false => quantity + 91 - item.quantity,
            };
            self.state.write(stock + stock::QUANTITY, left);
            self.add(stock, stock::YTD, item.quantity);
            self.add(stock, stock::ORDERS, 1);
            if item.supplier != of {
                self.add(stock, stock::REMOTE, 1);
            }
            let row = layout.line(of, within, number, nth);
            self.set(
                row,
                &[
                    (line::ITEM, item.number as u64 + 1),
                    (line::SUPPLIER, item.supplier as u64),
                    (line::DELIVERED, 0),
                    (line::QUANTITY, item.quantity),
                    (line::AMOUNT, amount),
                ],
            );
            let told = stock + stock::DISTRICTS + within * stock::DISTRICT_WORDS;
            self.copy(told, row + line::DISTRICT, stock::DISTRICT_WORDS);
        }
        let sum: u64 = prices.iter().map(|(amount, _)| amount).sum();
        let total = sum * (10_000 - discount) / 10_000 * (10_000 + tax) / 10_000;
        let original = prices.iter().filter(|(_, is_original)| *is_original).count() as u64;
        Outcome::Ordered { number, total, original }
    }

    fn payment(
        &mut self,
        of: usize,
        within: usize,
        home: (usize, usize),
        customer: Customer,
        amount: u64,
        now: u64,
    ) -> Outcome {
        let layout = self.layout;
        let Some(number) = self.find(home.0, home.1, customer) else { return Outcome::Nobody };
        let warehouse = layout.warehouse(of);
        let district = layout.district(of, within);
        let customer = layout.customer(home.0, home.1, number);
        self.add(warehouse, warehouse::YTD, amount);
        self.add(district, district::YTD, amount);
        let balance = self.add(customer, customer::BALANCE, amount.wrapping_neg()) as i64;
        self.add(customer, customer::YTD_PAYMENT, amount);
        self.add(customer, customer::PAYMENTS, 1);
        let among = (home.0 * layout.scale.districts + home.1) as u64;
        if self.get(customer, customer::HAS_BAD_CREDIT) == 1 {
            // What is known of the customer moves to the right, and what falls off is lost.
            const NEW: usize = 4;
            for word in (NEW..customer::DATA_WORDS).rev() {
                let value = self.get(customer, customer::DATA + word - NEW);
                self.state.write(customer + customer::DATA + word, value);
            }
            let news =
                [number as u64, among, (of * layout.scale.districts + within) as u64, amount];
            for (word, value) in news.into_iter().enumerate() {
                self.state.write(customer + customer::DATA + word, value);
            }
        }
        let nth = self.add(district, district::HISTORY, 1) - 1;
        let row = layout.history(of, within, nth);
        self.set(
            row,
            &[
                (history::CUSTOMER, number as u64),
                (history::CUSTOMER_DISTRICT, among),
                (history::DATE, now),
                (history::AMOUNT, amount),
            ],
        );
        // Of each name the first bytes.
        self.copy(warehouse + warehouse::TEXT, row + history::DATA, 1);
        self.copy(district + district::TEXT, row + history::DATA + 1, 2);
        Outcome::Paid(balance)
    }

    fn order_status(&self, of: usize, within: usize, customer: Customer) -> Outcome {
        let layout = self.layout;
        let Some(customer) = self.find(of, within, customer) else { return Outcome::Nobody };
        let customer = layout.customer(of, within, customer);
        let balance = self.get(customer, customer::BALANCE) as i64;
        let number = self.get(customer, customer::LAST_ORDER);
        let mut amount = 0;
        if number > 0 {
            let lines = self.get(layout.order(of, within, number), order::LINES);
            for nth in 0..lines as usize {
                amount += self.get(layout.line(of, within, number, nth), line::AMOUNT);
            }
        }
        Outcome::Status { number, balance, amount }
    }

    fn delivery(&mut self, of: usize, carrier: u64, now: u64) -> Outcome {
        let layout = self.layout;
        let mut delivered = 0;
        for within in 0..layout.scale.districts {
            let district = layout.district(of, within);
            let number = self.get(district, district::OLDEST_NEW);
            if number >= self.get(district, district::NEXT_ORDER) {
                continue; // there is none: skipped, as section 2.7.4.2 says
            }
            let order = layout.order(of, within, number);
            let (giver, lines) = (self.get(order, order::CUSTOMER), self.get(order, order::LINES));
            let mut amount = 0;
            for nth in 0..lines as usize {
                let row = layout.line(of, within, number, nth);
                amount += self.get(row, line::AMOUNT);
                self.state.write(row + line::DELIVERED, now);
            }
            self.set(order, &[(order::CARRIER, carrier), (order::IS_NEW, 0)]);
            self.state.write(district + district::OLDEST_NEW, number + 1);
            let customer = layout.customer(of, within, giver as usize);
            self.add(customer, customer::BALANCE, amount);
            self.add(customer, customer::DELIVERIES, 1);
            delivered += 1;
        }
        Outcome::Delivered(delivered)
    }

    fn stock_level(&self, of: usize, within: usize, threshold: u64) -> Outcome {
        let layout = self.layout;
        let next = self.get(layout.district(of, within), district::NEXT_ORDER);
        let mut items = Vec::with_capacity(RECENT as usize * line::MOST);
        for number in next.saturating_sub(RECENT).max(1)..next {
            let lines = self.get(layout.order(of, within, number), order::LINES);
            for nth in 0..lines as usize {
                let item = self.get(layout.line(of, within, number, nth), line::ITEM);
                items.push(item as usize - 1);
            }
        }
        items.sort_unstable();
        items.dedup();
        let is_low = |&item: &usize| self.get(layout.stock(of, item), stock::QUANTITY) < threshold;
        Outcome::Low(items.into_iter().filter(is_low).count() as u64)
    }
}
