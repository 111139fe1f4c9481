//! The facts of a command for COMMAND beside the table: its document, hints for proxies, and its
//! access to keys.
//!
//! `commands.txt` holds them, as a page that people can read, too; it is read at the first use of
//! COMMAND. A command is a line `name group since complexity summary` (`-` where the complexity
//! depends on other things), under it, indented, further facts:
//!
//! ```text
//! deprecated <since> <what to use instead>     is <flags of the document>
//! tips <hints>                                 keys <flags>@<place> ...  (see [`Spec::parse`])
//! args <argument> ...                          (see [`Argument`])
//! ```

mod keys;
mod syntax;

use std::collections::HashMap;
use std::sync::OnceLock;

pub(super) use keys::{Begin, Find, Spec};
pub(super) use syntax::Argument;

/// The facts of one command or sub-command.
#[derive(Debug, Default)]
pub(super) struct Document {
    /// Its group, as Redis names it.
    pub(super) group: &'static str,
    /// The version of Redis that had it first.
    pub(super) since: &'static str,
    /// How long it takes; empty where that depends on other things.
    pub(super) complexity: &'static str,
    /// Its effect, in a sentence.
    pub(super) summary: &'static str,
    /// Since when it should not be used any more, and what in its place.
    pub(super) deprecated: Option<(&'static str, &'static str)>,
    /// Flags of the document itself.
    pub(super) flags: Vec<&'static str>,
    /// Hints for proxies.
    pub(super) tips: Vec<String>,
    /// Where its keys are and what it does with them.
    pub(super) specs: Vec<Spec>,
    /// Its arguments.
    pub(super) arguments: Vec<Argument>,
}

/// The document of a command; `client|list` is the name of a sub-command.
pub(super) fn of(name: &str) -> Option<&'static Document> {
    static ALL: OnceLock<HashMap<&str, Document>> = OnceLock::new();
    ALL.get_or_init(|| read(include_str!("commands.txt"))).get(name)
}

fn read(text: &'static str) -> HashMap<&'static str, Document> {
    let mut all = HashMap::new();
    let mut lines = text.lines().filter(|line| !line.starts_with('#')).peekable();
    while let Some(line) = lines.next() {
        let mut words = line.splitn(5, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (name, group, since, complexity, summary) = (word(), word(), word(), word(), word());
        let complexity = if complexity == "-" { "" } else { complexity };
        let mut document = Document { group, since, complexity, summary, ..Document::default() };
        while let Some(line) = lines.next_if(|line| line.starts_with(' ')) {
            let (field, first) = line.trim().split_once(' ').unwrap_or_default();
            let mut value = first.to_owned();
            while let Some(more) = lines.next_if(|line| line.starts_with("    ")) {
                value = value + " " + more.trim();
            }
            match field {
                "deprecated" => document.deprecated = first.split_once(' '),
                "is" => document.flags = first.split(' ').collect(),
                "tips" => document.tips = value.split(' ').map(str::to_owned).collect(),
                "keys" => document.specs = value.split(' ').filter_map(Spec::parse).collect(),
                _ => document.arguments = Argument::parse_all(&value),
            }
        }
        all.insert(name, document);
    }
    all
}
