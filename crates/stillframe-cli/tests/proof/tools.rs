//! `check` and `inspect` on the files of the real Redis, of every type.

use crate::support::{Kind, Server, redis_is_here, stillframe};

#[test]
fn a_dump_of_redis_with_every_type_is_sound_and_counted() {
    if !redis_is_here("a_dump_of_redis_with_every_type_is_sound_and_counted") {
        return;
    }
    let redis = Server::start(Kind::Redis);
    let mut client = redis.client();
    for command in [
        "SET text v PX 100000000",
        "RPUSH list a b 1 2",
        "SADD numbers 1 2 3",
        "SADD words x y",
        "ZADD zset 1 a 2.5 b",
        "HSET hash f v",
        "XADD stream 1-1 f v",
        "XADD stream 2-1 f v",
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group me COUNT 1 STREAMS stream >",
        "SELECT 3",
        "SET other v",
        "CONFIG SET list-max-listpack-size 1",
        "RPUSH long a b c d e f",
        "CONFIG SET hash-max-listpack-entries 0",
        "HSET big a 1 b 2",
        "CONFIG SET zset-max-listpack-entries 0",
        "ZADD bigz 1 a 2 b inf c",
    ] {
        let reply = client.ask(command);
        assert!(!matches!(reply, crate::support::Reply::Error(_)), "{command}: {reply:?}");
    }
    client.ok("SAVE");
    let dump = redis.dump().display().to_string();
    let output = stillframe(&["check", &dump]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let output = stillframe(&["inspect", &dump]);
    let text = String::from_utf8_lossy(&output.stdout);
    let zero = "hash: 1, list: 1, set: 2, sorted set: 1, stream: 1, string: 1); 1 expire";
    let three = "hash: 1, list: 1, sorted set: 1, string: 1)";
    assert!(text.contains(zero) && text.contains(three), "{text}");
    assert!(text.contains("redis-ver = 7.0"), "{text}");
}
