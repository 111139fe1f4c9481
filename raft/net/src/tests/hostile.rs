//! Strangers, wrong certificates, and bytes that no node sends.

use std::net::SocketAddr;

use stillframe_peers::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::certificates::Certificates;
use super::*;
use crate::frame::{self, Kind};
use crate::hello::{Hello, Verdict};
use crate::{Error, FileError, ForwardError, Lane, TlsError};

/// Node 1 alone, at its address.
pub(super) struct Alone {
    pub(super) group: Group,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Alone {
    pub(super) async fn start(plan: Plan) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let group = Group::start(folder.path(), plan, 1, 1).await;
        group.led().await;
        let address = group.nodes[&1].serving.as_ref().expect("it listens").address();
        Self { group, address, _folder: folder }
    }

    pub(super) fn member(&self) -> Member {
        Member { raft: self.address.to_string(), client: "127.0.0.1:1".into() }
    }

    /// What a node with these settings gets when it forwards something.
    pub(super) async fn forward(&self, settings: Settings) -> Result<Vec<u8>, ForwardError> {
        self.forward_to(1, settings).await
    }

    async fn forward_to(&self, node: u64, settings: Settings) -> Result<Vec<u8>, ForwardError> {
        let network = Network::new(settings).expect("sound");
        network.forward(node, &self.member(), b"hello", Duration::from_secs(30)).await
    }

    /// It answers its friends.
    pub(super) async fn is_well(&self) {
        let answer = self.forward(self.group.plan.settings(2)).await;
        assert_eq!(answer.expect("it is well"), b"hello");
        self.group.nodes[&1].raft.client_write(command(1, 8)).await.expect("it is well");
    }
}

fn reason(answer: Result<Vec<u8>, ForwardError>) -> Arc<Error> {
    match answer {
        Err(ForwardError::NotSent(error)) => error,
        other => panic!("it was to be refused: {other:?}"),
    }
}

/// What the three refusals of a handshake are called.
pub(super) async fn refusals() -> Result<(), String> {
    let alone = Alone::start(Plan::calm()).await;
    let said = alone.forward(Settings::new(2, "other")).await;
    match said {
        Err(ForwardError::NotSent(error)) => match &*error {
            Error::OtherGroup { theirs, ours } if (&theirs[..], &ours[..]) == (GROUP, "other") => {}
            other => return Err(format!("another group: {other}")),
        },
        other => return Err(format!("another group: {other:?}")),
    }
    match alone.forward_to(7, alone.group.plan.settings(2)).await {
        Err(ForwardError::NotSent(error)) => match &*error {
            Error::OtherNode { wanted: 7, found: 1 } => {}
            other => return Err(format!("another node: {other}")),
        },
        other => return Err(format!("another node: {other:?}")),
    }
    alone.is_well().await;
    alone.group.end().await;
    Ok(())
}

#[test]
fn nodes_of_other_groups_and_for_other_nodes_are_refused() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(refusals()).expect("they are refused by name");
}

/// Large messages are promised and do not come: those of others have room all the same.
pub(super) async fn promises_take_no_memory() -> Result<(), String> {
    let alone = Alone::start(Plan::calm()).await;
    let mut sockets = Vec::new();
    for _ in 0..12 {
        let mut socket = TcpStream::connect(alone.address).await.expect("it listens");
        let hello = Hello::call(3, 1, Lane::Entries, GROUP);
        hello.write(&mut socket).await.expect("it reads");
        Hello::read(&mut socket).await.expect("it answers");
        let mut message = frame::begin();
        message.resize(60 << 20, 0);
        frame::seal(&mut message, Kind::Append, 1);
        socket.write_all(&message[..100]).await.expect("it reads");
        sockets.push(socket);
    }
    let network = Network::new(alone.group.plan.settings(2)).expect("sound");
    let large = vec![7; 1 << 20];
    for _ in 0..5 {
        let answer = network.forward(1, &alone.member(), &large, Duration::from_secs(20)).await;
        let answer = answer.map_err(|error| format!("1 MB beside promises: {error}"))?;
        assert!(answer == large);
    }
    drop(sockets);
    alone.group.end().await;
    Ok(())
}

