//! `stillframe lab`: every snapshot algorithm, measured while its images are verified.

mod advise;
mod cause;
mod compare;
mod figure;
mod list;
pub(crate) mod progress;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use stillframe_lab::environment;

use crate::outcome::fail;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the algorithms and the figures with their sources.
    List(list::Arguments),
    /// Name the algorithm for a need, with the figures that argue for it.
    #[command(after_help = advise::EXAMPLES)]
    Advise(advise::Arguments),
    /// Run algorithms under one workload and print one table.
    #[command(after_help = compare::EXAMPLES)]
    Compare(Box<compare::Arguments>),
    /// Run one figure of a paper again: plot, numbers, and whether its claims hold here.
    #[command(after_help = figure::EXAMPLES)]
    Figure(figure::One),
    /// Run every figure again and write one page.
    #[command(after_help = figure::EXAMPLES)]
    All(figure::All),
    /// Run an experiment that decides why a claim does not hold: counts, which noise spares.
    Cause(cause::Arguments),
    /// Run one round: JSON of a case on standard input, of its record on standard output.
    #[command(hide = true)]
    Case,
    /// Measure a part of a figure: JSON of what is asked on standard input, of what came of it on
    /// standard output.
    #[command(hide = true)]
    Part {
        /// Which kind
        kind: String,
    },
    /// Become a program that the kernel ends when its parent, the process of that number, is gone.
    #[command(hide = true)]
    Leash {
        /// Number of the parent
        parent: u32,
        /// Program and its words
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        line: Vec<std::ffi::OsString>,
    },
}

/// Prints what makes figures doubtful, and refuses a busy machine unless its noise is accepted.
fn quiet(busy_is_accepted: bool) -> Result<(), ExitCode> {
    let environment = environment();
    if let Some(busy) = environment.busy().filter(|_| !busy_is_accepted) {
        return Err(fail(3, &format_args!("{busy}; wait until it is quiet, or give --busy")));
    }
    for warning in &environment.warnings {
        eprintln!("stillframe: warning: {warning}");
    }
    Ok(())
}

pub(crate) fn run(arguments: Arguments) -> Result<(), ExitCode> {
    match arguments.command {
        Command::List(arguments) => list::run(&arguments),
        Command::Advise(arguments) => advise::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Figure(arguments) => figure::one(&arguments),
        Command::All(arguments) => figure::all(&arguments),
        Command::Cause(arguments) => cause::run(&arguments),
        Command::Leash { parent, line } => Err(fail(1, &stillframe_lab::leash(parent, &line))),
        Command::Case => stillframe_lab::case_from_stdin()
            .map_err(|error| fail(2, &format_args!("lab case: {error}"))),
        Command::Part { kind } => stillframe_lab::part_from_stdin(&kind)
            .map_err(|error| fail(2, &format_args!("lab part: {error}"))),
    }
}
