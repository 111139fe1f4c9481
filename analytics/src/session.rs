//! SQL on one image: the tables it has, those that statements declare, and bounds of memory.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{DataFrame, SQLOptions, SessionConfig, SessionContext};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use futures::StreamExt;

use crate::declared::Declaration;
use crate::error::QueryError;
use crate::image::Image;
use crate::output::{Format, Output};
use crate::provider::{Definition, Findings, ImageTable};
use crate::table::Table;

/// Most tokens of a statement that make its plan deeper: `1 + 1 + 1 ...` is as deep as it is long,
/// and a plan is walked by recursion.
const STEPS_MAX: usize = 2000;
/// What the stack of a thread needs for that.
pub const STACK_BYTES: usize = 64 << 20;

/// Functions whose result is as long as an argument says.
const GROWING: [&str; 7] =
    ["repeat", "lpad", "rpad", "array_repeat", "array_resize", "range", "generate_series"];

/// What a session may take.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// Bytes of memory for sorting, grouping and joining; beyond, it writes to temporary files.
    pub memory_bytes: usize,
    /// Threads that compute.
    pub threads: usize,
    /// Temporary files go there.
    pub temporary: PathBuf,
}

impl Bounds {
    /// What keeps sessions within them, together.
    ///
    /// # Errors
    /// The bounds cannot be met.
    pub fn runtime(&self) -> Result<Arc<RuntimeEnv>, QueryError> {
        let spill = DiskManagerMode::Directories(vec![self.temporary.clone()]);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(self.memory_bytes)))
            .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(spill));
        Ok(runtime.build_arc()?)
    }
}

/// SQL on one image.
pub struct QuerySession {
    context: SessionContext,
    image: Arc<Image>,
    binary: bool,
    findings: Arc<Findings>,
    declared: Vec<Arc<Declaration>>,
}

impl QuerySession {
    /// With the tables that every image has. `binary`: texts are `Binary`, else `Utf8`.
    ///
    /// # Errors
    /// The bounds cannot be met.
    pub fn new(image: Image, binary: bool, bounds: &Bounds) -> Result<Self, QueryError> {
        Self::within(image, binary, bounds.runtime()?, bounds.threads)
    }

    /// As [`new`](Self::new), within bounds that it shares with other sessions.
    ///
    /// # Errors
    /// A table cannot be had.
    pub fn within(
        image: Image,
        binary: bool,
        runtime: Arc<RuntimeEnv>,
        threads: usize,
    ) -> Result<Self, QueryError> {
        let config = SessionConfig::new()
            .with_target_partitions(threads.max(1))
            .with_information_schema(true);
        let context = SessionContext::new_with_config_rt(config, runtime);
        let (image, findings) = (Arc::new(image), Arc::new(Findings::default()));
        let session = Self { context, image, binary, findings, declared: Vec::new() };
        for table in Table::ALL {
            session.register(table.name(), Definition::Given(table))?;
        }
        Ok(session)
    }

    fn register(&self, name: &str, definition: Definition) -> Result<(), QueryError> {
        let (image, findings) = (Arc::clone(&self.image), Arc::clone(&self.findings));
        let table = ImageTable::new(image, definition, self.binary, findings);
        self.context
            .register_table(datafusion::common::TableReference::bare(name), Arc::new(table))?;
        Ok(())
    }

    /// The image.
    #[must_use]
    pub fn image(&self) -> &Arc<Image> {
        &self.image
    }

