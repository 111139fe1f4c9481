//! Append-only files made by hand: what is kept, what is left out, and what is refused.

use std::collections::BTreeMap;
use std::fs;

use stillframe_rdb::{Decoder, Event, Value};

use super::*;

fn command(args: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len());
    for arg in args {
        bytes += &format!("${}\r\n{arg}\r\n", arg.len());
    }
    bytes.into_bytes()
}

/// Commands separated by `;`.
fn commands(text: &str) -> Vec<u8> {
    let lines = text.split(';').filter(|line| !line.trim().is_empty());
    lines.flat_map(|line| command(&line.split_whitespace().collect::<Vec<_>>())).collect()
}

type Keys = BTreeMap<String, String>;

/// The keys of a dump, as `db/key`, with their values and, after `@`, their expiry.
fn dump(path: &Path) -> Keys {
    let mut decoder = Decoder::new(fs::File::open(path).expect("a dump"));
    let mut keys = Keys::new();
    while let Some(event) = decoder.next().expect("it is whole") {
        if let Event::Entry { db, key, value, expire_at_ms, .. } = event {
            let value = match value {
                Value::Int(value) => value.to_string(),
                Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            };
            let expiry = expire_at_ms.map_or(String::new(), |at| format!("@{at}"));
            keys.insert(format!("{db}/{}", String::from_utf8_lossy(key)), value + &expiry);
        }
    }
    keys
}

fn keys(pairs: &[(&str, &str)]) -> Keys {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Imports `from` into a new data directory.
fn imported(from: &Path) -> Result<(Imported, Keys), String> {
    let data = tempfile::tempdir().expect("a directory");
    let mut config = Config::default();
    config.set("dir", &[data.path().to_str().expect("text")]).expect("a setting");
    config.set("proto-max-bulk-len", &["1mb"]).expect("a setting");
    let imported = import(from, config, false).map_err(|error| error.to_string());
    let dump_path = data.path().join("dump.rdb");
    assert_eq!(imported.is_ok(), dump_path.exists(), "all or nothing");
    imported.map(|imported| (imported, dump(&dump_path)))
}

fn file(bytes: &[u8]) -> Result<(Imported, Keys), String> {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("file.aof");
    fs::write(&path, bytes).expect("writable");
    imported(&path)
}

#[test]
fn commands_run_in_the_database_and_the_order_they_are_logged_in() {
    let log = commands(
        "SELECT 0; SET a 1; INCR a; APPEND b xy; SELECT 3; SET a other; MULTI; SET c 1; DEL c; \
         SET d 1; EXEC; SELECT 0; RENAME b e; SET gone 1; UNLINK gone",
    );
    let (imported, held) = file(&[b"#TS:1700000000\r\n", &log[..]].concat()).expect("it is sound");
    assert_eq!(held, keys(&[("0/a", "2"), ("0/e", "xy"), ("3/a", "other"), ("3/d", "1")]));
    assert_eq!((imported.keys, imported.commands, imported.notices.len()), (4, 13, 0));
}

#[test]
fn the_clock_stands_still_while_commands_run() {
    let log = commands(
        "SET n 5 PXAT 1000; INCR n; PERSIST n; SET x 1 PXAT 4000000000000; \
         PEXPIREAT n 4100000000000; SET p 1; PEXPIREAT p 1000; APPEND p 2; PERSIST p",
    );
    let (_, held) = file(&log).expect("it is sound");
    let expected = [("0/n", "6@4100000000000"), ("0/p", "12"), ("0/x", "1@4000000000000")];
    assert_eq!(held, keys(&expected));
    let (_, held) = file(&commands("SET k v EX 100000")).expect("it is sound");
    assert!(!held["0/k"].ends_with("@100000000"), "it counts from now on: {held:?}");
}

/// Every prefix of a log imports what was whole by then.
#[test]
fn every_truncation_leaves_out_what_is_not_whole() {
    let parts = ["SET a 1", "SET b 2", "MULTI; SET c 3; SET d 4; EXEC", "SET e 5"];
    let parts: Vec<Vec<u8>> = parts.iter().map(|text| commands(text)).collect();
    let log = parts.concat();
    let expected = [("0/a", "1"), ("0/b", "2"), ("0/c", "3"), ("0/d", "4"), ("0/e", "5")];
    file(b"").expect_err("a file without bytes is a copy that failed");
    for length in 1..=log.len() {
        let mut end = 0;
        let whole = parts.iter().take_while(|part| {
            end += part.len();
            end <= length
        });
        let whole = whole.count();
        let count = whole + usize::from(whole >= 3);
        let (imported, held) = file(&log[..length]).expect("a tail is no damage");
        assert_eq!(held, keys(&expected[..count]), "{length} bytes");
        let at_edge = parts.iter().take(whole).map(Vec::len).sum::<usize>() == length;
        assert_eq!(imported.notices.is_empty(), at_edge, "{length}: {:?}", imported.notices);
    }
}

#[test]
fn damage_in_the_middle_is_told_with_its_place() {
    let (first, second) = (commands("SET a 1"), commands("SET key value; SET b 2"));
    let at = first.len();
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut second = second.clone();
        change(&mut second);
        file(&[&first[..], &second].concat()).expect_err("it is damaged")
    };
    let start = with(&|bytes| bytes[0] = b'x');
    assert!(start.contains(&format!("damaged at byte {at}: 'x' starts no command")), "{start}");
    let longer = with(&|bytes| bytes[5] = b'9');
    assert!(longer.contains(&format!("at byte {at}")), "{longer}");
    let shorter = with(&|bytes| {
        let at = bytes.windows(2).position(|pair| pair == b"$5").expect("a value");
        bytes[at + 1] = b'4';
    });
    assert!(shorter.contains("an argument does not end here"), "{shorter}");
    let huge = with(&|bytes| drop(bytes.splice(5..6, *b"99999")));
    assert!(huge.contains("a whole command stands in it"), "{huge}");
    let count = with(&|bytes| bytes[1] = b'4');
    assert!(count.contains(&format!("in the command at byte {at}: Protocol error")), "{count}");
    let zeros = file(&[&first[..], &[0; 100]].concat()).expect_err("zeros are no command");
    assert!(zeros.contains(&format!("damaged at byte {at}: '\\x00'")), "{zeros}");
}

