//! Running figures: plan, rounds, report.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use serde_json::json;

use super::data::{Asked, Cache, Data, Direct};
use super::judge::Judgement;
use super::plan::{self, Facet, Size};
use super::{Figure, build, deciding};
use crate::case::Case;
use crate::case::check;
use crate::case::record::Record;
use crate::error::{LabError, sentence};
use crate::output::{self, Records, Unwritable};
use crate::report::{self, FigureReport, Outcome, Report, Table, Verdict, page, summary};
use crate::rounds::{Progress, run_rounds};
use stillframe_measure::{Environment, environment};

/// Rounds of the scaled set.
pub const QUICK_ROUNDS: u32 = 2;
/// Rounds of the papers' own set.
pub const FULL_ROUNDS: u32 = 3;

/// Most rounds of a claim that the first rounds leave undecided.
pub const MOST_ROUNDS: u32 = 6;
/// Longest time of those further rounds in the scaled set.
const QUICK_FURTHER_S: f64 = 240.0;
/// The same with states of the papers' size.
const LARGE_FURTHER_S: f64 = 1200.0;

/// The plan of a run.
#[derive(Debug)]
pub struct Plan {
    figures: Vec<(&'static Figure, Vec<Facet>)>,
    size: Size,
    rounds: u32,
    /// Most rounds of what is undecided after the first ones.
    most: u32,
    cases: Vec<Case>,
    /// Records of the cases that this machine has no room for.
    refused: Vec<Record>,
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
                Err(why) => {
                    refused.push(Record { unavailable: Some(sentence(&why)), ..Record::new(&case) })
                }
            }
        }
        Self { figures, size, rounds, most: rounds, cases, refused }
    }
    /// The same with further rounds, `most` in all, of what is undecided after the first.
    #[must_use]
    pub fn up_to(self, most: u32) -> Self {
        Self { most: most.max(self.rounds), ..self }
    }
    /// Seconds that further rounds may take if the first ones took `first_s`: as long again, or
    /// some minutes where the figures are cut down.
    fn further_s(&self, first_s: f64) -> f64 {
        let longest_s = self.size.pick(QUICK_FURTHER_S, LARGE_FURTHER_S, f64::INFINITY);
        if self.most > self.rounds { first_s.min(longest_s) } else { 0.0 }
    }
    /// Seconds that it takes at most with further rounds, about.
    #[must_use]
    pub fn longest_s(&self) -> f64 {
        let first_s = self.estimate_s();
        first_s + self.further_s(first_s)
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
                "Undecided claims get further rounds, {} in all, for {} more at most",
                self.most,
                minutes(self.further_s(self.estimate_s()))
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
        let measuring = self.measure_all(&mut measured, &mut results, progress);
        let is_interrupted = matches!(measuring, Err(RunError::Lab(LabError::Interrupted)));
        let mut report = self.report(&measured, command);
        if let Err(why) = &measuring {
            report.warnings.push(format!("rounds are missing: {why}"));
        }
        for figure in &report.figures {
            figure.verdicts.iter().try_for_each(|verdict| results.add(&line(figure, verdict)))?;
        }
        write_all(out, &report)?;
        match measuring {
            Err(error) if !is_interrupted => Err(error),
            _ => Ok(Finished { report, is_interrupted, wrong_rounds: measured.wrong_rounds }),
        }
    }

    /// The first rounds of everything, then further ones of what is undecided.
    fn measure_all(
        &self,
        measured: &mut Measured,
        results: &mut Records,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), RunError> {
        let everything =
            Part { cases: self.cases.clone(), direct: (0..self.figures.len()).collect() };
        let started = Instant::now();
        self.measure(&everything, 1..=self.rounds, measured, results, progress)?;
        let first_s = started.elapsed().as_secs_f64();
        // How much longer than estimated rounds take here.
        let slowness = (first_s / self.estimate_s().max(1e-3)).min(10.0);
        let end_s = first_s + self.further_s(first_s);
        for round in self.rounds + 1..=self.most {
            let left_s = end_s - started.elapsed().as_secs_f64();
            let part = self.undecided(measured, left_s / slowness);
            if part.is_empty() {
                break;
            }
            self.measure(&part, round..=round, measured, results, progress)?;
        }
        Ok(())
    }

    /// Runs some rounds of some cases, and measures as often what figures measure apart from cases.
    fn measure(
        &self,
        part: &Part,
        rounds: RangeInclusive<u32>,
        measured: &mut Measured,
        results: &mut Records,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), RunError> {
        for (&figure, round) in
            part.direct.iter().flat_map(|it| rounds.clone().map(move |n| (it, n)))
        {
            self.measure_direct(figure, round, measured, results)?;
        }
        let mut failure = None;
        let mut keep = |record: &Record| {
            failure = failure.take().or(results.add(&measured.line(record)).err());
            measured.wrong_rounds += usize::from(record.is_wrong());
            measured.cache.add(record.clone());
        };
        let outcome = run_rounds(&part.cases, rounds, progress, &mut keep);
        if let Some(unwritable) = failure {
            return Err(unwritable.into());
        }
        outcome.map(|_| ()).map_err(RunError::from)
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
        let panels = match guarded(|| (direct.measure)(self.size)) {
            Ok(panels) => panels,
            Err(why) => {
                measured.failures[number].push(format!("round {round}: {}", sentence(&why)));
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

    /// What the rules look at whose claims more rounds can decide, as far as a round of it takes no
    /// longer than that: first the claims that need least.
    fn undecided(&self, measured: &Measured, most_s: f64) -> Part {
        let mut open = Vec::new();
        for (number, (figure, facets)) in self.figures.iter().enumerate() {
            let data = Data::new(facets, &measured.cache, &measured.direct[number]);
            for claim in figure.claims {
                let judged = guarded(|| Ok(deciding::verdict(figure, claim, &data, self.size)));
                let Ok(deciding::Verdict { ruling, .. }) = judged else { continue };
                let Judgement { outcome, recorded, .. } = &ruling.judgement;
                let is_open = *outcome == Outcome::Undecided && recorded.is_none();
                if is_open && ruling.tally.can_be_decided(self.most) {
                    open.push(self.part(&ruling.asked, number));
                }
            }
        }
        open.sort_by(|a, b| self.part_s(a).total_cmp(&self.part_s(b)));
        open.iter().fold(Part::default(), |all, part| {
            let more = all.with(part);
            if self.part_s(&more) <= most_s { more } else { all }
        })
    }

    /// What a rule of the figure of that number looked at.
    fn part(&self, asked: &Asked, number: usize) -> Part {
        let cases = self.cases.iter().filter(|case| asked.cases.contains(&plan::key(case)));
        Part {
            cases: cases.cloned().collect(),
            direct: asked.direct.then_some(number).into_iter().collect(),
        }
    }

    /// Seconds of a round of that, about.
    fn part_s(&self, part: &Part) -> f64 {
        let direct =
            part.direct.iter().filter_map(|&number| self.figures[number].0.direct.as_ref());
        let direct_s: f64 = direct.map(|direct| (direct.seconds)(self.size)).sum();
        part.cases.iter().map(plan::estimate_s).sum::<f64>() + direct_s
    }

    fn report(&self, measured: &Measured, command: &str) -> Report {
        let figures = self.figures.iter().enumerate().map(|(number, (figure, facets))| {
            let data = Data::new(facets, &measured.cache, &measured.direct[number]);
            let built = guarded(|| Ok(build::report(figure, &data, self.size)));
            let mut report = built.unwrap_or_else(|why| build::failed(figure, sentence(&why)));
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
    is_machine_told: bool,
}

impl Measured {
    /// A record as a line of the results: without what is empty, with the machine in the first line
    /// alone, and every tick of the first round alone, which plots show.
    fn line(&mut self, record: &Record) -> serde_json::Value {
        let mut line = json!(record);
        if let Some(fields) = line.as_object_mut() {
            fields.retain(|_, value| !value.is_null() && *value != json!([]));
            if self.is_machine_told {
                fields.remove("environment");
            }
            if record.round > 1 {
                fields.remove("trace_ms");
            }
        }
        self.is_machine_told = true;
        line
    }
    fn new(plan: &Plan) -> Self {
        let mut cache = Cache::default();
        plan.refused.iter().for_each(|record| cache.add(record.clone()));
        let count = plan.figures.len();
        Self {
            cache,
            direct: vec![Direct::new(); count],
            failures: vec![Vec::new(); count],
            wrong_rounds: 0,
            is_machine_told: false,
        }
    }
}

/// Runs a part of one figure: if it panics, the other figures go on.
fn guarded<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    // What it looks at is not changed by it, so that a panic leaves nothing half done.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        bail!("the measurement panicked: {}", text.unwrap_or_default())
    })
}

/// What a round is run of.
#[derive(Debug, Clone, Default)]
struct Part {
    cases: Vec<Case>,
    /// Numbers of the figures whose measurements apart from cases are due.
    direct: Vec<usize>,
}

impl Part {
    fn is_empty(&self) -> bool {
        self.cases.is_empty() && self.direct.is_empty()
    }
    /// Both, with what they share once.
    fn with(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.cases.extend(other.cases.iter().filter(|case| !self.cases.contains(case)).cloned());
        all.direct.extend(other.direct.iter().filter(|it| !self.direct.contains(it)));
        all
    }
}

/// A verdict as a line of the results.
fn line(figure: &FigureReport, verdict: &Verdict) -> serde_json::Value {
    json!({
        "figure": figure.name, "claim": verdict.claim, "whose": verdict.whose,
        "verdict": verdict.outcome.word(), "why": verdict.outcome.why(), "kind": verdict.kind(),
        "measured": verdict.measured, "rounds": verdict.tally, "size": verdict.size,
        "cause": verdict.cause, "deciding": verdict.deciding,
    })
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
    write("README.md".to_owned(), summary::markdown(report))?;
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

    /// A figure whose measurement and whose rule are broken.
    static BROKEN: Figure = Figure {
        name: "broken",
        source: "none",
        title: "a figure that fails",
        direct: Some(figures::Direct {
            seconds: |_| 0.1,
            extent: |_| figures::deciding::Extent { amount: 1.0, unit: "clock" },
            measure: |_| panic!("no such clock"),
        }),
        claims: &[figures::Claim {
            id: "works",
            text: "it works",
            judge: |_| panic!("no such rule"),
        }],
        ..Figure::BLANK
    };

    #[test]
    fn a_figure_that_fails_is_named_and_the_others_go_on() {
        let out = tempfile::tempdir().expect("a folder");
        let other = figures::find("async-fork-11").expect("known");
        let plan = Plan::new(&[&BROKEN, other], Size { shrink: 100, ..Size::QUICK }, 1).up_to(2);
        let finished = plan.run(out.path(), "lab all", &mut |_| ()).expect("it goes on");
        let [broken, other] = &finished.report.figures[..] else { panic!("two figures") };
        let Outcome::Untestable(why) = &broken.verdicts[0].outcome else { panic!("{broken:?}") };
        assert!(why.contains("no such rule"), "{why}");
        assert!(broken.notes.iter().any(|note| note.contains("no such clock")), "{broken:?}");
        assert!(!other.panels.is_empty() && !finished.is_interrupted);
        for name in ["index.html", "README.md", "async-fork-11.svg"] {
            assert!(out.path().join(name).exists(), "{name}");
        }
    }

    #[test]
    fn what_is_undecided_is_run_again_as_far_as_time_allows() {
        let li = figures::find("li-19").expect("known");
        let plan = Plan::new(&[li], Size::QUICK, 1).up_to(3);
        let mut measured = Measured::new(&plan);
        for case in &plan.cases {
            measured.cache.add(Record { round: 1, ticks_run: 1, ..Record::new(case) });
        }
        let all = plan.undecided(&measured, f64::INFINITY);
        let few = plan.undecided(&measured, plan.part_s(&all) / 2.0);
        assert!(plan.part_s(&few) <= plan.part_s(&all) / 2.0);
        assert!(plan.undecided(&measured, 0.0).is_empty());
    }

    #[test]
    fn records_tell_the_machine_once() {
        let mut measured = Measured::new(&Plan::new(&[], Size::QUICK, 1));
        let record = |round| Record { round, trace_ms: Some(vec![1.0]), ..Record::default() };
        let [first, second] = [1, 2].map(|round| measured.line(&record(round)));
        assert!(first.get("environment").is_some() && first.get("trace_ms").is_some());
        assert!(second.get("environment").is_none() && second.get("trace_ms").is_none());
        assert!(first.get("failed").is_none(), "empty fields are left out: {first}");
        let read: Record = serde_json::from_value(second).expect("a record");
        assert_eq!(read.round, 2);
    }

    #[test]
    fn cases_that_do_not_fit_are_refused_with_a_sentence() {
        let plan = Plan::new(&figures::all(), Size::FULL, 1);
        for record in &plan.refused {
            let why = record.unavailable.as_deref().expect("refused");
            assert!(why.contains("memory") || why.contains("large"), "{}: {why}", record.algorithm);
        }
    }
}
