//! Logs on standard error, one line an event.

use std::io::IsTerminal;

use stillframe_server::LogLevel;
use tracing_subscriber::EnvFilter;

/// Starts logging. `RUST_LOG` overrides the level, for developers.
pub(crate) fn start(level: LogLevel) {
    let level = match level {
        LogLevel::Debug => "trace",
        LogLevel::Verbose => "debug",
        LogLevel::Notice => "info",
        LogLevel::Warning => "warn",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
}
