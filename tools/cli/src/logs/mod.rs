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
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use self::limit::Limited;

/// The handle for later changes of the level.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

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

fn filter(level: LogLevel) -> EnvFilter {
    let own = match level {
        LogLevel::Debug => "trace",
        LogLevel::Verbose => "debug,openraft=warn",
        // Its warnings come by the hundred while a member is down, and speak of its own parts. A
        // member tells by itself who leads, what it has lost, and what has failed.
        LogLevel::Notice => "info,openraft=off",
        LogLevel::Warning => "warn,openraft=off",
    };
    // What reaches object stores logs requests, which may hold credentials.
    const SILENT: &str = "object_store=off,reqwest=off,hyper=off,hyper_util=off,h2=off,rustls=off";
    EnvFilter::new(format!("{own},{SILENT}"))
}

fn start_with(level: LogLevel, format: LogFormat, file: Option<PathBuf>) {
    let first = EnvFilter::try_from_default_env().unwrap_or_else(|_| filter(level));
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
