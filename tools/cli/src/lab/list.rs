//! `stillframe lab list`: what can be measured, and where it comes from.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Serialize;
use stillframe::algorithms::{ALL, available};
use stillframe::{Completeness, Info};
use stillframe_lab::error::sentence;
use stillframe_lab::figures::{self, Listing};
use stillframe_lab::{Record, summary};

use crate::outcome::{OrFail, fail, print};

#[derive(Args)]
pub(crate) struct Arguments {
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
    /// The algorithms as a table in Markdown, as documents have it
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Records of 'lab compare', whose figures go into that table
    #[arg(long, value_name = "FILE", requires = "markdown")]
    results: Option<PathBuf>,
}

#[derive(Serialize)]
struct Catalogue {
    algorithms: Vec<Entry>,
    figures: Vec<Listing>,
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    title: &'static str,
    citation: &'static str,
    units: Vec<&'static str>,
    image: &'static str,
    memory: &'static str,
    begin: &'static str,
    read: &'static str,
    write: &'static str,
    tended: bool,
    /// Why this machine cannot run the algorithm.
    unavailable: Option<String>,
}

impl Entry {
    fn new(info: &Info) -> Self {
        Self {
            name: info.name,
            title: info.title,
            citation: info.citation,
            units: info.units.iter().map(|unit| unit.name()).collect(),
            image: match info.image {
                Completeness::Full => "full",
                Completeness::Incremental => "incremental",
            },
            memory: info.memory,
            begin: info.begin,
            read: info.read,
            write: info.write,
            tended: info.tended,
            unavailable: available(info.name)
                .and_then(Result::err)
                .map(|unavailable| unavailable.to_string()),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), ExitCode> {
    if arguments.markdown {
        let records = arguments.results.as_deref().map_or_else(|| Ok(Vec::new()), read);
        let records = records.map_err(|why| fail(2, &sentence(&why)))?;
        return print(&summary::markdown(&records));
    }
    let algorithms = ALL.iter().map(Entry::new).collect();
    let catalogue = Catalogue { algorithms, figures: figures::list() };
    print(&match arguments.json {
        true => serde_json::to_string_pretty(&catalogue).or_fail(1)? + "\n",
        false => catalogue.text(),
    })
}

/// The records in a file, one JSON object a line.
pub(super) fn read(path: &Path) -> Result<Vec<Record>> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("reading {}", path.display()))?;
    let record = |(text, line): (&str, usize)| {
        serde_json::from_str(text)
            .with_context(|| format!("{}: line {line} is not a record", path.display()))
    };
    text.lines().zip(1..).map(record).collect()
}

impl Catalogue {
    fn text(&self) -> String {
        let mut text = "Algorithms (lab compare --algorithms NAME,...)\n".to_owned();
        for entry in &self.algorithms {
            let Entry { name, title, citation, image, memory, begin, read, write, .. } = entry;
            let units = entry.units.join(", ");
            text += &format!("\n  {name}: {title}. {citation}\n");
            text += &format!("    unit {units}; {image} image; memory {memory} copies\n");
            text += &format!("    begin {begin}; a read adds {read}; a write adds {write}\n");
            if let Some(why) = &entry.unavailable {
                text += &format!("    unavailable here: {why}\n");
            }
        }
        text += "\nFigures (lab figure NAME)\n\n";
        for Listing { name, title, source } in &self.figures {
            text += &format!("  {name:<18} {title}. {source}\n");
        }
        text
    }
}
