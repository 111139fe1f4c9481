//! No memory for more keys: what cannot be stored leaves everything as it is.

use crate::harness::Harness;

/// A result takes the place of what is there, or leaves it there.
#[test]
fn a_destination_stays_when_there_is_no_memory_for_the_result() {
    let mut harness = Harness::with_room_for(1 << 10);
    for line in ["SADD s 1 2", "ZADD z 1 a", "RPUSH l 2 1", "GEOADD g 1 2 p", "SET kept text"] {
        harness.all(&[line]);
    }
    let full =
        (0..100_000).find(|number| harness.run(&format!("SET k:{number} v")).starts_with("-OOM"));
    assert!(full.is_some(), "there is room for everything");
    for line in [
        "SUNIONSTORE kept s",
        "SORT l STORE kept",
        "ZUNIONSTORE kept 1 z",
        "ZRANGESTORE kept z 0 -1",
        "GEOSEARCHSTORE kept g FROMLONLAT 1 2 BYRADIUS 1 km",
        "SUNIONSTORE new s",
    ] {
        assert!(harness.run(line).starts_with("-OOM "), "{line}");
        assert_eq!(harness.run("GET kept"), "$4 text", "{line}");
        assert_eq!(harness.run("EXISTS new"), ":0");
    }
    assert!(!harness.run("DEL k:1").starts_with('-'));
    assert_eq!(harness.run("SUNIONSTORE kept s"), ":2");
    assert_eq!(harness.run("TYPE kept"), "+set");
}

/// Every command that may take memory refuses, and does nothing, or finds room.
#[test]
fn what_is_refused_for_want_of_memory_changes_nothing() {
    let mut harness = Harness::with_room_for(1 << 10).notes_effects().notifies("KEA");
    let sources = ["SADD s 1 2", "ZADD z 1 a", "RPUSH l 2 1", "HSET h f v", "SET t text"];
    harness.all(&sources);
    harness.all(&["GEOADD g 1 2 p", "PFADD p a"]);
    while !harness.run(&format!("SET k:{} v", harness.keyspace.len(0))).starts_with("-OOM") {}
    let before = harness.contents();
    harness.effects();
    harness.events();
    let dirty = harness.ledger.dirty;
    for line in [
        "SET new v",
        "SET new v PX 100",
        "SETEX new 10 v",
        "SETNX new v",
        "GETSET new v",
        "MSETNX new v",
        "APPEND new v",
        "SETRANGE new 0 v",
        "INCR new",
        "INCRBYFLOAT new 1",
        "SETBIT new 1 1",
        "BITFIELD new SET u8 0 1",
        "BITOP NOT new t",
        "PFADD new a",
        "PFMERGE new p",
        "LPUSH new a",
        "RPUSH new a",
        "LMOVE l new LEFT LEFT",
        "RPOPLPUSH l new",
        "BLMOVE l new LEFT LEFT 0",
        "SORT l STORE new",
        "HSET new f v",
        "HMSET new f v",
        "HSETNX new f v",
        "HINCRBY new f 1",
        "HINCRBYFLOAT new f 1",
        "SADD new a",
        "SMOVE s new 1",
        "SUNIONSTORE new s",
        "SINTERSTORE new s",
        "SDIFFSTORE new s",
        "ZADD new 1 a",
        "ZINCRBY new 1 a",
        "ZUNIONSTORE new 1 z",
        "ZINTERSTORE new 1 z",
        "ZDIFFSTORE new 1 z",
        "ZRANGESTORE new z 0 -1",
        "GEOADD new 1 2 p",
        "GEOSEARCHSTORE new g FROMLONLAT 1 2 BYRADIUS 1 km",
        "COPY t new",
    ] {
        let reply = harness.run(line);
        assert!(reply.starts_with("-OOM "), "{line}: {reply}");
        assert_eq!(harness.contents(), before, "{line}");
        assert_eq!(harness.effects(), Vec::<String>::new(), "{line}");
        assert_eq!(harness.events(), Vec::<String>::new(), "{line}");
    }
    assert_eq!(harness.ledger.dirty, dirty);
}
