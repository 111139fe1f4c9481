//! A member of a group, driven as openraft drives it, against what was committed.

mod bad_input;
mod crashes;
mod full;
mod group;
mod mutants;
mod suite;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use openraft::storage::{
    RaftLogReader, RaftLogStorage, RaftLogStorageExt, RaftSnapshotBuilder, RaftStateMachine,
    Snapshot,
};
use openraft::{
    BasicNode, CommittedLeaderId, Entry, EntryPayload, LogId, Membership, StorageError, Vote,
};
use stillframe_durability::disk::{Location, SimulatedDisk};
use stillframe_durability::{Increments, LogOptions, Policy};
use stillframe_peers::Random;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

use crate::{
    Error, LogStore, Machine, Options, SnapshotData, StateMachine, WordState, Words, open,
};

openraft::declare_raft_types!(
    pub(crate) Types: D = u64, R = u64, Node = BasicNode, SnapshotData = SnapshotData
);

/// Words of the machine.
const WORDS: usize = 600;

/// Counts commands, and chains them so that the order shows.
pub(crate) struct Chain;

impl Machine for Chain {
    type Command = u64;
    type Reply = u64;
    fn open(_: &mut Words<'_>) -> Self {
        Self
    }
    fn apply(&mut self, words: &mut Words<'_>, command: u64) -> u64 {
        let (count, sum, place) = step(words.read(0), words.read(1), command);
        words.write(0, count);
        words.write(1, sum);
        words.write(place, words.read(place).wrapping_add(command));
        count
    }
}

/// Count and sum after a command, and the word that it adds itself to.
fn step(count: u64, sum: u64, command: u64) -> (u64, u64, usize) {
    let sum = (sum.rotate_left(7) ^ command).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (count + 1, sum, 2 + (command % (WORDS as u64 - 2)) as usize)
}

type Log = LogStore<Types>;
type Bank = StateMachine<Types, WordState<Chain>>;

fn options(increments: bool) -> Options<WordState<Chain>> {
    let state = stillframe_durability::Options::words(WORDS).load_threads(1);
    let state = if increments { state.increments(Increments::at_most(2)) } else { state };
    // Segments of some twenty records, so that there are several.
    Options::state(state).log(LogOptions::policy(Policy::Always).segment_bytes(1_000))
}

fn location(disk: &SimulatedDisk) -> Location {
    Location::on("simulated", Arc::new(disk.clone()))
}

fn start(disk: &SimulatedDisk, increments: bool) -> Result<(Log, Bank), Error> {
    open(location(disk), options(increments))
}

fn id(index: u64) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(1 + index / 16, 0), index)
}

/// What the group commits at this index.
fn committed(index: u64) -> Entry<Types> {
    let payload = match index % 11 {
        0 => EntryPayload::Membership(membership(index)),
        5 => EntryPayload::Blank,
        _ => EntryPayload::Normal(Random::with_seed(index).next()),
    };
    Entry { log_id: id(index), payload }
}

fn membership(index: u64) -> Membership<u64, BasicNode> {
    Membership::new(vec![BTreeSet::from([index, index + 1])], None)
}

/// The words of the machine when the entries below `end` are applied.
fn words_after(end: u64) -> Vec<u64> {
    let mut words = vec![0; WORDS];
    for index in 0..end {
        if let EntryPayload::Normal(command) = committed(index).payload {
            let (count, sum, place) = step(words[0], words[1], command);
            (words[0], words[1]) = (count, sum);
            words[place] = words[place].wrapping_add(command);
        }
    }
    words
}

/// The index behind the last entry.
fn end_of(id: Option<LogId<u64>>) -> u64 {
    id.map_or(0, |id| id.index + 1)
}

/// What was asked of a member, and what it has acknowledged.
#[derive(Debug, Default, Clone)]
struct Ledger {
    vote: [u64; 2],
    /// Entries below are durable.
    durable: u64,
    /// An image with the entries below is durable; the log below may be purged.
    image: u64,
    purged: u64,
    /// Entries below were asked to be applied.
    applied: u64,
    /// The disk of this life.
    disk: SimulatedDisk,
}

/// Runs `what` on a runtime of one thread.
fn block_on<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(what)
}

