//! The same beside Redis 8 and Valkey 9, with commands of theirs that redis-server 7.0 does not
//! have.
//!
//! Replies may differ by what the versions differ by: texts of errors behind their first word, how
//! a number is written, and [`DIFFERENCES`].

use std::collections::BTreeSet;
use std::fs;

use stillframe_peers::requests::{
    BITS, GEO, HASHES, KEYS, LISTS, Pool, SETS, SKETCHES, SORTED, STREAMS, STRINGS, command_of,
    filled,
};
use stillframe_peers::{Peer, are_here};

use super::{BATCH, names, on_fresh_errno, scripted, show_history, transaction};
use crate::collections::debugged;
use crate::newer::contents;
use crate::replayed::Contents;
use crate::support::beside::{By, Pair, SLACK_MS, Words, first_difference, shown};
use crate::support::{Kind, Random, Reply, Server, Setup, decode, rounds};

/// Without "transactions": [`transaction`] makes some.
const KEYS_OF_ANY: Pool = &["generic", "connection", "server"];
const POOLS: [Pool; 11] =
    [STRINGS, LISTS, HASHES, HASHES, SETS, SORTED, GEO, BITS, SKETCHES, STREAMS, KEYS_OF_ANY];

/// Requests that both have. No deadline comes while the test runs.
const OF_BOTH: &[&str] = &[
    "HPEXPIREAT $k 4102444800000|4102444800001|1 ?NX|XX|GT|LT FIELDS 2 $e $e",
    "HEXPIREAT $k 4102444800|4102444801|1 FIELDS 1 $e",
    "HEXPIRE|HPEXPIRE $k 0|-1 ?NX|XX|GT|LT FIELDS 1 $e",
    "HPERSIST $k FIELDS 2 $e $e",
    "HPEXPIRETIME|HEXPIRETIME $k FIELDS 3 $e $e $e",
    "HGETEX $k ?PERSIST FIELDS 2 $e $e",
    "HGETEX $k PXAT 4102444800000|1|4102444800002 FIELDS 2 $e $e",
    "HSETEX $k ?FNX|FXX ?KEEPTTL FIELDS 2 $e $v $e $v",
    "HSETEX $k PXAT 4102444800000|4102444800003 FIELDS 1 $e $v",
    "HSET $k $e $v $e $v",
    "ZRANK|ZREVRANK $k $e WITHSCORE",
    "CLIENT NO-TOUCH ON|OFF|x",
    "CLIENT SETINFO LIB-NAME|LIB-VER|x some|so\\nme",
    "WAITAOF 0 0 0",
    "XINFO GROUPS $k",
];

/// What Redis has beyond 8.0.
const NEWEST: &[&str] = &[
    "SET $k $v IFEQ|IFNE $v ?GET",
    "SET $k $v IFDEQ|IFDNE 44bc2cf5ad770999 ?GET",
    "DELEX $k ?IFEQ|IFNE $v",
    "DIGEST $k",
    "MSETEX 2 $k $v $k $v ?NX|XX",
    "MSETEX 1 $k $v PXAT 4102444800000|1",
    "INCREX $k",
    "INCREX $k BYINT 5|-7|x LBOUND -20|3 UBOUND 30|1 ?SATURATE",
    "INCREX $k BYFLOAT 0.5|-1.25 ?SATURATE UBOUND 10|inf",
    "INCREX $k PXAT 4102444800000 ?ENX",
    "LMOVEM $k $k LEFT|RIGHT LEFT|RIGHT COUNT|EXACTLY 1|2|3|0 OBO|BULK",
    "BITOP DIFF|DIFF1|ANDOR|ONE $k $k $k",
    "ZUNION|ZINTER 2 $k $k AGGREGATE COUNT WITHSCORES",
    "ZUNIONSTORE|ZINTERSTORE $k 2 $k $k AGGREGATE COUNT",
    "SDIFFCARD|SUNIONCARD 2 $k $k",
    "HEXPIREAT $k 4102444800|4102444801 FIELDS 2 $e $e ?NX|XX|GT|LT",
    "HGETEX $k FIELDS 2 $e $e ?PERSIST",
    "HSETEX $k FIELDS 1 $e $v ?FNX|FXX ?KEEPTTL",
    "XADD $k KEEPREF|DELREF|ACKED MAXLEN = 3|2 7-1|8-1|9-1|9-2 f $v",
    "XTRIM $k MAXLEN = 2|4 KEEPREF|DELREF|ACKED",
    "XDELEX $k KEEPREF|DELREF|ACKED IDS 2 1-1 2-1",
    "XACKDEL $k g ?KEEPREF|DELREF|ACKED IDS 1 1-1",
    "HGETDEL $k FIELDS 2 $e $e",
    "HIMPORT PREPARE one|two $e $e",
    "HIMPORT SET $k one|two $v $v",
    "HIMPORT SET $k one|two $v $v",
    "HIMPORT DISCARD one|two",
];

