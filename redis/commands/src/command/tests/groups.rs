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

/// Redis from 8.2 on refuses a file with a group that has read more; older replicas take any.
#[test]
fn a_group_has_read_at_most_what_was_ever_added_on_replicas_too() {
    let mut harness = Harness::new().notes_effects();
    harness.all(&["XADD s 1-1 f v", "XADD s 2-1 f v"]);
    harness.stream();
    let shown = |read| format!("$12 entries-read :{read} ");
    for (request, read, words) in [
        ("XGROUP CREATE s g 1 entriesread 100", 2, "XGROUP CREATE s g 1 entriesread 2"),
        ("XGROUP SETID s g 1-1 ENTRIESREAD 1", 1, "XGROUP SETID s g 1-1 ENTRIESREAD 1"),
        ("XGROUP SETID s g 1-1 ENTRIESREAD 7", 2, "XGROUP SETID s g 1-1 ENTRIESREAD 2"),
        ("XTRIM s MAXLEN 1", 2, "XTRIM s MAXLEN 1"),
        (
            "XSETID s 2-1 ENTRIESADDED 1",
            1,
            "MULTI; XSETID s 2-1 ENTRIESADDED 1; XGROUP SETID s g 1-1 ENTRIESREAD 1; EXEC",
        ),
    ] {
        harness.all(&[request]);
        let said: Vec<_> = harness.stream().iter().map(|it| it.join(&b' ')).collect();
        assert_eq!(String::from_utf8_lossy(&said.join(&b"; "[..])), words, "{request}");
        let groups = harness.run("XINFO GROUPS s");
        assert!(groups.contains(&shown(read)), "{request}: {groups}");
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

/// CLAIM: what is pending for long enough comes first, the oldest first; the log says it in
/// requests of Redis 5.
#[test]
fn what_is_pending_for_long_is_read_before_what_is_new() {
    let mut harness = Harness::new().notes_effects();
    harness.all(&["XGROUP CREATE s g $ MKSTREAM", "XADD s 1-1 f a", "XADD s 2-1 f b"]);
    harness.all(&["XADD s 3-1 f c", "XADD s 4-1 f d"]);
    harness.all(&["XREADGROUP GROUP g x COUNT 3 STREAMS s >"]);
    harness.pass(70);
    harness.all(&["XCLAIM s g x 0 1-1 JUSTID", "XDEL s 2-1"]);
    harness.pass(30);
    let _ = harness.effects();
    let none = harness.run("XREADGROUP GROUP g y COUNT 1 CLAIM 100 STREAMS s >");
    assert_eq!(none, "*1 *2 $1 s *1 *4 $3 3-1 *2 $1 f $1 c :100 :1");
    let now = harness.now;
    let expected = [format!(
        "MULTI; XGROUP CREATECONSUMER s g y; XCLAIM s g y 0 3-1 TIME {now} RETRYCOUNT 2 \
         FORCE JUSTID LASTID 3-1; EXEC"
    )];
    assert_eq!(harness.effects(), expected);
    harness.pass(10);
    let both = harness.run("XREADGROUP GROUP g y CLAIM 10 NOACK STREAMS s >");
    let [one, three, four] = [
        "*4 $3 1-1 *2 $1 f $1 a :40 :1",
        "*4 $3 3-1 *2 $1 f $1 c :10 :2",
        "*4 $3 4-1 *2 $1 f $1 d :0 :0",
    ];
    assert_eq!(both, format!("*1 *2 $1 s *3 {one} {three} {four}"));
    assert_eq!(harness.run("XREADGROUP GROUP g y CLAIM 1 STREAMS s >"), "*-1");
    let pending = harness.run("XPENDING s g - + 9");
    let gone = "*4 $3 2-1 $1 x :110 :1"; // its entry, as in Redis, is not looked for
    let expected = format!("*3 *4 $3 1-1 $1 y :0 :2 {gone} *4 $3 3-1 $1 y :0 :3");
    assert_eq!(pending, expected, "4-1 was not noted");
}

/// The cost of a claim is that of what it finds, not of all that is pending.
#[test]
fn a_client_that_waits_for_old_entries_says_when_to_look_again() {
    let mut harness = parked();
    harness.all(&["XADD s 1-1 f v", "XREADGROUP GROUP g a STREAMS s >"]);
    while harness.ledger.waiters.next_ready().is_some() {}
    for request in ["CLAIM 60000", "BLOCK 1 CLAIM 60000"] {
        harness.ledger.in_exec = true;
        let reply = harness.run(&format!("XREADGROUP GROUP g c {request} STREAMS s >"));
        harness.ledger.in_exec = false;
        assert_eq!((reply.as_str(), harness.caller('a').again), ("*-1", None));
    }
    let before = std::time::Instant::now();
    assert_eq!(harness.run_as('c', "XREADGROUP GROUP g c BLOCK 0 CLAIM 60000 STREAMS s >"), "");
    let look = harness.ledger.waiters.next_look().expect("a time to look again") - before;
    assert!((59..62).contains(&look.as_secs()), "{look:?}");
    harness.all(&["XCLAIM s g a 0 1-1"]);
    assert!(!harness.ledger.waiters.has_ready(), "it is younger than before");
    harness.all(&["XCLAIM s g a 0 1-1 IDLE 60000"]);
    assert!(harness.ledger.waiters.has_ready(), "it is old by now");
}

#[test]
fn who_waits_keeps_its_limits_and_gets_at_most_a_thousand_entries_of_a_stream() {
    for (limits, expected) in [
        ("", "XREAD COUNT 1000 STREAMS"),
        ("COUNT 5", "XREAD COUNT 5 STREAMS"),
        ("MAXCOUNT 7", "XREAD COUNT 7 MAXCOUNT 7 STREAMS"),
        ("MAXSIZE 9 COUNT 2 MAXCOUNT 3", "XREAD COUNT 2 MAXCOUNT 3 MAXSIZE 9 STREAMS"),
    ] {
        let mut harness = Harness::new();
        let request = format!("XREAD BLOCK 0 {limits} STREAMS s 0").replace("  ", " ");
        assert_eq!(harness.run_as('w', &request), "");
        let id = harness.caller('w').id;
        let waiter = harness.ledger.waiters.leave(id).expect("it waits");
        let before: Vec<_> = waiter.before.iter().map(|it| String::from_utf8_lossy(it)).collect();
        assert_eq!(before.join(" "), expected, "{limits}");
    }
}

#[test]
fn consumers_tell_when_they_asked_and_when_they_got_something() {
    let mut harness = Harness::new();
    harness.all(&["XGROUP CREATE s g $ MKSTREAM", "XGROUP CREATECONSUMER s g idle"]);
    harness.all(&["XADD s 1-1 f v", "XREADGROUP GROUP g busy STREAMS s >"]);
    harness.all(&["XADD s 2-1 f v", "XREADGROUP GROUP g noack NOACK STREAMS s >"]);
    harness.pass(50);
    harness.all(&["XREADGROUP GROUP g busy STREAMS s >", "XCLAIM s g idle 9999 1-1"]);
    harness.pass(7);
    let of = |name: &str, pending, idle, inactive| {
        let (len, inactive) = (name.len(), format!("$8 inactive :{inactive}"));
        format!("*8 $4 name ${len} {name} $7 pending :{pending} $4 idle :{idle} {inactive}")
    };
    let all = [of("busy", 1, 7, 57), of("idle", 0, 7, -1), of("noack", 0, 57, -1)];
    assert_eq!(harness.run("XINFO CONSUMERS s g"), format!("*3 {}", all.join(" ")));
    let (seen, active) = (harness.now - 7, harness.now - 57);
    let full = harness.run("XINFO STREAM s FULL");
    let busy = format!("$9 seen-time :{seen} $11 active-time :{active} $9 pel-count :1");
    assert!(full.contains(&busy), "{full}");
    assert!(full.contains(&format!("$9 seen-time :{seen} $11 active-time :-1")), "{full}");
}

#[test]
fn scripts_do_not_block() {
    let mut harness = parked();
    (harness.ledger.in_script, harness.ledger.in_exec) = (true, true);
    for request in ["xread BLOCK 0 STREAMS s $", "XREADGROUP GROUP g a BLOCK 0 STREAMS s >"] {
        assert_eq!(harness.run(request), "*-1");
    }
}
