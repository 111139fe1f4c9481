//! Verdicts on claims.

use serde::Serialize;

/// A claim and its outcome here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The claim, in our words.
    pub claim: String,
    /// Who claims it.
    pub whose: Whose,
    /// The outcome.
    pub outcome: Outcome,
    /// The ratio or numbers that decided.
    pub measured: String,
    /// What each round said.
    pub tally: Tally,
    /// Why the claim did not hold or cannot be tested here, as far as it was examined.
    pub cause: Option<Cause>,
    /// How much was run; empty if nothing was.
    pub size: String,
    /// The run that decides the claim.
    pub deciding: String,
}

impl Verdict {
    /// Why the claim was not judged, and the number that decided or would have.
    #[must_use]
    pub fn reason(&self) -> String {
        let measured = Some(&*self.measured).filter(|text| !text.is_empty());
        let parts: Vec<&str> = self.outcome.why().into_iter().chain(measured).collect();
        parts.join("; ")
    }
    /// Where the reason lies that a claim did not hold or was not tested.
    #[must_use]
    pub fn kind(&self) -> Option<Origin> {
        match self.outcome {
            Outcome::TooSmall(_) => Some(Origin::Size),
            Outcome::NotHeld | Outcome::Untestable(_) => self.cause.map(|cause| cause.origin),
            Outcome::Held | Outcome::Undecided | Outcome::NotRun(_) => None,
        }
    }
}

/// Who claims something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Whose {
    /// A paper.
    Papers,
    /// This project.
    Ours,
}

/// The outcome of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Measured here, too.
    Held,
    /// Measured otherwise.
    NotHeld,
    /// The rounds disagree, or are too few to agree.
    Undecided,
    /// Nothing to judge by, and why.
    Untestable(String),
    /// What was run is too small to show the effect, and what would show it.
    TooSmall(String),
    /// What would decide was not run, and what that is.
    NotRun(String),
}

impl Outcome {
    /// In words.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::NotHeld => "not held",
            Self::Undecided => "undecided",
            Self::Untestable(_) => "cannot be tested here",
            Self::TooSmall(_) => "cannot be tested at this size",
            Self::NotRun(_) => "not run yet",
        }
    }
    /// Whether measurements judged the claim.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        matches!(self, Self::Held | Self::NotHeld | Self::Undecided)
    }
    /// Why it was not judged.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Held | Self::NotHeld | Self::Undecided => None,
            Self::Untestable(why) | Self::TooSmall(why) | Self::NotRun(why) => Some(why),
        }
    }
    /// A sign that does not need colour.
    #[must_use]
    pub fn sign(&self) -> &'static str {
        match self {
            Self::Held => "✓",
            Self::NotHeld => "✗",
            Self::Undecided => "?",
            Self::Untestable(_) => "–",
            Self::TooSmall(_) => "▽",
            Self::NotRun(_) => "○",
        }
    }
    /// Class in the style sheet.
    #[must_use]
    pub(super) fn class(&self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::NotHeld => "fell",
            _ => "open",
        }
    }
}

/// In how many rounds a claim held, and in how many it did not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Rounds in which it held.
    pub held: u32,
    /// Rounds in which it did not.
    pub fell: u32,
}

impl Tally {
    /// What the rounds say: two rounds at least, and four of five agree. A bound that the spread of
    /// rounds straddles is decided by neither side.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        let Self { held, fell } = self;
        let rounds = held + fell;
        match held.max(fell) * 5 >= rounds * 4 && rounds >= 2 {
            true if held > fell => Outcome::Held,
            true => Outcome::NotHeld,
            false => Outcome::Undecided,
        }
    }
    /// Whether more rounds, `most` in all, could decide what these leave undecided.
    #[must_use]
    pub fn can_be_decided(self, most: u32) -> bool {
        let Self { held, fell } = self;
        let left = most.saturating_sub(held + fell);
        let decided = |tally: Self| tally.outcome() != Outcome::Undecided;
        decided(Self { held: held + left, fell }) || decided(Self { held, fell: fell + left })
    }
    /// The rounds for people, where they disagree or are one.
    #[must_use]
    pub fn text(self) -> Option<String> {
        let Self { held, fell } = self;
        match (held, fell) {
            (0, 0) => None,
            (1, 0) | (0, 1) => Some("one round shows no spread".to_owned()),
            (_, 0) | (0, _) => None,
            _ => Some(format!("it held in {held} of {} rounds", held + fell)),
        }
    }
}

/// Where the reason lies why a claim did not hold or was not tested here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The paper's own sentence, data or code.
    Paper,
    /// Our substitute for the paper's system.
    Substitution,
    /// This machine.
    Machine,
    /// What was run is too small.
    Size,
    /// This kernel.
    Kernel,
    /// Our own algorithm or our own bound.
    Ours,
}

impl Origin {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 6] =
        [Self::Paper, Self::Substitution, Self::Machine, Self::Size, Self::Kernel, Self::Ours];

    /// The origin that a list of causes names by one word. Size is none: a run's size and that of
    /// the deciding run tell.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "paper" => Self::Paper,
            "substitution" => Self::Substitution,
            "machine" => Self::Machine,
            "kernel" => Self::Kernel,
            "ours" => Self::Ours,
            _ => return None,
        })
    }
    /// In words.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Paper => "the paper",
            Self::Substitution => "our substitution",
            Self::Machine => "the machine",
            Self::Size => "the size",
            Self::Kernel => "the kernel",
            Self::Ours => "ours",
        }
    }
}

/// Why a claim did not hold here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Where the reason lies.
    pub origin: Origin,
    /// The reason.
    pub why: &'static str,
    /// The experiment that decides between this reason and others.
    pub experiment: &'static str,
}

