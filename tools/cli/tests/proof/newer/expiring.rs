//! Fields of hashes that expire, in files, logs, links, groups and branches.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;

use super::{assert_equal, contents, is_valkey, knows_fields};
use crate::collections::debugged;
use crate::replication::{self, Who, wait_for_all, wait_for_link};
use crate::support::{
    Client, Kind, Peer, Random, Reply, Server, Setup, Stop, are_here, rounds, send_signal,
    wait_until,
};

/// Requests on hashes; `?` stands for a digit, and so for a few milliseconds. Two servers get none
/// of the first [`SOON`], and those where no field expires the last [`PLAIN`] alone. Redis 7.4.1
/// crashes when it deletes several expired fields of a hash in a listpack. Valkey 9.1.2 propagates
/// a request on several fields as it came when some of them have expired, and its own replicas then
/// differ from it.
const REQUESTS: [&str; 23] = [
    "HPEXPIRE timed? ? FIELDS 1 f?",
    "HPEXPIRE timed? 1? FIELDS 2 g? h?",
    "HSETEX soon? PX ? FIELDS 1 f? v?",
    "HEXPIRE timed? 5000 FIELDS 2 f? g?",
    "HEXPIRE timed? 9000 NX FIELDS 2 h? g?",
    "HEXPIRE timed? 7000 GT FIELDS 2 h? g?",
    "HEXPIRE timed? 0 FIELDS 1 f?",
    "HPEXPIREAT timed? 400000000000? FIELDS 2 g? f?",
    "HEXPIREAT timed? 400000000? FIELDS 1 h?",
    "HPERSIST timed? FIELDS 2 f? g?",
    "HSETEX timed? EX 5000 FIELDS 1 f? x?",
    "HSETEX timed? KEEPTTL FIELDS 2 f? y? g? z?",
    "HSETEX timed? PXAT 400000000000? FIELDS 1 h? y",
    "HGETEX timed? EX 6000 FIELDS 1 f?",
    "HGETEX timed? PERSIST FIELDS 1 g?",
    "HSET timed? f? v? g? w? h? x?",
    "HSET timed? f? v?",
    "HGETDEL timed? FIELDS 1 g?",
    "HINCRBY timed? n? 3",
    "HINCRBYFLOAT timed? n? 0.5",
    "HDEL timed? f?",
    "COPY timed? timed? REPLACE",
    "RENAME timed? timed?",
];

/// The first requests, after which fields expire soon.
const SOON: usize = 2;
/// The last ones, which give no field a time.
const PLAIN: usize = 8;

/// One of these for a server, which a peer may follow.
fn request(kind: Kind, follower: Option<Peer>, random: &mut Random) -> Vec<Vec<u8>> {
    let from = match kind {
        _ if follower.is_some_and(|peer| !knows_fields(peer)) => REQUESTS.len() - PLAIN,
        Kind::Newer(Peer::Redis74 | Peer::Valkey) => SOON,
        _ => 0,
    };
    let line = random.pick(&REQUESTS[from..]);
    let mut digit = |byte: u8| if byte == b'?' { b'0' + random.below(9) as u8 } else { byte };
    line.split(' ').map(|word| word.bytes().map(&mut digit).collect()).collect()
}

fn write(
    client: &mut Client,
    kind: Kind,
    follower: Option<Peer>,
    random: &mut Random,
) -> Option<()> {
    let words = request(kind, follower, random);
    // A server may lack one of them.
    client.try_call(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()).map(drop)
}

/// Random requests, and a hash too large for a listpack.
pub(super) fn fill(server: &Server, random: &mut Random, requests: usize) {
    let mut client = server.client();
    for _ in 0..requests {
        write(&mut client, server.kind, None, random).expect("the server lives");
    }
    add_large(&mut client);
}

