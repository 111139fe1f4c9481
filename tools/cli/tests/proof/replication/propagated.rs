//! Replicas receive what redis-server sends its own, request by request.

use super::{Who, wait_for_all, wait_for_link};
use crate::support::{Client, Kind, Random, Reply, Server, Setup, decode, redis_is_here, rounds};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use stillframe_rdb::Crc64;

/// Requests whose effects do not depend on chance.
const REQUESTS: &[&str] = &[
    "SELECT 4",
    "PUBLISH channel first",
    "SELECT 9",
    "SET k v",
    "SELECT 5",
    "PUBLISH channel second",
    "PUBLISH channel third",
    "SELECT 9",
    "SET k v",
    "MULTI",
    "SET foo{t} bar",
    "SET foo2{t} bar2",
    "EXEC",
    "SELECT 3",
    "MULTI",
    "SET a 1",
    "SELECT 9",
    "SET b 2",
    "EXEC",
    "MULTI",
    "SET single 1",
    "EXEC",
    "MULTI",
    "GET b",
    "EXEC",
    "MULTI",
    "EXEC",
    "MULTI",
    "DEL nothing",
    "SET last 1",
    "DEL nothing",
    "EXEC",
    "EVAL redis.call('SET','sa','1')redis.call('SET','sb','2') 0",
    "EVAL redis.call('SET','single','2') 0",
    "EVAL redis.call('GET','single') 0",
    "EVAL redis.call('SET','sa','3')redis.call('INCR','si') 0",
    "MULTI",
    "SET sa 4",
    "EVAL redis.call('SET','sa','5')redis.call('SET','sb','5') 0",
    "EXEC",
    "EVAL redis.set_repl(redis.REPL_AOF)redis.call('SET','logged','1')redis.call('INCR','si') 0",
    "EVAL redis.set_repl(redis.REPL_REPLICA)redis.call('SET','sent','1')redis.call('INCR','si') 0",
    "EVAL redis.set_repl(redis.REPL_NONE)redis.call('SET','kept','1') 0",
    "EVAL redis.call('INCR','si')redis.set_repl(redis.REPL_NONE)redis.call('SADD','ks','1')\
     redis.set_repl(redis.REPL_ALL)redis.call('INCR','si') 0",
    "SELECT 4",
    "EVAL redis.set_repl(redis.REPL_AOF)redis.call('SET','logged','4') 0",
    "SET si 1",
    "SELECT 9",
    "EVAL redis.set_repl(redis.REPL_SLAVE)redis.call('SPOP','ks') 0",
    "SET timed v PXAT 99999999999999",
    "GETEX timed EXAT 99999999999",
    "GETEX timed PERSIST",
    "EXPIREAT timed 99999999999",
    "EXPIRE timed 100",
    "SET timed v EX 100",
    "SETEX timed 100 v",
    "GETEX timed PX 100000",
    "PERSIST timed",
    "EXPIREAT timed 1",
    "INCRBYFLOAT f 1.5",
    "HINCRBYFLOAT h f 1.5",
    "SADD s one",
    "SPOP s",
    "RPUSH l 3 1 2",
    "SORT l STORE sorted",
    "LMOVE l l2 LEFT RIGHT",
    "RPOPLPUSH l l2",
    "BLPOP l 0",
    "RPUSH l 1 2 3 4 5 6 7 8 9",
    "BRPOP l 0",
    "LMPOP 1 l LEFT",
    "LMPOP 2 none l RIGHT COUNT 2",
    "BLMPOP 0 1 l LEFT COUNT 100",
    "BRPOPLPUSH l2 l3 0",
    "BLMOVE l2 l3 RIGHT LEFT 0",
    "RPUSH l3 9",
    "LMOVE l3 l4 RIGHT LEFT",
    "LPOP l3 2",
    "COPY f g",
    "RENAME g h2",
    "MOVE h2 3",
    "SETNX k other",
    "SET k w XX GET",
    "SET k w GET XX KEEPTTL",
    "SET k w GET EX 100",
    "SET none w XX GET",
    "APPEND k x",
    "ZADD z 1 a 2 b",
    "ZPOPMIN z",
    "ZADD z 1 a 2 b 3 c 4 d 5 e 6 f 7 g",
    "ZPOPMAX z 1",
    "BZPOPMIN z 0",
    "BZPOPMAX none z 0",
    "ZMPOP 1 z MIN",
    "BZMPOP 0 1 z MAX COUNT 2",
    "ZADD z INCR 1 b",
    "PFADD hll a b c",
];

/// Everything that is sent from the image on, up to the end.
fn propagated(server: &Server) -> Vec<Vec<Vec<u8>>> {
    let mut client = server.client();
    client.ok("CONFIG SET repl-ping-replica-period 3600");
    let mut replica = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
    replica.write_all(b"SYNC\r\n").expect("a request is sent");
    let mut byte = || {
        let mut byte = [0];
        replica.read_exact(&mut byte).expect("the server speaks");
        byte[0]
    };
    let mut line = Vec::new();
    while !line.starts_with(b"$") || !line.ends_with(b"\r\n") {
        line.push(byte());
        if line == b"\n" {
            line.clear(); // the server is at it
        }
    }
    let length = std::str::from_utf8(&line[1..line.len() - 2]).expect("a number");
    for _ in 0..length.parse::<usize>().expect("a length") {
        byte();
    }
    run(&mut client);
    let mut requests: Vec<Vec<Vec<u8>>> = Vec::new();
    let mut bytes = Vec::new();
    while requests.last().is_none_or(|last| last[0] != b"SET" || last[1] != b"end") {
        bytes.push(byte());
        if let Some((request, length)) = decode(&bytes) {
            let words = request.list().iter().map(|word| word.bytes().unwrap_or(b"").to_vec());
            let mut words: Vec<Vec<u8>> = words.map(timeless).collect();
            words[0].make_ascii_uppercase();
            // Pings, and when a replica must answer, are each server's own business.
            if words[0] != b"REPLCONF" && words[0] != b"PING" {
                requests.push(words);
            }
            bytes.drain(..length);
        }
    }
    requests
}

