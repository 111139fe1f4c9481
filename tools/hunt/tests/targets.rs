//! Targets that are broken on purpose, each in one way, have to be caught in that way; a right one
//! passes. The targets are threads of the test; verdicts never depend on time.

mod target;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use stillframe_hunt::{Class, HuntError, Plan, Report, hunt};
use target::{Fault, Target};

fn plan(target: String) -> Plan {
    Plan { target, images: 3, keys: 400, seed: 7, ..Plan::default() }
}

fn judged(fault: Fault) -> Report {
    let target = Target::start(fault);
    hunt(&plan(target.address()), &AtomicBool::new(false)).expect("a verdict")
}

/// The classes found, and the first example of `class`.
fn found(report: &Report, class: Class) -> (Vec<Class>, String) {
    let wrong = || report.found.iter().filter(|it| it.images > 0);
    let first = wrong().find(|it| it.class == class).map(|it| it.first.clone());
    (wrong().map(|it| it.class).collect(), first.unwrap_or_default())
}

#[test]
fn a_right_target_passes_and_its_keys_are_deleted() {
    let target = Target::start(Fault::None);
    let report = hunt(&plan(target.address()), &AtomicBool::new(false)).expect("a verdict");
    assert_eq!(found(&report, Class::Torn), (Vec::new(), String::new()), "{report:?}");
    assert_eq!((report.images, report.labels, report.moves), (3, true, true));
    assert!(report.keys > 400 && report.transactions > 0, "{report:?}");
    assert_eq!(target.keys(), 0);
}

#[test]
fn a_torn_image_is_found() {
    let report = judged(Fault::Torn);
    let (classes, first) = found(&report, Class::Torn);
    // A key that moved from the later half to the earlier one is in neither.
    assert!(classes.iter().all(|it| [Class::Torn, Class::Missing].contains(it)), "{report:?}");
    assert!(first.contains("hunt:7:") && first.contains("after transactions ["), "{first}");
    assert!(report.failure().expect("a failure").contains("torn (seed 7)"));
}

#[test]
fn a_stale_image_is_found() {
    let report = judged(Fault::Stale);
    let (classes, first) = found(&report, Class::Stale);
    assert_eq!(classes, [Class::Stale], "{report:?}");
    assert!(first.contains("was acknowledged before the image was asked for"), "{first}");
}

#[test]
fn a_missing_key_is_found() {
    let report = judged(Fault::Missing);
    let (classes, first) = found(&report, Class::Missing);
    assert_eq!(classes, [Class::Missing], "{report:?}");
    assert!(first.contains("string:3 of database 0 is not there"), "{first}");
}

/// A label may be wrong by the transactions that it counts, by bytes, or inside the image.
#[test]
fn mislabelled_images_are_found() {
    for (fault, sentence) in [
        (Fault::LabelledEarly, "stream behind offset"),
        (Fault::LabelledLate, "stream behind offset"),
        (Fault::LabelledBytes, "bytes follow up to the server's offset"),
        (Fault::LabelledInside, "the image says offset"),
        (Fault::LabelledForeign, "the image says replication id"),
    ] {
        let report = judged(fault);
        let (classes, first) = found(&report, Class::Mislabelled);
        assert_eq!(classes, [Class::Mislabelled], "{fault:?}: {report:?}");
        assert!(first.contains(sentence), "{fault:?}: {first}");
    }
}

#[test]
fn an_image_that_cannot_be_read_is_found() {
    let report = judged(Fault::Damaged);
    let (classes, first) = found(&report, Class::Torn);
    assert_eq!(classes, [Class::Torn], "{report:?}");
    assert!(first.contains("cannot be read"), "{first}");
}

/// What a server does with a connection.
type Serve = fn(TcpStream);

/// Serves each connection by `serve`; the thread ends with the process.
fn hostile(serve: Serve) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        listener.incoming().flatten().for_each(|stream| drop(thread::spawn(move || serve(stream))));
    });
    address
}

#[test]
fn hostile_targets_give_one_sentence() {
    let garbage = |mut stream: TcpStream| {
        let _ = stream.read(&mut [0; 100]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    };
    let closes = |mut stream: TcpStream| drop(stream.read(&mut [0; 100]));
    let silent = |mut stream: TcpStream| while stream.read(&mut [0; 100]).is_ok_and(|n| n > 0) {};
    // One byte after the other, without an end.
    let slow = |mut stream: TcpStream| {
        while stream.write_all(b"$").is_ok() {
            thread::sleep(Duration::from_millis(5));
        }
    };
    let endless = |mut stream: TcpStream| while stream.write_all(&[b'+'; 1 << 16]).is_ok() {};
    let servers: [(Serve, &str); 5] = [
        (garbage, "unknown reply type byte 0x48"),
        (closes, "the server closed the connection"),
        (silent, "--patience"),
        (slow, "--patience"),
        (endless, "longer than 1 MiB"),
    ];
    for (serve, sentence) in servers {
        let patience = Duration::from_secs(if sentence.contains("MiB") { 60 } else { 1 });
        let plan = Plan { patience, ..plan(hostile(serve)) };
        let error = hunt(&plan, &AtomicBool::new(false)).expect_err(sentence).to_string();
        assert!(error.contains(sentence) && !error.contains('\n'), "{error}");
    }
}

/// Servers that fail only when they are asked for an image.
#[test]
fn a_sync_that_fails_gives_one_sentence() {
    for (fault, sentence) in [
        (Fault::Refuses, "refuses PSYNC: ERR no replicas here"),
        (Fault::Announces, "announces no image"),
        (Fault::Closes, "the server closed the connection while receiving an image"),
    ] {
        let target = Target::start(fault);
        let error = hunt(&plan(target.address()), &AtomicBool::new(false)).expect_err(sentence);
        assert!(error.to_string().contains(sentence), "{fault:?}: {error}");
    }
}

#[test]
fn nobody_there_and_wrong_plans_are_told() {
    let stop = AtomicBool::new(false);
    let address = format!("127.0.0.1:{}", stillframe_measure::own_port());
    let error = hunt(&plan(address), &stop).expect_err("nobody listens");
    assert!(matches!(error, HuntError::Connect { .. }), "{error}");
    let wrong = [
        Plan { target: "nowhere".into(), ..Plan::default() },
        Plan { images: 0, ..Plan::default() },
        Plan { writers: 100, ..Plan::default() },
        Plan { keys: 3, ..Plan::default() },
        Plan { patience: Duration::ZERO, ..Plan::default() },
        Plan { user: Some("me".into()), ..Plan::default() },
    ];
    for plan in wrong {
        let error = hunt(&plan, &stop).expect_err("a wrong plan").to_string();
        assert!(error.starts_with("--"), "{error}");
    }
}
