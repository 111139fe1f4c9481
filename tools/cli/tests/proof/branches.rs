//! Branches of the data set: STILLFRAME BRANCH gives copies that go their own way, beside all that
//! happens to the data meanwhile.

use crate::collections::redis;
use crate::mixed::{batch, run, run_batch, same_digests};
use crate::replayed::{Contents, contents};
use crate::support::beside::{SLACK_MS, Words};
use crate::support::{
    Client, Kind, Random, Reply, Server, Setup, redis_is_here, rounds, wait_until,
};
use stillframe_peers::requests::{ALL, filled};

fn open(client: &mut Client) -> i64 {
    client.ask("STILLFRAME BRANCH OPEN").int()
}

/// A connection that uses a branch.
fn using(server: &Server, id: i64) -> Client {
    let mut client = server.client();
    client.ok(&format!("STILLFRAME BRANCH USE {id}"));
    client
}

/// A branch, and a redis-server with the data of its beginning.
struct Twins {
    id: i64,
    pair: [Client; 2],
    history: Vec<Words>,
    _theirs: Server,
}

impl Twins {
    /// `source` is a redis-server with the same data.
    fn new(ours: &Server, admin: &mut Client, source: &Server) -> Self {
        let id = open(admin);
        let theirs = redis(None, "");
        let mut copy = theirs.client();
        copy.ok(&format!("REPLICAOF 127.0.0.1 {}", source.port));
        wait_until("it has the data", || copy.info("master_link_status") == "up");
        copy.ok("REPLICAOF NO ONE");
        Self { id, pair: [copy, using(ours, id)], history: Vec::new(), _theirs: theirs }
    }

    /// Requests of all kinds get the same replies.
    fn go_on(&mut self, random: &mut Random) {
        for _ in 0..1 + random.below(3) {
            match random.below(8) {
                0 => self.both(&filled("FLUSHDB|FLUSHALL ?ASYNC", random)),
                1 => self.both(&filled("SWAPDB 0 1", random)),
                2 => self.both(&filled("SELECT 0|1", random)),
                3 => self.both(&filled("COPY $k $k DB 0|1 ?REPLACE", random)),
                4 => self.both(&filled("MOVE $k 0|1", random)),
                _ => {
                    // What would wait is answered as in a transaction.
                    let waits = |name: &[u8]| {
                        [&b"BL"[..], b"BR", b"BZ"].iter().any(|head| name.starts_with(head))
                    };
                    let mut requests = batch(&ALL, random);
                    requests.retain(|words| !waits(&words[0].to_ascii_uppercase()));
                    run(&mut self.pair, requests, &mut self.history);
                }
            }
        }
    }

    fn both(&mut self, words: &Words) {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let [theirs, ours] = self.pair.each_mut().map(|client| client.call(&words));
        assert_eq!(theirs, ours);
    }

    /// All that requests show is the same.
    fn check(&mut self) {
        let [theirs, ours] = self.pair.each_mut().map(contents);
        assert_same(&theirs, &ours);
        for db in 0..2 {
            self.pair.iter_mut().for_each(|client| client.ok(&format!("SELECT {db}")));
            let [theirs, ours] = self.pair.each_mut().map(scanned);
            assert_eq!(theirs, ours);
        }
        self.pair.iter_mut().for_each(|client| client.ok("SELECT 0"));
    }
}

/// The same, but for times that are counted from when a request came.
fn assert_same(theirs: &Contents, ours: &Contents) {
    let parts = |value: &str| {
        let (at, rest) = value.split_once(' ').expect("a time and a value");
        (at.parse::<i64>().expect("a time"), rest.to_owned())
    };
    let is_same = |theirs: &str, ours: &str| {
        let [(at, value), (later, other)] = [theirs, ours].map(parts);
        value == other && at.abs_diff(later) <= SLACK_MS as u64
    };
    for (key, value) in theirs {
        let found = ours.get(key);
        assert!(found.is_some_and(|it| is_same(value, it)), "{key:?}: {value}, here {found:?}");
    }
    assert_eq!(theirs.len(), ours.len(), "keys of the branch");
}

/// The keys that a walk in small steps meets.
fn scanned(client: &mut Client) -> Vec<String> {
    let (mut keys, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let reply = client.ask(&format!("SCAN {cursor} COUNT 3"));
        let [next, found] = reply.list() else { panic!("{reply:?}") };
        keys.extend(found.list().iter().map(Reply::text));
        cursor = next.text();
        if cursor == "0" {
            keys.sort();
            return keys;
        }
    }
}

