//! Places in images, read at random and captured, while acts go on.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use stillframe::algorithms::cou::Cou;
use stillframe::algorithms::fork::Fork;
use stillframe::algorithms::hourglass::Hourglass;
use stillframe::algorithms::imprint::Imprint;
use stillframe::algorithms::naive::Naive;
use stillframe::algorithms::piggyback::Piggyback;
use stillframe::{Algorithm, Engine, Image, Options, Point, Publication};
use stillframe_peers::{Random, Watchdog, rounds};

use super::model::{Model, World};
use crate::{Lost, Source, State, read_image};

fn options(words_max: usize) -> Options {
    Options::words(World::layout().words()).max_words(words_max)
}

/// Images that are read at random, and then captured, while acts go on.
fn images_of<A: Algorithm>(random: &mut Random) {
    let mut engine = Engine::new(A::create(&options(1 << 20)).expect("memory")).expect("a thread");
    let world = World::attach(&mut engine).expect("it is new");
    let mut model = Model::default();
    for image in 0..6 {
        let mut act = |engine: &mut Engine<A>| {
            for _ in 0..random.below(300) {
                world.act(engine, &mut model, random, 40).expect("it is as in collections");
            }
            model.clone()
        };
        let then = act(&mut engine);
        let mut begun = engine.begin(Point::declare(), Vec::new()).expect("none is held");
        act(&mut engine);
        if A::INFO.random_access {
            let read = read_image(&begun, |words| {
                let world = World::from_source(words).expect("its layout is known");
                world.check(words, &then)
            });
            read.expect("the image is whole").unwrap_or_else(|wrong| panic!("{image}: {wrong}"));
        }
        begun.capture().expect("nothing fails");
        assert_eq!(read_image(&begun, |words| world.acts.get(words)), Err(Lost));
        act(&mut engine);
        if !A::INFO.in_process {
            continue; // the sink has its words there
        }
        let captured = begun.into_sink();
        world.check(&captured, &then).unwrap_or_else(|wrong| panic!("{image}: {wrong}"));
    }
    world.check(&engine, &model).expect("the live state is right");
}

#[test]
fn images_of_every_kind_hold_what_was_there_at_begin() {
    let _watchdog = Watchdog::start();
    let mut random = Random::new("typed images");
    for _ in 0..rounds(3, 100) {
        images_of::<Imprint>(&mut random);
        images_of::<Naive>(&mut random);
        images_of::<Cou>(&mut random);
        images_of::<Hourglass>(&mut random);
        images_of::<Piggyback>(&mut random);
        images_of::<Fork>(&mut random);
    }
}

#[test]
fn an_image_that_is_given_up_is_told_after_the_reading() {
    let mut engine =
        Engine::new(Imprint::create(&options(1 << 20)).expect("memory")).expect("a thread");
    let world = World::attach(&mut engine).expect("it is new");
    let mut model = Model::default();
    let mut random = Random::new("lost images");
    for _ in 0..500 {
        world.act(&mut engine, &mut model, &mut random, 20).expect("it is as in collections");
    }
    let image = engine.begin(Point::declare(), Vec::new()).expect("none is held");
    engine.progress().cancel();
    // Whatever is read, it ends.
    assert_eq!(read_image(&image, |words| drop(world.check(words, &model))), Err(Lost));
}

/// Each word of an image that is lost is told, whichever is read alone.
pub(super) fn each_lost_word_is_told() -> Result<(), String> {
    let mut state = Imprint::create(&Options::words(9)).expect("memory");
    let image = state.begin(Point::declare(), Vec::new()).expect("none is held");
    state.progress().cancel();
    for index in 0..9 {
        if read_image(&image, |words| words.read(index)) != Err(Lost) {
            return Err(format!("word {index} is not lost"));
        }
        if read_image(&image, |words| words.window(index, 1).map(|word| word(0))) != Err(Lost) {
            return Err(format!("word {index} of a window is not lost"));
        }
    }
    assert_eq!(read_image(&image, |words| words.words()), Ok(9), "nothing was read");
    Ok(())
}

#[test]
fn a_lost_word_is_told_whichever_it_is() {
    each_lost_word_is_told().expect("it is told");
}

#[test]
fn windows_of_an_image_end_where_they_end() {
    let mut state = Imprint::create(&Options::words(9)).expect("memory");
    let image = state.begin(Point::declare(), Vec::new()).expect("none is held");
    let ended = read_image(&image, |words| {
        for (start, len) in [(9, 1), (8, 2), (usize::MAX, 2), (1, usize::MAX)] {
            assert!(words.window(start, len).is_none(), "{len} words from {start} on");
        }
        let window = words.window(0, 8).expect("it is in bounds");
        catch_unwind(AssertUnwindSafe(|| window(8))).is_err()
    });
    assert_eq!(ended, Ok(true), "a window shows a word beyond it");
}

/// Words of which so many are read before they are lost.
struct Fading<'a> {
    words: &'a [u64],
    left: Cell<usize>,
}

impl Source for Fading<'_> {
    fn words(&self) -> usize {
        self.words.len()
    }
    fn read(&self, index: usize) -> u64 {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        if left == 0 { 0 } else { self.words[index] }
    }
}

#[test]
fn an_image_may_be_lost_at_any_word() {
    let mut words = vec![0; World::layout().words()];
    let world = World::attach(&mut words).expect("it is new");
    let mut model = Model::default();
    let mut random = Random::new("images that fade");
    for _ in 0..150 {
        world.act(&mut words, &mut model, &mut random, 20).expect("it is as in collections");
    }
    for left in (0..).step_by(rounds(5, 1)) {
        let fading = Fading { words: &words, left: Cell::new(left) };
        // Whatever is read, it ends without a panic.
        let checked = world.check(&fading, &model);
        if fading.left.get() > 0 {
            return checked.expect("it was whole");
        }
    }
}

#[test]
fn images_on_the_thread_of_an_engine_hold_whole_acts() {
    let _watchdog = Watchdog::start();
    let mut random = Random::new("images of an engine");
    let mut engine =
        Engine::new(Imprint::create(&options(1 << 20)).expect("memory")).expect("a thread");
    let world = World::attach(&mut engine).expect("it is new");
    let mut model = Model::default();
    for _ in 0..rounds(20, 500) {
        let then = model.clone();
        let check = move |words: &mut Vec<u64>, captured: Result<_, _>| {
            let is_right = captured.is_ok() && world.check(words, &then).is_ok();
            if is_right { Publication::Durable } else { std::process::abort() }
        };
        engine.snapshot(Point::declare(), Vec::new(), check).expect("none is held");
        while engine.running() {
            world.act(&mut engine, &mut model, &mut random, 45).expect("it is as in collections");
        }
    }
}