/// A time of this age, in milliseconds, is seen as one.
fn timeless(word: Vec<u8>) -> Vec<u8> {
    let is_time = word.len() == 13 && word.iter().all(u8::is_ascii_digit);
    if is_time { b"TIME".to_vec() } else { word }
}

fn run(client: &mut Client) {
    for request in REQUESTS {
        client.ok(request);
    }
    client.ok("SET dumped value");
    let value = b"\x00\x03bar\x0a\x00";
    let mut checksum = Crc64::new();
    checksum.update(value);
    let payload = [&value[..], &checksum.value().to_le_bytes()].concat();
    let restores: [&[&[u8]]; 5] = [
        &[b"r", b"0"],
        &[b"r1", b"100000"],
        &[b"r", b"99999999999999", b"ABSTTL", b"REPLACE"],
        &[b"r2", b"99999999999999", b"absttl"],
        &[b"r", b"99999999999999", b"REPLACE", b"ABSTTL", b"IDLETIME", b"7"],
    ];
    for words in restores {
        let (place, options) = words.split_at(2);
        let request = [&[&b"RESTORE"[..]], place, &[&payload[..]], options].concat();
        assert_eq!(client.call(&request), Reply::Text(b"OK".to_vec()));
    }
    client.ok("SET end 1");
}

#[test]
fn replicas_receive_what_redis_sends_its_own() {
    if !redis_is_here("replicas_receive_what_redis_sends_its_own") {
        return;
    }
    let [ours, theirs] =
        [Kind::Ours("imprint"), Kind::Redis].map(|kind| shown(&propagated(&Server::start(kind))));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), theirs.len());
}

fn shown(requests: &[Vec<Vec<u8>>]) -> Vec<String> {
    let words = |request: &Vec<Vec<u8>>| {
        let words = request.iter().map(|word| word.escape_ascii().to_string());
        words.collect::<Vec<_>>().join(" ")
    };
    requests.iter().map(words).collect()
}

/// Values of keys by database and name, as memory, the log or replicas have them.
type Values = BTreeMap<(usize, String), String>;

fn holds(client: &mut Client, expected: &Values, who: &str) {
    for db in 0..2 {
        client.ok(&format!("SELECT {db}"));
        for key in 0..6 {
            let key = format!("k{key}");
            let found = client.call(&[b"GET", key.as_bytes()]);
            let value = expected.get(&(db, key.clone()));
            let value = value.map_or(Reply::Null, |it| Reply::Text(it.clone().into_bytes()));
            assert_eq!(found, value, "{who}: {db}:{key}");
        }
    }
    client.ok("SELECT 0");
}

#[test]
fn log_and_replicas_have_what_scripts_meant_for_them() {
    let mut random = Random::new("audiences");
    let flags = ["--appendonly", "yes", "--appendfsync", "always"];
    for replica in [Some(Who::Ours), redis_is_here("audiences").then_some(Who::Redis)] {
        let Some(replica) = replica else { continue };
        let folder = tempfile::tempdir().expect("a folder");
        let start =
            || Setup::new(Kind::Ours("imprint")).folder(folder.path()).flags(&flags).start();
        let mut primary = start();
        let mut client = primary.client();
        let follower = replica.follow(primary.port);
        wait_for_link(&follower);
        let [mut memory, mut logged, mut sent] = [const { Values::new() }; 3];
        for round in 0..rounds(200, 5_000) {
            let (mut script, mut transaction) = (String::new(), random.below(4) == 0);
            for part in 0..1 + random.below(4) {
                let to = random.pick(&["ALL", "AOF", "REPLICA", "SLAVE", "NONE"]);
                let (db, key) = (random.below(2), format!("k{}", random.below(6)));
                let value = format!("{round}.{part}");
                script += &format!(
                    "redis.set_repl(redis.REPL_{to})redis.call('SELECT',{db})\
                     redis.call('SET','{key}','{value}')"
                );
                let place = (db, key);
                if matches!(to, "ALL" | "AOF") {
                    logged.insert(place.clone(), value.clone());
                }
                if matches!(to, "ALL" | "REPLICA" | "SLAVE") {
                    sent.insert(place.clone(), value.clone());
                }
                memory.insert(place, value);
            }
            if random.below(3) == 0 {
                script += "error('behind its writes')"; // everybody gets effects again all the same
            }
            if transaction {
                client.ok("MULTI");
            }
            client.call(&[b"EVAL", script.as_bytes(), b"0"]);
            if transaction || random.below(2) == 0 {
                let (key, value) = (format!("k{}", random.below(6)), format!("{round}.end"));
                client.call(&[b"SET", key.as_bytes(), value.as_bytes()]);
                for values in [&mut memory, &mut logged, &mut sent] {
                    values.insert((0, key.clone()), value.clone());
                }
            }
            if std::mem::take(&mut transaction) {
                client.ask("EXEC");
            }
        }
        // The stream and its offsets are those of replicas, whatever the log has.
        assert_eq!(client.ask("WAIT 1 10000"), Reply::Int(1));
        wait_for_all(&primary, &follower);
        holds(&mut client, &memory, "memory");
        holds(&mut follower.client(), &sent, "replica");
        primary.kill();
        primary = start();
        holds(&mut primary.client(), &logged, "log");
    }
}
