//! HOTKEYS: the keys that requests spend most time and bytes on, in the form of Redis 8.10.

use stillframe_commands::Refusal;
use stillframe_commands::errors::SYNTAX;
use stillframe_resp::{Out, parse_integer};

use super::{Command, Context, Table};
use crate::node::machine;
use crate::node::meter::hotkeys::{HotKeys, Spent, Wanted};
use crate::peers::group::{SLOTS, slot};

/// The most keys that can be asked for.
const COUNT_MAX: i64 = 64;
/// The most seconds that can be asked for.
const SECONDS_MAX: i64 = 1_000_000;

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("hotkeys", help);
    table.add_server("hotkeys|get", get);
    table.add_server("hotkeys|help", help);
    table.add_server("hotkeys|reset", reset);
    table.add_server("hotkeys|start", start);
    table.add_server("hotkeys|stop", stop);
}

/// Notes the request that has just run. One that waits counts until it does; those of a script are
/// the script's, and those on a branch are on other keys.
#[cold]
pub(super) fn note(
    ctx: &mut Context<'_>,
    command: &Command,
    args: &[&[u8]],
    begun_ns: u64,
    start_of_reply: usize,
) {
    if ctx.server.scripts.is_asking() || ctx.branch.is_some() {
        return;
    }
    ctx.server.clock.read();
    let ns = ctx.server.clock.ns().saturating_sub(begun_ns);
    let reply = reply_bytes(&ctx.out).saturating_sub(start_of_reply);
    let (server, now) = (&mut *ctx.server, ctx.now);
    let Some(hot) = server.meter.hotkeys.as_mut().filter(|it| it.is_active(now)) else { return };
    let keys = command.keys.in_request(args).into_iter();
    let keys: Vec<(&[u8], u16)> = keys.map(|key| (key, slot(key))).collect();
    let bytes = (request_bytes(args) + reply) as u64;
    let is_sampled = hot.wanted.sample <= 1 || server.ledger.random.below(hot.wanted.sample) == 0;
    hot.note(&keys, Spent { ns, bytes }, is_sampled);
}

/// Bytes of all replies in a buffer, with the texts that they contain by reference.
pub(super) fn reply_bytes(out: &Out<'_>) -> usize {
    out.position() + out.insets.as_ref().map_or(0, |insets| insets.bytes())
}

/// The bytes of a request as clients write it.
fn request_bytes(args: &[&[u8]]) -> usize {
    let header = |number: usize| 4 + number.checked_ilog10().unwrap_or(0) as usize;
    let texts = args.iter().map(|arg| header(arg.len()) + arg.len() + 2);
    header(args.len()) + texts.sum::<usize>()
}

/// `HOTKEYS START METRICS count [CPU] [NET] [COUNT k] [DURATION seconds] [SAMPLE ratio]
/// [SLOTS count slot...]`
fn start(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    if ctx.server.meter.hotkeys.as_ref().is_some_and(|it| it.is_active(ctx.now)) {
        return Err("ERR hotkey tracking session already in progress".into());
    }
    let wanted = parse(&args[2..], ctx.server.group.is_member())?;
    let [user, kernel, ..] = machine::cpu_seconds();
    let hot = HotKeys::new(wanted, ctx.now, [user, kernel]);
    ctx.server.meter.hotkeys = Some(Box::new(hot));
    ctx.out.ok();
    Ok(())
}

