//! From the events of a file to rows of a table.

use std::collections::BTreeMap;

use stillframe_rdb::{Decoder, Element, Event, Id, Uses, Value, ValuePlace};

use crate::error::QueryError;
use crate::image::{Image, Part};
use crate::sheet::{Cell, Sheet};
use crate::table::{Kind, Table};

/// Most rows of a batch.
pub(crate) const BATCH_ROWS: usize = 8192;
/// About how many bytes end a batch earlier.
pub(crate) const BATCH_BYTES: usize = 16 << 20;

/// A key, and what the file says of it before its value.
#[derive(Default)]
pub struct Key {
    pub db: i64,
    pub name: Vec<u8>,
    pub kind: Kind,
    /// When it expires, in unix milliseconds.
    pub expires_at: Option<i64>,
    /// Seconds since it was last used, if the file tells.
    pub idle: Option<i64>,
}

/// What is known of a value once it was read.
pub struct Facts {
    pub encoding: &'static str,
    pub elements: i64,
    /// Bytes in the file.
    pub bytes: i64,
}

/// Which keys a scan needs; others may come, too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    pub dbs: Option<Vec<i64>>,
    /// How names begin.
    pub prefix: Vec<u8>,
    /// Whole names.
    pub names: Option<Vec<Vec<u8>>>,
    pub types: Option<Vec<String>>,
    /// Whether they expire.
    pub expires: Option<bool>,
}

impl Wanted {
    pub(crate) fn wants(&self, key: &Key) -> bool {
        self.dbs.as_ref().is_none_or(|dbs| dbs.contains(&key.db))
            && key.name.starts_with(&self.prefix)
            && self.names.as_ref().is_none_or(|names| names.contains(&key.name))
            && self.types.as_ref().is_none_or(|types| types.iter().any(|it| it == key.kind.name()))
            && self.expires.is_none_or(|expires| expires == key.expires_at.is_some())
    }
}

/// What makes rows of keys. All calls of one key come in the order below.
pub trait Rows: Send {
    /// Whether the key has rows.
    fn wants(&self, key: &Key) -> bool;
    /// The value is this string.
    fn string(&mut self, _: &mut Sheet, _: &Key, _value: &[u8]) {}
    /// The next element of the value, from number 0 on.
    fn element(&mut self, _: &mut Sheet, _: &Key, _number: i64, _: &Element<'_>) {}
    /// The value ends.
    fn end(&mut self, _: &mut Sheet, _: &Key, _: &Facts) {}
}

/// What takes batches; false if it wants no more.
pub type Emit<'a> = dyn FnMut(arrow::array::RecordBatch) -> bool + Send + 'a;

/// Reads a part of an image, and passes on batches until `emit` wants no more.
///
/// # Errors
/// The file cannot be read any more, or has changed; the view was given up.
pub fn scan(
    image: &Image,
    [part, parts]: [usize; 2],
    wanted: &Wanted,
    rows: &mut dyn Rows,
    sheet: &mut Sheet,
    emit: &mut Emit<'_>,
) -> Result<(), QueryError> {
    let (reader, bytes) = match image.part(part, parts) {
        Part::File(reader, bytes) => (reader, bytes),
        Part::View(view, slots) => {
            return crate::live::scan(view, slots, wanted, rows, sheet, emit);
        }
    };
    let mut decoder = Decoder::new(reader).with_file_bytes(bytes);
    decoder.skip_modules();
    let mut reading = Reading::default();
    loop {
        let event = decoder.next().map_err(|source| image.damaged(source))?;
        let is_whole = match event {
            None | Some(Event::Eof { .. }) => break,
            Some(event) => reading.take(&event, wanted, rows, sheet),
        };
        if is_whole && reading.is_wanted {
            let place = decoder.value_place();
            let bytes = int(decoder.offset().saturating_sub(place.offset));
            let encoding = reading.encoding.unwrap_or_else(|| of_collection(place));
            let facts = Facts { encoding, elements: reading.elements, bytes };
            rows.end(sheet, &reading.key, &facts);
        }
        if sheet.rows() >= BATCH_ROWS || sheet.bytes() >= BATCH_BYTES {
            image.show(decoder.offset());
            if !emit(sheet.take()?) {
                return Ok(());
            }
        }
    }
    image.show(decoder.offset());
    if sheet.rows() > 0 {
        emit(sheet.take()?);
    }
    Ok(())
}

/// The key that is being read.
#[derive(Default)]
struct Reading {
    key: Key,
    is_wanted: bool,
    elements: i64,
    /// That of a string: a collection's is known at its end.
    encoding: Option<&'static str>,
    number: String,
}

impl Reading {
    /// Takes the next event; true if the value of the key is whole.
    fn take(
        &mut self,
        event: &Event<'_>,
        wanted: &Wanted,
        rows: &mut dyn Rows,
        sheet: &mut Sheet,
    ) -> bool {
        match *event {
            Event::Entry { db, key: name, value, expire_at_ms, uses } => {
                self.key.set(db, name, Kind::String, expire_at_ms, uses);
                self.is_wanted = wanted.wants(&self.key) && rows.wants(&self.key);
                self.elements = 1;
                self.encoding = Some(match value {
                    Value::Int(_) => "int",
                    Value::Bytes(bytes) if bytes.len() <= EMBEDDED_MAX => "embstr",
                    Value::Bytes(_) => "raw",
                });
                if self.is_wanted {
                    let bytes = match value {
                        Value::Bytes(bytes) => bytes,
                        Value::Int(number) => {
                            self.number = number.to_string();
                            self.number.as_bytes()
                        }
                    };
                    rows.string(sheet, &self.key, bytes);
                }
                true
            }
            Event::Begin { db, key: name, kind, expire_at_ms, uses, .. } => {
                self.key.set(db, name, Kind::Of(kind), expire_at_ms, uses);
                self.is_wanted = wanted.wants(&self.key) && rows.wants(&self.key);
                (self.elements, self.encoding) = (0, None);
                false
            }
            Event::Element(element) => {
                if self.is_wanted {
                    rows.element(sheet, &self.key, self.elements, &element);
                    self.elements += i64::from(is_counted(&element));
                }
                false
            }
            Event::End => true,
            _ => false,
        }
    }
}

/// Longest string that Redis keeps in one block with its header.
const EMBEDDED_MAX: usize = 44;

/// Whether an element is one to people, and not a part of what a stream knows beside its entries.
fn is_counted(element: &Element<'_>) -> bool {
    matches!(
        element,
        Element::One(_)
            | Element::Pair(..)
            | Element::Expiring(..)
            | Element::Scored(..)
            | Element::At(..)
            | Element::Entry { .. }
    )
}

/// The form in which a collection stands in the file, in the words of `OBJECT ENCODING`.
fn of_collection(place: ValuePlace) -> &'static str {
    match place.kind {
        1 => "linkedlist",
        2 | 4 | 22 | 24 => "hashtable",
        3 | 5 => "skiplist",
        9 => "zipmap",
        10 | 12 | 13 => "ziplist",
        11 => "intset",
        14 | 18 => "quicklist",
        16 | 17 | 20 => "listpack",
        23 | 25 => "listpackex",
        28 => "sliced-array",
        29 | 30 => "template-listpack",
        31 | 32 => "template-array",
        _ => "stream",
    }
}

