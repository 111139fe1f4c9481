//! A group that begins with the data of a backup, and the data of a group in a single server.

use std::fs;
use std::path::Path;

use super::{Group, leader, put, wait_until_equal};
use crate::support::{Client, Kind, Peer, Reply, Server, Setup, are_here, stillframe, wait_until};

/// What a directory is told to hold, from which a moment is known by record and digest.
struct Past {
    server: Server,
    record: String,
    digest: Reply,
}

/// Writes of several types; whether all were done.
fn write(client: &mut Client, round: usize) -> bool {
    let library =
        format!("#!lua name=l\nredis.register_function('f{round}',function() return 1 end)");
    let mut done = |request: &[&[u8]]| {
        let reply = client.try_call(request);
        reply.is_some_and(|reply| !matches!(reply, Reply::Error(_)))
    };
    let large = vec![b'x'; 300_000];
    let lines = [
        format!("SET s:{round} value"),
        format!("SETEX far:{round} 1000000 value"),
        format!("HSET h field:{round} {round}"),
        format!("HPEXPIREAT h 400000000{round:04} FIELDS 1 field:{round}"),
        format!("RPUSH l {round}"),
        format!("ZADD z {round} member:{round}"),
        format!("XADD x * field {round}"),
        format!("PFADD p {round}"),
        "SELECT 3".to_owned(),
        format!("SET other {round}"),
        "SELECT 0".to_owned(),
    ];
    done(&[b"FUNCTION", b"LOAD", b"REPLACE", library.as_bytes()])
        && done(&[b"SET", format!("large:{round}").as_bytes(), &large])
        && lines.iter().all(|line| done(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()))
}

/// The hash of [`write`] keeps the times at which its fields expire.
fn assert_times(client: &mut Client, rounds: impl Iterator<Item = usize>) {
    for round in rounds {
        let time = client.ask(&format!("HPEXPIRETIME h FIELDS 1 field:{round}"));
        let expected = format!("400000000{round:04}").parse().expect("a time");
        assert_eq!(time, Reply::List(vec![Reply::Int(expected)]), "round {round}");
    }
}

/// Writes at whichever member leads, until all is done.
fn write_to(servers: &[Server], round: usize) {
    while !write(&mut servers[leader(servers)].client(), round) {}
}

/// A server with a log and an archive, and a moment in the middle of what it was told.
fn past(archive: &Path) -> Past {
    let url = format!("file://{}", archive.display());
    let flags = ["--appendonly", "yes", "--archive", &url, "--archive-interval", "1"];
    let server = Setup::new(Kind::Ours("imprint"))
        .flags(&flags)
        .flags(&["--enable-debug-command", "yes"])
        .start();
    let mut client = server.client();
    assert!((0..10).all(|round| write(&mut client, round)));
    client.ok("SAVE");
    assert!((10..15).all(|round| write(&mut client, round)));
    let (record, digest) = (client.info("log_last_record"), client.ask("DEBUG DIGEST"));
    assert!((15..20).all(|round| write(&mut client, round)));
    client.ok("FLUSHALL");
    client.ok("SET only this");
    let last: u64 = client.info("log_last_record").parse().expect("a number");
    wait_until("the archive has all", || {
        client.info("archive_last_record").parse::<u64>().is_ok_and(|found| found >= last)
    });
    Past { server, record, digest }
}

/// Makes the directory of member 1 of a group; what the command says.
fn init(group: &Group, from: &str, until: Option<&str>) -> Result<String, String> {
    let folder = group.folder.path().join("1").display().to_string();
    let peers = format!("1={}", group.addresses(0));
    let mut line = vec!["group", "init", &folder, "--from", from];
    line.extend(["--raft-id", "1", "--raft-peers", &peers]);
    line.extend(until.iter().flat_map(|until| ["--until", until]));
    let output = stillframe(&line);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if !output.status.success() {
        return Err(text(&output.stderr));
    }
    // The group has its id at once, and no other one of this name is taken for it.
    let identity = fs::read_to_string(format!("{folder}/raft-member")).expect("it is made");
    let id = identity.lines().find_map(|line| line.strip_prefix("group-id "));
    assert!(id.is_some_and(|id| id != "-"), "{identity}");
    Ok(text(&output.stdout))
}

/// Starts the member that has the data, and two others, which it takes in.
fn start_all(group: &Group, digest: &Reply) -> Vec<Server> {
    let mut servers = vec![group.start(0)];
    leader(&servers);
    assert_eq!(servers[0].client().ask("DEBUG DIGEST"), *digest);
    for member in [1, 2] {
        servers.push(group.start(member));
        let add = format!("STILLFRAME RAFT ADD {} {}", member + 1, group.addresses(member));
        servers[0].client().ok(&add);
    }
    wait_until_equal(&servers);
    assert_eq!(servers[2].client().ask("DEBUG DIGEST"), *digest);
    servers
}

