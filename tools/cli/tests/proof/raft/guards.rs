//! What changes data or files beside the log of the group: each request is either right at all
//! members, whose data is equal behind it, or refused with a sentence.

use super::{Group, leader, wait_until_equal};
use crate::support::{Client, Kind, Reply, Server, wait_until};
use std::fs;

/// What a request is answered with: anything but an error, or an error that begins so.
type Expected = Result<(), &'static str>;

const DONE: Expected = Ok(());
const ELSEWHERE: Expected = Err("READONLY You can't do this at a member that follows");
const MOVED: Expected = Err("MOVED ");
const NOT_FOR_MEMBERS: &str = "is not for a member of a group, whose members hold the same";

/// A request, and what the leader and a member that follows answer. `PORT` is that of a server
/// that belongs to no group.
const REQUESTS: [(&str, Expected, Expected); 64] = [
    ("DEBUG RELOAD", Err(NOT_FOR_MEMBERS), Err(NOT_FOR_MEMBERS)),
    ("DEBUG RELOAD NOSAVE", Err(NOT_FOR_MEMBERS), Err(NOT_FOR_MEMBERS)),
    ("DEBUG RELOAD NOFLUSH NOSAVE MERGE", Err(NOT_FOR_MEMBERS), Err(NOT_FOR_MEMBERS)),
    ("DEBUG LOADAOF", Err(NOT_FOR_MEMBERS), Err(NOT_FOR_MEMBERS)),
    ("DEBUG REPLICATE SET k v", Err(NOT_FOR_MEMBERS), Err(NOT_FOR_MEMBERS)),
    ("DEBUG GROUP-VIEW NONE", Err(NOT_FOR_MEMBERS), Err(NOT_FOR_MEMBERS)),
    ("DEBUG CHANGE-REPL-ID", Err(NOT_FOR_MEMBERS), Err(NOT_FOR_MEMBERS)),
    ("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1", Err(NOT_FOR_MEMBERS), Err(NOT_FOR_MEMBERS)),
    ("DEBUG POPULATE 300 some 100", DONE, ELSEWHERE),
    ("DEBUG OBJECT some:1", DONE, DONE),
    ("DEBUG SET-ACTIVE-EXPIRE 0", DONE, DONE),
    ("DEBUG SET-ACTIVE-EXPIRE 1", DONE, DONE),
    ("SET soon v PX 1", DONE, MOVED),
    ("RPUSH list a b c", DONE, MOVED),
    ("SADD set a b c d e f", DONE, MOVED),
    ("SPOP set 3", DONE, MOVED),
    ("XADD stream * field value", DONE, MOVED),
    ("SORT list ALPHA STORE sorted", DONE, MOVED),
    ("SWAPDB 0 3", DONE, ELSEWHERE),
    ("SWAPDB 3 0", DONE, ELSEWHERE),
    ("MOVE some:1 7", DONE, MOVED),
    ("COPY some:2 some:2 DB 7", DONE, MOVED),
    ("STILLFRAME BRANCH 0 5", DONE, ELSEWHERE),
    ("STILLFRAME BRANCHDB 5 6 REPLACE", DONE, ELSEWHERE),
    ("FLUSHDB", DONE, ELSEWHERE),
    ("SET k v", DONE, MOVED),
    ("FLUSHALL ASYNC", DONE, ELSEWHERE),
    ("DEBUG POPULATE 100 again", DONE, ELSEWHERE),
    ("SET moves value EX 1000", DONE, MOVED),
    ("MIGRATE 127.0.0.1 PORT moves 0 5000", DONE, MOVED),
    ("RESTORE moves 0 nonsense", Err("ERR DUMP payload version or checksum are wrong"), MOVED),
    ("SCRIPT LOAD return{1}", DONE, DONE),
    ("SCRIPT FLUSH", DONE, DONE),
    ("EVAL return{redis.call('SET',KEYS[1],redis.call('TIME')[2])} 1 time", DONE, MOVED),
    ("EVAL return{redis.call('SET',KEYS[1],math.random())} 1 random", DONE, MOVED),
    ("EVAL redis.set_repl(redis.REPL_ALL);redis.call('SET','a','b') 0", DONE, Err("READONLY ")),
    (
        "EVAL redis.set_repl(redis.REPL_NONE);redis.call('SET','lost','x') 0",
        Err("redis.set_repl() takes REPL_ALL alone at a member"),
        Err("redis.set_repl() takes REPL_ALL alone at a member"),
    ),
    (
        "EVAL redis.set_repl(redis.REPL_AOF);redis.call('SET','lost','x') 0",
        Err("redis.set_repl() takes REPL_ALL alone at a member"),
        Err("redis.set_repl() takes REPL_ALL alone at a member"),
    ),
    ("FUNCTION FLUSH", DONE, ELSEWHERE),
    ("FUNCTION DELETE nosuch", Err("ERR Library not found"), ELSEWHERE),
    ("FUNCTION DUMP", DONE, DONE),
    ("BGSAVE", DONE, DONE),
    ("BGSAVE SCHEDULE", DONE, DONE),
    ("SAVE", Err("ERR a member of a group saves by BGSAVE alone"), Err("ERR a member of a group")),
    ("BGREWRITEAOF", DONE, DONE),
    ("CONFIG SET dir /tmp", Err("a member of a group keeps its directory"), Err("a member of a ")),
    ("CONFIG SET dbfilename other.rdb", Err("keeps its directory"), Err("keeps its directory")),
    ("CONFIG SET appendonly yes", Err("the log of a member is the group's"), Err("the log of a ")),
    ("CONFIG SET min-replicas-to-write 1", Err("waits for most members"), Err("waits for most")),
    ("CONFIG SET hz 20", DONE, DONE),
    ("CONFIG SET snapshot fork", Err("ERR CONFIG SET failed"), Err("ERR CONFIG SET failed")),
    ("CONFIG SET raft-id 9", Err("ERR CONFIG SET failed"), Err("ERR CONFIG SET failed")),
    ("REPLICAOF 127.0.0.1 PORT", Err("ERR REPLICAOF not allowed in cluster"), Err("ERR REPLICAOF")),
    ("REPLICAOF NO ONE", Err("ERR REPLICAOF not allowed in cluster"), Err("ERR REPLICAOF")),
    ("FAILOVER", Err("Use STILLFRAME RAFT TRANSFER"), Err("Use STILLFRAME RAFT TRANSFER")),
    ("PSYNC ? -1", Err("a member of a group has no replicas"), Err("a member of a group has no")),
    ("SYNC", Err("a member of a group has no replicas"), Err("a member of a group has no")),
    ("SHUTDOWN SAVE", Err("ERR Errors trying to SHUTDOWN"), Err("ERR Errors trying to SHUTDOWN")),
    ("SHUTDOWN ABORT", Err("ERR No shutdown in progress"), Err("ERR No shutdown in progress")),
    ("CLUSTER FAILOVER", Err("STILLFRAME RAFT ADD, REMOVE"), Err("STILLFRAME RAFT ADD, REMOVE")),
    ("CLUSTER RESET", Err("STILLFRAME RAFT ADD, REMOVE"), Err("STILLFRAME RAFT ADD, REMOVE")),
    ("CLIENT PAUSE 1 ALL", DONE, DONE),
    ("MEMORY PURGE", DONE, DONE),
    ("LATENCY RESET", DONE, DONE),
];

