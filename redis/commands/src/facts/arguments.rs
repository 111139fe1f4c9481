//! The arguments of a command in the form that `commands.txt` has them in.

/// One argument, or several that belong together. In the text:
///
/// ```text
/// name           a text              name:int    or :double, :time, :pattern, :key
/// name:key0      a key of the first specification       WORD~name   it stands behind a word
/// NX             a word alone        name=CH     one with another name, or a sign: name=*
/// name<a | b>    one of them         name(a b)   all of them
/// [...]          may be left out     ...*        may be repeated, ...** with its word
/// ...^6.2.0      since a version     ...!2.8.12  not to be used since then
/// ```
#[derive(Debug, Default)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Its key specification.
    pub spec: Option<i64>,
    /// The word before it, or the word that it is.
    pub token: Option<String>,
    /// The version that had it first.
    pub since: Option<String>,
    /// The version from which on it is not to be used.
    pub deprecated_since: Option<String>,
    /// `optional`, `multiple`, `multiple_token`.
    pub flags: Vec<&'static str>,
    /// Its parts.
    pub parts: Vec<Argument>,
}

/// The kind of an argument.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    #[default]
    Text,
    /// A key.
    Key,
    /// An integer.
    Integer,
    /// A number.
    Double,
    /// A pattern.
    Pattern,
    /// A Unix time.
    Time,
    /// A word as it is.
    Word,
    /// One of its parts.
    OneOf,
    /// All of its parts.
    Block,
}

impl Kind {
    /// Redis's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Key => "key",
            Self::Integer => "integer",
            Self::Double => "double",
            Self::Pattern => "pattern",
            Self::Time => "unix-time",
            Self::Word => "pure-token",
            Self::OneOf => "oneof",
            Self::Block => "block",
        }
    }
}

impl Argument {
    /// Reads the arguments of a line.
    pub(super) fn parse_all(text: &str) -> Vec<Self> {
        Reader(text).arguments()
    }
}

/// The unread rest.
struct Reader<'a>(&'a str);

impl<'a> Reader<'a> {
    fn eat(&mut self, mark: &str) -> bool {
        let rest = self.0.strip_prefix(mark);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn word(&mut self) -> &'a str {
        let end = self.0.find(|c| "~<>()[]^!*| ".contains(c)).unwrap_or(self.0.len());
        // A sign that is a word by itself.
        let is_sign = self.0[..end].ends_with('=') && self.0[end..].starts_with(['~', '*']);
        let (word, rest) = self.0.split_at(end + usize::from(is_sign));
        self.0 = rest;
        word
    }

    /// Arguments up to the end, or the mark that closes a group.
    fn arguments(&mut self) -> Vec<Argument> {
        let mut found = Vec::new();
        loop {
            self.0 = self.0.trim_start_matches([' ', '|']);
            if self.0.is_empty() || self.eat(")") || self.eat(">") {
                return found;
            }
            found.push(self.argument());
        }
    }

    fn argument(&mut self) -> Argument {
        let mut argument = Argument::default();
        if self.eat("[") {
            argument.flags.push("optional");
        }
        let mut word = self.word();
        if self.eat("~") {
            argument.token = Some(word.to_owned());
            word = self.word();
        }
        if self.eat("<") {
            (argument.kind, argument.parts) = (Kind::OneOf, self.arguments());
        } else if self.eat("(") {
            (argument.kind, argument.parts) = (Kind::Block, self.arguments());
        }
        argument.call(word);
        if self.eat("^") {
            argument.since = Some(self.word().to_owned());
        }
        if self.eat("!") {
            argument.deprecated_since = Some(self.word().to_owned());
        }
        if self.eat("*") {
            argument.flags.push("multiple");
        }
        if self.eat("*") {
            argument.flags.push("multiple_token");
        }
        self.eat("]");
        argument
    }
}

impl Argument {
    /// Takes the name, and the kind that it implies.
    fn call(&mut self, word: &str) {
        self.name = word.to_owned();
        if self.kind != Kind::Text {
            return;
        }
        if let Some((name, token)) = word.split_once('=') {
            (self.kind, self.name, self.token) = (Kind::Word, name.into(), Some(token.into()));
        } else if !word.contains(|c: char| c.is_ascii_lowercase()) {
            (self.kind, self.name) = (Kind::Word, word.to_ascii_lowercase());
            self.token = Some(word.to_owned());
        } else if let Some((name, kind)) = word.rsplit_once(':') {
            let (kind, spec) = kind.split_at(kind.trim_end_matches(char::is_numeric).len());
            self.kind = match kind {
                "key" => Kind::Key,
                "int" => Kind::Integer,
                "double" => Kind::Double,
                "pattern" => Kind::Pattern,
                "time" => Kind::Time,
                _ => return,
            };
            (self.name, self.spec) = (name.to_owned(), spec.parse().ok());
        }
    }
}
