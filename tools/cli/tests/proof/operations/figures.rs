//! Figures for Prometheus: every line well formed, the numbers those of INFO, bad peers harmless.

use crate::support::{Client, Kind, Server, Setup, own_port, wait_until};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;

fn start() -> (Server, u16) {
    let port = own_port();
    let flags = ["--metrics-port", &port.to_string()];
    (Setup::new(Kind::Ours("imprint")).flags(&flags).start(), port)
}

pub(super) fn get(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

/// The figures, each checked as Prometheus would: families announced once, then their lines.
fn scrape(port: u16) -> BTreeMap<String, f64> {
    let text = get(port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    assert!(body.ends_with('\n'));
    let (mut figures, mut families) = (BTreeMap::new(), BTreeSet::new());
    let (mut family, mut kind) = ("", "");
    let mut lines = body.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').expect("a name and words");
            assert!(!words.is_empty() && families.insert(name), "{line}");
            let type_line = lines.next().and_then(|line| line.strip_prefix("# TYPE "));
            kind = type_line.and_then(|line| line.strip_prefix(name)).expect("its type").trim();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}: {kind}");
            family = name;
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a series and a value");
        let name = series.split('{').next().expect("a name");
        let parts = if kind == "histogram" { &["_bucket", "_sum", "_count"][..] } else { &[""] };
        let part = name.strip_prefix(family).expect("a line of its family");
        assert!(parts.contains(&part), "{line}");
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'), "{line}");
        check_labels(&series[name.len()..]);
        let value: f64 = value.parse().expect("a number");
        assert!(value.is_finite() && (kind == "gauge" || value >= 0.0), "{line}");
        assert!(figures.insert(series.to_owned(), value).is_none(), "{line}: twice");
    }
    figures
}

/// `{name="text",...}` with escapes, or nothing.
fn check_labels(labels: &str) {
    if labels.is_empty() {
        return;
    }
    let mut rest = labels.strip_prefix('{').expect("a brace");
    loop {
        let (name, text) = rest.split_once("=\"").expect("a label");
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{labels}");
        let mut escaped = false;
        let end = text.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        rest = &text[end.expect("a closing quote") + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return assert_eq!(rest, "}", "{labels}"),
        }
    }
}

#[test]
fn the_figures_are_those_of_info() {
    let (server, port) = start();
    let replica = Server::start(Kind::Ours("imprint"));
    let mut client = server.client();
    client.ok("CONFIG SET repl-diskless-sync-delay 0");
    replica.client().ok(&format!("REPLICAOF 127.0.0.1 {}", server.port));
    wait_until("the replica follows", || {
        client.info("connected_slaves") == "1" && client.info("slave0").contains("online")
    });
    client.ok("MSET a 1 b 2 c 3");
    client.ok("SET d 4 EX 1000");
    client.ok("GET a");
    client.ok("GET missing");
    client.ask("INCR \"\\x\n");
    client.ask("LPUSH a x");
    assert_eq!(client.save_in_background(), "ok");
    let figures = scrape(port);
    for (name, field) in [
        ("redis_connected_clients", "connected_clients"),
        ("redis_keyspace_hits_total", "keyspace_hits"),
        ("redis_keyspace_misses_total", "keyspace_misses"),
        ("redis_rdb_last_save_timestamp_seconds", "rdb_last_save_time"),
        ("redis_rdb_bgsave_in_progress", "rdb_bgsave_in_progress"),
        ("redis_connected_slaves", "connected_slaves"),
        ("stillframe_snapshot_saves_total", "rdb_saves"),
        ("redis_config_maxclients", "maxclients"),
    ] {
        assert_eq!(figures[name], client.info_int(field) as f64, "{name}");
    }
    let begin_us = figures["stillframe_snapshot_last_begin_seconds"] * 1e6;
    assert!((begin_us - client.info_int("latest_begin_usec") as f64).abs() <= 1.0);
    assert_eq!(figures["redis_db_keys{db=\"db0\"}"], client.ask("DBSIZE").int() as f64);
    assert_eq!(figures["redis_db_keys_expiring{db=\"db0\"}"], 1.0);
    assert_eq!(figures["redis_commands_total{cmd=\"mset\"}"], 1.0);
    assert_eq!(figures["redis_commands_failed_calls_total{cmd=\"lpush\"}"], 1.0);
    assert_eq!(figures["redis_errors_total{err=\"WRONGTYPE\"}"], 1.0);
    assert!(figures["redis_memory_used_rss_bytes"] > 1e6);
    let turns = "stillframe_turn_duration_seconds";
    let [all, below] = [format!("{turns}_count"), format!("{turns}_bucket{{le=\"+Inf\"}}")];
    assert!(figures[&all] > 10.0 && figures[&all] == figures[&below], "{figures:?}");
    let has = |start: &str| figures.keys().any(|series| series.starts_with(start));
    assert!(has("redis_connected_slave_lag_seconds{slave_ip=\"127.0.0.1\""), "{figures:?}");
    assert!(has("redis_instance_info{role=\"master\",redis_version=\"7.4.0\""), "{figures:?}");
}

