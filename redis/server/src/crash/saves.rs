//! The dump file: whatever happens, the old one whole or the new one whole.

use std::sync::Arc;

use stillframe_durability::disk::{Change, Fault, Files, SimulatedDisk, crash_everywhere};

use super::{FAULTS, Server, leftovers};

/// A key whose value takes so many bytes.
fn set(server: &mut Server, bytes: usize) {
    assert_eq!(server.run(&format!("SET key {}", "x".repeat(bytes))), "+OK\r\n");
}

fn bytes(files: &Files) -> usize {
    let mut server = Server::start(&SimulatedDisk::holding(files), false).expect("it is whole");
    let length = server.run("STRLEN key");
    length.trim_start_matches(':').trim_end().parse().expect("a number")
}

/// A disk with a dump, and a server that has loaded it and has something else to save.
fn about_to_save(direct: bool, old: usize, new: usize) -> (SimulatedDisk, Server) {
    let disk = SimulatedDisk::default();
    let mut server = Server::start(&disk, false).expect("a sound disk");
    set(&mut server, old);
    server.save().expect("a sound disk");
    drop(server);
    let files = disk.platter().lose_power(|_| false);
    let disk = SimulatedDisk::holding(&files).with_direct(direct);
    let mut server = Server::start(&disk, false).expect("a sound disk");
    set(&mut server, new);
    (disk, server)
}

/// Power is lost after every change and with every subset of what was not synced: within a dump of
/// a few sectors, and of one that goes past the page cache but for its odd bytes.
#[test]
fn a_dump_is_the_old_or_the_new_one_after_every_crash() {
    for (direct, new) in [(false, 2500), (true, 4500)] {
        let (disk, mut server) = about_to_save(direct, 700, new);
        let disk = disk.with_pieces(300); // the old one goes in pieces
        let start = disk.platter().lose_power(|_| true);
        assert_eq!(disk.changes(), 0, "loading changes nothing");
        let old = Arc::clone(&start["dump.rdb"]);
        server.save().expect("a sound disk");
        let new = Arc::clone(&disk.platter().lose_power(|_| true)["dump.rdb"]);
        let history = disk.history();
        let done = history.len();
        let points = crash_everywhere(
            &start,
            &history,
            |files| files.get("dump.rdb").cloned(),
            |changes, dump| match dump {
                Some(dump) if *dump == new => Ok(()),
                Some(dump) if *dump == old && changes < done => Ok(()),
                dump => Err(format!("{:?} bytes", dump.as_ref().map(|dump| dump.len()))),
            },
        );
        let points = points.expect("the old or the new one");
        println!("{done} changes, {points} crash points");
        assert!(points > 200, "{points} crash points are too few");
    }
}

/// The next start removes what an interrupted save left, and finds the whole dump.
#[test]
fn a_server_starts_after_every_crash_of_a_save() {
    let (disk, mut server) = about_to_save(false, 40, 60);
    let start = disk.platter().lose_power(|_| true);
    server.save().expect("a sound disk");
    let recover = |files: &Files| {
        let disk = SimulatedDisk::holding(files);
        Server::start(&disk, false).map(drop).map_err(|error| error.to_string())?;
        let files = disk.platter().lose_power(|_| false);
        Ok((bytes(&files), leftovers(&disk.platter().lose_power(|_| true)).len()))
    };
    let judge = |_, found: &Result<(usize, usize), String>| match found {
        Ok((40 | 60, 0)) => Ok(()),
        other => Err(format!("{other:?}")),
    };
    crash_everywhere(&start, &disk.history(), recover, judge).expect("it starts");
}

#[test]
fn a_save_survives_the_failure_of_any_call() {
    for (fault, direct) in FAULTS.into_iter().flat_map(|fault| [(fault, false), (fault, true)]) {
        for call in 1.. {
            let (disk, mut server) = about_to_save(direct, 700, 4500);
            let old = Arc::clone(&disk.platter().lose_power(|_| true)["dump.rdb"]);
            disk.fail_at(disk.calls() + call, fault);
            let saved = server.save();
            if !disk.has_failed() {
                saved.expect("a sound disk");
                assert!(call > 5, "{call} calls");
                break;
            }
            let case = format!("{fault:?} at call {call}, direct {direct}: {saved:?}");
            let files = disk.platter().lose_power(|_| true);
            let durable = disk.platter().lose_power(|_| false);
            assert_eq!(leftovers(&files), [""; 0], "{case}");
            let is_old = files["dump.rdb"] == old;
            match &saved {
                Ok(()) => assert_eq!((is_old, bytes(&durable)), (false, 4500), "{case}"),
                // Only the very last call comes after the new one has got its name.
                Err(_) if !is_old => assert_eq!(bytes(&files), 4500, "{case}"),
                Err(_) => assert_eq!(durable["dump.rdb"], old, "{case}"),
            }
            assert!(
                server.state.storage.saves.last_ok,
                "a foreground save reports its own failure: {case}"
            );
            server.save().expect(&case);
            let durable = disk.platter().lose_power(|_| false);
            assert_eq!((bytes(&durable), leftovers(&durable).len()), (4500, 0), "{case}");
        }
    }
}

/// After a failed sync the page cache may show bytes that are on no disk, and a second sync would
/// succeed all the same: the file is removed, never synced or published again, and the next save
/// writes a new one.
#[test]
fn a_dump_whose_sync_failed_is_never_used_again() {
    for direct in [false, true] {
        let mut failed = 0;
        for call in 1.. {
            let (disk, mut server) = about_to_save(direct, 700, 4500);
            let old = Arc::clone(&disk.platter().lose_power(|_| true)["dump.rdb"]);
            disk.fail_at(disk.calls() + call, Fault::IO);
            let saved = server.save();
            if !disk.has_failed() {
                break;
            }
            let is_failed = |change: &Change| matches!(change, Change::SyncFailed(_));
            let Some(at) = disk.history().iter().position(is_failed) else { continue };
            failed += 1;
            assert!(saved.is_err(), "call {call}");
            let temporary = format!("temp-{}.rdb", std::process::id());
            assert_eq!(disk.history()[at + 1..], [Change::Remove(temporary)], "nothing else");
            let files = disk.platter().lose_power(|_| true);
            assert_eq!(files["dump.rdb"], old, "call {call}, direct {direct}");
            server.save().expect("a sound disk again");
            let created = |change: &Change| matches!(change, Change::Create(_));
            assert!(disk.history()[at..].iter().any(created), "a new file");
            let durable = disk.platter().lose_power(|_| false);
            assert_eq!(bytes(&durable), 4500, "call {call}, direct {direct}");
        }
        assert_eq!(failed, 1, "a save syncs its file once");
    }
}