fn add_large(client: &mut Client) {
    let mut words = vec![b"HSET".to_vec(), b"large".to_vec()];
    words.extend((0..1200).map(|n| format!("field {n}").into_bytes()));
    client.call(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
    for n in (0..1200).step_by(6) {
        let (at, field) = (format!("{}", 4_000_000_000_000_i64 - n), format!("field {n}"));
        let line = [&b"HPEXPIREAT"[..], b"large", at.as_bytes(), b"FIELDS", b"1", field.as_bytes()];
        client.call(&line);
    }
}

/// As [`replication::under_load`], while fields expire, too, if the peer on the other end knows it.
pub(super) fn under_load<R>(
    Server { port, kind, .. }: &Server,
    peer: Peer,
    random: &mut Random,
    body: impl FnOnce() -> R,
) -> R {
    let (stop, mut own) = (Stop::default(), Random::with_seed(random.next()));
    std::thread::scope(|scope| {
        let _guard = stop.at_the_end();
        let stop = &stop;
        scope.spawn(move || {
            let mut client = Client::try_connect(*port).expect("the server takes a connection");
            while !stop.is_due() && write(&mut client, *kind, Some(peer), &mut own).is_some() {}
        });
        replication::under_load(*port, random, body)
    })
}

/// The fields and values of a hash with the time at which each field expires.
pub(super) fn with_times(client: &mut Client, key: &[u8], pairs: &Reply) -> Reply {
    let pairs: Vec<_> = pairs.list().chunks(2).collect();
    if pairs.is_empty() {
        return Reply::List(Vec::new());
    }
    let count = pairs.len().to_string();
    let mut words = vec![&b"HPEXPIRETIME"[..], key, b"FIELDS", count.as_bytes()];
    words.extend(pairs.iter().filter_map(|pair| pair[0].bytes()));
    let times = client.call(&words);
    if let Reply::Error(_) = times {
        return Reply::List(pairs.concat()); // no field expires there
    }
    let timed = pairs.iter().zip(times.list()).filter_map(|(pair, time)| match time.int() {
        -2 => None, // it has just expired
        -1 => Some(pair.to_vec()),
        time => {
            let value = [pair[1].bytes()?, format!(" until {time}").as_bytes()].concat();
            Some(vec![pair[0].clone(), Reply::Text(value)])
        }
    });
    Reply::List(timed.flatten().collect())
}

fn times(client: &mut Client, key: &str, fields: &str) -> Vec<i64> {
    let count = fields.split(' ').count();
    let times = client.ask(&format!("HPEXPIRETIME {key} FIELDS {count} {fields}"));
    times.list().iter().map(Reply::int).collect()
}

/// Those that are here and know such fields.
fn peers(test: &str) -> Vec<Peer> {
    super::peers(test).into_iter().filter(|&peer| knows_fields(peer)).collect()
}

/// The version that the dump of a server states.
pub(super) fn head(server: &Server) -> String {
    let file = fs::read(server.dump()).expect("the dump was written");
    String::from_utf8_lossy(&file[..9]).into_owned()
}

/// Redis deletes fields from the front of a packed hash, up to the first whose time has not come.
#[test]
fn what_we_packed_expires_where_it_is_loaded() {
    for peer in peers("what_we_packed_expires_where_it_is_loaded") {
        let ours = Server::start(Kind::Ours("imprint"));
        let mut client = ours.client();
        client.ok("HSET h never 1 late 2 soon 3 later 4");
        client.ok("HPEXPIREAT h 4000000000000 FIELDS 1 late");
        client.ok("HPEXPIREAT h 4000000000001 FIELDS 1 later");
        client.ok("HPEXPIRE h 3000 FIELDS 1 soon");
        let version = if peer == Peer::Valkey { "80" } else { "auto" };
        client.ok(&format!("CONFIG SET rdb-version {version}"));
        client.ok("SAVE");
        let folder = tempfile::tempdir().expect("a folder");
        fs::copy(ours.dump(), folder.path().join("dump.rdb")).expect("the dump was written");
        let theirs = debugged(Kind::Newer(peer), Some(folder.path()), "");
        let mut there = theirs.client();
        if !is_valkey(peer) {
            assert_eq!(there.ask("OBJECT ENCODING h").text(), "listpackex", "{peer:?}");
        }
        wait_until("the field has expired", || there.ask("HLEN h").int() == 3);
        let expected = [-1, 4_000_000_000_000, 4_000_000_000_001, -2];
        assert_eq!(times(&mut there, "h", "never late later soon"), expected, "{peer:?}");
        // As for a dump, for a key that moves.
        assert_eq!(there.ask("DEBUG RELOAD").text(), "OK", "{peer:?}");
        assert_eq!(times(&mut there, "h", "never late later soon"), expected, "{peer:?}");
    }
}

#[test]
fn the_version_of_a_dump_follows_the_data_or_the_setting() {
    let flags = ["--appendonly", "yes"];
    let server = Setup::new(Kind::Ours("imprint")).flags(&flags).start();
    let mut client = server.client();
    let mut save = |line: &str| {
        client.ok(&format!("CONFIG SET rdb-version {line}"));
        client.ask("SAVE").text()
    };
    for (version, expected) in
        [("auto", "REDIS0010"), ("11", "REDIS0011"), ("12", "REDIS0012"), ("80", "VALKEY080")]
    {
        assert_eq!(save(version), "OK");
        assert_eq!(head(&server), expected);
    }
    server.client().ok("HSET h f v g w");
    server.client().ok("HEXPIRE h 1000 FIELDS 1 f");
    for (version, expected) in [("auto", "REDIS0012"), ("80", "VALKEY080"), ("12", "REDIS0012")] {
        assert_eq!(save(version), "OK");
        assert_eq!(head(&server), expected);
    }
    let told =
        "RDB version 12 from now on, as the data needs it: Redis before 7.4 and Valkey cannot";
    assert_eq!(server.log().matches(told).count(), 1);
    let before = fs::read(server.dump()).expect("the dump was written");
    for version in ["10", "11"] {
        let why = format!(
            "ERR rdb-version is {version}, which cannot hold fields that expire, and there are \
             hashes with such fields: 1; set rdb-version to auto, 12 or 80"
        );
        assert_eq!(save(version), why);
        for line in ["BGSAVE", "BGREWRITEAOF"] {
            assert_eq!(server.client().ask(line).text(), why);
        }
        assert!(fs::read(server.dump()).expect("it is there") == before, "nothing is written");
        assert!(server.log().contains(&format!("cannot save: {}", &why[4..])));
    }
    // A payload does not fail: 12, or 80 where that is set.
    for (version, number) in [("10", 12), ("auto", 12), ("80", 80)] {
        server.client().ok(&format!("CONFIG SET rdb-version {version}"));
        let payload = server.client().ask("DUMP h");
        let payload = payload.bytes().expect("a payload");
        assert_eq!(payload[payload.len() - 10], number, "rdb-version {version}");
    }
    server.client().ok("HPERSIST h FIELDS 1 f");
    assert_eq!(save("10"), "OK");
    assert_eq!(head(&server), "REDIS0010");
}

/// What a replica that announces `version` is sent first, behind the line of PSYNC.
pub(super) fn first_bytes(server: &Server, version: &str) -> String {
    let mut replica = server.client();
    let announce =
        if version.is_empty() { String::new() } else { format!("REPLCONF version {version}\r\n") };
    let lines = format!("REPLCONF capa eof capa psync2\r\n{announce}PSYNC ? -1\r\n");
    assert!(replica.send_raw(lines.as_bytes()));
    let mut text = String::new();
    while !["REDIS00", "VALKEY0", "-ERR fields", "-ERR there are"]
        .iter()
        .any(|it| text.contains(it))
    {
        match replica.receive_raw() {
            Some(bytes) => text += &String::from_utf8_lossy(&bytes),
            None => break,
        }
    }
    text
}

#[test]
fn a_replica_is_sent_what_it_reads_or_nothing() {
    let primary = Who::Ours.start("");
    let mut client = primary.client();
    for (timed, version, expected) in [
        (false, "", "REDIS0010"),
        (false, "8.1.4", "REDIS0010"),
        (false, "9.1.2", "REDIS0010"),
        (true, "", "REDIS0012"),
        (true, "9.0.0", "VALKEY080"),
        (true, "255.255.255", "VALKEY080"),
        (true, "8.1.4", "-ERR fields of hashes expire here, and Valkey 8 cannot hold them"),
    ] {
        if timed {
            client.ok("HSET h f v");
            client.ok("HEXPIRE h 1000 FIELDS 1 f");
        }
        for diskless in ["yes", "no"] {
            client.ok(&format!("CONFIG SET repl-diskless-sync {diskless}"));
            let text = first_bytes(&primary, version);
            assert!(text.contains(expected), "{version}, diskless {diskless}: {text}");
            assert_eq!(text.contains("FULLRESYNC"), !expected.starts_with('-'), "{text}");
        }
    }
    wait_until("it is logged", || {
        primary.log().contains("is refused: fields of hashes expire here, and Valkey 8 cannot hold")
    });
    let answer = client.ask("REPLCONF version nine").text();
    assert_eq!(answer, "ERR Unrecognized version format: nine");
}

/// Replicas of both kinds at once, with what each of them reads.
#[test]
fn replicas_of_redis_and_valkey_follow_us_together() {
    let peers = peers("replicas_of_redis_and_valkey_follow_us_together");
    let mut random = Random::new("replicas of redis and valkey follow us together");
    for diskless in ["yes", "no"] {
        let primary = Who::Ours.start(&format!("--repl-diskless-sync {diskless}"));
        fill(&primary, &mut random, 300);
        let replicas: Vec<Server> = peers.iter().map(|&it| Who::Newer(it).start("")).collect();
        under_load(&primary, Peer::Valkey, &mut random, || {
            for replica in &replicas {
                replica.client().ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
            }
            replicas.iter().for_each(wait_for_link);
        });
        // A payload of either form goes to all of them.
        add_large(&mut primary.client());
        for version in ["12", "80"] {
            let mut client = primary.client();
            client.ok(&format!("CONFIG SET rdb-version {version}"));
            let payload = client.ask("DUMP large");
            let payload = payload.bytes().expect("a payload").to_vec();
            let key = format!("restored:{version}");
            assert_eq!(client.call(&[b"RESTORE", key.as_bytes(), b"0", &payload]).text(), "OK");
        }
        replicas.iter().for_each(|replica| assert_equal(&primary, replica));
    }
}

/// A replica may get a change of a field only after the field's old deadline.
#[test]
fn replicas_that_are_late_make_each_change_of_a_field() {
    for peer in peers("replicas_that_are_late_make_each_change_of_a_field") {
        let primary = Who::Ours.start("");
        let replica = Who::Newer(peer).follow(primary.port);
        wait_for_link(&replica);
        let mut client = primary.client();
        // In a listpack, and in a table.
        for (kind, fields) in [("packed", 8), ("large", 1200)] {
            for (name, change) in [
                ("persist", "HPERSIST {} FIELDS 1 f0"),
                ("getex", "HGETEX {} PERSIST FIELDS 1 f0"),
                ("later", "HPEXPIREAT {} 4000000000000 FIELDS 1 f0"),
                ("incrby", "HINCRBY {} f0 5"),
                ("incrbyfloat", "HINCRBYFLOAT {} f0 0.5"),
                ("set", "HSET {} f0 7"),
                ("keep", "HSETEX {} KEEPTTL FIELDS 1 f0 7"),
                ("copy", "COPY {} copy REPLACE"),
            ] {
                let key = format!("{kind}:{name}");
                let pairs: String = (0..fields).map(|n| format!(" f{n} {n}")).collect();
                client.ok(&format!("HSET {key}{pairs}"));
                wait_for_all(&primary, &replica);
                send_signal(replica.pid(), Signal::STOP);
                // Time stands still in a transaction.
                client.ok("MULTI");
                client.ok(&format!("HPEXPIRE {key} 1 FIELDS 1 f0"));
                client.ok(&change.replace("{}", &key));
                client.ok("EXEC");
                std::thread::sleep(Duration::from_millis(2)); // the deadline has passed
                send_signal(replica.pid(), Signal::CONT);
                assert_equal(&primary, &replica);
            }
        }
    }
}

#[test]
fn the_log_keeps_times_through_kills() {
    let mut random = Random::new("the log keeps times through kills");
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["--appendonly", "yes", "--appendfsync", "always"];
    let start = || Setup::new(Kind::Ours("imprint")).folder(folder.path()).flags(&flags).start();
    let mut server = start();
    for round in 0..rounds(4, 40) {
        let mut client = server.client();
        fill(&server, &mut random, 300);
        if round % 2 == 0 {
            client.ok("BGREWRITEAOF");
        }
        fill(&server, &mut random, 300);
        // What was to expire soon has.
        std::thread::sleep(Duration::from_millis(30));
        let expected = contents(&mut client);
        server.kill();
        server = start();
        let found = contents(&mut server.client());
        for (key, value) in expected.iter().filter(|(key, value)| found.get(*key) != Some(*value)) {
            println!("{key:?}: {value}, after the start {:?}", found.get(key));
        }
        assert!(found == expected, "round {round}");
    }
}

#[test]
fn branches_keep_their_own_times() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = || Setup::new(Kind::Ours("imprint")).folder(folder.path()).start();
    let mut server = start();
    let mut client = server.client();
    client.ok("HSET h f v g w");
    client.ok("HPEXPIREAT h 4000000000000 FIELDS 1 f");
    client.ok("STILLFRAME BRANCH 0 1");
    client.ok("HPEXPIREAT h 4000000000001 FIELDS 1 g");
    client.ok("SELECT 1");
    client.ok("HPERSIST h FIELDS 1 f");
    client.ok("STILLFRAME BRANCH 0 2");
    client.ok("SAVE");
    for _ in 0..2 {
        let mut client = server.client();
        for (db, expected) in [
            (0, [4_000_000_000_000, 4_000_000_000_001]),
            (1, [-1, -1]),
            (2, [4_000_000_000_000, 4_000_000_000_001]),
        ] {
            client.ok(&format!("SELECT {db}"));
            assert_eq!(times(&mut client, "h", "f g"), expected, "database {db}");
        }
        server.kill();
        server = start();
    }
}