/// Sends a request and compares what is answered.
fn check(client: &mut Client, who: &str, request: &str, expected: Expected) {
    let mut words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
    let mut reply = client.call(&words);
    // A save may be under way from the request before.
    while matches!(&reply, Reply::Error(text) if text.contains("already in progress")) {
        client.wait_for_save();
        reply = client.call(&words);
    }
    words.truncate(2);
    let as_expected = match (&reply, expected) {
        (Reply::Error(text), Err(begin)) => text.contains(begin),
        (Reply::Error(_), Ok(())) | (_, Err(_)) => false,
        (_, Ok(())) => true,
    };
    assert!(as_expected, "{request} at the {who}: {reply:?}, and not {expected:?}");
}

/// Memory in use without the log of the group, which `maxmemory` does not count.
fn counted_memory(client: &mut Client) -> u64 {
    let info = client.ask("INFO memory").text();
    let figure = |name: &str| -> u64 {
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.parse().ok()).expect("a figure of INFO")
    };
    figure("used_memory") - figure("mem_raft_log")
}

#[test]
fn each_request_is_right_at_all_members_or_refused() {
    let flags = ["--raft-election-timeout", "5000", "--enable-protected-configs", "yes"];
    let group = Group::with_members(3, 3, &flags);
    let servers = group.start_founders();
    let outside = Server::start(Kind::Ours("imprint"));
    let leads = leader(&servers);
    let follows = (leads + 1) % 3;
    for (request, at_leader, at_follower) in REQUESTS {
        let request = request.replace("PORT", &outside.port.to_string());
        println!("{request}");
        check(&mut servers[follows].client(), "member that follows", &request, at_follower);
        check(&mut servers[leads].client(), "leader", &request, at_leader);
        wait_until_equal(&servers);
        assert_eq!(leader(&servers), leads, "{request}");
    }
    assert_eq!(outside.client().ask("GET moves").text(), "value");
    let payload = outside.client().ask("DUMP moves");
    let mut client = servers[leads].client();
    client.call(&[b"RESTORE", b"moves", b"0", payload.bytes().expect("a payload")]);
    assert_eq!(client.ask("GET moves").text(), "value");
    wait_until_equal(&servers);
    let library = b"#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    client.call(&[b"FUNCTION", b"LOAD", library]);
    let libraries = |server: &Server| server.client().ask("FUNCTION LIST WITHCODE");
    wait_until("libraries are equal", || {
        servers.iter().all(|it| libraries(it) == libraries(&servers[leads]))
    });
    assert_eq!(libraries(&servers[leads]).list().len(), 1);
    // In a transaction, too, and eviction by the leader.
    client.ok("MULTI");
    client.ok("CONFIG SET appendonly yes");
    assert!(client.ask("EXEC").list()[0].text().contains("the log of a member is the group's"));
    client.ok("DEBUG POPULATE 2000 evict 1000");
    let counted = counted_memory(&mut client);
    client.ok("CONFIG SET maxmemory-policy allkeys-random");
    client.ok(&format!("CONFIG SET maxmemory {}", counted - 500_000));
    wait_until("keys are evicted", || client.info_int("evicted_keys") > 100);
    wait_until_equal(&servers);
    client.ok("CONFIG SET maxmemory 0");
    // A member that is shut down is back with all.
    drop(client);
    let mut servers = servers;
    for (member, request) in [(follows, "SHUTDOWN"), (leads, "SHUTDOWN NOSAVE")] {
        servers[member].client().send(&request.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        assert!(servers[member].wait().success());
        servers[member] = group.start(member);
        leader(&servers);
        wait_until_equal(&servers);
    }
}

#[test]
fn a_directory_of_another_server_is_refused() {
    let group = Group::with_members(3, 3, &[]);
    let mut servers = group.start_founders();
    let leads = leader(&servers);
    let mut client = servers[leads].client();
    client.ok("SET k v");
    client.ok("BGSAVE");
    wait_until("an image is there", || client.info_int("raft_snapshot_index") > 0);
    let dump = fs::read(servers[leads].dump()).expect("the dump");
    servers.iter_mut().for_each(Server::kill);
    let other = Group::with_members(1, 1, &[]);
    let refused = |why: &str| {
        let folder = other.folder.path().join("1");
        let output = other.setup(0).command(&folder, other.ports[0][1]).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(why), "{text}");
        fs::remove_dir_all(&folder).expect("it was there");
    };
    let folder = other.folder.path().join("1");
    let place = |name: &str, bytes: &[u8]| {
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join(name), bytes).expect("a file");
    };
    // A dump of a member without its log; of a server that is none; the directory of another.
    place("dump.rdb", &dump);
    refused("holds a dump of a server that was not this member");
    let outside = Server::start(Kind::Ours("imprint"));
    outside.client().ok("SET k v");
    outside.client().ok("SAVE");
    place("dump.rdb", &fs::read(outside.dump()).expect("the dump"));
    refused("holds a dump of a server that was not this member");
    let identity = fs::read(servers[1].folder.join("raft-member")).expect("it says whose it is");
    place("raft-member", &identity);
    refused("is the directory of member 2 of the group 'stillframe', and not of member 1");
    // And the log of a member, without which its vote is lost.
    fs::remove_dir_all(servers[0].folder.join("raft-log")).expect("it was there");
    let output = group.setup(0).command(&servers[0].folder, group.ports[0][1]).output();
    let text = String::from_utf8_lossy(&output.expect("it runs").stderr).into_owned();
    assert!(text.contains("log"), "{text}");
    println!("{text}");
}

