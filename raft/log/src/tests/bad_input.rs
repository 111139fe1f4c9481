//! What others may hand a member: damaged snapshots, strange directories, broken machines.

use std::fs;

use super::*;
use crate::snapshot::Head;

fn names(disk: &SimulatedDisk) -> Vec<String> {
    disk.platter().names_in("").expect("the directory")
}

/// The whole stream of a snapshot.
async fn bytes_of(snapshot: &mut SnapshotData) -> Vec<u8> {
    let mut bytes = Vec::new();
    snapshot.seek(std::io::SeekFrom::Start(0)).await.expect("sound");
    snapshot.read_to_end(&mut bytes).await.expect("sound");
    bytes
}

/// Installs this stream in a member with the first 20 entries, and expects a refusal that leaves
/// the member as it was.
async fn refused(bytes: &[u8], sent: &Snapshot<Types>, what: &str) -> String {
    let disk = SimulatedDisk::default();
    let mut ledger = Ledger { durable: 20, applied: 20, image: 20, ..Ledger::default() };
    let error = {
        let (mut log, mut bank) = start(&disk, true).expect("it is new");
        log.blocking_append((0..20).map(committed)).await.expect("sound");
        bank.apply((0..20).map(committed)).await.expect("sound");
        build(&mut bank, &disk).await.expect("sound");
        let mut coming = bank.begin_receiving_snapshot().await.expect("sound");
        let written = coming.write_all(bytes).await;
        let written = match written {
            Ok(()) => coming.shutdown().await,
            failed => failed,
        };
        match written {
            Err(error) => error.to_string(),
            Ok(()) => {
                let installed = bank.install_snapshot(&sent.meta, coming).await;
                installed.expect_err(what).to_string()
            }
        }
    };
    let (mut log, mut bank) = start(&disk, true).expect("it is as it was");
    judge(&mut log, &mut bank, &mut ledger).await.expect(what);
    let states = names(&disk).into_iter().filter(|name| name.starts_with("state-"));
    assert_eq!(states.count(), 1, "nothing is left of it");
    error
}

#[test]
fn damaged_snapshots_are_refused_and_leave_the_member_as_it_was() {
    let mut random = Random::new("damaged snapshots");
    block_on(async {
        let mut sent = leader(40, &mut random).await;
        let bytes = bytes_of(&mut sent.snapshot).await;
        for round in 0..stillframe_peers::rounds(75, 5_000) {
            let mut changed = bytes.clone();
            let what = match random.below(4) {
                0 => {
                    changed.truncate(random.below(bytes.len()));
                    "it is cut"
                }
                1 => {
                    changed.extend_from_slice(&[0; 7][..1 + random.below(7)]);
                    "it is too long"
                }
                2 => {
                    changed[random.below(80.min(bytes.len()))] ^= 1 << random.below(8);
                    "a bit of its head is another"
                }
                _ => {
                    changed[random.below(bytes.len())] ^= 1 << random.below(8);
                    "a bit is another"
                }
            };
            let error = refused(&changed, &sent, what).await;
            assert!(!error.is_empty(), "round {round}");
        }
    });
}

#[test]
fn snapshots_of_strange_files_are_refused() {
    let mut random = Random::new("strange files");
    block_on(async {
        let sent = leader(40, &mut random).await;
        let id = sent.meta.snapshot_id.clone();
        let sound = stillframe_durability::checkpoint_name(1);
        let twice = vec![(sound.clone(), 0), (sound, 0)];
        let one = |name: &str| vec![(name.to_owned(), 0)];
        for files in [one("../raft"), one("lock"), one(""), one("checkpoint-1"), twice, Vec::new()]
        {
            let head = Head { id: id.clone(), files };
            let bytes = head.encode().expect("it is short");
            println!("{}", refused(&bytes, &sent, "no state is of such files").await);
        }
        let head = Head { id, files: one(&stillframe_durability::checkpoint_name(u64::MAX - 1)) };
        let mut large = head.clone();
        large.files[0].1 = 1 << 61;
        println!(
            "{}",
            refused(&large.encode().expect("short"), &sent, "no disk is so large").await
        );
        let mut other = leader(41, &mut random).await;
        let bytes = bytes_of(&mut other.snapshot).await;
        let error = refused(&bytes, &sent, "it is another snapshot").await;
        assert!(error.contains("its files are of the snapshot"), "{error}");
    });
}

/// openraft 0.9.25 takes what is of a greater term for what comes later, whatever its index.
#[test]
fn a_snapshot_of_another_history_is_refused() {
    block_on(async {
        for last in [18, 19] {
            let disk = SimulatedDisk::default();
            let (_log, mut bank) = start(&disk, true).expect("it is new");
            let elsewhere = |index| Entry {
                log_id: LogId::new(CommittedLeaderId::new(7, 0), index),
                ..committed(index)
            };
            bank.apply((0..=last).map(elsewhere)).await.expect("it is in memory");
            let mut sent = build(&mut bank, &disk).await.expect("the disk is sound");
            let bytes = bytes_of(&mut sent.snapshot).await;
            let error = refused(&bytes, &sent, "19 was applied in another term").await;
            assert!(error.contains("two entries of one index"), "{error}");
        }
    });
}

