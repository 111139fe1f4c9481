//! Saves that fail or are disturbed: the old dump stays, clients see why, the next save works.

use crate::files::check_dump;
use crate::pairs::Pairs;
use crate::support::{
    ALGORITHMS, Client, Disk, Kind, Random, Reply, Server, Setup, send_signal, wait_until,
};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;

#[test]
fn a_full_disk_keeps_the_old_dump_and_is_reported() {
    for algorithm in ALGORITHMS {
        let disk = Disk::new();
        let server = disk.setup(Setup::new(Kind::subject(algorithm))).start();
        let mut client = server.client();
        for i in 0..1_000 {
            // Nothing that could be compressed.
            let value = Random::with_seed(i).bytes(2_000);
            client.call(&[b"SET", format!("k:{i}").as_bytes(), &value]);
        }
        client.ok("SAVE");
        let before = fs::read(server.dump()).expect("the first dump");
        // Room for less than one dump.
        disk.fill(&server, before.len() as u64 / 2);
        assert_eq!(client.save_in_background(), "err", "{algorithm}: {}", server.log());
        assert!(matches!(client.ask("SAVE"), Reply::Error(_)), "{algorithm}");
        assert!(fs::read(server.dump()).expect("still there") == before, "{algorithm}");
        let files = fs::read_dir(disk.path()).expect("the folder").count();
        assert!(files <= 4, "{algorithm}: half-written files are left behind");

        refuses_writes_only_as_configured(&mut client);
        disk.make_room(&server);
        assert_eq!(client.save_in_background(), "ok", "{algorithm}: {}", server.log());
        client.ok("SET after 2");
        check_dump(&server.dump());
        assert!(server.log().to_lowercase().contains("space") || matches!(disk, Disk::Limited(_)));
    }
}

fn refuses_writes_only_as_configured(client: &mut Client) {
    client.ok("SET after 1"); // without a schedule nobody relies on saves
    client.call(&[b"CONFIG", b"SET", b"save", b"3600 1000000"]);
    for write in ["SET after 1", "DEL after", "INCR n", "EXPIRE after 10", "FLUSHALL"] {
        let Reply::Error(text) = client.ask(write) else { panic!("{write} was taken") };
        assert!(text.starts_with("MISCONF "), "{write}: {text}");
    }
    // Of two reasons scripts name the one that requests do.
    client.ok("CONFIG SET min-replicas-to-write 1");
    let plain = "redis.call('SET', 'after', '1')";
    let declared = format!("#!lua flags=allow-oom\n{plain}");
    for request in [&[&b"SET"[..], b"after", b"1"], &[b"EVAL", plain.as_bytes(), b"0"]] {
        let reply = client.call(request);
        assert!(reply.text().contains("MISCONF "), "{reply:?}");
    }
    let reply = client.call(&[b"EVAL", declared.as_bytes(), b"0"]);
    assert!(reply.text().starts_with("MISCONF "), "{reply:?}");
    client.ok("CONFIG SET min-replicas-to-write 0");
    assert_eq!(client.ask("GET after").text(), "1");
    client.ok("CONFIG SET stop-writes-on-bgsave-error no");
    client.ok("SET after 1");
    client.ok("CONFIG SET stop-writes-on-bgsave-error yes");
}

#[test]
fn flushing_during_a_save_leaves_the_image_whole() {
    for algorithm in ALGORITHMS {
        let kind = Kind::subject(algorithm);
        if kind == Kind::Redis {
            return; // Redis gives up the save.
        }
        let server = Server::start(kind);
        let mut client = server.client();
        let pairs = Pairs::new(20_000);
        // Half a second for each image, so that the flush falls into it.
        client.ok("CONFIG SET snapshot-bandwidth 1mb");
        for flush in ["FLUSHALL", "FLUSHDB", "FLUSHALL ASYNC"] {
            pairs.prefill(&mut client);
            client.send_raw(format!("BGSAVE\r\n{flush}\r\nSET a:1 other\r\nDBSIZE\r\n").as_bytes());
            let replies = [(); 4].map(|()| client.reply());
            assert_eq!(replies[3], Reply::Int(1), "{replies:?}");
            client.wait_for_save();
            assert_eq!(client.info("rdb_last_bgsave_status"), "ok", "{}", server.log());
            let folder = tempfile::tempdir().expect("a folder");
            fs::copy(server.dump(), folder.path().join("dump.rdb")).expect("a copy");
            let reader = Setup::new(kind).folder(folder.path()).start();
            let image = pairs.read(&mut reader.client()).expect("every key is in the image");
            assert!(image.iter().all(|&pair| pair == (0, 0)), "{algorithm}");
        }
    }
}

