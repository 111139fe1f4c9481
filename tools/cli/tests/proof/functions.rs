//! Libraries of functions are data: dumps, logs and replicas have them, ours and redis-server's.

use crate::support::{Client, Kind, Reply, Server, Setup, redis_is_here, stillframe, wait_until};

const SOURCE: &[u8] = b"#!lua name=lib\n\
    redis.register_function('put', \
    function(keys, args) return redis.call('set', keys[1], args[1]) end)\n\
    redis.register_function{function_name = 'look', flags = {'no-writes'}, \
    callback = function(keys) return redis.call('get', keys[1]) end}";
const OTHER: &[u8] = b"#!lua name=other\nredis.register_function('one', function() return 1 end)";

fn load(client: &mut Client, source: &[u8]) {
    let reply = client.call(&[b"FUNCTION", b"LOAD", source]);
    assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
}

/// All libraries, with their sources.
fn listed(client: &mut Client) -> Vec<String> {
    let mut all: Vec<String> =
        client.ask("FUNCTION LIST WITHCODE").list().iter().map(|it| format!("{it:?}")).collect();
    all.sort();
    // Redis lists the functions of a library in no order.
    all.iter_mut().for_each(|text| {
        let mut parts: Vec<&str> = text.split_inclusive("List").collect();
        parts.sort_unstable();
        *text = parts.concat().chars().filter(|it| !"[](), ".contains(*it)).collect();
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        *text = letters.into_iter().collect();
    });
    all
}

fn works(client: &mut Client, value: &str) {
    let looked = client.call(&[b"FCALL_RO", b"look", b"1", b"k"]);
    assert_eq!(looked, Reply::Text(value.as_bytes().to_vec()));
}

#[test]
fn a_dump_file_has_libraries_for_both_servers() {
    if !redis_is_here("a_dump_file_has_libraries_for_both_servers") {
        return;
    }
    for [writer, reader] in [[0, 0], [0, 1], [1, 0]] {
        let kinds = [Kind::subject("imprint"), Kind::Redis];
        let folder = tempfile::tempdir().expect("a folder");
        let start = |kind| Setup::new(kind).folder(folder.path()).start();
        let mut server = start(kinds[writer]);
        let mut client = server.client();
        load(&mut client, SOURCE);
        load(&mut client, OTHER);
        assert_eq!(client.ask("FCALL put 1 k v"), Reply::Text(b"OK".to_vec()));
        client.ok("FLUSHALL");
        client.ok("FCALL put 1 k v");
        client.ok("SAVE");
        let before = listed(&mut client);
        server.kill();
        let server = start(kinds[reader]);
        let mut client = server.client();
        assert_eq!(client.info("number_of_functions"), "3", "before any was asked for");
        assert_eq!(listed(&mut client), before, "written by {writer}, read by {reader}");
        works(&mut client, "v");
        assert_eq!(client.info("number_of_libraries"), "2");
    }
}

#[test]
fn the_log_has_libraries_from_before_and_behind_its_image() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["--appendonly", "yes", "--appendfsync", "always"];
    let start = || Setup::new(Kind::subject("imprint")).folder(folder.path()).flags(&flags).start();
    let mut server = start();
    let mut client = server.client();
    load(&mut client, OTHER);
    for round in 0..3 {
        client.ok("BGREWRITEAOF");
        client.wait_for_save();
        client.call(&[b"FUNCTION", b"LOAD", b"REPLACE", SOURCE]);
        client.ok(&format!("FCALL put 1 k {round}"));
        if round == 1 {
            client.ok("FUNCTION DELETE other");
        }
        let before = listed(&mut client);
        server.kill();
        server = start();
        client = server.client();
        assert_ne!(client.info("number_of_functions"), "0", "round {round}");
        assert_eq!(listed(&mut client), before, "round {round}");
        works(&mut client, &round.to_string());
    }
    client.ok("FUNCTION FLUSH");
    server.kill();
    let server = start();
    assert_eq!(server.client().ask("FUNCTION LIST"), Reply::List(Vec::new()));
}

