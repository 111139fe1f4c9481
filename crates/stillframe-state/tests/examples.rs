//! The examples, run small.

use std::path::PathBuf;
use std::process::{Command, Output};

fn run(name: &str, arguments: &[&str]) -> Output {
    let test = std::env::current_exe().expect("it runs");
    let built: PathBuf = test.ancestors().nth(2).expect("target/debug").join("examples");
    Command::new(built.join(name)).args(arguments).output().expect("the example is built")
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
    assert_eq!(text.lines().filter(|line| line.contains("ratio")).count(), 7, "{text}");
}