#[test]
fn what_is_promised_takes_no_memory() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(promises_take_no_memory()).expect("it takes none");
}

/// A listener refuses by itself, whatever the caller would say.
pub(super) async fn listener_refuses() -> Result<(), String> {
    let alone = Alone::start(Plan::calm()).await;
    for (hello, wanted) in [
        (Hello::call(2, 1, Lane::Control, "other"), Verdict::OtherGroup),
        (Hello::call(2, 7, Lane::Control, GROUP), Verdict::OtherNode),
        (Hello::call(2, 1, Lane::Control, GROUP), Verdict::Welcome),
    ] {
        let mut socket = TcpStream::connect(alone.address).await.expect("it listens");
        hello.write(&mut socket).await.expect("it reads");
        let answer = Hello::read(&mut socket).await.expect("it answers");
        let verdict = answer.verdict().expect("sound");
        if verdict != wanted {
            return Err(format!("{hello:?}: {verdict:?}"));
        }
        if verdict != Verdict::Welcome {
            let ends = socket.read(&mut [0]).await.is_ok_and(|count| count == 0);
            assert!(ends, "it closes the connection");
        }
    }
    alone.group.end().await;
    Ok(())
}

#[test]
fn a_listener_refuses_by_itself() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(listener_refuses()).expect("they are refused");
}

#[test]
fn another_version_is_refused_by_both_sides() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(async {
        let alone = Alone::start(Plan::calm()).await;
        let mut socket = TcpStream::connect(alone.address).await.expect("it listens");
        let mut hello = b"STILLNET".to_vec();
        hello.extend_from_slice(&3u32.to_le_bytes());
        hello.extend_from_slice(&[9; 20]); // whatever version 3 says
        socket.write_all(&hello).await.expect("it reads");
        let answer = Hello::read(&mut socket).await.expect("it answers");
        assert_eq!(answer.verdict().expect("sound"), Verdict::OtherVersion);
        alone.is_well().await;
        // A listener of version 3.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.expect("it comes");
            Hello::read(&mut socket).await.expect("it says who it is");
            socket.write_all(&hello).await.expect("it reads");
            socket.read(&mut [0]).await
        });
        let network = Network::new(Settings::new(2, GROUP)).expect("sound");
        let member = Member { raft: address, client: String::new() };
        let said = network.forward(1, &member, b"hello", Duration::from_secs(30)).await;
        let error = reason(said);
        assert!(matches!(*error, Error::OtherVersion { theirs: 3, ours: 2 }), "{error}");
        alone.group.end().await;
    });
}

#[test]
fn certificates_decide_who_takes_part() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let Some(files) = Certificates::new("certificates_decide_who_takes_part") else { return };
    block_on(async {
        let tls = files.tls("node", "ca");
        let plan = Plan { tls: Some(tls.clone()), ..Plan::calm() };
        let alone = Alone::start(plan.clone()).await;
        alone.is_well().await;
        for (who, authority, what) in [
            ("stranger", "ca", "of another authority"),
            ("expired", "ca", "over"),
            ("node", "stranger-ca", "does not trust the listener"),
        ] {
            let mut settings = plan.settings(2);
            settings.tls = Some(files.tls(who, authority));
            let error = reason(alone.forward(settings).await);
            println!("{what}: {error}");
            assert!(matches!(*error, Error::Tls { .. }), "{what}: {error}");
        }
        // Without TLS: the listener takes the handshake for garbage.
        let error = reason(alone.forward(Settings::new(2, GROUP)).await);
        println!("plain: {error}");
        no_certificate(&alone, &files).await;
        alone.is_well().await;
        // A listener whose certificate is over, or of another authority.
        for who in ["expired", "stranger"] {
            let mut plan = plan.clone();
            plan.tls = Some(files.tls(who, "ca"));
            let listener = Listener::bind("127.0.0.1:0", plan.settings(1)).await.expect("a port");
            let address = listener.address().to_string();
            let raft = alone.group.nodes[&1].raft.clone();
            let _serving = listener.serve(raft, |_, request| async move { Ok(request) });
            let network = Network::new(alone.group.plan.settings(2)).expect("sound");
            let member = Member { raft: address, client: String::new() };
            let said = network.forward(1, &member, b"hello", Duration::from_secs(30)).await;
            let error = reason(said);
            assert!(matches!(*error, Error::Tls { .. }), "{who}: {error}");
        }
        alone.group.end().await;
    });
}

