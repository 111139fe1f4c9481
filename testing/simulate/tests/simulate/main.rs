//! Whole groups in one process, from one seed.
//!
//! **What is simulated.** A group of three or five members lives on one thread. Of each there is
//! the server of `serve`, with its commands, whose turns the simulation takes; the member of
//! `stillframe-group` on a tokio runtime of one thread; openraft; the log and its format; lanes,
//! frames and handshakes of the network; the dump. In place of the rest are:
//! - the disk: `SimulatedDisk`, with a time for each sync, and losses of power that keep some of
//!   what was not synced;
//! - the bytes between members (`network.rs`), by the seam `Carrier` of `stillframe-raft-net`;
//! - clock and chance of the machine (`machine.rs`): functions of the C library, so that no line of
//!   the product asks for another clock;
//! - clients (`client.rs`), which are beside the member that they call.
//!
//! **Why the same seed gives the same trace.** Nothing else runs: on a disk without a time of its
//! own the log has no thread, nobody waits for files on other threads, and the one thread that is
//! left, which takes an image, is waited for at a fixed place (`turn/paced.rs` of the server). A
//! run has a process of its own, since tokio seeds its choices by a count of the process.
//!
//! **What is not.** An image is taken between two turns, and not beside them: that it is right
//! while the data changes is for the tests of the library. Threads do not interleave within a turn.
//! TLS, real sockets and real files are for `proof -- faults::`.
//!
//! `STILLFRAME_SEED=N cargo test -p stillframe-simulate story -- --ignored --nocapture` tells what
//! happens; `shrink` does so without the faults that do not matter. `HOURS=N .ci/long simulate`.

mod client;
mod machine;
mod member;
mod mistaken;
mod network;
mod operator;
mod plan;
mod questions;
mod world;

use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use plan::Plan;
use world::Report;

/// The seed of this process.
fn seed() -> u64 {
    std::env::var("STILLFRAME_SEED").map_or(1, |text| text.parse().expect("STILLFRAME_SEED"))
}

/// Runs the seed of this process, without the faults whose numbers `STILLFRAME_WITHOUT` has. A test
/// of its own, since tokio seeds its choices by a count of the process.
#[test]
#[ignore = "others run it"]
fn one_run() {
    play(false);
}

#[test]
#[ignore = "for people"]
fn story() {
    play(true);
}

fn play(is_told: bool) {
    if let Ok(level) = std::env::var("STILLFRAME_LOG") {
        let to = tracing_subscriber::fmt().without_time().with_writer(std::io::stderr);
        to.with_max_level(level.parse::<tracing::Level>().expect("a level")).init();
    }
    let mut plan = Plan::draw(seed());
    if let Ok(without) = std::env::var("STILLFRAME_WITHOUT") {
        let gone: Vec<usize> = without.split(',').filter_map(|at| at.parse().ok()).collect();
        let mut at = 0;
        plan.faults.retain(|_| {
            at += 1;
            !gone.contains(&(at - 1))
        });
    }
    if is_told {
        println!("{plan:#?}");
    }
    std::panic::set_hook(Box::new(|panic| {
        // That of a task would be caught, and go unseen.
        println!("WRONG {panic}");
        std::process::exit(1);
    }));
    let report = mistaken::in_this_process(|| world::run(&plan));
    let Report { trace, wrong, story, calls, returned, bytes, terms, ms, undecided, .. } = report;
    if is_told {
        story.iter().for_each(|line| println!("{line}"));
    }
    println!(
        "seed {} trace {trace:016x} calls {calls} returned {returned} bytes {bytes} terms {terms} \
         ms {ms} undecided {undecided}",
        plan.seed
    );
    if let Some(why) = wrong {
        println!("WRONG {why}");
        // Not by a panic, whose text would come between.
        std::process::exit(1);
    }
}

/// What a process that ran a seed has printed.
struct Ran {
    seed: u64,
    is_right: bool,
    text: String,
    took: Duration,
}

impl Ran {
    fn word_behind(&self, name: &str) -> &str {
        let mut words = self.text.split_whitespace().skip_while(|word| *word != name);
        words.nth(1).unwrap_or_default()
    }
}

