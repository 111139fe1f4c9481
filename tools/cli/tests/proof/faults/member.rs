//! A member of a group as a process whose machine can fail below it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::support::machine::Machine;
use crate::support::{Kind, PATIENCE, Setup, limit_file_size, send_signal};
use rustix::process::Signal;

/// What members of a group have in common.
pub(super) struct Common {
    pub(super) folder: PathBuf,
    pub(super) shim: Option<PathBuf>,
    pub(super) peers: String,
    /// The mistake that all of them make.
    pub(super) mutant: Option<&'static str>,
}

/// A member, which runs or not.
pub(super) struct Member {
    pub(super) id: u64,
    /// Where clients reach it.
    pub(super) port: u16,
    folder: PathBuf,
    /// Its data; and what was there before it got another directory, or a copy for later.
    data: PathBuf,
    aside: PathBuf,
    kept: PathBuf,
    command: Command,
    machine: Machine,
    child: Option<Child>,
    stopped: bool,
    /// Syncs fail.
    syncs_fail: bool,
    /// Its disk has failed it since it was started, or it was asked to end: it may end by itself.
    excused: bool,
    /// It was started in a directory that is not its own, or not as it was: it may refuse that.
    displaced: bool,
}

impl Member {
    pub(super) fn new(common: &Common, id: u64, port: u16, raft_port: u16) -> Self {
        let folder = common.folder.join(id.to_string());
        fs::create_dir_all(&folder).expect("a folder");
        let listen = format!("127.0.0.1:{raft_port}");
        let flags = [
            ["--raft-id", &id.to_string()],
            ["--raft-listen", &listen],
            ["--raft-peers", &common.peers],
            ["--raft-election-timeout", "300"],
            ["--raft-log-min-size", "1mb"],
            ["--raft-log-keep-entries", "30"],
            ["--enable-debug-command", "yes"],
        ];
        // A process that does not ignore the signal dies of the limit that stands for a full disk.
        let setup = Setup::new(Kind::Ours("imprint")).flags(flags.as_flattened());
        let setup = setup.outlives_file_limits();
        let [data, aside, kept] = ["data", "aside", "kept"].map(|name| folder.join(name));
        fs::create_dir(&data).expect("a folder");
        let mut command = setup.command(&data, port);
        let machine = Machine::new(&folder);
        if let Some(shim) = &common.shim {
            command.envs(machine.environment(shim));
        }
        command.env("RUST_BACKTRACE", "1");
        if let Some(mutant) = common.mutant {
            command.env("STILLFRAME_MUTANT", mutant);
        }
        let (child, stopped, syncs_fail, excused, displaced) = (None, false, false, false, false);
        Self {
            id,
            port,
            folder,
            data,
            aside,
            kept,
            command,
            machine,
            child,
            stopped,
            syncs_fail,
            excused,
            displaced,
        }
    }

    pub(super) fn start(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let log = File::options().create(true).append(true).open(self.folder.join("log"));
        let log = log.expect("a log file");
        self.command.stdout(log.try_clone().expect("a second handle")).stderr(log);
        self.excused = self.syncs_fail;
        self.child = Some(self.command.spawn().expect("the server's program starts"));
    }

    pub(super) fn runs(&mut self) -> bool {
        self.child.as_mut().is_some_and(|it| it.try_wait().expect("a child's state").is_none())
    }

    /// Starts a member that was killed or has ended.
    ///
    /// # Errors
    /// It has ended by itself, and nothing excuses it.
    pub(super) fn revive(&mut self) -> Result<(), String> {
        if self.runs() {
            return Ok(());
        }
        let ended = self.child.take().map(|mut it| it.wait().expect("its status"));
        if self.displaced && ended.is_some() {
            self.has_not_panicked()?;
            println!("member {} refuses a directory: {}", self.id, self.last_line());
            self.return_home();
        } else if let Some(status) = ended.filter(|_| !self.excused) {
            self.has_not_panicked()?;
            let last = self.last_line();
            return Err(format!("member {} has ended by itself: {status}: {last}", self.id));
        }
        self.start();
        Ok(())
    }

