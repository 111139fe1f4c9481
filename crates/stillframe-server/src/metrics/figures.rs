//! The figures of one moment, copied from the command thread's state.

use stillframe_keyspace::{DATABASES, Keyspace};

use super::figure::{Figure, Figures, OfCommand, OfPrimary, OfReplica, Trend};
use crate::commands::Table;
use crate::hub::Kind;
use crate::memory::{arena_bytes, counted_bytes, used_bytes};
use crate::replication::Phase;
use crate::state::ServerState;

/// Figures under way.
#[derive(Default)]
struct Gathered(Vec<Figure>);

impl Gathered {
    fn gauge(&mut self, name: &'static str, help: &'static str, value: f64) {
        self.0.push(Figure { name, help, trend: Trend::Gauge, value });
    }

    fn counter(&mut self, name: &'static str, help: &'static str, value: u64) {
        self.0.push(Figure { name, help, trend: Trend::Counter, value: value as f64 });
    }
}

impl Figures {
    /// Copies them.
    pub(crate) fn of(keyspace: &Keyspace, state: &ServerState, table: &Table) -> Self {
        let mut gathered = Gathered::default();
        server(&mut gathered, keyspace, state);
        traffic(&mut gathered, keyspace, state);
        saves(&mut gathered, state);
        log(&mut gathered, state);
        snapshots(&mut gathered, keyspace, state);
        replication(&mut gathered, state);
        let used = table.all().iter().zip(&state.meter.stats.commands);
        let commands = used.filter(|(_, it)| it.calls + it.rejected > 0).map(|(command, it)| {
            let seconds = it.time_ns as f64 / 1e9;
            let (calls, rejected, failed) = (it.calls, it.rejected, it.failed);
            OfCommand { name: command.name, calls, rejected, failed, seconds }
        });
        let databases = (0..DATABASES).filter(|&db| !keyspace.is_empty(db));
        Self {
            plain: gathered.0,
            commands: commands.collect(),
            errors: state.meter.stats.errors.iter().map(|(code, n)| (code.clone(), *n)).collect(),
            databases: databases.map(|db| (db, keyspace.len(db), keyspace.expires(db))).collect(),
            replicas: replicas(state),
            primary: primary(state),
            instance: instance(state),
        }
    }
}

