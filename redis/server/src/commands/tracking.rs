//! CLIENT TRACKING and its kin: client-side caching.

use std::collections::BTreeSet;
use std::ops::Bound;

use stillframe_resp::parse_integer;

use super::{Context, Table};
use crate::connections::client::TrackingMode;
use stillframe_commands::Refusal;
use stillframe_commands::errors::{NOT_AN_INTEGER, SYNTAX};

/// Adds the commands of this module to the container CLIENT.
pub(crate) fn register(table: &mut Table) {
    table.add_server("client|caching", caching);
    table.add_server("client|getredir", getredir);
    table.add_server("client|tracking", tracking);
    table.add_server("client|trackinginfo", trackinginfo);
}

/// `CLIENT TRACKING ON | OFF [REDIRECT id] [PREFIX prefix]... [BCAST] [OPTIN] [OPTOUT] [NOLOOP]`
fn tracking(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (mut mode, prefixes) = options(ctx, &args[3..])?;
    let events = &mut ctx.server.ledger.events;
    match args[2].to_ascii_lowercase().as_slice() {
        b"on" => {
            prepare(&mut mode, &prefixes, ctx.session.tracking.as_deref())?;
            ctx.server.hub.enable_tracking(ctx.session, mode, events);
        }
        b"off" => ctx.server.hub.disable_tracking(ctx.session, events),
        _ => return Err(SYNTAX),
    }
    ctx.keyspace.keep_expired(ctx.server.ledger.wants_expired());
    ctx.out.ok();
    Ok(())
}

/// The options of a request, and its prefixes.
fn options<'a>(
    ctx: &Context<'_>,
    options: &[&'a [u8]],
) -> Result<(TrackingMode, Vec<&'a [u8]>), Refusal> {
    let (mut mode, mut prefixes) = (TrackingMode::default(), Vec::new());
    let mut rest = options;
    while let [option, after @ ..] = rest {
        rest = after;
        match (option.to_ascii_lowercase().as_slice(), after) {
            (b"redirect", [id, after @ ..]) => {
                rest = after;
                if mode.redirect.is_some() {
                    return Err("ERR A client can only redirect to a single other client".into());
                }
                let id = parse_integer(id).ok_or(NOT_AN_INTEGER)?.cast_unsigned();
                let mut others = ctx.server.clients.others().map(|(_, client)| &client.session);
                let other = others.find(|session| session.caller.id == id);
                let other = if id == ctx.session.caller.id { Some(&*ctx.session) } else { other };
                let other = other.ok_or("ERR The client ID you want redirect to does not exist")?;
                mode.redirect = Some(other.who());
            }
            (b"prefix", [prefix, after @ ..]) => {
                rest = after;
                prefixes.push(*prefix);
            }
            (b"bcast", _) => mode.broadcast = true,
            (b"optin", _) => mode.opt_in = true,
            (b"optout", _) => mode.opt_out = true,
            (b"noloop", _) => mode.no_loop = true,
            _ => return Err(SYNTAX),
        }
    }
    Ok((mode, prefixes))
}

/// Checks that the options go together, and with those that the client has already; adds the new
/// prefixes.
fn prepare(
    mode: &mut TrackingMode,
    new: &[&[u8]],
    before: Option<&TrackingMode>,
) -> Result<(), Refusal> {
    if !mode.broadcast && !new.is_empty() {
        return Err("ERR PREFIX option requires BCAST mode to be enabled".into());
    }
    if before.is_some_and(|before| before.broadcast != mode.broadcast) {
        return Err("ERR You can't switch BCAST mode on/off before disabling tracking for this \
            client, and then re-enabling it with a different mode."
            .into());
    }
    if mode.broadcast && (mode.opt_in || mode.opt_out) {
        return Err("ERR OPTIN and OPTOUT are not compatible with BCAST".into());
    }
    if mode.opt_in && mode.opt_out {
        return Err("ERR You can't specify both OPTIN mode and OPTOUT mode".into());
    }
    let switched =
        |before: &TrackingMode| before.opt_in && mode.opt_out || before.opt_out && mode.opt_in;
    if before.is_some_and(switched) {
        return Err("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this \
            client, and then re-enabling it with a different mode."
            .into());
    }
    if mode.broadcast {
        let none = BTreeSet::new();
        let known = before.map_or(&none, |before| &before.prefixes);
        let all = new.is_empty() && known.is_empty();
        check_prefixes(new, known)?;
        mode.prefixes = new.iter().map(|&prefix| prefix.into()).collect();
        mode.prefixes.extend(all.then(Box::default));
    }
    Ok(())
}

