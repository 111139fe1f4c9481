//! Every command of the server, with arguments that fit, nearly fit, or do not.
//!
//! The bytes are a program: requests one after the other, each a command, a number of arguments and
//! the arguments, most of them words that commands know and keys of all types.
//!
//! - After each request: at most one reply (none where it would wait, is refused, or the client
//!   wants none), which a client's codec reads to its last byte.
//! - At the end: no more data than the requests can have made.
//! - At the end of some programs: the claims of [`audit`].
//! - Some begin an image between two requests, which must hold the data of that moment.

mod audit;

use std::cell::RefCell;

use stillframe_resp::{Reply, decode_reply, parse_integer};
use stillframe_server::{Config, InProcess};

/// Most requests of one program.
const REQUESTS_MAX: usize = 24;
/// Most bytes of one value: `proto-max-bulk-len`, which is as low as it can be set.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// What arguments are made of: keys, members, numbers at all limits, ranges, patterns, options.
#[rustfmt::skip]
const WORDS: &[&[u8]] = &[
    b"s", b"n", b"l", b"h", b"u", b"z", b"g", b"p", b"none", b"", b"a", b"b", b"c", b"\0\xff\r\n",
    b"0", b"1", b"-1", b"2", b"3", b"-2", b"7", b"10", b"100", b"-100", b"129", b"600", b"007", b"+1", b" 1",
    b"1.5", b"-0", b"1e3", b"3.0e308", b"1e400", b"inf", b"-inf", b"nan", b"0x10", b"5e-324",
    b"255", b"65535", b"1000000", b"8388607", b"8388608", b"2147483647", b"2147483648", b"-2147483649",
    b"4294967295", b"4294967296", b"536870911", b"536870912", b"9223372036854775807",
    b"-9223372036854775808", b"9223372036854775808", b"18446744073709551615", b"4611686018427387904",
    b"1700000000000", b"4000000000", b"99999999999999999999999",
    b"(1", b"(inf", b"[a", b"(b", b"-", b"+", b"[", b"(", b"*", b"?", b"[^a]", b"[a-", b"\\", b"**a*",
    b"p*", b"h->*", b"h*->a", b"#", b"nosort", b"EX", b"PX", b"EXAT", b"PXAT", b"NX", b"XX", b"GT",
    b"LT", b"CH", b"INCR", b"GET", b"KEEPTTL", b"PERSIST", b"COUNT", b"MATCH", b"TYPE", b"LIMIT",
    b"WITHSCORES", b"WITHVALUES", b"REV", b"BYSCORE", b"BYLEX", b"WEIGHTS", b"AGGREGATE", b"MIN", b"MAX",
    b"SUM", b"STORE", b"STOREDIST", b"BY", b"ASC", b"DESC", b"ALPHA", b"BEFORE", b"AFTER", b"LEFT",
    b"RIGHT", b"RANK", b"MAXLEN", b"LEN", b"IDX", b"MINMATCHLEN", b"WITHMATCHLEN", b"BIT", b"BYTE", b"AND",
    b"OR", b"XOR", b"NOT", b"SET", b"INCRBY", b"OVERFLOW", b"WRAP", b"SAT", b"FAIL", b"i8", b"u63", b"i64",
    b"u64", b"#1", b"#-1", b"FROMMEMBER", b"FROMLONLAT", b"BYRADIUS", b"BYBOX", b"m", b"km", b"WITHDIST",
    b"WITHHASH", b"WITHCOORD", b"ANY", b"180", b"-180", b"85.05112878", b"90", b"REPLACE", b"DB", b"COPY",
    b"ABSTTL", b"IDLETIME", b"FREQ", b"string", b"list", b"ON", b"OFF", b"YES", b"NO", b"BCAST", b"PREFIX",
    b"REDIRECT", b"OPTIN", b"OPTOUT", b"NOLOOP", b"SKIP", b"ID", b"ADDR", b"LADDR", b"USER", b"SKIPME",
    b"ASYNC", b"SYNC", b"WRITE", b"ALL", b"all", b"AUTH", b"SETNAME", b"default", b"SAMPLES", b"HELP",
    b"__keyspace@0__:a", b"__key*__:*", b"maxmemory*", b"OBJECT", b"FILTERBY", b"ACLCAT", b"PATTERN", b"MODULE",
    b"\x00\x01v\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00",
];

