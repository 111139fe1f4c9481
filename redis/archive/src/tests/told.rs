//! What the server's log gets of an archive.

use std::fmt::Debug;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::faults::Faulty;
use super::server::{Server, Steps, settings};

/// Sends each line of the log.
struct Log(Mutex<Sender<String>>);

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn event(&self, event: &Event<'_>) {
        event.record(&mut Line(self, *event.metadata().level()));
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line<'l>(&'l Log, Level);

impl Visit for Line<'_> {
    fn record_debug(&mut self, _: &Field, message: &dyn Debug) {
        let log = self.0.0.lock().expect("nobody panics");
        log.send(format!("{} {message:?}", self.1)).expect("the test listens");
    }
}

/// The thread that looks at files tells it, since that of the archive may wait for the store.
#[test]
fn the_log_tells_of_an_archive_that_is_late_and_of_one_that_has_caught_up() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let (server, store) = (Server::new(0), Arc::new(Faulty::default()));
    let Steps { shared, spool, .. } = Steps::new(&server.source(), &store, settings());
    let (sender, lines) = channel();
    let looks = thread::spawn({
        let shared = Arc::clone(&shared);
        move || {
            let _log = tracing::subscriber::set_default(Log(Mutex::new(sender)));
            shared.look_on(spool);
        }
    });
    for (error, why) in [("", "the store is slow, or says nothing"), ("E 7", "E 7")] {
        if !error.is_empty() {
            shared.note_error(error.to_owned());
        }
        shared.age(Duration::from_secs(100));
        let line = lines.recv().expect("the thread goes on");
        let seconds = line.strip_prefix("WARN the archive lacks the last ");
        let seconds = seconds.and_then(|line| line.strip_suffix(&format!(" s: {why}")));
        let seconds = seconds.and_then(|seconds| seconds.parse::<u64>().ok());
        assert!(seconds.is_some_and(|seconds| seconds >= 100), "{line}");
        shared.note_archived(Instant::now());
        assert_eq!(lines.recv().expect("the thread goes on"), "INFO the archive has caught up");
    }
    shared.stop();
    looks.join().expect("it ends");
    assert_eq!(lines.iter().count(), 0, "nothing else is told");
}
