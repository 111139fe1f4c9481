//! SIGTERM and SIGINT: the first asks the server to save and stop. A SIGINT after it stops the
//! server at once, a SIGTERM does not: `timeout` sends two, to the server and to its process group.
//! SIGXFSZ: a write beyond `ulimit -f` fails with an error, as on a full disk, and ends nothing.
//!
//! The flags are plain memory of this process: a forked child has its own and disturbs nobody.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

/// The requests of signals.
#[derive(Default)]
pub(crate) struct Signals {
    /// The number of the signal that asks for shutdown, or 0.
    asked: Arc<AtomicUsize>,
    /// The next SIGINT ends the process.
    urgent: Arc<AtomicBool>,
    /// Hears that the server does not shut down.
    on_refusal: Option<Sender<()>>,
}

/// Asks a server to stop as a signal does.
pub(crate) struct Asker(Arc<AtomicUsize>);

impl Asker {
    /// Asks at the next turn.
    pub(crate) fn ask(&self, signal: Signal) {
        self.0.store(signal as usize, Ordering::Relaxed);
    }
}

impl Signals {
    /// Installs the handlers.
    pub(crate) fn watch() -> io::Result<Self> {
        let signals = Self::default();
        // Any handler lets the write return its error; nobody asks for the flag.
        flag::register(SIGXFSZ, Arc::default())?;
        // Order matters: the first signal finds `urgent` still down.
        flag::register_conditional_shutdown(SIGINT, 1, Arc::clone(&signals.urgent))?;
        for signal in [SIGINT, SIGTERM] {
            flag::register(signal, Arc::clone(&signals.urgent))?;
            flag::register_usize(signal, Arc::clone(&signals.asked), signal as usize)?;
        }
        Ok(signals)
    }

    /// Who asks as a signal does.
    pub(crate) fn asker(&self) -> Asker {
        Asker(Arc::clone(&self.asked))
    }

    /// Requests of this program instead of signals; who asks hears of refusals.
    pub(crate) fn asked_by(on_refusal: Sender<()>) -> (Self, Asker) {
        let signals = Self { on_refusal: Some(on_refusal), ..Self::default() };
        let asker = signals.asker();
        (signals, asker)
    }

    /// Whether a signal asks for shutdown, unhandled yet.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed) != 0
    }

    /// Takes the request for shutdown, if there is one.
    pub(super) fn take(&self) -> Option<Signal> {
        match self.asked.swap(0, Ordering::Relaxed) {
            0 => None,
            number if number == Signal::Int as usize => Some(Signal::Int),
            number if number == Signal::Last as usize => Some(Signal::Last),
            _ => Some(Signal::Term),
        }
    }

    /// Notes that the shutdown was aborted or failed: the next signal asks again. A request of who
    /// has dropped the server stays.
    pub(super) fn forget(&self) {
        let forgotten = |asked| (asked != Signal::Last as usize).then_some(0);
        let _ = self.asked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, forgotten);
        self.urgent.store(false, Ordering::Relaxed);
        if let Some(asker) = &self.on_refusal {
            let _ = asker.send(()); // nobody waits for it
        }
    }
}

/// A signal that asks the server to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Int = SIGINT as isize,
    /// A supervisor's request.
    Term = SIGTERM as isize,
    /// The program around the server drops it: nobody hears of a refusal.
    Last,
}