impl Cause {
    /// One sentence or two.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}: {} Decided by: {}", self.origin.word(), self.why, self.experiment)
    }
}

/// How many claims held, did not, are undecided and were not tested, each kind of reason counted
/// apart: those of the papers, then ours.
#[must_use]
pub fn count<'a>(verdicts: impl Iterator<Item = &'a Verdict> + Clone) -> String {
    let of = |whose: Whose, name: &str| {
        let all: Vec<&Verdict> =
            verdicts.clone().filter(|verdict| verdict.whose == whose).collect();
        let of = |is: fn(&Outcome) -> bool| -> Vec<&Verdict> {
            all.iter().copied().filter(|verdict| is(&verdict.outcome)).collect()
        };
        let [fell, untestable] = [
            of(|outcome| *outcome == Outcome::NotHeld),
            of(|outcome| matches!(outcome, Outcome::Untestable(_))),
        ];
        (!all.is_empty()).then(|| {
            format!(
                "Of {} claims of {name}, {} held, {} did not{}, {} are undecided, {} cannot be \
                 tested at this size, {} cannot be tested here{}, {} are not run yet.",
                all.len(),
                of(|outcome| *outcome == Outcome::Held).len(),
                fell.len(),
                kinds(&fell),
                of(|outcome| *outcome == Outcome::Undecided).len(),
                of(|outcome| matches!(outcome, Outcome::TooSmall(_))).len(),
                untestable.len(),
                kinds(&untestable),
                of(|outcome| matches!(outcome, Outcome::NotRun(_))).len(),
            )
        })
    };
    let parts = [of(Whose::Papers, "the papers"), of(Whose::Ours, "ours")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// How many verdicts have each kind of reason, in brackets; nothing where there is no verdict.
fn kinds(verdicts: &[&Verdict]) -> String {
    let number = |kind| verdicts.iter().filter(|verdict| verdict.kind() == kind).count();
    let named = Origin::ALL.iter().map(|kind| (kind.word(), number(Some(*kind))));
    let all = named.chain([("not examined", number(None))]).filter(|(_, number)| *number > 0);
    let parts: Vec<String> = all.map(|(word, number)| format!("{word} {number}")).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(held: u32, fell: u32) -> Outcome {
        Tally { held, fell }.outcome()
    }

    #[test]
    fn rounds_decide_when_four_of_five_agree_and_are_two_at_least() {
        assert_eq!(outcome(0, 0), Outcome::Undecided);
        assert_eq!(outcome(1, 0), Outcome::Undecided, "one round shows no spread");
        assert_eq!(outcome(0, 1), Outcome::Undecided);
        assert_eq!((outcome(2, 0), outcome(0, 2)), (Outcome::Held, Outcome::NotHeld));
        assert_eq!((outcome(1, 1), outcome(3, 1)), (Outcome::Undecided, Outcome::Undecided));
        assert_eq!((outcome(4, 1), outcome(1, 4)), (Outcome::Held, Outcome::NotHeld));
        assert_eq!(outcome(7, 2), Outcome::Undecided);
    }

    #[test]
    fn more_rounds_are_run_where_they_can_decide() {
        let can = |held, fell, most| Tally { held, fell }.can_be_decided(most);
        assert!(can(1, 1, 5) && !can(1, 1, 4), "four against one needs five rounds");
        assert!(can(1, 0, 2) && !can(1, 0, 1));
        assert!(!can(2, 2, 6) && can(2, 2, 10));
        assert!(!can(2, 2, 3), "more rounds than allowed were run already");
    }

    fn verdict(whose: Whose, outcome: Outcome, origin: Option<Origin>) -> Verdict {
        Verdict {
            claim: String::new(),
            whose,
            outcome,
            measured: String::new(),
            tally: Tally::default(),
            cause: origin.map(|origin| Cause { origin, why: "", experiment: "" }),
            size: String::new(),
            deciding: String::new(),
        }
    }

    #[test]
    fn the_papers_claims_and_each_kind_of_reason_are_counted_apart() {
        let why = || "because".to_owned();
        let papers = |outcome, origin| verdict(Whose::Papers, outcome, origin);
        let verdicts = [
            papers(Outcome::Held, None),
            papers(Outcome::Undecided, None),
            papers(Outcome::NotHeld, Some(Origin::Paper)),
            papers(Outcome::NotHeld, Some(Origin::Machine)),
            papers(Outcome::NotHeld, Some(Origin::Machine)),
            papers(Outcome::TooSmall(why()), Some(Origin::Machine)),
            papers(Outcome::Untestable(why()), Some(Origin::Substitution)),
            papers(Outcome::Untestable(why()), None),
            papers(Outcome::NotRun(why()), None),
            verdict(Whose::Ours, Outcome::NotHeld, None),
        ];
        assert_eq!(
            count(verdicts.iter()),
            "Of 9 claims of the papers, 1 held, 3 did not (the paper 1, the machine 2), 1 are \
             undecided, 1 cannot be tested at this size, 2 cannot be tested here (our \
             substitution 1, not examined 1), 1 are not run yet. Of 1 claims of ours, 0 held, 1 \
             did not (not examined 1), 0 are undecided, 0 cannot be tested at this size, 0 cannot \
             be tested here, 0 are not run yet."
        );
        assert_eq!(count([].iter()), "");
    }

    #[test]
    fn a_run_that_is_too_small_is_of_no_other_kind() {
        let small = Outcome::TooSmall(String::new());
        let verdict = verdict(Whose::Papers, small, Some(Origin::Substitution));
        assert_eq!(verdict.kind(), Some(Origin::Size));
        assert_eq!(verdict.outcome.word(), "cannot be tested at this size");
        assert!(!verdict.outcome.is_measured());
    }
}
