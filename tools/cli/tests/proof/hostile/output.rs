//! Clients that do not read their replies, by the class of their output limit.

use super::{Asks, assert_bounded, before_a_witness, server_with};
use crate::requests::resident;
use crate::support::{Client, Kind, PATIENCE, Reply, Server, Setup, redis_is_here, wait_until};
use std::io::{ErrorKind, Write};
use std::net::TcpStream;

const LIMITS: (&str, &str) = ("client-output-buffer-limit", "normal 4mb 0 0 pubsub 2mb 0 0");

fn wait_for_clients(server: &Server, count: &str) {
    let mut client = server.client();
    wait_until("the lazy ones are cut off", || client.info("connected_clients") == count);
}

/// One request whose replies are large, in its many forms.
#[test]
fn replies_of_one_request_end_at_the_limit() {
    let server = server_with(&[LIMITS]);
    let mut client = server.client();
    client.call(&[b"SET", b"big", &vec![b'x'; 1 << 20]]);
    client.call(&[b"SADD", b"set", &vec![b'x'; 1 << 20]]);
    client.call(&[b"HSET", b"hash", b"f", &vec![b'x'; 1 << 20]]);
    client.call(&[b"ZADD", b"sorted", b"1", &vec![b'x'; 1 << 20]]);
    client.ok("RPUSH list i i i i i i i i i i");
    client.call(&[&[&b"RPUSH"[..], b"ints"], &[&b"i"[..]; 100_000][..]].concat());
    let before = resident(&server);
    let gets = "GET big\r\n".repeat(2_000);
    let positions = "LPOS ints i COUNT 0\r\n".repeat(200);
    let patterns: String = (1..=60).map(|stars| format!(" n{}", "*".repeat(stars))).collect();
    let message = "t".repeat(1 << 20);
    let requests = [
        format!("MULTI\r\n{gets}EXEC\r\n"),
        format!("MGET{}\r\n", " big".repeat(2_000)),
        "SRANDMEMBER set -2000\r\n".to_owned(),
        "HRANDFIELD hash -2000 WITHVALUES\r\n".to_owned(),
        "ZRANDMEMBER sorted -2000 WITHSCORES\r\n".to_owned(),
        format!("HMGET hash{}\r\n", " f".repeat(2_000)),
        format!("SORT list BY nosort{}\r\n", " GET b*g".repeat(200)),
        format!("MULTI\r\n{positions}EXEC\r\n"),
        format!(
            "HELLO 3\r\nPSUBSCRIBE{patterns}\r\n*3\r\n$7\r\nPUBLISH\r\n$1\r\nn\r\n${}\r\n{message}\r\n",
            message.len()
        ),
        gets.clone(),
    ];
    for request in requests {
        before_a_witness(&server, Asks::Everything, || {
            let mut lazy = server.client();
            assert!(lazy.send_raw(request.as_bytes()));
            // This client's own, the witness's, and the one that asks.
            wait_for_clients(&server, "3");
            assert_bounded(&server, before, 16 << 20);
            let read = std::iter::from_fn(|| lazy.try_raw()).count();
            assert!(read <= 2_002, "{read}");
        });
    }
    let closed = client.info("client_output_buffer_limit_disconnections").parse::<u64>();
    assert!(closed.expect("a number") >= 10, "each client above the limit counts");
    // Requests behind the reply that was too large have run, as in Redis.
    let mut lazy = server.client();
    assert!(lazy.send_raw(format!("MULTI\r\n{gets}SET after done\r\nEXEC\r\n").as_bytes()));
    wait_until("the transaction has run", || client.ask("EXISTS after").int() == 1);
}

/// Messages, keyspace events and what MONITOR shows, to clients that read nothing.
#[test]
fn listeners_that_read_nothing_are_cut_off_at_the_limit() {
    let server = server_with(&[LIMITS, ("notify-keyspace-events", "KEA")]);
    let listeners = [
        "SUBSCRIBE news\r\n",
        "PSUBSCRIBE n* __key*\r\n",
        "HELLO 3\r\nSUBSCRIBE news\r\n",
        "MONITOR\r\n",
    ];
    let before = resident(&server);
    for listener in listeners {
        before_a_witness(&server, Asks::Everything, || {
            let mut lazy: Vec<Client> = (0..20).map(|_| server.client()).collect();
            for client in &mut lazy {
                assert!(client.send_raw(listener.as_bytes()));
                client.raw();
            }
            let mut speaker = server.client();
            let text = vec![b't'; 100_000];
            for number in 0..300 {
                // To the clients that are still connected.
                speaker.send(&[b"PUBLISH", b"news", &text]);
                speaker.send(&[b"SET", format!("news:{number}").as_bytes(), b"v", b"PX", b"1"]);
            }
            for _ in 0..300 {
                assert!(matches!(speaker.reply(), Reply::Int(0..=20)));
                assert_eq!(speaker.reply(), Reply::Text(b"OK".to_vec()));
            }
            // The speaker, the witness, and the one that asks.
            wait_for_clients(&server, "3");
            // The limit of one that monitors, a message, and what a thread has been handed; the
            // allocator keeps it.
            assert_bounded(&server, before, 20 * (5 << 20));
        });
    }
}

/// A client that receives invalidations and reads none of them.
#[test]
fn a_cache_that_reads_nothing_is_cut_off_at_the_limit() {
    let server = server_with(&[LIMITS]);
    let before = resident(&server);
    before_a_witness(&server, Asks::Everything, || {
        let mut lazy = server.client();
        lazy.ok("HELLO 3");
        lazy.ok("CLIENT TRACKING ON BCAST");
        let mut writer = server.client();
        let key = "k".repeat(10_000);
        for _ in 0..20 {
            for number in 0..100 {
                writer.send(&[b"SET", format!("{key}{number}").as_bytes(), b"v"]);
            }
            (0..100).for_each(|_| assert_eq!(writer.reply().text(), "OK"));
        }
        wait_for_clients(&server, "3");
        assert_bounded(&server, before, 16 << 20);
    });
}

#[test]
fn a_client_that_has_no_password_makes_the_server_keep_no_replies() {
    const BYTES_MAX: usize = 64 << 20;
    for kind in [Kind::subject("imprint"), Kind::Redis] {
        if kind == Kind::Redis && !redis_is_here("a client that has no password") {
            continue;
        }
        let server =
            Setup::new(kind).flags(&["--requirepass", "secret"]).password("secret").start();
        let mut stranger = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
        stranger.set_write_timeout(Some(PATIENCE)).expect("a time limit");
        let requests = b"GET x\r\n".repeat(10_000);
        let mut sent = 0;
        let error = loop {
            assert!(sent < BYTES_MAX, "{kind:?} goes on for {sent} bytes of requests");
            match stranger.write(&requests) {
                Ok(count) => sent += count,
                Err(error) => break error,
            }
        };
        let ended = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
        assert!(ended.contains(&error.kind()), "{kind:?} after {sent} bytes: {error}");
        // A client that knows the password is served, whatever its reply takes.
        let mut client = server.client();
        client.ok("AUTH secret");
        client.ok("SETRANGE big 10000000 x");
        assert_eq!(client.ask("GET big").bytes().map(<[u8]>::len), Some(10_000_001));
    }
}
