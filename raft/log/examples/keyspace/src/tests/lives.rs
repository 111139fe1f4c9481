//! Lives of a member that takes images and installs those of others, each ended by a loss of power
//! or a failing call; and the mistakes that they must find.

use std::time::Duration;

use stillframe_durability::disk::Fault;

use super::*;
use crate::mutant::{Mutant, with_mutant};

/// Entries that are in a durable image, and those that were applied at most.
#[derive(Debug, Clone, Copy, Default)]
struct Ledger {
    image: u64,
    applied: u64,
}

fn judge(machine: &mut Machine, ledger: Ledger) -> Result<u64, String> {
    let applied = block_on(machine.applied_state()).map_err(|error| error.to_string())?.0;
    let applied = end_of(applied);
    if !(ledger.image..=ledger.applied).contains(&applied) {
        return Err(format!("applied below {applied}: {ledger:?}"));
    }
    match digest(machine) == history()[applied as usize].0 {
        true => Ok(applied),
        false => Err(format!("the keys are not those of the entries below {applied}")),
    }
}

async fn image(machine: &mut Machine, disk: &SimulatedDisk) -> Result<Snapshot<Types>, String> {
    let mut builder = machine.get_snapshot_builder().await;
    let here = end_of(machine.applied_state().await.map_err(|error| error.to_string())?.0);
    if here < ENTRIES && machine.apply([committed(here)]).await.is_err() {
        return Err("no entry".into());
    }
    let mut built = std::pin::pin!(builder.build_snapshot());
    loop {
        match tokio::time::timeout(Duration::from_millis(50), &mut built).await {
            Ok(built) => return built.map_err(|error| error.to_string()),
            Err(_) if disk.has_failed() => return Err("no image".into()),
            Err(_) => {}
        }
    }
}

/// A member of the group that is further.
async fn leader(end: u64) -> Snapshot<Types> {
    let disk = SimulatedDisk::default();
    let (_log, mut machine) = start(&disk).expect("it is new");
    machine.apply((0..end).map(committed)).await.expect("it is in memory");
    image(&mut machine, &disk).await.expect("a sound disk")
}

async fn step(
    machine: &mut Machine,
    disk: &SimulatedDisk,
    ledger: &mut Ledger,
    random: &mut Random,
) -> Result<(), String> {
    let text = |error: StorageError<u64>| error.to_string();
    let here = end_of(machine.applied_state().await.map_err(text)?.0);
    match random.below(8) {
        0..=3 => {
            let end = (here + 1 + random.below(12) as u64).min(ENTRIES);
            ledger.applied = ledger.applied.max(end);
            for index in here..end {
                let replies = machine.apply([committed(index)]).await.map_err(text)?;
                let wanted = &history()[index as usize + 1].1;
                // Replies that go by places may differ, and only the leader's is ever sent.
                let is_refused = |reply: &[u8]| reply.first() == Some(&b'-');
                if is_refused(&replies[0]) != is_refused(wanted) {
                    return Err(format!("WRONG: entry {index} is answered by another"));
                }
            }
        }
        4..=6 => {
            ledger.applied = ledger.applied.max((here + 1).min(ENTRIES));
            let built = image(machine, disk).await?;
            let end = end_of(built.meta.last_log_id);
            if end > here || end < ledger.image {
                return Err(format!("WRONG: an image of {here} is labelled {:?}", built.meta));
            }
            ledger.image = end;
        }
        _ => {
            let end = (here + 1 + random.below(30) as u64).min(ENTRIES);
            let mut sent = leader(end).await;
            let mut coming = machine.begin_receiving_snapshot().await.map_err(text)?;
            let done = send(&mut sent.snapshot, &mut coming, random).await;
            done.map_err(|error| error.to_string())?;
            ledger.applied = ledger.applied.max(end);
            machine.install_snapshot(&sent.meta, coming).await.map_err(text)?;
            ledger.image = end;
        }
    }
    Ok(())
}

/// One life, until a call fails or so many steps were made.
fn live(
    disk: &SimulatedDisk,
    ledger: &mut Ledger,
    random: &mut Random,
    steps: usize,
) -> Result<(), String> {
    let Ok((_log, mut machine)) = start(disk) else {
        return if disk.has_failed() { Ok(()) } else { Err("it does not start".into()) };
    };
    if let Err(wrong) = judge(&mut machine, *ledger)
        && !disk.has_failed()
    {
        return Err(wrong);
    }
    block_on(async {
        for _ in 0..steps {
            match step(&mut machine, disk, ledger, random).await {
                Err(wrong) if wrong.starts_with("WRONG") || !disk.has_failed() => {
                    return Err(wrong);
                }
                Err(_) => return Ok(()),
                Ok(()) => {}
            }
        }
        Ok(())
    })?;
    if disk.has_failed() { Ok(()) } else { judge(&mut machine, *ledger).map(drop) }
}

fn lives(random: &mut Random, lives: usize) -> Result<(), String> {
    let (mut disk, mut ledger) = (SimulatedDisk::default().with_pieces(3_000), Ledger::default());
    for _ in 0..lives {
        disk.fail_at(disk.calls() + 1 + random.below(300) as u64, Fault::PowerLoss);
        live(&disk, &mut ledger, random, 12)?;
        let (seed, most) = (random.next(), random.below(5) as u64);
        let kept = |piece: u64| Random::with_seed(seed ^ piece).next() % 4 < most;
        disk = SimulatedDisk::holding(&disk.platter().lose_power(kept)).with_pieces(3_000);
        let (_log, mut machine) = start(&disk).map_err(|error| error.to_string())?;
        ledger.applied = judge(&mut machine, ledger)?;
    }
    Ok(())
}

/// Lives in which one call fails, which openraft would end then.
fn failures(random: &mut Random, lives: usize) -> Result<(), String> {
    let (disk, mut ledger) = (SimulatedDisk::default().with_pieces(3_000), Ledger::default());
    for _ in 0..lives {
        let fault = random.pick(&[Fault::DISK_FULL, Fault::IO]);
        disk.fail_at(disk.calls() + 1 + random.below(300) as u64, fault);
        live(&disk, &mut ledger, random, 12)?;
        disk.fail_at(u64::MAX, Fault::IO);
        let (_log, mut machine) = start(&disk).map_err(|error| error.to_string())?;
        ledger.applied = judge(&mut machine, ledger).map_err(|it| format!("{fault:?}: {it}"))?;
    }
    Ok(())
}

#[test]
fn lost_power_leaves_a_state_that_was() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let mut random = Random::new("lost power");
    history();
    for round in 0..stillframe_peers::rounds(25, 5_000) {
        lives(&mut random, 4).unwrap_or_else(|wrong| panic!("round {round}: {wrong}"));
        failures(&mut random, 2).unwrap_or_else(|wrong| panic!("round {round}: {wrong}"));
    }
}

#[test]
fn mistakes_are_rejected() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let mut random = Random::new("mutants");
    history();
    for &mutant in Mutant::ALL {
        let found = (0..2_000).find_map(|_| with_mutant(mutant, || lives(&mut random, 4).err()));
        println!("{mutant:?}: {}", found.unwrap_or_else(|| panic!("{mutant:?} was not found")));
    }
}
