//! The examples, killed with SIGKILL at random moments: each start finds a consistent state.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stillframe_peers::example;
use tempfile::tempdir;

const ROUNDS: u64 = 20;

fn run(name: &str, directory: &Path, arguments: &[&str]) -> Output {
    let output = Command::new(example(name)).arg(directory).args(arguments).output();
    output.expect("the example starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn has_checkpoint(directory: &Path) -> bool {
    let mut entries = std::fs::read_dir(directory).expect("it is there").flatten();
    entries.any(|entry| entry.file_name().to_string_lossy().starts_with("checkpoint-"))
}

/// Starts the example and kills it at a random moment, again and again; the first time not before
/// there is a checkpoint, so that something is there to go on from.
fn kill_rounds(name: &str, directory: &Path, arguments: &[&str]) {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let seed = clock.subsec_nanos();
    let rounds = if std::env::var_os("STILLFRAME_LONG").is_some() { 20 * ROUNDS } else { ROUNDS };
    for round in 0..rounds {
        let mut child = Command::new(example(name))
            .arg(directory)
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the example starts");
        let pause = u64::from(seed).wrapping_add(round).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let running = |child: &mut Child| child.try_wait().expect("it is ours").is_none();
        while !has_checkpoint(directory) && running(&mut child) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(pause % 150));
        child.kill().expect("it is ours");
        let output = child.wait_with_output().expect("it is dead");
        let (status, stderr) = (output.status, text(&output.stderr));
        assert_eq!(status.signal(), Some(9), "seed {seed}, round {round}: {status}: {stderr}");
    }
}

fn tick_after(output: &Output, words: &str) -> u64 {
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    let rest = out.split_once(words).unwrap_or_else(|| panic!("no {words:?} in {out}{error}")).1;
    rest.split('\n').next().and_then(|tick| tick.parse().ok()).expect("a number")
}

#[test]
fn a_simulation_goes_on_from_a_whole_tick_after_each_kill() {
    let directory = tempdir().expect("a directory");
    kill_rounds("simulation", directory.path(), &["--ticks", "1000000000"]);
    let output = run("simulation", directory.path(), &["--ticks", "3"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let (start, end) =
        (tick_after(&output, "starting at tick "), tick_after(&output, "ending at tick "));
    assert!(start > 0, "a checkpoint was made");
    assert_eq!(start + 3, end);
    let again = run("simulation", directory.path(), &["--ticks", "0"]);
    assert_eq!(tick_after(&again, "starting at tick "), end, "close takes a last checkpoint");
}

#[test]
fn a_simulation_that_aborts_goes_on_from_a_whole_tick() {
    let directory = tempdir().expect("a directory");
    let crashed = run("simulation", directory.path(), &["--ticks", "5000", "--crash-after", "200"]);
    assert_eq!(crashed.status.signal(), Some(6), "{}", text(&crashed.stderr));
    let output = run("simulation", directory.path(), &["--ticks", "0"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(tick_after(&output, "starting at tick ") <= 201);
}

/// The numbers in a line of text.
fn numbers(text: &str) -> Vec<u64> {
    text.split([' ', '\n']).filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn what_a_key_value_store_acknowledged_is_there_after_each_kill() {
    let directory = tempdir().expect("a directory");
    let (path, printed) = (directory.path().join("data"), directory.path().join("printed"));
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let seed = clock.subsec_nanos();
    let rounds = if std::env::var_os("STILLFRAME_LONG").is_some() { 1000 } else { ROUNDS };
    for round in 0..rounds {
        let mut child = Command::new(example("key_value"))
            .arg(&path)
            .arg("transfer")
            .stdout(std::fs::File::create(&printed).expect("writable"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the example starts");
        let pause = u64::from(seed).wrapping_add(round).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        // Every other kill comes when something was acknowledged, however busy the machine.
        let is_silent = || std::fs::metadata(&printed).expect("it is there").len() == 0;
        while round % 2 == 0 && is_silent() && child.try_wait().expect("ours").is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(20 + pause % 150));
        child.kill().expect("it is ours");
        let output = child.wait_with_output().expect("it is dead");
        let place = format!("seed {seed}, round {round}");
        assert_eq!(output.status.signal(), Some(9), "{place}: {}", text(&output.stderr));

        let printed = std::fs::read_to_string(&printed).expect("it is text");
        let whole = printed.rfind('\n').map_or("", |end| &printed[..end]);
        let acknowledged = numbers(whole).pop().unwrap_or(0);
        let output = run("key_value", &path, &["count"]);
        assert!(output.status.success(), "{place}: {}", text(&output.stderr));
        let [keys, actions, money] = numbers(&text(&output.stdout))[..] else { panic!("{place}") };
        assert!(actions >= acknowledged, "{place}: {acknowledged} acknowledged, {actions} there");
        assert_eq!(money, keys * 100, "{place}: a transfer is torn");
    }
    let output = run("key_value", &path, &["count"]);
    println!("{rounds} rounds: {}", text(&output.stdout));
}

#[test]
fn a_key_value_store_keeps_what_it_was_given() {
    let directory = tempdir().expect("a directory");
    for (key, value) in [("7", "42"), ("8", "1"), ("8", "2")] {
        assert!(run("key_value", directory.path(), &["set", key, value]).status.success());
    }
    assert_eq!(text(&run("key_value", directory.path(), &["get", "7"]).stdout), "42\n");
    assert_eq!(text(&run("key_value", directory.path(), &["get", "8"]).stdout), "2\n");
    let absent = run("key_value", directory.path(), &["get", "9"]);
    assert_eq!(text(&absent.stdout), "there is no such key\n");
    assert!(!run("key_value", directory.path(), &["put"]).status.success());
}

/// What the example says of views is what it has checked.
#[test]
fn the_cost_of_views_is_that_of_views_that_are_right() {
    let output = Command::new(example("views")).arg("20000").output().expect("it starts");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(text(&output.stdout).lines().count(), 9, "{}", text(&output.stdout));
}
