//! The examples, run small.

use std::process::Command;

use stillframe_peers::example;

#[test]
#[cfg_attr(miri, ignore = "starts a program")]
fn courses_on_branches_are_those_of_a_replay() {
    let output = Command::new(example("branches")).args(["2000", "4", "50"]).output();
    let output = output.expect("the example starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("4 courses of 50 orders, each checked by a replay"), "{text}");
}
