//! Hashes of Redis 8.10 whose names of fields stand in templates.

use super::{assert_equal, contents};
use crate::replayed::assert_same_contents;
use crate::replication::{Who, wait_for_link};
use crate::support::{Client, Kind, Peer, Setup, are_here, stillframe, wait_until};

/// Makes some in each form, and changes some.
fn make(client: &mut Client, from: usize) {
    let long = "x".repeat(100);
    let many: Vec<String> = (0..600).map(|number| format!("field:{number}")).collect();
    for line in [
        "CONFIG SET hash-min-template-entries 0".to_owned(),
        "HIMPORT PREPARE person name age city".to_owned(),
        format!("HIMPORT PREPARE many {}", many.join(" ")),
        format!("HIMPORT PREPARE lengthy {} 7", "n".repeat(80)),
        format!("HIMPORT SET ann:{from} person Ann -31 Rome"),
        format!("HIMPORT SET bob:{from} person Bob {long} Oslo"),
        format!("HIMPORT SET all:{from} many {}", many.join(" ")),
        format!("HIMPORT SET lengthy:{from} lengthy 1 {long}"),
        format!("HIMPORT SET changed:{from} person Ann 31 Rome"),
        format!("HSET changed:{from} street 5 name Eve"),
        format!("HDEL changed:{from} age"),
        format!("HIMPORT SET timed:{from} person Ann 31 Rome"),
        format!("HPEXPIREAT timed:{from} 4000000000000 FIELDS 1 age"),
        "CONFIG SET hash-max-template-entries 100 hash-min-template-entries 2".to_owned(),
        format!("HSET plain:{from} a 1 b {long} c -3"),
        format!("HSET plain:{from}:2 a 1 b 2 c -3"),
        format!("COPY ann:{from} copy:{from}"),
        format!("PEXPIREAT copy:{from} 4000000000000"),
    ] {
        let reply = format!("{:?}", client.ask(&line));
        assert!(!reply.starts_with("Error"), "{line}: {reply}");
    }
    assert_eq!(client.ask(&format!("OBJECT ENCODING plain:{from}:2")).text(), "template-listpack");
    assert_eq!(client.ask(&format!("OBJECT ENCODING bob:{from}")).text(), "template-array");
}

#[test]
fn hashes_with_templates_come_in_as_any_others() {
    let test = "hashes_with_templates_come_in_as_any_others";
    if !are_here(test, &[Peer::Redis810]) {
        return;
    }
    for preamble in ["yes", "no"] {
        let flags = format!("--appendonly yes --aof-use-rdb-preamble {preamble}");
        let mut theirs = Who::Newer(Peer::Redis810).start(&flags);
        let mut client = theirs.client();
        make(&mut client, 0);

        // By its image, its stream, and payloads.
        let ours = Who::Ours.follow(theirs.port);
        wait_for_link(&ours);
        assert_equal(&theirs, &ours);
        make(&mut client, 1);
        assert_equal(&theirs, &ours);
        assert_eq!(client.info_int("sync_full"), 1, "one image");
        assert!(!ours.log().contains("of its stream"), "{}", ours.log());
        let mut own = ours.client();
        own.ok("REPLICAOF NO ONE");
        own.ok("FLUSHALL");
        for key in ["ann:0", "bob:0", "all:0", "changed:1"] {
            let payload = client.call(&[b"DUMP", key.as_bytes()]);
            let payload = payload.bytes().expect("it is there");
            own.call(&[b"RESTORE", key.as_bytes(), b"0", payload]);
        }
        own.ok("DEL ann:0");
        let migrated = format!("MIGRATE 127.0.0.1 {} ann:0 0 5000 COPY", ours.port);
        client.ok(&migrated);
        let expected = contents(&mut client);
        let mut some = expected.clone();
        some.retain(|(_, key), _| ["ann:0", "bob:0", "all:0", "changed:1"].contains(&&key[..]));
        assert_eq!(some.len(), 4);
        assert_same_contents(&some, &contents(&mut own), "by payloads");

        // By file and by log.
        client.ok("SAVE");
        let checked = stillframe(&["check", &theirs.dump().display().to_string()]);
        assert!(checked.status.success(), "{checked:?}");
        client.ok("BGREWRITEAOF");
        wait_until("the rewrite has ended", || {
            client.info("aof_rewrite_in_progress") == "0"
                && client.info("aof_rewrite_scheduled") == "0"
        });
        make(&mut client, 2);
        let logged = contents(&mut client);
        let dump = theirs.dump().display().to_string();
        theirs.kill();
        let folder = theirs.folder.display().to_string();
        for (from, expected) in [(dump, &expected), (folder, &logged)] {
            let data = tempfile::tempdir().expect("a folder");
            let to = data.path().display().to_string();
            let output = stillframe(&["import", &from, "--dir", &to]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let ours = Setup::new(Kind::Ours("imprint")).folder(data.path()).start();
            assert_same_contents(expected, &contents(&mut ours.client()), &from);
        }
    }
}
