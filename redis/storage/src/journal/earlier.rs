//! Earlier images, each with the log that continues it: how far back a server can be rewound.
//!
//! - Before an image takes the dump's name, the old dump gets a second one, durably. So keeping it
//!   needs no copy, and a crash at any moment leaves the old image under at least one name.
//! - An image leads to every later state of its generation, so the log from the oldest image of
//!   each generation on stays, too. An image goes before the log that it needs.
//! - The older the past, the sparser its images: those between two others of a generation only
//!   shorten a replay. The first one of a generation is never thinned out.
//! - The past gives way: a full disk costs the oldest image first.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stillframe_durability::disk::Directory;
use stillframe_durability::{Error, Log};

use super::generations::Generations;
use super::position::{self, Position, list, name};
use crate::clock::unix_millis;
use crate::settings::Settings;

/// How much of the past is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    /// How long ago the oldest reachable state may be; 0: no earlier image is kept.
    age_ms: u64,
    /// Most bytes of images and logs, except for one image and the log since.
    bytes_max: u64,
}

impl Reach {
    /// From the settings; 0 bytes are no limit.
    pub(super) fn from_settings(settings: &Settings) -> Self {
        let bytes_max = match settings.log_keep.bytes {
            0 => u64::MAX,
            bytes => bytes,
        };
        Self { age_ms: settings.log_keep.seconds.saturating_mul(1000), bytes_max }
    }
}

/// The kept past, for INFO.
#[derive(Debug, Clone, Copy, Default)]
pub struct Kept {
    /// Earlier images.
    pub images: u64,
    /// When the oldest of them began, in milliseconds since 1970.
    pub since_ms: u64,
    /// Bytes of them and of all logs.
    pub bytes: u64,
}

/// The earlier images of a data directory and its logs.
#[derive(Debug, Clone)]
pub(super) struct History {
    files: Arc<Directory>,
    dump_name: String,
    pub(super) generations: Generations,
    kept: Arc<Mutex<Kept>>,
}

impl History {
    pub(super) fn new(files: &Arc<Directory>, settings: &Settings) -> Self {
        Self {
            files: Arc::clone(files),
            dump_name: settings.dbfilename.clone(),
            generations: Generations::below(files, &settings.appenddirname),
            kept: Arc::default(),
        }
    }

    /// The path of the dump file.
    pub(super) fn dump(&self) -> PathBuf {
        self.files.at(&self.dump_name)
    }

    pub(super) fn has_dump(&self) -> Result<bool, Error> {
        self.files.holds(&self.dump_name)
    }

    /// Bytes of the dump file; 0 if unknown.
    pub(super) fn dump_bytes(&self) -> u64 {
        self.files.open_file(&self.dump_name).map_or(0, |(_, bytes)| bytes)
    }

    pub(super) fn kept(&self) -> Kept {
        *self.lock_kept()
    }

    fn lock_kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the old dump another name before an image takes its own. On a file system that cannot
    /// do that, no past is kept, and the image is saved all the same.
    pub(super) fn keep_dump(&self, reach: Reach) {
        let Ok(Some(position)) = position::of_file(&self.files, &self.dump_name) else {
            return; // there is none, or no log leads on from it
        };
        if reach.age_ms == 0 {
            return;
        }
        let linked = self.files.link(&self.dump_name, &name(position));
        if let Err(error) = linked.and_then(|()| self.files.sync()) {
            tracing::warn!("the dump file is not kept as an earlier image: {error}");
        }
    }

    /// Removes logs that began and never counted, which no image names: each attempt on a full disk
    /// leaves one.
    pub(super) fn clear_begun(&self) -> Result<(), Error> {
        let Ok(named) = position::of_file(&self.files, &self.dump_name) else { return Ok(()) };
        let mut named: Vec<u64> = named.iter().map(|position| position.generation).collect();
        named.extend(list(&self.files)?.iter().map(|position| position.generation));
        for generation in self.generations.list()? {
            if !named.contains(&generation) && self.generations.is_unpublished(generation)? {
                self.generations.remove(generation)?;
            }
        }
        Ok(())
    }

