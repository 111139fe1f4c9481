//! Where rows and fields lie. A row is some words: numbers a word each, texts eight bytes a word.

/// How large the tables are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses.
    pub warehouses: usize,
    /// Items, and rows of stock in a warehouse.
    pub items: usize,
    /// Districts of a warehouse.
    pub districts: usize,
    /// Customers of a district, who have one order each at first.
    pub customers: usize,
    /// Most orders of a district, the first ones included.
    pub orders_room: usize,
}

impl Scale {
    /// That of the specification, with room for as many orders again as there are at first.
    #[must_use]
    pub fn full(warehouses: usize) -> Self {
        Self { warehouses, items: 100_000, districts: 10, customers: 3000, orders_room: 6000 }
    }
    /// A hundredth of it, for tests.
    #[must_use]
    pub fn tiny(warehouses: usize) -> Self {
        Self { warehouses, items: 1000, districts: 10, customers: 30, orders_room: 60 }
    }
}

/// The state has more words than can be counted, or a table has no rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("tables of {0:?} have no rows, or more words than can be counted")]
pub struct TooLarge(Scale);

/// Rows of one kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    base: usize,
    width: usize,
}

impl Table {
    pub(crate) fn row(self, number: usize) -> usize {
        self.base + number * self.width
    }
}

/// Fields of a row; the words behind the last one hold texts.
pub(crate) mod warehouse {
    pub(crate) const TAX: usize = 0;
    pub(crate) const YTD: usize = 1;
    pub(crate) const TEXT: usize = 2;
    /// Name 10, two streets and city 20 each, state 2, zip 9.
    pub(crate) const WIDTH: usize = TEXT + 2 + 3 * 3 + 1 + 2;
}
pub(crate) mod district {
    pub(crate) const TAX: usize = 0;
    pub(crate) const YTD: usize = 1;
    pub(crate) const NEXT_ORDER: usize = 2;
    /// The number of the oldest order that was not delivered.
    pub(crate) const OLDEST_NEW: usize = 3;
    /// Rows that its history has ever had.
    pub(crate) const HISTORY: usize = 4;
    pub(crate) const TEXT: usize = 5;
    pub(crate) const WIDTH: usize = TEXT + super::warehouse::WIDTH - super::warehouse::TEXT;
}
pub(crate) mod customer {
    pub(crate) const BALANCE: usize = 0;
    pub(crate) const YTD_PAYMENT: usize = 1;
    pub(crate) const PAYMENTS: usize = 2;
    pub(crate) const DELIVERIES: usize = 3;
    pub(crate) const DISCOUNT: usize = 4;
    pub(crate) const CREDIT_LIMIT: usize = 5;
    pub(crate) const HAS_BAD_CREDIT: usize = 6;
    pub(crate) const LAST_ORDER: usize = 7;
    pub(crate) const SINCE: usize = 8;
    /// The number from which the last name is made.
    pub(crate) const NAME: usize = 9;
    /// First name 16, middle 2, two streets and city 20 each, state 2, zip 9, phone 16.
    pub(crate) const TEXT: usize = 10;
    pub(crate) const DATA: usize = TEXT + 2 + 1 + 3 * 3 + 1 + 2 + 2;
    /// 500 bytes.
    pub(crate) const DATA_WORDS: usize = 63;
    pub(crate) const WIDTH: usize = DATA + DATA_WORDS;
}
pub(crate) mod item {
    pub(crate) const PRICE: usize = 0;
    pub(crate) const IMAGE: usize = 1;
    /// Name 24.
    pub(crate) const TEXT: usize = 2;
    /// 50 bytes.
    pub(crate) const DATA: usize = TEXT + 3;
    pub(crate) const DATA_WORDS: usize = 7;
    pub(crate) const WIDTH: usize = DATA + DATA_WORDS;
}
pub(crate) mod stock {
    pub(crate) const QUANTITY: usize = 0;
    pub(crate) const YTD: usize = 1;
    pub(crate) const ORDERS: usize = 2;
    pub(crate) const REMOTE: usize = 3;
    /// 50 bytes.
    pub(crate) const DATA: usize = 4;
    pub(crate) const DATA_WORDS: usize = 7;
    /// What a district is told, 24 bytes each.
    pub(crate) const DISTRICTS: usize = DATA + DATA_WORDS;
    pub(crate) const DISTRICT_WORDS: usize = 3;
    pub(crate) fn width(districts: usize) -> usize {
        DISTRICTS + districts * DISTRICT_WORDS
    }
}
pub(crate) mod order {
    /// Its number from 1; 0 if there is no such order yet.
    pub(crate) const NUMBER: usize = 0;
    pub(crate) const CUSTOMER: usize = 1;
    pub(crate) const ENTERED: usize = 2;
    /// From 1; 0 until it is delivered.
    pub(crate) const CARRIER: usize = 3;
    pub(crate) const LINES: usize = 4;
    pub(crate) const ALL_LOCAL: usize = 5;
    /// Whether it has a row in NEW-ORDER.
    pub(crate) const IS_NEW: usize = 6;
    pub(crate) const WIDTH: usize = 7;
}
pub(crate) mod line {
    /// The item from 1; 0 if there is no such line.
    pub(crate) const ITEM: usize = 0;
    pub(crate) const SUPPLIER: usize = 1;
    /// When it was delivered; 0 until it is.
    pub(crate) const DELIVERED: usize = 2;
    pub(crate) const QUANTITY: usize = 3;
    pub(crate) const AMOUNT: usize = 4;
    /// 24 bytes.
    pub(crate) const DISTRICT: usize = 5;
    pub(crate) const WIDTH: usize = DISTRICT + 3;
    /// Most of one order.
    pub(crate) const MOST: usize = 15;
}
pub(crate) mod history {
    pub(crate) const CUSTOMER: usize = 0;
    pub(crate) const CUSTOMER_DISTRICT: usize = 1;
    pub(crate) const DATE: usize = 2;
    pub(crate) const AMOUNT: usize = 3;
    /// Names of warehouse and district.
    pub(crate) const DATA: usize = 4;
    pub(crate) const WIDTH: usize = DATA + 3;
}

