//! The facts in a sound header, or a whole file; the fields of `inspect --json`.

use std::collections::BTreeMap;

use serde::Serialize;
use stillframe_durability::inspect::{Checkpoint, Segment};
use stillframe_rdb::{Database, Summary, VALUE_TYPES};

/// The facts, by kind of file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Facts {
    Checkpoint(CheckpointFacts),
    Log(LogFacts),
    Rdb(RdbFacts),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct CheckpointFacts {
    pub(crate) version: u32,
    pub(crate) number: u64,
    pub(crate) created_ms: u64,
    pub(crate) algorithm: String,
    pub(crate) creator: String,
    /// Its application, if it names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) application: Option<ApplicationFacts>,
    /// The first record of the log that is not in it, 0 if there was no log.
    pub(crate) log_from: u64,
    pub(crate) words: u64,
    pub(crate) words_per_block: u32,
    /// Blocks of a full one.
    pub(crate) blocks: Option<u64>,
    pub(crate) packed: bool,
    pub(crate) identity: u64,
    /// The base of an increment.
    pub(crate) base: Option<BaseFacts>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ApplicationFacts {
    pub(crate) tag: String,
    /// Version of the layout.
    pub(crate) layout: u32,
}

impl From<&(String, u32)> for ApplicationFacts {
    fn from((tag, layout): &(String, u32)) -> Self {
        Self { tag: shown(tag), layout: *layout }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct BaseFacts {
    pub(crate) number: u64,
    pub(crate) identity: u64,
}

impl From<Checkpoint> for CheckpointFacts {
    fn from(facts: Checkpoint) -> Self {
        Self {
            version: facts.version,
            number: facts.number,
            created_ms: facts.created_ms,
            algorithm: shown(&facts.algorithm),
            creator: shown(&facts.creator),
            application: facts.application.as_ref().map(ApplicationFacts::from),
            log_from: facts.log_from,
            words: facts.words,
            words_per_block: facts.words_per_block,
            blocks: facts.blocks,
            packed: facts.packed,
            identity: facts.identity,
            base: facts.base.map(|(number, identity)| BaseFacts { number, identity }),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct LogFacts {
    pub(crate) version: u32,
    pub(crate) created_ms: u64,
    /// The program that wrote it, before version 4.
    pub(crate) creator: String,
    /// Its application, if it names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) application: Option<ApplicationFacts>,
    /// Sequence number of the first record.
    pub(crate) first: u64,
    /// Sequence number of the last valid record, if there is one.
    pub(crate) last: Option<u64>,
    pub(crate) records: u64,
    pub(crate) payload_bytes: u64,
    /// When the first and the last record were logged.
    pub(crate) times_ms: Option<(u64, u64)>,
    /// This file proves that records up to this one were on the disk.
    pub(crate) proved: u64,
}

impl From<Segment> for LogFacts {
    fn from(facts: Segment) -> Self {
        Self {
            version: facts.version,
            created_ms: facts.created_ms,
            creator: shown(&facts.creator),
            application: facts.application.as_ref().map(ApplicationFacts::from),
            first: facts.first,
            last: facts.records.checked_sub(1).map(|more| facts.first.saturating_add(more)),
            records: facts.records,
            payload_bytes: facts.payload_bytes,
            times_ms: facts.times_ms,
            proved: facts.proved,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct RdbFacts {
    pub(crate) version: u32,
    pub(crate) checksum: bool,
    pub(crate) aux: Vec<(String, String)>,
    pub(crate) databases: Vec<DatabaseFacts>,
    pub(crate) keys: u64,
    pub(crate) functions: u64,
    pub(crate) modules: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct DatabaseFacts {
    pub(crate) database: u64,
    pub(crate) keys: u64,
    pub(crate) types: BTreeMap<&'static str, u64>,
    pub(crate) expires: u64,
    /// The first and the last moment at which a key expires, in unix milliseconds.
    pub(crate) expire_at_ms: Option<(i64, i64)>,
}

impl From<Summary> for RdbFacts {
    fn from(summary: Summary) -> Self {
        let mut databases: Vec<_> = summary.databases.iter().map(DatabaseFacts::from).collect();
        databases.sort_unstable_by_key(|facts| facts.database);
        let listed: u64 = databases.iter().map(|facts| facts.keys).sum();
        Self {
            version: summary.version,
            checksum: summary.verified,
            aux: summary.aux,
            databases,
            keys: listed.saturating_add(summary.keys_elsewhere),
            functions: summary.functions,
            modules: summary.modules,
        }
    }
}

impl From<&Database> for DatabaseFacts {
    fn from(database: &Database) -> Self {
        let types = VALUE_TYPES.into_iter().zip(database.keys).filter(|&(_, keys)| keys > 0);
        Self {
            database: database.number,
            keys: database.total(),
            types: types.collect(),
            expires: database.expires,
            expire_at_ms: database.expire_at_ms,
        }
    }
}

/// Text of a file for a terminal: a file may hold anything.
fn shown(text: &str) -> String {
    text.escape_debug().to_string()
}
