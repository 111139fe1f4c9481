//! The figures of one moment, copied from the command thread's state.

use stillframe_keyspace::{DATABASES, Keyspace};

use super::figure::{Figures, OfCommand, OfPrimary, OfReplica};
use crate::commands::Table;
use crate::commands::figures::{Seen, is_syncing, metrics_of};
use crate::replication::Phase;
use crate::state::ServerState;

impl Figures {
    /// Copies them.
    pub(crate) fn of(keyspace: &Keyspace, state: &ServerState, table: &Table) -> Self {
        let used = table.all().iter().zip(&state.meter.stats().commands);
        let commands = used.filter(|(_, it)| it.calls + it.rejected > 0).map(|(command, it)| {
            let seconds = it.time_ns as f64 / 1e9;
            let (calls, rejected, failed) = (it.calls, it.rejected, it.failed);
            OfCommand { name: command.name, calls, rejected, failed, seconds }
        });
        let databases = (0..DATABASES).filter(|&db| !keyspace.is_empty(db));
        Self {
            plain: metrics_of(&Seen::of(keyspace, state, table)),
            commands: commands.collect(),
            errors: state.meter.stats().errors.iter().map(|(code, n)| (code.clone(), *n)).collect(),
            databases: databases.map(|db| (db, keyspace.len(db), keyspace.expires(db))).collect(),
            replicas: replicas(state),
            primary: primary(state),
            instance: instance(state),
        }
    }
}

fn instance(state: &ServerState) -> [(&'static str, String); 7] {
    let role = if state.replication.is_replica() { "slave" } else { "master" };
    let (plain, tls) = state.net.ports();
    let port = if plain > 0 { plain } else { tls };
    [
        ("role", role.to_owned()),
        ("redis_version", crate::REDIS_VERSION.to_owned()),
        ("redis_mode", "standalone".to_owned()),
        ("stillframe_version", env!("CARGO_PKG_VERSION").to_owned()),
        ("maxmemory_policy", state.config.maxmemory_policy.name().to_owned()),
        ("tcp_port", port.to_string()),
        ("run_id", state.process.run_id().to_owned()),
    ]
}

fn replicas(state: &ServerState) -> Vec<OfReplica> {
    let known = state.replication.replicas(&state.clients).map(|(client, replica)| {
        let silent = state.clock.turn().saturating_duration_since(replica.acked_at).as_secs();
        OfReplica {
            ip: replica.address(&client.session.caller.peer),
            port: replica.port,
            state: replica.state(),
            offset: replica.acked,
            lag_s: if replica.phase == Phase::Online { silent } else { 0 },
        }
    });
    known.collect()
}

fn primary(state: &ServerState) -> Option<OfPrimary> {
    let following = state.replication.following()?;
    Some(OfPrimary {
        host: following.host.clone(),
        port: following.port,
        up: following.is_connected(),
        syncing: is_syncing(following),
        silent_s: state.clock.turn().saturating_duration_since(following.last_io).as_secs(),
    })
}
