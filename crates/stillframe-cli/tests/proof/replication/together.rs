//! Features that meet: short lives of keys, clients that wait, databases that change places and
//! transactions, with replicas of both kinds and a log. All end equal.

use super::{Who, assert_equal, ours, wait_for_link};
use crate::replayed::contents;
use crate::support::{Client, Kind, Random, Server, Setup, redis_is_here, rounds, wait_until};
use std::path::Path;
use std::time::Duration;

/// `k` stands for a key of any type, `t` for a short time, `v` for a small number.
const LINES: [&str; 40] = [
    "SET k v",
    "SET k v PX t",
    "GETDEL k",
    "GETEX k PX t",
    "INCRBYFLOAT k 0.1",
    "RPUSH k v v v",
    "RPUSH k v",
    "LPUSH k v",
    "LPOP k",
    "LMOVE k k LEFT RIGHT",
    "LMPOP 2 k k RIGHT COUNT 2",
    "SADD k v v x",
    "SPOP k",
    "SUNIONSTORE k k k",
    "HSET k v v",
    "ZADD k v a v b",
    "ZADD k v a",
    "ZPOPMIN k",
    "ZUNIONSTORE k 2 k k",
    "SORT k ALPHA STORE k",
    "PEXPIRE k t",
    "PEXPIRE k t",
    "PEXPIRE k t",
    "PERSIST k",
    "DEL k k",
    "RENAME k k",
    "RENAMENX k k",
    "COPY k k REPLACE",
    "COPY k k DB 1 REPLACE",
    "MOVE k 1",
    "MOVE k 0",
    "SWAPDB 0 1",
    "SWAPDB 0 1",
    "SELECT 0",
    "SELECT 1",
    "MULTI",
    "EXEC",
    "EXEC",
    "EXISTS k k k",
    "FLUSHDB",
];

const WAITING: [&str; 6] = [
    "BLPOP k k 0.05",
    "BRPOP k 0.05",
    "BLMOVE k k LEFT RIGHT 0.05",
    "BLMPOP 0.05 2 k k LEFT",
    "BZPOPMIN k k 0.05",
    "BZMPOP 0.05 1 k MAX",
];

fn line(random: &mut Random) -> Vec<Vec<u8>> {
    let line = if random.below(4) == 0 { random.pick(&WAITING) } else { random.pick(&LINES) };
    let fill = |word: &str| match word {
        "k" => format!("k{}", random.below(4)),
        "v" => random.below(4).to_string(),
        "t" => (1 + random.below(30)).to_string(),
        word => word.to_owned(),
    };
    line.split(' ').map(fill).map(String::into_bytes).collect()
}

fn play(port: u16, mut random: Random) {
    let mut client = Client::try_connect(port).expect("the server takes a connection");
    for _ in 0..rounds(300, 3_000) {
        let words = line(&mut random);
        client.call(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        if random.below(20) == 0 {
            std::thread::sleep(Duration::from_millis(random.below(8) as u64));
        }
    }
    client.call(&[b"DISCARD"]);
}

fn start(folder: &Path) -> Server {
    let settings = "appendonly yes\nappendfsync always\nenable-debug-command yes\n\
                    repl-diskless-sync-delay 0\n";
    Setup::new(Kind::Ours("imprint")).folder(folder).config(settings).start()
}

#[test]
fn log_and_replicas_end_equal_whatever_meets() {
    let mut random = Random::new("together");
    let redis = redis_is_here("together");
    for active in ["0", "1"] {
        let folder = tempfile::tempdir().expect("a folder");
        let start = || start(folder.path());
        let mut primary = start();
        primary.client().ok(&format!("DEBUG SET-ACTIVE-EXPIRE {active}"));
        let mut replicas = vec![Who::Ours.follow(primary.port)];
        if redis {
            replicas.push(Who::Redis.follow(primary.port));
        }
        replicas.iter().for_each(wait_for_link);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (port, random) = (primary.port, Random::with_seed(random.next()));
                scope.spawn(move || play(port, random));
            }
        });
        replicas.iter().for_each(|replica| assert_equal(&primary, replica));
        let mut client = primary.client();
        assert_eq!(client.info("sync_full"), replicas.len().to_string(), "{}", primary.log());
        let before = contents(&mut client);
        primary.kill();
        let again = start();
        assert_eq!(contents(&mut again.client()), before, "active expiry: {active}");
    }
}

/// The log says in which order a key expired and two databases changed places.
#[test]
fn a_swap_with_an_expired_key_comes_back_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = start(folder.path());
    let replica = ours("imprint", "");
    replica.client().ok(&format!("REPLICAOF 127.0.0.1 {}", server.port));
    wait_for_link(&replica);
    let (mut waiting, mut client) = (server.client(), server.client());
    waiting.send(&[b"BLPOP", b"k", b"0"]);
    wait_until("it waits", || client.info("blocked_clients") == "1");
    for line in ["DEBUG SET-ACTIVE-EXPIRE 0", "SET k live", "SELECT 1", "RPUSH k x", "PEXPIRE k 30"]
    {
        client.ok(line);
    }
    std::thread::sleep(Duration::from_millis(60));
    client.ok("SWAPDB 0 1");
    assert_equal(&server, &replica);
    let before = contents(&mut client);
    assert!(before.contains_key(&(1, "k".to_owned())), "{before:?}");
    server.kill();
    assert_eq!(contents(&mut start(folder.path()).client()), before);
}
