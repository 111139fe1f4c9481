//! How long a state takes to come back: Cao et al. 2011, section 5.4, in their online game.
//!
//! A store with each algorithm takes a checkpoint, runs a period, takes another checkpoint, and
//! runs a second period meanwhile, whose updates the log keeps; then it ends where the third
//! checkpoint would begin. Opening the store again reads the newest checkpoint and applies a period
//! of updates: the worst that can happen. What the kernel has of the files is thrown away before,
//! as a reboot does. The state that is found is the one that was left, or the figure fails.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};
use stillframe::Algorithm;
use stillframe::algorithms::{ALL, Visitor};
use stillframe_durability::{Act, ActStore, Error, LogOptions, Options, Policy, Store};

use super::cao::game_case;
use super::child;
use super::data::Data;
use super::deciding::Extent;
use super::judge::Judgement;
use super::plan::Size;
use super::{Claim, Direct, Figure, without_unit};
use crate::case::Case;
use crate::case::check::dispatch;
use crate::case::workload::{Ticks, value};
use crate::report::{Kind, Panel, Point, series};
use crate::served::Scratch;
use crate::trial::digest::digests_of;

/// What a process of its own is asked for.
pub(super) const PART: &str = "game";

const ALL_OF_IT: &str = "recovery [s]";
const RELOAD: &str = "reading the checkpoint [s]";
const REPLAY: &str = "applying a period of updates [s]";

/// Steps of a period, each a tenth of a second of the paper's time.
const PERIOD: u64 = 40;
/// Words of the state that are written at once.
const RUN: usize = 512;

pub(super) const FIGURES: &[Figure] = &[Figure {
    name: "cao-rec",
    source: "Cao et al. 2011, section 5.4",
    title: "recovery of an online game: the newest checkpoint, and a period of updates",
    workload: "The players of cao-10. A checkpoint, a period of 40 steps, another checkpoint, and \
               a second period while it is taken, which the log keeps. Files are read from the \
               disk. Each state that came back was the one that was left, or the figure failed.",
    direct: Some(Direct {
        seconds: |size| (1.0 + state_mb(size) / 25.0) * ALL.len() as f64,
        extent: |size| Extent { amount: state_mb(size), unit: "MB" },
        measure: |size| measure(size, |game| child::measure(PART, game)),
    }),
    claims: &[
        Claim {
            id: "same",
            text: "recovery takes the same with every algorithm (held: the slowest within 1.5x of \
                   the quickest)",
            judge: |data| {
                let mut all = seconds(data);
                all.sort_by(|a, b| a.0.total_cmp(&b.0));
                let ratio = all
                    .first()
                    .zip(all.last())
                    .map(|(quick, slow)| (slow.0 / quick.0, format!("{} / {}", slow.1, quick.1)));
                Judgement::from_ratio(ratio, |ratio| ratio <= 1.5)
            },
        },
        Claim {
            id: "two-periods",
            text: "reading and a period of updates take at most twice a period (8.1 s of 4.2 s \
                   there)",
            judge: |data| match seconds(data).into_iter().max_by(|a, b| a.0.total_cmp(&b.0)) {
                Some((seconds, name)) => {
                    let most = 2.0 * 0.1 * PERIOD as f64;
                    Judgement::new(seconds <= most, format!("{name}: {seconds:.2} s of {most} s"))
                }
                None => Judgement::untested("it was not measured"),
            },
        },
    ],
    ..Figure::BLANK
}];

fn state_mb(size: Size) -> f64 {
    game_case(size).size_bytes as f64 / 1e6
}

fn seconds(data: &Data<'_>) -> Vec<(f64, String)> {
    let panels = data.direct().into_iter().filter(|panel| panel.y == ALL_OF_IT);
    let series = panels.flat_map(|panel| panel.series);
    series.filter_map(|it| Some((it.points.first()?.y, it.name))).collect()
}

/// A game that ends in the middle.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Game {
    case: Case,
}

/// What its recovery took, in seconds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Back {
    reload_s: f64,
    replay_s: f64,
}

type Metric = fn(&Back) -> f64;

const METRICS: &[(&str, Metric)] = &[
    (ALL_OF_IT, |back| back.reload_s + back.replay_s),
    (RELOAD, |back| back.reload_s),
    (REPLAY, |back| back.replay_s),
];

