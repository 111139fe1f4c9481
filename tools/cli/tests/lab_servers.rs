//! Figures through servers as people run them, tiny: rounds, verification, and that no server
//! outlives the lab, however the lab ends.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use stillframe_lab::case::{REDIS, VALKEY};
use stillframe_lab::{Case, Record, Service};
use stillframe_peers::{Peer, are_here, skipped};

/// A small YCSB load on the server of that name.
fn case(algorithm: &str) -> Case {
    let service = Service {
        workload: "ycsb-a".to_owned(),
        writes: 1,
        reads: 1,
        distribution: "zipf:0.99".to_owned(),
        keys: 500,
        value_size: 100,
        clients: 8,
        rate: 500,
        pass_ms: 500,
        every_ms: 200,
        full_speed: true,
        rewrite: false,
    };
    Case { service: Some(service), ..Case::default() }.with_algorithm(algorithm)
}

fn with(case: &Case, change: impl FnOnce(&mut Service)) -> Case {
    let mut case = case.clone();
    change(case.service.as_mut().expect("a case of a server"));
    case
}

/// The process of one round, with its files in `folder`.
fn start(case: &Case, folder: &Path) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_stillframe"))
        .args(["lab", "case"])
        .env("TMPDIR", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let json = serde_json::to_vec(case).expect("plain data");
    child.stdin.take().expect("a pipe").write_all(&json).expect("it reads");
    child
}

fn run(case: &Case) -> Record {
    let folder = tempfile::tempdir().expect("a folder");
    let output = start(case, folder.path()).wait_with_output().expect("it ends");
    assert!(output.status.success(), "{:?}", output.status);
    assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 0, "files are left");
    serde_json::from_slice(&output.stdout).expect("a record")
}

/// Servers that are here: ours with two algorithms, and those beside ours.
fn servers(test: &str) -> Vec<&'static str> {
    let redis = are_here(test, &[Peer::RedisServer]).then_some(REDIS);
    let valkey = run(&with(&case(VALKEY), |it| it.full_speed = false));
    if let Some(why) = &valkey.unavailable {
        skipped(test, why);
    }
    let valkey = valkey.unavailable.is_none().then_some(VALKEY);
    ["imprint", "fork"].into_iter().chain(redis).chain(valkey).collect()
}

#[test]
fn a_round_measures_what_clients_see_and_verifies_the_last_dump() {
    for name in servers("a_round_measures_what_clients_see_and_verifies_the_last_dump") {
        let record = run(&case(name));
        assert_eq!(record.failed, None, "{name}");
        assert_eq!((record.verified_images, record.mismatched_words), (1, 0), "{name}");
        let served = record.served.expect("figures");
        assert!(served.throughput_per_s > 0.0 && served.dump_bytes > 500_000, "{served:?}");
        let normal = served.normal.expect("normal queries");
        assert!(normal.count > 0 && normal.max >= normal.p99, "{name}: {normal:?}");
        assert!(record.memory_peak_bytes >= record.memory_base_bytes, "{name}");
        assert!(record.memory_base_bytes > 500_000, "{name}: {}", record.memory_base_bytes);
    }
}

#[test]
fn a_log_that_was_rewritten_is_verified_too() {
    for name in servers("a_log_that_was_rewritten_is_verified_too") {
        let record = run(&with(&case(name), |it| it.rewrite = true));
        assert_eq!(record.failed, None, "{name}");
        assert_eq!((record.verified_images, record.mismatched_words), (1, 0), "{name}");
    }
}

/// One mark of another moment, and as many records as the dump lacks.
#[test]
fn a_dump_that_is_not_what_it_should_be_is_found() {
    let forged = Case { corrupt: true, ..case("imprint") };
    let record = run(&forged);
    assert!(record.mismatched_words > 0 && record.is_wrong(), "{record:?}");
    let wrong = record.served.and_then(|it| it.wrong).expect("a reason");
    assert!(wrong.starts_with("late"), "{wrong}");
}

#[test]
fn the_floor_needs_no_server_and_a_lacking_one_is_told() {
    let floor = run(&case("none"));
    let served = floor.served.expect("figures");
    assert!(served.throughput_per_s > 0.0 && served.busy == served.normal);
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = Command::new(env!("CARGO_BIN_EXE_stillframe"))
        .args(["lab", "case"])
        .env("STILLFRAME_VALKEY", "/nonexistent/valkey-server")
        .env("TMPDIR", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let json = serde_json::to_vec(&case(VALKEY)).expect("plain data");
    child.stdin.take().expect("a pipe").write_all(&json).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let record: Record = serde_json::from_slice(&output.stdout).expect("a record");
    let why = record.unavailable.expect("it lacks");
    assert!(why.contains("install-peers"), "{why}");
}

/// Servers whose data lie in `folder`.
fn servers_in(folder: &Path) -> Vec<i32> {
    let folder = folder.to_str().expect("text");
    let processes = fs::read_dir("/proc").expect("a /proc").flatten();
    let numbers = processes.filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    // redis-server shows its address in place of its command line.
    let lies_in = |pid: &i32| {
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
    };
    numbers.filter(lies_in).collect()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_server_ends_with_the_round_that_is_killed() {
    for name in servers("a_server_ends_with_the_round_that_is_killed") {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().canonicalize().expect("there");
        let mut round = start(&with(&case(name), |it| it.pass_ms = 600_000), &path);
        wait_until("a server runs", || !servers_in(&path).is_empty());
        round.kill().expect("it runs");
        round.wait().expect("it ends");
        wait_until("the server is gone", || servers_in(&path).is_empty());
    }
}

#[test]
fn ctrl_c_leaves_a_page_and_neither_server_nor_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().canonicalize().expect("there");
    let scratch = path.join("scratch");
    fs::create_dir(&scratch).expect("a folder");
    let lab = Command::new(env!("CARGO_BIN_EXE_stillframe"))
        .args(["lab", "figure", "li-23", "--scale", "100", "--busy", "--out"])
        .arg(path.join("out"))
        .env("TMPDIR", &scratch)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    wait_until("a server runs", || !servers_in(&scratch).is_empty());
    let pid = Pid::from_raw(lab.id().cast_signed()).expect("a number");
    kill_process(pid, Signal::INT).expect("it runs");
    let output = lab.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    wait_until("the server is gone", || servers_in(&scratch).is_empty());
    wait_until("no files are left", || fs::read_dir(&scratch).expect("there").count() == 0);
    assert!(path.join("out/index.html").exists());
}

#[test]
fn a_figure_of_servers_is_judged_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_stillframe"))
        .args(["lab", "figure", "async-fork-21", "--scale", "1000", "--repeat", "1"])
        .args(["--at-most", "1", "--busy", "--out"])
        .arg(folder.path())
        .output()
        .expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("imprint") && text.contains(" 0 words differed"), "{text}");
    assert!(text.contains("the patches of kernel/ are not in this kernel"), "{text}");
    let has_redis = are_here("a_figure_of_servers_is_judged_and_drawn", &[Peer::RedisServer]);
    assert_eq!(text.contains("there is no redis-server here"), !has_redis, "{text}");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
    assert!(read("index.html").contains("queries sent late by the generator"));
    assert!(read("async-fork-21.svg").starts_with("<svg"));
    assert!(read("results.jsonl").contains("\"served\":{"));
}
