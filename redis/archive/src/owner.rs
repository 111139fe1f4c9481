//! What a data directory knows of its claims: a file beside the pending ones.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stillframe_durability::disk::Directory;

use crate::error::ArchiveError;
use crate::sealed;

const FILE: &str = "owner";
const TEMPORARY: &str = "owner.tmp";
const UPLOAD: &str = "upload";

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Owner {
    /// Names the data directory.
    pub(crate) id: String,
    /// Names this run.
    pub(crate) run: String,
    url: String,
    /// The newest claims, each with its run.
    claims: Vec<(u64, String)>,
    files: Arc<Directory>,
}

#[derive(Serialize, Deserialize)]
struct Noted {
    format: String,
    version: u32,
    id: String,
    url: String,
    claims: Vec<(u64, String)>,
}

/// An upload in parts that has begun.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Begun {
    pub(crate) object: String,
    pub(crate) id: String,
}

impl Owner {
    /// Of the folder of pending files.
    pub(crate) fn read(files: &Arc<Directory>, url: &str) -> Result<Self, ArchiveError> {
        let noted = match files.holds(FILE)? {
            true => sealed::unseal::<Noted>(files.read_text(FILE)?.as_bytes()).ok(),
            false => None,
        };
        let (id, claims) = match noted {
            Some(noted) if noted.url == url => (noted.id, noted.claims),
            Some(noted) => (noted.id, Vec::new()),
            None => (unique(), Vec::new()),
        };
        let (url, files) = (url.to_owned(), Arc::clone(files));
        Ok(Self { id, run: unique(), url, claims, files })
    }

    /// Whether this directory put the claim.
    pub(crate) fn has_noted(&self, number: u64, run: &str) -> bool {
        self.claims.iter().any(|(noted, by)| *noted == number && by == run)
    }

    /// Notes a claim of this run, which is about to be put.
    pub(crate) fn note(&mut self, number: u64) -> Result<(), ArchiveError> {
        /// The one before, in case the next is never put, and one between for a race.
        const NOTED: usize = 3;
        if !self.has_noted(number, &self.run) {
            self.claims.push((number, self.run.clone()));
        }
        let surplus = self.claims.len().saturating_sub(NOTED);
        self.claims.drain(..surplus);
        let noted = Noted {
            format: sealed::FORMAT.to_owned(),
            version: sealed::VERSION,
            id: self.id.clone(),
            url: self.url.clone(),
            claims: self.claims.clone(),
        };
        Ok(self.files.replace(FILE, TEMPORARY, sealed::seal(&noted).as_bytes())?)
    }

    /// Notes an upload in parts, so that the next run can end it.
    pub(crate) fn note_upload(&self, begun: &Begun) -> Result<(), ArchiveError> {
        let text = serde_json::to_string(begun).unwrap_or_default();
        Ok(self.files.replace(UPLOAD, TEMPORARY, text.as_bytes())?)
    }

    /// The upload that was noted.
    pub(crate) fn noted_upload(&self) -> Result<Option<Begun>, ArchiveError> {
        if !self.files.holds(UPLOAD)? {
            return Ok(None);
        }
        Ok(serde_json::from_str(&self.files.read_text(UPLOAD)?).ok())
    }

    pub(crate) fn forget_upload(&self) -> Result<(), ArchiveError> {
        Ok(self.files.remove(UPLOAD)?)
    }
}

/// A name that nobody else has.
fn unique() -> String {
    use std::hash::{BuildHasher, RandomState};
    // Two keyed hashes by keys of the operating system.
    let word = || RandomState::new().hash_one(crate::manifest::now_ms());
    format!("{:016x}{:016x}", word(), word())
}
