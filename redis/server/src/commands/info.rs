//! INFO: the server in figures, in Redis's sections and field names.

use std::fmt::Write as _;

use stillframe_commands::Refusal;

use super::figures::{SECTIONS, Section, Seen};
use super::{Context, Table};

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("info", info);
}

/// `INFO [section...]`
fn info(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let asked: Vec<Vec<u8>> = args.iter().skip(1).map(|name| name.to_ascii_lowercase()).collect();
    let asks = |name: &[u8]| asked.iter().any(|asked| asked == name);
    let everything = asks(b"all") || asks(b"everything");
    let default = asked.is_empty() || asks(b"default");
    let seen = Seen::new(ctx.keyspace, ctx.server, ctx.table);
    let mut text = String::new();
    let is_member = ctx.server.group.member().is_some();
    for Section { name, is_default, of_member, figures } in &SECTIONS {
        if *of_member && !is_member {
            continue;
        }
        let chosen = asks(name.to_ascii_lowercase().as_bytes());
        if everything || chosen || (default && *is_default) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            // Writing to a string cannot fail.
            let _ = write!(text, "# {name}\r\n");
            figures.iter().for_each(|figure| figure.show(&seen, &mut text));
        }
    }
    ctx.out.verbatim(b"txt", text);
    Ok(())
}
