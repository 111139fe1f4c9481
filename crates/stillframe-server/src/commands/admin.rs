//! Small commands about the server: TIME, and CONFIG.

use std::time::{SystemTime, UNIX_EPOCH};

use stillframe_redis::errors::SYNTAX;
use stillframe_redis::text::glob;
use stillframe_redis::{Lookups, Refusal};

use super::{Context, NO_KEYS, Table, flags::*};
use crate::config::{Change, Config, Parameter, find, named};
use crate::persistence::{self, DataDirectory};
use crate::process::room_for_clients;
use crate::state::ServerState;
use crate::tls::Tls;

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    let admin = ADMIN | NOSCRIPT | LOADING | STALE;
    table.add_server("time", 1, LOADING | STALE | FAST, NO_KEYS, time);
    table.add_server("config", -2, 0, NO_KEYS, config_get);
    table.add_server("config|get", -3, admin, NO_KEYS, config_get);
    table.add_server("config|help", 2, LOADING | STALE, NO_KEYS, config_help);
    table.add_server("config|set", -4, admin, NO_KEYS, config_set);
    table.add_server("config|resetstat", 2, admin, NO_KEYS, config_resetstat);
    table.add_server("config|rewrite", 2, admin, NO_KEYS, config_rewrite);
}

/// `TIME`: unix seconds and microseconds.
fn time(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ctx.out.array(2);
    ctx.out.bulk(since.as_secs().to_string());
    ctx.out.bulk(since.subsec_micros().to_string());
    Ok(())
}

/// Settings for tests, which a pattern does not find.
const HIDDEN: [&str; 2] = ["key-load-delay", "rdb-key-save-delay"];

/// `CONFIG GET pattern...`
fn config_get(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let config = &ctx.server.config;
    let mut found: Vec<(Vec<u8>, String)> = Vec::new();
    // Each is answered once, however often it is asked for.
    let mut left: Vec<_> = named().collect();
    for pattern in args.get(2..).unwrap_or_default() {
        let is_plain = !pattern.iter().any(|byte| b"*?[".contains(byte));
        let lower = pattern.to_ascii_lowercase();
        left.retain(|(name, parameter)| {
            let hidden = HIDDEN.contains(name);
            let name = name.as_bytes();
            let fits =
                if is_plain { lower == name } else { !hidden && glob::matches(&lower, name) };
            if fits {
                // A plain name is answered in the case it was asked in.
                let name = if is_plain { pattern } else { name };
                found.push((name.to_vec(), (parameter.get)(config)));
            }
            !fits
        });
    }
    ctx.out.map(found.len());
    for (name, value) in found {
        ctx.out.bulk(name);
        ctx.out.bulk(value);
    }
    Ok(())
}

/// `CONFIG SET name value...`: all of them or none.
fn config_set(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (pairs, rest) = args.get(2..).unwrap_or_default().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(SYNTAX);
    }
    let is_local = ctx.session.caller.peer.is_local();
    let changed = changed(&ctx.server.config, pairs, is_local);
    let changed = changed.and_then(|config| has_room(&config, pairs).map(|()| config));
    let changed = changed.and_then(|config| scored(ctx.server, &config, pairs).map(|()| config));
    let changed = changed.and_then(|config| {
        let directory = moved(ctx.server, &config, pairs)?;
        Ok((directory, renewed(&config, pairs)?, config))
    });
    let changed = changed.and_then(|it| begin_log(ctx, &it.2, pairs).map(|()| it));
    match changed.and_then(|it| listen(ctx.server, &it.2, pairs).map(|()| it)) {
        Ok((directory, tls, mut config)) => {
            if let Some(directory) = directory {
                config.dir = directory.files().path().to_owned();
                ctx.server.storage.journal.move_to(directory.files(), &config);
                ctx.server.storage.saves.save_into(directory);
            }
            if let Some(tls) = tls {
                ctx.server.net.tls = tls;
            }
            if let Some(switch) = config.log_switch.filter(|_| sets(pairs, b"loglevel")) {
                switch(config.loglevel());
            }
            ctx.server.config = config;
            ctx.server.ledger.settings = ctx.server.config.of_commands();
            if sets(pairs, b"requirepass") {
                let password = ctx.server.config.requirepass.clone();
                ctx.server.users.require_password(password.as_bytes());
            }
            ctx.server.users.catalog.all_channels = ctx.server.config.acl_all_channels;
            ctx.keyspace.keep_expired(ctx.server.ledger.wants_expired());
            ctx.keyspace.count_uses(ctx.server.config.counting());
            *ctx.keyspace.limits_mut() = ctx.server.config.limits;
            ctx.server.memory.look_again(ctx.server.config.maxmemory_bytes);
            let closed = ctx.server.hub.weigh_clients(&ctx.server.config);
            ctx.server.meter.stats.evicted_clients += closed;
            ctx.out.ok();
        }
        Err(problem) => {
            if OOM_SCORE.iter().any(|name| sets(pairs, name)) {
                // It may have been changed.
                let is_replica = ctx.server.replication.is_replica();
                ctx.server.process.tend_oom_score(&ctx.server.config, is_replica);
            }
            if sets(pairs, b"dir") {
                let _ = persistence::enter(&ctx.server.config.dir); // it may have been left
            }
            return Err(problem);
        }
    }
    Ok(())
}