/// Arrays, which Redis has since 8.8.
const ARRAYS: &[&str] = &[
    "ARSET $k 0|3|7|4096|18446744073709551614|-1|x $v ?$v ?$v",
    "ARSET $k 0|1|2|100 $v $v $v",
    "ARMSET $k 0|5|9|1000 $v 2|6|9|18446744073709551614 $v",
    "ARGET $k 0|1|3|18446744073709551614|+1|x",
    "ARMGET $k 0 3 7|9|x",
    "ARGETRANGE $k 0|5|x 9|2|2000000",
    "ARSCAN $k 0|9 18446744073709551614|3 ?LIMIT,2 ?x",
    "ARDEL $k 0|3|5 1|7|18446744073709551614",
    "ARDELRANGE $k 0|4|9 2|5|18446744073709551614 ?8,9",
    "ARLEN|ARCOUNT|ARNEXT|ARLEN $k",
    "ARINSERT $k $v ?$v ?$v",
    "ARSEEK $k 0|1|2|5|100|18446744073709551614|18446744073709551615|x",
    "ARRING $k 1|2|3|4|8|100|0|x $v ?$v ?$v ?$v",
    "ARRING $k 2|3|5|8 $v",
    "ARLASTITEMS $k 1|3|9|-1|x ?REV",
    "AROP $k 0|9 18446744073709551614|4 SUM|MIN|MAX|AND|OR|XOR|USED|x",
    "AROP $k 0 18446744073709551614 MATCH $v",
    "ARGREP $k -|3|+ +|0|- EXACT|MATCH|GLOB $v ?NOCASE ?WITHVALUES ?LIMIT,2",
    "ARGREP $k - + RE 1|a+|^[0-9]+|[[:alpha:]]9|a|(a|b|a{2} MATCH 1 ?AND ?NOCASE",
    "ARINFO $k FULL,x|x",
    "RENAME|COPY $k $k",
];

/// Requests that one of them has.
fn own(peer: Peer) -> &'static [&'static str] {
    match peer {
        Peer::Valkey => &["SET $k $v IFEQ $v ?GET", "DELIFEQ $k $v"],
        Peer::Redis810 => NEWEST,
        _ => &["HGETDEL $k FIELDS 2 $e $e"],
    }
}

#[test]
fn random_commands_reply_as_redis_8() {
    prove("random_commands_reply_as_redis_8", Peer::Redis8);
}

#[test]
fn random_commands_reply_as_redis_8_10() {
    prove("random_commands_reply_as_redis_8_10", Peer::Redis810);
}

#[test]
fn random_commands_reply_as_valkey() {
    prove("random_commands_reply_as_valkey", Peer::Valkey);
}

/// A short run makes the same requests each time, and a long one others: versions differ in rare
/// cases that [`DIFFERENCES`] does not have yet.
fn random(test: &str) -> Random {
    let is_long = rounds(0, 1) > 0 || std::env::var_os("STILLFRAME_SEED").is_some();
    if is_long { Random::new(test) } else { Random::with_seed(11) }
}

