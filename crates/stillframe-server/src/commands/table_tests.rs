//! The command table: found and documented. The tests of the binary prove that COMMAND replies what
//! redis-server does.

use super::{Lookup, Table, documents, table};

fn commands() -> Table {
    table()
}

#[test]
fn every_command_is_found_by_its_name_in_any_case() {
    let table = commands();
    for (index, command) in table.all().iter().enumerate() {
        assert_eq!(command.name, command.name.to_ascii_lowercase());
        let upper = command.name.to_ascii_uppercase();
        let args: Vec<&[u8]> = upper.split('|').map(str::as_bytes).collect();
        assert_eq!(table.lookup(&args), Lookup::Found(index), "{upper} is there twice, or not");
    }
}

#[test]
fn every_command_is_documented() {
    let page = include_str!("../../../../docs/redis-compatibility.md");
    let words: Vec<&str> =
        page.split(|c: char| !c.is_ascii_alphanumeric() && !"_-".contains(c)).collect();
    for command in commands().all().iter().filter(|command| !command.name.contains('|')) {
        let name = command.name.to_ascii_uppercase();
        assert!(words.contains(&&*name), "docs/redis-compatibility.md does not name {name}");
    }
}

#[test]
fn every_command_has_a_document() {
    let here = commands();
    for command in here.all().iter().filter(|command| !command.has(super::flags::ABSENT)) {
        let document = documents::of(command.name);
        let document = document.unwrap_or_else(|| panic!("commands.txt lacks {}", command.name));
        assert!(document.summary.ends_with('.'), "{}: {}", command.name, document.summary);
    }
}
