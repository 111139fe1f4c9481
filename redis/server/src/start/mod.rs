//! From a configuration to a running server.

mod boot;
pub(crate) mod embedded;
pub(crate) mod import;
pub(crate) mod rewind;
#[cfg(feature = "in-process")]
pub(crate) mod stepped;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::{io, thread};

use stillframe_commands::RenameError;
use stillframe_keyspace::DATABASES;
use stillframe_storage::dump::{self, DataDirectory};
use stillframe_storage::{StorageError, load_dump, recover_log};

use crate::commands;
use crate::connections::net::{Listeners, Network, Poller, Porch};
use crate::connections::tls::Tls;
use crate::consensus::{MEMBER_FILE, Start};
use crate::data::queries::{self, OpenQueries};
use crate::data::read_views::ViewDoor;
use crate::node::acl::Users;
use crate::node::config::{Eviction, rewrite};
use crate::node::machine::room_for_clients;
use crate::node::process::{self, Asker, Signal, Signals};
use crate::state::roles;
use crate::turn::Server;
use crate::turn::metrics;
use crate::{Config, ServeError};
pub(crate) use boot::{Boot, Opened};

/// What the program around a server does for it.
pub struct Hooks {
    /// Makes it a member of a group if the settings say so.
    pub start: Start,
    /// Answers SQL if the settings name a port for that.
    pub queries: Option<OpenQueries>,
}

/// Runs a server until SHUTDOWN or a signal stops it.
///
/// # Errors
/// [`ServeError`] in one sentence.
pub fn serve(mut config: Config, hooks: Hooks) -> Result<(), ServeError> {
    check_member(&config)?;
    tracing::info!(
        "stillframe {} starting: process {}, snapshots by {}, compatible with Redis {}",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        config.snapshot,
        config.redis_version
    );
    if config.disable_thp {
        avoid_huge_pages();
    }
    let signals = Signals::watch().map_err(ServeError::Signals)?;
    raise_descriptor_limit(&mut config);
    if config.process.ends_with_input {
        end_with_input(signals.asker()).map_err(ServeError::Signals)?;
    }
    run(config, hooks, signals, None)
}

/// From now on the end of standard input asks the server to stop: a parent that dies need not.
fn end_with_input(asker: Asker) -> io::Result<()> {
    let watch = move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink()); // an error is an end, too
        asker.ask(Signal::Term);
    };
    thread::Builder::new().name("stdin".to_owned()).spawn(watch).map(drop)
}

/// The ways to a server within a program.
#[derive(Clone)]
struct Ways {
    porch: Porch,
    views: ViewDoor,
}

/// Runs a server. Who has it in a program is told when it serves, and who it connects by.
fn run(
    config: Config,
    hooks: Hooks,
    signals: Signals,
    ready: Option<Sender<Ways>>,
) -> Result<(), ServeError> {
    let boot = Boot::new(config)?;
    let config = &boot.config;
    let directory = DataDirectory::open(&config.dir, &config.dbfilename)?;
    refuse_members_data(config, &directory)?;
    let mut poller = Poller::new().map_err(ServeError::Events)?;
    let ready = ready.map(|ready| (ready, poller.open_porch()));
    let tls = Tls::new(config)?;
    let listeners = Listeners::bind(config, &poller)?;
    let metrics = config.process.metrics_port;
    let metrics = (metrics > 0).then(|| metrics::bind(config.process.metrics_bind, metrics));
    let metrics = metrics.transpose()?;
    let queries = queries::listen(config)?;
    let _pid_file = PidFile::write(&config.process.pidfile);
    let Opened { keyspace, mut state, table } = boot.open(directory, poller.waker().into_wake())?;
    state.net = Network::new(listeners, tls);
    state.process.heed(signals);
    let waker = poller.waker();
    let mut server = Server::new(keyspace, state, table, poller);
    let io_threads = server.state.config.process.io_threads;
    if io_threads > 1 {
        server.start_io_threads(io_threads).map_err(ServeError::Events)?;
    }
    if let Some(listener) = metrics {
        server.answer_to(metrics::serve(listener, waker.clone()).map_err(ServeError::Events)?);
    }
    if !load(&mut server)? {
        tracing::info!("stopping, as asked while loading");
        return Ok(());
    }
    let Server { keyspace, state, .. } = &mut server;
    state.process.begin_archive(&state.config)?;
    state.storage.end_load();
    roles::resume_stream(keyspace, state);
    state.process.tend_oom_score(&state.config, state.replication.is_replica());
    if let Some((host, port)) = state.config.replication.primary.clone() {
        roles::demote(keyspace, state, host, port);
    }
    state.net.announce();
    warn_if_open(&state.config, &state.users);
    if let Some(warning) = state.config.strange_ports() {
        tracing::warn!("{warning}");
    }
    process::notify(state.config.process.supervised, "READY=1");
    server.join(hooks.start)?;
    if let Some((ready, porch)) = ready {
        let rouse = porch.clone();
        let views = server.state.read_views.open_door(Arc::new(move || rouse.rouse()));
        // If it fails, who started it has gone, and the server with it.
        let _ = ready.send(Ways { porch, views });
    }
    let _queries = queries
        .map(|listener| {
            let views = server.state.read_views.open_door(waker.into_wake());
            queries::open(&server.state.config, listener, views, hooks.queries)
        })
        .transpose()?;
    server.run()
}

