//! `maxmemory`: what must hold under every policy.

use crate::support::{Client, Kind, Random, Reply, Server, redis_is_here, rounds, wait_until};

const LIMIT: i64 = 4 << 20;

fn limited(policy: &str) -> (Server, Client) {
    let server = Server::start(Kind::Ours("imprint"));
    let mut client = server.client();
    client.ok(&format!("CONFIG SET maxmemory {LIMIT} maxmemory-policy {policy}"));
    (server, client)
}

/// Memory stays below the limit, whatever is written, and every eviction is notified and counted.
#[test]
fn memory_stays_below_the_limit() {
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-ttl"] {
        let (server, mut client) = limited(policy);
        let mut random = Random::new("memory_stays_below_the_limit");
        client.ok("CONFIG SET notify-keyspace-events Ee");
        let mut listener = server.client();
        listener.ok("SUBSCRIBE __keyevent@0__:evicted");
        let mut written = 0;
        while client.info_int("evicted_keys") < rounds(500, 50_000) as i64 {
            for _ in 0..200 {
                let key = format!("key:{written}");
                let size = random.below(4_000);
                let value = random.bytes(size);
                let stored = client.call(&[b"SET", key.as_bytes(), &value, b"EX", b"1000"]);
                assert_eq!(stored, Reply::Text(b"OK".to_vec()));
                written += 1;
            }
            let counted = client.info_int("mem_counted_for_evict");
            // One value, and the buffers of clients, which are counted ten times a second.
            assert!(counted < LIMIT + (1 << 20), "{policy}: {counted}");
        }
        let evicted = client.info_int("evicted_keys");
        assert_eq!(client.ask("DBSIZE").int(), written - evicted, "{policy}");
        for _ in 0..evicted {
            assert_eq!(listener.reply().list()[0].text(), "message", "{policy}");
        }
    }
}

/// What an image holds is not counted: a save does not drive keys out.
#[test]
fn a_save_evicts_nothing() {
    let (_server, mut client) = limited("allkeys-lru");
    client.ok("CONFIG SET maxmemory 28mb snapshot-bandwidth 1mb rdbcompression no");
    let value = vec![b'x'; 1000];
    for round in 0..2 {
        for batch in 0..200 {
            let keys: Vec<String> = (0..100).map(|i| format!("key:{}", batch * 100 + i)).collect();
            let pairs = keys.iter().flat_map(|key| [key.as_bytes(), &value]);
            let request: Vec<&[u8]> = std::iter::once(&b"MSET"[..]).chain(pairs).collect();
            assert_eq!(client.call(&request), Reply::Text(b"OK".to_vec()));
        }
        if round == 0 {
            client.ok("BGSAVE");
        }
    }
    let held = client.info_int("snapshot_limbo_bytes");
    assert!(held > 8 << 20, "the image holds {held} bytes: nothing is proved");
    assert_eq!(client.info_int("evicted_keys"), 0);
}

