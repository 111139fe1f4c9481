//! The sweeper on the simulated disk with its thread, and on the machine's.

use std::fs;
use std::path::Path;

use super::super::{Directory, Location, RealDisk, SimulatedDisk};
use super::*;

fn holds(disk: &SimulatedDisk, name: &str, bytes: usize) {
    let file = disk.create(name).expect("a sound disk");
    file.write_at(0, &vec![7; bytes]).expect("a sound disk");
}

fn job(sweeper: &Sweeper, disk: &SimulatedDisk, name: &str) {
    let aside = put_aside(disk, |aside| disk.rename(name, aside)).expect("a sound disk");
    sweeper.remove(Arc::new(disk.clone()), aside, Mutation::current());
}

#[test]
fn only_our_own_names_are_swept() {
    for (name, ours) in
        [("gone-1", true), ("gone-01", false), ("gone-", false), ("gone-+1", false), ("x", false)]
    {
        assert_eq!(is_gone(name), ours, "{name}");
    }
}

#[test]
fn a_thread_removes_all_in_pieces_and_leaves_what_is_open() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let disk = SimulatedDisk::default();
    let sweeper = Sweeper::with_pieces(100, true);
    holds(&disk, "held", 1000);
    let held = disk.open("held").expect("it is there");
    holds(&disk, "free", 1000);
    job(&sweeper, &disk, "held");
    job(&sweeper, &disk, "free");
    sweeper.finish();
    assert_eq!(disk.names().expect("a sound disk"), ["gone-1"], "the other one has gone");
    assert_eq!(held.length().expect("a sound disk"), 1000, "its reader has all of it");
    drop(held);
    while !disk.names().expect("a sound disk").is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let cuts = disk.history().iter().filter(|it| format!("{it:?}").starts_with("Cut")).count();
    assert_eq!(cuts, 18, "nine each");
}

/// A full disk: what waits goes at once, even if somebody has it open.
#[test]
fn room_is_made_at_once() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let disk = SimulatedDisk::default();
    let sweeper = Sweeper::with_pieces(1, true);
    assert!(!sweeper.make_room(), "nothing waits");
    for name in ["a", "b", "c"] {
        holds(&disk, name, 100_000);
    }
    let held = disk.open("b").expect("it is there");
    for name in ["a", "b", "c"] {
        job(&sweeper, &disk, name);
    }
    assert!(sweeper.make_room());
    assert!(disk.names().expect("a sound disk").is_empty());
    assert_eq!(held.length().expect("a sound disk"), 100_000);
}

/// The end does not wait for what is left; the next start removes that.
#[test]
fn the_end_leaves_the_rest_to_the_next_start() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let disk = SimulatedDisk::default();
    let sweeper = Sweeper::with_pieces(1, true);
    holds(&disk, "a", 10_000_000);
    job(&sweeper, &disk, "a");
    drop(sweeper);
    assert_eq!(disk.names().expect("a sound disk"), ["gone-1"]);
    let location = Location::on("simulated", Arc::new(disk.clone()));
    let _directory = Directory::existing(location).and_then(|it| it.locked("lock"));
    assert!(disk.names().expect("a sound disk").is_empty());
}

#[test]
fn the_machines_files_go_but_for_those_of_others() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let large = vec![1; 100];
    let sweeper = Arc::new(Sweeper::with_pieces(10, true));
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(folder.path()).expect("it is there"));
    fs::write(at("linked"), &large).expect("writable");
    fs::hard_link(at("linked"), at("kept")).expect("this file system has links");
    std::os::unix::fs::symlink(at("kept"), at("symbolic")).expect("it has these, too");
    fs::create_dir(at("folder")).expect("writable");
    fs::write(at("folder/file"), &large).expect("writable");
    fs::write(at("read"), &large).expect("writable");
    let mut reader = fs::File::open(at("read")).expect("it is there");
    for name in ["linked", "symbolic", "folder", "read"] {
        let aside = put_aside(&*disk, |aside| disk.rename(name, aside)).expect("a sound disk");
        sweeper.remove(Arc::clone(&disk), aside, Mutation::current());
    }
    sweeper.finish();
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut reader, &mut bytes).expect("it is open");
    assert_eq!(bytes, large, "a copy that somebody makes is whole");
    drop(reader);
    while !swept(folder.path()) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(fs::read(at("kept")).expect("it has this name"), large);
}

fn swept(folder: &Path) -> bool {
    let names = fs::read_dir(folder).expect("it is there");
    names.count() == 1
}
