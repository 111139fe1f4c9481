//! Lines of a configuration or ACL file as words, and words as they are written into one.

/// The words of a line: blanks separate, quotes hold together, `#` starts a comment line. Between
/// double quotes `\n`, `\r`, `\t`, `\b`, `\a` and `\xHH` stand for bytes, between single quotes
/// `\'` for a quote.
///
/// # Errors
/// One sentence when a quote is wrong.
pub(crate) fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii().as_bytes();
    if rest.starts_with(b"#") {
        return Ok(words);
    }
    while let Some(&first) = rest.first() {
        let mut word = Vec::new();
        if matches!(first, b'"' | b'\'') {
            rest = quoted(&rest[1..], first, &mut word)?;
            if rest.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
                return Err("a closing quote must be followed by a blank".to_owned());
            }
        } else {
            let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
            word.extend_from_slice(&rest[..end]);
            rest = &rest[end..];
        }
        words.push(String::from_utf8(word).map_err(|_| "a value is not UTF-8 text".to_owned())?);
        rest = rest.trim_ascii_start();
    }
    Ok(words)
}

/// Reads up to the closing `quote`. Returns what is behind it.
fn quoted<'a>(mut rest: &'a [u8], quote: u8, word: &mut Vec<u8>) -> Result<&'a [u8], String> {
    loop {
        rest = match (rest, quote) {
            ([], _) => return Err("a quote is not closed".to_owned()),
            ([byte, rest @ ..], quote) if *byte == quote => return Ok(rest),
            ([b'\\', b'x', high, low, rest @ ..], b'"')
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(hex(*high) << 4 | hex(*low));
                rest
            }
            ([b'\\', escaped, rest @ ..], b'"') => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                rest
            }
            ([b'\\', b'\'', rest @ ..], b'\'') => {
                word.push(b'\'');
                rest
            }
            ([byte, rest @ ..], _) => {
                word.push(*byte);
                rest
            }
        };
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// A value between double quotes, so that [`words`] reads it back.
pub(crate) fn quote(value: &str) -> String {
    let mut text = String::from("\"");
    for letter in value.chars() {
        match letter {
            '\\' | '"' => text.extend(['\\', letter]),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\x07' => text.push_str("\\a"),
            '\x08' => text.push_str("\\b"),
            ' '..='~' => text.push(letter),
            other => {
                let mut bytes = [0; 4];
                for byte in other.encode_utf8(&mut bytes).bytes() {
                    text.push_str(&format!("\\x{byte:02x}"));
                }
            }
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_split_as_in_redis_conf() {
        let split = |line| words(line).expect("a line");
        assert_eq!(split("  # a comment"), Vec::<String>::new());
        assert_eq!(split("save \"\""), ["save", ""]);
        assert_eq!(split("client-output-buffer-limit normal 0 0 0").len(), 5);
        assert_eq!(split("requirepass 'a b'\t'it\\'s'"), ["requirepass", "a b", "it's"]);
        assert_eq!(split(r#"a "\x41\n\t\"\\" b#c"#), ["a", "A\n\t\"\\", "b#c"]);
        for wrong in ["requirepass \"open", "requirepass \"a\"b", "a 'b", r#"a "\xff""#, "a \"\\"] {
            assert!(words(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_quoted_is_read_back() {
        for value in ["", "plain", "a b", "\"\\'", "line\nline\r\t\x07\x08\x01", "größe"] {
            assert_eq!(words(&quote(value)), Ok(vec![value.to_owned()]));
        }
    }
}
