//! The log and its images: what was acknowledged is there after any crash, once.

use std::cell::RefCell;
use std::sync::Arc;

use stillframe_durability::Until;
use stillframe_durability::disk::{
    Change, Fault, Files, Location, Platter, SimulatedDisk, crash_everywhere,
};

use super::{FAULTS, Server, leftovers};
use crate::Config;
use crate::start::rewind::rewind_at;
use crate::state::persistence;

/// After so many changes of the disk, so many commands were acknowledged: a start must find them.
#[derive(Default)]
struct Oracle {
    asked: usize,
    acknowledged: Vec<(usize, usize)>,
}

impl Oracle {
    /// Adds the next number to a list.
    fn push(&mut self, disk: &SimulatedDisk, server: &mut Server) {
        if !server.run(&format!("RPUSH list {}", self.asked + 1)).starts_with(':') {
            return; // refused, because something failed, or held until a log counts
        }
        self.asked += 1;
        if server.commit() && server.state.storage.journal.is_on() {
            self.acknowledged.push((disk.changes(), self.asked));
        }
    }

    fn judge(&self, changes: usize, found: &Result<usize, String>) -> Result<(), String> {
        let found = *found.as_ref().map_err(String::clone)?;
        let acknowledged = self.acknowledged.iter().filter(|&&(at, _)| at <= changes);
        let least = acknowledged.map(|&(_, number)| number).max().unwrap_or(0);
        if (least..=self.asked).contains(&found) {
            return Ok(());
        }
        Err(format!("{found} commands were found, {least} were acknowledged"))
    }
}

/// Files larger than this go in pieces.
fn disk_in_pieces() -> SimulatedDisk {
    SimulatedDisk::default().with_pieces(1000)
}

/// How many commands a server that starts finds: all from the first on, each once.
fn recovered(files: &Files, appendonly: bool) -> Result<usize, String> {
    let disk = SimulatedDisk::holding(files);
    let mut server = Server::start(&disk, appendonly).map_err(|error| error.to_string())?;
    let list = server.run("LRANGE list 0 -1");
    let numbers: Vec<usize> = list.split("\r\n").skip(2).step_by(2).flat_map(str::parse).collect();
    let expected: Vec<usize> = (1..=numbers.len()).collect();
    if numbers == expected { Ok(numbers.len()) } else { Err(format!("{numbers:?} were found")) }
}

/// How many commands `stillframe rewind` finds up to a record, or at the end.
fn rewound(files: &Files, until: Option<u64>) -> Result<usize, String> {
    let from = Location::on("simulated", Arc::new(SimulatedDisk::holding(files)));
    let disk = disk_in_pieces();
    let to = Location::on("rewound", Arc::new(disk.clone()));
    let until = until.map(Until::Sequence);
    rewind_at(from, until, &Config::default(), &to).map_err(|error| error.to_string())?;
    recovered(&disk.platter().lose_power(|_| false), false)
}

type Life = fn(&SimulatedDisk, &mut Oracle) -> Result<(), String>;

/// A log is begun, continued by an image, ended, begun again beside data, and continued.
fn live(disk: &SimulatedDisk, oracle: &mut Oracle) -> Result<(), String> {
    let mut server = Server::start(disk, true).map_err(|error| error.to_string())?;
    oracle.push(disk, &mut server);
    oracle.push(disk, &mut server);
    let _ = server.save(); // whether it can be done or not, nothing is lost
    oracle.push(disk, &mut server);
    if !server.state.storage.journal.is_on() {
        again(&mut server)?;
    }
    oracle.push(disk, &mut server);
    again(&mut server)?;
    oracle.push(disk, &mut server);
    persistence::end_log(&mut server.keyspace, &mut server.state)
        .map_err(|_| "not closed".to_owned())
}

/// Images and logs are replaced, and one earlier image is kept.
fn replaced(disk: &SimulatedDisk, oracle: &mut Oracle) -> Result<(), String> {
    let mut server = Server::start(disk, true).map_err(|error| error.to_string())?;
    server.run("CONFIG SET log-keep-bytes 1");
    for _ in 0..3 {
        oracle.push(disk, &mut server);
        let _ = again(&mut server); // whether it can be done or not, nothing is lost
    }
    oracle.push(disk, &mut server);
    Ok(())
}

/// Ends the log, and begins another.
fn again(server: &mut Server) -> Result<(), String> {
    // It may have failed before.
    let _ = persistence::end_log(&mut server.keyspace, &mut server.state);
    let Server { keyspace, state, .. } = server;
    let point = state.replication.point();
    let begun = state.storage.begin_log(keyspace, &mut state.ledger, point, 0);
    begun.map_err(|error| error.to_string())?;
    state.storage.wait(keyspace, &mut state.ledger);
    if server.state.storage.journal.is_on() { Ok(()) } else { Err("no log".to_owned()) }
}

#[test]
fn what_was_acknowledged_is_there_after_every_crash() {
    let (disk, mut oracle) = (disk_in_pieces(), Oracle::default());
    live(&disk, &mut oracle).expect("a sound disk");
    assert_eq!(oracle.acknowledged.len(), 5);
    let starts = RefCell::new(0);
    let recover = |files: &Files| {
        *starts.borrow_mut() += 1;
        recovered(files, *starts.borrow() % 2 == 0)
    };
    let judge = |changes, found: &Result<usize, String>| oracle.judge(changes, found);
    let points = crash_everywhere(&Files::new(), &disk.history(), recover, judge);
    let (points, changes) = (points.expect("survived"), disk.changes());
    println!("{changes} changes, {points} crash points, {} starts", starts.borrow());
}

