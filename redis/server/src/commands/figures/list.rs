//! The list of figures, in the order of INFO's sections.

use std::time::Duration;

use stillframe_storage::dump::{Save, whole_micros};

use super::rows::{COMMANDS, DATABASES, ERRORS, LATENCIES, REPLICAS};
use super::{
    Figure, Labels, Seen, Spread, Value, always, figure, is_syncing, none, of_process, rows, spread,
};
use crate::connections::client::Kind;
use crate::node::clock::unix_millis;
use crate::node::{machine, process};
use crate::peers::group::Member;
use crate::state::eviction::{OWN_BYTES, arena_bytes};

/// A section of INFO.
pub(in crate::commands) struct Section {
    pub(in crate::commands) name: &'static str,
    /// Whether INFO shows it unasked.
    pub(in crate::commands) is_default: bool,
    /// Only a member of a group has it.
    pub(in crate::commands) of_member: bool,
    pub(in crate::commands) figures: &'static [Figure],
}

const fn section(name: &'static str, figures: &'static [Figure]) -> Section {
    Section { name, is_default: true, of_member: false, figures }
}

impl Section {
    /// INFO of a member of a group shows it.
    const fn of_member(self) -> Self {
        Self { of_member: true, ..self }
    }

    /// INFO shows it when it is asked for.
    const fn on_request(self) -> Self {
        Self { is_default: false, ..self }
    }
}

/// The sections in INFO's order.
pub(in crate::commands) static SECTIONS: [Section; 15] = [
    section("Server", SERVER),
    section("Clients", CLIENTS),
    section("Memory", MEMORY),
    section("Persistence", PERSISTENCE),
    section("Stats", STATS),
    section("Replication", REPLICATION),
    section("CPU", CPU),
    section("Hotkeys", HOTKEYS),
    section("Modules", &[]),
    section("Commandstats", &[rows(&COMMANDS)]).on_request(),
    section("Errorstats", &[rows(&ERRORS)]),
    section("Latencystats", &[rows(&LATENCIES)]).on_request(),
    section("Cluster", CLUSTER),
    section("Raft", RAFT).of_member(),
    section("Keyspace", &[rows(&DATABASES)]),
];

/// The metrics that INFO lacks.
pub(super) static UNLISTED: &[Figure] = &[
    always!("", |_| 1u8).gauge("redis_up", "Whether the server answers."),
    always!("", |_| 1u8).gauge("redis_instance_info", "Which server this is.").labelled(instance),
    always!("", |s| s.server.meter.slow_requests().len())
        .gauge("redis_slowlog_length", "Requests in the slow log."),
    figure("", |s| s.of_log(|it| it.stats.last.saturating_sub(it.stats.durable).into()))
        .gauge("stillframe_log_records_behind", "Records not yet on the disk."),
    spread(turns).histogram(
        "stillframe_turn_duration_seconds",
        "How long turns of the event loop took: as long a request may wait for those before it.",
    ),
];

fn millis(time: Duration) -> Option<Value> {
    Some(Value::Real(time.as_secs_f64() * 1000.0, 2))
}

fn turns(seen: &Seen<'_>) -> Spread {
    let stats = seen.server.meter.stats();
    let turns = &stats.turns;
    Spread { upto: turns.spread(), count: turns.runs(), sum: stats.turns_time }
}

static SERVER: &[Figure] = &[
    always!("redis_version", |s| s.server.config.redis_version.to_string()),
    always!("redis_git_sha1", |_| "00000000"),
    none("redis_git_dirty"),
    none("redis_build_id"),
    always!("redis_mode", |s| s.server.mode()),
    always!("stillframe_version", |_| env!("CARGO_PKG_VERSION")),
    always!("os", |_| machine::system_name()),
    always!("arch_bits", |_| usize::BITS),
    always!("monotonic_clock", |_| "POSIX clock_gettime"),
    always!("multiplexing_api", |_| "epoll"),
    always!("process_id", |_| std::process::id()),
    always!("process_supervised", |s| {
        let is_supervised = process::is_supervised(s.server.config.process.supervised);
        if is_supervised { "systemd" } else { "no" }
    }),
    always!("run_id", |s| s.server.process.run_id()),
    always!("tcp_port", |s| {
        let (plain, tls) = s.server.net.ports();
        if plain > 0 { plain } else { tls }
    }),
    always!("server_time_usec", |_| unix_millis().saturating_mul(1000)),
    always!("uptime_in_seconds", |s| s.server.clock.started().elapsed().as_secs())
        .gauge("redis_uptime_in_seconds", "Seconds since the start."),
    always!("uptime_in_days", |s| s.server.clock.started().elapsed().as_secs() / 86_400),
    always!("hz", |s| s.server.config.hz),
    always!("configured_hz", |s| s.server.config.hz),
    always!("lru_clock", |_| (unix_millis() / 1000) & 0xff_ffff),
    always!("executable", |_| {
        std::env::current_exe().unwrap_or_default().display().to_string()
    }),
    always!("config_file", |s| {
        s.server.config.config_file.clone().unwrap_or_default().display().to_string()
    }),
    always!("io_threads_active", |s| u64::from(s.server.config.process.io_threads > 1)),
    figure("shutdown_in_milliseconds", |s| {
        s.server.process.ending().map(|it| it.left().as_millis().into())
    }),
];

