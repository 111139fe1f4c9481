//! Bad, oversized, endless and idle clients: each gets an error or is cut off, unnoticed by others.

use crate::support::{Client, Kind, Random, Reply, Server, redis_is_here, wait_until};
use std::time::Duration;

/// Requests that break the protocol.
fn malformed() -> Vec<Vec<u8>> {
    let long = |head: &[u8], length| [head, &vec![b'1'; length]].concat();
    let mut requests: Vec<Vec<u8>> = [
        "*abc\r\n",
        "*\r\n",
        "*1\r\n+PING\r\n",
        "*1\r\nPING\r\n",
        "*1\r\n\r\n",
        "*2\r\n$4\r\nECHO\r\n:1\r\n",
        "*1\r\n$abc\r\n",
        "*1\r\n$\r\n",
        "*1\r\n$-1\r\n",
        "*1\r\n$-5\r\n",
        "*1\r\n$1x\r\n",
        "*1\r\n$536870913\r\n",
        "*1\r\n$99999999999999999999\r\n",
        "*2147483648\r\n",
        "*99999999999999999999\r\n",
        "*1.5\r\n",
        "SET \"open\r\n",
        "SET 'open\r\n",
        "SET \"a\"b\r\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    requests.extend([long(b"*", 70_000), long(b"*1\r\n$", 70_000), vec![b'a'; 70_000]]);
    requests
}

/// Whatever the server says to `request` and a PING after it, until it closes the connection.
fn answer(server: &Server, request: &[u8]) -> Vec<Vec<u8>> {
    let mut client = server.client();
    client.send_raw(request);
    // A line that is too long stays without an end.
    if request.len() < 65_536 {
        client.send_raw(b"PING\r\n");
    }
    std::iter::from_fn(|| client.try_raw()).collect()
}

#[test]
fn malformed_requests_get_the_error_that_redis_gives() {
    let ours = Server::start(Kind::subject("imprint"));
    let here = redis_is_here("malformed_requests, compared with redis-server");
    let redis = here.then(|| Server::start(Kind::Redis));
    for request in malformed() {
        let shown = request[..request.len().min(40)].escape_ascii().to_string();
        let replies = answer(&ours, &request);
        assert_eq!(replies.len(), 1, "{shown}");
        assert!(replies[0].starts_with(b"-ERR Protocol error: "), "{shown}");
        if let Some(redis) = &redis {
            let theirs = answer(redis, &request)[0].escape_ascii().to_string();
            assert_eq!(replies[0].escape_ascii().to_string(), theirs, "{shown}");
        }
    }
    assert!(ours.client().ready(), "the server lives on");
}

#[test]
fn who_speaks_http_is_not_spoken_to() {
    let ours = Server::start(Kind::subject("imprint"));
    let here = redis_is_here("who_speaks_http, compared with redis-server");
    let servers = [Some(ours), here.then(|| Server::start(Kind::Redis))];
    for server in servers.iter().flatten() {
        for head in ["POST / HTTP/1.1\r\n", "Host: x\r\n", "*1\r\n$4\r\npost\r\n"] {
            let mut client = server.client();
            client.send_raw(format!("{head}SET stolen v\r\n").as_bytes());
            assert_eq!(client.try_raw(), None, "{head}");
        }
        assert_eq!(server.client().ask("EXISTS stolen").int(), 0);
    }
}

#[test]
fn odd_requests_that_redis_takes_are_taken() {
    let ours = Server::start(Kind::subject("imprint"));
    let here = redis_is_here("odd_requests, compared with redis-server");
    let redis = here.then(|| Server::start(Kind::Redis));
    let odd = [
        "*0\r\nPING\r\n",
        "*-1\r\nPING\r\n",
        "*-7\r\nPING\r\n",
        "\r\n\r\n  \r\nPING\r\n",
        "  PING  \r\n",
        "PING\n",
        "ECHO \"a\\x41\\n\\\"\"\r\n",
        "ECHO 'a\\'b\\n'\r\n",
        "ECHO \"\"\r\n",
        "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n",
        "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n",
        "SET k v\r\nGET k\r\nDEL k\r\n",
    ];
    for request in odd {
        let last = "*1\r\n$4\r\nQUIT\r\n";
        let replies = |server| answer(server, format!("{request}{last}").as_bytes());
        let here = replies(&ours);
        assert!(here.len() >= 2, "{request:?}");
        if let Some(redis) = &redis {
            assert_eq!(here, replies(redis), "{request:?}");
        }
    }
}

/// Resident memory in bytes.
pub(crate) fn resident(server: &Server) -> u64 {
    let path = format!("/proc/{}/status", server.pid());
    let text = std::fs::read_to_string(path).expect("a living process has a status");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse().expect("a number of KiB");
    kib * 1024
}

#[test]
fn announced_lengths_without_data_take_no_memory() {
    let server = Server::start(Kind::subject("imprint"));
    let before = resident(&server);
    let mut clients = Vec::new();
    for number in 0..200 {
        let mut client = server.client();
        let announced: &[u8] = match number % 3 {
            0 => b"*2\r\n$3\r\nGET\r\n$536870912\r\n",
            1 => b"*1048576\r\n",
            _ => b"*1048576\r\n$536870912\r\nx",
        };
        assert!(client.send_raw(announced));
        clients.push(client);
    }
    assert!(server.client().ready());
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < 64 << 20, "200 empty announcements took {grown} bytes");
}

