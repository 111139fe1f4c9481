//! The owner of files: the tag of an application, and the layout of its words and actions.
//!
//! - Checkpoints and segments carry both in their headers. A store refuses, by name, a directory of
//!   another application or layout; otherwise one program would read the words of another as its
//!   own, under valid checksums.
//! - An *untagged* file is of an older version, or of an application that gives no tag. An
//!   application with a tag refuses it, unless its options say that the directory is its own. New
//!   files then carry the tag; the untagged ones before them stay part of their chain or log.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::fields::{NAME_BYTES, padded, unpadded};

/// The application whose state files hold, and how that is laid out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Application {
    /// A name of 16 bytes at most.
    pub tag: String,
    /// The version of the layout: of what each word means, and of the actions in the log.
    pub layout: u32,
    /// Whether files without a tag are taken for its own.
    pub adopts: bool,
}

impl Application {
    /// The application `tag` with this layout.
    #[must_use]
    pub fn new(tag: impl Into<String>, layout: u32) -> Self {
        Self { tag: tag.into(), layout, adopts: false }
    }

    /// The server of this project, in its log. `creator` said so before there were tags.
    #[must_use]
    pub fn server() -> Self {
        Self::new(SERVER, 1)
    }

    /// The owner that its files name.
    pub(crate) fn owner(&self) -> Result<Owner, Error> {
        let (tag, layout) = (padded(&self.tag), self.layout);
        let is_whole = unpadded(tag) == self.tag;
        is_whole
            .then_some(Owner { tag, layout })
            .ok_or_else(|| Error::Tag { tag: self.tag.clone(), bytes_max: NAME_BYTES })
    }
}

const SERVER: &str = "stillframe";

/// The owner of a file, as its header names it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) tag: [u8; NAME_BYTES],
    pub(crate) layout: u32,
}

impl Owner {
    /// The owner of a file that has none in its header, by its creator.
    pub(crate) fn by_creator(creator: [u8; NAME_BYTES]) -> Self {
        match &unpadded(creator)[..] {
            "server" => Self { tag: padded(SERVER), layout: 1 },
            _ => Self::default(),
        }
    }

    pub(crate) fn is_untagged(self) -> bool {
        self == Self::default()
    }

    pub(crate) fn tag(self) -> String {
        unpadded(self.tag)
    }

    /// Tag and layout, if there are any.
    pub(crate) fn shown(self) -> Option<(String, u32)> {
        (!self.is_untagged()).then(|| (self.tag(), self.layout))
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_untagged() {
            return f.write_str("a program that gives no name");
        }
        write!(f, "application \"{}\", layout {}", self.tag().escape_debug(), self.layout)
    }
}

/// Which application opens a directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    pub(crate) owner: Owner,
    adopts: bool,
}

impl Claim {
    pub(crate) fn from_application(application: &Application) -> Result<Self, Error> {
        Ok(Self { owner: application.owner()?, adopts: application.adopts })
    }

    /// For the owner of what is there.
    pub(crate) fn any(owner: Owner) -> Self {
        Self { owner, adopts: true }
    }

    /// Refuses the file at `path` if it is another's.
    pub(crate) fn check(self, found: Owner, path: impl FnOnce() -> PathBuf) -> Result<(), Error> {
        if found == self.owner || found.is_untagged() && self.adopts {
            return Ok(());
        }
        let advice = if found.is_untagged() {
            "if it is its own, say so with `Options::adopt_untagged`"
        } else if found.tag == self.owner.tag {
            "open it with a program that knows that layout, and convert it"
        } else {
            "open it with its own program, or name another directory"
        };
        let (found, wanted) = (found.to_string(), self.owner.to_string());
        Err(Error::Foreign { path: path(), found, wanted, advice })
    }

    /// As [`check`](Self::check) of a file that another one, already checked, goes on from.
    pub(crate) fn check_older(
        self,
        found: Owner,
        path: impl FnOnce() -> PathBuf,
    ) -> Result<(), Error> {
        Self { adopts: true, ..self }.check(found, path)
    }
}

/// Refuses the data directory of a server, which holds no files of a store.
pub(crate) fn refuse_server(directory: &Path, names: &[String]) -> Result<(), Error> {
    if names.iter().any(|name| name == "stillframe.lock" || name == "dump.rdb") {
        return Err(Error::OfAServer { directory: directory.to_path_buf() });
    }
    Ok(())
}
