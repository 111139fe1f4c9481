//! Clients that mean harm: memory stays bounded, the offender gets an error or is cut off, nothing
//! panics, and another client, the witness, gets the right reply to each of its requests, in order.
//! The test prints the longest wait of the witness, which decides nothing.

mod crowds;
mod memory;
mod output;
mod replicas;
mod slow;
mod waiters;

use std::time::{Duration, Instant};

use crate::requests::resident;
use crate::support::{Client, Kind, Reply, Server, Stop};

/// Bytes that a server may take beyond its limit.
const SLACK: u64 = 96 << 20;

/// The witness's request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// Whatever anybody may.
    Everything,
    /// Nothing that takes memory, or may be evicted.
    Nothing,
}

/// Runs `body` on a server that also serves a witness. Prints the longest wait of the witness.
fn before_a_witness<R>(server: &Server, asks: Asks, body: impl FnOnce() -> R) -> R {
    let stop = Stop::default();
    let mut client = server.client();
    assert!(client.ready());
    std::thread::scope(|scope| {
        let _guard = stop.at_the_end();
        let witness = scope.spawn(|| testify(client, asks, &stop));
        let result = body();
        stop.now();
        let (requests, worst) = witness.join().expect("the witness is served");
        println!("the witness was answered {requests} times, at worst after {worst:?}");
        assert!(requests > 0, "the witness was there");
        assert!(!server.log().contains("panicked"), "{}", server.log());
        result
    })
}

fn testify(mut client: Client, asks: Asks, stop: &Stop) -> (u64, Duration) {
    client.ask("DEL witness:count");
    let (mut number, mut worst) = (0, Duration::ZERO);
    loop {
        number += 1;
        let text = number.to_string();
        let text = text.as_bytes();
        let mut expected = vec![(vec![&b"ECHO"[..], text], Reply::Text(text.to_vec()))];
        if asks == Asks::Everything {
            let ok = Reply::Text(b"OK".to_vec());
            expected.push((vec![b"INCR", b"witness:count"], Reply::Int(number)));
            expected.push((vec![b"SET", b"witness:text", text], ok));
            expected.push((vec![b"GET", b"witness:text"], Reply::Text(text.to_vec())));
        }
        let start = Instant::now();
        expected.iter().for_each(|(request, _)| client.send(request));
        expected.iter().for_each(|(_, reply)| assert_eq!(client.reply(), *reply));
        worst = worst.max(start.elapsed());
        if stop.is_due() {
            return (number as u64, worst);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn server() -> Server {
    Server::start(Kind::subject("imprint"))
}

/// A server with settings changed, as `name value name value`.
fn server_with(settings: &[(&str, &str)]) -> Server {
    let server = server();
    let mut client = server.client();
    for (name, value) in settings {
        let reply = client.call(&[b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()]);
        assert_eq!(reply.text(), "OK", "{name}");
    }
    server
}

/// Fails if the server has grown by more than `most` and some slack since it had `before`.
fn assert_bounded(server: &Server, before: u64, most: u64) {
    let grown = resident(server).saturating_sub(before);
    println!("the server has grown by {} MiB", grown >> 20);
    assert!(grown < most + SLACK, "the server has grown by {grown} bytes, {most} were meant");
}
