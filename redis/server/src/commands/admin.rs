//! Small commands about the server: TIME, and CONFIG.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use stillframe_commands::errors::SYNTAX;
use stillframe_commands::text::{c_string, glob};
use stillframe_commands::{Lookups, Refusal};
use stillframe_storage::StorageError;
use stillframe_storage::dump::{DataDirectory, enter, existing};

use super::{Context, Table};
use crate::connections::tls::Tls;
use crate::node::config::error::ChangeError;
use crate::node::config::{Change, Config, Effect, Setting, find, named};
use crate::node::machine::room_for_clients;
use crate::state::ServerState;
use crate::state::persistence;

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("time", time);
    table.add_server("config", config_get);
    table.add_server("config|get", config_get);
    table.add_server("config|help", config_help);
    table.add_server("config|set", config_set);
    table.add_server("config|resetstat", config_resetstat);
    table.add_server("config|rewrite", config_rewrite);
}

/// `TIME`: unix seconds and microseconds.
fn time(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ctx.out.array(2);
    ctx.out.bulk(since.as_secs().to_string());
    ctx.out.bulk(since.subsec_micros().to_string());
    Ok(())
}

/// `CONFIG GET pattern...`
fn config_get(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let config = &ctx.server.config;
    let mut found: Vec<(Vec<u8>, String)> = Vec::new();
    // The reply has each setting once, however many patterns match it.
    let mut left: Vec<_> = named().collect();
    for pattern in args.get(2..).unwrap_or_default() {
        let is_plain = !pattern.iter().any(|byte| b"*?[".contains(byte));
        let lower = pattern.to_ascii_lowercase();
        left.retain(|(name, setting)| {
            let (name, is_hidden) = (name.as_bytes(), setting.is_hidden);
            let fits =
                if is_plain { lower == name } else { !is_hidden && glob::matches(&lower, name) };
            if fits {
                // The reply to a plain name keeps the letter case of the request.
                let name = if is_plain { pattern } else { name };
                found.push((name.to_vec(), (setting.get)(config)));
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
    let asked = asked(pairs)?;
    let config = changed(&ctx.server.config, &asked, is_local)?;
    // The new settings are in force from here on; a refusal brings the former ones back.
    let before = ctx.server.configure(config);
    match take_effect(ctx, &before, &asked) {
        Ok((directory, tls)) => {
            if let Some(directory) = directory {
                ctx.server.config.dir = directory.files().path().to_owned();
                ctx.server.storage.move_to(directory);
            }
            if let Some(tls) = tls {
                ctx.server.net.renew_tls(tls);
            }
            obey(ctx, &asked);
            ctx.out.ok();
            Ok(())
        }
        Err(problem) => {
            ctx.server.configure(before);
            if asked.having(Effect::OomScore).is_some() {
                // The request may have changed the score.
                let is_replica = ctx.server.replication.is_replica();
                ctx.server.process.tend_oom_score(&ctx.server.config, is_replica);
            }
            if asked.having(Effect::Directory).is_some() {
                let config = &ctx.server.config;
                let _ = arrive(config, &config.dir); // the request may have left it
            }
            Err(problem)
        }
    }
}

/// The arguments of CONFIG SET: names as written, settings and values.
struct Asked<'a>(Vec<(&'a [u8], &'static Setting, &'a [u8])>);

fn asked<'a>(pairs: &[[&'a [u8]; 2]]) -> Result<Asked<'a>, Refusal> {
    let known = pairs.iter().map(|&[name, value]| {
        let setting = std::str::from_utf8(name).ok().and_then(find);
        let unknown = b"ERR Unknown option or number of arguments for CONFIG SET - '";
        setting
            .map(|it| (name, it, value))
            .ok_or_else(|| [unknown, c_string(name), b"'"].concat().into())
    });
    known.collect::<Result<_, Refusal>>().map(Asked)
}

impl Asked<'_> {
    /// The first setting with that effect.
    fn having(&self, effect: Effect) -> Option<&'static Setting> {
        let settings = self.0.iter().map(|(_, setting, _)| *setting);
        settings.into_iter().find(|setting| setting.effects.contains(&effect))
    }
}

/// Does what can fail before the new settings are obeyed. Returns the directory and the keys that
/// are used from then on, if they are others.
fn take_effect(
    ctx: &mut Context<'_>,
    before: &Config,
    asked: &Asked<'_>,
) -> Result<(Option<DataDirectory>, Option<Tls>), Refusal> {
    if let Some(problem) = ctx.server.config.problem_of_member() {
        return Err(format!("ERR CONFIG SET failed: {problem}").into());
    }
    has_room(&ctx.server.config, asked)?;
    scored(ctx.server, asked)?;
    let directory = moved(ctx.server, before, asked)?;
    let tls = renewed(&ctx.server.config, asked)?;
    begin_log(ctx, before, asked)?;
    listen(ctx.server, before, asked)?;
    Ok((directory, tls))
}

