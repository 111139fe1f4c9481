//! The commands as access rules see them: numbers, names, categories.

use stillframe::Algorithm;

use super::categories;
use crate::commands::Table;

/// One command or sub-command, at its index in the command table.
pub(crate) struct Known {
    /// Its full name.
    pub(crate) name: &'static str,
    /// The categories it is in, as bits.
    pub(crate) categories: u32,
    /// Its sub-commands.
    pub(crate) subcommands: Vec<usize>,
}

/// All commands.
pub(crate) struct Catalog(Vec<Known>);

impl Catalog {
    /// The commands of a table.
    pub(crate) fn new<A: Algorithm>(table: &Table<A>) -> Self {
        let commands = table.all().iter().map(|command| Known {
            name: command.name,
            categories: categories::of(command.name, command.flags),
            subcommands: command.subcommands.clone(),
        });
        Self(commands.collect())
    }

    /// All commands, with their indices.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Known)> {
        self.0.iter().enumerate()
    }

    /// The number of commands.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The index of a command by its full name, in any case.
    pub(crate) fn find(&self, name: &[u8]) -> Option<usize> {
        self.0.iter().position(|known| known.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// The command at an index.
    pub(crate) fn get(&self, index: usize) -> Option<&Known> {
        self.0.get(index)
    }
}
