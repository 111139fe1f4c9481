//! What packages install beside the binary, made from its command line: man pages, and completions
//! of shells.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use clap::{Arg, Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::outcome::{fail, print};

pub(crate) const MAN_EXAMPLES: &str = "\
Examples:
  stillframe man | man -l -                     the page of the program
  stillframe man serve > stillframe-serve.1     the page of a command
  stillframe man --all DIR                      every page, into files of a directory";

pub(crate) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  stillframe completions bash > /usr/share/bash-completion/completions/stillframe
  stillframe completions zsh > /usr/share/zsh/vendor-completions/_stillframe
  stillframe completions fish > /usr/share/fish/vendor_completions.d/stillframe.fish";

#[derive(Args)]
pub(crate) struct ManArguments {
    /// Command whose page to print; none: that of the program
    #[arg(value_name = "COMMAND")]
    path: Vec<String>,
    /// Directory to write every page to
    #[arg(long, value_name = "DIR", conflicts_with = "path")]
    all: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct CompletionsArguments {
    /// Shell
    shell: Shell,
}

/// Prints a man page.
pub(crate) fn man(program: Command, arguments: &ManArguments) -> Result<(), ExitCode> {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    if let Some(folder) = &arguments.all {
        return write_pages(&program, folder)
            .map_err(|error| fail(1, &format_args!("writing to {}: {error}", folder.display())));
    }
    let mut command = &program;
    for name in &arguments.path {
        command = command.find_subcommand(name).ok_or_else(|| {
            fail(2, &format_args!("{} has no command '{name}'", command.get_name()))
        })?;
    }
    let page = page(command);
    print(&page.map_err(|error| fail(1, &format_args!("cannot write the page: {error}")))?)
}

/// Writes the pages of a command and of those below it.
fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    fs::write(folder.join(format!("{name}.1")), page(command)?)?;
    let mut shown = command.get_subcommands().filter(|it| !it.is_hide_set());
    shown.try_for_each(|it| write_pages(it, folder))
}

/// The page of a command. Tables and examples behind its help keep their lines.
fn page(command: &Command) -> io::Result<String> {
    const EXTRA: &str = ".SH EXTRA\n";
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    let page = String::from_utf8_lossy(&page).into_owned();
    let Some((before, extra)) = page.split_once(EXTRA) else { return Ok(page) };
    let (extra, after) = extra.split_at(extra.find(".SH ").unwrap_or(extra.len()));
    Ok(format!("{before}.SH NOTES\n.nf\n{extra}.fi\n{after}"))
}

/// Prints the completions of a shell.
pub(crate) fn completions(
    program: Command,
    arguments: &CompletionsArguments,
) -> Result<(), ExitCode> {
    // The directives of `serve` are words to clap, and flags to who types them.
    let flag = |name: &'static str| Arg::new(name).long(name).value_name("VALUE");
    let flags = stillframe_server::directives().map(flag).collect::<Vec<_>>();
    let mut program = program.mut_subcommand("serve", |serve| serve.args(flags));
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, "stillframe", &mut text);
    print(&String::from_utf8_lossy(&text))
}
