//! Images made of what changed: nothing is lost with an image that fails, and increments recover.

use std::collections::BTreeSet;

use crate::algorithms::{hourglass::Hourglass, pingpong::NppMerge};
use crate::info::Completeness;
use crate::memory::with_half;
use crate::{Algorithm, BLOCK_WORDS, Before, CaptureReport, Engine, Image, Options, Point};
use crate::{Publication, Sink, SinkError, Unit};

use super::probe::Manner;
use super::rig::{Rig, Rng, capture, capture_and_settle, complete};
use super::{Verdict, ensure, prove, rounds};

/// Options for `words` words with room for as many again and a block.
fn options(words: usize, unit: Unit) -> Options {
    Options::words(words).max_words(2 * words + BLOCK_WORDS).unit(unit)
}

/// Images are right with every unit that the algorithm knows, of which writes replace parts, also
/// where images fail and the state grows in the middle of a unit.
pub(super) fn every_unit<A: Algorithm>(seed: u64) -> Verdict {
    for &unit in A::INFO.units {
        let mut rig = Rig::<A>::create(&options(3 * BLOCK_WORDS + 3, unit), seed)?;
        for _ in 0..rounds(12) {
            not_settled(&mut rig)?;
            let words = (rig.oracle.len() + rig.rng.below(12)).min(6 * BLOCK_WORDS);
            rig.grow(words)?;
            let (mut image, tally) = rig.begin(Manner::Plain).map_err(|error| error.to_string())?;
            rig.writes(10)?;
            complete(capture_and_settle(&mut image), &tally, words)?;
            drop(image);
            rig.writes(10)?;
            rig.check_reads().map_err(|what| format!("unit {}: {what}", unit.name()))?;
        }
    }
    Ok(())
}

/// None to three images in a row that do not count: dropped, failed half-way, cancelled, or
/// captured whole and not settled.
fn not_settled<A: Algorithm>(rig: &mut Rig<A>) -> Verdict {
    for _ in 0..rig.rng.below(4) {
        let words = rig.oracle.len();
        let kind = rig.rng.below(4);
        let manner = if kind == 1 { Manner::FailsAt(rig.rng.below(words)) } else { Manner::Plain };
        let (mut image, tally) = rig.begin(manner).map_err(|error| error.to_string())?;
        rig.writes(5)?;
        match kind {
            0 => image.settle(), // never captured: must not count
            1 => ensure!(capture_and_settle(&mut image).is_err(), "accepted by a sink that fails"),
            2 => {
                rig.state.progress().cancel();
                let _ = capture(&mut image); // another process may have been faster
            }
            _ => complete(capture(&mut image), &tally, words)?,
        }
        tally.is_right()?;
        drop(image);
        rig.writes(5)?;
    }
    Ok(())
}

/// What one image gave to a sink that does without unchanged words.
#[derive(Debug, Clone, Default, PartialEq)]
struct Recorded {
    epoch: u64,
    builds_on: Option<u64>,
    words: usize,
    pushes: Vec<(usize, Vec<u64>)>,
    halves: Vec<(usize, u32)>,
}

impl Sink for Recorded {
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        self.pushes.push((start, words.to_vec()));
        Ok(())
    }
    fn before(&mut self, _: usize, _: &mut [u64]) -> Result<Before, SinkError> {
        Ok(Before::Skipped)
    }
    fn push_half(&mut self, index: usize, half: u32) -> Result<(), SinkError> {
        self.halves.push((index, half));
        Ok(())
    }
}

/// A base image and the increments upon it, as a recovery meets them.
#[derive(Debug, Default)]
struct Chain {
    newest: Option<u64>,
    state: Vec<u64>,
}

impl Chain {
    /// Goes on to the next image, unless one between was missing.
    fn apply(&mut self, image: &Recorded) -> Result<(), String> {
        if image.builds_on.is_some() && image.builds_on != self.newest {
            let (epoch, newest) = (image.epoch, self.newest);
            return Err(format!("{epoch} builds on {:?}, not on {newest:?}", image.builds_on));
        }
        self.apply_unseen(image);
        Ok(())
    }

