//! `stillframe rewind --until` on the data directories of servers, running and stopped: what was
//! undone by mistake comes back.

use crate::journal::server;
use crate::support::{
    Client, Kind, Server, Setup, Stop, now_ms, send_signal, stillframe, wait_until,
};
use rustix::process::Signal;
use std::fs;
use std::path::PathBuf;

/// Recovers states of one data directory, each into a folder of its own.
struct Past {
    folder: tempfile::TempDir,
    data: PathBuf,
    states: usize,
}

impl Past {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        fs::create_dir(&data).expect("a folder");
        Self { folder, data, states: 0 }
    }

    /// A server as it is by default, but for `appendonly yes`, with a schedule of saves.
    fn serve(&self) -> Server {
        server("everysec", &self.data).flags(&["--save", "3600 1"]).start()
    }

    /// The tool's report.
    fn tool(&mut self, until: &str) -> (Option<i32>, String, PathBuf) {
        self.states += 1;
        let out = self.folder.path().join(format!("out{}", self.states));
        let (from, to) = (self.data.display().to_string(), out.display().to_string());
        let output = stillframe(&["rewind", &from, "--until", until, "--json", "--out", &to]);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned(), out)
    }

    /// A server with the state of then.
    fn at(&mut self, until: &str) -> Server {
        let (status, text, out) = self.tool(until);
        assert_eq!(status, Some(0), "{text}");
        Setup::new(Kind::Ours("imprint")).folder(&out).start()
    }

    /// The value of the key `n` then, 0 if there is none.
    fn n(&mut self, until: u64) -> u64 {
        let state = self.at(&until.to_string());
        let value = state.client().ask("GET n");
        value.bytes().map_or(0, |digits| String::from_utf8_lossy(digits).parse().expect("a number"))
    }

    fn earlier(&self) -> usize {
        let names = fs::read_dir(&self.data).expect("it is there");
        let names = names.map(|entry| entry.expect("it can be read").file_name());
        names.filter(|name| name.to_string_lossy().starts_with("earlier-")).count()
    }
}

/// A time for `--until`, at which the clock is no longer when this returns.
pub(crate) fn now() -> String {
    let then = now_ms();
    wait_until("the clock moves on", || now_ms() > then);
    format!("@{}.{:03}", then / 1000, then % 1000)
}

fn stop(mut server: Server) {
    send_signal(server.pid(), Signal::TERM);
    assert!(server.wait().success(), "{}", server.log());
}

/// Sets the key `n` to each of these numbers: each is a record of the log.
fn count(client: &mut Client, numbers: std::ops::RangeInclusive<u64>) {
    numbers.for_each(|number| client.ok(&format!("SET n {number}")));
}

fn durable(client: &mut Client, record: i64) {
    wait_until("the log is on the disk", || client.info_int("log_durable_record") >= record);
}

#[test]
fn a_flushall_is_undone_while_the_server_runs_and_after_it_has_stopped() {
    let mut past = Past::new();
    let server = past.serve();
    let mut client = server.client();
    for key in 1..=5 {
        client.ok(&format!("SET key{key} {key}"));
    }
    let before = now();
    client.ok("FLUSHALL");
    client.ok("SET after 1");
    durable(&mut client, 7);
    let has_all = |past: &mut Past| {
        for until in [before.as_str(), "5"] {
            let state = past.at(until);
            assert_eq!(state.client().ask("DBSIZE").int(), 5, "{until}");
        }
        assert_eq!(past.at("6").client().ask("DBSIZE").int(), 0);
        assert_eq!(past.at("7").client().ask("GET after").text(), "1");
    };
    has_all(&mut past);
    stop(server);
    has_all(&mut past);
    // A save is not worth an image that nobody asked for: only one of before is there.
    assert_eq!(past.earlier(), 1);
    for _ in 0..3 {
        let server = past.serve();
        assert_eq!(server.client().info("log_kept_images"), past.earlier().to_string());
        server.client().ok("SET once more");
        has_all(&mut past);
        stop(server);
    }
    has_all(&mut past);
    let data = past.data.display().to_string();
    let output = stillframe(&["check", &data]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("earlier-1-1-"), "{text}");
    assert!(!text.contains("no dump file names"), "{text}");
}

#[test]
fn every_record_can_be_had_after_many_rewrites_kills_and_a_log_that_was_off() {
    let mut past = Past::new();
    let mut last = 0;
    for round in 0..4 {
        let mut server = past.serve();
        let mut client = server.client();
        for _ in 0..3 {
            count(&mut client, last + 1..=last + 3);
            last += 3;
            client.ask("BGREWRITEAOF");
            client.wait_for_save();
        }
        if round == 1 {
            client.ok("CONFIG SET appendonly no");
            wait_until("the log is off", || client.info("aof_enabled") == "0");
            client.ok("CONFIG SET appendonly yes");
            wait_until("the log is on", || client.info("aof_enabled") == "1");
        }
        durable(&mut client, last as i64);
        server.kill();
    }
    assert!(past.earlier() > 2, "{}", past.earlier());
    for number in 0..=last {
        assert_eq!(past.n(number), number);
    }
    let (status, text, _) = past.tool("@5");
    assert!(status == Some(1) && text.contains("an earlier state needs"), "{text}");
}

