//! Figures in the text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write};

use super::figure::Figures;
use crate::commands::figures::{Trend, metrics_of_process};

/// The text under way. Writing to a string cannot fail.
struct Text(String);

impl Text {
    /// Begins a family of figures.
    fn family(&mut self, name: &str, help: &str, trend: Trend) {
        let kind = if trend == Trend::Gauge { "gauge" } else { "counter" };
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// A line of the family.
    fn line(&mut self, name: &str, labels: &[(&str, &dyn Display)], value: f64) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"", if at == 0 { '{' } else { ',' });
            escape(&mut self.0, &text.to_string());
            self.0.push('"');
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}

fn escape(into: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '\\' => into.push_str("\\\\"),
            '"' => into.push_str("\\\""),
            '\n' => into.push_str("\\n"),
            other => into.push(other),
        }
    }
}

/// All figures, with the operating system's of the process.
pub(super) fn write(figures: &Figures) -> String {
    let mut text = Text(String::with_capacity(32 << 10));
    for (metric, value) in figures.plain.iter().copied().chain(metrics_of_process()) {
        text.family(metric.name, metric.help, metric.trend);
        text.line(metric.name, &[], value);
    }
    let instance: Vec<(&str, &dyn Display)> =
        figures.instance.iter().map(|(label, text)| (*label, text as &dyn Display)).collect();
    text.family("redis_instance_info", "Which server this is.", Trend::Gauge);
    text.line("redis_instance_info", &instance, 1.0);
    commands(&mut text, figures);
    databases(&mut text, figures);
    replicas(&mut text, figures);
    text.0
}

type OfCommand = fn(&super::figure::OfCommand) -> f64;

fn commands(text: &mut Text, figures: &Figures) {
    let families: [(&str, &str, OfCommand); 4] = [
        ("redis_commands_total", "Calls of a command.", |it| it.calls as f64),
        ("redis_commands_duration_seconds_total", "Time in a command.", |it| it.seconds),
        ("redis_commands_rejected_calls_total", "Calls refused.", |it| it.rejected as f64),
        ("redis_commands_failed_calls_total", "Calls that failed.", |it| it.failed as f64),
    ];
    for (name, help, value) in families {
        text.family(name, help, Trend::Counter);
        for command in &figures.commands {
            text.line(name, &[("cmd", &command.name)], value(command));
        }
    }
    text.family("redis_errors_total", "Error replies by their code.", Trend::Counter);
    for (code, count) in &figures.errors {
        text.line("redis_errors_total", &[("err", code)], *count as f64);
    }
}

fn databases(text: &mut Text, figures: &Figures) {
    text.family("redis_db_keys", "Keys of a database.", Trend::Gauge);
    for (db, keys, _) in &figures.databases {
        text.line("redis_db_keys", &[("db", &format_args!("db{db}"))], *keys as f64);
    }
    text.family("redis_db_keys_expiring", "Those with a time to live.", Trend::Gauge);
    for (db, _, expiring) in &figures.databases {
        text.line("redis_db_keys_expiring", &[("db", &format_args!("db{db}"))], *expiring as f64);
    }
}

fn replicas(text: &mut Text, figures: &Figures) {
    if !figures.replicas.is_empty() {
        let (offset, lag) =
            ("redis_connected_slave_offset_bytes", "redis_connected_slave_lag_seconds");
        text.family(offset, "What a replica says it has applied.", Trend::Gauge);
        for it in &figures.replicas {
            let labels: [(&str, &dyn Display); 3] =
                [("slave_ip", &it.ip), ("slave_port", &it.port), ("slave_state", &it.state)];
            text.line(offset, &labels, it.offset as f64);
        }
        text.family(lag, "Seconds since a replica said so.", Trend::Gauge);
        for it in &figures.replicas {
            let labels: [(&str, &dyn Display); 3] =
                [("slave_ip", &it.ip), ("slave_port", &it.port), ("slave_state", &it.state)];
            text.line(lag, &labels, it.lag_s as f64);
        }
    }
    let Some(primary) = &figures.primary else { return };
    let labels: [(&str, &dyn Display); 2] =
        [("master_host", &primary.host), ("master_port", &primary.port)];
    for (name, help, value) in [
        ("redis_master_link_up", "Whether the primary is followed.", u8::from(primary.up).into()),
        (
            "redis_master_sync_in_progress",
            "Whether an image of it comes.",
            u8::from(primary.syncing).into(),
        ),
        (
            "redis_master_last_io_seconds_ago",
            "Seconds since it was heard of.",
            primary.silent_s as f64,
        ),
    ] {
        text.family(name, help, Trend::Gauge);
        text.line(name, &labels, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = Text(String::new());
        text.line("a", &[("x", &"\"\\\n"), ("y", &1)], 0.5);
        text.line("b", &[], 3e9);
        assert_eq!(text.0, "a{x=\"\\\"\\\\\\n\",y=\"1\"} 0.5\nb 3000000000\n");
    }
}