    fn apply_unseen(&mut self, image: &Recorded) {
        self.newest = Some(image.epoch);
        self.state.resize(image.words, 0);
        for (start, words) in &image.pushes {
            self.state[*start..start + words.len()].copy_from_slice(words);
        }
        for &(index, half) in &image.halves {
            let word = &mut self.state[index / 2];
            *word = with_half(*word, index, half);
        }
    }
}

/// Takes an image while writing on.
fn record<A: Algorithm>(rig: &mut Rig<A>, settles: bool) -> Result<Recorded, String> {
    let begun = rig.state.begin(Point::declare(), Recorded::default());
    let mut image = begun.map_err(|error| error.to_string())?;
    rig.writes(5)?;
    capture(&mut image).map_err(|error| error.to_string())?;
    if settles {
        image.settle();
    }
    let (epoch, builds_on, words) = (image.epoch(), image.builds_on(), image.words());
    Ok(Recorded { epoch, builds_on, words, ..image.into_sink() })
}

/// The base and every increment in order give each image exactly; a failed image is not among them.
/// What is pushed is what was written since the last settled image, in whole units, once each.
pub(super) fn increments_recover<A: Algorithm>(seed: u64) -> Verdict {
    if A::INFO.image == Completeness::Full {
        return Ok(());
    }
    for &unit in A::INFO.units {
        let mut rig = Rig::<A>::create(&options(4 * BLOCK_WORDS + 3, unit), seed)?;
        let mut chain = Chain::default();
        let mut since: BTreeSet<usize> = (0..2 * rig.oracle.len()).collect();
        for _ in 0..rounds(20) {
            let writes = rig.rng.below(20);
            write_units(&mut rig, &mut since, unit, writes);
            let expected = rig.oracle.clone();
            let settles = rig.rng.below(3) != 0;
            // Writes during the image belong to the next one.
            let begun = rig.state.begin(Point::declare(), Recorded::default());
            let mut image = begun.map_err(|error| error.to_string())?;
            let mut next = BTreeSet::new();
            write_units(&mut rig, &mut next, unit, 5);
            capture(&mut image).map_err(|error| error.to_string())?;
            ensure!(image.builds_on() == chain.newest, "builds on {:?}", image.builds_on());
            if settles {
                image.settle();
            }
            let (epoch, builds_on, words) = (image.epoch(), image.builds_on(), image.words());
            let image = Recorded { epoch, builds_on, words, ..image.into_sink() };
            pushed_exactly(&image, &since)?;
            if settles {
                chain.apply(&image)?;
                ensure!(chain.state == expected, "image {epoch} is not recovered");
                since = next;
            } else {
                since.append(&mut next);
            }
            if rig.rng.below(4) == 0 {
                grow(&mut rig, &mut since, unit.words())?;
            }
        }
    }
    Ok(())
}

/// Writes items, and notes the half words of their units.
fn write_units<A: Algorithm>(
    rig: &mut Rig<A>,
    since: &mut BTreeSet<usize>,
    unit: Unit,
    count: usize,
) {
    for _ in 0..count {
        let (index, value) = (rig.rng.below(rig.oracle.len()), rig.rng.next());
        if unit == Unit::Half && value & 3 != 0 {
            let half = 2 * index + (value >> 2 & 1) as usize;
            rig.state.write_u32(half, value as u32);
            rig.oracle[index] = with_half(rig.oracle[index], half, value as u32);
            since.insert(half);
            continue;
        }
        rig.state.write(index, value);
        rig.oracle[index] = value;
        let start = index / unit.words() * unit.words();
        since.extend(2 * start..2 * rig.oracle.len().min(start + unit.words()));
    }
}

/// New words count as written, and so does the unit that they make longer.
fn grow<A: Algorithm>(rig: &mut Rig<A>, since: &mut BTreeSet<usize>, unit_words: usize) -> Verdict {
    let before = rig.oracle.len();
    let words = (before + rig.rng.below(BLOCK_WORDS)).min(7 * BLOCK_WORDS);
    rig.grow(words)?;
    if words > before {
        since.extend(2 * (before / unit_words * unit_words)..2 * words);
    }
    Ok(())
}