#[test]
fn a_killed_child_is_reported_and_the_next_save_works() {
    let server = Server::start(Kind::subject("fork"));
    let mut client = server.client();
    Pairs::new(50_000).prefill(&mut client);
    client.ok("SAVE");
    let before = fs::read(server.dump()).expect("the first dump");
    client.ok("SET after 1");
    wait_until("a child was killed before it ended", || {
        client.ok("BGSAVE");
        let killed = kill_children(&server);
        client.wait_for_save();
        killed && client.info("rdb_last_bgsave_status") == "err"
    });
    // Killed tries come after tries that were too late, which have saved.
    let now = fs::read(server.dump()).expect("still there");
    assert!(now == before || now.len() > before.len(), "the old dump is harmed");
    check_dump(&server.dump());
    assert_eq!(client.save_in_background(), "ok", "{}", server.log());
}

/// Kills what the server has forked, if anything.
fn kill_children(server: &Server) -> bool {
    let tasks = format!("/proc/{}/task", server.pid());
    let mut killed = false;
    for task in fs::read_dir(tasks).expect("a living process") {
        let path = task.expect("a task").path().join("children");
        for child in fs::read_to_string(path).unwrap_or_default().split_whitespace() {
            let child = child.parse().ok().and_then(Pid::from_raw).expect("a process");
            killed |= kill_process(child, Signal::KILL).is_ok();
        }
    }
    killed
}

#[test]
fn info_shows_how_a_save_goes() {
    let kind = Kind::subject("imprint");
    if kind == Kind::Redis {
        return; // It shows less.
    }
    let server = Server::start(kind);
    let mut client = server.client();
    Pairs::new(20_000).prefill(&mut client);
    client.ok("CONFIG SET snapshot-bandwidth 200kb");
    assert_eq!(client.info("current_save_keys_processed"), "0");
    client.ok("BGSAVE");
    assert_eq!(
        client.ask("BGSAVE"),
        Reply::Error("ERR Background save already in progress".into())
    );
    assert_eq!(client.ask("SAVE"), Reply::Error("ERR Background save already in progress".into()));
    wait_until("the save gets on", || client.info_int("current_save_keys_processed") > 0);
    assert_eq!(client.info_int("current_save_keys_total"), 40_000);
    wait_until("bytes are written", || client.info_int("current_save_bytes_processed") > 0);
    assert!(client.info_int("current_save_bytes_total") > 100_000);
    let eta: f64 = client.info("current_save_eta_sec").parse().expect("seconds");
    assert!(eta >= 0.0);
    assert!(client.info_int("rdb_current_bgsave_time_sec") >= 0);
    // The image holds what is overwritten meanwhile, and INFO shows that. However slow the writes
    // are, the save is slower.
    client.ok("CONFIG SET snapshot-bandwidth 20kb");
    Pairs::new(20_000).prefill(&mut client);
    assert!(client.info_int("snapshot_limbo_entries") > 0, "old entries wait for the image");
    client.ok("CONFIG SET snapshot-bandwidth 0");
    client.wait_for_save();
    for field in ["current_save_keys_processed", "current_save_keys_total"] {
        assert_eq!(client.info(field), "0", "{field}");
    }
    assert_eq!(client.info("rdb_saves"), "1");
    assert!(client.info_int("latest_begin_usec") >= 0);
    wait_until("limbo is empty", || client.info("snapshot_limbo_entries") == "0");
    assert_eq!(client.info("snapshot_arena_bytes"), "0");
}

#[test]
fn a_cancelled_save_leaves_the_old_dump_and_hinders_nobody() {
    let server = Server::start(Kind::Ours("imprint"));
    let mut client = server.client();
    client.call(&[b"CONFIG", b"SET", b"save", b"3600 1000000"]);
    let idle = "ERR Background saving is currently not in progress or scheduled";
    assert_eq!(client.ask("BGSAVE CANCEL"), Reply::Error(idle.into()));
    client.ok("SET old 1");
    client.save_in_background();
    let before = fs::read(server.dump()).expect("a dump file");
    Pairs::new(20_000).prefill(&mut client);
    client.ok("CONFIG SET snapshot-bandwidth 200kb");
    client.ok("BGSAVE");
    assert_eq!(client.ask("BGSAVE CANCEL").text(), "Background saving cancelled");
    client.wait_for_save();
    assert_eq!(client.info("rdb_last_bgsave_status"), "ok", "writes are not refused for it");
    client.ok("SET new 1");
    assert!(fs::read(server.dump()).expect("a dump file") == before, "the old dump is there");
    client.ok("CONFIG SET snapshot-bandwidth 0");
    assert_eq!(client.save_in_background(), "ok");
    assert!(fs::read(server.dump()).expect("a dump file") != before, "the next save works");
}

