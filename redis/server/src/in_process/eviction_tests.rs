//! `maxmemory`: which keys go, and that no others do.

use stillframe_peers::rounds;

use super::InProcess;
use crate::Config;

const LIMIT: usize = 4 << 20;

/// A server with room for so much, by a clock of the test's own.
struct Limited {
    server: InProcess,
    clock_ms: u64,
    _folder: tempfile::TempDir,
}

impl Limited {
    fn by(policy: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = Config { dir: folder.path().to_owned(), ..Config::default() };
        let server = InProcess::new(config).expect("a server");
        let mut limited = Self { server, clock_ms: 0, _folder: folder };
        let line = format!("CONFIG SET maxmemory {LIMIT} maxmemory-policy {policy}");
        assert_eq!(limited.ask(&line), "+OK\r\n");
        limited
    }

    fn ask(&mut self, line: &str) -> String {
        self.call(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    fn call(&mut self, args: &[&[u8]]) -> String {
        String::from_utf8_lossy(self.server.run(args)).into_owned()
    }

    fn exists(&mut self, key: &str) -> bool {
        self.ask(&format!("EXISTS {key}")) == ":1\r\n"
    }

    fn evicted(&self) -> u64 {
        self.server.state.meter.stats().evicted_keys
    }
}

/// Keys that are used all the time stay, those that are not go.
#[test]
fn the_hot_set_survives() {
    for policy in ["allkeys-lru", "allkeys-lfu"] {
        let mut server = Limited::by(policy);
        server.ask("CONFIG SET maxmemory-samples 10");
        let value = vec![b'x'; 1000];
        for hot in 0..200 {
            server.call(&[b"SET", format!("hot:{hot}").as_bytes(), &value]);
        }
        for cold in 0..rounds(8_000, 100_000) {
            if cold % 500 == 0 {
                // Recency has steps of a tenth of a second.
                server.clock_ms += 110;
                server.server.keyspace.set_clock(server.clock_ms);
                for hot in 0..200 {
                    for _ in 0..3 {
                        server.ask(&format!("GET hot:{hot}"));
                    }
                }
            }
            server.call(&[b"SET", format!("cold:{cold}").as_bytes(), &value]);
        }
        assert!(server.evicted() > 3_000);
        let left = (0..200).filter(|hot| server.exists(&format!("hot:{hot}"))).count();
        assert!(left >= 190, "{policy}: {left} of 200 hot keys are left");
    }
}

/// With a volatile policy only keys with a time to live go; without any, writes are refused.
#[test]
fn keys_without_a_time_to_live_stay_under_a_volatile_policy() {
    for policy in ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"] {
        let mut server = Limited::by(policy);
        let value = vec![b'x'; 1000];
        for number in 0..1000 {
            server.call(&[b"SET", format!("stays:{number}").as_bytes(), &value]);
            server.call(&[b"SET", format!("goes:{number}").as_bytes(), &value, b"EX", b"900"]);
        }
        let mut number = 1000;
        let refusal = loop {
            let stored = server.call(&[b"SET", format!("stays:{number}").as_bytes(), &value]);
            number += 1;
            if stored.starts_with('-') {
                break stored;
            }
            assert!(number < 10_000, "{policy}: the limit does not hold");
        };
        assert_eq!(refusal, "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
        for kept in 0..number - 1 {
            assert!(server.exists(&format!("stays:{kept}")), "{policy}: {kept}");
        }
        assert_eq!(server.ask("GET goes:1"), "$-1\r\n");
    }
}

/// The names of hot keys are memory of the server's own.
#[test]
fn the_names_of_hot_keys_count_for_maxmemory() {
    let mut server = Limited::by("noeviction");
    let used = |server: &mut Limited| {
        let info = server.ask("INFO memory");
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        line.and_then(|number| number.parse::<usize>().ok()).expect("a figure")
    };
    server.ask("HOTKEYS START METRICS 1 NET COUNT 64");
    let before = used(&mut server);
    (0..600).for_each(|key| _ = server.ask(&format!("GET {key:04000}")));
    let after = used(&mut server);
    assert!((2_400_000..2_700_000).contains(&(after - before)), "{before}, {after}");
    server.ask(&format!("CONFIG SET maxmemory {}", after - 1_000_000));
    assert!(server.ask("SET k v").starts_with("-OOM"));
    for line in ["HOTKEYS STOP", "HOTKEYS RESET", "SET k v"] {
        assert_eq!(server.ask(line), "+OK\r\n");
    }
}
