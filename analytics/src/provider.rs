//! An image as tables of DataFusion: each scan reads the file once, with what can be decided by a
//! key decided before its value becomes rows.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result as Outcome, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{
    BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use crate::declared::{Declaration, OfDeclaration, Unfit};
use crate::image::Image;
use crate::rows::{OfTable, Rows, Wanted, scan};
use crate::sheet::Sheet;
use crate::table::{Content, Table, schema};

/// Batches that are read ahead.
const BATCHES_AHEAD: usize = 2;
/// Longest sleep of a scan between two looks whether its batches are taken.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// What all tables of a session share.
#[derive(Debug, Default)]
pub struct Findings {
    /// Values that do not fit their columns.
    pub unfit: Arc<Unfit>,
    /// Texts that are not shown as they are, in the scan that met most.
    escaped: AtomicU64,
    /// Times that no calendar has, in the scan that met most.
    far: AtomicU64,
    /// Numbers of an answer in JSON that are infinite.
    infinite: AtomicU64,
}

impl Findings {
    /// Sentences for people: what the result does not show as it is.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = self.unfit.sentences();
        let escaped = self.escaped.load(Ordering::Relaxed);
        if escaped > 0 {
            sentences.push(format!(
                "{escaped} texts have \\xNN for bytes that are no UTF-8, and \\x5c for a backslash \
                 that would look like that; --binary gives them as they are"
            ));
        }
        let far = self.far.load(Ordering::Relaxed);
        if far > 0 {
            sentences.push(format!("{far} times are null: they lie beyond the years 1 to 9999"));
        }
        let infinite = self.infinite.load(Ordering::Relaxed);
        if infinite > 0 {
            sentences
                .push(format!("{infinite} numbers are infinite: null in JSON, which has none"));
        }
        sentences
    }

    /// Notes what JSON cannot hold.
    pub(crate) fn note_infinite(&self, batch: &RecordBatch) {
        let numbers = batch.columns().iter().filter_map(|it| it.as_primitive_opt::<Float64Type>());
        let infinite = numbers.flat_map(|it| it.iter().flatten()).filter(|it| !it.is_finite());
        self.infinite.fetch_add(infinite.count() as u64, Ordering::Relaxed);
    }
}

/// What a table's rows are.
#[derive(Debug, Clone)]
pub enum Definition {
    /// Those that every image has.
    Given(Table),
    /// Those that a statement declares.
    Declared(Arc<Declaration>),
}

/// A table of an image.
#[derive(Debug, Clone)]
pub struct ImageTable {
    image: Arc<Image>,
    definition: Definition,
    schema: SchemaRef,
    contents: Arc<[Content]>,
    binary: bool,
    findings: Arc<Findings>,
}

impl ImageTable {
    /// A table of an image, with texts as `Binary` or as `Utf8`.
    pub fn new(
        image: Arc<Image>,
        definition: Definition,
        binary: bool,
        findings: Arc<Findings>,
    ) -> Self {
        let (schema, contents) = match &definition {
            Definition::Given(table) => {
                let columns = table.columns();
                (schema(columns.iter().copied(), binary), columns.iter().map(|it| it.1).collect())
            }
            Definition::Declared(table) => {
                let columns = table.columns.iter();
                let fields = columns.clone().map(|it| (it.name.clone(), it.content));
                (schema(fields, binary), columns.map(|it| it.content).collect())
            }
        };
        Self { image, definition, schema, contents, binary, findings }
    }

    fn rows(&self) -> Box<dyn Rows> {
        let instant = self.image.instant();
        match &self.definition {
            Definition::Given(table) => Box::new(OfTable::new(*table, instant)),
            Definition::Declared(table) => {
                let unfit = Arc::clone(&self.findings.unfit);
                Box::new(OfDeclaration::new(Arc::clone(table), instant, unfit))
            }
        }
    }

    /// Narrows what is wanted by a filter; false if a key does not decide anything about it.
    fn narrow(&self, wanted: &mut Wanted, filter: &Expr) -> bool {
        match self.definition {
            Definition::Given(Table::Keys | Table::Strings) => {
                narrow(wanted, filter, &["expires_at", "ttl"])
            }
            Definition::Given(_) => narrow(wanted, filter, &[]),
            // Their columns are none of the key's.
            Definition::Declared(_) => false,
        }
    }
}

