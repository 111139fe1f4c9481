//! Servers within this process, by their connections.

mod views;

use std::io::{ErrorKind, Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use stillframe_resp::Reply;

use super::*;

/// A server's folder, and the settings for a server there.
fn settings(folder: &tempfile::TempDir, lines: &[&str]) -> Config {
    let mut config = Config::embedded(folder.path());
    config.load("the test", lines.join("\n").as_bytes()).expect("settings");
    config
}

fn started(folder: &tempfile::TempDir, lines: &[&str]) -> Embedded {
    Embedded::start(settings(folder, lines)).expect("a server")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// A reply in one line.
fn shown(reply: Reply<'_>) -> String {
    match reply {
        Reply::Simple(text) | Reply::Error(text) | Reply::Bulk(text) => {
            String::from_utf8_lossy(text).into_owned()
        }
        other => format!("{other:?}"),
    }
}

/// Whether this is the process in which the test runs alone; else it is run there.
fn alone(test: &str) -> bool {
    const ALONE: &str = "STILLFRAME_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut alone = std::process::Command::new(std::env::current_exe().expect("this program"));
    let name = format!("start::embedded::tests::{test}");
    let output = alone.args(["--exact", &name]).env(ALONE, "1").output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    false
}

fn ask(client: &mut Client, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    client.ask(&words, shown).expect("a reply")
}

#[test]
fn a_client_is_served_and_data_outlives_the_server() {
    let folder = folder();
    let mut server = started(&folder, &["appendonly yes"]);
    let mut client = server.handle().client().expect("a client");
    assert_eq!(ask(&mut client, "SET k v"), "OK");
    assert_eq!(ask(&mut client, "GET k"), "v");
    assert!(ask(&mut client, "CLIENT LIST").contains("addr=memory:0 "));
    let foreign = Embedded::start(settings(&folder, &[])).err().expect("the folder is taken");
    assert!(foreign.to_string().contains("another"), "{foreign}");
    server.shutdown().expect("it ends");
    assert!(client.ask(&["GET", "k"], shown).is_err());
    assert_eq!(
        server.handle().connect().err().map(|it| it.kind()),
        Some(ErrorKind::ConnectionRefused)
    );
    let server = started(&folder, &["appendonly yes"]);
    assert_eq!(ask(&mut server.handle().client().expect("a client"), "GET k"), "v");
}

#[test]
fn servers_in_one_process_share_nothing() {
    let folders = [folder(), folder()];
    let servers = folders.each_ref().map(|it| started(it, &["maxmemory-policy noeviction"]));
    let mut clients = servers.each_ref().map(|it| it.handle().client().expect("a client"));
    assert_eq!(ask(&mut clients[0], "CONFIG SET maxmemory 1mb"), "OK");
    let large = "x".repeat(2 << 20);
    assert_eq!(ask(&mut clients[1], &format!("SET k {large}")), "OK");
    assert_eq!(ask(&mut clients[1], "DBSIZE"), "Integer(1)");
    assert_eq!(ask(&mut clients[0], "DBSIZE"), "Integer(0)");
    assert_eq!(ask(&mut clients[0], "SET k v"), "OK");
    assert_eq!(ask(&mut clients[1], "CONFIG GET maxmemory"), shown_pair("maxmemory", "0"));
}

fn shown_pair(name: &str, value: &str) -> String {
    shown(Reply::Array(vec![Reply::Bulk(name.as_bytes()), Reply::Bulk(value.as_bytes())]))
}

/// Sizes around those of the queues, both ways, alone and as a pipeline that nobody reads yet.
#[test]
fn every_size_passes() {
    let (folder, mut server) = (folder(), None);
    let server = server.insert(started(&folder, &["save \"\""]));
    let mut client = server.handle().client().expect("a client");
    for size in [0, 1, 100, 16_383, 16_384, 65_536, (1 << 20) - 40, 1 << 20, 5 << 20, 64 << 20] {
        let value: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        let set = client.ask(&[&b"SET"[..], b"k", &value], shown).expect("a reply");
        assert_eq!(set, "OK");
        let same = client.ask(&["GET", "k"], |reply| reply == Reply::Bulk(&value));
        assert!(same.expect("a reply"), "{size}");
    }
    ask(&mut client, &format!("SET k {}", "v".repeat(100_000)));
    for _ in 0..200 {
        client.send(["GET", "k"].iter());
    }
    for _ in 0..200 {
        let length = client.receive(|reply| shown(reply).len()).expect("a reply");
        assert_eq!(length, 100_000);
    }
    for number in 0..100_000 {
        client.send(["RPUSH", "list", &number.to_string()].iter());
    }
    let last = (0..100_000).map(|_| client.receive(shown).expect("a reply")).last();
    assert_eq!(last.as_deref(), Some("Integer(100000)"));
    let count = client.ask(&["LRANGE", "list", "0", "-1"], |reply| match reply {
        Reply::Array(items) => items.len(),
        _ => 0,
    });
    assert_eq!(count.expect("a reply"), 100_000);
}

#[test]
fn many_threads_wait_for_each_other() {
    let folder = folder();
    let server = started(&folder, &["save \"\""]);
    thread::scope(|scope| {
        for pair in 0..8 {
            let handle = server.handle();
            scope.spawn(move || {
                let mut client = handle.client().expect("a client");
                for round in 0..500 {
                    let taken = ask(&mut client, &format!("BLPOP there:{pair} 0"));
                    assert!(taken.contains("Bulk"), "{taken}");
                    ask(&mut client, &format!("RPUSH back:{pair} {round}"));
                }
            });
            let handle = server.handle();
            scope.spawn(move || {
                let mut client = handle.client().expect("a client");
                for round in 0..500 {
                    ask(&mut client, &format!("RPUSH there:{pair} {round}"));
                    let taken = ask(&mut client, &format!("BLPOP back:{pair} 0"));
                    assert_eq!(taken, shown_pair(&format!("back:{pair}"), &round.to_string()));
                }
            });
        }
    });
    let mut client = server.handle().client().expect("a client");
    assert_eq!(ask(&mut client, "DBSIZE"), "Integer(0)");
}

/// A loop that waits for descriptors sees each message, and sleeps while there is none.
#[test]
fn a_descriptor_tells_of_news() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let folder = folder();
    let server = started(&folder, &["save \"\""]);
    let connection = server.handle().connect().expect("a connection");
    let mut talker = server.handle().client().expect("a client");
    let readable = |seconds| {
        let descriptor = connection.event_fd().expect("a descriptor");
        let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
        let timeout = Timespec { tv_sec: seconds, tv_nsec: 0 };
        poll(&mut polled, Some(&timeout)).expect("a poll") > 0
    };
    let receive = |wanted: &[u8]| {
        let (mut got, mut buffer) = (Vec::new(), [0; 7]);
        while got.len() < wanted.len() {
            match connection.try_read(&mut buffer) {
                Ok(count) => got.extend_from_slice(&buffer[..count]),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    assert!(readable(60), "{}", got.escape_ascii());
                }
            }
        }
        assert_eq!(got.escape_ascii().to_string(), wanted.escape_ascii().to_string());
        assert!(!readable(0), "a read that may wait would not end");
    };
    assert!(!readable(0), "nothing was asked");
    (&connection).write_all(b"SUBSCRIBE c\r\n").expect("it is open");
    receive(b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    for number in 0..300 {
        ask(&mut talker, &format!("PUBLISH c {}", number % 10));
        receive(format!("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n{}\r\n", number % 10).as_bytes());
    }
    ask(&mut talker, "PUBLISH c 1");
    assert!(readable(60));
    let mut looked = [0; 2];
    assert_eq!((connection.try_peek(&mut looked).ok(), &looked), (Some(2), b"*3"));
    receive(b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n1\r\n");
    drop(server);
    assert!(readable(60));
    assert_eq!(connection.try_peek(&mut looked).ok(), Some(0));
    assert_eq!(connection.try_read(&mut [0; 9]).ok(), Some(0));
}

/// Room is told of only to those who found none; else a reader would wait for bytes.
#[test]
fn a_descriptor_tells_of_room_to_those_who_lack_it() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let folder = folder();
    let server = started(&folder, &["save \"\""]);
    let connection = server.handle().connect().expect("a connection");
    let readable = |seconds| {
        let descriptor = connection.event_fd().expect("a descriptor");
        let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
        let timeout = Timespec { tv_sec: seconds, tv_nsec: 0 };
        poll(&mut polled, Some(&timeout)).expect("a poll") > 0
    };
    let request = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", 8 << 20).into_bytes();
    let request = [request, vec![b'v'; 8 << 20], b"\r\n".to_vec()].concat();
    let mut sent = 0;
    while sent < request.len() {
        match connection.try_write(&request[sent..]) {
            Ok(count) => sent += count,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                assert!(readable(60));
            }
        }
    }
    let reply = || {
        assert!(readable(60));
        let mut reply = [0; 5];
        (&connection).read_exact(&mut reply).expect("a reply");
        assert_eq!(&reply, b"+OK\r\n");
        assert!(!readable(0));
    };
    reply();
    (&connection).write_all(&request).expect("it waits for room itself");
    reply();
}

