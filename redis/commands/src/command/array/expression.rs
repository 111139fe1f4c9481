//! Regular expressions of ARGREP: POSIX's extended ones with the additions of Redis's library, made
//! into those of the crate `regex`, which takes linear time whatever a client asks for.
//!
//! Bytes are matched, not characters. Other than in Redis: there is no approximate matching
//! (`{~1}`), `\B` also holds at the ends of a text, and `$` does not hold before a zero byte.

use regex::bytes::{Regex, RegexBuilder};

use crate::errors::Refusal;

/// Bytes that a compiled expression may take.
const COMPILED_BYTES_MAX: usize = 2 << 20;
/// The most repetitions that braces may ask for.
const REPEATS_MAX: u32 = 255;

const INVALID: &str = "Invalid regexp";
const NO_BRACKET: &str = "Missing ']'";
const NO_BRACE: &str = "Missing '}'";
const BRACES: &str = "Invalid contents of {}";
const CLASS: &str = "Unknown character class name";
const RANGE: &str = "Invalid character range";

/// Compiles an expression.
///
/// # Errors
/// In Redis's words: what is wrong with it.
pub(super) fn compile(pattern: &[u8], ignores_case: bool) -> Result<Regex, Refusal> {
    if pattern.is_empty() {
        return Err("ERR regular expression is empty".into());
    }
    let refuse = |why: &str| Refusal::from(format!("ERR invalid regular expression: {why}"));
    let mut translation = Translation { rest: pattern, ..Translation::default() };
    translation.all().map_err(refuse)?;
    match translation.reference {
        Some(group) if group > translation.groups => return Err(refuse("Invalid back reference")),
        Some(_) => return Err("ERR regular expression backreferences are not supported".into()),
        None => {}
    }
    let mut builder = RegexBuilder::new(&translation.out);
    builder.unicode(false).dot_matches_new_line(true).case_insensitive(ignores_case);
    builder.size_limit(COMPILED_BYTES_MAX).dfa_size_limit(COMPILED_BYTES_MAX);
    builder.build().map_err(|_| refuse("Out of memory"))
}

/// An expression on its way into another syntax.
#[derive(Default)]
struct Translation<'a> {
    rest: &'a [u8],
    out: String,
    /// Where open groups begin in `out`, and whether lines counted before them.
    open: Vec<(usize, bool)>,
    /// Groups so far.
    groups: u32,
    /// The greatest group that is referred to.
    reference: Option<u32>,
    /// Whether `.` and the anchors know lines.
    lines: bool,
}

