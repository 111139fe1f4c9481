//! What a transaction is asked for: drawn as the specification says, and as bytes of a log.

use stillframe_measure::draw::Rng;

use super::fill::{last_name, skewed};
use super::layout::{Layout, line};

/// How a customer is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Customer {
    /// By number.
    Number(usize),
    /// By last name: the one in the middle of all who have it, by first name.
    Name(u64),
}

/// A line of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// The item; one behind the last is asked for by mistake, and the order is rolled back.
    pub number: usize,
    /// The warehouse that supplies it.
    pub supplier: usize,
    /// How many.
    pub quantity: u64,
}

/// A transaction. Warehouses, districts, customers and items are counted from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the specification")]
pub enum Request {
    /// A customer orders five to fifteen items (section 2.4).
    NewOrder { warehouse: usize, district: usize, customer: usize, items: Vec<Item>, now: u64 },
    /// A customer, perhaps of another warehouse, pays (2.5).
    Payment {
        warehouse: usize,
        district: usize,
        home: (usize, usize),
        customer: Customer,
        /// Cents.
        amount: u64,
        now: u64,
    },
    /// The last order of a customer (2.6).
    OrderStatus { warehouse: usize, district: usize, customer: Customer },
    /// The oldest new order of each district is delivered (2.7).
    Delivery { warehouse: usize, carrier: u64, now: u64 },
    /// How many items of the last twenty orders are short (2.8).
    StockLevel { warehouse: usize, district: usize, threshold: u64 },
}

/// Bytes are no request, or none of tables of this scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("bytes are no transaction of TPC-C, or not of tables of this scale")]
pub struct Malformed;

/// The constants of a run's random numbers (section 2.1.6.1).
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    name: u64,
    customer: u64,
    item: u64,
}

impl Plan {
    /// Constants as a function of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = Rng(seed);
        // The names of the fill have 157: the two differ by 65 to 119, but not by 96 or 112.
        let name = 157 + 65 + random.below(31);
        Self { name, customer: random.below(1024), item: random.below(8192) }
    }

    /// The next transaction of the standard mix (section 5.2.3: 45, 43, 4, 4 and 4 %), at a date.
    pub fn draw(&self, layout: &Layout, random: &mut Rng, now: u64) -> Request {
        let scale = layout.scale;
        let [warehouses, districts] = [scale.warehouses, scale.districts].map(|it| it as u64);
        let warehouse = random.below(warehouses) as usize;
        let district = random.below(districts) as usize;
        match random.below(100) {
            0..45 => self.new_order(layout, random, warehouse, district, now),
            45..88 => {
                let is_remote = warehouses > 1 && random.below(100) < 15;
                let home = match is_remote {
                    true => (other(random, scale.warehouses, warehouse), random.below(districts)),
                    false => (warehouse, district as u64),
                };
                let home = (home.0, home.1 as usize);
                let customer = self.named(layout, random);
                let amount = 100 + random.below(499_901);
                Request::Payment { warehouse, district, home, customer, amount, now }
            }
            88..92 => {
                let customer = self.named(layout, random);
                Request::OrderStatus { warehouse, district, customer }
            }
            92..96 => Request::Delivery { warehouse, carrier: 1 + random.below(10), now },
            _ => Request::StockLevel { warehouse, district, threshold: 10 + random.below(11) },
        }
    }

    fn customer(&self, layout: &Layout, random: &mut Rng) -> usize {
        let last = layout.scale.customers as u64 - 1;
        skewed(random, 1023, self.customer, 0, last) as usize
    }

    fn named(&self, layout: &Layout, random: &mut Rng) -> Customer {
        match random.below(100) < 60 {
            // Fewer customers than names have the first ones.
            true => {
                let names = layout.scale.customers.min(1000) as u64;
                Customer::Name(last_name(random, self.name) % names)
            }
            false => Customer::Number(self.customer(layout, random)),
        }
    }

    fn new_order(
        &self,
        layout: &Layout,
        random: &mut Rng,
        warehouse: usize,
        district: usize,
        now: u64,
    ) -> Request {
        let scale = layout.scale;
        let customer = self.customer(layout, random);
        let count = 5 + random.below(11) as usize;
        let mut items: Vec<Item> = (0..count)
            .map(|_| {
                let number = skewed(random, 8191, self.item, 0, scale.items as u64 - 1) as usize;
                let is_remote = scale.warehouses > 1 && random.below(100) == 0;
                let supplier = match is_remote {
                    true => other(random, scale.warehouses, warehouse),
                    false => warehouse,
                };
                Item { number, supplier, quantity: 1 + random.below(10) }
            })
            .collect();
        if random.below(100) == 0 {
            items[count - 1].number = scale.items;
        }
        Request::NewOrder { warehouse, district, customer, items, now }
    }
}

