//! kill -9 at random moments: the server always starts again from a whole image, which is not
//! older than the last save it acknowledged.

use crate::pairs::{Counts, Pairs, WRITERS};
use crate::support::{
    ALGORITHMS, Client, Kind, PATIENCE, PUBLISHED, Random, Reply, Setup, own_port, rounds,
};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};

#[test]
fn a_killed_server_starts_again_from_a_whole_image() {
    let mut random = Random::new("kill");
    let folder = tempfile::tempdir().expect("a folder");
    let mut pairs = Pairs::new(5_000);
    // For each writer, what the newest acknowledged save holds at least.
    let floor = Mutex::new([0; WRITERS]);
    for round in 0..rounds(50, 1_000) {
        let algorithms = [&ALGORITHMS[..], &PUBLISHED].concat();
        let kind = Kind::subject(algorithms[round % algorithms.len()]);
        if round % 5 == 4 {
            kill_while_starting(kind, folder.path(), &mut random);
        }
        let mut server = Setup::new(kind).folder(folder.path()).start();
        let mut client = server.client();
        if round == 0 {
            pairs.prefill(&mut client);
            client.ok("SAVE");
        }
        let verdict = pairs.read(&mut client).and_then(|image| {
            let low = *floor.lock().expect("no holder panics");
            pairs.check(&image, low, Pairs::counts(&pairs.sent))
        });
        let counts = verdict.unwrap_or_else(|fault| panic!("round {round}: {fault}"));
        resume(&mut pairs, counts);
        std::thread::scope(|scope| {
            let port = server.port;
            for w in 0..WRITERS {
                let pairs = &pairs;
                let connection = Client::try_connect(port);
                scope.spawn(move || connection.map(|mut client| pairs.write(w, &mut client)));
            }
            scope.spawn(|| save_again_and_again(&mut client, &pairs, &floor));
            if round % 5 == 0 {
                wait_for_a_save(&floor);
            }
            std::thread::sleep(Duration::from_millis(random.below(400) as u64));
            server.kill();
        });
    }
    assert_ne!(*floor.lock().expect("no holder panics"), [0; WRITERS], "no save was ever whole");
}

/// Waits, on however busy a machine, until one more save that holds writes was acknowledged. Does
/// not fail: the threads of the round end only when the server does.
fn wait_for_a_save(floor: &Mutex<Counts>) {
    let before = *floor.lock().expect("no holder panics");
    let deadline = Instant::now() + PATIENCE;
    while *floor.lock().expect("no holder panics") == before && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The writers go on from what the server has come back with.
fn resume(pairs: &mut Pairs, counts: Counts) {
    for (w, count) in counts.into_iter().enumerate() {
        *pairs.sent[w].get_mut() = count;
        *pairs.acknowledged[w].get_mut() = count;
    }
}

fn kill_while_starting(kind: Kind, folder: &std::path::Path, random: &mut Random) {
    let mut command = Setup::new(kind).command(folder, own_port());
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the server's program starts");
    std::thread::sleep(Duration::from_millis(random.below(40) as u64));
    child.kill().expect("a child may be killed");
    child.wait().expect("a killed child ends");
}

/// Saves, now in the background and now in the foreground, until the server is gone.
fn save_again_and_again(client: &mut Client, pairs: &Pairs, floor: &Mutex<Counts>) {
    for number in 0.. {
        let low = Pairs::counts(&pairs.acknowledged);
        let command: &[u8] = if number % 8 == 7 { b"SAVE" } else { b"BGSAVE" };
        match client.try_call(&[command]) {
            None => return,
            Some(Reply::Error(text)) => panic!("{text}"),
            Some(_) => {}
        }
        loop {
            match client.try_info("rdb_bgsave_in_progress").as_deref() {
                None => return,
                Some("0") => break,
                Some(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        match client.try_info("rdb_last_bgsave_status").as_deref() {
            None => return,
            Some("ok") => *floor.lock().expect("no holder panics") = low,
            Some(status) => panic!("a save failed: {status}"),
        }
    }
}
