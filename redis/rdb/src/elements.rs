//! The elements of one collection, whatever form it has in the file.
//!
//! - Memory is that of one element, or of one packed string (a small collection, or a node of a
//!   list): a collection of any size streams through.
//! - A reader that only checks may bound that memory: it then steps over longer strings.
//! - A count sizes nothing: elements are read one by one up to it, and each takes bytes.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use crate::arrays::Arrays;
use crate::error::Problem;
use crate::format::*;
use crate::source::{Source, damaged, trim};
use crate::streams::Streams;
use crate::templates::{Template, Templated, Templates};
use crate::unpack::{Flaw, Form, Item, Walk};
use crate::{Collection, DecodeError, Element};

/// How the elements lie in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// One after the other.
    Plain,
    /// Sorted sets of old versions: scores are text.
    TextScores,
    /// All in one packed string.
    Packed(Form),
    /// In packed strings, the nodes of a list.
    Nodes(Form),
    /// In strings that are packed or not, as a number before each says.
    Mixed,
    /// Those of a stream, of a form by its type.
    Stream(u8),
    /// Values of fields whose names stand in a template.
    Templated(Templated),
    /// Those of an array.
    Array,
}

/// Where the expiries of fields stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiries {
    /// There are none.
    None,
    /// A length before each field: 0, or the time; or one more than the time beyond a first one,
    /// which the value begins with.
    Before { has_first: bool },
    /// 8 bytes behind each value: -1, or the time.
    Behind,
    /// In the packed string behind each value: 0, or the time.
    Packed { has_first: bool },
}

impl Expiries {
    fn from_kind(kind: u8, dialect: Dialect) -> Self {
        match kind {
            TYPE_HASH_VALKEY if dialect == Dialect::Valkey => Self::Behind,
            TYPE_HASH_EXPIRES_EARLY => Self::Before { has_first: false },
            TYPE_HASH_EXPIRES => Self::Before { has_first: true },
            TYPE_HASH_LISTPACK_EXPIRES_EARLY => Self::Packed { has_first: false },
            TYPE_HASH_LISTPACK_EXPIRES => Self::Packed { has_first: true },
            _ => Self::None,
        }
    }
}

/// The kind and layout of values of type `kind`; `None` if they are no collections.
fn layout(kind: u8, dialect: Dialect) -> Option<(Collection, Layout)> {
    use Collection::{Array, Hash, List, Set, Sorted, Stream};
    type_name(kind, dialect)?;
    Some(match kind {
        TYPE_LIST => (List, Layout::Plain),
        TYPE_SET => (Set, Layout::Plain),
        TYPE_SORTED_TEXT => (Sorted, Layout::TextScores),
        TYPE_HASH => (Hash, Layout::Plain),
        TYPE_SORTED => (Sorted, Layout::Plain),
        TYPE_HASH_ZIPMAP => (Hash, Layout::Packed(Form::Zipmap)),
        TYPE_LIST_ZIPLIST => (List, Layout::Packed(Form::Ziplist)),
        TYPE_SET_INTSET => (Set, Layout::Packed(Form::Intset)),
        TYPE_SET_LISTPACK => (Set, Layout::Packed(Form::Listpack)),
        TYPE_SORTED_ZIPLIST => (Sorted, Layout::Packed(Form::Ziplist)),
        TYPE_HASH_ZIPLIST => (Hash, Layout::Packed(Form::Ziplist)),
        TYPE_LIST_ZIPLISTS => (List, Layout::Nodes(Form::Ziplist)),
        TYPE_HASH_LISTPACK => (Hash, Layout::Packed(Form::Listpack)),
        TYPE_SORTED_LISTPACK => (Sorted, Layout::Packed(Form::Listpack)),
        TYPE_LIST_NODES => (List, Layout::Mixed),
        TYPE_ARRAY => (Array, Layout::Array),
        TYPE_STREAM_FIRST | TYPE_STREAM => (Stream, Layout::Stream(kind)),
        TYPE_STREAM_THIRD..=TYPE_STREAM_FIFTH => match Expiries::from_kind(kind, dialect) {
            Expiries::None => (Stream, Layout::Stream(kind)),
            Expiries::Before { .. } | Expiries::Behind => (Hash, Layout::Plain),
            Expiries::Packed { .. } => (Hash, Layout::Packed(Form::Listpack)),
        },
        TYPE_HASH_TEMPLATE_PACKED..=TYPE_HASH_TEMPLATE_PLAIN_REF => {
            (Hash, Layout::Templated(Templated::from_kind(kind)))
        }
        _ => return None,
    })
}

