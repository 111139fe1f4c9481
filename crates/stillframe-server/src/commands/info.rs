//! INFO: the server in figures, in Redis's sections and field names.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use stillframe_redis::Refusal;

use stillframe_keyspace::{DATABASES, KeyspaceStats};

use super::{Context, NO_KEYS, Table, flags::*};
use crate::clock::unix_millis;
use crate::config::show_percentile;
use crate::hub::Kind;
use crate::memory::{OWN_BYTES, arena_bytes, counted_bytes, used_bytes};
use crate::persistence::whole_micros;
use crate::process;
use crate::replication::{Following, Phase};
use crate::state::ServerState;

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("info", -1, LOADING | STALE, NO_KEYS, info);
}

/// Writes one section.
type Section = fn(&Context<'_>, &KeyspaceStats, &mut Text);

/// Sections in order; the flag: whether they belong to the default set.
fn sections() -> [(&'static str, bool, Section); 13] {
    [
        ("Server", true, server),
        ("Clients", true, clients),
        ("Memory", true, memory),
        ("Persistence", true, persistence),
        ("Stats", true, stats),
        ("Replication", true, replication),
        ("CPU", true, cpu),
        ("Modules", true, |_, _, _| {}),
        ("Commandstats", false, commandstats),
        ("Errorstats", true, errorstats),
        ("Latencystats", false, latencystats),
        ("Cluster", true, |_, _, text| text.field("cluster_enabled", 0)),
        ("Keyspace", true, keyspace),
    ]
}

/// `INFO [section...]`
fn info(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let asked: Vec<Vec<u8>> = args.iter().skip(1).map(|name| name.to_ascii_lowercase()).collect();
    let asks = |name: &[u8]| asked.iter().any(|asked| asked == name);
    let everything = asks(b"all") || asks(b"everything");
    let default = asked.is_empty() || asks(b"default");
    let figures = ctx.keyspace.stats();
    let mut text = Text(String::new());
    for (name, in_default, write) in sections() {
        let chosen = asks(name.to_ascii_lowercase().as_bytes());
        if everything || chosen || (default && in_default) {
            if !text.0.is_empty() {
                text.0.push_str("\r\n");
            }
            // Writing to a string cannot fail, here and below.
            let _ = write!(text.0, "# {name}\r\n");
            write(ctx, &figures, &mut text);
        }
    }
    ctx.out.verbatim(b"txt", text.0);
    Ok(())
}

/// The reply under way.
pub(super) struct Text(String);

impl Text {
    pub(super) fn field(&mut self, name: &str, value: impl Display) {
        let _ = write!(self.0, "{name}:{value}\r\n");
    }

    /// Fields of features of Redis that this server lacks.
    fn none(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.field(name, 0));
    }

    fn size(&mut self, name: &str, bytes: u64) {
        self.field(name, bytes);
        self.field(&format!("{name}_human"), human(bytes));
    }
}

fn human(bytes: u64) -> String {
    let units = [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')];
    match units.into_iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, unit)) => format!("{:.2}{unit}", bytes as f64 / f64::from(shift).exp2()),
        None => format!("{bytes}B"),
    }
}

fn server(ctx: &Context<'_>, _: &KeyspaceStats, text: &mut Text) {
    let server = &*ctx.server;
    let uptime = server.clock.started().elapsed().as_secs();
    text.field("redis_version", crate::REDIS_VERSION);
    text.field("redis_git_sha1", "00000000");
    text.field("redis_git_dirty", 0);
    text.field("redis_build_id", "0");
    text.field("redis_mode", "standalone");
    text.field("stillframe_version", env!("CARGO_PKG_VERSION"));
    text.field("os", process::system_name());
    text.field("arch_bits", usize::BITS);
    text.field("monotonic_clock", "POSIX clock_gettime");
    text.field("multiplexing_api", "epoll");
    text.field("process_id", std::process::id());
    let supervised = process::is_supervised(server.config.process.supervised);
    text.field("process_supervised", if supervised { "systemd" } else { "no" });
    text.field("run_id", server.process.run_id());
    let (plain, tls) = server.net.listeners.ports();
    text.field("tcp_port", if plain > 0 { plain } else { tls });
    text.field("server_time_usec", unix_millis().saturating_mul(1000));
    text.field("uptime_in_seconds", uptime);
    text.field("uptime_in_days", uptime / 86_400);
    text.field("hz", server.config.hz);
    text.field("configured_hz", server.config.hz);
    text.field("lru_clock", (unix_millis() / 1000) & 0xff_ffff);
    let executable = std::env::current_exe().unwrap_or_default();
    text.field("executable", executable.display());
    let file = server.config.config_file.clone().unwrap_or_default();
    text.field("config_file", file.display());
    text.field("io_threads_active", 0);
    if let Some(ending) = server.process.ending() {
        text.field("shutdown_in_milliseconds", ending.left().as_millis());
    }
}

