//! The figures of the papers that the lab runs again: one declarative entry each.
//!
//! An entry says what is run (facets: algorithms under a swept workload), what is drawn of it,
//! which metrics its table shows, and how each claim of the paper is judged. Workloads that two
//! figures share are run once. Sizes are the papers' own (`--full`) or scaled so that all figures
//! together take minutes (`--quick`): the number of updates per unit and period stays, the idle
//! time goes.

mod async_fork;
pub mod build;
mod cao;
mod causes;
mod child;
pub mod data;
pub mod deciding;
pub mod direct;
mod guest;
mod hunted;
pub mod judge;
mod li;
pub mod metric;
mod ours;
mod parts;
pub mod plan;
mod profile;
mod queries;
mod recovery;
pub mod run;
mod served;
mod sidlauskas;
mod tpcc;
mod transactions;

use anyhow::Result;

use data::Data;
use deciding::Extent;
use judge::Judgement;
use metric::Metric;
pub use parts::part_from_stdin;
use plan::{Facet, Size};

use crate::case::check;
use crate::report::{Panel, Table, Whose};

/// A figure of a paper, to be run again.
#[derive(Debug)]
pub struct Figure {
    /// Name on the command line.
    pub name: &'static str,
    /// Paper and number.
    pub source: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// What is run, in words.
    pub workload: &'static str,
    /// What is swept, with its unit.
    pub swept: &'static str,
    /// The runs.
    pub facets: fn(Size) -> Vec<Facet>,
    /// Metrics of the table.
    pub columns: &'static [&'static Metric],
    /// What is measured apart from cases.
    pub direct: Option<Direct>,
    /// Tables beside that of the columns.
    pub tables: fn(&Data<'_>) -> Vec<Table>,
    /// Claims, in our words.
    pub claims: &'static [Claim],
}

/// What is measured apart from cases.
#[derive(Debug)]
pub struct Direct {
    /// Seconds it takes, about.
    pub seconds: fn(Size) -> f64,
    /// How much it measures.
    pub extent: fn(Size) -> Extent,
    /// Measures.
    pub measure: fn(Size) -> Result<Vec<Panel>>,
}

impl Figure {
    /// A figure of which nothing is said yet.
    const BLANK: Self = Self {
        name: "",
        source: "",
        title: "",
        workload: "",
        swept: "",
        facets: |_| Vec::new(),
        columns: &[],
        direct: None,
        tables: |_| Vec::new(),
        claims: &[],
    };

    /// Who claims that: the text shows what a paper does not say.
    #[must_use]
    pub fn whose(&self, claim: &Claim) -> Whose {
        match self.source == OURS || claim.text.contains(NOT_THEIRS) {
            true => Whose::Ours,
            false => Whose::Papers,
        }
    }
}

/// The source of figures that no paper has.
const OURS: &str = "ours";
/// What a claim of ours on a figure of a paper says.
const NOT_THEIRS: &str = "not in the paper";

/// A metric without its unit, which stands in brackets behind it.
fn without_unit(metric: &str) -> &str {
    metric.split(" [").next().unwrap_or(metric)
}

/// A claim of the paper and the rule that judges it.
#[derive(Debug)]
pub struct Claim {
    /// Its name among the claims of its figure, by which `causes.txt` finds it.
    pub id: &'static str,
    /// The claim, in our words.
    pub text: &'static str,
    /// The rule.
    pub judge: fn(&Data<'_>) -> Judgement,
}

/// Every figure, in the order of the papers.
#[must_use]
pub fn all() -> Vec<&'static Figure> {
    let papers = [
        li::FIGURES,
        transactions::FIGURES,
        served::LI,
        cao::FIGURES,
        recovery::FIGURES,
        tpcc::FIGURES,
        async_fork::FIGURES,
        served::ASYNC_FORK,
        sidlauskas::FIGURES,
        ours::FIGURES,
        &[hunted::FIGURE],
    ];
    papers.into_iter().flatten().collect()
}

/// The figures of that name: one, or all [through servers](SERVERS).
///
/// # Errors
/// A sentence that suggests the nearest.
pub fn named(name: &str) -> Result<Vec<&'static Figure>> {
    match name {
        SERVERS => Ok([served::LI, served::ASYNC_FORK].into_iter().flatten().collect()),
        _ => find(name).map(|figure| vec![figure]),
    }
}