/// A client that has no certificate at all.
async fn no_certificate(alone: &Alone, files: &Certificates) {
    use rustls::pki_types::pem::PemObject;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    let ca = rustls::pki_types::CertificateDer::from_pem_file(files.path("ca.crt"));
    roots.add(ca.expect("openssl made it")).expect("an authority");
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().expect("sound");
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    let socket = TcpStream::connect(alone.address).await.expect("it listens");
    let name = "localhost".try_into().expect("a name");
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(name, socket).await.expect("TLS 1.3 tells later");
    let _ = Hello::call(2, 1, Lane::Control, GROUP).write(&mut stream).await;
    let error = Hello::read(&mut stream).await.expect_err("it is refused");
    assert!(error.to_string().to_lowercase().contains("certificate"), "{error}");
}

#[test]
fn certificates_are_read_anew_or_kept() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let Some(files) = Certificates::new("certificates_are_read_anew_or_kept") else { return };
    block_on(async {
        for (from, to) in [("node.crt", "own.crt"), ("node.key", "own.key")] {
            std::fs::copy(files.path(from), files.path(to)).expect("a file");
        }
        let tls = files.tls("own", "ca");
        let plan = Plan { tls: Some(files.tls("node", "ca")), ..Plan::calm() };
        let alone = Alone::start(plan.clone()).await;
        let settings = || plan.settings(2).tls(tls.clone());
        alone.forward(settings()).await.expect("it is trusted");
        std::fs::write(files.path("own.key"), "nothing").expect("a file");
        assert!(matches!(tls.reload(), Err(TlsError::File(FileError::NoKey(..)))));
        alone.forward(settings()).await.expect("the key before stays in use");
        for (from, to) in [("stranger.crt", "own.crt"), ("stranger.key", "own.key")] {
            std::fs::copy(files.path(from), files.path(to)).expect("a file");
        }
        tls.reload().expect("they are a pair");
        let error = reason(alone.forward(settings()).await);
        assert!(matches!(*error, Error::Tls { .. }), "{error}");
        std::fs::copy(files.path("node.key"), files.path("own.key")).expect("a file");
        assert!(matches!(tls.reload(), Err(TlsError::NoPair { .. })));
        std::fs::write(files.path("ca.crt"), "nothing").expect("a file");
        assert!(matches!(tls.reload(), Err(TlsError::File(FileError::NoCertificate(..)))));
        std::fs::remove_file(files.path("own.crt")).expect("it was there");
        assert!(matches!(
            Tls::load(files.files("own", "stranger-ca")),
            Err(TlsError::File(FileError::Unreadable(..)))
        ));
        alone.group.end().await;
    });
}

#[test]
fn nothing_listens_beyond_this_machine_without_protection() {
    block_on(async {
        for address in ["0.0.0.0:0", "[::]:0"] {
            let settings = Settings::new(1, GROUP);
            let error = Listener::bind(address, settings).await.expect_err("it is open to all");
            assert!(matches!(error, Error::UnprotectedListener { .. }), "{address}: {error}");
            println!("{error}");
        }
        let settings = Settings::new(1, GROUP).unprotected(true);
        Listener::bind("0.0.0.0:0", settings).await.expect("it was asked for");
        for address in ["127.0.0.1:0", "localhost:0"] {
            Listener::bind(address, Settings::new(1, GROUP)).await.expect("it is here");
        }
        for wrong in ["127.0.0.1", "", ":7", "127.0.0.1:x", "127.0.0.1:70000"] {
            let error = Listener::bind(wrong, Settings::new(1, GROUP)).await.expect_err(wrong);
            assert!(matches!(error, Error::Address { .. }), "{wrong}: {error}");
        }
        let error = Listener::bind("127.0.0.1:0", Settings::new(1, "")).await.expect_err("no name");
        assert!(matches!(error, Error::GroupName { length: 0 }));
        let network = Network::new(Settings::new(1, GROUP)).expect("sound");
        let member = Member { raft: "192.0.2.1:7000".into(), client: String::new() };
        let error = reason(network.forward(2, &member, b"", Duration::from_secs(30)).await);
        assert!(matches!(*error, Error::UnprotectedPeer { .. }), "{error}");
    });
}

