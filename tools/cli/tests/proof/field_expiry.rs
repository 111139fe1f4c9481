//! Fields of hashes that expire, as clients of a whole server see them.

use crate::later_commands::contents_and_deadlines;
use crate::support::{Client, Kind, Reply, Setup, wait_until};

/// Fields of one hash that all expire in the same millisecond; a million in a long run.
fn crowd_size() -> usize {
    if std::env::var_os("STILLFRAME_LONG").is_some() { 1_000_000 } else { 100_000 }
}

fn count(client: &mut Client, line: &str) -> i64 {
    client.ask(line).int()
}

/// Sets many fields, and has them expire at one instant, soon.
fn crowd(client: &mut Client) {
    let names: Vec<String> = (0..crowd_size()).map(|number| format!("field:{number}")).collect();
    let names: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
    for names in names.chunks(1000) {
        let pairs: Vec<&[u8]> = names.iter().flat_map(|name| [*name, b"v"]).collect();
        client.call(&[&[&b"HSET"[..], b"crowd"], &pairs[..]].concat());
    }
    let count = names.len().to_string();
    let head: [&[u8]; 5] = [b"HPEXPIRE", b"crowd", b"100", b"FIELDS", count.as_bytes()];
    let reply = client.call(&[&head[..], &names].concat());
    assert_eq!(reply.list().len(), names.len());
}

/// Others are served between the fields that are deleted, of which nobody sees one.
#[test]
fn a_crowd_of_fields_that_expire_at_once_holds_nobody_up() {
    let server = Setup::new(Kind::Ours("imprint")).flags(&["--appendonly", "yes"]).start();
    let mut client = server.client();
    client.ask("HSET crowd stays 1");
    let mut other = server.client();
    // From before they expire: the reply to a million fields may be read while they do.
    let watcher = std::thread::spawn(move || {
        let mut between = 0;
        loop {
            match other.info_int("expired_subkeys") {
                expired if expired >= crowd_size() as i64 => return between,
                expired => between += usize::from(expired > 0),
            }
        }
    });
    crowd(&mut client);
    wait_until("the time has come", || count(&mut client, "HLEN crowd") == 1);
    while !watcher.is_finished() {
        assert_eq!(count(&mut client, "HLEN crowd"), 1);
    }
    let between = watcher.join().expect("it ends");
    assert!(between > crowd_size() / 20_000, "served {between} times meanwhile");
    assert_eq!(client.ask("HGETALL crowd").list().len(), 2);
}

/// Transactions and scripts, and a kill: the log has what they did, and what expired.
#[test]
fn deadlines_outlive_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = || {
        let setup = Setup::new(Kind::Ours("imprint")).folder(folder.path());
        setup.flags(&["--appendonly", "yes"]).start()
    };
    let mut server = setup();
    for round in 0..3 {
        let mut client = server.client();
        let far = 4_102_444_800_000 + round;
        for line in [
            format!("HSET h:{round} a 1 b 2 c 3 d 4 e 5"),
            "MULTI".to_owned(),
            format!("HPEXPIREAT h:{round} {far} FIELDS 2 a b"),
            format!("HPEXPIRE h:{round} 20 FIELDS 1 c"),
            format!("HSETEX h:{round} EX 1000 FIELDS 2 d 6 f 7"),
            "EXEC".to_owned(),
            format!("HSET gone:{round} a 1"),
            format!("HPEXPIRE gone:{round} 20 FIELDS 1 a"),
        ] {
            assert!(!matches!(client.ask(&line), Reply::Error(_)), "{line}");
        }
        let key = format!("h:{round}");
        let source = "redis.call('HINCRBYFLOAT', KEYS[1], 'a', '0.5') \
                      redis.call('HPERSIST', KEYS[1], 'FIELDS', 1, 'b') \
                      redis.call('HEXPIRE', KEYS[1], 0, 'FIELDS', 1, 'e') \
                      return redis.call('HPEXPIRETIME', KEYS[1], 'FIELDS', 3, 'a', 'b', 'e')";
        let reply = client.call(&[b"EVAL", source.as_bytes(), b"1", key.as_bytes()]);
        assert_eq!(reply.list().iter().map(Reply::int).collect::<Vec<_>>(), [far, -1, -2]);
        wait_until("the fields are gone", || count(&mut client, &format!("HLEN {key}")) == 4);
        wait_until("the key is gone", || count(&mut client, &format!("EXISTS gone:{round}")) == 0);
        let before = contents_and_deadlines(&mut client);
        assert_eq!(client.ask("WAITAOF 1 0 0").list()[0].int(), 1);
        server.kill();
        server = setup();
        assert_eq!(contents_and_deadlines(&mut server.client()), before);
    }
}

/// In a view no field expires; in a branch its own do.
#[test]
fn views_and_branches_have_their_own_deadlines() {
    let server = Setup::new(Kind::Ours("imprint")).start();
    let mut client = server.client();
    client.ask("HSET h a 1 b 2");
    client.ask("HPEXPIRE h 300 FIELDS 1 a");
    let view = count(&mut client, "STILLFRAME VIEW OPEN");
    let branch = count(&mut client, "STILLFRAME BRANCH OPEN");
    client.ok("STILLFRAME BRANCH 0 1");
    client.ask(&format!("STILLFRAME BRANCH RUN {branch} HPERSIST h FIELDS 1 a"));
    client.ask(&format!("STILLFRAME BRANCH RUN {branch} HPEXPIRE h 1 FIELDS 1 b"));
    wait_until("the field is gone", || count(&mut client, "HEXISTS h a") == 0);
    let mut texts = |line: &str| {
        let mut texts: Vec<String> = client.ask(line).list().iter().map(Reply::text).collect();
        texts.sort();
        texts
    };
    assert_eq!(texts("HGETALL h"), ["2", "b"]);
    assert_eq!(texts(&format!("STILLFRAME VIEW RUN {view} HGETALL h")), ["1", "2", "a", "b"]);
    assert_eq!(texts(&format!("STILLFRAME BRANCH RUN {branch} HGETALL h")), ["1", "a"]);
    let left = client.ask(&format!("STILLFRAME VIEW RUN {view} HPTTL h FIELDS 2 a b"));
    let left: Vec<i64> = left.list().iter().map(Reply::int).collect();
    assert!((1..=300).contains(&left[0]) && left[1] == -1, "{left:?}");
    client.ok("SELECT 1");
    assert_eq!(client.ask("HKEYS h").list().iter().map(Reply::text).collect::<Vec<_>>(), ["b"]);
    let reply = client.ask(&format!("STILLFRAME VIEW RUN {view} HPERSIST h FIELDS 1 a"));
    assert!(matches!(reply, Reply::Error(_)), "a view is read alone");
}
