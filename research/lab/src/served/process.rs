//! A server as a child process that ends with this one, however this one ends.
//!
//! The kernel kills a child when the thread that made it is gone, if the child has asked for that.
//! A foreign server does not ask; so `stillframe lab leash` asks, and then becomes the server.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use stillframe_measure::own_port;

use super::client::Client;
use crate::case::{REDIS, VALKEY};

/// Longest wait for a server that loads its data.
const START: Duration = Duration::from_secs(600);

/// A folder of its own, removed when dropped.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// A new folder in the folder for temporary files.
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        let own = std::process::id();
        let path = std::env::temp_dir().join(format!("stillframe-lab-{own}-{name}"));
        let _ = fs::remove_dir_all(&path); // of an earlier process with this number
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A child of a killed server may write for a moment yet.
        for _ in 0..20 {
            if fs::remove_dir_all(&self.0).is_ok() || !self.0.exists() {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A running server. Killed when dropped.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
}

/// How a server is started.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    program: PathBuf,
    words: Vec<String>,
}

impl Setup {
    /// Ours with the algorithm of that name; it saves only on request, at full speed.
    ///
    /// # Errors
    /// Why the server is missing here.
    pub(super) fn from_algorithm(algorithm: &str, has_log: bool) -> Result<Self> {
        let (program, own): (PathBuf, &[&str]) = match algorithm {
            REDIS => (found(REDIS.into())?, &[]),
            VALKEY => (found(valkey())?, &[]),
            _ => {
                let program = std::env::current_exe()?;
                (program, &["serve", "--snapshot", algorithm, "--snapshot-bandwidth", "0"])
            }
        };
        let log = if has_log { "yes" } else { "no" };
        let common = ["--bind", "127.0.0.1", "--save", "", "--appendonly", log];
        let words = own.iter().chain(&common).map(|&word| word.to_owned()).collect();
        Ok(Self { program, words })
    }

    /// Starts it in `folder`, and waits until it has loaded what is there.
    ///
    /// # Errors
    /// One sentence with the last line that it logged.
    pub(super) fn start(&self, folder: &Path) -> Result<Server> {
        self.launch(folder).with_context(|| format!("{} does not start", self.program.display()))
    }

    fn launch(&self, folder: &Path) -> Result<Server> {
        let port = own_port();
        let log = folder.join("log");
        let output = File::create(&log)?;
        let child = Command::new(std::env::current_exe()?)
            .args(["lab", "leash", &std::process::id().to_string()])
            .arg(&self.program)
            .args(&self.words)
            .args(["--port", &port.to_string(), "--dir"])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let mut server = Server { child, port };
        let deadline = Instant::now() + START;
        loop {
            let ready = Client::local(port).and_then(|mut client| client.call(&["PING"]));
            if ready.is_ok_and(|reply| reply == "PONG") {
                return Ok(server);
            }
            if server.child.try_wait()?.is_some() || Instant::now() > deadline {
                let text = fs::read_to_string(&log).unwrap_or_default();
                bail!("{}", text.lines().last().unwrap_or("it said nothing"));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Server {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
    pub(super) fn client(&self) -> Result<Client> {
        Client::local(self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended by itself
        let _ = self.child.wait();
    }
}

/// Where `scripts/install-peers.sh` puts Valkey; `STILLFRAME_VALKEY` names another place.
fn valkey() -> PathBuf {
    let named = std::env::var_os("STILLFRAME_VALKEY").map(PathBuf::from);
    let cached = || {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
        cache.map(|it| it.join("stillframe").join(VALKEY)).filter(|it| it.exists())
    };
    named.or_else(cached).unwrap_or_else(|| VALKEY.into())
}

fn found(program: PathBuf) -> Result<PathBuf> {
    let quiet = || Stdio::null();
    let mut command = Command::new(&program);
    command.arg("--version").stdin(quiet()).stdout(quiet()).stderr(quiet());
    match command.status() {
        Ok(status) if status.success() => Ok(program),
        _ => bail!("there is no {} here; scripts/install-peers.sh installs it", program.display()),
    }
}

/// Becomes the program of that command line; the kernel ends it when `parent` is gone. Returns
/// only what went wrong.
#[must_use]
pub fn leash(parent: u32, line: &[std::ffi::OsString]) -> io::Error {
    let Some((program, words)) = line.split_first() else {
        return io::Error::new(io::ErrorKind::InvalidInput, "no program is named");
    };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // The kernel sends no signal for a parent that was gone before.
    if getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned()) != Some(parent) {
        return io::Error::other("the parent is gone");
    }
    Command::new(program).args(words).exec()
}