/// Says what is wrong with a member, if anything is, and notes what is certain now.
async fn judge(log: &mut Log, bank: &mut Bank, ledger: &mut Ledger) -> Result<(), String> {
    let text = |error: StorageError<u64>| error.to_string();
    let vote = log.read_vote().await.map_err(text)?.map_or(0, |vote| vote.leader_id.term);
    if !(ledger.vote[0]..=ledger.vote[1]).contains(&vote) {
        return Err(format!("the vote is {vote}, not of {:?}", ledger.vote));
    }
    let state = log.get_log_state().await.map_err(text)?;
    let (purged, end) = (end_of(state.last_purged_log_id), end_of(state.last_log_id));
    let entries = log.try_get_log_entries(..).await.map_err(text)?;
    if entries.len() as u64 != end - purged {
        return Err(format!("{} entries from {purged} to {end}", entries.len()));
    }
    let (applied, found) = bank.applied_state().await.map_err(text)?;
    let applied = end_of(applied);
    if purged > ledger.purged || end.max(applied) < ledger.durable {
        return Err(format!("entries {purged}..{end}: {ledger:?}"));
    }
    for (index, entry) in (purged..).zip(&entries) {
        let (found, wanted) = (format!("{entry:?}"), format!("{:?}", committed(index)));
        if entry.log_id.index != index || index < ledger.durable && found != wanted {
            return Err(format!("{found} in the place of {wanted}"));
        }
    }
    if applied < ledger.image.max(purged) || applied > ledger.applied {
        return Err(format!("applied below {applied}: {ledger:?}"));
    }
    let words = bank.read(|bank| (0..WORDS).map(|at| bank.read(at)).collect::<Vec<_>>());
    if words.map_err(|error| error.to_string())? != words_after(applied) {
        return Err(format!("the words are not those of the entries below {applied}"));
    }
    let last = (0..applied).rev().find(|index| index % 11 == 0);
    if found.log_id().map(|id| id.index) != last
        || last.is_some_and(|last| found.membership() != &membership(last))
    {
        return Err(format!("the membership below {applied} is {found:?}"));
    }
    if end < applied {
        // As openraft does if a snapshot was installed and the log not yet purged.
        ledger.purged = ledger.purged.max(applied);
        log.purge(id(applied - 1)).await.map_err(text)?;
    }
    // What is not certain is dropped, as the next leader would have it.
    log.truncate(id(ledger.durable.max(purged))).await.map_err(text)?;
    ledger.vote = [vote; 2];
    Ok(())
}

/// A member with the entries below `end` applied, whose newest image has them.
async fn leader(end: u64, random: &mut Random) -> Snapshot<Types> {
    let disk = SimulatedDisk::default();
    let (_log, mut bank) = start(&disk, true).expect("the disk is sound");
    let first = random.below(end as usize) as u64;
    bank.apply((0..first).map(committed)).await.expect("it is in memory");
    if random.below(2) == 0 {
        build(&mut bank, &disk).await.expect("the disk is sound");
    }
    bank.apply((first..end).map(committed)).await.expect("it is in memory");
    build(&mut bank, &disk).await.expect("the disk is sound")
}

/// Builds a snapshot; a member whose disk is off tries for ever.
async fn build(bank: &mut Bank, disk: &SimulatedDisk) -> Result<Snapshot<Types>, String> {
    let mut builder = bank.get_snapshot_builder().await;
    waited(&mut builder, disk).await
}

async fn waited(
    builder: &mut impl RaftSnapshotBuilder<Types>,
    disk: &SimulatedDisk,
) -> Result<Snapshot<Types>, String> {
    let mut built = std::pin::pin!(builder.build_snapshot());
    loop {
        match tokio::time::timeout(Duration::from_millis(100), &mut built).await {
            Ok(built) => return built.map_err(|error| error.to_string()),
            Err(_) if disk.has_failed() => return Err("no image".into()),
            Err(_) => {}
        }
    }
}

/// Sends a snapshot in chunks, some of them twice.
async fn send(
    from: &mut SnapshotData,
    to: &mut SnapshotData,
    random: &mut Random,
) -> std::io::Result<()> {
    let end = from.seek(std::io::SeekFrom::End(0)).await?;
    let mut at = 0;
    while at < end {
        from.seek(std::io::SeekFrom::Start(at)).await?;
        let mut chunk = vec![0; (1 + random.below(60_000)).min((end - at) as usize)];
        from.read_exact(&mut chunk).await?;
        for _ in 0..1 + random.below(4) / 3 {
            to.seek(std::io::SeekFrom::Start(at)).await?;
            to.write_all(&chunk).await?;
        }
        at += chunk.len() as u64;
    }
    to.shutdown().await
}

