//! Several images at a time, each kept as long as one likes: Imprint alone.

use std::sync::atomic::AtomicBool;
use std::thread;

use crate::algorithms::imprint::{Before, Imprint};
use crate::os::Shared;
use crate::sync::Ordering;
use crate::{Algorithm, BLOCK_WORDS, BeginError, CaptureError, Image, InProcess, OnFull, Options};

use super::probe::{Manner, OpenAtEnd, Probe, Tally};
use super::rig::{Captured, Rig, Rng, capture_and_settle, complete};
use super::{Verdict, ensure, prove, rounds};

/// Most images held at a time.
const MOST: usize = 4;
const WORDS: usize = 6 * BLOCK_WORDS + 3;

type Images = InProcess<Probe, Before>;

/// An image, and what it must hold.
struct Kept {
    image: Images,
    tally: Shared<Tally>,
    expected: Vec<u64>,
}

fn rig(budget: usize, on_full: OnFull, seed: u64) -> Result<Rig<Imprint>, String> {
    let options = Options::words(WORDS).max_words(2 * WORDS).images(MOST);
    Rig::create(&options.budget(budget, on_full), seed)
}

fn ample(seed: u64) -> Result<Rig<Imprint>, String> {
    rig(if cfg!(miri) { 1 << 14 } else { 8 << 20 }, OnFull::Cancel, seed)
}

fn begin(rig: &mut Rig<Imprint>, manner: Manner) -> Result<Kept, String> {
    let (image, tally) = rig.begin(manner).map_err(|error| error.to_string())?;
    Ok(Kept { image, tally, expected: rig.oracle.clone() })
}

impl Kept {
    /// Looks at a word and at a run; `None` if the image was given up.
    fn look(&self, rng: &mut Rng) -> Result<Option<()>, String> {
        let words = self.expected.len();
        let index = rng.below(words);
        let Some(found) = self.image.get(index) else { return Ok(None) };
        let expected = self.expected[index];
        ensure!(found == expected, "word {index} is {found:#x}, not {expected:#x}");
        let mut run = vec![0; rng.below((words - index).min(2 * BLOCK_WORDS + 2)) + 1];
        let run_end = (index + run.len()).min(words);
        run.truncate(run_end - index);
        if self.image.get_run(index, &mut run).is_none() {
            return Ok(None);
        }
        let wrong = (index..).zip(&run).find(|&(index, &word)| word != self.expected[index]);
        ensure!(wrong.is_none(), "in the run {index}..{run_end}, word {wrong:x?} is wrong");
        ensure!(self.image.get(words).is_none(), "a word beyond the image");
        ensure!(
            self.image.get_run(index, &mut vec![0; words]).is_none() || index == 0,
            "a long run"
        );
        Ok(Some(()))
    }

    /// Whether a whole capture, or what the budget left of it, is right.
    fn finish(mut self) -> Result<Captured, String> {
        let words = self.expected.len();
        match capture_and_settle(&mut self.image) {
            Ok(()) => complete(Ok(()), &self.tally, words).map(|()| Ok(())),
            Err(error) => self.tally.is_right().map(|()| Err(error)),
        }
    }
}

/// Images that begin, are read, captured and dropped in any order, while the state is written and
/// grows.
pub(super) fn images_side_by_side(seed: u64) -> Verdict {
    let mut rig = ample(seed)?;
    let mut kept: Vec<Kept> = Vec::new();
    for _ in 0..rounds(600) {
        match rig.rng.below(12) {
            0..=3 => {
                let count = rig.rng.below(60);
                rig.writes(count)?;
            }
            4 if rig.rng.below(8) == 0 => {
                let words = (rig.oracle.len() + rig.rng.below(BLOCK_WORDS)).min(2 * WORDS);
                rig.grow(words)?;
            }
            4 | 5 if kept.len() < MOST => kept.push(begin(&mut rig, Manner::Plain)?),
            4 | 5 => {
                let refused = rig.begin(Manner::Plain).map(drop);
                ensure!(matches!(refused, Err(BeginError::Busy { .. })), "{refused:?}");
            }
            6..=8 if !kept.is_empty() => {
                let at = rig.rng.below(kept.len());
                kept[at].look(&mut rig.rng)?.ok_or("an image has no words")?;
            }
            9 if !kept.is_empty() => {
                let one = kept.swap_remove(rig.rng.below(kept.len()));
                one.finish()?.map_err(|error| error.to_string())?;
            }
            10 if !kept.is_empty() => drop(kept.swap_remove(rig.rng.below(kept.len()))),
            _ => {}
        }
    }
    for one in kept {
        one.finish()?.map_err(|error| error.to_string())?;
    }
    rig.check_reads()
}