#[test]
fn what_has_no_reply_is_not_waited_for() {
    let folder = folder();
    let server = started(&folder, &["save \"\""]);
    let mut client = server.handle().client().expect("a client");
    let streams = ["subscribe c", "UNSUBSCRIBE", "MONITOR", "PSYNC ? -1"];
    for line in ["CLIENT REPLY OFF", "client reply Skip", "REPLCONF ACK 1"].iter().chain(&streams) {
        let words: Vec<&str> = line.split(' ').collect();
        let refused = client.ask(&words, shown).expect_err("there is no reply");
        assert!(matches!(refused, ClientError::NoReply(_)), "{refused}");
    }
    assert_eq!(ask(&mut client, "CLIENT REPLY ON"), "OK");
    assert!(ask(&mut client, "CLIENT REPLY").contains("wrong number"));
    assert_eq!(ask(&mut client, "PING"), "PONG");
}

#[test]
fn a_message_is_not_taken_for_a_reply() {
    let folder = folder();
    let server = started(&folder, &["save \"\""]);
    let [mut client, mut other] = [0; 2].map(|_| server.handle().client().expect("a client"));
    ask(&mut client, "HELLO 3");
    assert_eq!(ask(&mut client, "CLIENT TRACKING ON BCAST"), "OK");
    for number in 0..100 {
        assert_eq!(ask(&mut other, &format!("SET k{number} v")), "OK");
    }
    assert_eq!(ask(&mut client, "GET k7"), "v");
    assert_eq!(ask(&mut client, "SET mine v"), "OK");
    assert_eq!(ask(&mut client, "GET mine"), "v");
    for key in (0..100).map(|number| format!("k{number}")).chain(["mine".to_owned()]) {
        let message = client.receive(shown).expect("a message");
        assert!(message.starts_with("Push(") && message.contains("Bulk"), "{key}: {message}");
        let keys = Reply::Array(vec![Reply::Bulk(key.as_bytes())]);
        assert!(message.contains(&shown(keys)), "{key}: {message}");
    }
    client.send(["GET", "k7"].iter());
    assert_eq!(client.receive(shown).expect("a reply"), "v");
    assert_eq!(ask(&mut client, "GET k7"), "v");
}

