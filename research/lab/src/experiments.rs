//! Experiments that decide why a claim does not hold: counts, which the load on a machine does not
//! change. The causes (`figures/causes.rs`) name them.

use std::fmt::Write;
use std::fs;

use anyhow::{Context as _, Result};
use stillframe::Algorithm;
use stillframe::algorithms::Visitor;
use stillframe_measure::environment::field_bytes;

use crate::case::check::{self, dispatch};
use crate::case::workload::Ticks;
use crate::case::{Case, Distribution, FLOOR};
use crate::trial::oracle::Distinct;
use crate::trial::subject::options;

/// An experiment.
#[derive(Debug)]
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// What it counts.
    pub title: &'static str,
    /// Counts, with a state of so many bytes, and gives a table in Markdown.
    pub run: fn(u64) -> Result<String>,
}

/// All of them.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "touched",
        title: "what the 256,000 updates of a tick of Li et al. touch, by distribution",
        run: touched,
    },
    Experiment {
        name: "huge-pages",
        title: "pages of 2 MiB that the kernel gives, and the entries of page tables for the state",
        run: huge_pages,
    },
];

/// Distributions of the figures of Li et al.
const DRAWN: [Distribution; 4] = [
    Distribution::Pages(2.0),
    Distribution::Lines(2.0),
    Distribution::Zipf(0.99),
    Distribution::Uniform,
];

fn touched(size_bytes: u64) -> Result<String> {
    let mut table = "| distribution | items | lines | pages | of all pages |\n\
                     |---|---|---|---|---|\n"
        .to_owned();
    for distribution in DRAWN {
        let case = Case {
            size_bytes,
            item_bytes: 4,
            updates_per_tick: 256_000,
            tick_ms: 100, // with idle time one tick is made, not sixteen
            distribution,
            algorithm: FLOOR.to_owned(),
            ..Case::default()
        };
        check::case(&case)?;
        let all = size_bytes.div_ceil(4096) as f64;
        let [items, lines, pages] = distinct(&case);
        let share = pages as f64 / all * 100.0;
        let _ = writeln!(table, "| {distribution} | {items} | {lines} | {pages} | {share:.1} % |");
    }
    Ok(table)
}

/// Distinct items of 4 bytes, lines and pages that the first tick updates.
fn distinct(case: &Case) -> [u64; 3] {
    let halves = 2 * case.words();
    let ticks = Ticks::new(case);
    [1, 16, 1024].map(|in_unit| {
        let mut seen = Distinct::new(halves, in_unit);
        ticks.tick().updates.iter().for_each(|&item| seen.note(item as usize));
        seen.count()
    })
}

fn huge_pages(size_bytes: u64) -> Result<String> {
    let mut table = "| algorithm | state, MiB | in pages of 2 MiB, MiB | entries of state |\n\
                     |---|---|---|---|\n"
        .to_owned();
    for name in ["fork", "fork-huge"] {
        let case = Case { algorithm: name.to_owned(), size_bytes, ..Case::default() };
        check::case(&case)?;
        let huge = dispatch(name, Mapped(&case))?.min(size_bytes);
        let entries = (size_bytes - huge).div_ceil(4096) + (huge >> 21);
        let _ = writeln!(table, "| `{name}` | {} | {} | {entries} |", size_bytes >> 20, huge >> 20);
    }
    Ok(table)
}

/// Makes a state, and reads how many bytes of it the kernel has put in pages of 2 MiB. The size of
/// page tables would not tell: the kernel keeps a spare one for each such page.
struct Mapped<'a>(&'a Case);

impl Visitor for Mapped<'_> {
    type Output = Result<u64>;

    fn visit<A: Algorithm>(self) -> Self::Output {
        A::available()?;
        let before = in_huge_pages()?;
        let _state = A::create(&options(self.0))?;
        Ok(in_huge_pages()?.saturating_sub(before))
    }
}

fn in_huge_pages() -> Result<u64> {
    let path = "/proc/self/smaps_rollup";
    let text = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    Ok(field_bytes(&text, "AnonHugePages:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the causes of li-10, li-12 and li-16 say of exponent 2.
    #[test]
    fn exponent_2_hides_what_copies_cost() {
        let pages = |distribution| {
            let size_bytes = 1_000_000_000;
            let case = Case {
                size_bytes,
                item_bytes: 4,
                updates_per_tick: 256_000,
                tick_ms: 100,
                distribution,
                ..Case::default()
            };
            let [items, lines, pages] = distinct(&case);
            assert!(items >= lines && lines >= pages, "{distribution}");
            pages
        };
        assert!((600..800).contains(&pages(Distribution::Pages(2.0))));
        assert!(pages(Distribution::Uniform) > 150_000);
    }

    #[test]
    fn each_experiment_runs() {
        for Experiment { name, run, .. } in EXPERIMENTS {
            let table = run(8 << 20).expect("an experiment");
            assert!(table.lines().count() >= 4, "{name}: {table}");
        }
    }
}
