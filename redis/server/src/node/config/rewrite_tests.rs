//! Every setting survives CONFIG REWRITE and the next start with its value, whatever file there was
//! before.

use std::path::Path;

use super::{Config, Setting, all};

/// Values that are tried with every setting: each takes those it can.
const VALUES: [&str; 52] = [
    "",
    "yes",
    "no",
    "0",
    "1",
    "7",
    "42",
    "100",
    "600",
    "70000",
    "2097152",
    "3mb",
    "1gb",
    "-1",
    "-5",
    "50%",
    "local",
    "optional",
    "a b",
    " a  b ",
    "\"",
    "'",
    "\\",
    "a\"b'c\\d",
    "#x",
    "# x",
    "größe",
    "\t\r\n\x07\x08",
    "\x01\x7f",
    "include /nonexistent",
    "50 99 99.9",
    "12.345678",
    "0 200 800",
    "-2000 0 2000",
    "normal 1 2 3",
    "slave 1mb 2mb 3 pubsub 4 5 6",
    "60 1 300 10",
    "60 1",
    "127.0.0.1 -::1",
    "* -::*",
    "10.0.0.1 6380",
    "KEA",
    "$lz",
    "systemd",
    "always",
    "allkeys-lfu",
    "warning",
    "json",
    "fork",
    "cancel",
    "clients",
    "TLSv1.3",
];

const SAMPLE: &str = include_str!("../../../../../stillframe.conf");

/// A file that says things twice, in old names, in odd ways, and has others included.
const ODD: &str = "\
# A comment
HZ 20\r
hz 30

   save 100 1
save '200 2'
slave-priority 3
requirepass \"\\x41 b\"
latency-tracking-info-percentiles \"50 99\"
client-output-buffer-limit pubsub 1mb 1mb 10
rename-command FLUSHALL \"\"
rename-command GET fetch
user reader on nopass ~\\x +@read
include FOLDER/late.conf
timeout 9
";

const LATE: &str = "hz 40\nmaxclients 77\nsave 900 9\nlogfile \"late\"\ntimeout 8\n";

/// Every setting, with the values that it takes.
fn taken() -> Vec<(&'static Setting, Vec<&'static str>)> {
    let taken = |setting: &Setting| {
        let is_taken = |value: &&str| (setting.set)(&mut Config::default(), value).is_ok();
        VALUES.into_iter().filter(is_taken).collect()
    };
    all().map(|setting| (setting, taken(setting))).collect()
}

fn assert_survives(config: &Config, path: &Path, old: &[u8]) -> Vec<u8> {
    let text = config.rewritten(path, old, &[], false).expect("it can be written");
    let shown = String::from_utf8_lossy(&text);
    let mut next = Config::default();
    let read = next.apply_text(path, &text, 0);
    assert!(read.is_ok(), "{read:?} in\n{shown}");
    for setting in all() {
        let (before, after) = ((setting.get)(config), (setting.get)(&next));
        assert_eq!(before, after, "{} in\n{shown}", setting.name);
    }
    let again = |text: &[u8]| config.rewritten(path, text, &[], false).expect("once more");
    let second = again(&text);
    assert_eq!(again(&second).escape_ascii().to_string(), second.escape_ascii().to_string());
    text
}

#[test]
fn every_setting_survives_with_every_value_whatever_the_file_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("server.conf");
    std::fs::write(folder.path().join("late.conf"), LATE).expect("a file");
    let odd = ODD.replace("FOLDER", &folder.path().display().to_string());
    let mut odd = odd.into_bytes();
    odd.splice(0..0, *b"# a comment in another encoding: \xff\n");
    let mut files = vec![Vec::new(), SAMPLE.as_bytes().to_vec(), odd];
    if stillframe_peers::are_here("every_setting_survives", &[stillframe_peers::Peer::RedisConf]) {
        files.push(std::fs::read(stillframe_peers::conf()).expect("it is there"));
    }
    for old in files {
        let mut config = Config::default();
        config.apply_text(&path, &old, 0).expect("it can be read");
        let mut text = assert_survives(&config, &path, &old);
        let taken = taken();
        for round in 0..taken.iter().map(|(_, values)| values.len()).max().unwrap_or(0) {
            for (setting, values) in &taken {
                // One that takes a single value has it already.
                let Some(value) = values.get(round % values.len().max(1)) else { continue };
                assert_eq!((setting.set)(&mut config, value), Ok(()), "{}", setting.name);
            }
            text = assert_survives(&config, &path, &text);
        }
        // And from nothing, at once.
        assert_survives(&config, &path, b"");
        // Every setting can be said.
        let said = config.rewritten(&path, &old, &[], true).expect("it can be written");
        let lines = assert_survives(&config, &path, &said);
        let lines = String::from_utf8_lossy(&lines);
        for setting in all().filter(|it| !["requirepass", "replicaof"].contains(&it.name)) {
            let line = format!("{} ", setting.name);
            assert!(lines.lines().any(|it| it.starts_with(&line)), "{}", setting.name);
        }
    }
}

#[test]
fn what_is_no_setting_stays_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("server.conf");
    std::fs::write(folder.path().join("late.conf"), LATE).expect("a file");
    let odd = ODD.replace("FOLDER", &folder.path().display().to_string());
    let mut config = Config::default();
    config.apply_text(&path, odd.as_bytes(), 0).expect("it can be read");
    assert_eq!(config.renames.len(), 2);
    config.hz = 50;
    config.set("save", &[""]).expect("no saves");
    let text = String::from_utf8(assert_survives(&config, &path, odd.as_bytes())).expect("text");
    for line in odd.lines().filter(|line| line.contains("comment") || line.starts_with("rename")) {
        assert!(text.contains(line), "{line}");
    }
    // What the included file would say last is said again.
    let include = text.find("include").expect("it stays");
    let end = &text[include..];
    assert!(end.contains("\nhz 50\n") && end.contains("\nsave \"\"\n"), "{text}");
    assert_eq!(text.matches("hz 50").count(), 2, "in its place, and at the end: {text}");
}

#[test]
fn what_could_not_be_read_again_is_not_written() {
    let config = Config::default();
    let path = Path::new("server.conf");
    let refused =
        config.rewritten(path, b"hz 10\nuser\n", &[], false).expect_err("a line is wrong");
    assert!(refused.to_string().contains("server.conf, line 2"), "{refused}");
}
