//! What every command of the table does when it refuses: the refusal is the whole reply, and is
//! counted once.

use std::collections::{BTreeMap, BTreeSet};

use stillframe_commands::{Facts, Handler, Refusal, categories, flags};
use stillframe_resp::{Out, Protocol};
use stillframe_storage::replay::{Replays, named};

use super::{InProcess, is_refused, run_alone};
use crate::Config;
use crate::commands::{Alone, Command, Lookup, Replay};

/// Requests that a handler takes up to the look at its keys, where numbers will not do for all the
/// words behind the name: `K` is the key that is looked at first.
const FORMS: [&str; 42] = [
    "BITOP AND d K",
    "BLMOVE K K LEFT LEFT 1",
    "BLMOVEM K K LEFT LEFT 1",
    "BLMPOP 1 1 K LEFT",
    "BRPOPLPUSH K K 1",
    "BZMPOP 1 1 K MIN",
    "GEOADD K 1 1 m",
    "GEORADIUS K 1 1 1 m",
    "GEORADIUSBYMEMBER K m 1 m",
    "GEORADIUSBYMEMBER_RO K m 1 m",
    "GEORADIUS_RO K 1 1 1 m",
    "GEOSEARCH K FROMLONLAT 1 1 BYRADIUS 1 m",
    "GEOSEARCHSTORE d K FROMLONLAT 1 1 BYRADIUS 1 m",
    "HSETEX K FIELDS 1 f v",
    "LINSERT K BEFORE 1 1",
    "LMOVE K K LEFT LEFT",
    "LMOVEM K K LEFT LEFT",
    "LMPOP 1 K LEFT",
    "MSETNX K 1",
    "PFDEBUG ENCODING K",
    "SDIFFSTORE d K",
    "SINTERCARD 1 K",
    "SINTERSTORE d K",
    "SORT K STORE d",
    "SUNIONSTORE d K",
    "ZDIFF 1 K",
    "ZDIFFSTORE d 1 K",
    "ZINTER 1 K",
    "ZINTERCARD 1 K",
    "ZINTERSTORE d 1 K",
    "ZLEXCOUNT K - +",
    "ZMPOP 1 K MIN",
    "ZRANGEBYLEX K - +",
    "ZRANGESTORE d K 1 1",
    "ZREMRANGEBYLEX K - +",
    "ZREVRANGEBYLEX K + -",
    "ZUNION 1 K",
    "ZUNIONSTORE d 1 K",
    "SET K 1 GET",
    "GETEX K EX 0",
    "SMOVE K K 1",
    "GEODIST K 1 1",
];

/// Requests that make a key of each type, by its name.
const TYPES: [(&str, &str); 5] = [
    ("text", "SET text word"),
    ("list", "RPUSH list a"),
    ("hash", "HSET hash f v"),
    ("set", "SADD set m"),
    ("sorted", "ZADD sorted 1 m"),
];

/// Commands on values of one type that store a new value whatever is there, or take another type
/// for no value.
const INDIFFERENT: [&str; 8] =
    ["delex", "mget", "mset", "msetex", "msetnx", "psetex", "setex", "setnx"];

struct Server {
    server: InProcess,
    _folder: tempfile::TempDir,
}