#[test]
fn an_endless_request_is_cut_off() {
    let server = Server::start(Kind::subject("imprint"));
    let before = resident(&server);
    let mut client = server.client();
    // One line without an end: the server stops reading long before 64 MB.
    let piece = vec![b'a'; 1 << 20];
    let sent = (0..64).take_while(|_| client.send_raw(&piece)).count();
    assert!(sent < 64, "an endless line was read to its end");
    // Many arguments that together pass the limit of one client's buffer.
    let mut other = server.client();
    other.ok("CONFIG SET client-query-buffer-limit 1048576");
    let mut client = server.client();
    client.send_raw(b"*1000000\r\n$8000000\r\n");
    let sent = (0..64).take_while(|_| client.send_raw(&piece)).count();
    assert!(sent < 64, "a request beyond the buffer's limit was read to its end");
    assert_eq!(other.info("client_query_buffer_limit_disconnections"), "1");
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < 64 << 20, "endless requests took {grown} bytes");
    assert!(server.client().ready());
}

#[test]
fn thousands_of_idle_connections_do_not_matter() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).expect("within bounds");
    let room = limit.maximum.unwrap_or(1 << 20).saturating_sub(1_000);
    let count = room.min(5_000);
    if count < 5_000 {
        println!("only {count} connections: the limit of open files is low");
    }
    let server = Server::start(Kind::subject("imprint"));
    let mut idle: Vec<Client> = (0..count).map(|_| server.client()).collect();
    let mut busy = server.client();
    busy.ok("SET k v");
    assert_eq!(busy.info_int("connected_clients"), count as i64 + 1);
    let memory = resident(&server);
    assert!(memory < 512 << 20, "{count} idle connections take {memory} bytes");
    // Each of them still works.
    for client in &mut idle {
        assert_eq!(client.ask("GET k").text(), "v");
    }
    drop(idle);
    wait_until("the closed ones are forgotten", || busy.info("connected_clients") == "1");
}

#[test]
fn a_reader_that_does_not_read_is_cut_off_at_the_limit() {
    let server = Server::start(Kind::subject("imprint"));
    let mut other = server.client();
    let limits = b"normal 4mb 0 0";
    let set = other.call(&[b"CONFIG", b"SET", b"client-output-buffer-limit", limits]);
    assert_eq!(set, Reply::Text(b"OK".to_vec()));
    other.call(&[b"SET", b"big", &vec![b'x'; 100_000]]);
    let before = resident(&server);
    let mut lazy = server.client();
    // 400 MB of replies, of which the kernel's buffers take a few.
    assert!(lazy.send_raw(&b"GET big\r\n".repeat(4_000)));
    wait_until("the lazy one is cut off", || other.info("connected_clients") == "1");
    assert_eq!(other.info("client_output_buffer_limit_disconnections"), "1");
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < 64 << 20, "a lazy reader took {grown} bytes");
    assert!(std::iter::from_fn(|| lazy.try_raw()).count() < 4_000);
}

