//! Where the keys of a request are, and what the command does with them, as clients that send
//! requests to one of several servers want to know it.

use stillframe_resp::parse_integer;

/// Some of the keys of a command.
#[derive(Debug)]
pub(in super::super) struct Spec {
    /// The access to them, in Redis's words.
    pub(in super::super) flags: Vec<String>,
    /// Where they begin.
    pub(in super::super) begin: Begin,
    /// Which they are from there on.
    pub(in super::super) find: Find,
}

/// Where keys begin.
#[derive(Debug)]
pub(in super::super) enum Begin {
    /// At this argument.
    Index(usize),
    /// Behind this word, looked for from this argument on (negative: from the end backwards).
    Keyword(String, i64),
    /// Only the command itself knows.
    Unknown,
}

/// Which arguments are keys from the first on.
#[derive(Debug)]
pub(in super::super) enum Find {
    /// Up to `last` behind the first (negative: counted from the end of the request), every
    /// `step`th.
    Range { last: i64, step: i64 },
    /// The first one is none: it says how many follow.
    Counted,
    /// Only the command itself knows.
    Unknown,
}

impl Spec {
    /// Reads `flag+flag@place`. A place is `?`, or a beginning (`1`, or `STORE>5`) and an end:
    /// nothing (one key), `..-1` (up to there), `..-1/2` (every second), `#` (a count leads).
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (flags, place) = text.split_once('@')?;
        let flags = flags.split('+').map(str::to_owned).collect();
        if place == "?" {
            return Some(Self { flags, begin: Begin::Unknown, find: Find::Unknown });
        }
        let (begin, find) = match (place.strip_suffix('#'), place.split_once("..")) {
            (Some(begin), _) => (begin, Find::Counted),
            (None, Some((begin, end))) => {
                let (last, step) = end.split_once('/').unwrap_or((end, "1"));
                (begin, Find::Range { last: last.parse().ok()?, step: step.parse().ok()? })
            }
            (None, None) => (place, Find::Range { last: 0, step: 1 }),
        };
        let begin = match begin.split_once('>') {
            Some((word, from)) => Begin::Keyword(word.to_owned(), from.parse().ok()?),
            None => Begin::Index(begin.parse().ok()?),
        };
        Some(Self { flags, begin, find })
    }

    /// Whether the arguments are keys at all; channels of shards are listed as if they were.
    pub(in super::super) fn is_of_keys(&self) -> bool {
        !self.flags.iter().any(|flag| flag == "not_key")
    }

    /// Whether what is done with the keys depends on the request.
    pub(in super::super) fn varies(&self) -> bool {
        self.flags.iter().any(|flag| flag == "variable_flags")
    }

    /// The keys of a request; `None` if they are unknown or incomplete.
    pub(in super::super) fn find<'a>(&self, request: &[&'a [u8]]) -> Option<Vec<&'a [u8]>> {
        let first = match &self.begin {
            Begin::Index(index) => *index,
            Begin::Keyword(word, from) => match behind(word, *from, request) {
                Some(first) => first,
                None => return Some(Vec::new()),
            },
            Begin::Unknown => return None,
        };
        match self.find {
            Find::Range { last, step } => {
                let from = if last < 0 { request.len() } else { first };
                let last = from.checked_add_signed(isize::try_from(last).ok()?)?;
                let keys = request.get(first..=last)?.iter();
                Some(keys.step_by(usize::try_from(step).ok()?.max(1)).copied().collect())
            }
            Find::Counted => {
                let count = usize::try_from(parse_integer(request.get(first)?)?).ok()?;
                let keys = request.get(first + 1..)?.get(..count)?;
                (count > 0).then(|| keys.to_vec())
            }
            Find::Unknown => None,
        }
    }
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
