//! Places in stores whose power is lost.

use std::error::Error as StdError;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;

use stillframe_durability::disk::{Files, Platter, SimulatedDisk};
use stillframe_durability::{Error, Increments};
use stillframe_peers::{Random, Watchdog, rounds};

use super::model::{Model, World};
use crate::{ActStore, Column, Map, State, Store, Value};

/// A store without a log, or with one of actions.
enum Kept {
    Plain(Store),
    Acts(ActStore),
}

impl Kept {
    fn attach(&mut self) -> Result<World, String> {
        match self {
            Self::Plain(store) => World::attach(store).map_err(|error| error.to_string()),
            Self::Acts(store) => World::attach(store).map_err(|error| error.to_string()),
        }
    }
    fn point(&mut self) {
        match self {
            Self::Plain(store) => store.point(),
            Self::Acts(store) => store.point(),
        };
    }
    fn checkpoint_and_wait(&mut self) -> Result<u64, Error> {
        match self {
            Self::Plain(store) => store.checkpoint_and_wait(),
            Self::Acts(store) => store.checkpoint_and_wait(),
        }
    }
}

impl Deref for Kept {
    type Target = Store;
    fn deref(&self) -> &Store {
        match self {
            Self::Plain(store) => store,
            Self::Acts(store) => store,
        }
    }
}

fn open(disk: &SimulatedDisk, has_log: bool, has_increments: bool) -> Result<Kept, Error> {
    let mut options = World::options("world", 1 << 18).disk(Arc::new(disk.clone()));
    if has_increments {
        options = options.increments(Increments::at_most(3));
    }
    let path = Path::new("simulated");
    match has_log {
        true => ActStore::open(path, options).map(Kept::Acts),
        false => Store::open(path, options).map(Kept::Plain),
    }
}

/// Some acts as one action, which fails or panics half-way as often as it succeeds.
fn act_whole(store: &mut ActStore, world: World, model: &mut Model, random: &mut Random) {
    let (before, is_good) = (model.clone(), random.below(2) == 0);
    let panics = random.below(2) == 0;
    let mut acts = || {
        store.act(|words| {
            for _ in 0..1 + random.below(20) {
                world.act(words, model, random, 35)?;
            }
            match is_good {
                true => Ok(()),
                false if panics => resume_unwind(Box::new("half-way")),
                false => Err("half-way".into()),
            }
        })
    };
    let acted: Result<Result<(), Box<dyn StdError>>, _> = catch_unwind(AssertUnwindSafe(&mut acts));
    match acted {
        Ok(Ok(())) => assert!(is_good),
        Ok(Err(error)) => assert_eq!(error.to_string(), "half-way"),
        Err(_) => assert!(panics),
    }
    if !is_good {
        *model = before;
        world.check(&**store, model).expect("what failed has not happened");
    }
}

/// What `files` hold after a crash: which state of `models`, by the number of its acts.
fn judge(files: &Files, has_log: bool, models: &[Model], least: usize) -> Result<usize, String> {
    let store = open(&SimulatedDisk::holding(files), has_log, false);
    let mut store = store.map_err(|error| error.to_string())?;
    let world = store.attach()?;
    let acts = world.acts.get(&*store) as usize;
    let model = models.iter().find(|model| model.acts as usize == acts);
    world.check(&*store, model.ok_or(format!("{acts} acts are no point"))?)?;
    if acts < least {
        Err(format!("{least} acts were durable, {acts} are there"))
    } else {
        Ok(acts)
    }
}

/// Keeps a random subset of what was not synced, few of it or much.
fn crash(platter: &Platter, random: &mut Random) -> Files {
    let (chance, mut draws) = (random.pick(&[0, 10, 50, 90, 100]), random.next() | 1);
    platter.lose_power(|_| {
        draws = draws.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (draws >> 33) % 100 < chance
    })
}

/// What a life of a store left to be judged.
struct Life {
    /// The model at each point.
    models: Vec<Model>,
    /// After this many changes of the disk, so many acts were durable.
    durable: Vec<(usize, usize)>,
}

/// Acts with checkpoints that race them.
fn live(disk: &SimulatedDisk, has_log: bool, mut model: Model, random: &mut Random) -> Life {
    let mut store = open(disk, has_log, random.below(2) == 0).expect("a sound disk");
    let world = store.attach().expect("it is the same");
    world.check(&*store, &model).expect("recovery is right");
    let mut life = Life { models: vec![model.clone()], durable: vec![(0, model.acts as usize)] };
    for _ in 0..2 + random.below(12) {
        match &mut store {
            Kept::Acts(store) => act_whole(store, world, &mut model, random),
            Kept::Plain(store) => {
                for _ in 0..random.below(30) {
                    world.act(store, &mut model, random, 35).expect("as in collections");
                }
            }
        }
        life.models.push(model.clone());
        match random.below(6) {
            0 | 1 => {
                store.checkpoint_and_wait().expect("a sound disk");
            }
            2 if has_log => store.wait_durable(store.logged()).expect("a sound disk"),
            _ => {
                store.checkpoint();
                store.point(); // it races what comes
                continue;
            }
        }
        life.durable.push((disk.changes(), model.acts as usize));
    }
    life
}