/// Several branches, each beside a redis-server of its own, and the data that they branched off
/// beside one that knows of no branch; with a log, a replica, saves and views.
#[test]
fn branches_reply_as_servers_of_their_own() {
    let test = "branches_reply_as_servers_of_their_own";
    if !redis_is_here(test) {
        return;
    }
    let mut random = Random::new(test);
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["--appendonly", "yes", "--enable-debug-command", "yes"];
    let setup = || Setup::new(Kind::Ours("imprint")).folder(folder.path()).flags(&flags);
    let (theirs, ours) = (redis(None, ""), setup().start());
    let replica = Server::start(Kind::Ours("imprint"));
    replica.client().ok(&format!("REPLICAOF 127.0.0.1 {}", ours.port));
    let mut live = [theirs.client(), ours.client()];
    let mut admin = ours.client();
    let (mut branches, mut history): (Vec<Twins>, _) = (Vec::new(), Vec::new());
    for _ in 0..rounds(60, 1000) {
        let at = random.below(branches.len().max(1));
        match random.below(12) {
            0 if branches.len() < 3 => branches.push(Twins::new(&ours, &mut admin, &theirs)),
            1 if branches.len() == 3 => {
                let Twins { id, .. } = branches.swap_remove(at);
                admin.ok(&format!("STILLFRAME BRANCH CLOSE {id}"));
            }
            2..8 if !branches.is_empty() => branches[at].go_on(&mut random),
            8 if !branches.is_empty() => branches[at].check(),
            9 => _ = admin.ask("BGSAVE"),
            10 => _ = admin.ask("STILLFRAME VIEW OPEN"),
            _ => run_batch(&mut live, &ALL, &mut random, &mut history),
        }
    }
    branches.iter_mut().for_each(Twins::check);
    live.iter_mut().for_each(|client| client.ok("SELECT 0"));
    same_digests(&mut live, &history);
    let digest = admin.ask("DEBUG DIGEST");
    admin.call(&[b"WAIT", b"1", b"0"]);
    let mut there = replica.client();
    assert_eq!(contents(&mut there), contents(&mut live[1]), "the replica");
    drop((branches, live, ours));
    let again = setup().start();
    assert_eq!(again.client().ask("DEBUG DIGEST"), digest, "what was logged");
}

fn fill(client: &mut Client) {
    client.ok("MSET a 1 b 2 c 3");
    client.ask("RPUSH list x y z");
    client.ask("HSET hash f v");
    client.ask("SELECT 2");
    client.ok("SET elsewhere 1");
    client.ok("SELECT 0");
}

#[test]
fn a_branch_is_used_by_number_and_by_connection() {
    let server = Server::start(Kind::Ours("imprint"));
    let mut client = server.client();
    fill(&mut client);
    let id = open(&mut client);
    let mut run = |line: &str| client.ask(&format!("STILLFRAME BRANCH RUN {id} {line}"));
    assert_eq!(run("SET a 10").text(), "OK");
    assert_eq!(run("INCRBY b 5").int(), 7);
    assert_eq!(run("DEL c").int(), 1);
    assert_eq!(run("SET d new").text(), "OK");
    assert_eq!(run("DBSIZE").int(), 5);
    assert_eq!(run("EXISTS a b c d").int(), 3);
    assert!(run("LPOP a").text().starts_with("WRONGTYPE"));
    assert_eq!(run("BLPOP nothing 0"), Reply::Null);
    assert_eq!(
        run("EVAL return{redis.call('get','a'),redis.call('del','a','d')} 0").list()[0].text(),
        "10"
    );
    assert_eq!(run("GET a"), Reply::Null);
    assert_eq!(run("MEMORY USAGE list").int(), client.ask("MEMORY USAGE list").int());
    // The data is as it was.
    assert_eq!(client.ask("MGET a b c d").list().len(), 4);
    assert_eq!(client.ask("GET a").text(), "1");
    assert_eq!(client.ask("DBSIZE").int(), 5);
    let reply = client.ask(&format!("STILLFRAME BRANCH DIFF {id} 0"));
    let mut changes: Vec<String> = reply.list()[1]
        .list()
        .chunks(2)
        .map(|pair| format!("{} {}", pair[0].text(), pair[1].text()))
        .collect();
    changes.sort();
    assert_eq!(changes, ["a deleted", "b changed", "c deleted"]);
}