#[test]
fn what_this_server_does_not_have_is_refused_by_command_and_key() {
    for (log, problem) in [
        ("SET a 1; XLEN s", "XLEN of key \"s\" at byte 27 cannot be replayed"),
        ("GET a", "GET of key \"a\" at byte 0 cannot be replayed: it is no command that changes"),
        ("SHUTDOWN", "SHUTDOWN at byte 0 cannot be replayed"),
        ("CONFIG SET dir x", "cannot be replayed"),
        ("SET a x; INCR a", "INCR of key \"a\" at byte 27 does not succeed as it once did"),
        ("EXEC", "EXEC at byte 0 cannot be replayed"),
        ("MULTI; MULTI; EXEC", "MULTI at byte 15 cannot be replayed"),
        ("SELECT 16", "does not succeed"),
        ("SET a", "does not succeed"),
    ] {
        let refused = file(&commands(log)).expect_err(log);
        assert!(refused.contains(problem), "{log}: {refused}");
        assert!(refused.contains("file.aof"), "{refused}");
    }
}

fn rdb(pairs: &[(&str, &str, Option<i64>)]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = stillframe_rdb::Encoder::new(&mut file);
    let origin = stillframe_rdb::Origin { created_s: 0, used_memory_bytes: 0, aof_base: true };
    encoder.begin(&origin).expect("a Vec takes all");
    for (key, value, expire) in pairs {
        let value = Value::Bytes(value.as_bytes());
        encoder.entry(0, key.as_bytes(), value, *expire).expect("a Vec takes all");
    }
    encoder.finish().expect("a Vec takes all");
    file
}

/// A directory with these files and a manifest.
fn directory(files: &[(&str, &[u8])], manifest: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    let below = folder.path().join("appendonlydir");
    fs::create_dir(&below).expect("writable");
    for (name, bytes) in files {
        fs::write(below.join(name), bytes).expect("writable");
    }
    fs::write(below.join("appendonly.aof.manifest"), manifest).expect("writable");
    folder
}

const MANIFEST: &str = "file base seq 2 type b\nfile old seq 1 type h\n\
    file one seq 2 type i\nfile two seq 3 type i\n";

#[test]
fn a_directory_is_its_base_and_its_incremental_files_in_order() {
    let base = rdb(&[("a", "1", None), ("b", "x", Some(1000)), ("c", "y", None)]);
    let one = commands("SELECT 0; INCR a; PERSIST b; SELECT 5; SET z 1");
    let two = commands("DEL c; APPEND a 0"); // Redis selects anew; without, it is database 0
    let files = [("base", &base[..]), ("one", &one), ("two", &two), ("old", b"junk")];
    let folder = directory(&files, MANIFEST);
    let expected = keys(&[("0/a", "20"), ("0/b", "x"), ("5/z", "1")]);
    assert_eq!(imported(folder.path()).expect("it is sound").1, expected);
    let below = folder.path().join("appendonlydir");
    assert_eq!(imported(&below).expect("it is sound").1, expected);
}