/// Redis 7.0 announces nothing, and would skip requests that it does not know.
#[test]
fn a_replica_that_knows_no_such_fields_is_dropped_and_gets_images_less_and_less_often() {
    let test = "a_replica_that_knows_no_such_fields_is_dropped";
    if !are_here(test, &[Peer::RedisServer]) {
        return;
    }
    let primary = Who::Ours.start("");
    let mut client = primary.client();
    client.ok("HSET h f v");
    let replica = Who::Redis.follow(primary.port);
    wait_for_link(&replica);
    assert_eq!(client.ask("HEXPIRE h 1000 FIELDS 1 f"), Reply::List(vec![Reply::Int(1)]));
    let dropped = format!("dropping the replica 127.0.0.1:{}: a write", replica.port);
    wait_until("it is dropped", || primary.log().contains(&dropped));
    wait_until("it has failed three times", || primary.log().contains("(3 in a row)"));
    assert!(client.info_int("repl_replica_sync_failures") >= 3);
    let why = client.info("repl_replica_sync_error");
    assert!(why.contains("which Redis before 7.4 cannot hold; upgrade it"), "{why}");
    let log = primary.log();
    let count = |what: &str| log.matches(what).count();
    let (failed, sent) = (count("in a row)"), count("sending an image to"));
    assert!(sent <= failed + 2, "one image a pause: {log}");
    assert_eq!(count(&dropped), 1, "{log}");
    // Without such fields it follows again.
    client.ok("HPERSIST h FIELDS 1 f");
    wait_until("the replica follows", || replica.client().info("master_link_status") == "up");
    let info = client.ask("INFO replication").text();
    assert!(!info.contains("repl_replica_sync_error"), "{info}");
    replication::assert_equal(&primary, &replica);
}

