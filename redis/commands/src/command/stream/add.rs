//! XADD, and trimming by it and by XTRIM.

use stillframe_keyspace::{IdmpLimits, IdmpMessage, Stream, StreamEdit, StreamId};
use stillframe_resp::{format_integer, parse_integer};

use super::Word;
use super::id::{self, Given};
use super::idmp::{self, Message};
use super::references::{References, Removal};
use crate::context::Context;
use crate::errors::{NOT_AN_INTEGER, Refusal, SYNTAX, wrong_arity};
use crate::table::Table;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("xadd", xadd);
    table.add("xtrim", xtrim);
}

/// What is to be left.
#[derive(Debug, Clone, Copy)]
enum Kept {
    /// The last entries, this number of them.
    Length(usize),
    /// Entries from this id on.
    From(StreamId),
}

/// How to trim.
#[derive(Debug, Clone, Copy)]
struct Trim {
    kept: Kept,
    /// Whole nodes alone.
    approximate: bool,
    /// Most entries to remove; `None`: any number.
    limit: Option<usize>,
}

/// What stands before an entry's id, or behind the key of XTRIM.
#[derive(Debug, Default)]
struct Options<'a> {
    trim: Option<Trim>,
    no_mkstream: bool,
    references: Option<References>,
    message: Option<Message<'a>>,
}

impl<'a> Options<'a> {
    /// Reads options; what is not one of them is left to the caller.
    fn parse<'r>(
        mut rest: &'r [&'a [u8]],
        ctx: &Context<'_>,
        is_xadd: bool,
    ) -> Result<(Self, &'r [&'a [u8]]), Refusal> {
        const TWICE: &str = "ERR syntax error, MAXLEN and MINID options at the same time are not \
                             compatible";
        let (mut options, mut limit) = (Self::default(), None);
        while let [option, after @ ..] = rest {
            if is_xadd && option.first().is_some_and(|first| !first.is_ascii_alphabetic()) {
                break; // an id
            }
            match Word::from_option(option).as_slice() {
                name @ (b"maxlen" | b"minid") if !after.is_empty() => {
                    if options.trim.is_some() {
                        return Err(TWICE.into());
                    }
                    let (approximate, after) = match after {
                        [b"~", after @ ..] if !after.is_empty() => (true, after),
                        [b"=", after @ ..] if !after.is_empty() => (false, after),
                        after => (false, after),
                    };
                    let kept = Kept::parse(name, after[0])?;
                    options.trim = Some(Trim { kept, approximate, limit: None });
                    rest = &after[1..];
                    continue;
                }
                b"limit" if !after.is_empty() => {
                    let most = parse_integer(after[0]).ok_or(NOT_AN_INTEGER)?;
                    let most = usize::try_from(most)
                        .map_err(|_| Refusal::new("ERR The LIMIT argument must be >= 0."))?;
                    limit = Some(most);
                    rest = &after[1..];
                    continue;
                }
                b"nomkstream" if is_xadd => options.no_mkstream = true,
                b"idmp" | b"idmpauto" if is_xadd => {
                    let Some((message, after)) = Message::parse(option, after)? else { break };
                    if options.message.replace(message).is_some() {
                        return Err(
                            "ERR syntax error, IDMP/IDMPAUTO specified multiple times".into()
                        );
                    }
                    rest = after;
                    continue;
                }
                b"keepref" | b"delref" | b"acked" if options.references.is_none() => {
                    options.references = References::from_word(option);
                }
                _ if is_xadd => break,
                _ => return Err(SYNTAX),
            }
            rest = after;
        }
        if is_xadd && let [id, ..] = rest {
            options.check_id(id, ctx)?;
        }
        options.set_limit(limit, ctx, is_xadd)?;
        Ok((options, rest))
    }

    /// A bad id is found before what follows; one that is given goes with no message, except in
    /// effects, which say the id that was made.
    fn check_id(&self, id: &[u8], ctx: &Context<'_>) -> Result<(), Refusal> {
        const ALONE: &str =
            "ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs";
        if id == b"*" {
            return Ok(());
        }
        id::given(id)?;
        if self.message.is_some() && !ctx.caller.internal { Err(ALONE.into()) } else { Ok(()) }
    }

    fn set_limit(
        &mut self,
        limit: Option<usize>,
        ctx: &Context<'_>,
        is_xadd: bool,
    ) -> Result<(), Refusal> {
        let Some(trim) = &mut self.trim else {
            if limit.is_some_and(|most| most > 0) {
                return Err(
                    "ERR syntax error, LIMIT cannot be used without specifying a trimming \
                            strategy"
                        .into(),
                );
            }
            if !is_xadd {
                return Err(
                    "ERR syntax error, XTRIM must be called with a trimming strategy".into()
                );
            }
            return Ok(());
        };
        if ctx.caller.internal {
            return Ok(()); // an effect has the length that was left
        }
        trim.limit = match limit {
            Some(_) if !trim.approximate => {
                return Err(
                    "ERR syntax error, LIMIT cannot be used without the special ~ option".into()
                );
            }
            Some(0) => None,
            Some(most) => Some(most),
            None if trim.approximate => {
                const NODES: usize = 100;
                match ctx.keyspace.limits().stream_node_entries.saturating_mul(NODES) {
                    0 => Some(10_000),
                    most => Some(most.min(1_000_000)),
                }
            }
            None => None,
        };
        Ok(())
    }
}

