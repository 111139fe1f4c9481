//! Running figures: plan, rounds, report.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Instant;

use serde_json::json;

use super::data::{Cache, Data, Direct};
use super::judge;
use super::plan::{self, Facet, Size};
use super::{Figure, build};
use crate::case::Case;
use crate::check;
use crate::error::LabError;
use crate::output::{self, Records, Unwritable};
use crate::record::Record;
use crate::report::{self, FigureReport, Outcome, Report, Table, Verdict, page};
use crate::rounds::{Progress, run_rounds};
use stillframe_measure::{Environment, environment};

/// Rounds of the scaled set.
pub const QUICK_ROUNDS: u32 = 2;
/// Rounds of the papers' own set.
pub const FULL_ROUNDS: u32 = 3;

/// Most rounds that a claim gets which the first leave undecided.
pub const MOST_ROUNDS: u32 = 6;

/// The plan of a run.
#[derive(Debug)]
pub struct Plan {
    figures: Vec<(&'static Figure, Vec<Facet>)>,
    size: Size,
    rounds: u32,
    /// Of what is undecided after that.
    most: u32,
    cases: Vec<Case>,
    /// Cases that this machine has no room for, and why.
    refused: Vec<(Case, String)>,
}

/// The outcome of a run.
#[derive(Debug)]
pub struct Finished {
    /// The report, as the page shows it.
    pub report: Report,
    /// Whether Ctrl-C came before the last round.
    pub is_interrupted: bool,
    /// Rounds that failed or gave wrong images.
    pub wrong_rounds: usize,
}

/// Why figures could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The output cannot be written.
    #[error(transparent)]
    Unwritable(#[from] Unwritable),
    /// The rounds could not go on.
    #[error(transparent)]
    Lab(#[from] LabError),
}

impl Plan {
    /// Every case of the figures once.
    #[must_use]
    pub fn new(figures: &[&'static Figure], size: Size, rounds: u32) -> Self {
        let figures: Vec<_> = figures.iter().map(|&it| (it, (it.facets)(size))).collect();
        let all = plan::distinct(figures.iter().flat_map(|(_, facets)| facets));
        let (mut cases, mut refused) = (Vec::new(), Vec::new());
        for case in all {
            match check::case(&case) {
                Ok(()) => cases.push(case),
                Err(why) => refused.push((case, why)),
            }
        }
        Self { figures, size, rounds, most: rounds, cases, refused }
    }
    /// The same with further rounds, `most` in all, of what is undecided after the first.
    #[must_use]
    pub fn up_to(self, most: u32) -> Self {
        Self { most: most.max(self.rounds), ..self }
    }
    /// Different cases that are run.
    #[must_use]
    pub fn cases(&self) -> usize {
        self.cases.len()
    }
    /// Seconds that it takes, about.
    #[must_use]
    pub fn estimate_s(&self) -> f64 {
        let direct = self.figures.iter().filter_map(|(it, _)| it.direct.as_ref());
        let direct_s: f64 = direct.map(|direct| (direct.seconds)(self.size)).sum();
        let cases_s: f64 = self.cases.iter().map(plan::estimate_s).sum();
        (cases_s + direct_s) * f64::from(self.rounds)
    }
    /// Figures, cases and time, for people.
    #[must_use]
    pub fn text(&self) -> String {
        let row = |(figure, facets): &(&Figure, Vec<Facet>)| {
            let cases = plan::distinct(facets);
            let each_s: f64 = cases.iter().map(plan::estimate_s).sum();
            let direct_s = figure.direct.as_ref().map_or(0.0, |it| (it.seconds)(self.size));
            let all_s = (each_s + direct_s) * f64::from(self.rounds);
            let cells = [figure.name, &cases.len().to_string(), &minutes(all_s), figure.title];
            cells.map(str::to_owned).into()
        };
        let columns = ["figure", "cases", "alone", "title"].map(str::to_owned).into();
        let rows = self.figures.iter().map(row).collect();
        let title = "Figures (cases that figures share are run once)".to_owned();
        let mut text = Table { title, columns, rows }.text();
        let _ = writeln!(
            text,
            "{} different cases, {} rounds: about {} in all",
            self.cases.len(),
            self.rounds,
            minutes(self.estimate_s())
        );
        if self.most > self.rounds {
            let _ = writeln!(
                text,
                "Undecided claims get further rounds, {} in all, for as long again at most",
                self.most
            );
        }
        if !self.refused.is_empty() {
            let _ = writeln!(text, "{} cases do not fit here and are left out", self.refused.len());
        }
        text
    }

    /// Runs everything and writes `index.html`, `results.jsonl` and one SVG for each figure into
    /// `out`. After Ctrl-C the report has what is finished.
    ///
    /// # Errors
    /// [`RunError`]; unwritable output is found before anything runs.
    pub fn run(
        &self,
        out: &Path,
        command: &str,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Finished, RunError> {
        output::create_directory(out)?;
        let mut results = Records::create(&out.join("results.jsonl"))?;
        let mut measured = Measured::new(self);
        let everything =
            Part { cases: self.cases.clone(), direct: (0..self.figures.len()).collect() };
        let started = Instant::now();
        let first = 1..=self.rounds;
        let mut is_interrupted =
            self.measure(&everything, first, &mut measured, &mut results, progress)?;
        let first_took = started.elapsed();
        for round in self.rounds + 1..=self.most {
            let part = self.undecided(&measured);
            // Claims that the first rounds leave open get as much time again, not more.
            let is_late = started.elapsed() > 2 * first_took;
            if is_interrupted || is_late || part.is_empty() {
                break;
            }
            is_interrupted =
                self.measure(&part, round..=round, &mut measured, &mut results, progress)?;
        }
        let mut report = self.report(&measured, command);
        if is_interrupted {
            report.warnings.push("the run was interrupted: rounds are missing".to_owned());
        }
        for figure in &report.figures {
            figure.verdicts.iter().try_for_each(|verdict| results.add(&line(figure, verdict)))?;
        }
        write_all(out, &report)?;
        Ok(Finished { report, is_interrupted, wrong_rounds: measured.wrong_rounds })
    }

    /// Runs some rounds of some cases, and measures as often what figures measure apart from cases.
    /// Returns whether Ctrl-C came.
    fn measure(
        &self,
        part: &Part,
        rounds: RangeInclusive<u32>,
        measured: &mut Measured,
        results: &mut Records,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<bool, RunError> {
        for (&figure, round) in
            part.direct.iter().flat_map(|it| rounds.clone().map(move |n| (it, n)))
        {
            self.measure_direct(figure, round, measured, results)?;
        }
        let mut failure = None;
        let mut keep = |record: &Record| {
            failure = failure.take().or(results.add(record).err());
            measured.wrong_rounds += usize::from(record.is_wrong());
            measured.cache.add(record.clone());
        };
        let outcome = run_rounds(&part.cases, rounds, progress, &mut keep);
        if let Some(unwritable) = failure {
            return Err(unwritable.into());
        }
        match outcome {
            Ok(_) => Ok(false),
            Err(LabError::Interrupted) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// What a figure measures apart from cases, once.
    fn measure_direct(
        &self,
        number: usize,
        round: u32,
        measured: &mut Measured,
        results: &mut Records,
    ) -> Result<(), Unwritable> {
        let (figure, _) = &self.figures[number];
        let Some(direct) = &figure.direct else { return Ok(()) };
        let panels = match (direct.measure)(self.size) {
            Ok(panels) => panels,
            Err(why) => {
                measured.failures[number].push(format!("round {round}: {why}"));
                return Ok(());
            }
        };
        for panel in &panels {
            for series in &panel.series {
                for point in &series.points {
                    results.add(&json!({
                        "figure": figure.name, "round": round, "panel": panel.title,
                        "metric": panel.y, "series": series.name, "x": point.x,
                        "median": point.y, "low": point.low, "high": point.high,
                    }))?;
                }
            }
        }
        measured.direct[number].insert(round, panels);
        Ok(())
    }

    /// What the rules look at whose claims more rounds can decide.
    fn undecided(&self, measured: &Measured) -> Part {
        let (mut keys, mut direct) = (BTreeSet::new(), Vec::new());
        for (number, (figure, facets)) in self.figures.iter().enumerate() {
            let data = Data::new(facets, &measured.cache, &measured.direct[number]);
            for claim in figure.claims {
                let ruling = judge::rule(&data, claim.judge);
                let is_open = ruling.judgement.outcome == Outcome::Undecided;
                if is_open && ruling.tally.can_be_decided(self.most) {
                    keys.extend(ruling.asked.cases);
                    direct.extend(ruling.asked.direct.then_some(number));
                }
            }
        }
        direct.dedup();
        let cases = self.cases.iter().filter(|case| keys.contains(&plan::key(case)));
        Part { cases: cases.cloned().collect(), direct }
    }

    fn report(&self, measured: &Measured, command: &str) -> Report {
        let figures = self.figures.iter().enumerate().map(|(number, (figure, facets))| {
            let data = Data::new(facets, &measured.cache, &measured.direct[number]);
            let mut report = build::report(figure, &data, self.size);
            report.notes.extend(measured.failures[number].iter().cloned());
            report
        });
        let environment = environment();
        Report {
            environment: machine(environment),
            warnings: environment.warnings.clone(),
            command: command.to_owned(),
            figures: figures.collect(),
        }
    }
}

/// The outcome of the rounds so far.
struct Measured {
    cache: Cache,
    /// Apart from cases, of each figure.
    direct: Vec<Direct>,
    /// Why nothing was measured apart from cases, of each figure.
    failures: Vec<Vec<String>>,
    wrong_rounds: usize,
}

impl Measured {
    fn new(plan: &Plan) -> Self {
        let mut cache = Cache::default();
        plan.refused.iter().for_each(|(case, why)| cache.add(refusal(case, why)));
        let count = plan.figures.len();
        Self {
            cache,
            direct: vec![Direct::new(); count],
            failures: vec![Vec::new(); count],
            wrong_rounds: 0,
        }
    }
}

/// The cases and measurements of a round.
struct Part {
    cases: Vec<Case>,
    /// Numbers of the figures whose measurements apart from cases are due.
    direct: Vec<usize>,
}

impl Part {
    fn is_empty(&self) -> bool {
        self.cases.is_empty() && self.direct.is_empty()
    }
}

/// A verdict as a line of the results.
fn line(figure: &FigureReport, verdict: &Verdict) -> serde_json::Value {
    let why = if let Outcome::Untestable(why) = &verdict.outcome { Some(why) } else { None };
    json!({
        "figure": figure.name, "claim": verdict.claim, "whose": verdict.whose,
        "verdict": verdict.outcome.word(), "why": why, "measured": verdict.measured,
        "rounds": verdict.tally, "cause": verdict.cause,
    })
}

fn refusal(case: &Case, why: &str) -> Record {
    Record {
        algorithm: case.algorithm.clone(),
        case: case.clone(),
        unavailable: Some(why.to_owned()),
        ..Record::default()
    }
}

fn machine(it: &Environment) -> Vec<(String, String)> {
    let commit = it.commit.clone().unwrap_or_else(|| "unknown".to_owned());
    [
        ("processor", it.cpu.clone()),
        ("cores", it.cores.to_string()),
        ("memory", check::human(it.memory_bytes)),
        ("kernel", it.kernel.clone()),
        ("transparent huge pages", it.huge_pages.clone()),
        ("load before the run", format!("{:.2}", it.load)),
        ("build", format!("{}, commit {commit}", it.profile)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn write_all(out: &Path, report: &Report) -> Result<(), Unwritable> {
    let write = |name: String, text: String| output::write(&out.join(name), &text);
    for figure in &report.figures {
        write(format!("{}.svg", figure.name), report::picture(figure))?;
    }
    write("index.html".to_owned(), page::html(report))
}

/// A time for people.
#[must_use]
pub fn minutes(seconds: f64) -> String {
    match seconds {
        s if s < 99.5 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures;

    #[test]
    fn a_plan_tells_figures_cases_and_time() {
        let figures =
            [figures::find("li-10").expect("known"), figures::find("li-15").expect("known")];
        let plan = Plan::new(&figures, Size::QUICK, 2);
        let alone = Plan::new(&figures[..1], Size::QUICK, 2);
        assert_eq!(plan.cases(), alone.cases(), "li-15 shares all of its cases with li-10");
        let text = plan.text();
        assert!(text.contains("li-15") && text.contains("2 rounds"), "{text}");
    }

    #[test]
    fn output_that_cannot_be_written_is_found_before_anything_runs() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let plan = Plan::new(&figures::all(), Size::QUICK, 1);
        let mut rounds = 0;
        let error = plan.run(file.path(), "", &mut |_| rounds += 1).expect_err("it is a file");
        assert!(error.to_string().contains("name another place"), "{error}");
        assert_eq!(rounds, 0);
    }

    #[test]
    fn cases_that_do_not_fit_are_refused_with_a_sentence() {
        let plan = Plan::new(&figures::all(), Size::FULL, 1);
        for (case, why) in &plan.refused {
            assert!(why.contains("memory") || why.contains("large"), "{}: {why}", case.algorithm);
        }
    }
}