static CLIENTS: &[Figure] = &[
    always!("connected_clients", |s| s.server.clients.count() - s.server.clients.replicas())
        .gauge("redis_connected_clients", "Clients, replicas apart."),
    none("cluster_connections"),
    always!("maxclients", |s| s.server.config.maxclients)
        .gauge("redis_config_maxclients", "Most clients at once (maxclients)."),
    always!("client_recent_max_input_buffer", |s| {
        s.server.clients.others().map(|(_, it)| it.input.capacity()).max().unwrap_or(0)
    }),
    always!("client_recent_max_output_buffer", |s| {
        s.server.clients.others().map(|(_, it)| it.output.capacity()).max().unwrap_or(0)
    }),
    always!("blocked_clients", |s| {
        s.server.ledger.waiters.count() + s.server.clients.postponed()
    })
    .gauge(
        "redis_blocked_clients",
        "Clients that wait for keys, for replicas or for the end of a pause.",
    ),
    always!("tracking_clients", |s| s.server.hub.tracking().clients)
        .gauge("redis_tracking_clients", "Clients with CLIENT TRACKING."),
    always!("pubsub_clients", |s| {
        s.server.clients.others().filter(|(_, it)| it.session.subscriptions.is_some()).count()
    }),
    always!("watching_clients", |s| s.server.ledger.watches.clients()),
    always!("clients_in_timeout_table", |s| s.server.ledger.waiters.with_deadline()),
    always!("total_watched_keys", |s| s.server.ledger.watches.keys()),
    always!("total_blocking_keys", |s| s.server.ledger.waiters.keys()),
    always!("total_blocking_keys_on_nokey", |s| s.server.ledger.waiters.needed_keys()),
    always!("paused_reason", |s| match (s.fails_over(), s.server.hub.pause_left()) {
        (true, _) => "failover_in_progress",
        (false, Some(_)) => "client_pause",
        (false, None) => "none",
    }),
    always!("paused_actions", |s| match s.server.hub {
        ref hub if hub.pause_stops(false) => "all",
        ref hub if s.fails_over() || hub.is_paused() => "write",
        _ => "none",
    }),
    always!("paused_timeout_milliseconds", |s| {
        s.server.hub.pause_left().map_or(0, |left| left.as_millis())
    }),
];

static MEMORY: &[Figure] = &[
    figure("used_memory", |s| Some(Value::Size(s.used())))
        .gauge("redis_memory_used_bytes", "Bytes of data, images and clients' buffers."),
    of_process("used_memory_rss", |it| Value::Size(it.resident().0))
        .gauge("redis_memory_used_rss_bytes", "Memory of the process."),
    of_process("used_memory_peak", |it| Value::Size(it.resident().1))
        .gauge("redis_memory_used_peak_bytes", "The most of it so far."),
    figure("used_memory_peak_perc", |s| Some(Value::Percent(s.used(), s.process.resident().1))),
    always!("used_memory_overhead", |s| s.used() - s.dataset()),
    always!("used_memory_startup", |_| OWN_BYTES),
    always!("used_memory_dataset", |s| s.dataset())
        .gauge("redis_memory_used_dataset_bytes", "Bytes of keys and values."),
    figure("used_memory_dataset_perc", |s| Some(Value::Percent(s.dataset(), s.used()))),
    figure("total_system_memory", |_| Some(Value::Size(machine::machine_memory_bytes()))),
    figure("maxmemory", |s| Some(Value::Size(s.server.config.maxmemory_bytes)))
        .gauge("redis_memory_max_bytes", "The limit of memory, or 0 (maxmemory)."),
    figure("used_memory_lua", |s| Some(Value::Size(s.scripts().interpreter as u64))),
    always!("used_memory_vm_eval", |s| s.scripts().interpreter),
    always!("used_memory_scripts_eval", |s| s.scripts().lists),
    always!("number_of_cached_scripts", |s| s.scripts().count),
    always!("number_of_functions", |s| s.functions().count),
    always!("number_of_libraries", |s| s.keyspace.libraries().sources().len()),
    always!("used_memory_vm_functions", |s| s.functions().interpreter),
    figure("used_memory_vm_total", |s| {
        Some(Value::Size((s.scripts().interpreter + s.functions().interpreter) as u64))
    }),
    always!("used_memory_functions", |s| s.functions().lists),
    none("used_memory_hash_templates"),
    figure("used_memory_scripts", |s| {
        Some(Value::Size((s.scripts().lists + s.functions().lists) as u64))
    }),
    always!("maxmemory_policy", |s| s.server.config.maxmemory_policy.name()),
    always!("mem_counted_for_evict", |s| s.counted())
        .gauge("stillframe_memory_counted_bytes", "Bytes that maxmemory is compared with."),
    always!("mem_not_counted_for_evict", |s| s.used().saturating_sub(s.counted())),
    always!("mem_shared_by_databases", |s| s.keyspace.shared_bytes()).gauge(
        "stillframe_shared_by_databases_bytes",
        "Bytes more that the data takes where branch databases share nothing, as in Redis.",
    ),
    // The allocator reports nothing: the memory of the process stands for that of the allocator.
    always!("allocator_allocated", |s| s.used()),
    always!("allocator_active", |s| s.process.resident().0),
    always!("allocator_resident", |s| s.process.resident().0),
    figure("allocator_frag_ratio", fragmentation),
    always!("allocator_frag_bytes", |s| s.process.resident().0.cast_signed()
        - s.used().cast_signed()),
    figure("mem_fragmentation_ratio", fragmentation),
    always!("mem_fragmentation_bytes", |s| s.process.resident().0.cast_signed()
        - s.used().cast_signed()),
    always!("allocator_rss_ratio", |_| "1.00"),
    none("allocator_rss_bytes"),
    always!("rss_overhead_ratio", |_| "1.00"),
    none("rss_overhead_bytes"),
    always!("mem_replication_backlog", |s| s.server.replication.stream().memory() - s.behind()),
    always!("mem_total_replication_buffers", |s| s.server.replication.stream().memory()),
    always!("mem_clients_slaves", |s| s.behind()),
    figure("mem_raft_log", |s| s.member(|it| it.log_memory().into()))
        .gauge("stillframe_mem_raft_log_bytes", "Bytes of the group's log in memory."),
    none("mem_cluster_slot_migration_output_buffer"),
    none("mem_cluster_slot_migration_input_buffer"),
    none("mem_cluster_slot_migration_input_buffer_peak"),
    none("mem_cluster_links"),
    always!("mem_clients_normal", |s| s.server.clients.bytes())
        .gauge("redis_mem_clients_normal", "Bytes of clients' buffers."),
    always!("mem_aof_buffer", |s| s.log().map_or(0, |log| log.stats.waiting_bytes)),
    always!("mem_limbo_bytes", |s| s.stats.limbo_bytes),
    always!("mem_garbage_bytes", |s| s.stats.garbage_bytes),
    always!("mem_allocator", |_| "mimalloc"),
    none("mem_overhead_db_hashtable_rehashing"),
    always!("active_defrag_running", |s| u64::from(s.server.memory.defrag.running().is_some())),
    none("lazyfree_pending_objects"),
    none("lazyfreed_objects"),
];

