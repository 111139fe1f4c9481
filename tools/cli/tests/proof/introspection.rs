//! The server describes its own commands and state as redis-server does.

use crate::support::{Client, Kind, Reply, Server, Setup, redis_is_here, wait_until};
use std::collections::BTreeSet;
use stillframe_peers::list::lines;
use stillframe_peers::{Peer, are_here};

/// Commands of redis-server 7.0 that are not here with their sub-commands, by reason.
const ABSENT: [(&str, &[&str]); 1] =
    [("no slot of a group ever moves from one server to another", &["restore-asking"])];

fn both() -> [Server; 2] {
    [Kind::subject("imprint"), Kind::Redis].map(Server::start)
}

fn names(client: &mut Client) -> BTreeSet<String> {
    client.ask("COMMAND LIST").list().iter().map(Reply::text).filter(|it| is_of_redis(it)).collect()
}

/// Whether redis-server 7.0 can know a command: STILLFRAME is this server's own, others are newer.
fn is_of_redis(name: &str) -> bool {
    let is_newer = lines("call").any(|line| line.command == name && is_newer(line.since));
    container(name) != "stillframe" && !is_newer
}

/// Whether a version is behind 7.0.
fn is_newer(version: &str) -> bool {
    let parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    parts.collect::<Vec<u32>>() >= vec![7, 1]
}

/// The top-level commands that redis-server 7.0 lacks.
fn newer_commands() -> i64 {
    let all = lines("call").filter(|line| !line.command.contains('|') && is_newer(line.since));
    all.count() as i64
}

/// Where an old command is described in another way, because it takes more than in Redis 7.0: its
/// name, the field of COMMAND INFO, and the values, ours and redis-server's.
const WIDENED: [(&str, usize, i64, i64); 2] = [("zrank", 1, -3, 3), ("zrevrank", 1, -3, 3)];

fn sorted(reply: &Reply) -> Reply {
    let mut elements = reply.list().to_vec();
    elements.sort_by_key(|element| format!("{element:?}"));
    Reply::List(elements)
}

/// A map with its fields in order, those of `without` left out, and the others seen through `f`.
fn map(reply: &Reply, without: &[&str], f: &dyn Fn(&str, &Reply) -> Reply) -> Reply {
    let mut fields: Vec<(String, Reply)> = reply
        .list()
        .chunks(2)
        .map(|field| (field[0].text(), &field[1]))
        .filter(|(name, _)| !without.contains(&&**name))
        .map(|(name, value)| (name.clone(), f(&name, value)))
        .collect();
    fields.sort_by(|(a, _), (b, _)| a.cmp(b));
    let flat = fields.into_iter().flat_map(|(name, value)| [Reply::Text(name.into()), value]);
    Reply::List(flat.collect())
}

/// An element of COMMAND INFO without what has no order.
pub(crate) fn info(command: &Reply) -> Reply {
    let mut fields = command.list().to_vec();
    for unordered in [2, 6, 7] {
        fields[unordered] = sorted(&fields[unordered]);
    }
    let specs = fields[8].list().iter().map(|spec| {
        map(spec, &["notes"], &|name, value| {
            if name == "flags" { sorted(value) } else { value.clone() }
        })
    });
    fields[8] = Reply::List(specs.collect());
    fields[9] = sorted(&Reply::List(old_parts(&fields[9]).map(info).collect()));
    Reply::List(fields)
}

/// The sub-commands in COMMAND INFO that Redis 7.0 can have.
fn old_parts(parts: &Reply) -> impl Iterator<Item = &Reply> {
    parts.list().iter().filter(|part| is_of_redis(&part.list()[0].text()))
}

/// A document without texts, which are our own, and history.
pub(crate) fn document(document: &Reply) -> Reply {
    map(document, &["summary", "complexity", "history"], &|name, value| match name {
        "doc_flags" => sorted(value),
        "arguments" => arguments(value),
        "subcommands" => {
            let parts = value.list().chunks(2).filter(|part| is_of_redis(&part[0].text()));
            let old = Reply::List(parts.flatten().cloned().collect());
            map(&old, &[], &|_, value| self::document(value))
        }
        _ => value.clone(),
    })
}

