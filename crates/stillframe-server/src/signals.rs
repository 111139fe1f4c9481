//! SIGTERM and SIGINT: the first asks the server to save and stop, the second stops it at once.
//!
//! The flags are plain memory of this process: a forked child has its own and disturbs nobody.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// A flag that the first signal raises, and one that says that the next one ends the process.
pub(crate) fn watch() -> io::Result<(Arc<AtomicBool>, Arc<AtomicBool>)> {
    let asked = Arc::new(AtomicBool::new(false));
    // Raised by the first signal, and only lowered when the end that it asked for is called off.
    let urgent = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Order matters: the first signal finds `urgent` still down.
        flag::register_conditional_shutdown(signal, 1, Arc::clone(&urgent))?;
        flag::register(signal, Arc::clone(&urgent))?;
        flag::register(signal, Arc::clone(&asked))?;
    }
    Ok((asked, urgent))
}