/// A replica by hand that has loaded its image.
fn online(primary: &Server, announced: &str) -> Client {
    let mut replica = primary.client();
    let lines = format!(
        "REPLCONF listening-port 7777\r\nREPLCONF capa eof capa psync2{announced}\r\nPSYNC ? -1\r\n"
    );
    assert!(replica.send_raw(lines.as_bytes()));
    let (mut bytes, mut mark) = (Vec::new(), None);
    while mark.is_none_or(|mark: [u8; 40]| !bytes.ends_with(&mark)) {
        bytes.extend(replica.receive_raw().expect("the image comes"));
        let at = bytes.windows(5).position(|it| it == b"$EOF:");
        mark = at.and_then(|at| bytes[at + 5..].first_chunk().copied());
        if at.is_some_and(|at| bytes.len() <= at + 47) {
            mark = None;
        }
    }
    let mut client = primary.client();
    wait_until("its image has come", || client.has_replicas_online());
    assert!(replica.send_raw(b"REPLCONF ACK 0\r\n"));
    replica
}

/// The stream up to some words; nothing: the connection ends before.
fn stream_up_to(replica: &mut Client, words: &str) -> Option<String> {
    let mut text = String::new();
    while !text.contains(words) {
        text += &String::from_utf8_lossy(&replica.receive_raw()?);
    }
    Some(text)
}

#[test]
fn replicas_are_fed_what_they_announce_or_have_loaded() {
    for (announced, knows) in [
        (" version 8.1.4", false),
        ("", false),
        (" version 9.1.2", true),
        (" capa rdb-channel-repl", true),
    ] {
        let primary = Who::Ours.start("");
        let mut client = primary.client();
        client.ok("HSET h f v");
        let mut replica = online(&primary, announced);
        client.ok("SET before 1");
        assert!(stream_up_to(&mut replica, "before").is_some(), "{announced}");
        client.ask("HEXPIRE h 1000 FIELDS 1 f");
        let fed = stream_up_to(&mut replica, "HPEXPIREAT");
        assert_eq!(fed.is_some(), knows, "{announced}: {fed:?}");
        if announced.is_empty() {
            // It loads the image with the field, and is then fed all.
            let mut replica = online(&primary, announced);
            client.ask("HEXPIRE h 2000 FIELDS 1 f");
            assert!(stream_up_to(&mut replica, "HPEXPIREAT").is_some());
        }
    }
}