#[test]
fn a_group_begins_with_the_data_of_a_moment() {
    let archive = tempfile::tempdir().expect("a folder");
    let Past { mut server, record, digest } = past(archive.path());
    let folder = server.folder.display().to_string();
    let url = format!("file://{}", archive.path().display());
    server.kill();
    for from in [&url, &folder] {
        let group = Group::with_members(3, 1, &[]);
        println!("{}", init(&group, from, Some(&record)).expect("it is made"));
        let mut servers = start_all(&group, &digest);
        assert_times(&mut servers[leader(&servers)].client(), 0..15);
        let functions = servers[1].client().ask("FUNCTION LIST");
        assert_eq!(functions, servers[0].client().ask("FUNCTION LIST"));
        assert_eq!(functions.list().len(), 1);
        // It goes on without the member that began it, and from its own log.
        put(&servers, "behind it");
        servers[0].kill();
        put(&servers[1..], "without it");
        servers[0] = group.start(0);
        wait_until_equal(&servers);
        let again = init(&group, from, None).expect_err("the directory is in use");
        assert!(again.contains("is not empty"), "{again}");
    }
    // The newest state, and a dump file by itself.
    let group = Group::with_members(3, 1, &[]);
    init(&group, &url, None).expect("it is made");
    let server = group.start(0);
    leader([&server]);
    assert_eq!(server.client().ask("GET only").text(), "this");
    server.client().ok("SET more data");
    let digest = server.client().ask("DEBUG DIGEST");
    server.client().ok("BGSAVE");
    wait_until("an image is there", || server.client().info_int("raft_snapshot_index") > 1);
    let other = Group::with_members(3, 1, &[]);
    init(&other, &server.dump().display().to_string(), None).expect("it is made");
    start_all(&other, &digest);
}

/// All types that Redis 7 has, small and large, with times to live; what a copy of it must be.
fn fill_redis(client: &mut Client) -> Reply {
    client.ok("FUNCTION FLUSH");
    let library = b"#!lua name=l\nredis.register_function('f',function() return 1 end)";
    assert_eq!(client.call(&[b"FUNCTION", b"LOAD", library]).text(), "l");
    client.call(&[b"SET", b"large", &[b'x'; 300_000]]);
    for number in 0..700 {
        for line in [
            format!("SET s:{number} {number}"),
            format!("SET far:{number} value PXAT 400000000{number:04}"),
            format!("HSET h field:{number} {number}"),
            format!("RPUSH l {number}"),
            format!("SADD m member:{number}"),
            format!("ZADD z {number} member:{number}"),
            format!("XADD x {}-1 field {number}", number + 1),
            format!("PFADD p {number}"),
        ] {
            client.ask(&line);
        }
    }
    for line in ["HSET small a b", "RPUSH short 1 2 3", "SADD ints 1 2 3", "ZADD few 1.5 a"] {
        assert!(client.ask(line).int() > 0, "{line}");
    }
    client.ok("XGROUP CREATE x group 0");
    assert_eq!(client.ask("XREADGROUP GROUP group consumer COUNT 9 STREAMS x >").list().len(), 1);
    client.ok("SELECT 3");
    client.ok("SET other database");
    client.ok("SELECT 0");
    client.ok("SAVE");
    client.ask("DEBUG DIGEST")
}

#[test]
fn a_group_begins_with_a_dump_that_redis_wrote() {
    const NAME: &str = "a_group_begins_with_a_dump_that_redis_wrote";
    if !are_here(NAME, &[Peer::RedisServer]) {
        return;
    }
    let newer = [Peer::Redis8, Peer::Valkey].into_iter().filter(|&peer| are_here(NAME, &[peer]));
    for kind in std::iter::once(Kind::Redis).chain(newer.map(Kind::Newer)) {
        let redis = Setup::new(kind).flags(&["--enable-debug-command", "yes"]).start();
        let mut client = redis.client();
        let digest = fill_redis(&mut client);
        let groups = client.ask("XINFO GROUPS x");
        let group = Group::with_members(3, 1, &[]);
        let said = init(&group, &redis.dump().display().to_string(), None);
        println!("{kind:?}: {}", said.expect("it is made"));
        let servers = start_all(&group, &digest);
        let mut client = servers[leader(&servers)].client();
        assert_eq!(client.ask("XINFO GROUPS x"), groups, "{kind:?}");
        assert_eq!(client.ask("PEXPIRETIME far:77"), Reply::Int(4_000_000_000_077), "{kind:?}");
        assert_eq!(client.ask("FCALL f 0"), Reply::Int(1), "{kind:?}");
        put(&servers, "behind it");
        wait_until_equal(&servers);
    }
}

