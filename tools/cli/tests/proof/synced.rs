//! Under `appendfsync always` a reply waits for the disk if it shows what the disk may not have,
//! and no reply else.

use crate::journal::server;
use crate::support::machine::{Machine, shim};
use crate::support::{Client, Server, wait_until};

/// Keys that are there, each on the disk.
const BEFORE: [&str; 5] = [
    "MSET k old other 1 n 0 untouched u",
    "SET from m",
    "RPUSH numbers 1",
    "HSET h f v",
    "SET away a",
];
/// What changes some of them, while nothing gets to the disk.
const CHANGES: [(&str, &str); 6] = [
    ("SET k new", "+OK\r\n"),
    ("RENAME from moved", "+OK\r\n"),
    ("RPUSH list a", ":1\r\n"),
    ("INCR n", ":1\r\n"),
    ("EVAL redis.call('hset','h','f','w') 0", "$-1\r\n"),
    ("PEXPIREAT away 1", ":1\r\n"),
];
/// What then shows a change, or may.
const WAITS: [(&str, &str); 14] = [
    ("GET k", "$3\r\nnew\r\n"),
    ("EXISTS other k", ":2\r\n"),
    ("MGET other k", "*2\r\n$1\r\n1\r\n$3\r\nnew\r\n"),
    ("GETRANGE moved 0 -1", "$1\r\nm\r\n"),
    ("EXISTS from", ":0\r\n"),
    ("LRANGE list 0 -1", "*1\r\n$1\r\na\r\n"),
    ("HGET h f", "$1\r\nw\r\n"),
    ("TYPE away", "+none\r\n"),
    ("DBSIZE", ":8\r\n"),
    ("SORT_RO numbers BY * GET k*", "*1\r\n$-1\r\n"),
    ("EVAL return{redis.call('get','k')} 0", "*1\r\n$3\r\nnew\r\n"),
    ("EVAL_RO return{redis.call('get','k')} 1 untouched", "*1\r\n$3\r\nnew\r\n"),
    ("SETNX other 2", ":0\r\n"),
    ("INFO nothing", "$0\r\n\r\n"),
];
/// What shows none.
const FREE: [(&str, &str); 8] = [
    ("GET untouched", "$1\r\nu\r\n"),
    ("EXISTS untouched numbers nothing", ":2\r\n"),
    ("LRANGE numbers 0 -1", "*1\r\n$1\r\n1\r\n"),
    ("OBJECT ENCODING untouched", "$6\r\nembstr\r\n"),
    ("PING", "+PONG\r\n"),
    ("ECHO e", "$1\r\ne\r\n"),
    ("SELECT 0", "+OK\r\n"),
    ("GET", "-ERR wrong number of arguments for 'get' command\r\n"),
];

fn send(client: &mut Client, line: &str) {
    client.send(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
}

/// Clients that have each made a request, which has run; what may answer has.
fn run(server: &Server, observer: &mut Client, requests: &[&str]) -> Vec<Client> {
    let mut clients: Vec<Client> = requests.iter().map(|_| server.client()).collect();
    let ids = clients.iter_mut().map(|client| client.ask("CLIENT ID").int().to_string());
    let ids = ids.collect::<Vec<_>>().join(" ");
    for (client, request) in clients.iter_mut().zip(requests) {
        send(client, request);
    }
    wait_until("all have run", || {
        let list = observer.ask(&format!("CLIENT LIST ID {ids}")).text();
        list.lines().all(|line| !line.contains(" cmd=client|id "))
    });
    observer.ok("PING");
    clients
}

/// As [`run`], of requests with their replies.
fn run_all(server: &Server, observer: &mut Client, all: &[(&str, &str)]) -> Vec<Client> {
    run(server, observer, &all.iter().map(|it| it.0).collect::<Vec<_>>())
}

fn assert_replies(clients: &mut [Client], all: &[(&str, &str)]) {
    for (client, (request, reply)) in clients.iter_mut().zip(all) {
        assert_eq!(String::from_utf8_lossy(&client.raw()), *reply, "{request}");
    }
}

#[test]
fn a_reply_waits_for_what_it_shows_and_for_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(shim) = shim(folder.path()) else { return };
    let machine = Machine::new(folder.path());
    let environment =
        machine.environment(&shim).map(|(name, value)| format!("{name}={}", value.display()));
    let wrapper = ["env", &environment[0], &environment[1]];
    for is_killed in [false, true] {
        let data = tempfile::tempdir().expect("a folder");
        let mut server = server("always", data.path()).wrapper(&wrapper).start();
        let mut observer = server.client();
        BEFORE.iter().for_each(|line| observer.ok(line));
        let mut listener = server.client();
        listener.ok("SUBSCRIBE news");
        machine.hold_syncs(true);
        let mut changes = run_all(&server, &mut observer, &CHANGES);
        let mut waits = run_all(&server, &mut observer, &WAITS);
        waits.extend(run(&server, &mut observer, &["PUBLISH news n"]));
        // One client's replies keep their order: what is free waits behind what is not.
        let mut both = server.client();
        both.send_raw(b"GET untouched\r\nGET k\r\nPING\r\n");
        for (request, reply) in FREE {
            send(&mut observer, request);
            assert_eq!(String::from_utf8_lossy(&observer.raw()), reply, "{request}");
        }
        if is_killed {
            server.kill();
            for client in changes.iter_mut().chain(&mut waits).chain([&mut listener]) {
                assert_eq!(client.try_raw(), None, "it was told what the disk did not have");
            }
            machine.hold_syncs(false);
            continue;
        }
        machine.hold_syncs(false);
        assert_replies(&mut changes, &CHANGES);
        assert_replies(&mut waits, &WAITS);
        assert_eq!(listener.reply().list()[2].text(), "n");
        for reply in ["u", "new", "PONG"] {
            assert_eq!(both.reply().text(), reply);
        }
    }
}