    /// kill -9.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("a child may be killed");
            child.wait().expect("a killed child ends");
        }
        self.stopped = false;
    }

    /// kill -9, and a copy of its directory for later.
    pub(super) fn keep(&mut self) {
        self.kill();
        copy(&self.data, &self.kept);
        self.start();
    }

    /// kill -9; its directory goes to a place beside.
    pub(super) fn leave(&mut self) {
        self.kill();
        fs::rename(&self.data, &self.aside).expect("a folder moves");
    }

    /// Starts it in a copy of a directory, or in an empty one.
    pub(super) fn start_in(&mut self, other: Option<&Path>) {
        match other {
            Some(other) => copy(other, &self.data),
            None => fs::create_dir(&self.data).expect("a folder"),
        }
        self.displaced = true;
        self.start();
    }

    /// Where its data is, where it was before, and where it was copied.
    pub(super) fn places(&self) -> [PathBuf; 3] {
        [&self.data, &self.aside, &self.kept].map(Clone::clone)
    }

    /// It has its own directory again.
    fn return_home(&mut self) {
        fs::remove_dir_all(&self.data).expect("a folder goes");
        fs::rename(&self.aside, &self.data).expect("a folder moves");
        self.displaced = false;
    }

    /// Who is in the group with another directory than its own goes on in that.
    pub(super) fn settle(&mut self) {
        if std::mem::take(&mut self.displaced) {
            println!("member {} takes part in a directory that it was given", self.id);
            fs::remove_dir_all(&self.aside).expect("a folder goes");
        }
    }

    /// Whether it ends, or has ended, in a directory that it was given.
    pub(super) fn has_refused(&mut self) -> bool {
        let end = Instant::now() + PATIENCE;
        while self.displaced && self.runs() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        !self.displaced || !self.runs()
    }

    /// SIGTERM: it is to end by itself.
    pub(super) fn end(&mut self) {
        self.excused = true;
        self.signal(Signal::TERM);
    }

    pub(super) fn stop(&mut self, stopped: bool) {
        if self.stopped != stopped {
            self.signal(if stopped { Signal::STOP } else { Signal::CONT });
            self.stopped = stopped;
        }
    }

    fn signal(&mut self, signal: Signal) {
        if self.runs() {
            send_signal(self.child.as_ref().expect("it runs").id(), signal);
        }
    }

    /// From now on its disk is full, or has room.
    pub(super) fn fill_disk(&mut self, bytes: Option<u64>) {
        if self.runs() {
            self.excused |= bytes.is_some();
            limit_file_size(self.child.as_ref().expect("it runs").id(), bytes);
        }
    }

    /// The next so many syncs fail.
    pub(super) fn fail_syncs(&mut self, count: i64) {
        self.syncs_fail = count > 0;
        self.excused |= self.syncs_fail;
        self.machine.fail_syncs(count);
    }

    /// The clock of its day is wrong by so much from now on.
    pub(super) fn set_clock(&mut self, ms: i64) {
        self.machine.set_clock(ms);
    }

    fn whole_log(&self) -> String {
        let text = fs::read(self.folder.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The end of its log.
    pub(super) fn log(&self) -> String {
        let text = self.whole_log();
        let short = |line: &str| line.chars().take(240).collect::<String>();
        let lines: Vec<String> = text.lines().map(short).collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }

    fn last_line(&self) -> String {
        self.log().lines().last().unwrap_or_default().to_owned()
    }

    /// No thread of it has panicked, ever.
    pub(super) fn has_not_panicked(&self) -> Result<(), String> {
        let log = self.whole_log();
        let Some(at) = log.find("panicked") else { return Ok(()) };
        let lines: Vec<&str> = log[at..].lines().take(60).collect();
        Err(format!("member {} has {}", self.id, lines.join("\n")))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Copies a directory, in which a member may be running: what goes meanwhile is left out.
fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to); // of an earlier copy
    fs::create_dir(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            let _ = fs::copy(&path, &to); // it may be gone
        }
    }
}
