//! Judges an image: whether it is what a prefix of each writer's transactions leaves.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use stillframe_resp::parse_integer;

use crate::content::{Content, Contents, Name, apply};
use crate::workload::{Request, Workload};

/// The classes of wrong images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// The image shows part of a transaction, or transactions in an order in which they never ran.
    Torn,
    /// The image lacks a transaction that was acknowledged before the request for the image.
    Stale,
    /// The image lacks keys.
    Missing,
    /// The image's offset or replication id does not belong to its contents.
    Mislabelled,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 4] = [Self::Torn, Self::Stale, Self::Missing, Self::Mislabelled];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Torn => "torn",
            Self::Stale => "stale",
            Self::Missing => "missing",
            Self::Mislabelled => "mislabelled",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A fault of an image, the first of its class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The class.
    pub class: Class,
    /// Which key, which values, which transactions.
    pub text: String,
    /// How many keys or writers are wrong in this way.
    pub count: u64,
}

/// The faults of one image, at most one of each class.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    pub(crate) fn add(&mut self, class: Class, text: impl FnOnce() -> String) {
        match self.0.iter_mut().find(|fault| fault.class == class) {
            Some(fault) => fault.count += 1,
            None => self.0.push(Fault { class, text: text(), count: 1 }),
        }
    }
    pub(crate) fn list(self) -> Vec<Fault> {
        self.0
    }
}

/// What the transactions leave, as far as images have shown them.
#[derive(Debug)]
pub struct Judge {
    workload: Workload,
    expected: Contents,
    counts: Vec<u64>,
}

impl Judge {
    /// A judge of images of `workload`.
    #[must_use]
    pub fn new(workload: Workload) -> Self {
        let counts = vec![0; workload.writers];
        let mut judge = Self { workload, expected: Contents::new(), counts };
        judge.restart();
        judge
    }

    fn restart(&mut self) {
        self.expected.clear();
        self.counts.fill(0);
        let fill = self.workload.fill();
        run(&mut self.expected, &fill);
    }

    /// Brings the model to these numbers of transactions.
    fn advance(&mut self, counts: &[u64]) {
        if counts.iter().zip(&self.counts).any(|(to, from)| to < from) {
            self.restart();
        }
        for (writer, (&to, from)) in counts.iter().zip(&mut self.counts).enumerate() {
            for n in *from + 1..=to {
                run(&mut self.expected, &self.workload.transaction(writer, n));
            }
            *from = to;
        }
    }

    /// What is wrong with an image that was asked for when each writer had `low` transactions
    /// acknowledged, and had come when it had sent `high`. Keys of others are passed over.
    pub fn judge(&mut self, image: &Contents, low: &[u64], high: &[u64]) -> Vec<Fault> {
        let mut faults = Faults::default();
        let mut counts = Vec::new();
        for writer in 0..self.workload.writers {
            let stamp = self.workload.stamp(writer);
            let (low, high) = (low[writer], high[writer]);
            match image.get(&(0, stamp.clone().into_bytes())) {
                None => faults.add(Class::Missing, || {
                    format!("writer {writer}'s stamp {stamp} is not there; {low} was acknowledged")
                }),
                Some(content) => match number(content) {
                    Some(count) if count <= high => {
                        if count < low {
                            faults.add(Class::Stale, || {
                                format!(
                                    "writer {writer} is at transaction {count}, though {low} was \
                                     acknowledged before the image was asked for"
                                )
                            });
                        }
                        counts.push(count);
                    }
                    _ => faults.add(Class::Torn, || {
                        let held = shown(content);
                        format!("{stamp} holds {held}, though writer {writer} sent {high} at most")
                    }),
                },
            }
        }
        if counts.len() == self.workload.writers {
            self.compare(image, &counts, &mut faults);
        }
        faults.list()
    }

    /// The first difference between `contents` and what these numbers of transactions leave.
    pub(crate) fn difference(&mut self, contents: &Contents, counts: &[u64]) -> Option<String> {
        let mut faults = Faults::default();
        self.compare(contents, counts, &mut faults);
        faults.list().pop().map(|fault| fault.text)
    }

