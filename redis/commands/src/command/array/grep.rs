//! ARGREP: the elements that match.

use memchr::memmem::Finder;
use stillframe_keyspace::Array;

use super::expression;
use super::range::{answer_element, limit};
use super::{Span, answer_unsigned, elements, index};
use crate::context::Context;
use crate::errors::{Refusal, SYNTAX};
use crate::table::Table;
use crate::text::glob;

/// Adds the command.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("argrep", argrep);
}

const TESTS_MAX: usize = 250;
const EXPRESSION_BYTES_MAX: usize = 2048;

/// What an element has to be.
enum Test<'a> {
    Equal(&'a [u8]),
    Holds(&'a [u8]),
    Glob(&'a [u8]),
    Expression(&'a [u8]),
}

/// What stands behind the range.
struct Request<'a> {
    tests: Vec<Test<'a>>,
    all: bool,
    most: usize,
    with_values: bool,
    ignores_case: bool,
}

impl<'a> Request<'a> {
    fn parse(mut rest: &[&'a [u8]]) -> Result<Self, Refusal> {
        let mut request = Self {
            tests: Vec::new(),
            all: false,
            most: usize::MAX,
            with_values: false,
            ignores_case: false,
        };
        while let [word, after @ ..] = rest {
            rest = after;
            let word = word.to_ascii_lowercase();
            let test = match word.as_slice() {
                b"exact" => Test::Equal,
                b"match" => Test::Holds,
                b"glob" => Test::Glob,
                b"re" => Test::Expression,
                b"limit" => {
                    let [count, after @ ..] = rest else { return Err(SYNTAX) };
                    (request.most, rest) = (limit(count)?, after);
                    continue;
                }
                word => {
                    match word {
                        b"withvalues" => request.with_values = true,
                        b"nocase" => request.ignores_case = true,
                        b"and" => request.all = true,
                        b"or" => request.all = false,
                        _ => return Err(SYNTAX),
                    }
                    continue;
                }
            };
            let [text, after @ ..] = rest else { return Err(SYNTAX) };
            rest = after;
            request.add(test(text))?;
        }
        if request.tests.is_empty() { Err(SYNTAX) } else { Ok(request) }
    }

    fn add(&mut self, test: Test<'a>) -> Result<(), Refusal> {
        if self.tests.len() == TESTS_MAX {
            return Err("ERR too many predicates, maximum is 250".into());
        }
        if let Test::Expression(text) = test
            && text.len() > EXPRESSION_BYTES_MAX
        {
            return Err("ERR regular expression is too long, maximum is 2048 bytes".into());
        }
        self.tests.push(test);
        Ok(())
    }

    /// The tests in a form that is fast to ask.
    fn compile(&self) -> Result<Vec<Matcher>, Refusal> {
        let folded = |text: &[u8]| fold(text, self.ignores_case);
        let compiled = self.tests.iter().map(|test| match *test {
            Test::Equal(text) => Ok(Matcher::Equal(folded(text))),
            Test::Holds(text) => {
                Ok(Matcher::Holds(Box::new(Finder::new(&folded(text)).into_owned())))
            }
            Test::Glob(text) => Ok(Matcher::Glob(folded(text))),
            Test::Expression(text) => {
                expression::compile(text, self.ignores_case).map(Matcher::Expression)
            }
        });
        compiled.collect()
    }
}

fn fold(text: &[u8], ignores_case: bool) -> Vec<u8> {
    if ignores_case { text.to_ascii_lowercase() } else { text.to_vec() }
}

/// A test; texts are in lower case if case does not count.
enum Matcher {
    Equal(Vec<u8>),
    Holds(Box<Finder<'static>>),
    Glob(Vec<u8>),
    Expression(regex::bytes::Regex),
}

impl Matcher {
    /// Whether an element is what it has to be; `folded` is the element in lower case if case does
    /// not count.
    fn is_met(&self, value: &[u8], folded: &[u8]) -> bool {
        match self {
            Self::Equal(text) => text == folded,
            Self::Holds(finder) => finder.find(folded).is_some(),
            Self::Glob(pattern) => glob::matches(pattern, folded),
            Self::Expression(expression) => expression.is_match(value),
        }
    }
}

/// `ARGREP key start end (EXACT | MATCH | GLOB | RE) text... [AND | OR] [LIMIT count] [WITHVALUES]
/// [NOCASE]`
fn argrep(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    // `None` is the last index.
    let bound = |text: &[u8]| match text {
        b"-" => Ok(Some(0)),
        b"+" => Ok(None),
        text => index(text).map(Some),
    };
    let (start, end) = (bound(args[2])?, bound(args[3])?);
    let request = Request::parse(&args[4..])?;
    let tests = request.compile()?;
    let (out, array) = ctx.found::<Array<'_>>(args[1])?;
    let Some(array) = array else {
        out.array(0);
        return Ok(());
    };
    let last = array.span().saturating_sub(1);
    let (start, end) = (start.unwrap_or(last), end.unwrap_or(last));
    let (position, mut count) = (out.position(), 0);
    for (index, value) in elements(array, Span::between(start, end)) {
        if count == request.most {
            break;
        }
        let lower = request.ignores_case.then(|| value.to_ascii_lowercase());
        let folded = lower.as_deref().unwrap_or(value);
        let is_met = |test: &Matcher| test.is_met(value, folded);
        let is_found =
            if request.all { tests.iter().all(is_met) } else { tests.iter().any(is_met) };
        if is_found {
            count += 1;
            if request.with_values {
                answer_element(out, index, value);
            } else {
                answer_unsigned(out, index);
            }
        }
    }
    out.array_at(position, count);
    Ok(())
}