#[test]
fn replicas_of_both_kinds_have_the_libraries_of_their_primary() {
    if !redis_is_here("replicas_of_both_kinds_have_the_libraries_of_their_primary") {
        return;
    }
    let ours = || Kind::subject("imprint");
    for [above, below] in [[ours(), ours()], [ours(), Kind::Redis], [Kind::Redis, ours()]] {
        let [primary, replica] = [above, below].map(Server::start);
        let [mut first, mut second] = [&primary, &replica].map(Server::client);
        load(&mut first, SOURCE);
        load(&mut second, OTHER); // goes with the data of the replica
        first.ok("CONFIG SET repl-diskless-sync-delay 0");
        second.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
        wait_until("the link is up", || second.info("master_link_status") == "up");
        assert_eq!(second.info("number_of_functions"), "2");
        assert_eq!(listed(&mut second), listed(&mut first));
        load(&mut first, OTHER);
        first.ok("FCALL put 1 k v");
        first.ok("FUNCTION DELETE other");
        first.ok("SET end 1");
        wait_until("all has arrived", || second.ask("EXISTS end") == Reply::Int(1));
        assert_eq!(listed(&mut second), listed(&mut first));
        works(&mut second, "v");
        let Reply::Error(text) = second.ask("FCALL put 1 k w") else { panic!("it wrote") };
        assert!(text.starts_with("READONLY"), "{text}");
    }
}

#[test]
fn payloads_go_both_ways() {
    if !redis_is_here("payloads_go_both_ways") {
        return;
    }
    let servers = [Kind::subject("imprint"), Kind::Redis].map(Server::start);
    for [from, to] in [[0, 1], [1, 0]] {
        let [mut from, mut to] = [servers[from].client(), servers[to].client()];
        from.ok("FUNCTION FLUSH");
        to.ok("FUNCTION FLUSH");
        load(&mut from, SOURCE);
        load(&mut to, OTHER);
        from.send(&[b"FUNCTION", b"DUMP"]);
        let Reply::Text(payload) = from.reply() else { panic!("no payload") };
        let mut restore = |policy: &[u8]| to.call(&[b"FUNCTION", b"RESTORE", &payload, policy]);
        assert_eq!(restore(b"APPEND"), Reply::Text(b"OK".to_vec()));
        let taken = Reply::Error("ERR Library lib already exists".into());
        assert_eq!(restore(b"APPEND"), taken);
        assert_eq!(restore(b"REPLACE"), Reply::Text(b"OK".to_vec()));
        assert_eq!(restore(b"FLUSH"), Reply::Text(b"OK".to_vec()));
        assert_eq!(listed(&mut to), listed(&mut from));
    }
}

/// Names of all libraries.
fn names(client: &mut Client) -> Vec<String> {
    let all = client.ask("FUNCTION LIST");
    let mut all: Vec<String> = all.list().iter().map(|library| library.list()[1].text()).collect();
    all.sort();
    all
}

/// What a server says while its libraries meet transactions, users, databases, read-only calls and
/// limits.
fn meetings(client: &mut Client, other: &mut Client) -> Vec<String> {
    let mut said = Vec::new();
    let mut say = |client: &mut Client, line: &str| said.push(format!("{:?}", client.ask(line)));
    client.ok("MULTI");
    client.send(&[b"FUNCTION", b"LOAD", OTHER]);
    client.reply();
    for line in ["FCALL one 0", "EXEC", "SWAPDB 0 1", "FLUSHALL", "FCALL put 1 k 1"] {
        say(client, line);
    }
    for line in ["FCALL_RO put 1 k 2", "FCALL_RO look 1 k", "FCALL one 1", "FCALL none 0"] {
        say(client, line);
    }
    client.ok("ACL SETUSER u on nopass ~x* +fcall +get");
    other.ok("AUTH u p");
    for line in ["FCALL put 1 k 3", "FCALL put 1 x 3", "FCALL_RO look 1 x", "FUNCTION FLUSH"] {
        say(other, line);
    }
    client.ok("CONFIG SET maxmemory 1");
    for line in ["FCALL put 1 k 4", "FCALL look 1 k", "FCALL_RO look 1 k", "FUNCTION KILL"] {
        say(client, line);
    }
    say(client, "CONFIG SET maxmemory 0");
    said.push(names(client).join(" "));
    said
}