/// A client that receives no messages is told before they take all memory, and loses none.
#[test]
fn messages_that_nobody_receives_have_a_bound() {
    let folder = folder();
    let server = started(&folder, &["save \"\"", "client-output-buffer-limit normal 0 0 0"]);
    let [mut client, mut other] = [0; 2].map(|_| server.handle().client().expect("a client"));
    ask(&mut client, "HELLO 3");
    ask(&mut client, "CLIENT TRACKING ON BCAST");
    let prefix = "k".repeat(1 << 20);
    for number in 0..40 {
        ask(&mut other, &format!("SET {prefix}{number} v"));
    }
    let refused = client.ask(&["PING"], shown).expect_err("messages");
    assert!(matches!(refused, ClientError::Messages), "{refused}");
    let refused = client.ask(&["PING"], shown).expect_err("a reply is to come");
    assert!(matches!(refused, ClientError::Owed(1)), "{refused}");
    for _ in 0..40 {
        assert!(client.receive(shown).expect("a message").starts_with("Push("));
    }
    assert_eq!(client.receive(shown).expect("a reply"), "PONG");
    assert_eq!(ask(&mut client, "PING"), "PONG");
}

#[test]
fn the_reply_to_another_request_is_not_taken() {
    let folder = folder();
    let server = started(&folder, &["save \"\""]);
    let mut client = server.handle().client().expect("a client");
    client.send(["INCR", "k"].iter());
    client.send(["INCR", "k"].iter());
    assert_eq!(client.receive(shown).expect("a reply"), "Integer(1)");
    let refused = client.ask(&["GET", "k"], shown).expect_err("a reply is to come");
    assert!(matches!(refused, ClientError::Owed(1)), "{refused}");
    assert_eq!(client.receive(shown).expect("a reply"), "Integer(2)");
    assert_eq!(ask(&mut client, "GET k"), "2");

    // A reply that is late may come after all.
    client.connection().set_read_timeout(Some(Duration::from_millis(1)));
    assert!(client.ask(&["BLPOP", "list", "0"], shown).is_err());
    client.connection().set_read_timeout(None);
    let mut other = server.handle().client().expect("a client");
    ask(&mut other, "RPUSH list a");
    let refused = client.ask(&["GET", "k"], shown).expect_err("a reply is to come");
    assert!(matches!(refused, ClientError::Owed(1)), "{refused}");
    assert_eq!(client.receive(shown).expect("a reply"), shown_pair("list", "a"));
    assert_eq!(ask(&mut client, "GET k"), "2");

    // Messages in RESP2 are arrays, as replies are.
    client.send(["SUBSCRIBE", "c"].iter());
    let refused = client.ask(&["PING"], shown).expect_err("messages come");
    assert!(matches!(refused, ClientError::Stream), "{refused}");
    assert!(client.receive(shown).expect("a reply").contains("Integer(1)"));
    ask(&mut other, "PUBLISH c m");
    assert!(client.receive(shown).expect("a message").starts_with("Array("));
}

