//! Clients that wait for lists, sorted sets and streams: the same script, step by step, beside
//! redis-server.
//!
//! A step is taken only when INFO shows that every client that should wait does, so that no reply
//! depends on timing.

use crate::support::{Client, Kind, Random, Server, redis_is_here, rounds, wait_until};
use std::time::{Duration, Instant};

/// Clients of one server, and one that asks how many wait.
struct Stage {
    server: Server,
    clients: Vec<Client>,
    observer: Client,
    /// What the server calls the clients.
    ids: Vec<i64>,
}

impl Stage {
    fn new(kind: Kind, clients: usize) -> Self {
        let server = Server::start(kind);
        let mut clients: Vec<Client> = (0..clients).map(|_| server.client()).collect();
        let observer = server.client();
        let ids = clients.iter_mut().map(|client| client.ask("CLIENT ID").int()).collect();
        Self { server, clients, observer, ids }
    }

    /// Sends a command without awaiting its reply.
    fn send(&mut self, client: usize, line: &str) {
        self.clients[client].send(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    }

    /// Sends a command that makes the client wait, as one of `count` then.
    fn wait(&mut self, client: usize, line: &str, count: i64) {
        self.send(client, line);
        self.waiting(count);
    }

    fn waiting(&mut self, count: i64) {
        let observer = &mut self.observer;
        wait_until("clients wait", || observer.info_int("blocked_clients") == count);
    }

    fn ask(&mut self, client: usize, line: &str) -> String {
        self.send(client, line);
        self.reply(client)
    }

    fn reply(&mut self, client: usize) -> String {
        self.clients[client].raw().escape_ascii().to_string()
    }
}

/// Runs a script on ours and on redis-server, whose replies must be the same.
fn both(test: &str, clients: usize, script: impl Fn(&mut Stage) -> Vec<String>) {
    let mut ours = Stage::new(Kind::subject("imprint"), clients);
    let said = script(&mut ours);
    ours.waiting(0);
    if redis_is_here(test) {
        let mut redis = Stage::new(Kind::Redis, clients);
        assert_eq!(script(&mut redis), said, "redis-server's (left) and ours");
    }
}

#[test]
fn who_came_first_is_served_first() {
    both("who_came_first_is_served_first", 4, |stage| {
        stage.wait(1, "BLPOP k x 0", 1);
        stage.wait(2, "BRPOP x k 0", 2);
        stage.wait(3, "BLMPOP 0 2 x k LEFT COUNT 2", 3);
        let mut said = vec![stage.ask(0, "RPUSH k a b c d e")];
        said.extend((1..4).map(|client| stage.reply(client)));
        said.push(stage.ask(0, "LRANGE k 0 -1"));
        // The order of the queue is that of arrival, not of the clients.
        stage.wait(3, "BLPOP y 0", 1);
        stage.wait(1, "BLPOP y 0", 2);
        said.push(stage.ask(0, "RPUSH y 1"));
        said.push(stage.reply(3));
        said.push(stage.ask(0, "RPUSH y 2"));
        said.push(stage.reply(1));
        said.push(stage.ask(0, "EXISTS y"));
        said
    });
}

#[test]
fn sorted_sets_serve_who_waits_for_them() {
    both("sorted_sets_serve_who_waits_for_them", 5, |stage| {
        stage.wait(1, "BZPOPMIN k x 0", 1);
        stage.wait(2, "BLPOP k 0", 2);
        stage.wait(3, "BZPOPMAX x k 0", 3);
        stage.wait(4, "BZMPOP 0 2 x k MAX COUNT 2", 4);
        let mut said = vec![stage.ask(0, "ZADD k 1 a 2 b 3 c 4 d 5 e")];
        said.extend([1, 3, 4].map(|client| stage.reply(client)));
        said.push(stage.ask(0, "ZRANGE k 0 -1 WITHSCORES"));
        said.push(stage.ask(0, "DEL k"));
        stage.waiting(1);
        for line in ["ZUNIONSTORE k 1 s", "GEOADD k 1 1 p", "ZRANGESTORE k s 0 0", "ZINCRBY k 1 m"]
        {
            said.push(stage.ask(0, "ZADD s 1.5 a 2 b"));
            stage.wait(1, "BZPOPMIN k 0", 2);
            said.push(stage.ask(0, line));
            said.push(stage.reply(1));
            said.push(stage.ask(0, "DEL k s"));
        }
        said.push(stage.ask(0, "RPUSH k last"));
        said.push(stage.reply(2));
        said
    });
}

#[test]
fn a_transaction_serves_at_its_end() {
    both("a_transaction_serves_at_its_end", 3, |stage| {
        stage.wait(1, "BLPOP k other 0", 1);
        let lines = ["MULTI", "RPUSH k a", "DEL k", "RPUSH k b c", "LLEN k", "LPOP k", "EXEC"];
        let mut said: Vec<String> = lines.iter().map(|line| stage.ask(0, line)).collect();
        said.push(stage.reply(1));
        // Two keys in one transaction: the one that was pushed to first counts.
        stage.wait(1, "BLPOP k other 0", 1);
        let lines = ["MULTI", "RPUSH other a", "RPUSH k b", "EXEC", "LRANGE k 0 -1"];
        said.extend(lines.iter().map(|line| stage.ask(0, line)));
        said.push(stage.reply(1));
        // Nothing is left at its end: nobody is served.
        stage.wait(1, "BLPOP k2 0", 1);
        let lines = ["MULTI", "RPUSH k2 a", "DEL k2", "EXEC"];
        said.extend(lines.iter().map(|line| stage.ask(0, line)));
        stage.waiting(1);
        said.push(stage.ask(0, "RPUSH k2 z"));
        said.push(stage.reply(1));
        said
    });
}

#[test]
fn any_way_to_get_a_list_serves_and_other_types_do_not() {
    both("any_way_to_get_a_list_serves_and_other_types_do_not", 3, |stage| {
        let mut said = Vec::new();
        said.push(stage.ask(0, "RPUSH source a b c"));
        for line in [
            "RENAME source k",
            "COPY k source",
            "SORT source ALPHA STORE k",
            "LMOVE source k LEFT LEFT",
            "LINSERT k AFTER b x",
        ] {
            said.push(stage.ask(0, "DEL k"));
            stage.wait(1, "BLPOP k 0", 1);
            for other in ["SET k text", "LPUSH k x", "SADD elsewhere x", "DEL k", "HSET k f v"] {
                said.push(stage.ask(0, other));
            }
            stage.waiting(1);
            said.push(stage.ask(0, "DEL k"));
            said.push(stage.ask(0, line));
            said.push(stage.ask(0, "RPUSH k last"));
            said.push(stage.reply(1));
            said.push(stage.ask(0, "DEL source"));
            said.push(stage.ask(0, "RPUSH source a b c"));
        }
        // From another database, too.
        said.push(stage.ask(0, "DEL k"));
        stage.wait(1, "BLPOP k 0", 1);
        for line in ["SELECT 3", "RPUSH k there", "MOVE k 0", "SELECT 0", "EXISTS k"] {
            said.push(stage.ask(0, line));
        }
        said.push(stage.reply(1));
        said
    });
}

#[test]
fn moves_go_on_from_list_to_list() {
    both("moves_go_on_from_list_to_list", 5, |stage| {
        stage.wait(1, "BLMOVE a b LEFT RIGHT 0", 1);
        stage.wait(2, "BRPOPLPUSH b c 0", 2);
        stage.wait(3, "BLMOVE c c LEFT LEFT 0", 3);
        let mut said = vec![stage.ask(0, "RPUSH a 1 2")];
        said.extend((1..4).map(|client| stage.reply(client)));
        said.extend(["a", "b", "c"].map(|key| stage.ask(0, &format!("LRANGE {key} 0 -1"))));
        // A destination of another type: the element stays, the client gets an error.
        said.push(stage.ask(0, "SET text x"));
        stage.wait(1, "BLMOVE from text LEFT RIGHT 0", 1);
        stage.wait(2, "BLPOP from 0", 2);
        said.push(stage.ask(0, "RPUSH from 1"));
        said.extend([stage.reply(1), stage.reply(2), stage.ask(0, "EXISTS from")]);
        said
    });
}

#[test]
fn requests_sent_meanwhile_are_answered_afterwards() {
    both("requests_sent_meanwhile_are_answered_afterwards", 3, |stage| {
        stage.wait(1, "BLPOP k 0", 1);
        stage.send(1, "SET after 1");
        stage.send(1, "BLPOP k 0");
        stage.send(1, "GET after");
        let mut said = vec![stage.ask(0, "EXISTS after"), stage.ask(0, "RPUSH k 1")];
        said.extend([stage.reply(1), stage.reply(1)]);
        stage.waiting(1);
        // All in one piece: the pushes of one client serve others before its next request.
        stage.wait(2, "BRPOP k 0", 2);
        let requests = b"RPUSH k a\r\nLLEN k\r\nRPUSH k b c\r\nLRANGE k 0 -1\r\nGET after\r\n";
        assert!(stage.clients[0].send_raw(requests));
        said.extend((0..5).map(|_| stage.reply(0)));
        said.extend([stage.reply(1), stage.reply(1), stage.reply(2)]);
        said
    });
}

#[test]
fn waiting_ends_by_time_by_command_and_with_the_connection() {
    both("waiting_ends_by_time_by_command_and_with_the_connection", 3, |stage| {
        let mut said = Vec::new();
        for hello in ["HELLO 2", "HELLO 3"] {
            stage.ask(1, hello);
            stage.ask(0, "XGROUP CREATE s g $ MKSTREAM");
            let start = Instant::now();
            for line in ["BLPOP k 0.05", "BLMOVE k l LEFT LEFT 0.05", "BLMPOP 0.05 1 k LEFT"] {
                said.push(stage.ask(1, line));
            }
            assert!(start.elapsed() >= Duration::from_millis(150), "too early");
            let id = stage.ids[1];
            for reason in ["", " TIMEOUT", " error"] {
                for line in [
                    "BLPOP k j 0",
                    "BLMOVE k l LEFT LEFT 100",
                    "BLMPOP 0 1 k LEFT",
                    "XREAD BLOCK 0 STREAMS s k $ $",
                    "XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
                ] {
                    stage.wait(1, line, 1);
                    said.push(stage.ask(0, &format!("CLIENT UNBLOCK {id}{reason}")));
                    said.push(stage.reply(1));
                }
            }
            said.push(stage.ask(0, &format!("CLIENT UNBLOCK {id}")));
        }
        // A client that left is served nothing.
        stage.wait(2, "BLPOP k 0", 1);
        stage.clients[2] = stage.server.client();
        stage.waiting(0);
        stage.wait(2, "BLPOP k 0", 1);
        let id: i64 = stage.observer.ask("CLIENT ID").int();
        stage.observer.ok(&format!("CLIENT KILL ID {} SKIPME yes", id + 1));
        stage.waiting(0);
        said.extend([stage.ask(0, "RPUSH k a"), stage.ask(0, "LRANGE k 0 -1")]);
        said
    });
}

/// A reader gets what all its streams have, in their order, as from Redis 8; a change of a stream
/// runs the request of one reader of a group.
#[test]
fn readers_are_served_all_their_streams_and_one_of_a_group_is_asked() {
    let mut stage = Stage::new(Kind::subject("imprint"), 5);
    for line in ["XGROUP CREATE s g $ MKSTREAM", "XGROUP CREATE t g $ MKSTREAM"] {
        stage.ask(0, line);
    }
    stage.wait(1, "XREAD BLOCK 0 STREAMS t s $ +", 1);
    stage.wait(2, "XREADGROUP GROUP g a BLOCK 0 STREAMS t s > >", 2);
    for (client, count) in [(3, 3), (4, 4)] {
        stage.wait(client, "XREADGROUP GROUP g b BLOCK 0 STREAMS s >", count);
    }
    for line in ["MULTI", "XADD s 1-0 a b", "XADD t 2-0 a b", "XADD s 3-0 a b", "EXEC"] {
        stage.ask(0, line);
    }
    let [plain, of_group] = [1, 2].map(|client| stage.reply(client));
    let place = |reply: &str, id: &str| reply.find(id).unwrap_or_else(|| panic!("{id}: {reply}"));
    assert!(place(&plain, "2-0") < place(&plain, "3-0") && !plain.contains("1-0"), "{plain}");
    let order = ["2-0", "1-0", "3-0"].map(|id| place(&of_group, id));
    assert!(order.is_sorted(), "{of_group}");
    stage.waiting(2);
    stage.ask(0, "XADD s 4-0 a b");
    let served = stage.reply(3);
    assert!(served.contains("4-0"), "{served}");
    stage.waiting(1);
}

/// Of entries that come at once a wait from `+` on is served the last, as by Redis 8.
#[test]
fn a_wait_for_the_last_entry_is_served_one() {
    let mut stage = Stage::new(Kind::subject("imprint"), 3);
    stage.wait(1, "XREAD BLOCK 0 STREAMS s +", 1);
    stage.wait(2, "XREAD BLOCK 0 STREAMS s 0", 2);
    for line in ["MULTI", "XADD s 1-0 a b", "XADD s 2-0 a b", "EXEC"] {
        stage.ask(0, line);
    }
    let [last, all] = [1, 2].map(|client| stage.reply(client));
    assert!(last.contains("2-0") && !last.contains("1-0"), "{last}");
    assert!(all.contains("2-0") && all.contains("1-0"), "{all}");
}

/// XREADGROUP with CLAIM: an entry grows old enough while the client waits, whatever came before.
/// While clients are paused nobody is served, and the server sleeps.
#[test]
fn a_wait_for_old_entries_ends_by_time_alone() {
    let mut stage = Stage::new(Kind::subject("imprint"), 3);
    for line in ["XGROUP CREATE s g $ MKSTREAM", "XGROUP CREATE t g $ MKSTREAM", "XADD t 1-1 f v"] {
        stage.ask(0, line);
    }
    // Nothing is pending yet when the client begins to wait.
    stage.wait(1, "XREADGROUP GROUP g one BLOCK 0 CLAIM 300 STREAMS s t > >", 0);
    assert!(stage.reply(1).contains(":0\\r\\n:0\\r\\n"), "1-1 is new");
    stage.wait(1, "XREADGROUP GROUP g two BLOCK 0 CLAIM 300 STREAMS s t > >", 1);
    let reply = stage.reply(1);
    assert!(
        reply.starts_with("*1\\r\\n*2\\r\\n$1\\r\\nt\\r\\n*1\\r\\n*4\\r\\n$3\\r\\n1-1"),
        "{reply}"
    );
    assert!(reply.ends_with(":1\\r\\n"), "it was delivered once: {reply}");
    stage.ask(0, "XACK t g 1-1");
    stage.wait(1, "XREADGROUP GROUP g one BLOCK 0 CLAIM 50 STREAMS s t > >", 1);
    stage.ask(0, "CLIENT PAUSE 100000 WRITE");
    stage.waiting(1);
    stage.ask(0, "CLIENT UNPAUSE");
    stage.ask(0, "XADD s 5-5 f v");
    assert!(stage.reply(1).contains("5-5"));
    // What another one reads meanwhile.
    stage.wait(1, "XREADGROUP GROUP g two BLOCK 0 CLAIM 200 STREAMS s >", 1);
    let reply = stage.reply(1);
    assert!(reply.contains("5-5"), "{reply}");
    // A key that goes ends the wait.
    stage.wait(1, "XREADGROUP GROUP g two BLOCK 0 CLAIM 3600000 STREAMS s >", 1);
    stage.ask(0, "DEL s");
    assert!(stage.reply(1).starts_with("-UNBLOCKED"));
    stage.wait(1, "XREADGROUP GROUP g two BLOCK 120 CLAIM 3600000 STREAMS t >", 1);
    assert_eq!(stage.reply(1), "*-1\\r\\n");
}

/// A few clients push and wait at random, one step at a time.
#[test]
fn random_scripts_serve_the_same_clients() {
    const CLIENTS: usize = 6;
    if !redis_is_here("random_scripts_serve_the_same_clients") {
        return;
    }
    let mut random = Random::new("random_scripts_serve_the_same_clients");
    let mut stages = [Kind::Redis, Kind::subject("imprint")].map(|kind| Stage::new(kind, CLIENTS));
    let mut waiting = Vec::new();
    let mut steps = Vec::new();
    for _ in 0..rounds(300, 20_000) {
        let free: Vec<usize> = (0..CLIENTS).filter(|client| !waiting.contains(client)).collect();
        let client = random.pick(&free);
        let line = step(&mut random, free.len() > 1, steps.len() + 1);
        steps.push(format!("{client}: {line}"));
        let [theirs, ours] = stages.each_mut().map(|stage| stage.step(client, &line, &waiting));
        assert_eq!(theirs, ours, "{:#?}", &steps[steps.len().saturating_sub(15)..]);
        waiting = theirs.1;
    }
}

/// A request; `id` rises from step to step.
fn step(random: &mut Random, may_wait: bool, id: usize) -> String {
    let (a, b) = (random.pick(&["a", "b", "c"]), random.pick(&["a", "b", "c"]));
    let (side, other) = (random.pick(&["LEFT", "RIGHT"]), random.pick(&["LEFT", "RIGHT"]));
    let n = random.below(100);
    // Readers of a key that is named twice get it twice, as from Redis 8.
    let c = if a == b { "d" } else { b };
    if may_wait && random.below(2) == 0 {
        return match random.below(13) {
            5..9 => format!("XREADGROUP GROUP g c BLOCK 0 STREAMS {a} >"),
            9 => format!("XREADGROUP GROUP g d NOACK BLOCK 0 STREAMS {a} {c} > >"),
            10 => format!("XREAD BLOCK 0 STREAMS {a} $"),
            11 => format!("XREAD COUNT 1 BLOCK 0 STREAMS {a} {c} $ {id}-0"),
            12 => format!("BZPOPMIN {a} {b} 0"),
            0 => format!("BLPOP {a} {b} 0"),
            1 => format!("BRPOP {a} 0"),
            2 => format!("BLMOVE {a} {b} {side} {other} 0"),
            3 => format!("BRPOPLPUSH {a} {b} 0"),
            _ => format!("BLMPOP 0 2 {a} {b} {side} COUNT 2"),
        };
    }
    // Scripts that make a key and take it away, or make another of it.
    let gone = "redis.call('XADD',KEYS[1],ARGV[1],'f','v')redis.call('DEL',KEYS[1])";
    let other = "redis.call('DEL',KEYS[1])redis.call('RPUSH',KEYS[1],ARGV[1])";
    match random.below(28) {
        10..15 => format!("XADD {a} {id}-1 f {n}"),
        15..18 => format!("XGROUP CREATE {a} g $ MKSTREAM"),
        18 => format!("XGROUP DESTROY {a} g"),
        19 => format!("XGROUP DELCONSUMER {a} g c"),
        20 => format!("XINFO GROUPS {a}"),
        21 => format!("ZADD {a} {n} m"),
        22 => format!("EXPIRE {a} -1"),
        23 => "SWAPDB 0 1".to_owned(),
        24 => format!("MOVE {a} 1"),
        25 => format!("COPY {a} {b} REPLACE"),
        26 => format!("EVAL {} 1 {a} {id}-1", random.pick(&[gone, other])),
        27 => random.pick(&["FLUSHALL", "FLUSHDB", "XLEN a", "ZPOPMIN a"]).to_owned(),
        0..4 => format!("RPUSH {a} {n}"),
        4 => format!("LPUSH {a} {n} {n} {n}"),
        5 => format!("LMOVE {a} {b} {side} {other}"),
        6 => format!("RENAME {a} {b}"),
        7 => format!("DEL {a} {b}"),
        8 => format!("LPOP {a} 2"),
        _ => format!("SET {a} {n}"),
    }
}

impl Stage {
    /// One command: all replies that follow, by client, and which clients then wait.
    fn step(
        &mut self,
        client: usize,
        line: &str,
        waiting: &[usize],
    ) -> (Vec<(usize, String)>, Vec<usize>) {
        self.ask(client, "PING");
        self.send(client, line);
        let mut now = Vec::new();
        wait_until("the command was run", || {
            let list = self.observer.ask("CLIENT LIST").text();
            let id = |client: usize| format!("id={} ", self.ids[client]);
            let line = |client| list.lines().find(|line| line.starts_with(&id(client)));
            let lines: Vec<&str> = (0..self.clients.len()).filter_map(line).collect();
            now = (0..lines.len()).filter(|&at| lines[at].contains(" flags=b ")).collect();
            !lines[client].contains(" cmd=ping ")
        });
        let mut served: Vec<usize> = waiting.to_vec();
        served.push(client);
        served.retain(|client| !now.contains(client));
        (served.into_iter().map(|client| (client, self.reply(client))).collect(), now)
    }
}

#[test]
fn what_was_served_is_in_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = crate::journal::server("always", folder.path()).start();
    let mut clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
    let mut observer = server.client();
    for (client, line) in ["BLPOP k 0", "BLMOVE k l LEFT RIGHT 0", "BLMPOP 0 1 k LEFT COUNT 2"]
        .into_iter()
        .enumerate()
    {
        clients[client].send(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        wait_until("it waits", || observer.info_int("blocked_clients") == client as i64 + 1);
    }
    observer.ok("RPUSH k a b c d e");
    observer.ok("SADD s 1 2 3 4 5 6 7 8");
    observer.ok("SPOP s 3");
    observer.ok("HINCRBYFLOAT h f 0.1");
    clients.iter_mut().for_each(|client| drop(client.reply()));
    let lines = ["LRANGE k 0 -1", "LRANGE l 0 -1", "SMEMBERS s", "HGETALL h", "DEBUG DIGEST"];
    let before = lines.map(|line| observer.ask(line));
    assert_eq!(before[0].list().len(), 1, "{before:?}");
    server.kill();
    let server = crate::journal::server("always", folder.path()).start();
    let mut client = server.client();
    let after = lines.map(|line| client.ask(line));
    assert_eq!(before[4], after[4], "{before:?} {after:?}");
}
