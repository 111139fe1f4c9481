//! No request costs more than in proportion to its bytes: of each form that takes a list, one of
//! 20,000 arguments beside one of 1,000.
//!
//! - Processor time of the thread is measured, which a busy machine stretches by what its caches
//!   miss alone, and the least of several runs counts; what seems too dear is measured again. In
//!   proportion it would be 20 times as much; the bound is 80, and what is quadratic comes to 400.
//! - Not here is what costs more by its nature, in Redis as well: LCS compares every byte of one
//!   string with every byte of the other (up to `proto-max-bulk-len`), and so does a pattern at
//!   worst; keys are matched with every pattern of a user.

use std::fmt::Write as _;

use rustix::time::{ClockId, clock_gettime};
use stillframe_resp::{Limits, Parser};

use super::InProcess;
use crate::Config;
use crate::hub::Delivery;

const FEW: usize = 1_000;
const MANY: usize = 20_000;
const RATIO_MAX: u64 = 80;
/// What takes less may be one miss of a cache.
const LEAST_NS: u64 = 100_000;

type Words = Vec<Vec<u8>>;

/// A server and the requests that a form of `n` arguments consists of; what it finds was there
/// before the clock runs.
type Form = fn(&mut Prepared, usize) -> Vec<Words>;

struct Prepared(InProcess);

impl Prepared {
    fn ask(&mut self, request: &Words) {
        let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        let reply = self.0.run(&args);
        let shown = String::from_utf8_lossy(&reply[..reply.len().min(100)]).into_owned();
        let name = String::from_utf8_lossy(&request[0]).into_owned();
        assert!(!reply.starts_with(b"-ERR syntax"), "{name}: {shown}");
    }

    /// Makes something there before the clock runs.
    fn with(&mut self, request: Words) -> &mut Self {
        self.ask(&request);
        self
    }
}

