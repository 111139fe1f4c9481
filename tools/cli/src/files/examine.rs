//! One file, by what it starts with.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use stillframe_durability::inspect::{Checkpoint, Examined, Segment};
use stillframe_rdb::DecodeError;

use super::{Facts, Finding, Flaw, Health, Kind, Placement};

/// Reads a file of `bytes` bytes to its end.
pub(crate) fn examine(mut input: impl Read + Seek, bytes: u64, placement: Placement) -> Finding {
    let mut finding = Finding::new(Path::new(""), Kind::Unknown, Health::Damaged, bytes);
    match kind(&mut input, bytes) {
        Ok(Kind::Checkpoint) => {
            let examined = Checkpoint::examine(input, bytes, placement.number());
            finding
                .add_examined(Kind::Checkpoint, examined, |facts| Facts::Checkpoint(facts.into()));
        }
        Ok(Kind::Log) => {
            let examined = Segment::examine(input, bytes, placement.neighbours());
            let torn = examined.facts.as_ref().and_then(|facts| facts.torn.clone());
            finding.add_examined(Kind::Log, examined, |facts| Facts::Log(facts.into()));
            if let (Some(torn), Health::Sound) = (torn, finding.health) {
                finding.health = Health::Torn;
                let problem = "torn: no records, or damaged ones after the last mark; nothing \
                               proves that they were ever on the disk, and recovery leaves them out";
                finding.flaws.push(Flaw { bytes: torn, problem: problem.to_owned() });
            }
        }
        Ok(Kind::Rdb) => rdb(&mut finding, input),
        Ok(Kind::Unknown) => {
            let problem = match bytes {
                0 => "the file is empty",
                _ => "the file does not start like a checkpoint, log or RDB file",
            };
            finding.flaws.push(Flaw { bytes: 0..bytes.min(8), problem: problem.to_owned() });
        }
        Err(error) => {
            let problem = format!("reading failed: {error}");
            finding.flaws.push(Flaw { bytes: 0..bytes, problem });
        }
    }
    finding
}

fn kind(input: &mut (impl Read + Seek), bytes: u64) -> io::Result<Kind> {
    let mut magic = Vec::new();
    input.by_ref().take(bytes.min(8)).read_to_end(&mut magic)?;
    input.seek(SeekFrom::Start(0))?;
    Ok(match &magic[..] {
        b"STILLCKP" => Kind::Checkpoint,
        b"STILLLOG" => Kind::Log,
        [b'R', b'E', b'D', b'I', b'S', ..] | [b'V', b'A', b'L', b'K', b'E', b'Y', ..] => Kind::Rdb,
        _ => Kind::Unknown,
    })
}

impl Finding {
    fn add_examined<F>(
        &mut self,
        kind: Kind,
        examined: Examined<F>,
        facts: impl FnOnce(F) -> Facts,
    ) {
        self.kind = kind;
        self.health = match (examined.newer, examined.flaws.is_empty()) {
            (true, _) => Health::Unreadable,
            (false, true) => Health::Sound,
            (false, false) => Health::Damaged,
        };
        let flaws = examined.flaws.into_iter();
        self.flaws = flaws.map(|it| Flaw { bytes: it.bytes, problem: it.problem }).collect();
        self.facts = examined.facts.map(facts);
    }
}

fn rdb(finding: &mut Finding, input: impl Read + Seek) {
    let (summary, error) = stillframe_rdb::scan_keys(input, finding.bytes);
    finding.kind = Kind::Rdb;
    finding.health = match &error {
        None => Health::Sound,
        Some(DecodeError::UnsupportedVersion { .. } | DecodeError::UnsupportedSection { .. }) => {
            Health::Unreadable
        }
        Some(_) => Health::Damaged,
    };
    if error.is_none() && !summary.verified {
        let notice = "the file has no checksum: its structure is sound, its values are unverified";
        finding.notice = Some(notice.to_owned());
    }
    if error.is_none() && summary.unsupported > 0 {
        let keys = summary.unsupported;
        let notice = format!("keys that this server cannot hold: {keys} (values of modules)");
        finding.notice = Some(notice);
    }
    finding.flaws.extend(error.map(|error| flaw(&error, finding.bytes)));
    finding.facts = (summary.version > 0).then(|| Facts::Rdb(summary.into()));
}

fn flaw(error: &DecodeError, length: u64) -> Flaw {
    let bytes = match *error {
        DecodeError::NotRdb | DecodeError::UnsupportedVersion { .. } => 0..length.min(9),
        // Any of the bytes before may be the wrong one.
        DecodeError::Checksum { offset, .. } => 0..offset + 8,
        DecodeError::Read { offset, .. }
        | DecodeError::Damaged { offset, .. }
        | DecodeError::DamagedValue { offset, .. }
        | DecodeError::UnsupportedSection { offset, .. }
        | DecodeError::Again { offset, .. }
        | DecodeError::TrailingBytes { offset } => offset..length.max(offset),
        _ => 0..length,
    };
    let problem = match error {
        // The place stands beside it.
        DecodeError::Damaged { what, .. } => what.clone(),
        DecodeError::Checksum { computed, written, .. } => {
            format!("one of them is wrong: they have checksum {computed:016x}, not {written:016x}")
        }
        DecodeError::TrailingBytes { .. } => {
            "these follow the end mark and the checksum".to_owned()
        }
        other => other.to_string(),
    };
    Flaw { bytes, problem }
}
