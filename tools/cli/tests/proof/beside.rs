//! Images beside each other: a save, and images for replicas and for `redis-cli --rdb`, in either
//! order, under writes that show any mistake ([`Pairs`]).

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::files::check_dump;
use crate::pairs::{Counts, Pairs, WRITERS};
use crate::replication::{wait_for_all, wait_for_link};
use crate::support::{ALGORITHMS, Client, Kind, Random, Server, Setup, redis_is_here, wait_until};

/// Runs `body` while all pairs are written.
fn while_written<R>(server: &Server, pairs: &Pairs, body: impl FnOnce() -> R) -> R {
    std::thread::scope(|scope| {
        let _guard = pairs.stop.at_the_end();
        for w in 0..WRITERS {
            scope.spawn(move || pairs.write(w, &mut server.client()));
        }
        wait_until("writes begin", || Pairs::counts(&pairs.acknowledged).iter().all(|&n| n > 0));
        body()
    })
}

/// A dump file holds the pairs as they were at one moment between these counts.
fn judge_file(pairs: &Pairs, kind: Kind, file: &Path, [low, high]: [Counts; 2]) {
    check_dump(file);
    let folder = tempfile::tempdir().expect("a folder");
    fs::copy(file, folder.path().join("dump.rdb")).expect("a copy");
    let reader = Setup::new(kind).folder(folder.path()).start();
    pairs.judge(&mut reader.client(), low, high).expect("the file is right");
}

/// A server that sends an image as soon as a replica asks for it.
fn at_once(kind: Kind) -> Setup {
    Setup::new(kind).flags(&["--repl-diskless-sync-delay", "0"])
}

fn is_saving(client: &mut Client) -> bool {
    client.info_int("current_save_keys_total") > 0
}

/// The save is slow; the image for a replica begins beside it, and the one for redis-cli as well.
#[test]
fn images_for_replicas_begin_during_a_save() {
    for algorithm in ALGORITHMS {
        let kind = Kind::Ours(algorithm);
        let server = at_once(kind).start();
        let mut client = server.client();
        client.call(&[b"CONFIG", b"SET", b"client-output-buffer-limit", b"replica 0 0 0"]);
        let pairs = Pairs::new(10_000);
        pairs.prefill(&mut client);
        let before = Pairs::counts(&pairs.acknowledged);
        let replica = while_written(&server, &pairs, || {
            client.ok("CONFIG SET snapshot-bandwidth 50kb");
            client.ok("BGSAVE");
            let replica = Server::start(kind);
            replica.client().ok(&format!("REPLICAOF 127.0.0.1 {}", server.port));
            wait_until("an image is sent", || server.log().contains("sending an image"));
            assert!(is_saving(&mut client), "{algorithm}: it waited for the save");
            client.ok("CONFIG SET snapshot-bandwidth 0");
            wait_for_link(&replica);
            replica
        });
        wait_for_all(&server, &replica);
        let counts = Pairs::counts(&pairs.acknowledged);
        assert_eq!(pairs.judge(&mut replica.client(), counts, counts), Ok(counts), "{algorithm}");
        client.wait_for_save();
        assert_eq!(client.info("rdb_last_bgsave_status"), "ok", "{}", server.log());
        let range = [before, Pairs::counts(&pairs.sent)];
        judge_file(&pairs, kind, &server.dump(), range);
        wait_until("nothing is kept", || client.info("snapshot_limbo_bytes") == "0");
    }
}

