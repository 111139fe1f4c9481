//! Removes what no record that is needed lies in, on a thread of its own; without one on a disk
//! that has no time of its own.

use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

use stillframe_durability::disk::Location;
use stillframe_durability::{Error, Log, LogHandle};

use super::position;

/// The thread; it ends when this is dropped.
pub(crate) struct Janitor {
    asked: Option<Sender<Cut>>,
    thread: Option<JoinHandle<()>>,
    /// Where the log is, if there is no thread.
    location: Option<Location>,
}

/// The records below `from` are needless once that of number `behind` is durable.
#[derive(Clone, Copy)]
pub(crate) struct Cut {
    pub(crate) from: u64,
    pub(crate) behind: u64,
}

impl Janitor {
    pub(crate) fn start(location: Location, log: LogHandle) -> Result<Self, Error> {
        let (asked, cuts) = channel::<Cut>();
        let work = move || {
            for Cut { from, behind } in cuts {
                // What is left over does no harm; the next cut tries again.
                let _ = log.wait_durable(behind).and_then(|()| remove(&location, from));
            }
        };
        let thread = Builder::new().name("raft-janitor".into()).spawn(work);
        let thread = thread.map_err(Error::Thread)?;
        Ok(Self { asked: Some(asked), thread: Some(thread), location: None })
    }

    /// One whose caller waits until `behind` is durable.
    pub(crate) fn without_thread(location: Location) -> Self {
        Self { asked: None, thread: None, location: Some(location) }
    }

    pub(crate) fn cut(&self, cut: Cut) {
        if let Some(location) = &self.location {
            let _ = remove(location, cut.from); // as on the thread
        }
        if let Some(asked) = &self.asked {
            let _ = asked.send(cut); // the thread lives as long as this
        }
    }
}

fn remove(location: &Location, from: u64) -> Result<(), Error> {
    position::write(location, from)?;
    Log::remove_below(location.clone(), from)
}

impl Drop for Janitor {
    fn drop(&mut self) {
        self.asked = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // what it left undone does no harm
        }
    }
}