fn instance(state: &ServerState) -> [(&'static str, String); 7] {
    let role = if state.replication.is_replica() { "slave" } else { "master" };
    let (plain, tls) = state.net.listeners.ports();
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

fn server(to: &mut Gathered, keyspace: &Keyspace, state: &ServerState) {
    let config = &state.config;
    let uptime = state.clock.started().elapsed().as_secs() as f64;
    to.gauge("redis_up", "Whether the server answers.", 1.0);
    to.gauge("redis_uptime_in_seconds", "Seconds since the start.", uptime);
    let clients = (state.hub.clients.count() - state.hub.clients.replicas()) as f64;
    to.gauge("redis_connected_clients", "Clients, replicas apart.", clients);
    let blocked = (state.ledger.waiters.count() + state.hub.clients.postponed()) as f64;
    let help = "Clients that wait for keys, for replicas or for the end of a pause.";
    to.gauge("redis_blocked_clients", help, blocked);
    let tracking = state.hub.tracking().clients as f64;
    to.gauge("redis_tracking_clients", "Clients with CLIENT TRACKING.", tracking);
    let most = f64::from(config.maxclients);
    to.gauge("redis_config_maxclients", "Most clients at once (maxclients).", most);
    let figures = keyspace.stats();
    let used = used_bytes(keyspace, state) as f64;
    to.gauge("redis_memory_used_bytes", "Bytes of data, images and clients' buffers.", used);
    let entries = figures.entry_bytes as f64;
    to.gauge("redis_memory_used_dataset_bytes", "Bytes of keys and values.", entries);
    let counted = counted_bytes(keyspace, &state.hub.clients) as f64;
    let help = "Bytes that maxmemory is compared with.";
    to.gauge("stillframe_memory_counted_bytes", help, counted);
    let buffers = state.hub.clients.bytes() as f64;
    to.gauge("redis_mem_clients_normal", "Bytes of clients' buffers.", buffers);
    let limit = config.maxmemory_bytes as f64;
    to.gauge("redis_memory_max_bytes", "The limit of memory, or 0 (maxmemory).", limit);
}

fn traffic(to: &mut Gathered, keyspace: &Keyspace, state: &ServerState) {
    let stats = &state.meter.stats;
    let expired = keyspace.stats().expired_total.saturating_sub(stats.expired_base);
    for (name, help, value) in [
        ("redis_connections_received_total", "Connections made.", stats.connections_received),
        ("redis_rejected_connections_total", "Those turned away.", stats.rejected_connections),
        ("redis_commands_processed_total", "Commands run.", stats.commands_processed),
        ("redis_net_input_bytes_total", "Bytes received.", stats.input_bytes),
        ("redis_net_output_bytes_total", "Bytes sent.", stats.output_bytes),
        ("redis_keyspace_hits_total", "Keys found by reads.", state.ledger.lookups.hits),
        ("redis_keyspace_misses_total", "Keys not found by reads.", state.ledger.lookups.misses),
        ("redis_expired_keys_total", "Keys whose time was over.", expired),
        ("redis_evicted_keys_total", "Keys that made room.", stats.evicted_keys),
        ("redis_total_error_replies", "Error replies.", stats.error_replies),
        ("redis_total_reads_processed", "Reads of clients' sockets.", stats.reads),
        ("redis_total_writes_processed", "Writes to clients' sockets.", stats.writes),
    ] {
        to.counter(name, help, value);
    }
    let channels = state.hub.pubsub.count(Kind::Channel) as f64;
    to.gauge("redis_pubsub_channels", "Channels somebody listens to.", channels);
    let patterns = state.hub.pubsub.count(Kind::Pattern) as f64;
    to.gauge("redis_pubsub_patterns", "Patterns somebody listens to.", patterns);
    let slow = state.meter.slowlog.entries().len() as f64;
    to.gauge("redis_slowlog_length", "Requests in the slow log.", slow);
}

fn saves(to: &mut Gathered, state: &ServerState) {
    let saves = &state.storage.saves;
    let running = saves.running();
    let sending = state.replication.sends_image();
    let saving = f64::from(u8::from(running.is_some() || sending));
    let seconds = |time: Option<std::time::Duration>| time.map_or(-1.0, |time| time.as_secs_f64());
    let current = running.map(|running| running.started.elapsed());
    let ok = f64::from(u8::from(saves.last_ok));
    for (name, help, value) in [
        ("redis_loading_dump_file", "Whether an image is loaded.", u8::from(loads(state)).into()),
        ("redis_rdb_changes_since_last_save", "Changes not saved.", state.ledger.dirty as f64),
        ("redis_rdb_bgsave_in_progress", "Whether an image is saved or sent.", saving),
        (
            "redis_rdb_last_save_timestamp_seconds",
            "Unix time of the last good save.",
            saves.last_success_s as f64,
        ),
        ("redis_rdb_last_bgsave_status", "Whether the last save was good.", ok),
        (
            "redis_rdb_last_bgsave_duration_sec",
            "Seconds of the last save, or -1.",
            seconds(saves.last_duration),
        ),
        (
            "redis_rdb_current_bgsave_duration_sec",
            "Seconds of the save under way, or -1.",
            seconds(current),
        ),
    ] {
        to.gauge(name, help, value);
    }
}

fn loads(state: &ServerState) -> bool {
    state.is_loading()
}

fn log(to: &mut Gathered, state: &ServerState) {
    let (journal, saves) = (&state.storage.journal, &state.storage.saves);
    let flag = |is: bool| f64::from(u8::from(is));
    let rewriting = saves.running().is_some() && journal.told().is_some();
    let well = flag(journal.problem().is_none());
    to.gauge("redis_aof_enabled", "Whether changes are logged.", flag(journal.is_on()));
    let help = "Whether an image takes the log's place.";
    to.gauge("redis_aof_rewrite_in_progress", help, flag(rewriting));
    let waits = journal.holds_writes(&state.config, state.clock.turn());
    to.gauge("stillframe_log_writes_held", "Whether writes wait for a log.", flag(waits));
    to.gauge("redis_aof_last_bgrewrite_status", "Whether the last did.", flag(saves.last_ok));
    to.gauge("redis_aof_last_write_status", "Whether the log can be written.", well);
    let Some(told) = journal.told() else { return };
    to.gauge("redis_aof_current_size_bytes", "Bytes of the log.", told.current_bytes as f64);
    to.gauge("redis_aof_base_size_bytes", "Bytes of its image.", told.base_bytes as f64);
    let waiting = told.stats.waiting_bytes as f64;
    to.gauge("redis_aof_buffer_length", "Bytes not yet written to the log.", waiting);
    let lag = told.stats.last.saturating_sub(told.stats.durable) as f64;
    to.gauge("stillframe_log_records_behind", "Records not yet on the disk.", lag);
    to.counter("stillframe_log_stalls_total", "Times that the disk held writers up.", told.stalls);
    to.counter("stillframe_log_syncs_total", "Syncs of the log.", told.stats.syncs);
}

fn snapshots(to: &mut Gathered, keyspace: &Keyspace, state: &ServerState) {
    let (saves, figures, progress) = (&state.storage.saves, keyspace.stats(), keyspace.progress());
    let running = saves.running();
    let arena = arena_bytes(keyspace);
    let begin = saves.latest_begin.as_secs_f64();
    let left = running.map_or(0.0, |running| running.time_left().as_secs_f64());
    let of =
        |figure: fn(&crate::persistence::Save) -> u64| running.map_or(0.0, |it| figure(it) as f64);
    for (name, help, value) in [
        (
            "stillframe_snapshot_last_begin_seconds",
            "How long the last begin of an image held the server up.",
            begin,
        ),
        (
            "stillframe_snapshot_keys_done",
            "Keys that the save under way has written.",
            of(crate::persistence::Save::keys_done),
        ),
        (
            "stillframe_snapshot_keys_total",
            "Keys that it will write.",
            of(|running| running.keys_total),
        ),
        (
            "stillframe_snapshot_bytes_done",
            "Bytes that it has written.",
            of(crate::persistence::Save::bytes_done),
        ),
        (
            "stillframe_snapshot_bytes_total",
            "Bytes that it will write, by what is done.",
            of(crate::persistence::Save::bytes_total),
        ),
        ("stillframe_snapshot_eta_seconds", "Seconds until it ends, by what is done.", left),
        (
            "stillframe_snapshot_arena_bytes",
            "Memory that the image takes for itself.",
            arena as f64,
        ),
        (
            "stillframe_snapshot_limbo_bytes",
            "Old values that the image may still need.",
            figures.limbo_bytes as f64,
        ),
        ("stillframe_snapshot_limbo_entries", "How many they are.", figures.limbo_entries as f64),
    ] {
        to.gauge(name, help, value);
    }
    to.counter("stillframe_snapshot_saves_total", "Good saves since the start.", saves.count);
    let waits = progress.writer_waits() as f64;
    let help = "Times that the newest image held the writer up.";
    to.gauge("stillframe_snapshot_writer_waits", help, waits);
    let help = "How long a save of the schedule has been overdue.";
    to.gauge("stillframe_snapshot_overdue_seconds", help, saves.overdue().as_secs_f64());
}

fn replication(to: &mut Gathered, state: &ServerState) {
    let replication = &state.replication;
    let replicas = replication.replica_count() as f64;
    to.gauge("redis_connected_slaves", "Replicas.", replicas);
    let offset = replication.stream().end() as f64;
    to.gauge("redis_master_repl_offset", "Bytes of the stream so far.", offset);
    let backlog = state.config.replication.backlog_bytes as f64;
    to.gauge("redis_replication_backlog_bytes", "Size of the backlog.", backlog);
    let waits = f64::from(u8::from(replication.writes_wait()));
    let help = "Whether writes wait for a replica that is synchronised.";
    to.gauge("stillframe_repl_sync_writes_held", help, waits);
    for (name, help, value) in [
        ("redis_replica_resyncs_full", "Full synchronisations.", state.meter.stats.full_syncs),
        ("redis_replica_partial_resync_accepted", "Partial ones.", state.meter.stats.partial_syncs),
        (
            "redis_replica_partial_resync_denied",
            "Refused ones.",
            state.meter.stats.partial_refusals,
        ),
    ] {
        to.gauge(name, help, value as f64);
    }
}

fn replicas(state: &ServerState) -> Vec<OfReplica> {
    let known = state.replication.replicas(&state.hub.clients).map(|(client, replica)| {
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
        syncing: following.state() == "sync" || following.is_loading(),
        silent_s: state.clock.turn().saturating_duration_since(following.last_io).as_secs(),
    })
}
