//! Dump files go both ways between Stillframe and Redis, and bad ones are refused with a reason.

use crate::support::dataset::{self, Dataset};
use crate::support::{
    ALGORITHMS, Kind, Peer, Random, Server, Setup, are_here, output_of, own_port, redis_is_here,
    rounds,
};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

#[test]
fn redis_loads_our_dump_with_equal_content() {
    if !redis_is_here("redis_loads_our_dump_with_equal_content") {
        return;
    }
    for algorithm in ALGORITHMS {
        exchange(Kind::subject(algorithm), Kind::Redis);
    }
}

#[test]
fn our_server_loads_the_dump_of_redis_with_equal_content() {
    if !redis_is_here("our_server_loads_the_dump_of_redis_with_equal_content") {
        return;
    }
    exchange(Kind::Redis, Kind::subject("imprint"));
}

#[test]
fn our_server_loads_its_own_dump_with_equal_content() {
    for algorithm in ALGORITHMS {
        exchange(Kind::subject(algorithm), Kind::subject(algorithm));
    }
}

/// Fills `from`, lets it save, and has `to` load the file.
fn exchange(from: Kind, to: Kind) {
    let mut random = Random::new("exchange");
    let expected = dataset::random(&mut random, rounds(3_000, 100_000));
    let writer = Server::start(from);
    let mut client = writer.client();
    dataset::load(&mut client, &expected);
    // What has expired by the time of the save must not come back.
    client.ok("SET gone v PXAT 1");
    client.ok("SAVE");
    check_dump(&writer.dump());

    let folder = tempfile::tempdir().expect("a folder");
    fs::copy(writer.dump(), folder.path().join("dump.rdb")).expect("the dump was written");
    let reader = Setup::new(to).folder(folder.path()).start();
    let mut client = reader.client();
    dataset::assert_same(&expected, &dataset::read(&mut client), 0);
    // And once more through a background save of the reader.
    assert_eq!(client.save_in_background(), "ok", "{}", reader.log());
    check_dump(&reader.dump());
}

/// Redis's own check of a file, where it is installed.
pub(crate) fn check_dump(path: &Path) {
    static IS_HERE: OnceLock<bool> = OnceLock::new();
    if !IS_HERE.get_or_init(|| are_here("the check of dumps", &[Peer::RedisCheckRdb])) {
        return;
    }
    let output = Command::new("redis-check-rdb").arg(path).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("RDB looks OK"), "{text}");
}

/// Streams with groups, in what one server writes and the other reads.
#[test]
fn streams_go_both_ways() {
    if !redis_is_here("streams_go_both_ways") {
        return;
    }
    let ours = Kind::subject("imprint");
    let debug = ["--enable-debug-command", "yes"];
    for (from, to) in [(Kind::Redis, ours), (ours, Kind::Redis), (ours, ours)] {
        let writer = Setup::new(from).flags(&debug).start();
        let mut client = writer.client();
        let mut random = Random::new("streams_go_both_ways");
        for number in 0..rounds(2_000, 20_000) {
            let key = format!("stream{}", random.below(4));
            let field = format!("field{}", random.below(3));
            client.ok(&format!(
                "XADD {key} {}-{} {field} {number} b v",
                number + 1,
                random.below(3)
            ));
        }
        for key in ["stream0", "stream1", "empty"] {
            client.ok(&format!("XGROUP CREATE {key} group 0 MKSTREAM"));
            client.ok(&format!("XREADGROUP GROUP group one COUNT 30 STREAMS {key} >"));
            client.ok(&format!("XREADGROUP GROUP group two NOACK STREAMS {key} >"));
        }
        client.ok("XDEL stream0 5-0 5-1 5-2 9-0 9-1 9-2");
        client.ok("XTRIM stream2 MAXLEN 100");
        client.ok("XADD last 18446744073709551615-18446744073709551615 f v");
        client.ok("SAVE");
        check_dump(&writer.dump());
        let folder = tempfile::tempdir().expect("a folder");
        fs::copy(writer.dump(), folder.path().join("dump.rdb")).expect("the dump was written");
        let reader = Setup::new(to).folder(folder.path()).flags(&debug).start();
        let mut other = reader.client();
        for request in [
            "DEBUG DIGEST",
            "XINFO GROUPS stream0",
            "XINFO GROUPS stream1",
            "XINFO GROUPS empty",
            "XLEN stream2",
            "XPENDING stream0 group",
            "XRANGE stream0 - + COUNT 7",
            "XREVRANGE last + -",
        ] {
            assert_eq!(client.ask(request), other.ask(request), "{request}");
        }
        assert_eq!(other.save_in_background(), "ok", "{}", reader.log());
        check_dump(&reader.dump());
    }
}