/// Applies the new settings to every part of the server.
fn obey(ctx: &mut Context<'_>, asked: &Asked<'_>) {
    let (server, keyspace) = (&mut *ctx.server, &mut *ctx.keyspace);
    let config = &server.config;
    if let Some(switch) = config.log_switch.filter(|_| asked.having(Effect::LogLevel).is_some()) {
        switch(config.loglevel());
    }
    server.ledger.settings = config.of_commands();
    if asked.having(Effect::Password).is_some() {
        server.users.require_password(config.requirepass.as_bytes());
    }
    if asked.having(Effect::Bandwidth).is_some() {
        server.storage.saves.hold_to(config.snapshot_bandwidth_bytes);
    }
    if asked.having(Effect::Archive).is_some() {
        server.process.tend_archive(config);
    }
    server.users.give_all_channels(config.acl_all_channels);
    keyspace.keep_expired(server.ledger.wants_expired());
    keyspace.count_uses(config.counting());
    *keyspace.limits_mut() = config.limits;
    server.memory.look_again(config.maxmemory_bytes);
    let closed = server.clients.weigh_again(config);
    server.meter.evicted_clients(closed);
}

/// Makes room for `maxclients` clients, if the request sets that number. The limit of another
/// program stays as it is: what connects in memory, or finds no descriptor, is no matter of it.
fn has_room(config: &Config, asked: &Asked<'_>) -> Result<(), Refusal> {
    let setting = asked.having(Effect::Clients).filter(|_| !config.is_embedded);
    let Some(setting) = setting else { return Ok(()) };
    let room = room_for_clients(config.maxclients);
    if room >= config.maxclients {
        return Ok(());
    }
    let problem = format!(
        "The operating system is not able to handle the specified number of clients, try with \
         {room}"
    );
    Err(refusal(setting.name.as_bytes(), &problem))
}

/// Sets the OOM score of the process, if the request sets it.
fn scored(server: &mut ServerState, asked: &Asked<'_>) -> Result<(), Refusal> {
    let Some(Setting { name, .. }) = asked.having(Effect::OomScore) else { return Ok(()) };
    let is_replica = server.replication.is_replica();
    server.process.set_oom_score(&server.config, is_replica).map_err(|error| {
        tracing::warn!("CONFIG SET {name}: {error}");
        refusal(name.as_bytes(), "Failed to set the process's OOM score. Check server logs.")
    })
}

/// A directory that is there, without links. Relative paths of other settings start there, as in
/// Redis, unless the process is another program's: that stays where it is.
fn arrive(from: &Config, dir: &Path) -> Result<PathBuf, StorageError> {
    if from.is_embedded { existing(dir) } else { enter(dir) }
}

