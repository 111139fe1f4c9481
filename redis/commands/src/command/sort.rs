//! SORT and SORT_RO: elements of a list, set or sorted set by number, by text, or by other keys.

use stillframe_keyspace::{Entry, Hash, IntText, Value};
use stillframe_resp::parse_integer;

use super::collection::view_of;
use crate::context::Context;
use crate::errors::{NOT_AN_INTEGER, Refusal, SYNTAX, WrongType};
use crate::number::doubles::parse_weight;
use crate::table::Table;
use crate::text::c_string;

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("sort", |ctx, args| sort(ctx, args, true));
    table.add("sort_ro", |ctx, args| sort(ctx, args, false));
}

/// What SORT is asked for.
#[derive(Default)]
struct Options<'a> {
    descending: bool,
    /// By text, not by number.
    alpha: bool,
    /// Start and count.
    limit: Option<(i64, i64)>,
    by: Option<&'a [u8]>,
    get: Vec<&'a [u8]>,
    store: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(args: &[&'a [u8]], may_store: bool) -> Result<Self, Refusal> {
        let mut options = Self::default();
        let mut rest = args;
        while let [option, after @ ..] = rest {
            rest = after;
            match (option.to_ascii_uppercase().as_slice(), rest) {
                (b"ASC", _) => options.descending = false,
                (b"DESC", _) => options.descending = true,
                (b"ALPHA", _) => options.alpha = true,
                (b"LIMIT", [start, count, after @ ..]) => {
                    rest = after;
                    let start = parse_integer(start).ok_or(NOT_AN_INTEGER)?;
                    options.limit = Some((start, parse_integer(count).ok_or(NOT_AN_INTEGER)?));
                }
                (b"STORE", [key, after @ ..]) if may_store => {
                    rest = after;
                    options.store = Some(key);
                }
                (b"BY", [pattern, after @ ..]) => {
                    rest = after;
                    options.by = Some(pattern);
                }
                (b"GET", [pattern, after @ ..]) => {
                    rest = after;
                    options.get.push(pattern);
                }
                _ => return Err(SYNTAX),
            }
        }
        Ok(options)
    }

    /// The elements wanted of `length`, in their final order.
    fn range(&self, length: usize) -> std::ops::Range<usize> {
        let Some((start, count)) = self.limit else { return 0..length };
        let start = usize::try_from(start.max(0)).unwrap_or(usize::MAX).min(length);
        // A negative count is none.
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        start..start.saturating_add(count).min(length)
    }
}

/// The key of the order.
enum Order {
    /// As they lie in the collection.
    None,
    /// By the elements themselves.
    Own,
    /// By the key that a pattern makes of each element.
    Looked,
}

/// An element and its weight.
struct Item {
    element: Vec<u8>,
    number: f64,
    /// What is compared instead of the element; `None`: the pattern leads nowhere.
    text: Option<Vec<u8>>,
}

/// `SORT key [BY p] [LIMIT start count] [GET p]... [ASC | DESC] [ALPHA] [STORE destination]`
fn sort(ctx: &mut Context<'_>, args: &[&[u8]], may_store: bool) -> Result<(), Refusal> {
    let mut options = Options::parse(&args[2..], may_store)?;
    let looks = options.by.filter(|pattern| c_string(pattern).contains(&b'*')).is_some();
    if (looks || !options.get.is_empty()) && !ctx.caller.reads_all_keys {
        // Redis names the one that comes first.
        let is_by = |word: &&[u8]| word.eq_ignore_ascii_case(b"by");
        let is_get = |word: &&[u8]| word.eq_ignore_ascii_case(b"get");
        let (by, get) = (args[2..].iter().position(is_by), args[2..].iter().position(is_get));
        let first = if looks && (get.is_none() || by < get) { "BY" } else { "GET" };
        return Err(format!(
            "ERR {first} option of SORT denied due to insufficient ACL permissions."
        )
        .into());
    }
    let (mut elements, is_set) = ctx.read(args[1], |_, entry| gather(entry))?;
    let mut order = match options.by {
        None => Order::Own,
        Some(pattern) if c_string(pattern).contains(&b'*') => Order::Looked,
        Some(_) => Order::None,
    };
    if matches!(order, Order::None) && is_set && (options.store.is_some() || ctx.ledger.in_script) {
        // What is stored, and what a script goes by, must not depend on where the members lie.
        (order, options.alpha) = (Order::Own, true);
    }
    if is_set && (options.store.is_some() || ctx.ledger.in_script) {
        elements.sort(); // so that those that compare equal have an order
    }
    let range = options.range(elements.len());
    let elements = ordered(ctx, elements, &options, &order)
        .ok_or("ERR One or more scores can't be converted into double")?;
    let chosen = elements.get(range).unwrap_or_default();
    match options.store {
        None => answer(ctx, chosen, &options.get),
        Some(target) => store(ctx, chosen, &options.get, target)?,
    }
    Ok(())
}

/// The elements of what can be sorted, and whether they have no order of their own.
fn gather(entry: Option<&Entry>) -> Result<(Vec<Vec<u8>>, bool), WrongType> {
    Ok(match entry.map(Entry::value) {
        None => (Vec::new(), false),
        Some(Value::List(list)) => (list.iter_from(0).map(<[u8]>::to_vec).collect(), false),
        Some(Value::Set(set)) => (set.iter().map(<[u8]>::to_vec).collect(), true),
        Some(Value::Sorted(sorted)) => {
            (sorted.iter_from(0).map(|(member, _)| member.to_vec()).collect(), false)
        }
        Some(_) => return Err(WrongType),
    })
}

