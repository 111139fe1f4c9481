//! Very many connections.

use super::{Asks, assert_bounded, before_a_witness, server_with};
use crate::requests::resident;
use crate::support::{Client, Reply, skipped, wait_until};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn ten_thousand_connections_are_all_served() {
    const COUNT: usize = 10_000;
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).expect("within bounds");
    if limit.maximum.is_some_and(|most| most < COUNT as u64 + 1_000) {
        let most = limit.maximum.unwrap_or_default();
        let why = format!("the hard limit of open files is {most}; raise it with ulimit -Hn");
        return skipped("ten_thousand_connections_are_all_served", &why);
    }
    let server = server_with(&[("maxclients", "10100")]);
    let before = resident(&server);
    before_a_witness(&server, Asks::Everything, || {
        let mut crowd: Vec<Client> = (0..COUNT).map(|_| server.client()).collect();
        for round in 0..3 {
            for (number, client) in crowd.iter_mut().enumerate() {
                client.send(&[b"ECHO", format!("{round}:{number}").as_bytes()]);
            }
            for (number, client) in crowd.iter_mut().enumerate() {
                assert_eq!(client.reply().text(), format!("{round}:{number}"));
            }
        }
        assert_bounded(&server, before, COUNT as u64 * 16_384);
        // Half of them close the connection, the others wait for a key that then comes.
        crowd.truncate(COUNT / 2);
        crowd.iter_mut().for_each(|client| client.send(&[b"BLPOP", b"queue", b"0"]));
        let mut other = server.client();
        let all = (COUNT / 2).to_string();
        wait_until("all wait", || other.info("blocked_clients") == all);
        for number in 0..COUNT / 2 {
            other.send(&[b"RPUSH", b"queue", number.to_string().as_bytes()]);
        }
        (0..COUNT / 2).for_each(|_| assert_eq!(other.reply(), Reply::Int(1)));
        let mut given: Vec<usize> = crowd
            .iter_mut()
            .map(|client| client.reply().list()[1].text().parse().expect("a number"))
            .collect();
        given.sort_unstable();
        assert!(given.into_iter().eq(0..COUNT / 2), "each was given once");
    });
}

/// Beyond `maxclients` every new connection gets the error at once; connected clients notice
/// nothing.
#[test]
fn a_crowd_at_the_door_is_turned_away() {
    let server = server_with(&[("maxclients", "50")]);
    let before = resident(&server);
    before_a_witness(&server, Asks::Everything, || {
        let mut inside: Vec<Client> = Vec::new();
        loop {
            let mut client = server.client();
            if client.try_call(&[b"PING"]) != Some(Reply::Text("PONG".into())) {
                break;
            }
            inside.push(client);
        }
        assert!((45..50).contains(&inside.len()), "{} got in", inside.len());
        for _ in 0..1_000 {
            let mut outside = server.client();
            let reply = outside.try_raw().map(|raw| raw.escape_ascii().to_string());
            assert!(
                reply.as_ref().is_none_or(|reply| reply.contains("max number of clients reached")),
                "{reply:?}"
            );
        }
        assert!(inside.iter_mut().all(Client::ready));
        assert_bounded(&server, before, 0);
    });
}
