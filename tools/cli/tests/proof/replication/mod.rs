//! Replication beside Redis's own server: either follows the other, and both end equal.

mod answers;
mod cuts;
mod failover;
mod limits;
mod migration;
mod overwritten;
mod propagated;
mod proxy;
mod restarts;
mod roles;
mod sentinel;
mod streams;
mod together;
mod under_load;
mod useless;
mod writable;

use crate::collections::debugged;
use crate::replayed::{Contents, assert_same_contents, collection, contents};
use crate::support::{Client, Kind, Peer, Random, Reply, Server, Stop, wait_until};
use std::time::Duration;
use stillframe_peers::requests::{ALL, script};

/// Which of the two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Ours,
    Redis,
    Newer(Peer),
}

impl Who {
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Ours => Kind::Ours("imprint"),
            Self::Redis => Kind::Redis,
            Self::Newer(peer) => Kind::Newer(peer),
        }
    }

    /// Starts one with flags that both know; images for replicas begin at once.
    pub(crate) fn start(self, flags: &str) -> Server {
        let flags = format!("--repl-diskless-sync-delay 0 --repl-backlog-size 10mb {flags}");
        match self {
            Self::Redis | Self::Newer(_) => debugged(self.kind(), None, &flags),
            Self::Ours => ours("imprint", &flags),
        }
    }

    /// Starts a replica of the server at `port`.
    pub(crate) fn follow(self, port: u16) -> Server {
        let server = self.start("");
        server.client().ok(&format!("REPLICAOF 127.0.0.1 {port}"));
        server
    }

    /// Starts a primary of ours, and its replica, which has its image.
    pub(crate) fn behind_ours(self) -> (Server, Server) {
        let primary = Self::Ours.start("");
        let replica = self.follow(primary.port);
        wait_for_link(&replica);
        (primary, replica)
    }
}

pub(crate) fn ours(algorithm: &'static str, flags: &str) -> Server {
    let server = Server::start(Kind::Ours(algorithm));
    let mut client = server.client();
    for setting in flags.split("--").map(str::trim).filter(|setting| !setting.is_empty()) {
        let (name, value) = setting.split_once(' ').expect("a name and a value");
        let reply = client.call(&[b"CONFIG", b"SET", name.as_bytes(), value.trim().as_bytes()]);
        assert_eq!(reply.text(), "OK", "{setting}");
    }
    server
}

/// Writes of every type, by some clients, until `stop` is due.
pub(crate) fn under_load<R>(port: u16, seed: &mut Random, body: impl FnOnce() -> R) -> R {
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let _guard = stop.at_the_end();
        for _ in 0..2 {
            let mut random = Random::with_seed(seed.next());
            let stop = &stop;
            scope.spawn(move || {
                let mut client = Client::try_connect(port).expect("the server takes a connection");
                while !stop.is_due() {
                    if write(&mut client, &mut random).is_none() {
                        return; // the server was killed
                    }
                }
            });
        }
        body()
    })
}

/// Some random commands, on strings and on collections, by themselves or in a script.
fn write(client: &mut Client, random: &mut Random) -> Option<()> {
    let commands = match random.below(4) {
        0 => crate::mixed::requests(&ALL, random),
        1 => vec![script(&[collection(random), collection(random)])],
        _ => vec![collection(random)],
    };
    // redis-server 7.0 makes a string longer for an operation that then fails, and tells no
    // replica.
    let fails = |word: &Vec<u8>| word.eq_ignore_ascii_case(b"FAIL");
    if commands.iter().flatten().any(fails) {
        return Some(());
    }
    for command in commands {
        client.try_call(&command.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
    }
    Some(())
}

/// Random data to begin with.
pub(crate) fn fill(server: &Server, random: &mut Random, rounds: usize) {
    let mut client = server.client();
    for _ in 0..rounds {
        write(&mut client, random).expect("the server lives");
    }
    client.call(&[b"DISCARD"]);
}

pub(crate) fn wait_for_link(replica: &Server) {
    let mut client = replica.client();
    wait_until("the replica follows", || client.info("master_link_status") == "up");
}

/// Bytes of the stream that tell of some hundred requests under load.
const SOME_BYTES: i64 = 20_000;

/// Waits until a replica has taken some requests more, while others write.
pub(crate) fn wait_for_stream(replica: &Server) {
    let mut client = replica.client();
    let before = client.info_int("slave_repl_offset");
    wait_until("requests come", || client.info_int("slave_repl_offset") > before + SOME_BYTES);
}

/// Waits until a replica has all that its primary sent; nobody writes any more.
pub(crate) fn wait_for_all(primary: &Server, replica: &Server) {
    wait_for_link(replica);
    let (mut theirs, mut ours) = (primary.client(), replica.client());
    wait_until("the replica has everything", || {
        theirs.info("master_repl_offset") == ours.info("slave_repl_offset")
    });
}

/// Deletes the consumers of all groups for which nothing is pending: Redis and Valkey tell no
/// replica of a consumer that XREADGROUP has made and given nothing.
pub(crate) fn delete_idle_consumers(client: &mut Client) {
    for db in 0..16 {
        if matches!(client.ask(&format!("SELECT {db}")), Reply::Error(_)) {
            break; // a node of a cluster has one
        }
        let keys = client.ask("KEYS *");
        for key in keys.list().iter().filter_map(Reply::bytes) {
            if client.call(&[b"TYPE", key]).text() != "stream" {
                continue;
            }
            let groups = client.call(&[b"XINFO", b"GROUPS", key]);
            for group in groups.list().iter().filter_map(|group| group.list()[1].bytes()) {
                let consumers = client.call(&[b"XINFO", b"CONSUMERS", key, group]);
                let idle = consumers.list().iter().filter(|it| it.list()[3].int() == 0);
                for name in idle.filter_map(|it| it.list()[1].bytes()) {
                    client.call(&[b"XGROUP", b"DELCONSUMER", key, group, name]);
                }
            }
        }
    }
    client.ok("SELECT 0");
}

/// Both hold the same, key by key.
pub(crate) fn assert_equal(primary: &Server, replica: &Server) {
    assert_same(primary, replica, contents);
}

/// As [`assert_equal`], by what `contents` reads.
pub(crate) fn assert_same(
    primary: &Server,
    replica: &Server,
    contents: impl Fn(&mut Client) -> Contents,
) {
    let mut client = primary.client();
    if !client.ask("INFO server").text().contains("stillframe_version") {
        delete_idle_consumers(&mut client);
    }
    // Whatever was written: there is something to compare.
    client.ok("SET the end");
    // What was to expire soon has.
    std::thread::sleep(Duration::from_millis(30));
    wait_for_all(primary, replica);
    let [theirs, ours]: [Contents; 2] =
        [primary, replica].map(|server| contents(&mut server.client()));
    assert_same_contents(&theirs, &ours, "what the replica holds");
}