#[test]
fn branches_begin_as_views_and_branches_are() {
    let server = Server::start(Kind::Ours("imprint"));
    let mut client = server.client();
    fill(&mut client);
    let id = open(&mut client);
    client.ask(&format!("STILLFRAME BRANCH RUN {id} INCRBY b 5"));
    let other = client.ask(&format!("STILLFRAME BRANCH OPEN FROM {id}")).int();
    let view = client.ask("STILLFRAME VIEW OPEN").int();
    client.ok("SET a later");
    let earlier = client.ask(&format!("STILLFRAME BRANCH OPEN FROM {view}")).int();
    client.ok(&format!("STILLFRAME VIEW CLOSE {view}"));
    let mut run = |id: i64, line: &str| client.ask(&format!("STILLFRAME BRANCH RUN {id} {line}"));
    assert_eq!(run(other, "GET b").text(), "7");
    run(other, "SET b 8");
    assert_eq!((run(id, "GET b").text(), run(earlier, "GET b").text()), ("7".into(), "2".into()));
    assert_eq!(run(earlier, "GET a").text(), "1");
}

#[test]
fn a_connection_uses_a_branch() {
    let server = Server::start(Kind::Ours("imprint"));
    let mut client = server.client();
    fill(&mut client);
    let id = open(&mut client);
    client.ask(&format!("STILLFRAME BRANCH RUN {id} INCRBY b 5"));
    let other = client.ask(&format!("STILLFRAME BRANCH OPEN FROM {id}")).int();
    client.ask(&format!("STILLFRAME BRANCH RUN {other} SET b 8"));
    let mut on = using(&server, id);
    assert_eq!(on.ask("GET b").text(), "7");
    on.ok("SELECT 2");
    assert_eq!(on.ask("KEYS *").list().len(), 1);
    on.ok("SELECT 0");
    for request in ["PUBLISH c m", "DEBUG DIGEST", "MIGRATE h 1 k 0 1", "FUNCTION FLUSH"] {
        let reply = on.ask(request).text();
        assert!(reply.contains("does not run on a branch"), "{request}: {reply}");
    }
    on.ok("MULTI");
    on.ask("INCR b");
    on.ask("PING");
    on.ask(&format!("STILLFRAME BRANCH RUN {id} GET b"));
    on.ask(&format!("STILLFRAME BRANCH RUN {other} GET b"));
    on.ask("STILLFRAME BRANCH USE OFF");
    let replies = on.ask("EXEC");
    assert_eq!((replies.list()[0].int(), replies.list()[1].text()), (8, "PONG".to_owned()));
    assert!(replies.list()[2].text().starts_with("ERR A request that runs on a branch"));
    assert_eq!(replies.list()[3].text(), "8", "another branch");
    assert!(replies.list()[4].text().contains("not allowed in transactions"));
    // Watched keys: those of the same branch, and no others.
    on.ok("WATCH b");
    client.ok("SET b live");
    on.ok("MULTI");
    on.ask("GET b");
    assert_eq!(on.ask("EXEC").list()[0].text(), "8");
    on.ok("WATCH b");
    client.ask(&format!("STILLFRAME BRANCH RUN {id} SET b branched"));
    on.ok("MULTI");
    on.ask("GET b");
    assert_eq!(on.ask("EXEC"), Reply::Null);
    // A transaction that closes its own branch.
    let own = open(&mut client);
    let mut closing = using(&server, own);
    closing.ok("MULTI");
    closing.ask("SET a 2");
    closing.ask(&format!("STILLFRAME BRANCH CLOSE {own}"));
    closing.ask("GET a");
    let replies = closing.ask("EXEC");
    assert_eq!([0, 1].map(|at| replies.list()[at].text()), ["OK", "OK"]);
    assert!(replies.list()[2].text().starts_with("NOBRANCH"));
    // RESET and OFF lead back to the data.
    on.ok("STILLFRAME BRANCH USE OFF");
    assert_eq!(on.ask("GET b").text(), "live");
    on.ok(&format!("STILLFRAME BRANCH USE {id}"));
    assert_eq!(on.ask("RESET").text(), "RESET");
    assert_eq!(on.ask("GET b").text(), "live");
}