/// Arguments that Redis 7.0 can have.
fn arguments(reply: &Reply) -> Reply {
    let is_old = |argument: &&Reply| {
        let fields = argument.list().chunks(2);
        let mut since = fields.filter(|field| field[0].text() == "since");
        !since.any(|field| is_newer(&field[1].text()))
    };
    let old = reply.list().iter().filter(is_old).map(|argument| {
        // Newer versions repeat the name there.
        map(argument, &["display_text"], &|name, value| match name {
            "arguments" => arguments(value),
            _ => value.clone(),
        })
    });
    Reply::List(old.collect())
}

fn container(name: &str) -> &str {
    name.split('|').next().unwrap_or(name)
}

#[test]
fn every_command_of_redis_is_here_or_known_to_be_absent() {
    if !redis_is_here("every command") {
        return;
    }
    let servers = both();
    let [mut ours, mut redis] = servers.each_ref().map(Server::client);
    let [here, there] = [&mut ours, &mut redis].map(names);
    let missing: BTreeSet<&str> = there.difference(&here).map(|name| container(name)).collect();
    let absent: BTreeSet<&str> = ABSENT.iter().flat_map(|(_, names)| *names).copied().collect();
    assert_eq!(missing, absent, "what is missing, and the list of it");
    let strange: Vec<&String> = here.difference(&there).collect();
    assert!(strange.is_empty(), "unknown to redis-server: {strange:?}");
    // The other lists have the same commands.
    let is_here = |name: &String| !absent.contains(container(name));
    let top: BTreeSet<String> = there.iter().filter(|it| !it.contains('|')).cloned().collect();
    let top: BTreeSet<String> = top.into_iter().filter(is_here).collect();
    let own = newer_commands() + 1;
    assert_eq!(
        ours.ask("COMMAND COUNT").int(),
        top.len() as i64 + own,
        "STILLFRAME and newer ones"
    );
    for line in ["COMMAND", "COMMAND INFO"] {
        let [here, there] = [&mut ours, &mut redis].map(|client| {
            let reply = client.ask(line);
            let names = reply.list().iter().map(|it| it.list()[0].text());
            names.filter(|it| is_of_redis(it)).collect::<BTreeSet<_>>()
        });
        assert_eq!(here, top, "{line}");
        assert_eq!(there.into_iter().filter(is_here).collect::<BTreeSet<_>>(), top, "{line}");
    }
    let documents = |client: &mut Client| -> BTreeSet<String> {
        let reply = client.ask("COMMAND DOCS");
        reply.list().chunks(2).map(|pair| pair[0].text()).filter(|it| is_of_redis(it)).collect()
    };
    assert_eq!(documents(&mut ours), top);
    let filters = ["ACLCAT dangerous", "ACLCAT nosuch", "PATTERN *e*", "MODULE none"];
    for filter in filters {
        let line = format!("COMMAND LIST FILTERBY {filter}");
        let [here, there] = [&mut ours, &mut redis].map(|client| {
            let reply = client.ask(&line);
            let names = reply.list().iter().map(Reply::text);
            names.filter(|it| is_of_redis(it)).filter(is_here).collect::<BTreeSet<_>>()
        });
        assert_eq!(here, there, "{line}");
    }
}

