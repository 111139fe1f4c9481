//! The logs of a server, below its data directory: `appendonlydir/G/`, whatever the name of the
//! first part. The dump file names the one that continues it, and the first record that it lacks.

use std::collections::BTreeSet;
use std::path::Path;

use stillframe_durability::disk::{Directory, Location};
use stillframe_durability::inspect::Name;

use super::{Facts, Finding, Flaw, Health, Kind, members, open};

/// The aux field of a dump file, or an earlier one, that names a log: `generation:record:time`.
const POSITION_FIELD: &str = "stillframe-log";

/// The findings of all logs below `data`, whose files are `beside`.
pub(super) fn of_a_server(data: &Directory, beside: &[Finding]) -> Result<Vec<Finding>, String> {
    let named: Vec<(u64, u64)> = beside.iter().filter_map(position).collect();
    let mut logs: Vec<(u64, Location)> = Vec::new();
    for location in directories(data) {
        let below = Directory::existing(location.clone()).map(|files| directories(&files));
        logs.extend(generation(&location));
        logs.extend(below.iter().flatten().filter_map(generation));
    }
    logs.sort_by(|(one, at), (other, beside)| (one, at.path()).cmp(&(other, beside.path())));
    let mut findings = Vec::new();
    for (generation, location) in &logs {
        // The oldest image needs most of it, the newest one proves most of it.
        let positions = named.iter().filter(|(name, _)| name == generation).map(|&(_, from)| from);
        let (from, proved) = (positions.clone().min(), positions.max());
        let start = findings.len();
        findings.extend(members(&open(location.clone())?, proved.unwrap_or(0))?);
        match (from, findings.get_mut(start)) {
            (Some(from), Some(finding)) => begins_in_time(finding, from),
            (None, Some(finding)) if !named.is_empty() || !beside.is_empty() => {
                let notice = "no dump file names this log: the next start ignores it";
                finding.notice.get_or_insert(notice.to_owned());
            }
            _ => {}
        }
    }
    let mut reported = BTreeSet::new();
    for (generation, from) in named {
        if reported.insert(generation) && !logs.iter().any(|(name, _)| *name == generation) {
            findings.push(missing(data.path(), generation, from));
        }
    }
    Ok(findings)
}

/// The log that a dump file names, and the first record that it lacks.
fn position(finding: &Finding) -> Option<(u64, u64)> {
    let Some(Facts::Rdb(facts)) = &finding.facts else { return None };
    let (_, text) = facts.aux.iter().find(|(name, _)| name == POSITION_FIELD)?;
    let mut numbers = text.split(':').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

fn directories(files: &Directory) -> Vec<Location> {
    let names = files.names().unwrap_or_default();
    names.iter().filter_map(|name| files.below(name).ok()).collect()
}

/// The number of a log, if this is its directory.
fn generation(location: &Location) -> Option<(u64, Location)> {
    let name = location.path().file_name()?.to_str()?;
    let number = name.parse().ok().filter(|number: &u64| number.to_string() == name)?;
    let names = Directory::existing(location.clone()).and_then(|files| files.names()).ok()?;
    let holds_a_log = names.iter().any(|name| matches!(Name::parse(name), Some(Name::Segment(_))));
    holds_a_log.then(|| (number, location.clone()))
}

/// The first segment of a log whose dump lacks all records from `from` on.
fn begins_in_time(finding: &mut Finding, from: u64) {
    let Some(Facts::Log(facts)) = &finding.facts else { return };
    if facts.first > from {
        finding.health = Health::Damaged;
        let problem = format!("records {from} to {} are in no file", facts.first - 1);
        finding.flaws.push(Flaw { bytes: 0..0, problem });
    }
}

fn missing(path: &Path, generation: u64, from: u64) -> Finding {
    let path = path.join("appendonlydir").join(generation.to_string());
    let problem =
        format!("the dump file needs this log from record {from} on, but the log is missing");
    let flaws = vec![Flaw { bytes: 0..0, problem }];
    Finding { flaws, ..Finding::new(&path, Kind::Log, Health::Damaged, 0) }
}
