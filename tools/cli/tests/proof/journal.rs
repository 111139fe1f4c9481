//! The server's log: after kill -9 everything acknowledged is there, whole, and nothing torn.

use crate::pairs::{Counts, Form, Pairs, WRITERS};
use crate::support::{
    ALGORITHMS, Client, Kind, PATIENCE, Peer, Random, Reply, Setup, are_here, limit_file_size,
    own_port, rounds, stillframe, wait_until,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Servers under load at once.
const LANES: usize = 4;
const PAIRS: usize = 400;

pub(crate) fn server(policy: &str, folder: &Path) -> Setup {
    server_by("imprint", policy, folder)
}

fn server_by(algorithm: &'static str, policy: &str, folder: &Path) -> Setup {
    let flags = ["--appendonly", "yes", "--appendfsync", policy];
    Setup::new(Kind::Ours(algorithm)).folder(folder).flags(&flags)
}

#[test]
fn under_always_nothing_acknowledged_is_lost_and_no_transaction_is_torn() {
    let all = rounds(100, 1_000);
    in_lanes("always", Form::Multi, all, |pairs| Pairs::counts(&pairs.acknowledged));
    println!("{all} rounds of kill -9: no acknowledged write lost, no transaction torn");
}

#[test]
fn under_always_nothing_that_a_script_acknowledged_is_lost_and_no_script_is_torn() {
    let all = rounds(40, 1_000);
    in_lanes("always", Form::Script, all, |pairs| Pairs::counts(&pairs.acknowledged));
    println!("{all} rounds of kill -9: no acknowledged script lost, none torn");
}

#[test]
fn under_always_no_entry_and_no_delivery_that_was_acknowledged_is_lost() {
    let all = rounds(20, 1_000);
    in_lanes("always", Form::Stream, all, |pairs| Pairs::counts(&pairs.acknowledged));
    println!("{all} rounds of kill -9: no entry and no delivery lost, no transaction torn");
}

#[test]
fn under_everysec_and_no_a_killed_server_comes_back_with_a_prefix() {
    let before_the_round = |pairs: &Pairs| Pairs::counts(&pairs.acknowledged).map(|_| 0);
    for form in [Form::Multi, Form::Script] {
        in_lanes("everysec", form, rounds(12, 200), before_the_round);
        in_lanes("no", form, rounds(12, 200), before_the_round);
    }
}

/// Kills servers under load, `all` times together, and checks what they come back with. `low`:
/// what must be there at least.
fn in_lanes(policy: &'static str, form: Form, all: usize, low: impl Fn(&Pairs) -> Counts + Sync) {
    let mut random = Random::new(policy);
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            let (low, seed) = (&low, random.next());
            let pairs = Pairs::new(PAIRS).by(form);
            scope.spawn(move || lane(policy, pairs, all / LANES, low, Random::with_seed(seed)));
        }
    });
}

fn lane(
    policy: &str,
    mut pairs: Pairs,
    rounds: usize,
    low: impl Fn(&Pairs) -> Counts,
    mut random: Random,
) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut written = 0;
    for round in 0..=rounds {
        if random.below(8) == 0 {
            kill_while_starting(policy, folder.path(), &mut random);
        }
        let algorithm = random.pick(&ALGORITHMS);
        let mut server = server_by(algorithm, policy, folder.path()).start();
        let mut client = server.client();
        if round == 0 {
            pairs.prefill(&mut client);
            client.ok("SAVE"); // a kill may take what was written last, but for `always`
        } else {
            let verdict = pairs.judge(&mut client, low(&pairs), Pairs::counts(&pairs.sent));
            let counts = verdict.unwrap_or_else(|fault| {
                panic!("{policy}, round {round}: {fault}; the log:\n{}", server.log())
            });
            for (w, count) in counts.into_iter().enumerate() {
                *pairs.sent[w].get_mut() = count;
                *pairs.acknowledged[w].get_mut() = count;
            }
        }
        if round == rounds {
            break;
        }
        let before = Pairs::counts(&pairs.acknowledged);
        std::thread::scope(|scope| {
            let port = server.port;
            for w in 0..WRITERS {
                let pairs = &pairs;
                let connection = Client::try_connect(port);
                scope.spawn(move || connection.map(|mut client| pairs.write(w, &mut client)));
            }
            scope.spawn(move || rewrite_again_and_again(&mut client));
            // Some writes are acknowledged first, however busy the machine is.
            let deadline = Instant::now() + PATIENCE;
            while Pairs::counts(&pairs.acknowledged) == before && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(random.below(50) as u64));
            server.kill();
        });
        let after = Pairs::counts(&pairs.acknowledged);
        written += after.iter().sum::<u64>() - before.iter().sum::<u64>();
    }
    assert!(written > 0, "nothing was ever acknowledged");
}

