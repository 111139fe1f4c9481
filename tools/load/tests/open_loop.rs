//! What a load sees of a server that stalls, answers wrongly or goes away, and of none at all. The
//! servers are threads of the test; verdicts count queries, never time.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use stillframe_load::{
    Distribution, LoadError, NullServer, Phase, Plan, Rate, Ratio, Report, floor, html, run,
};
use stillframe_resp::{Limits, Parser};

fn plan(target: String) -> Plan {
    Plan {
        target,
        rate: Rate::PerSecond(2_000),
        clients: 4,
        keys: 1_000,
        value_size: 64,
        duration: Duration::from_millis(1_500),
        ..Plan::default()
    }
}

fn go(plan: &Plan) -> Report {
    run(plan, &AtomicBool::new(false), &mut |_| ()).expect("a report")
}

/// Of a stall of S seconds, `rate * (S - 0.1)` queries must be seen to take more than 100 ms,
/// though only four connections are there to wait: a load that waits for answers before it asks
/// again would see four. A busy machine may add to them, never take away.
#[test]
fn a_stall_is_charged_with_every_query_it_kept_waiting() {
    let server = NullServer::stalling(1_000, Duration::from_millis(300)).expect("a server");
    let plan = Plan { clients: 4, ..plan(server.address().to_string()) };
    let report = go(&plan);
    let (from, to) = server.stop().expect("it stalled");
    let threshold = Duration::from_millis(100);
    let due = (to - from - threshold).as_secs_f64() * 2_000.0;
    let trace = &report.trace;
    assert_eq!(trace.counts.iter().sum::<u64>(), 3_000, "every query has its place and latency");
    let slow = report.phases[0].slower[3];
    assert_eq!(slow.than_ms, 100);
    let slow = slow.count;
    assert!(slow as f64 >= due * 0.95, "{slow} of {due:.0} queries");
    assert!(report.late.held as f64 >= due * 0.95, "{:?}", report.late);
    assert_eq!((report.sent, report.answered, report.unanswered), (3_000, 3_000, 0));
}

#[test]
fn the_null_server_is_the_floor_and_replies_of_the_wrong_kind_are_reported() {
    let server = NullServer::start().expect("a server");
    let short = Duration::from_millis(300);
    let plan = Plan { duration: short, threads: 2, ..plan(server.address().to_string()) };
    let report = go(&plan);
    assert_eq!((report.sent, report.answered, report.failure()), (600, 600, None));
    assert_eq!(report.phases.len(), 1);
    assert_eq!((report.phases[0].phase, report.phases[0].count), (Phase::Normal, 600));

    let reads = Plan { ratio: Ratio { writes: 0, reads: 1 }, ..plan.clone() };
    let report = go(&reads);
    assert_eq!((report.answered, report.wrong.count), (0, 600), "+OK is no value");
    assert!(report.failure().expect("a failure").contains("wrongly"));

    let piped = Plan { pipeline: 16, distribution: Distribution::Zipf(0.99), ..plan };
    let floor = floor(&piped, &AtomicBool::new(false), &mut |_| ()).expect("a floor");
    assert_eq!(floor.count, 608, "whole batches: 38 of 16");
}

#[test]
fn full_speed_waits_for_answers_and_says_so() {
    let server = NullServer::start().expect("a server");
    let short = Duration::from_millis(200);
    let plan = Plan { rate: Rate::Max, duration: short, ..plan(server.address().to_string()) };
    let report = go(&plan);
    assert!(report.sent > 100 && report.answered == report.sent, "{}", report.sent);
    assert!(report.warnings.iter().any(|it| it.contains("closed loop")));
}

#[test]
fn nobody_there_is_an_error_and_an_end_from_outside_is_none() {
    let closed = format!("127.0.0.1:{}", stillframe_measure::own_port());
    let outcome = run(&plan(closed.clone()), &AtomicBool::new(false), &mut |_| ());
    assert!(matches!(outcome, Err(LoadError::Connect { .. })));
    let bad = Plan { keys: 0, ..plan(closed.clone()) };
    assert!(matches!(run(&bad, &AtomicBool::new(false), &mut |_| ()), Err(LoadError::Plan(_))));

    let server = NullServer::start().expect("a server");
    let plan = Plan { duration: Duration::from_secs(600), ..plan(server.address().to_string()) };
    let stop = AtomicBool::new(false);
    let report = run(&plan, &stop, &mut |_| stop.store(true, Ordering::Relaxed)).expect("a report");
    assert!(report.interrupted && report.answered > 0 && report.failure().is_none());
    assert!(html(&report, "stillframe load").contains("Interrupted after"));
}

/// Each connection answers so many requests and is closed.
#[test]
fn a_lost_connection_ends_the_run_with_what_was_measured() {
    let report = go(&plan(scripted(50, "")));
    assert!(report.lost.is_some() && report.answered > 0 && report.answered < 3_000);
    assert!(report.failure().expect("a failure").contains("figures above"));
}

/// Answers the first `good` requests of each connection `+OK`, and those after it with `then`; if
/// that is empty, it closes the connection.
fn scripted(good: usize, then: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = listener.local_addr().expect("its address").to_string();
    // The threads end with the test's process.
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || answer(stream, good, then));
        }
    });
    target
}

fn answer(mut stream: TcpStream, good: usize, then: &str) -> Option<()> {
    let (mut parser, mut input) = (Parser::new(Limits::OPEN), Vec::new());
    let (mut buffer, mut answered) = ([0; 4096], 0);
    loop {
        let count = stream.read(&mut buffer).ok().filter(|&count| count > 0)?;
        input.extend_from_slice(&buffer[..count]);
        while let Some(used) = parser.parse(&mut input).ok()? {
            input.drain(..used);
            let line = if answered < good { "+OK\r\n" } else { then };
            answered += 1;
            stream.write_all(line.as_bytes()).ok().filter(|()| !line.is_empty())?;
        }
    }
}

#[test]
fn refusals_before_a_run_end_it_and_those_within_are_counted() {
    let target = scripted(0, "-LOADING Redis is loading the dataset in memory\r\n");
    let error = run(&plan(target), &AtomicBool::new(false), &mut |_| ()).expect_err("not ready");
    let said = error.to_string();
    assert!(said.contains("LOADING") && said.contains("loading:0"), "{said}");

    // A PING each, and then ten good answers on each of four connections; the side has as many.
    let short = Duration::from_millis(200);
    let target = scripted(11, "-MISCONF Redis is configured to save RDB snapshots\r\n");
    let report = go(&Plan { duration: short, ..plan(target) });
    assert_eq!((report.sent, report.answered), (400, 40));
    assert_eq!((report.errors[0].code.as_str(), report.errors[0].count), ("MISCONF", 360));
    assert_eq!(report.phases.iter().map(|it| it.count).sum::<u64>(), 40, "errors have no latency");
    assert!(report.failure().expect("a failure").contains("last save failed"));
    assert!(html(&report, "").contains("MISCONF"));
}

/// A server without INFO: the load goes on, all of it normal, and the report says why.
#[test]
fn without_info_every_query_is_normal() {
    let target = scripted(1, "-NOPERM this user has no permissions to run the 'info' command\r\n");
    let short = Duration::from_millis(200);
    let every = Some(Duration::from_millis(50));
    let report = go(&Plan { duration: short, bgsave_every: every, ..plan(target) });
    assert_eq!((report.sent, report.errors[0].count), (400, 400));
    let warned = |it: &String| it.contains("do not show saves") && it.contains("NOPERM");
    assert!(report.warnings.iter().any(warned), "{:?}", report.warnings);
    assert!(report.saves.is_empty());
}
