//! `stillframe lab` from end to end, at sizes that take seconds.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use stillframe::algorithms::ALL;

const BINARY: &str = env!("CARGO_BIN_EXE_stillframe");

fn lab(directory: &Path, arguments: &[&str]) -> Output {
    let command = Command::new(BINARY).arg("lab").args(arguments).current_dir(directory).output();
    command.expect("the binary runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn records(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).expect("records were written");
    text.lines().map(|line| serde_json::from_str(line).expect("one object a line")).collect()
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

const TINY: [&str; 14] = [
    "compare",
    "--busy",
    "--size",
    "300k",
    "--updates-per-tick",
    "2k",
    "--tick",
    "2ms",
    "--ticks",
    "12",
    "--reads-per-update",
    "0.5",
    "--disk-rate",
    "20MB/s",
];

fn tiny<'a>(more: &[&'a str]) -> Vec<&'a str> {
    TINY.iter().copied().chain(more.iter().copied()).collect()
}

/// Every algorithm of the registry, every record with the fields that were promised, no wrong word.
#[test]
fn compare_runs_every_algorithm_and_all_images_are_right() {
    let directory = temporary();
    let output = lab(directory.path(), &tiny(&["--repeat", "1"]));
    assert!(output.status.success(), "{}", stderr(&output));
    let table = String::from_utf8_lossy(&output.stdout);
    let records = records(&directory.path().join("stillframe-lab/compare.jsonl"));
    assert_eq!(records.len(), ALL.len() + 1, "{table}");
    let page = fs::read_to_string(directory.path().join("stillframe-lab/compare.html"));
    assert!(page.expect("a page").contains("imprint"));
    for record in &records {
        let name = record["algorithm"].as_str().expect("a name");
        assert!(table.contains(name), "{name} is in the table:\n{table}");
        assert!(record["failed"].is_null(), "{record}");
        assert_eq!(record["mismatched_words"], 0, "{record}");
        for field in ["mean", "p50", "p99", "p999", "max"] {
            assert!(record["tick_latency_ms"][field].is_f64(), "{name}: {field}");
        }
        for field in ["read_ns", "throughput_updates_per_s", "memory_base_bytes", "round"] {
            assert!(record[field].is_number(), "{name}: {field}");
        }
        if name != "none" && record["unavailable"].is_null() {
            // The base image, at least one in the timed ticks, and the one for memory.
            assert!(record["verified_images"].as_u64() >= Some(3), "{record}");
            assert!(record["begin_us"]["p50"].is_f64() && record["image_s"].is_f64(), "{record}");
        }
    }
}

/// Every unit, items of 8 bytes, no idle time, and files in which incremental images find the one
/// before.
#[test]
fn other_units_and_sinks_are_right_too() {
    let directory = temporary();
    let common =
        ["compare", "--busy", "--size", "300k", "--updates-per-tick", "2k", "--ticks", "6"];
    let quick = ["--repeat", "1", "--disk-rate", "off", "--distribution", "zipf:0.99"];
    for more in [
        ["--unit", "line", "--item-bytes", "8", "--sink", "file", "--tick", "1ms"],
        ["--unit", "page", "--item-bytes", "4", "--sink", "tmpfs", "--tick", "0"],
    ] {
        let output = lab(directory.path(), &[&common[..], &quick, &more].concat());
        assert!(output.status.success(), "{more:?}: {}", stderr(&output));
    }
    let left: Vec<_> = fs::read_dir(directory.path().join("stillframe-lab"))
        .expect("the directory of --out")
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert!(
        left.iter().all(|name| *name == "compare.jsonl" || *name == "compare.html"),
        "{left:?}"
    );
}

/// The verifier verifies: one bit in every image.
#[test]
fn a_corrupted_image_is_found() {
    let directory = temporary();
    for verify in ["full", "sample"] {
        let more = [
            "--algorithms",
            "naive,fork,imprint",
            "--repeat",
            "1",
            "--self-test",
            "--verify",
            verify,
        ];
        let output = lab(directory.path(), &tiny(&more));
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        for record in records(&directory.path().join("stillframe-lab/compare.jsonl")) {
            let wrong = record["mismatched_words"].as_u64().expect("a count");
            let images = record["verified_images"].as_u64().expect("a count");
            let is_floor = record["algorithm"] == "none";
            assert_eq!(wrong, if is_floor { 0 } else { 512 * images }, "{record}");
        }
    }
}

