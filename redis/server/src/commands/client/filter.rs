//! The filters of CLIENT KILL and LIST.

use std::collections::HashSet;
use std::mem::discriminant;
use std::net::IpAddr;
use std::time::Instant;

use stillframe_resp::parse_integer;

use crate::commands::client_kinds::{Class, KNOWN_FLAGS, flags};
use crate::connections::client::Session;
use crate::node::acl::Users;
use stillframe_commands::errors::SYNTAX;
use stillframe_commands::text::c_string;
use stillframe_commands::{Address, Refusal};
use stillframe_keyspace::DATABASES;

/// Which clients are meant: those that pass all tests.
#[derive(Default)]
pub(super) struct Filter {
    rules: Vec<Rule>,
    /// SKIPME: not the client that asks.
    pub(super) spares_self: bool,
}

struct Rule {
    /// `NOT-`: clients that fail the test are meant.
    negated: bool,
    test: Test,
}

/// What is asked of a client.
enum Test {
    Ids(HashSet<i64>),
    Type(Class),
    User(usize),
    Peer(String),
    Local(String),
    /// At least so many seconds connected.
    Age(u64),
    /// At least so many seconds silent.
    Idle(u64),
    /// All these letters.
    Flags(Vec<u8>),
    Name(Vec<u8>),
    Library(Vec<u8>),
    LibraryVersion(Vec<u8>),
    Db(usize),
    /// A capability of Valkey's clients, which no client announces here.
    Capability,
    /// `None`: a text that is no address.
    Ip(Option<IpAddr>),
}

/// The names of filters that can be negated, and of the others.
const NEGATABLE: [&str; 12] = [
    "id", "type", "user", "addr", "laddr", "flags", "name", "lib-name", "lib-ver", "db", "capa",
    "ip",
];
const OTHERS: [&str; 3] = ["skipme", "maxage", "idle"];

/// Which command has the filter, whose errors differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Kill,
    List,
}

/// The name of a filter, in lower case and without its `not-`, and whether it had that.
fn filter_name(option: &[u8]) -> Option<(bool, &'static str)> {
    let known = |names: &[&'static str], option: &[u8]| {
        names.iter().copied().find(|name| option.eq_ignore_ascii_case(name.as_bytes()))
    };
    if let Some(name) = known(&NEGATABLE, option).or_else(|| known(&OTHERS, option)) {
        return Some((false, name));
    }
    let (not, rest) = option.split_at_checked(4)?;
    let name = not.eq_ignore_ascii_case(b"not-").then(|| known(&NEGATABLE, rest))?;
    Some((true, name?))
}

impl Filter {
    /// The client at this address.
    pub(super) fn of_peer(address: &[u8]) -> Self {
        let test = Test::Peer(text(address));
        Self { rules: vec![Rule { negated: false, test }], spares_self: false }
    }

    /// Reads pairs of an option and a value; of an option that is given twice, the last counts.
    pub(super) fn parse(users: &Users, verb: Verb, mut rest: &[&[u8]]) -> Result<Self, Refusal> {
        let mut filter = Self { rules: Vec::new(), spares_self: verb == Verb::Kill };
        while let [option, behind @ ..] = rest {
            let (negated, name) = filter_name(option).ok_or(SYNTAX)?;
            let (value, behind) = behind.split_first().ok_or(SYNTAX)?;
            let (test, behind) = match name {
                "id" => parse_ids(verb, value, behind)?,
                "skipme" => {
                    filter.spares_self = match value.to_ascii_lowercase().as_slice() {
                        b"yes" => true,
                        b"no" => false,
                        _ => return Err(SYNTAX),
                    };
                    rest = behind;
                    continue;
                }
                name => (Test::parse(users, negated, name, value)?, behind),
            };
            filter.add(Rule { negated, test });
            rest = behind;
        }
        Ok(filter)
    }