#[test]
fn a_read_waits_no_longer_than_told_and_requests_can_end() {
    let folder = folder();
    let server = started(&folder, &["save \"\""]);
    let mut connection = server.handle().connect().expect("a connection");
    connection.set_read_timeout(Some(Duration::from_millis(30)));
    let error = connection.read(&mut [0; 9]).expect_err("nothing comes");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    connection.write_all(b"PING\r\nPING\r\n").expect("it is open");
    connection.end_requests();
    connection.set_read_timeout(None);
    let mut all = Vec::new();
    connection.read_to_end(&mut all).expect("the end");
    assert_eq!(all, b"+PONG\r\n+PONG\r\n");
}

/// Who does not read is closed by its limit, who leaves frees its memory, and both are counted.
#[test]
fn clients_have_the_limits_of_others() {
    let folder = folder();
    let lines = ["save \"\"", "maxclients 2", "client-output-buffer-limit normal 2mb 0 0"];
    let server = started(&folder, &lines);
    let mut first = server.handle().client().expect("a client");
    ask(&mut first, &format!("SET k {}", "v".repeat(1 << 20)));
    let lazy = server.handle().connect().expect("a connection");
    let mut third = server.handle().client().expect("a connection");
    let refusal = third.receive(shown).expect("a reply");
    assert!(refusal.contains("max number of clients"), "{refusal}");
    assert!(third.receive(shown).is_err());
    (&lazy).write_all(&b"GET k\r\n".repeat(10)).expect("it is open");
    // The replies beyond the limit are never sent.
    let mut all = Vec::new();
    (&lazy).read_to_end(&mut all).expect("the end");
    assert!(all.len() < 10 << 20, "{}", all.len());
    drop((lazy, third));
    while !ask(&mut first, "INFO clients").contains("connected_clients:1\r") {}
}

/// Connections that are closed while nothing is asked leave no client, subscriber or descriptor.
#[test]
fn a_closed_connection_leaves_nothing() {
    let folder = folder();
    let server = started(&folder, &["save \"\"", "maxclients 100"]);
    let mut client = server.handle().client().expect("a client");
    let descriptors = || std::fs::read_dir("/proc/self/fd").expect("it is there").count();
    let before = descriptors();
    for round in 0..1_000 {
        let connection = server.handle().connect().expect("a connection");
        connection.event_fd().expect("a descriptor");
        (&connection).write_all(b"SUBSCRIBE c\r\n").expect("it is open");
        (&connection).read_exact(&mut [0; 13]).expect("a reply");
        if round % 2 == 0 {
            connection.end_requests();
        }
    }
    while ask(&mut client, "PUBLISH c m") != "Integer(0)" {}
    assert!(ask(&mut client, "INFO clients").contains("connected_clients:1\r"));
    // Other tests of this program have some, too.
    assert!(descriptors() < before + 500, "{before}, then {}", descriptors());
}

#[test]
fn the_process_keeps_its_score() {
    let folder = folder();
    let server = started(&folder, &[]);
    let mut client = server.handle().client().expect("a client");
    let refusal = ask(&mut client, "CONFIG SET oom-score-adj absolute");
    assert!(refusal.contains("OOM score"), "{refusal}");
    assert_eq!(ask(&mut client, "CONFIG GET oom-score-adj"), shown_pair("oom-score-adj", "no"));
}

