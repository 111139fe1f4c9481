//! Scans of a view of a server in this process: parts of it at once, while the server goes on.

use std::ops::Range;

use arrow::array::RecordBatch;
use stillframe_commands::encoding;
use stillframe_keyspace::{
    Entry, EntrySink, IntText, ReadViewLost, ScanError, SinkError, Stream, StreamId, Usage, Value,
};
use stillframe_rdb::{Collection, Element, Texts};
use stillframe_server::DataView;

use crate::error::QueryError;
use crate::rows::{BATCH_BYTES, BATCH_ROWS, Emit, Facts, Key, Rows, Wanted, int};
use crate::sheet::Sheet;
use crate::table::Kind;

/// Slots between two looks at those who take the batches: what was written since the view began
/// waits for this many.
const RUN: usize = 512;
/// Bytes of batches that are held back so that the view need not wait for those who take them.
const HELD_BYTES: usize = 64 << 20;

/// Reads these slots, and passes on batches until `emit` wants no more.
///
/// # Errors
/// The view was given up.
pub fn scan(
    view: &DataView,
    slots: Range<usize>,
    wanted: &Wanted,
    rows: &mut dyn Rows,
    sheet: &mut Sheet,
    emit: &mut Emit<'_>,
) -> Result<(), QueryError> {
    let (key, held, held_bytes) = (Key::default(), Vec::new(), 0);
    let now = view.now();
    let mut reading = Reading { now, wanted, rows, sheet, emit, key, held, held_bytes };
    for start in slots.clone().step_by(RUN) {
        let scanned = view.scan(start..(start + RUN).min(slots.end), &mut reading);
        match scanned {
            Ok(()) if reading.pass_on() => {}
            Err(ScanError::Lost(lost)) => return Err(QueryError::View(lost)),
            // Those who take the batches have waited until the view was given up.
            Ok(()) | Err(_) if view.check().is_err() => return Err(ReadViewLost.into()),
            // Nobody wants more, or columns that do not fit together.
            Ok(()) | Err(_) => return reading.end(),
        }
    }
    reading.end()
}

/// The entries of a view on their way to rows.
struct Reading<'a> {
    now: i64,
    wanted: &'a Wanted,
    rows: &'a mut dyn Rows,
    sheet: &'a mut Sheet,
    emit: &'a mut Emit<'a>,
    key: Key,
    held: Vec<RecordBatch>,
    held_bytes: usize,
}