fn words(text: &str) -> Words {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// `start`, then a word for each number below `n`.
fn list(start: &str, n: usize, word: impl Fn(usize) -> String) -> Words {
    let rest = (0..n).flat_map(|at| words(&word(at)));
    words(start).into_iter().chain(rest).collect()
}

fn names(start: &str, n: usize) -> Words {
    list(start, n, |at| format!("k:{at}"))
}

fn same(start: &str, n: usize, word: &str) -> Words {
    list(start, n, |_| word.to_owned())
}

fn then(mut request: Words, end: &str) -> Words {
    request.extend(words(end));
    request
}

fn each(n: usize, request: impl Fn(usize) -> String) -> Vec<Words> {
    (0..n).map(|at| words(&request(at))).collect()
}

/// As one transaction.
fn transaction(n: usize, request: impl Fn(usize) -> String) -> Vec<Words> {
    let mut all = vec![words("MULTI")];
    all.extend(each(n, request));
    all.push(words("EXEC"));
    all
}

fn strings(server: &mut Prepared, n: usize) {
    server.with(list("MSET", n, |at| format!("k:{at} v")));
}

#[rustfmt::skip]
const KEYS: &[(&str, Form)] = &[
    ("WATCH", |_, n| vec![names("WATCH", n), words("UNWATCH")]),
    ("WATCH of one key", |_, n| vec![same("WATCH", n, "k")]),
    ("WATCH of keys that change", |s, n| {
        strings(s, n);
        vec![names("WATCH", n), list("MSET", n, |at| format!("k:{at} w")), words("MULTI"), words("EXEC")]
    }),
    ("WATCH, then SWAPDB", |s, n| {
        strings(s, n);
        vec![names("WATCH", n), words("SWAPDB 0 1"), words("FLUSHALL"), words("UNWATCH")]
    }),
    ("DEL", |s, n| { strings(s, n); vec![names("DEL", n)] }),
    ("DEL of one key", |s, n| { strings(s, 1); vec![same("DEL", n, "k:0")] }),
    ("DEL of keys whose time has come", |s, n| {
        strings(s, n);
        each(n, |at| format!("PEXPIRE k:{at} 10")).into_iter().for_each(|request| s.ask(&request));
        s.0.now += 1000;
        vec![names("DEL", n)]
    }),
    ("UNLINK", |s, n| { strings(s, n); vec![names("UNLINK", n)] }),
    ("EXISTS", |s, n| { strings(s, n); vec![names("EXISTS", n)] }),
    ("TOUCH", |s, n| { strings(s, n); vec![names("TOUCH", n)] }),
    ("MGET", |s, n| { strings(s, n); vec![names("MGET", n)] }),
    ("MSET", |_, n| vec![list("MSET", n, |at| format!("k:{at} v"))]),
    ("MSET of one key", |_, n| vec![same("MSET", n, "k v")]),
    ("MSETNX", |_, n| vec![list("MSETNX", n, |at| format!("k:{at} v"))]),
    ("SET with options", |_, n| vec![same("SET k v", n, "KEEPTTL")]),
    ("GETEX with options", |s, n| { strings(s, 1); vec![same("GETEX k:0", n, "PERSIST")] }),
    ("EXPIRE with options", |s, n| { strings(s, 1); vec![same("EXPIRE k:0 100", n, "NX")] }),
    ("COPY with options", |s, n| { strings(s, 1); vec![same("COPY k:0 c", n, "REPLACE")] }),
    ("SCAN with options", |s, n| { strings(s, 1); vec![same("SCAN 0", n, "MATCH a*")] }),
    ("SCAN of all", |s, n| { strings(s, n); vec![words(&format!("SCAN 0 COUNT {n}"))] }),
    ("KEYS with stars", |s, n| {
        s.with(words(&format!("SET {} v", "a".repeat(n))));
        vec![words(&format!("KEYS {}b", "a*".repeat(n)))]
    }),
    ("RENAME, often", |s, n| {
        strings(s, n);
        each(n, |at| format!("RENAME k:{at} r:{at}"))
    }),
];

#[rustfmt::skip]
const STRINGS: &[(&str, Form)] = &[
    ("BITOP of a long string and none", |s, n| {
        s.with(words(&format!("SETRANGE long {} x", n * 8)));
        vec![names("BITOP AND to long", n)]
    }),
    ("BITFIELD of a long string", |s, n| {
        s.with(words(&format!("SETRANGE long {} x", n * 8)));
        vec![list("BITFIELD long", n, |at| format!("SET u8 #{at} 7 INCRBY i5 {at} 3 GET u8 #{at}"))]
    }),
    ("BITFIELD that grows", |_, n| {
        vec![list("BITFIELD k", n, |at| format!("SET u8 #{at} 7"))]
    }),
    ("APPEND, often", |_, n| each(n, |_| "APPEND k xxxxxxxx".to_owned())),
    ("SETRANGE, often", |_, n| each(n, |at| format!("SETRANGE k {} xx", at * 2))),
    ("SETBIT, often", |_, n| each(n, |at| format!("SETBIT k {} 1", at * 8))),
    ("PFADD", |_, n| vec![names("PFADD k", n)]),
    ("PFCOUNT", |s, n| { s.with(words("PFADD k:0 a")); vec![names("PFCOUNT", n)] }),
    ("PFMERGE", |s, n| { s.with(words("PFADD k:0 a")); vec![names("PFMERGE to", n)] }),
];

#[rustfmt::skip]
const COLLECTIONS: &[(&str, Form)] = &[
    ("LPUSH", |_, n| vec![names("LPUSH l", n)]),
    ("RPUSH", |_, n| vec![names("RPUSH l", n)]),
    ("LREM of every second", |s, n| {
        s.with(same("RPUSH l", n / 2, "a b"));
        vec![words("LREM l 0 a")]
    }),
    ("LPOS of all", |s, n| { s.with(same("RPUSH l", n, "a")); vec![words("LPOS l a COUNT 0")] }),
    ("LPOP of all", |s, n| { s.with(names("RPUSH l", n)); vec![words(&format!("LPOP l {n}"))] }),
    ("LMPOP", |s, n| {
        s.with(words(&format!("RPUSH k:{} v", n - 1)));
        vec![then(names(&format!("LMPOP {n}"), n), "LEFT")]
    }),
    ("LRANGE, LTRIM", |s, n| {
        s.with(names("RPUSH l", n));
        vec![words("LRANGE l 0 -1"), words("LTRIM l 5 -5")]
    }),
    ("SORT", |s, n| { s.with(names("RPUSH l", n)); vec![words("SORT l ALPHA STORE to")] }),
    ("SORT with patterns", |s, n| { s.with(words("RPUSH l a")); vec![same("SORT l", n, "GET x*")] }),
    ("HSET", |_, n| vec![list("HSET h", n, |at| format!("f:{at} v"))]),
    ("HSET of one field", |_, n| vec![same("HSET h", n, "f v")]),
    ("HMGET", |s, n| {
        s.with(list("HSET h", n, |at| format!("k:{at} v")));
        vec![names("HMGET h", n), words(&format!("HRANDFIELD h {n}")), words("HGETALL h")]
    }),
    ("HDEL", |s, n| {
        s.with(list("HSET h", n, |at| format!("k:{at} v")));
        vec![names("HDEL h", n)]
    }),
    ("SADD", |_, n| vec![names("SADD s", n)]),
    ("SADD of integers that fall", |_, n| vec![list("SADD s", n, |at| format!("-{at}"))]),
    ("SREM", |s, n| { s.with(names("SADD s", n)); vec![names("SREM s", n)] }),
    ("SMISMEMBER", |s, n| {
        s.with(names("SADD s", n));
        vec![names("SMISMEMBER s", n), words(&format!("SRANDMEMBER s -{n}"))]
    }),
    ("SPOP", |s, n| { s.with(names("SADD s", n)); vec![words(&format!("SPOP s {n}"))] }),
    ("SUNION", |s, n| { s.with(words("SADD k:1 a b")); vec![names("SUNIONSTORE to", n)] }),
    ("SINTER", |s, n| { s.with(words("SADD s a b")); vec![same("SINTERSTORE to", n, "s")] }),
    ("SINTERCARD", |s, n| {
        s.with(words("SADD s a b"));
        vec![same(&format!("SINTERCARD {n}"), n, "s")]
    }),
    ("SDIFF of many and none", |s, n| {
        s.with(names("SADD s", n));
        vec![names("SDIFFSTORE to s", n)]
    }),
    ("ZADD", |_, n| vec![list("ZADD z", n, |at| format!("{at} k:{at}"))]),
    ("ZADD downwards", |_, n| vec![list("ZADD z", n, |at| format!("-{at} k:{at}"))]),
    ("ZADD of one member", |_, n| vec![list("ZADD z", n, |at| format!("{at} m"))]),
    ("ZMSCORE", |s, n| {
        s.with(list("ZADD z", n, |at| format!("{at} k:{at}")));
        vec![names("ZMSCORE z", n), words("ZRANGESTORE to z 0 -1")]
    }),
    ("ZREM", |s, n| {
        s.with(list("ZADD z", n, |at| format!("{at} k:{at}")));
        vec![names("ZREM z", n)]
    }),
    ("ZPOPMIN", |s, n| {
        s.with(list("ZADD z", n, |at| format!("{at} k:{at}")));
        vec![words(&format!("ZPOPMIN z {n}"))]
    }),
    ("ZUNION with weights", |s, n| {
        s.with(words("ZADD k:1 1 a 2 b"));
        let request = then(names(&format!("ZUNIONSTORE to {n}"), n), "WEIGHTS");
        vec![then(request, &vec!["2"; n].join(" "))]
    }),
    ("ZINTER", |s, n| {
        s.with(words("ZADD z 1 a 2 b"));
        vec![same(&format!("ZINTER {n}"), n, "z"), same(&format!("ZINTERCARD {n}"), n, "z")]
    }),
    ("ZDIFF of many and none", |s, n| {
        s.with(list("ZADD z", n, |at| format!("{at} k:{at}")));
        vec![names(&format!("ZDIFF {} z", n + 1), n)]
    }),
    ("ZMPOP", |s, n| {
        s.with(words(&format!("ZADD k:{} 1 v", n - 1)));
        vec![then(names(&format!("ZMPOP {n}"), n), "MIN")]
    }),
    ("GEOADD", |_, n| vec![list("GEOADD g", n, |at| format!("{} 1 k:{at}", at % 180))]),
    ("GEOPOS", |s, n| {
        s.with(list("GEOADD g", n, |at| format!("{} 1 k:{at}", at % 180)));
        vec![names("GEOPOS g", n), names("GEOHASH g", n)]
    }),
    ("GEOSEARCH with options", |s, n| {
        s.with(words("GEOADD g 1 1 a"));
        vec![same("GEOSEARCH g FROMLONLAT 1 1 BYRADIUS 1 km", n, "WITHDIST")]
    }),
    ("DUMP, RESTORE", |s, n| {
        s.with(list("HSET h", n, |at| format!("k:{at} v")));
        let reply = s.0.run(&[b"DUMP", b"h"]).to_vec();
        let start = reply.iter().position(|&byte| byte == b'\n').expect("a bulk") + 1;
        let payload = reply[start..reply.len() - 2].to_vec();
        let restore = [&b"RESTORE"[..], b"r", b"0", &payload].map(<[u8]>::to_vec).to_vec();
        vec![words("DUMP h"), then(restore, &vec!["REPLACE"; n].join(" "))]
    }),
];

#[rustfmt::skip]
const WAITING: &[(&str, Form)] = &[
    ("BLPOP", |_, n| vec![then(names("BLPOP", n), "0")]),
    ("BLPOP of one key", |_, n| vec![then(same("BLPOP", n, "k"), "0")]),
    ("BZPOPMIN", |_, n| vec![then(names("BZPOPMIN", n), "0")]),
    ("BLMPOP", |_, n| vec![then(names(&format!("BLMPOP 0 {n}"), n), "LEFT")]),
    ("SUBSCRIBE", |_, n| vec![words("HELLO 3"), names("SUBSCRIBE", n), names("PUBSUB NUMSUB", n), words("UNSUBSCRIBE")]),
    ("PSUBSCRIBE", |_, n| vec![names("PSUBSCRIBE", n), names("PUNSUBSCRIBE", n)]),
    ("PSUBSCRIBE to one pattern", |_, n| vec![same("PSUBSCRIBE", n, "p*"), words("PUNSUBSCRIBE")]),
    ("SSUBSCRIBE", |_, n| vec![names("SSUBSCRIBE", n), words("SUNSUBSCRIBE")]),
    ("CLIENT TRACKING with prefixes", |_, n| {
        let on = list("CLIENT TRACKING ON BCAST", n, |at| format!("PREFIX k:{at}:"));
        vec![words("HELLO 3"), on, list("MSET", n, |at| format!("k:{at}:x v")),
            words("CLIENT TRACKINGINFO"), words("CLIENT TRACKING OFF")]
    }),
    ("CLIENT TRACKING with prefixes, one by one", |_, n| {
        each(n, |at| format!("CLIENT TRACKING ON BCAST PREFIX k:{at}:"))
    }),
    ("CLIENT TRACKING with prefixes that overlap in the end", |_, n| {
        let on = list("CLIENT TRACKING ON BCAST", n, |at| format!("PREFIX k:{at}:"));
        vec![then(on, &format!("PREFIX k:{}:x", n - 1))]
    }),
    ("reads under CLIENT TRACKING", |s, n| {
        strings(s, n);
        vec![words("HELLO 3"), words("CLIENT TRACKING ON"), names("MGET", n),
            list("MSET", n, |at| format!("k:{at} w"))]
    }),
    ("MULTI, EXEC", |_, n| transaction(n, |at| format!("SET k:{at} v"))),
    ("MULTI, EXEC that pushes", |_, n| transaction(n, |at| format!("RPUSH l {at}"))),
    ("MULTI, EXEC with messages to itself", |s, n| {
        s.with(words("HELLO 3")).with(words("SUBSCRIBE c"));
        transaction(n, |at| format!("PUBLISH c {at}"))
    }),
    ("MULTI, DISCARD", |_, n| {
        let mut requests = transaction(n, |at| format!("GET k:{at}"));
        requests.pop();
        requests.push(words("DISCARD"));
        requests
    }),
];

#[rustfmt::skip]
const SERVER: &[(&str, Form)] = &[
    ("ACL SETUSER with keys", |_, n| {
        vec![list("ACL SETUSER u reset", n, |at| format!("~k:{at}")), words("ACL GETUSER u"), words("ACL LIST")]
    }),
    ("ACL SETUSER with channels", |_, n| {
        vec![list("ACL SETUSER u reset", n, |at| format!("&k:{at}"))]
    }),
    ("ACL SETUSER with first arguments", |_, n| {
        vec![list("ACL SETUSER u reset", n, |at| format!("+get|k:{at}"))]
    }),
    ("ACL SETUSER with selectors", |_, n| {
        vec![list("ACL SETUSER u reset", n, |at| format!("(+get ~k:{at})"))]
    }),
    ("ACL SETUSER with one long selector", |_, n| {
        vec![then(list("ACL SETUSER u reset (+get", n, |at| format!("~k:{at}")), ")")]
    }),
    ("ACL SETUSER with commands", |_, n| vec![same("ACL SETUSER u reset", n, "+get -@read")]),
    ("ACL SETUSER with passwords", |_, n| {
        vec![list("ACL SETUSER u reset", n, |at| format!(">p{at}")), list("ACL SETUSER u", n, |at| format!("<p{at}"))]
    }),
    ("ACL DRYRUN", |s, n| {
        s.with(words("ACL SETUSER u reset +@all ~k:*"));
        vec![names("ACL DRYRUN u MGET", n)]
    }),
    ("ACL DELUSER", |s, n| {
        each(n / 10, |at| format!("ACL SETUSER k:{at}")).iter().for_each(|request| s.ask(request));
        vec![names("ACL DELUSER", n)]
    }),
    ("COMMAND INFO", |_, n| vec![same("COMMAND INFO", n, "get")]),
    ("COMMAND DOCS", |_, n| vec![same("COMMAND DOCS", n, "get")]),
    ("COMMAND GETKEYS", |_, n| {
        vec![same("COMMAND GETKEYS MSET", n, "k v"), same("COMMAND GETKEYSANDFLAGS MSET", n, "k v"),
            same("COMMAND GETKEYS SORT k", n, "GET x*")]
    }),
    ("CONFIG GET", |_, n| vec![same("CONFIG GET", n, "*"), same("CONFIG GET", n, "Save")]),
    ("CONFIG SET", |_, n| vec![same("CONFIG SET", n, "hz 10")]),
    ("CLIENT LIST", |_, n| vec![list("CLIENT LIST ID", n, |at| format!("{at}"))]),
    ("CLIENT KILL", |_, n| vec![list("CLIENT KILL", n, |at| format!("ID {}", at + 1))]),
    ("INFO", |_, n| vec![same("INFO", n, "server")]),
    ("LATENCY", |_, n| vec![names("LATENCY RESET", n), names("LATENCY HISTOGRAM", n)]),
    ("HELLO", |_, n| vec![same("HELLO 3", n, "SETNAME a")]),
    ("requests that MONITOR shows", |s, n| {
        s.with(words("MONITOR"));
        vec![same("HELLO 3", n, "SETNAME a"), names("MGET", n)]
    }),
    ("an unknown command", |_, n| vec![names("UNKNOWN", n)]),
    ("SLOWLOG GET", |s, n| {
        each(n.min(128), |_| "PING".to_owned()).iter().for_each(|request| s.ask(request));
        vec![words("SLOWLOG GET -1")]
    }),
];

fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The least processor time of several runs.
fn least_ns(server: &mut Prepared, form: Form, n: usize, runs: usize) -> u64 {
    let took = (0..runs).map(|_| {
        server.0.reset(|_, _| false);
        let requests = form(server, n);
        let start = cpu_ns();
        requests.iter().for_each(|request| server.ask(request));
        let state = &mut server.0.state;
        state.hub.broadcast_changes(&mut Delivery::new(
            &mut state.clients,
            &state.config,
            &state.clock,
        ));
        server.0.reconnect();
        cpu_ns() - start
    });
    took.min().unwrap_or(0)
}

/// What does not keep within the bound.
fn too_dear(of: impl Fn(usize, usize) -> u64, name: &str, report: &mut String) {
    let (few, mut many) = (of(FEW, 4), of(MANY, 2));
    if many / few.max(LEAST_NS) > RATIO_MAX {
        many = many.min(of(MANY, 8));
    }
    let ratio = many / few.max(LEAST_NS);
    println!("{name}: {} us, {} us: {ratio} times", few / 1000, many / 1000);
    if ratio > RATIO_MAX {
        // Writing to a string cannot fail.
        let _ = writeln!(report, "{name}: {ratio} times as much for 20 times the arguments");
    }
}

fn check(forms: &[(&str, Form)]) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = Config { dir: folder.path().to_owned(), ..Config::default() };
    config.slowlog_slower_than_us = 0; // what is noted of a request is a part of its cost
    let server = InProcess::new(config).expect("a server");
    let server = std::cell::RefCell::new(Prepared(server));
    let mut report = String::new();
    for (name, form) in forms {
        too_dear(|n, runs| least_ns(&mut server.borrow_mut(), *form, n, runs), name, &mut report);
    }
    assert!(report.is_empty(), "{report}");
}