impl Kept {
    fn parse(name: &[u8], text: &[u8]) -> Result<Self, Refusal> {
        if name == b"minid" {
            return id::strict(text, 0).map(Self::From);
        }
        let length = parse_integer(text).ok_or(NOT_AN_INTEGER)?;
        let length = usize::try_from(length);
        length.map(Self::Length).map_err(|_| "ERR The MAXLEN argument must be >= 0.".into())
    }
}

impl Trim {
    /// How many entries go. There are no nodes here: those of Redis are imagined, all full, the
    /// first one as far as entries that were ever added tell.
    fn doomed(&self, stream: Stream<'_>, node: usize) -> usize {
        let len = stream.len();
        let exact = match self.kept {
            Kept::Length(length) => len.saturating_sub(length),
            Kept::From(id) => stream.below(id),
        };
        if !self.approximate {
            return exact;
        }
        let node = if node == 0 { usize::MAX } else { node };
        let most = self.limit.map_or(exact, |limit| exact.min(limit));
        let before = stream.added().saturating_sub(len as u64);
        let first = len.min(node - (before % node as u64) as usize);
        if first > most {
            return 0;
        }
        let whole = first + (most - first) / node * node;
        let last = len - whole;
        // The last node may have few entries.
        if last < node && len <= most { len } else { whole }
    }

    /// Trims; returns how many entries went, and what became of references and of entries in the
    /// middle.
    fn run(
        &self,
        edit: &mut StreamEdit<'_>,
        node: usize,
        references: References,
    ) -> (usize, Removal) {
        let (doomed, mut removal) = (self.doomed(edit.view(), node), Removal::default());
        if doomed == 0 {
            return (0, removal);
        }
        match references {
            References::Keep => {}
            References::Delete => {
                let first = edit.view().iter_from(0).take(doomed).map(|entry| entry.id);
                let first: Vec<StreamId> = first.collect();
                first.into_iter().for_each(|id| removal.forget(edit, id));
            }
            References::Acked => {
                // In place of an entry that has to stay, a later one may go.
                let is_length = matches!(self.kept, Kept::Length(_)) && !self.approximate;
                let seen = if is_length { edit.view().len() } else { doomed };
                removal.trim_acked(edit, seen, doomed);
                return (removal.deleted.len(), removal);
            }
        }
        edit.trim(doomed);
        (doomed, removal)
    }
}

/// The id of the next entry.
fn next_id(stream: Stream<'_>, given: Option<Given>, now: i64) -> Result<StreamId, Refusal> {
    let last = stream.last_id();
    if last == StreamId::MAX {
        return Err(
            "ERR The stream has exhausted the last possible ID, unable to add more items".into()
        );
    }
    let id = match given {
        Some(Given::Whole(id)) => Some(id),
        Some(Given::Millis(ms)) if ms == last.ms => last.next().filter(|id| id.ms == ms),
        Some(Given::Millis(ms)) => Some(StreamId { ms, seq: 0 }),
        None => match u64::try_from(now) {
            Ok(ms) if ms > last.ms => Some(StreamId { ms, seq: 0 }),
            _ => last.next(),
        },
    };
    id.filter(|id| *id > last).ok_or_else(|| {
        "ERR The ID specified in XADD is equal or smaller than the target stream top item".into()
    })
}

