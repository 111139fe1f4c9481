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

/// A RESP2 client redirects invalidations to another client; when that one is gone, it goes on
/// without.
#[test]
fn changes_are_sent_to_the_client_they_are_redirected_to() {
    let server = Server::start(Kind::subject("imprint"));
    let (mut reader, mut other, mut writer) = (server.client(), server.client(), server.client());
    let id = other.ask("CLIENT ID").int();
    other.ok("SUBSCRIBE __redis__:invalidate");
    reader.ok(&format!("CLIENT TRACKING ON REDIRECT {id}"));
    assert_eq!(reader.ask("CLIENT GETREDIR").int(), id);
    reader.ok("GET k");
    writer.ok("SET k 1");
    let raw = String::from_utf8(other.raw()).expect("text");
    let expected = "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\nk\r\n";
    assert_eq!(raw, expected);
    drop(other);
    wait_until("the server has noticed", || {
        reader.ok("GET k");
        writer.ok("SET k 2");
        reader.ask("CLIENT TRACKINGINFO").list()[1].list().len() == 2
    });
}

/// A client that waited alone receives the event of what it took, after the reply.
#[test]
fn a_served_waiter_hears_of_its_own_change() {
    let server = Server::start(Kind::subject("imprint"));
    let (mut waiter, mut writer) = (server.client(), server.client());
    for client in [&mut waiter, &mut writer] {
        client.ok("HELLO 3");
        client.ok("CLIENT TRACKING ON");
    }
    waiter.ok("LLEN q");
    waiter.send(&[b"BLPOP", b"q", b"0"]);
    wait_until("it waits", || writer.info_int("blocked_clients") == 1);
    writer.ok("RPUSH q x");
    let words = |reply: &Reply| reply.list().iter().map(Reply::text).collect::<Vec<_>>();
    // Pushed to by the writer before anything was taken: that event comes first.
    assert_eq!(waiter.reply().list()[0].text(), "invalidate");
    assert_eq!(words(&waiter.reply()), ["q", "x"]);
    assert_eq!(writer.ask("PING").text(), "PONG");
}

/// While writes are held, reads go on, and what was held runs in the end, in order.
#[test]
fn a_pause_holds_requests_and_lets_them_run_afterwards() {
    let server = Server::start(Kind::subject("imprint"));
    let (mut control, mut writer) = (server.client(), server.client());
    control.ok("SET k before");
    control.ok("CLIENT PAUSE 100000 WRITE");
    writer.send_raw(b"SET k \"a b\"\r\nGET k\r\nSET k 2\r\nGET k\r\n");
    let mut flags = String::new();
    wait_until("the writer is held", || {
        flags = control.ask("CLIENT LIST").text();
        flags.contains("flags=b")
    });
    assert_eq!(control.ask("GET k").text(), "before");
    control.ok("CLIENT UNPAUSE");
    let replies: Vec<String> = (0..4).map(|_| writer.reply().text()).collect();
    assert_eq!(replies, ["OK", "a b", "OK", "2"]);
    // All requests are held, also that which would end the pause; its time ends it.
    control.ok("CLIENT PAUSE 50");
    assert_eq!(writer.ask("GET k").text(), "2");
    control.ok("PING");
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
