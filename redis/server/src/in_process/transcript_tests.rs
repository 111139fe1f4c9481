//! Transcripts of redis-server that need users, settings or transactions, and no sockets. The
//! proofs of the binary have redis-server play them, too.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use stillframe_commands::Address;
use stillframe_peers::reply::decode;
use stillframe_peers::transcript::{Stage, Transcript};

use super::{InProcess, run_alone};
use crate::Config;
use crate::commands::Alone;
use crate::connections::client::Session;

/// A client, and what it has not read.
struct Connection {
    session: Session,
    unread: Vec<u8>,
}

/// A server and clients by their letters.
struct Theatre {
    server: InProcess,
    connections: BTreeMap<char, Connection>,
    _folder: tempfile::TempDir,
}

impl Theatre {
    fn open() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = Config { dir: folder.path().to_owned(), ..Config::default() };
        config.set("redis-version", &["7.0.15"]).expect("a version"); // as redis-server beside
        let server = InProcess::new(config).expect("a server");
        Self { server, connections: BTreeMap::new(), _folder: folder }
    }

    fn connect(&mut self) -> Connection {
        let state = &mut self.server.state;
        let nobody = Address::Net(SocketAddr::from(([127, 0, 0, 1], 0)));
        let (id, free) = (state.clients.next_id(), state.users.is_open());
        let mut session = Session::new(id, nobody.clone(), nobody, 8, free, Instant::now());
        session.caller.place = state.clients.reserve();
        Connection { session, unread: Vec::new() }
    }
}

impl Stage for Theatre {
    fn wait(&mut self, milliseconds: u64) {
        self.server.now += milliseconds as i64;
    }

    fn send(&mut self, connection: char, arguments: &[&[u8]]) {
        let mut client = self.connections.remove(&connection).unwrap_or_else(|| self.connect());
        if !client.session.closing {
            let InProcess { keyspace, state, table, now, .. } = &mut self.server;
            let Connection { session, unread } = &mut client;
            // The reply says what comes of it.
            let mut alone = Alone { keyspace, state, table };
            let _ = run_alone(&mut alone, session, unread, *now, arguments);
            assert!(!session.caller.waits, "a wait needs a server with a loop");
        }
        self.connections.insert(connection, client);
    }

    fn receive(&mut self, connection: char) -> Option<Vec<u8>> {
        let unread = &mut self.connections.get_mut(&connection)?.unread;
        let (_, length) = decode(unread)?;
        Some(unread.drain(..length).collect())
    }
}

impl Theatre {
    /// Runs a request of client `a`.
    fn ask(&mut self, line: &str) -> String {
        self.send('a', &line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        let reply = self.receive('a').expect("a reply");
        String::from_utf8_lossy(&reply).into_owned()
    }
}

#[test]
fn settings_for_tests_are_found_by_their_names_alone() {
    let mut server = Theatre::open();
    assert!(!server.ask("CONFIG GET *").contains("rdb-key-save-delay"));
    let found = server.ask("CONFIG GET rdb-key-save-delay");
    assert_eq!(found, "*2\r\n$18\r\nrdb-key-save-delay\r\n$1\r\n0\r\n");
}

/// The key of a request is the one that it stores to, also where Redis takes another word for it.
#[test]
fn a_value_is_not_taken_for_a_key_to_store_to() {
    let mut server = Theatre::open();
    assert_eq!(server.ask("ACL SETUSER u on +@all %W~w:* %R~r:*"), "+OK\r\n");
    let mut denied = |request: &str| server.ask(&format!("ACL DRYRUN u {request}")) != "+OK\r\n";
    assert!(denied("SORT r:l STORE store w:d"));
    assert!(!denied("SORT r:l STORE store STORE w:d"));
    assert!(denied("GEORADIUS r:g 1 1 1 km STORE w:d STORE r:d"));
}

#[test]
fn replies_are_those_of_redis() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/in_process/transcripts");
    let (mut wrong, mut replies) = (Vec::new(), 0);
    for file in fs::read_dir(folder).expect("a folder of transcripts") {
        let path = file.expect("a file").path();
        let transcript = Transcript::parse(fs::read_to_string(&path).expect("a transcript"));
        replies += transcript.replies();
        let different = transcript.differences(&mut Theatre::open());
        wrong.extend(different.iter().map(|it| format!("{}: {it}", path.display())));
    }
    assert!(wrong.is_empty(), "{} of {replies} replies differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(replies > 400, "{replies} replies are few");
}
