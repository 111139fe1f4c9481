//! Memory returns to its floor after images that were churned under.

use crate::requests::resident;
use crate::support::{
    ALGORITHMS, Client, Kind, Random, Server, Setup, redis_is_here, rounds, wait_until,
};

const KEYS: usize = 5_000;

/// Sends many commands, then takes as many replies.
fn pipeline(client: &mut Client, commands: impl Iterator<Item = String>) {
    let lines: Vec<String> = commands.collect();
    for batch in lines.chunks(1000) {
        assert!(client.send_raw(batch.concat().as_bytes()));
        batch.iter().for_each(|_| drop(client.raw()));
    }
}

fn store(client: &mut Client, name: &str, random: &mut Random, end: &str) {
    let lines = (0..KEYS).map(|i| {
        let length = 200 + random.below(1800);
        format!("SET {name}:{i} {}{end}\r\n", "v".repeat(length))
    });
    pipeline(client, lines);
}

/// One image, and under it every way in which entries come and go.
fn churn(client: &mut Client, random: &mut Random) {
    client.ok("BGSAVE");
    store(client, "stay", random, "");
    store(client, "brief", random, " PX 50");
    store(client, "gone", random, "");
    pipeline(client, (0..KEYS).map(|i| format!("APPEND gone:{i} more\r\n")));
    pipeline(client, (0..KEYS / 2).map(|i| format!("DEL gone:{i}\r\n")));
    pipeline(client, (KEYS / 2..KEYS).map(|i| format!("UNLINK gone:{i}\r\n")));
    client.ok("SELECT 1");
    store(client, "flushed", random, "");
    client.ok("FLUSHDB");
    client.ok("SELECT 0");
    client.wait_for_save();
    wait_until("what is brief has expired", || client.ask("DBSIZE").int() == KEYS as i64);
}

#[test]
fn memory_returns_to_its_floor_after_images() {
    for algorithm in ALGORITHMS {
        let server = Server::start(Kind::subject(algorithm));
        let mut client = server.client();
        let mut random = Random::new("memory");
        store(&mut client, "stay", &mut random, "");
        // The first images make what later ones use again.
        (0..2).for_each(|_| churn(&mut client, &mut random));
        let (floor, resident_floor) = (client.info_int("used_memory"), resident(&server));
        (0..rounds(3, 50)).for_each(|_| churn(&mut client, &mut random));
        let slack = floor / 20 + (1 << 20);
        wait_until("used memory is back at its floor", || {
            client.info_int("used_memory") <= floor + slack
        });
        if server.kind != Kind::Redis {
            assert_eq!(client.info("snapshot_limbo_bytes"), "0", "{algorithm}");
        }
        let now = resident(&server);
        let most = resident_floor + resident_floor / 2 + (64 << 20);
        assert!(now <= most, "{algorithm}: {now} bytes resident, {resident_floor} before");
    }
}

/// Data is deleted in every way: the system has the memory back after MEMORY PURGE, and without it
/// a while later.
#[test]
fn memory_that_is_free_goes_back_to_the_system() {
    let server = Server::start(Kind::Ours("imprint"));
    let mut client = server.client();
    let value = vec![b'v'; 8_000];
    let floor = resident(&server);
    for (way, purges) in [("FLUSHALL", true), ("FLUSHALL", false), ("DEL", false)] {
        let names: Vec<String> = (0..30_000).map(|number| format!("key:{number}")).collect();
        for batch in names.chunks(500) {
            let pairs = batch.iter().flat_map(|name| [name.as_bytes(), &value]);
            let request: Vec<&[u8]> = std::iter::once(&b"MSET"[..]).chain(pairs).collect();
            assert_eq!(client.call(&request).text(), "OK");
        }
        let full = resident(&server);
        assert!(full > floor + (200 << 20), "{way}: {full} bytes hold it all");
        if way == "FLUSHALL" {
            client.ok("FLUSHALL");
        } else {
            for batch in names.chunks(500) {
                let names = batch.iter().map(String::as_bytes);
                let request: Vec<&[u8]> = std::iter::once(&b"DEL"[..]).chain(names).collect();
                assert_eq!(client.call(&request).int(), 500);
            }
        }
        // What is deleted is freed by another thread, which may take a moment.
        wait_until(&format!("{way}, purges {purges}: memory is given back"), || {
            if purges {
                client.ok("MEMORY PURGE");
            }
            resident(&server) < floor + (80 << 20)
        });
        assert!(client.info_int("used_memory_rss") < (floor + (90 << 20)) as i64);
    }
}