/// Two threads read each image, and then capture it, while the writer writes at full speed and
/// begins others.
pub(super) fn readers_beside_the_writer(seed: u64) -> Verdict {
    let mut rig = ample(seed)?;
    thread::scope(|scope| {
        let mut readers = Vec::new();
        for _ in 0..rounds(40) {
            let begun = loop {
                match begin(&mut rig, Manner::Plain) {
                    Ok(begun) => break begun,
                    Err(_) => rig.writes(3)?,
                }
            };
            let (mut first, mut second) = (Rng(rig.rng.next()), Rng(rig.rng.next()));
            readers.push(scope.spawn(move || {
                thread::scope(|scope| {
                    let other = scope.spawn(|| (0..60).try_for_each(|_| read(&begun, &mut first)));
                    (0..30).try_for_each(|_| read(&begun, &mut second))?;
                    other.join().map_err(|_| "a reader panicked".to_owned())?
                })?;
                begun.finish()?.map_err(|error| error.to_string())
            }));
            let count = rig.rng.below(300);
            rig.writes(count)?;
        }
        while readers.iter().any(|reader| !reader.is_finished()) {
            rig.writes(1)?;
        }
        let mut verdicts =
            readers.into_iter().map(|it| it.join().map_err(|_| "panicked".to_owned()));
        verdicts.try_for_each(|verdict| verdict?)
    })?;
    rig.check_reads()
}

fn read(kept: &Kept, rng: &mut Rng) -> Verdict {
    kept.look(rng)?.ok_or_else(|| "an image has no words".to_owned())
}

/// On a small budget the oldest image is given up first; what an image still gives is right, and
/// the memory stays within the budget.
pub(super) fn the_oldest_gives_way(seed: u64) -> Verdict {
    const BUDGET: usize = 8 * (4 * BLOCK_WORDS);
    let mut rig = rig(BUDGET, OnFull::Cancel, seed)?;
    let mut lost = 0;
    let mut kept: Vec<Kept> = Vec::new();
    for _ in 0..rounds(400) {
        let count = rig.rng.below(30);
        rig.writes(count)?;
        let arena = rig.state.progress().arena_bytes();
        ensure!(arena <= BUDGET, "{arena} bytes in one volume");
        if kept.len() < MOST {
            kept.push(begin(&mut rig, Manner::Plain)?);
        }
        let mut are_left = false;
        for one in &kept {
            let is_left = one.look(&mut rig.rng)?.is_some();
            ensure!(is_left || !are_left, "an image was given up before an older one");
            are_left |= is_left;
        }
        if rig.rng.below(3) == 0 {
            let one = kept.remove(rig.rng.below(kept.len()));
            let was_left = one.look(&mut rig.rng)?.is_some();
            match one.finish()? {
                Ok(()) => ensure!(was_left, "an image came back"),
                Err(CaptureError::OverBudget) => lost += 1,
                Err(error) => return Err(error.to_string()),
            }
        }
    }
    ensure!(lost > 0 || cfg!(miri), "no image was given up");
    rig.check_reads()
}

/// The writer waits for the capture of an image, though another one is held that may be given up:
/// the one that is older.
fn a_kept_image_gives_way_to_a_capture(seed: u64) -> Verdict {
    let mut rig = rig(8 * 11, OnFull::Slow, seed)?;
    for _ in 0..rounds(5) {
        let view =
            rig.state.begin(crate::Point::declare(), Cancelled).map_err(|it| it.to_string())?;
        let mut slow = begin(&mut rig, Manner::Gated)?;
        let ended = AtomicBool::new(false);
        let result = thread::scope(|scope| {
            let _open = OpenAtEnd(&slow.tally);
            let tally = slow.tally.clone();
            let progress = rig.state.progress();
            let captured = scope.spawn(|| {
                let captured = capture_and_settle(&mut slow.image);
                ended.store(true, Ordering::Release);
                captured
            });
            scope.spawn(move || {
                while progress.writer_waits() == 0 && !tally.is_open() {
                    thread::yield_now();
                }
                tally.allow(usize::MAX);
            });
            rig.writes(200)?;
            captured.join().map_err(|_| "panicked".to_owned())
        });
        slow.tally.allow(usize::MAX);
        complete(result?, &slow.tally, WORDS)?;
        ensure!(view.get(0).is_none(), "the older image was kept");
    }
    rig.check_reads()
}

/// What an image keeps follows from the words that were written since it began, not from how many
/// images began: it stays right, and is as large after thousands of them.
pub(super) fn kept_over_begins(seed: u64) -> Verdict {
    let mut rig = ample(seed)?;
    let mut kept = vec![begin(&mut rig, Manner::Plain)?];
    // In a volume: a record of each word, a frame of each block, a bit of each word; the index.
    let blocks = WORDS.div_ceil(BLOCK_WORDS);
    let each = blocks * (2 * BLOCK_WORDS + BLOCK_WORDS + 2 + BLOCK_WORDS.div_ceil(64)) + 5 * 512;
    for round in 0..rounds(2000) {
        let one = begin(&mut rig, Manner::Plain)?;
        // The volumes of two begins may not be merged yet: of the one before, and of this one.
        let most = 8 * each * kept.len() + 8 * 2 * (3 * 2 * BLOCK_WORDS * 8 + 5 * 512);
        let bytes = rig.state.progress().kept_bytes();
        ensure!(bytes <= most, "{bytes} bytes for {} images in round {round}", kept.len());
        let count = if round % 50 == 0 { 600 } else { rig.rng.below(5) };
        rig.writes(count)?;
        match rig.rng.below(100) {
            0 if kept.len() < MOST - 1 => kept.push(one),
            0 => drop(kept.swap_remove(rig.rng.below(kept.len()))),
            1..30 => drop(one),
            _ => one.finish()?.map_err(|error| error.to_string())?,
        }
        for one in &kept {
            one.look(&mut rig.rng)?.ok_or("an image has no words")?;
        }
    }
    for one in kept {
        one.finish()?.map_err(|error| error.to_string())?;
    }
    rig.check_reads()
}