#[test]
fn a_snapshot_that_says_another_index_is_refused() {
    let mut random = Random::new("another index");
    block_on(async {
        for wrong in [383, 38, 40] {
            let mut sent = leader(40, &mut random).await;
            let bytes = bytes_of(&mut sent.snapshot).await;
            sent.meta.last_log_id = Some(id(wrong));
            let error = refused(&bytes, &sent, "it holds entries up to 39").await;
            assert!(error.contains("is not what it says"), "{error}");
        }
    });
}

#[test]
fn strange_directories_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().join("member");
    let start = || open::<Types, WordState<Chain>>(&at, options(false));
    let refusal = || start().err().map(|error| error.to_string()).unwrap_or_default();
    fs::create_dir(&at).expect("a directory");
    fs::write(at.join("precious"), "text").expect("a file");
    assert!(refusal().contains("holds precious, which is no file of a raft member"));
    fs::remove_file(at.join("precious")).expect("it is there");

    let first = start().expect("it is new");
    assert!(refusal().contains("in use"), "{}", refusal());
    drop(first);
    let text = fs::read_to_string(at.join("raft")).expect("the manifest");
    fs::write(at.join("raft"), text.replace("state 1", "state 2")).expect("a file");
    assert!(refusal().contains("its sum is wrong"), "{}", refusal());
    fs::write(at.join("raft"), &text).expect("a file");
    drop(start().expect("it is as it was"));

    fs::rename(at.join("log"), folder.path().join("elsewhere")).expect("it is there");
    fs::create_dir(at.join("log")).expect("a directory");
    assert!(
        refusal().contains("a node that has lost its vote")
            || refusal().contains("the log is missing"),
        "{}",
        refusal()
    );
}

#[test]
fn a_state_behind_its_log_is_refused() {
    let disk = SimulatedDisk::default();
    block_on(async {
        let (mut log, mut bank) = start(&disk, false).expect("it is new");
        log.blocking_append((0..20).map(committed)).await.expect("sound");
        bank.apply((0..20).map(committed)).await.expect("sound");
        log.purge(id(9)).await.expect("sound"); // openraft does so behind an image alone
        log.save_vote(&Vote::new(1, 1)).await.expect("sound");
    });
    let error = start(&disk, false).expect_err("entries are lost").to_string();
    assert!(error.contains("the state has entries up to none"), "{error}");
}

#[test]
fn a_vote_that_is_prepared_is_given_without_a_sync_and_no_later_one_is_lost() {
    let disk = SimulatedDisk::default();
    let read = |disk: &SimulatedDisk| {
        let (mut log, _) = start(disk, false).expect("it is whole");
        block_on(async move { log.read_vote().await.expect("sound") })
    };
    block_on(async {
        let (mut log, _) = start(&disk, false).expect("it is new");
        log.save_vote(&Vote::new(4, 1)).await.expect("sound");
        log.prepare_vote(Vote::new(3, 2)).await.expect("sound");
        assert_eq!(log.read_vote().await.expect("sound"), Some(Vote::new(4, 1)));
        log.prepare_vote(Vote::new(5, 2)).await.expect("sound");
        let records = log.stats().records;
        log.save_vote(&Vote::new(5, 2)).await.expect("sound");
        assert_eq!(log.stats().records, records, "it is durable already");
        // Another is given in its place.
        log.prepare_vote(Vote::new(6, 2)).await.expect("sound");
        log.save_vote(&Vote::new(5, 3)).await.expect("sound");
        log.save_vote(&Vote::new(6, 2)).await.expect("sound");
        assert_eq!(log.stats().records, records + 3);
    });
    assert_eq!(read(&disk), Some(Vote::new(6, 2)));
}

/// A machine that panics at 13.
struct Fragile;

impl Machine for Fragile {
    type Command = u64;
    type Reply = u64;
    fn open(_: &mut Words<'_>) -> Self {
        Self
    }
    fn apply(&mut self, words: &mut Words<'_>, command: u64) -> u64 {
        words.write(0, command);
        assert_ne!(command, 13, "a machine may have defects");
        command
    }
}

#[test]
fn a_panic_of_the_machine_ends_its_images() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = stillframe_durability::Options::words(8);
    let entry = |index, command| Entry::<Types> {
        log_id: id(index),
        payload: EntryPayload::Normal(command),
    };
    let (_log, bank) =
        open::<Types, WordState<Fragile>>(folder.path(), Options::state(state)).expect("it is new");
    let (mut theirs, mut ours) = (bank.clone(), bank);
    block_on(ours.apply([entry(0, 5)])).expect("sound");
    let panics = std::thread::spawn(move || block_on(theirs.apply([entry(1, 13)])));
    panics.join().expect_err("it panicked");
    let error =
        block_on(ours.apply([entry(2, 6)])).expect_err("half an entry is in it").to_string();
    assert!(error.contains("an entry was applied in part"), "{error}");
    block_on(async {
        let mut builder = ours.get_snapshot_builder().await;
        let built = tokio::time::timeout(Duration::from_millis(300), builder.build_snapshot());
        built.await.expect_err("no image of it, however long one waits");
    });
}