/// The collection being read.
#[derive(Debug)]
pub(crate) struct Elements {
    kind: Collection,
    layout: Layout,
    expiries: Expiries,
    /// The time that others count from.
    first_expiry: u64,
    /// Longer strings are stepped over, and count as empty.
    most: u64,
    /// Elements, or strings of packed ones, that are still to be read.
    left: u64,
    walk: Option<Walk>,
    /// Where the packed string begins in the file.
    offset: u64,
    packed: Vec<u8>,
    first: Vec<u8>,
    second: Vec<u8>,
    texts: [NumberText; 2],
    streams: Streams,
    templates: Templates,
    /// The names of the hash, if they stand in a template.
    template: Arc<Template>,
    arrays: Arrays,
}

/// An element whose bytes are in the buffers.
enum Found {
    /// In `first`, and `second` if it is a pair.
    Read,
    Scored(f64),
    /// In `first` and `second`, of a hash.
    Field(Option<i64>),
    /// In `packed`.
    One(Item),
    Pair(Item, Item, Option<i64>),
    /// The value, in `packed` or in `second`, of the field before whose name so many others stand.
    Templated(u64, Option<Item>),
    PackedScored(Item, f64),
}

impl Elements {
    /// Strings of more than `most` bytes are stepped over.
    pub(crate) fn up_to(most: u64) -> Self {
        Elements {
            kind: Collection::List,
            layout: Layout::Plain,
            expiries: Expiries::None,
            first_expiry: 0,
            most,
            left: 0,
            walk: None,
            offset: 0,
            packed: Vec::new(),
            first: Vec::new(),
            second: Vec::new(),
            texts: [[0; 32]; 2],
            streams: Streams::up_to(most),
            templates: Templates::default(),
            template: Arc::default(),
            arrays: Arrays::up_to(most),
        }
    }

    /// Whether values of type `kind` are collections.
    pub(crate) fn know(kind: u8, dialect: Dialect) -> bool {
        layout(kind, dialect).is_some()
    }

    /// Starts on a value of type `kind`: what it is, and how many elements it seems to have.
    pub(crate) fn begin<R: Read>(
        &mut self,
        source: &mut Source<R>,
        kind: u8,
    ) -> Result<(Collection, u64), Problem> {
        let at = source.offset();
        let dialect = source.dialect();
        (self.kind, self.layout) = layout(kind, dialect)
            .ok_or_else(|| damaged(at, format!("a value of type {kind} is no collection")))?;
        self.walk = None;
        self.expiries = Expiries::from_kind(kind, dialect);
        self.first_expiry = match self.expiries {
            Expiries::Before { has_first: true } | Expiries::Packed { has_first: true } => {
                u64::from_le_bytes(source.array("the first expiry of a hash")?)
            }
            _ => 0,
        };
        if let Layout::Stream(kind) = self.layout {
            return Ok((self.kind, self.streams.begin(source, kind)?));
        }
        if let Layout::Templated(form) = self.layout {
            self.begin_templated(source, form)?;
            return Ok((self.kind, self.left));
        }
        if self.layout == Layout::Array {
            return Ok((self.kind, self.arrays.begin(source)?));
        }
        if let Layout::Packed(form) = self.layout {
            self.left = 0;
            self.unpack(source, form)?;
            let announced = self.walk.as_ref().and_then(Walk::announced).unwrap_or(0);
            let each = match (self.kind, self.expiries) {
                (_, Expiries::Packed { .. }) => 3,
                (Collection::Hash | Collection::Sorted, _) => 2,
                _ => 1,
            };
            return Ok((self.kind, announced / each));
        }
        self.left = source.length("the number of elements")?;
        Ok((self.kind, self.left))
    }