#[test]
fn progress_of_a_save_is_shown() {
    let (server, port) = start();
    let mut client = server.client();
    for number in 0..200 {
        client.call(&[b"SET", format!("k:{number}").as_bytes(), &[b'x'; 20_000]]);
    }
    client.ok("CONFIG SET rdbcompression no snapshot-bandwidth 400000");
    client.ok("BGSAVE");
    wait_until("half of it is done", || {
        let figures = scrape(port);
        assert_eq!(figures["redis_rdb_bgsave_in_progress"], 1.0);
        assert_eq!(figures["stillframe_snapshot_keys_total"], 200.0);
        let (done, total) =
            (figures["stillframe_snapshot_bytes_done"], figures["stillframe_snapshot_bytes_total"]);
        assert!(done <= total, "{done} of {total}");
        done > 0.0 && figures["stillframe_snapshot_eta_seconds"] > 0.0
    });
    client.ok("BGSAVE CANCEL");
    client.wait_for_save();
}

#[test]
fn bad_peers_hurt_nobody() {
    let (server, port) = start();
    for (request, status) in [
        ("GET /nothing HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("PING\r\n\r\n", "400"),
    ] {
        let text = get(port, request);
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {text}");
    }
    // Peers that send nothing, or never end a request: more of them than the server serves.
    let mut slow: Vec<TcpStream> =
        (0..30).map(|_| TcpStream::connect(("127.0.0.1", port)).expect("a connection")).collect();
    for stream in &mut slow {
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nX: "); // it may be turned away
    }
    assert_eq!(Client::try_connect(server.port).expect("a client").ask("PING").text(), "PONG");
    // They are given up, and the figures are there again.
    let answers = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text.starts_with("HTTP/1.1 200"))
    };
    wait_until("it serves again", || answers() == Some(true));
}

/// State and age of an archive, while it is current and when it cannot be written any more.
#[test]
fn a_server_that_archives_shows_how_far_its_archive_is() {
    let (folder, port) = (tempfile::tempdir().expect("a folder"), own_port());
    let archive = folder.path().join("archive");
    std::fs::create_dir(&archive).expect("a folder");
    let (url, metrics) = (format!("file://{}", archive.display()), port.to_string());
    let flags = ["--metrics-port", &metrics, "--appendonly", "yes", "--archive", &url];
    let setup = Setup::new(Kind::Ours("imprint")).flags(&flags);
    let server = setup.flags(&["--archive-interval", "1"]).start();
    server.client().ok("SET k v");
    let shown = |state: &str| {
        let figures = scrape(port);
        let states: Vec<_> =
            figures.iter().filter(|(series, _)| series.contains("archive_state")).collect();
        let expected = format!("stillframe_archive_state{{state=\"{state}\"}}");
        assert!(states.len() == 1 && *states[0].1 == 1.0, "{states:?}");
        let is_shown = *states[0].0 == expected;
        let of = move |name: &str| figures[&format!("stillframe_archive_{name}")];
        is_shown.then_some(of)
    };
    wait_until("all is archived", || shown("current").is_some_and(|of| of("last_record") == 1.0));
    wait_until("it is current", || {
        shown("current").is_some_and(|of| {
            assert!(of("uploaded_bytes_total") > 0.0 && of("errors_total") == 0.0);
            of("pending_bytes") >= 0.0 && of("behind_seconds") < 100.0
        })
    });
    std::fs::remove_dir_all(&archive).expect("it is there");
    std::fs::write(&archive, "no folder").expect("a file in its place");
    server.client().ok("SET k w");
    let ages = || shown("waiting").map(|of| (of("behind_seconds"), of("errors_total")));
    wait_until("it is told to wait", || {
        ages().is_some_and(|(age, errors)| age > 1.0 && errors > 0.0)
    });
    let (before, _) = ages().unwrap_or_default();
    wait_until("its age grows", || ages().is_some_and(|(age, _)| age > before + 1.0));
}
