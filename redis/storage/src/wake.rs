//! How other threads have the command thread look for what they report.

use std::sync::Arc;

/// Makes the wait of the command thread under way, or its next one, end at once.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// For callers that poll, or wait for the thread.
pub fn nobody() -> Wake {
    Arc::new(|| ())
}