    /// The next element.
    pub(crate) fn next<R: Read>(
        &mut self,
        source: &mut Source<R>,
    ) -> Result<Option<Element<'_>>, Problem> {
        let found = match self.layout {
            Layout::Stream(_) => return self.streams.next(source),
            Layout::Array => return self.arrays.next(source),
            Layout::Plain | Layout::TextScores => self.read(source)?,
            Layout::Packed(form) | Layout::Nodes(form) => self.packed(source, form)?,
            Layout::Mixed => self.packed(source, Form::Listpack)?,
            Layout::Templated(form) => self.templated(source, form)?,
        };
        let Some(found) = found else {
            for buffer in [&mut self.packed, &mut self.first, &mut self.second] {
                trim(buffer);
            }
            return Ok(None);
        };
        let [one, two] = &mut self.texts;
        Ok(Some(match found {
            Found::Field(at_ms) => field(&self.first, &self.second, at_ms),
            Found::Read => Element::One(&self.first),
            Found::Scored(score) => Element::Scored(&self.first, score),
            Found::Templated(at, value) => {
                let value = match value {
                    Some(item) => text(&self.packed, &item, one),
                    None => &self.second,
                };
                Element::Pair(self.template.name(at), value)
            }
            Found::One(item) => Element::One(text(&self.packed, &item, one)),
            Found::Pair(name, value, at_ms) => {
                let (name, value) =
                    (text(&self.packed, &name, one), text(&self.packed, &value, two));
                field(name, value, at_ms)
            }
            Found::PackedScored(member, score) => {
                Element::Scored(text(&self.packed, &member, one), score)
            }
        }))
    }

    /// An element that is not packed.
    fn read<R: Read>(&mut self, source: &mut Source<R>) -> Result<Option<Found>, Problem> {
        match self.left.checked_sub(1) {
            None => return Ok(None),
            Some(left) => self.left = left,
        }
        let offset = source.offset();
        let mut expiry = match self.expiries {
            Expiries::Before { .. } => {
                self.expiry(offset, source.length("the expiry of a field")?)?
            }
            _ => None,
        };
        source.text_up_to(self.most, &mut self.first)?;
        Ok(Some(match self.kind {
            Collection::List | Collection::Set => Found::Read,
            Collection::Stream | Collection::Array => Found::Read, // have layouts of their own
            Collection::Hash => {
                source.text_up_to(self.most, &mut self.second)?;
                if self.expiries == Expiries::Behind {
                    let at = i64::from_le_bytes(source.array("the expiry of a field")?);
                    expiry = (at != NO_FIELD_EXPIRY).then_some(at);
                }
                Found::Field(expiry)
            }
            Collection::Sorted => {
                let offset = source.offset();
                let score = match self.layout {
                    Layout::TextScores => source.text_score()?,
                    _ => f64::from_le_bytes(source.array("a score")?),
                };
                Found::Scored(number(score).ok_or_else(|| not_a_number(offset))?)
            }
        }))
    }

    /// The next element inside packed strings.
    fn packed<R: Read>(
        &mut self,
        source: &mut Source<R>,
        form: Form,
    ) -> Result<Option<Found>, Problem> {
        loop {
            if let Some(first) = self.item()? {
                return match self.kind {
                    Collection::List | Collection::Set => Ok(Some(Found::One(first))),
                    Collection::Stream | Collection::Array => Ok(Some(Found::One(first))),
                    Collection::Hash => {
                        let value = self.item()?.ok_or_else(|| self.alone("a field"))?;
                        let expiry = self.packed_expiry()?;
                        Ok(Some(Found::Pair(first, value, expiry)))
                    }
                    Collection::Sorted => {
                        let score = self.item()?.ok_or_else(|| self.alone("a member"))?;
                        let score = self.score(&score).ok_or_else(|| not_a_number(self.offset))?;
                        Ok(Some(Found::PackedScored(first, score)))
                    }
                };
            }
            match self.left.checked_sub(1) {
                None => return Ok(None),
                Some(left) => self.left = left,
            }
            if self.layout == Layout::Mixed {
                let at = source.offset();
                match source.length("the container of a node")? {
                    NODE_PLAIN => {
                        // Redis packs an element of no bytes, and refuses such a node.
                        if source.text_up_to(self.most, &mut self.first)? && self.first.is_empty() {
                            let what = "a node of its own for an element of no bytes".to_owned();
                            return Err(Problem::Value { offset: at, what });
                        }
                        return Ok(Some(Found::Read));
                    }
                    NODE_PACKED => {}
                    other => {
                        let what = format!("a node with container {other}, which there is not");
                        return Err(Problem::Value { offset: at, what });
                    }
                }
            }
            self.unpack(source, form)?;
        }
    }

    /// Reads a template of the file, between two keys.
    pub(crate) fn read_template<R: Read>(
        &mut self,
        source: &mut Source<R>,
    ) -> Result<(), DecodeError> {
        self.templates.read(source, self.most)
    }

    /// See [`Decoder::payload_head`](crate::Decoder::payload_head).
    pub(crate) fn payload_head(&self, kind: u8) -> Vec<u8> {
        self.template.payload_head(kind)
    }

    /// Reads what stands before the values of a hash with a template.
    fn begin_templated<R: Read>(
        &mut self,
        source: &mut Source<R>,
        form: Templated,
    ) -> Result<(), Problem> {
        self.offset = source.offset();
        if form.is_whole {
            self.template = Arc::new(Template::of_payload(source, self.most)?);
        }
        let number = if form.is_packed {
            self.unpack(source, Form::Listpack)?;
            if self.walk.is_none() {
                self.left = 0; // too long to look into
                return Ok(());
            }
            let number = self.item()?;
            let number = number.and_then(|it| if let Item::Int(it) = it { Some(it) } else { None });
            let number = number.and_then(|number| u64::try_from(number).ok());
            Some(number.ok_or_else(|| self.wrong("a listpack without the number of a template"))?)
        } else if form.is_whole {
            None
        } else {
            Some(source.length("the number of a template")?)
        };
        if let Some(number) = number.filter(|_| !form.is_whole) {
            self.template = self.templates.get(number, self.offset)?;
        }
        self.left = self.template.count();
        Ok(())
    }

    /// The next value of a hash with a template.
    fn templated<R: Read>(
        &mut self,
        source: &mut Source<R>,
        form: Templated,
    ) -> Result<Option<Found>, Problem> {
        let left = self.left.checked_sub(1);
        let item = if form.is_packed { self.item()? } else { None };
        let Some(left) = left else {
            let more = || self.wrong("more values than its template has names");
            return if item.is_none() { Ok(None) } else { Err(more()) };
        };
        if form.is_packed && item.is_none() {
            return Err(self.wrong("fewer values than its template has names"));
        }
        if !form.is_packed {
            source.text_up_to(self.most, &mut self.second)?;
        }
        let at = self.template.count() - self.left;
        self.left = left;
        Ok(Some(Found::Templated(at, item)))
    }

    fn wrong(&self, what: &str) -> Problem {
        Problem::Value { offset: self.offset, what: what.to_owned() }
    }

    /// The expiry behind a value in the packed string, if there is one.
    fn packed_expiry(&mut self) -> Result<Option<i64>, Problem> {
        let Expiries::Packed { .. } = self.expiries else { return Ok(None) };
        match self.item()?.ok_or_else(|| self.alone("a value"))? {
            Item::Int(0) => Ok(None),
            Item::Int(at) if u64::try_from(at).is_ok_and(|at| at <= FIELD_EXPIRY_MAX) => {
                Ok(Some(at))
            }
            _ => Err(no_expiry(self.offset)),
        }
    }

    /// The expiry that stands as `number` at `offset`, if there is one.
    fn expiry(&self, offset: u64, number: u64) -> Result<Option<i64>, Problem> {
        let Some(beyond) = number.checked_sub(1) else { return Ok(None) };
        let at = match self.expiries {
            Expiries::Before { has_first: true } => self.first_expiry.checked_add(beyond),
            _ => Some(number),
        };
        let at = at.filter(|&at| at <= FIELD_EXPIRY_MAX).ok_or_else(|| no_expiry(offset))?;
        // As in Redis, 1970 begins with no time.
        Ok(i64::try_from(at).ok().filter(|&at| at > 0))
    }

    /// Reads a packed string to be walked over.
    fn unpack<R: Read>(&mut self, source: &mut Source<R>, form: Form) -> Result<(), Problem> {
        self.offset = source.offset();
        if !source.text_up_to(self.most, &mut self.packed)? {
            return Ok(());
        }
        let walk = Walk::new(form, &self.packed).map_err(|flaw| self.flaw(form, &flaw))?;
        self.walk = Some(walk);
        Ok(())
    }

    /// The next item of the packed string, if there is one; its end is checked.
    fn item(&mut self) -> Result<Option<Item>, Problem> {
        let Some(walk) = &mut self.walk else { return Ok(None) };
        let form = walk.form();
        let item = walk.next(&self.packed).map_err(|flaw| self.flaw(form, &flaw))?;
        if item.is_none() {
            self.walk = None;
        }
        Ok(item)
    }

    fn score(&self, item: &Item) -> Option<f64> {
        match item {
            Item::Int(value) => Some(*value as f64),
            Item::Text(range) => parse_score(self.packed.get(range.clone())?),
        }
    }

    fn flaw(&self, form: Form, flaw: &Flaw) -> Problem {
        let (name, bytes) = (form.name(), self.packed.len());
        let Flaw { at, what } = flaw;
        // Redis's words: logs are searched for them.
        let check = match (form, self.kind) {
            (Form::Zipmap, _) => "Zipmap",
            (Form::Intset, _) => "Intset",
            (Form::Ziplist, Collection::Sorted) => "Zset ziplist",
            (Form::Listpack, Collection::Sorted) => "Zset listpack",
            (Form::Ziplist, Collection::Hash) => "Hash ziplist",
            (Form::Listpack, Collection::Hash) => "Hash listpack",
            (Form::Listpack, Collection::Set) => "Set listpack",
            (Form::Ziplist, _) => "Ziplist",
            (Form::Listpack, _) => "Listpack",
        };
        let what = format!(
            "a damaged {name}: {what} (byte {at} of its {bytes}; {check} integrity check failed)"
        );
        Problem::Value { offset: self.offset, what }
    }

    fn alone(&self, what: &str) -> Problem {
        Problem::Value { offset: self.offset, what: format!("{what} that nothing follows") }
    }
}

