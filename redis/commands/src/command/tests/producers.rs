//! Messages of producers (IDMP), and released entries (XNACK): what is known for how long, what the
//! log says, and who is woken. After the meaning of Redis's tests in `type/stream` and
//! `type/stream-cgroups`.

use stillframe_peers::reply::Reply;
use stillframe_peers::requests::Words;
use stillframe_peers::transcript::escape;

use super::{call, slices};
use crate::harness::Harness;

fn id_of(reply: &str) -> String {
    reply.split(' ').nth(1).unwrap_or(reply).to_owned()
}

/// A server with all that its log ever said.
struct Logged {
    harness: Harness,
    log: Vec<Words>,
}

impl Logged {
    fn new() -> Self {
        Self { harness: Harness::new().notes_effects(), log: Vec::new() }
    }

    /// What the log has said since this was last asked.
    fn lines(&mut self) -> Vec<String> {
        let new = self.harness.stream();
        let shown =
            |words: &Words| words.iter().map(|word| escape(word)).collect::<Vec<_>>().join(" ");
        let lines = new.iter().map(shown).collect();
        self.log.extend(new);
        lines
    }

    /// The same data from the log, by a clock that stands still.
    fn replayed(&mut self) -> Harness {
        self.lines();
        let mut replayed = Harness::new();
        replayed.now = 0;
        replayed.caller('a').internal = true;
        for words in &self.log {
            let reply = replayed.ask('a', &slices(words));
            assert!(!reply.starts_with(b"-"), "{}", reply.escape_ascii());
        }
        replayed.now = self.harness.now;
        replayed.caller('a').internal = false;
        replayed
    }

    fn check_log(&mut self) {
        let mut other = self.replayed();
        for ask in ["XRANGE s - +", "XINFO STREAM s", "XPENDING s g - + 10", "XINFO GROUPS s"] {
            assert_eq!(other.run(ask), self.harness.run(ask), "{ask}");
        }
    }
}

#[test]
fn a_message_is_added_once_for_each_producer_while_it_is_known() {
    let mut it = Logged::new();
    it.harness.all(&["XGROUP CREATE s g 0 MKSTREAM"]);
    let first = it.harness.run("XADD s IDMP p i * f v");
    assert_eq!(it.harness.run("XADD s IDMP p i * f other"), first);
    assert_eq!(it.harness.run("XADD s MAXLEN = 0 IDMP p i * f other"), first, "it trims nothing");
    let other = it.harness.run("XADD s IDMP q i * f v");
    assert_ne!(id_of(&other), id_of(&first));
    assert_eq!(it.harness.run("XLEN s"), ":2");
    let auto = it.harness.run("XADD s IDMPAUTO p * f v g w");
    assert_eq!(it.harness.run("XADD s IDMPAUTO p * g w f v"), auto, "in any order");
    assert_ne!(it.harness.run("XADD s IDMPAUTO p * f v g x"), auto);
    it.harness.all(&["XDEL s 1-1"]);
    let told = it.harness.run("XINFO STREAM s");
    let counts = "$12 pids-tracked :2 $12 iids-tracked :4 $10 iids-added :4 $15 iids-duplicates :3";
    assert!(told.contains(counts), "{told}");
    it.check_log();
    it.harness.pass(99_999);
    assert_eq!(it.harness.run("XADD s IDMP p i * f other"), first);
    it.harness.pass(1);
    let told = it.harness.run("XINFO STREAM s");
    assert!(told.contains("$12 pids-tracked :0 $12 iids-tracked :0 $10 iids-added :4"), "{told}");
    assert_ne!(it.harness.run("XADD s IDMP p i * f other"), first, "its time is over");
    it.check_log();
    it.harness.expire_fields();
    it.check_log();
}

#[test]
fn the_last_messages_are_known_and_other_limits_forget_them() {
    let mut it = Logged::new();
    it.harness.all(&["XGROUP CREATE s g 0 MKSTREAM", "XCFGSET s IDMP-MAXSIZE 2"]);
    let ids: Vec<_> = (0..3).map(|i| it.harness.run(&format!("XADD s IDMP p {i} * f v"))).collect();
    assert_eq!(it.harness.run("XADD s IDMP p 2 * f v"), ids[2]);
    assert_ne!(it.harness.run("XADD s IDMP p 0 * f v"), ids[0]);
    assert_ne!(it.harness.run("XADD s IDMP p 1 * f v"), ids[1]);
    it.check_log();
    it.lines();
    it.harness.all(&["XCFGSET s IDMP-MAXSIZE 2 IDMP-DURATION 100"]);
    assert_eq!(it.lines(), [""; 0], "the same limits");
    assert!(it.harness.run("XINFO STREAM s").contains("$12 iids-tracked :2"));
    it.harness.all(&["XCFGSET s IDMP-DURATION 7"]);
    assert_eq!(it.lines(), ["XCFGSET s IDMP-DURATION 7"]);
    assert!(it.harness.run("XINFO STREAM s").contains("$12 iids-tracked :0 $10 iids-added :5"));
}

