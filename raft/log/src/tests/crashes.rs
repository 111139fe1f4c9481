//! Lost power and failing calls.

use stillframe_durability::disk::Fault;

use super::*;

/// Large enough for files that go in pieces to be no rarity, and for others not to.
const PIECE: u64 = 5_000;

fn sound() -> SimulatedDisk {
    SimulatedDisk::default().with_pieces(PIECE)
}

fn after_power_loss(disk: &SimulatedDisk, random: &mut Random) -> SimulatedDisk {
    let (seed, most) = (random.next(), random.below(5) as u64);
    let kept = |piece: u64| Random::with_seed(seed ^ piece).next() % 4 < most;
    SimulatedDisk::holding(&disk.platter().lose_power(kept)).with_pieces(PIECE)
}

/// Lives of a member, each ended by a loss of power; says what a start finds wrong.
pub(super) fn lives(random: &mut Random, lives: usize, calls: usize) -> Result<(), String> {
    let increments = random.below(2) == 0;
    let (mut disk, mut ledger) = (sound(), Ledger::default());
    for _ in 0..lives {
        disk.fail_at(disk.calls() + 1 + random.below(calls) as u64, Fault::PowerLoss);
        live(&disk, increments, &mut ledger, random, 80)?;
        disk = after_power_loss(&disk, random);
        recovers(&disk, increments, &mut ledger)?;
    }
    Ok(())
}

/// Asks things of a member until a call fails.
fn live(
    disk: &SimulatedDisk,
    increments: bool,
    ledger: &mut Ledger,
    random: &mut Random,
    most: usize,
) -> Result<(), String> {
    ledger.disk = disk.clone();
    let Ok((mut log, mut bank)) = start(disk, increments) else {
        return if disk.has_failed() { Ok(()) } else { Err("it does not start".into()) };
    };
    block_on(async {
        match judge(&mut log, &mut bank, ledger).await {
            Err(_) if disk.has_failed() => return Ok(()),
            judged => judged?,
        }
        for _ in 0..most {
            match ask(&mut log, &mut bank, ledger, random).await {
                Err(wrong) if wrong.starts_with("WRONG") => return Err(wrong),
                Err(_) if disk.has_failed() => return Ok(()),
                asked => asked?,
            }
        }
        Ok(())
    })
}

fn recovers(disk: &SimulatedDisk, increments: bool, ledger: &mut Ledger) -> Result<(), String> {
    let (mut log, mut bank) = start(disk, increments).map_err(|error| error.to_string())?;
    block_on(judge(&mut log, &mut bank, ledger))
}

#[test]
fn lost_power_takes_nothing_acknowledged() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let mut random = Random::new("lost power");
    for round in 0..stillframe_peers::rounds(50, 20_000) {
        lives(&mut random, 4, 500).unwrap_or_else(|wrong| panic!("round {round}: {wrong}"));
    }
}

/// The same life, with the power lost at each of its calls.
#[test]
fn power_may_go_at_each_call() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let seed = Random::new("each call").next();
    let mut call = 1;
    loop {
        let mut random = Random::with_seed(seed);
        let (disk, mut ledger) = (sound(), Ledger::default());
        disk.fail_at(call, Fault::PowerLoss);
        let run = live(&disk, true, &mut ledger, &mut random, 40);
        run.unwrap_or_else(|wrong| panic!("call {call}: {wrong}"));
        for most in [0, 2, 4] {
            let kept = |piece: u64| Random::with_seed(seed ^ piece).next() % 4 < most;
            let disk = SimulatedDisk::holding(&disk.platter().lose_power(kept)).with_pieces(PIECE);
            let recovered = recovers(&disk, true, &mut ledger.clone());
            recovered.unwrap_or_else(|wrong| panic!("call {call}, {most} of 4 kept: {wrong}"));
        }
        if !disk.has_failed() {
            break;
        }
        call += 1;
    }
    println!("{call} calls");
}

/// A call fails once in each life, which openraft would end then; says what a start finds wrong.
pub(super) fn fail_calls(random: &mut Random, lives: usize) -> Result<(), String> {
    let increments = random.below(2) == 0;
    let (disk, mut ledger) = (sound(), Ledger::default());
    for _ in 0..lives {
        let fault = random.pick(&[Fault::DISK_FULL, Fault::IO]);
        disk.fail_at(disk.calls() + 1 + random.below(400) as u64, fault);
        live(&disk, increments, &mut ledger, random, 80)?;
        disk.fail_at(u64::MAX, Fault::IO);
        let recovered = recovers(&disk, increments, &mut ledger);
        recovered.map_err(|wrong| format!("after {fault:?}: {wrong}"))?;
    }
    Ok(())
}

#[test]
fn a_failed_call_loses_nothing() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let mut random = Random::new("failed call");
    for round in 0..stillframe_peers::rounds(50, 20_000) {
        fail_calls(&mut random, 3).unwrap_or_else(|wrong| panic!("round {round}: {wrong}"));
    }
}
