//! The command table: found and documented. The tests of the binary prove that COMMAND replies what
//! redis-server does.

use stillframe_commands::facts::{self, BranchMode};

use super::on_branch::mode;
use super::{Lookup, flags, table};

#[test]
fn every_command_is_found_by_its_name_in_any_case() {
    let table = table();
    for (index, command) in table.all().iter().enumerate() {
        assert_eq!(command.name, command.name.to_ascii_lowercase());
        let upper = command.name.to_ascii_uppercase();
        let args: Vec<&[u8]> = upper.split('|').map(str::as_bytes).collect();
        assert_eq!(table.lookup(&args), Lookup::Found(index), "{upper} is there twice, or not");
    }
}

#[test]
fn every_command_of_the_list_has_a_handler_and_a_document() {
    let table = table();
    let mut names = std::collections::BTreeSet::new();
    for facts in facts::all() {
        assert!(names.insert(facts.name), "commands.txt has {} twice", facts.name);
        let is_there = table.all().iter().any(|command| command.name == facts.name);
        assert!(is_there, "{} has facts and no handler: `add` it beside its handler", facts.name);
        let is_documented = facts.summary.ends_with('.') && !facts.since.is_empty();
        let is_absent = facts.flags & super::flags::ABSENT != 0;
        assert!(is_documented != is_absent, "{}: {}", facts.name, facts.summary);
    }
}

/// On a branch of a connection, commands on data run on the keys that they name.
#[test]
fn commands_on_data_that_name_no_keys_have_a_form_on_branches() {
    for command in table().all().iter().filter(|it| it.keys == facts::Keys::default()) {
        let is_on_data = command.has(flags::READONLY | flags::WRITE);
        let is_forgotten = is_on_data && mode(command) == BranchMode::Keys;
        assert!(!is_forgotten, "{} would run on a bare bench", command.name);
    }
}