/// A warehouse, but not that one.
fn other(random: &mut Rng, warehouses: usize, but: usize) -> usize {
    let among = random.below(warehouses as u64 - 1) as usize;
    among + usize::from(among >= but)
}

impl Request {
    /// Appends its bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        let mut put = |numbers: &[u64]| {
            numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        };
        let customer_words = |customer: &Customer| match *customer {
            Customer::Number(number) => [0, number as u64],
            Customer::Name(name) => [1, name],
        };
        match self {
            Self::NewOrder { warehouse, district, customer, items, now } => {
                put(&[0, *warehouse as u64, *district as u64, *customer as u64, *now]);
                for item in items {
                    put(&[item.number as u64, item.supplier as u64, item.quantity]);
                }
            }
            Self::Payment { warehouse, district, home, customer, amount, now } => {
                put(&[1, *warehouse as u64, *district as u64, home.0 as u64, home.1 as u64]);
                put(&customer_words(customer));
                put(&[*amount, *now]);
            }
            Self::OrderStatus { warehouse, district, customer } => {
                put(&[2, *warehouse as u64, *district as u64]);
                put(&customer_words(customer));
            }
            Self::Delivery { warehouse, carrier, now } => {
                put(&[3, *warehouse as u64, *carrier, *now]);
            }
            Self::StockLevel { warehouse, district, threshold } => {
                put(&[4, *warehouse as u64, *district as u64, *threshold]);
            }
        }
    }

    /// The request that these bytes are.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(layout: &Layout, bytes: &[u8]) -> Result<Self, Malformed> {
        let (words, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(Malformed);
        }
        let words: Vec<u64> = words.iter().copied().map(u64::from_le_bytes).collect();
        let scale = layout.scale;
        let below = |value: u64, bound: usize| {
            usize::try_from(value).ok().filter(|&value| value < bound).ok_or(Malformed)
        };
        let place = |warehouse: u64, district: u64| {
            Ok((below(warehouse, scale.warehouses)?, below(district, scale.districts)?))
        };
        let customer_of = |kind: u64, value: u64| match kind {
            0 => below(value, scale.customers).map(Customer::Number),
            1 => Ok(Customer::Name(value)),
            _ => Err(Malformed),
        };
        match *words.as_slice() {
            [0, warehouse, district, customer, now, ref items @ ..] => {
                let (items, rest) = items.as_chunks::<3>();
                if !rest.is_empty() || items.is_empty() || items.len() > line::MOST {
                    return Err(Malformed);
                }
                let (warehouse, district) = place(warehouse, district)?;
                let item = |&[number, supplier, quantity]: &[u64; 3]| {
                    let number = below(number, scale.items + 1)?;
                    let supplier = below(supplier, scale.warehouses)?;
                    below(quantity, 1000)?;
                    Ok(Item { number, supplier, quantity })
                };
                let items = items.iter().map(item).collect::<Result<_, _>>()?;
                let customer = below(customer, scale.customers)?;
                Ok(Self::NewOrder { warehouse, district, customer, items, now })
            }
            [1, warehouse, district, other, of, kind, value, amount, now] => {
                let (warehouse, district) = place(warehouse, district)?;
                let (home, customer) = (place(other, of)?, customer_of(kind, value)?);
                Ok(Self::Payment { warehouse, district, home, customer, amount, now })
            }
            [2, warehouse, district, kind, value] => {
                let (warehouse, district) = place(warehouse, district)?;
                let customer = customer_of(kind, value)?;
                Ok(Self::OrderStatus { warehouse, district, customer })
            }
            [3, warehouse, carrier, now] => {
                let warehouse = below(warehouse, scale.warehouses)?;
                Ok(Self::Delivery { warehouse, carrier, now })
            }
            [4, warehouse, district, threshold] => {
                let (warehouse, district) = place(warehouse, district)?;
                Ok(Self::StockLevel { warehouse, district, threshold })
            }
            _ => Err(Malformed),
        }
    }
}
