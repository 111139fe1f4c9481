//! The `stillframe` binary. Exit status: 0 done, 1 the work failed, 2 wrong usage.
#![deny(unsafe_code)]

mod allocator;
mod archive;
mod check;
mod daemon;
mod files;
mod hunt;
mod import;
mod inspect;
mod lab;
mod load;
mod logs;
mod moment;
mod outcome;
mod rewind;
mod serve;
mod values;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Consistent snapshots of memory that is being written, without stopping the writer.
#[derive(Parser)]
#[command(name = "stillframe", version, propagate_version = true, max_term_width = 100)]
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
    /// Import the data of a Redis server: append-only directory, append-only file or RDB file.
    #[command(after_help = import::EXAMPLES)]
    Import(import::Arguments),
    /// Put load on a Redis-compatible server, and show what its saves do to latency.
    #[command(after_help = load::EXAMPLES)]
    Load(Box<load::Arguments>),
    /// Hunt for torn, stale, missing and mislabelled images of a Redis-compatible server.
    #[command(after_help = hunt::EXAMPLES)]
    Hunt(hunt::Arguments),
    /// Rewind to a point in the past: write the state as it was then into a directory of its own.
    #[command(after_help = rewind::EXAMPLES, alias = "recover")]
    Rewind(rewind::Arguments),
    /// Compare snapshot algorithms, every image verified.
    Lab(lab::Arguments),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Load(arguments) => load::run(&arguments),
        Command::Hunt(arguments) => hunt::run(&arguments),
        Command::Rewind(arguments) => rewind::run(&arguments),
        Command::Lab(arguments) => lab::run(arguments),
    }
}
