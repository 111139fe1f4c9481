//! Commands of Redis that this server lacks. COMMAND does not list them, and they get an error that
//! says so. ACL rules know them with their categories, so that an ACL file of Redis keeps its
//! meaning. MODULE exists to reply that there are none.

use stillframe_commands::{Refusal, facts};

use super::cluster::NO_CLUSTER;
use super::{Context, Table, flags};

/// The error for a command of Redis that is missing here; `None` for a name unknown to Redis, too.
pub(super) fn error(name: &[u8]) -> Option<Refusal> {
    let name = String::from_utf8_lossy(name).to_lowercase();
    let is_absent = |facts: &&facts::Facts| facts.flags & flags::ABSENT != 0;
    facts::find(&name).filter(is_absent).map(|_| NO_CLUSTER)
}

/// Adds the missing commands, and MODULE.
pub(crate) fn register(table: &mut Table) {
    let absent = facts::all().iter().filter(|facts| facts.flags & flags::ABSENT != 0);
    // They take any arguments: a command is refused before they are checked.
    absent.for_each(|facts| table.add_server(facts.name, refuse));
    table.add_server("module", module_help);
    table.add_server("module|help", module_help);
    table.add_server("module|list", module_list);
    table.add_server("module|load", no_modules);
    table.add_server("module|loadex", no_modules);
    table.add_server("module|unload", no_modules);
}

/// Refuses a missing command.
fn refuse(_ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    Err(error(args[0]).unwrap_or(NO_CLUSTER))
}

const NOT_ALLOWED: Refusal = Refusal::new(
    "ERR MODULE command not allowed. If the enable-module-command option is \
    set to \"local\", you can run it from a local connection, otherwise you need to set this option \
    in the configuration file, and then restart the server.",
);

/// `MODULE LIST`
fn module_list(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.array(0);
    Ok(())
}

/// `MODULE LOAD`, `LOADEX`, `UNLOAD`
fn no_modules(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    if !ctx.server.config.module_command.allows(ctx.session.caller.peer.is_local()) {
        return Err(NOT_ALLOWED);
    }
    Err("ERR MODULE: modules are not supported by this server".into())
}

/// `MODULE HELP`
fn module_help(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.lines(&[
        "MODULE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "LIST",
        "    List the modules: there are none.",
        "LOAD <path> [<arg> ...]",
        "LOADEX <path> [<arg> ...]",
        "UNLOAD <name>",
        "    Say that modules are not supported.",
        "HELP",
        "    Print this help.",
    ]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::refusals::unknown_command;

    #[test]
    fn what_newer_versions_and_modules_have_is_refused_by_name() {
        let text = |name: &str| {
            String::from_utf8_lossy(unknown_command(&[name.as_bytes()]).text()).into_owned()
        };
        assert_eq!(text("FT.SEARCH"), "ERR unknown command 'FT.SEARCH': modules are not supported");
        assert_eq!(text("vadd"), "ERR unknown command 'vadd': vector sets are not supported");
        assert_eq!(text("BackUp"), "ERR unknown command 'BackUp': not supported by this server");
        for name in ["ARx", "AR", "x.y", ".", "XNACKS"] {
            let error = format!("ERR unknown command '{name}', with args beginning with: ");
            assert_eq!(text(name), error);
        }
    }
}
