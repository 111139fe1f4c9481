//! The registry of settings: one line each; some lists have files of their own.

use stillframe::OnFull;
use stillframe_keyspace::KEY_BYTES_MAX;

use super::Eviction;
use super::choices::{
    addresses, algorithm, bandwidth, beats, bytes, bytes_between, directory_name, file_name,
    memory_policy, percentiles, policy, show_percentiles, show_policy, show_save,
};
use super::inert::{ALIASES, INERT};
use super::operations::OPERATIONS;
use super::parameter::{
    Change, Form, Parameter, always, at_start, fixed, several_words, size, store, text,
};
use super::process::PROCESS;
use super::replication::REPLICATION;
use super::tls::TLS;
use super::values::{
    Size, any, number, output_limits, parse_size, save_points, share, show_output_limits, switch,
    yes_no,
};
use super::{Config, LogLevel};
use stillframe_redis::Classes;

/// The setting of that name, in any case; names that it had in older versions count, too.
pub(crate) fn find(name: &str) -> Option<&'static Parameter> {
    let name = name.to_ascii_lowercase();
    let renamed = ALIASES.iter().find(|(old, _)| *old == name);
    let name = renamed.map_or(name.as_str(), |(_, new)| new);
    all().find(|parameter| parameter.name == name)
}

/// Every setting under every name it has.
pub(crate) fn named() -> impl Iterator<Item = (&'static str, &'static Parameter)> {
    let older = ALIASES.iter().filter_map(|(old, new)| Some((*old, find(new)?)));
    all().map(|parameter| (parameter.name, parameter)).chain(older)
}

/// Every setting.
pub(crate) fn all() -> impl Iterator<Item = &'static Parameter> {
    let parts = [PARAMETERS, OPERATIONS, REPLICATION, TLS, PROCESS, INERT];
    parts.into_iter().flatten()
}

/// A setting of Redis for freeing in the background, which is always done here.
macro_rules! lazyfree {
    ($name:literal, $at:literal) => {
        always(
            $name,
            |c| yes_no(c.lazyfree[$at]),
            |c, value| {
                c.lazyfree[$at] = switch(value)?;
                Ok(())
            },
        )
    };
}

