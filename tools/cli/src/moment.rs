//! Moments as people read them.

use std::time::{SystemTime, UNIX_EPOCH};

/// A moment, and how far it is from now.
pub(crate) fn at(unix_ms: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let ahead_ms = i128::from(unix_ms) - i128::try_from(now).unwrap_or_default();
    let (amount, unit) = match ahead_ms.unsigned_abs() / 1000 {
        s @ 0..120 => (s, "s"),
        s @ 120..7200 => (s / 60, "min"),
        s @ 7200..172_800 => (s / 3600, "h"),
        s => (s / 86_400, "days"),
    };
    match ahead_ms {
        1.. => format!("in {amount} {unit} (unix ms {unix_ms})"),
        _ => format!("{amount} {unit} ago (unix ms {unix_ms})"),
    }
}

/// As [`at`], for a moment that is counted without a sign.
pub(crate) fn ago(unix_ms: u64) -> String {
    i64::try_from(unix_ms).map_or_else(|_| format!("unix ms {unix_ms}"), at)
}
