//! `stillframe load` against the real Redis and against ours: what it counts, what it refuses, and
//! what is left when a server goes away. Verdicts count queries, never time.

use rustix::process::Signal;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::Value;
use stillframe_load::{Plan, Rate, Workload, run, verify};

use crate::support::{
    Kind, Reply, Server, Setup, redis_is_here, send_signal, skipped, stillframe, wait_until,
};

/// Servers that are here.
fn kinds(test: &str) -> Vec<Kind> {
    let redis = redis_is_here(test).then_some(Kind::Redis);
    redis.into_iter().chain([Kind::subject("imprint")]).collect()
}

/// The arguments of a small load, and more.
fn words<'a>(target: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let small = ["--rate", "2000", "--clients", "8", "--keys", "2k", "--value-size", "100"];
    let start = ["load", "--target", target, "--json", "-"];
    start.into_iter().chain(small).chain(more.iter().copied()).collect()
}

fn target(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port)
}

fn status(output: &Output) -> Option<i32> {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("panicked"), "{said}");
    output.status.code()
}

fn report(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[test]
fn saves_are_measured_apart_and_every_value_is_checked() {
    for kind in kinds("saves_are_measured_apart_and_every_value_is_checked") {
        let server = Server::start(kind);
        let (target, page) = (target(&server), server.folder.join("load.html"));
        let page = page.to_str().expect("text");
        let more = [
            "--ratio",
            "1:1",
            "--duration",
            "1500ms",
            "--bgsave-every",
            "400ms",
            "--fill",
            "--protocol-check",
            "--distribution",
            "zipf:0.99",
            "--html",
            page,
            "--null-server",
        ];
        let output = stillframe(&words(&target, &more));
        let report = report(&output);
        assert_eq!(status(&output), Some(0), "{kind:?}: {report}");
        let number = |name: &str| report[name].as_u64().expect("a number");
        assert_eq!((number("sent"), number("answered"), number("missing")), (3_000, 3_000, 0));
        let phases = report["phases"].as_array().expect("phases");
        let names: Vec<_> = phases.iter().map(|it| it["phase"].as_str().expect("a name")).collect();
        assert_eq!(names, ["normal", "saving"], "{kind:?}");
        let counts = phases.iter().map(|it| it["count"].as_u64().expect("a count"));
        assert_eq!(counts.sum::<u64>(), 3_000);
        let saves = report["saves"].as_array().expect("saves");
        assert!(saves.iter().all(|it| it["asked"] == true) && !saves.is_empty(), "{saves:?}");
        assert_eq!(report["floor"]["count"], 3_000);
        let page = std::fs::read_to_string(page).expect("a page");
        assert!(page.contains("<rect class=\"shade\"") && page.ends_with("</html>\n"));
        assert_eq!(server.client().ask("DBSIZE"), Reply::Int(2_000));
        let check = ["--ratio", "0:1", "--seed", "2", "--duration", "100ms", "--protocol-check"];
        let output = stillframe(&words(&target, &check));
        assert_eq!(self::report(&output)["wrong"]["count"], 200, "values of another seed");
        assert_eq!(status(&output), Some(1));
    }
}

#[test]
fn collections_are_loaded() {
    for kind in kinds("collections_are_loaded") {
        let server = Server::start(kind);
        for (workload, count) in
            [("hash", "HLEN load:hash"), ("list", "LLEN load:list"), ("zset", "ZCARD load:zset")]
        {
            // The load does not need a type that our server lacks.
            let is_lacking = matches!(server.client().ask(count), Reply::Error(_));
            if kind != Kind::Redis && is_lacking {
                skipped("collections_are_loaded", &format!("{kind:?} has no {workload}"));
                continue;
            }
            let more = [
                "--workload",
                workload,
                "--fill",
                "--ratio",
                "1:1",
                "--duration",
                "300ms",
                "--protocol-check",
                "--pipeline",
                "4",
                "--threads",
                "2",
            ];
            let target = target(&server);
            let output = stillframe(&words(&target, &more));
            let report = report(&output);
            assert_eq!(status(&output), Some(0), "{kind:?}, {workload}: {report}");
            assert_eq!(report["answered"], 600, "{kind:?}, {workload}");
            assert!(server.client().ask(count).int() >= 2_000, "{kind:?}, {workload}");
        }
    }
}

/// Each of YCSB's workloads, with every reply checked; inserts lie behind the filled records.
#[test]
fn ycsb_is_loaded_and_every_record_is_checked() {
    for kind in kinds("ycsb_is_loaded_and_every_record_is_checked") {
        let server = Server::start(kind);
        let target = target(&server);
        for workload in ["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f"] {
            server.client().ok("FLUSHALL");
            let line = ["load", "--target", &target, "--json", "-", "--workload", workload];
            let small =
                ["--keys", "300", "--rate", "1200", "--duration", "250ms", "--threads", "2"];
            let rest = ["--fill", "--protocol-check", "--clients", "8", "--pipeline", "2"];
            let output = stillframe(&[&line[..], &small, &rest].concat());
            let report = report(&output);
            assert_eq!(status(&output), Some(0), "{kind:?}, {workload}: {report}");
            assert_eq!(report["answered"], 300, "{kind:?}, {workload}: {report}");
            assert_eq!(report["missing"], 0, "{kind:?}, {workload}: {report}");
            let mut client = server.client();
            let records = client.ask("ZCARD _indices").int();
            assert_eq!(client.ask("DBSIZE"), Reply::Int(records + 1), "{kind:?}, {workload}");
            let inserts = records - 300;
            let expected = if ["ycsb-d", "ycsb-e"].contains(&workload) { 1..60 } else { 0..1 };
            assert!(expected.contains(&inserts), "{kind:?}, {workload}: {inserts} inserts");
        }
        let line = ["load", "--target", &target, "--json", "-", "--workload", "ycsb-c"];
        let more = ["--keys", "300", "--rate", "1200", "--duration", "250ms", "--protocol-check"];
        let output = stillframe(&[&line[..], &more, &["--seed", "2"]].concat());
        assert_eq!(report(&output)["wrong"]["count"], 300, "{kind:?}: records of another seed");
    }
}

/// What is read back after a restart is compared item by item: one that is missing, one with the
/// value of another, and one of another size are all found.
#[test]
fn every_item_is_read_back_and_a_wrong_one_is_found() {
    let stop = AtomicBool::new(false);
    for kind in kinds("every_item_is_read_back_and_a_wrong_one_is_found") {
        let server = Server::start(kind);
        let mut client = server.client();
        for (workload, lies) in [
            (
                Workload::String,
                ["DEL key:000000000007", "COPY key:000000000008 key:000000000009 REPLACE"],
            ),
            (
                Workload::Hash,
                ["HDEL load:hash field:000000000007", "HSET load:hash field:000000000009 x"],
            ),
            (
                Workload::YcsbA,
                ["HDEL user000000000007 field3", "COPY user000000000008 user000000000009 REPLACE"],
            ),
        ] {
            client.ok("FLUSHALL");
            let plan = Plan {
                target: target(&server),
                workload,
                keys: 1_000,
                value_size: 100,
                fill: true,
                rate: Rate::PerSecond(1_000),
                duration: Duration::from_millis(50),
                ..Plan::default()
            };
            run(&plan, &stop, &mut |_| ()).expect("a report");
            let verified = verify(&plan, &stop).expect("it reads");
            assert_eq!((verified.items, verified.wrong), (1_000, 0), "{kind:?}, {workload}");
            for lie in lies {
                assert!(!matches!(client.ask(lie), Reply::Error(_)), "{kind:?}: {lie}");
            }
            let verified = verify(&plan, &stop).expect("it reads");
            assert_eq!(verified.wrong, 2, "{kind:?}, {workload}: {}", verified.first);
        }
        let list = Plan { workload: Workload::List, target: target(&server), ..Plan::default() };
        assert!(verify(&list, &stop).is_err(), "items of a list are alike");
    }
}

#[test]
fn a_rewrite_of_the_log_is_a_phase_of_its_own() {
    for kind in kinds("a_rewrite_of_the_log_is_a_phase_of_its_own") {
        let server = Setup::new(kind).flags(&["--appendonly", "yes"]).start();
        let target = target(&server);
        let more = ["--duration", "1500ms", "--rewrite-every", "500ms"];
        let output = stillframe(&words(&target, &more));
        let report = report(&output);
        assert_eq!(status(&output), Some(0), "{kind:?}: {report}");
        let phases = report["phases"].as_array().expect("phases");
        assert!(phases.iter().any(|it| it["phase"] == "rewriting"), "{kind:?}: {phases:?}");
        assert_eq!(report["rewrites"][0]["asked"], true, "{kind:?}");
        assert_eq!(report["answered"], 3_000, "{kind:?}");
    }
}

#[test]
fn what_the_server_refuses_is_counted_by_code_with_the_way_out() {
    for kind in kinds("what_the_server_refuses_is_counted_by_code_with_the_way_out") {
        let server = Server::start(kind);
        let target = target(&server);
        let mut client = server.client();
        client.ok("CONFIG SET requirepass secret");
        let output = stillframe(&words(&target, &["--duration", "100ms"]));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((status(&output), said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.contains("NOAUTH") && said.contains("--password"), "{said}");
        let open = ["--duration", "100ms", "--password", "secret"];
        assert_eq!(status(&stillframe(&words(&target, &open))), Some(0));
        let closed = ["--duration", "100ms", "--password", "wrong"];
        let said = stillframe(&words(&target, &closed));
        assert!(String::from_utf8_lossy(&said.stderr).contains("WRONGPASS"));
    }
    if redis_is_here("what_the_server_refuses_is_counted_by_code_with_the_way_out") {
        let server = Server::start(Kind::Redis);
        server.client().ok("SET load:hash text");
        let target = target(&server);
        let output = stillframe(&words(&target, &["--workload", "hash", "--duration", "200ms"]));
        let report = report(&output);
        assert_eq!(status(&output), Some(1));
        let error = &report["errors"][0];
        assert_eq!((&error["code"], &error["count"]), (&"WRONGTYPE".into(), &400.into()));
        assert_eq!((&report["answered"], &report["phases"]), (&0.into(), &Value::Array(vec![])));
    }
}

/// Starts a load that would last ten minutes.
fn long_load(server: &Server, json: &Path) -> std::process::Child {
    let (target, json) = (target(server), json.to_str().expect("text"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_stillframe"));
    let more = ["--rate", "1000", "--clients", "4", "--duration", "600s", "--json", json];
    command.args(["load", "--target", &target]).args(more);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

fn wait_for_load(server: &Server, keys: i64) {
    let mut client = server.client();
    wait_until("keys are written", || client.ask("DBSIZE").int() > keys);
}

/// Ends a load by Ctrl-C, and reads what it wrote.
fn interrupt(load: std::process::Child, json: &Path) -> Value {
    send_signal(load.id(), Signal::INT);
    assert_eq!(status(&load.wait_with_output().expect("it ends")), Some(130));
    let report = std::fs::read(json).expect("a report");
    serde_json::from_slice(&report).expect("JSON")
}

/// A server that stands still for 300 ms keeps 200 queries waiting for more than 100 ms at 1000/s,
/// though the load has only four connections. A busy machine may add to them, never take away.
#[test]
fn a_server_that_stands_still_is_charged_with_every_query() {
    for kind in kinds("a_server_that_stands_still_is_charged_with_every_query") {
        let server = Server::start(kind);
        let json = server.folder.join("load.json");
        let load = long_load(&server, &json);
        wait_for_load(&server, 100);
        send_signal(server.pid(), Signal::STOP);
        std::thread::sleep(Duration::from_millis(300));
        send_signal(server.pid(), Signal::CONT);
        wait_until("it answers again", || server.client().ready());
        let report = interrupt(load, &json);
        let slow = &report["phases"][0]["slower"][3];
        assert_eq!(slow["than_ms"], 100);
        assert!(slow["count"].as_u64().is_some_and(|count| count >= 190), "{kind:?}: {report}");
    }
}

#[test]
fn a_full_sync_is_a_phase_of_its_own() {
    if !redis_is_here("a_full_sync_is_a_phase_of_its_own") {
        return;
    }
    let (primary, replica) = (Server::start(Kind::Redis), Server::start(Kind::Redis));
    // A replica waits at least so many seconds, which no look can miss.
    primary.client().ok("CONFIG SET repl-diskless-sync-delay 1");
    let json = primary.folder.join("load.json");
    let load = long_load(&primary, &json);
    wait_for_load(&primary, 100);
    let mut client = replica.client();
    client.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    let up = "master_link_status:up";
    wait_until("the replica follows", || client.ask("INFO replication").text().contains(up));
    let report = interrupt(load, &json);
    let phases = report["phases"].as_array().expect("phases");
    assert!(phases.iter().any(|it| it["phase"] == "syncing"), "{phases:?}");
    assert_eq!(report["syncs"][0]["asked"], false);
}

#[test]
fn a_server_that_dies_and_ctrl_c_leave_what_was_measured() {
    for kind in kinds("a_server_that_dies_and_ctrl_c_leave_what_was_measured") {
        for kills_server in [true, false] {
            let mut server = Server::start(kind);
            let json = server.folder.join("load.json");
            let load = long_load(&server, &json);
            wait_for_load(&server, 200); // replies to half of them may be on their way
            if kills_server {
                server.kill();
            } else {
                send_signal(load.id(), Signal::INT);
            }
            let output = load.wait_with_output().expect("it ends");
            let (said, shown) = (&output.stderr, String::from_utf8_lossy(&output.stdout));
            let said = String::from_utf8_lossy(said);
            assert_eq!(status(&output), Some(if kills_server { 1 } else { 130 }), "{said}");
            assert!(shown.contains("normal"), "{shown}{said}");
            let report = std::fs::read(&json).expect("a report");
            let report: Value = serde_json::from_slice(&report).expect("JSON");
            assert!(report["answered"].as_u64().is_some_and(|it| it >= 100), "{report}");
            assert_eq!(report["interrupted"], !kills_server);
            assert_eq!(report["lost"].is_string(), kills_server, "{}", report["lost"]);
        }
    }
}

#[test]
fn wrong_usage_is_one_sentence_and_status_2() {
    let bad: [&[&str]; 9] = [
        &["--target", "nowhere"],
        &["--rate", "0"],
        &["--clients", "0"],
        &["--threads", "9", "--clients", "8"],
        &["--value-size", "1GiB"],
        &["--ratio", "0:0"],
        &["--duration", "1s", "--bgsave-every", "1s"],
        &["--user", "me"],
        &["--workload", "list", "--distribution", "gaussian"],
    ];
    for flags in bad {
        let mut words = vec!["load"];
        if flags[0] != "--target" {
            words.extend(["--target", "127.0.0.1:1"]);
        }
        words.extend(flags);
        let output = stillframe(&words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((status(&output), said.lines().count()), (Some(2), 1), "{flags:?}: {said}");
        assert!(said.contains(flags[0]), "{flags:?}: {said}");
    }
    for flags in [["--rate", "fast"], ["--workload", "stream"], ["--distribution", "zipf:x"]] {
        let output = stillframe(&["load", "--target", "127.0.0.1:1", flags[0], flags[1]]);
        assert_eq!(status(&output), Some(2), "{flags:?}");
    }
    let output = stillframe(&["load", "--target", "127.0.0.1:1", "--duration", "100ms"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((status(&output), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("127.0.0.1:1") && said.contains("refused"), "{said}");
}
