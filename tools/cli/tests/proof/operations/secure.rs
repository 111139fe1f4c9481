//! TLS with ordinary clients and with hostile ones.

use super::certificates::Certificates;
use super::said;
use crate::support::{
    Client, Kind, Peer, Reply, Server, Setup, own_port, python, stillframe, wait_until,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A server with plain TCP and TLS.
fn start(certificates: &Certificates, more: &[&str]) -> (Server, u16) {
    start_one(Kind::subject("imprint"), certificates, more)
}

/// As [`start`], for what only this server does.
fn start_ours(certificates: &Certificates, more: &[&str]) -> (Server, u16) {
    start_one(Kind::Ours("imprint"), certificates, more)
}

fn start_one(kind: Kind, certificates: &Certificates, more: &[&str]) -> (Server, u16) {
    let port = own_port();
    let flags = certificates.flags(port);
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
    (Setup::new(kind).flags(&flags).start(), port)
}

/// Pipelines, transactions and values that fill every buffer on the way.
const REDIS_PY: &str = r#"
import sys, redis
port, ca, cert, key = int(sys.argv[1]), *sys.argv[2:5]
secure = dict(ssl=True, ssl_ca_certs=ca, ssl_certfile=cert, ssl_keyfile=key)
secure["ssl_check_hostname"] = False
r = redis.Redis(port=port, **secure)
assert r.ping()
large = bytes(range(256)) * 40960
assert r.set("large", large) and r.get("large") == large
with r.pipeline(transaction=False) as p:
    for i in range(20000):
        p.set(f"many:{i}", str(i) * 20)
    assert all(p.execute())
with r.pipeline(transaction=True) as p:
    for i in range(20000):
        p.get(f"many:{i}")
    assert p.execute() == [(str(i) * 20).encode() for i in range(20000)]
with r.pipeline(transaction=False) as p:
    for i in range(8):
        p.get("large")
    assert p.execute() == [large] * 8
s = r.pubsub()
s.subscribe("news")
assert s.get_message(timeout=60)["type"] == "subscribe"
assert r.publish("news", large) == 1
assert s.get_message(timeout=60)["data"] == large
assert redis.Redis(port=port, **secure).blpop("none", timeout=1) is None
print("fine")
"#;

#[test]
fn redis_cli_and_redis_py_work_over_tls() {
    let Some(certificates) =
        Certificates::new("redis_cli_and_redis_py_work_over_tls", &[Peer::RedisCli, Peer::RedisPy])
    else {
        return;
    };
    let (server, port) = start(&certificates, &[]);
    for protocol in ["TLSv1.2", "TLSv1.3"] {
        server.client().ok(&format!("CONFIG SET tls-protocols {protocol}"));
        let cli = |command: &[&str]| certificates.cli(port, Some("client"), command).1;
        assert_eq!(cli(&["SET", "k", "two words"]), "OK\n");
        assert_eq!(server.client().ask("GET k").text(), "two words");
        let [ca, cert, key] =
            ["ca.crt", "client.crt", "client.key"].map(|name| certificates.path(name));
        let line = ["-c", REDIS_PY, &port.to_string(), &ca, &cert, &key];
        assert_eq!(said(&python(), &line).1, "fine\n", "{protocol}");
    }
}

#[test]
fn clients_show_certificates_as_the_server_demands() {
    let Some(certificates) =
        Certificates::new("clients_show_certificates_as_the_server_demands", &[Peer::RedisCli])
    else {
        return;
    };
    let (server, port) = start(&certificates, &[]);
    // By setting: without a certificate, with a good one, with a stranger's.
    for (setting, welcome) in [
        ("yes", [false, true, false]),
        ("optional", [true, true, false]),
        ("no", [true, true, true]),
    ] {
        server.client().ok(&format!("CONFIG SET tls-auth-clients {setting}"));
        for (who, welcome) in [None, Some("client"), Some("stranger")].into_iter().zip(welcome) {
            let (_, text) = certificates.cli(port, who, &["PING"]);
            assert_eq!(text == "PONG\n", welcome, "{setting}, {who:?}: {text}");
        }
    }
}

#[test]
fn passwords_and_users_count_on_every_kind_of_socket() {
    let Some(certificates) =
        Certificates::new("passwords_and_users_count_on_every_kind_of_socket", &[Peer::RedisCli])
    else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket").display().to_string();
    let (server, port) = start(&certificates, &["--unixsocket", &path]);
    let mut client = server.client();
    client.ok("ACL SETUSER reader on >secret ~public:* +get +ping");
    client.ok("CONFIG SET requirepass open");
    let plain = vec!["-p".to_owned(), server.port.to_string()];
    let unix = vec!["-s".to_owned(), path];
    for how in [plain, certificates.client(port, Some("client")), unix] {
        let cli = |line: &str| {
            let words = how.iter().map(String::as_str).chain(line.split(' '));
            said("redis-cli", &words.collect::<Vec<_>>()).1
        };
        assert!(cli("GET k").starts_with("NOAUTH"), "{how:?}");
        assert!(cli("--no-auth-warning -a wrong GET k").contains("NOAUTH"), "{how:?}");
        assert_eq!(cli("--no-auth-warning -a open SET k v"), "OK\n", "{how:?}");
        let reader = "--no-auth-warning --user reader --pass secret";
        assert_eq!(cli(&format!("{reader} GET public:k")), "\n", "{how:?}");
        assert!(cli(&format!("{reader} GET k")).contains("NOPERM"), "{how:?}");
        assert!(cli(&format!("{reader} SET public:k v")).contains("NOPERM"), "{how:?}");
    }
}

/// Reads until the server ends the connection, which it has to do.
fn read_to_the_end(mut stream: TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout");
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "it has to end");
    }
    bytes
}