fn clients(ctx: &Context<'_>, _: &KeyspaceStats, text: &mut Text) {
    let clients = &ctx.server.hub.clients;
    let input = clients.others().map(|(_, client)| client.input.capacity()).max();
    let output = clients.others().map(|(_, client)| client.output.capacity()).max();
    text.field("connected_clients", clients.count() - clients.replicas());
    text.field("cluster_connections", 0);
    text.field("maxclients", ctx.server.config.maxclients);
    text.field("client_recent_max_input_buffer", input.unwrap_or(0));
    text.field("client_recent_max_output_buffer", output.unwrap_or(0));
    text.field("blocked_clients", ctx.server.ledger.waiters.count() + clients.postponed());
    text.field("tracking_clients", ctx.server.hub.tracking().clients);
    text.field("clients_in_timeout_table", ctx.server.ledger.waiters.with_deadline());
}

fn memory(ctx: &Context<'_>, figures: &KeyspaceStats, text: &mut Text) {
    let (resident, peak) = process::resident_bytes();
    let dataset = figures.entry_bytes as u64;
    let used = used_bytes(ctx.keyspace, ctx.server);
    text.size("used_memory", used);
    text.size("used_memory_rss", resident);
    text.size("used_memory_peak", peak);
    text.field("used_memory_peak_perc", percent(used, peak));
    text.field("used_memory_overhead", used - dataset);
    text.field("used_memory_startup", OWN_BYTES);
    text.field("used_memory_dataset", dataset);
    text.field("used_memory_dataset_perc", percent(dataset, used));
    text.size("total_system_memory", process::machine_memory_bytes());
    text.size("maxmemory", ctx.server.config.maxmemory_bytes);
    text.none(&["used_memory_lua", "used_memory_vm_eval", "used_memory_scripts_eval"]);
    text.none(&["number_of_cached_scripts", "number_of_functions", "number_of_libraries"]);
    text.none(&["used_memory_vm_functions", "used_memory_vm_total", "used_memory_functions"]);
    text.none(&["used_memory_scripts"]);
    text.field("maxmemory_policy", ctx.server.config.maxmemory_policy.name());
    let counted = counted_bytes(ctx.keyspace, &ctx.server.hub.clients);
    text.field("mem_counted_for_evict", counted);
    text.field("mem_not_counted_for_evict", used.saturating_sub(counted));
    fragmentation(used, resident, text);
    let stream = ctx.server.replication.stream().memory();
    // Bytes beyond the backlog are kept for replicas that are behind.
    let backlog = ctx.server.config.replication.backlog_bytes as usize;
    let behind =
        if ctx.server.hub.clients.replicas() > 0 { stream.saturating_sub(backlog) } else { 0 };
    text.field("mem_replication_backlog", stream - behind);
    text.field("mem_total_replication_buffers", stream);
    text.field("mem_clients_slaves", behind);
    text.none(&["mem_cluster_links"]);
    text.field("mem_clients_normal", ctx.server.hub.clients.bytes());
    let waiting = ctx.server.storage.journal.told().map_or(0, |told| told.stats.waiting_bytes);
    text.field("mem_aof_buffer", waiting);
    text.field("mem_limbo_bytes", figures.limbo_bytes);
    text.field("mem_garbage_bytes", figures.garbage_bytes);
    text.field("mem_allocator", "mimalloc");
    text.none(&["active_defrag_running", "lazyfree_pending_objects", "lazyfreed_objects"]);
}

