//! Tables over patterns of keys, as a statement declares them:
//!
//! ```sql
//! create table orders as hash 'order:*' (id bigint from key, price double, state text)
//! ```
//!
//! A hash is a row, a column its field of that name, unless `from field 'name'` says another. Rows
//! of other types are their elements: `from value`, `member`, `score`, `index`, `id`, or, of a
//! stream, fields of its entries. `from key` is what stands for the `*` of the pattern, `from ttl`
//! the milliseconds until the key expires, `from db` its database.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use datafusion::sql::sqlparser::tokenizer::{Token, Word};
use stillframe_commands::text::glob;
use stillframe_rdb::{Collection, Element};

use crate::error::QueryError;
use crate::rows::{Facts, Key, Rows, id_text, int};
use crate::sheet::{CALENDAR, Cell, Sheet, shown};
use crate::table::{Content, Kind};

/// A declared table.
#[derive(Debug, Clone, PartialEq)]
pub struct Declaration {
    /// Its name.
    pub name: String,
    /// The type of its keys.
    pub kind: Kind,
    /// The pattern of their names.
    pub pattern: String,
    /// Its columns.
    pub columns: Vec<Declared>,
}

/// A declared column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// What is in it.
    pub content: Content,
    /// Where its values come from.
    pub from: From,
}

/// Where the values of a declared column come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// What stands for the star in the name of the key.
    Key,
    /// The milliseconds until the key expires.
    Ttl,
    /// The database.
    Db,
    /// A string, or an element of a list.
    Value,
    /// A member of a set or sorted set.
    Member,
    /// The score of that.
    Score,
    /// The place in a list.
    Index,
    /// The id of an entry.
    Id,
    /// A field of a hash, or of an entry.
    Field(String),
}

/// The words of a statement, without what has no meaning.
struct Words<'a> {
    tokens: Vec<&'a Token>,
    next: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.next).copied()
    }

    fn next(&mut self) -> Option<&'a Token> {
        self.next += 1;
        self.tokens.get(self.next - 1).copied()
    }

    /// The next word, if it is this one.
    fn take(&mut self, word: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Token::Word(it))
            if it.quote_style.is_none() && it.value.eq_ignore_ascii_case(word));
        self.next += usize::from(is_next);
        is_next
    }

    fn word(&mut self, what: &str) -> Result<&'a Word, QueryError> {
        match self.next() {
            Some(Token::Word(word)) => Ok(word),
            other => Err(expected(what, other)),
        }
    }

    fn token(&mut self, token: &Token) -> Result<(), QueryError> {
        match self.next() {
            Some(next) if next == token => Ok(()),
            other => Err(expected(&token.to_string(), other)),
        }
    }

    fn text(&mut self, what: &str) -> Result<&'a str, QueryError> {
        match self.next() {
            Some(Token::SingleQuotedString(text)) => Ok(text),
            other => Err(expected(what, other)),
        }
    }
}

fn expected(what: &str, found: Option<&Token>) -> QueryError {
    let found = found.map_or("the end".to_owned(), |token| format!("'{token}'"));
    QueryError::Declaration(format!("create table ... as: {what} expected, {found} found"))
}

/// A name as SQL takes it: in small letters unless it stands in quotes.
fn name_of(word: &Word) -> String {
    if word.quote_style.is_some() { word.value.clone() } else { word.value.to_ascii_lowercase() }
}