/// Neither the limit of descriptors nor the current directory is a server's in a program.
#[test]
fn the_process_keeps_what_settings_of_a_server_would_change() {
    if !alone("the_process_keeps_what_settings_of_a_server_would_change") {
        return;
    }
    let state = || {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        (limit, std::env::current_dir().expect("it is there"))
    };
    let limit = rustix::process::Rlimit { current: Some(512), maximum: state().0.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).expect("it is lower");
    let (before, folder) = (state(), folder());
    std::fs::create_dir_all(folder.path().join("data/beside")).expect("a folder");
    let config = ["enable-protected-configs yes", "maxclients 600"];
    let mut one = settings(&folder, &config);
    one.dir = folder.path().join("data");
    let server = Embedded::start(one).expect("a server");
    let mut client = server.handle().client().expect("a client");
    assert_eq!(ask(&mut client, "CONFIG SET maxclients 700"), "OK");
    for (dir, place) in [("data/beside", "data/beside"), ("data", "data"), ("none", "data")] {
        let asked = folder.path().join(dir);
        let answer = ask(&mut client, &format!("CONFIG SET dir {}", asked.display()));
        assert_eq!(answer == "OK", dir != "none", "{answer}");
        assert_eq!(ask(&mut client, "SAVE"), "OK");
        let dump = folder.path().join(place).join("dump.rdb");
        std::fs::remove_file(dump).expect("it is where it was told to be");
    }
    assert_eq!(state(), before);
}

#[test]
fn an_end_without_a_save_is_told_and_can_be_tried_again() {
    let folder = folder();
    let mut server = started(&folder, &["save \"3600 1\""]);
    let mut client = server.handle().client().expect("a client");
    ask(&mut client, "SET k v");
    // Nothing can be renamed onto a folder.
    let dump = folder.path().join("dump.rdb");
    std::fs::create_dir_all(dump.join("x")).expect("a folder");
    let error = server.shutdown().expect_err("there is no room for the dump");
    assert!(matches!(error, ServeError::NotSaved), "{error}");
    assert_eq!(ask(&mut client, "GET k"), "v");
    std::fs::remove_dir_all(&dump).expect("it goes");
    server.shutdown().expect("it ends");
    assert!(server.has_ended());
    server.shutdown().expect("nothing is left to do");
    assert_eq!(ask(&mut started(&folder, &[]).handle().client().expect("a client"), "GET k"), "v");
}

#[test]
fn a_shutdown_by_a_client_ends_it() {
    let folder = folder();
    let mut server = started(&folder, &[]);
    let mut client = server.handle().client().expect("a client");
    assert!(client.ask(&["SHUTDOWN", "NOSAVE"], shown).is_err());
    server.shutdown().expect("it has ended well");
    assert!(server.has_ended());
}

#[test]
fn settings_of_a_process_are_refused_by_name() {
    for (line, name) in [
        ("daemonize yes", "daemonize"),
        ("pidfile /tmp/x.pid", "pidfile"),
        ("oom-score-adj yes", "oom-score-adj"),
        ("raft-id 1", "raft-id"),
        ("snapshot fork", "snapshot fork"),
    ] {
        let error = Embedded::start(settings(&folder(), &[line])).err().expect("a refusal");
        assert!(error.to_string().contains(name), "{error}");
    }
    let folder = folder();
    std::fs::write(folder.path().join("dump.rdb"), b"REDIS0010 and nonsense").expect("a file");
    let error = Embedded::start(settings(&folder, &[])).err().expect("a refusal");
    assert!(error.to_string().contains("dump.rdb"), "{error}");
}

#[test]
fn it_listens_where_it_is_told_and_writes_its_log_to_a_function() {
    let folder = folder();
    let path = folder.path().join("socket");
    let config = settings(&folder, &[&format!("unixsocket {}", path.display())]);
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let on_log: OnLog = Arc::new(move |level, line: &str| {
        kept.lock().expect("no panic").push((level, line.to_owned()));
    });
    let server = Embedded::start_logging(config, on_log).expect("a server");
    let mut socket = std::os::unix::net::UnixStream::connect(&path).expect("it listens");
    socket.write_all(b"PING\r\n").expect("it is open");
    socket.read_exact(&mut [0; 7]).expect("a reply");
    assert_eq!(
        ask(&mut server.handle().client().expect("a client"), "CONFIG GET port"),
        shown_pair("port", "0")
    );
    drop(server);
    assert!(!path.exists());
    let lines = lines.lock().expect("no panic");
    let has = |part: &str| lines.iter().any(|(_, line)| line.contains(part));
    assert!(has("Ready to accept connections") && has("bye bye"), "{lines:?}");
}