#[test]
fn requests_on_keys_cost_in_proportion_to_their_arguments() {
    check(KEYS);
}

#[test]
fn requests_on_strings_cost_in_proportion_to_their_arguments() {
    check(STRINGS);
}

#[test]
fn requests_on_collections_cost_in_proportion_to_their_arguments() {
    check(COLLECTIONS);
}

#[test]
fn requests_that_wait_or_are_queued_cost_in_proportion_to_their_arguments() {
    check(WAITING);
}

#[test]
fn requests_about_the_server_cost_in_proportion_to_their_arguments() {
    check(SERVER);
}

/// A request that arrives bit by bit is read once, not from its beginning each time.
#[test]
fn a_request_that_arrives_in_pieces_is_parsed_in_proportion_to_its_arguments() {
    let parse = |n: usize, runs: usize| {
        let mut bytes = format!("*{n}\r\n").into_bytes();
        (0..n).for_each(|_| bytes.extend_from_slice(b"$8\r\nargument\r\n"));
        let took = (0..runs).map(|_| {
            let (mut parser, mut arrived) = (Parser::new(Limits::OPEN), Vec::new());
            let start = cpu_ns();
            let mut whole = None;
            for piece in bytes.chunks(64) {
                arrived.extend_from_slice(piece);
                whole = parser.parse(&mut arrived).expect("a request");
            }
            assert_eq!(whole, Some(bytes.len()));
            cpu_ns() - start
        });
        took.min().unwrap_or(0)
    };
    let mut report = String::new();
    too_dear(parse, "a request in pieces", &mut report);
    assert!(report.is_empty(), "{report}");
}
