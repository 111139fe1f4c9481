//! Memory against log: what random requests did, replayed by a clock that stands still, makes the
//! same data, whatever expired at whatever moment.

use std::collections::BTreeSet;

use stillframe_peers::list::lines;
use stillframe_peers::requests::{KEYS, Words, command, command_alone, filled};
use stillframe_peers::transcript::escape;
use stillframe_peers::{Random, rounds};

use super::slices;
use crate::harness::Harness;

/// A request about a time that is near, or has just been.
fn near(random: &mut Random, now: i64) -> Words {
    let time = (random.below(60) as i64 - 5).to_string();
    let at = (now + random.below(60) as i64 - 10).to_string();
    let template = match random.below(16) {
        0 => format!("SET $k $v PX {time}"),
        1 => format!("SET $k $v PXAT {at} ?GET"),
        2 => format!("GETEX $k PX {time}"),
        3 => format!("GETEX $k PXAT {at}"),
        4 => format!("PSETEX $k {time} $v"),
        5 => format!("PEXPIREAT $k {at} ?NX|XX|GT|LT"),
        6..8 => format!("PEXPIRE $k {time} ?NX|XX|GT|LT"),
        8 => format!("HPEXPIREAT $k {at} ?NX|XX|GT|LT FIELDS 2 $e $e"),
        9 => format!("HSETEX $k ?FNX|FXX PX {time} FIELDS 2 $e $v $e $v"),
        10 => format!("HSETEX $k PXAT {at} FIELDS 1 $e $v"),
        11 => format!("HGETEX $k PX {time} FIELDS 2 $e $e"),
        12 => "HSETEX $k KEEPTTL FIELDS 2 $e $v $e $v".to_owned(),
        13 => "HINCRBY $k $e 1".to_owned(),
        _ => format!("HPEXPIRE $k {time} ?NX|XX|GT|LT FIELDS 3 $e $e $e"),
    };
    filled(&template, random)
}

/// A random request, not of a server's kind.
pub(super) fn request(random: &mut Random, harness: &mut Harness) -> Words {
    match random.below(12) {
        0..3 => near(random, harness.now),
        3 => command_alone(random),
        4 => restore(random, harness),
        _ => command(random),
    }
}

/// Puts the value of one key under another, as a payload.
fn restore(random: &mut Random, harness: &mut Harness) -> Words {
    let [from, to] = [random.pick(&KEYS), random.pick(&KEYS)];
    let reply = harness.ask('d', &[b"DUMP", from]);
    let start = reply.iter().position(|&byte| byte == b'\n').expect("a line") + 1;
    let payload = reply[start..].strip_suffix(b"\r\n").unwrap_or_default().to_vec();
    let time = random.below(50).to_string().into_bytes();
    let mut words = vec![b"RESTORE".to_vec(), to.to_vec(), time, payload];
    if random.below(2) == 0 {
        words.push(b"REPLACE".to_vec());
    }
    if random.below(3) == 0 {
        words[2] = (harness.now + random.below(50) as i64 - 10).to_string().into_bytes();
        words.push(b"ABSTTL".to_vec());
    }
    words
}

/// Leaves no client waiting.
pub(super) fn let_go(harness: &mut Harness, who: char) {
    let caller = harness.caller(who);
    let (waits, id) = (std::mem::take(&mut caller.waits), caller.id);
    if waits {
        harness.ledger.waiters.leave(id);
    }
}

/// Random requests; their effects are replayed now and then.
fn agree(seed: u64) {
    let mut random = Random::with_seed(seed);
    let mut memory = Harness::with_seed(seed).notes_effects();
    let mut log = Harness::with_seed(!seed);
    log.now = 0;
    log.caller('a').internal = true;
    for _ in 0..40 {
        let mut history = Vec::new();
        for _ in 0..1 + random.below(40) {
            memory.pass(random.below(12) as i64);
            if random.below(40) == 0 {
                memory.expire();
            }
            let who = random.pick(&['a', 'b', 'c']);
            let words = request(&mut random, &mut memory);
            memory.ask(who, &slices(&words));
            let_go(&mut memory, who);
            history.push(format!("{} {who} {}", memory.now, escape(&words.join(&b' '))));
        }
        let stream = memory.stream();
        for words in stream.iter().filter(|words| !is_bracket(words)) {
            let reply = log.ask('a', &slices(words));
            let [reply, request] = [reply, words.join(&b' ')].map(|it| escape(&it));
            let failed = reply.starts_with('-');
            assert!(!failed, "seed {seed}: {request}: {reply}\n{}", history.join("\n"));
        }
        let [memory, log] = [memory.contents(), log.contents()];
        let differ = memory.iter().zip(&log).find(|(memory, log)| memory != log);
        let context = (history.join("\n"), stream.len());
        assert!(
            differ.is_none() && memory.len() == log.len(),
            "seed {seed}: {differ:?}\n{context:?}"
        );
    }
}

/// What holds the requests of a transaction together.
fn is_bracket(words: &Words) -> bool {
    [&b"MULTI"[..], b"EXEC"].contains(&&*words[0])
}

#[test]
fn replayed_effects_make_the_same_data() {
    let mut random = Random::new("replayed_effects_make_the_same_data");
    for _ in 0..rounds(12, 2_000) {
        agree(random.next());
    }
}

#[test]
fn every_command_on_data_is_among_the_random_requests() {
    let drawn = ["try", "alone"].into_iter().flat_map(lines).map(|line| line.command);
    let names: BTreeSet<&str> = drawn.chain(["restore"]).collect();
    let harness = Harness::new();
    let all: Vec<&str> = harness.commands().map(|(name, _)| name).collect();
    let is_container = |name: &str| all.iter().any(|it| it.starts_with(&format!("{name}|")));
    let missing: Vec<&str> =
        all.iter().copied().filter(|name| !names.contains(name) && !is_container(name)).collect();
    assert_eq!(missing, ["pfselftest", "discard", "multi"]);
}