fn kill_while_starting(policy: &str, folder: &Path, random: &mut Random) {
    let mut command = server(policy, folder).command(folder, own_port());
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = quiet.spawn().expect("the server's program starts");
    std::thread::sleep(Duration::from_millis(random.below(40) as u64));
    child.kill().expect("a child may be killed");
    child.wait().expect("a killed child ends");
}

/// Puts an image in the place of the log until the server is gone.
fn rewrite_again_and_again(client: &mut Client) {
    while let Some(reply) = client.try_call(&[b"BGREWRITEAOF"]) {
        assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
        std::thread::sleep(Duration::from_millis(7));
    }
}

// ---- starting

#[test]
fn a_recovery_that_is_killed_again_and_again_ends_in_the_same_state() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut random = Random::new("recovery");
    let mut first = server("always", folder.path()).start();
    let mut client = first.client();
    for number in 0..2_000 {
        let line = format!("RPUSHED{}", number % 50);
        client.send(&[b"APPEND", line.as_bytes(), b"x"]);
    }
    for _ in 0..2_000 {
        client.reply();
    }
    client.ok("SET counted 1");
    first.kill();
    for _ in 0..rounds(6, 60) {
        kill_while_starting("always", folder.path(), &mut random);
    }
    let again = server("always", folder.path()).start();
    let mut client = again.client();
    for number in 0..50 {
        assert_eq!(client.ask(&format!("STRLEN RPUSHED{number}")).int(), 40);
    }
    assert_eq!(client.ask("GET counted").text(), "1");
}

#[test]
fn a_dump_without_a_log_is_taken_and_the_log_goes_on_from_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = Setup::new(Kind::Ours("imprint")).folder(folder.path());
    let mut without = plain.start();
    without.client().ok("SET old 1");
    without.client().ok("SAVE");
    without.kill();
    let mut with = server("always", folder.path()).start();
    assert_eq!(with.client().ask("GET old").text(), "1");
    with.client().ok("SET new 2");
    with.kill();
    // Acknowledged writes are there, whatever `appendfsync` is now.
    let mut off = Setup::new(Kind::Ours("imprint")).folder(folder.path()).start();
    assert_eq!(off.client().info("aof_enabled"), "0");
    assert_eq!(off.client().ask("MGET old new").list().len(), 2);
    assert_eq!(off.client().ask("GET new").text(), "2");
    off.client().ok("SET third 3");
    off.client().ok("SAVE");
    off.kill();
    let on = server("always", folder.path()).start();
    assert_eq!(on.client().ask("GET third").text(), "3");
    assert_eq!(on.client().info("aof_enabled"), "1");
}

#[test]
fn the_log_can_be_turned_on_and_off_while_clients_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = Setup::new(Kind::Ours("imprint")).folder(folder.path()).start();
    let mut client = first.client();
    client.ok("SET before 1");
    client.ok("CONFIG SET appendonly yes appendfsync always");
    wait_until("the log is on", || {
        client.info("aof_rewrite_in_progress") == "0" && client.info("aof_enabled") == "1"
    });
    client.ok("SET after 2");
    first.kill();
    let mut second = server("always", folder.path()).start();
    let mut client = second.client();
    assert_eq!(client.ask("GET before").text(), "1");
    assert_eq!(client.ask("GET after").text(), "2");
    client.ok("CONFIG SET appendonly no");
    wait_until("the log is off", || client.info("aof_enabled") == "0");
    client.ok("SET unlogged 3");
    second.kill();
    let third = server("always", folder.path()).start();
    assert_eq!(third.client().ask("GET after").text(), "2");
    assert_eq!(third.client().ask("EXISTS unlogged").int(), 0);
}