/// Above `maxmemory-clients` the server evicts clients, but none with CLIENT NO-EVICT.
#[test]
fn clients_that_take_too_much_memory_are_closed() {
    for kind in [Kind::subject("imprint"), Kind::Redis] {
        if kind == Kind::Redis && !redis_is_here("clients that take too much memory") {
            continue;
        }
        let server = Server::start(kind);
        let mut client = server.client();
        let [mut spared, mut large, mut larger] = [(); 3].map(|()| server.client());
        client.ok("CLIENT NO-EVICT ON");
        spared.ok("CLIENT NO-EVICT ON");
        // Half a request each: their bytes wait in the server.
        for (client, megabytes) in [(&mut spared, 4), (&mut large, 2), (&mut larger, 3)] {
            assert!(client.send_raw(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$8000000\r\n"));
            assert!(client.send_raw(&vec![b'x'; megabytes << 20]));
        }
        wait_until("the server has read them", || {
            let list = client.ask("CLIENT LIST").text();
            let sizes = list.lines().filter_map(|line| line.split(" qbuf=").nth(1));
            let sizes = sizes.filter_map(|rest| rest.split(' ').next()?.parse::<usize>().ok());
            let sizes: Vec<usize> = sizes.collect();
            (2..5).all(|megabytes| sizes.iter().any(|&size| size >= megabytes << 20))
        });
        client.ok("CONFIG SET maxmemory-clients 1mb");
        assert_eq!([large.try_raw(), larger.try_raw()], [None, None]);
        assert_eq!(client.info_int("evicted_clients"), 2);
        assert!(spared.send_raw(&vec![b'x'; (8_000_000) - (4 << 20)]) && spared.send_raw(b"\r\n"));
        assert_eq!(spared.reply().text(), "OK");
    }
}

/// `maxmemory` is compared with `used_memory` while nothing is saved or replicated: under a limit a
/// little above `used_memory`, the server takes as much data as fits, and no more.
#[test]
fn the_memory_that_is_reported_is_the_memory_that_counts() {
    for kind in [Kind::subject("imprint"), Kind::Redis] {
        if kind == Kind::Redis && !redis_is_here("the memory that is reported") {
            continue;
        }
        let server = Server::start(kind);
        let mut client = server.client();
        client.ok("CONFIG SET slowlog-log-slower-than -1 latency-tracking no");
        client.info_int("used_memory");
        for policy in ["allkeys-random", "volatile-ttl"] {
            client.ok("CONFIG SET maxmemory 0");
            client.ok("FLUSHALL SYNC");
            let limit = client.info_int("used_memory") + (100 << 10);
            client.ok(&format!("CONFIG SET maxmemory {limit} maxmemory-policy {policy}"));
            for number in 0..5_000 {
                client.ok(&format!("SETEX key:{number} 10000 x"));
            }
            let used = client.info_int("used_memory");
            assert!(used < limit + (8 << 10), "{policy}: {used} of {limit}");
            assert!(client.ask("DBSIZE").int() > 100, "{policy}");
        }
    }
}

/// Watched keys and subscriptions count as memory of the client: one that adds more for ever is
/// closed.
#[test]
fn lists_of_what_a_client_listens_to_count() {
    for kind in [Kind::subject("imprint"), Kind::Redis] {
        if kind == Kind::Redis && !redis_is_here("lists of what a client listens to") {
            continue;
        }
        let server = Server::start(kind);
        let mut client = server.client();
        client.ok("CLIENT NO-EVICT ON");
        client.ok("CONFIG SET maxmemory-clients 200000 hz 1");
        let requests =
            ["WATCH", "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "CLIENT TRACKING ON BCAST PREFIX"];
        for (closed, request) in requests.into_iter().enumerate() {
            let mut greedy = server.client();
            let last = (0..20_000).find(|number| {
                !greedy.send_raw(format!("{request} {number:012}\r\n").as_bytes())
                    || greedy.try_raw().is_none()
            });
            assert!(last.is_some_and(|last| last > 200), "{request}: {last:?}");
            assert_eq!(client.info_int("evicted_clients"), closed as i64 + 1, "{request}");
        }
        // Memory that is given back counts no more.
        let mut tidy = server.client();
        for round in 0..20 {
            for number in 0..200 {
                tidy.ok(&format!("WATCH {round}:{number:012}"));
                for request in ["SUBSCRIBE", "UNSUBSCRIBE"] {
                    assert!(tidy.send_raw(format!("{request} {number:012}\r\n").as_bytes()));
                    assert!(tidy.try_raw().is_some());
                }
            }
            tidy.ok(if round % 2 == 0 { "UNWATCH" } else { "MULTI" });
            if round % 2 == 1 {
                tidy.ok("DISCARD");
            }
        }
        assert_eq!(client.info_int("evicted_clients"), requests.len() as i64);
    }
}

/// Clients go before keys: memory that they take above their own limit evicts nothing.
#[test]
fn clients_are_closed_before_keys_are_evicted() {
    for kind in [Kind::subject("imprint"), Kind::Redis] {
        if kind == Kind::Redis && !redis_is_here("clients are closed before keys") {
            continue;
        }
        let server = Server::start(kind);
        let mut client = server.client();
        client.ok("CLIENT NO-EVICT ON");
        client.ok(
            "CONFIG SET maxmemory 11mb maxmemory-policy allkeys-lru maxmemory-clients 3mb hz 1",
        );
        for number in 0..50 {
            assert_eq!(client.ask(&format!("SETRANGE key:{number} 100000 x")).int(), 100_001);
        }
        let mut listeners = [(); 20].map(|()| server.client());
        for listener in &mut listeners {
            listener.ok("SUBSCRIBE news");
        }
        let text = vec![b'x'; 100_000];
        wait_until("a listener is closed", || {
            client.call(&[b"PUBLISH", b"news", &text]);
            client.info_int("evicted_clients") > 0
        });
        if kind == Kind::Redis {
            continue; // Redis looks at clients between turns only
        }
        // So do those whose replies come all in one turn.
        let closed = client.info_int("evicted_clients");
        let mut lazy = [(); 20].map(|()| server.client());
        while client.info_int("evicted_clients") == closed {
            for reader in &mut lazy {
                reader.send_raw("GET key:1\r\n".repeat(20).as_bytes());
            }
        }
        assert_eq!(client.info_int("evicted_keys"), 0);
        assert_eq!(client.ask("DBSIZE").int(), 50);
    }
}

/// Writes for clients wait in the server's memory until they read; then that memory is free again,
/// and counts no more at once: the clock, here once a second, has no part in it.
#[test]
fn buffers_of_clients_count_as_long_as_they_are_there() {
    for kind in [Kind::subject("imprint"), Kind::Redis] {
        if kind == Kind::Redis && !redis_is_here("buffers of clients count") {
            continue;
        }
        let server = Server::start(kind);
        let mut client = server.client();
        client.ok("CONFIG SET hz 1");
        client.call(&[b"SET", b"big", &vec![b'x'; 1 << 20]]);
        let value = vec![b'x'; 1000];
        for number in 0..5_000 {
            client.call(&[b"SET", format!("key:{number}").as_bytes(), &value]);
        }
        let before = client.info_int("used_memory");
        for policy in ["noeviction", "allkeys-lru"] {
            let limit = before + (64 << 20);
            client.ok(&format!("CONFIG SET maxmemory {limit} maxmemory-policy {policy}"));
            for _ in 0..3 {
                let mut lazy = server.client();
                let asked = if policy == "noeviction" { 100 } else { 20 };
                assert!(lazy.send_raw("GET big\r\n".repeat(asked).as_bytes()));
                if policy == "noeviction" {
                    // As soon as it is there, no write gets through, and every read does.
                    wait_until("memory is used up", || {
                        client.ask("SET small v").text().starts_with("OOM ")
                    });
                    assert_eq!(client.ask("GET key:0").bytes(), Some(&value[..]));
                } else {
                    wait_until("the replies wait", || {
                        client.info_int("used_memory") > before + (8 << 20)
                    });
                }
                for _ in 0..asked {
                    lazy.raw();
                }
                client.ok("SET small v");
            }
            // Half a request counts, until its client goes.
            let mut half = server.client();
            assert!(half.send_raw(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$45000000\r\n"));
            assert!(half.send_raw(&vec![b'x'; 20 << 20]));
            wait_until("it is read", || client.info_int("used_memory") > before + (15 << 20));
            drop(half);
            wait_until("it is gone", || client.info_int("used_memory") < before + (8 << 20));
            client.ok("SET small v");
        }
        assert_eq!(client.info_int("evicted_keys"), 0, "{kind:?}: there was room for all");
        assert_eq!(client.ask("DBSIZE").int(), 5_002);
    }
}

/// The server evicts keys until there is room, and none for memory that a client held a moment ago.
#[test]
fn no_more_keys_go_than_have_to() {
    let (server, mut client) = limited("allkeys-random");
    client.ok("CONFIG SET maxmemory 64mb hz 1");
    client.call(&[b"SET", b"big", &vec![b'x'; 1 << 20]]);
    let value = vec![b'x'; 1000];
    for number in 0..30_000 {
        client.call(&[b"SET", format!("key:{number}").as_bytes(), &value]);
    }
    assert_eq!(client.info_int("evicted_keys"), 0);
    let mut lazy = server.client();
    assert!(lazy.send_raw("GET big\r\n".repeat(46).as_bytes()));
    wait_until("keys go", || client.info_int("evicted_keys") > 0);
    // Some of the replies may find no key any more: it may be among those that went.
    for _ in 0..46 {
        lazy.raw();
    }
    let gone = client.info_int("evicted_keys");
    assert!(gone < 25_000, "{gone} of 30,000 keys went for 15 MB");
    for number in 0..100 {
        client.call(&[b"SET", format!("new:{number}").as_bytes(), &value]);
    }
    assert_eq!(client.info_int("evicted_keys"), gone, "nothing was needed any more");
}
