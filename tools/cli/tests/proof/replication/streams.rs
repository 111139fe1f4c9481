//! What a primary sends its replicas, beside what redis-server sends them.

use super::Who;
use crate::support::{Client, Kind, Setup, redis_is_here, wait_until};

/// Requests, after which the stream of either server holds the same; each with its own keys.
const LINES: [&str; 31] = [
    "FLUSHALL",
    "FLUSHDB",
    "SELECT 3",
    "FLUSHALL ASYNC",
    "FLUSHDB SYNC",
    "SET s v",
    "GETDEL s",
    "GETDEL s",
    "SET s v PXAT 4000000000000",
    "GETEX s PERSIST",
    "GETEX s PXAT 4000000000001",
    "EXPIREAT s 4000000000",
    "PERSIST s",
    "EXPIRE s -1",
    "SET n 1",
    "INCRBYFLOAT n 0.5",
    "SETNX n 5",
    "APPEND n 0",
    "RPUSH l a b c d",
    "LMPOP 1 l LEFT COUNT 2",
    "LMOVE l l LEFT RIGHT",
    "RPOP l",
    "DEL l none",
    "DEL none",
    "SADD one x",
    "SPOP one",
    "HSET h f 1",
    "HINCRBYFLOAT h f 0.5",
    "SWAPDB 3 4",
    "FLUSHALL",
    "SWAPDB 2 2",
];

/// Becomes a replica of the server at `port`, whose data set is empty.
pub(super) fn listen(port: u16) -> Client {
    let mut replica = Client::try_connect(port).expect("the server takes a connection");
    replica.ok("REPLCONF capa eof capa psync2");
    replica.send(&[b"PSYNC", b"?", b"-1"]);
    let mut image: Vec<u8> = Vec::new();
    let mark = |image: &[u8]| {
        let at = image.windows(5).position(|part| part == b"$EOF:")? + 5;
        let mark = image.get(at..at + 40)?;
        (image.len() > at + 80 && image.ends_with(mark)).then_some(())
    };
    while mark(&image).is_none() {
        image.extend(replica.receive_raw().expect("an image"));
    }
    // A word that comes before the server knows that its image is through is not heard.
    let mut client = Client::try_connect(port).expect("the server takes a connection");
    wait_until("the replica is online", || client.has_replicas_online());
    replica.send(&[b"REPLCONF", b"ACK", b"0"]);
    replica
}

/// The next request of the stream; names of commands in capitals.
pub(super) fn next(replica: &mut Client) -> Vec<String> {
    loop {
        let reply = replica.reply();
        let mut words: Vec<String> = reply.list().iter().map(|word| word.text()).collect();
        words[0].make_ascii_uppercase();
        if !["PING", "REPLCONF"].contains(&&*words[0]) {
            return words;
        }
    }
}

/// What SCAN and RANDOMKEY find expired has nothing in common: each key is a change of its own.
#[test]
fn keys_that_a_walk_finds_expired_are_propagated_one_by_one() {
    if !redis_is_here("keys_that_a_walk_finds_expired_are_propagated_one_by_one") {
        return;
    }
    let flags = ["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"];
    let sent = [Kind::Redis, Kind::Ours("imprint")].map(|kind| {
        let server = Setup::new(kind).flags(&flags).start();
        let mut client = server.client();
        client.ok("DEBUG SET-ACTIVE-EXPIRE 0");
        ["SCAN 0 COUNT 100", "RANDOMKEY", "MGET key1 key2"].map(|walk| {
            let mut replica = listen(server.port);
            client.ok("SET key1 v PX 1");
            client.ok("SET key2 v PX 1");
            std::thread::sleep(std::time::Duration::from_millis(3));
            client.ask(walk);
            client.ok("SET mark v");
            let sent = std::iter::from_fn(|| Some(next(&mut replica)));
            let sent = sent.skip_while(|words| words.get(1).is_none_or(|it| it != "key2")).skip(1);
            // Which comes first is up to the order of keys in memory.
            let shown = sent.map(|words| words.join(" ").replace(['1', '2'], ""));
            let shown: Vec<_> = shown.take_while(|words| !words.contains("mark")).collect();
            client.ok("DEL mark");
            (walk, shown)
        })
    });
    assert_eq!(sent[0], sent[1], "redis-server and here");
}

#[test]
fn the_stream_tells_what_redis_tells() {
    if !redis_is_here("the_stream_tells_what_redis_tells") {
        return;
    }
    let sent = [Who::Redis, Who::Ours].map(|who| {
        let server = who.start("");
        let mut replica = listen(server.port);
        let mut client = server.client();
        // So that the stream has said which database it is in.
        client.ok("SET first v");
        while next(&mut replica)[0] != "SET" {}
        LINES.map(|line| {
            client.ask(line);
            client.ok("SET mark v");
            let sent = std::iter::from_fn(|| Some(next(&mut replica)));
            let sent: Vec<_> =
                sent.take_while(|words| words.get(1).is_none_or(|it| it != "mark")).collect();
            (line, sent)
        })
    });
    let [theirs, ours] = sent;
    let pairs = theirs.into_iter().zip(ours);
    let different: Vec<_> = pairs.filter(|(theirs, ours)| theirs != ours).collect();
    assert!(different.is_empty(), "redis-server and here: {different:#?}");
}