impl Declaration {
    /// Reads a statement; `None` if it is none of this kind.
    ///
    /// # Errors
    /// It begins as one, and goes on otherwise.
    pub fn parse(tokens: &[Token]) -> Result<Option<Self>, QueryError> {
        let tokens = tokens.iter().filter(|it| !matches!(it, Token::Whitespace(_))).collect();
        let mut words = Words { tokens, next: 0 };
        if !(words.take("create") && words.take("table")) {
            return Ok(None);
        }
        let Some(Token::Word(name)) = words.next() else { return Ok(None) };
        let name = name_of(name);
        if !words.take("as") {
            return Ok(None);
        }
        let kinds = || Kind::ALL.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
        let kind = match words.peek() {
            Some(Token::Word(word)) if !word.value.eq_ignore_ascii_case("select") => word,
            _ => return Ok(None),
        };
        let found = Kind::ALL.iter().find(|(_, name)| kind.value.eq_ignore_ascii_case(name));
        let kind = match found {
            Some((kind, _)) => *kind,
            None if kind.value.eq_ignore_ascii_case("with") => return Ok(None),
            None => return Err(expected(&format!("one of {}", kinds()), words.peek())),
        };
        words.next();
        let pattern = words.text("the pattern of its keys, as 'order:*',")?.to_owned();
        words.token(&Token::LParen)?;
        let mut columns: Vec<Declared> = Vec::new();
        loop {
            let column = Declared::parse(&mut words, kind)?;
            if columns.iter().any(|it| it.name == column.name) {
                let text = format!("table {name} has two columns {}", column.name);
                return Err(QueryError::Declaration(text));
            }
            columns.push(column);
            match words.next() {
                Some(Token::Comma) => {}
                Some(Token::RParen) => break,
                other => return Err(expected("',' or ')'", other)),
            }
        }
        match words.next() {
            None => Ok(Some(Self { name, kind, pattern, columns })),
            other => Err(expected("the end", other)),
        }
    }

    /// How the names of its keys begin.
    pub fn prefix(&self) -> &[u8] {
        let end = self.pattern.find(['*', '?', '[', '\\']).unwrap_or(self.pattern.len());
        &self.pattern.as_bytes()[..end]
    }

    /// The part of a name that stands for the star of the pattern: all of it without one.
    fn varying<'k>(&self, name: &'k [u8]) -> &'k [u8] {
        let Some(star) = self.pattern.find('*') else { return name };
        let is_plain = !self.pattern.contains(['?', '[', '\\']);
        let last = self.pattern.rfind('*').unwrap_or(star);
        let behind = self.pattern.len() - last - 1;
        if !is_plain || star + behind > name.len() {
            return name;
        }
        &name[star..name.len() - behind]
    }
}

impl Declared {
    fn parse(words: &mut Words<'_>, kind: Kind) -> Result<Self, QueryError> {
        let name = name_of(words.word("the name of a column")?);
        let content = words.word("the type of the column")?;
        let content = match content.value.to_ascii_lowercase().as_str() {
            "bigint" | "int" | "integer" => Content::Int,
            "double" => {
                words.take("precision");
                Content::Double
            }
            "float" | "real" => Content::Double,
            "boolean" | "bool" => Content::Bool,
            "text" | "varchar" | "string" => Content::Text,
            "timestamp" => Content::Time,
            _ => {
                let text = format!(
                    "column {name}: the types are bigint, double, boolean, text and timestamp, \
                     not '{}'",
                    content.value
                );
                return Err(QueryError::Declaration(text));
            }
        };
        let has_fields = [Collection::Hash, Collection::Stream].map(Kind::Of).contains(&kind);
        if !words.take("from") {
            if has_fields {
                return Ok(Self { from: From::Field(name.clone()), name, content });
            }
            let text = format!("column {name}: say where it comes from, as 'from key'");
            return Err(QueryError::Declaration(text));
        }
        let word = words.word("what the column comes from")?;
        let from = match word.value.to_ascii_lowercase().as_str() {
            "key" => From::Key,
            "ttl" => From::Ttl,
            "db" => From::Db,
            "field" => From::Field(words.text("the name of a field, as 'price',")?.to_owned()),
            "value" => From::Value,
            "member" => From::Member,
            "score" => From::Score,
            "index" => From::Index,
            "id" => From::Id,
            _ => {
                return Err(expected(
                    "db, key, ttl, field, value, member, score, index or id",
                    Some(&Token::Word(word.clone())),
                ));
            }
        };
        let fits = match (&from, kind) {
            (From::Key | From::Ttl | From::Db, _) => true,
            (From::Field(_), _) => has_fields,
            (From::Value, Kind::String | Kind::Of(Collection::List)) => true,
            (From::Index, Kind::Of(Collection::List)) => true,
            (From::Member, Kind::Of(Collection::Set | Collection::Sorted)) => true,
            (From::Score, Kind::Of(Collection::Sorted)) => true,
            (From::Id, Kind::Of(Collection::Stream)) => true,
            _ => false,
        };
        if !fits {
            let (from, kind) = (word.value.to_ascii_lowercase(), kind.name());
            let text = format!("column {name}: a {kind} has no {from}");
            return Err(QueryError::Declaration(text));
        }
        Ok(Self { name, content, from })
    }
}

