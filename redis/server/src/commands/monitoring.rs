//! Time and memory: SLOWLOG, LATENCY, MEMORY.

use stillframe_keyspace::Entry;
use stillframe_resp::parse_integer;

use super::pubsub::wrong_subcommand;
use super::{Context, Table};
use crate::node::clock::unix_millis;
use crate::node::machine;
use crate::peers::group::Member;
use crate::state::eviction::{OWN_BYTES, counted_bytes, give_back, used_bytes};
use stillframe_commands::Refusal;
use stillframe_commands::errors::{NOT_AN_INTEGER, SYNTAX};
use stillframe_commands::text::c_string;

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("slowlog", slowlog_help);
    table.add_server("slowlog|get", slowlog_get);
    table.add_server("slowlog|help", slowlog_help);
    table.add_server("slowlog|len", slowlog_len);
    table.add_server("slowlog|reset", slowlog_reset);
    table.add_server("latency", latency_help);
    table.add_server("latency|doctor", latency_doctor);
    table.add_server("latency|graph", latency_graph);
    table.add_server("latency|help", latency_help);
    table.add_server("latency|histogram", latency_histogram);
    table.add_server("latency|history", latency_history);
    table.add_server("latency|latest", latency_latest);
    table.add_server("latency|reset", latency_reset);
    table.add_server("memory", memory_help);
    table.add_server("memory|doctor", memory_doctor);
    table.add_server("memory|help", memory_help);
    table.add_server("memory|malloc-stats", memory_malloc_stats);
    table.add_server("memory|purge", memory_purge);
    table.add_server("memory|stats", memory_stats);
    table.add_server("memory|usage", memory_usage);
}

/// `SLOWLOG GET [count]`: ten by default; -1: all.
fn slowlog_get(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let count = match args {
        [_, _] => Some(10),
        [_, _, count] => parse_integer(count).filter(|&count| count >= -1),
        _ => return Err(wrong_subcommand(args)),
    };
    let Some(count) = count else {
        return Err("ERR count should be greater than or equal to -1".into());
    };
    let entries = ctx.server.meter.slow_requests();
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(entries.len());
    ctx.out.array(count);
    for entry in entries.iter().take(count) {
        ctx.out.array(6);
        ctx.out.integer(entry.id);
        ctx.out.integer(entry.at_s);
        ctx.out.integer(entry.micros);
        ctx.out.array(entry.args.len());
        entry.args.iter().for_each(|arg| ctx.out.bulk(arg));
        ctx.out.bulk(&entry.peer);
        ctx.out.bulk(&entry.name);
    }
    Ok(())
}

/// `SLOWLOG LEN`
fn slowlog_len(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.integer(ctx.server.meter.slow_requests().len() as i64);
    Ok(())
}

/// `SLOWLOG RESET`
fn slowlog_reset(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.server.meter.forget_slow_requests();
    ctx.out.ok();
    Ok(())
}

/// `SLOWLOG HELP`
fn slowlog_help(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.lines(&[
        "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GET [<count>]",
        "    Show the last slow requests (10 by default, -1: all).",
        "LEN",
        "    Count the requests in the log.",
        "RESET",
        "    Empty the log.",
        "HELP",
        "    Print this help.",
    ]);
    Ok(())
}

/// `LATENCY LATEST`: each event with its last slow time, that latency, and the worst.
fn latency_latest(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let events = ctx.server.meter.latency().events();
    ctx.out.array(events.len());
    for (name, event) in events {
        let (second, ms) = event.samples.back().copied().unwrap_or_default();
        ctx.out.array(4);
        ctx.out.bulk(name);
        ctx.out.integer(second);
        ctx.out.integer(ms.cast_signed());
        ctx.out.integer(event.max_ms.cast_signed());
    }
    Ok(())
}

/// `LATENCY HISTORY event`
fn latency_history(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let name = String::from_utf8_lossy(args[2]);
    let samples = ctx.server.meter.latency().get(&name).map(|event| &event.samples);
    ctx.out.array(samples.map_or(0, |samples| samples.len()));
    for (second, ms) in samples.into_iter().flatten() {
        ctx.out.array(2);
        ctx.out.integer(*second);
        ctx.out.integer(ms.cast_signed());
    }
    Ok(())
}

/// `LATENCY RESET [event...]`: replies how many were reset.
fn latency_reset(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let forgotten = ctx.server.meter.forget_latency(args.get(2..).unwrap_or_default());
    ctx.out.integer(forgotten as i64);
    Ok(())
}

