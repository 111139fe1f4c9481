//! What the one list of commands, `redis/commands/src/facts/commands.txt`, says for tests.

use std::sync::OnceLock;

/// A line of a command's entry.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The command: lower case, a sub-command as `container|name`.
    pub command: &'static str,
    /// The group of the command.
    pub group: &'static str,
    /// The version that had the command first.
    pub since: &'static str,
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
    static ENTRIES: OnceLock<Vec<Entry<'static>>> = OnceLock::new();
    let text = include_str!("../../../redis/commands/src/facts/commands.txt");
    let all = ENTRIES.get_or_init(|| parse(text)).iter();
    let all = all.flat_map(|entry| entry.lines.iter().map(move |line| (entry, *line)));
    all.filter(move |(_, line)| line.0 == field).map(|(entry, (field, value))| Line {
        command: entry.name,
        group: entry.group,
        since: entry.since,
        field,
        value,
    })
}

/// A command's entry.
#[derive(Debug)]
pub struct Entry<'a> {
    /// Lower case, a sub-command as `container|name`.
    pub name: &'a str,
    /// The group of the command.
    pub group: &'a str,
    /// The version of Redis that had it first.
    pub since: &'a str,
    /// Its effect, in a sentence.
    pub summary: &'a str,
    /// Its lines: the first word, and all behind it.
    pub lines: Vec<(&'a str, &'a str)>,
}

/// The entries of a text in the form of the list, without arguments that go on in further lines.
pub fn parse(text: &str) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("    ")) {
        if let Some(entry) = entries.last_mut().filter(|_| line.starts_with(' ')) {
            entry.lines.push(line.trim().split_once(' ').unwrap_or((line.trim(), "")));
            continue;
        }
        let mut words = line.splitn(5, ' ');
        let mut word = || words.next().unwrap_or("");
        let (name, group, since, _complexity, summary) = (word(), word(), word(), word(), word());
        entries.push(Entry { name, group, since, summary, lines: Vec::new() });
    }
    entries
}
