//! Where the keys of a request are, and what the command does with them, as clients that send
//! requests to one of several servers want to know it.

use stillframe_resp::parse_integer;

/// A value of a key is read.
pub const READ: u8 = 1;
/// A value of a key is written.
pub const WRITE: u8 = 2;

/// Some of the keys of a command.
#[derive(Debug)]
pub struct Spec {
    /// The access to them, in Redis's words.
    pub flags: Vec<&'static str>,
    /// Where they begin.
    pub begin: Begin,
    /// Which they are from there on.
    pub find: Find,
}

/// Where keys begin.
#[derive(Debug)]
pub enum Begin {
    /// At this argument.
    Index(usize),
    /// Behind this word, looked for from this argument on (negative: from the end backwards).
    Keyword(&'static str, i64),
    /// Only the command itself knows.
    Unknown,
}

/// Which arguments are keys from the first on.
#[derive(Debug, Clone, Copy)]
pub enum Find {
    /// Up to `last` behind the first (negative: counted from the end of the request), every
    /// `step`th.
    Range {
        /// The last key.
        last: i8,
        /// The distance between keys.
        step: i8,
        /// What is no key stands behind them: of so many parts one is keys.
        parts: i8,
    },
    /// The first one is none: it says how many follow, every `step`th of what is behind it.
    Counted {
        /// The distance between keys.
        step: u8,
    },
    /// Only the command itself knows.
    Unknown,
}

impl Spec {
    /// Reads `flag+flag@place`. A place is `?`, or a beginning (`1`, or `STORE>5`) and an end:
    /// nothing (one key), `..-1` (up to there), `..-1/2` (every second), `..-1/1%2` (the first
    /// half), `#` (a count leads), `#2` (of pairs of which each begins with a key).
    pub(super) fn parse(text: &'static str) -> Option<Self> {
        let (flags, place) = text.split_once('@')?;
        let flags = flags.split('+').collect();
        if place == "?" {
            return Some(Self { flags, begin: Begin::Unknown, find: Find::Unknown });
        }
        let (begin, find) = match (place.split_once('#'), place.split_once("..")) {
            (Some((begin, "")), _) => (begin, Find::Counted { step: 1 }),
            (Some((begin, step)), _) => (begin, Find::Counted { step: step.parse().ok()? }),
            (None, Some((begin, end))) => {
                let (last, step) = end.split_once('/').unwrap_or((end, "1"));
                let (step, parts) = step.split_once('%').unwrap_or((step, "1"));
                let [last, step, parts] = [last, step, parts].map(|number| number.parse().ok());
                (begin, Find::Range { last: last?, step: step?, parts: parts? })
            }
            (None, None) => (place, Find::Range { last: 0, step: 1, parts: 1 }),
        };
        let begin = match begin.split_once('>') {
            Some((word, from)) => Begin::Keyword(word, from.parse().ok()?),
            None => Begin::Index(begin.parse().ok()?),
        };
        Some(Self { flags, begin, find })
    }

    /// Whether the arguments are keys at all; channels of shards are listed as if they were.
    pub fn is_of_keys(&self) -> bool {
        !self.flags.contains(&"not_key")
    }

    /// Whether what is done with the keys depends on the request.
    pub fn varies(&self) -> bool {
        self.flags.contains(&"variable_flags")
    }

    /// What is done with the keys' values: [`READ`], [`WRITE`], both, or neither of it.
    pub(super) fn access(&self) -> u8 {
        let has = |flag| self.flags.contains(&flag);
        let reads = if has("access") { READ } else { 0 };
        let writes = has("insert") || has("delete") || has("update");
        reads | if writes { WRITE } else { 0 }
    }

    /// The keys of a request; `None` if they are unknown or incomplete.
    pub fn find<'a>(&self, request: &[&'a [u8]]) -> Option<Vec<&'a [u8]>> {
        let first = match &self.begin {
            Begin::Index(index) => *index,
            Begin::Keyword(word, from) => match behind(word, *from, request) {
                Some(first) => first,
                None => return Some(Vec::new()),
            },
            Begin::Unknown => return None,
        };
        match self.find {
            Find::Range { last, step, parts } => {
                let from = if last < 0 { request.len() } else { first };
                let last = from.checked_add_signed(last.into())?;
                let keys = request.get(first..=last)?;
                let keys = keys[..keys.len() / usize::try_from(parts).ok()?.max(1)].iter();
                Some(keys.step_by(usize::try_from(step).ok()?.max(1)).copied().collect())
            }
            Find::Counted { step } => counted_keys(request.get(first..)?, step),
            Find::Unknown => None,
        }
    }
}

/// The keys behind a count, every `step`th argument; `None` if it is no count, or counts none or
/// more than there are.
pub(super) fn counted_keys<'a>(from: &[&'a [u8]], step: u8) -> Option<Vec<&'a [u8]>> {
    let (count, rest) = from.split_first()?;
    let (count, step) = (usize::try_from(parse_integer(count)?).ok()?, usize::from(step.max(1)));
    let keys = rest.get(..count.checked_mul(step)?).filter(|keys| !keys.is_empty())?;
    Some(keys.iter().step_by(step).copied().collect())
}

/// The place behind a word of the request.
fn behind(word: &str, from: i64, request: &[&[u8]]) -> Option<usize> {
    let is = |at: &usize| {
        request.get(*at).is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
    };
    let found = match usize::try_from(from) {
        Ok(from) => (from..request.len()).find(is),
        Err(_) => {
            let back = usize::try_from(from.unsigned_abs()).ok()?;
            (1..=request.len().checked_sub(back)?).rev().find(is)
        }
    };
    found.map(|at| at + 1)
}