    fn add(&mut self, rule: Rule) {
        let is_same = |other: &Rule| {
            other.negated == rule.negated && discriminant(&other.test) == discriminant(&rule.test)
        };
        self.rules.retain(|other| !is_same(other));
        self.rules.push(rule);
    }

    /// Whether a client is meant; `now` is the time of the turn.
    pub(super) fn matches(&self, session: &Session, now: Instant) -> bool {
        self.rules.iter().all(|rule| rule.test.passes(session, now) != rule.negated)
    }
}

/// The ids behind ID: one, and all numbers that follow.
fn parse_ids<'r, 'a>(
    verb: Verb,
    first: &[u8],
    mut rest: &'r [&'a [u8]],
) -> Result<(Test, &'r [&'a [u8]]), Refusal> {
    let id = |text: &[u8]| match (parse_integer(text), verb) {
        (Some(id), Verb::List) => Ok(id),
        (Some(id), Verb::Kill) if id > 0 => Ok(id),
        (_, Verb::List) => Err(Refusal::new("ERR Invalid client ID")),
        (_, Verb::Kill) => Err(Refusal::new("ERR client-id should be greater than 0")),
    };
    let mut ids = HashSet::from([id(first)?]);
    while let [next, behind @ ..] = rest {
        if filter_name(next).is_some() || verb == Verb::Kill && parse_integer(next).is_none() {
            break;
        }
        ids.insert(id(next)?);
        rest = behind;
    }
    Ok((Test::Ids(ids), rest))
}

/// A number of seconds.
fn seconds(name: &str, text: &[u8]) -> Result<u64, Refusal> {
    let refusal = |why: &str| Refusal::from(format!("ERR {name} {why}"));
    let number = parse_integer(text);
    let number = number.ok_or_else(|| refusal("is not an integer or out of range"))?;
    let number = u64::try_from(number).ok().filter(|&number| number > 0);
    number.ok_or_else(|| refusal("should be greater than 0"))
}

fn database(name: &str, text: &[u8]) -> Result<usize, Refusal> {
    let refusal = |why: &str| Refusal::from(format!("ERR {name} {why}"));
    let db = parse_integer(text).ok_or_else(|| refusal("is not an integer or out of range"))?;
    let db = usize::try_from(db).ok().filter(|&db| db < DATABASES);
    db.ok_or_else(|| refusal("number should be between 0 and 15"))
}

/// A refusal that shows what was given.
fn unknown(head: &str, given: &[u8], end: &str) -> Refusal {
    [b"ERR Unknown ", head.as_bytes(), c_string(given), end.as_bytes()].concat().into()
}

/// The refusal of letters that stand for nothing.
fn unknown_letters(negated: bool, what: &str, given: &[u8]) -> Refusal {
    let upper = what.to_uppercase();
    let filter = if negated { format!("NOT-{upper}") } else { "provided".to_owned() };
    unknown(&format!("{what} found in the {filter} filter: "), given, "")
}

impl Test {
    fn parse(users: &Users, negated: bool, name: &str, value: &[u8]) -> Result<Self, Refusal> {
        let only = |letters: &[u8]| value.iter().all(|letter| letters.contains(letter));
        Ok(match name {
            "type" => {
                Self::Type(Class::parse(value).ok_or_else(|| unknown("client type '", value, "'"))?)
            }
            "user" => Self::User(users.find(value).ok_or_else(|| {
                Refusal::from([b"ERR No such user '", c_string(value), b"'"].concat())
            })?),
            "addr" => Self::Peer(text(value)),
            "laddr" => Self::Local(text(value)),
            "maxage" => Self::Age(seconds(name, value)?),
            "idle" => Self::Idle(seconds(name, value)?),
            "flags" if only(KNOWN_FLAGS) => Self::Flags(value.to_vec()),
            "capa" if only(b"r") => Self::Capability,
            "flags" | "capa" => return Err(unknown_letters(negated, name, value)),
            "name" => Self::Name(value.to_vec()),
            "lib-name" => Self::Library(value.to_vec()),
            "lib-ver" => Self::LibraryVersion(value.to_vec()),
            "db" => Self::Db(database(if negated { "NOT-DB" } else { "DB" }, value)?),
            _ => Self::Ip(text(value).parse().ok()),
        })
    }

