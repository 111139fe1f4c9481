//! The thread that removes what no record that is needed lies in.

use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

use stillframe_durability::disk::Location;
use stillframe_durability::{Error, Log, LogHandle};

use super::position;

/// The thread; it ends when this is dropped.
pub(crate) struct Janitor {
    asked: Option<Sender<Cut>>,
    thread: Option<JoinHandle<()>>,
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
                let cut = log.wait_durable(behind).and_then(|()| position::write(&location, from));
                let _ = cut.and_then(|()| Log::remove_below(location.clone(), from));
            }
        };
        let thread = Builder::new().name("raft-janitor".into()).spawn(work);
        let thread = thread.map_err(Error::Thread)?;
        Ok(Self { asked: Some(asked), thread: Some(thread) })
    }

    pub(crate) fn cut(&self, cut: Cut) {
        if let Some(asked) = &self.asked {
            let _ = asked.send(cut); // the thread lives as long as this
        }
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        self.asked = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // what it left undone does no harm
        }
    }
}
