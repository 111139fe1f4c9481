//! `check`, `inspect` and `recover` on the files of the real Redis, of every type, and on ours.

use crate::journal::{segments, server};
use crate::support::{Kind, Server, Setup, now_ms, redis_is_here, stillframe, wait_until};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

#[test]
fn a_dump_of_redis_with_every_type_is_sound_and_counted() {
    if !redis_is_here("a_dump_of_redis_with_every_type_is_sound_and_counted") {
        return;
    }
    let redis = Server::start(Kind::Redis);
    let mut client = redis.client();
    for command in [
        "SET text v PX 100000000",
        "RPUSH list a b 1 2",
        "SADD numbers 1 2 3",
        "SADD words x y",
        "ZADD zset 1 a 2.5 b",
        "HSET hash f v",
        "XADD stream 1-1 f v",
        "XADD stream 2-1 f v",
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group me COUNT 1 STREAMS stream >",
        "SELECT 3",
        "SET other v",
        "CONFIG SET list-max-listpack-size 1",
        "RPUSH long a b c d e f",
        "CONFIG SET hash-max-listpack-entries 0",
        "HSET big a 1 b 2",
        "CONFIG SET zset-max-listpack-entries 0",
        "ZADD bigz 1 a 2 b inf c",
    ] {
        let reply = client.ask(command);
        assert!(!matches!(reply, crate::support::Reply::Error(_)), "{command}: {reply:?}");
    }
    client.ok("SAVE");
    let dump = redis.dump().display().to_string();
    let output = stillframe(&["check", &dump]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let output = stillframe(&["inspect", &dump]);
    let text = String::from_utf8_lossy(&output.stdout);
    let zero = "hash: 1, list: 1, set: 2, sorted set: 1, stream: 1, string: 1); 1 expire";
    let three = "hash: 1, list: 1, sorted set: 1, string: 1)";
    assert!(text.contains(zero) && text.contains(three), "{text}");
    assert!(text.contains("redis-ver = 7.0"), "{text}");
}

fn tool(arguments: &[&str]) -> (Option<i32>, String) {
    let output = stillframe(arguments);
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn a_server_is_recovered_up_to_any_record_and_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("a folder");
    let mut first = server("always", &data).start();
    let mut client = first.client();
    for number in 1..=20 {
        client.ok(&format!("SET n {number}"));
    }
    let then = now_ms();
    wait_until("the clock moves on", || now_ms() > then);
    client.ok("SET n later");
    first.kill();
    let (from, at) = (data.display().to_string(), format!("@{}.{:03}", then / 1000, then % 1000));
    let mut number = 0;
    let mut recovered = |until: &str| {
        number += 1;
        let out = folder.path().join(format!("out{number}"));
        let line = ["rewind", &from, "--until", until, "--json", "--out"];
        let (status, text) = tool(&[&line[..], &[&out.display().to_string()]].concat());
        assert_eq!(status, Some(0), "{text}");
        Setup::new(Kind::Ours("imprint")).folder(&out).start().client().ask("GET n").text()
    };
    assert_eq!(recovered("1"), "1");
    assert_eq!(recovered("13"), "13");
    assert_eq!(recovered(&at), "20");
    assert_eq!(recovered("99"), "later");
    let out = folder.path().join("never").display().to_string();
    let (status, text) = tool(&["rewind", &from, "--until", "@5", "--out", &out]);
    assert!(status == Some(1) && text.contains("an earlier state needs"), "{text}");
    assert_eq!(tool(&["rewind", &from, "--until", "yesterday", "--out", &out]).0, Some(2));
    assert_eq!(tool(&["rewind", "/no/such/directory", "--out", &out]).0, Some(2));
    let (status, text) = tool(&["rewind", &from, "--out", &from]);
    assert!(status == Some(1) && text.contains("is there already"), "{text}");
}

#[test]
fn check_and_inspect_look_at_the_log_of_a_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = server("always", folder.path()).start();
    first.client().ok("SET a 1");
    first.client().ok("SET b 2");
    first.kill();
    let data = folder.path().display().to_string();
    let (status, text) = tool(&["check", &data]);
    assert!(status == Some(0) && text.contains("log-0000") && text.contains("dump.rdb"), "{text}");
    let (_, text) = tool(&["inspect", &data]);
    assert!(text.contains("logged     from "), "{text}");
    assert!(text.contains("records    1 to 2") && text.contains("stillframe-log = 1:1:"), "{text}");
    let path = segments(folder.path()).pop().expect("one at least");
    let mut bytes = fs::read(&path).expect("it is there");
    bytes[70] ^= 1;
    fs::write(&path, bytes).expect("it can be written");
    assert_eq!(tool(&["check", &data]).0, Some(1));
    fs::remove_dir_all(folder.path().join("appendonlydir")).expect("it is there");
    let (status, text) = tool(&["check", &data]);
    assert!(status == Some(1) && text.contains("but the log is missing"), "{text}");
}

#[test]
fn advice_looks_at_a_server_that_runs() {
    let redis = redis_is_here("advice_looks_at_a_server_that_runs").then_some(Kind::Redis);
    for kind in redis.into_iter().chain([Kind::subject("imprint")]) {
        let server = Server::start(kind);
        let target = format!("127.0.0.1:{}", server.port);
        let advise = ["lab", "advise", "--target", &target, "--for", "300ms"];
        let (status, idle) = tool(&advise);
        assert!(status == Some(1) && idle.contains("no key changed within"), "{idle}");
        let is_over = AtomicBool::new(false);
        let (status, text) = thread::scope(|scope| {
            scope.spawn(|| {
                let mut client = server.client();
                for number in 0.. {
                    client.ok(&format!("SET key:{} v", number % 50));
                    client.ask(&format!("GET key:{}", number % 50));
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
            let advice = tool(&advise);
            is_over.store(true, Ordering::Relaxed);
            advice
        });
        assert_eq!(status, Some(0), "{text}");
        assert!(text.contains(" changes a second, ") && text.contains("Use "), "{text}");
        assert!(text.contains("MiB were measured, not 0"), "fifty keys are little: {text}");
    }
}