fn fragmentation(seen: &Seen<'_>) -> Option<Value> {
    Some(Value::Real(seen.process.resident().0 as f64 / seen.used().max(1) as f64, 2))
}

static PERSISTENCE: &[Figure] = &[
    always!("loading", |s| s.server.progress_of_loading().is_some())
        .gauge("redis_loading_dump_file", "Whether an image is loaded."),
    none("async_loading"),
    figure("loading_start_time", |s| s.server.progress_of_loading().map(|it| it.started_s.into())),
    figure("loading_total_bytes", |s| {
        s.server.progress_of_loading().map(|it| it.total_bytes.into())
    }),
    figure("loading_loaded_bytes", |s| {
        s.server.progress_of_loading().map(|it| it.loaded_bytes.into())
    }),
    figure("loading_loaded_perc", |s| {
        s.server.progress_of_loading().map(|it| Value::Real(it.share() * 100.0, 2))
    }),
    figure("loading_eta_seconds", |s| {
        s.server.progress_of_loading().map(|it| it.left().as_secs().into())
    }),
    none("current_cow_peak"),
    none("current_cow_size"),
    none("current_cow_size_age"),
    figure("current_fork_perc", |s| {
        let (done, total) = (s.of_save(Save::keys_done), s.of_save(|it| it.keys_total));
        Some(Value::Real(done as f64 * 100.0 / total.max(1) as f64, 2))
    }),
    always!("current_save_keys_processed", |s| s.of_save(Save::keys_done))
        .gauge("stillframe_snapshot_keys_done", "Keys that the save under way has written."),
    always!("current_save_keys_total", |s| s.of_save(|it| it.keys_total))
        .gauge("stillframe_snapshot_keys_total", "Keys that it will write."),
    always!("current_save_bytes_processed", |s| s.of_save(Save::bytes_done))
        .gauge("stillframe_snapshot_bytes_done", "Bytes that it has written."),
    always!("current_save_bytes_total", |s| s.of_save(Save::bytes_total))
        .gauge("stillframe_snapshot_bytes_total", "Bytes that it will write, by what is done."),
    figure("current_save_eta_sec", |s| {
        Some(Value::Real(s.running().map_or(0.0, |it| it.time_left().as_secs_f64()), 1))
    })
    .gauge("stillframe_snapshot_eta_seconds", "Seconds until it ends, by what is done."),
    always!("rdb_changes_since_last_save", |s| s.server.ledger.dirty)
        .gauge("redis_rdb_changes_since_last_save", "Changes not saved."),
    always!("rdb_bgsave_in_progress", |s| {
        s.running().is_some() || s.server.replication.sends_image()
    })
    .gauge("redis_rdb_bgsave_in_progress", "Whether an image is saved or sent."),
    always!("rdb_last_save_time", |s| s.server.storage.saves.last_success_s)
        .gauge("redis_rdb_last_save_timestamp_seconds", "Unix time of the last good save."),
    figure("rdb_last_bgsave_status", |s| Some(Value::Status(s.server.storage.saves.last_ok)))
        .gauge("redis_rdb_last_bgsave_status", "Whether the last save was good."),
    figure("rdb_last_bgsave_time_sec", |s| {
        Some(Value::Seconds(s.server.storage.saves.last_duration))
    })
    .gauge("redis_rdb_last_bgsave_duration_sec", "Seconds of the last save, or -1."),
    figure("rdb_current_bgsave_time_sec", |s| {
        Some(Value::Seconds(s.running().map(|it| it.started.elapsed())))
    })
    .gauge("redis_rdb_current_bgsave_duration_sec", "Seconds of the save under way, or -1."),
    always!("rdb_saves", |s| s.server.storage.saves.count)
        .counter("stillframe_snapshot_saves_total", "Good saves since the start."),
    always!("rdb_saves_consecutive_failures", |s| s.server.storage.saves.failures),
    none("rdb_last_cow_size"),
    always!("rdb_last_load_keys_expired", |s| s.server.storage.saves.loaded.expired),
    always!("rdb_last_load_keys_loaded", |s| s.server.storage.saves.loaded.keys),
    always!("snapshot_algorithm", |s| s.server.config.snapshot),
    figure("latest_begin_usec", |s| Some(Value::Micros(s.server.storage.saves.latest_begin)))
        .gauge(
            "stillframe_snapshot_last_begin_seconds",
            "How long the last begin of an image held the server up.",
        ),
    always!("snapshot_arena_bytes", |s| arena_bytes(s.keyspace))
        .gauge("stillframe_snapshot_arena_bytes", "Memory that the image takes for itself."),
    always!("snapshot_limbo_bytes", |s| s.stats.limbo_bytes)
        .gauge("stillframe_snapshot_limbo_bytes", "Old values that the image may still need."),
    always!("snapshot_limbo_entries", |s| s.stats.limbo_entries)
        .gauge("stillframe_snapshot_limbo_entries", "How many they are."),
    always!("snapshot_writer_waits", |s| s.keyspace.progress().writer_waits()).gauge(
        "stillframe_snapshot_writer_waits",
        "Times that the newest image held the writer up.",
    ),
    always!("views_open", |s| s.server.views.all().count())
        .gauge("stillframe_views_open", "Views that are open."),
    always!("views_bytes", |s| s.stats.view_bytes)
        .gauge("stillframe_views_bytes", "Old values that only views still see."),
    always!("views_entries", |s| s.stats.view_entries)
        .gauge("stillframe_views_entries", "How many they are."),
    always!("views_opened", |s| s.server.views.counts().opened)
        .counter("stillframe_views_opened_total", "Views opened since the start."),
    always!("views_displaced", |s| s.server.views.counts().displaced).counter(
        "stillframe_views_displaced_total",
        "Views and branches closed for want of memory or place.",
    ),
    always!("views_timed_out", |s| s.server.views.counts().timed_out).counter(
        "stillframe_views_timed_out_total",
        "Views and branches closed because nobody used them.",
    ),
    always!("views_read_open", |s| s.keyspace.read_views())
        .gauge("stillframe_views_read_open", "Views that other threads read."),
    always!("views_read_opened", |s| s.server.read_views.opened())
        .counter("stillframe_views_read_opened_total", "Such views opened since the start."),
    always!("branches_open", |s| s.server.views.branches().count())
        .gauge("stillframe_branches_open", "Branches that are open."),
    always!("branches_bytes", |s| s.server.views.branch_bytes())
        .gauge("stillframe_branches_bytes", "What branches have written."),
    always!("branches_opened", |s| s.server.views.counts().branched)
        .counter("stillframe_branches_opened_total", "Branches opened since the start."),
    figure("snapshot_overdue_sec", |s| {
        Some(Value::Seconds(Some(s.server.storage.saves.overdue())))
    })
    .gauge(
        "stillframe_snapshot_overdue_seconds",
        "How long a save of the schedule has been overdue.",
    ),
    always!("aof_enabled", |s| s.server.storage.journal.is_on())
        .gauge("redis_aof_enabled", "Whether changes are logged."),
    always!("aof_rewrite_in_progress", |s| s.rewriting().is_some())
        .gauge("redis_aof_rewrite_in_progress", "Whether an image takes the log's place."),
    always!("aof_rewrite_scheduled", |s| {
        let (storage, wanted) = (&s.server.storage, s.server.config.appendonly);
        storage.saves.scheduled.is_some() || wanted && !storage.journal.is_open()
    }),
    figure("aof_last_rewrite_time_sec", |s| {
        Some(Value::Seconds(s.server.storage.saves.last_duration))
    }),
    figure("aof_current_rewrite_time_sec", |s| {
        Some(Value::Seconds(s.rewriting().map(|it| it.started.elapsed())))
    }),
    figure("aof_last_bgrewrite_status", |s| Some(Value::Status(s.server.storage.saves.last_ok)))
        .gauge("redis_aof_last_bgrewrite_status", "Whether the last did."),
    always!("aof_rewrites", |s| s.server.storage.saves.count),
    always!("aof_rewrites_consecutive_failures", |s| s.server.storage.saves.failures),
    figure("aof_last_write_status", |s| {
        Some(Value::Status(s.server.storage.journal.problem().is_none()))
    })
    .gauge("redis_aof_last_write_status", "Whether the log can be written."),
    none("aof_last_cow_size"),
    none("backup_in_progress"),
    always!("log_state", |s| s.server.storage.log_state()),
    always!("log_writes_held", |s| s.server.storage.holds_writes(s.server.clock.turn()))
        .gauge("stillframe_log_writes_held", "Whether writes wait for a log."),
    figure("log_problem", |s| {
        s.server.storage.journal.problem().map(|it| Value::Text(it.to_string()))
    }),
    always!("log_kept_images", |s| s.server.storage.journal.kept().images),
    always!("log_kept_since_ms", |s| s.server.storage.journal.kept().since_ms),
    always!("log_kept_bytes", |s| s.server.storage.journal.kept().bytes),
    always!("archive_state", |s| s.server.process.archive().map_or("off", |it| it.state)),
    figure("", |s| s.of_archive(|_| 1u8.into()))
        .gauge("stillframe_archive_state", "How far the archive is.")
        .labelled(|s| {
            let state = s.server.process.archive().map_or("off", |it| it.state);
            vec![("state", state.to_owned())]
        }),
    figure("archive_behind_sec", |s| s.of_archive(|it| it.behind_seconds.into())).gauge(
        "stillframe_archive_behind_seconds",
        "How long ago all was archived that was on the disk.",
    ),
    figure("archive_pending_bytes", |s| s.of_archive(|it| it.pending_bytes.into()))
        .gauge("stillframe_archive_pending_bytes", "Bytes that wait for the archive."),
    figure("archive_uploaded_bytes", |s| s.of_archive(|it| it.uploaded_bytes.into()))
        .counter("stillframe_archive_uploaded_bytes_total", "Bytes uploaded to the archive."),
    figure("archive_manifest_ms", |s| s.of_archive(|it| it.manifest_ms.into())),
    figure("archive_last_record", |s| s.of_archive(|it| it.last_record.into()))
        .gauge("stillframe_archive_last_record", "The last record of the log in the archive."),
    figure("archive_sets", |s| s.of_archive(|it| it.sets.into())),
    figure("archive_errors", |s| s.of_archive(|it| it.errors.into()))
        .counter("stillframe_archive_errors_total", "Errors of the archive's store."),
    figure("archive_last_error", |s| s.of_archive(|it| Value::Text(it.last_error))),
    figure("aof_current_size", |s| s.of_log(|it| it.current_bytes.into()))
        .gauge("redis_aof_current_size_bytes", "Bytes of the log."),
    figure("aof_base_size", |s| s.of_log(|it| it.base_bytes.into()))
        .gauge("redis_aof_base_size_bytes", "Bytes of its image."),
    figure("aof_pending_rewrite", |s| {
        s.log().map(|_| s.server.storage.journal.is_starting().into())
    }),
    figure("aof_buffer_length", |s| s.of_log(|it| it.stats.waiting_bytes.into()))
        .gauge("redis_aof_buffer_length", "Bytes not yet written to the log."),
    figure("aof_pending_bio_fsync", |s| s.of_log(|it| (it.stats.lag > 0).into())),
    figure("aof_delayed_fsync", |s| s.of_log(|it| it.stalls.into())),
    figure("log_last_record", |s| s.of_log(|it| it.stats.last.into())),
    figure("log_durable_record", |s| s.of_log(|it| it.stats.durable.into())),
    figure("log_batches", |s| s.of_log(|it| it.stats.batches.into())),
    figure("log_syncs", |s| s.of_log(|it| it.stats.syncs.into()))
        .counter("stillframe_log_syncs_total", "Syncs of the log."),
    figure("log_stalls", |s| s.of_log(|it| it.stalls.into()))
        .counter("stillframe_log_stalls_total", "Times that the disk held writers up."),
    figure("log_stall_ms", |s| s.of_log(|it| it.stall_time.as_millis().into())),
    figure("log_generation", |s| s.log()?.position.as_ref().map(|it| it.generation.into())),
    none("module_fork_in_progress"),
    none("module_fork_last_cow_size"),
];

