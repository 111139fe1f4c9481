//! MIGRATE: keys move to another server, whichever of the two is redis-server, and nothing is lost.

use crate::support::{Client, Kind, Reply, Server, Setup, redis_is_here};
use std::net::TcpListener;

fn start(kind: Kind) -> Server {
    Setup::new(kind).flags(&["--enable-debug-command", "yes"]).start()
}

/// Pairs of a source and a target.
fn pairs(test: &str) -> Vec<[Kind; 2]> {
    let ours = Kind::subject("imprint");
    let redis = redis_is_here(test);
    let mut pairs = vec![[ours, ours]];
    if redis {
        pairs.extend([[ours, Kind::Redis], [Kind::Redis, ours], [Kind::Redis, Kind::Redis]]);
    }
    pairs
}

fn fill(client: &mut Client) {
    for line in [
        "SET text v",
        "SET number 12",
        "SET passing v PX 100000000",
        "RPUSH list a b c",
        "SADD set 1 2 x",
        "HSET hash f v g w",
        "ZADD zset 1 a 2.5 b",
    ] {
        client.ask(line);
    }
}

fn values(client: &mut Client) -> Reply {
    client.ask("DEBUG DIGEST-VALUE text number passing list set hash zset")
}

#[test]
fn keys_move_whole_and_once() {
    for [from, to] in pairs("keys_move_whole_and_once") {
        let [source, target] = [start(from), start(to)];
        let (mut here, mut there) = (source.client(), target.client());
        fill(&mut here);
        let before = values(&mut here);
        let port = target.port;
        let call = |client: &mut Client, rest: &str| {
            let line = format!("MIGRATE 127.0.0.1 {port} {rest}");
            let words: Vec<&[u8]> =
                line.split(' ').map(|word| word.trim_matches('"').as_bytes()).collect();
            client.call(&words).text()
        };
        assert_eq!(call(&mut here, "text 0 5000"), "OK", "{from:?} to {to:?}");
        assert_eq!(here.ask("EXISTS text").int(), 0);
        assert_eq!(there.ask("GET text").text(), "v");
        let rest = "\"\" 0 5000 KEYS number none passing list set hash zset";
        assert_eq!(call(&mut here, rest), "OK", "{from:?} to {to:?}");
        assert_eq!(here.ask("DBSIZE").int(), 0);
        assert_eq!(values(&mut there), before, "{from:?} to {to:?}");
        assert!(there.ask("PTTL passing").int() > 90_000_000);
        assert_eq!(call(&mut here, "text 0 5000"), "NOKEY");
        // What is there already stays, on both, unless it is to be replaced.
        here.ok("SET text other");
        let refused = call(&mut here, "text 0 5000");
        assert_eq!(
            refused,
            "ERR Target instance replied with error: BUSYKEY Target key name already exists."
        );
        assert_eq!(here.ask("GET text").text(), "other");
        assert_eq!(call(&mut here, "text 0 5000 COPY REPLACE"), "OK");
        assert_eq!([here.ask("GET text").text(), there.ask("GET text").text()], ["other"; 2]);
        assert_eq!(call(&mut here, "text 3 5000"), "OK");
        there.ok("SELECT 3");
        assert_eq!(there.ask("GET text").text(), "other");
        here.ok("SET text v");
        assert!(call(&mut here, "text 99 5000").contains("DB index is out of range"));
        assert_eq!(here.ask("GET text").text(), "v", "it is nowhere else");
        assert_eq!(here.info_int("migrate_cached_sockets"), i64::from(from == Kind::Redis));
        // A connection that was kept and is closed is no reason to fail.
        assert_eq!(call(&mut here, "text 4 5000"), "OK");
        there.ask("CLIENT KILL TYPE normal");
        here.ok("SET text again");
        assert_eq!(call(&mut here, "text 5 5000"), "OK", "{from:?} to {to:?}");
    }
}

#[test]
fn what_is_wrong_is_said_as_by_redis_and_loses_nothing() {
    let servers: Vec<Server> = pairs("what_is_wrong_is_said_as_by_redis_and_loses_nothing")
        .into_iter()
        .filter(|[from, to]| from == to)
        .map(|[from, _]| start(from))
        .collect();
    let target = start(Kind::subject("imprint"));
    let port = target.port.to_string();
    target.client().ok("CONFIG SET requirepass secret");
    // It takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = silent.local_addr().expect("a port").port().to_string();
    for line in [
        "MIGRATE h 1 k 0",
        "MIGRATE h 1 k zero 1",
        "MIGRATE h 1 k 0 one",
        "MIGRATE h 1 k 0 1 NOSUCH",
        "MIGRATE h 1 k 0 1 AUTH",
        "MIGRATE h 1 k 0 1 AUTH2 u",
        "MIGRATE h 1 k 0 1 KEYS a",
        "MIGRATE h 1 nosuch 0 1",
        "MIGRATE 127.0.0.1 1 k 0 100",
        "MIGRATE 127.0.0.1 PORT k 0 5000",
        "MIGRATE 127.0.0.1 PORT k 0 5000 AUTH wrong",
        "MIGRATE 127.0.0.1 PORT k 0 5000 AUTH2 nosuch secret",
        "MIGRATE 127.0.0.1 NOBODY k 0 50",
    ] {
        let line = line.replace("PORT", &port).replace("NOBODY", &nobody);
        let replies: Vec<String> = servers
            .iter()
            .map(|server| {
                let mut client = server.client();
                client.ok("SET k v");
                let reply = client.ask(&line).text();
                assert_eq!(client.ask("GET k").text(), "v", "{line}");
                reply
            })
            .collect();
        assert!(replies.iter().all(|reply| *reply == replies[0]), "{line}: {replies:#?}");
    }
    let mut client = servers[0].client();
    let moved = client.ask(&format!("MIGRATE 127.0.0.1 {port} k 0 5000 AUTH2 default secret"));
    assert_eq!(moved.text(), "OK");
}
