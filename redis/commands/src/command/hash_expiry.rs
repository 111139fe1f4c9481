//! Fields that expire: HEXPIRE, HTTL and their siblings, HPERSIST, HGETEX, HSETEX.
//!
//! - Log and replicas get HSET, HPEXPIREAT, HPERSIST and HDEL, which Redis 7.4 and later and
//!   Valkey 9 know alike.
//! - A deadline that has passed deletes the field at once. Replay and a replica, whose clocks
//!   stand still, set it as it is.
//! - A lookup deletes some of the fields whose time has come, and hides the rest; of those an edit
//!   first deletes the fields that the request names ([`Context::delete_due`]).

use stillframe_keyspace::{FIELD_DEADLINE_MAX, Hash, HashEdit};
use stillframe_resp::{Out, parse_integer};

use super::hashes::{NO_FIELDS, answer_field, counted_fields, expire_as_before, expires_at};
use super::keys::expire::{
    Conditions, MILLISECONDS, SECONDS, TimeForm, UNIX_MILLISECONDS, UNIX_SECONDS,
};
use crate::context::Context;
use crate::errors::{NOT_AN_INTEGER, Refusal, SYNTAX, invalid_expire_time, wrong_arity};
use crate::table::Table;

/// A field and its value.
type Pair<'a> = [&'a [u8]; 2];

/// What became of a field, in Redis's numbers: there is none,
const NO_FIELD: i64 = -2;
/// it has no deadline,
const NO_DEADLINE: i64 = -1;
/// a condition does not hold,
const NOT_MET: i64 = 0;
/// the deadline was changed,
const DONE: i64 = 1;
/// the field was deleted, as the deadline has passed.
const DELETED: i64 = 2;

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("hexpire", |ctx, args| hexpire(ctx, args, "hexpire", SECONDS));
    table.add("hexpireat", |ctx, args| hexpire(ctx, args, "hexpireat", UNIX_SECONDS));
    table.add("hexpiretime", |ctx, args| remaining(ctx, args, UNIX_SECONDS));
    table.add("hgetex", hgetex);
    table.add("hpersist", hpersist);
    table.add("hpexpire", |ctx, args| hexpire(ctx, args, "hpexpire", MILLISECONDS));
    table.add("hpexpireat", |ctx, args| hexpire(ctx, args, "hpexpireat", UNIX_MILLISECONDS));
    table.add("hpexpiretime", |ctx, args| remaining(ctx, args, UNIX_MILLISECONDS));
    table.add("hpttl", |ctx, args| remaining(ctx, args, MILLISECONDS));
    table.add("hsetex", hsetex);
    table.add("httl", |ctx, args| remaining(ctx, args, SECONDS));
}

/// Reads a deadline.
fn deadline(ctx: &Context<'_>, text: &[u8], form: TimeForm, command: &str) -> Result<i64, Refusal> {
    let number = parse_integer(text).ok_or(NOT_AN_INTEGER)?;
    if number < 0 {
        return Err("ERR invalid expire time, must be >= 0".into());
    }
    // Valkey knows no bound, and may be the primary; replicas may be Redis, which knows one.
    let most = if ctx.caller.internal { i64::MAX } else { FIELD_DEADLINE_MAX };
    let instant = form.instant(number, ctx.now).filter(|&instant| instant <= most);
    let instant = instant.ok_or_else(|| invalid_expire_time(command))?;
    Ok(instant.min(FIELD_DEADLINE_MAX))
}

/// Replies the same of each field.
fn answer_all(out: &mut Out<'_>, fields: &[&[u8]], reply: impl Fn(&mut Out<'_>)) {
    out.array(fields.len());
    fields.iter().for_each(|_| reply(out));
}

/// Changes of the deadlines of fields.
#[derive(Clone, Copy)]
enum Change {
    /// They expire at an instant.
    At(i64),
    /// They stay.
    Persist,
}

impl Change {
    /// Whether the fields are deleted, as their time has come.
    fn deletes(self, now: i64) -> bool {
        matches!(self, Self::At(deadline) if deadline <= now)
    }