/// A start without a log, and saves without one, leave what there was; numbers go on after it.
#[test]
fn the_past_outlives_a_server_that_was_started_without_a_log() {
    let mut past = Past::new();
    let server = past.serve();
    count(&mut server.client(), 1..=3);
    stop(server);
    for number in 4..=5 {
        let off = Setup::new(Kind::Ours("imprint")).folder(&past.data);
        let server = off.flags(&["--save", "3600 1"]).start();
        count(&mut server.client(), number..=number);
        stop(server);
    }
    assert_eq!(past.n(2), 2);
    let mut server = past.serve();
    let mut client = server.client();
    assert_eq!(client.ask("GET n").text(), "5");
    let first = client.info_int("log_last_record") + 1;
    assert!(first >= 4, "record {first} is there already");
    count(&mut client, 6..=8);
    let after = now();
    client.ok("SET n 9");
    durable(&mut client, first + 3);
    server.kill();
    assert_eq!(past.at(&after).client().ask("GET n").text(), "8");
    assert_eq!((past.n(1), past.n(first as u64)), (1, 6));
}

#[test]
fn what_a_replica_held_before_its_full_sync_can_be_had_and_after_its_promotion_too() {
    let primary = Setup::new(Kind::Ours("imprint")).start();
    primary.client().ok("CONFIG SET repl-diskless-sync-delay 0");
    primary.client().ok("SET theirs 1");
    let mut past = Past::new();
    let replica = past.serve();
    let mut client = replica.client();
    count(&mut client, 1..=3);
    let before = now();
    client.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    wait_until("it follows", || client.info("master_link_status") == "up");
    wait_until("it logs", || client.info("aof_enabled") == "1");
    assert_eq!(client.info("log_generation"), "2");
    client.ok("REPLICAOF NO ONE");
    client.ok("SET own 1");
    let promoted = now();
    client.ok("FLUSHALL");
    assert_eq!(past.at(&before).client().ask("GET n").text(), "3");
    stop(replica);
    let then = past.at(&before);
    assert_eq!(then.client().ask("GET n").text(), "3");
    assert_eq!(then.client().ask("EXISTS theirs").int(), 0);
    let then = past.at(&promoted);
    assert_eq!(then.client().ask("EXISTS theirs own n").int(), 2);
}

/// A directory of the version before has no earlier images: the first save begins to keep them.
#[test]
fn a_directory_without_a_past_gets_one() {
    let mut past = Past::new();
    let server = past.serve();
    let mut client = server.client();
    client.ok("CONFIG SET log-keep-age 0");
    count(&mut client, 1..=3);
    stop(server);
    assert_eq!(past.earlier(), 0);
    assert_eq!(past.tool("2").0, Some(1), "it was not to be kept");
    let server = past.serve();
    count(&mut server.client(), 4..=6);
    stop(server);
    assert_eq!((past.n(3), past.n(4), past.n(6)), (3, 4, 6));
    assert_eq!(past.tool("2").0, Some(1));
}

#[test]
fn what_is_kept_is_bounded_by_bytes_but_for_one_image_and_its_log() {
    let past = Past::new();
    let server = past.serve();
    let mut client = server.client();
    client.ok("CONFIG SET log-keep-bytes 100kb");
    let value = "v".repeat(20_000);
    for number in 0..20 {
        client.call(&[b"SET", format!("key{number}").as_bytes(), value.as_bytes()]);
        assert_eq!(client.save_in_background(), "ok");
        let (images, bytes) =
            (client.info_int("log_kept_images"), client.info_int("log_kept_bytes"));
        assert_eq!(images as usize, past.earlier());
        assert!(images == 1 || images > 1 && bytes <= 100 << 10, "{images}, {bytes}");
    }
    assert!(client.info_int("log_kept_since_ms") > 0);
    assert_eq!(client.info("log_kept_images"), "1");
}

/// The images of a server that runs come and go meanwhile.
#[test]
fn a_server_that_saves_all_the_time_is_read_beside() {
    let mut past = Past::new();
    let server = past.serve();
    let mut client = server.client();
    client.ok("CONFIG SET log-keep-bytes 1");
    count(&mut client, 1..=5);
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let _guard = stop.at_the_end();
        scope.spawn(|| {
            while !stop.is_due() {
                client.ok("SET other 1");
                client.save_in_background();
            }
        });
        for _ in 0..10 {
            let started = now_ms();
            let state = past.at(&format!("@{}", started / 1000 + 3600));
            assert_eq!(state.client().ask("GET n").text(), "5");
        }
    });
}

/// A damaged image is no reason to lose what an earlier one leads to.
#[test]
fn an_earlier_image_stands_in_for_a_damaged_one() {
    let mut past = Past::new();
    let server = past.serve();
    count(&mut server.client(), 1..=3);
    stop(server);
    let dump = past.data.join("dump.rdb");
    let mut bytes = fs::read(&dump).expect("it is there");
    let middle = bytes.len() - 12;
    bytes[middle] ^= 1;
    fs::write(&dump, bytes).expect("it can be written");
    let (status, text, out) = past.tool("99");
    assert!(status == Some(0) && text.contains("an earlier image was taken"), "{text}");
    let state = Setup::new(Kind::Ours("imprint")).folder(&out).start();
    assert_eq!(state.client().ask("GET n").text(), "3");
}
