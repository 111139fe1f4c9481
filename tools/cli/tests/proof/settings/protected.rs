//! Settings and commands that need permission: `enable-protected-configs` and its kin.

use super::{get, set};
use crate::support::{Kind, Setup, redis_is_here};
use std::fs;

fn kinds(test: &str) -> Vec<Kind> {
    let redis = redis_is_here(test).then_some(Kind::Redis);
    [Some(Kind::Ours("imprint")), redis].into_iter().flatten().collect()
}

#[test]
fn protected_settings_and_commands_are_allowed_as_in_redis() {
    let mut answers = Vec::new();
    for kind in kinds("protected_settings_and_commands_are_allowed_as_in_redis") {
        let mut own = Vec::new();
        for allowed in ["no", "local", "yes"] {
            let flags = [
                "--enable-protected-configs",
                allowed,
                "--enable-debug-command",
                allowed,
                "--enable-module-command",
                allowed,
            ];
            let server = Setup::new(kind).flags(&flags).start();
            let mut client = server.client();
            for line in [
                "CONFIG SET dbfilename other.rdb",
                "CONFIG SET dbfilename a/b",
                "CONFIG SET dir .",
                "CONFIG SET dir /nonexistent/there",
                "CONFIG SET enable-protected-configs yes",
                "DEBUG SLEEP 0",
            ] {
                let text = client.ask(line).text();
                // Each server has its own words for what is wrong with a directory.
                own.push(text.split(" - ").next().unwrap_or_default().to_owned());
            }
            own.push(get(&mut client, "dbfilename"));
            let text = client.ask("MODULE LOAD /nonexistent/x.so").text();
            own.push(if text.contains("not allowed") { text } else { "allowed".to_owned() });
        }
        answers.push(own);
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:#?}");
}

#[test]
fn saves_go_where_they_are_sent() {
    for kind in kinds("saves_go_where_they_are_sent") {
        let folder = tempfile::tempdir().expect("a folder");
        let below = folder.path().join("below");
        fs::create_dir(&below).expect("a folder");
        let flags = ["--enable-protected-configs", "local"];
        let server = Setup::new(kind).folder(folder.path()).flags(&flags).start();
        let mut client = server.client();
        client.ok("SET k v");
        assert!(set(&mut client, "dbfilename", "other.rdb"));
        assert_eq!(client.save_in_background(), "ok");
        assert!(folder.path().join("other.rdb").exists() && !server.dump().exists(), "{kind:?}");
        assert!(set(&mut client, "dir", "below"), "a path that starts at the directory before");
        client.ok("SAVE");
        assert!(below.join("other.rdb").exists(), "{kind:?}");
        let dir = get(&mut client, "dir");
        assert_eq!(dir, fs::canonicalize(&below).expect("it is there").display().to_string());
        assert!(set(&mut client, "dir", folder.path().to_str().expect("text")), "and back");
        client.ok("SAVE");
        assert_eq!(client.ask("GET k").text(), "v");
    }
    // The log continues one dump in one directory.
    let flags = ["--enable-protected-configs", "local", "--appendonly", "yes"];
    let server = Setup::new(Kind::Ours("imprint")).flags(&flags).start();
    let text = server.client().ask("CONFIG SET dbfilename other.rdb").text();
    assert!(text.contains("CONFIG SET appendonly no first"), "{text}");
}
