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
use stillframe_peers::list::lines;
use stillframe_peers::requests::Words;
use stillframe_resp::{Limits, Parser};

use super::InProcess;
use crate::Config;
use crate::connections::hub::Delivery;

const FEW: usize = 1_000;
const MANY: usize = 20_000;
const RATIO_MAX: u64 = 80;
/// What takes less may be one miss of a cache.
const LEAST_NS: u64 = 100_000;

/// A form of `n` arguments: requests that come first, and those whose cost counts.
struct Form {
    before: Vec<Words>,
    measured: Vec<Words>,
}

struct Prepared(InProcess);

impl Prepared {
    fn ask(&mut self, request: &Words) {
        let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        let reply = self.0.run(&args);
        let shown = String::from_utf8_lossy(&reply[..reply.len().min(100)]).into_owned();
        let name = String::from_utf8_lossy(&request[0]).into_owned();
        assert!(!reply.starts_with(b"-ERR syntax"), "{name}: {shown}");
    }

    fn ask_all(&mut self, text: &str, n: usize) {
        parse_form(text, n).measured.iter().for_each(|request| self.ask(request));
    }
}

/// A form as the list of commands has it: `before ; before => request ; request`.
///
/// `[words]` comes `n` times, and so does a request behind `each`; `{i}` counts them from 0, `{n}`
/// is `n`, and either may stand in a sum, difference, product or rest with a number: `{i%180}`.
fn parse_form(text: &str, n: usize) -> Form {
    let requests = |text: &str| {
        let parts = text.split(" ; ").filter(|part| !part.is_empty());
        let each = |part: &str| match part.strip_prefix("each ") {
            Some(request) => (0..n).map(|i| parse_request(request, n, i)).collect(),
            None => vec![parse_request(part, n, 0)],
        };
        parts.flat_map(each).collect()
    };
    let (before, measured) = text.split_once(" => ").unwrap_or(("", text));
    Form { before: requests(before), measured: requests(measured) }
}

fn parse_request(text: &str, n: usize, i: usize) -> Words {
    let mut words = Words::new();
    for (at, part) in text.split(['[', ']']).enumerate() {
        let repeats = if at % 2 == 1 { 0..n } else { i..i + 1 };
        for i in repeats {
            let filled = part.split(' ').filter(|word| !word.is_empty());
            words.extend(filled.map(|word| fill_numbers(word, n, i).into_bytes()));
        }
    }
    words
}

/// A word with numbers in place of what stands between braces.
fn fill_numbers(word: &str, n: usize, i: usize) -> String {
    let Some((before, rest)) = word.split_once('{') else { return word.to_owned() };
    let (term, behind) = rest.split_once('}').expect("a brace is closed");
    let value = if term.starts_with('n') { n } else { i };
    let number = || term[2..].parse::<usize>().expect("a number behind a sign");
    let value = match term.as_bytes().get(1) {
        None => value,
        Some(b'+') => value + number(),
        Some(b'-') => value - number(),
        Some(b'*') => value * number(),
        Some(b'%') => value % number(),
        Some(_) => panic!("no such sign: {word}"),
    };
    format!("{before}{value}{}", fill_numbers(behind, n, i))
}

/// Prepares a server, and makes a form of that size.
type MakeForm = fn(&mut Prepared, usize) -> Form;
/// Forms that need more than the list of commands can say.
const SPECIAL: [(&str, MakeForm); 5] = [
    ("DEL of keys whose time has come", |server, n| {
        server.ask_all("MSET [k:{i} v] ; each PEXPIRE k:{i} 10", n);
        server.0.now += 1000;
        parse_form("DEL [k:{i}]", n)
    }),
    ("KEYS with stars", |_, n| {
        let (text, stars) = ("a".repeat(n), "a*".repeat(n));
        parse_form(&format!("SET {text} v => KEYS {stars}b"), n)
    }),
    ("DUMP, RESTORE", |server, n| {
        server.ask_all("HSET h [k:{i} v]", n);
        let reply = server.0.run(&[b"DUMP", b"h"]).to_vec();
        let start = reply.iter().position(|&byte| byte == b'\n').expect("a bulk") + 1;
        let mut form = parse_form("DUMP h ; RESTORE r 0 payload [REPLACE]", n);
        form.measured[1][3] = reply[start..reply.len() - 2].to_vec();
        form
    }),
    ("ACL DELUSER", |server, n| {
        server.ask_all("each ACL SETUSER k:{i}", n / 10);
        parse_form("ACL DELUSER [k:{i}]", n)
    }),
    ("an unknown command", |_, n| parse_form("UNKNOWN [k:{i}]", n)),
];

fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The least processor time of several runs.
fn least_ns(
    server: &mut Prepared,
    form: impl Fn(&mut Prepared, usize) -> Form,
    n: usize,
    runs: usize,
) -> u64 {
    let took = (0..runs).map(|_| {
        server.0.reset(|_, _| false);
        let Form { before, measured } = form(server, n);
        before.iter().for_each(|request| server.ask(request));
        let start = cpu_ns();
        measured.iter().for_each(|request| server.ask(request));
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
fn report_too_dear(took_ns: impl Fn(usize, usize) -> u64, name: &str, report: &mut String) {
    let (few, mut many) = (took_ns(FEW, 4), took_ns(MANY, 2));
    if many / few.max(LEAST_NS) > RATIO_MAX {
        many = many.min(took_ns(MANY, 8));
    }
    let ratio = many / few.max(LEAST_NS);
    println!("{name}: {} us, {} us: {ratio} times", few / 1000, many / 1000);
    if ratio > RATIO_MAX {
        // Writing to a string cannot fail.
        let _ = writeln!(report, "{name}: {ratio} times as much for 20 times the arguments");
    }
}

fn server() -> (tempfile::TempDir, Prepared) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = Config { dir: folder.path().to_owned(), ..Config::default() };
    config.slowlog_slower_than_us = 0; // what is noted of a request is a part of its cost
    (folder, Prepared(InProcess::new(config).expect("a server")))
}

/// Measures the forms of the list for commands of these groups.
fn check(groups: &[&str]) {
    let (_folder, server) = server();
    let server = std::cell::RefCell::new(server);
    let mut report = String::new();
    let mut count = 0;
    for line in lines("cost").filter(|line| groups.contains(&line.group)) {
        let form = |_: &mut Prepared, n| parse_form(line.value, n);
        let took = |n, runs| least_ns(&mut server.borrow_mut(), form, n, runs);
        report_too_dear(took, line.value, &mut report);
        count += 1;
    }
    assert!(report.is_empty() && count > 0, "{report}");
}

const KEYS: [&str; 2] = ["generic", "transactions"];
const STRINGS: [&str; 3] = ["string", "bitmap", "hyperloglog"];
const COLLECTIONS: [&str; 7] = ["list", "hash", "set", "sorted-set", "geo", "stream", "array"];
const SERVER: [&str; 5] = ["server", "connection", "pubsub", "scripting", "cluster"];

#[test]
fn requests_on_keys_cost_in_proportion_to_their_arguments() {
    check(&KEYS);
}

#[test]
fn requests_on_strings_cost_in_proportion_to_their_arguments() {
    check(&STRINGS);
}

#[test]
fn requests_on_collections_cost_in_proportion_to_their_arguments() {
    check(&COLLECTIONS);
}

#[test]
fn requests_about_the_server_cost_in_proportion_to_their_arguments() {
    check(&SERVER);
}

#[test]
fn special_requests_cost_in_proportion_to_their_arguments() {
    let (_folder, server) = server();
    let server = std::cell::RefCell::new(server);
    let mut report = String::new();
    for (name, form) in SPECIAL {
        let took = |n, runs| least_ns(&mut server.borrow_mut(), form, n, runs);
        report_too_dear(took, name, &mut report);
    }
    assert!(report.is_empty(), "{report}");
}

#[test]
fn every_group_of_commands_is_measured() {
    let measured = [&KEYS[..], &STRINGS, &COLLECTIONS, &SERVER].concat();
    for line in lines("call") {
        assert!(measured.contains(&line.group), "{}", line.group);
    }
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
    report_too_dear(parse, "a request in pieces", &mut report);
    assert!(report.is_empty(), "{report}");
}