/// The name of a column, if an expression is one.
fn column(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Column(column) => Some(&column.name),
        Expr::Cast(cast) => column(&cast.expr),
        _ => None,
    }
}

/// The text of a literal. One with a backslash may stand for bytes that are no UTF-8.
fn text(expr: &Expr) -> Option<Vec<u8>> {
    let Expr::Literal(value, _) = expr else { return None };
    match value {
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text))
            if !text.contains('\\') =>
        {
            Some(text.clone().into_bytes())
        }
        ScalarValue::Binary(Some(bytes)) | ScalarValue::LargeBinary(Some(bytes)) => {
            Some(bytes.clone())
        }
        _ => None,
    }
}

fn int(expr: &Expr) -> Option<i64> {
    let Expr::Literal(ScalarValue::Int64(value), _) = expr else { return None };
    *value
}

/// Keeps only those of `list` that are there already, if any are.
fn meet<T: PartialEq>(held: &mut Option<Vec<T>>, list: Vec<T>) {
    match held {
        Some(held) => held.retain(|it| list.contains(it)),
        None => *held = Some(list),
    }
}

/// Narrows what is wanted to keys of which a column has one of these values.
fn narrow_to(wanted: &mut Wanted, name: &str, values: &[&Expr]) -> bool {
    match name {
        "db" => values.iter().map(|it| int(it)).collect::<Option<_>>().is_some_and(|dbs| {
            meet(&mut wanted.dbs, dbs);
            true
        }),
        "key" => values.iter().map(|it| text(it)).collect::<Option<_>>().is_some_and(|names| {
            meet(&mut wanted.names, names);
            true
        }),
        "type" => {
            let name = |it: &&Expr| String::from_utf8(text(it)?).ok();
            values.iter().map(name).collect::<Option<_>>().is_some_and(|types| {
                meet(&mut wanted.types, types);
                true
            })
        }
        _ => false,
    }
}

/// Narrows what is wanted by a filter; false if a key decides nothing about it. `times` are columns
/// that are null if the key does not expire.
fn narrow(wanted: &mut Wanted, filter: &Expr, times: &[&str]) -> bool {
    let is_time = |expr: &Expr| column(expr).is_some_and(|name| times.contains(&name));
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            let sides = column(left).map(|name| (name, &**right));
            let sides = sides.or_else(|| Some((column(right)?, &**left)));
            sides.is_some_and(|(name, value)| narrow_to(wanted, name, &[value]))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            let left = narrow(wanted, left, times);
            narrow(wanted, right, times) || left
        }
        // Null compares with nothing.
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq,
            ..
        }) if is_time(left) => {
            wanted.expires = Some(true);
            true
        }
        Expr::InList(list) if !list.negated => column(&list.expr).is_some_and(|name| {
            let values: Vec<&Expr> = list.list.iter().collect();
            narrow_to(wanted, name, &values)
        }),
        Expr::IsNotNull(expr) if is_time(expr) => {
            wanted.expires = Some(true);
            true
        }
        Expr::IsNull(expr) if is_time(expr) => {
            wanted.expires = Some(false);
            true
        }
        Expr::Like(like) if !like.negated && !like.case_insensitive => {
            let (Some("key"), Some(pattern)) = (column(&like.expr), text(&like.pattern)) else {
                return false;
            };
            let is_mark = |byte: &u8| matches!(byte, b'%' | b'_') || like.escape_char.is_some();
            let end = pattern.iter().position(is_mark).unwrap_or(pattern.len());
            let prefix = &pattern[..end];
            if prefix.starts_with(&wanted.prefix) {
                wanted.prefix = prefix.to_vec();
            }
            end > 0
        }
        Expr::ScalarFunction(call) if call.func.name() == "starts_with" => {
            match (&call.args[..], call.args.get(1).and_then(text)) {
                ([first, _], Some(prefix)) if column(first) == Some("key") => {
                    if prefix.starts_with(&wanted.prefix) {
                        wanted.prefix = prefix;
                    }
                    true
                }
                _ => false,
            }
        }
        _ => false,
    }
}

