//! Servers on sockets of their own folders.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use stillframe_peers::reply::{Reply, decode, encode};
use stillframe_peers::{Peer, are_here};
use stillframe_server::{Config, Embedded};
use tempfile::TempDir;

enum Program {
    Ours(Box<Embedded>),
    Peer(Child),
}

pub(crate) struct Server {
    folder: TempDir,
    program: Program,
}

impl Drop for Server {
    fn drop(&mut self) {
        match &mut self.program {
            Program::Ours(server) => _ = server.shutdown(),
            Program::Peer(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

impl Server {
    /// This project's server, in this process.
    pub(crate) fn ours(settings: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().expect("a folder");
        let mut config = Config::embedded(folder.path());
        let socket = folder.path().join("socket").display().to_string();
        for (name, value) in settings.iter().chain(&[("unixsocket", &*socket)]) {
            config.set(name, &[value]).expect("a setting");
        }
        let server = Embedded::start(config).expect("a server");
        Self { folder, program: Program::Ours(Box::new(server)) }
    }

    /// A server of others, if it is here.
    pub(crate) fn peer(test: &str, peer: Peer) -> Option<Self> {
        if !are_here(test, &[peer]) {
            return None;
        }
        let folder = TempDir::new().expect("a folder");
        let mut command = Command::new(peer.program());
        command.current_dir(folder.path()).args(["--port", "0", "--save", ""]);
        command.args(["--unixsocket", "socket", "--repl-diskless-sync-delay", "0"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("a peer");
        let server = Self { folder, program: Program::Peer(child) };
        let mut tries = 0..1000;
        while UnixStream::connect(server.socket()).is_err() {
            tries.next().expect("it listens");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Some(server)
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub(crate) fn client(&self) -> Client {
        let stream = UnixStream::connect(self.socket()).expect("it listens");
        Client { stream, input: Vec::new() }
    }
}

pub(crate) struct Client {
    stream: UnixStream,
    input: Vec<u8>,
}

impl Client {
    pub(crate) fn call(&mut self, words: &[&[u8]]) -> Reply {
        let mut request = Vec::new();
        encode(words, &mut request);
        self.stream.write_all(&request).expect("a request");
        loop {
            if let Some((reply, used)) = decode(&self.input) {
                self.input.drain(..used);
                return reply;
            }
            let mut piece = vec![0; 64 << 10];
            let count = self.stream.read(&mut piece).expect("a reply");
            assert_ne!(count, 0, "the server ended the connection");
            self.input.extend_from_slice(&piece[..count]);
        }
    }

    pub(crate) fn ask(&mut self, line: &str) -> Reply {
        self.call(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    pub(crate) fn ok(&mut self, line: &str) -> Reply {
        let reply = self.ask(line);
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
        reply
    }
}
