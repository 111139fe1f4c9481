//! Which elements HRANDFIELD, SRANDMEMBER, SPOP and ZRANDMEMBER take.

use std::collections::HashSet;

use stillframe_keyspace::Hash;

use crate::errors::{NOT_AN_INTEGER, OUT_OF_RANGE, Refusal};
use crate::random::Random;

/// Replies above this are refused: a count of repeated elements has no bound of its own.
const REPEATED_MAX: usize = 1 << 24;

/// How many elements a random command is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    /// This many at most, each once.
    Distinct(usize),
    /// This number, each drawn from all.
    Repeated(usize),
}

impl Count {
    /// Reads a count: negative ones allow repetition. The reply may have `reply_bytes` at most.
    pub(super) fn parse(text: &[u8], reply_bytes: usize) -> Result<Self, Refusal> {
        // An element takes as many bytes of a reply: $0, two line ends.
        const ELEMENT_BYTES_MIN: usize = 6;
        let count = stillframe_resp::parse_integer(text).ok_or(NOT_AN_INTEGER)?;
        let magnitude = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        match count {
            i64::MIN => Err("ERR value is out of range, value must between \
                             -9223372036854775807 and 9223372036854775807"
                .into()),
            0.. => Ok(Self::Distinct(magnitude)),
            // More than the client may be sent, which closes it: this many are enough for that.
            _ if magnitude > reply_bytes / ELEMENT_BYTES_MIN && reply_bytes < REPEATED_MAX => {
                Ok(Self::Repeated(reply_bytes / ELEMENT_BYTES_MIN + 1))
            }
            _ if magnitude > REPEATED_MAX => Err(OUT_OF_RANGE),
            _ => Ok(Self::Repeated(magnitude)),
        }
    }

    /// The ranks of the elements to take of `length`, which is not zero.
    pub(super) fn ranks(self, random: &mut Random, length: usize) -> Vec<usize> {
        match self {
            Self::Repeated(count) => (0..count).map(|_| random.below(length)).collect(),
            Self::Distinct(count) if count >= length => (0..length).collect(),
            Self::Distinct(count) => distinct(random, length, count),
        }
    }
}

/// `count` different numbers below `length`, every choice being as likely.
pub(super) fn distinct(random: &mut Random, length: usize, count: usize) -> Vec<usize> {
    if count > length / 4 {
        // Each in turn, with the probability that leaves as many as are still wanted.
        let mut wanted = count;
        let chosen = |rank: &usize| {
            let takes = random.below(length - rank) < wanted;
            wanted -= usize::from(takes);
            takes
        };
        return (0..length).filter(chosen).collect();
    }
    let mut seen = HashSet::with_capacity(count);
    let mut ranks = Vec::with_capacity(count);
    while ranks.len() < count {
        let rank = random.below(length);
        if seen.insert(rank) {
            ranks.push(rank);
        }
    }
    ranks
}

/// A field with its value.
pub(super) type Drawn<'h> = (&'h [u8], &'h [u8]);

/// Fields drawn from all of a hash; none if all are hidden. Each takes O(log n), whatever is
/// hidden.
pub(super) struct Draws<'h, 'r> {
    hash: Hash<'h>,
    random: &'r mut Random,
    /// Ranks that may still be those of hidden fields: each field that is drawn adds some.
    misses: usize,
}

impl<'h, 'r> Draws<'h, 'r> {
    /// Where at least one field in five is shown, each is as likely as the others.
    const MISSES_EACH: usize = 4;
    /// What a field that is drawn alone has: where one in four is shown, enough but for one draw in
    /// ten thousand.
    const MISSES: usize = 32;

    pub(super) fn new(hash: Hash<'h>, random: &'r mut Random) -> Self {
        Self { hash, random, misses: Self::MISSES }
    }

    /// A field by its rank, each as likely as the others; nothing after too many misses.
    fn next_by_rank(&mut self) -> Option<Drawn<'h>> {
        while self.misses > 0 {
            let rank = self.random.below(self.hash.len_with_hidden());
            if let Some(drawn) = self.hash.at(rank) {
                self.misses += Self::MISSES_EACH;
                return Some(drawn);
            }
            self.misses -= 1;
        }
        None
    }
}

impl<'h> Iterator for Draws<'h, '_> {
    type Item = Drawn<'h>;

    fn next(&mut self) -> Option<Drawn<'h>> {
        self.next_by_rank().or_else(|| self.hash.random(|count| self.random.below(count)))
    }
}

/// Different fields of a hash that hides some: `count` of them, or all that it shows.
pub(super) fn distinct_shown<'h>(
    hash: Hash<'h>,
    random: &mut Random,
    count: usize,
) -> Vec<Drawn<'h>> {
    /// Of as many fields in memory, those that are shown are collected first.
    const COLLECTED: usize = 1024;
    let whole = hash.len_with_hidden();
    if whole <= COLLECTED {
        let shown: Vec<_> = hash.iter().collect();
        let take = count.min(shown.len());
        return distinct(random, shown.len(), take).iter().map(|&rank| shown[rank]).collect();
    }
    let (mut fields, mut names) = (Vec::new(), HashSet::new());
    let first = random.below(whole);
    let mut draws = Draws::new(hash, random);
    while fields.len() < count
        && let Some(drawn) = draws.next_by_rank()
    {
        if names.insert(drawn.0) {
            fields.push(drawn);
        } else {
            // One that was drawn before is a miss, too.
            draws.misses = draws.misses.saturating_sub(1 + Draws::MISSES_EACH);
        }
    }
    // Those that follow any rank, all the way round.
    let round = hash.fields_from(first).chain(hash.fields());
    let others = round.map(|it| (it.field, it.value)).filter(|it| names.insert(it.0));
    let missing = count - fields.len();
    fields.extend(others.take(missing));
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_ranks_are_distinct_and_reach_everywhere() {
        let mut random = Random::seeded();
        for (length, count) in [(1, 0), (1, 1), (10, 2), (10, 3), (10, 9), (100, 24), (100, 26)] {
            let mut met = HashSet::new();
            for _ in 0..400 {
                let ranks = distinct(&mut random, length, count);
                assert_eq!(ranks.len(), count);
                let different: HashSet<usize> = ranks.into_iter().collect();
                assert!(different.len() == count && different.iter().all(|&rank| rank < length));
                met.extend(different);
            }
            // The chance to miss one of ten ranks 400 times is below 1e-38.
            assert!(count == 0 || length > 10 || met.len() == length, "{length} {count}");
        }
    }

    #[test]
    fn counts_are_read_as_redis_does() {
        const MOST: usize = usize::MAX;
        assert_eq!(Count::parse(b"3", MOST), Ok(Count::Distinct(3)));
        assert_eq!(Count::parse(b"-3", MOST), Ok(Count::Repeated(3)));
        assert_eq!(Count::parse(b"x", MOST), Err(NOT_AN_INTEGER));
        assert!(Count::parse(b"-9223372036854775807", MOST).is_err());
        // What is more than the client may be sent is not drawn.
        assert_eq!(Count::parse(b"-9223372036854775807", 600), Ok(Count::Repeated(101)));
        assert_eq!(Count::parse(b"-100", 600), Ok(Count::Repeated(100)));
    }
}
