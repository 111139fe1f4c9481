//! Glob patterns of KEYS, SCAN MATCH and CONFIG GET: `*`, `?`, `[a-z]`, `[^...]`, `\x`.
//!
//! Every token but `*` takes exactly one byte, so on a mismatch only the last `*` needs to be
//! widened: the match takes at most (pattern x text) steps whatever the pattern, where recursion
//! would be exponential. Corner cases follow Redis: a class that is not closed ends with the
//! pattern, a range may be written backwards, and an empty text is matched by the empty pattern
//! alone (KEYS and SCAN treat the pattern `*` before they come here).

/// Whether `pattern` matches the whole of `text`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut rest, mut position) = (pattern, 0);
    // Where to go on when a byte does not match: the pattern after the last star, and the text
    // position from which it is tried next.
    let mut retry: Option<(&[u8], usize)> = None;
    while position < text.len() {
        if let [b'*', after @ ..] = rest {
            rest = after;
            retry = Some((after, position + 1));
        } else if let Some(after) = match_one(rest, text[position]) {
            rest = after;
            position += 1;
        } else if let Some((after_star, next)) = retry {
            rest = after_star;
            position = next;
            retry = Some((after_star, next + 1));
        } else {
            return false;
        }
    }
    rest.iter().all(|&byte| byte == b'*')
}

/// The pattern after its first token, if that token (not a star) matches `byte`.
fn match_one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    let (matched, rest) = match pattern {
        [] => return None,
        [b'?', rest @ ..] => (true, rest),
        [b'[', b'^', class @ ..] => {
            let (found, rest) = find_in_class(class, byte);
            (!found, rest)
        }
        [b'[', class @ ..] => find_in_class(class, byte),
        [b'\\', escaped, rest @ ..] => (*escaped == byte, rest),
        [literal, rest @ ..] => (*literal == byte, rest),
    };
    matched.then_some(rest)
}

/// Whether `byte` is in the class, and the pattern after it.
fn find_in_class(mut class: &[u8], byte: u8) -> (bool, &[u8]) {
    let mut found = false;
    loop {
        class = match class {
            [] => return (found, class),
            [b'\\', escaped, rest @ ..] => {
                found |= *escaped == byte;
                rest
            }
            [b']', rest @ ..] => return (found, rest),
            [first, b'-', last, rest @ ..] => {
                found |= (*first.min(last)..=*first.max(last)).contains(&byte);
                rest
            }
            [literal, rest @ ..] => {
                found |= *literal == byte;
                rest
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use stillframe_peers::{Random, rounds};

    use super::matches;

    /// A token of a pattern, and the bytes that it takes; none: it takes any number of any.
    const TOKENS: [(&str, Option<&str>); 9] = [
        ("a", Some("a")),
        ("b", Some("b")),
        ("?", Some("abc-")),
        ("*", None),
        ("[ab]", Some("ab")),
        ("[^a]", Some("bc-")),
        ("[b-a]", Some("ab")),
        ("[a\\-]", Some("a-")),
        ("\\c", Some("c")),
    ];

    /// By the definition of a star.
    fn fits(tokens: &[Option<&str>], text: &str) -> bool {
        let Some((token, rest)) = tokens.split_first() else { return text.is_empty() };
        let mut bytes = text.chars();
        match token {
            None => (0..=text.len()).any(|skipped| fits(rest, &text[skipped..])),
            Some(taken) => {
                bytes.next().is_some_and(|byte| taken.contains(byte)) && fits(rest, bytes.as_str())
            }
        }
    }

    #[test]
    fn patterns_match_as_they_are_defined() {
        let mut random = Random::new("patterns_match_as_they_are_defined");
        for _ in 0..rounds(20_000, 2_000_000) {
            let tokens: Vec<_> = (0..random.below(7)).map(|_| random.pick(&TOKENS)).collect();
            let pattern: String = tokens.iter().map(|(text, _)| *text).collect();
            let tokens: Vec<_> = tokens.iter().map(|(_, taken)| *taken).collect();
            let text: String =
                (0..1 + random.below(8)).map(|_| random.pick(&['a', 'b', 'c', '-'])).collect();
            let found = matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(found, fits(&tokens, &text), "{pattern:?} on {text:?}");
        }
    }

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], other: &[&str]) {
        for text in matching {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern:?} on {text:?}");
        }
        for text in other {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern:?} on {text:?}");
        }
    }

    #[test]
    fn stars_and_question_marks() {
        check("*", &["a", "abc"], &[""]);
        check("", &[""], &["a"]);
        check("a*", &["a", "ab", "aab"], &["ba", ""]);
        check("*a", &["a", "ba", "aaa"], &["ab"]);
        check("a**c*", &["ac", "abc", "acc", "abcd"], &["ab"]);
        check("a*b", &["ab", "aab", "axb", "abb"], &["a", "abc"]);
        check("h?llo", &["hello", "hallo"], &["hllo", "heello"]);
        check("*?", &["a", "ab"], &[]);
        check("a*?", &["ab", "abc"], &["a"]);
    }

    #[test]
    fn classes() {
        check("h[ae]llo", &["hello", "hallo"], &["hillo", "hllo"]);
        check("h[^e]llo", &["hallo", "hbllo"], &["hello", "hllo"]);
        check("[a-c]", &["a", "b", "c"], &["d", "-", ""]);
        check("[c-a]", &["a", "b", "c"], &["d"]);
        check("[\\]x]", &["]", "x"], &["\\", "a"]);
        check("[a-]", &["a", "]", "_"], &["-", "b"]);
        check("*[0-9]", &["a1", "1", "12"], &["a", "1a"]);
        check("[]", &[], &["", "[", "]", "a"]);
        check("[]a", &[], &["a"]);
    }

    #[test]
    fn classes_left_open_end_with_the_pattern() {
        check("[", &[], &["[", "a"]);
        check("[^", &["a", "["], &["ab"]);
        check("[ab", &["a", "b"], &["c", "[ab"]);
        check("[a-", &["a", "-"], &["b"]);
        check("[\\", &["\\"], &["a"]);
    }

    #[test]
    fn escapes() {
        check("\\*", &["*"], &["a", "\\*"]);
        check("a\\?c", &["a?c"], &["abc"]);
        check("\\", &["\\"], &["a"]);
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = "a*".repeat(200) + "b";
        check(&pattern, &[], &["a".repeat(2000).as_str()]);
    }
}
