//! Images of large collections that are written all the while.
//!
//! Transaction `n` sets field `n % FIELDS` of a hash to `n`, appends `n` to a list and adds entry
//! `n-0` to a stream, which a group then reads and of which it acknowledges every third. So an
//! image is right if and only if it is what transactions `1..=m` leave, for one `m` between what
//! was acknowledged before the image began and what was sent by its end: the list gives `m`, and
//! the hash and the stream follow from it.

use crate::files::check_dump;
use crate::support::{ALGORITHMS, Client, Kind, Reply, Server, Setup, Stop, rounds};
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const FIELDS: u64 = 5_000;
/// Transactions that the writer sends at once.
const DEPTH: u64 = 32;

#[derive(Default)]
struct Writer {
    sent: AtomicU64,
    acknowledged: AtomicU64,
    stop: Stop,
}

impl Writer {
    fn write(&self, client: &mut Client) {
        while !self.stop.is_due() {
            let first = self.sent.load(SeqCst) + 1;
            let mut bytes = Vec::new();
            for n in first..first + DEPTH {
                let field = n % FIELDS;
                let line = format!(
                    "MULTI\r\nHSET hash f:{field} {n}\r\nRPUSH list {n}\r\nXADD stream {n}-0 n {n}\r\n\
                     XREADGROUP GROUP g c STREAMS stream >\r\nXACK stream g {}-0\r\nEXEC\r\n",
                    n / 3 * 3
                );
                bytes.extend_from_slice(line.as_bytes());
            }
            self.sent.store(first + DEPTH - 1, SeqCst);
            assert!(client.send_raw(&bytes), "the server closed the connection");
            for n in first..first + DEPTH {
                (0..7).for_each(|_| assert!(!client.raw().starts_with(b"-")));
                self.acknowledged.store(n, SeqCst);
            }
        }
    }
}

/// Fails unless the server holds what transactions `1..=m` leave; gives `m`.
fn transactions(client: &mut Client) -> u64 {
    let reply = client.ask("LRANGE list 0 -1");
    let list: Vec<u64> = reply.list().iter().map(|n| n.text().parse().expect("a number")).collect();
    let m = list.len() as u64;
    assert!(list.into_iter().eq(1..=m), "the list is what {m} transactions appended");
    let reply = client.ask("HGETALL hash");
    let pairs = reply.list().chunks_exact(2);
    let mut fields = vec![None; FIELDS as usize];
    for pair in pairs {
        let field: usize = pair[0].text()[2..].parse().expect("a number");
        fields[field] = Some(pair[1].text().parse::<u64>().expect("a number"));
    }
    for (field, found) in (0..).zip(fields) {
        let last = m.checked_sub((m + FIELDS - field) % FIELDS).filter(|&n| n > 0);
        assert_eq!(found, last, "field {field} after {m} transactions");
    }
    let reply = client.ask("XRANGE stream - +");
    let entry = |n: u64| {
        let [id, value] = [format!("{n}-0"), n.to_string()].map(|it| Reply::Text(it.into_bytes()));
        Reply::List(vec![id, Reply::List(vec![Reply::Text(b"n".to_vec()), value])])
    };
    assert!(reply.list().iter().cloned().eq((1..=m).map(entry)), "the stream after {m}");
    let pending = client.ask("XPENDING stream g - + 1000000");
    let ids: Vec<String> = pending.list().iter().map(|it| it.list()[0].text()).collect();
    // Each transaction acknowledges the last multiple of three, at most its own entry.
    let due = (1..=m).filter(|n| n % 3 != 0).map(|n| format!("{n}-0"));
    assert!(ids.into_iter().eq(due), "what is pending after {m} transactions");
    m
}

#[test]
fn an_image_of_large_collections_is_what_a_prefix_of_the_writes_leaves() {
    for algorithm in ALGORITHMS {
        let server = Server::start(Kind::Ours(algorithm));
        let writer = Writer::default();
        server.client().ok("XGROUP CREATE stream g 0 MKSTREAM");
        std::thread::scope(|scope| {
            let _guard = writer.stop.at_the_end();
            scope.spawn(|| writer.write(&mut server.client()));
            let mut client = server.client();
            // The hash is whole, and both are far from fitting an entry.
            crate::support::wait_until("enough is written", || {
                writer.acknowledged.load(SeqCst) > 2 * FIELDS
            });
            for _ in 0..rounds(2, 50) {
                let least = writer.acknowledged.load(SeqCst);
                let status = client.save_in_background();
                let most = writer.sent.load(SeqCst);
                assert_eq!(status, "ok", "{}", server.log());
                let folder = tempfile::tempdir().expect("a folder");
                let copy = folder.path().join("dump.rdb");
                fs::copy(server.dump(), &copy).expect("the dump was written");
                check_dump(&copy);
                let reader = Setup::new(Kind::Ours("imprint")).folder(folder.path()).start();
                let m = transactions(&mut reader.client());
                assert!((least..=most).contains(&m), "{algorithm}: {m} of {least}..={most}");
            }
        });
    }
}