    /// What the answers do not show as it is, a sentence each.
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        self.findings.sentences()
    }

    /// The names of all tables of the image, declared ones last.
    #[must_use]
    pub fn tables(&self) -> Vec<String> {
        let given = Table::ALL.iter().map(|table| table.name().to_owned());
        given.chain(self.declared.iter().map(|it| it.name.clone())).collect()
    }

    /// Runs statements, and writes each answer.
    ///
    /// # Errors
    /// [`QueryError`]: the statement that fails ends them.
    pub async fn run(
        &mut self,
        sql: &str,
        format: Format,
        out: Option<&std::path::Path>,
    ) -> Result<(), QueryError> {
        let mut file = out;
        for (tokens, text) in statements(sql)? {
            if let Some(declaration) = Declaration::parse(&tokens)? {
                self.declare(declaration)?;
                continue;
            }
            let frame = self.context.sql(text).await?;
            let has_answer = !frame.schema().fields().is_empty();
            if has_answer && out.is_some() && file.is_none() {
                return Err(QueryError::output("a second answer", &"the file has one already"));
            }
            let target = file.take_if(|_| has_answer);
            answer(frame, format, target, &self.findings).await?;
        }
        Ok(())
    }

    /// The plan of one statement of somebody else, which may read the tables and nothing more: no
    /// file, no setting. `None`: it declared a table.
    ///
    /// # Errors
    /// [`QueryError`]: there is not one statement, or it cannot be planned.
    pub async fn plan(&mut self, sql: &str) -> Result<Option<DataFrame>, QueryError> {
        let all = statements(sql)?;
        let [(tokens, text)] = &all[..] else {
            return Err(QueryError::Sql(format!("one statement at a time, not {}", all.len())));
        };
        if let Some(declaration) = Declaration::parse(tokens)? {
            // A client may say it twice: to prepare it, and to run it.
            if self.declared.iter().all(|it| **it != declaration) {
                self.declare(declaration)?;
            }
            return Ok(None);
        }
        let reads = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false);
        let reads = reads.with_allow_statements(false);
        Ok(Some(self.context.sql_with_options(text, reads).await?))
    }

    /// Takes away the functions whose value is as long as an argument says: what a value takes
    /// counts against no bound.
    pub(crate) fn without_growth(self) -> Self {
        GROWING.iter().for_each(|name| self.context.deregister_udf(name));
        self
    }

    /// Whether its image is a view that was given up.
    pub(crate) fn is_lost(&self) -> bool {
        self.image.is_lost()
    }

    /// The tables that statements have declared.
    pub(crate) fn declared(&self) -> &[Arc<Declaration>] {
        &self.declared
    }

    /// Declares tables that another session had.
    pub(crate) fn redeclare(&mut self, declared: &[Arc<Declaration>]) -> Result<(), QueryError> {
        declared.iter().try_for_each(|it| self.declare((**it).clone()))
    }

    /// The columns of a table.
    pub(crate) async fn columns(
        &self,
        table: &str,
    ) -> Result<arrow::datatypes::Schema, QueryError> {
        let table = datafusion::common::TableReference::bare(table);
        Ok(self.context.table(table).await?.schema().as_arrow().clone())
    }

    fn declare(&mut self, declaration: Declaration) -> Result<(), QueryError> {
        if self.tables().contains(&declaration.name) {
            let text = format!("there is a table {} already", declaration.name);
            return Err(QueryError::Declaration(text));
        }
        let declaration = Arc::new(declaration);
        self.register(&declaration.name, Definition::Declared(Arc::clone(&declaration)))?;
        self.declared.push(declaration);
        Ok(())
    }

    /// Writes a whole table into a file.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub async fn export(
        &self,
        table: &str,
        format: Format,
        file: &std::path::Path,
    ) -> Result<u64, QueryError> {
        let table = datafusion::common::TableReference::bare(table);
        let frame = self.context.table(table).await?;
        answer(frame, format, Some(file), &self.findings).await
    }
}

/// Writes the rows of an answer; returns how many. Statements without an answer write nothing.
async fn answer(
    frame: DataFrame,
    format: Format,
    out: Option<&std::path::Path>,
    findings: &Findings,
) -> Result<u64, QueryError> {
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let mut batches = frame.execute_stream().await?;
    let mut output = match schema.fields().is_empty() {
        true => None,
        false => Some(Output::new(format, out, &schema)?),
    };
    let mut rows = 0;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        if format == Format::Json {
            findings.note_infinite(&batch);
        }
        if let Some(output) = &mut output {
            output.write(&batch)?;
        }
    }
    output.map_or(Ok(()), Output::finish)?;
    Ok(rows)
}

