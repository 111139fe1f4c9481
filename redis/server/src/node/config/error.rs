//! Why a setting, a directive or a file of them is refused. Texts of settings that Redis has are
//! Redis's, to the letter: clients read them.

use std::fmt::Display;
use std::path::PathBuf;

use stillframe::Unavailable;
use stillframe_commands::{NoSuchClass, RenameError};
use stillframe_script::NoVersion;

/// A value that a setting does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// It is not a whole number.
    #[error("argument couldn't be parsed into an integer")]
    NoInteger,
    /// It is a number out of bounds.
    #[error("argument must be between {least} and {most} inclusive")]
    OutOfBounds {
        /// The least allowed.
        least: String,
        /// The most allowed.
        most: String,
    },
    /// It is not a number of bytes.
    #[error("argument must be a memory value")]
    NoSize,
    /// It is neither a number of bytes nor a share of memory.
    #[error("argument must be a memory or percent value")]
    NoShare,
    /// It is more than all of the memory.
    #[error("percentage argument must be less or equal to 100")]
    PercentAbove100,
    /// The setting needs a part of the memory.
    #[error("a percentage must be between 1% and 100%")]
    Percent,
    /// It is not a switch.
    #[error("argument must be 'yes' or 'no'")]
    NotYesOrNo,
    /// It is none of the setting's words.
    #[error("argument(s) must be one of the following: {words}")]
    NoneOf {
        /// The words, with commas between them.
        words: String,
    },
    /// This build has no algorithm of that name.
    #[error(
        "argument must be an algorithm of this build: {built}; cargo's feature `rivals` builds all"
    )]
    NoAlgorithm {
        /// Those that it has, with commas between them.
        built: String,
    },
    /// The number of words is wrong.
    #[error("wrong number of arguments")]
    Count,
    /// The schedule of saves does not consist of pairs of numbers.
    #[error("Invalid save parameters")]
    SavePoints,
    /// Limits of output do not come in groups of four words.
    #[error("Wrong number of arguments in buffer limit configuration.")]
    OutputLimitCount,
    /// A number of a limit of output is none.
    #[error("Error in hard, soft or soft_seconds setting in buffer limit configuration.")]
    OutputLimitNumber,
    /// There is no such class of clients.
    #[error("Invalid client class specified in buffer limit configuration.")]
    OutputLimitClass,
    /// The dump's name has directories in it.
    #[error("dbfilename can't be a path, just a filename")]
    FileName,
    /// The log directory's name has directories in it.
    #[error("appenddirname can't be a path, just a dirname")]
    DirectoryName,
    /// The path of the data directory cannot be made absolute.
    #[error("name a directory")]
    Directory,
    /// There is no address to listen at.
    #[error("name at least one address")]
    NoAddress,
    /// It is not an IP address.
    #[error("this is no IP address")]
    Address,
    /// The primary's port is none.
    #[error("Invalid master port")]
    PrimaryPort,
    /// Not a list of members.
    #[error("argument must be ID=HOST:PORT/HOST:PORT,... (raft port first, then the clients')")]
    Peer,
    /// Two members have one address.
    #[error("each member has addresses of its own: two have the same here")]
    SharedAddress,
    /// A percentile is not a number.
    #[error("Invalid latency-tracking-info-percentiles parameters")]
    Percentile,
    /// A percentile is out of bounds.
    #[error("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]")]
    PercentileBounds,
    /// There is no such class of keyspace events.
    #[error(transparent)]
    Events(#[from] NoSuchClass),
    /// This machine does not let the algorithm run.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// It is no version of Redis.
    #[error("argument {0}")]
    Version(#[from] NoVersion),
    /// Two options of a shutdown exclude each other.
    #[error("shutdown options SAVE and NOSAVE can't be used simultaneously")]
    SaveAndNoSave,
    /// A score of the process is out of bounds.
    #[error("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")]
    OomScores,
    /// It is not a mode of a file.
    #[error("argument must be an octal number between 0 and 777")]
    Mode,
    /// There is one supervisor only.
    #[error("this server knows systemd alone: no, systemd or auto")]
    Supervisor,
    /// Versions of TLS that are not spoken.
    #[error("this server only speaks TLSv1.2 and TLSv1.3")]
    TlsVersion,
    /// A locale in whose order nothing is compared here.
    #[error("Invalid locale name; this server compares byte by byte, as in the locale C")]
    Locale,
    /// The setting has one value here.
    #[error("this server only has '{value}'")]
    Fixed {
        /// The value.
        value: &'static str,
    },
    /// The log goes elsewhere.
    #[error(
        "this server does not speak to syslog; the log goes to standard error, which systemd keeps \
         in its journal, or to a logfile"
    )]
    NoSyslog,
}