impl Reading<'_> {
    /// Hands on what is held; false if nobody wants more.
    fn pass_on(&mut self) -> bool {
        self.held_bytes = 0;
        self.held.drain(..).all(|batch| (self.emit)(batch))
    }

    fn end(mut self) -> Result<(), QueryError> {
        if self.sheet.rows() > 0 {
            self.held.push(self.sheet.take()?);
        }
        self.pass_on();
        Ok(())
    }

    /// Takes a full sheet, outside of the view if that is not too much.
    fn turn_page(&mut self) -> Result<(), SinkError> {
        if self.sheet.rows() < BATCH_ROWS && self.sheet.bytes() < BATCH_BYTES {
            return Ok(());
        }
        self.held_bytes += self.sheet.bytes();
        let batch = self.sheet.take();
        self.held.push(batch.map_err(|error| SinkError::new(format_args!("{error}")))?);
        let is_over = self.held_bytes > HELD_BYTES && !self.pass_on();
        if is_over { Err(SinkError::new(format_args!("nobody wants more"))) } else { Ok(()) }
    }

    fn element(&mut self, number: i64, element: &Element<'_>) -> Result<i64, SinkError> {
        self.rows.element(self.sheet, &self.key, number, element);
        self.turn_page()?;
        Ok(number + 1)
    }

    /// The rows of a value; how many elements it has.
    fn value(&mut self, value: Value<'_>) -> Result<i64, SinkError> {
        let mut number = 0;
        match value {
            Value::Int(_) | Value::Bytes(_) => {
                let mut digits = IntText::default();
                self.rows.string(self.sheet, &self.key, value.to_bytes(&mut digits));
                return Ok(1);
            }
            Value::List(list) => {
                for text in list.iter_from(0) {
                    number = self.element(number, &Element::One(text))?;
                }
            }
            Value::Set(set) => {
                for text in set.iter() {
                    number = self.element(number, &Element::One(text))?;
                }
            }
            Value::Hash(hash) => {
                for it in hash.as_of(self.now).fields() {
                    let element = match it.deadline {
                        Some(at) => Element::Expiring(it.field, it.value, at),
                        None => Element::Pair(it.field, it.value),
                    };
                    number = self.element(number, &element)?;
                }
            }
            Value::Sorted(sorted) => {
                for (member, score) in sorted.iter_from(0) {
                    number = self.element(number, &Element::Scored(member, score))?;
                }
            }
            Value::Stream(stream) => number = self.stream(stream)?,
            Value::Array(array) => {
                for (index, value) in array.iter_from(0) {
                    number = self.element(number, &Element::At(index, value))?;
                }
            }
            _ => {}
        }
        Ok(number)
    }

    fn stream(&mut self, stream: Stream<'_>) -> Result<i64, SinkError> {
        let mut number = 0;
        let [mut names, mut values] = [Packed::default(), Packed::default()];
        for entry in stream.iter_from(0) {
            names.clear();
            values.clear();
            for (name, value) in entry.fields {
                names.push(name.to_bytes(&mut IntText::default()));
                values.push(value.to_bytes(&mut IntText::default()));
            }
            let (names, values) = (names.texts(), values.texts());
            let element = Element::Entry { id: id_of(entry.id), names, values, node: None };
            number = self.element(number, &element)?;
        }
        for group in stream.groups() {
            let (name, last) = (group.name(), id_of(group.last_id()));
            let read = group.entries_read();
            self.element(0, &Element::Group { name, last, read, is_told: true })?;
            for it in group.pending_from(StreamId::MIN) {
                let (time_ms, count) = (it.time_ms, it.count);
                self.element(0, &Element::Pending { id: id_of(it.id), time_ms, count })?;
            }
            for consumer in group.consumers() {
                let (name, seen_ms) = (consumer.name(), consumer.seen_ms());
                let active_ms = consumer.active_ms();
                self.element(0, &Element::Consumer { name, seen_ms, active_ms })?;
                for id in consumer.pending_from(StreamId::MIN) {
                    self.element(0, &Element::Owned(id_of(id)))?;
                }
            }
        }
        Ok(number)
    }
}

impl EntrySink for Reading<'_> {
    fn entry(&mut self, db: usize, entry: &Entry) -> Result<(), SinkError> {
        self.used_entry(db, entry, Usage::Frequency(0))
    }

    fn used_entry(&mut self, db: usize, entry: &Entry, usage: Usage) -> Result<(), SinkError> {
        let value = entry.value();
        self.key.db = int(db as u64);
        self.key.name.clear();
        self.key.name.extend_from_slice(entry.key());
        self.key.kind = kind(value);
        self.key.expires_at = entry.expire_at();
        self.key.idle = match usage {
            Usage::IdleMs(ms) => Some(int(ms / 1000)),
            Usage::Frequency(_) => None,
        };
        if !self.wanted.wants(&self.key) || !self.rows.wants(&self.key) {
            return Ok(());
        }
        let elements = self.value(value)?;
        let bytes = int(entry.memory_bytes() as u64);
        let facts = Facts { encoding: encoding(value), elements, bytes };
        self.rows.end(self.sheet, &self.key, &facts);
        self.turn_page()
    }
}

/// Texts one after the other.
#[derive(Default)]
struct Packed {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Packed {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    fn texts(&self) -> Texts<'_> {
        Texts::new(&self.bytes, &self.ends)
    }
}

fn id_of(id: StreamId) -> (u64, u64) {
    (id.ms, id.seq)
}

fn kind(value: Value<'_>) -> Kind {
    match value {
        Value::List(_) => Kind::Of(Collection::List),
        Value::Set(_) => Kind::Of(Collection::Set),
        Value::Hash(_) => Kind::Of(Collection::Hash),
        Value::Sorted(_) => Kind::Of(Collection::Sorted),
        Value::Stream(_) => Kind::Of(Collection::Stream),
        Value::Array(_) => Kind::Of(Collection::Array),
        _ => Kind::String,
    }
}