#[test]
fn redis_cli_gets_an_image_during_a_save() {
    if !redis_is_here("redis_cli_gets_an_image_during_a_save") {
        return;
    }
    let kind = Kind::Ours("imprint");
    let server = at_once(kind).start();
    let mut client = server.client();
    let pairs = Pairs::new(5_000);
    pairs.prefill(&mut client);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("got.rdb");
    while_written(&server, &pairs, || {
        // Each image takes a second or two; the one for redis-cli ends after the save.
        client.ok("CONFIG SET snapshot-bandwidth 100kb");
        client.ok("BGSAVE");
        let low = Pairs::counts(&pairs.acknowledged);
        let mut tool = Command::new("redis-cli");
        let port = server.port.to_string();
        let mut tool = tool.args(["-p", &port, "--rdb"]).arg(&file).spawn().expect("redis-cli");
        wait_until("an image is sent", || server.log().contains("sending an image"));
        assert!(is_saving(&mut client), "it waited for the save");
        let high = Pairs::counts(&pairs.sent);
        client.ok("CONFIG SET snapshot-bandwidth 0");
        assert!(tool.wait().expect("it ends").success());
        pairs.stop.now();
        judge_file(&pairs, kind, &file, [low, high]);
    });
    client.wait_for_save();
    assert_eq!(client.info("rdb_last_bgsave_status"), "ok", "{}", server.log());
}

/// A replica that reads nothing holds its image for long: saves go on, as does a log that begins.
#[test]
fn saves_begin_while_an_image_is_sent() {
    for algorithm in ALGORITHMS {
        let kind = Kind::Ours(algorithm);
        let server = at_once(kind).start();
        let mut client = server.client();
        client.call(&[b"CONFIG", b"SET", b"client-output-buffer-limit", b"replica 0 0 0"]);
        client.ok("CONFIG SET auto-aof-rewrite-percentage 0");
        for number in 0..20 {
            let (key, value) =
                (format!("large:{number}"), Random::with_seed(number).bytes(1 << 20));
            client.call(&[b"SET", key.as_bytes(), &value]);
        }
        let pairs = Pairs::new(2_000);
        pairs.prefill(&mut client);
        while_written(&server, &pairs, || {
            let mut replica = server.client();
            replica.ok("REPLCONF capa eof capa psync2");
            replica.send(&[b"PSYNC", b"?", b"-1"]);
            wait_until("an image is sent", || client.info("rdb_bgsave_in_progress") == "1");
            for save in ["BGSAVE", "SAVE", "BGREWRITEAOF", "CONFIG SET appendonly yes"] {
                let low = Pairs::counts(&pairs.acknowledged);
                let saves = client.info_int("rdb_saves");
                assert!(!client.ask(save).text().starts_with("ERR"), "{algorithm}: {save}");
                wait_until("it is saved", || client.info_int("rdb_saves") > saves);
                assert!(server.log().matches("replicas got their image").count() == 0);
                let high = Pairs::counts(&pairs.sent);
                match save {
                    // Its other half is in the log.
                    "CONFIG SET appendonly yes" => check_dump(&server.dump()),
                    _ => judge_file(&pairs, kind, &server.dump(), [low, high]),
                }
            }
            // Both are given up in turn.
            client.ok("CONFIG SET snapshot-bandwidth 1");
            client.ok("BGSAVE");
            client.ok("BGSAVE CANCEL");
            wait_until("the save has ended", || !is_saving(&mut client));
            client.ok("BGSAVE");
            drop(replica);
            wait_until("the image has ended", || {
                server.log().contains("replicas did not get their image")
            });
            assert!(is_saving(&mut client), "{algorithm}: only one of them was stopped");
            client.ok("CONFIG SET snapshot-bandwidth 0");
            client.wait_for_save();
        });
        assert_eq!(client.info("rdb_last_bgsave_status"), "ok", "{}", server.log());
        wait_until("nothing is kept", || client.info("snapshot_limbo_bytes") == "0");
    }
}

/// A stop waits for neither.
#[test]
fn a_stop_ends_both() {
    let mut server = at_once(Kind::Ours("imprint")).start();
    let mut client = server.client();
    Pairs::new(20_000).prefill(&mut client);
    client.ok("CONFIG SET snapshot-bandwidth 1");
    client.ok("BGSAVE");
    let replica = Server::start(Kind::Ours("imprint"));
    replica.client().ok(&format!("REPLICAOF 127.0.0.1 {}", server.port));
    wait_until("an image is sent", || server.log().contains("sending an image"));
    assert!(is_saving(&mut client));
    client.send_raw(b"SHUTDOWN SAVE NOW\r\n");
    assert!(server.wait().success(), "{}", server.log());
    check_dump(&server.dump());
}