/// Where all rows lie.
#[derive(Debug, Clone)]
pub struct Layout {
    /// How large the tables are.
    pub scale: Scale,
    warehouses: Table,
    districts: Table,
    customers: Table,
    items: Table,
    stock: Table,
    orders: Table,
    lines: Table,
    histories: Table,
    words: usize,
}

impl Layout {
    /// That of tables of this scale.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn new(scale: Scale) -> Result<Self, TooLarge> {
        let Scale { warehouses, items, districts, customers, orders_room } = scale;
        let mut words = 0_usize;
        let mut table = |counts: &[usize], width: usize| {
            let base = words;
            let count = counts.iter().try_fold(1_usize, |all, &count| all.checked_mul(count));
            let all = count.filter(|&count| count > 0).and_then(|count| count.checked_mul(width));
            words = all.and_then(|all| base.checked_add(all)).ok_or(TooLarge(scale))?;
            Ok(Table { base, width })
        };
        // A request draws up to fifteen items, and the last twenty orders are looked at.
        if items < line::MOST || orders_room < customers || districts > 1 << 16 {
            return Err(TooLarge(scale));
        }
        let [w, d] = [warehouses, districts];
        Ok(Self {
            scale,
            warehouses: table(&[w], warehouse::WIDTH)?,
            districts: table(&[w, d], district::WIDTH)?,
            customers: table(&[w, d, customers], customer::WIDTH)?,
            items: table(&[items], item::WIDTH)?,
            stock: table(&[w, items], stock::width(districts))?,
            orders: table(&[w, d, orders_room], order::WIDTH)?,
            lines: table(&[w, d, orders_room, line::MOST], line::WIDTH)?,
            histories: table(&[w, d, orders_room], history::WIDTH)?,
            words,
        })
    }

    /// Words of the state.
    #[must_use]
    pub fn words(&self) -> usize {
        self.words
    }

    pub(crate) fn warehouse(&self, warehouse: usize) -> usize {
        self.warehouses.row(warehouse)
    }
    /// The number of a district among all.
    fn among_all(&self, warehouse: usize, district: usize) -> usize {
        warehouse * self.scale.districts + district
    }
    pub(crate) fn district(&self, warehouse: usize, district: usize) -> usize {
        self.districts.row(self.among_all(warehouse, district))
    }
    pub(crate) fn customer(&self, warehouse: usize, district: usize, customer: usize) -> usize {
        let before = self.among_all(warehouse, district) * self.scale.customers;
        self.customers.row(before + customer)
    }
    pub(crate) fn item(&self, item: usize) -> usize {
        self.items.row(item)
    }
    pub(crate) fn stock(&self, warehouse: usize, item: usize) -> usize {
        self.stock.row(warehouse * self.scale.items + item)
    }
    fn order_among_all(&self, warehouse: usize, district: usize, number: u64) -> usize {
        let before = self.among_all(warehouse, district) * self.scale.orders_room;
        before + (number - 1) as usize
    }
    /// The row of an order by its number, which begins at 1.
    pub(crate) fn order(&self, warehouse: usize, district: usize, number: u64) -> usize {
        self.orders.row(self.order_among_all(warehouse, district, number))
    }
    pub(crate) fn line(&self, warehouse: usize, district: usize, number: u64, nth: usize) -> usize {
        self.lines.row(self.order_among_all(warehouse, district, number) * line::MOST + nth)
    }
    pub(crate) fn history(&self, warehouse: usize, district: usize, nth: u64) -> usize {
        let before = self.among_all(warehouse, district) * self.scale.orders_room;
        self.histories.row(before + (nth % self.scale.orders_room as u64) as usize)
    }
}
