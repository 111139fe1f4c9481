//! Where other nodes reach this one.
//!
//! - Nobody listens beyond this machine without TLS, unless that was asked for.
//! - Connections end with the listener; requests under way do not.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use openraft::{Raft, RaftTypeConfig};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use crate::carrier::Door;
use crate::error::Error;
use crate::member::{Member, host_and_port};
use crate::seats::Connections;
use crate::served::{self, GIANT_BYTES, PERMIT_BYTES, Sender, Served};
use crate::settings::Settings;

/// Pause when the system accepts no connections.
const PAUSE: Duration = Duration::from_millis(50);

/// A port for the other nodes of a group.
#[derive(Debug)]
pub struct Listener {
    door: Box<dyn Door>,
    address: SocketAddr,
    settings: Arc<Settings>,
}

/// A listener at work. It ends, with all its connections, when this is dropped.
#[derive(Debug)]
pub struct Serving {
    task: JoinHandle<()>,
    address: SocketAddr,
}

impl Listener {
    /// Listens at `HOST:PORT`; port 0 is any free one.
    ///
    /// # Errors
    /// [`Error::UnprotectedListener`] beyond this machine without TLS, unless the settings allow
    /// it; [`Error::Bind`], [`Error::Address`], [`Error::GroupName`].
    pub async fn bind(address: &str, settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        let any = address.strip_suffix(":0").map(|host| format!("{host}:1"));
        let checked = host_and_port(any.as_deref().unwrap_or(address));
        let (host, port) = checked.ok_or_else(|| Error::Address { address: address.to_owned() })?;
        let port = if any.is_some() { 0 } else { port };
        let failed = |source| Error::Bind { address: address.to_owned(), source };
        let found = settings.carrier.look_up(host, port).await.map_err(failed)?;
        let beyond = found.iter().find(|address| !address.ip().is_loopback());
        if let Some(&address) = beyond
            && settings.tls.is_none()
            && !settings.unprotected
        {
            return Err(Error::UnprotectedListener { address });
        }
        let door = settings.carrier.listen(&found).await.map_err(failed)?;
        let address = door.address().map_err(failed)?;
        Ok(Self { door, address, settings: Arc::new(settings) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves other nodes: hands raft's requests to `raft`, and bytes that were
    /// [forwarded](crate::Network::forward) to `forward`, with the node that sent them.
    ///
    /// Requests run as tasks of the current tokio runtime; one under way goes on when its
    /// connection breaks.
    pub fn serve<C, F, A>(self, raft: Raft<C>, forward: F) -> Serving
    where
        C: RaftTypeConfig<NodeId = u64, Node = Member>,
        F: Fn(Sender, Vec<u8>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Vec<u8>, String>> + Send + 'static,
    {
        let Self { door, address, settings } = self;
        let limits = &settings.limits;
        // Messages that wait for each other to grow: each of the connections has one.
        let memory = limits.memory_bytes_max.max(limits.connections_max * GIANT_BYTES);
        let memory = (memory / PERMIT_BYTES + 1).min(Semaphore::MAX_PERMITS);
        let served = Arc::new(Served {
            raft,
            forward,
            memory: Arc::new(Semaphore::new(memory)),
            giant: Arc::new(Semaphore::new(1)),
            forwards: Arc::new(Semaphore::new(limits.forwards_max)),
            connections: Arc::new(Connections::new(&settings)),
            settings,
        });
        Serving { task: tokio::spawn(accept(door, served)), address }
    }
}

impl Serving {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it: afterwards the port is free, and its connections close.
    pub async fn stop(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await; // it was aborted
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept<C, F, A>(mut door: Box<dyn Door>, served: Arc<Served<C, F>>)
where
    C: RaftTypeConfig<NodeId = u64, Node = Member>,
    F: Fn(Sender, Vec<u8>) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Vec<u8>, String>> + Send + 'static,
{
    // They end with this task.
    let mut tasks = JoinSet::new();
    let mut fails = false;
    loop {
        tokio::select! {
            accepted = door.accept() => match accepted {
                Ok((socket, peer)) => {
                    fails = false;
                    let seat = served.connections.admit();
                    tasks.spawn(served::serve(Arc::clone(&served), socket, peer, seat));
                }
                Err(error) => {
                    if !std::mem::replace(&mut fails, true) {
                        tracing::warn!("cannot accept connections of nodes for now: {error}");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            },
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
        }
    }
}