fn sets(pairs: &[[&[u8]; 2]], setting: &[u8]) -> bool {
    pairs.iter().any(|[name, _]| name.eq_ignore_ascii_case(setting))
}

/// Makes room for as many clients as `maxclients` says, if that is set.
fn has_room(config: &Config, pairs: &[[&[u8]; 2]]) -> Result<(), Refusal> {
    if !sets(pairs, b"maxclients") {
        return Ok(());
    }
    let room = room_for_clients(config.maxclients);
    if room >= config.maxclients {
        return Ok(());
    }
    let problem = format!(
        "The operating system is not able to handle the specified number of clients, try with \
         {room}"
    );
    Err(refusal(b"maxclients", &problem))
}

const OOM_SCORE: [&[u8]; 2] = [b"oom-score-adj", b"oom-score-adj-values"];

/// Sets the system's score of the process, if that is set.
fn scored(server: &mut ServerState, config: &Config, pairs: &[[&[u8]; 2]]) -> Result<(), Refusal> {
    let Some(name) = OOM_SCORE.iter().find(|name| sets(pairs, name)) else { return Ok(()) };
    let is_replica = server.replication.is_replica();
    server.process.set_oom_score(config, is_replica).map_err(|error| {
        tracing::warn!("CONFIG SET {}: {error}", String::from_utf8_lossy(name));
        refusal(name, "Failed to set the process's OOM score. Check server logs.")
    })
}

/// The directory that saves go to from now on, or their other name there.
fn moved(
    server: &ServerState,
    config: &Config,
    pairs: &[[&[u8]; 2]],
) -> Result<Option<DataDirectory>, Refusal> {
    let Some(name) = ["dir", "dbfilename"].into_iter().find(|it| sets(pairs, it.as_bytes())) else {
        return Ok(None);
    };
    let refused = |problem: &str| refusal(name.as_bytes(), problem);
    let before = &server.config;
    if server.storage.loading.is_some() {
        return Err("LOADING Redis is loading the dataset in memory".into());
    }
    if server.storage.journal.is_open() {
        return Err(refused(
            "the log goes on from the dump file in its directory: CONFIG SET appendonly no first",
        ));
    }
    let opened = persistence::enter(&before.dir).and_then(|old| {
        let new = persistence::enter(&config.dir)?;
        if new == old {
            return Ok(server.storage.saves.directory().with_dump(&config.dbfilename));
        }
        DataDirectory::open(&new, &config.dbfilename)
    });
    opened.map(Some).map_err(|error| {
        tracing::warn!("CONFIG SET {name}: {error}");
        refused(&error.to_string())
    })
}

/// Begins the log that the new configuration wants: a server whose log cannot begin goes on as it
/// is, without one. Within a transaction, or with a directory that is new, too, the log begins at
/// the end of the turn.
fn begin_log(ctx: &mut Context<'_>, config: &Config, pairs: &[[&[u8]; 2]]) -> Result<(), Refusal> {
    let is_new = config.appendonly && !ctx.server.config.appendonly;
    let moves = ["dir", "dbfilename"].into_iter().any(|name| sets(pairs, name.as_bytes()));
    if !is_new || moves || ctx.server.ledger.in_exec {
        return Ok(());
    }
    let before = std::mem::replace(&mut ctx.server.config, config.clone());
    let begun = persistence::begin_asked(ctx.keyspace, ctx.server);
    ctx.server.config = before;
    begun.map_err(|error| {
        tracing::warn!("CONFIG SET appendonly: the log cannot be begun: {error}");
        refusal(b"appendonly", "Unable to turn on AOF. Check server logs.")
    })
}

/// Listens where the new configuration says, if it says so anew.
fn listen(server: &mut ServerState, config: &Config, pairs: &[[&[u8]; 2]]) -> Result<(), Refusal> {
    let places = ["port", "bind", "tls-port"];
    let Some(name) = places.into_iter().find(|name| sets(pairs, name.as_bytes())) else {
        return Ok(());
    };
    let (port, _) = server.net.listeners.ports(); // the system chose it if the setting is 0
    let before = Config { port, ..server.config.clone() };
    let changed = server.net.listeners.change(config, &before);
    changed.map_err(|error| {
        tracing::warn!("CONFIG SET {name}: {error}");
        let problem = match name {
            "bind" => "Failed to bind to specified addresses.",
            _ => "Unable to listen on this port. Check server logs.",
        };
        refusal(name.as_bytes(), problem)
    })
}