    /// With a dump that names `named`, or no log: removes files that lead nowhere, and those no
    /// longer kept. Generations above `newest` are left alone.
    pub(super) fn tidy(
        &self,
        named: Option<Position>,
        newest: u64,
        reach: Reach,
    ) -> Result<(), Error> {
        if let Some(named) = named {
            self.generations.publish(named.generation)?;
        }
        let found = list(&self.files)?;
        let logs = self.logs()?;
        let mut images = Vec::new();
        for &position in found.iter().filter(|&&position| Some(position) != named) {
            let bytes = self.files.open_file(&name(position))?.1;
            images.push(ImageFile { position, bytes });
        }
        let now_ms = u64::try_from(unix_millis()).unwrap_or(0);
        let kept = choose(images, named, reach, now_ms, |images| weigh(images, named, &logs));
        self.remove(&found, &kept, named, newest)?;
        *self.lock_kept() = Kept {
            images: kept.len() as u64,
            since_ms: kept.first().map_or(0, |oldest| oldest.position.begun_ms),
            bytes: weigh(&kept, named, &logs),
        };
        Ok(())
    }

    /// Deletes the oldest image, and the log that only it needs, when the disk is full.
    pub(super) fn give_way(&self) {
        let given = (|| {
            let Some(&oldest) = list(&self.files)?.first() else { return Ok(()) };
            self.files.remove(&name(oldest))?;
            // Where publishing failed, only this shows which image the dump is after a crash.
            self.files.sync()?;
            tracing::warn!("the disk is full: gave up {}", self.files.at(&name(oldest)).display());
            if let Ok(named) = position::of_file(&self.files, &self.dump_name) {
                let newest = named.map_or(0, |named| named.generation); // a newer one is under way
                let all = Reach { age_ms: u64::MAX, bytes_max: u64::MAX };
                self.tidy(named, newest, all)?;
            }
            Ok::<(), Error>(())
        })();
        if let Err(error) = given {
            tracing::warn!("cannot make room: {error}");
        }
    }

    /// A number above those of all records of logs here.
    pub(super) fn last_record_at_most(&self) -> Result<u64, Error> {
        let logs = self.logs()?;
        let ends = logs.values().filter_map(|segments| segments.last());
        Ok(ends.map(|&(first, bytes)| first + bytes / super::RECORD_HEAD_BYTES).max().unwrap_or(0))
    }

    /// Whether an earlier image needs this log.
    pub(super) fn needs(&self, generation: u64) -> Result<bool, Error> {
        Ok(list(&self.files)?.iter().any(|position| position.generation == generation))
    }

    /// The segments of each log, by the numbers of their first records, with their lengths.
    fn logs(&self) -> Result<BTreeMap<u64, Vec<(u64, u64)>>, Error> {
        let mut logs = BTreeMap::new();
        for generation in self.generations.list()? {
            let segments = Log::segments(self.generations.location(generation)?)?;
            logs.insert(generation, segments);
        }
        Ok(logs)
    }

    /// Removes the images `found` that are not kept, durably, and then all of the logs that neither
    /// an image nor the dump needs.
    fn remove(
        &self,
        found: &[Position],
        kept: &[ImageFile],
        named: Option<Position>,
        newest: u64,
    ) -> Result<(), Error> {
        let is_kept = |position: &Position| kept.iter().any(|image| image.position == *position);
        let mut removed = false;
        for &position in found.iter().filter(|position| !is_kept(position)) {
            self.files.discard(&name(position))?;
            removed = true;
        }
        if removed {
            self.files.sync()?;
        }
        for generation in self.generations.list()? {
            match needed_from(kept, named, generation) {
                Some(from) => Log::remove_below(self.generations.location(generation)?, from)?,
                None if generation <= newest => self.generations.remove(generation)?,
                None => {}
            }
        }
        Ok(())
    }
}

/// An earlier image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ImageFile {
    position: Position,
    bytes: u64,
}

/// The first record of a generation that an image or the dump needs.
fn needed_from(images: &[ImageFile], named: Option<Position>, generation: u64) -> Option<u64> {
    let positions = images.iter().map(|image| image.position).chain(named);
    positions.filter(|it| it.generation == generation).map(|it| it.from).min()
}