/// Runs a seed in a process of its own, by one of the tests above, without some of the faults.
fn run(seed: u64, test: &str, mistake: Option<&str>, gone: &[usize]) -> Ran {
    let began = Instant::now();
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    let gone: Vec<String> = gone.iter().map(usize::to_string).collect();
    command.args([test, "--exact", "--ignored", "--nocapture"]).stdin(Stdio::null());
    command.env("STILLFRAME_SEED", seed.to_string()).env("STILLFRAME_WITHOUT", gone.join(","));
    match mistake {
        Some(mistake) => command.env("STILLFRAME_MUTANT", mistake),
        None => command.env_remove("STILLFRAME_MUTANT"),
    };
    let output = command.output().expect("a process");
    let is_right = output.status.success();
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !is_right {
        text += &String::from_utf8_lossy(&output.stderr);
    }
    Ran { seed, is_right, text, took: began.elapsed() }
}

/// Runs seeds, two at a time, until `goes_on` says no; those that show something wrong.
fn run_seeds(
    mistake: Option<&str>,
    seeds: impl Iterator<Item = u64> + Send,
    goes_on: impl Fn(&[Ran]) -> bool + Sync,
) -> Vec<Ran> {
    let (seeds, began) = (Mutex::new(seeds), Instant::now());
    let totals = Mutex::new((0_u64, 0_u64, Vec::new()));
    let next = || seeds.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while goes_on(&totals.lock().unwrap_or_else(PoisonError::into_inner).2)
            && let Some(seed) = next()
        {
            let ran = run(seed, "one_run", mistake, &[]);
            let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
            totals.0 += 1;
            totals.1 += ran.word_behind("ms").parse().unwrap_or(0);
            if !ran.is_right {
                totals.2.push(ran);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let (runs, ms, wrong) = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (took, simulated) = (began.elapsed().as_secs_f64(), ms as f64 / 1000.0);
    println!("{runs} runs, {simulated:.0} s in {took:.1} s: {:.0} times as fast", simulated / took);
    wrong
}

fn must_be_right(wrong: &[Ran]) {
    for Ran { seed, took, text, .. } in wrong {
        println!("STILLFRAME_SEED={seed}, in {took:.1?}:\n{text}");
    }
    assert!(wrong.is_empty(), "{} seeds show something wrong", wrong.len());
}

#[test]
fn a_seed_gives_one_trace() {
    for seed in [1, 3, 7] {
        let [one, two] = [(); 2].map(|()| run(seed, "one_run", None, &[]));
        let trace = one.word_behind("trace").to_owned();
        assert_eq!(trace, two.word_behind("trace"), "seed {seed} gives two traces");
        assert!(!trace.is_empty(), "{}", one.text);
        assert!(one.is_right, "{}", one.text);
    }
}

#[test]
fn no_group_does_wrong_whatever_goes_wrong() {
    let first = std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs() << 16);
    let first = if std::env::var_os("STILLFRAME_SEED").is_some() { seed() } else { first };
    let runs = stillframe_peers::rounds(12, 1000) as u64;
    must_be_right(&run_seeds(None, first..first + runs, |wrong| wrong.is_empty()));
}

#[test]
#[ignore = "hours"]
fn for_hours() {
    let hours = std::env::var("HOURS").map_or(1.0, |text| text.parse().expect("HOURS"));
    let (began, time) = (Instant::now(), Duration::from_secs_f64(hours * 3600.0));
    let first = std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs() << 16);
    must_be_right(&run_seeds(None, first.., |_| began.elapsed() < time));
}

/// The first leader lets itself go, and is asked for another change before it has ended.
#[test]
fn a_leader_that_was_let_go_changes_nothing_more() {
    let change = |who| plan::Fault { at: plan::SETTLED, what: plan::What::Change { who } };
    let quiet = Plan { faults: vec![change(1), change(2)], ..Plan::quiet() };
    assert_eq!(world::run(&quiet).wrong, None);
}

/// A vote takes longer than openraft waits for it, at every member.
#[test]
fn members_on_slow_disks_elect_a_leader() {
    let slow = Plan { sync_ms: 500, lasts: 20_000, pause_ms: 400, ..Plan::quiet() };
    let report = world::run(&slow);
    report.story.iter().for_each(|line| println!("{line}"));
    assert_eq!(report.wrong, None);
    assert!(report.returned > 20, "{} calls returned", report.returned);
    let mistake = stillframe_group::Mutant::NeverSlowsDown;
    stillframe_group::with_mutant(mistake, || world::run(&slow).wrong.expect("nobody leads"));
}