/// The statements of a text, each as its tokens and as it is written.
fn statements(sql: &str) -> Result<Vec<(Vec<Token>, &str)>, QueryError> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location();
    let tokens = tokens.map_err(|error| QueryError::Sql(error.to_string()))?;
    let (mut statements, mut held, mut start) = (Vec::new(), Vec::new(), 0);
    let mut place = Place { sql, offset: 0, at: Location { line: 1, column: 1 } };
    for TokenWithSpan { token, span } in tokens {
        if token == Token::SemiColon {
            let end = place.advance(span.start);
            statements.push((std::mem::take(&mut held), &sql[start..end]));
            start = end + 1;
        } else if token != Token::EOF {
            held.push(token);
        }
    }
    statements.push((held, &sql[start..]));
    statements.retain(|(held, _)| held.iter().any(|it| !matches!(it, Token::Whitespace(_))));
    match statements.iter().all(|(held, _)| held.iter().filter(|it| nests(it)).count() <= STEPS_MAX)
    {
        true => Ok(statements),
        false => Err(QueryError::Sql(format!(
            "a statement has more than {STEPS_MAX} names, words and operators; a list of values \
             is not among them: in ('a', 'b', ...)"
        ))),
    }
}

/// Whether a plan may become deeper by a token. Parentheses are bounded by the parser.
fn nests(token: &Token) -> bool {
    !matches!(
        token,
        Token::Whitespace(_)
            | Token::Comma
            | Token::LParen
            | Token::RParen
            | Token::Number(..)
            | Token::SingleQuotedString(_)
    )
}

/// A place in a text, which goes forward.
struct Place<'a> {
    sql: &'a str,
    offset: usize,
    at: Location,
}

impl Place<'_> {
    /// The byte at a line and a column, both from 1 on.
    fn advance(&mut self, to: Location) -> usize {
        for char in self.sql[self.offset..].chars() {
            if (self.at.line, self.at.column) >= (to.line, to.column) {
                break;
            }
            self.offset += char.len_utf8();
            self.at.column += 1;
            if char == '\n' {
                self.at = Location { line: self.at.line + 1, column: 1 };
            }
        }
        self.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declared::{Declared, From};
    use crate::table::{Content, Kind};
    use stillframe_rdb::Collection;

    fn parse(sql: &str) -> Result<Option<Declaration>, String> {
        let all = statements(sql).map_err(|error| error.to_string())?;
        Declaration::parse(&all[0].0).map_err(|error| error.to_string())
    }

    #[test]
    fn statements_are_those_that_were_written() {
        let sql =
            "select 'a''; b', \"c\"\"d\"; -- e; f\nselect E'\\';' ;\n;; select '\u{1f600};' ; ";
        let all = statements(sql).expect("statements");
        let texts: Vec<&str> = all.iter().map(|(_, text)| text.trim()).collect();
        assert_eq!(
            texts,
            ["select 'a''; b', \"c\"\"d\"", "-- e; f\nselect E'\\';'", "select '\u{1f600};'"]
        );
    }

    #[test]
    fn tables_are_declared_over_patterns() {
        let sql = "create table Orders as hash 'order:*' (id bigint from key, \"Price\" double, \
                   s text from field 'State of it');";
        let column = |name: &str, content, from| Declared { name: name.to_owned(), content, from };
        let declared = Declaration {
            name: "orders".to_owned(),
            kind: Kind::Of(Collection::Hash),
            pattern: "order:*".to_owned(),
            columns: vec![
                column("id", Content::Int, From::Key),
                column("Price", Content::Double, From::Field("Price".to_owned())),
                column("s", Content::Text, From::Field("State of it".to_owned())),
            ],
        };
        assert_eq!(parse(sql), Ok(Some(declared)));
        for sql in
            ["select 1", "create table a as select 1", "create table a (b int)", "create view a"]
        {
            assert_eq!(parse(sql), Ok(None), "{sql}");
        }
    }

    #[test]
    fn a_declaration_that_cannot_be_read_says_what_is_expected() {
        for (sql, part) in [
            ("create table a as heap 'x' (b int)", "one of string, list"),
            ("create table a as hash (b int)", "the pattern of its keys"),
            ("create table a as hash 'x*'", "( expected, the end found"),
            ("create table a as hash 'x*' (b money)", "not 'money'"),
            ("create table a as hash 'x*' (b int, b int)", "two columns b"),
            ("create table a as set 'x*' (b int)", "say where it comes from"),
            ("create table a as set 'x*' (b int from score)", "a set has no score"),
            ("create table a as hash 'x*' (b int) c", "the end expected, 'c' found"),
        ] {
            let error = parse(sql).expect_err(sql);
            assert!(error.contains(part), "{sql}: {error}");
        }
    }
}