/// `LATENCY DOCTOR`: the figures in words.
fn latency_doctor(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let mut text = String::new();
    if ctx.server.config.latency_threshold_ms == 0 {
        text.push_str(
            "Nothing is measured: set latency-monitor-threshold to the milliseconds from which on \
             an event is of interest.\n",
        );
    } else if ctx.server.meter.latency().events().len() == 0 {
        text.push_str("No event has taken as long as latency-monitor-threshold says.\n");
    }
    for (name, event) in ctx.server.meter.latency().events() {
        let (count, sum) =
            (event.samples.len() as u64, event.samples.iter().map(|(_, ms)| ms).sum::<u64>());
        let mean = sum.checked_div(count).unwrap_or(0);
        text.push_str(&format!(
            "{name}: {count} slow seconds, mean {mean} ms, worst {} ms.\n",
            event.max_ms
        ));
    }
    ctx.out.verbatim(b"txt", text);
    Ok(())
}

/// `LATENCY HISTOGRAM [command...]`: the distribution of times of each.
fn latency_histogram(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let names = args.get(2..).unwrap_or_default();
    let asked = |name: &str| {
        names.is_empty()
            || names.iter().any(|asked| {
                asked.eq_ignore_ascii_case(name.as_bytes())
                    || name.split_once('|').is_some_and(|(container, _)| {
                        asked.eq_ignore_ascii_case(container.as_bytes())
                    })
            })
    };
    let commands = ctx.table.all().iter().zip(&ctx.server.meter.stats().commands);
    let shown: Vec<_> = commands
        .filter(|(command, stats)| stats.calls > 0 && asked(command.name))
        .filter_map(|(command, stats)| Some((command.name, stats.calls, stats.times.as_ref()?)))
        .collect();
    ctx.out.map(shown.len());
    for (name, calls, times) in shown {
        ctx.out.bulk(name);
        ctx.out.map(2);
        ctx.out.bulk("calls");
        ctx.out.integer(calls.cast_signed());
        ctx.out.bulk("histogram_usec");
        let buckets = times.cumulative();
        ctx.out.map(buckets.len());
        for (bound, count) in buckets {
            ctx.out.integer(bound);
            ctx.out.integer(count.cast_signed());
        }
    }
    Ok(())
}

/// `LATENCY HELP`
fn latency_help(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.lines(&[
        "LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DOCTOR",
        "    Explain the slow events in words.",
        "HISTOGRAM [<command> ...]",
        "    Show how often each command took how long.",
        "HISTORY <event>",
        "    Show the slow seconds of an event.",
        "LATEST",
        "    Show when each event was slow the last time.",
        "RESET [<event> ...]",
        "    Forget the samples of events, or of all.",
        "GRAPH <event>",
        "    Draw the slow seconds of an event.",
        "HELP",
        "    Print this help.",
    ]);
    Ok(())
}

/// `LATENCY GRAPH event`: a line for each slow second, the newest last.
fn latency_graph(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    const WIDTH: u64 = 50;
    let name = String::from_utf8_lossy(args[2]);
    let Some(event) =
        ctx.server.meter.latency().get(&name).filter(|event| !event.samples.is_empty())
    else {
        let problem = [b"ERR No samples available for event '", c_string(args[2]), b"'"].concat();
        return Err(problem.into());
    };
    let now = unix_millis() / 1000;
    let highest = event.samples.iter().map(|(_, ms)| *ms).max().unwrap_or(0).max(1);
    let mut text = format!("{name}: up to {highest} ms, {} ms at any time\n", event.max_ms);
    for (second, ms) in &event.samples {
        let bar = "#".repeat((ms * WIDTH).div_ceil(highest) as usize);
        text.push_str(&format!("{:>8}s ago {bar} {ms} ms\n", now - second));
    }
    ctx.out.verbatim(b"txt", text);
    Ok(())
}

/// `MEMORY USAGE key [SAMPLES count]`: exact here, so SAMPLES makes no difference.
fn memory_usage(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    match args.get(3..).unwrap_or_default() {
        [] => {}
        [option, count] if option.eq_ignore_ascii_case(b"samples") => match parse_integer(count) {
            None => return Err(NOT_AN_INTEGER),
            Some(..0) => return Err(SYNTAX),
            Some(_) => {}
        },
        _ => return Err(SYNTAX),
    }
    ctx.data().peek(args[2], |out, entry| match entry.map(Entry::memory_bytes) {
        Some(bytes) => out.integer(bytes as i64),
        None => out.null(),
    });
    Ok(())
}