    /// Changes a field that is there.
    fn make(self, hash: &mut HashEdit<'_>, field: &[u8], now: i64) {
        match self {
            Self::At(_) if self.deletes(now) => hash.remove(field),
            Self::At(deadline) => hash.set_deadline(field, Some(deadline)),
            Self::Persist => hash.set_deadline(field, None),
        };
    }

    /// Notes that it was made to these fields, of which there may be none; so many are left.
    fn note(self, ctx: &mut Context<'_>, key: &[u8], fields: &[&[u8]], left: usize) {
        if fields.is_empty() {
            return;
        }
        let deletes = self.deletes(ctx.now);
        if deletes {
            ctx.keyspace.count_expired_fields(fields.len());
        }
        let event = match self {
            Self::At(_) if deletes => "hdel",
            Self::At(_) => "hexpire",
            Self::Persist => "hpersist",
        };
        ctx.changed_fields(key, event, fields.iter().copied());
        ctx.emptied(key, left);
        match self {
            Self::At(_) if deletes => ctx.effect(&[&[&b"HDEL"[..], key], fields].concat()),
            Self::At(deadline) => expires_at(ctx, key, deadline, fields),
            Self::Persist => {
                // A replica that is Redis 8 takes no HPERSIST of a field whose time has come by
                // then, but any HPEXPIREAT.
                expires_at(ctx, key, FIELD_DEADLINE_MAX, fields);
                let count = fields.len().to_string();
                let head: [&[u8]; 4] = [b"HPERSIST", key, b"FIELDS", count.as_bytes()];
                ctx.effect(&[&head[..], fields].concat());
            }
        }
    }
}

/// `HEXPIRE key seconds [NX | XX | GT | LT] FIELDS numfields field...` and its three siblings; the
/// condition may stand behind the fields
fn hexpire(
    ctx: &mut Context<'_>,
    args: &[&[u8]],
    command: &'static str,
    form: TimeForm,
) -> Result<(), Refusal> {
    let key = args[1];
    let is_there = ctx.found_to_edit::<Hash<'_>>(key)?.1.is_some();
    let deadline = deadline(ctx, args[2], form, command)?;
    let (conditions, fields) = conditions_and_fields(&args[3..])?;
    if !is_there {
        answer_all(&mut ctx.out, fields, |out| out.integer(NO_FIELD));
        return Ok(());
    }
    let change = Change::At(deadline);
    let done = if change.deletes(ctx.now) { DELETED } else { DONE };
    change_fields(ctx, key, fields, change, |out, hash, field| {
        let is_there = hash.contains(field);
        let changes = is_there && conditions.allow(hash.deadline(field), deadline);
        out.integer(match (is_there, changes) {
            (false, _) => NO_FIELD,
            (true, false) => NOT_MET,
            (true, true) => done,
        });
        changes
    })
}

/// Changes the fields for which `ask`, which replies, says so.
fn change_fields(
    ctx: &mut Context<'_>,
    key: &[u8],
    fields: &[&[u8]],
    change: Change,
    ask: impl Fn(&mut Out<'_>, Hash<'_>, &[u8]) -> bool,
) -> Result<(), Refusal> {
    ctx.delete_due(key, fields.iter().copied());
    let Context { keyspace, out, caller, now, .. } = ctx;
    out.array(fields.len());
    let (changed, left) = keyspace.edit_hash(caller.db, key, |hash| {
        let mut changed = Vec::new();
        for &field in fields {
            if ask(out, hash.view().as_of(*now), field) {
                changed.push(field);
                change.make(hash, field, *now);
            }
        }
        (changed, hash.view().len())
    })?;
    change.note(ctx, key, &changed, left);
    Ok(())
}

/// What stands behind FIELDS: so many words for each of `numfields` fields, and what follows.
type Listed<'r, 'a> = (&'r [&'a [u8]], &'r [&'a [u8]]);

/// Reads `numfields field...`; `none` refuses a number that counts nothing.
fn listed<'r, 'a>(
    count: &[u8],
    rest: &'r [&'a [u8]],
    words_each: usize,
    none: &'static str,
) -> Result<Listed<'r, 'a>, Refusal> {
    let count = parse_integer(count).and_then(|count| i32::try_from(count).ok());
    let count = count.filter(|&count| count > 0).ok_or(none)? as usize;
    let listed = rest.split_at_checked(count.saturating_mul(words_each));
    listed.ok_or_else(|| "ERR wrong number of arguments".into())
}

