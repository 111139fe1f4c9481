//! SQL over typed state: each place of a root is a table of DataFusion, read in a view by any
//! number of threads while the writer goes on.
//!
//! - Data flows one way: a relation of `stillframe-state` says where rows lie, [`Words`] gives
//!   their words in runs, `columns` makes arrays of them, [`PlaceTable`] is what DataFusion scans.
//! - A scan copies the words of some thousand rows at once, and makes arrays of the columns that
//!   are asked for. It neither locks nor waits, so it takes nothing from the writer but time.
//! - A view that is given up ends the question with the sentence of `ViewLost`.
//!
//! ```
//! # use stillframe_state::{Slab, State, Store, Str, Table, record};
//! use std::sync::Arc;
//! use datafusion::prelude::SessionContext;
//!
//! # #[record]
//! # struct Player {
//! #     name: Str,
//! #     x: f32,
//! #     health: u32,
//! # }
//! # #[derive(Clone, Copy, State)]
//! # struct World {
//! #     players: Table<Player>,
//! #     text: Slab,
//! # }
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let data = tempfile::tempdir()?;
//! # let mut store: Store = Store::open(data.path(), World::options("my-game", 1 << 20))?;
//! # let world = World::attach(&mut store)?;
//! # let name = world.text.put_str(&mut store, "Ada")?;
//! # world.players.insert(&mut store, Player { name, x: 1.5, health: 95 })?;
//! let context = SessionContext::new();
//! stillframe_state_query::register::<World>(&context, Arc::new(store.view()?))?;
//! let question = "select name, max(health) as best from players where x > 1 group by name";
//! let answer = context.sql(question).await?.collect().await?; // batches of Arrow
//! # let answer = arrow::util::pretty::pretty_format_batches(&answer)?.to_string();
//! # assert!(answer.contains("| Ada  | 95   |"), "{answer}");
//! # Ok(())
//! # }
//! ```

mod columns;
mod scan;
mod words;

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::TableReference;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::streaming::StreamingTableExec;
use datafusion::prelude::SessionContext;
use stillframe_state::{Relation, State};

use crate::columns::type_of;
use crate::scan::{Column, Part};
pub use crate::words::Words;

/// Makes each place of a root a table of a session: named by its field, `outer_inner` in a nested
/// struct, with its number behind it in an array.
///
/// The session keeps the words. Register a newer view in a session of its own.
///
/// # Errors
/// As for [`tables`]; two tables would have the same name.
pub fn register<S: State>(context: &SessionContext, words: Arc<dyn Words>) -> Result<()> {
    for table in tables::<S>(&words)? {
        let name = TableReference::bare(table.name());
        if context.register_table(name, Arc::new(table.clone()))?.is_some() {
            let text = format!("there is a table {} already", table.name());
            return Err(DataFusionError::Plan(text));
        }
    }
    Ok(())
}

/// The places of a root as tables, for catalogs and names of one's own.
///
/// # Errors
/// The words are of another root (`OtherLayout`), or of a view that was given up (`ViewLost`); an
/// array of a record is longer than those of Arrow.
pub fn tables<S: State>(words: &Arc<dyn Words>) -> Result<Vec<PlaceTable>> {
    words::look(&**words, |source| S::from_source(source).map(drop))?
        .map_err(|error| DataFusionError::External(Box::new(error)))?;
    S::relations().into_iter().map(|it| PlaceTable::new(Arc::clone(words), it)).collect()
}

/// A place of a state as a table.
///
/// | field of a record | column |
/// |---|---|
/// | number, `f32`, `f64` | of that type; `u128` and `i128` as text |
/// | `Str`, `Bytes` | text, binary; null if nothing is there |
/// | `Slot` | `UInt64`, equal to the column `slot` of its table; null for `NONE` |
/// | `[u8; N]`, `[T; N]` | binary and list of fixed size |
/// | a struct of records | struct |
///
/// Beside them a table has `slot`, a column or list `index`, a map `key`, or the fields of its keys
/// as `key_...`. A record that is no struct is a column `value`.
#[derive(Clone)]
pub struct PlaceTable {
    words: Arc<dyn Words>,
    relation: Arc<Relation>,
    columns: Vec<Column>,
    schema: SchemaRef,
}

impl PlaceTable {
    fn new(words: Arc<dyn Words>, relation: Relation) -> Result<Self> {
        let number = relation.number().map(|_| Column::Number);
        let fields = relation.columns().iter().cloned().map(Column::Field);
        let columns: Vec<Column> = number.into_iter().chain(fields).collect();
        let field = |column: &Column| match column {
            Column::Number => {
                let name = relation.number().unwrap_or_default();
                Ok(Field::new(name, DataType::UInt64, false))
            }
            Column::Field(field) => type_of(&field.name, &field.shape),
        };
        let fields: Result<Vec<Field>> = columns.iter().map(field).collect();
        let schema = Arc::new(Schema::new(fields?));
        Ok(Self { words, relation: Arc::new(relation), columns, schema })
    }

    /// The path of its field from the root on, with `_` between the parts.
    #[must_use]
    pub fn name(&self) -> &str {
        self.relation.name()
    }
}

impl fmt::Debug for PlaceTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlaceTable").field("name", &self.name()).finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for PlaceTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let projection = projection.cloned().unwrap_or_else(|| (0..self.columns.len()).collect());
        let schema = Arc::new(self.schema.project(&projection)?);
        let columns: Arc<[Column]> =
            projection.iter().map(|&at| self.columns[at].clone()).collect();
        let runs = words::look(&*self.words, |source| self.relation.runs(source))?;
        let parts =
            scan::cut(&runs, self.relation.item_words(), state.config().target_partitions());
        let part = |runs| {
            Arc::new(Part {
                words: Arc::clone(&self.words),
                relation: Arc::clone(&self.relation),
                columns: Arc::clone(&columns),
                schema: Arc::clone(&schema),
                runs,
                limit,
            }) as Arc<_>
        };
        let parts = parts.into_iter().map(part).collect();
        let plan = StreamingTableExec::try_new(schema, parts, None, [], false, limit)?;
        Ok(Arc::new(plan))
    }
}
