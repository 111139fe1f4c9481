//! Requests of a primary's stream on their way to the target: a transaction counts when it is
//! whole.

use stillframe_commands::write_request;

use super::Shared;
use super::feed::Block;
use super::translate::{Meaning, meaning};
use super::wire::Broken;

/// What follows a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Next,
    Report,
}

/// A place in the stream between two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) offset: u64,
    /// The selected database.
    pub(super) db: u64,
    /// Bytes of the batch before it, and the database that these select.
    len: usize,
    batch_db: u64,
}

/// Requests of a stream on their way to the target.
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// The database in which it begins.
    first_db: u64,
    now: Place,
    /// Where the transaction under way begins.
    open: Option<Place>,
    /// It tells of a slot that moves.
    pub(super) moving: bool,
}

impl Batch {
    pub(super) fn at(offset: u64, db: u64) -> Self {
        let now = Place { offset, db, len: 0, batch_db: db };
        Self { bytes: Vec::new(), first_db: db, now, open: None, moving: false }
    }

    /// Up to where everything is whole.
    pub(super) fn settled(&self) -> Place {
        self.open.unwrap_or(self.now)
    }

    /// Adds a request that takes so many bytes of the stream.
    pub(super) fn add(
        &mut self,
        args: &[&[u8]],
        bytes: u64,
        shared: &Shared,
    ) -> Result<Step, Broken> {
        let before = self.now;
        self.now.offset += bytes;
        match meaning(args) {
            Meaning::Nothing => {}
            Meaning::Report => return Ok(Step::Report),
            Meaning::Select(db) => self.now.db = db,
            Meaning::Begin => {
                self.open = Some(before);
                self.write(args);
            }
            Meaning::End => {
                self.write(args);
                self.open = None;
            }
            Meaning::Flush => return Err(Broken::Anew("has dropped all its keys".to_owned())),
            Meaning::Moving => self.moving = true,
            Meaning::Library(source) => {
                shared.feed.add_library(source);
                self.write(&[b"FUNCTION", b"LOAD", b"REPLACE", source]);
            }
            Meaning::DeleteLibrary(name) => {
                if shared.feed.remove_library(name) {
                    self.write(args);
                }
            }
            Meaning::DropLibraries => {
                shared.feed.clear_libraries();
                self.write(args);
            }
            Meaning::Run => self.write(args),
        }
        Ok(Step::Next)
    }

    fn write(&mut self, args: &[&[u8]]) {
        if self.now.batch_db != self.now.db {
            write_request(&mut self.bytes, &[b"SELECT", self.now.db.to_string().as_bytes()]);
        }
        write_request(&mut self.bytes, args);
        self.now.batch_db = self.now.db;
        self.now.len = self.bytes.len();
    }

    /// Takes what is whole, and the place behind it.
    pub(super) fn take_whole(&mut self) -> (Block, Place) {
        let settled = self.settled();
        self.moving = false;
        let bytes: Vec<u8> = self.bytes.drain(..settled.len).collect();
        let block = Block { db: [self.first_db, settled.batch_db], bytes };
        self.first_db = settled.batch_db;
        self.now.len -= settled.len;
        if let Some(open) = &mut self.open {
            open.len = 0;
        }
        (block, settled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a batch of these requests passes on, and where it then is.
    fn passed(batch: &mut Batch, lines: &[&str]) -> (String, [u64; 2]) {
        let shared = Shared::for_tests();
        for line in lines {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            batch.add(&args, 10, &shared).expect("nothing is dropped");
        }
        let (Block { bytes, .. }, place) = batch.take_whole();
        let text = String::from_utf8(bytes).expect("text");
        let words = text.split("\r\n").filter(|word| !word.starts_with(['*', '$']));
        (words.collect::<Vec<_>>().join(" ").trim().to_owned(), [place.offset, place.db])
    }

    #[test]
    fn a_transaction_counts_once_it_is_whole() {
        let mut batch = Batch::at(100, 0);
        let found = passed(&mut batch, &["SET a 1", "PING", "MULTI", "SET b 2"]);
        assert_eq!(found, ("SET a 1".to_owned(), [120, 0]));
        assert_eq!(passed(&mut batch, &["SET c 3"]), (String::new(), [120, 0]));
        let found = passed(&mut batch, &["EXEC", "SET d 4"]);
        assert_eq!(found, ("MULTI SET b 2 SET c 3 EXEC SET d 4".to_owned(), [170, 0]));
    }

    #[test]
    fn databases_are_selected_where_requests_need_it() {
        let mut batch = Batch::at(0, 0);
        let found = passed(&mut batch, &["SELECT 3", "SELECT 0", "SET a 1", "SELECT 2"]);
        assert_eq!(found, ("SET a 1".to_owned(), [40, 2]));
        let found = passed(&mut batch, &["MULTI", "SELECT 5", "SET b 1", "SELECT 0", "EXEC"]);
        let expected = "SELECT 2 MULTI SELECT 5 SET b 1 SELECT 0 EXEC";
        assert_eq!(found, (expected.to_owned(), [90, 0]));
    }

    #[test]
    fn what_every_primary_repeats_is_made_to_succeed() {
        let mut batch = Batch::at(0, 0);
        let found = passed(&mut batch, &["FUNCTION LOAD #!lua", "FUNCTION DELETE unknown"]);
        assert_eq!(found.0, "FUNCTION LOAD REPLACE #!lua");
    }

    #[test]
    fn a_primary_that_drops_its_keys_starts_anew() {
        let (mut batch, shared) = (Batch::at(0, 0), Shared::for_tests());
        let flushed = batch.add(&[b"FLUSHALL"], 10, &shared);
        assert!(matches!(flushed, Err(Broken::Anew(_))));
    }
}
