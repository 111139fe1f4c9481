//! The engine end to end, for each algorithm.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::mpsc;

use std::sync::atomic::{AtomicU64, Ordering};
use stillframe::{Algorithm, BLOCK_WORDS, Before, Engine, Image, Options, Point};
use stillframe::{Publication, Shared, Sink, SinkError};

/// Compares the words that it receives with those that it expects, in any process.
struct Expect {
    words: Vec<u64>,
    /// The image before.
    before: Vec<u64>,
    pushed: Shared<AtomicU64>,
}

impl Sink for Expect {
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        for (offset, &word) in words.iter().enumerate() {
            if self.words[start + offset] != word {
                return Err(SinkError::new(format_args!("word {} is {word}", start + offset)));
            }
        }
        self.pushed.fetch_add(words.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn before(&mut self, start: usize, into: &mut [u64]) -> Result<Before, SinkError> {
        into.copy_from_slice(&self.before[start..start + into.len()]);
        Ok(Before::Given)
    }
}

fn images_equal_the_state_at_begin<A: Algorithm>() {
    if let Err(why) = A::available() {
        return stillframe_peers::skipped(A::INFO.name, &why.to_string());
    }
    let len = 5000;
    let mut engine = Engine::new(A::create(&Options::words(len)).unwrap()).unwrap();
    let mut oracle = vec![0; len];
    let mut before = oracle.clone();
    let mut seed = 1u64;
    for round in 1..=20 {
        let (sender, receiver) = mpsc::channel();
        let pushed = Shared::new(AtomicU64::new(0)).unwrap();
        let sink = Expect { words: oracle.clone(), before, pushed: pushed.clone() };
        before = oracle.clone();
        let begun = engine
            .snapshot(Point::declare(), sink, move |_, report| {
                let publication = Publication::from_result(&report);
                sender.send(report).unwrap();
                publication
            })
            .unwrap();
        assert_eq!(begun.epoch, round);
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let index = (seed >> 33) as usize % len;
            engine.write(index, seed);
            oracle[index] = seed;
            assert_eq!(engine.read(index), seed);
        }
        engine.wait();
        let report = receiver.recv().unwrap().unwrap();
        assert_eq!(report.words, len);
        assert_eq!(pushed.load(Ordering::Relaxed), len as u64);
        assert!(!engine.running());
    }
}

macro_rules! each {
    ($($module:ident::$algorithm:ident { $($facts:tt)* })*) => {
        $(#[test]
        #[allow(non_snake_case, reason = "named as the type")]
        fn $algorithm() {
            let _watchdog = stillframe_peers::Watchdog::start();
            images_equal_the_state_at_begin::<stillframe::algorithms::$module::$algorithm>();
        })*
    };
}
stillframe::for_each_algorithm!(each);

/// Takes every second block.
#[derive(Debug, Default)]
struct Choosy(Vec<usize>);

impl Sink for Choosy {
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        assert!(words.iter().enumerate().all(|(at, &word)| word == (start + at) as u64));
        self.0.push(start);
        Ok(())
    }
    fn wants(&mut self, start: usize) -> bool {
        start / BLOCK_WORDS % 2 == 1
    }
}

fn declined_blocks<A: Algorithm>() {
    let mut state = A::create(&Options::words(7 * BLOCK_WORDS + 3)).expect("memory");
    (0..state.words()).for_each(|index| state.write(index, index as u64));
    let mut image = state.begin(Point::declare(), Choosy::default()).expect("idle");
    for index in 0..state.words() {
        state.write(index, u64::MAX);
    }
    image.capture().expect("the sink takes all that it wants");
    let expected: Vec<usize> = [1, 3, 5, 7].iter().map(|block| block * BLOCK_WORDS).collect();
    assert_eq!(image.sink_mut().0, expected, "{}", A::INFO.name);
    assert_eq!(state.progress().captured_words(), state.words());
}

#[test]
fn blocks_that_a_sink_declines_are_not_pushed_and_count_as_captured() {
    let _watchdog = stillframe_peers::Watchdog::start();
    declined_blocks::<stillframe::algorithms::imprint::Imprint>();
    declined_blocks::<stillframe::algorithms::naive::Naive>();
    declined_blocks::<stillframe::algorithms::hourglass::HourglassCopy>();
    declined_blocks::<stillframe::algorithms::zigzag::Nzz>();
}
