//! Random commands by seed, of one type or of all at once, on keys that all types share, get the
//! same replies from redis-server and from ours, and leave the same data, which goes both ways
//! through files. The list of commands has the forms.
//!
//! All times are years away or past, so that no reply depends on when it is made; a time left is
//! the one thing that may differ a little. Elements that have no order are compared without.

mod later;

use std::collections::BTreeSet;
use std::fs;

use crate::collections::{keys, redis};
use crate::files::check_dump;
use crate::support::beside::{By, Pair, SLACK_MS, Words, first_difference, number, shown};
use crate::support::{Client, Kind, Random, Reply, Server, Setup, redis_is_here, rounds};
use stillframe_peers::requests::{
    ALL, BITS, HASHES, KEYS, KEYS_OF_ANY, LISTS, Pool, SETS, SKETCHES, STRINGS, command_of, filled,
    script,
};

/// Commands sent at once.
const BATCH: usize = 40;

#[test]
fn commands_on_all_types_reply_as_redis_and_leave_the_same_files() {
    prove("commands_on_all_types_reply_as_redis_and_leave_the_same_files", &ALL, rounds(3, 60));
}

#[test]
fn random_sequences_reply_as_redis() {
    let pools = [STRINGS, STRINGS, STRINGS, KEYS_OF_ANY];
    prove("random_sequences_reply_as_redis", &pools, rounds(8, 200));
}

#[test]
fn bit_operations_reply_as_redis() {
    prove("bit_operations_reply_as_redis", &[BITS, BITS, BITS, STRINGS], rounds(4, 120));
}

#[test]
fn sketches_are_those_of_redis() {
    prove("sketches_are_those_of_redis", &[SKETCHES, SKETCHES, STRINGS], rounds(4, 120));
}

#[test]
fn random_commands_on_collections_reply_as_redis() {
    let pools = [LISTS, HASHES, SETS, KEYS_OF_ANY];
    prove("random_commands_on_collections_reply_as_redis", &pools, rounds(4, 120));
}

fn prove(test: &str, pools: &[Pool], rounds_max: usize) {
    if !redis_is_here(test) {
        return;
    }
    let mut random = Random::new(test);
    for round in 0..rounds_max {
        let servers = [redis(None, ""), Server::start(Kind::subject("imprint"))];
        let mut pairs = [0, 1].map(|number| {
            let mut pair = servers.each_ref().map(Server::client);
            let protocol = 2 + (round + number) % 2;
            pair.iter_mut().for_each(|client| client.ok(&format!("HELLO {protocol}")));
            pair
        });
        let mut admins = servers.each_ref().map(Server::client);
        let mut history = Vec::new();
        for _ in 0..rounds(40, 250) {
            let pair = &mut pairs[random.below(2)];
            run_batch(pair, pools, &mut random, &mut history);
            match random.below(12) {
                0 => scan_everything(pair),
                1 => hand_over(pair, &mut random, &mut history),
                2 => _ = pair[1].ask("BGSAVE"), // no image changes what is read
                _ => {}
            }
            same_digests(&mut admins, &history);
        }
        servers[1].client().wait_for_save();
        swap_files(&servers);
    }
}

pub(crate) fn run_batch(
    pair: &mut Pair,
    pools: &[Pool],
    random: &mut Random,
    history: &mut Vec<Words>,
) {
    run(pair, batch(pools, random), history);
}

pub(crate) fn batch(pools: &[Pool], random: &mut Random) -> Vec<Words> {
    let mut batch: Vec<Words> = Vec::new();
    while batch.len() < BATCH {
        batch.extend(requests(pools, random));
    }
    batch
}

/// One request, or some that belong together.
pub(crate) fn requests(pools: &[Pool], random: &mut Random) -> Vec<Words> {
    match random.below(25) {
        0 => transaction(pools, random),
        1 => names(random),
        2 => vec![scripted(pools, random, |words| !blocks(words))],
        // DBSIZE counts what has expired until a request meets it: meet all.
        3 => {
            let meet = [&b"EXISTS"[..]].into_iter().chain(KEYS).map(<[u8]>::to_vec).collect();
            vec![meet, filled("DBSIZE", random)]
        }
        4 if random.below(10) == 0 => vec![filled("FLUSHDB|FLUSHALL ?ASYNC|SYNC", random)],
        _ => on_fresh_errno(command_of(pools, random)).collect(),
    }
}

/// A request; one that sorts behind one that resets `errno` in redis-server 7.0, which else refuses
/// to sort numbers once any command has met one that no double holds, as `APPEND` may make them.
fn on_fresh_errno(words: Words) -> impl Iterator<Item = Words> {
    let sorts = [&b"SORT"[..], b"SORT_RO"].iter().any(|name| words[0].eq_ignore_ascii_case(name));
    let reset = sorts.then(|| [&b"HSCAN"[..], b"none", b"0"].map(<[u8]>::to_vec).into());
    reset.into_iter().chain([words])
}

