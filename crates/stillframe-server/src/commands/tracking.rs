//! CLIENT TRACKING and its kin: help for caches in clients.

use stillframe::Algorithm;
use stillframe_resp::parse_integer;

use super::errors::{NOT_AN_INTEGER, SYNTAX};
use super::flags::{CONNECTION, LOADING, NOSCRIPT, STALE};
use super::{Context, NO_KEYS, Table};
use crate::tracking::Mode;

/// Adds the commands of this module to the container CLIENT.
pub(crate) fn register<A: Algorithm>(table: &mut Table<A>) {
    let own = NOSCRIPT | LOADING | STALE | CONNECTION;
    table.add_sub("client|caching", 3, own, NO_KEYS, caching);
    table.add_sub("client|getredir", 2, own, NO_KEYS, getredir);
    table.add_sub("client|tracking", -3, own, NO_KEYS, tracking);
    table.add_sub("client|trackinginfo", 2, own, NO_KEYS, trackinginfo);
}

/// `CLIENT TRACKING ON | OFF [REDIRECT id] [PREFIX prefix]... [BCAST] [OPTIN] [OPTOUT] [NOLOOP]`
fn tracking<A: Algorithm>(ctx: &mut Context<'_, A>, args: &[&[u8]]) {
    let mut mode = match options(ctx, &args[3..]) {
        Ok(mode) => mode,
        Err(error) => return ctx.out.error(error),
    };
    match args[2].to_ascii_lowercase().as_slice() {
        b"on" => {
            if let Err(error) = prepare(&mut mode, ctx.session.tracking.as_deref()) {
                return ctx.out.error(error);
            }
            ctx.server.tracking.enable(ctx.session, mode);
        }
        b"off" => ctx.server.tracking.disable(ctx.session),
        _ => return ctx.out.error(SYNTAX),
    }
    ctx.keyspace.keep_expired(ctx.server.wants_expired());
    ctx.out.ok();
}