/// The segments of the newest log of a data directory.
pub(crate) fn segments(folder: &Path) -> Vec<PathBuf> {
    let logs = fs::read_dir(folder.join("appendonlydir")).expect("it is there");
    let newest = logs.map(|entry| entry.expect("it can be read").path()).max().expect("a log");
    let entries = fs::read_dir(newest).expect("it is there").map(|entry| entry.expect("it").path());
    let is_segment = |path: &PathBuf| {
        path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"log-"))
    };
    let mut segments: Vec<PathBuf> = entries.filter(is_segment).collect();
    segments.sort();
    segments
}

/// Flips a bit of the first `word` in the newest segment of a server's log, which a start then
/// refuses: the segment's name, and the message.
fn refused_after_a_flip(data: &Path, word: &[u8]) -> (String, String) {
    let path = segments(data).pop().expect("one at least");
    let mut bytes = fs::read(&path).expect("it is there");
    let at = bytes.windows(word.len()).position(|it| it == word).expect("the record is there");
    bytes[at] ^= 1;
    fs::write(&path, bytes).expect("it can be written");
    let data = data.display().to_string();
    let refused = stillframe(&["serve", "--port", "0", "--dir", &data, "--appendonly", "yes"]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{text}");
    (path.file_name().expect("a name").to_string_lossy().into_owned(), text)
}

#[test]
fn a_damaged_log_is_named_and_refused_unless_the_loss_is_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = server("always", folder.path()).start();
    for number in 0..20 {
        first.client().ok(&format!("SET key{number} {number}"));
    }
    first.kill();
    let (name, text) = refused_after_a_flip(folder.path(), b"key10");
    for part in [&*name, "record 11", "byte ", "--accept-log-loss yes"] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    let accepting = server("always", folder.path()).flags(&["--accept-log-loss", "yes"]).start();
    let mut client = accepting.client();
    assert_eq!(client.ask("GET key9").text(), "9");
    assert_eq!(client.ask("EXISTS key10 key11 key19").int(), 0);
    assert!(accepting.log().contains("lost: all records from 11 on"), "{}", accepting.log());
}

/// Nothing is written after the last answer but the log's mark.
#[test]
fn damage_to_the_last_write_of_a_killed_server_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = server("always", folder.path()).start();
    first.client().ok("SET first 1");
    first.client().ok("SET last 2");
    first.kill();
    let (_, text) = refused_after_a_flip(folder.path(), b"last");
    assert!(text.contains("record 2 is not what was written"), "{text}");
}

#[test]
fn a_torn_tail_is_cut_with_a_notice() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = server("always", folder.path()).start();
    first.client().ok("SET kept 1");
    first.kill();
    let path = segments(folder.path()).pop().expect("one at least");
    let mut bytes = fs::read(&path).expect("it is there");
    bytes.extend_from_slice(b"half a record");
    fs::write(&path, bytes).expect("it can be written");
    let again = server("always", folder.path()).start();
    assert_eq!(again.client().ask("GET kept").text(), "1");
    assert!(again.log().contains("cut off the torn tail of the log"), "{}", again.log());
}

// ---- growing, failing, syncing

#[test]
fn the_log_is_rewritten_when_it_has_grown() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["--auto-aof-rewrite-percentage", "100", "--auto-aof-rewrite-min-size", "100kb"];
    let mut first = server("no", folder.path()).flags(&flags).start();
    let mut client = first.client();
    let value = vec![b'v'; 1_000];
    wait_until("a rewrite", || {
        for _ in 0..100 {
            client.call(&[b"SET", b"key", &value]);
        }
        client.info_int("aof_rewrites") > 1
    });
    client.ok("SET last 1");
    wait_until("it ends", || client.info("rdb_bgsave_in_progress") == "0");
    first.kill();
    let again = server("no", folder.path()).start();
    assert_eq!(again.client().ask("STRLEN key").int(), 1_000);
}

