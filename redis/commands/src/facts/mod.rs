//! The facts of every command but its handler: the one list of commands.
//!
//! `commands.txt` holds them. The first table reads it; the book's page of commands and the tests
//! that run every command come from it, too. A command is a line `name group since complexity
//! summary` (`-` where the complexity depends on other things), under it, indented, further facts:
//!
//! ```text
//! call <arity> <flags> <@categories>     the arity counts the name (negative: at least so many);
//!                                        flags as COMMAND names them, or [`flags::HIDDEN`] does;
//!                                        categories that do not follow from flags
//! keys <flags>@<place> ...               (see [`Spec::parse`])
//! args <argument> ...                    (see [`Argument`])
//! tips <hints>                           for proxies
//! deprecated <since> <what to use instead>
//! is <flags of the document>
//! branch <how>                           how it runs on a branch, where that does not follow from
//!                                        handler and flags (see [`BranchMode`])
//! ```
//!
//! Lines for the page of commands and for tests; the table skips them:
//!
//! ```text
//! note <text>                            for the page of commands, in Markdown
//! types <letters> <arguments>            a request that refuses a key `@` of any other type than
//!                                        these (`command/tests/types.rs`)
//! types any                              it takes keys of all types
//! try <arguments>                        random requests that redis-server answers in the same way
//! alone <arguments>                      random requests that it does not (both: the crate
//!                                        stillframe-peers, `requests.rs`)
//! cost <requests>                        requests of n arguments, whose cost must be in proportion
//!                                        to n (stillframe-server, `in_process/cost_tests.rs`)
//! ```

mod arguments;
pub mod categories;
pub mod flags;
mod keys;
pub mod later;
mod specs;

use std::collections::HashMap;
use std::sync::OnceLock;

pub use arguments::{Argument, Kind};
pub use keys::{Keys, More};
pub use specs::{Begin, Find, READ, Spec, WRITE};

/// The facts of one command or sub-command.
#[derive(Debug, Default)]
pub struct Facts {
    /// Lower case; a sub-command's is `container|name`.
    pub name: &'static str,
    /// Number of arguments with the name; negative: at least that many.
    pub arity: i8,
    /// See [`flags`].
    pub flags: u32,
    /// The ACL categories that it is in, as bits (see [`categories`]).
    pub categories: u32,
    /// Where its keys are.
    pub keys: Keys,
    /// Where its keys are and what it does with them, as COMMAND says it.
    pub specs: Vec<Spec>,
    /// Its group, as Redis names it.
    pub group: &'static str,
    /// The version of Redis that had it first.
    pub since: &'static str,
    /// How long it takes; empty where that depends on other things.
    pub complexity: &'static str,
    /// Its effect, in a sentence.
    pub summary: &'static str,
    /// Since when it should not be used any more, and what in its place.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Flags of the document itself.
    pub document_flags: Vec<&'static str>,
    /// Hints for proxies.
    pub tips: Vec<&'static str>,
    /// How it runs on a branch, where the list says that.
    pub branch_mode: Option<BranchMode>,
    /// Its arguments as the list has them; [`arguments`](Self::arguments) takes them apart.
    pub syntax: String,
}

/// How a command runs on a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchMode {
    /// `keys`: on the keys that it names.
    Keys,
    /// `connection`: on the branch that a connection uses; STILLFRAME BRANCH RUN refuses it.
    Connection,
    /// `whole`: on all keys of the branch, by another handler.
    Whole,
    /// `requests`: by the requests that it runs.
    Requests,
    /// `live`: on the server or the connection, whatever the branch.
    Live,
    /// `refused`: not at all.
    Refused,
}

impl BranchMode {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "keys" => Self::Keys,
            "connection" => Self::Connection,
            "whole" => Self::Whole,
            "requests" => Self::Requests,
            "live" => Self::Live,
            "refused" => Self::Refused,
            _ => return None,
        })
    }
}

impl Facts {
    /// Its arguments.
    pub fn arguments(&self) -> Vec<Argument> {
        Argument::parse_all(&self.syntax)
    }

    /// The access to its first key, and to the others: [`READ`], [`WRITE`], both or neither.
    pub fn access(&self) -> [u8; 2] {
        [self.specs.first(), self.specs.last()].map(|spec| spec.map_or(0, Spec::access))
    }

