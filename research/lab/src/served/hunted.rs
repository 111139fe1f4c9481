//! Wrong images of a server, counted by the hunter of `stillframe hunt`.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use stillframe_hunt::{Plan, Report, hunt};

use super::process::{Scratch, Setup};

/// Transactions on the server of that name while so many full syncs are taken; none if the server
/// is not installed.
///
/// # Errors
/// The server does not start, or the hunt ends without a verdict.
pub(crate) fn hunted(server: &str, images: u64, seed: u64) -> Result<Option<Report>> {
    let Ok(setup) = Setup::from_algorithm(server, false) else { return Ok(None) };
    let scratch = Scratch::new(&format!("hunt-{server}"))?;
    let running = setup.start(scratch.path())?;
    running.client()?.call(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"])?;
    let plan = Plan {
        target: format!("127.0.0.1:{}", running.port),
        images,
        seed,
        time: Some(Duration::from_secs(120)),
        ..Plan::default()
    };
    Ok(Some(hunt(&plan, &AtomicBool::new(false))?))
}