#[test]
fn settings_that_no_member_can_have_are_refused_at_the_start() {
    let group = Group::with_members(1, 1, &[]);
    for (flags, why) in [
        (&["--appendonly", "yes"][..], "the log of a member is the group's"),
        (&["--replicaof", "127.0.0.1 1"], "follows the leader of the group"),
        (&["--min-replicas-to-write", "1"], "waits for most members"),
        (&["--snapshot", "fork"], "takes its images itself"),
        (&["--raft-peers", "2=127.0.0.1:1/127.0.0.1:2"], "name the members that begin the group"),
        (&["--raft-peers", "1=nonsense"], "raft-peers"),
        (&["--raft-listen", "nonsense"], "'nonsense' is not HOST:PORT"),
        (&["--raft-listen", "0.0.0.0:7001"], "would be open to everybody"),
        (&["--raft-tls-cert-file", "nosuch"], "name all three, or none"),
        (
            &[
                "--raft-tls-cert-file",
                "nosuch",
                "--raft-tls-key-file",
                "k",
                "--raft-tls-ca-cert-file",
                "c",
            ],
            "cannot read c: ",
        ),
        (&["--raft-group", ""], "the name of a group has 1 to 255 bytes"),
    ] {
        let folder = group.folder.path().join("1");
        let mut command = group.setup(0).flags(flags).command(&folder, group.ports[0][1]);
        let output = crate::support::output_of({
            command.env_remove("RUST_LOG");
            command
        });
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(why), "{flags:?}: {text}");
    }
}