#[test]
fn wrong_requests_are_refused() {
    let server = Server::start(Kind::Ours("imprint"));
    let mut client = server.client();
    let id = open(&mut client);
    for (request, why) in [
        ("OPEN 1".to_owned(), "ERR syntax error"),
        ("OPEN FROM".to_owned(), "ERR syntax error"),
        ("OPEN FROM x".to_owned(), "ERR The number of a branch"),
        (format!("OPEN FROM {}", id ^ 1), "NOVIEW"),
        ("USE".to_owned(), "ERR syntax error"),
        ("USE x".to_owned(), "ERR The number of a branch"),
        (format!("USE {}", id ^ 1), "NOBRANCH"),
        (format!("RUN {id}"), "ERR syntax error"),
        (format!("RUN {} GET a", id ^ 1), "NOBRANCH"),
        (format!("RUN {id} GET"), "ERR wrong number of arguments"),
        (format!("RUN {id} NONE such"), "ERR unknown command"),
        (format!("RUN {id} MULTI"), "ERR A branch runs commands"),
        (format!("RUN {id} SELECT 1"), "ERR A branch runs commands"),
        (format!("RUN {id} PING"), "ERR A branch runs commands"),
        (format!("RUN {id} STILLFRAME BRANCH RUN {id} GET a"), "ERR A branch runs commands"),
        (format!("DIFF {id}"), "ERR syntax error"),
        (format!("DIFF {id} x"), "ERR invalid cursor"),
        (format!("DIFF {id} 0 TYPE string"), "ERR syntax error"),
        (format!("CLOSE {}", id ^ 1), "NOBRANCH"),
        ("LIST all".to_owned(), "ERR syntax error"),
        ("NONE".to_owned(), "ERR syntax error"),
    ] {
        let reply = client.ask(&format!("STILLFRAME BRANCH {request}")).text();
        assert!(reply.starts_with(why), "{request}: {reply}");
    }
    for cursor in ["1", "4294967295", "4294967296", "18446744073709551615"] {
        client.ask(&format!("STILLFRAME BRANCH RUN {id} SCAN {cursor}"));
        client.ask(&format!("STILLFRAME BRANCH DIFF {id} {cursor}"));
    }
    assert!(client.ask(&format!("STILLFRAME VIEW CLOSE {id}")).text().starts_with("NOVIEW"));
    client.ok(&format!("STILLFRAME BRANCH CLOSE {id}"));
    assert!(client.ask(&format!("STILLFRAME BRANCH CLOSE {id}")).text().starts_with("NOBRANCH"));
}

/// A connection whose branch has gone gets no answer from the data instead.
#[test]
fn a_branch_that_has_gone_is_missed() {
    let server = Server::start(Kind::Ours("imprint"));
    let (mut client, mut owner) = (server.client(), server.client());
    fill(&mut client);
    let id = open(&mut owner);
    let mut on = using(&server, id);
    on.ok("WATCH a");
    on.ok("MULTI");
    on.ask("SET a 2");
    let number = owner.ask("CLIENT ID").int();
    client.ask(&format!("CLIENT KILL ID {number}"));
    wait_until("it goes with its client", || client.info("branches_open") == "0");
    for request in ["EXEC", "GET a", "SET a 3", "DBSIZE", "EVAL return 1 0"] {
        let reply = on.ask(request).text();
        assert!(reply.contains("NOBRANCH"), "{request}: {reply}");
    }
    assert_eq!(on.ask("PING").text(), "PONG");
    on.ok("STILLFRAME BRANCH USE OFF");
    assert_eq!(on.ask("GET a").text(), "1");
}