/// Cuts the replica off for a moment in which the libraries of its primary change, then makes it
/// a primary, from which the other one replicates.
fn promoted(above: &Server, first: &mut Client, below: &Server, second: &mut Client, other: &[u8]) {
    first.ok("CONFIG SET repl-diskless-sync-delay 0");
    let up = |client: &mut Client| client.info("master_link_status") == "up";
    second.ok(&format!("REPLICAOF 127.0.0.1 {}", above.port));
    wait_until("the link is up", || up(second));
    assert_eq!(listed(second), listed(first));
    let resumed = first.info_int("sync_partial_ok");
    assert_eq!(first.ask("CLIENT KILL TYPE replica"), Reply::Int(1));
    first.ok("FUNCTION DELETE other");
    first.call(&[b"FUNCTION", b"LOAD", other]);
    first.ok(&format!("FCALL put 1 end:{} 1", below.port));
    let end = format!("EXISTS end:{}", below.port);
    wait_until("all has arrived", || second.ask(&end) == Reply::Int(1));
    assert_eq!(listed(second), listed(first));
    assert_eq!(first.info_int("sync_partial_ok"), resumed + 1, "the link was resumed");
    second.ok("REPLICAOF NO ONE");
    second.ok("FUNCTION DELETE other");
    assert_eq!((names(second).len(), names(first).len()), (1, 2));
    // The link may be resumed, and is up before what was missed has come.
    second.ok(&format!("SET promoted:{} 1", below.port));
    first.ok(&format!("REPLICAOF 127.0.0.1 {}", below.port));
    wait_until("the link is up", || up(first));
    let end = format!("EXISTS promoted:{}", below.port);
    wait_until("all has arrived", || first.ask(&end) == Reply::Int(1));
    assert_eq!(listed(second), listed(first));
    first.ok("REPLICAOF NO ONE");
}

#[test]
fn libraries_meet_transactions_users_limits_logs_and_promotion() {
    if !redis_is_here("libraries_meet_transactions_users_limits_logs_and_promotion") {
        return;
    }
    let flags = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut said = Vec::new();
    for kind in [Kind::Redis, Kind::subject("imprint")] {
        let folder = tempfile::tempdir().expect("a folder");
        let start = || Setup::new(kind).folder(folder.path()).flags(&flags).start();
        let mut server = start();
        let mut client = server.client();
        load(&mut client, SOURCE);
        said.push(meetings(&mut client, &mut server.client()));
        let before = listed(&mut client);
        server.kill();
        server = start();
        client = server.client();
        assert_eq!(listed(&mut client), before, "after a kill");
        // A library that comes while there is no log is in the log that begins later.
        client.ok("CONFIG SET appendonly no");
        client.ok("FUNCTION DELETE lib");
        load(&mut client, &[SOURCE, b" -- again"].concat());
        client.ok("CONFIG SET appendonly yes");
        wait_until("the log has begun", || {
            ["aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress"]
                .iter()
                .all(|field| client.info(field) == "0")
        });
        let before = listed(&mut client);
        server.kill();
        server = start();
        client = server.client();
        assert_eq!(listed(&mut client), before, "after a log was begun");
        for below in [Kind::Redis, Kind::subject("imprint")] {
            let replica = Server::start(below);
            promoted(&server, &mut client, &replica, &mut replica.client(), OTHER);
            load(&mut client, OTHER);
        }
        if kind == Kind::Redis {
            let before = listed(&mut client);
            server.kill();
            let to = tempfile::tempdir().expect("a folder");
            let [from, into] = [folder.path(), to.path()].map(|path| path.display().to_string());
            let output = stillframe(&["import", &from, "--dir", &into]);
            assert!(output.status.success(), "{output:?}");
            let server = Setup::new(Kind::subject("imprint")).folder(to.path()).start();
            assert_eq!(listed(&mut server.client()), before, "after an import");
        }
    }
    assert_eq!(said[0], said[1], "redis-server's (left) and ours");
}
