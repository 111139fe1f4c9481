//! The commands of the `stillframe` binary. Exit status: 0 done, 1 the work failed, 2 wrong usage.
//!
//! A library, so that tests turn on the commands that measure, which the first build of a server
//! does without.
#![deny(unsafe_code)]

mod allocator;
mod archive;
mod check;
mod daemon;
mod files;
mod generate;
mod group;
#[cfg(feature = "measure")]
mod hunt;
mod import;
mod inspect;
#[cfg(feature = "measure")]
mod lab;
#[cfg(feature = "measure")]
mod load;
mod logs;
mod migrate;
mod moment;
mod outcome;
mod query;
mod rewind;
pub mod serve;
#[cfg(feature = "measure")]
mod values;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// The version, with the commit that was built.
const VERSION: &str = env!("STILLFRAME_VERSION");

/// Consistent snapshots of memory that is being written, without stopping the writer.
#[derive(Parser)]
#[command(name = "stillframe", version = VERSION, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a server for Redis clients, saving in the background without fork.
    #[command(after_help = serve::examples())]
    Serve(serve::Arguments),
    /// Verify checkpoints, logs and RDB files, and report which bytes are bad.
    #[command(after_help = check::EXAMPLES)]
    Check(check::Arguments),
    /// Show what checkpoints, logs and RDB files hold.
    #[command(after_help = inspect::EXAMPLES)]
    Inspect(check::Arguments),
    /// Begin a replicated group from a backup, or take the data out of one.
    #[command(after_help = group::EXAMPLES)]
    Group(group::Arguments),
    /// Import the data of a Redis server: append-only directory, append-only file or RDB file.
    #[command(after_help = import::EXAMPLES)]
    Import(import::Arguments),
    /// Move the data of all primaries of a Redis Cluster into one server, while clients write.
    #[command(after_help = migrate::EXAMPLES)]
    MigrateCluster(migrate::Arguments),
    /// Put load on a Redis-compatible server, and show what its saves do to latency.
    #[cfg(feature = "measure")]
    #[command(after_help = load::EXAMPLES)]
    Load(Box<load::Arguments>),
    /// Hunt for torn, stale, missing and mislabelled images of a Redis-compatible server.
    #[cfg(feature = "measure")]
    #[command(after_help = hunt::EXAMPLES)]
    Hunt(hunt::Arguments),
    /// Answer SQL over a dump, a directory, an archive, or a running server.
    #[command(disable_help_flag = true)]
    Query(query::Arguments),
    /// Write all data as tables: Parquet, Arrow, CSV or JSON files.
    #[command(disable_help_flag = true)]
    Export(query::Arguments),
    /// Rewind to a point in the past: write the state as it was then into a directory of its own.
    #[command(after_help = rewind::EXAMPLES, alias = "recover")]
    Rewind(rewind::Arguments),
    /// Compare snapshot algorithms, every image verified.
    #[cfg(feature = "measure")]
    Lab(lab::Arguments),
    /// Say how to build the commands that measure.
    #[cfg(not(feature = "measure"))]
    #[command(name = "lab", aliases = ["hunt", "load"], hide = true, disable_help_flag = true)]
    Measure {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _line: Vec<std::ffi::OsString>,
    },
    /// Print a man page.
    #[command(after_help = generate::MAN_EXAMPLES)]
    Man(generate::ManArguments),
    /// Print the completions of a shell.
    #[command(after_help = generate::COMPLETIONS_EXAMPLES)]
    Completions(generate::CompletionsArguments),
}

/// Runs the command that the arguments of the process name.
pub fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Serve(arguments) => serve::run(&arguments, None),
        Command::Check(arguments) => check::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Group(arguments) => group::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::MigrateCluster(arguments) => migrate::run(&arguments),
        #[cfg(feature = "measure")]
        Command::Load(arguments) => load::run(&arguments),
        #[cfg(feature = "measure")]
        Command::Hunt(arguments) => hunt::run(&arguments),
        Command::Query(arguments) => query::run("query", &arguments),
        Command::Export(arguments) => query::run("export", &arguments),
        Command::Rewind(arguments) => rewind::run(&arguments),
        #[cfg(feature = "measure")]
        Command::Lab(arguments) => lab::run(arguments),
        #[cfg(not(feature = "measure"))]
        Command::Measure { .. } => Err(outcome::fail(
            2,
            &"load, hunt and lab are not in this build: cargo build --release --features measure",
        )),
        Command::Man(arguments) => generate::man(Cli::command(), &arguments),
        Command::Completions(arguments) => generate::completions(Cli::command(), &arguments),
    };
    done.err().unwrap_or(ExitCode::SUCCESS)
}