/// More images than there may be volumes: the oldest ones are given up, which bounds the mappings.
#[test]
#[cfg_attr(miri, ignore = "Miri has no mappings")]
fn the_oldest_of_very_many_gives_way() {
    let options = Options::words(BLOCK_WORDS).images(3000).budget(64 << 20, OnFull::Cancel);
    let mut state = Imprint::create(&options).expect("memory");
    let mut begin = |number: u64| {
        state.write(7, number);
        state.begin(crate::Point::declare(), Cancelled).expect("there is room")
    };
    let mut images: Vec<_> = (0..1000).map(&mut begin).collect();
    assert!(images.iter().zip(0..).all(|(image, number)| image.get(7) == Some(number)));
    images.extend((1000..1500).map(&mut begin));
    let words: Vec<_> = images.iter().map(|image| image.get(7)).collect();
    let lost = words.iter().take_while(|word| word.is_none()).count();
    assert!((400..600).contains(&lost), "{lost} images are lost");
    assert!(words.iter().zip(0..).skip(lost).all(|(&word, number)| word == Some(number)));
}

/// A sink of an image that may be given up, whatever the options say.
struct Cancelled;

impl crate::Sink for Cancelled {
    fn push(&mut self, _: usize, _: &[u64]) -> Result<(), crate::SinkError> {
        Ok(())
    }
    fn on_full(&self) -> Option<OnFull> {
        Some(OnFull::Cancel)
    }
}

#[test]
fn several_images_at_a_time() {
    prove(images_side_by_side, 24);
}

#[test]
fn a_kept_image_costs_no_more_with_each_begin() {
    prove(kept_over_begins, 6);
}

#[test]
fn several_images_under_load() {
    prove(readers_beside_the_writer, 6);
}

#[test]
fn the_oldest_of_several_gives_way() {
    prove(the_oldest_gives_way, 12);
}

#[test]
fn the_older_gives_way_and_the_capture_is_waited_for() {
    prove(a_kept_image_gives_way_to_a_capture, 4);
}

/// The memory of an image is that of what was written since it began, and goes with it.
#[test]
fn an_image_that_is_kept_long_takes_room_once_a_word() {
    prove(
        |seed| {
            let mut rig = ample(seed)?;
            let old = begin(&mut rig, Manner::Plain)?;
            for _ in 0..rounds(30) {
                rig.writes(40)?;
            }
            let arena = rig.state.progress().arena_bytes();
            // Frames close blocks: a copy, and the records before.
            let most = 8 * (WORDS.next_multiple_of(BLOCK_WORDS) * 2 + 8 * 130 * 2);
            ensure!(arena <= most, "{arena} bytes for an image of {WORDS} words");
            old.finish()?.map_err(|error| error.to_string())
        },
        3,
    );
}

/// A view outlasts thousands of checkpoints, and what they leave behind counts: it stays right, or
/// is given up once that is more than the budget.
#[test]
fn a_view_outlasts_checkpoints() {
    prove(
        |seed| {
            let is_small = Rng(seed).below(2) == 0;
            let budget = if is_small { 8 * (8 * BLOCK_WORDS) } else { 64 << 20 };
            let mut rig = rig(budget, OnFull::Cancel, seed)?;
            let view = begin(&mut rig, Manner::Plain)?;
            let mut is_left = true;
            for _ in 0..rounds(1000) {
                let checkpoint = begin(&mut rig, Manner::Plain)?;
                let count = rig.rng.below(4);
                rig.writes(count)?;
                if rig.rng.below(2) == 0 {
                    checkpoint.finish()?.map_err(|error| error.to_string())?;
                }
                let was_left = is_left;
                is_left = view.look(&mut rig.rng)?.is_some();
                ensure!(was_left || !is_left, "a view came back");
            }
            ensure!(is_left || is_small, "a view was given up for little");
            ensure!(!is_left || !is_small || cfg!(miri), "what is kept does not count");
            match view.finish()? {
                Ok(()) => ensure!(is_left, "a view came back"),
                Err(CaptureError::OverBudget) => ensure!(!is_left, "a view was there"),
                Err(error) => return Err(error.to_string()),
            }
            rig.check_reads()
        },
        6,
    );
}