/// Power is lost at every change while images replace each other and logs begin anew. Each state
/// since the first image can be reached, before and after a start. Where little is kept, each state
/// that the directory offers can be reached.
#[test]
fn every_earlier_state_is_there_after_every_crash() {
    for (life, keeps_all) in [(live as Life, true), (replaced, false)] {
        let (disk, mut oracle) = (disk_in_pieces(), Oracle::default());
        life(&disk, &mut oracle).expect("a sound disk");
        let recover = |files: &Files| {
            let all = rewound(files, None);
            let disk = SimulatedDisk::holding(files);
            Server::start(&disk, true).map(drop).map_err(|error| error.to_string())?;
            let after = disk.platter().lose_power(|_| true);
            for last in 0..all.clone().unwrap_or(0) {
                for files in [files, &after].into_iter().take(if last == 0 { 2 } else { 1 }) {
                    match rewound(files, Some(last as u64)) {
                        Err(gone) if !keeps_all && gone.contains("needs an earlier dump") => {}
                        Ok(found) if found == last => {}
                        other => return Err(format!("up to record {last}: {other:?}")),
                    }
                }
            }
            if files.contains_key("dump.rdb") { all } else { Ok(0) }
        };
        let judge = |changes, found: &Result<usize, String>| oracle.judge(changes, found);
        let points = crash_everywhere(&Files::new(), &disk.history(), recover, judge);
        println!("{} crash points", points.expect("all is there"));
    }
}

/// Only the dump and its log remain when nothing is to be kept, or the disk is full.
#[test]
fn the_past_goes_when_it_is_not_wanted_or_there_is_no_room() {
    let disk = disk_in_pieces();
    let mut oracle = Oracle::default();
    let mut server = Server::start(&disk, true).expect("a sound disk");
    for _ in 0..3 {
        oracle.push(&disk, &mut server);
        server.save().expect("a sound disk");
    }
    assert!(server.kept() > 0);
    // A save that finds no room makes some, image by image.
    let mut saves = 0;
    while server.kept() > 0 {
        disk.fail_at(disk.calls() + 3 + saves, Fault::DISK_FULL); // creating, writing, syncing it
        server.save().expect_err("no room");
        saves += 1;
        assert!(saves < 5, "{} are kept", server.kept());
    }
    oracle.push(&disk, &mut server);
    server.save().expect("there is room again");
    assert_eq!(server.kept(), 1);
    assert!(server.run("CONFIG SET log-keep-age 0").starts_with("+OK"));
    oracle.push(&disk, &mut server);
    server.save().expect("a sound disk");
    assert_eq!(server.kept(), 0);
    let files = disk.platter().lose_power(|_| false);
    assert_eq!(leftovers(&files), [""; 0]);
    let found = rewound(&files, Some(1)).expect_err("it is gone");
    assert!(found.contains("needs an earlier dump file"), "{found}");
    assert_eq!(rewound(&files, None), Ok(oracle.asked));
}

#[test]
fn a_log_survives_the_failure_of_any_call() {
    let lives: [(Life, u64); 2] = [(live, 50), (replaced, 30)];
    // Side by side: a server with a failing disk mostly waits for its next try.
    std::thread::scope(|scope| {
        for (fault, (life, calls)) in FAULTS.into_iter().flat_map(|it| lives.map(|life| (it, life)))
        {
            scope.spawn(move || survives_the_failure_of_any_call(fault, life, calls));
        }
    });
}

/// Each call of a life fails once, of which there are more than `calls`.
fn survives_the_failure_of_any_call(fault: Fault, life: Life, calls: u64) {
    for call in 1.. {
        let (disk, mut oracle) = (disk_in_pieces(), Oracle::default());
        disk.fail_at(call, fault);
        let lived = life(&disk, &mut oracle);
        if !disk.has_failed() {
            lived.expect("a sound disk");
            assert!(call > calls, "{call} calls");
            break;
        }
        let case = format!("{fault:?} at call {call}: {lived:?}");
        for keep in [false, true] {
            let files = disk.platter().lose_power(|_| keep);
            let found = recovered(&files, keep);
            let judged = oracle.judge(usize::MAX, &found);
            judged.unwrap_or_else(|wrong| panic!("{case}, kept {keep}: {wrong}"));
        }
    }
}

/// A start removes a log that never counted, and may lose power while it does so.
#[test]
fn a_start_that_crashes_is_done_again() {
    let disk = disk_in_pieces();
    live(&disk, &mut Oracle::default()).expect("a sound disk");
    let mut platter = Platter::default();
    let is_published =
        |change: &Change| matches!(change, Change::Rename(_, to) if to == "dump.rdb");
    let history = disk.history();
    history.iter().take_while(|change| !is_published(change)).for_each(|it| platter.apply(it));
    let files = platter.lose_power(|_| true);
    assert!(files.keys().any(|name| name.starts_with("appendonlydir/1/") && !name.ends_with('/')));
    assert!(!files.contains_key("dump.rdb"));
    for appendonly in [false, true] {
        let disk = SimulatedDisk::holding(&files);
        Server::start(&disk, appendonly).map(drop).expect("a sound disk");
        let recover = |files: &Files| recovered(files, false);
        let judge = |_, found: &Result<usize, String>| match found {
            Ok(0) => Ok(()),
            other => Err(format!("{other:?}")),
        };
        crash_everywhere(&files, &disk.history(), recover, judge).expect("it starts");
    }
}
