//! `lab figure` and `lab all` as people run them, at a thousandth of the size.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn lab(arguments: &[&str], out: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stillframe"))
        .arg("lab")
        .args(arguments)
        .arg("--busy")
        .arg("--out")
        .arg(out)
        .output()
        .expect("the binary runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_figure_leaves_a_page_records_and_a_picture() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let out = directory.path().join("not/there/yet");
    let output = lab(&["figure", "cao-8", "--scale", "2000", "--repeat", "2"], &out);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("IPP is nearly constant") && text.contains("imprint"), "{text}");
    assert!(text.contains(" 0 words differed"), "{text}");
    let read = |name: &str| fs::read_to_string(out.join(name)).expect(name);
    let records = read("results.jsonl");
    assert!(records.lines().count() >= 2 * 3, "{records}");
    assert!(records.lines().all(|line| line.starts_with('{') && line.ends_with('}')));
    assert!(
        records.contains("\"whose\":\"papers\"") && records.contains("\"verdict\":"),
        "{records}"
    );
    assert!(text.contains("Of 2 claims of the papers, "), "{text}");
    assert!(read("index.html").contains("id=\"cao-8\""));
    assert!(read("cao-8.svg").starts_with("<svg"));
}

#[test]
fn what_is_measured_apart_from_cases_is_in_the_records_too() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = lab(&["figure", "async-fork-11", "--scale", "100"], directory.path());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = fs::read_to_string(directory.path().join("results.jsonl")).expect("written");
    assert!(records.contains("\"series\":\"odf\""), "{records}");
}

#[test]
fn one_round_leaves_every_claim_undecided() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let arguments = ["figure", "li-19", "--scale", "5000", "--repeat", "1", "--at-most", "1"];
    let output = lab(&arguments, directory.path());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("one round shows no spread"), "{text}");
    assert!(!text.contains("✓") && !text.contains("✗"), "{text}");
}

#[test]
fn an_unknown_figure_is_answered_with_the_nearest() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = lab(&["figure", "li10"], directory.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("did you mean 'li-10'?"), "{}", stderr(&output));
}

#[test]
fn output_that_cannot_be_written_is_wrong_usage() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let output = lab(&["all", "--scale", "2000"], file.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("name another place to write to"), "{}", stderr(&output));
}

#[test]
fn a_dry_run_tells_the_time_and_runs_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let out = directory.path().join("none");
    let output = lab(&["all", "--quick", "--dry-run"], &out);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("li-10") && text.contains("2 rounds: about"), "{text}");
    assert!(!out.exists());
}
