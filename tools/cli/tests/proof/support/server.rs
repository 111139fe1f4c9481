//! A server as a child process in a folder of its own, killed when dropped.

use super::{Client, PATIENCE, Peer, own_port, wait_until};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Which server a harness drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Redis's own.
    Redis,
    /// A later one of Redis or Valkey.
    Newer(Peer),
    /// The one under proof, with an algorithm's name.
    Ours(&'static str),
}

impl Kind {
    /// The server under proof, or its stand-in.
    pub(crate) fn subject(algorithm: &'static str) -> Self {
        match std::env::var("STILLFRAME_SUBJECT").as_deref() {
            Ok("redis") => Self::Redis,
            _ => Self::Ours(algorithm),
        }
    }
}

/// Runs our binary where it is not expected to last.
pub(crate) fn stillframe(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stillframe"));
    command.args(arguments).stdin(Stdio::null());
    output_of(command)
}

/// A command's output up to its end, which must come by itself.
pub(crate) fn output_of(mut command: Command) -> Output {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("the program starts");
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().expect("a child's state").is_none() {
        if Instant::now() > deadline {
            child.kill().expect("a child may be killed");
            let output = child.wait_with_output().expect("its output");
            panic!("it does not end by itself: {}", String::from_utf8_lossy(&output.stderr));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().expect("its output")
}

/// How to start a server.
pub(crate) struct Setup {
    kind: Kind,
    folder: Option<PathBuf>,
    wrapper: Vec<String>,
    first: Option<String>,
    flags: Vec<String>,
    password: Option<String>,
    loading: bool,
    port: Option<u16>,
    log: Option<PathBuf>,
}

impl Setup {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            folder: None,
            wrapper: Vec::new(),
            first: None,
            flags: Vec::new(),
            password: None,
            loading: false,
            port: None,
            log: None,
        }
    }

    /// An argument before all flags, such as redis-server's configuration file.
    pub(crate) fn first(mut self, argument: &str) -> Self {
        self.first = Some(argument.to_owned());
        self
    }

    /// The password that the server wants, for asking whether it is ready.
    pub(crate) fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// More flags for the server.
    pub(crate) fn flags(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(|&text| text.to_owned()));
        self
    }

    /// A configuration file with these lines, in the data folder, which must be set before.
    pub(crate) fn config(self, text: &str) -> Self {
        let folder = self.folder.as_ref().expect("a folder for the file");
        let file = folder.join("server.conf");
        fs::write(&file, text).expect("a configuration file");
        self.first(&file.display().to_string())
    }

    /// Data in `folder` instead of in a temporary folder of its own.
    pub(crate) fn folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// A write beyond the limit on the size of a file fails, where the process would die of it.
    pub(crate) fn outlives_file_limits(self) -> Self {
        self.wrapper(&["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
    }

    /// Starts the server through another command, given the server's command line.
    pub(crate) fn wrapper(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(|&text| text.to_owned()).collect();
        self
    }

    /// A server counts as started when it answers, though it may be loading its data.
    pub(crate) fn loading(mut self) -> Self {
        self.loading = true;
        self
    }

    /// The log in this file instead of one beside the data.
    pub(crate) fn log(mut self, file: &Path) -> Self {
        self.log = Some(file.to_owned());
        self
    }

    /// A port that only this server uses.
    pub(crate) fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// The command line for `port`, not yet started.
    pub(crate) fn command(&self, folder: &Path, port: u16) -> Command {
        let mut line = self.wrapper.clone();
        match self.kind {
            Kind::Redis => line.push("redis-server".to_owned()),
            Kind::Newer(peer) => line.push(peer.program()),
            Kind::Ours(_) => {
                let program = env!("CARGO_BIN_EXE_stillframe");
                line.extend([program, "serve"].map(str::to_owned));
            }
        }
        line.extend(self.first.clone());
        if let Kind::Ours(algorithm) = self.kind {
            line.extend(["--snapshot", algorithm].map(str::to_owned));
            // The same tests with I/O threads: STILLFRAME_IO_THREADS=3.
            if let Ok(count) = std::env::var("STILLFRAME_IO_THREADS") {
                line.extend(["--io-threads".to_owned(), count]);
            }
        }
        line.extend(["--bind", "127.0.0.1", "--save", "", "--dir"].map(str::to_owned));
        line.extend([folder.display().to_string(), "--port".to_owned(), port.to_string()]);
        line.extend(self.flags.iter().cloned());
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).stdin(Stdio::null());
        command
    }

    /// Starts the server and waits until it has loaded its data and answers.
    pub(crate) fn start(self) -> Server {
        let kind = self.kind;
        let started = self.try_start();
        started.unwrap_or_else(|log| panic!("{kind:?} does not start; its log:\n{log}"))
    }

    /// As [`start`](Self::start); the log of a server that ends in place of that.
    pub(crate) fn try_start(self) -> Result<Server, String> {
        let own = self.folder.is_none().then(|| tempfile::tempdir().expect("a folder"));
        let folder = match (&own, &self.folder) {
            (Some(own), _) => own.path().to_owned(),
            (None, folder) => folder.clone().expect("one of the two is there"),
        };
        let port = self.port.unwrap_or_else(own_port);
        let log = self.log.clone().unwrap_or_else(|| folder.join("log"));
        let output = File::options().create(true).append(true).open(&log).expect("a log file");
        let mut command = self.command(&folder, port);
        command.stdout(output.try_clone().expect("a second handle")).stderr(output);
        let mut child = command.spawn().expect("the server's program starts");
        let mut answers = false;
        wait_until("the server answers", || {
            answers = Client::try_connect(port).is_some_and(|mut client| {
                if let Some(password) = &self.password {
                    client.try_call(&[b"AUTH", password.as_bytes()]);
                }
                self.loading || client.ready()
            });
            answers || child.try_wait().expect("a child's state").is_some()
        });
        match answers {
            true => Ok(Server { child, port, log, folder, _own: own, kind: self.kind }),
            false => Err(read_log(&log)),
        }
    }
}

/// A server that answers.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    pub(crate) folder: PathBuf,
    pub(crate) kind: Kind,
    log: PathBuf,
    _own: Option<TempDir>,
}

impl Server {
    pub(crate) fn start(kind: Kind) -> Self {
        Setup::new(kind).start()
    }

    pub(crate) fn client(&self) -> Client {
        Client::try_connect(self.port).expect("the server takes a connection")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        read_log(&self.log)
    }

    pub(crate) fn dump(&self) -> PathBuf {
        self.folder.join("dump.rdb")
    }

    /// kill -9, and the end of the process awaited.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a child may be killed");
        self.child.wait().expect("a killed child ends");
    }

    /// Waits for the process to end by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the server ends", || {
            status = self.child.try_wait().expect("a child's state");
            status.is_some()
        });
        status.expect("it was awaited")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended before; the kill is only there to leave nothing behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("log of {:?}:\n{}", self.kind, self.log());
        }
    }
}

fn read_log(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}
