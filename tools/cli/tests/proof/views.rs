//! Views of the data set: STILLFRAME VIEW shows the instant of its opening, whatever happens
//! meanwhile.

use crate::replayed::{Contents, contents, contents_by};
use crate::support::{Client, Kind, Random, Reply, Server, Setup, rounds, wait_until};
use stillframe_peers::requests::{command, filled, script};

fn open(client: &mut Client) -> i64 {
    client.ask("STILLFRAME VIEW OPEN").int()
}

/// All keys of the selected database that a walk over a view meets, in the order met.
fn walk(client: &mut Client, id: i64, options: &str) -> Vec<String> {
    let (mut keys, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let reply = client.ask(&format!("STILLFRAME VIEW SCAN {id} {cursor} {options}"));
        let [next, found] = reply.list() else { panic!("{reply:?}") };
        keys.extend(found.list().iter().map(Reply::text));
        cursor = next.text();
        if cursor == "0" {
            return keys;
        }
    }
}

/// All of a view.
fn seen(client: &mut Client, id: i64) -> Contents {
    let id = id.to_string();
    contents_by(client, |client, words| match words {
        [b"KEYS", _] => {
            let mut keys = Vec::new();
            let mut cursor = b"0".to_vec();
            loop {
                let words: [&[u8]; 7] =
                    [b"STILLFRAME", b"VIEW", b"SCAN", id.as_bytes(), &cursor, b"COUNT", b"3"];
                let reply = client.call(&words);
                let [next, found] = reply.list() else { panic!("{reply:?}") };
                keys.extend_from_slice(found.list());
                cursor = next.bytes().expect("a cursor").to_vec();
                if cursor == b"0" {
                    return Reply::List(keys);
                }
            }
        }
        _ => client.call(&[&[&b"STILLFRAME"[..], b"VIEW", b"RUN", id.as_bytes()], words].concat()),
    })
}

