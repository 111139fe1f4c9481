//! SIGKILL at random moments while two threads commit and a third takes checkpoints, for every
//! algorithm: what was acknowledged is there, and no transaction in part.
//!
//! This program runs itself: the child opens the directory and writes each acknowledgement to its
//! standard output, until it is killed; then the parent opens the directory.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use stillframe_peers::Random;
use stillframe_transactions::algorithms::{ALL, Visitor, with};
use stillframe_transactions::log::{Durable, Options};
use stillframe_transactions::{Completeness, Concurrent, Settings, Stop};

const ACCOUNTS: usize = 1_000;
const CLERKS: usize = 2;
const TEST: &str = "a_killed_bank_has_all_that_it_acknowledged";
/// The job of the program when it runs itself: name of the algorithm, then the directory.
const JOB: [&str; 2] = ["STILLFRAME_BANK_ALGORITHM", "STILLFRAME_BANK_DIRECTORY"];
/// Before each acknowledgement, so that none is taken for what the test harness prints.
const MARK: &[u8; 8] = b"\0commit\0";

fn open<A: Concurrent>(directory: &Path) -> Durable<A> {
    // Behind the accounts, how often each clerk has committed.
    let settings = Settings::new(ACCOUNTS + CLERKS, 1).workers(CLERKS + 1);
    Durable::open(directory, settings, Options::default()).expect("a sound directory").0
}

/// Commits for ever.
struct Child<'a>(&'a Path);

impl Visitor for Child<'_> {
    type Output = ();
    fn visit<A: Concurrent>(self) {
        let bank = open::<A>(self.0);
        std::thread::scope(|scope| {
            for clerk in 0..CLERKS {
                let bank = &bank;
                scope.spawn(move || {
                    let mut worker = bank.worker().expect("one for each clerk");
                    let mut random =
                        Random::with_seed(u64::from(std::process::id()) ^ clerk as u64);
                    loop {
                        let [from, to] = [random.below(ACCOUNTS), random.below(ACCOUNTS)];
                        let count = worker.run(|tx| {
                            tx.update(from, 0, |have| have.wrapping_sub(1))?;
                            tx.update(to, 0, |have| have.wrapping_add(1))?;
                            let count = tx.read(ACCOUNTS + clerk, 0)? + 1;
                            tx.write(ACCOUNTS + clerk, 0, count)?;
                            Ok::<_, Stop<()>>(count)
                        });
                        let count = count.expect("the disk is sound");
                        let mut told = [0; 24];
                        told[..8].copy_from_slice(MARK);
                        told[8..16].copy_from_slice(&(clerk as u64).to_le_bytes());
                        told[16..].copy_from_slice(&count.to_le_bytes());
                        // One write below the size of a page is whole in a pipe.
                        std::io::stdout().write_all(&told).expect("the parent listens");
                        std::io::stdout().flush().expect("the parent listens");
                    }
                });
            }
            loop {
                bank.checkpoint().expect("the disk is sound");
            }
        });
    }
}

/// Judges the state that is found, and returns the number of each clerk's commits.
struct Parent<'a>(&'a Path, [u64; CLERKS]);

impl Visitor for Parent<'_> {
    type Output = [u64; CLERKS];
    fn visit<A: Concurrent>(self) -> [u64; CLERKS] {
        let Self(directory, acknowledged) = self;
        let bank = open::<A>(directory);
        let mut worker = bank.worker().expect("it is alone");
        let (sum, counts) = worker
            .run(|tx| {
                let mut sum = 0_u64;
                for account in 0..ACCOUNTS {
                    sum = sum.wrapping_add(tx.read(account, 0)?);
                }
                let mut counts = [0; CLERKS];
                for (clerk, count) in counts.iter_mut().enumerate() {
                    *count = tx.read(ACCOUNTS + clerk, 0)?;
                }
                Ok::<_, Stop<()>>((sum, counts))
            })
            .expect("the log is sound");
        assert_eq!(sum, 0, "no money came or went");
        for (count, least) in counts.into_iter().zip(acknowledged) {
            // One more may have been committed and not told.
            assert!((least..=least + 1).contains(&count), "{count} where {least} were told");
        }
        counts
    }
}

#[test]
fn a_killed_bank_has_all_that_it_acknowledged() {
    if let [Some(algorithm), Some(directory)] = JOB.map(std::env::var_os) {
        let algorithm = algorithm.into_string().expect("a plain name");
        return with(&algorithm, Child(&PathBuf::from(directory))).expect("in the registry");
    }
    let _watchdog = stillframe_peers::Watchdog::start();
    let mut random = Random::new(TEST);
    for info in ALL.iter().filter(|info| info.image != Completeness::Nothing) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().to_str().expect("a plain name");
        let mut acknowledged = [0; CLERKS];
        for round in 0..stillframe_peers::rounds(3, 34) {
            let mut child = Command::new(std::env::current_exe().expect("a path"))
                .args(["--exact", TEST, "--nocapture"])
                .envs(JOB.into_iter().zip([info.name, path]))
                .stdout(Stdio::piped())
                .spawn()
                .expect("this program");
            let mut stdout = child.stdout.take().expect("it is piped");
            let mut told = Vec::new();
            // Every other kill comes when something was told, however busy the machine.
            let is_told = |told: &[u8]| told.windows(MARK.len()).any(|bytes| bytes == MARK);
            while round % 2 == 0 && !is_told(&told) {
                let mut piece = [0; 4096];
                let read = stdout.read(&mut piece).expect("a pipe");
                assert!(read > 0, "it ended: {}", String::from_utf8_lossy(&told));
                told.extend_from_slice(&piece[..read]);
            }
            let reader = std::thread::spawn(move || stdout.read_to_end(&mut told).map(|_| told));
            std::thread::sleep(Duration::from_millis(20 + random.below(150) as u64));
            child.kill().expect("it is ours");
            let status = child.wait().expect("it is dead");
            let told = reader.join().expect("no panic").expect("a pipe");
            assert_eq!(status.signal(), Some(9), "{}", String::from_utf8_lossy(&told));
            let mut rest = &told[..];
            while let Some(at) = rest.windows(MARK.len()).position(|bytes| bytes == MARK) {
                let Some((told, behind)) = rest[at + MARK.len()..].split_at_checked(16) else {
                    break;
                };
                let number =
                    |at: usize| u64::from_le_bytes(told[at..at + 8].try_into().expect("8"));
                acknowledged[number(0) as usize] = number(8);
                rest = behind;
            }
            // What was found is there for ever, told or not.
            let parent = Parent(directory.path(), acknowledged);
            acknowledged = with(info.name, parent).expect("in the registry");
        }
        println!("{}: {acknowledged:?} acknowledged", info.name);
    }
}
