//! Saves by schedule and at the end, as in Redis: the same steps on both servers.

use crate::support::{
    Client, Kind, PATIENCE, Server, Setup, redis_is_here, send_signal, wait_until,
};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// Runs a proof on redis-server, where it is installed, and on ours.
fn on_both(test: &str, proof: impl Fn(Kind)) {
    if redis_is_here(test) {
        proof(Kind::Redis);
    }
    proof(Kind::subject("imprint"));
}

fn with_schedule(kind: Kind, schedule: &str) -> (Server, Client) {
    let server = Server::start(kind);
    let mut client = server.client();
    client.call(&[b"CONFIG", b"SET", b"save", schedule.as_bytes()]);
    client.ok("SET k v");
    (server, client)
}

#[test]
fn a_signal_saves_if_there_is_a_schedule() {
    on_both("a_signal_saves_if_there_is_a_schedule", |kind| {
        for signal in [Signal::TERM, Signal::INT] {
            for (schedule, saved) in [("3600 100", true), ("", false)] {
                let (mut server, _client) = with_schedule(kind, schedule);
                send_signal(server.pid(), signal);
                assert_eq!(server.wait().code(), Some(0), "{kind:?} {signal:?}");
                assert_eq!(server.dump().exists(), saved, "{kind:?} {signal:?} {schedule}");
            }
        }
    });
}

/// Its parent need not live to say so: the pipe of its standard input ends.
#[test]
fn a_server_can_end_with_its_parent() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["--save", "3600 1", "--end-with-stdin", "yes"];
    let mut command = Setup::new(Kind::Ours("imprint")).flags(&flags).command(folder.path(), 0);
    let mut child =
        command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut log = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    let port: u16 = loop {
        line.clear();
        assert_ne!(log.read_line(&mut line).expect("a line"), 0, "the server ends");
        if let Some((_, address)) = line.trim_end().split_once("accept connections on ") {
            let (_, port) = address.rsplit_once(':').expect("an address");
            break port.parse().expect("a port");
        }
    };
    let mut client = Client::try_connect(port).expect("it listens");
    wait_until("the server answers", || client.ready());
    client.ok("SET k v");
    drop(child.stdin.take());
    // What it still writes to its log goes somewhere.
    std::io::copy(&mut log, &mut std::io::sink()).expect("the rest of the log");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert!(folder.path().join("dump.rdb").exists());
}

#[test]
fn systemd_is_notified_of_the_start_and_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let notified = || {
        let mut bytes = [0; 100];
        let length = socket.recv(&mut bytes).expect("a datagram");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let name = format!("NOTIFY_SOCKET={}", path.display());
    let mut server = Setup::new(Kind::Ours("imprint")).wrapper(&["env", &name]).start();
    assert_eq!(notified(), "READY=1");
    send_signal(server.pid(), Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(notified(), "STOPPING=1");
}

#[test]
fn shutdown_saves_as_its_arguments_demand() {
    on_both("shutdown_saves_as_its_arguments_demand", |kind| {
        let cases = [
            ("", "SHUTDOWN SAVE", true),
            ("", "SHUTDOWN", false),
            ("3600 100", "SHUTDOWN", true),
            ("3600 100", "SHUTDOWN NOSAVE", false),
        ];
        for (schedule, command, saved) in cases {
            let (mut server, mut client) = with_schedule(kind, schedule);
            let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            assert_eq!(client.try_call(&words), None, "{kind:?}: {command} gives no reply");
            assert_eq!(server.wait().code(), Some(0), "{kind:?}: {command}");
            assert_eq!(server.dump().exists(), saved, "{kind:?}: {command} with '{schedule}'");
        }
    });
}

/// A client that loses its connection to the end of the server connects to nobody.
#[test]
fn a_server_that_ends_stops_listening_before_it_leaves_its_clients() {
    on_both("a_server_that_ends_stops_listening_before_it_leaves_its_clients", |kind| {
        for _ in 0..10 {
            let server = Server::start(kind);
            let (mut client, mut other) = (server.client(), server.client());
            client.send(&[b"SHUTDOWN", b"NOSAVE"]);
            for connection in [&mut client, &mut other] {
                assert_eq!(connection.try_raw(), None, "{kind:?}");
                let again = std::net::TcpStream::connect(("127.0.0.1", server.port));
                assert!(again.is_err(), "{kind:?} accepts a connection after its end");
            }
        }
    });
}

#[test]
fn a_schedule_saves_once_it_is_due() {
    on_both("a_schedule_saves_once_it_is_due", |kind| {
        let (server, mut client) = with_schedule(kind, "1 3");
        client.ok("MSET a 1 b 2 c 3");
        wait_until("a scheduled save", || server.dump().exists());
        wait_until("the end of it", || client.info("rdb_changes_since_last_save") == "0");
    });
}

#[test]
fn a_signal_during_a_save_leaves_a_whole_dump() {
    on_both("a_signal_during_a_save_leaves_a_whole_dump", |kind| {
        let (mut server, mut client) = with_schedule(kind, "3600 100000000");
        for database in 0..4 {
            client.ok(&format!("SELECT {database}"));
            for i in 0..50 {
                let value = vec![b'x'; 100_000];
                client.call(&[b"SET", format!("big:{i}").as_bytes(), &value]);
            }
        }
        client.ok("BGSAVE");
        client.ok("SET last 1");
        send_signal(server.pid(), Signal::TERM);
        server.wait();
        crate::files::check_dump(&server.dump());
        let folder = server.folder.clone();
        let again = Setup::new(kind).folder(&folder).start();
        let mut client = again.client();
        client.ok("SELECT 3");
        assert_eq!(client.ask("GET last").text(), "1", "what came after BGSAVE is saved too");
        assert_eq!(client.ask("DBSIZE").int(), 51);
    });
}