/// What a request to start asks for.
fn parse(words: &[&[u8]], has_slots: bool) -> Result<Wanted, Refusal> {
    let (mut wanted, mut words) = parse_metrics(words)?;
    while let [word, rest @ ..] = words {
        let [number, after @ ..] = rest else { return Err(SYNTAX) };
        let within = |most: i64, refusal: &'static str| {
            let number = parse_integer(number).filter(|number| (1..=most).contains(number));
            number.ok_or_else(|| Refusal::from(refusal))
        };
        words = after;
        if word.eq_ignore_ascii_case(b"COUNT") {
            wanted.count = within(COUNT_MAX, "ERR COUNT must be between 1 and 64")? as usize;
        } else if word.eq_ignore_ascii_case(b"DURATION") {
            let text = "ERR DURATION must be between 1 and 1000000";
            wanted.duration_ms = Some(within(SECONDS_MAX, text)? * 1000);
        } else if word.eq_ignore_ascii_case(b"SAMPLE") {
            let most = i64::from(i32::MAX);
            wanted.sample = within(most, "ERR SAMPLE ratio must be positive")? as usize;
        } else if word.eq_ignore_ascii_case(b"SLOTS") {
            if !has_slots {
                return Err("ERR SLOTS parameter cannot be used in non-cluster mode".into());
            } else if !wanted.slots.is_empty() {
                return Err("ERR SLOTS parameter already specified".into());
            }
            let text = "ERR SLOTS count must be between 1 and 16384";
            let count = within(SLOTS.into(), text)? as usize;
            let slots = after.get(..count).ok_or("ERR not enough slot numbers provided")?;
            wanted.slots = parse_slots(slots)?;
            words = &after[count..];
        } else {
            return Err(SYNTAX);
        }
    }
    Ok(wanted)
}

/// `METRICS count [CPU] [NET]`, and the words behind it. As in Redis, other words count as well.
fn parse_metrics<'a, 'b>(words: &'a [&'b [u8]]) -> Result<(Wanted, &'a [&'b [u8]]), Refusal> {
    let (count, words) = match words {
        [word, count, rest @ ..] if word.eq_ignore_ascii_case(b"METRICS") => (count, rest),
        _ => return Err("ERR METRICS parameter is required".into()),
    };
    let count = match parse_integer(count) {
        Some(count @ 1..=2) => count as usize,
        _ => return Err("ERR METRICS count must be > 0 and <= 2".into()),
    };
    let (duration_ms, slots) = Default::default();
    let mut wanted = Wanted { cpu: false, net: false, count: 10, duration_ms, sample: 1, slots };
    for word in words.iter().take(count) {
        if word.eq_ignore_ascii_case(b"CPU") && std::mem::replace(&mut wanted.cpu, true) {
            return Err("ERR METRICS CPU defined more than once!".into());
        } else if word.eq_ignore_ascii_case(b"NET") && std::mem::replace(&mut wanted.net, true) {
            return Err("ERR METRICS NET defined more than once!".into());
        }
    }
    let rest = words.get(count..);
    let rest = rest.ok_or("ERR METRICS count does not match number of metric types provided")?;
    if !wanted.cpu && !wanted.net {
        return Err("ERR METRICS no valid metrics passed. Supported: CPU|NET".into());
    }
    Ok((wanted, rest))
}

/// Slots by their numbers, in order.
fn parse_slots(words: &[&[u8]]) -> Result<Vec<u16>, Refusal> {
    let mut is_there = vec![false; SLOTS.into()];
    for word in words {
        let slot = parse_integer(word).and_then(|slot| usize::try_from(slot).ok());
        let seen = slot.and_then(|slot| is_there.get_mut(slot));
        let seen = seen.ok_or("ERR Invalid or out of range slot")?;
        if std::mem::replace(seen, true) {
            return Err("ERR duplicate slot number".into());
        }
    }
    Ok((0..SLOTS).filter(|&slot| is_there[usize::from(slot)]).collect())
}

/// `HOTKEYS STOP`
fn stop(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let now = ctx.now;
    match ctx.server.meter.hotkeys.as_mut().filter(|it| it.is_active(now)) {
        Some(hot) => {
            hot.stop(now);
            ctx.out.ok();
        }
        None => ctx.out.null(),
    }
    Ok(())
}

/// `HOTKEYS RESET`
fn reset(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    if ctx.server.meter.hotkeys.as_ref().is_some_and(|it| it.is_active(ctx.now)) {
        return Err("ERR hotkey tracking session in progress, stop tracking first".into());
    }
    ctx.server.meter.hotkeys = None;
    ctx.out.ok();
    Ok(())
}