impl Translation<'_> {
    fn take(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn take_if(&mut self, prefix: &[u8]) -> bool {
        let after = self.rest.strip_prefix(prefix);
        after.inspect(|after| self.rest = after).is_some()
    }

    fn literal(&mut self, byte: u8) {
        self.out += &format!("\\x{byte:02x}");
    }

    fn all(&mut self) -> Result<(), &'static str> {
        while let Some(&byte) = self.rest.first() {
            let start = self.out.len();
            if matches!(byte, b'*' | b'+' | b'?' | b'{') {
                self.out += "(?:)"; // nothing is repeated
            } else {
                self.take();
            }
            match byte {
                b'|' => {
                    self.out.push('|');
                    continue;
                }
                b'(' => {
                    self.group(start)?;
                    continue;
                }
                b')' => match self.open.pop() {
                    Some((start, lines)) => {
                        self.out.push(')');
                        self.lines = lines;
                        self.repeats(start)?;
                        continue;
                    }
                    None => self.literal(b')'),
                },
                b'[' => self.bracket()?,
                b'\\' => self.escape()?,
                b'.' => self.out += if self.lines { "[^\\n]" } else { "." },
                b'^' => self.out += if self.lines { "(?m:^)" } else { "^" },
                b'$' => self.out += if self.lines { "(?m:$)" } else { "$" },
                b'*' | b'+' | b'?' | b'{' => {}
                byte => self.literal(byte),
            }
            self.repeats(start)?;
        }
        if self.open.is_empty() { Ok(()) } else { Err("Missing ')'") }
    }

    /// Behind `(`.
    fn group(&mut self, start: usize) -> Result<(), &'static str> {
        if !self.take_if(b"?") {
            self.groups += 1;
            self.open.push((start, self.lines));
            self.out += "(?:";
            return Ok(());
        }
        if self.take_if(b"#") {
            while self.take().ok_or(INVALID)? != b')' {}
            return Ok(());
        }
        let (mut on, mut lines, mut case) = (true, self.lines, "");
        loop {
            match self.take().ok_or(INVALID)? {
                b'i' => case = if on { "i" } else { "-i" },
                b'n' => lines = on,
                b'r' | b'U' => {} // which match is found does not matter
                b'-' => on = false,
                b':' => {
                    self.open.push((start, self.lines));
                    self.out += &format!("(?{case}:");
                    break;
                }
                b')' => {
                    if !case.is_empty() {
                        self.out += &format!("(?{case})");
                    }
                    break;
                }
                _ => return Err(INVALID),
            }
        }
        self.lines = lines;
        Ok(())
    }

    /// What repeats the part of `out` from `start` on.
    fn repeats(&mut self, start: usize) -> Result<(), &'static str> {
        loop {
            let operator = match self.rest.first() {
                Some(b'*') => "*".to_owned(),
                Some(b'+') => "+".to_owned(),
                Some(b'?') => "?".to_owned(),
                Some(b'{') => String::new(),
                _ => return Ok(()),
            };
            self.take();
            let operator = if operator.is_empty() { self.braces()? } else { operator };
            self.out.insert_str(start, "(?:");
            self.out += &format!("){operator}");
            self.take_if(b"?"); // as few as possible: it matches the same texts
            if let Some(b'*' | b'+' | b'?') = self.rest.first() {
                return Err("Invalid use of repetition operators");
            }
        }
    }

    /// Behind `{`.
    fn braces(&mut self) -> Result<String, &'static str> {
        let least = self.number()?;
        let most = if self.take_if(b",") { self.number()? } else { least };
        match self.take() {
            Some(b'}') => {}
            None => return Err(NO_BRACE),
            Some(_) => return Err(BRACES),
        }
        match (least.unwrap_or(0), most) {
            (least, Some(most)) if least > most => Err(BRACES),
            (least, Some(most)) => Ok(format!("{{{least},{most}}}")),
            (least, None) => Ok(format!("{{{least},}}")),
        }
    }

    fn number(&mut self) -> Result<Option<u32>, &'static str> {
        let mut number = None;
        while let Some(digit @ b'0'..=b'9') = self.rest.first() {
            let digit = u32::from(digit - b'0');
            self.take();
            number = Some(number.unwrap_or(0_u32).saturating_mul(10).saturating_add(digit));
        }
        match number {
            Some(REPEATS_MAX..) if number != Some(REPEATS_MAX) => {
                Err("Maximum repetition in {} larger than 255")
            }
            number => Ok(number),
        }
    }

    /// Behind a backslash.
    fn escape(&mut self) -> Result<(), &'static str> {
        let byte = self.take().ok_or("Trailing backslash")?;
        match byte {
            b'w' | b'W' | b's' | b'S' | b'd' | b'D' => {
                self.out += &format!("\\{}", char::from(byte));
            }
            b'b' => self.out += "(?:\\b|^|$)", // the ends of a text count
            b'B' => self.out += "\\B",
            b'<' => self.out += "\\b{start}",
            b'>' => self.out += "\\b{end}",
            b't' => self.literal(b'\t'),
            b'n' => self.literal(b'\n'),
            b'r' => self.literal(b'\r'),
            b'f' => self.literal(0x0c),
            b'a' => self.literal(0x07),
            b'e' => self.literal(0x1b),
            b'0'..=b'9' => self.reference = self.reference.max(Some(u32::from(byte - b'0'))),
            b'Q' => self.quoted(),
            b'x' => return self.hexadecimal(),
            byte => self.literal(byte),
        }
        Ok(())
    }

    /// Behind `\Q`: all up to `\E` stands for itself.
    fn quoted(&mut self) {
        while !self.take_if(b"\\E")
            && let Some(byte) = self.take()
        {
            self.literal(byte);
        }
    }

    /// Behind `\x`: two digits at most, or more in braces.
    fn hexadecimal(&mut self) -> Result<(), &'static str> {
        let digit = |rest: &[u8]| rest.first().and_then(|byte| char::from(*byte).to_digit(16));
        let (is_braced, mut byte) = (self.take_if(b"{"), 0);
        let most = if is_braced { 8 } else { 2 };
        for _ in 0..most {
            let Some(value) = digit(self.rest) else { break };
            byte = byte << 4 | value;
            self.take();
        }
        if is_braced && !self.take_if(b"}") {
            return Err(NO_BRACE);
        }
        self.literal(byte as u8);
        Ok(())
    }

    /// Behind `[`.
    fn bracket(&mut self) -> Result<(), &'static str> {
        self.out.push('[');
        if self.take_if(b"^") {
            self.out += if self.lines { "^\\n" } else { "^" };
        }
        let mut is_first = true;
        loop {
            let byte = self.take().ok_or(NO_BRACKET)?;
            match (byte, self.rest.first()) {
                (b']', _) if !is_first => break,
                (b'[', Some(b':')) => self.class()?,
                (b'[', Some(b'.' | b'=')) => return Err("Unknown collating element"),
                _ => self.bytes_from(byte)?,
            }
            is_first = false;
        }
        self.out.push(']');
        Ok(())
    }

    /// A byte of a bracket, or a range that begins with it.
    fn bytes_from(&mut self, first: u8) -> Result<(), &'static str> {
        self.literal(first);
        match self.rest {
            [b'-', b']', ..] | [b'-'] => Ok(()),
            // A range that goes on means nothing.
            [b'-', last, after @ ..] => {
                let goes_on = matches!(after, [b'-', next, ..] if *next != b']');
                let is_class = *last == b'[' && matches!(after, [b':' | b'.' | b'=', ..]);
                if *last < first || goes_on || is_class {
                    return Err(RANGE);
                }
                self.out.push('-');
                self.literal(*last);
                self.rest = after;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Behind the bracket of `[:name:]`.
    fn class(&mut self) -> Result<(), &'static str> {
        const NAMES: [&str; 12] = [
            "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
            "space", "upper", "xdigit",
        ];
        self.take();
        let end = self.rest.iter().position(|byte| *byte == b':').ok_or(CLASS)?;
        let (name, after) = self.rest.split_at(end);
        let known = NAMES.iter().find(|known| known.as_bytes() == name).ok_or(CLASS)?;
        let [b':', b']', after @ ..] = after else { return Err(CLASS) };
        self.rest = after;
        self.out += &format!("[:{known}:]");
        Ok(())
    }
}