fn measure(size: Size, run: impl Fn(&Game) -> Result<Back>) -> Result<Vec<Panel>> {
    let mut runs = Vec::new();
    for info in ALL {
        let game = Game { case: game_case(size).with_algorithm(info.name) };
        runs.push((info.name, run(&game).context(info.name)?));
    }
    let panel = |&(metric, of): &(&str, Metric)| {
        let row = |(name, back): &(&str, Back)| series(name, vec![Point::single(0.0, of(back))]);
        Panel::new(without_unit(metric), Kind::Rows, "", metric, runs.iter().map(row).collect())
    };
    Ok(METRICS.iter().map(panel).collect())
}

/// One run, in this process.
pub(super) fn run(game: &Game) -> Result<Back> {
    dispatch(&game.case.algorithm, game)
}

impl Visitor for &Game {
    type Output = Result<Back>;

    fn visit<A: Algorithm>(self) -> Self::Output {
        let scratch = Scratch::new("game")?;
        let left = play::<A>(&self.case, scratch.path())?;
        forget(scratch.path()).context("files cannot be forgotten")?;
        let opening = Instant::now();
        let store = open::<A>(&self.case, scratch.path())?;
        let all = opening.elapsed();
        let log = store.recovery().log.as_ref().context("the log was not read")?;
        if store.recovery().loaded.is_none() || log.records != PERIOD {
            bail!("it found {:?}", store.recovery());
        }
        if digests_of(store.words(), |word| store.read(word)) != left {
            bail!("the state that came back is not the one that was left");
        }
        let reload_s = all.saturating_sub(log.duration).as_secs_f64();
        Ok(Back { reload_s, replay_s: log.duration.as_secs_f64() })
    }
}

fn open<A: Algorithm>(case: &Case, place: &Path) -> Result<ActStore<A>> {
    let log = LogOptions::policy(Policy::Always).batch(1, Duration::from_millis(5));
    let options = Options::words(case.words()).log(log);
    Ok(ActStore::open_records_with(place, options, |act, action| apply(act, action.bytes))?)
}

/// Applies a step as the log has it: items and their values, four bytes each.
fn apply<A: Algorithm>(
    act: &mut Act<'_, A>,
    step: &[u8],
) -> Result<(), stillframe_durability::ApplyError> {
    let (pairs, rest) = step.as_chunks::<8>();
    if !rest.is_empty() {
        return Err("a step in part".into());
    }
    for &[a, b, c, d, e, f, g, h] in pairs {
        let item = u32::from_le_bytes([a, b, c, d]) as usize;
        if item / 2 >= act.words() {
            return Err(format!("item {item} is not in the state").into());
        }
        act.write_u32(item, u32::from_le_bytes([e, f, g, h]));
    }
    Ok(())
}

/// Plays, and ends without a last checkpoint. Returns the digests of the state.
fn play<A: Algorithm>(case: &Case, place: &Path) -> Result<Vec<u64>> {
    let mut ticks = Ticks::new(case);
    let mut store = Store::<A>::open_with(place, Options::words(case.words()))?;
    let mut words = [0; RUN];
    for first in (0..case.words()).step_by(RUN) {
        let words = &mut words[..RUN.min(case.words() - first)];
        (first..).zip(words.iter_mut()).for_each(|(at, word)| *word = ticks.initial(at as u64));
        store.write_run(first, words);
    }
    store.checkpoint_and_wait()?;
    store.close().map_err(Error::from)?;
    let mut store = open::<A>(case, place)?;
    let mut step = Vec::new();
    for period in 0..2 {
        if period == 1 {
            store.checkpoint();
            store.point();
        }
        for _ in 0..PERIOD {
            let tick = ticks.tick();
            step.clear();
            for (&item, number) in tick.updates.iter().zip(0..) {
                let value = (value(tick.key, number) >> 32) as u32;
                step.extend_from_slice(&item.to_le_bytes());
                step.extend_from_slice(&value.to_le_bytes());
            }
            let mut act = store.log(&step)?;
            apply(&mut act, &step).map_err(anyhow::Error::from_boxed)?;
            act.commit()?;
            ticks.advance(|| ());
        }
    }
    store.wait()?.context("the second checkpoint was not taken")?;
    store.wait_merged();
    let left = digests_of(store.words(), |word| store.read(word));
    store.close().map_err(Error::from)?;
    Ok(left)
}

/// Makes the kernel forget what it keeps of the files, which are on the disk.
fn forget(place: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(place)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            forget(&entry.path())?;
        } else {
            let file = File::open(entry.path())?;
            file.sync_all()?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_game_comes_back_with_every_algorithm() {
        let size = Size { shrink: 1000, ..Size::QUICK };
        let panels = measure(size, super::run).expect("every state comes back");
        assert!(panels.iter().all(|panel| panel.series.len() == ALL.len()));
    }
}