/// Bytes a second, as Redis shows them.
fn kbps(rate: f64) -> Option<Value> {
    Some(Value::Real(rate / 1024.0, 2))
}

static STATS: &[Figure] = &[
    always!("total_connections_received", |s| s.server.meter.stats().connections_received)
        .counter("redis_connections_received_total", "Connections made."),
    always!("total_commands_processed", |s| s.server.meter.stats().commands_processed)
        .counter("redis_commands_processed_total", "Commands run."),
    always!("instantaneous_ops_per_sec", |s| s.server.meter.stats().rates()[0].round() as u64),
    always!("total_net_input_bytes", |s| s.server.meter.stats().input_bytes)
        .counter("redis_net_input_bytes_total", "Bytes received."),
    always!("total_net_output_bytes", |s| s.server.meter.stats().output_bytes)
        .counter("redis_net_output_bytes_total", "Bytes sent."),
    always!("total_net_repl_input_bytes", |s| s.server.meter.stats().primary_input_bytes),
    always!("total_net_repl_output_bytes", |s| s.server.meter.stats().replicas_output_bytes),
    figure("instantaneous_input_kbps", |s| kbps(s.server.meter.stats().rates()[1])),
    figure("instantaneous_output_kbps", |s| kbps(s.server.meter.stats().rates()[2])),
    figure("instantaneous_input_repl_kbps", |s| kbps(s.server.meter.stats().rates()[3])),
    figure("instantaneous_output_repl_kbps", |s| kbps(s.server.meter.stats().rates()[4])),
    always!("rejected_connections", |s| s.server.meter.stats().rejected_connections)
        .counter("redis_rejected_connections_total", "Those turned away."),
    always!("sync_full", |s| s.server.meter.stats().full_syncs)
        .gauge("redis_replica_resyncs_full", "Full synchronisations."),
    always!("sync_partial_ok", |s| s.server.meter.stats().partial_syncs)
        .gauge("redis_replica_partial_resync_accepted", "Partial ones."),
    always!("sync_partial_err", |s| s.server.meter.stats().partial_refusals)
        .gauge("redis_replica_partial_resync_denied", "Refused ones."),
    always!("expired_keys", |s| {
        s.stats.expired_total.saturating_sub(s.server.meter.stats().expired_base)
    })
    .counter("redis_expired_keys_total", "Keys whose time was over."),
    always!("expired_subkeys", |s| {
        let base = s.server.meter.stats().expired_fields_base;
        s.stats.expired_fields_total.saturating_sub(base)
    })
    .counter("redis_expired_subkeys_total", "Fields of hashes whose time was over."),
    always!("expired_keys_active", |s| s.server.meter.stats().expired_actively[0]),
    always!("expired_subkeys_active", |s| s.server.meter.stats().expired_actively[1]),
    always!("expired_stale_perc", |_| "0.00"),
    always!("expired_time_cap_reached_count", |s| s.server.meter.stats().expire_slices_spent),
    always!("expire_cycle_cpu_milliseconds", |s| s.server.meter.stats().expire_time.as_millis()),
    always!("evicted_keys", |s| s.server.meter.stats().evicted_keys)
        .counter("redis_evicted_keys_total", "Keys that made room."),
    always!("evicted_clients", |s| s.server.meter.stats().evicted_clients),
    always!("keyspace_hits", |s| s.server.ledger.lookups.hits)
        .counter("redis_keyspace_hits_total", "Keys found by reads."),
    always!("keyspace_misses", |s| s.server.ledger.lookups.misses)
        .counter("redis_keyspace_misses_total", "Keys not found by reads."),
    always!("pubsub_channels", |s| s.server.hub.pubsub().count(Kind::Channel))
        .gauge("redis_pubsub_channels", "Channels somebody listens to."),
    always!("pubsub_patterns", |s| s.server.hub.pubsub().count(Kind::Pattern))
        .gauge("redis_pubsub_patterns", "Patterns somebody listens to."),
    always!("pubsubshard_channels", |s| s.server.hub.pubsub().count(Kind::Shard)),
    always!("latest_fork_usec", |s| {
        if s.forks() { whole_micros(s.server.storage.saves.latest_begin) } else { 0 }
    }),
    always!("total_forks", |s| if s.forks() { s.server.storage.saves.count } else { 0 }),
    always!("migrate_cached_sockets", |s| s.server.net.peers()),
    always!("slave_expires_tracked_keys", |s| s.server.replication.own_keys()),
    always!("active_defrag_hits", |s| s.defragmented().moved),
    always!("active_defrag_misses", |s| s.defragmented().looked - s.defragmented().moved),
    always!("active_defrag_key_hits", |s| s.defragmented().keys_moved),
    always!("active_defrag_key_misses", |s| {
        s.defragmented().keys_looked - s.defragmented().keys_moved
    }),
    always!("total_active_defrag_time", |s| s.server.memory.defrag.totals().1.as_millis()),
    always!("current_active_defrag_time", |s| {
        s.server.memory.defrag.running().unwrap_or_default().as_millis()
    }),
    always!("tracking_total_keys", |s| s.server.hub.tracking().keys()),
    always!("tracking_total_items", |s| s.server.hub.tracking().items()),
    always!("tracking_total_prefixes", |s| s.server.hub.tracking().prefixes()),
    always!("unexpected_error_replies", |s| s.server.meter.stats().unexpected_errors),
    always!("total_error_replies", |s| s.server.meter.stats().error_replies)
        .counter("redis_total_error_replies", "Error replies."),
    always!("total_reads_processed", |s| s.server.meter.stats().reads)
        .counter("redis_total_reads_processed", "Reads of clients' sockets."),
    always!("total_writes_processed", |s| s.server.meter.stats().writes)
        .counter("redis_total_writes_processed", "Writes to clients' sockets."),
    none("io_threaded_reads_processed"),
    none("io_threaded_writes_processed"),
    none("io_threaded_total_prefetch_batches"),
    none("io_threaded_total_prefetch_entries"),
    always!("client_query_buffer_limit_disconnections", |s| {
        s.server.meter.stats().input_disconnections
    }),
    always!("client_output_buffer_limit_disconnections", |s| {
        s.server.meter.stats().output_disconnections
    }),
    always!("eventloop_cycles", |s| s.server.meter.stats().turns.runs()),
    always!("eventloop_duration_sum", |s| whole_micros(s.server.meter.stats().turns_time)),
    always!("eventloop_duration_cmd_sum", |s| {
        whole_micros(s.server.meter.stats().commands_time())
    }),
    figure("instantaneous_eventloop_cycles_per_sec", |s| {
        Some(Value::Real(s.server.meter.stats().rates()[5], 0))
    }),
    figure("instantaneous_eventloop_duration_usec", |s| {
        let [.., cycles, micros] = s.server.meter.stats().rates();
        Some(Value::Real(if cycles > 0.0 { micros / cycles } else { 0.0 }, 0))
    }),
    always!("slowlog_commands_count", |s| s.server.meter.stats().slow),
    figure("slowlog_commands_time_ms_max", |s| millis(s.server.meter.stats().slow_max)),
    figure("slowlog_commands_time_ms_sum", |s| millis(s.server.meter.stats().slow_time)),
    none("hash_templates"),
    none("hash_template_keys"),
    always!("acl_access_denied_auth", |s| s.server.users.refused_for("auth")),
    always!("acl_access_denied_cmd", |s| s.server.users.refused_for("command")),
    always!("acl_access_denied_key", |s| s.server.users.refused_for("key")),
    always!("acl_access_denied_channel", |s| s.server.users.refused_for("channel")),
    none("acl_access_denied_tls_cert"),
];

