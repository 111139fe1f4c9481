//! Why a question has no answer.

use std::path::PathBuf;

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use stillframe_rdb::DecodeError;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The source is none of those that are known.
    #[error(
        "{what} is no dump file, no data directory, no URL of an archive, and no HOST:PORT or \
         socket of a server"
    )]
    Source {
        /// What was named.
        what: String,
    },
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is damaged, or of a version that is not known.
    #[error("{name}: {source}")]
    Damaged {
        /// The file.
        name: String,
        /// What is wrong, and where.
        source: DecodeError,
    },
    /// A directory or an archive has no state of that moment.
    #[error("{0}")]
    Moment(String),
    /// A server sends no image.
    #[error("{address} {why}")]
    Server {
        /// Its address.
        address: String,
        /// Why.
        why: String,
    },
    /// A time or a record makes no sense for this source.
    #[error("--until goes with a data directory or an archive; {what} is one instant already")]
    Until {
        /// The source.
        what: String,
    },
    /// The view that was asked was given up.
    #[error(transparent)]
    View(#[from] stillframe_keyspace::ReadViewLost),
    /// A declaration of a table cannot be read.
    #[error("{0}")]
    Declaration(String),
    /// The question cannot be answered.
    #[error("{0}")]
    Sql(String),
    /// The result cannot be written.
    #[error("cannot write {what}: {why}")]
    Output {
        /// What was to be written.
        what: String,
        /// Why.
        why: String,
    },
    /// The reader of the result has gone.
    #[error("nobody reads the result any more")]
    Gone,
}

impl From<ArrowError> for QueryError {
    fn from(error: ArrowError) -> Self {
        Self::Sql(error.to_string())
    }
}

impl From<DataFusionError> for QueryError {
    fn from(error: DataFusionError) -> Self {
        Self::Sql(error.strip_backtrace())
    }
}

impl QueryError {
    pub(crate) fn output(what: impl Into<String>, why: &dyn std::fmt::Display) -> Self {
        Self::Output { what: what.into(), why: why.to_string() }
    }
}