#[test]
fn the_log_says_what_became_of_a_message() {
    let mut it = Logged::new();
    it.harness.keyspace.limits_mut().stream_idmp.entries = 9;
    let id = id_of(&it.harness.run("XADD s IDMP p i * f v"));
    let limits = "XCFGSET s IDMP-DURATION 100 IDMP-MAXSIZE 9";
    let made = [
        "SELECT 0",
        "MULTI",
        &format!("XADD s {id} f v"),
        limits,
        &format!("XIDMPRECORD s p i {id}"),
        "EXEC",
    ];
    assert_eq!(it.lines(), made);
    it.harness.all(&["XADD s IDMP p i * f other"]);
    assert_eq!(it.lines(), ["XADD s NOMKSTREAM IDMP p i * f other"]);
    let next = id_of(&it.harness.run("XADD s IDMP p j MAXLEN ~ 100 * f v"));
    assert_eq!(it.lines(), [format!("XADD s IDMP p j MAXLEN = 2 {next} f v")]);
    it.harness.caller('r').internal = true;
    let len = it.harness.run("XLEN s");
    it.harness.run_as('r', "XADD s IDMP p unknown * f v");
    it.harness.run_as('r', &format!("XADD s IDMP p unknown {id} f v"));
    assert_eq!(it.harness.run("XLEN s"), len);
    // What an effect adds is added, whatever was known.
    it.harness.run_as('r', "XADD s IDMP p i 1900000000000-1 f v");
    assert_eq!(it.harness.run("XLEN s"), ":3");
    assert_eq!(it.harness.run("XADD s IDMP p i * f v"), "$15 1900000000000-1");
}

#[test]
fn a_message_may_be_noted_of_an_entry_that_is_there() {
    let mut harness = Harness::new();
    let id = id_of(&harness.run("XADD s * f v"));
    let other = id_of(&harness.run("XADD s * f v"));
    assert_eq!(harness.run(&format!("XIDMPRECORD s p i {id}")), "+OK");
    assert_eq!(harness.run(&format!("XIDMPRECORD s p i {id}")), "+OK");
    let refused = harness.run(&format!("XIDMPRECORD s p i {other}"));
    assert_eq!(refused, "-ERR IID already exists for this producer with a different stream ID");
    assert_eq!(id_of(&harness.run("XADD s IDMP p i * f v")), id);
    assert!(harness.run("XINFO STREAM s").contains("$10 iids-added :1 $15 iids-duplicates :1"));
}

/// Copies, payloads and new names keep what is known.
#[test]
fn what_is_known_goes_with_the_key() {
    let mut it = Logged::new();
    it.harness.all(&["XGROUP CREATE s g 0 MKSTREAM", "XCFGSET s IDMP-DURATION 50 IDMP-MAXSIZE 5"]);
    let id = it.harness.run("XADD s IDMP p i * f v");
    it.harness.all(&["XADD s IDMP p j * f v", "XREADGROUP GROUP g who STREAMS s >"]);
    it.harness.all(&["XADD s IDMP p j * f v"]);
    let ids = it.harness.run("XRANGE s - +");
    let of =
        |word: usize| ids.split(' ').filter(|it| it.contains('-')).nth(word).unwrap().to_owned();
    let [one, two] = [of(0), of(1)];
    it.harness.all(&[&format!("XNACK s g FAIL IDS 2 {two} {one}")]);
    let payload = match call(&mut it.harness, &[b"DUMP", b"s"]) {
        Reply::Text(payload) => payload,
        other => panic!("{other:?}"),
    };
    call(&mut it.harness, &[b"RESTORE", b"r", b"0", &payload]);
    it.harness.all(&["COPY s c", "RENAME s t"]);
    let asks = ["XINFO STREAM {} FULL", "XREADGROUP GROUP g d CLAIM 1 STREAMS {} >"];
    for ask in asks {
        let all = ["t", "c", "r"].map(|key| {
            it.harness.run(&ask.replace("{}", key)).replace(&format!("$1 {key} "), "$1 k ")
        });
        assert_eq!([&all[1], &all[2]], [&all[0]; 2], "{ask}");
        let place = |id: &str| all[0].rfind(id);
        assert!(ask.starts_with("XINFO") || place(&two) < place(&one), "released first: {all:?}");
    }
    let keys = ["t", "c", "r"];
    for key in keys {
        assert_eq!(it.harness.run(&format!("XADD {key} IDMP p i * f v")), id);
    }
    let mut other = it.replayed();
    for key in keys {
        let ask = format!("XINFO STREAM {key} FULL");
        let known = |harness: &mut Harness| {
            harness.run(&ask).split(" consumers ").next().map(str::to_owned)
        };
        assert_eq!(known(&mut other), known(&mut it.harness), "{key}");
    }
}

