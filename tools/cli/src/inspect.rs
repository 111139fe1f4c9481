//! `stillframe inspect`: the facts that a file holds about itself.

use std::fmt::{Display, Write};
use std::process::ExitCode;

use crate::archive;
use crate::check;
use crate::files::{ApplicationFacts, CheckpointFacts, Facts, Finding, LogFacts, RdbFacts};
use crate::moment::{ago, at};
use crate::outcome::{OrFail, print};

pub(crate) const EXAMPLES: &str = "\
Examples:
  stillframe inspect dump.rdb           keys by database and type, expiries, aux fields
  stillframe inspect --json data        one JSON object a file, times in unix milliseconds
  stillframe inspect s3://bucket/prefix what an archive holds, by its newest manifest

inspect verifies every file as 'stillframe check' does, with the same exit statuses; of an archive
it reads the manifest alone.";

pub(crate) fn run(arguments: &check::Arguments) -> Result<(), ExitCode> {
    let (archives, files): (Vec<_>, Vec<_>) =
        arguments.paths.iter().cloned().partition(|path| archive::url(path).is_some());
    let mut all = Ok(());
    for path in &archives {
        match archive::inspect(&path.to_string_lossy(), arguments.json).or_fail(1) {
            Ok(text) => print(&text)?,
            Err(status) => all = Err(status),
        }
    }
    all?;
    check::report(&files, if arguments.json { check::json } else { text })
}

fn text(finding: &Finding) -> String {
    let mut lines = Lines(check::text(finding));
    if let Some(facts) = &finding.facts {
        lines.add("bytes", finding.bytes);
        match facts {
            Facts::Checkpoint(facts) => lines.checkpoint(facts),
            Facts::Log(facts) => lines.log(facts),
            Facts::Rdb(facts) => lines.rdb(facts),
        }
    }
    lines.0
}

struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, value: impl Display) {
        let _ = writeln!(self.0, "  {name:<10} {value}"); // a String takes all
    }

    fn application(&mut self, facts: Option<&ApplicationFacts>) {
        if let Some(ApplicationFacts { tag, layout }) = facts {
            self.add("of", format_args!("application \"{tag}\", layout {layout}"));
        }
    }

    fn checkpoint(&mut self, facts: &CheckpointFacts) {
        self.add("kind", format_args!("checkpoint, version {}", facts.version));
        self.add("number", facts.number);
        self.add("begun", ago(facts.created_ms));
        self.add("algorithm", &facts.algorithm);
        self.add("creator", &facts.creator);
        self.application(facts.application.as_ref());
        match facts.log_from {
            0 => self.add("log", "none"),
            from => self.add("log", format_args!("continues with record {from}")),
        }
        let (words, each) = (facts.words, facts.words_per_block);
        let packed = if facts.packed { ", packed" } else { "" };
        match (facts.blocks, facts.base) {
            (Some(blocks), _) => {
                self.add("state", format_args!("{words} words, {blocks} blocks of {each}{packed}"));
            }
            (None, base) => {
                self.add("state", format_args!("{words} words, the changed ones{packed}"));
                self.add("builds on", base.map_or(0, |base| base.number));
            }
        }
    }

    fn log(&mut self, facts: &LogFacts) {
        self.add("kind", format_args!("log segment, version {}", facts.version));
        if facts.version < 4 {
            self.add("creator", &facts.creator);
        }
        self.application(facts.application.as_ref());
        self.add("begun", ago(facts.created_ms));
        match facts.last {
            Some(last) => self.add("records", format_args!("{} to {last}", facts.first)),
            None => self.add("records", format_args!("none, the next is {}", facts.first)),
        }
        if let Some((first, last)) = facts.times_ms {
            self.add("logged", format_args!("from {} to {}", ago(first), ago(last)));
        }
        self.add("payload", format_args!("{} bytes", facts.payload_bytes));
        if facts.proved >= facts.first {
            self.add("synced", format_args!("up to record {}, as it proves itself", facts.proved));
        }
    }

    fn rdb(&mut self, facts: &RdbFacts) {
        self.add("kind", format_args!("RDB, version {}", facts.version));
        self.add("checksum", if facts.checksum { "right" } else { "none, or not reached" });
        for (name, value) in &facts.aux {
            self.add("aux", format_args!("{name} = {value}"));
        }
        for it in &facts.databases {
            let types = it.types.iter().map(|(kind, keys)| format!("{kind}: {keys}"));
            let types = types.collect::<Vec<_>>().join(", ");
            let expires = it.expire_at_ms.map_or(String::new(), |(first, last)| {
                let (first, last) = (at(first), at(last));
                format!("; {} expire, the first {first}, the last {last}", it.expires)
            });
            let name = format!("database {}", it.database);
            self.add(&name, format_args!("{} keys ({types}){expires}", it.keys));
        }
        self.add("keys", facts.keys);
        if facts.functions + facts.modules > 0 {
            let (functions, modules) = (facts.functions, facts.modules);
            self.add("also", format_args!("{functions} function libraries, {modules} of modules"));
        }
    }
}