fn options<A: Algorithm>(ctx: &Context<'_, A>, options: &[&[u8]]) -> Result<Mode, &'static str> {
    let mut mode = Mode::default();
    let mut rest = options;
    while let [option, after @ ..] = rest {
        rest = after;
        match (option.to_ascii_lowercase().as_slice(), after) {
            (b"redirect", [id, after @ ..]) => {
                rest = after;
                if mode.redirect.is_some() {
                    return Err("ERR A client can only redirect to a single other client");
                }
                let id = parse_integer(id).ok_or(NOT_AN_INTEGER)?.cast_unsigned();
                let known = id == ctx.session.id
                    || ctx.server.clients.others().any(|(_, client)| client.session.id == id);
                if !known {
                    return Err("ERR The client ID you want redirect to does not exist");
                }
                mode.redirect = Some(id);
            }
            (b"prefix", [prefix, after @ ..]) => {
                rest = after;
                mode.prefixes.push((*prefix).into());
            }
            (b"bcast", _) => mode.broadcast = true,
            (b"optin", _) => mode.opt_in = true,
            (b"optout", _) => mode.opt_out = true,
            (b"noloop", _) => mode.no_loop = true,
            _ => return Err(SYNTAX),
        }
    }
    Ok(mode)
}

/// Checks that the options go together, and with those that the client has already; takes over
/// the prefixes it has.
fn prepare(mode: &mut Mode, before: Option<&Mode>) -> Result<(), Vec<u8>> {
    if !mode.broadcast && !mode.prefixes.is_empty() {
        return Err(b"ERR PREFIX option requires BCAST mode to be enabled".into());
    }
    if before.is_some_and(|before| before.broadcast != mode.broadcast) {
        return Err(b"ERR You can't switch BCAST mode on/off before disabling tracking for this \
            client, and then re-enabling it with a different mode."
            .into());
    }
    if mode.broadcast && (mode.opt_in || mode.opt_out) {
        return Err(b"ERR OPTIN and OPTOUT are not compatible with BCAST".into());
    }
    if mode.opt_in && mode.opt_out {
        return Err(b"ERR You can't specify both OPTIN mode and OPTOUT mode".into());
    }
    let switched = |before: &Mode| before.opt_in && mode.opt_out || before.opt_out && mode.opt_in;
    if before.is_some_and(switched) {
        return Err(b"ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this \
            client, and then re-enabling it with a different mode."
            .into());
    }
    if mode.broadcast {
        if mode.prefixes.is_empty() && before.is_none_or(|before| before.prefixes.is_empty()) {
            mode.prefixes.push(Box::default());
        }
        let known = before.map_or(&[][..], |before| &before.prefixes);
        check_prefixes(&mode.prefixes, known)?;
        mode.prefixes.extend_from_slice(known);
    }
    Ok(())
}

fn check_prefixes(new: &[Box<[u8]>], known: &[Box<[u8]>]) -> Result<(), Vec<u8>> {
    let overlap = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
    let error = |a: &[u8], with: &str, b: &[u8]| {
        let with = format!("' overlaps with {with} '");
        let end = b"'. Prefixes for a single client must not overlap.";
        Err([b"ERR Prefix '", a, with.as_bytes(), b, end].concat())
    };
    for (at, prefix) in new.iter().enumerate() {
        if let Some(other) = known.iter().find(|known| overlap(prefix, known)) {
            return error(prefix, "an existing prefix", other);
        }
        if let Some(other) = new[at + 1..].iter().find(|other| overlap(prefix, other)) {
            return error(prefix, "another provided prefix", other);
        }
    }
    Ok(())
}

/// `CLIENT CACHING YES | NO`: what holds for the keys that the next request reads.
fn caching<A: Algorithm>(ctx: &mut Context<'_, A>, args: &[&[u8]]) {
    let Some(mode) = &mut ctx.session.tracking else {
        return ctx.out.error(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN \
             or OPTOUT mode enabled",
        );
    };
    let fits = match args[2].to_ascii_lowercase().as_slice() {
        b"yes" => mode.opt_in,
        b"no" => mode.opt_out,
        _ => return ctx.out.error(SYNTAX),
    };
    mode.caching |= fits;
    match (fits, args[2].eq_ignore_ascii_case(b"yes")) {
        (true, _) => ctx.out.ok(),
        (false, true) => ctx
            .out
            .error("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."),
        (false, false) => ctx
            .out
            .error("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."),
    }
}

/// `CLIENT GETREDIR`
fn getredir<A: Algorithm>(ctx: &mut Context<'_, A>, _args: &[&[u8]]) {
    ctx.out.integer(redirection(ctx.session.tracking.as_deref()));
}

/// -1: not told of changes; 0: told itself.
pub(super) fn redirection(mode: Option<&Mode>) -> i64 {
    mode.map_or(-1, |mode| mode.redirect.unwrap_or(0).cast_signed())
}

/// `CLIENT TRACKINGINFO`
fn trackinginfo<A: Algorithm>(ctx: &mut Context<'_, A>, _args: &[&[u8]]) {
    let mode = ctx.session.tracking.as_deref();
    let said = |what: fn(&Mode) -> bool| mode.is_some_and(what);
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
    let mut prefixes: Vec<&[u8]> =
        mode.into_iter().flat_map(|mode| &mode.prefixes).map(|prefix| &**prefix).collect();
    prefixes.sort_unstable();
    ctx.out.map(3);
    ctx.out.bulk("flags");
    ctx.out.set(flags.len());
    flags.into_iter().for_each(|flag| ctx.out.bulk(flag));
    ctx.out.bulk("redirect");
    ctx.out.integer(redirection(mode));
    ctx.out.bulk("prefixes");
    ctx.out.array(prefixes.len());
    prefixes.into_iter().for_each(|prefix| ctx.out.bulk(prefix));
}
