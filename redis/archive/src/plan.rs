//! What is uploaded next: a function of the set that is being filled, of what waits, and of nothing
//! else, so that it is the same after any restart.
//!
//! - A log before its images: an image is archived when the log up to it is. So between two images
//!   of a generation a set has every record, and a manifest never names an image whose log is
//!   missing.
//! - Generations in their order; the log of the last one is open, and grows by parts.
//! - If the next segment does not begin where the archived log ends, records are missing, or the
//!   directory went back in time: the rest is another history, and begins a set.

use std::collections::BTreeSet;

use crate::manifest::{Image, Segment, Set};
use crate::mutant::{Mutant, Mutation};
use crate::spool::{Facts, Pending, What};

/// A step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Begins a set, for this reason.
    Begin(String),
    /// A file need not be archived.
    Forget(What),
    /// The archived parts of a segment are all there is.
    Close { generation: u64, first: u64 },
    /// Uploads a segment to its end; a later one begins with record `until`.
    Whole { generation: u64, first: u64, until: Option<u64> },
    /// Uploads what is new in the open segment, if there is something. Not urgent unless an image
    /// waits for it.
    Tail { generation: u64, first: u64, is_urgent: bool },
    /// Uploads an image.
    Image(Facts),
}

/// What the steps depend on.
pub(crate) struct Plan<'a> {
    pub(crate) set: &'a Set,
    pub(crate) pending: &'a [Pending],
    pub(crate) image_period_ms: u64,
}