/// A value under each of the first keys of [`WORDS`].
const SETUP: [&[&[u8]]; 9] = [
    &[b"SET", b"s", b"text"],
    &[b"SET", b"n", b"9223372036854775806"],
    &[b"RPUSH", b"l", b"1", b"2", b"a", b"", b"c"],
    &[b"HSET", b"h", b"a", b"1", b"b", b"text", b"c", b"1.5"],
    &[b"SADD", b"u", b"1", b"2", b"a", b"b", b"3"],
    &[b"ZADD", b"z", b"1", b"a", b"2", b"b", b"2", b"c", b"inf", b"1", b"-inf", b"2"],
    &[b"GEOADD", b"g", b"13.361389", b"38.115556", b"a", b"15.087269", b"37.502669", b"b"],
    &[b"PFADD", b"p", b"a", b"b", b"c"],
    &[b"PEXPIREAT", b"p", b"4000000000000"],
];

/// Collections too large to be packed, which replace those of [`SETUP`] if the first byte says so:
/// the command that adds to it, its key, and whether each element has two parts.
const LARGE: [(&[u8], &[u8], bool); 4] =
    [(b"RPUSH", b"l", false), (b"SADD", b"u", false), (b"HSET", b"h", true), (b"ZADD", b"z", true)];
const LARGE_ELEMENTS: usize = 170;
/// Where they are kept, under names that no program finds; copying them is much cheaper.
const KEPT_DB: usize = 15;
const KEPT_PREFIX: &[u8] = b"\x00kept for the next program: ";

/// One of so many programs is audited, which costs many times as much as the rest of a program.
const AUDITED_ONE_IN: u32 = 64;
/// One of so many programs has an image, which costs still more.
const IMAGED_ONE_IN: u32 = 256;

struct Subject {
    server: InProcess,
    commands: Vec<&'static str>,
}

thread_local! {
    /// Creating one takes a thousand times as long as a request, so it is used again.
    static SUBJECT: RefCell<Subject> = RefCell::new(subject());
}

