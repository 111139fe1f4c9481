//! The verdict on a claim: what its rule says, if the run is as large as the claim needs.
//!
//! - The deciding run of a claim is the smallest at which the effect is three times the noise. The
//!   paragraphs of `deciding.txt` have those that are known, by figure and claim.
//! - A smaller run judges nothing, neither for nor against a claim: what cannot be seen in it may
//!   be there, and what is flat in it may grow.

use std::sync::LazyLock;

use super::data::Data;
use super::judge::{self, Ruling};
use super::plan::{self, Size};
use super::{Claim, Figure};
use crate::report::Outcome;
use stillframe_measure::scale::number;

static TEXT: LazyLock<String> = LazyLock::new(|| include_str!("deciding.txt").replace("\n  ", " "));

/// A deciding run that was not looked for, or not found.
const UNKNOWN: &str = "not yet found.";

/// How much was run: a state in MB, or what its figure counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extent {
    /// How much.
    pub amount: f64,
    /// Of what.
    pub unit: &'static str,
}

impl Extent {
    /// A state of so many bytes.
    pub(super) fn of_bytes(bytes: u64) -> Self {
        Self { amount: bytes as f64 / 1e6, unit: "MB" }
    }
    fn text(self) -> String {
        format!("{} {}", number(self.amount), self.unit)
    }
}

/// The deciding run of a claim.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Deciding {
    /// The least that shows the effect.
    least: f64,
    /// Of what.
    unit: &'static str,
    /// The command, and what it said if it was run.
    run: &'static str,
}

impl Deciding {
    fn text(self) -> String {
        format!("{} {} or more: {}", number(self.least), self.unit, self.run)
    }
    /// What a smaller run lacks, as a part of a sentence.
    fn wish(self) -> String {
        format!("it takes {}", self.text().trim_end_matches('.'))
    }

    /// Whether so much is less than it takes.
    fn is_more_than(self, ran: Extent) -> bool {
        self.unit == ran.unit && ran.amount < self.least
    }
}

/// A claim, judged.
#[derive(Debug)]
pub(super) struct Verdict {
    /// What the rule says, or that the run is too small for it.
    pub(super) ruling: Ruling,
    /// How much was run; empty if nothing was.
    pub(super) size: String,
    /// The deciding run, for people.
    pub(super) deciding: String,
}

/// Judges a claim.
pub(super) fn verdict(figure: &Figure, claim: &Claim, data: &Data<'_>, size: Size) -> Verdict {
    let mut ruling = judge::rule(data, claim.judge);
    let deciding = deciding_run(figure.name, claim.id);
    let ran = extent(figure, data, &ruling, size);
    let judgement = &mut ruling.judgement;
    let size = match (&judgement.recorded, ran) {
        (Some(recorded), _) => recorded.clone(),
        (None, Some(ran)) if judgement.outcome.is_measured() => {
            if let Some(deciding) = deciding.filter(|it| it.is_more_than(ran)) {
                judgement.outcome = Outcome::TooSmall(deciding.wish());
            }
            ran.text()
        }
        _ => String::new(),
    };
    let deciding = deciding.map_or_else(|| UNKNOWN.to_owned(), Deciding::text);
    Verdict { ruling, size, deciding }
}

/// The largest state among the cases that a rule looked at, or what its figure measures apart.
fn extent(figure: &Figure, data: &Data<'_>, ruling: &Ruling, size: Size) -> Option<Extent> {
    let cases = plan::distinct(data.facets).into_iter();
    let asked = cases.filter(|case| ruling.asked.cases.contains(&plan::key(case)));
    let largest = asked.map(|case| case.size_bytes).max().map(Extent::of_bytes);
    largest.or_else(|| figure.direct.as_ref().map(|direct| (direct.extent)(size)))
}

fn deciding_run(figure: &str, claim: &str) -> Option<Deciding> {
    let is_meant = |(name, claims, _): &(&str, Vec<&str>, _)| {
        *name == figure && (claims.contains(&claim) || claims.contains(&"*"))
    };
    paragraphs().filter_map(parse).find(is_meant).map(|(_, _, deciding)| deciding)
}

fn paragraphs() -> impl Iterator<Item = &'static str> {
    TEXT.split("\n\n").map(str::trim).filter(|it| !it.is_empty() && !it.starts_with('#'))
}

