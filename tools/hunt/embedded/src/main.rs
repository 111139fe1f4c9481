//! Hunts for wrong images of embedded stores, with the workload and the judge of `stillframe hunt`.
//!
//! Two writers run transactions; images are taken back to back meanwhile, and each has to be what
//! some first transactions of each writer leave. `no-lock` is no store but a canary: it copies a
//! map key by key while transactions run, and has to be caught. `openraft-naive` is another one.
//!
//! `cargo run -- [IMAGES [STORE...]]`

mod bytes;
mod maps;
mod raft;
mod surreal;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, PoisonError, RwLock};
use std::thread;

use stillframe_hunt::{Class, Contents, Fault, Judge, Workload};

const WRITERS: usize = 2;

/// A store that runs transactions and gives images.
trait Store: Sync {
    /// Runs the requests as one transaction.
    fn transact(&self, requests: &[Vec<String>]);
    /// An image of all keys, asked for and taken within this call.
    fn image(&self) -> Contents;
    /// Why that image, the last one, is not what its label says; judged while no transaction runs.
    fn mislabelled(&self, _image: &Contents) -> Option<Fault> {
        None
    }
}

/// Makes an empty store.
type Make = fn() -> Box<dyn Store>;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let images = words.first().map_or(20, |it| it.parse().expect("a number of images"));
    let stores: [(&str, Make); 7] = [
        ("im 15.1.0", || Box::new(maps::Im::default())),
        ("imbl 7.0.2", || Box::new(maps::Imbl::default())),
        ("surrealmx 0.23.0", || Box::new(surreal::Old::default())),
        ("surrealmx 1.1.0", || Box::new(surreal::New::default())),
        ("openraft 0.9.25, lock held", || Box::new(raft::Node::<raft::Honest>::default())),
        ("openraft-naive", || Box::new(raft::Node::<raft::Naive>::default())),
        ("no-lock", || Box::new(maps::NoLock::default())),
    ];
    println!("| store | images | torn | stale | missing | mislabelled | transactions meanwhile |");
    println!("|---|---|---|---|---|---|---|");
    let mut examples = Vec::new();
    for (name, store) in stores {
        if words.len() < 2 || words[1..].iter().any(|word| name.contains(word.as_str())) {
            examples.extend(hunt(name, &*store(), images));
        }
    }
    examples.iter().for_each(|example| println!("{example}"));
}

/// Prints the row of a store, and returns the first example of each class.
fn hunt(name: &str, store: &dyn Store, images: u64) -> Vec<String> {
    let workload = Workload { seed: 1, writers: WRITERS, keys: 4000, moves: true };
    store.transact(&workload.fill());
    let counters = || [const { AtomicU64::new(0) }; WRITERS];
    let (sent, acknowledged) = (counters(), counters());
    let counts = |of: &[AtomicU64; WRITERS]| of.each_ref().map(|it| it.load(Ordering::SeqCst));
    let stop = AtomicBool::new(false);
    let started = Barrier::new(WRITERS + 1);
    // The judge holds it alone: writers would outrun it.
    let pause = RwLock::new(());
    let mut judge = Judge::new(workload.clone());
    let (mut found, mut examples, mut during) = ([0; 4], Vec::new(), 0);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (workload, sent, acknowledged) = (&workload, &sent, &acknowledged);
            let (stop, started, pause) = (&stop, &started, &pause);
            scope.spawn(move || {
                started.wait();
                for n in 1.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let _turn = pause.read().unwrap_or_else(PoisonError::into_inner);
                    sent[writer].store(n, Ordering::SeqCst);
                    store.transact(&workload.transaction(writer, n));
                    acknowledged[writer].store(n, Ordering::SeqCst);
                }
            });
        }
        started.wait();
        for number in 1..=images {
            let low = counts(&acknowledged);
            let image = store.image();
            during += counts(&acknowledged).iter().sum::<u64>() - low.iter().sum::<u64>();
            let _alone = pause.write().unwrap_or_else(PoisonError::into_inner);
            let label = store.mislabelled(&image);
            for fault in judge.judge(&image, &low, &counts(&sent)).into_iter().chain(label) {
                let class = Class::ALL.iter().position(|it| *it == fault.class).expect("a class");
                found[class] += 1;
                if found[class] == 1 {
                    let (class, text) = (fault.class, fault.text);
                    examples.push(format!("{name}: first {class}, image {number}: {text}"));
                }
            }
        }
        stop.store(true, Ordering::SeqCst);
    });
    let [torn, stale, missing, mislabelled] = found;
    println!("| {name} | {images} | {torn} | {stale} | {missing} | {mislabelled} | {during} |");
    examples
}