static CPU: &[Figure] = &[
    of_process("used_cpu_sys", |it| it.cpu(1))
        .counter("redis_cpu_sys_seconds_total", "That in the kernel."),
    of_process("used_cpu_user", |it| it.cpu(0))
        .counter("redis_cpu_user_seconds_total", "Processor time."),
    of_process("used_cpu_sys_children", |it| it.cpu(3))
        .counter("redis_cpu_sys_children_seconds_total", "That in the kernel of ended children."),
    of_process("used_cpu_user_children", |it| it.cpu(2))
        .counter("redis_cpu_user_children_seconds_total", "Processor time of ended children."),
    figure("used_cpu_sys_main_thread", |_| Some(Value::Real(machine::thread_cpu_seconds()[1], 6))),
    figure("used_cpu_user_main_thread", |_| Some(Value::Real(machine::thread_cpu_seconds()[0], 6))),
];

static HOTKEYS: &[Figure] = &[figure("hotkeys-tracking-active", |s| {
    let now = s.server.clock.unix_now();
    s.server.meter.hotkeys.as_ref().map(|it| it.is_active(now).into())
})];

static CLUSTER: &[Figure] = &[always!("cluster_enabled", |s| u8::from(s.server.group.is_member()))];

static RAFT: &[Figure] = &[
    figure("raft_id", |s| s.member(|it| it.view().id.into())),
    figure("raft_role", |s| s.member(|it| it.view().role.into())),
    figure("", |s| s.member(|_| 1u8.into()))
        .gauge("stillframe_raft_role", "What this member is in its group.")
        .labelled(|s| vec![("role", role(s))]),
    figure("raft_term", |s| s.member(|it| it.view().term.into()))
        .gauge("stillframe_raft_term", "The term of the group."),
    figure("raft_leader", |s| s.member(|it| it.view().leader.unwrap_or(0).into()))
        .gauge("stillframe_raft_leader", "The member that leads, 0 if none is known."),
    figure("raft_serves", |s| s.member(|it| u64::from(it.serves()).into()))
        .gauge("stillframe_raft_serves", "Whether this member leads and serves clients."),
    figure("raft_members", |s| s.member(|it| (it.view().members.len() as u64).into()))
        .gauge("stillframe_raft_members", "Members of the group."),
    figure("raft_lost_members", |s| s.member(lost_members))
        .gauge("stillframe_raft_lost_members", "Members that this leader does not reach."),
    figure("raft_last_index", |s| s.member(|it| it.view().last.into())),
    figure("raft_applied_index", |s| s.member(|it| it.view().applied.into()))
        .gauge("stillframe_raft_applied_index", "The last log entry that is applied."),
    figure("raft_lag", |s| s.member(|it| it.view().last.saturating_sub(it.view().applied).into()))
        .gauge("stillframe_raft_lag_entries", "Log entries that are not applied yet."),
    figure("raft_elections", |s| s.member(|it| it.view().elections.into()))
        .counter("stillframe_raft_elections_total", "Times that this member stood for election."),
    figure("raft_snapshots", |s| s.member(|it| it.counts().images.into()))
        .counter("stillframe_raft_snapshots_total", "Images that were begun for the group."),
    figure("raft_snapshot_index", |s| s.member(|it| it.view().image.into()))
        .gauge("stillframe_raft_snapshot_index", "The last log entry in the newest image."),
    figure("raft_purged_index", |s| s.member(|it| it.view().purged.into()))
        .gauge("stillframe_raft_purged_index", "The last entry that the log no longer has."),
    figure("raft_forwarded_clients", |s| {
        s.server.group.member().map(|_| s.server.clients.forwarded().into())
    })
    .gauge("stillframe_raft_forwarded_clients", "Clients passed on to the leader."),
    figure("raft_proposed", |s| s.member(|it| it.counts().proposed.into()))
        .counter("stillframe_raft_proposed_total", "Batches of effects that were proposed."),
    figure("raft_applied", |s| s.member(|it| it.counts().applied.into()))
        .counter("stillframe_raft_applied_total", "Batches of other members that were applied."),
    figure("raft_confirmed", |s| s.member(|it| it.counts().confirmed.into()))
        .counter("stillframe_raft_confirmed_total", "Questions whether this member still leads."),
    figure("raft_reloads", |s| s.member(|it| it.counts().reloads.into())).counter(
        "stillframe_raft_reloads_total",
        "Times that lost proposals made memory load anew.",
    ),
];