fn subject() -> Subject {
    let folder = std::env::temp_dir().join(format!(
        "stillframe-fuzz-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let mut config = Config::default();
    let mut set = |name, value: &str| config.set(name, &[value]).expect("a setting");
    set("dir", folder.to_str().expect("a path in UTF-8"));
    set("proto-max-bulk-len", &VALUE_BYTES_MAX.to_string());
    set("notify-keyspace-events", "KEA");
    // So that programs make large collections of small ones.
    set("hash-max-listpack-entries", "8");
    set("zset-max-listpack-entries", "8");
    set("set-max-intset-entries", "8");
    let server = InProcess::new(config).expect("the system gives a temporary folder");
    let commands = server.commands();
    Subject { server, commands }
}

/// Runs `data` as a program.
pub fn commands(data: &[u8]) {
    SUBJECT.with_borrow_mut(|subject| run(subject, data));
}

fn run(Subject { server, commands }: &mut Subject, data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else { return };
    let hash = crc_fast::crc32_iscsi(data);
    // Outside of a fuzzer there are few programs.
    let is_sampled = |one_in| hash.is_multiple_of(if cfg!(fuzzing) { one_in } else { one_in / 8 });
    server.reset(is_kept);
    for request in SETUP {
        server.ask(request);
    }
    if first % 4 == 0 {
        grow(server);
    }
    let empty = server.used_bytes();
    let image_at = is_sampled(IMAGED_ONE_IN).then_some(hash as usize / 256 % 8);
    let mut image = None;
    let mut program = Program(rest);
    let mut last = 1;
    for number in 0..REQUESTS_MAX {
        if image_at == Some(number) {
            image = Some((server.digest(), server.begin_image().expect("none is under way")));
        }
        let Some(request) = program.request(commands) else { break };
        let request: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        if is_vast(&request) {
            continue;
        }
        let reply = server.ask(&request);
        last = reply.len();
        check(&request, reply);
    }
    let used = server.used_bytes().saturating_sub(empty);
    assert!(used < 2 * REQUESTS_MAX * VALUE_BYTES_MAX, "{used} bytes of data");
    assert!(last < REQUESTS_MAX * 8 * VALUE_BYTES_MAX, "a reply of {last} bytes");
    let image = image.map(|(digest, image)| {
        (digest, server.take_image(image).expect("there is memory for an image"))
    });
    if is_sampled(AUDITED_ONE_IN) {
        audit::audit(server, |db| db == KEPT_DB);
    }
    if let Some((digest, file)) = image {
        server.reset(|_, _| false);
        server.load(&file).expect("it was written just now");
        assert_eq!(server.digest(), digest, "what the image holds");
    }
}

fn is_kept(db: usize, key: &[u8]) -> bool {
    db == KEPT_DB && key.starts_with(KEPT_PREFIX)
}

/// An element of a large collection: a number as a field or score, and a text. Some are long, so
/// that the collection has several leaves.
fn element(number: usize) -> [String; 2] {
    let text = if number % 4 == 3 { format!("{number:0>300}") } else { number.to_string() };
    [number.to_string(), text]
}

/// Makes the collections large, by copies of those kept from the program before if they still
/// exist.
fn grow(server: &mut InProcess) {
    server.ask(&[b"SELECT", KEPT_DB.to_string().as_bytes()]);
    for (command, key, is_pair) in LARGE {
        let name = [KEPT_PREFIX, key].concat();
        let copy: [&[u8]; 6] = [b"COPY", &name, key, b"DB", b"0", b"REPLACE"];
        if server.ask(&copy) == b":1\r\n" {
            continue;
        }
        let texts: Vec<[String; 2]> = (0..LARGE_ELEMENTS).map(element).collect();
        let mut request: Vec<&[u8]> = vec![command, &name];
        for [number, text] in &texts {
            request.extend(is_pair.then_some(number.as_bytes()));
            request.push(text.as_bytes());
        }
        server.ask(&request);
        server.ask(&copy);
    }
    server.ask(&[b"SELECT", b"0"]);
}

/// Requests whose reply is as long as the client says, and no longer than it may have: as in Redis.
fn is_vast(request: &[&[u8]]) -> bool {
    let name = request.first().copied().unwrap_or_default().to_ascii_lowercase();
    let count = request.get(2).and_then(|count| parse_integer(count)).unwrap_or(0);
    (name.ends_with(b"randmember") || name == b"hrandfield") && count < -10_000
}

fn check(request: &[&[u8]], reply: &[u8]) {
    let name = request[0].to_ascii_lowercase();
    let shown = || request.iter().map(|arg| arg.escape_ascii().to_string()).collect::<Vec<_>>();
    let (mut rest, mut replies) = (reply, 0);
    while !rest.is_empty() {
        match decode_reply(rest) {
            Ok(Some((decoded, used))) => {
                replies += usize::from(!matches!(decoded, Reply::Push(_)));
                rest = &rest[used..];
            }
            other => panic!("{:?} is answered {other:?}: {}", shown(), rest.escape_ascii()),
        }
    }
    // One message for each channel, and those to the client itself, which receives its own.
    let listens =
        name.ends_with(b"subscribe") || [&b"exec"[..], b"reset", b"quit"].contains(&&name[..]);
    // No reply: it would wait, or is not for a fuzzer; or the client wants none.
    assert!(
        replies <= 1 || listens,
        "{:?} has {replies} replies: {}",
        shown(),
        reply.escape_ascii()
    );
}

/// The rest of the bytes.
struct Program<'a>(&'a [u8]);

impl Program<'_> {
    fn byte(&mut self) -> Option<usize> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first.into())
    }

    fn request(&mut self, commands: &[&str]) -> Option<Vec<Vec<u8>>> {
        let number = self.byte()? | (self.byte()? & 1) << 8;
        let name = commands[number % commands.len()];
        let mut request: Vec<Vec<u8>> = name.split('|').map(|part| part.into()).collect();
        for _ in 0..self.byte()? % 12 {
            let word = self.byte()?;
            request.push(match WORDS.get(word) {
                Some(word) => word.to_vec(),
                None => self.raw(),
            });
        }
        Some(request)
    }

    /// Bytes as they are.
    fn raw(&mut self) -> Vec<u8> {
        let length = self.byte().unwrap_or(0) % 40;
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_needs_is_there() {
        SUBJECT.with_borrow_mut(|subject| {
            subject.server.reset(is_kept);
            for request in SETUP {
                let reply = subject.server.ask(request);
                let shown = reply.escape_ascii();
                assert!(!reply.starts_with(b"-") && !reply.is_empty(), "{request:?}: {shown}");
            }
            for kept in [0, LARGE.len()] {
                assert_eq!(subject.server.keys()[KEPT_DB], kept);
                grow(&mut subject.server);
                assert_eq!(subject.server.ask(&[b"ZCARD", b"z"]), b":170\r\n");
                subject.server.reset(is_kept);
            }
            assert!(subject.commands.len() > 200, "{} commands", subject.commands.len());
            assert_eq!(subject.server.ask(&[b"SHUTDOWN"]), b"");
        });
        assert!(WORDS.len() < 250, "some bytes are left to announce raw ones");
    }

    #[test]
    fn an_image_differs_from_what_came_after() {
        SUBJECT.with_borrow_mut(|Subject { server, .. }| {
            server.reset(|_, _| false);
            SETUP.iter().for_each(|request| assert!(!server.ask(request).is_empty()));
            let (before, image) =
                (server.digest(), server.begin_image().expect("none is under way"));
            server.ask(&[b"RPUSH", b"l", b"more"]);
            let after = server.digest();
            let file = server.take_image(image).expect("there is memory");
            server.reset(|_, _| false);
            server.load(&file).expect("it was written just now");
            assert_eq!(server.digest(), before);
            assert_ne!(before, after);
            audit::audit(server, |_| false);
        });
    }
}
