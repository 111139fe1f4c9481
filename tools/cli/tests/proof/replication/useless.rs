//! Full synchronisations that cannot succeed: each costs the primary an image, so they come less
//! and less often, INFO has the cause, and what cannot be read is refused by its head.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::ours;
use crate::support::{Kind, Random, Reply, Setup, limit_file_size, wait_until};

/// A primary that announces an image and sends these bytes, each time anew. Counts the connections
/// that the replica gave up after them.
fn primary_of(image: Vec<u8>, given_up: Arc<AtomicUsize>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let serve = move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let Ok(copy) = stream.try_clone() else { return };
            for line in BufReader::new(copy).lines() {
                let Ok(line) = line else { break };
                let answer: Vec<u8> = match &line[..] {
                    "PING" => b"+PONG\r\n".to_vec(),
                    "REPLCONF" => b"+OK\r\n".to_vec(),
                    "PSYNC" => {
                        let announced = format!("+FULLRESYNC {} 0\r\n", "a".repeat(40));
                        [announced.as_bytes(), &image].concat()
                    }
                    _ => continue,
                };
                if stream.write_all(&answer).is_err() {
                    break;
                }
                if line == "PSYNC" {
                    // The rest never comes: only the replica can end this.
                    let _ = stream.read_to_end(&mut Vec::new());
                    given_up.fetch_add(1, Ordering::SeqCst);
                    break;
                }
            }
        }
    };
    std::thread::spawn(serve);
    port
}

#[test]
fn an_image_of_a_newer_version_is_refused_by_its_head_and_asked_for_less_and_less_often() {
    let given_up = Arc::<AtomicUsize>::default();
    let port = primary_of(b"$1000000000\r\nVALKEY081\xfa".to_vec(), Arc::clone(&given_up));
    let replica = ours("imprint", "");
    let mut client = replica.client();
    client.ok("SET k v");
    client.ok(&format!("REPLICAOF 127.0.0.1 {port}"));
    wait_until("three images failed", || client.info_int("master_sync_failures") >= 3);
    assert!(given_up.load(Ordering::SeqCst) >= 2, "the replica ends the connection");
    let cause = client.info("master_sync_last_error");
    assert!(cause.contains("VALKEY version 81 cannot be read"), "{cause}");
    let left = client.info_int("master_sync_retry_seconds");
    assert!(left <= 60, "{left}");
    for pause in ["next attempt in 1s", "next attempt in 2s", "next attempt in 4s"] {
        assert!(replica.log().contains(pause), "{pause}: {}", replica.log());
    }
    // What the replica has stays: nothing of the image was loaded.
    assert_eq!(client.ask("GET k").text(), "v");
    client.ok("REPLICAOF NO ONE");
    assert!(!client.ask("INFO replication").text().contains("master_sync"));
}

/// Redis 7.4 sends an empty line behind the image if FLUSHALL ends the child that has just written
/// it, and does not count it as a byte of the stream.
#[test]
fn an_empty_line_behind_an_image_is_no_part_of_the_stream() {
    let file = b"REDIS0010\xff\0\0\0\0\0\0\0\0";
    let stream = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
    let head = format!("${}\r\n", file.len());
    let image = [head.as_bytes(), file, b"\n\n", stream].concat();
    let port = primary_of(image, Arc::default());
    let replica = ours("imprint", "");
    let mut client = replica.client();
    client.ok(&format!("REPLICAOF 127.0.0.1 {port}"));
    wait_until("the stream was applied", || client.ask("GET k") == Reply::Text(b"v".to_vec()));
    assert_eq!(client.info_int("slave_repl_offset"), stream.len() as i64);
}

#[test]
fn a_replica_with_a_full_disk_asks_less_and_less_often_and_recovers() {
    let primary = ours("imprint", "--repl-diskless-sync-delay 0");
    let mut client = primary.client();
    for number in 0..4 {
        let (key, value) = (format!("large:{number}"), Random::with_seed(number).bytes(1 << 20));
        client.call(&[b"SET", key.as_bytes(), &value]);
    }
    let replica = Setup::new(Kind::Ours("imprint")).outlives_file_limits().start();
    limit_file_size(replica.pid(), Some(1 << 20));
    let mut there = replica.client();
    there.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    wait_until("two images failed", || there.info_int("master_sync_failures") >= 2);
    let cause = there.info("master_sync_last_error");
    assert!(cause.starts_with("its image cannot be kept in a file"), "{cause}");
    assert!(replica.log().contains("next attempt in 2s"), "{}", replica.log());
    limit_file_size(replica.pid(), None);
    super::wait_for_all(&primary, &replica);
    assert_eq!(there.info("master_sync_failures"), "0");
    assert_eq!(there.ask("DBSIZE").int(), 4);
}
