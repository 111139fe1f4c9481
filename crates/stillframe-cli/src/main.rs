//! The `stillframe` binary. Exit status: 0 done, 1 the work failed, 2 wrong usage.
#![forbid(unsafe_code)]

mod lab;
mod logs;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
    #[command(after_help = serve::EXAMPLES)]
    Serve(Box<serve::Arguments>),
    /// Compare snapshot algorithms, every image verified.
    Lab(lab::Arguments),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Lab(arguments) => lab::run(arguments),
    }
}

/// Tells what went wrong, in one sentence, on standard error.
fn fail(status: u8, problem: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("stillframe: {problem}");
    ExitCode::from(status)
}
