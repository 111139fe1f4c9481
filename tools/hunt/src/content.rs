//! What keys hold, and what requests do to them: the model of a server, as small as the workload.

use std::collections::{BTreeMap, BTreeSet};

use stillframe_resp::parse_integer;

/// A key: its database and name.
pub type Name = (u64, Vec<u8>);

/// Keys and what they hold.
pub type Contents = BTreeMap<Name, Content>;

/// What a key holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A string.
    Text(Vec<u8>),
    /// A list.
    List(Vec<Vec<u8>>),
    /// A set.
    Set(BTreeSet<Vec<u8>>),
    /// A hash.
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// A sorted set.
    Sorted(BTreeMap<Vec<u8>, f64>),
}

impl Content {
    /// The type, as TYPE replies.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::List(_) => "list",
            Self::Set(_) => "set",
            Self::Hash(_) => "hash",
            Self::Sorted(_) => "zset",
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::List(list) => list.is_empty(),
            Self::Set(set) => set.is_empty(),
            Self::Hash(hash) => hash.is_empty(),
            Self::Sorted(sorted) => sorted.is_empty(),
        }
    }
}

/// A store in which requests can be run.
pub trait Keys {
    /// Removes a key and returns what it held.
    fn take_key(&mut self, name: &Name) -> Option<Content>;
    /// Stores a key.
    fn put(&mut self, name: Name, content: Content);
}

impl Keys for Contents {
    fn take_key(&mut self, name: &Name) -> Option<Content> {
        self.remove(name)
    }
    fn put(&mut self, name: Name, content: Content) {
        self.insert(name, content);
    }
}

/// Runs one request in database `db`, which SELECT changes. Knows the commands of the workload, and
/// those by which servers replicate them.
///
/// # Errors
/// One sentence about a request that is unknown, or meets a key of another type.
pub fn apply(keys: &mut impl Keys, db: &mut u64, words: &[&[u8]]) -> Result<(), String> {
    let shown = || words.join(&b' ').escape_ascii().to_string();
    let (command, arguments) = words.split_first().ok_or("an empty request")?;
    run(keys, db, &command.to_ascii_uppercase(), arguments)
        .ok_or_else(|| format!("cannot run '{:.200}'", shown()))
}

fn run(keys: &mut impl Keys, db: &mut u64, command: &[u8], arguments: &[&[u8]]) -> Option<()> {
    match (command, arguments) {
        (b"MULTI" | b"EXEC" | b"PING" | b"REPLCONF", _) => {}
        (b"SELECT", [number]) => *db = index(number)?,
        (b"DEL" | b"UNLINK", names) => {
            for &name in names {
                keys.take_key(&(*db, name.to_vec()));
            }
        }
        (b"MOVE", [name, to]) => {
            let (from, to) = ((*db, name.to_vec()), (index(to)?, name.to_vec()));
            let target = keys.take_key(&to);
            match (keys.take_key(&from), target) {
                (Some(content), None) => keys.put(to, content),
                (source, target) => {
                    // MOVE changes nothing when the target exists.
                    source.into_iter().for_each(|it| keys.put(from.clone(), it));
                    target.into_iter().for_each(|it| keys.put(to.clone(), it));
                }
            }
        }
        (b"SMOVE", [source, target, member]) => {
            let is_there = change(keys, *db, source, empty_set, |content| match content {
                Content::Set(set) => Some(set.remove(*member)),
                _ => None,
            })?;
            if is_there {
                run(keys, db, b"SADD", &[target, member])?;
            }
        }
        (b"SET", [name, value]) => {
            keys.put((*db, name.to_vec()), Content::Text(value.to_vec()));
        }
        (b"INCR", [name]) => add(keys, *db, name, 1)?,
        (b"INCRBY", [name, by]) => add(keys, *db, name, parse_integer(by)?)?,
        (b"DECRBY", [name, by]) => add(keys, *db, name, parse_integer(by)?.checked_neg()?)?,
        (command, [name, rest @ ..]) => collection(keys, *db, command, name, rest)?,
        _ => return None,
    }
    Some(())
}

fn collection(
    keys: &mut impl Keys,
    db: u64,
    command: &[u8],
    name: &[u8],
    rest: &[&[u8]],
) -> Option<()> {
    let fresh = match command {
        b"RPUSH" | b"LTRIM" => Content::List(Vec::new()),
        b"SADD" | b"SREM" => empty_set(),
        b"HSET" | b"HMSET" => Content::Hash(BTreeMap::new()),
        b"ZADD" => Content::Sorted(BTreeMap::new()),
        _ => return None,
    };
    change(keys, db, name, || fresh, |content| edit(content, command, rest))
}

/// Changes the elements of a collection.
fn edit(content: &mut Content, command: &[u8], words: &[&[u8]]) -> Option<()> {
    let owned = words.iter().map(|word| word.to_vec());
    let (pairs, _) = words.as_chunks::<2>();
    match (command, content) {
        (b"RPUSH", Content::List(list)) => list.extend(owned),
        (b"LTRIM", Content::List(list)) => trim(list, words)?,
        (b"SADD", Content::Set(set)) => set.extend(owned),
        (b"SREM", Content::Set(set)) => set.retain(|member| !words.contains(&&member[..])),
        (b"HSET" | b"HMSET", Content::Hash(hash)) => {
            hash.extend(pairs.iter().map(|[field, value]| (field.to_vec(), value.to_vec())));
        }
        (b"ZADD", Content::Sorted(sorted)) => {
            for [score, member] in pairs {
                let score = std::str::from_utf8(score).ok()?.parse().ok()?;
                sorted.insert(member.to_vec(), score);
            }
        }
        _ => return None,
    }
    Some(())
}

fn trim(list: &mut Vec<Vec<u8>>, words: &[&[u8]]) -> Option<()> {
    let [from, to] = words else { return None };
    let length = i64::try_from(list.len()).ok()?;
    let place = |text| parse_integer(text).map(|at| if at < 0 { at + length } else { at });
    let (from, to) = (place(from)?.max(0), place(to)?.min(length - 1));
    let kept = usize::try_from(to - from + 1).unwrap_or(0);
    *list = list.drain(..).skip(usize::try_from(from).ok()?).take(kept).collect();
    Some(())
}

fn empty_set() -> Content {
    Content::Set(BTreeSet::new())
}

fn index(text: &[u8]) -> Option<u64> {
    u64::try_from(parse_integer(text)?).ok()
}

fn add(keys: &mut impl Keys, db: u64, name: &[u8], by: i64) -> Option<()> {
    change(
        keys,
        db,
        name,
        || Content::Text(b"0".to_vec()),
        |content| {
            let Content::Text(text) = content else { return None };
            *text = parse_integer(text)?.checked_add(by)?.to_string().into_bytes();
            Some(())
        },
    )
}

/// Changes what a key holds, which is `fresh` if there is none; a collection without elements goes.
fn change<T>(
    keys: &mut impl Keys,
    db: u64,
    name: &[u8],
    fresh: impl FnOnce() -> Content,
    edit: impl FnOnce(&mut Content) -> Option<T>,
) -> Option<T> {
    let name = (db, name.to_vec());
    let mut content = keys.take_key(&name).unwrap_or_else(fresh);
    let result = edit(&mut content);
    if !content.is_empty() {
        keys.put(name, content);
    }
    result
}