#[test]
fn branches_are_bounded() {
    let server = Server::start(Kind::Ours("imprint"));
    let mut client = server.client();
    for number in 0..100 {
        client.ok(&format!("SET key:{number} {number:0>1000}"));
    }
    client.ok("CONFIG SET branches-max 2");
    let (one, two) = (open(&mut client), open(&mut client));
    assert!(client.ask("STILLFRAME BRANCH OPEN").text().starts_with("ERR As many branches"));
    let empty = client.info_int("branches_bytes");
    assert!(empty < 10_000, "{empty} bytes");
    client.ok("CONFIG SET branches-memory 1mb maxmemory 4gb");
    let mut run = |id: i64, line: &str| client.ask(&format!("STILLFRAME BRANCH RUN {id} {line}"));
    let grown = |reply: Reply| matches!(reply, Reply::Text(_));
    let written = (0..2000).take_while(|at| grown(run(one, &format!("SET new:{at} {at:0>1000}"))));
    let written = written.count();
    assert!((900..1100).contains(&written), "{written} keys of a kilobyte");
    assert!(run(two, "SET a 1").text().starts_with("OOM command not allowed when branches"));
    assert!(run(two, "EVAL return{redis.call('set','a',1)} 0").text().contains("OOM"));
    assert_eq!(run(two, "GET key:7").text().len(), 1000, "what needs no memory runs");
    assert_eq!(run(one, "DEL key:1").int(), 1);
    run(one, "FLUSHALL");
    assert_eq!(run(two, "SET a 1").text(), "OK");
    assert_eq!(client.info("evicted_keys"), "0");
    // A large value counts by what was written of it.
    for start in (0..50_000).step_by(1000) {
        let members: Vec<String> = (start..start + 1000).map(|at| format!("{at:0>30}")).collect();
        client.ask(&format!("SADD set {}", members.join(" ")));
    }
    client.ok(&format!("STILLFRAME BRANCH CLOSE {one}"));
    let id = open(&mut client);
    let before = client.info_int("branches_bytes");
    assert_eq!(client.ask(&format!("STILLFRAME BRANCH RUN {id} SCARD set")).int(), 50_000);
    assert_eq!(client.info_int("branches_bytes"), before, "what is read costs nothing");
    client.ask(&format!("STILLFRAME BRANCH RUN {id} SADD set another"));
    let held = client.info_int("branches_bytes") - before;
    assert!((1..20_000).contains(&held), "{held} bytes for one member");
    assert_eq!(client.ask("SCARD set").int(), 50_000);
    // Nobody uses them.
    client.ok("CONFIG SET views-timeout 1");
    wait_until("their time is over", || client.info("branches_open") == "0");
    assert_eq!(
        (client.info("branches_opened"), client.info("views_timed_out")),
        ("3".into(), "2".into())
    );
    assert_eq!(client.info("branches_bytes"), "0");
    wait_until("memory comes back", || client.info("views_bytes") == "0");
    // What views hold for branches is bounded, too.
    client.ok("CONFIG SET views-timeout 0 views-memory 100kb");
    open(&mut client);
    client.ask("FLUSHALL");
    for number in 0..100 {
        client.ok(&format!("SET key:{number} {number:0>2000}"));
        client.ok(&format!("SET key:{number} {number:0>3000}"));
    }
    wait_until("the oldest goes", || client.info("branches_open") == "0");
    client.ok("CONFIG SET branches-max 0");
    assert!(client.ask("STILLFRAME BRANCH OPEN").text().starts_with("ERR As many branches"));
}

#[test]
fn users_do_on_branches_what_they_may() {
    let server = Server::start(Kind::Ours("imprint"));
    let mut client = server.client();
    client.ok("MSET open:1 a secret b read:1 c");
    client.ok("ACL SETUSER ana on nopass ~open:* %R~read:* +stillframe|branch +get +set +multi +exec +eval +sort_ro");
    client.ok("ACL SETUSER bob on nopass ~* +get +set +auth");
    let mut ana = server.client();
    ana.ok("AUTH ana x");
    let id = open(&mut ana);
    ana.ok(&format!("STILLFRAME BRANCH USE {id}"));
    for (request, reply) in [
        ("GET open:1", "a"),
        ("SET open:1 b", "OK"),
        ("GET read:1", "c"),
        ("SET read:1 d", "NOPERM"),
        ("GET secret", "NOPERM"),
        ("STRLEN open:1", "NOPERM"),
        ("FLUSHALL", "NOPERM"),
        ("EVAL return{redis.call('get','secret')} 0", "ERR The user executing the script"),
        ("SORT_RO open:list BY w_*", "ERR BY option of SORT denied"),
    ] {
        for line in [request.to_owned(), format!("STILLFRAME BRANCH RUN {id} {request}")] {
            let answer = ana.ask(&line).text();
            assert!(answer.starts_with(reply), "{line}: {answer}");
        }
    }
    // Rights that are taken away meanwhile.
    ana.ok("MULTI");
    ana.ask("SET open:1 z");
    client.ok("ACL SETUSER ana -set");
    assert!(ana.ask("EXEC").list()[0].text().starts_with("NOPERM"));
    client.ok("ACL SETUSER ana +set -stillframe|branch");
    for request in ["SET open:1 y", "GET open:1", "EVAL return(1) 0"] {
        let answer = ana.ask(request).text();
        assert!(answer.starts_with("NOPERM") && answer.contains("stillframe|branch"), "{answer}");
    }
    assert_eq!(ana.ask("RESET").text(), "RESET");
    ana.ok("AUTH ana x");
    assert_eq!(ana.ask("GET open:1").text(), "a", "the data, and no branch");
    let mut bob = server.client();
    bob.ok("AUTH bob x");
    assert!(bob.ask(&format!("STILLFRAME BRANCH USE {id}")).text().starts_with("NOPERM"));
    assert!(bob.ask(&format!("STILLFRAME BRANCH RUN {id} GET a")).text().starts_with("NOPERM"));
}

