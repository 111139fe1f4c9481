//! Transactions without a server: what is logged, and that the log plays them again.

use crate::harness::{Harness, Words};

#[test]
fn a_transaction_is_one_unit_of_effects_and_a_refused_one_none() {
    let mut harness = Harness::new().notes_effects();
    harness.all(&["SET k 1", "MULTI", "INCR k", "SET l v"]);
    assert_eq!(harness.effects(), ["SELECT 0; SET k 1"], "queued requests have changed nothing");
    assert_eq!(harness.run("EXEC"), "*2 :2 +OK");
    assert_eq!(harness.effects(), ["MULTI; INCR k; SET l v; EXEC"]);
    harness.all(&["MULTI", "INCR k"]);
    harness.run("GET");
    assert!(harness.run("EXEC").starts_with("-EXECABORT"));
    harness.all(&["WATCH k", "MULTI", "INCR k"]);
    assert_eq!(harness.run_as('b', "INCR k"), ":3");
    assert_eq!(harness.run("EXEC"), "*-1");
    assert_eq!(harness.effects(), ["INCR k"], "that of the other client");
    assert_eq!(harness.run("EXEC"), "-ERR EXEC without MULTI");
}

#[test]
fn a_logged_transaction_is_played_again_by_exec() {
    let (mut first, mut second) = (Harness::new().notes_effects(), Harness::new());
    first.all(&["MULTI", "RPUSH l a b c", "LPOP l", "SETEX k 100 v", "INCR n", "EXEC"]);
    for words in first.stream() {
        let words: &Words = &words;
        let reply = second.ask('a', &words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert!(!reply.starts_with(b"-"), "{words:?}");
    }
    assert_eq!(first.contents(), second.contents());
    assert!(second.caller('a').transaction.is_none());
}

#[test]
fn a_closed_transaction_leaves_no_watch_and_no_bytes() {
    for end in ["EXEC", "DISCARD"] {
        let mut harness = Harness::new();
        harness.all(&["WATCH a b", "MULTI", "SET a 1"]);
        assert!(harness.caller('a').watched_bytes > 0);
        harness.all(&[end]);
        assert_eq!(harness.caller('a').watched_bytes, 0);
        harness.all(&["MULTI", "SET a 1"]);
        harness.run_as('b', "SET b 1");
        assert_eq!(harness.run("EXEC"), "*1 +OK", "{end}");
    }
}