/// Figure, claims, and their deciding run.
fn parse(paragraph: &'static str) -> Option<(&'static str, Vec<&'static str>, Deciding)> {
    let (head, run) = paragraph.split_once('\n')?;
    let [figure, claims, least, unit] = head.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let least = least.parse().ok()?;
    Some((figure, claims.split(',').collect(), Deciding { least, unit, run }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::record::{BeginUs, Record};
    use crate::figures::data::{Cache, Direct};
    use crate::figures::metric::BEGIN_MS;
    use crate::figures::{self, judge::Judgement, judge::within, plan::Facet};
    use crate::report::Tally;

    #[test]
    fn each_deciding_run_is_of_claims_that_there_are() {
        let mut known = Vec::new();
        for paragraph in paragraphs() {
            let (name, claims, deciding) =
                parse(paragraph).unwrap_or_else(|| panic!("no deciding run: {paragraph}"));
            let figure = figures::find(name).expect("a figure");
            let ids: Vec<&str> = figure.claims.iter().map(|claim| claim.id).collect();
            for claim in claims {
                assert!(claim == "*" || ids.contains(&claim), "{name} has no claim {claim}");
                assert!(!known.contains(&(name, claim)), "two deciding runs: {name} {claim}");
                known.push((name, claim));
            }
            assert!(deciding.least > 0.0 && deciding.run.ends_with('.'), "{paragraph}");
            // Else nothing would be found too small.
            let direct = figure.direct.as_ref().map(|direct| (direct.extent)(Size::QUICK).unit);
            let has_facets = !(figure.facets)(Size::QUICK).is_empty();
            let units = has_facets.then_some("MB").into_iter().chain(direct);
            assert!(units.into_iter().any(|unit| unit == deciding.unit), "{paragraph}");
        }
        assert!(!known.is_empty());
    }

    /// Claims on `li-19`, of which the deciding run is known, at sizes of ours.
    fn judged(mb: u64, judge: fn(&Data<'_>) -> Judgement) -> (Outcome, Verdict) {
        let figure = figures::find("li-19").expect("a figure");
        let claim = Claim { id: "fork-grows", text: "", judge };
        let spot = |mb: u64| {
            (mb as f64, crate::Case { size_bytes: mb * 1_000_000, ..crate::Case::default() })
        };
        let facets = [Facet::new("", &["fork"], vec![spot(mb / 2), spot(mb)], &[])];
        let mut cache = Cache::default();
        for (round, spot) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
            let case = facets[0].case("fork", spot).expect("registered");
            let begin = BeginUs { p50: 1e3 * case.size_bytes as f64, ..BeginUs::default() };
            cache.add(Record { round, case, begin_us: Some(begin), ..Record::default() });
        }
        let direct = Direct::new();
        let verdict = verdict(figure, &claim, &Data::new(&facets, &cache, &direct), Size::QUICK);
        (verdict.ruling.judgement.outcome.clone(), verdict)
    }

    #[test]
    fn a_run_below_the_deciding_size_judges_neither_for_nor_against() {
        let rules: [fn(&Data<'_>) -> Judgement; 2] = [
            |data| within(data, 0, &BEGIN_MS, |it| it.grows(&["fork"], 0.5..=1.5)),
            |data| within(data, 0, &BEGIN_MS, |it| it.flat(&["fork"], 1.1)),
        ];
        for rule in rules {
            let (outcome, verdict) = judged(50, rule);
            assert!(matches!(outcome, Outcome::TooSmall(_)), "{outcome:?}");
            assert!(
                outcome.why().is_some_and(|why| why.contains("1000 MB or more")),
                "{outcome:?}"
            );
            assert_eq!(verdict.size, "50 MB");
            assert!(!verdict.ruling.judgement.measured.is_empty(), "the number is still shown");
        }
        let [held, fell] = rules.map(|rule| judged(1000, rule));
        assert_eq!((held.0, fell.0), (Outcome::Held, Outcome::NotHeld));
        assert_eq!((&*held.1.size, held.1.ruling.tally), ("1000 MB", Tally { held: 2, fell: 0 }));
    }

    #[test]
    fn what_was_not_measured_is_not_too_small() {
        let (outcome, verdict) = judged(50, |_| Judgement::untested("no such kernel"));
        assert_eq!(outcome, Outcome::Untestable("no such kernel".to_owned()));
        assert_eq!(verdict.size, "");
        let (outcome, _) = judged(50, |_| Judgement::not_run("no guest ran"));
        assert_eq!(outcome, Outcome::NotRun("no guest ran".to_owned()));
    }

    #[test]
    fn what_was_recorded_elsewhere_has_a_size_of_its_own() {
        let (outcome, verdict) = judged(50, |_| Judgement {
            recorded: Some("a guest, 4 GiB".to_owned()),
            ..Judgement::new(true, "3x".to_owned())
        });
        assert_eq!((outcome, &*verdict.size), (Outcome::Held, "a guest, 4 GiB"));
    }

    #[test]
    fn a_claim_whose_deciding_run_is_unknown_says_so() {
        let figure = figures::find("ours-2").expect("a figure");
        let (cache, direct) = (Cache::default(), Direct::new());
        let claim = Claim { id: "unknown", text: "", judge: |_| Judgement::untested("x") };
        let verdict = verdict(figure, &claim, &Data::new(&[], &cache, &direct), Size::QUICK);
        assert_eq!(verdict.deciding, UNKNOWN);
    }
}