fn pushed_exactly(image: &Recorded, since: &BTreeSet<usize>) -> Verdict {
    let runs = image.pushes.iter().map(|(start, words)| *start..start + words.len());
    let pushed: Vec<usize> = runs.flatten().collect();
    ensure!(pushed.is_sorted_by(|a, b| a < b), "pushes are out of order");
    let halves = image.halves.iter().map(|(half, _)| *half);
    ensure!(halves.clone().is_sorted_by(|a, b| a < b), "halves are out of order");
    let of_words = pushed.iter().flat_map(|word| [2 * word, 2 * word + 1]);
    let found = of_words.chain(halves).collect::<BTreeSet<_>>();
    ensure!(found.len() == 2 * pushed.len() + image.halves.len(), "pushed twice");
    let wrong = found.symmetric_difference(since).next();
    ensure!(wrong.is_none(), "half word {wrong:?} is pushed or missing in image {}", image.epoch);
    Ok(())
}

/// One increment less, and what is recovered is wrong: so the chain refuses what follows. The same
/// for an increment that failed and was kept by mistake.
fn a_broken_chain<A: Algorithm>(seed: u64) -> Verdict {
    let mut rig = Rig::<A>::create(&options(2 * BLOCK_WORDS, Unit::Word), seed)?;
    let mut images = Vec::new();
    let mut truth = Vec::new();
    for _ in 0..4 {
        rig.writes(3)?;
        truth.push(rig.oracle.clone());
        images.push(record(&mut rig, true)?);
    }
    let mut chain = Chain::default();
    let mut unseen = Chain::default();
    for number in [0, 1, 3] {
        unseen.apply_unseen(&images[number]);
        let applied = chain.apply(&images[number]);
        ensure!(applied.is_ok() == (number != 3), "image {number} of a gap: {applied:?}");
    }
    ensure!(unseen.state != truth[3], "the increment left out does not matter");
    ensure!(chain.state == truth[1], "what was refused was applied");
    chain.apply(&images[2])?;
    chain.apply(&images[3])?;
    ensure!(chain.state == truth[3], "the whole chain is not recovered");

    let failed = record(&mut rig, false)?;
    rig.writes(3)?;
    let expected = rig.oracle.clone();
    let next = record(&mut rig, true)?;
    ensure!(next.builds_on == Some(images[3].epoch), "builds on {:?}", next.builds_on);
    chain.apply(&next)?;
    ensure!(chain.state == expected, "the image after a failed one is not recovered");
    ensure!(chain.apply(&failed).is_err(), "a failed increment is accepted");
    Ok(())
}

#[test]
fn a_chain_with_a_gap_is_refused() {
    prove(a_broken_chain::<Hourglass>, 4);
    prove(a_broken_chain::<NppMerge>, 4);
}

/// The engine's report names what an increment builds on, so that a publisher can keep it.
fn reports(seed: u64) -> Verdict {
    let state = Hourglass::create(&Options::words(BLOCK_WORDS)).expect("memory");
    let mut engine = Engine::new(state).expect("a thread");
    let mut rng = Rng(seed);
    let mut settled = None;
    for epoch in 1..=20 {
        let publication =
            if rng.below(2) == 0 { Publication::Durable } else { Publication::Failed };
        let (sender, receiver) = std::sync::mpsc::channel();
        let publish = move |_: &mut Recorded, report: Result<CaptureReport, _>| {
            let _ = sender.send(report);
            publication
        };
        engine.snapshot(Point::declare(), Recorded::default(), publish).expect("idle");
        engine.wait();
        let report = receiver.recv().expect("published").expect("captured");
        assert_eq!((report.begun.epoch, report.builds_on), (epoch, settled));
        if publication == Publication::Durable {
            settled = Some(epoch);
        }
    }
    Ok(())
}

#[test]
fn reports_name_what_they_build_on() {
    prove(reports, 2);
}
