//! Subscribers beside redis-server: what a transcript cannot show.

use crate::support::{Kind, Random, Reply, Server, redis_is_here, rounds, wait_until};

/// A subscriber that does not read is cut off at the limit, and holds up nobody.
#[test]
fn a_subscriber_that_does_not_read_is_cut_off() {
    let server = Server::start(Kind::subject("imprint"));
    let (mut slow, mut reader, mut writer) = (server.client(), server.client(), server.client());
    let limit = b"pubsub 1mb 0 0";
    writer.call(&[b"CONFIG", b"SET", b"client-output-buffer-limit", limit]);
    for client in [&mut slow, &mut reader] {
        client.ok("SUBSCRIBE news");
    }
    let payload = vec![b'x'; 64 << 10];
    let mut sent = 0;
    wait_until("the slow subscriber is cut off", || {
        sent += 1;
        let reached = writer.call(&[b"PUBLISH", b"news", &payload]).int();
        assert_eq!(reader.reply().list()[2].bytes(), Some(&*payload));
        reached == 1
    });
    // The sockets' own buffers take some megabytes.
    assert!(sent * payload.len() < 64 << 20, "{sent} messages were kept");
    assert_eq!(writer.ask("PUBSUB NUMSUB news").list()[1].int(), 1);
}

/// Random subscriptions and messages: every subscriber gets what it gets from redis-server.
#[test]
fn subscribers_get_the_same_messages_as_from_redis() {
    if !redis_is_here("subscribers_get_the_same_messages_as_from_redis") {
        return;
    }
    let servers = [Server::start(Kind::Redis), Server::start(Kind::subject("imprint"))];
    let mut random = Random::new("subscribers_get_the_same_messages_as_from_redis");
    let names = ["a", "ab", "abc", "b", "ba", "*", "a*", "[ab]*", "?b", "nosuch"];
    let mut sides: Vec<_> =
        servers.iter().map(|server| (0..5).map(|_| server.client()).collect::<Vec<_>>()).collect();
    for side in &mut sides {
        side[1].ok("HELLO 3");
        side[2].ok("HELLO 3");
    }
    for round in 0..rounds(300, 10_000) {
        let client = random.below(4);
        let verb = random.pick(&["SUBSCRIBE", "PSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE"]);
        let name = random.pick(&names);
        let publish = random.below(2) == 0;
        let line =
            if publish { format!("PUBLISH {name} {round}") } else { format!("{verb} {name}") };
        let mut seen = Vec::new();
        for side in &mut sides {
            let answer = if publish { side[4].ask(&line) } else { side[client].ask(&line) };
            // An answered PING comes after all that was sent before.
            let mut messages = vec![answer];
            for listener in &mut side[..4] {
                let mut got = Vec::new();
                listener.send(&[b"PING", b"end"]);
                loop {
                    let raw = listener.raw();
                    if raw.windows(3).any(|part| part == b"end") {
                        break;
                    }
                    got.push(raw);
                }
                got.sort(); // patterns are visited in no order
                let got = got.into_iter().map(Reply::Text).collect();
                messages.push(Reply::List(got));
            }
            seen.push(messages);
        }
        assert_eq!(seen[0], seen[1], "round {round}: {line}");
    }
}
