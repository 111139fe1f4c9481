//! Which images and segments an archive keeps.
//!
//! - An image leads to all later states of its set, so the newest one that is not younger than the
//!   kept age is kept, too.
//! - The age is measured by the clock. A number of images is kept whatever it says, in case it
//!   jumps.

use std::time::Duration;

use crate::manifest::{Manifest, Object, Set};

/// Removes from a manifest what need not be kept; true if there was something.
pub(crate) fn thin(manifest: &mut Manifest, keep: Duration, images: usize, now_ms: u64) -> bool {
    if keep.is_zero() {
        return false;
    }
    let then = now_ms.saturating_sub(u64::try_from(keep.as_millis()).unwrap_or(u64::MAX));
    let begun: Vec<u64> =
        manifest.sets.iter().flat_map(|set| set.images.iter().map(|it| it.begun_ms)).collect();
    let surplus = begun.len().saturating_sub(images.max(1));
    // All before the last that is old enough to lead to all that is wanted.
    let old = begun.iter().rposition(|&begun_ms| begun_ms <= then).unwrap_or(0);
    let mut gone = surplus.min(old);
    let mut dropped = Vec::new();
    for set in &mut manifest.sets {
        let here = gone.min(set.images.len());
        gone -= here;
        dropped.extend(drop_first(set, here));
    }
    // A set without images leads nowhere, except for the last, which is being filled.
    let last = manifest.sets.len().saturating_sub(1);
    let mut at = 0;
    manifest.sets.retain_mut(|set| {
        let stays = at == last || !set.images.is_empty();
        at += 1;
        if !stays {
            dropped.extend(set.segments.drain(..).flat_map(|segment| segment.parts));
        }
        stays
    });
    let changed = !dropped.is_empty();
    manifest.drop_objects(dropped);
    changed
}

/// Drops the first images of a set, unless others build on them, and the log that only they need.
fn drop_first(set: &mut Set, count: usize) -> Vec<Object> {
    let mut count = count;
    // An increment needs all from its full checkpoint on.
    while count > 0 && set.images.get(count).is_some_and(|image| image.base.is_some()) {
        count -= 1;
    }
    if count == 0 {
        return Vec::new();
    }
    let mut dropped: Vec<Object> = set.images.drain(..count).map(|image| image.object).collect();
    if set.images.is_empty() {
        return dropped; // the caller removes the set, or its segments wait for an image
    }
    let newest = set.images.iter().map(|it| it.generation).max().unwrap_or(0);
    let mut kept = Vec::new();
    for segment in set.segments.drain(..) {
        let images = set.images.iter().filter(|it| it.generation == segment.generation);
        let from = images.map(|it| it.from).filter(|&from| from > 0).min();
        // The image of a new log comes after its first segment.
        let is_needed = match from {
            Some(from) => segment.end.saturating_add(1) >= from,
            None => segment.generation > newest,
        };
        if is_needed {
            kept.push(segment);
        } else {
            dropped.extend(segment.parts);
        }
    }
    set.segments = kept;
    dropped
}