/// Lives that end by a loss of power. Returns after how many crashes the state was looked at.
fn lives(has_log: bool, random: &mut Random) -> usize {
    let (mut files, mut model, mut points) = (Files::new(), Model::default(), 0);
    for _ in 0..4 {
        let disk = SimulatedDisk::holding(&files);
        let life = live(&disk, has_log, model, random);
        let (history, mut platter) = (disk.history(), Platter::holding(&files));
        let ends = random.below(history.len() + 1);
        let mut left = None;
        for changes in 0..=history.len() {
            if changes > 0 {
                platter.apply(&history[changes - 1]);
            }
            if changes != ends && random.below(8) > 0 {
                continue;
            }
            let known = life.durable.iter().filter(|(at, _)| *at <= changes);
            let least = known.map(|&(_, acts)| acts).max().unwrap_or(0);
            let crashed = crash(&platter, random);
            let acts = judge(&crashed, has_log, &life.models, least);
            let acts = acts.unwrap_or_else(|wrong| panic!("after {changes} changes: {wrong}"));
            points += 1;
            if changes == ends {
                left = Some((crashed, acts));
            }
        }
        let (crashed, acts) = left.expect("it is one of the changes");
        files = crashed;
        let found = life.models.into_iter().find(|model| model.acts as usize == acts);
        model = found.expect("it was judged");
    }
    points
}

#[test]
fn what_a_crash_leaves_is_a_whole_state_of_all_places() {
    let _watchdog = Watchdog::start();
    let mut random = Random::new("typed crashes");
    let lived = (0..rounds(6, 300)).map(|_| lives(false, &mut random));
    println!("{} crash points", lived.sum::<usize>());
}

#[test]
fn actions_on_places_are_whole_live_and_after_crashes() {
    let _watchdog = Watchdog::start();
    let mut random = Random::new("typed actions");
    let lived = (0..rounds(6, 300)).map(|_| lives(true, &mut random));
    println!("{} crash points", lived.sum::<usize>());
}

#[derive(Clone, Copy, State)]
struct Names {
    numbers: Map<u64, u64>,
}

/// Opens, attaches with a seed of its own, and inserts `count` keys, each by an action; then power
/// is lost after each change of the disk. No checkpoint is ever taken.
fn seeded_lives(count: u64) -> Result<(), String> {
    let open = |files: &Files, seed| -> Result<(SimulatedDisk, ActStore, Names), String> {
        let disk = SimulatedDisk::holding(files);
        let options = Names::options("names", 1 << 14).disk(Arc::new(disk.clone()));
        let mut store = ActStore::open("simulated", options).map_err(|error| error.to_string())?;
        let names = Names::attach_seeded(&mut store, seed).map_err(|error| error.to_string())?;
        Ok((disk, store, names))
    };
    let (disk, mut store, names) = open(&Files::new(), 0x5EED)?;
    let mut durable = vec![(0, 0)];
    for key in 0..count {
        let act =
            store.act(|words| names.numbers.insert(words, key, 7 * key).map_err(Error::Memory));
        act.and_then(|_| store.wait_durable(store.logged())).map_err(|error| error.to_string())?;
        durable.push((disk.changes(), key + 1));
    }
    let (history, mut platter) = (disk.history(), Platter::default());
    for changes in 0..=history.len() {
        if changes > 0 {
            platter.apply(&history[changes - 1]);
        }
        let known = durable.iter().filter(|(at, _)| *at <= changes).map(|&(_, keys)| keys);
        let least = known.max().unwrap_or(0);
        let files = platter.lose_power(|_| false);
        let (disk, store, names) = open(&files, changes as u64)?;
        let found =
            (0..count).filter(|key| names.numbers.get(&store, key) == Some(7 * key)).count();
        if (found as u64) < least || names.numbers.len(&store) != found {
            return Err(format!("{found} keys after change {changes}, {least} were durable"));
        }
        drop((store, disk));
    }
    Ok(())
}

#[test]
fn keys_of_a_seeded_state_are_found_after_a_crash_before_the_first_checkpoint() {
    seeded_lives(100).expect("the seed is in the log");
}

#[test]
fn a_directory_of_another_layout_is_refused_by_name_and_keeps_what_it_has() {
    #[derive(Clone, Copy, State)]
    struct Old {
        ticks: Value<u64>,
    }
    #[derive(Clone, Copy, State)]
    struct New {
        ticks: Value<u64>,
        marks: Column<u8, 10>,
    }
    let data = tempfile::tempdir().expect("a directory");
    let mut store: Store = Store::open(data.path(), Old::options("ticker", 1000)).expect("new");
    let old = Old::attach(&mut store).expect("it is new");
    old.ticks.set(&mut store, 7);
    store.checkpoint_and_wait().expect("a sound disk");
    drop(store);

    let refused = Store::open(data.path(), New::options("ticker", 1000)).expect_err("another's");
    let version = |layout: crate::Layout| format!("\"ticker\", layout {}", layout.version());
    assert!(refused.to_string().contains(&version(Old::layout())), "{refused}");
    assert!(refused.to_string().contains(&version(New::layout())), "{refused}");
    let _ = New::attach(&mut vec![0; 1000]).map(|new| (new.ticks, new.marks));

    let store: Store = Store::open(data.path(), Old::options("ticker", 1000)).expect("its own");
    assert_eq!(Old::from_source(&store).expect("it is the same").ticks.get(&store), 7);
}

#[test]
fn a_full_state_says_so_and_is_as_it_was() {
    let data = tempfile::tempdir().expect("a directory");
    let words = World::layout().words() + 3000;
    let mut store: Store = Store::open(data.path(), World::options("world", words)).expect("new");
    let (world, mut model) = (World::attach(&mut store).expect("it is new"), Model::default());
    let mut random = Random::new("full states");
    let mut before = model.clone();
    let error = loop {
        let acted = world.act(&mut store, &mut model, &mut random, 0);
        match acted {
            Ok(()) => before = model.clone(),
            Err(error) => break error,
        }
    };
    assert!(error.contains(&format!("exceed the {words} words reserved")), "{error}");
    // An act that puts a text and then names it may have done the first.
    if world.check(&store, &model).is_err() {
        world.check(&store, &before).expect("nothing changed");
    }
}