#[test]
fn a_client_too_many_is_turned_away() {
    let server = Server::start(Kind::subject("imprint"));
    let mut first = server.client();
    first.ok("CONFIG SET maxclients 10");
    let mut rest: Vec<Client> = (0..9).map(|_| server.client()).collect();
    rest.iter_mut().for_each(|client| assert!(client.ready()));
    let mut extra = server.client();
    assert_eq!(extra.reply(), Reply::Error("ERR max number of clients reached".into()));
    assert_eq!(extra.try_raw(), None);
    drop(rest);
    wait_until("there is room again", || {
        Client::try_connect(server.port).is_some_and(|mut client| client.ready())
    });
}

#[test]
fn an_idle_client_is_closed_after_the_timeout() {
    let server = Server::start(Kind::subject("imprint"));
    let mut idle = server.client();
    assert!(idle.ready());
    let mut busy = server.client();
    busy.ok("CONFIG SET timeout 1");
    wait_until("the idle one is closed", || {
        std::thread::sleep(Duration::from_millis(100));
        busy.info("connected_clients") == "1"
    });
    assert_eq!(idle.try_raw(), None);
}

#[test]
fn large_values_go_through_and_do_not_pile_up() {
    let server = Server::start(Kind::subject("imprint"));
    let mut client = server.client();
    let before = resident(&server);
    let value = Random::with_seed(7).bytes(64 << 20);
    for _ in 0..3 {
        assert_eq!(client.call(&[b"SET", b"big", &value]), Reply::Text(b"OK".to_vec()));
        assert!(client.call(&[b"GET", b"big"]).bytes() == Some(&value[..]), "it comes back");
        client.ok("BGSAVE");
        assert_eq!(client.ask("APPEND big x"), Reply::Int(value.len() as i64 + 1));
        client.wait_for_save();
        client.ok("DEL big");
        wait_until("it is given up", || client.info_int("used_memory") < 32 << 20);
        // The allocator may keep what one round needed, for the next one.
        let grown = resident(&server).saturating_sub(before);
        assert!(grown < 8 * value.len() as u64, "{grown} bytes for one value");
    }
}

/// Redis leaves elements out of an array that EXEC has announced, so that all that follows is read
/// wrongly.
#[test]
fn client_reply_within_a_transaction_leaves_its_reply_whole() {
    let server = Server::start(Kind::Ours("imprint"));
    for (mode, replies) in [("OFF", "+PONG\r\n"), ("SKIP", "+PONG\r\n+PONG\r\n")] {
        let mut client = server.client();
        let queued = ["MULTI", "ECHO a", &format!("CLIENT REPLY {mode}"), "ECHO b"];
        queued.iter().for_each(|request| drop(client.ask(request)));
        let exec = client.ask("EXEC");
        let replies_of: Vec<String> = exec.list().iter().map(Reply::text).collect();
        assert_eq!(replies_of, ["a", "OK", "b"], "{mode}");
        // The next one gets no reply; after OFF, none does.
        client.send(&[b"ECHO", b"dropped"]);
        if mode == "OFF" {
            client.send(&[b"ECHO", b"dropped, too"]);
            assert_eq!(client.ask("CLIENT REPLY ON").text(), "OK");
        }
        replies.lines().for_each(|_| assert_eq!(client.ask("PING").text(), "PONG"));
    }
    let mut client = server.client();
    client.send(&[b"CLIENT", b"REPLY", b"OFF"]);
    let queued: [&[&[u8]]; 4] =
        [&[b"MULTI"], &[b"ECHO", b"a"], &[b"CLIENT", b"REPLY", b"ON"], &[b"ECHO", b"b"]];
    queued.iter().for_each(|request| client.send(request));
    assert_eq!(client.ask("EXEC").list().len(), 3);
    assert_eq!(client.ask("PING").text(), "PONG");
}