    fn passes(&self, session: &Session, now: Instant) -> bool {
        let caller = &session.caller;
        let elapsed = |since| now.saturating_duration_since(since).as_secs();
        match self {
            Self::Ids(ids) => ids.contains(&caller.id.cast_signed()),
            Self::Type(class) => *class == Class::from_session(session),
            Self::User(user) => *user == session.user && !caller.internal,
            Self::Peer(peer) => *peer == caller.peer.to_string(),
            Self::Local(local) => *local == session.local.to_string(),
            Self::Age(age) => elapsed(session.connected) >= *age,
            Self::Idle(idle) => elapsed(session.active) >= *idle,
            Self::Flags(letters) => {
                let own = flags(session);
                letters.iter().all(|letter| own.as_bytes().contains(letter))
            }
            Self::Name(name) => *name == session.name,
            Self::Library(name) => *name == session.library.name,
            Self::LibraryVersion(version) => *version == session.library.version,
            Self::Db(db) => *db == caller.db,
            Self::Capability => false,
            Self::Ip(ip) => matches!(&caller.peer, Address::Net(own) if Some(own.ip()) == *ip),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::node::acl::Catalog;
    use crate::node::config::Config;

    fn session(id: u64) -> Session {
        let mut session = Session::in_process();
        session.caller.id = id;
        session
    }

    #[test]
    fn filters_join_and_negate() {
        let catalog = Catalog::new(&crate::commands::table());
        let users = Users::new(catalog, &Config::default()).expect("the default user");
        let mut client = session(7);
        client.library.name = b"lib".to_vec();
        client.name = b"a".to_vec();
        let now = client.connected + Duration::from_secs(5);
        let matches = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let filter = Filter::parse(&users, Verb::List, &words);
            filter.map(|filter| filter.matches(&client, now)).map_err(|error| error.to_string())
        };
        for (line, expected) in [
            ("ID 7", Ok(true)),
            ("ID 6 7 8 NAME a", Ok(true)),
            ("ID 7 NAME b", Ok(false)),
            ("NOT-ID 7", Ok(false)),
            ("NOT-ID 8 NOT-NAME b", Ok(true)),
            ("LIB-NAME lib LIB-NAME other", Ok(false)),
            ("LIB-NAME lib", Ok(true)),
            ("NOT-LIB-VER 1", Ok(true)),
            ("MAXAGE 5", Ok(true)),
            ("MAXAGE 6", Ok(false)),
            ("IDLE 5", Ok(true)),
            ("DB 0 IP 127.0.0.1", Ok(true)),
            ("IP nonsense", Ok(false)),
            ("FLAGS N", Ok(true)),
            ("NOT-FLAGS b", Ok(true)),
            ("CAPA r", Ok(false)),
            ("NOT-CAPA r", Ok(true)),
            ("TYPE primary", Ok(false)),
            ("ID 7 x", Err("ERR Invalid client ID")),
            ("NOT-MAXAGE 1", Err("ERR syntax error")),
            ("DB 16", Err("ERR DB number should be between 0 and 15")),
            ("FLAGS q", Err("ERR Unknown flags found in the provided filter: q")),
            ("NOT-FLAGS q", Err("ERR Unknown flags found in the NOT-FLAGS filter: q")),
            ("CAPA x", Err("ERR Unknown capa found in the provided filter: x")),
            ("IDLE 0", Err("ERR idle should be greater than 0")),
            ("MAXAGE x", Err("ERR maxage is not an integer or out of range")),
        ] {
            assert_eq!(matches(line), expected.map_err(str::to_owned), "{line}");
        }
    }
}