/// See [`all`].
static PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "dir",
        change: Change::Protected,
        form: Form::Text,
        get: |c| std::path::absolute(&c.dir).unwrap_or(c.dir.clone()).display().to_string(),
        set: |c, value| {
            c.dir = std::path::absolute(value).map_err(|_| "name a directory")?;
            c.dir_is_named = true;
            Ok(())
        },
    },
    Parameter {
        name: "dbfilename",
        change: Change::Protected,
        form: Form::Text,
        get: |c| c.dbfilename.clone(),
        set: store!(dbfilename, file_name),
    },
    several_words(always("bind", |c| c.bind.join(" "), store!(bind, addresses))),
    always("port", |c| c.port.to_string(), store!(port, |v| number(v, 0, 65535))),
    always("protected-mode", |c| yes_no(c.protected_mode), store!(protected_mode, switch)),
    text(always("requirepass", |c| c.requirepass.clone(), store!(requirepass, any))),
    at_start(
        "tcp-backlog",
        |c| c.tcp_backlog.to_string(),
        store!(tcp_backlog, |v| number(v, 0, i32::MAX as u32)),
    ),
    always(
        "tcp-keepalive",
        |c| c.tcp_keepalive_seconds.to_string(),
        store!(tcp_keepalive_seconds, |v| number(v, 0, i32::MAX as u32)),
    ),
    always(
        "timeout",
        |c| c.timeout_seconds.to_string(),
        store!(timeout_seconds, |v| number(v, 0, i32::MAX as u32)),
    ),
    always(
        "maxclients",
        |c| c.maxclients.to_string(),
        store!(maxclients, |v| number(v, 1, u32::MAX)),
    ),
    size(always(
        "client-query-buffer-limit",
        |c| c.query_buffer_limit_bytes.to_string(),
        store!(query_buffer_limit_bytes, |v| bytes(v, 1 << 20)),
    )),
    several_words(always(
        "client-output-buffer-limit",
        |c| show_output_limits(&c.output_limits),
        |c, value| {
            c.output_limits = output_limits(c.output_limits, value)?;
            Ok(())
        },
    )),
    size(always(
        "proto-max-bulk-len",
        |c| c.bulk_bytes_max.to_string(),
        store!(bulk_bytes_max, |v| bytes_between(v, 1 << 20, KEY_BYTES_MAX)),
    )),
    always("hz", |c| c.hz.to_string(), store!(hz, beats)),
    at_start("disable-thp", |c| yes_no(c.disable_thp), store!(disable_thp, switch)),
    always("loglevel", |c| c.loglevel.name().to_owned(), store!(loglevel, LogLevel::parse)),
    several_words(always("save", show_save, store!(save, save_points))),
    always(
        "stop-writes-on-bgsave-error",
        |c| yes_no(c.stop_writes_on_bgsave_error),
        store!(stop_writes_on_bgsave_error, switch),
    ),
    always("rdbcompression", |c| yes_no(c.rdbcompression), store!(rdbcompression, switch)),
    text(always("notify-keyspace-events", |c| c.notify.show(), store!(notify, Classes::parse))),
    always(
        "tracking-table-max-keys",
        |c| c.tracking_table_max_keys.to_string(),
        store!(tracking_table_max_keys, |v| number(v, 0, i64::MAX as usize)),
    ),
    at_start("snapshot", |c| c.snapshot.to_owned(), store!(snapshot, algorithm)),
    at_start(
        "snapshot-memory",
        |c| c.snapshot_memory.to_string(),
        store!(snapshot_memory, Size::parse),
    ),
    at_start(
        "snapshot-memory-policy",
        |c| if c.snapshot_memory_policy == OnFull::Slow { "slow" } else { "cancel" }.to_owned(),
        store!(snapshot_memory_policy, memory_policy),
    ),
    always(
        "snapshot-bandwidth",
        |c| c.snapshot_bandwidth_bytes.to_string(),
        store!(snapshot_bandwidth_bytes, bandwidth),
    ),
    always("appendonly", |c| yes_no(c.appendonly), store!(appendonly, switch)),
    always("appendfsync", |c| show_policy(c.appendfsync), store!(appendfsync, policy)),
    Parameter {
        name: "appenddirname",
        change: Change::Start,
        form: Form::Text,
        get: |c| c.appenddirname.clone(),
        set: store!(appenddirname, directory_name),
    },
    always(
        "auto-aof-rewrite-percentage",
        |c| c.auto_aof_rewrite_percentage.to_string(),
        store!(auto_aof_rewrite_percentage, |v| number(v, 0, i32::MAX as u32)),
    ),
    size(always(
        "auto-aof-rewrite-min-size",
        |c| c.auto_aof_rewrite_min_bytes.to_string(),
        store!(auto_aof_rewrite_min_bytes, parse_size),
    )),
    always(
        "log-keep-age",
        |c| c.log_keep.seconds.to_string(),
        store!(log_keep.seconds, |v| number(v, 0, u64::from(u32::MAX))),
    ),
    size(always(
        "log-keep-bytes",
        |c| c.log_keep.bytes.to_string(),
        store!(log_keep.bytes, parse_size),
    )),
    at_start("accept-log-loss", |c| yes_no(c.accept_log_loss), store!(accept_log_loss, switch)),
    fixed!(always, "aof-load-truncated", "yes"),
    fixed!(always, "aof-use-rdb-preamble", "yes"),
    fixed!(always, "no-appendfsync-on-rewrite", "no"),
    fixed!(at_start, "databases", "16"),
    fixed!(at_start, "rdbchecksum", "yes"),
    size(always(
        "maxmemory",
        |c| c.maxmemory_bytes.to_string(),
        store!(maxmemory_bytes, parse_size),
    )),
    always(
        "maxmemory-policy",
        |c| c.maxmemory_policy.name().to_owned(),
        store!(maxmemory_policy, Eviction::parse),
    ),
    always(
        "maxmemory-samples",
        |c| c.maxmemory_samples.to_string(),
        store!(maxmemory_samples, |v| number(v, 1, i32::MAX as usize)),
    ),
    always(
        "maxmemory-clients",
        |c| c.maxmemory_clients.to_string(),
        store!(maxmemory_clients, share),
    ),
    always(
        "lfu-log-factor",
        |c| c.lfu_log_factor.to_string(),
        store!(lfu_log_factor, |v| number(v, 0, i32::MAX as u32)),
    ),
    always(
        "lfu-decay-time",
        |c| c.lfu_decay_minutes.to_string(),
        store!(lfu_decay_minutes, |v| number(v, 0, i32::MAX as u32)),
    ),
    lazyfree!("lazyfree-lazy-eviction", 0),
    lazyfree!("lazyfree-lazy-expire", 1),
    lazyfree!("lazyfree-lazy-server-del", 2),
    lazyfree!("lazyfree-lazy-user-del", 3),
    lazyfree!("lazyfree-lazy-user-flush", 4),
    always(
        "slowlog-log-slower-than",
        |c| c.slowlog_slower_than_us.to_string(),
        store!(slowlog_slower_than_us, |v| number(v, -1, i64::MAX)),
    ),
    always(
        "slowlog-max-len",
        |c| c.slowlog_max_len.to_string(),
        store!(slowlog_max_len, |v| number(v, 0, i64::MAX as usize)),
    ),
    always(
        "latency-monitor-threshold",
        |c| c.latency_threshold_ms.to_string(),
        store!(latency_threshold_ms, |v| number(v, 0, i64::MAX as u64)),
    ),
    fixed!(always, "hll-sparse-max-bytes", "3000"),
    always("latency-tracking", |c| yes_no(c.latency_tracking), store!(latency_tracking, switch)),
    several_words(always(
        "latency-tracking-info-percentiles",
        |c| show_percentiles(&c.latency_percentiles),
        store!(latency_percentiles, percentiles),
    )),
    fixed!(at_start, "io-threads", "1"),
    fixed!(at_start, "cluster-enabled", "no"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_accepts_what_it_shows() {
        let mut config = Config::default();
        for parameter in all() {
            let shown = (parameter.get)(&config);
            let again = (parameter.set)(&mut config, &shown);
            assert_eq!(again, Ok(()), "{} {shown}", parameter.name);
            assert_eq!((parameter.get)(&config), shown, "{}", parameter.name);
        }
    }

    #[test]
    fn wrong_values_are_refused_in_redis_words() {
        let mut config = Config::default();
        for (name, value, problem) in [
            ("maxclients", "0", "argument must be between 1 and 4294967295 inclusive"),
            ("maxclients", "x", "argument couldn't be parsed into an integer"),
            ("rdbcompression", "maybe", "argument must be 'yes' or 'no'"),
            ("client-query-buffer-limit", "x", "argument must be a memory value"),
            ("dbfilename", "../x", "dbfilename can't be a path, just a filename"),
        ] {
            let refused = (find(name).expect("a setting").set)(&mut config, value);
            assert_eq!(refused, Err(problem.to_owned()), "{name}");
        }
    }
}