#[async_trait]
impl TableProvider for ImageTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Outcome<Vec<TableProviderFilterPushDown>> {
        let kind = |filter: &&Expr| match self.narrow(&mut Wanted::default(), filter) {
            // Rows that come are filtered once more.
            true => TableProviderFilterPushDown::Inexact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(kind).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Outcome<Arc<dyn ExecutionPlan>> {
        let all = (0..self.contents.len()).collect();
        let projection = projection.cloned().unwrap_or(all);
        let mut wanted = Wanted::default();
        if let Definition::Declared(table) = &self.definition {
            wanted.prefix = table.prefix().to_vec();
        }
        for filter in filters {
            self.narrow(&mut wanted, filter);
        }
        let schema = Arc::new(self.schema.project(&projection)?);
        let table = self.clone();
        let parts = self.image.parts(state.config().target_partitions());
        let scan = |part| {
            let (table, schema) = (table.clone(), Arc::clone(&schema));
            let (projection, wanted, part) = (projection.clone(), wanted.clone(), [part, parts]);
            Arc::new(Scan { table, schema, projection, wanted, limit, part }) as Arc<_>
        };
        let scans = (0..parts).map(scan).collect();
        let plan = StreamingTableExec::try_new(Arc::clone(&schema), scans, None, [], false, limit);
        Ok(Arc::new(plan?))
    }
}

/// One reading of a part of the image.
#[derive(Clone)]
struct Scan {
    table: ImageTable,
    schema: SchemaRef,
    projection: Vec<usize>,
    wanted: Wanted,
    limit: Option<usize>,
    /// Its number, and how many there are.
    part: [usize; 2],
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.table.image.name(), self.wanted)
    }
}

impl PartitionStream for Scan {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut stream =
            RecordBatchReceiverStreamBuilder::new(Arc::clone(&self.schema), BATCHES_AHEAD);
        let (batches, Scan { table, schema, projection, wanted, limit, part }) =
            (stream.tx(), self.clone());
        stream.spawn_blocking(move || {
            let mut sheet = Sheet::new(schema, &table.contents, &projection, table.binary);
            let mut left = limit.unwrap_or(usize::MAX);
            let mut rows = table.rows();
            let mut emit = |batch: RecordBatch| {
                left = left.saturating_sub(batch.num_rows());
                give(&batches, batch, &table.image) && left > 0
            };
            let outcome = scan(&table.image, part, &wanted, &mut *rows, &mut sheet, &mut emit);
            table.findings.escaped.fetch_max(sheet.escaped(), Ordering::Relaxed);
            table.findings.far.fetch_max(sheet.far(), Ordering::Relaxed);
            outcome.map_err(|error| DataFusionError::External(Box::new(error)))
        });
        stream.build()
    }
}

/// Hands on a batch; false if nobody takes it, or it waited until the view was given up, whose
/// memory comes back when its scans have ended.
fn give(batches: &Sender<Outcome<RecordBatch>>, batch: RecordBatch, image: &Image) -> bool {
    let (mut batch, mut pause) = (Ok(batch), Duration::from_micros(100));
    loop {
        match batches.try_send(batch) {
            Ok(()) => return true,
            Err(TrySendError::Closed(_)) => return false,
            Err(TrySendError::Full(_)) if image.is_lost() => return false,
            Err(TrySendError::Full(waits)) => batch = waits,
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};

    use super::*;

    fn narrowed(filter: &Expr) -> Option<Wanted> {
        let mut wanted = Wanted::default();
        narrow(&mut wanted, filter, &["expires_at"]).then_some(wanted)
    }

    #[test]
    fn filters_on_keys_narrow_a_scan() {
        let prefix = |text: &str| Wanted { prefix: text.into(), ..Wanted::default() };
        assert_eq!(narrowed(&col("key").like(lit("order:%"))), Some(prefix("order:")));
        assert_eq!(narrowed(&col("key").like(lit("%x"))), None);
        assert_eq!(narrowed(&col("key").like(lit("a\\_%"))), None);
        let both = col("db").eq(lit(3_i64)).and(col("type").in_list(vec![lit("hash")], false));
        let wanted = Wanted {
            dbs: Some(vec![3]),
            types: Some(vec!["hash".to_owned()]),
            ..Wanted::default()
        };
        assert_eq!(narrowed(&both), Some(wanted));
        assert_eq!(narrowed(&col("key").not_eq(lit("a"))), None);
        assert_eq!(narrowed(&col("value").eq(lit("a"))), None);
        let either = col("key").eq(lit("a")).or(col("key").eq(lit("b")));
        assert_eq!(narrowed(&either), None);
        let expires = Wanted { expires: Some(true), ..Wanted::default() };
        assert_eq!(narrowed(&col("expires_at").is_not_null()), Some(expires));
    }
}
