//! `stillframe query`, `stillframe export`, and servers that answer SQL: they are a program of
//! their own, since an SQL engine is many times as large as a server.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Args;

use crate::outcome::fail;

const PROGRAM: &str = "stillframe-query";

#[derive(Args)]
pub(crate) struct Arguments {
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    line: Vec<OsString>,
}

pub(crate) fn run(command: &str, arguments: &Arguments) -> Result<(), ExitCode> {
    become_the_program(command, &arguments.line, command)
}

/// Becomes the program beside this one, or else the one on the PATH. `what_needs_it` names what a
/// person asked for, if neither is there.
pub(crate) fn become_the_program(
    command: &str,
    words: &[OsString],
    what_needs_it: &str,
) -> Result<(), ExitCode> {
    let beside = std::env::current_exe().ok().map(|it| it.with_file_name(PROGRAM));
    let mut program = PathBuf::from(PROGRAM);
    let mut error = std::io::Error::from(ErrorKind::NotFound);
    for place in beside.into_iter().chain([PathBuf::from(PROGRAM)]) {
        if error.kind() == ErrorKind::NotFound {
            error = Command::new(&place).arg(command).args(words).exec();
            program = place;
        }
    }
    Err(match error.kind() {
        ErrorKind::NotFound => fail(
            1,
            &format_args!(
                "{what_needs_it} needs the program {PROGRAM} beside this one or on the PATH: cargo \
                 install --path analytics"
            ),
        ),
        _ => fail(1, &format_args!("cannot run {}: {error}", program.display())),
    })
}