    fn compare(&mut self, image: &Contents, counts: &[u64], faults: &mut Faults) {
        self.advance(counts);
        let at = format!("after transactions {counts:?} of the writers");
        for (name, content) in &self.expected {
            let Some(held) = image.get(name) else {
                let elsewhere = (1 - name.0.min(1), name.1.clone());
                if image.contains_key(&elsewhere) {
                    let db = elsewhere.0;
                    faults.add(Class::Torn, || {
                        format!("{} is in database {db} {at}", named(name, content))
                    });
                } else {
                    faults.add(Class::Missing, || {
                        format!("{} is not there {at}", named(name, content))
                    });
                }
                continue;
            };
            if held != content {
                faults.add(Class::Torn, || {
                    format!("{} {}, {at}", named(name, held), differing(held, content))
                });
            }
        }
        let (prefix, mark) = (self.workload.prefix().into_bytes(), self.workload.mark());
        for (name, content) in image {
            let is_ours = name.1.starts_with(&prefix) && name.1 != mark.as_bytes();
            if is_ours && !self.expected.contains_key(name) {
                faults.add(Class::Torn, || {
                    format!("{} should not be there {at}", named(name, content))
                });
            }
        }
    }
}

fn run(contents: &mut Contents, requests: &[Request]) {
    let mut db = 0;
    for request in requests {
        let words: Vec<&[u8]> = request.iter().map(|word| word.as_bytes()).collect();
        let done = apply(contents, &mut db, &words);
        debug_assert_eq!(done, Ok(()), "the workload has only commands that the model knows");
    }
}

fn number(content: &Content) -> Option<u64> {
    let Content::Text(text) = content else { return None };
    parse_integer(text).and_then(|number| u64::try_from(number).ok())
}

fn named((db, name): &Name, content: &Content) -> String {
    format!("{} {} of database {db}", content.kind(), name.escape_ascii())
}

fn shown(content: &Content) -> String {
    match content {
        Content::Text(text) => format!("{:.60}", text.escape_ascii().to_string()),
        other => format!("a {}", other.kind()),
    }
}

/// Where two values of a key differ first.
fn differing(held: &Content, expected: &Content) -> String {
    let text = |bytes: &[u8]| format!("{:.60}", bytes.escape_ascii().to_string());
    match (held, expected) {
        (Content::Text(held), Content::Text(expected)) => {
            format!("holds {} where {} belongs", text(held), text(expected))
        }
        (Content::List(held), Content::List(expected)) => {
            let list = |it: &Vec<Vec<u8>>| text(&it.join(&b' '));
            format!("holds [{}] where [{}] belongs", list(held), list(expected))
        }
        (Content::Set(held), Content::Set(expected)) => {
            let extra = held.difference(expected).next().map(|it| format!("has {}", text(it)));
            let lacking = expected.difference(held).next();
            let lacking = lacking.map(|it| format!("lacks {}", text(it)));
            extra.into_iter().chain(lacking).collect::<Vec<_>>().join(" and ")
        }
        (Content::Hash(held), Content::Hash(expected)) => {
            elements(held, expected, |it| text(it), text)
        }
        (Content::Sorted(held), Content::Sorted(expected)) => {
            elements(held, expected, ToString::to_string, text)
        }
        _ => format!("is a {} where a {} belongs", held.kind(), expected.kind()),
    }
}

fn elements<T: PartialEq>(
    held: &BTreeMap<Vec<u8>, T>,
    expected: &BTreeMap<Vec<u8>, T>,
    value: impl Fn(&T) -> String,
    text: impl Fn(&[u8]) -> String,
) -> String {
    let names = held.keys().chain(expected.keys());
    let Some(name) = names.into_iter().find(|&name| held.get(name) != expected.get(name)) else {
        return "differs".to_owned();
    };
    let one = |of: &BTreeMap<Vec<u8>, T>| of.get(name).map_or("nothing".to_owned(), &value);
    format!("holds {} in {} where {} belongs", one(held), text(name), one(expected))
}
