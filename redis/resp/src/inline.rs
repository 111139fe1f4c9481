//! Splitting an inline request (a plain line, as typed into a terminal) into arguments.
//!
//! Words are separated by blanks. Inside `"..."` the escapes `\n \r \t \b \a \xHH` are known and
//! any other escaped byte stands for itself; inside `'...'` only `\'` is. A closing quote must end
//! its word. Unescaping never lengthens a word, so it is done in place, in the caller's buffer.

use std::ops::Range;

use crate::ProtocolError;

/// Blanks that separate words, and that must follow a closing quote.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The words of a line (no line end in it); `None` if a quote does not end, or ends within a word.
pub fn split_line(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut line, mut args) = (line.to_vec(), Vec::new());
    split(&mut line, &mut args).ok()?;
    Some(args.into_iter().map(|word| line[word].to_vec()).collect())
}

/// Splits `line` (no line end in it), unescaping in place; pushes ranges of it to `args`.
pub(crate) fn split(line: &mut [u8], args: &mut Vec<Range<usize>>) -> Result<(), ProtocolError> {
    let mut at = 0;
    loop {
        at += line[at..].iter().take_while(|&&b| is_space(b)).count();
        if at == line.len() {
            return Ok(());
        }
        let (word, after) = take_word(line, at)?;
        args.push(word);
        at = after;
    }
}

/// The word that starts at `start`, moved together in place, and the position behind it.
fn take_word(line: &mut [u8], start: usize) -> Result<(Range<usize>, usize), ProtocolError> {
    // `to <= from` always: every step reads at least as many bytes as it writes.
    let (mut from, mut to) = (start, start);
    while from < line.len() {
        match line[from] {
            b' ' | b'\n' | b'\r' | b'\t' => break,
            quote @ (b'"' | b'\'') => {
                from += 1;
                loop {
                    let (byte, length) = match &line[from..] {
                        [] => return Err(ProtocolError::UnbalancedQuotes),
                        [b, rest @ ..] if *b == quote => {
                            if rest.first().is_some_and(|&next| !is_space(next)) {
                                return Err(ProtocolError::UnbalancedQuotes);
                            }
                            return Ok((start..to, from + 1));
                        }
                        rest if quote == b'"' => unescape(rest),
                        [b'\\', b'\'', ..] => (b'\'', 2),
                        [b, ..] => (*b, 1),
                    };
                    line[to] = byte;
                    to += 1;
                    from += length;
                }
            }
            byte => {
                line[to] = byte;
                to += 1;
                from += 1;
            }
        }
    }
    Ok((start..to, from))
}

/// The byte that the start of `rest` (not empty, inside double quotes) means, and its length there.
fn unescape(rest: &[u8]) -> (u8, usize) {
    let hex = |digit: &u8| char::from(*digit).to_digit(16).map(|value| value as u8);
    match rest {
        [b'\\', b'x', high, low, ..] if hex(high).is_some() && hex(low).is_some() => {
            (hex(high).unwrap_or(0) << 4 | hex(low).unwrap_or(0), 4)
        }
        [b'\\', escaped, ..] => {
            let byte = match escaped {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'b' => 0x08,
                b'a' => 0x07,
                other => *other,
            };
            (byte, 2)
        }
        [byte, ..] => (*byte, 1),
        [] => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Vec<Vec<u8>>, ProtocolError> {
        split_line(line.as_bytes()).ok_or(ProtocolError::UnbalancedQuotes)
    }

    #[test]
    fn words_quotes_and_escapes() {
        let cases: &[(&str, &[&[u8]])] = &[
            ("", &[]),
            ("  \t ", &[]),
            ("PING", &[b"PING"]),
            (" set  k\tv ", &[b"set", b"k", b"v"]),
            (r#"set "a b" '' "" "#, &[b"set", b"a b", b"", b""]),
            (r#""\x00\xfF\n\r\t\b\a\\\"\q\xg1""#, &[b"\x00\xff\n\r\t\x08\x07\\\"qxg1"]),
            (r"'it\'s \n'", &[br"it's \n"]),
            (r#"pre"fix ed" b"#, &[b"prefix ed", b"b"]),
            ("a\u{b}b", &[b"a\x0bb"]),
        ];
        for (line, expected) in cases {
            assert_eq!(words(line).unwrap(), *expected, "{line}");
        }
    }

    #[test]
    fn unbalanced_quotes_are_refused() {
        for line in
            [r#""abc"#, r"'abc", r#""abc"d"#, r"'abc'd", r#""abc\"#, r#""""#.repeat(2).as_str()]
        {
            assert_eq!(words(line), Err(ProtocolError::UnbalancedQuotes), "{line}");
        }
    }
}