/// `MEMORY MALLOC-STATS`
fn memory_malloc_stats(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.bulk("Stats not supported for the current allocator");
    Ok(())
}

/// `MEMORY PURGE`: gives free memory back to the system.
fn memory_purge(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    give_back(ctx.keyspace, ctx.server, true);
    ctx.out.ok();
    Ok(())
}

/// `MEMORY STATS`
fn memory_stats(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let figures = ctx.keyspace.stats();
    let (resident, peak) = machine::resident_bytes();
    let counted = counted_bytes(ctx.keyspace, ctx.server);
    let data = ctx.keyspace.data_bytes() as u64;
    let total = used_bytes(ctx.keyspace, ctx.server);
    let waiting = ctx.server.storage.journal.figures().map_or(0, |log| log.stats.waiting_bytes);
    let scripts = ctx.server.scripts.taken_by_scripts().lists;
    let functions = ctx.server.scripts.taken_by_functions(ctx.keyspace.libraries()).lists;
    let numbers = [
        ("peak.allocated", peak),
        ("total.allocated", total),
        ("startup.allocated", OWN_BYTES as u64),
        ("replication.backlog", ctx.server.replication.stream().memory() as u64),
        ("raft.log", ctx.server.group.member().map_or(0, Member::log_memory)),
        ("clients.slaves", 0),
        ("clients.normal", ctx.server.clients.bytes() as u64),
        ("cluster.links", 0),
        ("aof.buffer", waiting as u64),
        ("lua.caches", scripts as u64),
        ("functions.caches", functions as u64),
        ("overhead.total", counted - figures.entry_bytes as u64),
        ("keys.count", figures.keys as u64),
        ("keys.bytes-per-key", data.checked_div(figures.keys as u64).unwrap_or(0)),
        ("dataset.bytes", figures.entry_bytes as u64),
        ("image.limbo-bytes", figures.limbo_bytes as u64),
        ("garbage.bytes", figures.garbage_bytes as u64),
        ("allocator.allocated", total),
        ("allocator.active", resident),
        ("allocator.resident", resident),
        ("fragmentation.bytes", resident.saturating_sub(total)),
    ];
    let ratio = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let ratios = [
        ("dataset.percentage", ratio(figures.entry_bytes as u64, counted) * 100.0),
        ("peak.percentage", ratio(total, peak) * 100.0),
        ("fragmentation", ratio(resident, total)),
    ];
    ctx.out.map(numbers.len() + ratios.len());
    for (name, number) in numbers {
        ctx.out.bulk(name);
        ctx.out.integer(number.cast_signed());
    }
    for (name, ratio) in ratios {
        ctx.out.bulk(name);
        ctx.out.double(ratio);
    }
    Ok(())
}

/// `MEMORY DOCTOR`
fn memory_doctor(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let limit = ctx.server.config.maxmemory_bytes;
    let counted = counted_bytes(ctx.keyspace, ctx.server);
    let (resident, _) = machine::resident_bytes();
    let limbo = ctx.keyspace.stats().limbo_bytes as u64;
    let text = if limit > 0 && counted > limit {
        "Memory is above maxmemory: keys are being evicted, or none may be.\n"
    } else if limbo > counted / 2 && limbo > 1 << 20 {
        "A save holds many replaced values; their memory comes back as it goes on.\n"
    } else if resident > counted.saturating_mul(2) && resident > 256 << 20 {
        "The process holds twice the memory that the data takes; it comes back as it is reused.\n"
    } else {
        "Nothing is wrong with the memory of this server.\n"
    };
    ctx.out.verbatim(b"txt", text);
    Ok(())
}

/// `MEMORY HELP`
fn memory_help(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.lines(&[
        "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DOCTOR",
        "    Explain problems of memory in words.",
        "MALLOC-STATS",
        "    Say that the allocator has no statistics.",
        "PURGE",
        "    Give what is free back to the system, which also happens by itself.",
        "STATS",
        "    Show what takes memory.",
        "USAGE <key> [SAMPLES <count>]",
        "    Show the bytes that a key and its value take.",
        "HELP",
        "    Print this help.",
    ]);
    Ok(())
}