/// The allocator reports nothing: the memory of the process stands for its memory.
fn fragmentation(used: u64, resident: u64, text: &mut Text) {
    let ratio = resident as f64 / used.max(1) as f64;
    let bytes = resident.cast_signed() - used.cast_signed();
    text.field("allocator_allocated", used);
    text.field("allocator_active", resident);
    text.field("allocator_resident", resident);
    for name in ["allocator_frag", "mem_fragmentation"] {
        text.field(&format!("{name}_ratio"), format_args!("{ratio:.2}"));
        text.field(&format!("{name}_bytes"), bytes);
    }
    for name in ["allocator_rss", "rss_overhead"] {
        text.field(&format!("{name}_ratio"), "1.00");
        text.field(&format!("{name}_bytes"), 0);
    }
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.2}%", part as f64 * 100.0 / whole.max(1) as f64)
}

fn persistence(ctx: &Context<'_>, figures: &KeyspaceStats, text: &mut Text) {
    let saves = &ctx.server.storage.saves;
    let progress = ctx.keyspace.progress();
    let seconds = |time: Option<std::time::Duration>| time.map_or(-1, |time| time.as_secs() as i64);
    let running = saves.running();
    let done = running.map_or(0, |running| running.keys_done());
    let total = running.map_or(0, |running| running.keys_total);
    loading(ctx.server, text);
    text.field("current_cow_peak", 0);
    text.field("current_cow_size", 0);
    text.field("current_cow_size_age", 0);
    let share = done as f64 * 100.0 / total.max(1) as f64;
    text.field("current_fork_perc", format_args!("{share:.2}"));
    text.field("current_save_keys_processed", done);
    text.field("current_save_keys_total", total);
    text.field("current_save_bytes_processed", running.map_or(0, |running| running.bytes_done()));
    text.field("current_save_bytes_total", running.map_or(0, |running| running.bytes_total()));
    let left = running.map_or(0.0, |running| running.time_left().as_secs_f64());
    text.field("current_save_eta_sec", format_args!("{left:.1}"));
    text.field("rdb_changes_since_last_save", ctx.server.ledger.dirty);
    let sending = ctx.server.replication.sends_image();
    text.field("rdb_bgsave_in_progress", u8::from(running.is_some() || sending));
    text.field("rdb_last_save_time", saves.last_success_s);
    text.field("rdb_last_bgsave_status", if saves.last_ok { "ok" } else { "err" });
    text.field("rdb_last_bgsave_time_sec", seconds(saves.last_duration));
    let current = running.map(|running| running.started.elapsed());
    text.field("rdb_current_bgsave_time_sec", seconds(current));
    text.field("rdb_saves", saves.count);
    text.field("rdb_last_cow_size", 0);
    text.field("rdb_last_load_keys_expired", saves.loaded.expired);
    text.field("rdb_last_load_keys_loaded", saves.loaded.keys);
    text.field("snapshot_algorithm", ctx.server.config.snapshot);
    text.field("latest_begin_usec", whole_micros(saves.latest_begin));
    text.field("snapshot_arena_bytes", arena_bytes(ctx.keyspace));
    text.field("snapshot_limbo_bytes", figures.limbo_bytes);
    text.field("snapshot_limbo_entries", figures.limbo_entries);
    text.field("snapshot_writer_waits", progress.writer_waits());
    text.field("snapshot_overdue_sec", saves.overdue().as_secs());
    append_only(ctx.server, text);
    text.field("module_fork_in_progress", 0);
    text.field("module_fork_last_cow_size", 0);
}