/// Compares the replies to a batch.
pub(crate) fn run(pair: &mut Pair, mut batch: Vec<Words>, history: &mut Vec<Words>) {
    let difference = first_difference(pair, &batch, |words, theirs, ours| {
        By::from_words(words).same(theirs, ours)
    });
    let compared = difference.as_ref().map_or(batch.len(), |(index, _)| index + 1);
    history.extend(batch.drain(..compared));
    if let Some((_, difference)) = difference {
        show_history(history);
        panic!("{difference}");
    }
}

/// Some requests, most of which run together.
fn transaction(pools: &[Pool], random: &mut Random) -> Vec<Words> {
    let watch = (random.below(3) == 0).then(|| filled("WATCH $k", random));
    let mut requests: Vec<Words> = watch.into_iter().collect();
    if random.below(3) == 0 {
        requests.push(command_of(pools, random));
    }
    requests.push(filled("MULTI", random));
    for _ in 0..random.below(6) {
        let words = command_of(pools, random);
        if By::from_words(&words) == By::Bytes {
            requests.extend(on_fresh_errno(words));
        }
    }
    requests.push(filled(random.pick(&["EXEC", "EXEC", "EXEC", "DISCARD"]), random));
    requests
}

/// Requests that fit in a script, whose replies are compared byte for byte.
fn scripted(pools: &[Pool], random: &mut Random, fits: fn(&Words) -> bool) -> Words {
    let drawn = (0..1 + random.below(4)).map(|_| command_of(pools, random));
    let is_fit = |words: &Words| By::from_words(words) == By::Bytes && fits(words);
    script(&drawn.filter(is_fit).flat_map(on_fresh_errno).collect::<Vec<_>>())
}

/// Whether redis-server 7.0 refuses a request in scripts because it may wait.
fn blocks(words: &Words) -> bool {
    let is = |name: &&[u8]| words[0].eq_ignore_ascii_case(name);
    let names = [&b"BLPOP"[..], b"BRPOP", b"BLMOVE", b"BRPOPLPUSH", b"BZPOPMIN", b"BZPOPMAX"];
    names.iter().any(is) || words.iter().any(|word| word.eq_ignore_ascii_case(b"block"))
}

/// Ranges by name are only defined where all scores are equal.
fn names(random: &mut Random) -> Vec<Words> {
    let templates = [
        "DEL same",
        "ZADD same 0,$e* 0,$e* 0,$e*",
        "ZRANGEBYLEX same - + ?LIMIT,$n,$n",
        "ZREVRANGEBYLEX same + [$few ?LIMIT,$n,$n",
        "ZRANGE same [m1 (m3 BYLEX",
        "ZLEXCOUNT same [ (m2",
        "ZRANGESTORE $k same (m [m9 BYLEX",
        "ZREMRANGEBYLEX same - (m|[1|x",
    ];
    templates.iter().map(|template| filled(template, random)).collect()
}

/// Shows the last commands on the keys of the last one.
fn show_history(history: &[Words]) {
    let Some(words) = history.last() else { return };
    let keys: Vec<_> = words.iter().skip(1).filter(|word| KEYS.contains(&&***word)).collect();
    let of_keys = |earlier: &&Words| {
        let word = earlier[0].to_ascii_uppercase();
        let of_all = [&b"SELECT"[..], b"SWAPDB", b"MULTI", b"EXEC"].contains(&&*word);
        of_all || earlier.iter().any(|word| keys.contains(&word))
    };
    let mut last: Vec<_> = history.iter().rev().filter(of_keys).take(60).collect();
    last.reverse();
    last.iter().for_each(|words| println!("  {}", shown(words)));
}

/// Compares all that both hold, and shows the last commands if it differs.
pub(crate) fn same_digests(pair: &mut Pair, history: &[Words]) {
    // What has expired is digested until somebody meets it.
    for db in ["2", "15", "0", "1"] {
        for client in &mut *pair {
            client.ok(&format!("SELECT {db}"));
            client.call(&[&b"EXISTS"[..]].into_iter().chain(KEYS).collect::<Vec<_>>());
            client.ok("EXISTS h1 h2 h3 same");
        }
    }
    let [theirs, ours] = pair.each_mut().map(|client| client.ask("DEBUG DIGEST"));
    if theirs != ours {
        history[history.len().saturating_sub(BATCH)..]
            .iter()
            .for_each(|words| println!("  {}", shown(words)));
        for key in KEYS {
            let words: [&[u8]; 3] = [b"DEBUG", b"DIGEST-VALUE", key];
            let [theirs, ours] = pair.each_mut().map(|client| client.call(&words));
            println!("{}: {theirs:?}, {ours:?}", key.escape_ascii());
        }
        panic!("the data differs: redis {theirs:?}, here {ours:?}");
    }
}