/// Values that are no values of their columns, by table and column: how many the fullest scan
/// found, and the first.
#[derive(Debug, Default)]
pub struct Unfit(Mutex<BTreeMap<(String, String), (u64, String)>>);

impl Unfit {
    fn note(&self, place: (String, String), count: u64, first: String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = all.entry(place).or_insert((0, first));
        entry.0 = entry.0.max(count);
    }

    /// A sentence for each column that has some.
    pub fn sentences(&self) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sentence = |((table, column), (count, first)): (&(String, String), &(u64, String))| {
            format!("{table}.{column} is null in {count} rows whose value does not fit: {first}")
        };
        all.iter().map(sentence).collect()
    }
}

/// Passes on the value of the column of a number, which comes from there.
type Values<'v> = dyn FnMut(usize, &From, &mut dyn FnMut(Cell<'_>)) + 'v;

/// The rows of a declared table.
pub struct OfDeclaration {
    declaration: Arc<Declaration>,
    instant: i64,
    unfit: Arc<Unfit>,
    /// For each column, how many values do not fit, and the first.
    wrong: Vec<(u64, String)>,
    /// The fields of the hash so far, one for each column.
    fields: Vec<Option<Vec<u8>>>,
}

impl OfDeclaration {
    /// Of an image of this instant, in unix milliseconds.
    pub fn new(declaration: Arc<Declaration>, instant: i64, unfit: Arc<Unfit>) -> Self {
        let wrong = vec![(0, String::new()); declaration.columns.len()];
        let fields = vec![None; declaration.columns.len()];
        Self { declaration, instant, unfit, wrong, fields }
    }

    /// Adds a row whose values `value` gives.
    fn row(&mut self, sheet: &mut Sheet, key: &Key, value: &mut Values<'_>) {
        let declaration = Arc::clone(&self.declaration);
        for (number, column) in declaration.columns.iter().enumerate() {
            if !sheet.wants(number) {
                continue;
            }
            let wrong = &mut self.wrong[number];
            let mut set = |cell: Cell<'_>| {
                let typed = typed(cell, column.content);
                if let Err(text) = &typed {
                    wrong.0 += 1;
                    if wrong.0 == 1 {
                        wrong.1 = format!("{text} of key \"{}\"", shown(&key.name));
                    }
                }
                sheet.set(number, typed.unwrap_or(Cell::Null));
            };
            match &column.from {
                From::Key => set(Cell::Text(declaration.varying(&key.name))),
                From::Db => set(Cell::Int(key.db)),
                From::Ttl => {
                    let left = |at: i64| Cell::Int(at.saturating_sub(self.instant));
                    set(key.expires_at.map_or(Cell::Null, left));
                }
                from => value(number, from, &mut set),
            }
        }
        sheet.end_row();
    }
}

