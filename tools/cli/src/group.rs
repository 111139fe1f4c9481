//! `stillframe group`: a group begun from a backup, and the data of a group taken out.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use stillframe_durability::Until;
use stillframe_durability::disk::Directory;
use stillframe_group::Member;
use stillframe_server::consensus::Peer;
use stillframe_server::{Config, LogLevel};

use crate::archive::{self, Scratch};
use crate::logs;
use crate::outcome::{OrFail, print};

pub(crate) const EXAMPLES: &str = "\
Examples:
  P=1=127.0.0.1:7001/127.0.0.1:6381
  stillframe group init d1 --from dump.rdb --raft-id 1 --raft-peers $P
  stillframe group init d1 --from s3://bucket/prefix --until 2026-11-25T03:04:05Z \\
      --raft-id 1 --raft-peers $P
  stillframe serve --dir d1 --raft-id 1 --raft-listen 127.0.0.1:7001 --raft-peers $P --port 6381
  redis-cli -p 6381 stillframe raft add 2 127.0.0.1:7002/127.0.0.1:6382

  stillframe group export d1 d2 d3 --out plain      all members are stopped
  stillframe serve --dir plain

init makes the directory of the one member that begins a group with that data; the others are
started with raft-join yes in empty directories, and added (docs/run/groups.md). export
takes the member whose log goes furthest. It only reads, but for the locks.";

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make the directory of a member that begins a group with the data of a backup
    Init(Init),
    /// Take the data out of the directories of a group's members, for a single server
    Export(Export),
}

#[derive(Args)]
struct Init {
    /// Directory of the member, created if missing; it must be empty
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// An RDB file, a data directory of a server, or an archive by its URL
    #[arg(long, value_name = "FILE|DIR|URL")]
    from: PathBuf,
    /// Last record of the log to take, or last time: 2026-11-22T03:04:05Z, or @ and unix seconds
    #[arg(long, value_name = "SEQ|TIME")]
    until: Option<Until>,
    /// Number of the member
    #[arg(long, value_name = "ID")]
    raft_id: u64,
    /// ID=RAFT/CLIENT, its own addresses, two HOST:PORT
    #[arg(long, value_name = "PEERS")]
    raft_peers: String,
    /// Name of the group
    #[arg(long, value_name = "NAME", default_value = "stillframe")]
    raft_group: String,
    /// Name of the dump file [default: dump.rdb]
    #[arg(long, value_name = "NAME")]
    dbfilename: Option<String>,
}

#[derive(Args)]
struct Export {
    /// Directories of stopped members; most members of the group have all that was acknowledged
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,
    /// Directory for the result, created if missing; it must hold no dump yet
    #[arg(long, value_name = "DIR2")]
    out: PathBuf,
    /// Name of the dump files [default: dump.rdb]
    #[arg(long, value_name = "NAME")]
    dbfilename: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), ExitCode> {
    logs::start(LogLevel::Warning);
    let outcome = match &arguments.command {
        Command::Init(init) => init.run(),
        Command::Export(export) => export.run(),
    };
    print(&outcome.or_fail(1)?)
}

/// Settings of a data directory that a tool makes.
fn config(directory: &Path, dbfilename: Option<&str>) -> Result<Config, String> {
    let mut config = Config::default();
    let directory = directory.display().to_string();
    for (name, value) in [("dir", Some(&*directory)), ("dbfilename", dbfilename)] {
        if let Some(value) = value {
            config.set(name, &[value]).map_err(|problem| format!("--{problem}"))?;
        }
    }
    Ok(config)
}