/// Whatever the function does with a line, the server starts, serves, saves and ends.
#[test]
fn a_function_for_the_log_that_panics_ends_with_the_call() {
    let (folder, calls) = (folder(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&calls);
    let on_log: OnLog = Arc::new(move |_, _: &str| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::panic::resume_unwind(Box::new("past the hook, which would print it"));
    });
    let config = settings(&folder, &["loglevel debug"]);
    let mut server = Embedded::start_logging(config, on_log).expect("a server");
    let mut client = server.handle().client().expect("a client");
    assert_eq!(ask(&mut client, "SET k v"), ask(&mut client, "SAVE"));
    // What it tells of a save may come behind the reply.
    let begun = Instant::now();
    while calls.load(Ordering::Relaxed) <= 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "no third line");
        std::thread::yield_now();
    }
    let before = calls.load(Ordering::Relaxed);
    server.shutdown().expect("it saves and ends");
    assert!(calls.load(Ordering::Relaxed) > before);
}

/// A server that has no such function may come to a line first, on its own thread. Run in a process
/// of its own: other servers' functions would be asked, too.
#[test]
fn a_function_for_the_log_gets_what_another_server_logged_before() {
    if !alone("a_function_for_the_log_gets_what_another_server_logged_before") {
        return;
    }
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let on_log: OnLog = Arc::new(move |_, line: &str| {
        kept.lock().expect("no panic").push(line.to_owned());
    });
    let (one, other) = (folder(), folder());
    let logs =
        Embedded::start_logging(settings(&one, &["loglevel debug"]), on_log).expect("a server");
    let silent = started(&other, &[]);
    for server in [&silent, &logs] {
        ask(&mut server.handle().client().expect("a client"), "PING");
    }
    drop((silent, logs));
    let lines = lines.lock().expect("no panic");
    assert!(lines.iter().any(|line| line.contains("connected")), "{lines:?}");
}

/// I/O threads read sockets; connections in memory stay with the loop.
#[test]
fn io_threads_do_not_matter() {
    let folder = folder();
    let server = started(&folder, &["save \"\"", "io-threads 2"]);
    let mut client = server.handle().client().expect("a client");
    for number in 0..2_000 {
        assert_eq!(ask(&mut client, "INCR k"), format!("Integer({})", number + 1));
    }
}

#[test]
fn who_waits_for_an_end_need_not_wait_on() {
    let folder = folder();
    let mut server = started(&folder, &["save \"3600 1\"", "shutdown-timeout 1000"]);
    let mut client = server.handle().client().expect("a client");
    // A replica that confirms nothing is waited for.
    let mut replica = server.handle().connect().expect("a connection");
    replica.write_all(b"PSYNC ? -1\r\n").expect("it is taken");
    let mut bytes = [0; 4096];
    while !ask(&mut client, "INFO replication").contains("state=online") {
        replica.set_read_timeout(Some(Duration::from_millis(1)));
        let _ = replica.read(&mut bytes);
    }
    assert_eq!(ask(&mut client, "SET k v"), "OK");
    assert!(server.shutdown_within(Duration::ZERO).is_none());
    assert!(server.shutdown_within(Duration::from_millis(1)).is_none());
    assert!(!server.has_ended());
    assert_eq!(ask(&mut client, "GET k"), "v");
    drop(replica);
    server.shutdown().expect("it ends");
    assert!(server.shutdown_within(Duration::ZERO).is_some_and(|ended| ended.is_ok()));
    let server = started(&folder, &[]);
    assert_eq!(ask(&mut server.handle().client().expect("a client"), "GET k"), "v");
}

#[test]
fn a_start_ends_when_its_program_says_so() {
    let folder = folder();
    let mut server = started(&folder, &["save \"3600 1\""]);
    let mut client = server.handle().client().expect("a client");
    (0..1000).for_each(|key| drop(ask(&mut client, &format!("SET {key} v"))));
    server.shutdown().expect("it ends");
    let slow = settings(&folder, &["key-load-delay 1000000"]);
    let mut looks = 0;
    let goes_on = || {
        looks += 1;
        looks < 3
    };
    let ended = Embedded::start_while(slow, None, goes_on).err();
    assert!(matches!(ended, Some(ServeError::Stopped)), "{ended:?}");
    let server = started(&folder, &[]); // the directory is free
    assert_eq!(ask(&mut server.handle().client().expect("a client"), "DBSIZE"), "Integer(1000)");
}
