//! The lines of a server's log, to a function of the program around it. A panic of that function
//! ends with the call: the panic hook has shown it, and the server goes on.

use std::fmt::{Debug, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::NoSubscriber;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

use super::OnLog;
use crate::LogLevel;

/// See the head of this file. The server has no spans.
pub(super) struct LogTo {
    on_log: OnLog,
    least: LogLevel,
}

impl LogTo {
    pub(super) fn dispatch(on_log: OnLog, least: LogLevel) -> Dispatch {
        ask_each_dispatcher();
        Dispatch::new(Self { on_log, least })
    }
}

/// While one dispatcher is alive, `tracing` asks the thread that comes to a line first whether
/// anybody wants that line, and keeps the answer for all threads: no, where that thread has no
/// dispatcher. The server's line would be lost to `on_log` for good. With two more that stay, each
/// dispatcher is asked.
fn ask_each_dispatcher() {
    static STAY: OnceLock<[Dispatch; 2]> = OnceLock::new();
    STAY.get_or_init(|| [(); 2].map(|()| Dispatch::new(NoSubscriber::default())));
}

fn level_of(metadata: &Metadata<'_>) -> LogLevel {
    match *metadata.level() {
        Level::ERROR | Level::WARN => LogLevel::Warning,
        Level::INFO => LogLevel::Notice,
        Level::DEBUG => LogLevel::Verbose,
        Level::TRACE => LogLevel::Debug,
    }
}

impl Subscriber for LogTo {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && level_of(metadata) >= self.least
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        let call = || (self.on_log)(level_of(event.metadata()), &line.0);
        // The payload is the function's own: its destructor may panic, too.
        catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(std::mem::forget);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The message of an event, and its fields behind.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = if field.name() == "message" {
            self.0.insert_str(0, &format!("{value:?}"));
            Ok(())
        } else {
            write!(self.0, " {field}={value:?}")
        };
    }
}
