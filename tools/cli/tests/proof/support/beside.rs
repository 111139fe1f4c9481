//! redis-server and ours side by side: the same commands to both, and how replies are compared.

pub(crate) use stillframe_peers::requests::Words;

use super::{Client, Reply, decode};

/// One connection to each: redis-server and ours.
pub(crate) type Pair = [Client; 2];

/// What two servers may disagree by on a time left, in milliseconds.
pub(crate) const SLACK_MS: i64 = 120_000;

pub(crate) fn slices(words: &[Vec<u8>]) -> Vec<&[u8]> {
    words.iter().map(Vec::as_slice).collect()
}

/// A command for people.
pub(crate) fn shown(words: &[Vec<u8>]) -> String {
    let shown = |word: &Vec<u8>| match word.len() {
        0 => "\"\"".to_owned(),
        1..=80 => word.escape_ascii().to_string(),
        length => format!("({length} bytes)"),
    };
    words.iter().take(40).map(shown).collect::<Vec<_>>().join(" ")
}

/// Sends `batch` to both. The first command whose replies are not the `same`, and how they differ.
pub(crate) fn first_difference(
    pair: &mut Pair,
    batch: &[Words],
    same: impl Fn(&Words, &[u8], &[u8]) -> bool,
) -> Option<(usize, String)> {
    for client in &mut *pair {
        batch.iter().for_each(|words| client.send(&slices(words)));
    }
    batch.iter().enumerate().find_map(|(index, words)| {
        let [theirs, ours] = pair.each_mut().map(Client::raw);
        if same(words, &theirs, &ours) {
            return None;
        }
        let (words, theirs, ours) = (shown(words), theirs.escape_ascii(), ours.escape_ascii());
        Some((index, format!("{words}:\nredis {theirs}\nhere  {ours}")))
    })
}

/// Sends `batch` to both, whose replies are equal as `by` decides.
pub(crate) fn compare(pair: &mut Pair, batch: &[Words], by: impl Fn(&Words) -> By) {
    let same = |words: &Words, theirs: &[u8], ours: &[u8]| by(words).same(theirs, ours);
    if let Some((index, difference)) = first_difference(pair, batch, same) {
        let earlier = &batch[index.saturating_sub(20)..index];
        earlier.iter().for_each(|words| println!("  {}", shown(words)));
        panic!("{difference}");
    }
}

/// How replies to a command are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Bytes,
    /// As lists whose elements may stand in any order.
    Elements,
    /// As lists in which elements that are equal up to their first zero byte may change places:
    /// for SORT ALPHA, Redis compares no further.
    Collated,
    /// As members and scores in any order, whatever the text of a score.
    Scores,
    /// As times left.
    Time,
    /// By their length: chance decides the content.
    Extent,
    /// How a string came about, and whether a sorted set has met SORT, decides about the encoding
    /// in Redis alone: docs/reference/compatibility.md.
    Encoding,
}

impl By {
    /// As little as Redis promises of a command's replies.
    pub(crate) fn from_words(words: &Words) -> Self {
        match words[0].to_ascii_uppercase().as_slice() {
            b"SMEMBERS" | b"SINTER" | b"SUNION" | b"SDIFF" | b"SPOP" | b"SSCAN" | b"HGETALL"
            | b"HKEYS" | b"HVALS" | b"HSCAN" | b"KEYS" | b"GEOSEARCH" | b"GEORADIUSBYMEMBER" => {
                Self::Elements
            }
            b"SORT" if words.iter().any(|word| word.eq_ignore_ascii_case(b"alpha")) => {
                Self::Collated
            }
            b"ZSCAN" => Self::Scores,
            b"TTL" | b"PTTL" | b"EXPIRETIME" | b"PEXPIRETIME" => Self::Time,
            b"RANDOMKEY" | b"SRANDMEMBER" | b"HRANDFIELD" | b"ZRANDMEMBER" => Self::Extent,
            b"OBJECT" => Self::Encoding,
            _ => Self::Bytes,
        }
    }

    pub(crate) fn same(self, theirs: &[u8], ours: &[u8]) -> bool {
        let left = |raw: &[u8]| -> Option<i64> {
            std::str::from_utf8(raw.strip_prefix(b":")?).ok()?.trim_end().parse().ok()
        };
        let is_text = |raw: &[u8]| raw.starts_with(b"$") && !raw.starts_with(b"$-");
        let of_string = |raw: &[u8]| {
            [&b"$3\r\nraw\r\n"[..], b"$6\r\nembstr\r\n", b"$3\r\nint\r\n"].contains(&raw)
        };
        theirs == ours
            || match self {
                Self::Bytes => false,
                Self::Elements => lines(theirs) == lines(ours),
                Self::Collated => {
                    lines(theirs) == lines(ours)
                        && heads(theirs).is_some()
                        && heads(theirs) == heads(ours)
                }
                Self::Scores => scores(theirs).is_some() && scores(theirs) == scores(ours),
                Self::Time => left(theirs).zip(left(ours)).is_some_and(|(theirs, ours)| {
                    theirs > 0 && ours > 0 && (theirs - ours).abs() < SLACK_MS
                }),
                Self::Extent if is_text(theirs) => is_text(ours),
                Self::Extent => {
                    theirs.split(|&b| b == b'\r').next() == ours.split(|&b| b == b'\r').next()
                }
                Self::Encoding => {
                    let sorted =
                        theirs.ends_with(b"skiplist\r\n") && ours.ends_with(b"listpack\r\n");
                    of_string(theirs) && of_string(ours) || sorted
                }
            }
    }
}

/// The elements of a list up to their first zero byte.
fn heads(raw: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (Reply::List(parts), _) = decode(raw)? else { return None };
    let head = |part: &Reply| {
        let bytes = part.bytes().unwrap_or_default();
        bytes.split(|&byte| byte == 0).next().unwrap_or_default().to_vec()
    };
    Some(parts.iter().map(head).collect())
}

/// What ZSCAN has found, in the order of the members.
fn scores(raw: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let (reply, _) = decode(raw)?;
    let Reply::List(parts) = reply else { return None };
    let pair = |pair: &[Reply]| {
        (pair[0].bytes().unwrap_or_default().to_vec(), number(pair[1].bytes().unwrap_or_default()))
    };
    let mut found: Vec<_> = parts.get(1)?.list().chunks(2).map(pair).collect();
    found.sort();
    Some(found)
}

/// The text of a score as any other of the same number.
pub(crate) fn number(text: &[u8]) -> Vec<u8> {
    let number: Option<f64> = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    format!("{:?}", number.expect("a score is a number")).into_bytes()
}

/// The lines of a reply, in the order of their text.
fn lines(raw: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = raw.split(|&byte| byte == b'\n').collect();
    lines.sort();
    lines
}