/// Every command, asked of a leader that has just lost its majority and of one that knows it.
#[test]
fn a_leader_without_a_majority_answers_everything_in_time() {
    let cut = plan::Fault { at: plan::SETTLED, what: plan::What::AskCutLeader { ms: 4000 } };
    let quiet = Plan { clients: 0, lasts: 14_000, faults: vec![cut], ..Plan::quiet() };
    // A leader on slow disks hears the others seldom, and waits longer.
    let patience_ms = 10_000 + plan::LOOKS;
    let slow = Plan { sync_ms: 200, lasts: 25_000, patience_ms, ..quiet.clone() };
    for plan in [&quiet, &slow] {
        let report = world::run(plan);
        assert_eq!(report.wrong, None);
        assert!(report.answered > 5000, "{} questions", report.answered);
    }
    let mistake = stillframe_group::Mutant::ForgetsMajority;
    stillframe_group::with_mutant(mistake, || world::run(&quiet).wrong.expect("it is found"));
}

/// A member leads that a change of the leader before it lets go, and is asked for another change.
#[test]
fn a_change_that_another_leader_began_ends_before_the_next() {
    // The first leader ends before it has told the others, behind that, and between.
    for later in [20, 47, 48, 51, 55] {
        let fault = |at, what| plan::Fault { at, what };
        let end = plan::What::EndLeader { how: member::End::Kill, ms: 9000 };
        let faults = vec![
            fault(plan::SETTLED, plan::What::Change { who: 3 }),
            fault(plan::SETTLED + later, end),
            fault(plan::SETTLED + 3500, plan::What::Change { who: 2 }),
        ];
        let quiet = Plan { faults, sync_ms: 10, ..Plan::quiet() };
        assert_eq!(world::run(&quiet).wrong, None, "{later} ms later");
    }
}

/// Each mistake is found by one of some seeds, the first of which has found it before.
fn must_find(mistakes: &[(String, u64)]) {
    let mut missed = Vec::new();
    for (mistake, first) in mistakes {
        let began = Instant::now();
        let seeds = *first..first + SEEDS;
        let wrong = run_seeds(Some(mistake), seeds, |wrong| wrong.is_empty());
        match wrong.first() {
            Some(ran) => {
                let line = ran.text.lines().find(|line| line.starts_with("WRONG"));
                let line = line.unwrap_or("it has panicked");
                println!("{mistake}: seed {}, {:.0?}: {line}", ran.seed, began.elapsed());
            }
            None => missed.push(mistake),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// Seeds in which a mistake must show.
const SEEDS: u64 = 40;

#[test]
fn mistakes_of_elections_are_found() {
    must_find(&[
        named(stillframe_group::Mutant::KeepsItsLead, 4),
        named(stillframe_group::Mutant::StandsUnasked, 3),
        // A leader without a majority was mute.
        named(stillframe_server::Mutant::HoldsAll, 1),
    ]);
}

#[test]
#[ignore = "minutes"]
fn mistakes_of_writes_are_found() {
    must_find(&[
        named(stillframe_server::Mutant::AcknowledgesEarly, 5),
        named(stillframe_server::Mutant::KeepsWhatWasLost, 1),
        named(stillframe_server::Mutant::ReadsUnasked, 2),
        named(stillframe_openraft::Mutant::AcknowledgesBeforeSync, 4),
    ]);
}

/// A mistake by its name, and the seed to begin with.
fn named(mistake: impl std::fmt::Debug, first: u64) -> (String, u64) {
    (format!("{mistake:?}"), first)
}

/// Leaves out faults as long as something stays wrong, and tells what is left.
#[test]
#[ignore = "for people"]
fn shrink() {
    let (seed, mistake) = (seed(), std::env::var("STILLFRAME_MUTANT").ok());
    let is_wrong = |gone: &[usize]| !run(seed, "one_run", mistake.as_deref(), gone).is_right;
    assert!(is_wrong(&[]), "seed {seed} shows nothing wrong");
    let count = Plan::draw(seed).faults.len();
    let (mut gone, mut size) = (Vec::new(), count.div_ceil(2));
    while size > 0 {
        for from in (0..count).step_by(size) {
            let mut tried: Vec<usize> = gone.clone();
            tried.extend((from..count.min(from + size)).filter(|at| !gone.contains(at)));
            if tried.len() > gone.len() && is_wrong(&tried) {
                gone = tried;
            }
        }
        size /= 2;
    }
    print!("{}", run(seed, "story", mistake.as_deref(), &gone).text);
    println!("{} of {count} faults are left", count - gone.len());
}
