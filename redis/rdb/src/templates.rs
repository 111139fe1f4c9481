//! Templates of Redis 8.10: names of fields that many hashes share. Such a hash is read as any
//! other.
//!
//! ```text
//! template   0xF2 number, length, then names    in a file, before the keys
//! names      0 string | 1 length, then names    in a payload; the string is a listpack of them
//!
//! value by type, each name having one value
//!   29       names, string                      a listpack: a number, then values
//!   30       string                             a listpack: the template's number, then values
//!   31       names, then values                 strings
//!   32       number, then values                strings
//! ```

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use crate::DecodeError;
use crate::error::Problem;
use crate::format::*;
use crate::source::{Source, damaged};
use crate::unpack::{Form, Item, Walk};

/// The names of fields.
#[derive(Debug, Default)]
pub(crate) struct Template {
    count: u64,
    /// All of them, or none if the reader only checks.
    names: Vec<Box<[u8]>>,
}

/// The templates of a file, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Templates(HashMap<u64, Arc<Template>>);

/// How values of these types say which names they have, and how they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Templated {
    /// The names stand in the value, not in the file.
    pub(crate) is_whole: bool,
    /// The values stand in a listpack.
    pub(crate) is_packed: bool,
}

impl Templated {
    pub(crate) fn from_kind(kind: u8) -> Self {
        Self {
            is_whole: matches!(kind, TYPE_HASH_TEMPLATE_PACKED | TYPE_HASH_TEMPLATE_PLAIN),
            is_packed: matches!(kind, TYPE_HASH_TEMPLATE_PACKED | TYPE_HASH_TEMPLATE_PACKED_REF),
        }
    }
}

impl Template {
    /// How many names there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The name before which `at` others stand.
    pub(crate) fn name(&self, at: u64) -> &[u8] {
        usize::try_from(at).ok().and_then(|at| self.names.get(at)).map_or(&[], |name| name)
    }

    fn add(&mut self, name: &[u8], most: u64) {
        self.count += 1;
        if most == u64::MAX {
            self.names.push(name.into());
        }
    }

    /// Reads names, of which none has more than `most` bytes if they are kept.
    fn of_file<R: Read>(source: &mut Source<R>, most: u64) -> Result<Self, DecodeError> {
        let (mut template, mut name) = (Self::default(), Vec::new());
        for _ in 0..source.length("the number of names in a template")? {
            source.text_up_to(most, &mut name)?;
            template.add(&name, most);
        }
        Ok(template)
    }

    /// Reads the names in a payload.
    pub(crate) fn of_payload<R: Read>(source: &mut Source<R>, most: u64) -> Result<Self, Problem> {
        let at = source.offset();
        match source.length("the form of a template")? {
            0 => {}
            1 => return Ok(Self::of_file(source, most)?),
            other => return Err(damaged(at, format!("{other} is no form of a template")).into()),
        }
        let (offset, mut packed) = (source.offset(), Vec::new());
        if !source.text_up_to(most, &mut packed)? {
            let what = format!("a template of more than {most} bytes");
            return Err(Problem::Value { offset, what });
        }
        let flaw = |flaw: crate::unpack::Flaw| Problem::Value {
            offset,
            what: format!("a damaged template: {} (byte {})", flaw.what, flaw.at),
        };
        let mut walk = Walk::new(Form::Listpack, &packed).map_err(flaw)?;
        let mut template = Self::default();
        while let Some(item) = walk.next(&packed).map_err(flaw)? {
            match item {
                Item::Int(number) => template.add(number.to_string().as_bytes(), most),
                Item::Text(range) => template.add(packed.get(range).unwrap_or_default(), most),
            }
        }
        Ok(template)
    }

    /// What a payload of a hash with these names begins with, in the place of `kind`.
    pub(crate) fn payload_head(&self, kind: u8) -> Vec<u8> {
        let kind = match kind {
            TYPE_HASH_TEMPLATE_PACKED_REF => TYPE_HASH_TEMPLATE_PACKED,
            TYPE_HASH_TEMPLATE_PLAIN_REF => TYPE_HASH_TEMPLATE_PLAIN,
            other => return vec![other],
        };
        let mut head = vec![kind, 1];
        let length = |head: &mut Vec<u8>, length: u64| {
            head.push(LENGTH_64);
            head.extend_from_slice(&length.to_be_bytes());
        };
        length(&mut head, self.names.len() as u64);
        for name in &self.names {
            length(&mut head, name.len() as u64);
            head.extend_from_slice(name);
        }
        head
    }
}

impl Templates {
    /// Reads the next template of a file.
    pub(crate) fn read<R: Read>(
        &mut self,
        source: &mut Source<R>,
        most: u64,
    ) -> Result<(), DecodeError> {
        let number = source.length("the number of a template")?;
        let template = Template::of_file(source, most)?;
        self.0.insert(number, Arc::new(template));
        Ok(())
    }

    /// The template that a value at `offset` names.
    pub(crate) fn get(&self, number: u64, offset: u64) -> Result<Arc<Template>, Problem> {
        let absent = || Problem::Value {
            offset,
            what: format!("fields whose names are in template {number}, which is not there"),
        };
        self.0.get(&number).cloned().ok_or_else(absent)
    }
}