/// A value as one of its column, or its text if it is none.
fn typed(cell: Cell<'_>, content: Content) -> Result<Cell<'_>, String> {
    let (text, bytes) = match cell {
        Cell::Text(bytes) if content == Content::Text => return Ok(Cell::Text(bytes)),
        Cell::Text(bytes) => (std::str::from_utf8(bytes).ok(), bytes),
        Cell::Int(value) if content == Content::Double => return Ok(Cell::Double(value as f64)),
        Cell::Double(value) if content == Content::Int => {
            let is_whole = value.fract() == 0.0 && value.abs() < 9e15;
            return if is_whole { Ok(Cell::Int(value as i64)) } else { Err(value.to_string()) };
        }
        other => return Ok(other),
    };
    let parsed = text.and_then(|text| match content {
        Content::Int => text.trim().parse().ok().map(Cell::Int),
        Content::Double => {
            let value: Option<f64> = text.trim().parse().ok();
            // Too large a number is not infinity.
            let says_so = text.contains(['i', 'I', 'n', 'N']);
            value.filter(|value| value.is_finite() || says_so).map(Cell::Double)
        }
        Content::Bool => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "t" | "y" => Some(Cell::Bool(true)),
            "false" | "0" | "no" | "f" | "n" => Some(Cell::Bool(false)),
            _ => None,
        },
        Content::Time => {
            let millis = text.trim().parse().ok();
            let time = || Some(string_to_timestamp_nanos(text.trim()).ok()?.div_euclid(1_000_000));
            let time = millis.or_else(time).filter(|time| CALENDAR.contains(time));
            time.map(Cell::Int)
        }
        Content::Text | Content::Pairs => None,
    });
    parsed.ok_or_else(|| {
        let text = shown(&bytes[..bytes.len().min(40)]);
        format!("\"{text}\"{}", if bytes.len() > 40 { "..." } else { "" })
    })
}

impl Rows for OfDeclaration {
    fn wants(&self, key: &Key) -> bool {
        key.kind == self.declaration.kind
            && glob::matches(self.declaration.pattern.as_bytes(), &key.name)
    }

    fn string(&mut self, sheet: &mut Sheet, key: &Key, value: &[u8]) {
        self.row(sheet, key, &mut |_, _, set| set(Cell::Text(value)));
    }

    fn element(&mut self, sheet: &mut Sheet, key: &Key, number: i64, element: &Element<'_>) {
        match *element {
            Element::Pair(field, value) | Element::Expiring(field, value, _) => {
                for (column, kept) in self.declaration.columns.iter().zip(&mut self.fields) {
                    if matches!(&column.from, From::Field(name) if name.as_bytes() == field) {
                        *kept = Some(value.to_vec());
                    }
                }
            }
            Element::One(bytes) => self.row(sheet, key, &mut |_, from, set| {
                set(if *from == From::Index { Cell::Int(number) } else { Cell::Text(bytes) });
            }),
            Element::Scored(member, score) => self.row(sheet, key, &mut |_, from, set| {
                set(if *from == From::Score { Cell::Double(score) } else { Cell::Text(member) });
            }),
            Element::Entry { id, names, values, .. } => {
                let (id, time) = (id_text(id), id.0);
                let contents: Vec<Content> =
                    self.declaration.columns.iter().map(|column| column.content).collect();
                self.row(sheet, key, &mut |number, from, set| match from {
                    From::Field(name) => {
                        let at = (0..names.count()).find(|at| names.get(*at) == name.as_bytes());
                        set(at.map_or(Cell::Null, |at| Cell::Text(values.get(at))));
                    }
                    _ if contents[number] == Content::Time => set(Cell::Int(int(time))),
                    _ => set(Cell::Text(id.as_bytes())),
                });
            }
            _ => {}
        }
    }

    fn end(&mut self, sheet: &mut Sheet, key: &Key, _: &Facts) {
        if self.declaration.kind != Kind::Of(Collection::Hash) {
            return;
        }
        let mut fields = std::mem::take(&mut self.fields);
        self.row(sheet, key, &mut |number, _, set| {
            set(fields[number].as_deref().map_or(Cell::Null, Cell::Text));
        });
        fields.fill(None);
        self.fields = fields;
    }
}

impl Drop for OfDeclaration {
    fn drop(&mut self) {
        for (column, (count, first)) in self.declaration.columns.iter().zip(&mut self.wrong) {
            if *count > 0 {
                let place = (self.declaration.name.clone(), column.name.clone());
                self.unfit.note(place, *count, std::mem::take(first));
            }
        }
    }
}