impl Server {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = Config { dir: folder.path().to_owned(), ..Config::default() };
        Self { server: InProcess::new(config).expect("a server"), _folder: folder }
    }

    /// Data of all types, and a client that has asked nothing.
    fn prepare(&mut self) {
        self.server.reset(|_, _| false);
        for (_, request) in TYPES {
            self.ask(&words(request)).1.expect("it is stored");
        }
    }

    /// Runs a request: its reply, and why it was refused.
    fn ask(&mut self, request: &[String]) -> (Vec<u8>, Result<(), Refusal>) {
        let server = &mut self.server;
        let args: Vec<&[u8]> = request.iter().map(String::as_bytes).collect();
        server.output.clear();
        let InProcess { keyspace, state, table, session, output, now, .. } = &mut *server;
        let mut alone = Alone { keyspace, state, table };
        let outcome = run_alone(&mut alone, session, output, *now, &args);
        server.let_go();
        (server.output.clone(), outcome)
    }

    /// Errors counted, by their codes; of all commands: calls that failed, and requests rejected.
    fn counted(&self) -> (BTreeMap<String, u64>, u64, u64) {
        let stats = self.server.state.meter.stats();
        let failed = stats.commands.iter().map(|it| it.failed).sum();
        let rejected = stats.commands.iter().map(|it| it.rejected).sum();
        (stats.errors.clone(), failed, rejected)
    }

    /// Runs a request, and checks that a refusal is all that is answered and is counted once, and
    /// that nothing is counted without one.
    fn check(&mut self, request: &[String]) -> Result<(), Refusal> {
        let (mut errors, failed, rejected) = self.counted();
        let replies = self.server.state.meter.stats().error_replies;
        let (reply, outcome) = self.ask(request);
        let (errors_now, failed_now, rejected_now) = self.counted();
        let shown = request.join(" ");
        let text = String::from_utf8_lossy(&reply);
        match &outcome {
            Ok(()) => assert!(!reply.starts_with(b"-"), "{shown}: {text}"),
            Err(refusal) => {
                assert_eq!(text, format!("-{refusal}\r\n"), "{shown}");
                let code = text[1..].split(|c: char| !c.is_ascii_alphanumeric()).next();
                *errors.entry(code.unwrap_or_default().to_owned()).or_default() += 1;
            }
        }
        let refused = u64::from(outcome.is_err());
        assert_eq!(errors_now, errors, "{shown}: {text}");
        // A name that no command has counts for none.
        let args: Vec<&[u8]> = request.iter().map(String::as_bytes).collect();
        let is_known = matches!(self.server.table.lookup(&args), Lookup::Found(_));
        let counted = failed_now - failed + rejected_now - rejected;
        assert_eq!(counted, refused * u64::from(is_known), "{shown}: {text}");
        assert_eq!(self.server.state.meter.stats().error_replies - replies, refused, "{shown}");
        outcome
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// A request of a command, with the fewest words it takes: keys are `K`, and all else is 1.
fn plain(command: &Command) -> Vec<String> {
    let name: Vec<String> = command.name.split('|').map(str::to_owned).collect();
    let numbers = name.len()..usize::from(command.arity.unsigned_abs()).max(name.len());
    let numbered: Vec<String> =
        name.iter().cloned().chain(numbers.map(|at| at.to_string())).collect();
    let all: Vec<&[u8]> = numbered.iter().map(|word| word.as_bytes()).collect();
    let keys = command.keys.in_request(&all);
    let word = |at: usize| match &numbered[at] {
        word if at < name.len() => word.clone(),
        word if keys.contains(&word.as_bytes()) => "K".to_owned(),
        _ => "1".to_owned(),
    };
    (0..numbered.len()).map(word).collect()
}

/// INFO counts what was refused for want of a right, by reason, and slow requests.
#[test]
fn info_counts_denials_and_slow_requests() {
    let mut server = Server::new();
    let ask = |server: &mut Server, line: &str| {
        String::from_utf8_lossy(&server.ask(&words(line)).0).into_owned()
    };
    ask(&mut server, "CONFIG SET slowlog-log-slower-than 0");
    ask(&mut server, "ACL SETUSER u on nopass ~a* resetchannels +get +publish +auth");
    for line in ["AUTH nobody x", "AUTH u x", "GET b", "GET b", "SET a 1", "PUBLISH c m"] {
        ask(&mut server, line);
    }
    server.server.reconnect();
    for line in ["PING", "PING", "PING", "SLOWLOG RESET"] {
        ask(&mut server, line);
    }
    let info = ask(&mut server, "INFO stats");
    for (reason, count) in [("auth", 1), ("cmd", 1), ("key", 2), ("channel", 1)] {
        let field = format!("\r\nacl_access_denied_{reason}:{count}\r\n");
        assert!(info.contains(&field), "{field}: {info}");
    }
    let slow = info.split("slowlog_commands_count:").nth(1).and_then(|it| it.split('\r').next());
    assert!(slow.is_some_and(|count| count.parse().unwrap_or(0) >= 4), "{info}");
}

#[test]
fn a_wrong_number_of_words_is_refused_before_any_handler() {
    let mut server = Server::new();
    server.prepare();
    let commands: Vec<(Vec<String>, i8)> =
        server.server.table.all().iter().map(|it| (plain(it), it.arity)).collect();
    for (request, arity) in commands {
        let named = request.iter().take_while(|word| word.chars().all(char::is_lowercase)).count();
        let least = usize::from(arity.unsigned_abs());
        let few = (least > named.max(1)).then(|| request[..least - 1].to_vec());
        let many = (arity > 0).then(|| [&request[..], &["1".to_owned()]].concat());
        for wrong in few.into_iter().chain(many) {
            let refusal = server.check(&wrong).expect_err(&wrong.join(" "));
            let text = refusal.to_string();
            assert!(text.contains("wrong number of arguments for '"), "{wrong:?}: {text}");
        }
    }
}

#[test]
fn whatever_follows_a_command_a_refusal_is_the_whole_reply_and_counts_once() {
    const WORDS: [&str; 7] = ["1", "-1", "x", "K", "(", "", "9223372036854775807"];
    /// They take away what is looked at: the reply, and the counters.
    const UNSEEN: [&str; 2] = ["client|reply", "config|resetstat"];
    let mut server = Server::new();
    let commands = server.server.table.all().iter();
    let commands: Vec<Vec<String>> = commands
        .filter(|it| !is_refused(it.name) && !UNSEEN.contains(&it.name))
        .map(plain)
        .collect();
    let (mut done, mut refused) = (0, 0);
    for plain in commands {
        for more in [0, 1, 2, 3, 30] {
            for word in &WORDS[..if more == 0 { 1 } else { WORDS.len() }] {
                // Each type in its turn.
                let (name, _) = TYPES[done % TYPES.len()];
                done += 1;
                server.prepare();
                let more = std::iter::repeat_n((*word).to_owned(), more);
                let request = plain.iter().cloned().chain(more);
                let request = request.map(|it| if it == "K" { name.to_owned() } else { it });
                refused += usize::from(server.check(&request.collect::<Vec<_>>()).is_err());
            }
        }
    }
    assert!(refused > done / 4, "{refused} of {done} requests were refused");
}

#[test]
fn every_command_on_values_of_a_type_refuses_those_of_others() {
    let mut server = Server::new();
    let on_values = ["string", "list", "hash", "set", "sortedset", "bitmap", "hyperloglog", "geo"];
    let bits = on_values.iter().filter_map(|name| categories::bit(name.as_bytes()));
    let bits = bits.fold(0, |all, bit| all | bit);
    let commands: Vec<(&str, Vec<String>)> = server
        .server
        .table
        .all()
        .iter()
        .filter(|it| it.facts.categories & bits != 0)
        .filter(|it| !it.facts.specs.is_empty() && !it.has(flags::ABSENT))
        .map(|it| (it.name, plain(it)))
        .collect();
    let mut indifferent = BTreeSet::new();
    for (name, plain) in commands {
        let forms = FORMS.iter().map(|form| words(form));
        let forms = forms.filter(|form| form[0].eq_ignore_ascii_case(name));
        let forms: Vec<Vec<String>> = std::iter::once(plain).chain(forms).collect();
        let mut refuses = false;
        for (kind, _) in TYPES {
            for form in &forms {
                server.prepare();
                let request = form.iter().map(|it| if it == "K" { kind } else { it }.to_owned());
                let outcome = server.check(&request.collect::<Vec<_>>());
                refuses |= outcome.is_err_and(|refusal| {
                    let text = refusal.to_string();
                    text.starts_with("WRONGTYPE ") || text.contains("must contain string values")
                });
            }
        }
        if !refuses {
            indifferent.insert(name);
        }
    }
    assert_eq!(indifferent, BTreeSet::from(INDIFFERENT));
}

#[test]
fn exec_answers_refusals_among_its_replies_and_has_not_failed_itself() {
    let mut server = Server::new();
    server.prepare();
    for line in ["MULTI", "SET k v", "LPUSH k 1", "INCR k", "GETEX k EX 0"] {
        server.check(&words(line)).expect(line);
    }
    let stats = |server: &Server| server.server.state.meter.stats().error_replies;
    let before = stats(&server);
    let (reply, outcome) = server.ask(&words("EXEC"));
    assert_eq!(outcome, Ok(()));
    let expected = "*4\r\n+OK\r\n\
        -WRONGTYPE Operation against a key holding the wrong kind of value\r\n\
        -ERR value is not an integer or out of range\r\n\
        -ERR invalid expire time in 'getex' command\r\n";
    assert_eq!(String::from_utf8_lossy(&reply), expected);
    assert_eq!(stats(&server) - before, 3);
    for (name, failed) in [("set", 0), ("lpush", 1), ("incr", 1), ("getex", 1), ("exec", 0)] {
        let index = server.server.table.find(name.as_bytes()).expect(name);
        assert_eq!(server.server.state.meter.stats().commands[index].failed, failed, "{name}");
    }
    server.check(&words("EXEC")).expect_err("there is no transaction any more");
}

#[test]
fn a_replay_fails_by_a_refusal_within_a_transaction_and_by_no_reply_that_looks_like_one() {
    let mut server = Server::new();
    server.prepare();
    server.ask(&words("SET k -ERR")).1.expect("it is stored");
    let InProcess { keyspace, state, table, .. } = &mut server.server;
    let mut alone = Alone { keyspace, state, table };
    let mut client = Replay::default();
    let mut replay = |line: &str| {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let applied = alone.replay(&mut client, 0, &args);
        applied.map_err(|why| format!("{} {why}", named(&args)))
    };
    for line in ["SET k -ERR GET", "MULTI", "LPUSH text 1", "SET k v", "LPUSH k 1"] {
        assert_eq!(replay(line), Ok(()), "{line}");
    }
    let why = "does not succeed as it once did: WRONGTYPE Operation against a key holding the \
               wrong kind of value";
    assert_eq!(replay("EXEC"), Err(format!("EXEC {why}")));
    assert_eq!(replay("LPUSH text 1"), Err(format!("LPUSH of key \"text\" {why}")));
    assert_eq!(replay("SET k w"), Ok(()), "a refusal is not remembered");
    assert_eq!(server.ask(&words("GET k")).0, b"$1\r\nw\r\n");
}

/// Part of a reply may be written when a command finds out that it cannot be done.
#[test]
fn nothing_is_left_of_a_reply_that_was_begun() {
    fn begun(ctx: &mut stillframe_commands::Context<'_>, _: &[&[u8]]) -> Result<(), Refusal> {
        ctx.out.array(2);
        ctx.out.bulk("half");
        Err("ERR\r\n the other half is missing".into())
    }
    let mut server = Server::new();
    server.prepare();
    let facts = Facts { name: "begun", arity: 1, flags: flags::READONLY, ..Facts::default() };
    server.server.table.insert(Box::leak(Box::new(facts)), Handler::Data(begun));
    server.server.state.meter.add_command();
    let refusal = server.check(&words("begun")).expect_err("it refuses");
    assert_eq!(refusal.to_string(), "ERR   the other half is missing");
    // What is before the reply stays.
    let mut output = b"+before\r\n".to_vec();
    let mut out = Out::new(&mut output, Protocol::Resp2);
    out.ok();
    let InProcess { keyspace, state, table, session, now, .. } = &mut server.server;
    let mut alone = Alone { keyspace, state, table };
    let _ = run_alone(&mut alone, session, &mut output, *now, &[b"begun"]);
    assert_eq!(output, b"+before\r\n+OK\r\n-ERR   the other half is missing\r\n");
}
