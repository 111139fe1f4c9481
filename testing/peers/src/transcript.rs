//! Recorded transcripts: requests, each with the reply that redis-server 7.0 gave to it.
//!
//! A transcript holds one request a line and, indented under it, the recorded reply, escaped. A
//! request starts with the letter of the connection that sends it and with how its reply is
//! compared:
//!
//! ```text
//! a> byte for byte               a% the elements of its lists in any order
//! a~ every number taken as 0     a? only what kind of reply it is
//! a< one more reply or message, byte for byte; the rest of the line is a remark
//! a= one more reply, every number taken as 0; the rest of the line is a remark
//! a! sent without waiting for a reply
//! a: byte for byte, but for the number of the connection, which HELLO shows
//! .  20  (waits 20 ms)           #  a remark
//! .  until blocked_clients:1  (waits until INFO has this line)
//! .  until no db0  (waits until no line of INFO begins so)
//! ```
//!
//! A malformed transcript makes this module panic: it is a part of a test.

/// Where the requests of a transcript are sent.
pub trait Stage {
    /// Lets so many milliseconds pass.
    fn wait(&mut self, milliseconds: u64);

    /// Waits until INFO has this line; `no` before it: until no line begins so. Where nothing runs
    /// beside the requests, time is all that it takes.
    fn wait_until(&mut self, _line: &str) {
        self.wait(2_000);
    }

    /// Sends a request over a connection, which is a new one at its first request.
    fn send(&mut self, connection: char, arguments: &[&[u8]]);

    /// The bytes of the next reply or message; `None` if the connection is closed.
    fn receive(&mut self, connection: char) -> Option<Vec<u8>>;
}

/// A transcript and what redis-server said.
pub struct Transcript {
    text: String,
    steps: Vec<Step>,
    recorded: Vec<String>,
}

enum Step {
    Wait(u64),
    WaitUntil(String),
    Request { line: usize, connection: char, by: Compared, text: String, arguments: Vec<Vec<u8>> },
}

impl Transcript {
    /// Reads the text of a transcript.
    #[must_use]
    pub fn parse(text: String) -> Self {
        let steps: Vec<Step> = text
            .lines()
            .enumerate()
            .filter_map(|(number, line)| Step::parse(number, line))
            .collect();
        let recorded = text.lines().filter_map(|line| line.strip_prefix("  "));
        let recorded: Vec<String> = recorded.map(str::to_owned).collect();
        Self { text, steps, recorded }
    }

    /// How many replies are recorded.
    #[must_use]
    pub fn replies(&self) -> usize {
        self.recorded.len()
    }

    /// Plays all requests; one paragraph for each reply that differs from the recorded one.
    pub fn differences(&self, stage: &mut impl Stage) -> Vec<String> {
        let replies = self.play(stage);
        assert_eq!(replies.len(), self.recorded.len(), "not one reply for each request: record it");
        let requests = self.steps.iter().filter_map(|step| match step {
            Step::Request { line, text, .. } => Some((line, text)),
            Step::Wait(_) | Step::WaitUntil(_) => None,
        });
        let compared = replies.iter().zip(&self.recorded).zip(requests);
        let different = compared.filter(|((reply, recorded), _)| reply != recorded);
        let shown = |((reply, recorded), (line, text))| {
            format!("line {line}: {text}\n  redis {recorded}\n  here  {reply}")
        };
        different.map(shown).collect()
    }

    /// The text of this transcript with the replies that a stage gives.
    pub fn record(&self, stage: &mut impl Stage) -> String {
        let mut replies = self.play(stage).into_iter();
        let mut text = String::new();
        let lines = self.text.lines().enumerate();
        for (number, line) in lines.filter(|(_, line)| !line.starts_with("  ")) {
            text += &format!("{line}\n");
            if let Some(Step::Request { .. }) = Step::parse(number, line) {
                text += &format!("  {}\n", replies.next().expect("a reply for each request"));
            }
        }
        text
    }

    /// Sends every request in order, each after the reply to the one before it.
    fn play(&self, stage: &mut impl Stage) -> Vec<String> {
        let mut replies = Vec::new();
        for step in &self.steps {
            match step {
                Step::Wait(milliseconds) => stage.wait(*milliseconds),
                Step::WaitUntil(line) => stage.wait_until(line),
                Step::Request { connection, by, arguments, .. } => {
                    let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
                    if !arguments.is_empty() {
                        stage.send(*connection, &arguments);
                    }
                    replies.push(match by {
                        Compared::Nothing => "(not awaited)".into(),
                        by => by.shape(stage.receive(*connection)),
                    });
                }
            }
        }
        replies
    }
}

