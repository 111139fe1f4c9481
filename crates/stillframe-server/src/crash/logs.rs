//! The log and its images: what was acknowledged is there after any crash, once.

use std::cell::RefCell;

use stillframe_durability::disk::{Change, Files, Platter, SimulatedDisk, crash_everywhere};

use super::{FAULTS, Server};
use crate::{journal, persistence};

/// What is to be found: after so many changes of the disk, so many commands were acknowledged.
#[derive(Default)]
struct Oracle {
    asked: usize,
    acknowledged: Vec<(usize, usize)>,
}

impl Oracle {
    /// Adds the next number to a list.
    fn push(&mut self, disk: &SimulatedDisk, server: &mut Server) {
        if server.run(&format!("RPUSH list {}", self.asked + 1)).starts_with('-') {
            return; // refused, because something failed
        }
        self.asked += 1;
        if server.commit() && server.state.journal.is_on() {
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

/// How many commands a server that starts finds: all from the first on, each once.
fn recovered(files: &Files, appendonly: bool) -> Result<usize, String> {
    let disk = SimulatedDisk::holding(files);
    let mut server = Server::start(&disk, appendonly).map_err(|error| error.to_string())?;
    let list = server.run("LRANGE list 0 -1");
    let numbers: Vec<usize> = list.split("\r\n").skip(2).step_by(2).flat_map(str::parse).collect();
    let expected: Vec<usize> = (1..=numbers.len()).collect();
    if numbers == expected { Ok(numbers.len()) } else { Err(format!("{numbers:?} were found")) }
}

/// A log is begun, continued by an image, ended, begun again beside data, and continued.
fn live(disk: &SimulatedDisk, oracle: &mut Oracle) -> Result<(), String> {
    let mut server = Server::start(disk, true).map_err(|error| error.to_string())?;
    oracle.push(disk, &mut server);
    oracle.push(disk, &mut server);
    let _ = server.save(); // whether it can be done or not, nothing is lost
    oracle.push(disk, &mut server);
    if !server.state.journal.is_on() {
        again(&mut server)?;
    }
    oracle.push(disk, &mut server);
    again(&mut server)?;
    oracle.push(disk, &mut server);
    journal::close(&mut server.keyspace, &mut server.state).map_err(|()| "not closed".to_owned())
}

/// Ends the log, and begins another.
fn again(server: &mut Server) -> Result<(), String> {
    let _ = journal::close(&mut server.keyspace, &mut server.state); // it may have failed before
    journal::begin(&mut server.keyspace, &mut server.state, 0)?;
    persistence::wait(&mut server.keyspace, &mut server.state);
    if server.state.journal.is_on() { Ok(()) } else { Err("no log".to_owned()) }
}

#[test]
fn what_was_acknowledged_is_there_after_every_crash() {
    let (disk, mut oracle) = (SimulatedDisk::default(), Oracle::default());
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

#[test]
fn a_log_survives_the_failure_of_any_call() {
    for fault in FAULTS {
        for call in 1.. {
            let (disk, mut oracle) = (SimulatedDisk::default(), Oracle::default());
            disk.fail_at(call, fault);
            let lived = live(&disk, &mut oracle);
            if !disk.has_failed() {
                lived.expect("a sound disk");
                assert!(call > 50, "{call} calls");
                break;
            }
            let told = format!("{fault:?} at call {call}: {lived:?}");
            for keep in [false, true] {
                let files = disk.platter().lose_power(|_| keep);
                let found = recovered(&files, keep);
                let judged = oracle.judge(usize::MAX, &found);
                judged.unwrap_or_else(|wrong| panic!("{told}, kept {keep}: {wrong}"));
            }
        }
    }
}

/// A start that finds a log which never counted removes it, and may be cut short at that, too.
#[test]
fn a_start_that_crashes_is_done_again() {
    let disk = SimulatedDisk::default();
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