fn append_only(server: &ServerState, text: &mut Text) {
    let (journal, saves) = (&server.storage.journal, &server.storage.saves);
    let seconds = |time: Option<std::time::Duration>| time.map_or(-1, |time| time.as_secs() as i64);
    let status = |ok: bool| if ok { "ok" } else { "err" };
    let running = saves.running().filter(|_| journal.told().is_some());
    text.field("aof_enabled", u8::from(journal.is_on()));
    text.field("aof_rewrite_in_progress", u8::from(running.is_some()));
    text.field("aof_rewrite_scheduled", u8::from(saves.scheduled));
    text.field("aof_last_rewrite_time_sec", seconds(saves.last_duration));
    let current = running.map(|running| running.started.elapsed());
    text.field("aof_current_rewrite_time_sec", seconds(current));
    text.field("aof_last_bgrewrite_status", status(saves.last_ok));
    text.field("aof_rewrites", saves.count);
    text.field("aof_rewrites_consecutive_failures", u8::from(!saves.last_ok));
    text.field("aof_last_write_status", status(journal.problem().is_none()));
    text.field("aof_last_cow_size", 0);
    text.field("log_state", journal.state(server.config.appendonly));
    let waits = journal.holds_writes(&server.config, server.clock.turn());
    text.field("log_writes_held", u8::from(waits));
    if let Some(problem) = journal.problem() {
        text.field("log_problem", problem);
    }
    let kept = journal.kept();
    text.field("log_kept_images", kept.images);
    text.field("log_kept_since_ms", kept.since_ms);
    text.field("log_kept_bytes", kept.bytes);
    let Some(told) = journal.told() else { return };
    let stats = &told.stats;
    text.field("aof_current_size", told.current_bytes);
    text.field("aof_base_size", told.base_bytes);
    text.field("aof_pending_rewrite", u8::from(journal.is_starting()));
    text.field("aof_buffer_length", stats.waiting_bytes);
    text.field("aof_pending_bio_fsync", u8::from(stats.lag > 0));
    text.field("aof_delayed_fsync", told.stalls);
    text.field("log_last_record", stats.last);
    text.field("log_durable_record", stats.durable);
    text.field("log_batches", stats.batches);
    text.field("log_syncs", stats.syncs);
    text.field("log_stalls", told.stalls);
    text.field("log_stall_ms", told.stall_time.as_millis());
    if let Some(position) = told.position {
        text.field("log_generation", position.generation);
    }
}

fn stats(ctx: &Context<'_>, figures: &KeyspaceStats, text: &mut Text) {
    let stats = &ctx.server.meter.stats;
    let saves = &ctx.server.storage.saves;
    let [commands, input, output, primary_input, replicas_output] = stats.rates();
    let kbps = |rate: f64| format!("{:.2}", rate / 1024.0);
    text.field("total_connections_received", stats.connections_received);
    text.field("total_commands_processed", stats.commands_processed);
    text.field("instantaneous_ops_per_sec", commands.round() as u64);
    text.field("total_net_input_bytes", stats.input_bytes);
    text.field("total_net_output_bytes", stats.output_bytes);
    text.field("total_net_repl_input_bytes", stats.primary_input_bytes);
    text.field("total_net_repl_output_bytes", stats.replicas_output_bytes);
    text.field("instantaneous_input_kbps", kbps(input));
    text.field("instantaneous_output_kbps", kbps(output));
    text.field("instantaneous_input_repl_kbps", kbps(primary_input));
    text.field("instantaneous_output_repl_kbps", kbps(replicas_output));
    text.field("rejected_connections", stats.rejected_connections);
    text.field("sync_full", stats.full_syncs);
    text.field("sync_partial_ok", stats.partial_syncs);
    text.field("sync_partial_err", stats.partial_refusals);
    text.field("expired_keys", figures.expired_total.saturating_sub(stats.expired_base));
    text.field("expired_stale_perc", "0.00");
    text.field("expired_time_cap_reached_count", stats.expire_slices_spent);
    text.field("expire_cycle_cpu_milliseconds", stats.expire_time.as_millis());
    text.field("evicted_keys", stats.evicted_keys);
    text.field("evicted_clients", stats.evicted_clients);
    text.field("keyspace_hits", ctx.server.ledger.lookups.hits);
    text.field("keyspace_misses", ctx.server.ledger.lookups.misses);
    text.field("pubsub_channels", ctx.server.hub.pubsub.count(Kind::Channel));
    text.field("pubsub_patterns", ctx.server.hub.pubsub.count(Kind::Pattern));
    text.field("pubsubshard_channels", ctx.server.hub.pubsub.count(Kind::Shard));
    let forks = !ctx.keyspace.algorithm().in_process;
    let fork_usec = if forks { whole_micros(saves.latest_begin) } else { 0 };
    text.field("latest_fork_usec", fork_usec);
    text.field("total_forks", if forks { saves.count } else { 0 });
    text.field("migrate_cached_sockets", ctx.server.net.peers.count());
    text.field("slave_expires_tracked_keys", ctx.server.replication.own_keys());
    text.none(&["active_defrag_hits", "active_defrag_misses"]);
    text.none(&["active_defrag_key_hits", "active_defrag_key_misses"]);
    text.none(&["total_active_defrag_time", "current_active_defrag_time"]);
    text.field("tracking_total_keys", ctx.server.hub.tracking().keys());
    text.field("tracking_total_items", ctx.server.hub.tracking().items());
    text.field("tracking_total_prefixes", ctx.server.hub.tracking().prefixes());
    text.field("unexpected_error_replies", stats.unexpected_errors);
    text.field("total_error_replies", stats.error_replies);
    text.field("total_reads_processed", stats.reads);
    text.field("total_writes_processed", stats.writes);
    text.none(&["io_threaded_reads_processed", "io_threaded_writes_processed"]);
}

