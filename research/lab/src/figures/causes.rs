//! Why claims do not hold here: the paragraphs of `causes.txt`, by figure and claim.

use std::sync::LazyLock;

use super::{Claim, Figure};
use crate::report::{Cause, Origin};

static TEXT: LazyLock<String> = LazyLock::new(|| include_str!("causes.txt").replace("\n  ", " "));

/// A cause and the claim that it belongs to.
struct Entry {
    figure: &'static str,
    claim: &'static str,
    cause: Cause,
}

/// The cause of that claim, if it was examined.
pub(super) fn cause_of(figure: &Figure, claim: &Claim) -> Option<Cause> {
    let is_meant = |entry: &Entry| entry.figure == figure.name && entry.claim == claim.id;
    paragraphs().filter_map(parse).find(is_meant).map(|entry| entry.cause)
}

/// The paragraphs that are neither a comment nor a shared text.
fn paragraphs() -> impl Iterator<Item = &'static str> {
    let is_cause = |it: &&str| !it.starts_with('#') && it.split(' ').nth(1) != Some("=");
    TEXT.split("\n\n").filter(is_cause)
}

fn parse(paragraph: &'static str) -> Option<Entry> {
    let [head, why, experiment] = paragraph.lines().collect::<Vec<_>>().try_into().ok()?;
    let [figure, claim, origin] = head.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let cause = Cause {
        origin: Origin::from_word(origin)?,
        why: resolve(why)?,
        experiment: resolve(experiment)?,
    };
    Some(Entry { figure, claim, cause })
}

/// The text itself, or the shared one that `$name` stands for.
fn resolve(text: &'static str) -> Option<&'static str> {
    let Some(name) = text.strip_prefix('$') else { return Some(text) };
    TEXT.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures;

    #[test]
    fn each_cause_is_that_of_one_claim() {
        let mut known = Vec::new();
        for paragraph in paragraphs() {
            let entry = parse(paragraph).unwrap_or_else(|| panic!("no cause: {paragraph}"));
            let figure = figures::find(entry.figure).expect("a figure");
            let meant = figure.claims.iter().filter(|claim| claim.id == entry.claim);
            assert_eq!(meant.count(), 1, "{paragraph}");
            let key = (entry.figure, entry.claim);
            assert!(!known.contains(&key), "two causes: {paragraph}");
            known.push(key);
        }
        assert!(!known.is_empty());
    }
}
