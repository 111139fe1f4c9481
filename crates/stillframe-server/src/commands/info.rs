//! INFO: the server in figures, in Redis's sections and field names.

use std::fmt::Write as _;

use stillframe_keyspace::DATABASES;
use stillframe_redis::Refusal;

use super::figures::{self, Figure, Seen, lines};
use super::{Context, Table};
use crate::config::show_percentile;

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("info", info);
}

/// Sections in order; the flag: whether they belong to the default set.
static SECTIONS: [(&str, bool, &[Figure]); 13] = [
    ("Server", true, figures::SERVER),
    ("Clients", true, figures::CLIENTS),
    ("Memory", true, figures::MEMORY),
    ("Persistence", true, figures::PERSISTENCE),
    ("Stats", true, figures::STATS),
    ("Replication", true, figures::REPLICATION),
    ("CPU", true, figures::CPU),
    ("Modules", true, &[]),
    ("Commandstats", false, &[lines(commandstats)]),
    ("Errorstats", true, &[lines(errorstats)]),
    ("Latencystats", false, &[lines(latencystats)]),
    ("Cluster", true, figures::CLUSTER),
    ("Keyspace", true, &[lines(keyspace)]),
];

/// `INFO [section...]`
fn info(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let asked: Vec<Vec<u8>> = args.iter().skip(1).map(|name| name.to_ascii_lowercase()).collect();
    let asks = |name: &[u8]| asked.iter().any(|asked| asked == name);
    let everything = asks(b"all") || asks(b"everything");
    let default = asked.is_empty() || asks(b"default");
    let seen = Seen::of(ctx.keyspace, ctx.server, ctx.table);
    let mut text = String::new();
    for (name, in_default, section) in &SECTIONS {
        let chosen = asks(name.to_ascii_lowercase().as_bytes());
        if everything || chosen || (default && *in_default) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            // Writing to a string cannot fail, here and below.
            let _ = write!(text, "# {name}\r\n");
            section.iter().for_each(|figure| figure.show(&seen, &mut text));
        }
    }
    ctx.out.verbatim(b"txt", text);
    Ok(())
}

fn commandstats(seen: &Seen<'_>, text: &mut String) {
    for (command, counters) in seen.table.all().iter().zip(&seen.server.meter.stats().commands) {
        if counters.calls + counters.rejected > 0 {
            let micros = counters.time_ns / 1000;
            let each = micros as f64 / counters.calls.max(1) as f64;
            let _ = write!(
                text,
                "cmdstat_{}:calls={},usec={micros},usec_per_call={each:.2},rejected_calls={},\
                 failed_calls={}\r\n",
                command.name, counters.calls, counters.rejected, counters.failed
            );
        }
    }
}

fn latencystats(seen: &Seen<'_>, text: &mut String) {
    let config = &seen.server.config;
    if !config.latency_tracking {
        return;
    }
    for (command, counters) in seen.table.all().iter().zip(&seen.server.meter.stats().commands) {
        if let Some(times) = &counters.times {
            let percentile =
                |&at: &f64| format!("p{}={:.3}", show_percentile(at), times.percentile(at));
            let shown: Vec<String> = config.latency_percentiles.iter().map(percentile).collect();
            let shown = shown.join(",");
            let _ = write!(text, "latency_percentiles_usec_{}:{shown}\r\n", command.name);
        }
    }
}

fn errorstats(seen: &Seen<'_>, text: &mut String) {
    for (code, count) in &seen.server.meter.stats().errors {
        let _ = write!(text, "errorstat_{code}:count={count}\r\n");
    }
}

fn keyspace(seen: &Seen<'_>, text: &mut String) {
    let keyspace = seen.keyspace;
    for db in (0..DATABASES).filter(|&db| !keyspace.is_empty(db)) {
        let (keys, expires) = (keyspace.len(db), keyspace.expires(db));
        let _ = write!(text, "db{db}:keys={keys},expires={expires},avg_ttl=0\r\n");
    }
}