#[test]
fn damaged_and_truncated_dumps_are_refused_with_an_offset() {
    let mut random = Random::new("damaged_and_truncated_dumps");
    // The real one's file where it is at hand, for its encodings.
    let here = redis_is_here("damage to files of redis-server's own");
    let kind = if here { Kind::Redis } else { Kind::subject("imprint") };
    let server = Server::start(kind);
    let mut client = server.client();
    let mut dataset: Dataset = dataset::random(&mut random, 200);
    dataset.retain(|_, item| item.value.len() < 5_000);
    dataset::load(&mut client, &dataset);
    client.ok("SAVE");
    let whole = fs::read(server.dump()).expect("a dump");
    if Kind::subject("imprint") == Kind::Redis {
        return; // Redis makes no such promise.
    }
    for round in 0..rounds(60, 3_000) {
        let mut damaged = whole.clone();
        let place = random.below(whole.len());
        let damage = match round % 4 {
            0 => {
                damaged.truncate(place);
                "truncated"
            }
            1 => {
                damaged[place] ^= 1 << random.below(8);
                "a bit flipped"
            }
            2 => {
                let end = (place + 1 + random.below(64)).min(whole.len());
                let noise = random.bytes(end - place);
                damaged[place..end].copy_from_slice(&noise);
                "overwritten"
            }
            _ => {
                damaged.drain(place..(place + 1 + random.below(8)).min(whole.len()));
                "a piece cut out"
            }
        };
        if damaged == whole {
            continue;
        }
        let text = refusal(&damaged);
        // A file that is not one from its first bytes on has no place that is wrong.
        let stranger = place < 9 && (text.contains("not an RDB file") || text.contains("version"));
        let names = stranger || ["byte ", "offset "].iter().any(|word| names_place(&text, word));
        assert!(names, "{damage} at {place} of {}: {text}", whole.len());
    }
}

/// Whether a number follows `word` somewhere.
fn names_place(text: &str, word: &str) -> bool {
    text.split(word).skip(1).any(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// Starts our server on a file that it must refuse; its message.
fn refusal(dump: &[u8]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("dump.rdb"), dump).expect("a file");
    let setup = Setup::new(Kind::subject("imprint"));
    let command = setup.command(folder.path(), own_port());
    let output = output_of(command);
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    text
}

/// The file holds when, or how often, keys were used if the eviction policy needs that.
#[test]
fn uses_of_keys_are_kept_in_files() {
    let kinds = [Kind::subject("imprint"), Kind::subject("fork"), Kind::Redis];
    let pairs = kinds.into_iter().flat_map(|from| kinds.map(|to| (from, to)));
    for (from, to) in pairs.filter(|pair| *pair != (Kind::Redis, Kind::Redis)) {
        if (from == Kind::Redis || to == Kind::Redis) && !redis_is_here("uses of keys") {
            continue;
        }
        for (policy, option) in [("allkeys-lru", "IDLETIME"), ("volatile-lfu", "FREQ")] {
            let config = format!("maxmemory-policy {policy}\nlfu-decay-time 0\n");
            let [source, folder] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
            let writer = Setup::new(from).folder(source.path()).config(&config).start();
            let mut client = writer.client();
            client.ok("RPUSH list a b c");
            for (key, number) in [("list", 250), ("string", 120), ("mortal", 77)] {
                client.ok("SET model value");
                let from = if key == "list" { "list" } else { "model" };
                let dump = client.call(&[b"DUMP", from.as_bytes()]);
                let ttl = if key == "mortal" { "1000000" } else { "0" };
                let (dump, number) = (dump.bytes().expect("a payload"), number.to_string());
                let restore = [&b"RESTORE"[..], key.as_bytes(), ttl.as_bytes(), dump, b"REPLACE"];
                let uses = [option.as_bytes(), number.as_bytes()];
                assert_eq!(client.call(&[&restore[..], &uses].concat()).text(), "OK");
            }
            client.ok("SAVE");
            fs::copy(writer.dump(), folder.path().join("dump.rdb")).expect("the dump was written");
            let reader = Setup::new(to).folder(folder.path()).config(&config).start();
            let mut client = reader.client();
            for (key, number) in [("list", 250), ("string", 120), ("mortal", 77)] {
                let found = client.ask(&format!("OBJECT {option} {key}")).int();
                // It was idle for a while more.
                let found = if policy == "allkeys-lru" { found.min(number) } else { found };
                assert_eq!(found, number, "{from:?} to {to:?}: OBJECT {option} {key}");
            }
        }
    }
}
