//! The examples, run small.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use stillframe_peers::example;

fn run(name: &str, arguments: &[&str]) -> Output {
    Command::new(example(name)).args(arguments).output().expect("the example starts")
}

#[test]
fn an_order_book_goes_on_and_is_that_of_a_replay() {
    let data = tempfile::tempdir().expect("a directory");
    let path = data.path().to_str().expect("text");
    for commands in ["0", "5000", "5000"] {
        let output = run("order_book", &[path, commands]);
        let (text, error) = (String::from_utf8_lossy(&output.stdout), &output.stderr);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(error));
        println!("{text}");
    }
    let output = run("order_book", &[path, "0"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("checked by a replay of 10000 commands"), "{text}");
}

#[test]
fn the_cost_of_places_is_that_of_what_is_there() {
    let output = run("places", &["1", "100"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.lines().filter(|line| line.contains("ratio")).count(), 9, "{text}");
}

#[test]
fn a_game_world_goes_on_from_a_whole_tick_after_each_kill() {
    let data = tempfile::tempdir().expect("a directory");
    let path = data.path().to_str().expect("text");
    let mut killed = Vec::new();
    for pause_ms in [30, 80, 200] {
        let mut child = Command::new(example("game_world"))
            .args([path, "100000000"])
            .stdout(Stdio::null())
            .spawn()
            .expect("the example is built");
        std::thread::sleep(Duration::from_millis(pause_ms));
        child.kill().expect("it is ours");
        killed.push(child.wait().expect("it is dead"));
        let output = run("game_world", &[path, "10"]);
        let (text, error) = (String::from_utf8_lossy(&output.stdout), &output.stderr);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(error));
        println!("{text}");
    }
    assert!(killed.iter().all(|status| status.code().is_none()), "{killed:?}");
}

#[test]
fn courses_on_branches_are_those_of_clones_and_forks() {
    let output = run("what_if", &["2000", "6", "300"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("6 courses of 300 commands, each checked by a replay"), "{text}");
}