/// Refuses the first of the new prefixes that is the start of another one, known or new, or starts
/// with one.
fn check_prefixes(new: &[&[u8]], known: &BTreeSet<Box<[u8]>>) -> Result<(), Refusal> {
    let Some(at) = first_overlap(new, known) else { return Ok(()) };
    let overlaps = |other: &[u8]| new[at].starts_with(other) || other.starts_with(new[at]);
    let known = known.iter().map(|known| &**known).find(|known| overlaps(known));
    let other = new[at + 1..].iter().copied().find(|other| overlaps(other));
    let with = if known.is_some() { "an existing prefix" } else { "another provided prefix" };
    let with = format!("' overlaps with {with} '");
    let end = b"'. Prefixes for a single client must not overlap.";
    let other = known.or(other).unwrap_or_default();
    Err([b"ERR Prefix '", new[at], with.as_bytes(), other, end].concat().into())
}

/// The place of the first new prefix that overlaps with another one. In the order of their bytes a
/// prefix comes right before all that start with it.
fn first_overlap(new: &[&[u8]], known: &BTreeSet<Box<[u8]>>) -> Option<usize> {
    let overlaps_known = |prefix: &[u8]| {
        let mut above = known.range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded));
        let mut below = known.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(prefix)));
        above.next().is_some_and(|next| next.starts_with(prefix))
            || below.next_back().is_some_and(|last| prefix.starts_with(last))
    };
    let mut sorted: Vec<(&[u8], usize)> = new.iter().copied().zip(0..).collect();
    sorted.sort_unstable();
    // Prefixes that the current one may start with, each the start of the next.
    let mut open: Vec<(&[u8], usize)> = Vec::new();
    let mut first = new.iter().position(|prefix| overlaps_known(prefix));
    for (prefix, at) in sorted {
        while open.last().is_some_and(|(start, _)| !prefix.starts_with(start)) {
            open.pop();
        }
        if let Some((_, other)) = open.last() {
            let earlier = at.min(*other);
            first = Some(first.map_or(earlier, |first| first.min(earlier)));
        }
        open.push((prefix, at));
    }
    first
}

/// `CLIENT CACHING YES | NO`: whether the keys that the next request reads are tracked.
fn caching(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let Some(mode) = &mut ctx.session.tracking else {
        return Err(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN \
             or OPTOUT mode enabled"
                .into(),
        );
    };
    let fits = match args[2].to_ascii_lowercase().as_slice() {
        b"yes" => mode.opt_in,
        b"no" => mode.opt_out,
        _ => return Err(SYNTAX),
    };
    mode.caching |= fits;
    match (fits, args[2].eq_ignore_ascii_case(b"yes")) {
        (true, _) => ctx.out.ok(),
        (false, true) => {
            return Err(
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."
                    .into(),
            );
        }
        (false, false) => {
            return Err(
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."
                    .into(),
            );
        }
    }
    Ok(())
}

/// `CLIENT GETREDIR`
fn getredir(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.integer(redirection(ctx.session.tracking.as_deref()));
    Ok(())
}

/// -1: tracking is off; 0: no redirection.
pub(super) fn redirection(mode: Option<&TrackingMode>) -> i64 {
    mode.map_or(-1, |mode| mode.redirect.map_or(0, |other| other.id).cast_signed())
}

/// `CLIENT TRACKINGINFO`
fn trackinginfo(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let mode = ctx.session.tracking.as_deref();
    let said = |what: fn(&TrackingMode) -> bool| mode.is_some_and(what);
    let flags: Vec<&str> = [
        (mode.is_none(), "off"),
        (mode.is_some(), "on"),
        (said(|mode| mode.broadcast), "bcast"),
        (said(|mode| mode.opt_in), "optin"),
        (said(|mode| mode.opt_in && mode.caching), "caching-yes"),
        (said(|mode| mode.opt_out), "optout"),
        (said(|mode| mode.opt_out && mode.caching), "caching-no"),
        (said(|mode| mode.no_loop), "noloop"),
        (said(|mode| mode.broken), "broken_redirect"),
    ]
    .into_iter()
    .filter_map(|(is, name)| is.then_some(name))
    .collect();
    let none = BTreeSet::new();
    let prefixes = mode.map_or(&none, |mode| &mode.prefixes);
    ctx.out.map(3);
    ctx.out.bulk("flags");
    ctx.out.set(flags.len());
    flags.into_iter().for_each(|flag| ctx.out.bulk(flag));
    ctx.out.bulk("redirect");
    ctx.out.integer(redirection(mode));
    ctx.out.bulk("prefixes");
    ctx.out.array(prefixes.len());
    prefixes.iter().for_each(|prefix| ctx.out.bulk(prefix));
    Ok(())
}
