//! Ranges of members, by rank, by score, or by name; all become ranges of ranks.

use std::ops::Range;

use stillframe_keyspace::Sorted;

use crate::errors::Refusal;
use crate::number::doubles::parse_bound;
use crate::number::integers::clamp_elements;

/// A range of scores.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScoreRange {
    min: f64,
    max: f64,
    without_min: bool,
    without_max: bool,
}

impl ScoreRange {
    /// Reads both ends: `1.5`, or `(1.5` without the end itself.
    pub(super) fn parse(min: &[u8], max: &[u8]) -> Result<Self, Refusal> {
        let bound = |text: &[u8]| match text {
            [b'(', number @ ..] => parse_bound(number).map(|value| (value, true)),
            number => parse_bound(number).map(|value| (value, false)),
        };
        match (bound(min), bound(max)) {
            (Some((min, without_min)), Some((max, without_max))) => {
                Ok(Self { min, max, without_min, without_max })
            }
            _ => Err("ERR min or max is not a float".into()),
        }
    }

    /// The ranks of the members in it.
    pub(super) fn ranks(&self, set: Sorted<'_>) -> Range<usize> {
        let start = set.below_score(self.min, self.without_min);
        start..set.below_score(self.max, !self.without_max).max(start)
    }
}

/// One end of a range of members.
#[derive(Debug, Clone, Copy)]
enum Bound<'a> {
    /// Before all members.
    First,
    /// Behind all members.
    Last,
    At(&'a [u8]),
    /// Without the member itself.
    Beyond(&'a [u8]),
}

impl<'a> Bound<'a> {
    fn parse(text: &'a [u8]) -> Option<Self> {
        match text {
            [b'-'] | [b'-', 0, ..] => Some(Self::First),
            [b'+'] | [b'+', 0, ..] => Some(Self::Last),
            [b'[', member @ ..] => Some(Self::At(member)),
            [b'(', member @ ..] => Some(Self::Beyond(member)),
            _ => None,
        }
    }
}

/// A range of members of one score.
#[derive(Debug, Clone, Copy)]
pub(super) struct NameRange<'a> {
    min: Bound<'a>,
    max: Bound<'a>,
}

impl<'a> NameRange<'a> {
    /// Reads both ends: `-`, `+`, `[member`, or `(member` without the member itself.
    pub(super) fn parse(min: &'a [u8], max: &'a [u8]) -> Result<Self, Refusal> {
        match (Bound::parse(min), Bound::parse(max)) {
            (Some(min), Some(max)) => Ok(Self { min, max }),
            _ => Err("ERR min or max not valid string range item".into()),
        }
    }

    /// The ranks of the members in it.
    pub(super) fn ranks(&self, set: Sorted<'_>) -> Range<usize> {
        let start = match self.min {
            Bound::First => 0,
            Bound::Last => set.len(),
            Bound::At(member) => below(set, member, false),
            Bound::Beyond(member) => below(set, member, true),
        };
        let end = match self.max {
            Bound::First => 0,
            Bound::Last => set.len(),
            Bound::At(member) => below(set, member, true),
            Bound::Beyond(member) => below(set, member, false),
        };
        start..end.max(start)
    }
}

/// How many members come before `member` by their names, itself included if `inclusive`. If scores
/// differ, that has a meaning only where the order of names is that of scores.
fn below(set: Sorted<'_>, member: &[u8], inclusive: bool) -> usize {
    let score = |rank| set.at(rank).map(|(_, score)| score);
    if score(0) == score(set.len().saturating_sub(1)) {
        return set.below_member(member, inclusive);
    }
    let (mut low, mut high) = (0, set.len());
    while low < high {
        let middle = low.midpoint(high);
        match set.at(middle) {
            Some((name, _)) if name < member || inclusive && name == member => low = middle + 1,
            _ => high = middle,
        }
    }
    low
}

/// A range of any kind.
#[derive(Debug, Clone, Copy)]
pub(super) enum Span<'a> {
    /// From the first to the second, inclusive; negative ones count from the end.
    Ranks(i64, i64),
    Scores(ScoreRange),
    Names(NameRange<'a>),
}

impl Span<'_> {
    /// The ranks in it. Ranks of a reversed set count from the highest member.
    pub(super) fn ranks(&self, set: Sorted<'_>, reversed: bool) -> Range<usize> {
        match self {
            Self::Scores(range) => range.ranks(set),
            Self::Names(range) => range.ranks(set),
            Self::Ranks(start, stop) => {
                let range = clamp_elements(*start, *stop, set.len());
                match reversed && !range.is_empty() {
                    true => set.len() - range.end..set.len() - range.start,
                    false => range,
                }
            }
        }
    }
}