/// A rule that hardens a server must not fail for want of the command.
#[test]
fn rules_take_the_name_of_every_command_of_redis() {
    if !redis_is_here("rules for every command") {
        return;
    }
    let servers = both();
    let [mut ours, mut redis] = servers.each_ref().map(Server::client);
    let names = names(&mut redis);
    assert!(names.len() > 300, "{}", names.len());
    for name in &names {
        let upper = name.to_uppercase();
        let forms = [name.clone(), upper, format!("{name}|first"), format!("{name}|help")];
        for form in forms.iter().flat_map(|form| [format!("+{form}"), format!("-{form}")]) {
            for start in ["+@all", "-@all"] {
                let line = format!("ACL SETUSER u reset {start} {form}");
                let [here, there] = [&mut ours, &mut redis].map(|client| client.ask(&line));
                assert_eq!(here, there, "{line}: ours, then redis-server's");
                let accepted = there.text() == "OK";
                assert!(accepted || form.contains("|first") || form.contains("|help"), "{line}");
            }
        }
        // What is allowed now is the same: categories that have it, and the command by itself.
        for rule in [format!("-@all +{name}"), format!("+@all -{name}")] {
            let line = format!("ACL SETUSER u reset {rule}");
            let [here, there] = [&mut ours, &mut redis].map(|client| {
                client.ok(&line);
                let known = names.iter().filter(|other| container(other) == container(name));
                let known = known.map(|other| other.replace('|', " "));
                known
                    .map(|it| client.ask(&format!("ACL DRYRUN u {it} a b c d e f")))
                    .collect::<Vec<_>>()
            });
            let denied = |replies: &[Reply]| {
                replies
                    .iter()
                    .map(|it| format!("{it:?}").contains("no permissions to run"))
                    .collect::<Vec<_>>()
            };
            assert_eq!(denied(&here), denied(&there), "{line}: {here:?} {there:?}");
        }
    }
}

#[test]
fn commands_are_described_as_by_redis() {
    if !redis_is_here("commands are described") {
        return;
    }
    let servers = both();
    let [mut ours, mut redis] = servers.each_ref().map(Server::client);
    for name in names(&mut ours) {
        let line = format!("COMMAND INFO {name}");
        let [mut a, b] = [&mut ours, &mut redis].map(|client| info(&client.ask(&line).list()[0]));
        for (_, field, ours, theirs) in WIDENED.iter().filter(|known| known.0 == name) {
            if let Reply::List(fields) = &mut a {
                assert_eq!(fields[*field], Reply::Int(*ours), "{line}");
                fields[*field] = Reply::Int(*theirs);
            }
        }
        assert_eq!(a, b, "{line}: ours, then redis-server's");
        let line = format!("COMMAND DOCS {name}");
        let [a, b] = [&mut ours, &mut redis].map(|client| {
            let reply = client.ask(&line);
            assert_eq!(reply.list()[0].text(), name);
            document(&reply.list()[1])
        });
        assert_eq!(a, b, "{line}: ours, then redis-server's");
    }
    let count = |client: &mut Client| client.ask("COMMAND").list().len();
    assert_eq!(count(&mut ours) as i64, ours.ask("COMMAND COUNT").int());
    let reply = ours.ask("COMMAND DOCS get");
    let document = &reply.list()[1].list();
    assert_eq!(document[0].text(), "summary");
    assert!(!document[1].text().is_empty());
}

#[test]
fn the_keys_of_requests_are_found_as_by_redis() {
    if !redis_is_here("keys of requests") {
        return;
    }
    let servers = both();
    let [mut ours, mut redis] = servers.each_ref().map(Server::client);
    for request in [
        "get a",
        "get",
        "ping x",
        "nosuch a",
        "config get a",
        "mset a b c d",
        "mset a b c",
        "set a b",
        "set a b get",
        "set a b ex 3 GET",
        "bitfield a get u8 1",
        "bitfield a set u8 1 2",
        "sort a by x store b get y store c",
        "sort a",
        "sort_ro a by b",
        "georadius a 1 1 1 m store b",
        "georadius a 1 1 1 m STOREDIST b",
        "georadius a 1 1 1 m asc",
        "geosearchstore a b frommember x byradius 1 m",
        "zunionstore d 2 a b",
        "zunionstore d 2 a b weights 1 2",
        "zunionstore d 9 a b",
        "zunionstore d 0 a b",
        "zunionstore d x a b",
        "zinter 2 a b withscores",
        "lmpop 2 a b left",
        "lmpop 0 a left",
        "blmpop 0 1 a left",
        "blpop a b 0",
        "bzmpop 0 2 a b min",
        "sintercard 2 a b limit 1",
        "object freq a",
        "memory usage a",
        "publish a b",
        "spublish a b",
        "ssubscribe a b",
        "pfcount a b",
        "pfmerge a b c",
        "bitop and a b c",
        "rename a b",
        "smove a b c",
        "copy a b",
        "lcs a b",
        "del a b c",
        "migrate h 1 k 0 1",
        "migrate h 1 k 0 1 COPY",
        "restore a 0 x",
        "watch a b",
        "exec x",
    ] {
        for command in ["GETKEYS", "GETKEYSANDFLAGS"] {
            let line = format!("COMMAND {command} {request}");
            // Redis names flags in the order of their bits, as the table here does.
            let [a, b] = [&mut ours, &mut redis].map(|client| client.ask(&line));
            assert_eq!(a, b, "{line}: ours, then redis-server's");
        }
    }
}

