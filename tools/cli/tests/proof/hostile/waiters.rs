//! Clients that wait for very many keys, or in very great number for one.

use super::{Asks, assert_bounded, before_a_witness, server};
use crate::requests::resident;
use crate::support::{Client, Reply, wait_until};

/// One client waits for a hundred thousand keys; a transaction then writes all of them.
#[test]
fn one_that_waits_for_very_many_keys_is_served_at_once() {
    const KEYS: usize = 100_000;
    let server = server();
    let before = resident(&server);
    before_a_witness(&server, Asks::Everything, || {
        let names: Vec<String> = (0..KEYS).map(|number| format!("queue:{number}")).collect();
        let mut words: Vec<&[u8]> = vec![b"BLPOP"];
        words.extend(names.iter().map(|name| name.as_bytes()));
        words.push(b"0");
        let mut waiter = server.client();
        waiter.send(&words);
        let mut client = server.client();
        wait_until("it waits", || client.info("blocked_clients") == "1");
        client.send(&[b"MULTI"]);
        names.iter().for_each(|name| client.send(&[b"RPUSH", name.as_bytes(), b"v"]));
        client.send(&[b"EXEC"]);
        (0..=KEYS).for_each(|_| drop(client.raw()));
        assert_eq!(client.reply().list().len(), KEYS);
        assert_eq!(waiter.reply().list()[0].text(), "queue:0", "the first one written");
        assert_eq!(client.ask("DBSIZE").int() as usize, KEYS - 1 + 2);
        assert_bounded(&server, before, 128 << 20);
    });
}

/// Thousands wait for one key; most of them leave in no order, some by closing the connection.
#[test]
fn thousands_that_wait_for_one_key_may_leave_in_any_order() {
    let server = server();
    let mut client = server.client();
    before_a_witness(&server, Asks::Everything, || {
        let mut waiters: Vec<Client> = (0..1_000).map(|_| server.client()).collect();
        for (number, waiter) in waiters.iter_mut().enumerate() {
            let timeout: &[u8] = if number % 3 == 0 { b"0.05" } else { b"0" };
            waiter.send(&[b"BLPOP", b"queue", timeout]);
        }
        for waiter in waiters.iter_mut().step_by(3) {
            assert_eq!(waiter.reply(), Reply::Null);
        }
        let mut number = 0;
        waiters.retain(|_| {
            number += 1;
            number % 3 == 2
        });
        let left = waiters.len();
        wait_until("the rest waits", || client.info_int("blocked_clients") == left as i64);
        for number in 0..left {
            assert_eq!(client.call(&[b"RPUSH", b"queue", number.to_string().as_bytes()]).int(), 1);
        }
        let mut given: Vec<usize> = waiters
            .iter_mut()
            .map(|waiter| waiter.reply().list()[1].text().parse().expect("a number"))
            .collect();
        given.sort_unstable();
        assert!(given.into_iter().eq(0..left), "each was given once");
        assert_eq!(client.info("blocked_clients"), "0");
    });
}
