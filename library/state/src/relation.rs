//! Places as rows of columns, for programs that do not know their types: SQL, exports.
//!
//! - A place keeps items of one length in runs of words. Each item of a column or list is a row; of
//!   a table or map, each that is in use.
//! - A column is a field of the item. What is no struct is a column `value`, or `key`.

use crate::chunks::{Chunks, Run};
use crate::shape::{Field, Shape};
use crate::source::Source;

/// A place of a root as rows of columns; see [`State::relations`](crate::State::relations).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation {
    name: String,
    items: Items,
    used: Use,
    item_words: usize,
    columns: Vec<Field>,
    /// The name of the column of their numbers, if rows are known by them.
    number: Option<String>,
}

/// Where items lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Items {
    /// `len` of them, from word `at` on.
    Fixed { at: usize, len: usize },
    /// As many as the word `len` says, in chunks.
    Chunked { len: usize, chunks: Chunks },
    /// In up to two blocks. At each of these words is the block, 0 for none, and then its length as
    /// a shift.
    Blocks { at: [usize; 2] },
}

/// Which items are rows, by the first word of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// All are.
    All,
    /// Those that have their own number in these bits.
    Numbered(u64),
    /// Those that have this bit.
    Marked(u64),
}

impl Relation {
    /// Items of records of `shape`, each a row, known by its number.
    pub(crate) fn of_records(items: Items, item_words: usize, shape: Shape) -> Self {
        let columns = columns("value", 0, shape);
        let number = Some(unused("index", &columns));
        Self { name: String::new(), items, used: Use::All, item_words, columns, number }
    }

    /// Slots of records of `shape`, which begin with the word of their handles.
    pub(crate) fn of_slots(items: Items, used: Use, item_words: usize, shape: Shape) -> Self {
        let mut columns = columns("value", 8, shape);
        let name = unused("slot", &columns);
        columns.insert(0, Field { name, offset: 0, shape: Shape::Slot });
        Self { name: String::new(), items, used, item_words, columns, number: None }
    }

    /// Entries of a map: a mark, the key, and from word `value_at` on the value.
    pub(crate) fn of_entries(
        items: Items,
        used: Use,
        [item_words, value_at]: [usize; 2],
        [key, value]: [Shape; 2],
    ) -> Self {
        let values = columns("value", 8 * value_at, value);
        let mut all = columns("key", 8, key);
        for column in &mut all {
            if column.name != "key" && !column.name.starts_with("key_") {
                column.name = format!("key_{}", column.name);
            }
            column.name = unused(&column.name, &values);
        }
        all.extend(values);
        Self { name: String::new(), items, used, item_words, columns: all, number: None }
    }

    /// The one record of its place, which needs no number.
    pub(crate) fn alone(self) -> Self {
        Self { number: None, ..self }
    }

    pub(crate) fn named(mut self, name: String) -> Self {
        self.name = name;
        self
    }

    /// The path of its field from the root on, with `_` between the parts.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its columns: fields of an item, by their bytes there.
    #[must_use]
    pub fn columns(&self) -> &[Field] {
        &self.columns
    }

    /// The name of one more column, if rows are known by their numbers: those of [`Run::first`] and
    /// of the items behind it.
    #[must_use]
    pub fn number(&self) -> Option<&str> {
        self.number.as_deref()
    }

    /// Words of an item.
    #[must_use]
    pub fn item_words(&self) -> usize {
        self.item_words
    }

    /// Where its items lie in these words. All runs are in bounds, even where the words were lost
    /// meanwhile.
    #[must_use]
    pub fn runs(&self, source: &(impl Source + ?Sized)) -> Vec<Run> {
        let block = |at: usize| {
            let (start, log) = (source.read(at) as usize, source.read(at + 1) as u32);
            let items = 1_usize.checked_shl(log).filter(|_| start != 0)?;
            Some(Run { start, items, first: 0 })
        };
        let mut runs = match self.items {
            Items::Fixed { at, len } => vec![Run { start: at, items: len, first: 0 }],
            Items::Chunked { len, chunks } => chunks.runs(source, source.read(len) as usize),
            Items::Blocks { at } => at.into_iter().filter_map(block).collect(),
        };
        runs.retain(|run| {
            let words = run.items.checked_mul(self.item_words);
            let end = words.and_then(|words| run.start.checked_add(words));
            run.items > 0 && end.is_some_and(|end| end <= source.words())
        });
        runs
    }

    /// Whether the item of this number, of which these are the words, is a row.
    #[inline]
    #[must_use]
    pub fn is_row(&self, number: usize, item: &[u64]) -> bool {
        match self.used {
            Use::All => true,
            Use::Numbered(bits) => item[0] & bits == number as u64 && item[0] != 0,
            Use::Marked(bit) => item[0] & bit != 0,
        }
    }
}

/// A name that is none of a column.
fn unused(name: &str, columns: &[Field]) -> String {
    let mut name = name.to_owned();
    while columns.iter().any(|column| column.name == name) {
        name.push('_');
    }
    name
}

/// The columns of what begins at a byte of an item. A struct of one field without a name is what
/// that field is.
fn columns(name: &str, offset: usize, shape: Shape) -> Vec<Field> {
    match shape {
        Shape::Unit => Vec::new(),
        Shape::Struct(mut fields) if fields.len() == 1 && fields[0].name == "0" => {
            columns(name, offset + fields[0].offset, fields.swap_remove(0).shape)
        }
        Shape::Struct(fields) => {
            let is_number = |name: &str| name.starts_with(|first: char| first.is_ascii_digit());
            let column = |it: Field| Field {
                name: if is_number(&it.name) { format!("{name}_{}", it.name) } else { it.name },
                offset: offset + it.offset,
                shape: it.shape,
            };
            fields.into_iter().map(column).collect()
        }
        shape => vec![Field { name: name.to_owned(), offset, shape }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{State, Table};

    #[derive(Clone, Copy, crate::State)]
    struct Root {
        table: Table<u64>,
    }

    /// Of a state that ends with its last item that is one; of an image that was lost, which reads
    /// as zeros, no item is a row.
    #[test]
    fn rows_are_items_that_are_there() {
        let mut words = vec![0; Root::layout().words()];
        let Root { table } = Root::attach(&mut words).expect("it is new");
        let slot = table.insert(&mut words, 7).expect("memory");
        let relation = &Root::relations()[0];
        let Run { start, items, first } = relation.runs(&words)[0];
        assert_eq!((items, first), (1, 0));
        let item = |words: &[u64]| words[start..start + relation.item_words()].to_vec();
        assert!(relation.is_row(0, &item(&words)));
        words.truncate(start + relation.item_words());
        assert_eq!(relation.runs(&words), [Run { start, items, first }]);
        table.remove(&mut words, slot).expect("it is there");
        assert!(!relation.is_row(0, &item(&words)));
        assert!(!relation.is_row(0, &vec![0; relation.item_words()]), "it was lost");
        words.pop();
        assert_eq!(relation.runs(&words), [], "it is not whole");
    }
}