/// `HOTKEYS GET`
fn get(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let Context { server, out, now, .. } = ctx;
    let Some(hot) = &server.meter.hotkeys else {
        out.null();
        return Ok(());
    };
    let sums = sums(hot, *now);
    out.array(1);
    out.map(3 + sums.len() + usize::from(hot.wanted.cpu) + usize::from(hot.wanted.net));
    out.bulk("tracking-active");
    out.integer(hot.is_active(*now).into());
    out.bulk("sample-ratio");
    out.integer(hot.wanted.sample as i64);
    out.bulk("selected-slots");
    write_ranges(out, &hot.wanted.slots);
    for (name, value) in sums {
        out.bulk(name);
        out.integer(value);
    }
    if hot.wanted.cpu {
        write_keys(out, "by-cpu-time-us", &hot.by_time());
    }
    if hot.wanted.net {
        write_keys(out, "by-net-bytes", &hot.by_bytes());
    }
    Ok(())
}

/// The numbers of HOTKEYS GET between slots and keys.
fn sums(hot: &HotKeys, now: i64) -> Vec<(&'static str, i64)> {
    let Wanted { cpu, net, sample, ref slots, .. } = hot.wanted;
    let micros = |spent: Spent| spent.ns.div_ceil(1000).cast_signed();
    let bytes = |spent: Spent| spent.bytes.cast_signed();
    let [user, kernel, ..] = machine::cpu_seconds();
    let since = |now: f64, then: f64| ((now - then) * 1000.0).round().max(0.0) as i64;
    let some = !slots.is_empty();
    let few = some && sample > 1;
    let all = [
        (few, "sampled-commands-selected-slots-us", micros(hot.sampled)),
        (some, "all-commands-selected-slots-us", micros(hot.in_slots)),
        (true, "all-commands-all-slots-us", micros(hot.all)),
        (few, "net-bytes-sampled-commands-selected-slots", bytes(hot.sampled)),
        (some, "net-bytes-all-commands-selected-slots", bytes(hot.in_slots)),
        (true, "net-bytes-all-commands-all-slots", bytes(hot.all)),
        (true, "collection-start-time-unix-ms", hot.started_ms),
        (true, "collection-duration-ms", hot.duration_ms(now)),
        (cpu, "total-cpu-time-user-ms", since(user, hot.cpu_at_start[0])),
        (cpu, "total-cpu-time-sys-ms", since(kernel, hot.cpu_at_start[1])),
        (net, "total-net-bytes", hot.bytes_of_keys().cast_signed()),
    ];
    all.into_iter().filter(|(is, ..)| *is).map(|(_, name, value)| (name, value)).collect()
}

/// Slots by ranges: two numbers, or one.
fn write_ranges(out: &mut Out<'_>, slots: &[u16]) {
    if slots.is_empty() {
        out.array(1);
        out.array(2);
        out.integer(0);
        out.integer(i64::from(SLOTS) - 1);
        return;
    }
    let ranges: Vec<&[u16]> = slots.chunk_by(|a, b| a + 1 == *b).collect();
    out.array(ranges.len());
    for range in ranges {
        let ends = [range.first(), range.last().filter(|_| range.len() > 1)];
        out.array(ends.iter().flatten().count());
        ends.into_iter().flatten().for_each(|&end| out.integer(end.into()));
    }
}

fn write_keys(out: &mut Out<'_>, name: &str, keys: &[(&[u8], u64)]) {
    out.bulk(name);
    out.array(keys.len() * 2);
    for (key, weight) in keys {
        out.bulk(key);
        out.integer(weight.cast_signed());
    }
}

/// `HOTKEYS HELP`
fn help(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.lines(&[
        "HOTKEYS <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "START METRICS <count> [CPU] [NET] [COUNT <k>] [DURATION <seconds>] [SAMPLE <ratio>]",
        "    [SLOTS <count> <slot> [<slot> ...]]",
        "    Begin to note the keys that requests spend most time (CPU) and bytes (NET) on:",
        "    the first <k> (10 by default), of one request in <ratio>, until STOP or for so long.",
        "    Only a member of a group has SLOTS.",
        "STOP",
        "    Note no more keys; GET still shows them.",
        "GET",
        "    Show the keys, the sums, and since when.",
        "RESET",
        "    Forget what was noted.",
        "HELP",
        "    Print this help.",
    ]);
    Ok(())
}