/// `XADD key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMPAUTO pid | IDMP pid iid] [MAXLEN | MINID
/// [= | ~] threshold [LIMIT count]] * | id field value...`
fn xadd(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let key = args[1];
    let (options, rest) = Options::parse(&args[2..], ctx, true)?;
    let Some((given, fields)) = rest.split_first() else { return Err(wrong_arity("xadd")) };
    let given = (*given != b"*").then(|| id::given(given)).transpose()?;
    let (pairs, odd) = fields.as_chunks::<2>();
    if pairs.is_empty() || !odd.is_empty() {
        return Err(wrong_arity("xadd"));
    }
    if given == Some(Given::Whole(StreamId::MIN)) {
        return Err("ERR The ID specified in XADD must be greater than 0-0".into());
    }
    let (out, found) = ctx.found_to_edit::<Stream<'_>>(key)?;
    if found.is_none() && options.no_mkstream {
        out.null();
        return Ok(());
    }
    let is_first = found.is_none();
    let iid = options.message.map(|message| message.iid(pairs));
    let message = options.message.zip(iid.as_deref());
    let message = message.map(|(message, iid)| IdmpMessage { pid: message.pid(), iid });
    if let Some(sent) = message
        && let Some(id) = idmp::sent_before(ctx, key, sent, given)?
    {
        return answer_again(ctx, key, &options, id, fields);
    }
    let (db, now, node) = (ctx.caller.db, ctx.now, ctx.keyspace.limits().stream_node_entries);
    let references = options.references.unwrap_or_default();
    let limits = idmp::limits_of_new(ctx).filter(|_| is_first);
    let (id, (trimmed, removal), len) = ctx.keyspace.edit_stream(db, key, |edit| {
        let id = next_id(edit.view(), given, now)?;
        edit.add(id, pairs.iter().map(|&[name, value]| (name, value)));
        if let Some(limits) = limits {
            edit.set_idmp_limits(limits);
        }
        if let Some(message) = message {
            edit.note_sent(message, id);
        }
        let trimmed = options.trim.map(|trim| trim.run(edit, node, references));
        let trimmed = trimmed.unwrap_or_default();
        Ok::<_, Refusal>((id, trimmed, edit.view().len()))
    })??;
    ctx.changed_as(key, 't', "xadd");
    if trimmed > 0 {
        ctx.also(key, "xtrim");
    }
    let text = id::text(id);
    let is_certain = matches!(given, Some(Given::Whole(_)))
        && !options.trim.is_some_and(|trim| trim.approximate)
        && options.references.is_none()
        && limits.is_none();
    if !is_certain && ctx.ledger.effects.wanted() {
        let added = Added { message, limits, len, text: text.as_ref(), fields };
        added.note(ctx, key, &options);
        removal.note(ctx, key, true);
    }
    ctx.out.bulk(text);
    Ok(())
}

/// An entry that was added.
struct Added<'a> {
    /// Of which producer it is, and its id there.
    message: Option<IdmpMessage<'a>>,
    /// What was set on the stream, which is new.
    limits: Option<IdmpLimits>,
    /// How many entries the stream then has.
    len: usize,
    /// Its id.
    text: &'a [u8],
    fields: &'a [&'a [u8]],
}

impl Added<'_> {
    /// Notes it as requests that add the same.
    fn note(&self, ctx: &mut Context<'_>, key: &[u8], options: &Options<'_>) {
        let mut digits = [0; 20];
        let mut words = vec![&b"XADD"[..], key];
        if let Some(message) = options.message.filter(|_| self.limits.is_none()) {
            words.extend(message.words());
        }
        if options.trim.is_some() && options.references != Some(References::Acked) {
            let len = format_integer(self.len as i64, &mut digits);
            words.extend([&b"MAXLEN"[..], b"=", len]);
        }
        words.push(self.text);
        words.extend(self.fields);
        ctx.effect(&words);
        if let Some(limits) = self.limits {
            // Setting them forgets messages.
            idmp::effect_of_limits(ctx, key, limits);
            if let Some(IdmpMessage { pid, iid }) = self.message {
                ctx.effect(&[b"XIDMPRECORD", key, pid, iid, self.text]);
            }
        }
    }
}

/// Answers a message that was sent before with the id of its entry. It counts as a change that
/// nobody is told of, as in Redis; log and replicas get it without an id, and add nothing.
fn answer_again(
    ctx: &mut Context<'_>,
    key: &[u8],
    options: &Options<'_>,
    id: StreamId,
    fields: &[&[u8]],
) -> Result<(), Refusal> {
    ctx.keyspace.edit_stream(ctx.caller.db, key, |edit| edit.note_sent_again())?;
    ctx.ledger.dirty += 1;
    let message = options.message.as_ref().map(Message::words).unwrap_or_default();
    let words = [&[&b"XADD"[..], key, b"NOMKSTREAM"], &message[..], &[b"*"], fields].concat();
    ctx.effect(&words);
    ctx.out.bulk(id::text(id));
    Ok(())
}

/// `XTRIM key MAXLEN | MINID [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]`
fn xtrim(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let key = args[1];
    let (Options { trim, references, .. }, _) = Options::parse(&args[2..], ctx, false)?;
    let Some(trim) = trim else { return Err(SYNTAX) };
    let (out, found) = ctx.found_to_edit::<Stream<'_>>(key)?;
    if found.is_none() {
        out.integer(0);
        return Ok(());
    }
    let (db, node) = (ctx.caller.db, ctx.keyspace.limits().stream_node_entries);
    let ((trimmed, removal), len) = ctx.keyspace.edit_stream(db, key, |edit| {
        let trimmed = trim.run(edit, node, references.unwrap_or_default());
        (trimmed, edit.view().len())
    })?;
    if trimmed > 0 {
        ctx.changed_times(key, trimmed, 't', "xtrim");
        if (trim.approximate || references.is_some()) && references != Some(References::Acked) {
            let mut digits = [0; 20];
            let len = format_integer(len as i64, &mut digits);
            ctx.effect(&[args[0], key, b"MAXLEN", b"=", len]);
        }
        removal.note(ctx, key, true);
    }
    ctx.out.integer(trimmed as i64);
    Ok(())
}