fn cpu(_: &Context<'_>, _: &KeyspaceStats, text: &mut Text) {
    let [user, system, user_children, system_children] = process::cpu_seconds();
    text.field("used_cpu_sys", format_args!("{system:.6}"));
    text.field("used_cpu_user", format_args!("{user:.6}"));
    text.field("used_cpu_sys_children", format_args!("{system_children:.6}"));
    text.field("used_cpu_user_children", format_args!("{user_children:.6}"));
    let [user, system, ..] = process::thread_cpu_seconds();
    text.field("used_cpu_sys_main_thread", format_args!("{system:.6}"));
    text.field("used_cpu_user_main_thread", format_args!("{user:.6}"));
}

fn commandstats(ctx: &Context<'_>, _: &KeyspaceStats, text: &mut Text) {
    for (command, counters) in ctx.table.all().iter().zip(&ctx.server.meter.stats.commands) {
        if counters.calls + counters.rejected > 0 {
            let micros = counters.time_ns / 1000;
            let each = micros as f64 / counters.calls.max(1) as f64;
            let _ = write!(
                text.0,
                "cmdstat_{}:calls={},usec={micros},usec_per_call={each:.2},rejected_calls={},\
                 failed_calls={}\r\n",
                command.name, counters.calls, counters.rejected, counters.failed
            );
        }
    }
}

fn latencystats(ctx: &Context<'_>, _: &KeyspaceStats, text: &mut Text) {
    let config = &ctx.server.config;
    if !config.latency_tracking {
        return;
    }
    for (command, counters) in ctx.table.all().iter().zip(&ctx.server.meter.stats.commands) {
        if let Some(times) = &counters.times {
            let percentile =
                |&at: &f64| format!("p{}={:.3}", show_percentile(at), times.percentile(at));
            let told: Vec<String> = config.latency_percentiles.iter().map(percentile).collect();
            let told = told.join(",");
            let _ = write!(text.0, "latency_percentiles_usec_{}:{told}\r\n", command.name);
        }
    }
}

fn errorstats(ctx: &Context<'_>, _: &KeyspaceStats, text: &mut Text) {
    for (code, count) in &ctx.server.meter.stats.errors {
        let _ = write!(text.0, "errorstat_{code}:count={count}\r\n");
    }
}

fn keyspace(ctx: &Context<'_>, _: &KeyspaceStats, text: &mut Text) {
    let keyspace = &ctx.keyspace;
    for db in (0..DATABASES).filter(|&db| !keyspace.is_empty(db)) {
        let (keys, expires) = (keyspace.len(db), keyspace.expires(db));
        text.field(&format!("db{db}"), format_args!("keys={keys},expires={expires},avg_ttl=0"));
    }
}