const FIELDS_TWICE: &str = "ERR FIELDS keyword specified multiple times";
const FIELDS_MISSING: &str = "ERR missing FIELDS argument";

fn unknown_argument(word: &[u8]) -> Refusal {
    [b"ERR unknown argument: ", crate::text::c_string(word)].concat().into()
}

/// Conditions (Redis takes one, Valkey several) and the fields, in any order.
fn conditions_and_fields<'r, 'a>(
    mut rest: &'r [&'a [u8]],
) -> Result<(Conditions, &'r [&'a [u8]]), Refusal> {
    let (mut conditions, mut fields) = (Vec::new(), None);
    while let [word, after @ ..] = rest {
        rest = after;
        match word.to_ascii_lowercase().as_slice() {
            b"nx" | b"xx" | b"gt" | b"lt" => conditions.push(*word),
            b"fields" if fields.is_some() => return Err(FIELDS_TWICE.into()),
            b"fields" => {
                let [count, after @ ..] = rest else { return Err(FEW_BEHIND_FIELDS.into()) };
                if after.is_empty() {
                    return Err(FEW_BEHIND_FIELDS.into());
                }
                let none = "ERR Parameter `numFields` should be greater than 0";
                let (found, after) = listed(count, after, 1, none)?;
                (fields, rest) = (Some(found), after);
            }
            _ => return Err(unknown_argument(word)),
        }
    }
    let fields = fields.ok_or(FIELDS_MISSING)?;
    let conditions = Conditions::parse(&conditions);
    Ok((conditions.map_err(|_| "ERR Multiple condition flags specified")?, fields))
}

const FEW_BEHIND_FIELDS: &str = "ERR FIELDS requires at least numfields and one field argument";

/// `HTTL key FIELDS numfields field...` and its siblings
fn remaining(ctx: &mut Context<'_>, args: &[&[u8]], form: TimeForm) -> Result<(), Refusal> {
    let from = if form.relative { ctx.now } else { 0 };
    let (out, hash) = ctx.found::<Hash<'_>>(args[1])?;
    let fields = counted_fields(&args[2..], NO_FIELDS)?;
    out.array(fields.len());
    for field in fields {
        let hash = hash.filter(|hash| hash.contains(field));
        out.integer(match hash.map(|hash| hash.deadline(field)) {
            None => NO_FIELD,
            Some(None) => NO_DEADLINE,
            Some(Some(deadline)) => {
                let ms = deadline.saturating_sub(from);
                ms / form.unit_ms + i64::from(ms % form.unit_ms > 0)
            }
        });
    }
    Ok(())
}

/// `HPERSIST key FIELDS numfields field...`
fn hpersist(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let key = args[1];
    let is_there = ctx.found_to_edit::<Hash<'_>>(key)?.1.is_some();
    let fields = counted_fields(&args[2..], NO_FIELDS)?;
    if !is_there {
        answer_all(&mut ctx.out, fields, |out| out.integer(NO_FIELD));
        return Ok(());
    }
    change_fields(ctx, key, fields, Change::Persist, |out, hash, field| {
        let changes = hash.deadline(field).is_some();
        out.integer(match changes {
            true => DONE,
            false if hash.contains(field) => NO_DEADLINE,
            false => NO_FIELD,
        });
        changes
    })
}

/// The form of the time behind a word.
fn time_form(word: &[u8]) -> Option<TimeForm> {
    Some(match word.to_ascii_lowercase().as_slice() {
        b"ex" => SECONDS,
        b"px" => MILLISECONDS,
        b"exat" => UNIX_SECONDS,
        b"pxat" => UNIX_MILLISECONDS,
        _ => return None,
    })
}

