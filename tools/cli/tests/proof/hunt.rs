//! `stillframe hunt` against the real Redis and ours: no image is torn, stale, missing keys or
//! mislabelled. That the hunter catches each of these is the proof of its own crate.

use serde_json::Value;

use crate::support::{Kind, PUBLISHED, Reply, Server, redis_is_here, rounds, stillframe};

/// Hunts, and checks what every hunt shows.
fn hunt(server: &Server, kind: Kind, more: &[&str]) -> Value {
    let target = format!("127.0.0.1:{}", server.port);
    let images = rounds(4, 40).to_string();
    let start = ["hunt", "--target", &target, "--keys", "4k", "--json", "--images", &images];
    let output = stillframe(&[&start, more].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{kind:?}: {said}{}", server.log());
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(report["images"].to_string(), images, "{kind:?}");
    assert!(said.contains(&format!("with seed {}", report["seed"])), "{said}");
    assert!(report["keys"].as_u64() > Some(4_000), "{report}");
    assert_eq!(server.client().ask("DBSIZE"), Reply::Int(0), "the hunt deletes its keys");
    report
}

#[test]
fn no_full_sync_of_ours_or_of_redis_is_wrong() {
    let redis = redis_is_here("no_full_sync_of_ours_or_of_redis_is_wrong");
    let redis = redis.then_some(Kind::Redis);
    for kind in redis.into_iter().chain([Kind::subject("imprint")]) {
        let server = Server::start(kind);
        let report = hunt(&server, kind, &[]);
        assert_eq!((&report["labels"], &report["moves"]), (&true.into(), &true.into()));
    }
}

#[test]
fn no_dump_file_of_ours_or_of_redis_is_wrong() {
    let redis = redis_is_here("no_dump_file_of_ours_or_of_redis_is_wrong").then_some(Kind::Redis);
    let ours = [Kind::subject("fork"), Kind::subject("imprint")];
    for kind in redis.into_iter().chain(ours) {
        let server = Server::start(kind);
        let dump = server.dump();
        let report = hunt(&server, kind, &["--dump", dump.to_str().expect("text")]);
        assert_eq!(report["labels"], false);
    }
}

#[test]
fn no_image_by_a_published_algorithm_is_wrong() {
    for algorithm in PUBLISHED {
        let kind = Kind::subject(algorithm);
        hunt(&Server::start(kind), kind, &[]);
    }
}

#[test]
fn a_hunt_that_cannot_be_run_says_why() {
    let server = Server::start(Kind::subject("imprint"));
    server.client().ok("CONFIG SET requirepass secret");
    let target = format!("127.0.0.1:{}", server.port);
    for (more, status, sentence) in [
        (&["--target", &target][..], 1, "give --password"),
        (&["--target", &target, "--password", "wrong"], 1, "check --password"),
        (
            &["--target", &target, "--password", "secret", "--dump", "/nowhere/dump.rdb"],
            1,
            "BGSAVE",
        ),
        (&["--target", "nowhere"], 2, "give HOST:PORT"),
        (&["--target", &target, "--images", "0"], 2, "--images 0"),
    ] {
        let output = stillframe(&[&["hunt"], more].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.contains(sentence) && !said.contains("panicked"), "{said}");
    }
}