impl Key {
    fn set(&mut self, db: u64, name: &[u8], kind: Kind, expires_at: Option<i64>, uses: Uses) {
        self.db = i64::try_from(db).unwrap_or(i64::MAX);
        self.name.clear();
        self.name.extend_from_slice(name);
        self.kind = kind;
        self.expires_at = expires_at;
        self.idle = match uses {
            Uses::IdleSeconds(seconds) => i64::try_from(seconds).ok(),
            Uses::Unknown | Uses::Frequency(_) => None,
        };
    }
}

/// An id as Redis writes it.
pub fn id_text(id: Id) -> String {
    format!("{}-{}", id.0, id.1)
}

/// A number of the file as one of SQL.
pub fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The rows of a table that every image has.
pub struct OfTable {
    table: Table,
    /// The instant of the image, in unix milliseconds: times to live count from it.
    instant: i64,
    group: Option<Group>,
}

/// A group of consumers, up to its end.
struct Group {
    name: Vec<u8>,
    last: Id,
    read: Option<u64>,
    consumers: i64,
    consumer: Vec<u8>,
    pending: BTreeMap<(u64, u64), Delivery>,
}

struct Delivery {
    time_ms: i64,
    count: u64,
    consumer: Option<Vec<u8>>,
}

impl OfTable {
    pub fn new(table: Table, instant: i64) -> Self {
        Self { table, instant, group: None }
    }