/// `HGETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST] FIELDS numfields field...`; the option
/// may stand behind the fields
fn hgetex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let key = args[1];
    let is_there = ctx.found_to_edit::<Hash<'_>>(key)?.1.is_some();
    let Options { lifetime, words: fields, .. } = Options::parse(ctx, &HGETEX, &args[2..])?;
    if !is_there {
        answer_all(&mut ctx.out, fields, |out| out.null());
        return Ok(());
    }
    let change = lifetime.map(|lifetime| match lifetime {
        Lifetime::Until(deadline) => Change::At(deadline),
        Lifetime::Other => Change::Persist,
    });
    let Some(change) = change else {
        let (out, hash) = ctx.found_to_edit::<Hash<'_>>(key)?;
        out.array(fields.len());
        fields.iter().for_each(|field| answer_field(out, hash, field));
        return Ok(());
    };
    change_fields(ctx, key, fields, change, |out, hash, field| {
        answer_field(out, Some(hash), field);
        match change {
            Change::At(_) => hash.contains(field),
            Change::Persist => hash.deadline(field).is_some(),
        }
    })
}

/// What HSETEX does about the deadlines of the fields that it sets.
#[derive(Clone, Copy)]
enum Deadline {
    /// They get none.
    None,
    /// They keep theirs.
    Kept,
    /// They get this one.
    At(i64),
}

/// What HGETEX and HSETEX differ by.
struct Form {
    command: &'static str,
    /// The option that gives no time.
    other: &'static str,
    /// Words of a field: its name, or a value, too.
    words_each: usize,
}

const HGETEX: Form = Form { command: "hgetex", other: "PERSIST", words_each: 1 };
const HSETEX: Form = Form { command: "hsetex", other: "KEEPTTL", words_each: 2 };

/// What is asked for the deadlines of fields.
#[derive(Clone, Copy)]
enum Lifetime {
    /// They are this.
    Until(i64),
    /// PERSIST or KEEPTTL.
    Other,
}

/// What HGETEX or HSETEX is asked for.
#[derive(Default)]
struct Options<'r, 'a> {
    lifetime: Option<Lifetime>,
    /// All fields must be there, or none may be.
    fields_exist: Option<bool>,
    /// The key must be there.
    if_key: bool,
    /// The key may not be there.
    if_no_key: bool,
    /// What stands behind FIELDS and their number.
    words: &'r [&'a [u8]],
}

impl<'r, 'a> Options<'r, 'a> {
    /// Reads what stands behind the key, in any order.
    fn parse(ctx: &Context<'_>, form: &Form, mut rest: &'r [&'a [u8]]) -> Result<Self, Refusal> {
        let mut options = Self::default();
        let is_set = form.command == HSETEX.command;
        while let [word, after @ ..] = rest {
            rest = after;
            match word.to_ascii_lowercase().as_slice() {
                b"fields" if !options.words.is_empty() => return Err(FIELDS_TWICE.into()),
                b"fields" => {
                    let [count, after @ ..] = rest else { return Err(wrong_arity(form.command)) };
                    let none = "ERR invalid number of fields";
                    (options.words, rest) = listed(count, after, form.words_each, none)?;
                }
                b"fxx" | b"fnx" if is_set && options.fields_exist.is_some() => {
                    return Err("ERR Only one of FXX or FNX arguments can be specified".into());
                }
                b"fxx" if is_set => options.fields_exist = Some(true),
                b"fnx" if is_set => options.fields_exist = Some(false),
                b"xx" if is_set => options.if_key = true,
                b"nx" if is_set => options.if_no_key = true,
                _ => rest = options.parse_lifetime(ctx, form, word, rest)?,
            }
        }
        if options.words.is_empty() {
            return Err(FIELDS_MISSING.into());
        }
        let conflict = options.if_key && options.if_no_key;
        if conflict { Err(SYNTAX) } else { Ok(options) }
    }

    /// Reads an option that says what becomes of deadlines; returns what follows.
    fn parse_lifetime(
        &mut self,
        ctx: &Context<'_>,
        form: &Form,
        word: &[u8],
        rest: &'r [&'a [u8]],
    ) -> Result<&'r [&'a [u8]], Refusal> {
        let time = time_form(word);
        if time.is_none() && !word.eq_ignore_ascii_case(form.other.as_bytes()) {
            return Err(unknown_argument(word));
        }
        if self.lifetime.is_some() {
            let other = form.other;
            let text =
                format!("ERR Only one of EX, PX, EXAT, PXAT or {other} arguments can be specified");
            return Err(text.into());
        }
        let Some(time) = time else {
            self.lifetime = Some(Lifetime::Other);
            return Ok(rest);
        };
        let [text, rest @ ..] = rest else { return Err("ERR missing expire time".into()) };
        self.lifetime = Some(Lifetime::Until(deadline(ctx, text, time, form.command)?));
        Ok(rest)
    }

    /// Whether the hash is as the options want it.
    fn allow(&self, hash: Option<Hash<'_>>, pairs: &[Pair<'_>]) -> bool {
        let has = |field: &[u8]| hash.is_some_and(|hash| hash.contains(field));
        !(self.if_key && hash.is_none() || self.if_no_key && hash.is_some())
            && self.fields_exist.is_none_or(|wanted| pairs.iter().all(|it| has(it[0]) == wanted))
    }
}

