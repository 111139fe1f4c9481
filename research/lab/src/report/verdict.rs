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
    /// Why the claim did not hold here, as far as it was examined.
    pub cause: Option<Cause>,
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
        }
    }
    /// Class in the style sheet.
    #[must_use]
    pub(super) fn class(&self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::NotHeld => "fell",
            Self::Undecided | Self::Untestable(_) => "open",
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

/// Where the reason lies why a claim did not hold here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The paper's own sentence, data or code.
    Paper,
    /// Our substitute for the paper's system.
    Substitution,
    /// This machine.
    Machine,
    /// This kernel.
    Kernel,
    /// Our own algorithm or our own bound.
    Ours,
}

impl Origin {
    /// The origin that a list of causes names by one word.
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

/// How many claims held, did not, are undecided and cannot be tested: those of the papers, then
/// ours.
#[must_use]
pub fn count<'a>(verdicts: impl Iterator<Item = &'a Verdict> + Clone) -> String {
    let of = |whose: Whose, name: &str| {
        let all = verdicts.clone().filter(move |verdict| verdict.whose == whose);
        let [mut held, mut fell, mut undecided, mut untestable] = [0; 4];
        for verdict in all {
            *match verdict.outcome {
                Outcome::Held => &mut held,
                Outcome::NotHeld => &mut fell,
                Outcome::Undecided => &mut undecided,
                Outcome::Untestable(_) => &mut untestable,
            } += 1;
        }
        let total = held + fell + undecided + untestable;
        (total > 0).then(|| {
            format!(
                "Of {total} claims of {name}, {held} held here, {fell} did not, {undecided} are \
                 undecided, {untestable} cannot be tested here."
            )
        })
    };
    let parts = [of(Whose::Papers, "the papers"), of(Whose::Ours, "ours")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
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

    #[test]
    fn the_papers_claims_are_counted_apart() {
        let verdict = |whose, outcome| Verdict {
            claim: String::new(),
            whose,
            outcome,
            measured: String::new(),
            tally: Tally::default(),
            cause: None,
        };
        let verdicts = [
            verdict(Whose::Papers, Outcome::Held),
            verdict(Whose::Papers, Outcome::Undecided),
            verdict(Whose::Ours, Outcome::NotHeld),
            verdict(Whose::Papers, Outcome::Untestable("no machine".to_owned())),
        ];
        assert_eq!(
            count(verdicts.iter()),
            "Of 3 claims of the papers, 1 held here, 0 did not, 1 are undecided, 1 cannot be \
             tested here. Of 1 claims of ours, 0 held here, 1 did not, 0 are undecided, 0 cannot \
             be tested here."
        );
        assert_eq!(count([].iter()), "");
    }
}