impl Step {
    fn parse(number: usize, line: &str) -> Option<Self> {
        if line.is_empty() || line.starts_with(['#', ' ']) {
            return None;
        }
        if let Some(what) = line.strip_prefix('.').map(str::trim) {
            return Some(match what.strip_prefix("until ") {
                Some(line) => Self::WaitUntil(line.into()),
                None => Self::Wait(what.parse().expect("milliseconds to wait")),
            });
        }
        let (head, text) = line.split_once(' ').expect("a request after its connection");
        let mut head = head.chars();
        let connection = head.next().expect("a connection's letter");
        let mark = head.next();
        let by = match mark {
            Some('>' | '<') => Compared::Bytes,
            Some('~' | '=') => Compared::Numbers,
            Some('%') => Compared::Unordered,
            Some('?') => Compared::Kind,
            Some(':') => Compared::Nameless,
            Some('!') => Compared::Nothing,
            mark => panic!("line {}: no way of comparing: {mark:?}", number + 1),
        };
        let arguments = if matches!(mark, Some('<' | '=')) { Vec::new() } else { words(text) };
        Some(Self::Request { line: number + 1, connection, by, text: text.into(), arguments })
    }
}

/// Splits a request into arguments: `"..."` with the escapes `\"`, `\\`, `\r`, `\n`, `\xHH`.
#[must_use]
pub fn words(text: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut rest = text.trim_end();
    while !rest.is_empty() {
        let Some(quoted) = rest.strip_prefix('"') else {
            let (word, tail) = rest.split_once(' ').unwrap_or((rest, ""));
            found.push(word.as_bytes().to_vec());
            rest = tail;
            continue;
        };
        let mut word = Vec::new();
        let mut characters = quoted.char_indices();
        let end = loop {
            match characters.next().expect("a closing quote") {
                (end, '"') => break end,
                (at, '\\') => match characters.next().expect("an escaped character").1 {
                    'r' => word.push(b'\r'),
                    'n' => word.push(b'\n'),
                    'x' => {
                        let digits = &quoted[at + 2..at + 4];
                        word.push(u8::from_str_radix(digits, 16).expect("two hex digits"));
                        characters.nth(1);
                    }
                    literal => word.push(literal as u8),
                },
                (_, literal) => word.push(literal as u8),
            }
        };
        found.push(word);
        rest = quoted[end + 1..].trim_start();
    }
    found
}

#[derive(Clone, Copy)]
enum Compared {
    Bytes,
    Numbers,
    Unordered,
    Kind,
    Nameless,
    Nothing,
}

impl Compared {
    /// The part of a reply that has to be the same, as printable text.
    fn shape(self, raw: Option<Vec<u8>>) -> String {
        let Some(raw) = raw else { return "(closed)".into() };
        match self {
            Self::Bytes => escape(&raw),
            Self::Numbers => numbers_as_zero(&escape(&raw)),
            Self::Unordered => escape(&in_order(&raw).0),
            // A null has a kind of its own, whatever it is a null of.
            Self::Kind if raw.get(1) == Some(&b'-') => escape(&raw),
            Self::Kind => escape(&raw[..1]),
            Self::Nameless => without_number(escape(&raw)),
            Self::Nothing => String::new(),
        }
    }
}

/// Bytes as a transcript shows them.
#[must_use]
pub fn escape(raw: &[u8]) -> String {
    let mut text = String::new();
    for &byte in raw {
        match byte {
            b'\r' => text.push_str("\\r"),
            b'\n' => text.push_str("\\n"),
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(byte as char),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

/// A reply without the number of the connection.
fn without_number(text: String) -> String {
    let Some((head, tail)) = text.split_once(r"$2\r\nid\r\n:") else { return text };
    format!("{head}id {}", tail.trim_start_matches(|digit: char| digit.is_ascii_digit()))
}

fn numbers_as_zero(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character.is_ascii_digit() {
            true if out.ends_with('0') => {}
            true => out.push('0'),
            false => out.push(character),
        }
    }
    // An age of less than a millisecond is 0, one of a few has a fraction.
    out.replace(r"age-seconds\r\n$0\r\n0.0\r\n", r"age-seconds\r\n$0\r\n0\r\n")
}

/// One reply with the elements of all its lists sorted, without commands that Redis cannot have,
/// and the bytes it took.
fn in_order(raw: &[u8]) -> (Vec<u8>, usize) {
    let line = raw.windows(2).position(|pair| pair == b"\r\n").expect("a whole reply") + 2;
    let count: i64 = std::str::from_utf8(&raw[1..line - 2])
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(-1);
    let mut end = line;
    match raw[0] {
        b'$' if count >= 0 => end += count as usize + 2,
        b'*' | b'~' => {
            let mut elements = Vec::new();
            for _ in 0..count {
                let (element, length) = in_order(&raw[end..]);
                elements.push(element);
                end += length;
            }
            let is_own = |element: &[u8]| element.windows(13).any(|it| it == b"\r\nstillframe|");
            elements.retain(|element| !is_own(element));
            elements.sort();
            let head = format!("{}{}\r\n", char::from(raw[0]), elements.len());
            return ([head.as_bytes(), &elements.concat()].concat(), end);
        }
        _ => {}
    }
    (raw[..end].to_vec(), end)
}