    fn ttl(&self, at: Option<i64>) -> Cell<'static> {
        at.map_or(Cell::Null, |at| Cell::Int(at.saturating_sub(self.instant)))
    }

    fn row(sheet: &mut Sheet, key: &Key, rest: &[Cell<'_>]) {
        sheet.set(0, Cell::Int(key.db));
        sheet.set(1, Cell::Text(&key.name));
        for (column, cell) in rest.iter().enumerate() {
            sheet.set(2 + column, *cell);
        }
        sheet.end_row();
    }

    /// What a stream knows beside its entries.
    fn of_group(&mut self, sheet: &mut Sheet, key: &Key, element: &Element<'_>) {
        match *element {
            Element::Group { name, last, read, .. } => {
                self.end_group(sheet, key);
                let (name, pending) = (name.to_vec(), BTreeMap::new());
                let (consumers, consumer) = (0, Vec::new());
                self.group = Some(Group { name, last, read, consumers, consumer, pending });
            }
            Element::Pending { id, time_ms, count } => {
                if let Some(group) = &mut self.group {
                    let delivery = Delivery { time_ms, count, consumer: None };
                    group.pending.insert((id.0, id.1), delivery);
                }
            }
            Element::Consumer { name, .. } => {
                if let Some(group) = &mut self.group {
                    group.consumers += 1;
                    group.consumer = name.to_vec();
                }
            }
            Element::Owned(id) => {
                if let Some(group) = &mut self.group
                    && let Some(delivery) = group.pending.get_mut(&(id.0, id.1))
                {
                    delivery.consumer = Some(group.consumer.clone());
                }
            }
            _ => {}
        }
    }

    fn end_group(&mut self, sheet: &mut Sheet, key: &Key) {
        let Some(group) = self.group.take() else { return };
        if self.table == Table::Groups {
            let last = id_text(group.last);
            let rest = [
                Cell::Text(&group.name),
                Cell::Text(last.as_bytes()),
                group.read.map_or(Cell::Null, |read| Cell::Int(int(read))),
                Cell::Int(group.consumers),
                Cell::Int(int(group.pending.len() as u64)),
            ];
            return Self::row(sheet, key, &rest);
        }
        for ((ms, seq), delivery) in &group.pending {
            let id = format!("{ms}-{seq}");
            let consumer = delivery.consumer.as_deref();
            let rest = [
                Cell::Text(&group.name),
                Cell::Text(id.as_bytes()),
                consumer.map_or(Cell::Null, Cell::Text),
                Cell::Int(delivery.time_ms),
                Cell::Int(int(delivery.count)),
            ];
            Self::row(sheet, key, &rest);
        }
    }
}

impl Rows for OfTable {
    fn wants(&self, key: &Key) -> bool {
        self.table.kind().is_none_or(|kind| kind == key.kind)
    }

    fn string(&mut self, sheet: &mut Sheet, key: &Key, value: &[u8]) {
        if self.table == Table::Strings {
            Self::row(sheet, key, &[Cell::Text(value), self.ttl(key.expires_at)]);
        }
    }

    fn element(&mut self, sheet: &mut Sheet, key: &Key, number: i64, element: &Element<'_>) {
        match (self.table, *element) {
            (Table::Hashes, Element::Pair(field, value)) => {
                Self::row(sheet, key, &[Cell::Text(field), Cell::Text(value), Cell::Null]);
            }
            (Table::Hashes, Element::Expiring(field, value, at)) => {
                let ttl = self.ttl(Some(at));
                Self::row(sheet, key, &[Cell::Text(field), Cell::Text(value), ttl]);
            }
            (Table::Lists, Element::One(value)) => {
                Self::row(sheet, key, &[Cell::Int(number), Cell::Text(value)]);
            }
            (Table::Sets, Element::One(member)) => Self::row(sheet, key, &[Cell::Text(member)]),
            (Table::Zsets, Element::Scored(member, score)) => {
                Self::row(sheet, key, &[Cell::Text(member), Cell::Double(score)]);
            }
            (Table::Streams, Element::Entry { id, names, values, .. }) => {
                let pairs = (0..names.count()).map(|at| [names.get(at), values.get(at)]);
                sheet.set_pairs(4, pairs);
                sheet.set(0, Cell::Int(key.db));
                sheet.set(1, Cell::Text(&key.name));
                sheet.set(2, Cell::Text(id_text(id).as_bytes()));
                sheet.set(3, Cell::Int(int(id.0)));
                sheet.end_row();
            }
            (Table::Groups | Table::Pending, _) => self.of_group(sheet, key, element),
            _ => {}
        }
    }

    fn end(&mut self, sheet: &mut Sheet, key: &Key, facts: &Facts) {
        self.end_group(sheet, key);
        if self.table == Table::Keys {
            let rest = [
                Cell::Text(key.kind.name().as_bytes()),
                Cell::Text(facts.encoding.as_bytes()),
                self.ttl(key.expires_at),
                key.expires_at.map_or(Cell::Null, Cell::Int),
                Cell::Int(facts.bytes),
                Cell::Int(facts.elements),
                key.idle.map_or(Cell::Null, Cell::Int),
            ];
            Self::row(sheet, key, &rest);
        }
    }
}