/// What this member is in its group.
fn role(seen: &Seen<'_>) -> String {
    seen.server.group.member().map_or_else(String::new, |it| it.view().role.to_owned())
}

fn lost_members(member: &Member) -> Value {
    (member.view().members.iter().filter(|it| !it.reachable).count() as u64).into()
}

static REPLICATION: &[Figure] = &[
    always!("role", |s| if s.server.follows() { "slave" } else { "master" }),
    figure("master_host", |s| {
        s.following(|_, it| (&*it.host).into()).or(s.leader(|it| it.host().into()))
    }),
    figure("master_port", |s| {
        s.following(|_, it| it.port.into()).or(s.leader(|it| it.port().into()))
    }),
    figure("master_link_status", |s| s.following(|_, it| Value::Link(it.is_connected())))
        .gauge("redis_master_link_up", "Whether the primary is followed.")
        .labelled(primary),
    figure("master_last_io_seconds_ago", |s| {
        s.following(|s, it| {
            if it.is_connected() { s.seconds_since(it.last_io).into() } else { (-1).into() }
        })
    })
    .gauge("redis_master_last_io_seconds_ago", "Seconds since it was heard of, or -1.")
    .labelled(primary),
    figure("master_sync_in_progress", |s| s.following(|_, it| is_syncing(it).into()))
        .gauge("redis_master_sync_in_progress", "Whether an image of it comes.")
        .labelled(primary),
    figure("slave_read_repl_offset", |s| {
        s.following(|s, it| {
            let unapplied = if it.is_connected() { it.unapplied() } else { 0 };
            (s.server.replication.stream().end() + unapplied).into()
        })
    }),
    figure("slave_repl_offset", |s| s.following(|s, _| s.server.replication.stream().end().into())),
    figure("master_sync_total_bytes", |s| s.syncing(|_, total| total.into())),
    figure("master_sync_read_bytes", |s| s.syncing(|done, _| done.into())),
    figure("master_sync_left_bytes", |s| {
        s.syncing(|done, total| total.saturating_sub(done).into())
    }),
    figure("master_sync_perc", |s| {
        s.syncing(|done, total| {
            let share = if total > 0 { done as f64 / total as f64 * 100.0 } else { 0.0 };
            Value::Real(share, 2)
        })
    }),
    figure("master_sync_last_io_seconds_ago", |s| {
        let following = s.server.replication.following().filter(|it| is_syncing(it))?;
        Some(s.seconds_since(following.last_io).into())
    }),
    figure("master_sync_failures", |s| {
        s.following(|_, it| it.sync_error().map_or(0, |(_, times)| times).into())
    })
    .gauge("stillframe_master_sync_failures", "Images that failed in a row for one cause.")
    .labelled(primary),
    figure("master_sync_last_error", |s| {
        let following = s.server.replication.following()?;
        Some(following.sync_error()?.0.into())
    }),
    figure("master_sync_retry_seconds", |s| {
        let following = s.server.replication.following()?;
        following.sync_error()?;
        let left = following.retry_at.saturating_duration_since(s.server.clock.turn());
        Some(left.as_secs().into())
    }),
    figure("master_link_down_since_seconds", |s| {
        let since = s.server.replication.following()?.down_since?;
        Some(s.seconds_since(since).into())
    }),
    figure("slave_priority", |s| s.following(|s, _| s.server.config.replication.priority.into())),
    figure("slave_read_only", |s| s.following(|s, _| s.server.config.replication.read_only.into())),
    figure("replica_announced", |s| {
        s.following(|s, _| s.server.config.replication.announced.into())
    }),
    always!("connected_slaves", |s| s.server.replication.replica_count())
        .gauge("redis_connected_slaves", "Replicas."),
    figure("min_slaves_good_slaves", |s| {
        let (server, settings) = (s.server, &s.server.config.replication);
        let lag_max = Duration::from_secs(settings.max_lag_s.into());
        let good = || server.replication.good(&server.clients, lag_max, server.clock.turn());
        (settings.min_replicas > 0).then(|| good().into())
    }),
    rows(&REPLICAS),
    figure("repl_replica_sync_failures", |s| Some(s.unable()?.failures.into())),
    figure("repl_replica_sync_error", |s| Some(s.unable()?.text().into())),
    always!("master_failover_state", |s| match s.server.replication.failover() {
        None => "no-failover",
        Some(failover) if failover.handed_over => "failover-in-progress",
        Some(_) => "waiting-for-sync",
    }),
    always!("master_replid", |s| s.server.replication.id()),
    always!("master_replid2", |s| {
        s.server.replication.older().map_or("0".repeat(40), |(id, _)| id.clone())
    }),
    always!("master_repl_offset", |s| s.server.replication.stream().end())
        .gauge("redis_master_repl_offset", "Bytes of the stream so far."),
    always!("second_repl_offset", |s| {
        s.server.replication.older().map_or(-1, |(_, end)| *end as i64 + 1)
    }),
    always!("repl_backlog_active", |s| s.server.replication.is_active()),
    always!("repl_backlog_size", |s| s.server.config.replication.backlog_bytes)
        .gauge("redis_replication_backlog_bytes", "Size of the backlog."),
    always!("repl_backlog_first_byte_offset", |s| {
        let replication = &s.server.replication;
        if replication.is_active() { replication.stream().start() + 1 } else { 0 }
    }),
    always!("repl_backlog_histlen", |s| {
        let replication = &s.server.replication;
        let kept = replication.stream().end() - replication.stream().start();
        if replication.is_active() { kept } else { 0 }
    }),
    always!("repl_stream_memory_bytes", |s| s.server.replication.stream().memory()),
    always!("repl_sync_writes_held", |s| s.server.replication.writes_wait()).gauge(
        "stillframe_repl_sync_writes_held",
        "Whether writes wait for a replica that is synchronised.",
    ),
    always!("repl_sync_writes_held_ms", |s| s.server.replication.writes_waited().as_millis()),
];

/// What names this server.
fn instance(seen: &Seen<'_>) -> Labels {
    let server = seen.server;
    let (plain, tls) = server.net.ports();
    vec![
        ("role", if server.follows() { "slave" } else { "master" }.to_owned()),
        ("redis_version", server.config.redis_version.to_string()),
        ("redis_mode", server.mode().to_owned()),
        ("stillframe_version", env!("CARGO_PKG_VERSION").to_owned()),
        ("maxmemory_policy", server.config.maxmemory_policy.name().to_owned()),
        ("tcp_port", if plain > 0 { plain } else { tls }.to_string()),
        ("run_id", server.process.run_id().to_owned()),
    ]
}

/// What names the primary.
fn primary(seen: &Seen<'_>) -> Labels {
    seen.server.replication.following().map_or(Labels::new(), |it| {
        vec![("master_host", it.host.clone()), ("master_port", it.port.to_string())]
    })
}