fn prove(test: &str, peer: Peer) {
    if !are_here(test, &[peer]) {
        return;
    }
    let mut random = random(test);
    for round in 0..rounds(2, 60) {
        let servers =
            [debugged(Kind::Newer(peer), None, ""), Server::start(Kind::subject("imprint"))];
        let mut pairs = [0, 1].map(|number| {
            let mut pair = servers.each_ref().map(Server::client);
            let protocol = 2 + (round + number) % 2;
            pair.iter_mut().for_each(|client| client.ok(&format!("HELLO {protocol}")));
            pair
        });
        let mut history = Vec::new();
        for _ in 0..rounds(40, 250) {
            let pair = &mut pairs[random.below(2)];
            let requests = batch(peer, &mut random);
            run(peer, pair, requests, &mut history);
            match random.below(12) {
                0 => hand_over(peer, pair, &mut random),
                1 => _ = pair[1].ask("BGSAVE"), // no image changes what is read
                _ => {}
            }
            same_contents(peer, &servers, &history);
        }
        swap_files(peer, &servers);
    }
}

fn batch(peer: Peer, random: &mut Random) -> Vec<Words> {
    let mut requests: Vec<Words> = Vec::new();
    while requests.len() < BATCH {
        match random.below(25) {
            0 => requests.extend(names(random)),
            1 => requests.push(scripted(&POOLS, random, |_| true)),
            2..7 => requests.push(filled(random.pick(OF_BOTH), random)),
            7 => requests.push(filled(random.pick(own(peer)), random)),
            9..13 if peer == Peer::Redis810 => {
                let pool = if random.below(3) == 0 { NEWEST } else { ARRAYS };
                requests.push(filled(random.pick(pool), random));
            }
            8 => requests.extend(transaction(&POOLS, random)),
            _ => requests.extend(on_fresh_errno(command_of(&POOLS, random))),
        }
        requests.retain(|words| !differs_in_data(words));
    }
    requests.into_iter().flat_map(with_consumers).collect()
}

/// A request, behind those that make the consumers it names: later versions make a consumer that
/// gets nothing, too.
fn with_consumers(words: Words) -> Vec<Words> {
    let named = match words[0].to_ascii_uppercase().as_slice() {
        b"XREADGROUP" => {
            let is_start = |word: &Vec<u8>| word.eq_ignore_ascii_case(b"streams");
            let keys = words.iter().position(is_start).map_or(&[][..], |at| &words[at + 1..]);
            words.get(2..4).map(|named| (&keys[..keys.len() / 2], named))
        }
        b"XCLAIM" | b"XAUTOCLAIM" => words.get(2..4).map(|named| (&words[1..2], named)),
        _ => None,
    };
    let (keys, named) = named.unwrap_or_default();
    let made = keys.iter().map(|key| {
        let head = [&b"XGROUP"[..], b"CREATECONSUMER", key].map(<[u8]>::to_vec);
        head.into_iter().chain(named.iter().cloned()).collect()
    });
    made.chain([words.clone()]).collect()
}

/// Requests that store another range, or what is sorted by numbers, by version; and scripts that
/// may make a consumer.
fn differs_in_data(words: &Words) -> bool {
    let has = |name: &str| words.iter().any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
    let consumes = || ["XREADGROUP", "XCLAIM", "XAUTOCLAIM"].into_iter().any(has);
    let sorts_numbers = || has("SORT") && has("STORE") && !has("ALPHA");
    has("ZRANGESTORE") && counts_from_end(words) || has("EVAL") && consumes() || sorts_numbers()
}

/// Digests differ by version: all that both hold is read.
fn same_contents(peer: Peer, servers: &[Server; 2], history: &[Words]) {
    let [theirs, ours] = servers.each_ref().map(|server| contents(&mut server.client()));
    let differs = difference(&theirs, &ours);
    if !differs.is_empty() {
        let last = &history[history.len().saturating_sub(BATCH)..];
        last.iter().for_each(|words| println!("  {}", shown(words)));
        panic!("{peer:?} (left) and here: {differs:?}");
    }
}

/// The keys that differ, where times to live may do so a little.
fn difference(theirs: &Contents, ours: &Contents) -> Vec<(String, [Option<String>; 2])> {
    let parts = |text: &String| {
        let (time, value) = text.split_once(' ').expect("a time and a value");
        (time.parse::<i64>().expect("a time"), value.to_owned())
    };
    let is_same = |key| match (theirs.get(key).map(parts), ours.get(key).map(parts)) {
        (Some(theirs), Some(ours)) => {
            let near = (theirs.0 - ours.0).abs() < SLACK_MS && (theirs.0 < 0) == (ours.0 < 0);
            near && theirs.1 == ours.1
        }
        _ => false,
    };
    let keys: BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
    let differs = keys.into_iter().filter(|key| !is_same(*key));
    differs
        .map(|key| (format!("{key:?}"), [theirs, ours].map(|all| all.get(key).cloned())))
        .collect()
}

