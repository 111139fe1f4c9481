//! Scans while what they walk over changes.

use stillframe_peers::scanning::misses_nothing_and_ends;
use stillframe_peers::{Random, reply, rounds};

use crate::harness::Harness;

#[test]
fn a_scan_misses_nothing_and_ends_while_keys_are_added_and_replaced() {
    let mut random = Random::new("a_scan_misses_nothing_and_ends");
    for _ in 0..rounds(2, 50) {
        misses_nothing_and_ends(&mut Harness::with_seed(random.next()), &mut random);
    }
}

/// Calls that a walk takes at the default COUNT, and the names it meets.
fn walk(server: &mut Harness, head: &str, tail: &str) -> (usize, usize) {
    let (mut cursor, mut met) = ("0".to_owned(), 0);
    for call in 1.. {
        let line = format!("{head} {cursor}{tail}");
        let reply = server.ask('a', &line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        let (reply, _) = reply::decode(&reply).expect("a whole reply");
        let [next, names] = reply.list() else { panic!("{line}: {reply:?}") };
        met += names.list().len();
        cursor = next.text();
        if cursor == "0" {
            return (call, met);
        }
    }
    unreachable!("a walk ends")
}

/// Three keys take one call, as in redis-server, where many thousands were or are beside them.
#[test]
fn a_scan_of_few_keys_takes_one_call() {
    const KEYS: usize = 20_000;
    let each = |server: &mut Harness, form: &str| {
        for key in 0..KEYS {
            server.ask(
                'a',
                &form
                    .replace('#', &key.to_string())
                    .split(' ')
                    .map(str::as_bytes)
                    .collect::<Vec<_>>(),
            );
        }
    };
    for way in
        ["FLUSHALL", "FLUSHDB ASYNC", "DEL #", "UNLINK #", "EXPIRE # 1", "MOVE # 5", "SWAPDB 0 7"]
    {
        let mut server = Harness::new();
        each(&mut server, "SET # v");
        server.all(&["SELECT 3", "MSET beside:1 a beside:2 b"]);
        assert_eq!(walk(&mut server, "SCAN", ""), (1, 2), "beside many");
        server.all(&["SELECT 0"]);
        if way.contains('#') {
            each(&mut server, way)
        } else {
            server.all(&[way])
        }
        server.now += 5000;
        server.keyspace.expire_cycle(server.now, KEYS);
        server.all(&["MSET a 1 b 2 c 3"]);
        assert_eq!(walk(&mut server, "SCAN", ""), (1, 3), "{way}");
        assert_eq!(walk(&mut server, "SCAN", " MATCH a TYPE string"), (1, 1), "{way}");
    }
}

#[test]
fn a_scan_of_what_is_left_of_a_large_collection_takes_one_call() {
    for (add, remove, scan) in [
        ("HSET k # v", "HDEL k #", "HSCAN k"),
        ("SADD k #", "SREM k #", "SSCAN k"),
        ("ZADD k 1 #", "ZREM k #", "ZSCAN k"),
    ] {
        let mut server = Harness::new();
        for (form, from) in [(add, 0), (remove, 3)] {
            (from..20_000).for_each(|n| server.all(&[&form.replace('#', &n.to_string())]));
        }
        let (calls, met) = walk(&mut server, scan, "");
        assert!(calls == 1 && met == if scan == "SSCAN k" { 3 } else { 6 }, "{scan}: {calls}");
    }
}
