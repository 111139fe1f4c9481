//! Places in stores whose power is lost.

use std::path::Path;
use std::sync::Arc;

use stillframe_durability::disk::{Files, Platter, SimulatedDisk};
use stillframe_durability::{Error, Increments};
use stillframe_peers::{Random, Watchdog, rounds};

use super::model::{Model, World};
use crate::{Column, State, Store, Value};

fn open(disk: &SimulatedDisk, has_increments: bool) -> Result<Store, Error> {
    let mut options = World::options("world", 1 << 18).disk(Arc::new(disk.clone()));
    if has_increments {
        options = options.increments(Increments::at_most(3));
    }
    Store::open(Path::new("simulated"), options)
}

/// What `files` hold after a crash: which state of `models`, by the number of its acts.
fn judge(files: &Files, models: &[Model], least: usize) -> Result<usize, String> {
    let mut store = open(&SimulatedDisk::holding(files), false).map_err(|e| e.to_string())?;
    let world = World::attach(&mut store).map_err(|error| error.to_string())?;
    let acts = world.acts.get(&store) as usize;
    let model = models.iter().find(|model| model.acts as usize == acts);
    world.check(&store, model.ok_or(format!("{acts} acts are no point"))?)?;
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

/// Acts with checkpoints that race them, on a disk that loses power at random in the end.
#[test]
fn what_a_crash_leaves_is_a_whole_state_of_all_places() {
    let _watchdog = Watchdog::start();
    let mut random = Random::new("typed crashes");
    let mut points = 0;
    for _ in 0..rounds(6, 300) {
        let (mut files, mut model) = (Files::new(), Model::default());
        for _life in 0..4 {
            let disk = SimulatedDisk::holding(&files);
            let mut store = open(&disk, random.below(2) == 0).expect("a sound disk");
            let world = World::attach(&mut store).expect("it is the same");
            world.check(&store, &model).expect("recovery is right");
            let (mut models, mut durable) = (vec![model.clone()], vec![(0, model.acts as usize)]);
            for _ in 0..2 + random.below(12) {
                for _ in 0..random.below(30) {
                    world.act(&mut store, &mut model, &mut random, 35).expect("as in collections");
                }
                models.push(model.clone());
                if random.below(3) == 0 {
                    store.checkpoint_and_wait().expect("a sound disk");
                    durable.push((disk.changes(), model.acts as usize));
                } else {
                    store.checkpoint();
                    store.point(); // it races what comes
                }
            }
            drop(store);
            let (history, mut platter) = (disk.history(), Platter::holding(&files));
            let mut ends = None;
            for changes in 0..=history.len() {
                if changes > 0 {
                    platter.apply(&history[changes - 1]);
                }
                if changes < history.len() && random.below(8) > 0 {
                    continue;
                }
                let known = durable.iter().filter(|(at, _)| *at <= changes);
                let least = known.map(|&(_, acts)| acts).max().unwrap_or(0);
                let crashed = crash(&platter, &mut random);
                let acts = judge(&crashed, &models, least);
                let acts = acts.unwrap_or_else(|wrong| panic!("after {changes} changes: {wrong}"));
                points += 1;
                if ends.is_none() && random.below(history.len() + 1) == 0
                    || changes == history.len()
                {
                    ends.get_or_insert((crashed, acts));
                }
            }
            let (left, acts) = ends.expect("the last change is one");
            files = left;
            let left = models.into_iter().find(|model| model.acts as usize == acts);
            model = left.expect("it was judged");
        }
    }
    println!("{points} crash points");
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
    assert_eq!(Old::of(&store).expect("it is the same").ticks.get(&store), 7);
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