/// What either dumps is what the other restores. Valkey does not know the form of hashes with
/// fields that expire.
fn hand_over(peer: Peer, pair: &mut Pair, random: &mut Random) {
    for _ in 0..4 {
        let (from, to) = (random.pick(&KEYS), random.pick(&KEYS));
        if peer == Peer::Valkey && pair[0].call(&[b"TYPE", from]).text() == "hash" {
            continue;
        }
        let payloads = pair.each_mut().map(|client| client.call(&[b"DUMP", from]));
        let [theirs, ours] = payloads.each_ref().map(Reply::bytes);
        for (client, payload) in pair.iter_mut().zip([ours, theirs]) {
            let Some(payload) = payload else { continue };
            let reply = client.call(&[b"RESTORE", to, b"0", payload, b"REPLACE"]);
            assert_eq!(reply.text(), "OK", "{peer:?}: {}", from.escape_ascii());
        }
    }
}

/// Each loads what the other has saved.
fn swap_files(peer: Peer, servers: &[Server; 2]) {
    let [theirs, ours] = servers;
    ours.client().wait_for_save();
    if peer == Peer::Valkey {
        ours.client().ok("CONFIG SET rdb-version 80");
    }
    let expected = contents(&mut ours.client());
    let folders = [theirs, ours].map(|server| {
        server.client().ok("SAVE");
        let folder = tempfile::tempdir().expect("a folder");
        fs::copy(server.dump(), folder.path().join("dump.rdb")).expect("the dump was written");
        folder
    });
    let loaded = [
        Setup::new(Kind::subject("imprint")).folder(folders[0].path()).start(),
        debugged(Kind::Newer(peer), Some(folders[1].path()), "--sanitize-dump-payload yes"),
    ];
    for server in loaded {
        let differs = difference(&expected, &contents(&mut server.client()));
        assert!(differs.is_empty(), "{:?} has loaded other data: {differs:?}", server.kind);
    }
}

/// Compares the replies to a batch.
fn run(peer: Peer, pair: &mut Pair, batch: Vec<Words>, history: &mut Vec<Words>) {
    let difference = first_difference(pair, &batch, |words, theirs, ours| {
        By::from_words(words).same(theirs, ours) || {
            let [theirs, ours] = [theirs, ours].map(|raw| decode(raw).expect("a reply").0);
            is_alike(words, &theirs, &ours) || is_known(peer, words, &theirs, &ours)
        }
    });
    let compared = difference.as_ref().map_or(batch.len(), |(index, _)| index + 1);
    history.extend(batch.into_iter().take(compared));
    if let Some((_, difference)) = difference {
        show_history(history);
        panic!("{peer:?}: {difference}");
    }
}

/// Whether two replies differ by what any two versions may differ by.
fn is_alike(words: &Words, theirs: &Reply, ours: &Reply) -> bool {
    let code = |text: &str| text.split(' ').next().map(str::to_owned);
    match (theirs, ours) {
        (Reply::Error(theirs), Reply::Error(ours)) => code(theirs) == code(ours),
        (Reply::Text(theirs), Reply::Text(ours)) => theirs == ours || is_number(theirs, ours),
        (Reply::List(theirs), Reply::List(ours)) if theirs.len() == ours.len() => {
            let in_order = |list: &[Reply]| {
                let mut list = list.to_vec();
                if By::from_words(words) == By::Elements {
                    list.sort_by_key(|it| format!("{it:?}"));
                }
                list
            };
            let mut all = in_order(theirs).into_iter().zip(in_order(ours));
            all.all(|(theirs, ours)| is_alike(words, &theirs, &ours))
        }
        _ => theirs == ours,
    }
}

/// Whether both are one number: later versions write the shortest text that is read back as it,
/// 7.0 writes 17 digits behind the point.
fn is_number(theirs: &[u8], ours: &[u8]) -> bool {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<f64>().ok();
    let (Some(theirs), Some(ours)) = (number(theirs), number(ours)) else { return false };
    theirs == ours || (theirs - ours).abs() < 1e-15
}

