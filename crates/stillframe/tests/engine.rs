//! The engine end to end, for each algorithm.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::mpsc;

use std::sync::atomic::{AtomicU64, Ordering};
use stillframe::{Algorithm, Before, Engine, Options, Point, Publication, Shared, Sink, SinkError};

/// Compares what it is given with what it expects, in whichever process it runs.
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
    let len = 5000;
    let mut engine = Engine::new(A::create(&Options::words(len)).unwrap()).unwrap();
    let mut oracle = vec![0; len];
    let mut before = oracle.clone();
    let mut seed = 1u64;
    for round in 1..=20 {
        let (tell, told) = mpsc::channel();
        let pushed = Shared::new(AtomicU64::new(0)).unwrap();
        let sink = Expect { words: oracle.clone(), before, pushed: pushed.clone() };
        before = oracle.clone();
        let begun = engine
            .snapshot(Point::declare(), sink, move |_, report| {
                let publication = Publication::of(&report);
                tell.send(report).unwrap();
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
        let report = told.recv().unwrap().unwrap();
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
            images_equal_the_state_at_begin::<stillframe::algorithms::$module::$algorithm>();
        })*
    };
}
stillframe::for_each_algorithm!(each);
