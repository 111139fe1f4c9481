//! Wrong images of a server, counted by the hunter of `stillframe hunt`.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use stillframe_hunt::{Plan, Report, hunt};

use super::process::{Scratch, Setup};

/// Transactions on the server of that name while so many full syncs are taken; none if the server
/// is not installed.
///
/// # Errors
/// The server does not start, or the hunt ends without a verdict.
pub(crate) fn hunted(server: &str, images: u64, seed: u64) -> Result<Option<Report>, String> {
    let Ok(setup) = Setup::of(server, false) else { return Ok(None) };
    let scratch = Scratch::new(&format!("hunt-{server}")).map_err(|error| error.to_string())?;
    let running = setup.start(scratch.path())?;
    running.client()?.call(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"])?;
    let plan = Plan {
        target: format!("127.0.0.1:{}", running.port),
        images,
        seed,
        time: Some(Duration::from_secs(120)),
        ..Plan::default()
    };
    let report = hunt(&plan, &AtomicBool::new(false)).map_err(|error| error.to_string())?;
    Ok(Some(report))
}
