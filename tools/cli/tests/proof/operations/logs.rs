//! The log: its level at run time, its file, its form.

use super::certificates::Certificates;
use crate::support::{Kind, Reply, Server, Setup, own_port, stillframe, wait_until};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

#[test]
fn the_level_changes_at_run_time() {
    let server = Server::start(Kind::Ours("imprint"));
    let mut client = server.client();
    let connections = || server.log().matches(" connected").count();
    assert_eq!(connections(), 0, "nobody wants to know by default");
    client.ok("CONFIG SET loglevel verbose");
    server.client().ok("PING");
    wait_until("connections are shown", || connections() == 1);
    client.ok("CONFIG SET loglevel notice");
    server.client().ok("PING");
    assert_eq!(connections(), 1);
    let reply = client.ask("CONFIG SET loglevel loud");
    assert!(matches!(&reply, Reply::Error(text) if text.contains("debug, verbose")), "{reply:?}");
}

#[test]
fn a_log_file_takes_lines_of_json_and_may_be_moved_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, moved) = (folder.path().join("a.log"), folder.path().join("a.log.1"));
    let name = file.display().to_string();
    let setup = Setup::new(Kind::Ours("imprint"));
    let mut server = setup.flags(&["--logfile", &name, "--log-format", "json"]).start();
    let mut client = server.client();
    assert_eq!(client.ask("CONFIG GET logfile").list()[1].text(), name);
    assert!(matches!(client.ask("CONFIG SET logfile x"), Reply::Error(_)), "as in Redis");
    fs::rename(&file, &moved).expect("a move");
    client.send(&[b"SHUTDOWN", b"NOSAVE"]);
    server.wait();
    assert_eq!(server.log(), "", "nothing goes elsewhere");
    let mut messages = Vec::new();
    for path in [&moved, &file] {
        let text = fs::read_to_string(path).expect("a log");
        assert!(!text.is_empty());
        for line in text.lines() {
            let value: serde_json::Value = serde_json::from_str(line).expect("an object a line");
            for field in ["timestamp", "level", "message"] {
                assert!(value[field].is_string(), "{line}");
            }
            messages.push(value["message"].as_str().expect("text").to_owned());
        }
    }
    assert!(messages.iter().any(|text| text.starts_with("Ready to accept")), "{messages:?}");
    assert_eq!(messages.last().map(String::as_str), Some("ready to exit, bye bye"));
}

#[test]
fn what_cannot_be_logged_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data").display().to_string();
    let output = stillframe(&["serve", "--dir", &data, "--logfile", "/nowhere/log"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("cannot write the log file /nowhere/log"), "{text}");
    let file = folder.path().join("a.conf");
    fs::write(&file, "syslog-ident redis\nsyslog-enabled yes\n").expect("a file");
    let output = stillframe(&["serve", "--config", &file.display().to_string()]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("line 2") && text.contains("does not speak to syslog"), "{text}");
}

#[test]
fn a_log_that_cannot_be_written_stops_nothing() {
    let nowhere = ["sh", "-c", "exec \"$0\" \"$@\" 2>/dev/full"];
    let setup = Setup::new(Kind::Ours("imprint")).wrapper(&nowhere);
    let mut server = setup.flags(&["--enable-debug-command", "yes"]).start();
    let mut client = server.client();
    client.ok("CONFIG SET loglevel debug");
    client.ok("SET k v");
    assert_eq!(client.save_in_background(), "ok");
    client.ok("DEBUG LOG lost");
    server.client().ok("PING");
    client.send(&[b"SHUTDOWN"]);
    assert!(server.wait().success());
}

/// Peers that cause a line each.
const PEERS: usize = 300;

/// A peer that says something, and hears that nobody wants it.
fn knock(port: u16, request: &[u8]) {
    let mut peer = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    // It may be turned away before it says something, or by a reset.
    let _ = peer.write_all(request);
    let _ = peer.read_to_end(&mut Vec::new());
}

/// Many peers cause a line with this sentence: each is written or counted.
fn assert_bounded(server: &Server, sentence: &str, mut cause: impl FnMut()) {
    let begun = Instant::now();
    (0..PEERS).for_each(|_| cause());
    let (mut lines, mut others) = (0, 0);
    wait_until("every line is written or counted", || {
        let log = server.log();
        let told: Vec<&str> = log.lines().filter(|line| line.contains(sentence)).collect();
        let count = |line: &&str| -> Option<usize> {
            line.split_once("(and ")?.1.split_once(" lines like it)")?.0.parse().ok()
        };
        lines = told.len();
        others = told.iter().filter_map(count).sum::<usize>();
        lines + others == PEERS
    });
    let seconds = begun.elapsed().as_secs() as usize;
    assert!(lines <= 11 + seconds, "{sentence}: {lines} lines of {PEERS} within {seconds} s");
    assert!(others > 0, "{sentence}: some are only counted");
}

#[test]
fn peers_that_cause_lines_in_a_loop_do_not_fill_the_log() {
    let server = Server::start(Kind::Ours("imprint"));
    let port = server.port;
    assert_bounded(&server, "Protocol error", || knock(port, b"*1\r\n$-5\r\n"));
    assert_bounded(&server, "it speaks HTTP", || knock(port, b"POST / HTTP/1.1\r\n"));
}

/// A peer that is turned away is told so, and only where TLS is in the way it is told in the log.
#[test]
fn peers_that_speak_no_tls_or_are_turned_away_do_not_fill_the_log() {
    let test = "peers_that_speak_no_tls_or_are_turned_away_do_not_fill_the_log";
    let Some(certificates) = Certificates::new(test, &[]) else { return };
    let port = own_port();
    let flags = certificates.flags(port);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = Setup::new(Kind::Ours("imprint")).flags(&flags).start();
    assert_bounded(&server, "TLS connection with", || knock(port, b"*1\r\n$4\r\nPING\r\n"));
    let mut inside = server.client();
    inside.ok("CONFIG SET maxclients 1");
    let refused = "away: ERR max number of clients reached";
    assert_bounded(&server, refused, || knock(port, b"\x16\x03\x01"));
}