/// A change of any kind: of keys of all types, in transactions and scripts, of whole databases.
fn change(client: &mut Client, random: &mut Random) {
    let words = match random.below(60) {
        0 => filled("SWAPDB 0|1 1|2", random),
        1 => filled("FLUSHDB ?ASYNC", random),
        2 => filled("SELECT 0|1", random),
        3 => script(&[command(random), command(random)]),
        4 => filled("BGSAVE", random),
        5 => filled("MULTI", random),
        6 => filled("EXEC", random),
        7 => filled("FLUSHALL", random),
        _ => command(random),
    };
    client.call(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
}

/// Views are opened and closed at random between changes; each always shows its instant.
fn views_show_their_instant(algorithm: &'static str, rounds: usize, random: &mut Random) {
    let server = Setup::new(Kind::Ours(algorithm)).flags(&["--appendonly", "yes"]).start();
    let (mut writer, mut reader) = (server.client(), server.client());
    let mut views: Vec<(i64, Contents)> = Vec::new();
    for round in 0..rounds {
        if random.below(3) == 0 && views.len() < 6 {
            let id = open(&mut reader);
            views.push((id, contents(&mut reader)));
        }
        for _ in 0..1 + random.below(80) {
            change(&mut writer, random);
        }
        writer.call(&[b"DISCARD"]);
        if !views.is_empty() {
            let at = random.below(views.len());
            let (id, then) = &views[at];
            let now = seen(&mut reader, *id);
            for (key, value) in then.iter().filter(|(key, value)| now.get(*key) != Some(*value)) {
                println!("{key:?}: {value}, in the view {:?}", now.get(key));
            }
            assert!(now == *then, "round {round}: {} keys, {} seen", then.len(), now.len());
            if random.below(3) == 0 {
                reader.ok(&format!("STILLFRAME VIEW CLOSE {}", views.remove(at).0));
            }
        }
    }
    for (id, _) in views {
        reader.ok(&format!("STILLFRAME VIEW CLOSE {id}"));
    }
    wait_until("nothing is kept", || reader.info("views_bytes") == "0");
    assert_eq!(reader.info("views_entries"), "0");
}

#[test]
fn random_changes_leave_views_as_they_were() {
    let mut random = Random::new("views");
    for algorithm in ["imprint", "fork", "naive"] {
        views_show_their_instant(algorithm, rounds(40, 1500), &mut random);
    }
}

#[test]
fn a_view_meets_each_key_once_and_runs_commands_that_read() {
    let server = Server::start(Kind::Ours("imprint"));
    let mut client = server.client();
    for number in 0..3000 {
        client.ok(&format!("SET key:{number} {number}"));
    }
    client.ask("HSET hash field value other 2");
    client.ask("ZADD scores 1 one 2 two");
    client.ask("RPUSH list a b c");
    client.ask("RPUSH numbers 7 5");
    client.ask("SET short v PX 1000");
    let id = open(&mut client);
    client.ask("FLUSHALL");
    for number in 0..3000 {
        client.ok(&format!("SET key:{number} other"));
    }
    client.ask("HSET hash field changed");
    client.ok("SET later v PX 1000");
    wait_until("the time of the short one is over", || client.ask("GET later") == Reply::Null);
    let mut keys = walk(&mut client, id, "COUNT 7");
    let met = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!((keys.len(), met), (3005, 3005));
    assert_eq!(walk(&mut client, id, "MATCH key:77* TYPE string").len(), 11);
    assert_eq!(walk(&mut client, id, "TYPE hash"), ["hash"]);
    let mut run = |request: &str| client.ask(&format!("STILLFRAME VIEW RUN {id} {request}"));
    assert_eq!(run("GET key:5").text(), "5");
    assert_eq!(run("MGET key:1 absent key:2").list().len(), 3);
    assert_eq!(run("HGET hash field").text(), "value");
    assert_eq!(run("ZRANGE scores 0 -1 WITHSCORES").list().len(), 4);
    assert_eq!(run("LRANGE list 0 -1").list().len(), 3);
    assert_eq!(run("SORT_RO list BY nosort GET key:* GET #").list().len(), 6);
    let sorted = run("SORT_RO numbers BY key:* GET # GET key:*");
    assert_eq!(sorted.list().iter().map(Reply::text).collect::<Vec<_>>(), ["5", "5", "7", "7"]);
    assert_eq!(run("XREAD BLOCK 0 STREAMS stream 0"), Reply::Null);
    assert_eq!(run("TYPE short").text(), "string");
    assert!((1..=1000).contains(&run("PTTL short").int()), "its time stands still");
    for (request, why) in [
        ("SET key:5 x", "ERR A view runs commands that read"),
        ("GETDEL key:5", "ERR A view runs commands that read"),
        ("KEYS *", "ERR A view runs commands that read"),
        ("DBSIZE", "ERR A view runs commands that read"),
        ("PING", "ERR A view runs commands that read"),
        ("STILLFRAME VIEW RUN 1 GET a", "ERR A view runs commands that read"),
        ("EVAL return 0", "ERR A view runs commands that read"),
        ("GET", "ERR wrong number of arguments"),
        ("NONE such", "ERR unknown command"),
        ("HGET key:5 field", "WRONGTYPE"),
    ] {
        let reply = run(request).text();
        assert!(reply.starts_with(why), "{request}: {reply}");
    }
    assert_eq!(client.ask("GET key:5").text(), "other", "nothing reaches the data");
}

#[test]
fn wrong_requests_are_refused() {
    let server = Server::start(Kind::Ours("imprint"));
    let mut client = server.client();
    let id = open(&mut client);
    for (request, why) in [
        ("OPEN 1".to_owned(), "ERR syntax error"),
        ("LIST all".to_owned(), "ERR syntax error"),
        ("SCAN".to_owned(), "ERR syntax error"),
        (format!("SCAN {id}"), "ERR syntax error"),
        (format!("SCAN {id} x"), "ERR invalid cursor"),
        (format!("SCAN {id} 0 COUNT 0"), "ERR syntax error"),
        (format!("SCAN {id} 0 COUNT"), "ERR syntax error"),
        (format!("SCAN {} 0", id ^ 1), "NOVIEW"),
        (format!("RUN {} GET a", id ^ 1), "NOVIEW"),
        (format!("RUN {id}"), "ERR syntax error"),
        ("CLOSE x".to_owned(), "ERR The number of a view"),
        ("CLOSE -1".to_owned(), "ERR The number of a view"),
        ("NONE".to_owned(), "ERR syntax error"),
    ] {
        let reply = client.ask(&format!("STILLFRAME VIEW {request}")).text();
        assert!(reply.starts_with(why), "{request}: {reply}");
    }
    // Cursors that no walk gave harm nothing.
    for cursor in ["1", "4294967296", "18446744073709551615"] {
        client.ask(&format!("STILLFRAME VIEW SCAN {id} {cursor}"));
    }
    client.ok("MULTI");
    client.ask("STILLFRAME VIEW OPEN");
    let reply = client.ask("EXEC");
    assert!(reply.list()[0].text().contains("not allowed in transactions"), "{reply:?}");
    let list = b"return redis.call('STILLFRAME', 'VIEW', 'LIST')";
    let reply = client.call(&[b"EVAL", list, b"0"]).text();
    assert!(reply.contains("not allowed from script"), "{reply}");
    client.ok(&format!("STILLFRAME VIEW CLOSE {id}"));
    assert!(client.ask(&format!("STILLFRAME VIEW CLOSE {id}")).text().starts_with("NOVIEW"));
}

#[test]
fn views_are_bounded() {
    let server = Server::start(Kind::Ours("imprint"));
    let (mut client, mut other) = (server.client(), server.client());
    for number in 0..1000 {
        client.ok(&format!("SET key:{number} {number:0>2000}"));
    }
    client.ok("CONFIG SET views-max 2");
    let first = open(&mut client);
    let second = open(&mut other);
    assert!(client.ask("STILLFRAME VIEW OPEN").text().starts_with("ERR As many views"));
    client.ok("CONFIG SET views-full close-oldest");
    let third = open(&mut client);
    let mut run = |id| client.ask(&format!("STILLFRAME VIEW RUN {id} STRLEN key:0"));
    assert!(run(first).text().starts_with("NOVIEW"));
    assert_eq!((run(second).int(), run(third).int()), (2000, 2000), "of any client");
    assert_eq!(client.ask("STILLFRAME VIEW LIST").list().len(), 2);
    // The view of a client that goes goes with it.
    drop(other);
    wait_until("it goes", || client.info("views_open") == "1");
    // What is overwritten is kept, up to the limit.
    client.ok("CONFIG SET views-memory 1mb");
    for number in 0..400 {
        client.ok(&format!("SET key:{number} x"));
    }
    assert!(client.info_int("views_bytes") > 400 * 2000);
    assert_eq!(client.info("views_open"), "1");
    for number in 400..1000 {
        client.ok(&format!("SET key:{number} x"));
    }
    assert_eq!(client.info("views_open"), "0");
    wait_until("memory comes back", || client.info("views_bytes") == "0");
    assert_eq!(client.info("views_displaced"), "2");
    // Nobody uses it.
    client.ok("CONFIG SET views-timeout 1");
    open(&mut client);
    wait_until("its time is over", || client.info("views_open") == "0");
    assert_eq!(
        (client.info("views_timed_out"), client.info("views_opened")),
        ("1".into(), "4".into())
    );
    client.ok("CONFIG SET views-max 0");
    assert!(client.ask("STILLFRAME VIEW OPEN").text().starts_with("ERR As many views"));
}

/// A view of a large collection that is edited counts the nodes that were replaced, not all.
#[test]
fn a_view_holds_what_was_written_of_a_large_collection() {
    let server = Server::start(Kind::Ours("imprint"));
    let mut client = server.client();
    for start in (0..100_000).step_by(1000) {
        let fields: Vec<String> =
            (start..start + 1000).map(|field| format!("field:{field} {field:0>30}")).collect();
        client.ask(&format!("HSET hash {}", fields.join(" ")));
    }
    let id = open(&mut client);
    client.ask("HSET hash field:5 other");
    let held = client.info_int("views_bytes");
    assert!((1..100_000).contains(&held), "{held} bytes for one field");
    for field in 0..2000 {
        client.ask(&format!("HSET hash field:{} other", field * 50));
    }
    let more = client.info_int("views_bytes");
    assert!(more > 1_000_000, "{more} bytes for all nodes");
    assert_eq!(
        client.ask(&format!("STILLFRAME VIEW RUN {id} HGET hash field:5")).text(),
        format!("{:0>30}", 5)
    );
    client.ask("DEL hash");
    assert_eq!(client.ask(&format!("STILLFRAME VIEW RUN {id} HLEN hash")).int(), 100_000);
    client.ok(&format!("STILLFRAME VIEW CLOSE {id}"));
    wait_until("memory comes back", || client.info("views_bytes") == "0");
}

#[test]
fn users_see_in_views_what_they_may_read() {
    let server = Server::start(Kind::Ours("imprint"));
    let mut client = server.client();
    client.ok("SET open:1 a");
    client.ok("SET secret b");
    client.ok("ACL SETUSER ana on nopass ~open:* +stillframe|view +get +auth");
    client.ok("ACL SETUSER bob on nopass ~* +get +auth");
    let mut ana = server.client();
    ana.ok("AUTH ana x");
    let id = open(&mut ana);
    let mut run = |request: &str| ana.ask(&format!("STILLFRAME VIEW RUN {id} {request}")).text();
    assert_eq!(run("GET open:1"), "a");
    assert!(run("GET secret").starts_with("NOPERM"));
    assert!(run("STRLEN open:1").starts_with("NOPERM"));
    let mut bob = server.client();
    bob.ok("AUTH bob x");
    assert!(bob.ask("STILLFRAME VIEW LIST").text().starts_with("NOPERM"));
}

/// An image for a replica, and a save, beside views: all see their instants, and the views of a
/// replica survive what its primary sends.
#[test]
fn views_stand_beside_images_and_at_replicas() {
    let server = Server::start(Kind::Ours("imprint"));
    let mut client = server.client();
    let mut random = Random::new("views beside images");
    let mut fill = |client: &mut Client, count| {
        for _ in 0..count {
            let words = command(&mut random);
            client.call(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
    };
    fill(&mut client, 500);
    client.ok("CONFIG SET repl-diskless-sync-delay 0");
    let replica = Server::start(Kind::Ours("imprint"));
    let mut there = replica.client();
    there.ok("SET own v");
    let before = open(&mut there);
    there.ok(&format!("REPLICAOF 127.0.0.1 {}", server.port));
    wait_until("it follows", || there.info("master_link_status") == "up");
    assert_eq!(there.ask(&format!("STILLFRAME VIEW RUN {before} GET own")).text(), "v");
    client.ask("WAIT 1 0");
    let (mine, theirs) = (open(&mut client), open(&mut there));
    let then = contents(&mut client);
    fill(&mut client, 500);
    client.ask("BGSAVE");
    fill(&mut client, 500);
    client.call(&[b"WAIT", b"1", b"0"]);
    assert!(seen(&mut client, mine) == then);
    assert!(seen(&mut there, theirs) == then);
    client.wait_for_save();
    assert!(seen(&mut client, mine) == then);
}