#[test]
fn bad_input_is_one_sentence_and_status_2() {
    let directory = temporary();
    fs::write(directory.path().join("file"), "").expect("writable");
    for (arguments, sentence) in [
        (vec!["--algorithms", "imprnt"], "did you mean 'imprint'?"),
        (vec!["--ticks", "0"], "zero ticks"),
        (vec!["--updates-per-tick", "0"], "zero updates"),
        (vec!["--repeat", "0"], "zero rounds"),
        (vec!["--size", "100TB"], "at most"),
        (vec!["--size", "900GB", "--item-bytes", "8", "--algorithms", "none"], "at most"),
        (vec!["--size", "lots"], "not a size"),
        (vec!["--tick", "5"], "not a time"),
        (vec!["--distribution", "zipf:x"], "not a number"),
        (vec!["--unit", "block"], "not word, line or page"),
        (vec!["--checkpoints", "9", "--ticks", "3"], "do not fit"),
        (vec!["--self-test", "--verify", "off"], "needs a verifier"),
        (vec!["--dir", "x"], "is for '--sink file'"),
        (vec!["--out", "file/below"], "creating the directory file/below failed"),
        (vec!["--json", "nowhere/at/all"], "creating nowhere/at/all failed"),
    ] {
        let output =
            lab(directory.path(), &[&["compare", "--busy"], arguments.as_slice()].concat());
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(sentence), "{arguments:?}: {error}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn list_names_every_algorithm_with_its_source() {
    let directory = temporary();
    let text = lab(directory.path(), &["list"]);
    let json = lab(directory.path(), &["list", "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).expect("one object");
    for (info, entry) in ALL.iter().zip(json["algorithms"].as_array().expect("a list")) {
        assert_eq!(
            (entry["name"].as_str(), entry["citation"].as_str()),
            (Some(info.name), Some(info.citation))
        );
        assert!(String::from_utf8_lossy(&text.stdout).contains(info.citation));
    }
}

#[test]
fn advice_names_an_algorithm_its_figures_and_what_they_do_not_cover() {
    let directory = temporary();
    let advise = |more: &[&str]| lab(directory.path(), &[&["advise"], more].concat());
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let lean = advise(&["--memory", "120MB", "--begin", "1ms"]);
    assert!(text(&lean).starts_with("Use imprint."), "{}", text(&lean));
    assert!(text(&lean).contains("Ruled out by --memory: naive, fork"), "{}", text(&lean));
    assert!(!text(&lean).contains("Not covered"), "{}", text(&lean));
    let other = advise(&["--size", "8GiB", "--distribution", "zipf:0.99", "--writers", "4"]);
    assert_eq!(text(&other).matches("Not covered:").count(), 3, "{}", text(&other));
    let none = advise(&["--memory", "1MB"]);
    assert_eq!(none.status.code(), Some(1), "{}", stderr(&none));
    let wrong = advise(&["--report", "nowhere"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", stderr(&wrong));
    // A busy machine may do no tick while an image is captured, and then has nothing to compare.
    let measured = || {
        let measured = lab(directory.path(), &tiny(&["--algorithms", "imprint", "--repeat", "1"]));
        assert!(measured.status.success(), "{}", stderr(&measured));
        advise(&["--size", "300k", "--report", "stillframe-lab"])
    };
    let mut own = measured();
    for _ in 0..20 {
        if own.status.success() {
            break;
        }
        assert!(stderr(&own).contains("no records that can be compared"), "{}", stderr(&own));
        own = measured();
    }
    assert!(text(&own).starts_with("Use imprint."), "{}{}", text(&own), stderr(&own));
}

/// An interrupted run keeps the rounds that it has finished.
#[test]
fn an_interrupt_keeps_finished_rounds() {
    let directory = temporary();
    let json = directory.path().join("kept.jsonl");
    let child = Command::new(BINARY)
        .arg("lab")
        .args(tiny(&["--algorithms", "naive", "--repeat", "100000", "--json"]))
        .arg(&json)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let started = Instant::now();
    while fs::read_to_string(&json).unwrap_or_default().lines().count() < 2 {
        assert!(started.elapsed() < Duration::from_secs(60), "no round ends");
        thread::sleep(Duration::from_millis(20));
    }
    let pid = Pid::from_raw(child.id().cast_signed()).expect("not zero");
    kill_process(pid, Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("are kept"), "{}", stderr(&output));
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("none") && table.contains("naive"), "{table}");
    assert!(records(&json).len() >= 2);
}

/// A round that dies is reported; the others go on.
#[test]
fn a_round_that_cannot_run_fails_alone() {
    let directory = temporary();
    // A directory that exists, and takes no files from anybody.
    let output = lab(
        directory.path(),
        &tiny(&["--algorithms", "naive", "--repeat", "1", "--sink", "file", "--dir", "/proc/self"]),
    );
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("naive, round 1: creating /proc/self"), "{}", stderr(&output));
    let records = records(&directory.path().join("stillframe-lab/compare.jsonl"));
    assert_eq!(records.len(), 2);
}
