//! The commands as access rules see them: numbers, names, categories.

use stillframe_commands::Table;

/// One command or sub-command, at its index in the command table.
pub(crate) struct Known {
    /// Its full name.
    pub(crate) name: &'static str,
    /// The categories it is in, as bits.
    pub(crate) categories: u32,
    /// Its sub-commands.
    pub(crate) subcommands: Vec<usize>,
}

/// All commands, and the rights of new users.
pub(crate) struct Catalog {
    commands: Vec<Known>,
    /// `acl-pubsub-default`: new users, and new selectors, may use all channels.
    pub(crate) all_channels: bool,
}

impl Catalog {
    /// The commands of a table.
    pub(crate) fn new<S>(table: &Table<S>) -> Self {
        let commands = table.all().iter().map(|command| Known {
            name: command.name,
            categories: command.facts.categories,
            subcommands: command.subcommands.clone(),
        });
        Self { commands: commands.collect(), all_channels: false }
    }

    /// All commands, with their indices.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Known)> {
        self.commands.iter().enumerate()
    }

    /// The number of commands.
    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    /// The index of a command by its full name, in any case.
    pub(crate) fn find(&self, name: &[u8]) -> Option<usize> {
        self.commands.iter().position(|known| known.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// The command at an index.
    pub(crate) fn get(&self, index: usize) -> Option<&Known> {
        self.commands.get(index)
    }
}