/// `HSETEX key [FNX | FXX] [NX | XX] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL] FIELDS numfields
/// field value [field value]...`; options may stand behind the fields
fn hsetex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let key = args[1];
    let options = Options::parse(ctx, &HSETEX, &args[2..])?;
    let (pairs, _) = options.words.as_chunks::<2>();
    let (_, hash) = ctx.found_to_edit::<Hash<'_>>(key)?;
    if !options.allow(hash, pairs) {
        ctx.out.integer(0);
        return Ok(());
    }
    ctx.delete_due(key, pairs.iter().map(|pair| pair[0]));
    let deadline = match options.lifetime {
        None => Deadline::None,
        Some(Lifetime::Until(deadline)) => Deadline::At(deadline),
        Some(Lifetime::Other) => Deadline::Kept,
    };
    let deletes = matches!(deadline, Deadline::At(deadline) if deadline <= ctx.now);
    let now = ctx.now;
    let left = ctx.keyspace.edit_hash(ctx.caller.db, key, |hash| {
        for &[field, value] in pairs {
            match deadline {
                _ if deletes => _ = hash.remove(field),
                Deadline::None => _ = hash.set(field, value),
                Deadline::Kept => _ = hash.set_keeping(field, value, now),
                Deadline::At(deadline) => _ = hash.set_until(field, value, Some(deadline)),
            }
        }
        hash.view().len()
    })?;
    let fields = || pairs.iter().map(|pair| pair[0]);
    ctx.changed_fields(key, "hset", fields());
    match deadline {
        Deadline::At(_) if deletes => {
            ctx.keyspace.count_expired_fields(pairs.len());
            ctx.ledger.notify_change_of(ctx.keyspace, key, "hdel", fields());
            ctx.emptied(key, left);
        }
        Deadline::At(_) => ctx.ledger.notify_change_of(ctx.keyspace, key, "hexpire", fields()),
        Deadline::None | Deadline::Kept => {}
    }
    note_set(ctx, key, pairs, deadline, deletes);
    ctx.out.integer(1);
    Ok(())
}

