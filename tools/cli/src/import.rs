//! `stillframe import`: the data of a Redis server, once.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use stillframe_server::{Config, LogLevel};

use crate::logs;
use crate::outcome::{OrFail, fail, print};

pub(crate) const EXAMPLES: &str = "\
Examples:
  stillframe import /var/lib/redis --dir data               its appendonlydir, or its one file
  stillframe import old/appendonly.aof --dir data           one append-only file, before Redis 7
  stillframe import /var/lib/redis/dump.rdb --dir data      an RDB file, of Valkey too
  stillframe serve --dir data                               then serve it

Stop Redis first, or import a copy; import only reads its source. The data directory must not hold a
dump file yet. import leaves out an unfinished command at the very end, with a notice. It refuses
any other damage, and any command or type that this server does not have, with file and place.";

#[derive(Args)]
pub(crate) struct Arguments {
    /// A directory of Redis, its appendonlydir, an append-only file, or an RDB file
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// Data directory to write to, created if missing [default: ./stillframe-data]
    #[arg(long, value_name = "DIR")]
    dir: Option<String>,
    /// Name of the dump file in it [default: dump.rdb]
    #[arg(long, value_name = "NAME")]
    dbfilename: Option<String>,
    /// Leave out values of modules (JSON, vector sets) in RDB files, with a count
    #[arg(long)]
    skip_modules: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), ExitCode> {
    let mut config = Config::default();
    let settings = [("dir", &arguments.dir), ("dbfilename", &arguments.dbfilename)];
    for (name, value) in settings {
        if let Some(value) = value
            && let Err(problem) = config.set(name, &[value])
        {
            return Err(fail(2, &format_args!("--{problem} (see 'stillframe import --help')")));
        }
    }
    logs::start(LogLevel::Notice);
    let imported = stillframe_server::import(&arguments.from, config, arguments.skip_modules);
    let imported = imported.or_fail(1)?;
    let (keys, commands, dump) = (imported.keys, imported.commands, imported.dump.display());
    print(&format!("imported {keys} keys after {commands} commands into {dump}\n"))
}
