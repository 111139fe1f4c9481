//! Bounds how much of a log one kind of line takes, so that a peer that sends rubbish in a loop
//! does not fill the disk.
//!
//! - A kind is one place in the code. It writes [`BURST`] lines at once, then one a second.
//! - Lines beyond these are counted. A thread writes the last of them, with their number, when the
//!   second is over; it sleeps while no line is held back.
//! - `debug` and `trace` have no bound: an operator who asks for them wants every line.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// Lines of one kind that are written at once.
const BURST: u32 = 10;
/// The time after which a kind may write one more line.
const REFILL: Duration = Duration::from_secs(1);

/// Writes lines elsewhere, fewer of a kind that comes too often.
pub(super) struct Limited {
    shared: Arc<Shared>,
}

struct Shared {
    writer: BoxMakeWriter,
    kinds: Mutex<HashMap<Identifier, Kind>>,
    /// Told when a line is held back.
    held_back: Condvar,
}

/// What one kind of line may still write.
struct Kind {
    lines: u32,
    /// Lines were added up to this moment.
    refilled: Instant,
    held: Option<Held>,
}

/// The last line that was held back.
struct Held {
    line: Vec<u8>,
    /// Lines that were held back before it.
    others: u64,
}

impl Kind {
    fn new(now: Instant) -> Self {
        Self { lines: BURST, refilled: now, held: None }
    }

    fn refill(&mut self, now: Instant) {
        let periods = now.saturating_duration_since(self.refilled).as_nanos() / REFILL.as_nanos();
        let periods = u32::try_from(periods).unwrap_or(u32::MAX);
        self.lines = self.lines.saturating_add(periods).min(BURST);
        self.refilled += REFILL.saturating_mul(periods);
    }

    /// The line to write now: this one, or none while it is held back.
    fn admit(&mut self, line: &[u8], now: Instant) -> bool {
        self.refill(now);
        if self.lines > 0 && self.held.is_none() {
            self.lines -= 1;
            return true;
        }
        let others = self.held.take().map_or(0, |held| held.others + 1);
        self.held = Some(Held { line: line.to_vec(), others });
        false
    }

    /// The line that was held back, once a line may be written.
    fn release(&mut self, now: Instant) -> Option<Held> {
        self.refill(now);
        if self.lines == 0 {
            return None;
        }
        let held = self.held.take()?;
        self.lines -= 1;
        Some(held)
    }
}

impl Held {
    /// The line with the number of those before it.
    fn into_line(self, is_json: bool) -> Vec<u8> {
        let Self { mut line, others } = self;
        let end = if is_json { "}\n" } else { "\n" };
        if others == 0 || !line.ends_with(end.as_bytes()) {
            return line;
        }
        line.truncate(line.len() - end.len());
        let more = match is_json {
            true => format!(",\"lines_like_it\":{others}}}\n"),
            false => format!(" (and {others} lines like it)\n"),
        };
        line.extend(more.bytes());
        line
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<Identifier, Kind>> {
        // Taken though poisoned: it is whole between statements.
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Limited {
    /// Sends lines to `writer`; they are JSON objects if `is_json`.
    pub(super) fn new(writer: BoxMakeWriter, is_json: bool) -> Self {
        let (kinds, held_back) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { writer, kinds, held_back });
        let for_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("log".into());
        // Without the thread, lines that are held back stay so.
        let _ = thread.spawn(move || release_held(&for_thread, is_json));
        Self { shared }
    }
}

/// Writes lines that were held back when their second is over, for ever.
fn release_held(shared: &Shared, is_json: bool) {
    let mut kinds = shared.lock();
    loop {
        while kinds.values().all(|kind| kind.held.is_none()) {
            kinds = shared.held_back.wait(kinds).unwrap_or_else(PoisonError::into_inner);
        }
        drop(kinds);
        thread::sleep(REFILL);
        kinds = shared.lock();
        let now = Instant::now();
        let lines: Vec<Held> = kinds.values_mut().filter_map(|kind| kind.release(now)).collect();
        drop(kinds);
        for held in lines {
            // A line that cannot be written, as on a full disk, is lost.
            let _ = shared.writer.make_writer().write_all(&held.into_line(is_json));
        }
        kinds = shared.lock();
    }
}

impl<'a> MakeWriter<'a> for Limited {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        Line { shared: &self.shared, kind: None }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Self::Writer {
        let is_bounded = *meta.level() <= Level::INFO;
        Line { shared: &self.shared, kind: is_bounded.then(|| meta.callsite()) }
    }
}

/// Takes one line, which comes in one piece.
pub(super) struct Line<'a> {
    shared: &'a Shared,
    /// None for a line without a bound.
    kind: Option<Identifier>,
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(kind) = &self.kind {
            let mut kinds = self.shared.lock();
            let now = Instant::now();
            let known = kinds.entry(kind.clone()).or_insert_with(|| Kind::new(now));
            if !known.admit(line, now) {
                self.shared.held_back.notify_one();
                return Ok(line.len());
            }
        }
        self.shared.writer.make_writer().write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(held: Option<Held>, is_json: bool) -> Option<String> {
        held.map(|held| String::from_utf8(held.into_line(is_json)).expect("text"))
    }

    #[test]
    fn a_kind_writes_a_burst_then_one_line_a_second_with_a_count() {
        let begin = Instant::now();
        let mut kind = Kind::new(begin);
        for line in 0..BURST {
            assert!(kind.admit(format!("{line}\n").as_bytes(), begin));
        }
        for line in 0..1000 {
            assert!(!kind.admit(format!("more {line}\n").as_bytes(), begin));
        }
        assert!(kind.release(begin + REFILL / 2).is_none(), "the second is not over");
        let first = text(kind.release(begin + REFILL), false);
        assert_eq!(first.as_deref(), Some("more 999 (and 999 lines like it)\n"));
        assert!(!kind.admit(b"{\"a\":1}\n", begin + REFILL), "the second has its line");
        let second = text(kind.release(begin + 2 * REFILL), true);
        assert_eq!(second.as_deref(), Some("{\"a\":1}\n"), "it is alone");
        assert!(kind.release(begin + 3 * REFILL).is_none(), "nothing is held back");
        let rested = begin + 100 * REFILL;
        assert!((0..BURST).all(|_| kind.admit(b"again\n", rested)), "a rest gives a burst");
        assert!(!kind.admit(b"{\"a\":1}\n", rested) && !kind.admit(b"{\"a\":2}\n", rested));
        let third = text(kind.release(rested + REFILL), true);
        assert_eq!(third.as_deref(), Some("{\"a\":2,\"lines_like_it\":1}\n"));
    }

    #[test]
    fn a_line_does_not_pass_one_that_is_held_back() {
        let begin = Instant::now();
        let mut kind = Kind::new(begin);
        assert!((0..BURST).all(|_| kind.admit(b"line\n", begin)));
        assert!(!kind.admit(b"held\n", begin));
        assert!(!kind.admit(b"later\n", begin + 5 * REFILL), "the thread is late");
        let line = text(kind.release(begin + 5 * REFILL), false);
        assert_eq!(line.as_deref(), Some("later (and 1 lines like it)\n"));
    }
}
