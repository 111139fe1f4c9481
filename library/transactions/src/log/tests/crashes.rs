//! Lost power and failing calls, at random places of a run on threads.

use stillframe_durability::disk::Fault;

use super::*;

/// Rounds for each algorithm.
fn rounds() -> usize {
    stillframe_peers::rounds(12, 600)
}

/// Loses power at the call of that number, and judges what a restart finds.
pub(super) fn lose_power<A: Concurrent>(random: &mut Random) -> Result<(), String> {
    let (mut disk, ledger) = (SimulatedDisk::default(), Ledger::default());
    for _ in 0..3 {
        disk.fail_at(disk.calls() + 1 + random.below(400) as u64, Fault::PowerLoss);
        if let Ok((bank, _)) = open::<A>(&disk) {
            judge(&bank, &ledger).or_else(|wrong| match bank.failure() {
                Some(_) => Ok(()), // the power is gone
                None => Err(wrong),
            })?;
            day(&bank, &ledger, u64::MAX, 1);
        }
        disk = after_power_loss(&disk, random);
        let (bank, _) = open::<A>(&disk).map_err(|error| error.to_string())?;
        judge(&bank, &ledger)?;
    }
    Ok(())
}

/// Fails one call, goes on, and loses power later.
pub(super) fn fail_a_call<A: Concurrent>(random: &mut Random) -> Result<(), String> {
    let (mut disk, ledger) = (SimulatedDisk::default(), Ledger::default());
    for _ in 0..2 {
        let (bank, _) = open::<A>(&disk).map_err(|error| error.to_string())?;
        let fault = [Fault::DISK_FULL, Fault::IO][random.below(2)];
        disk.fail_at(disk.calls() + 1 + random.below(300) as u64, fault);
        day(&bank, &ledger, 6, u64::MAX);
        while bank.failure().is_some() && bank.checkpoint().is_err() {}
        judge(&bank, &ledger)?;
        drop(bank);
        disk = after_power_loss(&disk, random);
        let (bank, _) = open::<A>(&disk).map_err(|error| error.to_string())?;
        judge(&bank, &ledger)?;
    }
    Ok(())
}

#[test]
fn lost_power_takes_nothing_acknowledged_and_no_transaction_in_part() {
    fn body<A: Concurrent>(random: &mut Random) {
        for round in 0..rounds() {
            lose_power::<A>(random).unwrap_or_else(|wrong| panic!("round {round}: {wrong}"));
        }
    }
    let _watchdog = stillframe_peers::Watchdog::start();
    for_all!(body, &mut Random::new("lost power"));
}

#[test]
fn a_failed_call_stops_commits_until_a_checkpoint_has_begun_another_log() {
    fn body<A: Concurrent>(random: &mut Random) {
        for round in 0..rounds() {
            fail_a_call::<A>(random).unwrap_or_else(|wrong| panic!("round {round}: {wrong}"));
        }
    }
    let _watchdog = stillframe_peers::Watchdog::start();
    for_all!(body, &mut Random::new("failed call"));
}

/// One after the other, so that each call is met.
/// What `body` returns, unless it panics.
fn caught<T>(body: impl FnOnce() -> Option<T>) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).ok().flatten()
}

#[test]
fn each_call_may_fail() {
    let _watchdog = stillframe_peers::Watchdog::start();
    fn run<A: Concurrent>(fails: Option<(u64, Fault)>) -> u64 {
        let (disk, ledger) = (SimulatedDisk::default(), Ledger::default());
        if let Some((call, fault)) = fails {
            disk.fail_at(call, fault);
        }
        let opened = caught(|| open::<A>(&disk).ok());
        let opened = opened.map_or_else(|| open::<A>(&disk), Ok); // the fault is over
        let (bank, _) = opened.expect("nothing was lost by trying");
        for n in 1..6 {
            let mut worker = bank.worker().expect("it is alone");
            ledger.tried[0].store(n, Ordering::Relaxed);
            if transact(&mut worker, 0, n).is_err() {
                let refused = last(&mut worker, 0).expect_err("nothing runs before a checkpoint");
                assert!(refused.to_string().contains("until a checkpoint"), "{refused}");
                bank.checkpoint().expect("the fault is over");
                let there = last(&mut worker, 0).expect("it runs again");
                assert_eq!(there, n, "memory had it");
            }
            ledger.acknowledged[0].store(n, Ordering::Relaxed);
            if n % 2 == 0 && caught(|| bank.checkpoint().ok()).is_none() {
                bank.checkpoint().expect("the fault is over");
            }
        }
        drop(bank);
        let calls = disk.calls();
        let disk = SimulatedDisk::holding(&disk.platter().lose_power(|_| false));
        let (bank, _) = open::<A>(&disk).expect("all was synced");
        judge(&bank, &ledger).unwrap_or_else(|wrong| panic!("{fails:?}: {wrong}"));
        calls
    }
    fn body<A: Concurrent>(_: &mut Random) {
        for call in 1..=run::<A>(None) {
            for fault in [Fault::DISK_FULL, Fault::IO, Fault::Panic] {
                run::<A>(Some((call, fault)));
            }
        }
    }
    for_all!(body, &mut Random::new("each call"));
}

/// What is half written goes, so that a full disk has room again; a merge that failed is tried
/// again.
#[test]
fn failed_checkpoints_leave_nothing_behind() {
    fn body<A: Concurrent>(_: &mut Random) {
        let (disk, ledger) = (SimulatedDisk::default(), Ledger::default());
        let (bank, _) = open::<A>(&disk).expect("the disk is sound");
        let mut worker = bank.worker().expect("it is alone");
        let count = || {
            let names = disk.platter().names_in("").expect("the directory");
            let of = |start: &str| names.iter().filter(|name| name.starts_with(start)).count();
            (of("log-"), of("image-") + of("merged-"))
        };
        for n in 1..60 {
            ledger.tried[0].store(n, Ordering::Relaxed);
            disk.fail_at(disk.calls() + n, Fault::DISK_FULL);
            let _ = transact(&mut worker, 0, n);
            let _ = bank.checkpoint();
            let (logs, images) = count();
            assert!(logs <= 3 && images <= 11, "{n}: {logs} logs, {images} images");
            disk.fail_at(u64::MAX, Fault::IO);
            bank.checkpoint().expect("the disk has room again");
        }
        disk.fail_at(u64::MAX, Fault::IO);
        for _ in 0..2 {
            assert!(bank.checkpoint().expect("the disk is sound").left.is_none());
        }
        let (logs, images) = count();
        assert!(logs == 1 && images <= 9, "{logs} logs, {images} images");
        drop(worker);
        judge(&bank, &ledger).expect("all that was tried was retried in memory");
    }
    for_all!(body, &mut Random::new("left"));
}
