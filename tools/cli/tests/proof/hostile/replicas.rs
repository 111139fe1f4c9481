//! Replicas that stop reading: what the primary keeps for them is bounded in bytes and in time.

use super::{Asks, assert_bounded, before_a_witness, server_with};
use crate::requests::resident;
use crate::support::{Client, Random, Reply, Server, wait_until};

/// Announces itself as a replica, and asks for everything.
fn replica(server: &Server) -> Client {
    let mut replica = server.client();
    replica.ok("REPLCONF listening-port 1 capa eof capa psync2");
    replica.send(&[b"PSYNC", b"?", b"-1"]);
    replica
}

/// Whether the one replica is in this state.
fn is(client: &mut Client, state: &str) -> bool {
    client.info("connected_slaves") == "1" && client.info("slave0").contains(state)
}

fn fill(server: &Server, mebibytes: u64) {
    let mut client = server.client();
    for number in 0..mebibytes {
        let value = Random::with_seed(number).bytes(1 << 20);
        client.call(&[b"SET", format!("large:{number}").as_bytes(), &value]);
    }
}

const AT_ONCE: (&str, &str) = ("repl-diskless-sync-delay", "0");

/// It stops in the middle of the image: writes wait for it, as configured, but not for ever.
#[test]
fn one_that_stops_during_the_image_is_given_up_in_time() {
    let server = server_with(&[
        AT_ONCE,
        ("repl-timeout", "2"),
        ("repl-sync-backpressure", "yes"),
        ("client-output-buffer-limit", "replica 4mb 0 0"),
    ]);
    fill(&server, 64);
    let before = resident(&server);
    before_a_witness(&server, Asks::Everything, || {
        let mut client = server.client();
        let lazy = replica(&server);
        wait_until("its image is being sent", || client.info("rdb_bgsave_in_progress") == "1");
        let value = vec![b'y'; 1 << 16];
        for number in 0..400 {
            let key = format!("k:{}", number % 10);
            let stored = client.call(&[b"SET", key.as_bytes(), &value]);
            assert_eq!(stored, Reply::Text(b"OK".to_vec()));
        }
        wait_until("it is given up", || client.info("connected_slaves") == "0");
        wait_until("its image has ended", || client.info("rdb_bgsave_in_progress") == "0");
        assert_bounded(&server, before, 48 << 20);
        drop(lazy);
    });
}

/// It has the image and then reads no more of the stream.
#[test]
fn one_that_stops_during_the_stream_is_cut_off_at_the_limit() {
    let server = server_with(&[
        AT_ONCE,
        ("client-output-buffer-limit", "replica 4mb 0 0"),
        ("repl-backlog-size", "1mb"),
    ]);
    let before = resident(&server);
    before_a_witness(&server, Asks::Everything, || {
        let mut client = server.client();
        let mut lazy = replica(&server);
        read_image(&mut lazy);
        lazy.send(&[b"REPLCONF", b"ACK", b"0"]);
        wait_until("it is online", || is(&mut client, "state=online"));
        let value = vec![b'y'; 1 << 16];
        for _ in 0..1_000 {
            assert_eq!(client.call(&[b"SET", b"k", &value]), Reply::Text(b"OK".to_vec()));
        }
        wait_until("it is cut off", || client.info("connected_slaves") == "0");
        assert_bounded(&server, before, 16 << 20);
        drop(lazy);
    });
}

/// Reads up to the mark that the image begins and ends with.
fn read_image(replica: &mut Client) {
    let mut read = Vec::new();
    loop {
        read.extend(replica.receive_raw().expect("the image comes"));
        let Some(at) = find(&read, b"$EOF:") else { continue };
        let Some(mark) = read.get(at + 5..at + 45) else { continue };
        if find(&read[at + 45..], mark).is_some() {
            return;
        }
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}