/// Loads the dump and the log behind it; false if the server is asked to stop meanwhile.
fn load(server: &mut Server) -> Result<bool, ServeError> {
    // Expired keys of a replica wait for its primary's DEL.
    let follows = &server.state.config;
    let is_replica = follows.replication.primary.is_some() || follows.raft.id > 0;
    let is_loaded = load_dump(server, is_replica)?;
    if !is_replica {
        refuse_to_evict(server)?;
    }
    import::refuse_foreign(&server.state)?;
    Ok(is_loaded && !recover_log(server)?)
}

/// Says whether commands can have these names, for settings that rename them.
///
/// # Errors
/// [`RenameError`]: the first pair that is impossible.
pub fn check_names(renames: &[[Vec<u8>; 2]]) -> Result<(), RenameError> {
    commands::table().rename_all(renames)
}

/// Refuses to start with databases that shared keys when they were saved and no longer do, so that
/// they exceed the limit: keys would be evicted before anybody has seen why.
fn refuse_to_evict(server: &Server) -> Result<(), ServeError> {
    let Server { keyspace, state, .. } = server;
    let (config, saves) = (&state.config, &state.storage.saves);
    let (bytes, saved_bytes) = (keyspace.data_bytes() as u64, saves.loaded.saved_bytes);
    let fits = |bytes| bytes <= config.maxmemory_bytes;
    let has_grown = bytes > saved_bytes.saturating_mul(5) / 4;
    let used = (0..DATABASES).filter(|&db| !keyspace.is_empty(db)).count();
    if config.maxmemory_bytes == 0 || fits(bytes) || !fits(saved_bytes) || !has_grown || used < 2 {
        return Ok(());
    }
    let refusal = ServeError::WouldEvict {
        dump: saves.directory().dump().display().to_string(),
        saved_bytes,
        bytes,
        maxmemory_bytes: config.maxmemory_bytes,
        policy: config.maxmemory_policy.name(),
    };
    if config.maxmemory_policy == Eviction::NONE {
        tracing::warn!("{refusal}");
        return Ok(());
    }
    Err(refusal)
}

/// Refuses settings that a member of a group cannot have.
fn check_member(config: &Config) -> Result<(), ServeError> {
    let problem = config.problem_of_member().or_else(|| config.raft.problem());
    problem.map_or(Ok(()), |problem| Err(ServeError::Group(problem.to_owned())))
}

/// Refuses the directory of a member to a server that is none: it knows nothing of the log there.
fn refuse_members_data(config: &Config, directory: &DataDirectory) -> Result<(), ServeError> {
    let is_members = directory.files().holds(MEMBER_FILE);
    let is_members = is_members.map_err(|error| ServeError::Group(error.to_string()))?;
    if config.raft.id > 0 || !is_members {
        return Ok(());
    }
    let directory = config.dir.display();
    Err(ServeError::Group(format!(
        "{directory} is the directory of a member of a group, whose log this server would not read: \
         start it with its raft-id, or take its data out by 'stillframe group export {directory} \
         --out DIR'"
    )))
}

/// Whether the server leaves the terminal; not if a supervisor waits for it.
#[must_use]
pub fn leaves_terminal(config: &Config) -> bool {
    config.process.daemonize && !process::is_supervised(config.process.supervised)
}

/// Enters the data directory, if it was named: relative paths of other settings then start there,
/// as in Redis.
///
/// # Errors
/// [`StorageError::Directory`].
pub fn enter_directory(config: &mut Config) -> Result<(), ServeError> {
    let failed = |error| StorageError::Directory { path: config.dir.clone(), error };
    config.dir = std::path::absolute(&config.dir).map_err(failed)?;
    if config.dir_is_named {
        dump::create(&config.dir)?;
        config.dir = dump::enter(&config.dir)?;
    }
    Ok(())
}

/// The file with the id of this process while the server runs.
struct PidFile(PathBuf);

impl PidFile {
    /// Writes it, if configured. It is not worth failing for.
    fn write(path: &str) -> Option<Self> {
        if path.is_empty() {
            return None;
        }
        let file = Self(path.into());
        let written = rewrite::replace(&file.0, format!("{}\n", std::process::id()).as_bytes());
        written.inspect_err(|error| tracing::warn!("cannot write the pidfile: {error}")).ok()?;
        Some(file)
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Err(error) = rewrite::remove(&self.0) {
            tracing::warn!("cannot remove the pidfile: {error}");
        }
    }
}

fn warn_if_open(config: &Config, users: &Users) {
    if config.loopback_only() || !users.is_open() {
        return;
    }
    if config.protected_mode {
        tracing::warn!(
            "listening beyond this machine without a password: clients elsewhere are refused; \
             set --requirepass, or --protected-mode no if the network is trusted"
        );
    } else {
        tracing::warn!(
            "listening beyond this machine without a password: anybody who reaches \
             the port can read, change and delete the data"
        );
    }
}

/// Asks for small pages: the kernel clears a page at its first touch, and 2 MiB at once delay every
/// client (by 10 ms on a virtual machine whose memory is new). Huge pages can raise the throughput
/// of large data sets: `disable-thp no`.
fn avoid_huge_pages() {
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::warn!("cannot turn huge pages off: {error}");
    }
}

/// Makes room for `maxclients` connections, or lowers `maxclients` to the room there is.
fn raise_descriptor_limit(config: &mut Config) {
    let room = room_for_clients(config.maxclients);
    if room < config.maxclients {
        tracing::warn!(
            "the limit of open files leaves room for {room} clients instead of {}; raise it with \
             'ulimit -n'",
            config.maxclients
        );
        config.maxclients = room;
    }
}