/// The name of all figures through servers.
pub const SERVERS: &str = "servers";

/// The figure of that name.
///
/// # Errors
/// One sentence that names the nearest.
pub fn find(name: &str) -> Result<&'static Figure> {
    let wanted = name.to_lowercase();
    let named = all().into_iter().find(|figure| figure.name == wanted);
    named.ok_or_else(|| check::unknown("figure", name, all().iter().map(|figure| figure.name)))
}

/// A figure as `lab list` shows it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Listing {
    /// Name on the command line.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Paper and number.
    pub source: &'static str,
}

/// Every figure.
#[must_use]
pub fn list() -> Vec<Listing> {
    let listing = |it: &Figure| Listing { name: it.name, title: it.title, source: it.source };
    all().into_iter().map(listing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_a_wrong_one_suggests_the_nearest() {
        let mut names: Vec<_> = all().iter().map(|figure| figure.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(find("LI-10").is_ok());
        let error = find("cao5").expect_err("no such figure").to_string();
        assert!(error.contains("did you mean 'cao-5'"), "{error}");
        assert!(find("figure").expect_err("no such figure").to_string().contains("lab list"));
    }

    /// Whether guests decide every claim of a figure, or it says that none has.
    fn is_of_guests(figure: &Figure) -> bool {
        let (cache, direct) = (data::Cache::default(), data::Direct::new());
        let nothing = Data::new(&[], &cache, &direct);
        figure.claims.iter().all(|claim| {
            let Judgement { outcome, recorded, .. } = (claim.judge)(&nothing);
            recorded.is_some() || matches!(outcome, crate::report::Outcome::NotRun(_))
        })
    }

    #[test]
    fn every_figure_asked_for_is_there_and_can_be_planned() {
        for (paper, numbers) in [
            ("li", &["10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "t2"][..]),
            ("li", &["20", "21", "22", "23", "24", "25"]),
            (
                "cao",
                &["3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "t2", "rec"],
            ),
            (
                "async-fork",
                &[
                    "3", "4", "5", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19",
                    "20", "21", "22",
                ],
            ),
            ("sidlauskas", &["1", "2", "3", "4"]),
            ("ours", &["1", "2", "3", "4", "5"]),
        ] {
            for number in numbers {
                let figure = find(&format!("{paper}-{number}")).expect("asked for");
                let scales = [plan::Scale::Quick, plan::Scale::Large, plan::Scale::Full];
                for size in scales.map(|scale| Size { scale, shrink: 1 }) {
                    let facets = (figure.facets)(size);
                    let is_run = !facets.is_empty() || figure.direct.is_some();
                    assert!(is_run || is_of_guests(figure), "{}", figure.name);
                    for facet in &facets {
                        assert!(!facet.spots.is_empty(), "{}", figure.name);
                        assert!(facet.spots.is_sorted_by(|a, b| a.0 < b.0), "{}", figure.name);
                    }
                }
                assert!(!figure.claims.is_empty(), "{}", figure.name);
                let mut ids: Vec<_> = figure.claims.iter().map(|claim| claim.id).collect();
                ids.sort_unstable();
                assert!(ids.is_sorted_by(|a, b| a < b), "{}: {ids:?}", figure.name);
            }
        }
    }

    #[test]
    fn the_quick_set_ends_within_40_minutes_with_all_further_rounds() {
        let plan = run::Plan::new(&all(), Size::QUICK, run::QUICK_ROUNDS).up_to(run::MOST_ROUNDS);
        assert!(plan.longest_s() < 40.0 * 60.0, "{}", plan.text());
    }

    #[test]
    fn all_figures_through_servers_have_one_name() {
        let names = |word: &str| -> Vec<&str> {
            named(word).expect("known").iter().map(|figure| figure.name).collect()
        };
        let servers = names("servers");
        assert_eq!(servers.len(), 12, "{servers:?}");
        assert!(servers.contains(&"li-21") && servers.contains(&"async-fork-21"), "{servers:?}");
        assert_eq!(names("li-10"), ["li-10"]);
    }
}