#[test]
fn only_the_last_file_may_be_cut() {
    let (base, one) = (rdb(&[("a", "1", None)]), commands("SET b 2"));
    let cut = &one[..one.len() - 1];
    let folder = directory(&[("base", &base), ("one", &one), ("two", cut)], MANIFEST);
    let (imported_, held) = imported(folder.path()).expect("the last one may be cut");
    assert_eq!((held.len(), imported_.notices.len()), (2, 1));
    let folder = directory(&[("base", &base), ("one", cut), ("two", &one)], MANIFEST);
    let refused = imported(folder.path()).expect_err("the first one may not");
    assert!(refused.contains("one: damaged: it ends with an unfinished command"), "{refused}");
    let open = commands("MULTI; SET b 2");
    let folder = directory(&[("base", &base), ("one", &open), ("two", &one)], MANIFEST);
    assert!(imported(folder.path()).is_err_and(|error| error.contains("without its EXEC")));
    let folder = directory(&[("base", &base[..20]), ("one", &one), ("two", &one)], MANIFEST);
    assert!(imported(folder.path()).is_err_and(|error| error.contains("base: damaged at byte")));
    let folder = directory(&[("base", &base), ("one", &one)], MANIFEST);
    assert!(imported(folder.path()).is_err_and(|error| error.contains("two")));
}

#[test]
fn commands_may_follow_an_rdb_file_in_one_file() {
    let mixed = [rdb(&[("a", "1", None)]), commands("INCR a")].concat();
    assert_eq!(file(&mixed).expect("it is sound").1, keys(&[("0/a", "2")]));
    let plain = rdb(&[("a", "1", None)]);
    assert_eq!(file(&plain).expect("it is sound").1, keys(&[("0/a", "1")]));
}

#[test]
fn data_that_is_there_is_not_replaced() {
    let folder = tempfile::tempdir().expect("a directory");
    let from = folder.path().join("file.aof");
    fs::write(&from, commands("SET a 1")).expect("writable");
    let mut config = Config::default();
    config.set("dir", &[folder.path().to_str().expect("text")]).expect("a setting");
    fs::write(folder.path().join("dump.rdb"), b"precious").expect("writable");
    let refused = import(&from, config, false).expect_err("there is data").to_string();
    assert!(refused.contains("dump.rdb is there already"), "{refused}");
    assert_eq!(fs::read(folder.path().join("dump.rdb")).expect("it is there"), b"precious");
}

/// It had other limits, perhaps, when it was written.
#[test]
fn limits_of_clients_bind_no_import() {
    let (_, keys) =
        file(&commands("SETRANGE k 3000000 x;SETBIT b 16000001 1")).expect("it is read");
    assert_eq!([keys["0/k"].len(), keys["0/b"].len()], [3_000_001, 2_000_001]);
}

#[test]
fn a_directory_without_a_manifest_is_its_one_file() {
    let plain = rdb(&[("a", "1", None)]);
    let folder = tempfile::tempdir().expect("a directory");
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes);
    write("redis.conf", b"save 60 1").expect("writable");
    let refused = imported(folder.path()).expect_err("there is no data");
    assert!(
        refused.contains("it has no manifest, no append-only file and no RDB file"),
        "{refused}"
    );
    write("backup.rdb", &plain).expect("writable");
    assert_eq!(imported(folder.path()).expect("it is sound").1, keys(&[("0/a", "1")]));
    write("appendonly.aof", &commands("SET a 2")).expect("writable");
    let refused = imported(folder.path()).expect_err("either may be meant");
    assert!(refused.contains("name one of appendonly.aof, backup.rdb;"), "{refused}");
}

#[test]
fn a_file_of_valkey_is_imported() {
    let hex = include_str!("../../../../rdb/tests/codec/valkey_9.hex");
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|it| (it[0] * 16 + it[1]) as u8).collect();
    let (imported, held) = file(&bytes).expect("it is sound");
    assert_eq!((imported.keys, &*held["0/a"], &*held["0/neg"]), (11, "b", "v"));
}

/// Redis stops at such a file, whatever the second value is.
#[test]
fn a_key_that_is_there_twice_is_refused() {
    for second in [&b"\x00\x01k\x01w"[..], b"\x00\x01k\xc0\x07", b"\x01\x01k\x01\x01e"] {
        let body = [&b"REDIS0010\x00\x01k\x01v\x00\x01l\x01v"[..], second, b"\xff"].concat();
        let refused = file(&[&body[..], &[0; 8]].concat()).expect_err("it is there twice");
        assert!(refused.contains("key \"k\" at offset 19 is there for a second time"), "{refused}");
        // The same key of another database is another one.
        let body = [&b"REDIS0010\x00\x01k\x01v\xfe\x01"[..], second, b"\xff"].concat();
        file(&[&body[..], &[0; 8]].concat()).expect("it is sound");
    }
}
