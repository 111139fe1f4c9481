//! What becomes of the rows of an answer.

use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::{FileWriter, StreamWriter};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow::util::pretty::pretty_format_batches_with_options;
use arrow::{csv, json};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use tempfile::NamedTempFile;

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

/// Where the rows of an answer go. A file has its name once it is whole.
pub struct Output {
    writer: Writer,
    what: String,
    part: Option<Part>,
}

/// Files without their names.
static PARTS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes files that have no name yet: the process ends.
pub fn remove_unfinished() {
    for path in PARTS.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        let _ = std::fs::remove_file(path); // it may have its name by now
    }
}

/// A file without its name.
struct Part {
    file: NamedTempFile,
    path: PathBuf,
}

impl Part {
    fn new(path: &Path) -> io::Result<Self> {
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        // As any file that a program makes.
        builder.prefix(".stillframe-query-").permissions(Permissions::from_mode(0o666));
        let file = builder.tempfile_in(folder)?;
        let parts = &mut *PARTS.lock().unwrap_or_else(PoisonError::into_inner);
        parts.push(file.path().to_owned());
        Ok(Self { file, path: path.to_owned() })
    }
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
        // A device or a pipe is written as it is.
        let is_device = |path: &&Path| path.metadata().is_ok_and(|it| !it.is_file());
        let part = file.filter(|path| !is_device(path)).map(Part::new).transpose();
        let part = part.map_err(|error| failed(&error))?;
        let open = |path: &Path| {
            let opened = match &part {
                Some(part) => part.file.reopen(),
                None => File::options().write(true).open(path),
            };
            opened.map_err(|error| failed(&error))
        };
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
                Writer::Csv(writer, flat(schema))
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
        let mut output = Self { writer, what, part };
        output.head()?;
        Ok(output)
    }

    /// The head of a CSV file, though no row may follow.
    fn head(&mut self) -> Result<(), QueryError> {
        let Writer::Csv(writer, schema) = &mut self.writer else { return Ok(()) };
        let names = schema.fields().iter().map(|field| {
            let column: ArrayRef = Arc::new(StringArray::from(vec![field.name().as_str()]));
            (field.name().as_str(), column)
        });
        let head = RecordBatch::try_from_iter(names);
        let written = head.and_then(|head| writer.write(&head));
        written.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &ArrowError) -> QueryError {
        failed(&self.what, error)
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
            Writer::Csv(..) => Ok(()),
            Writer::Json(writer) => writer.finish(),
            Writer::Stream(writer) => writer.finish(),
            Writer::File(writer) => writer.finish(),
            Writer::Parquet(writer) => writer.finish().map(|_| ()).map_err(ArrowError::from),
        };
        ended.map_err(|error| self.failed(&error))?;
        let Self { writer, what, part } = self;
        let flushed = match writer {
            Writer::Csv(writer, _) => flush(&mut writer.into_inner()),
            Writer::Json(writer) => flush(&mut writer.into_inner()),
            Writer::Stream(mut writer) => flush(writer.get_mut()),
            _ => Ok(()),
        };
        flushed.map_err(|error| failed(&what, &error))?;
        let Some(Part { file, path }) = part else { return Ok(()) };
        let kept = file.persist(&path).map_err(|error| QueryError::output(what, &error.error));
        kept.map(|_| ())
    }
}

fn failed(what: &str, error: &ArrowError) -> QueryError {
    match error {
        ArrowError::IoError(_, error) if error.kind() == io::ErrorKind::BrokenPipe => {
            QueryError::Gone
        }
        // Writers of text wrap what the output says in their own words.
        ArrowError::CsvError(text) if text.contains("Broken pipe") => QueryError::Gone,
        error => QueryError::output(what, error),
    }
}

/// Prints rows that are held, aligned.
fn print(out: &mut Out, held: &mut Vec<RecordBatch>, rows: &mut usize) -> Result<(), ArrowError> {
    if !held.is_empty() {
        let held: Vec<RecordBatch> =
            std::mem::take(held).iter().map(printable).collect::<Result<_, _>>()?;
        let options = FormatOptions::default().with_null("NULL");
        writeln!(out, "{}", pretty_format_batches_with_options(&held, &options)?)?;
    }
    // Not 0: what follows is no table without rows.
    *rows = 1;
    Ok(())
}

/// Rows whose texts have no control characters, which a terminal would obey.
fn printable(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().map(|column| {
        let Some(texts) = column.as_string_opt::<i32>() else { return Arc::clone(column) };
        if !texts.iter().flatten().any(|text| text.contains(char::is_control)) {
            return Arc::clone(column);
        }
        let text = |text: Option<&str>| {
            let escape = |letter: char| match letter.is_control() {
                true => letter.escape_default().to_string(),
                false => letter.to_string(),
            };
            text.map(|text| text.chars().map(escape).collect::<String>())
        };
        Arc::new(texts.iter().map(text).collect::<StringArray>())
    });
    RecordBatch::try_new(batch.schema(), columns.collect())
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
