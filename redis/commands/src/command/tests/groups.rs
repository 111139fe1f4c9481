//! Consumer groups: what they say of themselves in the log, and who is woken.

use crate::harness::Harness;

/// A replayed request knows no time but those in its words.
#[test]
fn what_is_pending_keeps_its_time_through_a_replay() {
    let mut harness = Harness::new().notes_effects();
    harness.all(&["XGROUP CREATE s g $ MKSTREAM", "XADD s 1-1 f v", "XADD s 2-1 f v"]);
    harness.all(&["XREADGROUP GROUP g alice COUNT 1 STREAMS s >"]);
    harness.pass(1_000);
    harness.all(&["XREADGROUP GROUP g bob STREAMS s >", "XREADGROUP GROUP g alice STREAMS s 0"]);
    harness.pass(1_000);
    let pending = harness.run("XPENDING s g - + 10");
    assert!(pending.contains(":1000"), "{pending}");
    let mut replayed = Harness::new();
    let now = std::mem::take(&mut replayed.now);
    replayed.caller('a').internal = true;
    for words in harness.stream() {
        let reply = replayed.ask('a', &words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert!(!reply.starts_with(b"-"), "{}", reply.escape_ascii());
    }
    replayed.now = now + 2_000;
    replayed.caller('a').internal = false;
    for ask in ["XPENDING s g - + 10", "XPENDING s g", "XINFO GROUPS s"] {
        assert_eq!(replayed.run(ask), harness.run(ask), "{ask}");
    }
}

/// Parks caller `w`, which waits for what nobody of the group has read.
fn parked() -> Harness {
    let mut harness = Harness::new();
    harness.all(&["XGROUP CREATE s g $ MKSTREAM"]);
    let waits = harness.run_as('w', "XREADGROUP GROUP g w BLOCK 0 STREAMS s >");
    assert_eq!(waits, "", "it waits");
    harness
}

/// Redis wakes who waits for a group by the end of the key or of the group, and not by what else
/// happens to the group.
#[test]
fn who_waits_for_a_group_is_woken_by_entries_and_by_its_end() {
    let many = [
        ("XADD s 1-1 f v", true),
        ("XGROUP DESTROY s g", true),
        ("DEL s", true),
        ("FLUSHALL", true),
        ("FLUSHDB", true),
        ("SWAPDB 0 1", true),
        ("SET s text", true),
        ("RENAME s t", true),
        ("XGROUP CREATE s h 0", false),
        ("XGROUP SETID s g 0", false),
        ("XGROUP CREATECONSUMER s g a", false),
        ("XSETID s 9-9", false),
        ("XREADGROUP GROUP g a STREAMS s 0", false),
    ];
    for (change, wakes) in many {
        let mut harness = parked();
        harness.all(&[change]);
        assert_eq!(harness.ledger.waiters.has_ready(), wakes, "{change}");
    }
    let mut harness = parked();
    harness.all(&["PEXPIRE s 10"]);
    while harness.ledger.waiters.next_ready().is_some() {}
    harness.pass(20);
    harness.expire();
    assert!(harness.ledger.waiters.has_ready(), "its key has expired");
}

#[test]
fn scripts_do_not_block() {
    let mut harness = parked();
    harness.ledger.in_script = true;
    for (request, name) in [
        ("xread BLOCK 0 STREAMS s $", "xread"),
        ("XREADGROUP GROUP g a BLOCK 0 STREAMS s >", "XREADGROUP"),
    ] {
        let expected = format!("-ERR {name} command is not allowed with BLOCK option from scripts");
        assert_eq!(harness.run(request), expected);
    }
}