impl ValueError {
    pub(super) fn out_of_bounds(least: impl Display, most: impl Display) -> Self {
        Self::OutOfBounds { least: least.to_string(), most: most.to_string() }
    }

    pub(super) fn none_of(words: &[&str]) -> Self {
        Self::NoneOf { words: words.join(", ") }
    }
}

/// A quote in a line of a configuration file that does not end as it must.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuoteError {
    /// The line ends first.
    #[error("a quote is not closed")]
    Open,
    /// Something follows at once.
    #[error("a closing quote must be followed by a blank")]
    Followed,
}

/// A directive that cannot be applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Its words cannot be told apart.
    #[error(transparent)]
    Quote(#[from] QuoteError),
    /// A value is not text.
    #[error("a value is not UTF-8 text")]
    NotText,
    /// It has too many values.
    #[error("{directive}: wrong number of arguments")]
    Count {
        /// The directive as it was given.
        directive: String,
    },
    /// Its setting does not take the value.
    #[error("{directive}: {error}")]
    Value {
        /// The directive as it was given.
        directive: String,
        /// Why.
        error: ValueError,
    },
    /// A directive that is no setting has too few or too many words.
    #[error("'{name}' has the wrong number of words behind it")]
    Words {
        /// Its name.
        name: String,
    },
    /// `include` names none or several.
    #[error("'include' takes one file")]
    Include,
    /// A chain of included files has no end.
    #[error("too many files include each other")]
    IncludesItself,
    /// The directory of included files cannot be read.
    #[error("cannot read the directory {folder}: {error}")]
    Folder {
        /// The directory.
        folder: String,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// An included file cannot be used.
    #[error(transparent)]
    File(#[from] Box<FileError>),
    /// A command does not get the other name.
    #[error(transparent)]
    Rename(#[from] RenameError),
    /// A directive of Sentinel.
    #[error("this server is no Sentinel; 'redis-server FILE --sentinel' watches over it, too")]
    Sentinel,
    /// A module to load.
    #[error("this server has no modules")]
    Module,
    /// A setting of a module.
    #[error("'{name}' is a module's, and this server has no modules")]
    OfModule {
        /// Its name.
        name: String,
    },
    /// Nothing has this name.
    #[error("there is no setting '{name}'{}", hint(near.as_deref()))]
    Unknown {
        /// The name.
        name: String,
        /// A setting with nearly this name.
        near: Option<String>,
    },
}

fn hint(near: Option<&str>) -> String {
    near.map_or(String::new(), |near| format!("; did you mean '{near}'?"))
}

/// A configuration file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read the configuration file {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// A line is wrong.
    #[error("{}, line {line}: {error}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong.
        error: ConfigError,
    },
}

/// CONFIG REWRITE left the file as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RewriteError {
    #[error(transparent)]
    Disk(#[from] stillframe_durability::Error),
    #[error("it could not be read again: {0}")]
    Unreadable(FileError),
}

/// CONFIG SET left a setting as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error("can't set immutable config")]
    Immutable,
    #[error("can't set protected config")]
    Protected,
    #[error("duplicate parameter")]
    Twice,
    #[error("the value must be UTF-8 text")]
    NotText(#[from] std::str::Utf8Error),
    #[error(transparent)]
    Value(#[from] ValueError),
}
