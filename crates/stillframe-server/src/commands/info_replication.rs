//! INFO replication, in Redis's fields.

use stillframe::Algorithm;
use stillframe_keyspace::KeyspaceStats;

use super::Context;
use super::info::Text;
use crate::replication::{Following, Phase};
use crate::state::ServerState;

pub(super) fn replication<A: Algorithm>(ctx: &Context<'_, A>, _: &KeyspaceStats, text: &mut Text) {
    let server = &*ctx.server;
    let replication = &server.replication;
    text.field("role", if replication.is_replica() { "slave" } else { "master" });
    if let Some(following) = &replication.following {
        primary(server, following, text);
    }
    text.field("connected_slaves", replication.places.len());
    if server.config.replication.min_replicas > 0 {
        text.field("min_slaves_good_slaves", server.good_replicas());
    }
    replicas(server, text);
    let failover = match &replication.failover {
        None => "no-failover",
        Some(failover) if failover.handed_over => "failover-in-progress",
        Some(_) => "waiting-for-sync",
    };
    text.field("master_failover_state", failover);
    text.field("master_replid", &replication.id);
    let (older, end) = match &replication.older {
        Some((id, end)) => (id.clone(), *end as i64 + 1),
        None => ("0".repeat(40), -1),
    };
    text.field("master_replid2", older);
    text.field("master_repl_offset", replication.stream.end());
    text.field("second_repl_offset", end);
    let active = replication.is_active();
    let (first, kept) = (replication.stream.start() + 1, replication.stream.end());
    text.field("repl_backlog_active", u8::from(active));
    text.field("repl_backlog_size", server.config.replication.backlog_bytes);
    text.field("repl_backlog_first_byte_offset", if active { first } else { 0 });
    text.field("repl_backlog_histlen", if active { kept + 1 - first } else { 0 });
    text.field("repl_stream_memory_bytes", replication.stream.memory());
    text.field("repl_sync_writes_held", u8::from(replication.holding()));
    text.field("repl_sync_writes_held_ms", replication.held().as_millis());
}

/// The replicas, a line each.
fn replicas(server: &ServerState, text: &mut Text) {
    for (number, (client, replica)) in server.replicas().enumerate() {
        let lag = match replica.phase {
            Phase::Online => server.loop_time.saturating_duration_since(replica.acked_at).as_secs(),
            _ => 0,
        };
        let (ip, port) = (replica.address(&client.session), replica.port);
        let (state, offset) = (replica.state(), replica.acked);
        text.field(
            &format!("slave{number}"),
            format_args!("ip={ip},port={port},state={state},offset={offset},lag={lag}"),
        );
    }
}

fn primary(server: &ServerState, following: &Following, text: &mut Text) {
    let now = server.loop_time;
    let seconds = |since| now.saturating_duration_since(since).as_secs();
    let up = following.is_connected();
    let offset = server.replication.stream.end();
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
        let (done, total) = match (following.receiving(), following.load()) {
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

/// The fields of the persistence section that tell of loading.
pub(super) fn loading(server: &ServerState, text: &mut Text) {
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