/// The directory that saves go to from now on, or their other name there.
fn moved(
    server: &ServerState,
    before: &Config,
    asked: &Asked<'_>,
) -> Result<Option<DataDirectory>, Refusal> {
    let Some(Setting { name, .. }) = asked.having(Effect::Directory) else { return Ok(None) };
    let refused = |problem: &str| refusal(name.as_bytes(), problem);
    let config = &server.config;
    if server.storage.loading().is_some() {
        return Err("LOADING Redis is loading the dataset in memory".into());
    }
    if server.storage.journal.is_open() {
        return Err(refused(
            "the log goes on from the dump file in its directory: CONFIG SET appendonly no first",
        ));
    }
    if server.group.member().is_some() {
        return Err(refused("a member of a group keeps its directory and its dump: start again"));
    }
    if server.process.archive().is_some() {
        return Err(refused("the archive is of the directory at the start: start again"));
    }
    let opened = arrive(before, &before.dir).and_then(|old| {
        let new = arrive(before, &config.dir)?;
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
fn begin_log(ctx: &mut Context<'_>, before: &Config, asked: &Asked<'_>) -> Result<(), Refusal> {
    let Some(Setting { name, .. }) = asked.having(Effect::Log) else { return Ok(()) };
    let is_new = ctx.server.config.appendonly && !before.appendonly;
    let moves = asked.having(Effect::Directory).is_some();
    if !is_new || moves || ctx.server.ledger.in_exec {
        return Ok(());
    }
    let begun = persistence::begin_log_asked(ctx.keyspace, ctx.server);
    begun.map_err(|error| {
        tracing::warn!("CONFIG SET {name}: the log cannot be begun: {error}");
        refusal(name.as_bytes(), "Unable to turn on AOF. Check server logs.")
    })
}

/// Listens at the addresses of the new configuration, if the request changes them.
fn listen(server: &mut ServerState, before: &Config, asked: &Asked<'_>) -> Result<(), Refusal> {
    let Some(Setting { name, .. }) = asked.having(Effect::Listen) else { return Ok(()) };
    let changed = server.net.listen_anew(&server.config, before);
    changed.map_err(|error| {
        tracing::warn!("CONFIG SET {name}: {error}");
        let problem = match *name {
            "bind" => "Failed to bind to specified addresses.",
            _ => "Unable to listen on this port. Check server logs.",
        };
        refusal(name.as_bytes(), problem)
    })
}

/// The material of new TLS connections, read again if any of its settings is set, since the files
/// may have changed. If they cannot be used, the old material stays in use.
fn renewed(config: &Config, asked: &Asked<'_>) -> Result<Option<Tls>, Refusal> {
    let Some(Setting { name, .. }) = asked.having(Effect::Tls) else { return Ok(None) };
    match Tls::new(config) {
        Ok(tls) => {
            tracing::info!("TLS is set up anew; connections that stand keep what they have");
            Ok(Some(tls))
        }
        Err(problem) => {
            tracing::warn!("TLS stays as it is: {problem}");
            Err(refusal(name.as_bytes(), &problem.to_string()))
        }
    }
}

fn refusal(name: &[u8], problem: &str) -> Refusal {
    let start = b"ERR CONFIG SET failed (possibly related to argument '";
    [&start[..], name, b"') - ", problem.as_bytes()].concat().into()
}

/// Whether the setting already has `value`.
fn says_the_same(config: &Config, setting: &Setting, value: &[u8]) -> bool {
    let mut again = config.clone();
    let set =
        std::str::from_utf8(value).is_ok_and(|value| (setting.set)(&mut again, value).is_ok());
    set && (setting.get)(&again) == (setting.get)(config)
}

/// The configuration with all changes, or why one is refused.
fn changed(config: &Config, asked: &Asked<'_>, is_local: bool) -> Result<Config, Refusal> {
    let allowed = config.protected_configs.allows(is_local);
    let mut changed = config.clone();
    for (at, (name, setting, value)) in asked.0.iter().enumerate() {
        let is_twice = || asked.0[..at].iter().any(|(_, other, _)| other.name == setting.name);
        let set = match setting.change {
            Change::OwnStart if says_the_same(&changed, setting, value) => Ok(()),
            Change::Start | Change::OwnStart => Err(ChangeError::Immutable),
            Change::Protected if !allowed => Err(ChangeError::Protected),
            _ if is_twice() => Err(ChangeError::Twice),
            Change::Always | Change::Protected => std::str::from_utf8(value)
                .map_err(ChangeError::from)
                .and_then(|value| Ok((setting.set)(&mut changed, value)?)),
        };
        set.map_err(|error| refusal(name, &error.to_string()))?;
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
    ctx.server.meter.reset(ctx.keyspace.stats(), ctx.server.clock.turn());
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

#[cfg(test)]
mod tests {
    use stillframe_durability::disk::{Fault, SimulatedDisk};

    use crate::crash::Server;

    /// Storage keeps a copy of its settings, which follows the configuration there and back,
    /// whichever call of the disk fails.
    #[test]
    fn storage_obeys_what_config_set_leaves() {
        let obeyed = |server: &Server| {
            let (settings, config) = (server.state.storage.settings(), &server.state.config);
            assert_eq!(*settings, config.of_storage());
            (settings.appendonly, settings.log_keep.bytes)
        };
        let mut refusals = 0;
        for call in 1..=12 {
            let disk = SimulatedDisk::default();
            let mut server = Server::start(&disk, false).expect("a sound disk");
            assert_eq!(obeyed(&server), (false, 1 << 30));
            assert_eq!(server.run("CONFIG SET log-keep-bytes 1"), "+OK\r\n");
            let refused = server.run("CONFIG SET log-keep-bytes 7 appendfsync never");
            assert!(refused.starts_with("-ERR CONFIG SET failed"), "{refused}");
            assert_eq!(obeyed(&server), (false, 1), "what is malformed never holds");
            disk.fail_at(disk.calls() + call, Fault::IO);
            let reply = server.run("CONFIG SET log-keep-bytes 7 appendonly yes");
            let is_done = reply == "+OK\r\n";
            assert!(is_done || reply.contains("Unable to turn on AOF"), "call {call}: {reply}");
            let expected = if is_done { (true, 7) } else { (false, 1) };
            assert_eq!(obeyed(&server), expected, "what cannot be done is put back: {call}");
            assert_eq!(server.state.storage.journal.is_open(), is_done, "call {call}");
            refusals += u32::from(!is_done);
        }
        assert!(refusals > 1, "{refusals} of the calls were needed");
    }
}