/// A difference that docs/reference/compatibility.md or the version of Redis explains.
struct Difference {
    peers: &'static [Peer],
    commands: &'static [&'static str],
    is: fn(&Words, &Reply, &Reply) -> bool,
}

const ALL: &[Peer] = &[Peer::Redis8, Peer::Redis810, Peer::Valkey];

/// See [`Difference`].
const DIFFERENCES: &[Difference] = &[
    // They look at the arguments first, 7.0 at the key. Valkey takes a start without an end.
    Difference { peers: ALL, commands: &["BITCOUNT", "BITPOS"], is: is_error },
    Difference {
        peers: &[Peer::Valkey],
        commands: &["GETEX", "HEXPIRE", "HPEXPIRE", "HEXPIREAT", "HPEXPIREAT", "HGETEX", "HSETEX"],
        is: |words, theirs, ours| {
            let early = matches!(ours, Reply::Null | Reply::List(_));
            matches!(theirs, Reply::Error(_)) && (early || is_error(words, theirs, ours))
        },
    },
    // Names of 7.0; and Valkey has no packed hashes with fields that expire.
    Difference { peers: ALL, commands: &["OBJECT"], is: is_encoding },
    // They refuse the least number, which 7.0 takes.
    Difference { peers: ALL, commands: &["LREM", "LPOS"], is: is_error },
    // In a large sorted set they count a LIMIT below zero from the end; 7.0 then finds nothing.
    Difference {
        peers: ALL,
        commands: &["ZRANGE", "ZRANGEBYLEX", "ZRANGEBYSCORE", "ZREVRANGEBYLEX", "ZREVRANGEBYSCORE"],
        is: |words, _, _| counts_from_end(words),
    },
    Difference {
        peers: ALL,
        commands: &["XGROUP", "XINFO"],
        is: |words, _, _| words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"help")),
    },
    // Blanks may come before a number up to Redis 7.4, and an empty text is 0 up to 8.6.
    Difference { peers: ALL, commands: &["SORT", "SORT_RO"], is: is_error },
    // Replies to any of them.
    Difference {
        peers: ALL,
        commands: &["EVAL", "EXEC"],
        is: |words, theirs, ours| match (theirs, ours) {
            (Reply::List(theirs), Reply::List(ours)) if theirs.len() == ours.len() => {
                theirs.iter().zip(ours).all(|(theirs, ours)| {
                    is_alike(&vec![Vec::new()], theirs, ours)
                        || is_error(words, theirs, ours)
                        || is_encoding(words, theirs, ours)
                        || matches!((theirs, ours), (Reply::List(_), Reply::List(_)))
                })
            }
            _ => false,
        },
    },
];

/// Whether a request has a LIMIT that begins below zero.
fn counts_from_end(words: &Words) -> bool {
    let mut pairs = words.windows(2);
    pairs.any(|two| two[0].eq_ignore_ascii_case(b"limit") && two[1].starts_with(b"-"))
}

fn is_error(_: &Words, theirs: &Reply, ours: &Reply) -> bool {
    matches!(theirs, Reply::Error(_)) || matches!(ours, Reply::Error(_))
}

fn is_encoding(_: &Words, theirs: &Reply, ours: &Reply) -> bool {
    let names = [
        "listpack",
        "listpackex",
        "quicklist",
        "hashtable",
        "skiplist",
        "template-listpack", // of hashes that HIMPORT made
        "template-array",
    ];
    let is_name = |reply: &Reply| match reply {
        Reply::Text(text) => names.iter().any(|name| name.as_bytes() == text),
        _ => false,
    };
    is_name(theirs) && is_name(ours)
}

fn is_known(peer: Peer, words: &Words, theirs: &Reply, ours: &Reply) -> bool {
    let is = |name: &&str| words[0].eq_ignore_ascii_case(name.as_bytes());
    let mut all = DIFFERENCES.iter().filter(|it| it.peers.contains(&peer));
    all.any(|it| it.commands.iter().any(is) && (it.is)(words, theirs, ours))
}