/// States the effects of HSETEX.
fn note_set(
    ctx: &mut Context<'_>,
    key: &[u8],
    pairs: &[Pair<'_>],
    deadline: Deadline,
    deletes: bool,
) {
    if !ctx.ledger.effects.wanted() {
        return;
    }
    let fields: Vec<&[u8]> = pairs.iter().map(|pair| pair[0]).collect();
    if deletes {
        return ctx.effect(&[&[&b"HDEL"[..], key], &fields[..]].concat());
    }
    ctx.effect(&[&[&b"HSET"[..], key], pairs.as_flattened()].concat());
    match deadline {
        Deadline::None => {}
        Deadline::At(deadline) => expires_at(ctx, key, deadline, &fields),
        Deadline::Kept => expire_as_before(ctx, key, &fields),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use stillframe_keyspace::FIELD_DEADLINE_MAX;

    use crate::harness::{Harness, START_MS};

    /// What requests do: the reply, the events, and what log and replicas get.
    #[test]
    fn changes_of_deadlines_are_told() {
        let mut harness = Harness::new().notes_effects().notifies("KEA");
        let at = START_MS + 100_000;
        let until = format!("HPEXPIREAT h {at} FIELDS");
        let persists = |field| {
            let at = FIELD_DEADLINE_MAX;
            format!("HPEXPIREAT h {at} FIELDS 1 {field}; HPERSIST h FIELDS 1 {field}")
        };
        for (request, reply, events, effects) in [
            ("HSET h a 1 b 2 c 3", ":3", "hset", "HSET h a 1 b 2 c 3".to_owned()),
            ("HEXPIRE h 100 FIELDS 3 a x b", "*3 :1 :-2 :1", "hexpire", format!("{until} 2 a b")),
            ("HEXPIRE h 100 NX FIELDS 2 a x", "*2 :0 :-2", "", String::new()),
            ("HPERSIST h FIELDS 3 b c x", "*3 :1 :-1 :-2", "hpersist", persists("b")),
            ("HGETEX h FIELDS 1 a", "*1 $1 1", "", String::new()),
            ("HGETEX h PX 100000 FIELDS 2 c x", "*2 $1 3 $-1", "hexpire", format!("{until} 1 c")),
            ("HGETEX h PERSIST FIELDS 2 c b", "*2 $1 3 $1 2", "hpersist", persists("c")),
            ("HGETEX h PERSIST FIELDS 1 c", "*1 $1 3", "", String::new()),
            (
                "HINCRBYFLOAT h a 0.5",
                "$3 1.5",
                "hincrbyfloat",
                format!("hset h a 1.5; {until} 1 a"),
            ),
            ("HINCRBYFLOAT h b 0.5", "$3 2.5", "hincrbyfloat", "hset h b 2.5".into()),
            (
                "HSETEX h KEEPTTL FIELDS 2 a 4 b 5",
                ":1",
                "hset",
                format!("HSET h a 4 b 5; {until} 1 a"),
            ),
            (
                "HSETEX h EX 100 FIELDS 2 b 6 d 7",
                ":1",
                "hset hexpire",
                format!("HSET h b 6 d 7; {until} 2 b d"),
            ),
            ("HSETEX h FXX FIELDS 2 b 6 e 7", ":0", "", String::new()),
            ("HSETEX h FIELDS 1 b 8", ":1", "hset", "HSET h b 8".into()),
            ("HSETEX h PXAT 1 FIELDS 2 b 8 y 9", ":1", "hset hdel", "HDEL h b y".into()),
            ("HGETEX h PXAT 1 FIELDS 2 d x", "*2 $1 7 $-1", "hdel", "HDEL h d".into()),
            ("HEXPIRE h 0 FIELDS 3 a a x", "*3 :2 :-2 :-2", "hdel", "HDEL h a".into()),
            ("HPEXPIREAT h 1 FIELDS 1 c", "*1 :2", "hdel del", "HDEL h c".into()),
            ("HSETEX h EX 0 FIELDS 1 a 1", ":1", "hset hdel del", "HDEL h a".into()),
            ("EXISTS h", ":0", "", String::new()),
        ] {
            assert_eq!(harness.run(request), reply, "{request}");
            let wanted: Vec<String> =
                events.split_whitespace().map(|it| format!("{it} 0:h")).collect();
            assert_eq!(harness.events(), wanted, "{request}");
            let told = harness.effects().join("; ").replace("SELECT 0; ", "");
            let told = told.strip_prefix("MULTI; ").unwrap_or(&told);
            let told = told.strip_suffix("; EXEC").unwrap_or(told);
            assert_eq!(told, effects, "{request}");
        }
        let deleted = harness.keyspace.stats().expired_fields_total;
        assert_eq!(deleted, 6, "of b, y, d, a, c and a the deadline had passed");
    }

    /// Which fields each event names is what the documents of Redis 8.8 say.
    #[test]
    fn events_name_the_fields_to_which_they_happened() {
        let mut harness = Harness::new().notifies("AS");
        for (request, events) in [
            ("HSET h a 1 b 2 a 3", "hset 0:h 1:a,1:b,1:a"),
            ("HMSET h c 3 d:, 4", "hset 0:h 1:c,3:d:,"),
            ("HSETNX h a 1", ""),
            ("HSETNX h e 1", "hset 0:h 1:e"),
            ("HINCRBY h a 1", "hincrby 0:h 1:a"),
            ("HINCRBYFLOAT h b 1", "hincrbyfloat 0:h 1:b"),
            ("HDEL h x e y", "hdel 0:h 1:e"),
            ("HGETDEL h FIELDS 2 x d:,", "hdel 0:h 3:d:,"),
            ("HEXPIRE h 100 FIELDS 3 a x b", "hexpire 0:h 1:a,1:b"),
            ("HGETEX h PERSIST FIELDS 3 a b c", "hpersist 0:h 1:a,1:b"),
            ("HGETEX h EX 10 FIELDS 2 a x", "hexpire 0:h 1:a"),
            ("HPERSIST h FIELDS 2 b a", "hpersist 0:h 1:a"),
            ("HSETEX h EX 10 FIELDS 2 d 1 e 2", "hset 0:h 1:d,1:e; hexpire 0:h 1:d,1:e"),
            ("HSETEX h KEEPTTL FIELDS 1 d 1", "hset 0:h 1:d"),
            ("HSETEX h PXAT 1 FIELDS 1 e 2", "hset 0:h 1:e; hdel 0:h 1:e"),
            ("HEXPIRE h 0 FIELDS 2 d a", "hdel 0:h 1:d,1:a"),
            ("HPEXPIRE h 5 FIELDS 2 b c", "hexpire 0:h 1:b,1:c"),
            ("SADD s f", "sadd 0:s"),
        ] {
            harness.run(request);
            assert_eq!(harness.events().join("; "), events, "{request}");
        }
        harness.pass(5);
        harness.run("HLEN h");
        let events = harness.events();
        assert!(events[0] == "hexpired 0:h 1:b,1:c" || events[0] == "hexpired 0:h 1:c,1:b");
        assert_eq!(events[1..], ["del 0:h"]);
        harness = harness.notifies("KEA");
        harness.run("HSET h a 1");
        assert_eq!(harness.events(), ["hset 0:h"], "nobody wants their names");
    }

    /// Whatever asks first finds that a hash is gone with its last field.
    #[test]
    fn a_hash_whose_fields_have_expired_is_absent() {
        for (request, reply) in [
            ("EXISTS h", ":0"),
            ("TYPE h", "none"),
            ("TOUCH h", ":0"),
            ("PEXPIRE h 1000", ":0"),
            ("COPY h i", ":0"),
            ("RENAME h i", "-ERR no such key"),
            ("DEL h", ":0"),
            ("HLEN h", ":0"),
            ("OBJECT ENCODING h", "$-1"),
            ("DUMP h", "$-1"),
        ] {
            let mut harness = Harness::new();
            harness.all(&["HSET h a 1 b 2", "HPEXPIRE h 5 FIELDS 2 a b"]);
            harness.pass(5);
            assert_eq!(harness.run(request).trim_start_matches('+'), reply, "{request}");
            assert_eq!(harness.keyspace.timed_hashes(), 0, "{request}");
        }
    }

    /// Hashes of which more fields expire at once than a lookup deletes.
    fn crowded() -> Harness {
        let mut harness = Harness::new().notes_effects().notifies("KEA");
        let count = 30_000;
        let names: Vec<String> = (0..count).map(|at| format!("f{at}")).collect();
        let names: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
        let set: Vec<&[u8]> = names.iter().flat_map(|name| [*name, b"5"]).collect();
        harness.ask('a', &[&[&b"HSET"[..], b"h", b"stays", b"7"], &set[..]].concat());
        let number = count.to_string();
        let head: [&[u8]; 5] = [b"HPEXPIRE", b"h", b"10", b"FIELDS", number.as_bytes()];
        harness.ask('a', &[&head[..], &names].concat());
        harness.pass(10);
        harness.effects();
        harness.events();
        harness
    }

    #[test]
    fn fields_that_have_expired_are_hidden_from_every_command() {
        let mut harness = crowded();
        for (request, reply) in [
            ("HLEN h", ":1"),
            ("HGETALL h", "*2 $5 stays $1 7"),
            ("HKEYS h", "*1 $5 stays"),
            ("HVALS h", "*1 $1 7"),
            ("HEXISTS h f1", ":0"),
            ("HMGET h f2 stays", "*2 $-1 $1 7"),
            ("HSTRLEN h f3", ":0"),
            ("HRANDFIELD h", "$5 stays"),
            ("HRANDFIELD h 3", "*1 $5 stays"),
            ("HRANDFIELD h -2 WITHVALUES", "*4 $5 stays $1 7 $5 stays $1 7"),
            ("HPTTL h FIELDS 2 f4 stays", "*2 :-2 :-1"),
            ("HEXPIRE h 100 FIELDS 1 f5", "*1 :-2"),
            ("HPERSIST h FIELDS 1 f6", "*1 :-2"),
            ("HGETEX h PERSIST FIELDS 1 f7", "*1 $-1"),
            ("HGETEX h FIELDS 1 f8", "*1 $-1"),
            ("HGETDEL h FIELDS 1 f9", "*1 $-1"),
            ("HDEL h f10", ":0"),
            ("HSETEX h FXX FIELDS 1 f11 v", ":0"),
            ("HSETEX h FNX KEEPTTL FIELDS 1 f12 v", ":1"),
            ("HSET h f13 v", ":1"),
            ("HSETNX h f14 v", ":1"),
            ("HINCRBY h f15 1", ":1"),
            ("HINCRBYFLOAT h f16 1.5", "$3 1.5"),
            ("HTTL h FIELDS 5 f12 f13 f14 f15 f16", "*5 :-1 :-1 :-1 :-1 :-1"),
            ("RPUSH l h", ":1"),
            ("SORT l BY nosort GET *->f17 GET *->f13", "*2 $-1 $1 v"),
            ("HDEL h f12 f13 f14 f15 f16 stays", ":6"),
            ("HGETALL h", "*0"),
            ("HRANDFIELD h", "$-1"),
            ("HRANDFIELD h 2", "*0"),
            ("HRANDFIELD h -2", "*0"),
            ("HSET h again 1", ":1"),
        ] {
            assert_eq!(harness.run(request), reply, "{request}");
        }
        let whole = harness.keyspace.get(0, b"h", 0).map(|entry| entry.value().len());
        assert!(whole > Some(1), "some are still hidden");
    }

    /// Where a few fields are shown among many hidden ones, and where half of them are.
    #[test]
    fn random_fields_are_drawn_from_those_that_are_shown() {
        let mut harness = crowded();
        harness.run("HSET h f1 a f2 b f3 c f4 d");
        let shown: BTreeSet<&str> = ["stays", "f1", "f2", "f3", "f4"].into();
        let mut met = BTreeSet::new();
        for count in ["", " 3", " 5", " 9", " -40"] {
            for _ in 0..40 {
                let reply = harness.run(&format!("HRANDFIELD h{count}"));
                let words: Vec<_> = reply.split(' ').collect();
                let drawn = words.iter().filter(|it| shown.contains(*it));
                let drawn: Vec<String> = drawn.map(|&it| it.to_owned()).collect();
                let wanted = match count {
                    "" => 1,
                    " 9" => 5,
                    count => count.trim().parse::<isize>().unwrap().unsigned_abs(),
                };
                assert_eq!(drawn.len(), wanted, "{reply}");
                let different: BTreeSet<_> = drawn.iter().cloned().collect();
                assert!(count == " -40" || different.len() == wanted, "{reply}");
                met.extend(different);
            }
        }
        assert_eq!(met.len(), 5, "each comes up");
    }

    /// Whatever was hidden, a replay whose clock stands still makes the same.
    #[test]
    fn what_expired_is_deleted_before_what_was_then_done() {
        let mut harness = crowded();
        let mut log = crowded(); // what was before
        log.now = 0;
        log.caller('a').internal = true;
        for request in
            ["HINCRBY h f29001 3", "HSET h f2 v", "HSETEX h KEEPTTL FIELDS 1 f3 v", "HDEL h f4"]
        {
            harness.run(request);
            let events = harness.events();
            let expired = events.iter().filter(|&it| it == "hexpired 0:h").count();
            assert_eq!(expired, 1, "once a request: {request}: {events:?}");
        }
        for words in harness.stream() {
            log.ask('a', &words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        let at = START_MS + 10;
        harness.expire();
        log.now = at;
        log.expire();
        assert_eq!(log.contents(), harness.contents());
        assert_eq!(log.run("HGET h f29001"), "$1 3");
    }
}