impl Init {
    fn run(&self) -> Result<String, String> {
        let peers = stillframe_server::read_peers(&self.raft_peers);
        let peers = peers.map_err(|problem| format!("--raft-peers: {problem}"))?;
        let names_others = peers.len() > 1;
        let own = peers.into_iter().find(|peer| peer.id == self.raft_id);
        let own = own.ok_or("--raft-peers: name the member itself, as ID=RAFT/CLIENT")?;
        let names = Directory::existing(&self.directory).and_then(|it| it.names());
        if names.as_ref().is_err_and(|error| error.kind() == Some(ErrorKind::NotADirectory)) {
            return Err(format!("{} is a file: name a directory", self.directory.display()));
        }
        if names.unwrap_or_default().iter().any(|name| name != "stillframe.lock") {
            return Err(format!("{} is not empty", self.directory.display()));
        }
        let (keys, notices) = match archive::url(&self.from) {
            Some(url) => {
                let scratch = Scratch::beside(&self.directory);
                let fetched = stillframe_archive::fetch(url, self.until, &scratch.0);
                let fetched = fetched.map_err(|error| error.to_string())?;
                let (keys, mut notices) = self.make_dump(&scratch.0, fetched.until, &own)?;
                notices.extend(fetched.notices);
                if let Err(error) = scratch.remove() {
                    notices.push(format!("what was fetched is left: {error}"));
                }
                (keys, notices)
            }
            None => self.make_dump(&self.from, self.until, &own)?,
        };
        let dump = self.dbfilename.as_deref().unwrap_or("dump.rdb");
        stillframe_group::begin_group(&self.directory, dump, &self.raft_group, self.raft_id)
            .map_err(|error| error.to_string())?;
        let mut text = format!(
            "member {} of the group '{}' begins with {keys} keys, in {}\n",
            self.raft_id,
            self.raft_group,
            self.directory.display()
        );
        notices.iter().for_each(|notice| text += &format!("  notice: {notice}\n"));
        if names_others {
            text += "  notice: --raft-peers names others, which are no members yet: start them \
                     with raft-join yes in empty directories, and add them; a second 'group init' \
                     makes another group\n";
        }
        Ok(text)
    }

    /// Makes the first dump of the group from a file or a directory; its keys, and notices.
    fn make_dump(
        &self,
        from: &Path,
        until: Option<Until>,
        own: &Peer,
    ) -> Result<(u64, Vec<String>), String> {
        let mut config = config(&self.directory, self.dbfilename.as_deref())?;
        let label = stillframe_group::first_label(own).map_err(|error| error.to_string())?;
        config.label_dump(label);
        // A file cannot be opened as a directory.
        if Directory::existing(from).is_ok() {
            let rewound = stillframe_server::rewind(from, until, config);
            let rewound = rewound.map_err(|error| error.to_string())?;
            return Ok((rewound.keys, rewound.notices));
        }
        if until.is_some() {
            return Err(format!("{} has no log to go back in: leave --until out", from.display()));
        }
        let imported =
            stillframe_server::import(from, config, false).map_err(|error| error.to_string())?;
        Ok((imported.keys, imported.notices))
    }
}

/// Whether both are known, and not the same.
fn differ(one: &Option<String>, other: &Option<String>) -> bool {
    one.is_some() && other.is_some() && one != other
}

impl Export {
    fn run(&self) -> Result<String, String> {
        let dump = self.dbfilename.as_deref().unwrap_or("dump.rdb");
        let mut newest: Option<(&Path, Member)> = None;
        let mut ids = Vec::new();
        for directory in &self.directories {
            let member = stillframe_group::read_member(directory, dump);
            let member = member.map_err(|error| format!("{}: {error}", directory.display()))?;
            if let Some((other, first)) = &newest
                && (first.group != member.group || differ(&first.group_id, &member.group_id))
            {
                let (other, directory) = (other.display(), directory.display());
                return Err(format!("{other} and {directory} are of different groups"));
            }
            if ids.contains(&member.id) {
                let (directory, id) = (directory.display(), member.id);
                return Err(format!("{directory} is a second directory of member {id}"));
            }
            ids.push(member.id);
            if newest.as_ref().is_none_or(|(_, newest)| newest.last < member.last) {
                newest = Some((directory, member));
            }
        }
        let (directory, member) = newest.ok_or("name the directory of a member")?;
        let config = config(&self.out, self.dbfilename.as_deref())?;
        let taken = stillframe_server::replay_batches(directory, &member.batches, config);
        let taken = taken.map_err(|error| error.to_string())?;
        let mut text = format!(
            "took {} keys up to entry {} of term {} out of {} into {}\n",
            taken.keys,
            member.last.index,
            member.last.term,
            directory.display(),
            taken.dump.display()
        );
        let voters = &member.voters;
        let given = voters.iter().filter(|&voter| ids.contains(voter)).count();
        if given * 2 <= voters.len() {
            text += &format!(
                "  notice: {given} of the {} members that vote were read; another may have more\n",
                voters.len()
            );
        }
        Ok(text)
    }
}