/// A connection that has shaken hands as node 2.
async fn welcomed(alone: &Alone) -> TcpStream {
    let mut socket = TcpStream::connect(alone.address).await.expect("it listens");
    Hello::call(2, 1, Lane::Control, GROUP).write(&mut socket).await.expect("it reads");
    let answer = Hello::read(&mut socket).await.expect("it answers");
    assert_eq!(answer.verdict().expect("sound"), Verdict::Welcome);
    socket
}

/// Whether the listener ends the connection.
async fn is_ended(socket: &mut TcpStream) -> bool {
    let mut bytes = [0; 4096];
    let read = async { while socket.read(&mut bytes).await.is_ok_and(|count| count > 0) {} };
    tokio::time::timeout(Duration::from_secs(30), read).await.is_ok()
}

#[test]
fn bytes_that_no_node_sends_end_their_connection_alone() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(async {
        let mut random = Random::new("bytes_that_no_node_sends");
        let alone = Alone::start(Plan::calm()).await;
        // A length beyond the limit, sums and all.
        let mut giant = frame::begin();
        frame::seal(&mut giant, Kind::Append, 1);
        giant[..4].copy_from_slice(&(64u32 << 20 | 1).to_le_bytes());
        let sum = crc_fast::crc32_iscsi(&giant[..20]);
        giant[20..24].copy_from_slice(&sum.to_le_bytes());
        let mut socket = welcomed(&alone).await;
        socket.write_all(&giant).await.expect("it reads");
        assert!(is_ended(&mut socket).await, "a giant length");
        for round in 0..stillframe_peers::rounds(150, 5_000) {
            let garbage = 1 + random.below(300);
            let garbage = random.bytes(garbage);
            let mut socket = match random.below(4) {
                0 => TcpStream::connect(alone.address).await.expect("it listens"),
                _ => welcomed(&alone).await,
            };
            let sent = match random.below(3) {
                0 => garbage,
                _ => {
                    let kinds = [Kind::Append, Kind::Vote, Kind::Snapshot, Kind::Reply, Kind::Busy];
                    let mut message = frame::begin();
                    message.extend_from_slice(&garbage);
                    frame::seal(&mut message, kinds[random.below(5)], random.next());
                    message
                }
            };
            let _ = socket.write_all(&sent).await; // it may have seen enough
            let _ = socket.shutdown().await;
            assert!(is_ended(&mut socket).await, "round {round}");
        }
        alone.is_well().await;
        assert_eq!(alone.group.term(), 1, "nobody was believed");
        alone.group.end().await;
    });
}

#[test]
fn slow_strangers_keep_nobody_out() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(async {
        let alone = Alone::start(Plan::calm()).await;
        // More than may shake hands at once; each sends a byte now and then.
        let mut slow = Vec::new();
        for _ in 0..200 {
            let mut socket = TcpStream::connect(alone.address).await.expect("it listens");
            let _ = socket.write_all(b"S").await;
            slow.push(socket);
        }
        alone.is_well().await;
        // And as many as one node may have, by somebody who keeps them.
        for _ in 0..40 {
            slow.push(welcomed(&alone).await);
        }
        alone.is_well().await;
        let first = &mut slow[0];
        let mut dripped = 0;
        while first.write_all(b"T").await.is_ok() {
            dripped += 1;
            assert!(dripped < 300, "a handshake has its time");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        alone.group.end().await;
    });
}