/// The keys behind KEYS of MIGRATE stand in place of an empty one.
#[test]
fn an_empty_key_of_migrate_is_none() {
    if !redis_is_here("keys of MIGRATE") {
        return;
    }
    let [ours, redis] = both();
    let (mut ours, mut redis) = (ours.client(), redis.client());
    for command in ["GETKEYS", "GETKEYSANDFLAGS"] {
        for options in ["KEYS a b", "AUTH keys KEYS a"] {
            let mut line = vec!["COMMAND", command, "MIGRATE", "h", "1", "", "0", "1"];
            line.extend(options.split(' '));
            let words: Vec<&[u8]> = line.iter().map(|word| word.as_bytes()).collect();
            let [a, b] = [&mut ours, &mut redis].map(|client| client.call(&words));
            assert_eq!(a, b, "{line:?}: ours, then redis-server's");
        }
    }
}

/// Fields of redis-server's INFO that are not here, with the reason.
const NOT_TOLD: [(&str, &[&str]); 4] = [
    ("how redis-server was compiled", &["atomicvar_api", "gcc_version"]),
    (
        "eviction ends within a turn: no time is spent above the limit",
        &["total_eviction_exceeded_time", "current_eviction_exceeded_time"],
    ),
    ("every payload is checked, from any client", &["dump_payload_sanitizations"]),
    ("reply buffers have no size of their own", &["reply_buffer_shrinks", "reply_buffer_expands"]),
];

/// What the INFO of Redis 8.10 has besides.
const NOT_TOLD_OF_8_10: [(&str, &[&str]); 8] = [
    ("the allocator and the compiler", &["allocator_muzzy", "atomicvar_api", "gcc_version"]),
    (
        "eviction ends within a turn: no time is spent above the limit",
        &["total_eviction_exceeded_time", "current_eviction_exceeded_time"],
    ),
    ("every payload is checked, from any client", &["dump_payload_sanitizations"]),
    (
        "buffers have no parts of their own",
        &[
            "reply_buffer_shrinks",
            "reply_buffer_expands",
            "mem_clients_normal_shared",
            "mem_clients_normal_unshared",
            "mem_replica_full_sync_buffer",
        ],
    ),
    ("scripts of EVAL stay until SCRIPT FLUSH", &["evicted_scripts"]),
    (
        "a turn is not counted by client, nor by thread",
        &[
            "active_clients",
            "avg_pipeline_length",
            "avg_pipeline_length_cnt",
            "avg_pipeline_length_sum",
            "eventloop_cycles_with_clients_processing",
            "io_thread_0",
            "total_client_processing_events",
        ],
    ),
    (
        "no list of listeners, modules or sizes",
        &["db0_distrib_strings_sizes", "listener0", "module"],
    ),
    ("the time of the peak is not kept", &["used_memory_peak_time"]),
];

/// The fields that INFO of a server with a key has, but those that count requests.
fn fields_of_info(server: &Server) -> BTreeSet<(String, String)> {
    let mut client = server.client();
    client.ok("SET k v EX 1000");
    let text = client.ask("INFO everything").text();
    let mut section = String::new();
    let mut fields = BTreeSet::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("# ") {
            section = name.to_owned();
        } else if let Some((name, _)) = line.split_once(':') {
            fields.insert((section.clone(), name.to_owned()));
        }
    }
    let counts = ["Commandstats", "Latencystats", "Errorstats"];
    fields.retain(|(section, _)| !counts.contains(&&**section));
    fields
}