fn replication(ctx: &Context<'_>, _: &KeyspaceStats, text: &mut Text) {
    let server = &*ctx.server;
    let replication = &server.replication;
    text.field("role", if replication.is_replica() { "slave" } else { "master" });
    if let Some(following) = replication.following() {
        primary(server, following, text);
    }
    text.field("connected_slaves", replication.replica_count());
    if server.config.replication.min_replicas > 0 {
        let lag_max = Duration::from_secs(server.config.replication.max_lag_s.into());
        let good = replication.good(&server.hub.clients, lag_max, server.clock.turn());
        text.field("min_slaves_good_slaves", good);
    }
    replicas(server, text);
    let failover = match replication.failover() {
        None => "no-failover",
        Some(failover) if failover.handed_over => "failover-in-progress",
        Some(_) => "waiting-for-sync",
    };
    text.field("master_failover_state", failover);
    text.field("master_replid", replication.id());
    let (older, end) = match replication.older() {
        Some((id, end)) => (id.clone(), *end as i64 + 1),
        None => ("0".repeat(40), -1),
    };
    text.field("master_replid2", older);
    text.field("master_repl_offset", replication.stream().end());
    text.field("second_repl_offset", end);
    let active = replication.is_active();
    let (first, kept) = (replication.stream().start() + 1, replication.stream().end());
    text.field("repl_backlog_active", u8::from(active));
    text.field("repl_backlog_size", server.config.replication.backlog_bytes);
    text.field("repl_backlog_first_byte_offset", if active { first } else { 0 });
    text.field("repl_backlog_histlen", if active { kept + 1 - first } else { 0 });
    text.field("repl_stream_memory_bytes", replication.stream().memory());
    text.field("repl_sync_writes_held", u8::from(replication.writes_wait()));
    text.field("repl_sync_writes_held_ms", replication.writes_waited().as_millis());
}

/// The replicas, a line each.
fn replicas(server: &ServerState, text: &mut Text) {
    for (number, (client, replica)) in server.replication.replicas(&server.hub.clients).enumerate()
    {
        let lag = match replica.phase {
            Phase::Online => {
                server.clock.turn().saturating_duration_since(replica.acked_at).as_secs()
            }
            _ => 0,
        };
        let (ip, port) = (replica.address(&client.session.caller.peer), replica.port);
        let (state, offset) = (replica.state(), replica.acked);
        text.field(
            &format!("slave{number}"),
            format_args!("ip={ip},port={port},state={state},offset={offset},lag={lag}"),
        );
    }
}

fn primary(server: &ServerState, following: &Following, text: &mut Text) {
    let now = server.clock.turn();
    let seconds = |since| now.saturating_duration_since(since).as_secs();
    let up = following.is_connected();
    let offset = server.replication.stream().end();
    text.field("master_host", &following.host);
    text.field("master_port", following.port);
    text.field("master_link_status", if up { "up" } else { "down" });
    let silent = seconds(following.last_io) as i64;
    text.field("master_last_io_seconds_ago", if up { silent } else { -1 });
    let syncing = following.state() == "sync" || following.is_loading();
    text.field("master_sync_in_progress", u8::from(syncing));
    text.field("slave_read_repl_offset", offset + if up { following.unapplied() } else { 0 });
    text.field("slave_repl_offset", offset);
    if syncing {
        let (done, total) = match (following.reception(), following.load()) {
            (Some(receiving), _) => (receiving.bytes, receiving.total()),
            (None, Some(load)) => (load.bytes, load.bytes),
            (None, None) => (0, 0),
        };
        text.field("master_sync_total_bytes", total);
        text.field("master_sync_read_bytes", done);
        text.field("master_sync_left_bytes", total.saturating_sub(done));
        let percent = if total > 0 { done as f64 / total as f64 * 100.0 } else { 0.0 };
        text.field("master_sync_perc", format_args!("{percent:.2}"));
        text.field("master_sync_last_io_seconds_ago", silent);
    }
    if let Some(since) = following.down_since {
        text.field("master_link_down_since_seconds", seconds(since));
    }
    let settings = &server.config.replication;
    text.field("slave_priority", settings.priority);
    text.field("slave_read_only", u8::from(settings.read_only));
    text.field("replica_announced", u8::from(settings.announced));
}

/// The fields of the persistence section on loading.
fn loading(server: &ServerState, text: &mut Text) {
    let loading = server.progress_of_loading();
    text.field("loading", u8::from(loading.is_some()));
    text.field("async_loading", 0);
    if let Some(loading) = loading {
        text.field("loading_start_time", loading.started_s);
        text.field("loading_total_bytes", loading.total_bytes);
        text.field("loading_loaded_bytes", loading.loaded_bytes);
        text.field("loading_loaded_perc", format_args!("{:.2}", loading.share() * 100.0));
        text.field("loading_eta_seconds", loading.left().as_secs());
    }
}
