//! Reading some of the items of a place, and making batches of them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use stillframe_state::{Field, Relation, Run, Source};
use zerocopy::IntoBytes;

use crate::columns::{Starts, array_of, handles, text_bytes};
use crate::words::{Words, look, lost};

/// Most rows of a batch.
const BATCH_ROWS: usize = 8192;
/// About how many words, or bytes of texts, end a batch earlier.
const BATCH_WORDS: usize = 1 << 21;
const BATCH_BYTES: usize = 8 * BATCH_WORDS;
/// Longest text of a row: Arrow's offsets have 31 bits, and a batch may be full before it.
const TEXT_MAX: usize = 1 << 30;

/// A column of a table.
#[derive(Debug, Clone)]
pub(crate) enum Column {
    /// The number of the item.
    Number,
    /// A field of it.
    Field(Field),
}

/// The items that one thread reads.
#[derive(Clone)]
pub(crate) struct Part {
    pub words: Arc<dyn Words>,
    pub relation: Arc<Relation>,
    pub columns: Arc<[Column]>,
    pub schema: SchemaRef,
    pub runs: Arc<[Run]>,
    pub limit: Option<usize>,
}

/// Cuts runs into pieces of a batch each, and gives each of so many threads as many of them.
pub(crate) fn cut(runs: &[Run], item_words: usize, threads: usize) -> Vec<Arc<[Run]>> {
    let most = (BATCH_WORDS / item_words.max(1)).clamp(1, BATCH_ROWS);
    let piece = |run: Run, at: usize| Run {
        start: run.start + at * item_words,
        items: most.min(run.items - at),
        first: run.first + at,
    };
    let pieces = |&run: &Run| (0..run.items).step_by(most).map(move |at| piece(run, at));
    let pieces: Vec<Run> = runs.iter().flat_map(pieces).collect();
    if pieces.is_empty() {
        return vec![Arc::from([])];
    }
    pieces.chunks(pieces.len().div_ceil(threads.max(1))).map(Arc::from).collect()
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} pieces", self.relation.name(), self.runs.len())
    }
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut batches = Batches::new(self);
        // A read of memory waits for nothing, so the thread that asks for a batch makes it.
        let batches = std::iter::from_fn(move || batches.next_or_end().transpose());
        let stream = futures::stream::iter(batches);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream))
    }
}

/// A scan of a part.
struct Batches {
    part: Part,
    /// Bytes of an item at which handles of wanted texts lie.
    handles: Vec<usize>,
    /// The next piece.
    piece: usize,
    /// Rows of the piece before, one behind the other, with their numbers.
    rows: Vec<u64>,
    numbers: Vec<u64>,
    /// The first of them that was not given.
    next: usize,
    /// Rows that may still come.
    left: usize,
}

impl Batches {
    fn new(part: &Part) -> Self {
        let mut found = Vec::new();
        for column in part.columns.iter() {
            if let Column::Field(field) = column {
                handles(&field.shape, field.offset, &mut found);
            }
        }
        Self {
            part: part.clone(),
            handles: found,
            piece: 0,
            rows: Vec::new(),
            numbers: Vec::new(),
            next: 0,
            left: part.limit.unwrap_or(usize::MAX),
        }
    }

    /// The next batch; none after an error.
    fn next_or_end(&mut self) -> Result<Option<RecordBatch>> {
        let batch = self.next();
        if batch.is_err() {
            self.left = 0;
        }
        batch
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.next == self.numbers.len() {
            let Some(run) = self.part.runs.get(self.piece).filter(|_| self.left > 0).copied()
            else {
                return Ok(None);
            };
            self.piece += 1;
            self.read(run)?;
        }
        let rows = (self.numbers.len() - self.next).min(self.left);
        if rows == 0 {
            return Ok(None);
        }
        let rows = self.next..self.next + rows;
        let (end, columns) = look(&*self.part.words, |source| {
            let end = self.fill(rows.clone(), source)?;
            let columns = self.part.columns.iter();
            let columns = columns.map(|column| self.column(column, rows.start..end, source));
            Ok::<_, DataFusionError>((end, columns.collect::<Result<Vec<_>>>()?))
        })??;
        self.next = end;
        self.left -= end - rows.start;
        let options = RecordBatchOptions::new().with_row_count(Some(end - rows.start));
        let schema = Arc::clone(&self.part.schema);
        Ok(Some(RecordBatch::try_new_with_options(schema, columns, &options)?))
    }

    /// Reads a piece, and keeps what of it are rows.
    fn read(&mut self, run: Run) -> Result<()> {
        let relation = &*self.part.relation;
        let stride = relation.item_words();
        self.rows.resize(run.items * stride, 0);
        self.part.words.read_run(run.start, &mut self.rows).map_err(lost)?;
        self.numbers.clear();
        self.next = 0;
        for number in 0..run.items {
            let at = number * stride..(number + 1) * stride;
            if relation.is_row(run.first + number, &self.rows[at.clone()]) {
                let to = self.numbers.len() * stride;
                if to != at.start {
                    self.rows.copy_within(at, to);
                }
                self.numbers.push((run.first + number) as u64);
            }
        }
        Ok(())
    }

    /// The end of the rows that fill a batch.
    fn fill(&self, rows: Range<usize>, source: &impl Source) -> Result<usize> {
        if self.handles.is_empty() {
            return Ok(rows.end);
        }
        let stride = self.part.relation.item_words();
        let mut all = 0;
        for row in rows.clone() {
            let item = self.rows[row * stride..(row + 1) * stride].as_bytes();
            let bytes = text_bytes(&self.handles, item, source);
            if bytes > TEXT_MAX {
                let text = format!("a row has {bytes} bytes of text, more than Arrow's");
                return Err(DataFusionError::Execution(text));
            }
            if row > rows.start && all + bytes > BATCH_BYTES {
                return Ok(row);
            }
            all += bytes;
        }
        Ok(rows.end)
    }

    fn column(
        &self,
        column: &Column,
        rows: Range<usize>,
        source: &impl Source,
    ) -> Result<ArrayRef> {
        let field = match column {
            Column::Number => {
                return Ok(Arc::new(UInt64Array::from(self.numbers[rows].to_vec())));
            }
            Column::Field(field) => field,
        };
        let step = 8 * self.part.relation.item_words();
        let first = rows.start * step + field.offset;
        let starts = Starts::Even { first, step, count: rows.len() };
        array_of(&field.shape, &starts, self.rows.as_bytes(), source)
    }
}
