//! Clients that send slowly, or never finish what they have begun.

use super::{Asks, assert_bounded, before_a_witness, server, server_with};
use crate::requests::resident;
use crate::support::{Client, Reply, rounds};
use std::time::Duration;

/// Hundreds that send one byte now and then. Half of them get to the end.
#[test]
fn a_byte_at_a_time_by_hundreds() {
    let server = server();
    let before = resident(&server);
    before_a_witness(&server, Asks::Everything, || {
        let request = b"*3\r\n$3\r\nSET\r\n$4\r\nslow\r\n$4\r\ndone\r\n";
        let mut clients: Vec<Client> = (0..400).map(|_| server.client()).collect();
        for (at, byte) in request.iter().enumerate() {
            for (number, client) in clients.iter_mut().enumerate() {
                if number % 2 == 0 || at < 20 {
                    assert!(client.send_raw(&[*byte]));
                }
            }
            std::thread::sleep(Duration::from_millis(rounds(50, 1000) as u64));
        }
        for client in clients.iter_mut().step_by(2) {
            assert_eq!(client.reply(), Reply::Text(b"OK".to_vec()));
        }
        assert_bounded(&server, before, 0);
    });
    assert_eq!(server.client().ask("GET slow").text(), "done");
}

/// Lengths that no client means, or never fills: a claim takes no memory, and gets an error or
/// patience as from Redis (`requests::malformed_requests_get_the_error_that_redis_gives`).
#[test]
fn claims_of_huge_lengths_take_no_memory() {
    let server = server_with(&[("client-query-buffer-limit", "4mb")]);
    let before = resident(&server);
    before_a_witness(&server, Asks::Everything, || {
        let claims: [&[u8]; 12] = [
            b"*1048577\r\n",
            b"*2147483647\r\n",
            b"*2147483647\r\n$536870912\r\n",
            b"*2147483648\r\n",
            b"*-1\r\n",
            b"*-2147483648\r\n",
            b"*1\r\n$-5\r\n",
            b"*1\r\n$9999999999999999999\r\n",
            b"*1\r\n$-9223372036854775808\r\n",
            b"*9999999999999999999\r\n",
            b"*2\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
            b"*1\r\n%1\r\n",
        ];
        let mut clients = Vec::new();
        for number in 0..240 {
            let mut client = server.client();
            // An earlier claim may have closed the connection: then the rest is not taken.
            client.send_raw(claims[number % claims.len()]);
            clients.push(client);
        }
        assert_bounded(&server, before, 0);
    });
}

/// As many small arguments as the buffer for requests takes, and more.
#[test]
fn a_request_of_millions_of_arguments_ends_at_the_limit() {
    let server = server_with(&[("client-query-buffer-limit", "8mb")]);
    let before = resident(&server);
    before_a_witness(&server, Asks::Everything, || {
        // The second is whole when all of it was read, not before.
        for head in [&b"*2147483647\r\n"[..], b"*4000001\r\n$3\r\nDEL\r\n"] {
            let mut client = server.client();
            client.send_raw(head);
            let piece = b"$1\r\nx\r\n".repeat(10_000);
            let taken = (0..400).take_while(|_| client.send_raw(&piece)).count();
            assert!(taken < 400, "a request of {} bytes was read", 400 * piece.len());
            // The buffer, and where each argument is in it.
            assert_bounded(&server, before, 64 << 20);
        }
    });
}

/// Endless inline lines, by many at once.
#[test]
fn endless_lines_are_refused() {
    let server = server();
    let before = resident(&server);
    before_a_witness(&server, Asks::Everything, || {
        for _ in 0..50 {
            let mut client = server.client();
            let piece = vec![b'a'; 1 << 16];
            let taken = (0..100).take_while(|_| client.send_raw(&piece)).count();
            assert!(taken < 100, "an endless line was read");
        }
        assert_bounded(&server, before, 0);
    });
}

/// A transaction that never ends takes no more than a client's requests may.
#[test]
fn an_endless_transaction_ends_at_the_limit() {
    let server = server_with(&[("client-query-buffer-limit", "4mb")]);
    let before = resident(&server);
    before_a_witness(&server, Asks::Everything, || {
        let mut client = server.client();
        client.ok("MULTI");
        let piece = b"SET k 0123456789\r\n".repeat(1_000);
        let taken = (0..2_000).take_while(|_| client.send_raw(&piece)).count();
        assert!(taken < 2_000, "a transaction of {} bytes was queued", 2_000 * piece.len());
        assert_bounded(&server, before, 32 << 20);
    });
    assert_eq!(server.client().ask("EXISTS k").int(), 0);
}

/// A pipeline that is deep before a reply is read is answered to its end, in order.
#[test]
fn a_pipeline_of_a_hundred_thousand_is_answered_in_order() {
    let server = server();
    let before = resident(&server);
    before_a_witness(&server, Asks::Everything, || {
        let mut client = server.client();
        let mut requests = Vec::new();
        for number in 0..100_000 {
            requests.extend_from_slice(format!("ECHO {number}\r\nINCR deep\r\n").as_bytes());
        }
        assert!(client.send_raw(&requests));
        for number in 0..100_000 {
            assert_eq!(client.reply().text(), number.to_string());
            assert_eq!(client.reply(), Reply::Int(number + 1));
        }
        assert_bounded(&server, before, 16 << 20);
    });
}
