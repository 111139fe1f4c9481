//! Logs, one line an event: on standard error or in a file, for people or as JSON.
//!
//! A log file is opened anew for each line, as redis-server does: a tool that rotates logs
//! moves it away and sends no signal. [`limit`] bounds what one kind of line takes.

mod limit;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use stillframe_server::{Config, LogFormat, LogLevel};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use self::limit::Limited;

/// The handle for later changes of the level.
static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Starts logging on standard error. `RUST_LOG` overrides the level, for developers.
pub(crate) fn start(level: LogLevel) {
    start_with(level, LogFormat::Text, None);
}

/// Starts logging as a server's settings say, and follows its level from then on.
pub(crate) fn start_for(config: &mut Config) -> Result<(), String> {
    let file = config.logfile().map(Path::to_owned);
    if let Some(path) = &file {
        open(path).map_err(|error| {
            format!("cannot write the log file {}: {error}; see --logfile", path.display())
        })?;
    }
    start_with(config.loglevel(), config.log_format(), file);
    config.on_loglevel(|level| {
        if let Some(handle) = FILTER.get() {
            let _ = handle.reload(filter(level)); // fails only if logging has ended
        }
    });
    Ok(())
}

fn filter(level: LogLevel) -> Targets {
    let (own, openraft) = match level {
        LogLevel::Debug => (LevelFilter::TRACE, LevelFilter::TRACE),
        LogLevel::Verbose => (LevelFilter::DEBUG, LevelFilter::WARN),
        // Its warnings come by the hundred while a member is down, and speak of its own parts. A
        // member tells by itself who leads, what it has lost, and what has failed.
        LogLevel::Notice => (LevelFilter::INFO, LevelFilter::OFF),
        LogLevel::Warning => (LevelFilter::WARN, LevelFilter::OFF),
    };
    // What reaches object stores logs requests, which may hold credentials.
    const SILENT: [&str; 6] = ["object_store", "reqwest", "hyper", "hyper_util", "h2", "rustls"];
    let silent = SILENT.map(|target| (target, LevelFilter::OFF));
    Targets::new().with_default(own).with_target("openraft", openraft).with_targets(silent)
}

fn start_with(level: LogLevel, format: LogFormat, file: Option<PathBuf>) {
    let chosen = std::env::var("RUST_LOG").ok().and_then(|text| text.parse().ok());
    let first = chosen.unwrap_or_else(|| filter(level));
    let (filter, handle) = reload::Layer::new(first);
    let ansi = file.is_none() && io::stderr().is_terminal();
    let writer = match file {
        Some(path) => BoxMakeWriter::new(LogFile(path)),
        None => BoxMakeWriter::new(io::stderr),
    };
    let writer = Limited::new(writer, format == LogFormat::Json);
    let lines = fmt::layer().with_target(false).with_ansi(ansi).with_writer(writer);
    // A line that cannot be written, as on a full disk, is lost. To say so on standard error would
    // be a panic where that cannot be written, either.
    let lines = lines.log_internal_errors(false);
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).boxed(),
    };
    tracing_subscriber::registry().with(filter).with(lines).init();
    let _ = FILTER.set(handle); // logging is started once
}

fn open(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).open(path)
}

/// A file that lines are added to.
struct LogFile(PathBuf);

impl<'a> MakeWriter<'a> for LogFile {
    type Writer = Box<dyn Write>;

    fn make_writer(&'a self) -> Self::Writer {
        match open(&self.0) {
            Ok(file) => Box::new(file),
            // The disk is full, or the folder gone: standard error may still have a reader.
            Err(_) => Box::new(io::stderr()),
        }
    }
}