    fn set_field(&mut self, field: &str, value: &'static str) {
        match field {
            "call" => self.set_call(value),
            "keys" => {
                let parsed = |text| {
                    Spec::parse(text).unwrap_or_else(|| self.reject("key specification", text))
                };
                self.specs = value.split(' ').map(parsed).collect();
            }
            "args" => value.clone_into(&mut self.syntax),
            "tips" => self.tips = value.split(' ').collect(),
            "deprecated" => self.deprecated = value.split_once(' '),
            "is" => self.document_flags = value.split(' ').collect(),
            "branch" => {
                let how = BranchMode::parse(value);
                self.branch_mode =
                    Some(how.unwrap_or_else(|| self.reject("way on a branch", value)));
            }
            "note" | "types" | "try" | "alone" | "cost" => {}
            _ => self.reject("kind of line", field),
        }
    }

    fn set_call(&mut self, value: &str) {
        let mut words = value.split(' ');
        let arity = words.next().unwrap_or_default();
        self.arity = arity.parse().unwrap_or_else(|_| self.reject("arity", arity));
        for word in words {
            match word.strip_prefix('@') {
                Some(name) => {
                    let bit = categories::bit(name.as_bytes());
                    self.categories |= bit.unwrap_or_else(|| self.reject("category", name));
                }
                None => self.flags |= flags::bit(word).unwrap_or_else(|| self.reject("flag", word)),
            }
        }
    }

    /// Adds what follows from the other facts.
    fn finish(mut self) -> Self {
        if self.arity == 0 {
            self.reject("arity", "0");
        }
        self.keys = Keys::of_specs(&self.specs);
        let is_unknown = |spec: &Spec| matches!(spec.begin, Begin::Unknown);
        if self.keys.more != More::None || self.specs.iter().any(is_unknown) {
            self.flags |= flags::MOVABLE_KEYS;
        }
        self.categories = categories::complete(self.categories, self.flags);
        self
    }

    fn reject(&self, what: &str, found: &str) -> ! {
        panic!("commands.txt: {}: '{found}' is no {what}; see facts/mod.rs for the form", self.name)
    }
}

/// The facts of every command, in the order of the list.
pub fn all() -> &'static [Facts] {
    &list().all
}

/// The facts of a command; `client|list` is the name of a sub-command.
pub fn find(name: &str) -> Option<&'static Facts> {
    list().by_name.get(name).map(|index| &list().all[*index])
}

struct List {
    all: Vec<Facts>,
    by_name: HashMap<&'static str, usize>,
}

fn list() -> &'static List {
    static LIST: OnceLock<List> = OnceLock::new();
    LIST.get_or_init(|| {
        let all = read(include_str!("commands.txt"));
        let by_name = all.iter().enumerate().map(|(index, facts)| (facts.name, index)).collect();
        List { all, by_name }
    })
}

fn read(text: &'static str) -> Vec<Facts> {
    let mut all = Vec::new();
    let mut lines = text.lines().filter(|line| !line.starts_with('#')).peekable();
    while let Some(line) = lines.next() {
        let mut words = line.splitn(5, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (name, group, since, complexity, summary) = (word(), word(), word(), word(), word());
        let before = all.last().map_or("the head", |facts: &Facts| facts.name);
        assert!(!name.is_empty(), "commands.txt: the line behind {before} is blank; remove it");
        let complexity = if complexity == "-" { "" } else { complexity };
        let mut facts = Facts { name, group, since, complexity, summary, ..Facts::default() };
        while let Some(line) = lines.next_if(|line| line.starts_with(' ')) {
            match line.strip_prefix("    ") {
                // The arguments go on.
                Some(more) => facts.syntax.extend([" ", more.trim()]),
                None => {
                    let line = line.trim();
                    let (field, value) = line.split_once(' ').unwrap_or((line, ""));
                    facts.set_field(field, value);
                }
            }
        }
        all.push(facts.finish());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "the line behind echo is blank")]
    fn a_blank_line_is_reported_with_the_entry_before() {
        read(
            "# Head.\necho connection 1.0.0 O(1) Reply.\n  call 2\n\nget string 1.0.0 O(1) Read.\n",
        );
    }
}