#[test]
fn a_group_begins_with_nothing_that_is_damaged_or_elsewhere() {
    let group = Group::with_members(1, 1, &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("dump.rdb");
    fs::write(&file, b"REDIS0010 and no more").expect("a file");
    let file = file.display().to_string();
    for (from, until, why) in [
        (&*file, None, "dump.rdb"),
        (&*file, Some("7"), "has no log to go back in"),
        ("file:///nowhere/at/all", None, "nowhere"),
        ("/nowhere/at/all", None, "nowhere"),
    ] {
        let refused = init(&group, from, until).expect_err("it cannot be");
        assert!(refused.contains(why) && refused.lines().count() == 1, "{from}: {refused}");
    }
    let folder = folder.path().display().to_string();
    let line = ["group", "init", &folder, "--from", &file, "--raft-id", "1", "--raft-peers"];
    let refused = stillframe(&[&line[..], &["2=127.0.0.1:1/127.0.0.1:2"]].concat());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("name the member itself"), "{text}");
    let line = ["group", "init", &file, "--from", &file, "--raft-id", "1", "--raft-peers"];
    let refused = stillframe(&[&line[..], &["1=127.0.0.1:1/127.0.0.1:2"]].concat());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("is a file: name a directory"), "{text}");
}

/// Takes the data out of directories; what the command says.
fn export(directories: &[&Path], out: &Path) -> Result<String, String> {
    let names: Vec<String> = directories.iter().map(|it| it.display().to_string()).collect();
    let out = out.display().to_string();
    let mut line = vec!["group", "export"];
    line.extend(names.iter().map(String::as_str));
    line.extend(["--out", &out]);
    let output = stillframe(&line);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

#[test]
fn the_data_of_a_group_goes_to_a_single_server() {
    // Nobody gives up a leader of a busy machine here.
    let group = Group::with_members(3, 3, &["--raft-election-timeout", "5000"]);
    let scratch = tempfile::tempdir().expect("a folder");
    let mut servers = group.start_founders();
    // Another group of the same name.
    let other = Group::with_members(1, 1, &[]);
    let mut strangers = other.start_founders();
    write_to(&strangers, 0);
    let strange = strangers[0].folder.clone();
    strangers[0].kill();
    for round in 0..2 {
        (0..5).for_each(|number| write_to(&servers, 10 * round + number));
        let leads = leader(&servers);
        let mut client = servers[leads].client();
        // At first there is no image at all, then one with a log behind it.
        if round == 1 {
            client.ok("BGSAVE");
            wait_until("an image is there", || client.info_int("raft_snapshot_index") > 0);
            write_to(&servers, 99);
        }
        wait_until_equal(&servers);
        let digest = client.ask("DEBUG DIGEST");
        let folders: Vec<_> = servers.iter().map(|it| it.folder.clone()).collect();
        let out = scratch.path().join(format!("out-{round}"));
        let running = export(&[&folders[0]], &out).expect_err("it runs");
        assert!(running.contains("in use") || running.contains("another process"), "{running}");
        // One lags behind the others.
        let lags = (leads + 1) % 3;
        servers[lags].kill();
        client.ok(&format!("SET last:{round} one"));
        let last = client.ask("DEBUG DIGEST");
        assert_ne!(last, digest);
        servers.iter_mut().for_each(Server::kill);
        let plain = Setup::new(Kind::Ours("imprint")).command(&folders[0], servers[0].port);
        let refused = crate::support::output_of(plain);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && text.contains("stillframe group export"), "{text}");
        let one = scratch.path().join(format!("one-{round}"));
        let text = export(&[&folders[lags]], &one).expect("it is read");
        assert!(text.contains("1 of the 3 members that vote were read"), "{text}");
        let all: Vec<&Path> = folders.iter().map(std::path::PathBuf::as_path).collect();
        let twice = export(&[&folders[lags], &folders[lags]], &out).expect_err("it is one member");
        assert!(twice.contains("a second directory of member"), "{twice}");
        let mixed = export(&[&folders[1], &strange], &out).expect_err("they have other ids");
        assert!(mixed.contains("are of different groups"), "{mixed}");
        let text = export(&all, &out).expect("they are read");
        assert!(!text.contains("notice"), "{text}");
        for (folder, digest) in [(&one, &digest), (&out, &last)] {
            let flags = ["--enable-debug-command", "yes"];
            let single = Setup::new(Kind::Ours("imprint")).folder(folder).flags(&flags).start();
            assert_eq!(single.client().ask("DEBUG DIGEST"), *digest);
            assert_times(&mut single.client(), 0..5);
            single.client().ok("SET it goes-on");
        }
        // The directories are as they were.
        servers = group.start_founders();
        leader(&servers);
        wait_until_equal(&servers);
        assert_eq!(servers[lags].client().ask("DEBUG DIGEST"), last);
    }
}