/// The material of new TLS connections, read again if any of its settings is set, since the files
/// may have changed. If they cannot be used, the old material stays in use.
fn renewed(config: &Config, pairs: &[[&[u8]; 2]]) -> Result<Option<Tls>, Refusal> {
    let is_tls = |name: &[u8]| name.get(..4).is_some_and(|it| it.eq_ignore_ascii_case(b"tls-"));
    let Some([name, _]) = pairs.iter().find(|[name, _]| is_tls(name)) else { return Ok(None) };
    match Tls::new(config) {
        Ok(tls) => {
            tracing::info!("TLS is set up anew; connections that stand keep what they have");
            Ok(Some(tls))
        }
        Err(problem) => {
            tracing::warn!("TLS stays as it is: {problem}");
            Err(refusal(name, &problem.to_string()))
        }
    }
}

fn refusal(name: &[u8], problem: &str) -> Refusal {
    let start = b"ERR CONFIG SET failed (possibly related to argument '";
    [&start[..], name, b"') - ", problem.as_bytes()].concat().into()
}

/// Settings of this server alone that hold from the start on. What they are may be said again, as
/// tools do that set all that CONFIG GET shows of what Redis lets them set.
const OWN: [&str; 7] = [
    "accept-log-loss",
    "log-format",
    "metrics-bind",
    "metrics-port",
    "snapshot",
    "snapshot-memory",
    "snapshot-memory-policy",
];

/// Whether `value` is what a setting is.
fn says_the_same(config: &Config, parameter: &Parameter, value: &[u8]) -> bool {
    let mut again = config.clone();
    let set =
        std::str::from_utf8(value).is_ok_and(|value| (parameter.set)(&mut again, value).is_ok());
    set && (parameter.get)(&again) == (parameter.get)(config)
}

/// The configuration with all changes, or why one of them cannot be.
fn changed(config: &Config, pairs: &[[&[u8]; 2]], is_local: bool) -> Result<Config, Refusal> {
    let allowed = config.protected_configs.allows(is_local);

    let mut changed = config.clone();
    let mut settings: Vec<&str> = Vec::new();
    for [name, _] in pairs {
        if std::str::from_utf8(name).ok().and_then(find).is_none() {
            let unknown = b"ERR Unknown option or number of arguments for CONFIG SET - '";
            return Err([unknown, *name, b"'"].concat().into());
        }
    }
    for [name, value] in pairs {
        let Some(parameter) = std::str::from_utf8(name).ok().and_then(find) else { continue };
        let mut set = || match parameter.change {
            Change::Start
                if OWN.contains(&parameter.name) && says_the_same(&changed, parameter, value) =>
            {
                Ok(())
            }
            Change::Start => Err("can't set immutable config".to_owned()),
            Change::Protected if !allowed => Err("can't set protected config".to_owned()),
            _ if settings.contains(&parameter.name) => Err("duplicate parameter".to_owned()),
            Change::Always | Change::Protected => {
                let value = std::str::from_utf8(value)
                    .map_err(|_| "the value must be UTF-8 text".to_owned())?;
                (parameter.set)(&mut changed, value)
            }
        };
        if let Err(problem) = set() {
            return Err(refusal(name, &problem.to_string()));
        }
        settings.push(parameter.name);
    }
    Ok(changed)
}

/// `CONFIG HELP`
fn config_help(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.lines(&[
        "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GET <pattern> [<pattern> ...]",
        "    Show the settings that match.",
        "SET <name> <value> [<name> <value> ...]",
        "    Change settings: all of them or none.",
        "RESETSTAT",
        "    Set the counters of INFO to zero.",
        "REWRITE",
        "    Write the settings to the configuration file.",
        "HELP",
        "    Print this help.",
    ]);
    Ok(())
}

/// `CONFIG RESETSTAT`
fn config_resetstat(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let expired_total = ctx.keyspace.stats().expired_total;
    ctx.server.meter.stats.reset(expired_total, ctx.server.clock.turn());
    ctx.server.ledger.lookups = Lookups::default();
    ctx.server.storage.saves.count = 0;
    ctx.out.ok();
    Ok(())
}

/// `CONFIG REWRITE`
fn config_rewrite(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    rewrite_config(ctx, false)
}

/// Writes the settings to the configuration file; `all`: those with their default values, too.
pub(super) fn rewrite_config(ctx: &mut Context<'_>, all: bool) -> Result<(), Refusal> {
    let config = &ctx.server.config;
    let Some(path) = &config.config_file else {
        return Err("ERR The server is running without a config file".into());
    };
    let no_file = config.aclfile.is_empty();
    let users = if no_file { ctx.server.users.directives() } else { Vec::new() };
    match config.rewrite(path, &[("user", users)], all) {
        Ok(()) => {
            tracing::warn!("CONFIG REWRITE has written {}", path.display());
            ctx.out.ok();
        }
        Err(error) => {
            tracing::error!("cannot write {}: {error}", path.display());
            return Err(format!("ERR Rewriting config file: {error}").into());
        }
    }
    Ok(())
}
