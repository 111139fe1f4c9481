//! Tables that no page of the book repeats: commands from the one list of commands, settings from
//! the sample configuration.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use stillframe_peers::list::{Entry, parse};

const LIST: &str = "redis/commands/src/facts/commands.txt";
/// The commands of later servers, a name a line; with the version of what only they have.
const SERVERS: [&str; 2] =
    ["redis/commands/src/facts/redis_8.txt", "redis/commands/src/facts/valkey_9.txt"];
const SAMPLE: &str = "stillframe.conf";

/// A page with tables in place of the comments `<!-- commands -->` and `<!-- settings -->`.
pub(crate) fn fill_tables(root: &Path, page: &str) -> io::Result<String> {
    const COMMANDS: &str = "<!-- commands -->";
    const SETTINGS: &str = "<!-- settings -->";
    let read = |file: &str| fs::read_to_string(root.join(file));
    let mut page = page.to_owned();
    if page.contains(COMMANDS) {
        let [redis, valkey] = SERVERS.map(read);
        let [redis, valkey] = [redis?, valkey?];
        page = page.replace(COMMANDS, &table(&read(LIST)?, [&redis, &valkey]));
    }
    if page.contains(SETTINGS) {
        page = page.replace(SETTINGS, &format!("```text\n{}```\n", read(SAMPLE)?));
    }
    Ok(page)
}

/// A command of the list, with its sub-commands.
struct Row<'a> {
    entry: Entry<'a>,
    subcommands: Vec<String>,
}

impl<'a> Row<'a> {
    /// A command that only others have.
    fn elsewhere(name: &'a str, since: &'a str) -> Self {
        let entry = Entry { name, group: "", since, summary: "", lines: Vec::new() };
        Self { entry, subcommands: Vec::new() }
    }

    /// What a line of the entry says.
    fn line(&self, field: &str) -> &str {
        let line = self.entry.lines.iter().find(|(name, _)| *name == field);
        line.map_or("", |(_, value)| value)
    }
}

/// The list of commands as a table, which says who else has each; sub-commands stand in the row of
/// their container.
fn table(list: &str, servers: [&str; 2]) -> String {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for entry in parse(list) {
        match (entry.name.split_once('|'), rows.last_mut()) {
            (Some((_, own)), Some(container)) => container.subcommands.push(own.to_uppercase()),
            _ => rows.push(Row { entry, subcommands: Vec::new() }),
        }
    }
    for line in servers.iter().flat_map(|text| text.lines()).filter(|it| !it.starts_with('#')) {
        let (name, since) = line.split_once(' ').unwrap_or((line, ""));
        if rows.iter().all(|row| !row.entry.name.eq_ignore_ascii_case(name)) {
            rows.push(Row::elsewhere(name, since));
        }
    }
    rows.sort_by_key(|row| row.entry.name.to_ascii_lowercase());
    let mut table = "| command | since | here | Redis 8 | Valkey 9 | what it does |\n\
                     |---|---|---|---|---|---|\n"
        .to_owned();
    for row in rows {
        let here = match () {
            () if row.line("call").split(' ').any(|flag| flag == "absent") => "no",
            () if row.entry.lines.is_empty() => "no",
            () if row.entry.name == "stillframe" => "only",
            () => "yes",
        };
        let name = row.entry.name.to_uppercase();
        // Writing to a string cannot fail.
        let _ = write!(table, "| {name} | {} | {here}", row.entry.since);
        for server in servers {
            let has = server.lines().any(|it| it.split(' ').next() == Some(row.entry.name));
            let _ = write!(table, " | {}", if has { "yes" } else { "no" });
        }
        let _ = write!(table, " | {}", row.entry.summary);
        if !row.subcommands.is_empty() {
            let _ = write!(table, " {}.", row.subcommands.join(", "));
        }
        let note = row.line("note");
        let _ = writeln!(table, "{}{note} |", if note.is_empty() { "" } else { " " });
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::workspace;

    #[test]
    fn the_table_has_every_command_once() {
        let page = fill_tables(workspace(), "# A\n\n<!-- commands -->\n").expect("the list");
        let list = fs::read_to_string(workspace().join(LIST)).expect("the list");
        let entries = list.lines().filter(|line| !line.starts_with([' ', '#']));
        let names: Vec<&str> = entries.filter_map(|line| line.split(' ').next()).collect();
        for name in &names {
            let (container, own) = name.split_once('|').unwrap_or((name, ""));
            let start = format!("| {} | ", container.to_uppercase());
            let rows: Vec<&str> = page.lines().filter(|row| row.starts_with(&start)).collect();
            assert_eq!(rows.len(), 1, "{name}");
            assert!(rows[0].contains(&own.to_uppercase()), "{name}: {}", rows[0]);
        }
        assert!(names.len() > 300, "{}", names.len());
        for target in crate::links::targets(&page) {
            let file = target.split('#').next().unwrap_or(target);
            assert!(workspace().join("docs/reference").join(file).exists(), "{target}");
        }
    }

    #[test]
    fn absent_commands_own_commands_and_notes_are_shown() {
        let list = "# Head.\nget string 1.0.0 O(1) Read.\n  call 2 readonly\n\
                    stillframe server 7.0.0 - Own.\n  call -2\n  note See [x](x.md).\n\
                    stillframe|help server 7.0.0 O(1) Help.\n  call 2\n\
                    asking2 cluster\n  call -1 absent\n";
        let rows = [
            "| ASKING2 |  | no | no | yes |  |",
            "| GET | 1.0.0 | yes | yes | yes | Read. |",
            "| OTHER | 9.1.0 | no | no | yes |  |",
            "| STILLFRAME | 7.0.0 | only | no | no | Own. HELP. See [x](x.md). |",
        ];
        let servers = ["# Head.\nget\n", "asking2\nget\nOTHER 9.1.0\n"];
        assert_eq!(table(list, servers).lines().skip(2).collect::<Vec<_>>(), rows);
    }

    #[test]
    fn settings_are_shown_as_the_sample_has_them() {
        let page = fill_tables(workspace(), "<!-- settings -->\n").expect("the sample");
        assert!(page.starts_with("```text\n# stillframe.conf") && page.contains("\nport 6379\n"));
    }
}