/// As in Redis, nobody waits for the image of a log that is no longer wanted: neither BGSAVE nor
/// SAVE, nor the next log; and what the log holds is there after a kill.
#[test]
fn a_log_that_ends_takes_its_image_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = server("everysec", folder.path()).start();
    let mut client = first.client();
    let texts = ["BGSAVE", "SAVE", "CONFIG SET appendonly yes"];
    for (number, request) in texts.into_iter().enumerate() {
        client.ok(&format!("SET key{number} v"));
        client.ok("CONFIG SET rdb-key-save-delay 100000000");
        assert!(client.ask("BGREWRITEAOF").text().ends_with("started"), "{request}");
        assert_eq!(client.info("aof_rewrite_in_progress"), "1", "{request}");
        client.ok("CONFIG SET rdb-key-save-delay 0");
        let saves = client.info_int("rdb_saves");
        client.ok("CONFIG SET appendonly no");
        let reply = client.ask(request).text();
        assert!(["Background saving started", "OK"].contains(&&*reply), "{request}: {reply}");
        wait_until("it is saved", || client.info_int("rdb_saves") > saves);
        assert_eq!(client.info("rdb_last_bgsave_status"), "ok", "{request}");
        client.ok("CONFIG SET appendonly yes");
        wait_until("a log is on", || client.info("aof_enabled") == "1");
        client.wait_for_save();
    }
    // Of a rewrite that waits nothing is left, and a dump that somebody wants is not cancelled.
    client.ok("CONFIG SET rdb-key-save-delay 100000000");
    client.ok("BGSAVE");
    assert!(client.ask("BGREWRITEAOF").text().ends_with("scheduled"));
    client.ok("SET last v");
    assert_eq!(client.ask("WAITAOF 1 0 0").list()[0].int(), 1);
    client.ok("CONFIG SET appendonly no");
    assert_eq!(client.info("aof_rewrite_scheduled"), "0");
    assert!(client.ask("BGSAVE").text().contains("already in progress"));
    client.ok("BGSAVE CANCEL");
    client.wait_for_save();
    first.kill();
    let again = server("everysec", folder.path()).start();
    assert_eq!(again.client().ask("EXISTS key0 key1 key2 last").int(), 4);
}

/// A disk that is full: writes are refused, nothing acknowledged is lost, and the server accepts
/// writes again when there is room.
#[test]
fn a_full_disk_refuses_writes_and_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    // The limit of file sizes stands for the disk.
    let limited = ["sh", "-c", "trap '' XFSZ; ulimit -S -f 64; exec \"$@\"", "sh"];
    let mut first = server("always", folder.path()).wrapper(&limited).start();
    let mut random = Random::new("full");
    let mut stored = Vec::new();
    let refusal = loop {
        let mut client = first.client();
        let value = random.bytes(1_000);
        match client.call(&[b"SET", format!("key{}", stored.len()).as_bytes(), &value]) {
            Reply::Error(text) => break text,
            _ => stored.push(value),
        }
        assert!(stored.len() < 10_000, "the limit is never met");
    };
    assert!(refusal.starts_with("MISCONF Errors writing to the AOF file"), "{refusal}");
    assert!(stored.len() > 10);
    let mut client = first.client();
    assert!(client.ask("SET more 1").text().starts_with("MISCONF"));
    assert_eq!(client.ask("STRLEN key3").int(), 1_000, "reads go on");
    assert_eq!(client.info("aof_last_write_status"), "err");
    let all_there = |client: &mut Client| {
        for (number, value) in stored.iter().enumerate() {
            let reply = client.ask(&format!("GET key{number}"));
            assert_eq!(reply.bytes(), Some(&value[..]), "key{number}");
        }
    };
    let copy = tempfile::tempdir().expect("a folder");
    let copied = std::process::Command::new("cp")
        .args(["-a", &format!("{}/.", folder.path().display())])
        .arg(copy.path())
        .status();
    assert!(copied.expect("cp runs").success());
    all_there(&mut server("always", copy.path()).start().client());
    limit_file_size(first.pid(), None);
    wait_until("writes are taken again", || !matches!(client.ask("SET more 1"), Reply::Error(_)));
    client.ok("SET last 1");
    first.kill();
    let again = server("always", folder.path()).start();
    let mut client = again.client();
    all_there(&mut client);
    assert_eq!(client.ask("GET last").text(), "1");
}

