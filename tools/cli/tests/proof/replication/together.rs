//! Features that meet: short lives of keys, clients that wait, databases that change places,
//! transactions, scripts, functions, streams and eviction, with replicas of both kinds and a log.
//! All end equal.

use super::{Who, assert_equal, ours, wait_for_link};
use crate::replayed::contents;
use crate::support::{Client, Kind, Random, Server, Setup, redis_is_here, rounds, wait_until};
use std::path::Path;
use std::time::Duration;

/// `k` stands for a key of any type, `t` for a short time, `v` for a small number.
const LINES: [&str; 67] = [
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
    "SETRANGE k 9000 v",
    "XADD k * f v",
    "XADD k * f v g v",
    "XADD k MAXLEN 3 * f v",
    "XADD k NOMKSTREAM MAXLEN ~ 2 * f v",
    "XGROUP CREATE k g 0 MKSTREAM",
    "XGROUP CREATE k g $ MKSTREAM",
    "XGROUP DELCONSUMER k g d",
    "XGROUP DESTROY k g",
    "XREADGROUP GROUP g c COUNT 2 STREAMS k >",
    "XREADGROUP GROUP g d NOACK COUNT 1 STREAMS k >",
    "XAUTOCLAIM k g d 0 0 COUNT 2",
    "XTRIM k MAXLEN 1",
    "XSETID k 99999999999999-v",
    "EVAL redis.call('SET',KEYS[1],ARGV[1])return(redis.call('LPUSH',KEYS[2],ARGV[1])) 2 k k v",
    "EVAL redis.call('DEL',KEYS[1])redis.call('XADD',KEYS[1],'*','f','1')error('x') 1 k",
    "EVAL redis.call('SELECT',1)redis.call('INCR',KEYS[1])redis.call('SELECT',0)\
     redis.call('INCR',KEYS[1])return(redis.call('NOPE')) 1 k",
    "EVAL redis.call('SWAPDB',0,1)redis.call('PEXPIRE',KEYS[1],ARGV[1])\
     return(redis.call('RENAME',KEYS[1],KEYS[2])) 2 k k t",
    "EVAL redis.call('XADD',KEYS[1],'*','f',redis.call('TIME')[1])\
     redis.call('XREADGROUP','GROUP','g','c','STREAMS',KEYS[1],'>') 1 k",
    "EVAL redis.pcall('SPOP',KEYS[1])redis.pcall('SETRANGE',KEYS[2],9000,'x')return{} 2 k k",
    "FUNCTION LOAD REPLACE LIBRARY",
    "FUNCTION LOAD LIBRARY",
    "FUNCTION FLUSH",
    "FCALL both 2 k k v",
    "FCALL both 2 k k v",
    "BGSAVE",
    "BGREWRITEAOF",
];

/// Source of a library with one function, which takes two keys and a value.
const LIBRARY: &str = "#!lua name=lib\n\
    redis.register_function('both', function(keys, args) \
    redis.call('SET', keys[1], args[1]) return redis.call('RPUSH', keys[2], args[1]) end)";

const WAITING: [&str; 8] = [
    "BLPOP k k 0.05",
    "BRPOP k 0.05",
    "BLMOVE k k LEFT RIGHT 0.05",
    "BLMPOP 0.05 2 k k LEFT",
    "BZPOPMIN k k 0.05",
    "BZMPOP 0.05 1 k MAX",
    "XREAD BLOCK 50 STREAMS k $",
    "XREADGROUP GROUP g c BLOCK 50 STREAMS k >",
];

fn line(random: &mut Random) -> Vec<Vec<u8>> {
    let line = if random.below(4) == 0 { random.pick(&WAITING) } else { random.pick(&LINES) };
    let fill = |word: &str| match word {
        "k" => format!("k{}", random.below(4)),
        "v" => random.below(4).to_string(),
        "t" => (1 + random.below(30)).to_string(),
        "99999999999999-v" => format!("99999999999999-{}", random.below(4)),
        "LIBRARY" => LIBRARY.to_owned(),
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

/// The random lines alone need not reach the limit: keys come and go in them.
fn fill_until_one_goes(client: &mut Client) {
    for n in 0..10_000 {
        client.call(&[b"SET", format!("filler:{n}").as_bytes(), &[b'f'; 1000]]);
        if client.info_int("evicted_keys") > 0 {
            return;
        }
    }
    panic!("nothing was evicted");
}

#[test]
fn log_and_replicas_end_equal_whatever_meets() {
    let mut random = Random::new("together");
    let redis = redis_is_here("together");
    for (active, evicts) in [("0", false), ("1", false), ("1", true)] {
        let folder = tempfile::tempdir().expect("a folder");
        let start = || start(folder.path());
        let mut primary = start();
        let mut client = primary.client();
        client.ok(&format!("DEBUG SET-ACTIVE-EXPIRE {active}"));
        if evicts {
            let limit = client.info_int("used_memory") + (40 << 10);
            client.ok(&format!("CONFIG SET maxmemory {limit} maxmemory-policy allkeys-random"));
        }
        let mut replicas = vec![Who::Ours.follow(primary.port)];
        if redis {
            replicas.push(Who::Redis.follow(primary.port));
        }
        replicas.iter().for_each(wait_for_link);
        if evicts {
            fill_until_one_goes(&mut client);
        }
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (port, random) = (primary.port, Random::with_seed(random.next()));
                scope.spawn(move || play(port, random));
            }
        });
        let mut client = primary.client();
        assert_eq!(client.info_int("evicted_keys") > 0, evicts);
        client.ok("CONFIG SET maxmemory 0");
        replicas.iter().for_each(|replica| assert_equal(&primary, replica));
        let libraries = |server: &Server| server.client().ask("FUNCTION LIST WITHCODE");
        let known = libraries(&primary);
        assert!(replicas.iter().all(|replica| libraries(replica) == known), "{known:?}");
        assert_eq!(client.info("sync_full"), replicas.len().to_string(), "{}", primary.log());
        let before = contents(&mut client);
        primary.kill();
        let again = start();
        assert_eq!(contents(&mut again.client()), before, "active expiry: {active}");
        assert_eq!(libraries(&again), known);
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