fn text<'a>(packed: &'a [u8], item: &Item, room: &'a mut NumberText) -> &'a [u8] {
    match item {
        Item::Int(value) => number_text(room, format_args!("{value}")),
        Item::Text(Range { start, end }) => packed.get(*start..*end).unwrap_or_default(),
    }
}

fn field<'a>(name: &'a [u8], value: &'a [u8], expire_at_ms: Option<i64>) -> Element<'a> {
    match expire_at_ms {
        None => Element::Pair(name, value),
        Some(at) => Element::Expiring(name, value, at),
    }
}

fn no_expiry(offset: u64) -> Problem {
    Problem::Value { offset, what: "an expiry of a field that is no time".to_owned() }
}

fn number(score: f64) -> Option<f64> {
    (!score.is_nan()).then_some(score)
}

fn parse_score(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok().and_then(number)
}

fn not_a_number(offset: u64) -> Problem {
    Problem::Value { offset, what: "a score that is no number".to_owned() }
}

impl<R: Read> Source<R> {
    /// A score as text: a byte of length, or one of three that stand for no number and infinities.
    fn text_score(&mut self) -> Result<f64, DecodeError> {
        let offset = self.offset();
        Ok(match self.array("the length of a score")? {
            [253] => f64::NAN,
            [254] => f64::INFINITY,
            [255] => f64::NEG_INFINITY,
            [length] => {
                let mut text = Vec::new();
                self.bytes(offset, length.into(), &mut text)?;
                parse_score(&text).unwrap_or(f64::NAN)
            }
        })
    }
}
