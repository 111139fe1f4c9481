//! Lines of a configuration file as words, and words as they are written into one.

use super::error::QuoteError;

/// The words of a line that is no comment: blanks separate, quotes hold together, also within a
/// word. Between double quotes `\n`, `\r`, `\t`, `\b`, `\a` and `\xHH` stand for bytes,
/// between single quotes `\'` for a quote.
///
/// # Errors
/// A quote is wrong.
pub fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, QuoteError> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii();
    while !rest.is_empty() {
        let mut word = Vec::new();
        rest = one(rest, &mut word)?.trim_ascii_start();
        words.push(word);
    }
    Ok(words)
}

/// Reads one word. Returns what is behind it.
fn one<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], QuoteError> {
    while let Some((&byte, behind)) = rest.split_first() {
        match byte {
            b'"' | b'\'' => {
                let behind = quoted(behind, byte, word)?;
                if behind.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
                    return Err(QuoteError::Followed);
                }
                return Ok(behind);
            }
            byte if byte.is_ascii_whitespace() => break,
            byte => word.push(byte),
        }
        rest = behind;
    }
    Ok(rest)
}

/// Reads up to the closing `quote`. Returns what is behind it.
fn quoted<'a>(mut rest: &'a [u8], quote: u8, word: &mut Vec<u8>) -> Result<&'a [u8], QuoteError> {
    loop {
        rest = match (rest, quote) {
            ([], _) => return Err(QuoteError::Open),
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
pub(crate) fn quote(value: &[u8]) -> String {
    let mut text = String::from("\"");
    for &byte in value {
        match byte {
            b'\\' | b'"' => text.extend(['\\', byte.into()]),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            7 => text.push_str("\\a"),
            8 => text.push_str("\\b"),
            b' '..=b'~' => text.push(byte.into()),
            other => text.push_str(&format!("\\x{other:02x}")),
        }
    }
    text.push('"');
    text
}

/// A value as one word: as it is, or between quotes if it would not be read back otherwise.
pub(crate) fn word(value: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'".contains(byte);
    match value {
        [_, ..] if value.iter().all(is_plain) => String::from_utf8_lossy(value).into_owned(),
        _ => quote(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_split_as_in_redis_conf() {
        let split = |line: &str| {
            let words = words(line.as_bytes()).expect("a line");
            words.into_iter().map(|word| String::from_utf8(word).expect("text")).collect::<Vec<_>>()
        };
        assert_eq!(split("  # a"), ["#", "a"]);
        assert_eq!(split("save \"\""), ["save", ""]);
        assert_eq!(split("client-output-buffer-limit normal 0 0 0").len(), 5);
        assert_eq!(split("requirepass 'a b'\t'it\\'s'"), ["requirepass", "a b", "it's"]);
        assert_eq!(split(r#"a "\x41\n\t\"\\" b#c"#), ["a", "A\n\t\"\\", "b#c"]);
        assert_eq!(split(r#"a x"y z" \n '\n'"#), ["a", "xy z", "\\n", "\\n"]);
        for wrong in ["requirepass \"open", "requirepass \"a\"b", "a 'b", "a b\"", "a \"\\"] {
            assert!(words(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let values =
            ["", "plain", "a b", "\"\\'", "\\", "#x", "line\nline\r\t\x07\x08\x01", "größe"];
        let values = values.map(str::as_bytes).into_iter().chain([&b"\xff\x00\x80"[..]]);
        for value in values {
            assert_eq!(words(quote(value).as_bytes()), Ok(vec![value.to_owned()]));
            let line = format!("name {} end", word(value));
            let read = words(line.as_bytes()).expect("a line");
            assert_eq!(read, [b"name", value, b"end"]);
        }
    }
}