#[test]
fn who_speaks_no_tls_is_cut_off_and_hurts_nobody() {
    let Some(certificates) = Certificates::new("who_speaks_no_tls_is_cut_off", &[Peer::RedisCli])
    else {
        return;
    };
    let (server, port) = start_ours(&certificates, &[]);
    let connect = || TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    // Connections that send nothing, or stop in the middle of the first message.
    let stalled: Vec<TcpStream> = (0..20).map(|_| connect()).collect();
    let mut half = connect();
    half.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]).expect("a few bytes");
    for garbage in [
        b"PING\r\n*1\r\n$4\r\nPING\r\n".to_vec(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xff; 100_000],
        vec![0; 100_000],
        [&[0x16, 3, 1, 0xff, 0xff][..], &[1; 70_000]].concat(),
        // Records without anything in them, without end.
        [0x17, 3, 3, 0, 0].repeat(50_000),
    ] {
        let mut stream = connect();
        let _ = stream.write_all(&garbage); // it may be cut off meanwhile
        let answer = read_to_the_end(stream);
        assert!(answer.len() < 100, "only an alert: {answer:?}");
        assert_eq!(server.client().ask("PING").text(), "PONG");
    }
    assert_eq!(certificates.cli(port, Some("client"), &["PING"]).1, "PONG\n");
    let mut client = server.client();
    for stream in stalled.into_iter().chain([half]) {
        assert!(read_to_the_end(stream).len() < 100);
    }
    wait_until("all have gone", || client.info("connected_clients") == "1");
    // A TLS client at the plain port.
    let (fine, text) = certificates.cli(server.port, Some("client"), &["PING"]);
    assert!(!fine && !text.contains("PONG"), "{text}");
}

#[test]
fn certificates_change_while_the_server_runs() {
    let Some(certificates) = Certificates::new("certificates_change_while_the_server_runs", &[])
    else {
        return;
    };
    let (server, port) = start(&certificates, &["--tls-auth-clients", "no"]);
    assert!(certificates.shown_at(port).contains("CN = server"));
    let mut client = server.client();
    let path = |name: &str| certificates.path(name);
    let set = |client: &mut Client, cert: &str, key: &str| {
        let line: [&[u8]; 6] =
            [b"CONFIG", b"SET", b"tls-cert-file", cert.as_bytes(), b"tls-key-file", key.as_bytes()];
        client.call(&line)
    };
    assert_eq!(set(&mut client, &path("second.crt"), &path("second.key")).text(), "OK");
    assert!(certificates.shown_at(port).contains("CN = second"));
    let missing = path("missing.crt");
    let wrong = [(path("server.crt"), path("second.key")), (missing, path("second.key"))];
    for (cert, key) in wrong.into_iter().chain([(path("second.crt"), path("extensions"))]) {
        let reply = set(&mut client, &cert, &key);
        assert!(
            matches!(&reply, Reply::Error(text) if text.contains("tls-cert-file")),
            "{reply:?}"
        );
        assert!(certificates.shown_at(port).contains("CN = second"), "the old ones stay");
    }
    // The same name, another file.
    for (from, to) in [("server.crt", "second.crt"), ("server.key", "second.key")] {
        std::fs::copy(path(from), path(to)).expect("a copy");
    }
    assert_eq!(set(&mut client, &path("second.crt"), &path("second.key")).text(), "OK");
    assert!(certificates.shown_at(port).contains("CN = server"));
}

