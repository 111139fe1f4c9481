//! What the one list of commands, `redis/commands/src/facts/commands.txt`, says for tests.

use std::sync::OnceLock;

/// A line of a command's entry.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The command: lower case, a sub-command as `container|name`.
    pub command: &'static str,
    /// The group of the command.
    pub group: &'static str,
    /// The kind of line: its first word.
    pub field: &'static str,
    /// All behind the first word.
    pub value: &'static str,
}

impl Line {
    /// A request of this command with the words of `value`.
    pub fn request(&self, value: &str) -> String {
        let name = self.command.replace('|', " ").to_uppercase();
        if value.is_empty() { name } else { format!("{name} {value}") }
    }
}

/// The lines of one kind, in the order of the list.
pub fn lines(field: &str) -> impl Iterator<Item = Line> {
    static LINES: OnceLock<Vec<Line>> = OnceLock::new();
    let all = LINES.get_or_init(|| {
        let text = include_str!("../../../redis/commands/src/facts/commands.txt");
        let (mut command, mut group) = ("", "");
        let mut lines = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if line.starts_with(' ') {
                let (field, value) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
                lines.push(Line { command, group, field, value });
            } else {
                let mut words = line.split(' ');
                (command, group) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            }
        }
        lines
    });
    all.iter().filter(move |line| line.field == field).copied()
}