/// Bytes of these images and of the logs that they and the dump need.
fn weigh(
    images: &[ImageFile],
    named: Option<Position>,
    logs: &BTreeMap<u64, Vec<(u64, u64)>>,
) -> u64 {
    let mut bytes: u64 = images.iter().map(|image| image.bytes).sum();
    for (&generation, segments) in logs {
        let Some(from) = needed_from(images, named, generation) else { continue };
        let unneeded = segments.iter().take_while(|(first, _)| *first <= from).count();
        let needed = segments.iter().skip(unneeded.saturating_sub(1));
        bytes += needed.map(|(_, bytes)| bytes).sum::<u64>();
    }
    bytes
}

/// Which of the images, oldest first, to keep.
fn choose(
    mut images: Vec<ImageFile>,
    named: Option<Position>,
    reach: Reach,
    now_ms: u64,
    weigh: impl Fn(&[ImageFile]) -> u64,
) -> Vec<ImageFile> {
    if reach.age_ms == 0 {
        return Vec::new();
    }
    // The second oldest leads to all that is wanted.
    let then = now_ms.saturating_sub(reach.age_ms);
    while images.len() > 1 && images[1].position.begun_ms <= then {
        images.remove(0);
    }
    let mut at = 1;
    while at < images.len() {
        let (before, image) = (images[at - 1].position, images[at].position);
        let after = images.get(at + 1).map(|image| image.position).or(named);
        let after_ms = after.map_or(now_ms, |after| after.begun_ms);
        let gap = after_ms.saturating_sub(before.begun_ms);
        let is_between = before.generation == image.generation
            && gap <= now_ms.saturating_sub(before.begun_ms) / 2;
        if is_between {
            images.remove(at);
        } else {
            at += 1;
        }
    }
    while images.len() > 1 && weigh(&images) > reach.bytes_max {
        images.remove(0);
    }
    images
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    fn image(generation: u64, minute: u64) -> ImageFile {
        let position = Position { generation, from: 1 + minute, begun_ms: minute * MINUTE };
        ImageFile { position, bytes: 10 }
    }

    /// The minutes of the kept images out of so many, at the end of minute `now`.
    fn kept(images: &[ImageFile], age: u64, bytes_max: u64, now: u64) -> Vec<u64> {
        let reach = Reach { age_ms: age * MINUTE, bytes_max };
        let weigh = |images: &[ImageFile]| images.iter().map(|image| image.bytes).sum();
        let kept = choose(images.to_vec(), None, reach, now * MINUTE, weigh);
        kept.iter().map(|image| image.position.begun_ms / MINUTE).collect()
    }

    /// An image a minute, for hours: a few images lead to every state of the last hour.
    #[test]
    fn every_state_within_the_age_is_kept_by_few_images() {
        let mut images: Vec<ImageFile> = Vec::new();
        for now in 0..600 {
            let reach = Reach { age_ms: 60 * MINUTE, bytes_max: u64::MAX };
            images = choose(images, None, reach, now * MINUTE, |_| 0);
            let begun: Vec<u64> = images.iter().map(|it| it.position.begun_ms / MINUTE).collect();
            let oldest = begun.first().copied().unwrap_or(now);
            assert!(oldest <= now.saturating_sub(60), "minute {now}: {begun:?}");
            assert!(oldest + 130 >= now, "minute {now}: {begun:?}");
            assert!(begun.len() <= 12, "minute {now}: {begun:?}");
            assert!(now == 0 || begun.last() == Some(&(now - 1)), "minute {now}: {begun:?}");
            images.push(image(1, now));
        }
    }

    #[test]
    fn one_earlier_image_is_kept_whatever_the_limits_unless_there_is_to_be_none() {
        let images = [image(1, 1), image(1, 2), image(1, 3)];
        assert_eq!(kept(&images, 60, 1, 4), [3]);
        assert_eq!(kept(&images, 1, u64::MAX, 400), [3]);
        assert_eq!(kept(&images, 0, u64::MAX, 4), [0; 0]);
        assert_eq!(kept(&[], 60, 1, 4), [0; 0]);
        assert_eq!(kept(&images, 60, 20, 4), [2, 3], "as many as there is room for");
    }

    #[test]
    fn the_first_image_of_a_generation_is_not_thinned_out() {
        let images = [image(1, 0), image(2, 1), image(2, 2), image(3, 3), image(3, 99)];
        assert_eq!(kept(&images, 200, u64::MAX, 100), [0, 1, 3, 99]);
    }
}
