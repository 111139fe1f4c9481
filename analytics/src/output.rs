//! What becomes of the rows of an answer.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::{FileWriter, StreamWriter};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow::util::pretty::pretty_format_batches;
use arrow::{csv, json};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::error::QueryError;

/// Rows of a table for people that are aligned with each other.
const TABLE_ROWS: usize = 10_000;

/// A form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Aligned columns, for people.
    Table,
    /// Comma-separated values with a head; lists as text.
    Csv,
    /// One JSON object a line.
    Json,
    /// An Arrow IPC stream; a file of that format with --out.
    Arrow,
    /// A Parquet file; needs --out.
    Parquet,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        clap::ValueEnum::from_str(text, true)
    }
}

/// Where the rows of an answer go.
pub struct Output {
    writer: Writer,
    what: String,
}

type Out = BufWriter<Box<dyn Write + Send>>;

enum Writer {
    Table { out: Out, held: Vec<RecordBatch>, rows: usize, schema: SchemaRef },
    Csv(csv::Writer<Out>, SchemaRef),
    Json(json::LineDelimitedWriter<Out>),
    Stream(StreamWriter<Out>),
    File(FileWriter<File>),
    Parquet(Box<ArrowWriter<File>>),
}

impl Output {
    /// To standard output, or to a file that is replaced.
    ///
    /// # Errors
    /// [`QueryError::Output`]: the file cannot be made, or the format needs one.
    pub fn new(
        format: Format,
        file: Option<&Path>,
        schema: &SchemaRef,
    ) -> Result<Self, QueryError> {
        let what = file.map_or("the result".to_owned(), |path| path.display().to_string());
        let failed = |why: &dyn std::fmt::Display| QueryError::output(what.clone(), why);
        let open = |path: &Path| File::create(path).map_err(|error| failed(&error));
        let text = || -> Result<Out, QueryError> {
            Ok(BufWriter::new(match file {
                Some(path) => Box::new(open(path)?),
                None => Box::new(io::stdout()),
            }))
        };
        let writer = match (format, file) {
            (Format::Table, _) => {
                let (held, schema) = (Vec::new(), Arc::clone(schema));
                Writer::Table { out: text()?, held, rows: 0, schema }
            }
            (Format::Csv, _) => {
                let writer = csv::WriterBuilder::new().with_header(false).build(text()?);
                let flat = flat(schema);
                let mut output =
                    Self { writer: Writer::Csv(writer, Arc::clone(&flat)), what: what.clone() };
                output.head(&flat)?;
                return Ok(output);
            }
            (Format::Json, _) => Writer::Json(json::LineDelimitedWriter::new(text()?)),
            (Format::Arrow, None) => {
                Writer::Stream(StreamWriter::try_new(text()?, schema).map_err(|it| failed(&it))?)
            }
            (Format::Arrow, Some(path)) => {
                let writer = FileWriter::try_new(open(path)?, schema);
                Writer::File(writer.map_err(|error| failed(&error))?)
            }
            (Format::Parquet, None) => {
                return Err(failed(&"a Parquet file cannot be a stream; name one with --out"));
            }
            (Format::Parquet, Some(path)) => {
                let level = ZstdLevel::try_new(3).map_err(|error| failed(&error))?;
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(level))
                    .set_created_by(concat!("stillframe ", env!("CARGO_PKG_VERSION")).to_owned())
                    .build();
                let writer =
                    ArrowWriter::try_new(open(path)?, Arc::clone(schema), Some(properties));
                Writer::Parquet(Box::new(writer.map_err(|error| failed(&error))?))
            }
        };
        Ok(Self { writer, what })
    }

    /// The head of a CSV file, though no row may follow.
    fn head(&mut self, schema: &Schema) -> Result<(), QueryError> {
        let Writer::Csv(writer, _) = &mut self.writer else { return Ok(()) };
        let names = schema.fields().iter().map(|field| {
            let column: ArrayRef = Arc::new(StringArray::from(vec![field.name().as_str()]));
            (field.name().as_str(), column)
        });
        let head = RecordBatch::try_from_iter(names);
        let written = head.and_then(|head| writer.write(&head));
        written.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &ArrowError) -> QueryError {
        match error {
            ArrowError::IoError(_, error) if error.kind() == io::ErrorKind::BrokenPipe => {
                QueryError::Gone
            }
            // Writers of text wrap what the output says in their own words.
            ArrowError::CsvError(text) if text.contains("Broken pipe") => QueryError::Gone,
            error => QueryError::output(self.what.clone(), error),
        }
    }

    /// Adds rows.
    ///
    /// # Errors
    /// [`QueryError::Output`], or [`QueryError::Gone`].
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), QueryError> {
        let written = match &mut self.writer {
            Writer::Table { out, held, rows, .. } => {
                held.push(batch.clone());
                *rows += batch.num_rows();
                if *rows < TABLE_ROWS { Ok(()) } else { print(out, held, rows) }
            }
            Writer::Csv(writer, schema) => {
                flattened(batch, schema).and_then(|it| writer.write(&it))
            }
            Writer::Json(writer) => writer.write(batch),
            Writer::Stream(writer) => writer.write(batch),
            Writer::File(writer) => writer.write(batch),
            Writer::Parquet(writer) => writer.write(batch).map_err(ArrowError::from),
        };
        written.map_err(|error| self.failed(&error))
    }

    /// Ends it.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn finish(mut self) -> Result<(), QueryError> {
        let flush = |out: &mut Out| out.flush().map_err(ArrowError::from);
        let ended = match &mut self.writer {
            Writer::Table { out, held, rows, schema } => {
                // The head of a table without rows tells that there are none.
                if held.is_empty() && *rows == 0 {
                    held.push(RecordBatch::new_empty(Arc::clone(schema)));
                }
                print(out, held, rows).and_then(|()| flush(out))
            }
            Writer::Csv(writer, schema) => {
                writer.write(&RecordBatch::new_empty(Arc::clone(schema)))
            }
            Writer::Json(writer) => writer.finish(),
            Writer::Stream(writer) => writer.finish(),
            Writer::File(writer) => writer.finish(),
            Writer::Parquet(writer) => writer.finish().map(|_| ()).map_err(ArrowError::from),
        };
        ended.map_err(|error| self.failed(&error))?;
        let flushed = match self.writer {
            Writer::Csv(writer, _) => flush(&mut writer.into_inner()),
            Writer::Json(writer) => flush(&mut writer.into_inner()),
            Writer::Stream(mut writer) => flush(writer.get_mut()),
            _ => return Ok(()),
        };
        let what = self.what;
        flushed.map_err(|error| match error {
            ArrowError::IoError(_, error) if error.kind() == io::ErrorKind::BrokenPipe => {
                QueryError::Gone
            }
            error => QueryError::output(what, &error),
        })
    }
}

/// Prints rows that are held, aligned.
fn print(out: &mut Out, held: &mut Vec<RecordBatch>, rows: &mut usize) -> Result<(), ArrowError> {
    if !held.is_empty() {
        writeln!(out, "{}", pretty_format_batches(&std::mem::take(held))?)?;
    }
    // Not 0: what follows is no table without rows.
    *rows = 1;
    Ok(())
}

/// A schema whose lists and bytes are texts.
fn flat(schema: &Schema) -> SchemaRef {
    let field = |field: &Arc<Field>| match field.data_type() {
        DataType::Binary | DataType::LargeBinary => Field::new(field.name(), DataType::Utf8, true),
        kind if kind.is_nested() => Field::new(field.name(), DataType::Utf8, true),
        _ => field.as_ref().clone(),
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

fn flattened(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let options = FormatOptions::default();
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        if column.data_type() == field.data_type() {
            return Ok(Arc::clone(column));
        }
        let texts = ArrayFormatter::try_new(column, &options)?;
        let text = |row| (!column.is_null(row)).then(|| texts.value(row).to_string());
        let texts: StringArray = (0..column.len()).map(text).collect();
        Ok(Arc::new(texts) as ArrayRef)
    });
    RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<_, ArrowError>>()?)
}