#[test]
fn info_has_the_fields_of_redis() {
    let ours = fields_of_info(&Server::start(Kind::subject("imprint")));
    let compare = |theirs: Kind, not_told: &[(&str, &[&str])]| {
        let theirs = fields_of_info(&Server::start(theirs));
        let missing: BTreeSet<&str> = theirs.difference(&ours).map(|(_, name)| &**name).collect();
        let known = not_told.iter().flat_map(|(_, names)| *names).copied().collect();
        assert_eq!(missing, known, "what INFO lacks, and the list of it");
    };
    if redis_is_here("fields of INFO") {
        compare(Kind::Redis, &NOT_TOLD);
    }
    if are_here("fields of INFO (against Redis 8.10)", &[Peer::Redis810]) {
        compare(Kind::Newer(Peer::Redis810), &NOT_TOLD_OF_8_10);
    }
}

#[test]
fn every_container_helps() {
    let server = Server::start(Kind::subject("imprint"));
    let mut client = server.client();
    let names: Vec<String> = names(&mut client).into_iter().collect();
    let containers = names.iter().filter_map(|name| name.split_once('|')).map(|(name, _)| name);
    for name in containers.filter(|name| *name != "cluster") {
        assert!(names.contains(&format!("{name}|help")), "{name} has no HELP");
        let help = client.ask(&format!("{name} HELP"));
        assert!(help.list()[0].text().starts_with(&name.to_uppercase()), "{help:?}");
    }
    assert!(client.ask("LOLWUT").text().contains("Redis ver. 7.4"));
    assert_eq!(client.ask("MODULE LIST"), Reply::List(Vec::new()));
    let absent = [
        ("CLUSTER INFO", "cluster support disabled"),
        ("MODULE LOAD x", "MODULE command not allowed"),
    ];
    for (request, reason) in absent {
        let reply = client.ask(request);
        assert!(matches!(&reply, Reply::Error(text) if text.contains(reason)), "{reply:?}");
    }
}

/// Requests with the same answers, one after the other.
const DEBUGGING: [&str; 56] = [
    "DEBUG PROTOCOL string",
    "DEBUG PROTOCOL integer",
    "DEBUG PROTOCOL double",
    "DEBUG PROTOCOL null",
    "DEBUG PROTOCOL array",
    "DEBUG PROTOCOL set",
    "DEBUG PROTOCOL map",
    "DEBUG PROTOCOL verbatim",
    "DEBUG PROTOCOL true",
    "DEBUG PROTOCOL false",
    "DEBUG PROTOCOL bignum",
    "DEBUG ERROR oops",
    "DEBUG LOG x",
    "DEBUG SLEEP 0.001",
    "DEBUG SLEEP x",
    "DEBUG SLEEP",
    "DEBUG NOSUCH",
    "DEBUG POPULATE",
    "DEBUG POPULATE x",
    "DEBUG POPULATE -1",
    "DEBUG POPULATE 3 p x",
    "DEBUG POPULATE 3 p 5 6",
    "DEBUG POPULATE 3",
    "DEBUG POPULATE 2 p 4",
    "DEBUG POPULATE 3 p 20",
    "MGET key:0 key:2 p:1 p:2",
    "DEBUG DIGEST",
    "DEBUG CHANGE-REPL-ID",
    "DEBUG PAUSE-CRON 1",
    "DEBUG PAUSE-CRON 0",
    "DEBUG QUICKLIST-PACKED-THRESHOLD 1b",
    "DEBUG QUICKLIST-PACKED-THRESHOLD x",
    "DEBUG QUICKLIST-PACKED-THRESHOLD 5gb",
    "DEBUG QUICKLIST-PACKED-THRESHOLD 0",
    "DEBUG REPLICATE",
    "DEBUG REPLICATE x y",
    "DEBUG SET-DISABLE-DENY-SCRIPTS 1",
    "DEBUG SET-DISABLE-DENY-SCRIPTS 0",
    "DEBUG SET-SKIP-CHECKSUM-VALIDATION 1",
    "DEBUG SET-SKIP-CHECKSUM-VALIDATION 0",
    "DEBUG OBJECT nosuch",
    "DEBUG OBJECT",
    "DEBUG SET-ACTIVE-EXPIRE 0",
    "SET mortal v PX 1",
    "SET k value EX 1000",
    "RPUSH l a b c",
    "DEBUG RELOAD",
    "GET k",
    "LRANGE l 0 -1",
    "SET k other",
    "DEBUG RELOAD NOSAVE",
    "GET k",
    "DEBUG SET-ACTIVE-EXPIRE 1",
    // Whether the clock has met the key before the next digest would be a matter of time.
    "DEBUG SLEEP 0.002",
    "GET mortal",
    "CONFIG GET enable-debug-command",
];