/// What an entry of ten fields takes, beside redis-server.
#[test]
fn an_entry_of_a_stream_takes_at_most_1_3_times_what_it_takes_in_redis() {
    if !redis_is_here("an_entry_of_a_stream") {
        return;
    }
    const ENTRIES: i64 = 30_000;
    for value in ["v", "a value of thirty bytes, or so."] {
        let value = value.replace(' ', "_");
        let [ours, theirs] = [Kind::Ours("imprint"), Kind::Redis].map(|kind| {
            let server = Server::start(kind);
            let mut client = server.client();
            let before = client.info_int("used_memory");
            let fields: String = (0..10).map(|field| format!(" field{field} {value}")).collect();
            pipeline(&mut client, (0..ENTRIES).map(|_| format!("XADD s *{fields}\r\n")));
            assert_eq!(client.ask("XLEN s").int(), ENTRIES);
            (client.info_int("used_memory") - before) / ENTRIES
        });
        assert!(ours * 10 <= theirs * 13, "{ours} bytes here, {theirs} there, of '{value}'");
    }
}

/// A reply of 100 MB is in memory once, and counted: its buffer does not grow by copies, and gives
/// back what was written.
#[test]
fn a_large_reply_takes_its_size_once_and_is_counted() {
    const MIB: i64 = 1 << 20;
    let server = Server::start(Kind::Ours("imprint"));
    let mut watch = server.client();
    watch.ok(&format!("SET k {}", "v".repeat(1 << 20)));
    let before = resident(&server) as i64;
    let mut client = server.client();
    let keys = vec!["k"; 100].join(" ");
    assert!(client.send_raw(format!("MGET {keys}\r\n").as_bytes()));
    wait_until("the reply is there", || watch.info_int("mem_clients_normal") > 90 * MIB);
    let counted = watch.info_int("mem_clients_normal");
    let taken = resident(&server) as i64 - before;
    assert!(taken < counted + 35 * MIB, "{taken} bytes, counted {counted}");
    drop(client);
    wait_until("the client is gone", || watch.info("connected_clients") == "1");
    wait_until("its memory is free", || (resident(&server) as i64) < before + 35 * MIB);
}

/// One key of ten stays: the holes between keys go back to the system once they may be closed, and
/// the keys are what they were, in an image as well.
#[test]
fn memory_between_keys_goes_back_to_the_system() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup::new(Kind::Ours("imprint")).folder(folder.path());
    let server = setup.config("activedefrag no\nenable-debug-command local\n").start();
    let mut client = server.client();
    let fill = (0..60_000).map(|at| format!("SET key:{at} {}\r\n", "v".repeat(900 + at % 90)));
    pipeline(&mut client, fill);
    pipeline(&mut client, (0..3_000).map(|at| format!("HSET hash field:{at} {at}\r\n")));
    pipeline(
        &mut client,
        (0..60_000).filter(|at| at % 10 != 7).map(|at| format!("DEL key:{at}\r\n")),
    );
    client.ok("MEMORY PURGE");
    let (full, digest) = (resident(&server), client.ask("DEBUG DIGEST").text());
    assert_eq!(digest.len(), 40);
    client.ok("CONFIG SET active-defrag-ignore-bytes 10mb");
    client.ok("CONFIG SET activedefrag yes");
    wait_until("holes have gone back", || resident(&server) < full / 2);
    wait_until("the pass has ended", || client.info("active_defrag_running") == "0");
    assert!(client.info_int("active_defrag_key_hits") > 1000);
    assert_eq!(client.ask("DEBUG DIGEST").text(), digest);
    client.ok("DEBUG RELOAD");
    assert_eq!(client.ask("DEBUG DIGEST").text(), digest);
}

/// As above, where another thread freed what is gone: what only a view, or an image, still had.
#[test]
fn memory_that_a_view_held_goes_back_to_the_system() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup::new(Kind::Ours("imprint")).folder(folder.path());
    let server = setup.config("activedefrag no\nenable-debug-command local\n").start();
    let mut client = server.client();
    let set =
        |at: usize, letter: &str| format!("SET key:{at} {}\r\n", letter.repeat(900 + at % 90));
    pipeline(&mut client, (0..60_000).map(|at| set(at, "v")));
    let view = client.ask("STILLFRAME VIEW OPEN").int();
    pipeline(&mut client, (0..60_000).filter(|at| at % 10 != 7).map(|at| set(at, "w")));
    let (full, digest) = (resident(&server), client.ask("DEBUG DIGEST").text());
    client.ok(&format!("STILLFRAME VIEW CLOSE {view}"));
    client.ok("CONFIG SET active-defrag-ignore-bytes 10mb");
    client.ok("CONFIG SET activedefrag yes");
    wait_until("holes have gone back", || resident(&server) < full / 3 * 2);
    wait_until("the pass has ended", || client.info("active_defrag_running") == "0");
    assert_eq!(client.ask("DEBUG DIGEST").text(), digest);
}
