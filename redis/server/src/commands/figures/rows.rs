//! Figures of things that come and go: commands, errors, databases, replicas. A thing is a line of
//! INFO; a field of it may be a family of metrics, with the thing as label.

use std::fmt::Write as _;
use std::time::Duration;

use stillframe_storage::dump::whole_micros;

use super::{Family, Labels, Line, Metric, Seen, Trend, Value};
use crate::connections::client::Phase;
use crate::node::config::show_percentile;

/// Things of one kind.
pub(super) struct Rows {
    /// What counts of them in Prometheus: the field of INFO's line, and its metric.
    metrics: &'static [(&'static str, Metric)],
    read: fn(&Seen<'_>) -> Vec<Row>,
}

/// One of the things.
struct Row {
    /// What INFO's line begins with.
    name: String,
    labels: Labels,
    /// Names and values of INFO's line.
    fields: Vec<(String, Value)>,
}

impl Row {
    fn new<'f>(
        name: String,
        labels: Labels,
        fields: impl IntoIterator<Item = (&'f str, Value)>,
    ) -> Self {
        let fields = fields.into_iter().map(|(field, value)| (field.to_owned(), value)).collect();
        Self { name, labels, fields }
    }
}

impl Rows {
    /// Writes the lines of INFO.
    pub(super) fn show(&self, seen: &Seen<'_>, text: &mut String) {
        for row in (self.read)(seen) {
            let fields = row.fields.iter().map(|(name, value)| format!("{name}={}", value.shown()));
            // Writing to a string cannot fail.
            let _ = write!(text, "{}:{}\r\n", row.name, fields.collect::<Vec<_>>().join(","));
        }
    }

    /// The families of metrics.
    pub(super) fn families(&self, seen: &Seen<'_>) -> Vec<Family> {
        let rows = (self.read)(seen);
        let family = |(field, metric): &(&str, Metric)| {
            let line = |row: &Row| {
                let (_, value) = row.fields.iter().find(|(name, _)| name == field)?;
                Some(Line::new(row.labels.clone(), value.number()))
            };
            Family { metric: *metric, lines: rows.iter().filter_map(line).collect() }
        };
        self.metrics.iter().map(family).collect()
    }

    #[cfg(test)]
    pub(super) fn metrics(&self) -> impl Iterator<Item = Metric> {
        self.metrics.iter().map(|(_, metric)| *metric)
    }
}

const fn counter(name: &'static str, help: &'static str) -> Metric {
    Metric { name, help, trend: Trend::Counter }
}

const fn gauge(name: &'static str, help: &'static str) -> Metric {
    Metric { name, help, trend: Trend::Gauge }
}

/// Commands that clients have called.
pub(super) static COMMANDS: Rows = Rows {
    metrics: &[
        ("calls", counter("redis_commands_total", "Calls of a command.")),
        ("usec", counter("redis_commands_duration_seconds_total", "Time in a command.")),
        ("rejected_calls", counter("redis_commands_rejected_calls_total", "Calls refused.")),
        ("failed_calls", counter("redis_commands_failed_calls_total", "Calls that failed.")),
    ],
    read: |seen| {
        let used = seen.table.all().iter().zip(&seen.server.meter.stats().commands);
        let used = used.filter(|(_, it)| it.calls + it.rejected > 0);
        let row = used.map(|(command, it)| {
            let time = Duration::from_nanos(it.time_ns);
            let each_us = whole_micros(time) as f64 / it.calls.max(1) as f64;
            let fields = [
                ("calls", it.calls.into()),
                ("usec", Value::Micros(time)),
                ("usec_per_call", Value::Real(each_us, 2)),
                ("rejected_calls", it.rejected.into()),
                ("failed_calls", it.failed.into()),
            ];
            let labels = vec![("cmd", command.name.to_owned())];
            Row::new(format!("cmdstat_{}", command.name), labels, fields)
        });
        row.collect()
    },
};

/// Codes of error replies.
pub(super) static ERRORS: Rows = Rows {
    metrics: &[("count", counter("redis_errors_total", "Error replies by their code."))],
    read: |seen| {
        let row = |(code, count): (&String, &u64)| {
            let labels = vec![("err", code.clone())];
            Row::new(format!("errorstat_{code}"), labels, [("count", (*count).into())])
        };
        seen.server.meter.stats().errors.iter().map(row).collect()
    },
};

/// How long calls of a command took.
pub(super) static LATENCIES: Rows = Rows {
    metrics: &[],
    read: |seen| {
        let config = &seen.server.config;
        let used = seen.table.all().iter().zip(&seen.server.meter.stats().commands);
        let timed = used.filter_map(|(command, it)| Some((command, it.times.as_ref()?)));
        let row = timed.map(|(command, times)| {
            let percentile = |&at: &f64| {
                (format!("p{}", show_percentile(at)), Value::Real(times.percentile(at), 3))
            };
            Row {
                name: format!("latency_percentiles_usec_{}", command.name),
                labels: Labels::new(),
                fields: config.latency_percentiles.iter().map(percentile).collect(),
            }
        });
        row.filter(|_| config.latency_tracking).collect()
    },
};

/// Databases that are not empty.
pub(super) static DATABASES: Rows = Rows {
    metrics: &[
        ("keys", gauge("redis_db_keys", "Keys of a database.")),
        ("expires", gauge("redis_db_keys_expiring", "Those with a time to live.")),
    ],
    read: |seen| {
        let keyspace = seen.keyspace;
        let row = |db| {
            let mut fields = vec![
                ("keys", keyspace.len(db).into()),
                ("expires", keyspace.expires(db).into()),
                ("avg_ttl", 0u8.into()),
            ];
            let timed = keyspace.timed_hashes_in(db);
            fields.extend((timed > 0).then(|| ("subexpiry", timed.into())));
            let shared = keyspace.shown_keys(db);
            fields.extend((shared > 0).then(|| ("shared", shared.into())));
            Row::new(format!("db{db}"), vec![("db", format!("db{db}"))], fields)
        };
        let used = (0..stillframe_keyspace::DATABASES).filter(|&db| !keyspace.is_empty(db));
        used.map(row).collect()
    },
};

/// Replicas.
pub(super) static REPLICAS: Rows = Rows {
    metrics: &[
        (
            "offset",
            gauge("redis_connected_slave_offset_bytes", "What a replica says it has applied."),
        ),
        ("lag", gauge("redis_connected_slave_lag_seconds", "Seconds since a replica said so.")),
    ],
    read: |seen| {
        let server = seen.server;
        let replicas = server.replication.replicas(&server.clients).enumerate();
        let row = replicas.map(|(number, (client, replica))| {
            let silent = server.clock.turn().saturating_duration_since(replica.acked_at);
            let lag = if replica.phase == Phase::Online { silent.as_secs() } else { 0 };
            let (ip, port) = (replica.address(&client.session.caller.peer), replica.port);
            let labels = vec![
                ("slave_ip", ip.clone()),
                ("slave_port", port.to_string()),
                ("slave_state", replica.state().to_owned()),
            ];
            let fields = [
                ("ip", ip.into()),
                ("port", port.into()),
                ("state", replica.state().into()),
                ("offset", replica.acked.unwrap_or(0).into()),
                ("lag", lag.into()),
            ];
            Row::new(format!("slave{number}"), labels, fields)
        });
        row.collect()
    },
};