#[test]
fn debug_does_what_test_suites_ask_of_it() {
    let [ours, redis] = [Kind::subject("imprint"), Kind::Redis].map(|kind| {
        if kind == Kind::Redis && !redis_is_here("DEBUG") {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let setup = Setup::new(kind).folder(folder.path()).config("enable-debug-command yes\n");
        let server = setup.start();
        let mut replies = Vec::new();
        for protocol in ["HELLO 2", "HELLO 3"] {
            let mut client = server.client();
            client.ok(protocol);
            for line in DEBUGGING {
                let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
                client.send(&words);
                replies.push((line, String::from_utf8_lossy(&client.raw()).into_owned()));
            }
        }
        let object = server.client().ask("DEBUG OBJECT k").text();
        assert!(object.contains(" encoding:embstr serializedlength:6 lru:"), "{object}");
        let mut client = server.client();
        client.ok("DEBUG SET-ACTIVE-EXPIRE 0");
        client.ok("SET gone v PX 1");
        client.ok("DEBUG SLEEP 0.01");
        assert!(client.ask("DEBUG OBJECT gone").text().contains(" encoding:embstr "));
        assert_eq!(client.ask("EXISTS gone").int(), 0);
        assert_eq!(client.ask("DEBUG OBJECT gone").text(), "ERR no such key");
        Some(replies)
    });
    for (ours, redis) in ours.iter().flatten().zip(redis.iter().flatten()) {
        assert_eq!(ours, redis);
    }
    let server = Server::start(Kind::subject("imprint"));
    let mut client = server.client();
    let reply = client.ask("DEBUG SLEEP 0");
    assert!(matches!(&reply, Reply::Error(text) if text.contains("not allowed")), "{reply:?}");
}

/// Whose a connection is, who waits, and what is in use: as redis-server counts.
#[test]
fn clients_are_counted_by_what_they_do() {
    for kind in [Kind::subject("imprint"), Kind::Redis] {
        if kind == Kind::Redis && !redis_is_here("clients are counted") {
            continue;
        }
        let server = Server::start(kind);
        let mut client = server.client();
        // Nothing is there yet, and yet memory is in use.
        assert!(client.info_int("used_memory") > 10_000, "{kind:?}");
        assert!(client.info_int("used_memory") >= client.info_int("used_memory_startup"));
        let line = client.ask("CLIENT LIST").text();
        assert!(line.contains(" qbuf=26 "), "{kind:?}: {line}");
        let line = client.ask("CLIENT INFO").text();
        assert!(line.contains(" qbuf=26 "), "{kind:?}: {line}");
        // A request that waits for the end of a pause is a client that waits.
        client.ok("CLIENT PAUSE 100000 WRITE");
        let mut paused = server.client();
        paused.send(&[b"SET", b"k", b"v"]);
        let mut waiter = server.client();
        waiter.send(&[b"WAIT", b"1", b"0"]);
        wait_until("both wait", || client.info("blocked_clients") == "2");
        client.ok("CLIENT UNPAUSE");
        assert_eq!(paused.reply().text(), "OK");
        assert_eq!(client.info("blocked_clients"), "1");
        drop(waiter);
        wait_until("one is left", || client.info("connected_clients") == "2");
        // A replica is not among the clients.
        let replica = Server::start(kind);
        client.ok("CONFIG SET repl-diskless-sync-delay 0");
        replica.client().ok(&format!("REPLICAOF 127.0.0.1 {}", server.port));
        wait_until("the replica is there", || client.info("connected_slaves") == "1");
        wait_until("and no client", || client.info("connected_clients") == "2");
    }
}
