//! A start beside data of another kind is refused with advice, and the advice works.

use crate::support::{Kind, Server, Setup, output_of, own_port, redis_is_here, stillframe};
use std::fs;
use std::path::Path;

/// Starts our server in vain; its message.
fn refused(folder: &Path, flags: &[&str]) -> String {
    let setup = Setup::new(Kind::Ours("imprint")).flags(flags);
    let output = output_of(setup.command(folder, own_port()));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    text
}

/// Does what a refusal advises, and serves what comes of it.
fn imported(text: &str) -> (tempfile::TempDir, Server) {
    let advice = text.split("'stillframe import ").nth(1).expect("advice");
    let from = advice.split(" --dir").next().expect("a place");
    let new = tempfile::tempdir().expect("a folder");
    let dir = new.path().join("data").display().to_string();
    let output = stillframe(&["import", from, "--dir", &dir]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let server = Setup::new(Kind::Ours("imprint")).folder(Path::new(&dir)).start();
    (new, server)
}

#[test]
fn append_only_files_of_redis_are_not_passed_over() {
    if !redis_is_here("append_only_files_of_redis_are_not_passed_over") {
        return;
    }
    for preamble in ["yes", "no"] {
        let folder = tempfile::tempdir().expect("a folder");
        let flags = ["--appendonly", "yes", "--aof-use-rdb-preamble", preamble];
        let mut redis = Setup::new(Kind::Redis).folder(folder.path()).flags(&flags).start();
        let mut client = redis.client();
        client.ok("SET before 1");
        client.ok("BGREWRITEAOF");
        crate::support::wait_until("it is rewritten", || {
            client.info("aof_rewrite_in_progress") == "0"
                && client.info("aof_rewrite_scheduled") == "0"
        });
        client.ok("SET after 2");
        client.send(&[b"SHUTDOWN", b"NOSAVE"]);
        redis.wait();
        // Redis 7: a directory.
        for flags in [&[][..], &["--appendonly", "yes"], &["--appenddirname", "logs"]] {
            let text = refused(folder.path(), flags);
            assert!(text.contains("stillframe import"), "{flags:?}: {text}");
        }
        let (_new, server) = imported(&refused(folder.path(), &[]));
        assert_eq!(server.client().ask("GET after").text(), "2");
        // Redis 6: one file, which Redis 7 would take over.
        let old = tempfile::tempdir().expect("a folder");
        let base = if preamble == "yes" { "rdb" } else { "aof" };
        let read = |name: &str| {
            fs::read(folder.path().join("appendonlydir").join(name)).expect("a file of Redis 7")
        };
        let whole =
            [read(&format!("appendonly.aof.2.base.{base}")), read("appendonly.aof.2.incr.aof")];
        for (name, flags) in [
            ("appendonly.aof", &[][..]),
            ("appendonly.aof", &["--appendonly", "yes"]),
            ("other.log", &["--appendfilename", "other.log"]),
            ("third.aof", &[]),
        ] {
            fs::write(old.path().join(name), whole.concat()).expect("a file");
            let text = refused(old.path(), flags);
            assert!(text.contains("append-only file") && text.contains(name), "{text}");
            let (_new, server) = imported(&text);
            assert_eq!(server.client().ask("MGET before after").list().len(), 2);
            assert_eq!(server.client().ask("GET after").text(), "2");
            fs::remove_file(old.path().join(name)).expect("it is there");
        }
    }
}

#[test]
fn a_dump_beside_append_only_files_counts_as_it_does_in_redis() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = || Setup::new(Kind::Ours("imprint")).folder(folder.path());
    let mut server = start().start();
    server.client().ok("SET k v");
    server.client().ok("SAVE");
    server.kill();
    fs::write(folder.path().join("appendonly.aof"), "*1\r\n$7\r\nFLUSHDB\r\n").expect("a file");
    // Redis loads the dump if no log is wanted, the other file if one is.
    let mut server = start().start();
    assert_eq!(server.client().ask("GET k").text(), "v");
    assert!(server.log().contains("appendonly.aof is the append-only file of a Redis server"));
    server.kill();
    let text = refused(folder.path(), &["--appendonly", "yes"]);
    assert!(text.contains("stillframe import"), "{text}");
    // An operator who turns the log on by command has decided.
    let mut server = start().start();
    server.client().ok("CONFIG SET appendonly yes");
    crate::support::wait_until("the log is on", || server.log().contains("the log is on"));
    server.kill();
    let server = start().flags(&["--appendonly", "yes"]).start();
    assert_eq!(server.client().ask("GET k").text(), "v");
}

#[test]
fn a_dump_of_another_name_and_a_store_are_not_passed_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = || Setup::new(Kind::Ours("imprint")).folder(folder.path());
    let mut server = start().flags(&["--dbfilename", "other.rdb"]).start();
    server.client().ok("SET k v");
    server.client().ok("SAVE");
    server.kill();
    let text = refused(folder.path(), &[]);
    assert!(text.contains("--dbfilename other.rdb"), "{text}");
    let mut server = start().flags(&["--dbfilename", "other.rdb"]).start();
    assert_eq!(server.client().ask("GET k").text(), "v");
    server.kill();
    fs::remove_file(folder.path().join("other.rdb")).expect("it is there");
    fs::write(folder.path().join("checkpoint-00000000000000000007"), "x").expect("a file");
    let text = refused(folder.path(), &[]);
    assert!(text.contains("keeps it in a Store"), "{text}");
    fs::remove_file(folder.path().join("checkpoint-00000000000000000007")).expect("it is there");
    // What is no data stops nothing.
    fs::write(folder.path().join("notes.txt"), "REDIS is a server").expect("a file");
    start().start().client().ok("PING");
}