#[test]
fn tls_that_cannot_be_stops_the_start_in_a_sentence() {
    let Some(certificates) = Certificates::new("tls_that_cannot_be_stops_the_start", &[]) else {
        return;
    };
    let folder = certificates.folder();
    let data = folder.join("data").display().to_string();
    let [cert, key, ca] =
        ["server.crt", "server.key", "ca.crt"].map(|name| certificates.path(name));
    let other = certificates.path("client.key");
    let cases: [(&[&str], &str); 5] = [
        (&[], "set tls-cert-file"),
        (&["--tls-cert-file", &cert, "--tls-key-file", &key], "set tls-auth-clients no"),
        (
            &["--tls-cert-file", "/nowhere", "--tls-key-file", &key, "--tls-auth-clients", "no"],
            "cannot read tls-cert-file /nowhere",
        ),
        (
            &["--tls-cert-file", &cert, "--tls-key-file", &cert, "--tls-ca-cert-file", &ca],
            "holds no private key",
        ),
        (
            &["--tls-cert-file", &cert, "--tls-key-file", &other, "--tls-ca-cert-file", &ca],
            "do not make a pair",
        ),
    ];
    for (flags, problem) in cases {
        let line = ["serve", "--port", "0", "--dir", &data, "--tls-port", "1"];
        let output = stillframe(&[&line[..], flags].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let last = text.lines().last().unwrap_or_default();
        assert!(last.contains("cannot set up TLS") && last.contains(problem), "{text}");
    }
}

#[test]
fn a_server_may_speak_tls_alone() {
    let Some(certificates) = Certificates::new("a_server_may_speak_tls_alone", &[Peer::RedisCli])
    else {
        return;
    };
    let port = own_port();
    let folder = certificates.folder();
    let mut command = Setup::new(Kind::Ours("imprint")).command(&folder, 0);
    let mut child = command
        .args(certificates.flags(port))
        .args(["--logfile", &certificates.path("log")])
        .spawn()
        .expect("the server starts");
    wait_until("it answers", || certificates.cli(port, Some("client"), &["PING"]).1 == "PONG\n");
    let log = std::fs::read_to_string(certificates.path("log")).expect("a log");
    let ready: Vec<&str> = log.lines().filter(|line| line.contains("Ready to accept")).collect();
    assert!(ready.len() == 1 && ready[0].contains(&format!("127.0.0.1:{port} (TLS)")), "{log}");
    let text = certificates.cli(port, Some("client"), &["INFO", "server"]).1;
    assert!(text.contains(&format!("tcp_port:{port}")), "{text}");
    certificates.cli(port, Some("client"), &["SHUTDOWN", "NOSAVE"]);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn settings_of_tls_are_rewritten() {
    let Some(certificates) = Certificates::new("settings_of_tls_are_rewritten", &[]) else {
        return;
    };
    let file = certificates.path("server.conf");
    std::fs::write(&file, "# mine\ntls-auth-clients optional\n").expect("a file");
    let (server, _) = start_ours(&certificates, &["--config", &file]);
    let mut client = server.client();
    client.ok("CONFIG SET tls-protocols TLSv1.3 tls-replication yes loglevel verbose");
    client.ok("CONFIG SET shutdown-timeout 77");
    client.ok("CONFIG REWRITE");
    let text = std::fs::read_to_string(&file).expect("the file");
    let cert = format!("tls-cert-file \"{}\"", certificates.path("server.crt"));
    for line in [
        "# mine",
        "tls-auth-clients optional",
        "tls-protocols TLSv1.3",
        "tls-replication yes",
        "shutdown-timeout 77",
        "loglevel verbose",
        &cert,
    ] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
}