/// Iterations from cursor 0 to cursor 0, of keys and of elements.
fn scan_everything(pair: &mut Pair) {
    for filter in ["", " TYPE zset", " MATCH [a-d] COUNT 3", " TYPE string MATCH *"] {
        let all = |client: &mut Client| walk(client, &[b"SCAN"], filter);
        let [theirs, ours] = pair.each_mut().map(all);
        assert_eq!(theirs, ours, "SCAN{filter}");
    }
    for key in KEYS {
        let words: [&[u8]; 2] = [b"TYPE", key];
        let kind = pair[0].call(&words).text();
        let name: &[u8] = match &*kind {
            "set" => b"SSCAN",
            "hash" => b"HSCAN",
            "zset" => b"ZSCAN",
            _ => continue,
        };
        let all = |client: &mut Client| walk(client, &[name, key], " COUNT 5");
        let [theirs, ours] = pair.each_mut().map(all);
        assert_eq!(theirs, ours, "{} {}", name.escape_ascii(), key.escape_ascii());
    }
}

/// All elements that an iteration gives.
fn walk(client: &mut Client, head: &[&[u8]], filter: &str) -> BTreeSet<Vec<u8>> {
    let mut cursor = "0".to_owned();
    let mut found = BTreeSet::new();
    loop {
        let options = filter.split(' ').skip(1).map(str::as_bytes);
        let words: Vec<&[u8]> =
            head.iter().copied().chain([cursor.as_bytes()]).chain(options).collect();
        let reply = client.call(&words);
        let [next, elements] = reply.list() else { panic!("SCAN gives two elements: {reply:?}") };
        let width = if [&b"HSCAN"[..], b"ZSCAN"].contains(&head[0]) { 2 } else { 1 };
        for element in elements.list().chunks(width) {
            let parts = element.iter().filter_map(Reply::bytes);
            let mut parts: Vec<Vec<u8>> = parts.map(<[u8]>::to_vec).collect();
            if head[0] == b"ZSCAN" {
                parts[1] = number(&parts[1]);
            }
            found.insert(parts.join(&b'='));
        }
        cursor = next.text();
        if cursor == "0" {
            return found;
        }
    }
}

/// What either dumps is what the other restores.
fn hand_over(pair: &mut Pair, random: &mut Random, history: &mut Vec<Words>) {
    for _ in 0..4 {
        let (from, to) = (random.pick(&KEYS), random.pick(&KEYS));
        let payloads = pair.each_mut().map(|client| client.call(&[b"DUMP", from]));
        let [theirs, ours] = payloads.each_ref().map(Reply::bytes);
        assert_eq!(theirs.is_some(), ours.is_some(), "{}", from.escape_ascii());
        let expire: &[u8] = random.pick(&[&b"0"[..], b"4102444800000"]);
        history.push([b"RESTORE", to, expire, from].map(<[u8]>::to_vec).into());
        for (client, payload) in pair.iter_mut().zip([ours, theirs]) {
            let Some(payload) = payload else { continue };
            let reply = client.call(&[b"RESTORE", to, expire, payload, b"REPLACE", b"ABSTTL"]);
            assert_eq!(reply.text(), "OK", "{}", from.escape_ascii());
        }
    }
}

/// Each server loads what the other has saved: the same data with the same times to live.
fn swap_files(servers: &[Server; 2]) {
    let expected = servers.each_ref().map(|server| picture(&mut server.client()));
    assert_same_pictures(&expected[0], &expected[1]);
    let folders = servers.each_ref().map(|server| {
        server.client().ok("SAVE");
        let folder = tempfile::tempdir().expect("a folder");
        fs::copy(server.dump(), folder.path().join("dump.rdb")).expect("the dump was written");
        folder
    });
    check_dump(&servers[1].dump());
    let ours = Setup::new(Kind::subject("imprint")).folder(folders[0].path()).start();
    assert_same_pictures(&expected[0], &picture(&mut ours.client()));
    let theirs = redis(Some(folders[1].path()), "--sanitize-dump-payload yes");
    assert_same_pictures(&expected[1], &picture(&mut theirs.client()));
}

/// Digest, type and time of death of each key of the two databases used, and of the whole.
type Picture = Vec<(String, String, i64)>;

fn picture(client: &mut Client) -> Picture {
    let mut found = vec![("all".to_owned(), client.ask("DEBUG DIGEST").text(), -1)];
    for db in ["0", "1"] {
        client.ok(&format!("SELECT {db}"));
        for key in keys(client) {
            let digest = client.call(&[b"DEBUG", b"DIGEST-VALUE", &key]).list()[0].text();
            let kind = client.call(&[b"TYPE", &key]).text();
            let expire = client.call(&[b"PEXPIRETIME", &key]).int();
            found.push((format!("{db} {} {kind}", key.escape_ascii()), digest, expire));
        }
    }
    client.ok("SELECT 0");
    found
}

fn assert_same_pictures(left: &Picture, right: &Picture) {
    assert_eq!(left.len(), right.len(), "{left:?}\n{right:?}");
    for (left, right) in left.iter().zip(right) {
        let near = (left.2 - right.2).abs() < SLACK_MS && (left.2 < 0) == (right.2 < 0);
        assert!((&left.0, &left.1) == (&right.0, &right.1) && near, "{left:?}, {right:?}");
    }
}