/// The log is removed, or moved away, while the server runs: the server notices, and an image and a
/// new log take its place.
#[test]
fn a_log_that_is_removed_while_the_server_runs_is_noticed_and_begun_anew() {
    let change = |data: &Path, number: usize| {
        let logs = data.join("appendonlydir");
        match number {
            0 => fs::remove_dir_all(&logs),
            1 => fs::rename(&logs, data.join("moved")),
            _ => fs::remove_file(segments(data).pop().expect("one at least")),
        }
        .expect("it is there");
    };
    for number in 0..3 {
        let folder = tempfile::tempdir().expect("a folder");
        let mut first = server("always", folder.path()).start();
        let mut client = first.client();
        client.ok("SET before 1");
        let saves = client.info_int("aof_rewrites");
        change(folder.path(), number);
        // The server looks after the log without writes, too. It may close a connection that asks
        // meanwhile.
        let old = format!("aof_rewrites:{saves}\r");
        wait_until("a new log is on", || {
            let client = Client::try_connect(first.port);
            let info = client.and_then(|mut it| it.try_call(&[b"INFO", b"persistence"]));
            let info = info.filter(|reply| !matches!(reply, Reply::Error(_)));
            let info = info.as_ref().and_then(Reply::bytes).map(String::from_utf8_lossy);
            info.is_some_and(|text| text.contains("aof_enabled:1") && !text.contains(&old))
        });
        let mut client = first.client();
        assert_eq!(client.info("aof_last_write_status"), "ok");
        client.ok("SET after 2");
        assert!(first.log().contains("was removed, moved or replaced"), "{}", first.log());
        first.kill();
        let again = server("always", folder.path()).start();
        let mut client = again.client();
        assert_eq!(client.ask("GET before").text(), "1");
        assert_eq!(client.ask("GET after").text(), "2");
    }
}

/// Every acknowledged write was on the disk before: seen in the system calls.
#[test]
fn always_syncs_before_it_answers() {
    if !are_here("always_syncs_before_it_answers", &[Peer::Strace]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace").display().to_string();
    let calls = "trace=pwrite64,write,fsync,fdatasync";
    let strace = ["strace", "-f", "-s", "100000", "-e", calls, "-o", &trace];
    let mut traced = server("always", folder.path()).wrapper(&strace).start();
    let mut client = traced.client();
    for number in 0..50 {
        client.ok(&format!("SET key{number:03} marker{number:03}"));
        // A reply of its own, by which it is found again.
        assert_eq!(
            client.ask(&format!("ECHO answered{number:03}")).text(),
            format!("answered{number:03}")
        );
    }
    client.send(&[b"SHUTDOWN", b"NOSAVE"]);
    traced.wait();
    let text = fs::read_to_string(&trace).expect("the trace is there");
    for number in 0..50 {
        let find = |from: usize, what: &str| {
            let at = text.get(from..).and_then(|rest| rest.find(what));
            from + at.unwrap_or_else(|| panic!("no {what} from byte {from} on:\n{text}"))
        };
        let written = find(0, &format!("marker{number:03}"));
        let answered = find(0, &format!("answered{number:03}"));
        let between = &text[written..answered];
        let synced = between.find("sync").map(|at| &between[at..]);
        let done = synced.and_then(|rest| rest.find("= 0").map(|at| &rest[at..]));
        assert!(done.is_some_and(|rest| rest.contains("+OK")), "{number}: {between}");
    }
}
