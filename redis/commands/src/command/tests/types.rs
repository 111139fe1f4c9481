//! Every command refuses keys of the wrong type in the same words, and does nothing then.

use std::collections::BTreeSet;

use stillframe_peers::list::lines;
use stillframe_peers::transcript::escape;

use crate::errors::WRONG_TYPE;
use crate::facts;
use crate::harness::Harness;

/// A key of each type, by the letter that forms name types by.
const KEYS: [(char, &str); 7] = [
    ('s', "SET s text"),
    ('l', "RPUSH l a b"),
    ('h', "HSET h f 1"),
    ('e', "SADD e a b"),
    ('z', "ZADD z 1 a 2 b"),
    ('x', "XADD x 1-1 f v"),
    ('y', "ARSET y 1 v"),
];

#[test]
fn keys_of_the_wrong_type_are_refused_and_nothing_is_done() {
    let mut harness = Harness::new().notes_effects().notifies("KEA");
    harness.all(&KEYS.map(|(_, line)| line));
    let before = harness.contents();
    harness.effects();
    harness.events();
    harness.watch_all(KEYS.iter().map(|(_, line)| line.split(' ').nth(1).unwrap().as_bytes()));
    let dirty = harness.ledger.dirty;
    let mut refused = 0;
    for line in lines("types").filter(|line| line.value != "any") {
        let (takes, arguments) = line.value.split_once(' ').expect("types and arguments");
        let form = line.request(arguments).replace("\"\"", "");
        for (key, _) in KEYS.iter().filter(|(key, _)| !takes.contains(*key)) {
            let line = form.replace('@', &key.to_string());
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let reply = harness.ask('a', &words);
            let expected = [b"-", WRONG_TYPE.text(), b"\r\n"].concat();
            assert_eq!(escape(&reply), escape(&expected), "{line}");
            refused += 1;
        }
    }
    assert!(refused > 500, "{refused}");
    assert_eq!(harness.contents(), before);
    assert_eq!(harness.ledger.dirty, dirty);
    assert!(!harness.met_changes('w') && harness.effects().is_empty());
    assert!(harness.events().is_empty());
}

#[test]
fn every_command_on_data_is_tried_with_keys_of_the_wrong_type() {
    let tried: BTreeSet<&str> = lines("types").map(|line| line.command).collect();
    let harness = Harness::new();
    let names = harness.commands().map(|(name, _)| name);
    let with_keys = names.filter(|name| facts::find(name).is_some_and(|it| !it.specs.is_empty()));
    let missing: Vec<&str> = with_keys.filter(|name| !tried.contains(name)).collect();
    assert!(missing.is_empty(), "commands.txt has no line 'types' for {missing:?}");
}