impl Plan<'_> {
    /// All steps that can be taken now, the first one first.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let generations: BTreeSet<u64> =
            self.pending.iter().map(|it| generation(&it.what)).collect();
        let mut steps: Vec<Step> = self.archived_images().map(Step::Forget).collect();
        if !Mutation::current().is(Mutant::DivergenceIgnored) {
            steps.extend(self.begun_again());
        }
        if !steps.is_empty() {
            return steps;
        }
        for generation in generations {
            if self.of_generation(generation, &mut steps) {
                break;
            }
        }
        steps
    }

    /// Adds the steps of a generation; true if those of the next have to wait.
    fn of_generation(&self, generation: u64, steps: &mut Vec<Step>) -> bool {
        let images: Vec<&Facts> = self.images().filter(|it| it.generation == generation).collect();
        let archived = self.set.last_segment(generation);
        let wanted = images.iter().map(|it| it.from).filter(|&from| from > 0).min();
        if let Some(archived) = archived {
            self.go_on(generation, archived, &images, steps);
        } else if let Some(from) = wanted {
            self.begin_log(generation, from, &images, steps);
        } else if self.is_over(generation) {
            steps
                .extend(self.firsts(generation).filter_map(|first| self.forget(generation, first)));
        }
        let is_busy = |step: &Step| !matches!(step, Step::Tail { is_urgent: false, .. });
        if steps.iter().any(is_busy) {
            return true;
        }
        self.take_images(generation, &images, archived, steps);
        steps.iter().any(is_busy)
    }

    fn images(&self) -> impl Iterator<Item = &Facts> {
        self.pending.iter().filter_map(|it| match &it.what {
            What::Image(facts) => Some(facts),
            What::Segment { .. } => None,
        })
    }

    /// Pending images that the set has; a merge may have changed what a checkpoint builds on.
    fn archived_images(&self) -> impl Iterator<Item = What> {
        let is_archived = |it: &&Facts| self.set.images.iter().any(|image| it.is(image));
        self.images().filter(is_archived).map(|it| What::Image(it.clone()))
    }

    /// An image that cannot follow those of the set: their numbers only grow.
    fn begun_again(&self) -> Option<Step> {
        self.images().find_map(|it| {
            let mut before =
                self.set.images.iter().filter(|image| image.generation == it.generation);
            if self.set.store {
                let is_other = before.clone().any(|image| image.number == it.number);
                let is_old = before.any(|image| image.number > it.number);
                return match (is_other, is_old) {
                    (true, _) => Some(Step::Begin(format!(
                        "checkpoint {} is another than the archived one",
                        it.number
                    ))),
                    (false, true) => Some(Step::Forget(What::Image(it.clone()))),
                    (false, false) => None,
                };
            }
            let log = self.set.segments.iter().filter(|log| log.generation == it.generation);
            let first = log.map(|log| log.first).min().filter(|_| it.from > 0);
            let last = before.map(|image| image.from).max().max(first)?;
            (it.from < last).then(|| {
                Step::Begin(format!(
                    "the directory went back: an image lacks record {}, which the archive has one \
                     of",
                    it.from
                ))
            })
        })
    }

    /// The first records of the pending segments of a log, rising.
    fn firsts(&self, of: u64) -> impl Iterator<Item = u64> {
        self.pending.iter().filter_map(move |it| match it.what {
            What::Segment { generation, first, .. } if generation == of => Some(first),
            _ => None,
        })
    }

    fn segment(&self, of: u64, at: u64) -> Option<&What> {
        self.pending.iter().map(|it| &it.what).find(|what| {
            matches!(what, What::Segment { generation, first, .. }
                if *generation == of && *first == at)
        })
    }

    /// What tells a pending segment from others of its numbers.
    fn identity(&self, generation: u64, first: u64) -> &str {
        match self.segment(generation, first) {
            Some(What::Segment { identity, .. }) => identity,
            _ => "",
        }
    }

    fn forget(&self, generation: u64, first: u64) -> Option<Step> {
        self.segment(generation, first).map(|what| Step::Forget(what.clone()))
    }

    /// Whether a later image shows that a log takes no more records.
    fn is_over(&self, generation: u64) -> bool {
        self.images().any(|it| it.generation > generation)
            || self.set.images.iter().any(|it| it.generation > generation)
    }

    /// The first segment of a log in this set: the one in which the first image's position lies.
    fn begin_log(&self, generation: u64, from: u64, images: &[&Facts], steps: &mut Vec<Step>) {
        let firsts: Vec<u64> = self.firsts(generation).collect();
        match firsts.iter().rposition(|&first| first <= from) {
            Some(at) => {
                steps.extend(
                    firsts[..at].iter().filter_map(|&first| self.forget(generation, first)),
                );
                if steps.is_empty() {
                    let until = firsts.get(at + 1).copied();
                    self.upload(generation, firsts[at], until, true, steps);
                }
            }
            // Its log was not linked yet, or is gone.
            None if firsts.is_empty() && !self.is_over(generation) => {}
            None => {
                let lost = images.iter().filter(|it| it.from == from);
                steps.extend(lost.map(|&it| Step::Forget(What::Image(it.clone()))));
            }
        }
    }

    fn upload(
        &self,
        generation: u64,
        first: u64,
        until: Option<u64>,
        is_urgent: bool,
        steps: &mut Vec<Step>,
    ) {
        steps.push(if until.is_some() || self.is_over(generation) {
            Step::Whole { generation, first, until }
        } else {
            Step::Tail { generation, first, is_urgent }
        });
    }

    /// Whether a pending segment is no part of the archived log.
    fn is_another(
        &self,
        generation: u64,
        first: u64,
        archived: &Segment,
        images: &[&Facts],
    ) -> bool {
        let mut own = self.set.segments.iter().filter(|it| it.generation == generation);
        let is_between = own.clone().any(|it| it.first < first) && first < archived.first;
        let Some(own) = own.find(|it| it.first == first) else { return is_between };
        // One without records was replaced at a start. If a newer image is there, it may also be
        // another log, which begins with that image and has the numbers of this one.
        let before = self.set.images.iter().filter(|it| it.generation == generation);
        let newest = before.map(|it| it.begun_ms).max();
        let may_be_another = own.end >= first || images.iter().any(|it| Some(it.begun_ms) > newest);
        may_be_another && self.identity(generation, first) != own.identity
    }

    /// The log behind its newest archived segment.
    fn go_on(&self, generation: u64, archived: &Segment, images: &[&Facts], steps: &mut Vec<Step>) {
        let mutation = Mutation::current();
        let (mut is_there, mut next) = (false, None);
        for first in self.firsts(generation) {
            if self.is_another(generation, first, archived, images)
                && !mutation.is(Mutant::DivergenceIgnored)
            {
                steps.push(Step::Begin(format!(
                    "segment {first} of log {generation} is another than the archived one"
                )));
                return;
            }
            if first > archived.first {
                next = next.or(Some(first));
            } else if first < archived.first || archived.closed {
                steps.extend(self.forget(generation, first));
            } else {
                is_there = true;
            }
        }
        if !steps.is_empty() {
            return;
        }
        if let Some(next) = next {
            if next <= archived.end && !mutation.is(Mutant::DivergenceIgnored) {
                steps.push(Step::Begin(format!(
                    "the directory went back: record {next} of log {generation} was written again"
                )));
                return;
            }
            if !archived.closed && is_there {
                steps.push(Step::Whole { generation, first: archived.first, until: Some(next) });
                return;
            }
            let (from, to) = (archived.end + 1, next - 1);
            let why = format!("records {from} to {to} of log {generation} are in no file any more");
            // A set that begins for that reason and lacks them, too, has a damaged file.
            let is_gap = from <= to && self.set.why != why;
            if is_gap && !mutation.is(Mutant::GapIgnored) {
                steps.push(Step::Begin(why));
                return;
            }
            let first = archived.first;
            if !archived.closed {
                steps.push(Step::Close { generation, first });
                return;
            }
            let until = self.firsts(generation).find(|&first| first > next);
            self.upload(generation, next, until, true, steps);
        } else if !archived.closed && is_there {
            let first = archived.first;
            if self.is_over(generation) {
                steps.push(Step::Whole { generation, first, until: None });
            } else {
                let is_urgent = images.iter().any(|it| it.from > archived.end + 1);
                steps.push(Step::Tail { generation, first, is_urgent });
            }
        }
    }

    /// Whether records are missing between the log of an earlier generation and a first image:
    /// numbers go on from one log to the next.
    fn gap_before(&self, generation: u64, from: u64) -> Option<Step> {
        if generation == 0 || self.set.images.iter().any(|it| it.generation == generation) {
            return None;
        }
        let before = self.set.segments.iter().filter(|it| it.generation < generation);
        let end = before.map(|it| it.end).max()?;
        let is_gap = from > end + 1 && !Mutation::current().is(Mutant::GapIgnored);
        is_gap.then(|| {
            Step::Begin(format!(
                "records {} to {} before log {generation} are in no file any more",
                end + 1,
                from - 1
            ))
        })
    }

    /// Images whose log is archived.
    fn take_images(
        &self,
        generation: u64,
        images: &[&Facts],
        archived: Option<&Segment>,
        steps: &mut Vec<Step>,
    ) {
        let forget = |it: &Facts| Step::Forget(What::Image(it.clone()));
        let is_covered = |it: &Facts| {
            it.from == 0 || archived.is_some_and(|archived| it.from <= archived.end + 1)
        };
        let ready: Vec<&Facts> = images.iter().filter(|it| is_covered(it)).copied().collect();
        if self.set.store {
            let has = |number| self.set.images.iter().any(|it: &Image| it.number == number);
            // In the order of their numbers: an increment after what it builds on.
            let first = ready.iter().min_by_key(|it| it.number);
            if let Some(&first) = first {
                let is_whole = first.base == 0 || has(first.base);
                steps.push(if is_whole { Step::Image(first.clone()) } else { forget(first) });
            }
            return;
        }
        let Some(&newest) = ready.last() else { return };
        if let Some(gap) = self.gap_before(generation, ready[0].from) {
            steps.push(gap);
            return;
        }
        let before = self.set.images.iter().rev().find(|it| it.generation == generation);
        let chosen = match before {
            // The first leads to all states of its log.
            None if generation > 0 => ready[0],
            _ => newest,
        };
        let is_soon = |before: &Image| {
            let passed = chosen.begun_ms.checked_sub(before.begun_ms);
            generation > 0 && passed.is_some_and(|passed| passed < self.image_period_ms)
        };
        if !before.is_some_and(is_soon) {
            let older = ready.iter().take_while(|&&it| it != chosen);
            steps.extend(older.map(|it| forget(it)));
            steps.push(Step::Image(chosen.clone()));
        }
    }
}

fn generation(what: &What) -> u64 {
    match what {
        What::Image(facts) => facts.generation,
        What::Segment { generation, .. } => *generation,
    }
}