/// One thing that openraft may ask of a member.
async fn ask(
    log: &mut Log,
    bank: &mut Bank,
    ledger: &mut Ledger,
    random: &mut Random,
) -> Result<(), String> {
    let text = |error: StorageError<u64>| error.to_string();
    let here = end_of(bank.applied_state().await.map_err(text)?.0);
    match random.below(16) {
        0..=4 => {
            let end = ledger.durable + 1 + random.below(5) as u64;
            log.blocking_append((ledger.durable..end).map(committed)).await.map_err(text)?;
            ledger.durable = end;
        }
        5 => {
            // What another leader wrote and never committed.
            let lost = |index| Entry {
                log_id: LogId::new(CommittedLeaderId::new(999, 1), index),
                payload: EntryPayload::Blank,
            };
            let from = ledger.durable;
            log.blocking_append((from..from + 1 + random.below(3) as u64).map(lost))
                .await
                .map_err(text)?;
            log.truncate(id(from)).await.map_err(text)?;
            if random.below(3) == 0 {
                // As openraft does if they conflict with a snapshot.
                install(log, bank, ledger, random, here).await?;
            }
        }
        6 => {
            ledger.vote[1] += 1;
            log.save_vote(&Vote::new(ledger.vote[1], 0)).await.map_err(text)?;
            ledger.vote[0] = ledger.vote[1];
        }
        7 => log
            .save_committed(Some(id(ledger.durable)).filter(|_| ledger.durable > 0))
            .await
            .map_err(text)?,
        8..=10 => {
            let end = (here + random.below(8) as u64).min(ledger.durable);
            ledger.applied = ledger.applied.max(end);
            if end > here {
                bank.apply((here..end).map(committed)).await.map_err(text)?;
            }
        }
        11 | 12 if here > 0 => image(bank, ledger, here).await?,
        13 if ledger.image > 0 => {
            let upto = random.below(ledger.image as usize) as u64;
            let state = log.get_log_state().await.map_err(text)?;
            if upto + 1 > end_of(state.last_purged_log_id) {
                ledger.purged = ledger.purged.max(upto + 1);
                log.purge(id(upto)).await.map_err(text)?;
            }
        }
        14 => install(log, bank, ledger, random, here).await?,
        _ => {}
    }
    Ok(())
}

/// An image of the entries below `here`, while further ones are applied.
async fn image(bank: &mut Bank, ledger: &mut Ledger, here: u64) -> Result<(), String> {
    let text = |error: StorageError<u64>| error.to_string();
    let mut builder = bank.get_snapshot_builder().await;
    if ledger.durable > here {
        ledger.applied = ledger.applied.max(here + 1);
        bank.apply([committed(here)]).await.map_err(text)?;
    }
    let built = waited(&mut builder, &ledger.disk).await?;
    // After a failure it is the one before.
    let end = end_of(built.meta.last_log_id);
    if end > here || end < ledger.image {
        return Err(format!("WRONG: an image of {here} is labelled {:?}", built.meta));
    }
    ledger.image = end;
    Ok(())
}

/// A snapshot of a leader that is ahead.
async fn install(
    log: &mut Log,
    bank: &mut Bank,
    ledger: &mut Ledger,
    random: &mut Random,
    here: u64,
) -> Result<(), String> {
    let text = |error: StorageError<u64>| error.to_string();
    let end = ledger.durable.max(here) + 1 + random.below(20) as u64;
    let mut sent = leader(end, random).await;
    let mut coming = bank.begin_receiving_snapshot().await.map_err(text)?;
    let done = send(&mut sent.snapshot, &mut coming, random).await;
    done.map_err(|error| error.to_string())?;
    (ledger.applied, ledger.purged) = (ledger.applied.max(end), ledger.purged.max(end));
    // openraft has both done at once.
    let purges_first = random.below(2) == 0;
    if purges_first {
        log.purge(id(end - 1)).await.map_err(text)?;
    }
    bank.install_snapshot(&sent.meta, coming).await.map_err(text)?;
    (ledger.image, ledger.durable) = (end, end);
    if !purges_first {
        log.purge(id(end - 1)).await.map_err(text)?;
    }
    Ok(())
}
