//! `stillframe check` and `inspect` as programs: what they say, their statuses, and files that
//! mean harm.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use stillframe_durability::{ActStore, Increments, Options, Store};

fn run(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stillframe"));
    let Output { status, stdout, stderr } =
        command.args(arguments).stdin(Stdio::null()).output().expect("it runs");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&stdout), text(&stderr));
    assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
    (status.code().expect("it ends by itself"), stdout, stderr)
}

fn path(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// A store with two checkpoints of 20,000 words.
fn store() -> tempfile::TempDir {
    let data = tempfile::tempdir().expect("a directory");
    let mut store: Store = Store::open(data.path(), Options::words(20_000)).expect("a store");
    for word in 0..20_000 {
        store.write(word, word as u64);
    }
    store.checkpoint_and_wait().expect("a checkpoint");
    store.checkpoint_and_wait().expect("a checkpoint");
    store.close().expect("no checkpoint is under way");
    data
}

#[test]
fn a_sound_store_is_sound_and_a_damaged_block_is_named() {
    let data = store();
    let (status, stdout, stderr) = run(&["check", path(data.path())]);
    assert_eq!((status, stderr.as_str()), (0, ""), "{stdout}");
    assert_eq!(stdout.matches(": sound\n").count(), 2, "{stdout}");

    let file = data.path().join("checkpoint-00000000000000000002");
    let mut bytes = fs::read(&file).expect("it is there");
    bytes[160 + 16 + 65_536 + 100] ^= 8;
    fs::write(&file, bytes).expect("writable");
    let (status, stdout, _) = run(&["check", path(data.path())]);
    assert_eq!(status, 1, "{stdout}");
    let place = "bytes 65712 to 131263: the checksum of block 1 does not match";
    assert!(stdout.contains(place), "{stdout}");

    let (status, stdout, _) = run(&["check", "--json", path(&file)]);
    let line: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(
        (status, &line["kind"], &line["health"]),
        (1, &"checkpoint".into(), &"damaged".into())
    );
    let flaw = &line["flaws"][0];
    assert_eq!((&flaw["start"], &flaw["end"]), (&65_712.into(), &131_264.into()));
}

#[test]
fn a_file_under_another_name_is_reported() {
    let data = store();
    let name = |number: u64| data.path().join(format!("checkpoint-{number:020}"));
    fs::rename(name(2), name(3)).expect("it is there");
    let (status, stdout, _) = run(&["check", path(&name(3))]);
    assert_eq!(status, 1);
    assert!(stdout.contains("this is checkpoint 2, and its name says 3"), "{stdout}");
    fs::rename(name(3), data.path().join("backup")).expect("it is there");
    assert_eq!(run(&["check", path(&data.path().join("backup"))]).0, 0);
}

#[test]
fn inspect_tells_what_a_checkpoint_says_of_itself() {
    let data = store();
    let file = data.path().join("checkpoint-00000000000000000002");
    let (status, stdout, _) = run(&["inspect", path(&file)]);
    assert_eq!(status, 0, "{stdout}");
    let shown = ["number     2", "imprint", "creator", "20000 words, 3 blocks of 8192", "ago"];
    for text in shown.into_iter().chain(["log        none"]) {
        assert!(stdout.contains(text), "{text}: {stdout}");
    }
    let (_, stdout, _) = run(&["inspect", "--json", path(&file)]);
    let line: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(line["facts"]["words"], 20_000);
    assert_eq!(line["facts"]["number"], 2);
    assert_eq!(line["facts"]["log_from"], 0);
}

#[test]
fn what_cannot_be_checked_is_usage() {
    let data = tempfile::tempdir().expect("a directory");
    let fifo = data.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .expect("a pipe");
    for (what, reason) in [
        (path(&fifo), "neither a file nor a directory"),
        ("/dev/zero", "neither a file nor a directory"),
        ("/nonexistent", "No such file"),
        (path(data.path()), "holds no checkpoint, log or RDB file"),
    ] {
        let (status, stdout, stderr) = run(&["check", what]);
        assert_eq!((status, stdout.as_str()), (2, ""), "{what}");
        assert!(stderr.contains(reason) && stderr.contains(what), "{what}: {stderr}");
    }
    assert_eq!(run(&["check"]).0, 2);
    assert_eq!(run(&["inspect", "--nosuch", "x"]).0, 2);
}

/// Under a limit of memory that a reader would exceed if it believed any of these files.
#[test]
fn hostile_files_are_judged_in_little_memory_and_time() {
    let data = tempfile::tempdir().expect("a directory");
    let at = |name: &str| data.path().join(name);
    let checkpoint = fs::read(store().path().join("checkpoint-00000000000000000001"));
    let header = &checkpoint.expect("it is there")[..64];
    fs::write(at("empty"), b"").expect("writable");
    fs::write(at("cut"), header).expect("writable");
    let huge = [&b"REDIS0010\x00\x01k\x81"[..], &[0x7f; 8], b"x"].concat();
    fs::write(at("claims.rdb"), huge).expect("writable");
    for (name, start) in [
        ("holes-ckp", &b"STILLCKP"[..]),
        ("holes-log", b"STILLLOG"),
        ("holes-rdb", b"REDIS0010\x00\x01k\x81\x00\x00\x00\xff\x00\x00\x00\x00"),
    ] {
        fs::write(at(name), start).expect("writable");
        let file = File::options().write(true).open(at(name)).expect("it is there");
        file.set_len(1 << 40).expect("a file may have holes");
    }
    // A log whose first record is missing, then 8 MiB of zeros that are really there.
    let hex = include_str!("../../../library/durability/src/log/version_3.hex");
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    let mut log: Vec<u8> = digits.chunks_exact(2).map(|it| (it[0] * 16 + it[1]) as u8).collect();
    log.truncate(64);
    log.resize(8 << 20, 0);
    fs::write(at("zeros-log"), log).expect("writable");
    for entry in fs::read_dir(data.path()).expect("a directory") {
        let file = entry.expect("an entry").path();
        let limited = "ulimit -v 2000000; exec \"$0\" check \"$1\"";
        let output = Command::new("sh")
            .args(["-c", limited, env!("CARGO_BIN_EXE_stillframe"), path(&file)])
            .output()
            .expect("a shell");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{}: {text}{errors}", file.display());
        assert!(text.contains("byte"), "{text}");
    }
}

#[test]
fn leftovers_are_named_and_do_not_count() {
    let data = store();
    fs::write(data.path().join("checkpoint.tmp"), b"STILLCKP").expect("writable");
    fs::write(data.path().join("checkpoint-00000000000000000001.damaged"), b"x").expect("writable");
    fs::write(data.path().join("notes.txt"), b"not ours").expect("writable");
    let (status, stdout, _) = run(&["check", path(data.path())]);
    assert_eq!(status, 0, "{stdout}");
    assert!(stdout.contains("never finished") && stdout.contains("set aside"), "{stdout}");
    assert!(!stdout.contains("notes.txt"), "{stdout}");
}

#[test]
fn a_store_is_recovered_up_to_a_record_for_its_program_to_open() {
    let folder = tempfile::tempdir().expect("a directory");
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let open = |path: &Path| -> ActStore {
        let opened = ActStore::open_records(path, Options::words(1), |counter, action| {
            counter.write(0, counter.read(0) + u64::from(action.bytes[0]));
            Ok(())
        });
        opened.expect("a store")
    };
    let mut counter = open(&from);
    for number in 1..=9u8 {
        let mut act = counter.log(&[number]).expect("it is logged");
        act.update(0, |sum| sum + u64::from(number));
    }
    counter.close().expect("it is durable");
    let line = ["recover", path(&from), "--until", "4", "--out", path(&to), "--json"];
    let (status, stdout, stderr) = run(&line);
    assert_eq!(status, 0, "{stderr}");
    assert!(stdout.contains(r#""kind":"store""#) && stdout.contains(r#""last":4"#), "{stdout}");
    assert_eq!(open(&to).read(0), 1 + 2 + 3 + 4);
    let (status, _, stderr) = run(&line);
    assert!(status == 1 && stderr.contains("is not empty"), "{stderr}");
    assert_eq!(run(&["recover", path(&from)]).0, 2, "--out is missing");
}

/// Checkpoint 1 is full, 2 to 5 are increments upon it, each with one word more.
#[test]
fn a_broken_chain_is_recovered_as_far_as_it_is_whole_if_that_is_accepted() {
    let folder = tempfile::tempdir().expect("a directory");
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let open = |path: &Path| -> Store {
        let chains = Increments::at_most(100).percent(u64::MAX);
        Store::open(path, Options::words(5000).increments(chains)).expect("a whole chain")
    };
    let mut store = open(&from);
    for number in 1..=5 {
        store.write(number * 900, number as u64);
        assert_eq!(store.checkpoint_and_wait().expect("a checkpoint"), number as u64);
    }
    drop(store);
    let link = from.join("checkpoint-00000000000000000003");
    let mut bytes = fs::read(&link).expect("it is there");
    bytes[128 + 16 + 100] ^= 1;
    fs::write(&link, bytes).expect("writable");

    let line = ["recover", path(&from), "--out", path(&to), "--json"];
    let (status, _, stderr) = run(&line);
    assert_eq!(status, 1, "{stderr}");
    for part in [path(&link), "checksum of block 0", "checkpoint 2", "--accept-chain-loss"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert!(!to.exists(), "nothing was made of it");
    assert_eq!(run(&[&line[..], &["--accept-loss"]].concat()).0, 1, "that is of the log");

    let (status, stdout, stderr) = run(&[&line[..], &["--accept-chain-loss"]].concat());
    assert_eq!(status, 0, "{stderr}");
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(report["checkpoints"], serde_json::json!([1, 2]), "{stdout}");
    assert_eq!(report["skipped"], serde_json::json!([5, 4, 3]), "{stdout}");
    assert_eq!(report["notices"].as_array().map(Vec::len), Some(3), "{stdout}");
    let store = open(&to);
    let words: Vec<u64> = (1..=5).map(|number| store.read(number * 900)).collect();
    assert_eq!(words, [1, 2, 0, 0, 0]);
    assert_eq!(run(&["check", path(&to)]).0, 0);
    assert_eq!(run(&["check", path(&from)]).0, 1, "the source is as it was");
}

/// Neither opens the other's directory, and the refusal names the owner.
#[test]
fn a_store_and_a_server_refuse_each_others_directories() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, data) = (folder.path().join("store"), folder.path().join("data"));
    let options = || Options::words(8).application("order-book", 3);
    let log = |path: &Path| {
        ActStore::open_records(path, options(), |act, action| {
            act.write(0, u64::from(action.bytes[0]));
            Ok(())
        })
    };
    let mut book = log(&store).expect("a store");
    drop(book.log(&[1]).expect("it can be logged"));
    book.checkpoint_and_wait().expect("a checkpoint");
    book.close().expect("it ends");
    let serve =
        |dir: &Path| run(&["serve", "--port", "0", "--appendonly", "yes", "--dir", path(dir)]);
    let (status, _, text) = serve(&store);
    assert!(status == 1 && text.contains("application \"order-book\", layout 3"), "{text}");
    let (_, text, _) = run(&["inspect", path(&store)]);
    assert_eq!(text.matches("application \"order-book\", layout 3").count(), 3, "{text}");
    let (_, text, _) = run(&["inspect", "--json", path(&store)]);
    assert!(text.contains(r#""application":{"tag":"order-book","layout":3}"#), "{text}");

    let mut child = Command::new(env!("CARGO_BIN_EXE_stillframe"))
        .args(["serve", "--port", "0", "--appendonly", "yes", "--dir", path(&data)])
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let log_directory = data.join("appendonlydir").join("1");
    let segment = log_directory.join("log-00000000000000000001");
    while !(segment.exists() && data.join("dump.rdb").exists()) {
        assert!(child.try_wait().expect("a child").is_none(), "it has ended");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().expect("it lives");
    child.wait().expect("it ends");
    let refused = log(&data).expect_err("it is a server's").to_string();
    assert!(refused.contains("is the data directory of a server"), "{refused}");
    let refused = log(&log_directory).expect_err("it is a server's").to_string();
    assert!(refused.contains("is of application \"stillframe\", layout 1"), "{refused}");
    let (_, text, _) = run(&["inspect", path(&data)]);
    assert!(text.contains("application \"stillframe\", layout 1"), "{text}");
}