/// Nobody hears of what a branch does: no log, replica, subscriber, cache, monitor or blocked
/// client; and branches live through what happens to the data.
#[test]
fn nothing_of_a_branch_gets_out() {
    let server = Setup::new(Kind::Ours("imprint"))
        .flags(&["--appendonly", "yes", "--enable-debug-command", "yes"])
        .flags(&["--notify-keyspace-events", "KEA"])
        .start();
    let mut client = server.client();
    fill(&mut client);
    let mut heard = server.client();
    heard.ask("PSUBSCRIBE *");
    let mut cached = server.client();
    cached.ask("HELLO 3");
    cached.ok("CLIENT TRACKING ON BCAST");
    let mut waiting = server.client();
    waiting.send(&[b"BLPOP", b"queue", b"0"]);
    wait_until("it waits", || client.info("blocked_clients") == "1");
    let mut monitor = server.client();
    monitor.ok("MONITOR");
    let id = open(&mut client);
    let mut on = using(&server, id);
    let before = [
        "aof_current_size",
        "master_repl_offset",
        "rdb_changes_since_last_save",
        "keyspace_hits",
        "expired_keys",
    ]
    .map(|field| client.info(field));
    on.ask("RPUSH queue here");
    on.ok("SET a 2 PX 1");
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(on.ask("GET a"), Reply::Null, "time goes on in a branch");
    on.ok("FLUSHALL");
    on.ok("MSET a x b y");
    on.ask("EVAL return{redis.call('rpush','queue','there')} 0");
    let after = [
        "aof_current_size",
        "master_repl_offset",
        "rdb_changes_since_last_save",
        "keyspace_hits",
        "expired_keys",
    ]
    .map(|field| client.info(field));
    assert_eq!(before, after);
    // The first thing that anybody hears is of the data.
    client.ask("RPUSH queue real");
    assert_eq!(waiting.reply().list()[1].text(), "real");
    assert_eq!(heard.reply().list()[3].text(), "rpush");
    assert_eq!(cached.reply().list()[1].list()[0].text(), "queue");
    let shown: Vec<String> = (0..9).map(|_| monitor.reply().text()).collect();
    assert!(
        shown
            .iter()
            .any(|line| line
                .contains(&format!("\"stillframe\" \"branch\" \"run\" \"{id}\" \"RPUSH\""))),
        "{shown:?}"
    );
    // What happens to the data.
    for request in ["DEBUG RELOAD", "SWAPDB 0 2", "FLUSHALL", "SET a live"] {
        client.ok(request);
        assert_eq!(
            on.ask("MGET a b").list().iter().map(Reply::text).collect::<Vec<_>>(),
            ["x", "y"]
        );
    }
    let kept = client.ask(&format!("STILLFRAME BRANCH RUN {id} LRANGE queue 0 -1"));
    assert_eq!(kept.list()[0].text(), "there");
}

/// At a replica that takes no writes, through a full synchronisation and a promotion.
#[test]
fn replicas_have_branches_of_their_own() {
    let (server, replica) =
        (Server::start(Kind::Ours("imprint")), Server::start(Kind::Ours("imprint")));
    let (mut client, mut there) = (server.client(), replica.client());
    fill(&mut client);
    there.ok("SET own v");
    let before = open(&mut there);
    client.ok("CONFIG SET repl-diskless-sync-delay 0");
    there.ok(&format!("REPLICAOF 127.0.0.1 {}", server.port));
    wait_until("it follows", || there.info("master_link_status") == "up");
    assert!(there.ask("SET a 2").text().starts_with("READONLY"));
    let id = open(&mut there);
    let mut on = using(&replica, id);
    on.ok("SET a 2");
    on.ask("EVAL return{redis.call('incr','a')} 0");
    client.ok("SET a live");
    client.call(&[b"WAIT", b"1", b"0"]);
    assert_eq!((on.ask("GET a").text(), there.ask("GET a").text()), ("3".into(), "live".into()));
    assert_eq!(there.ask(&format!("STILLFRAME BRANCH RUN {before} GET own")).text(), "v");
    there.ok("REPLICAOF NO ONE");
    on.ask("INCR a");
    assert_eq!(on.ask("GET a").text(), "4");
    assert_eq!(there.ask("GET a").text(), "live");
    assert_eq!(client.ask("GET a").text(), "live");
}
