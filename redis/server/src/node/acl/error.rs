//! Why the users of a configuration or an ACL file are refused.

use std::io;

/// Why the users of a configuration are refused.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// A line of the configuration has a user without a name.
    #[error("a user has no name")]
    Nameless,
    /// Two lines define one user.
    #[error(transparent)]
    Duplicate(#[from] Duplicate),
    /// A rule of a user cannot be applied.
    #[error("user {name}: {}", .source.quoted())]
    Rule {
        /// The user.
        name: String,
        /// Which rule, and why.
        source: RuleError,
    },
    /// Both the configuration and an ACL file define users.
    #[error("users are defined in the configuration file and in an aclfile; use one of the two")]
    TwoPlaces,
    /// The ACL file cannot be read.
    #[error("cannot read the aclfile {path}: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// A line of the ACL file is wrong.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// Which line, and why.
        source: LineError,
    },
}

/// A user is defined a second time.
#[derive(Debug, thiserror::Error)]
#[error("Duplicate user '{name}' found: a user can only be defined once")]
pub struct Duplicate {
    /// The user.
    pub(super) name: String,
}

/// A line of an ACL file that is wrong.
#[derive(Debug, thiserror::Error)]
#[error("line {number}: {source}")]
pub struct LineError {
    /// Its number, from 1.
    pub(super) number: usize,
    /// Why.
    pub(super) source: LineFault,
}

/// What is wrong with a line of an ACL file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineFault {
    /// It has too few words.
    #[error("a line must be: user NAME RULE...")]
    Short,
    /// It begins with another word.
    #[error("a line must begin with 'user'")]
    Keyword,
    /// A rule cannot be applied.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// Another line has the same user.
    #[error(transparent)]
    Duplicate(#[from] Duplicate),
}

/// A rule that cannot be applied to a user.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// A selector has no end.
    #[error("Unmatched parenthesis in acl selector starting at '{start}'.")]
    Unmatched {
        /// Its first word.
        start: String,
    },
    /// The rule is wrong.
    #[error("{}: {problem}", String::from_utf8_lossy(rule))]
    Wrong {
        /// The rule.
        rule: Vec<u8>,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl RuleError {
    /// In words, with the rule in quotes.
    fn quoted(&self) -> String {
        match self {
            Self::Unmatched { .. } => self.to_string(),
            Self::Wrong { rule, problem } => {
                format!("'{}': {problem}", String::from_utf8_lossy(rule))
            }
        }
    }
}