/// At this limit a dump of a few hundred kilobytes takes days.
const CRAWL: &str = "CONFIG SET snapshot-bandwidth 1";

/// A save and an image for a replica that would take days end at once when the limit goes.
#[test]
fn a_new_limit_holds_for_images_under_way() {
    for algorithm in ["imprint", "fork"] {
        let server = Server::start(Kind::Ours(algorithm));
        let mut client = server.client();
        Pairs::new(20_000).prefill(&mut client);
        client.ok("CONFIG SET repl-diskless-sync-delay 0");
        client.ok(CRAWL);
        client.ok("BGSAVE");
        wait_until("the save writes", || client.info_int("current_save_bytes_processed") > 0);
        client.ok("CONFIG SET snapshot-bandwidth 0");
        client.wait_for_save();
        assert_eq!(client.info("rdb_saves"), "1", "{algorithm}");
        client.ok(CRAWL);
        let replica = Server::start(Kind::Ours(algorithm));
        replica.client().ok(&format!("REPLICAOF 127.0.0.1 {}", server.port));
        wait_until("an image is under way", || client.info("rdb_bgsave_in_progress") == "1");
        client.ok("CONFIG SET snapshot-bandwidth 0");
        let link = || replica.client().info("master_link_status");
        wait_until("the replica has it", || link() == "up");
        assert_eq!(replica.client().ask("DBSIZE").int(), 40_000, "{algorithm}");
    }
}

/// A signal to stop ends the pacing of whatever image is under way, to the disk and to replicas,
/// and the last save knows no limit.
#[test]
fn a_stop_waits_for_no_pace() {
    for algorithm in ["imprint", "fork"] {
        for to_replica in [false, true] {
            let folder = tempfile::tempdir().expect("a folder");
            let kind = Kind::Ours(algorithm);
            let mut server = Setup::new(kind).folder(folder.path()).start();
            let mut client = server.client();
            let pairs = Pairs::new(20_000);
            pairs.prefill(&mut client);
            client.call(&[b"CONFIG", b"SET", b"save", b"3600 1000000"]);
            client.ok("CONFIG SET repl-diskless-sync-delay 0");
            client.ok(CRAWL);
            let mut replica = server.client();
            if to_replica {
                assert!(replica.send_raw(b"REPLCONF capa eof\r\nPSYNC ? -1\r\n"));
            } else {
                client.ok("BGSAVE");
            }
            let under_way = || client.info("rdb_bgsave_in_progress") == "1";
            wait_until("an image is under way", under_way);
            send_signal(server.pid(), Signal::TERM);
            let status = server.wait();
            assert!(status.success(), "{algorithm}: {status}\n{}", server.log());
            let again = Setup::new(kind).folder(folder.path()).start();
            let state = pairs.read(&mut again.client()).expect("every key was saved");
            assert!(state.iter().all(|&pair| pair == (0, 0)), "{algorithm}");
        }
    }
}

/// INFO and the log report a save that takes longer than its schedule allows.
#[test]
fn a_save_that_is_overdue_is_reported() {
    let server = Server::start(Kind::Ours("imprint"));
    let mut client = server.client();
    Pairs::new(20_000).prefill(&mut client);
    assert_eq!(client.info("snapshot_overdue_sec"), "0");
    client.ok(CRAWL);
    client.call(&[b"CONFIG", b"SET", b"save", b"1 1"]);
    wait_until("it is overdue", || client.info_int("snapshot_overdue_sec") > 0);
    let warning = "a save has been due for ";
    wait_until("it is logged", || server.log().contains(warning));
    assert!(server.log().contains("of 40000 keys: see snapshot-bandwidth"), "{}", server.log());
    client.ok("CONFIG SET snapshot-bandwidth 0");
    assert_eq!(client.ask("BGSAVE CANCEL").text(), "Background saving cancelled");
    wait_until("a save has come", || client.info_int("rdb_saves") > 0);
    wait_until("nothing is overdue", || client.info("snapshot_overdue_sec") == "0");
}