/// The elements in the order that is asked for; `None` if one has no number to go by.
fn ordered(
    ctx: &mut Context<'_>,
    mut elements: Vec<Vec<u8>>,
    options: &Options<'_>,
    order: &Order,
) -> Option<Vec<Vec<u8>>> {
    let pattern = match (order, options.by) {
        (Order::None, _) => {
            if options.descending {
                elements.reverse();
            }
            return Some(elements);
        }
        (Order::Looked, pattern) => pattern,
        (Order::Own, _) => None,
    };
    let mut items = Vec::with_capacity(elements.len());
    for element in elements {
        let looked = pattern.map(|pattern| look_up(ctx, pattern, &element));
        let weight = looked.as_ref().map_or(Some(&element), Option::as_ref);
        let number = match weight {
            Some(text) if !options.alpha => parse_weight(text)?,
            _ => 0.0,
        };
        let number = number + 0.0; // neither of two zeros comes first
        items.push(Item { text: looked.flatten(), element, number });
    }
    let by_text = pattern.is_some();
    let whole = options.store.is_some();
    let compare = |a: &Item, b: &Item| match (options.alpha, by_text) {
        (true, false) => text_of(&a.element, whole).cmp(text_of(&b.element, whole)),
        (true, true) => {
            let [a, b] = [a, b].map(|item| item.text.as_ref().map(|text| text_of(text, whole)));
            a.cmp(&b)
        }
        (false, _) => a.number.total_cmp(&b.number).then_with(|| a.element.cmp(&b.element)),
    };
    items.sort_by(|a, b| if options.descending { compare(b, a) } else { compare(a, b) });
    Some(items.into_iter().map(|item| item.element).collect())
}

/// What is compared of a text: Redis collates as far as C's strings go, unless it stores.
fn text_of(text: &[u8], whole: bool) -> &[u8] {
    if whole { text } else { c_string(text) }
}

/// What a pattern such as `weight_*` or `object_*->field` makes of an element.
fn look_up(ctx: &mut Context<'_>, pattern: &[u8], element: &[u8]) -> Option<Vec<u8>> {
    if pattern == b"#" {
        return Some(element.to_vec());
    }
    let (key, field) = named(pattern, element)?;
    let now = ctx.now;
    ctx.read(&key, |_, entry| match field {
        Some(field) => view_of::<Hash<'_>>(entry, now).ok()??.get(field).map(<[u8]>::to_vec),
        None => match entry?.value() {
            value @ (Value::Int(_) | Value::Bytes(_)) => {
                Some(value.to_bytes(&mut IntText::default()).to_vec())
            }
            _ => None,
        },
    })
}

/// The key that a pattern names for an element, and the field of that hash.
fn named<'a>(pattern: &'a [u8], element: &[u8]) -> Option<(Vec<u8>, Option<&'a [u8]>)> {
    let star = c_string(pattern).iter().position(|&byte| byte == b'*')?;
    let (prefix, rest) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = c_string(rest).windows(2).position(|pair| pair == b"->");
    let arrow = arrow.filter(|at| c_string(rest).len() > at + 2);
    let (postfix, field) = match arrow {
        Some(at) => (&rest[..at], Some(&rest[at + 2..])),
        None => (rest, None),
    };
    Some(([prefix, element, postfix].concat(), field))
}

/// The keys that a request of SORT or SORT_RO reads by patterns, when it sorts this entry.
pub fn read_by_sort(args: &[&[u8]], entry: Option<&Entry>) -> Vec<Vec<u8>> {
    let Ok(options) = Options::parse(args.get(2..).unwrap_or_default(), true) else {
        return Vec::new(); // it is refused
    };
    let patterns: Vec<&[u8]> = options.by.into_iter().chain(options.get).collect();
    let elements = if patterns.is_empty() { Ok(Default::default()) } else { gather(entry) };
    let Ok((elements, _)) = elements else { return Vec::new() };
    let keys = |element: &Vec<u8>| {
        let named = patterns.iter().filter_map(|pattern| named(pattern, element));
        named.map(|(key, _)| key).collect::<Vec<_>>()
    };
    elements.iter().flat_map(keys).collect()
}

/// Answers the elements, or what the patterns make of each.
fn answer(ctx: &mut Context<'_>, chosen: &[Vec<u8>], patterns: &[&[u8]]) {
    ctx.out.array(chosen.len() * patterns.len().max(1));
    for element in chosen {
        if patterns.is_empty() {
            ctx.out.bulk(element);
        }
        for pattern in patterns {
            let value = look_up(ctx, pattern, element);
            ctx.out.bulk_or_null(value);
        }
    }
}

/// Stores as a list what would have been answered; what a pattern does not find is empty.
fn store(
    ctx: &mut Context<'_>,
    chosen: &[Vec<u8>],
    patterns: &[&[u8]],
    target: &[u8],
) -> Result<(), Refusal> {
    let mut results = Vec::new();
    for element in chosen {
        if patterns.is_empty() {
            results.push(element.clone());
        }
        for pattern in patterns {
            results.push(look_up(ctx, pattern, element).unwrap_or_default());
        }
    }
    if results.is_empty() {
        ctx.store_nothing(target);
        ctx.out.integer(0);
        return Ok(());
    }
    ctx.replaced(target, |keyspace, db, name| {
        keyspace.edit_list(db, name, |list| {
            results.iter().for_each(|result| list.push_back(result));
        })
    })?;
    ctx.changed_times(target, results.len(), 'l', "sortstore");
    ctx.out.integer(results.len() as i64);
    Ok(())
}
