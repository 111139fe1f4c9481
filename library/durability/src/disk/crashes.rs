//! Crashes of a simulated disk, exhaustively: for tests of whatever keeps files through the seam.

use std::collections::HashMap;

use super::{Change, Files, Platter};

/// Writes whose sectors are tried in every subset.
const WINDOW_WRITES: usize = 3;
/// The most sectors, lengths and names that can be tried in every subset.
const PIECES_MAX: usize = 16;

/// Loses power everywhere in a history of changes to a disk that held `start`: after every prefix,
/// with every subset of what the last three writes and all changes of names left in doubt, with
/// none and with all of earlier writes. `recover` returns what is found then; `judge` says what is
/// wrong with that, given after how many changes it was. Returns how many crash points there were.
///
/// # Errors
/// The first crash that was not survived.
///
/// # Panics
/// If there are too many subsets to try: sync more often, or write less.
pub fn crash_everywhere<T>(
    start: &Files,
    history: &[Change],
    recover: impl Fn(&Files) -> T,
    judge: impl Fn(usize, &T) -> Result<(), String>,
) -> Result<u64, String> {
    let mut platter = Platter::holding(start);
    let mut known: HashMap<Files, T> = HashMap::new();
    let mut points = 0;
    for changes in 0..=history.len() {
        if changes > 0 {
            platter.apply(&history[changes - 1]);
        }
        let (recent, earlier) = platter.in_doubt(WINDOW_WRITES);
        let pieces = recent.len();
        assert!(pieces <= PIECES_MAX, "{pieces} pieces are too many to try all subsets");
        for mask in 0..1u32 << pieces {
            for older in if earlier.is_empty() { &[false][..] } else { &[false, true] } {
                let files = platter.lose_power(|number| match recent.binary_search(&number) {
                    Ok(index) => mask >> index & 1 == 1,
                    Err(_) => *older,
                });
                points += 1;
                let found = known.entry(files).or_insert_with_key(&recover);
                judge(changes, found).map_err(|wrong| {
                    format!("after {changes} changes, subset {mask:b}, earlier {older}: {wrong}")
                })?;
            }
        }
    }
    Ok(points)
}