#[test]
fn released_entries_come_first_and_at_once() {
    let mut it = Logged::new();
    it.harness.all(&["XGROUP CREATE s g $ MKSTREAM", "XADD s 1-1 f a", "XADD s 2-1 f b"]);
    it.harness.all(&["XADD s 3-1 f c", "XREADGROUP GROUP g a STREAMS s >"]);
    it.lines();
    it.harness.all(&["XNACK s g SILENT IDS 2 3-1 9-9", "XNACK s g FAIL IDS 1 2-1"]);
    let released =
        |id: &str, count| format!("XNACK s g FAIL IDS 1 {id} RETRYCOUNT {count} FORCE FORCE");
    assert_eq!(it.lines(), [released("3-1", 0), released("2-1", 1)]);
    // As many deliveries, one request; in the order in which they were released.
    it.harness.all(&["XADD s 4-1 f d", "XNACK s g SILENT IDS 3 2-1 3-1 4-1 FORCE"]);
    let lines = it.lines();
    assert_eq!(lines[1..], ["XNACK s g FAIL IDS 3 2-1 3-1 4-1 RETRYCOUNT 0 FORCE FORCE"]);
    it.harness.all(&["XACK s g 4-1", "XDEL s 4-1", "XNACK s g FAIL IDS 1 3-1 RETRYCOUNT 0"]);
    it.harness.all(&["XNACK s g FAIL IDS 1 2-1 RETRYCOUNT 1"]);
    it.lines();
    assert_eq!(it.harness.run("XNACK s g FAIL IDS 1 9-9"), ":0");
    assert_eq!(it.lines(), [""; 0]);
    let told = it.harness.run("XINFO STREAM s FULL");
    assert!(told.contains("$9 pel-count :3 $12 nacked-count :2"), "{told}");
    it.check_log();
    it.harness.pass(10);
    let claimed = it.harness.run("XREADGROUP GROUP g b COUNT 2 CLAIM 5 STREAMS s >");
    let now = it.harness.now;
    let [three, two] = [("3-1", "c", 0), ("2-1", "b", 1)]
        .map(|(id, value, count)| format!("*4 $3 {id} *2 $1 f $1 {value} :{now} :{count}"));
    assert_eq!(claimed, format!("*1 *2 $1 s *2 {three} {two}"));
    assert!(!it.harness.run("XINFO STREAM s FULL").contains("nacked-count"));
    // Of an entry that is gone the log says so without a consumer.
    it.harness.all(&["XNACK s g FAIL IDS 1 1-1", "XDEL s 1-1"]);
    it.lines();
    assert_eq!(it.harness.run("XCLAIM s g b 0 1-1"), "*0");
    assert_eq!(it.lines(), ["XACK s g 1-1"]);
    it.harness.all(&["XNACK s g FATAL IDS 1 2-1", "XREADGROUP GROUP g a CLAIM 0 STREAMS s >"]);
    assert!(it.harness.run("XPENDING s g 2-1 2-1 1").ends_with(":9223372036854775807"));
    it.check_log();
    it.harness.all(&["XNACK s g FAIL IDS 2 2-1 3-1 RETRYCOUNT 4", "XGROUP DELCONSUMER s g a"]);
    assert!(it.harness.run("XPENDING s g").starts_with("*4 :2"), "nobody had them");
    it.harness.all(&["XGROUP DESTROY s g", "XGROUP CREATE s g 0"]);
    assert_eq!(it.harness.run("XPENDING s g"), "*4 :0 $-1 $-1 *-1");
}

#[test]
fn who_waits_for_old_entries_is_asked_once_one_is_released() {
    let mut harness = Harness::new();
    harness.all(&["XGROUP CREATE s g $ MKSTREAM", "XADD s 1-1 f a"]);
    harness.all(&["XREADGROUP GROUP g a STREAMS s >"]);
    while harness.ledger.waiters.next_ready().is_some() {}
    assert_eq!(harness.run_as('w', "XREADGROUP GROUP g w BLOCK 0 CLAIM 9999 STREAMS s >"), "");
    harness.all(&["XNACK s g FAIL IDS 1 9-9"]);
    assert!(!harness.ledger.waiters.has_ready());
    harness.all(&["XNACK s g FAIL IDS 1 1-1"]);
    assert!(harness.ledger.waiters.has_ready());
}
