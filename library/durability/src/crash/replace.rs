//! Files that are replaced whole: rewritten settings and users.

use std::sync::Arc;

use crate::disk::{Directory, Fault, Files, Location, SimulatedDisk, crash_everywhere};

/// Sectors and a bit: a file that is torn shows it.
fn text(byte: u8) -> Vec<u8> {
    vec![byte; 1100]
}

fn start() -> Files {
    Files::from([("conf".to_owned(), Arc::new(text(b'o')))])
}

/// Replaces the file; also returns how many changes it took, if it was done.
fn replace(disk: &SimulatedDisk) -> Result<usize, String> {
    let directory = Directory::existing(Location::on("simulated", Arc::new(disk.clone())));
    let replaced = directory.and_then(|it| it.replace("conf", "conf.1.tmp", &text(b'n')));
    replaced.map(|()| disk.changes()).map_err(|error| error.to_string())
}

fn judge(done: bool, files: &Files) -> Result<(), String> {
    let conf = files.get("conf").ok_or("it is gone")?;
    match conf {
        _ if **conf == text(b'n') => Ok(()),
        _ if **conf == text(b'o') && !done => Ok(()),
        _ if **conf == text(b'o') => Err("it is the old one, and was said to be replaced".into()),
        _ => Err(format!("it is neither: {} bytes", conf.len())),
    }
}

#[test]
fn a_replaced_file_is_the_old_or_the_new_one_after_every_crash() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let disk = SimulatedDisk::holding(&start());
    let done = replace(&disk).expect("a sound disk");
    let judge = |changes, files: &Files| judge(changes >= done, files);
    let points = crash_everywhere(&start(), &disk.history(), Files::clone, judge);
    println!("{} crash points", points.expect("whole"));
}

#[test]
fn a_replacement_survives_the_failure_of_any_call() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for fault in [Fault::IO, Fault::DISK_FULL, Fault::INTERRUPTED, Fault::ShortWrite] {
        for call in 1.. {
            let disk = SimulatedDisk::holding(&start());
            disk.fail_at(call, fault);
            let replaced = replace(&disk);
            if !disk.has_failed() {
                assert!(call > 4, "{call} calls");
                break;
            }
            let context = format!("{fault:?} at call {call}: {replaced:?}");
            let done = replaced.clone().unwrap_or(usize::MAX);
            let judge = |changes, files: &Files| judge(changes >= done, files);
            crash_everywhere(&start(), &disk.history(), Files::clone, judge).expect(&context);
            assert_eq!(disk.platter().names(), ["conf"], "nothing is left over: {context}");
            if let Err(error) = replaced {
                assert!(error.contains("simulated"), "it names the file: {error}");
            }
            replace(&disk).expect("the next time it works");
            let files = disk.platter().lose_power(|_| false);
            assert_eq!(*files["conf"], text(b'n'), "{context}");
        }
    }
}
