//! Sources of no use are refused by name, before a row is shown.

use std::process::{Command, Output};

use stillframe_peers::Random;

use crate::server::Server;

fn query(source: &str, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stillframe-query"));
    command.args(["query", source, "select * from keys", "--format", "csv"]).args(more);
    command.output().expect("the program runs")
}

fn refusal(source: &str, more: &[&str]) -> String {
    let output = query(source, more);
    assert_eq!(output.status.code(), Some(1), "{source}: {output:?}");
    assert!(output.stdout.is_empty(), "{source}: rows were shown");
    String::from_utf8(output.stderr).expect("text")
}

/// A file of some data.
fn dump(folder: &std::path::Path) -> Vec<u8> {
    let server = Server::ours(&[("rdbcompression", "no")]);
    let mut client = server.client();
    for number in 0..300 {
        client.ok(&format!("HSET hash:{number} a {number} b {}", "x".repeat(number)));
        client.ok(&format!("SET string:{number} {}", "y".repeat(number)));
    }
    client.ok("SAVE");
    let bytes = std::fs::read(server.folder().join("dump.rdb")).expect("the dump");
    std::fs::write(folder.join("dump.rdb"), &bytes).expect("a copy");
    bytes
}

#[test]
fn damaged_files_are_refused_before_a_row_is_shown() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let bytes = dump(folder.path());
    let path = folder.path().join("damaged.rdb").display().to_string();
    let mut random = Random::new("damaged_files_are_refused_before_a_row_is_shown");
    for round in 0..20 {
        let mut damaged = bytes.clone();
        let place = random.below(bytes.len());
        if round % 2 == 0 {
            damaged.truncate(place)
        } else {
            damaged[place] ^= 1 << random.below(8)
        }
        std::fs::write(&path, &damaged).expect("a file");
        let refusal = refusal(&path, &[]);
        assert!(refusal.contains("damaged.rdb: "), "{refusal}");
        assert_eq!(refusal.lines().count(), 1, "{refusal}");
    }
}

#[test]
fn what_is_no_source_is_refused_with_what_would_be_one() {
    let folder = tempfile::TempDir::new().expect("a folder");
    dump(folder.path());
    let empty = tempfile::TempDir::new().expect("a folder");
    let dump = folder.path().join("dump.rdb").display().to_string();
    let text = folder.path().join("text");
    std::fs::write(&text, "no dump at all").expect("a file");
    for (source, more, part) in [
        ("nowhere", &[][..], "no dump file, no data directory"),
        (&*empty.path().display().to_string(), &[], "name a data directory"),
        (&*text.display().to_string(), &[], "text: "),
        (&*dump, &["--out", &dump], "dump.rdb: it is the source"),
        (&*dump, &["--until", "7"], "--until goes with a data directory or an archive"),
        ("127.0.0.1:1", &[], "127.0.0.1:1 cannot be reached"),
        ("s3://no-such-bucket-here/", &[], "s3://no-such-bucket-here"),
        ("gopher://a/b", &[], "gopher"),
    ] {
        let refusal = refusal(source, more);
        assert!(refusal.contains(part), "{source}: {refusal}");
    }
    let wrong = Command::new(env!("CARGO_BIN_EXE_stillframe-query"))
        .args(["query", &dump, "select nothing from keys"])
        .output()
        .expect("the program runs");
    assert_eq!(wrong.status.code(), Some(1));
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(said.contains("nothing") && said.contains("key"), "{said}");
}

#[test]
fn a_server_that_refuses_is_named_with_its_words() {
    let server = Server::ours(&[("requirepass", "secret")]);
    let socket = server.socket().display().to_string();
    let refusal = refusal(&socket, &["--password", "wrong"]);
    assert!(refusal.contains("WRONGPASS"), "{refusal}");
    let refusal = self::refusal(&socket, &[]);
    assert!(refusal.contains("NOAUTH") && refusal.contains("PSYNC"), "{refusal}");
    let fine = query(&socket, &["--password", "secret"]);
    assert!(fine.status.success(), "{fine:?}");
    assert!(fine.stdout.starts_with(b"db,key,type"), "{fine:?}");
}

/// A reader that goes away early ends the program without a complaint.
#[test]
fn a_reader_may_go() {
    let folder = tempfile::TempDir::new().expect("a folder");
    dump(folder.path());
    let program = env!("CARGO_BIN_EXE_stillframe-query");
    let dump = folder.path().join("dump.rdb");
    let line = format!(
        "set -o pipefail; {program} query {} \"select * from keys a cross join keys b\" --format \
         csv | head -1",
        dump.display()
    );
    let output = Command::new("bash").args(["-c", &line]).output().expect("a shell");
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

/// A log of Redis is read to its end, though an older dump lies beside it.
#[test]
fn a_log_of_redis_counts() {
    let Some(server) = Server::peer("a_log_of_redis_counts", stillframe_peers::Peer::RedisServer)
    else {
        return;
    };
    let mut client = server.client();
    client.ok("SET a 1");
    client.ok("SAVE");
    client.ok("CONFIG SET appendfsync always");
    client.ok("CONFIG SET appendonly yes");
    while !client.ok("INFO persistence").text().contains("aof_rewrite_in_progress:0") {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    client.ok("SET b 2");
    let answer = query(&server.folder().display().to_string(), &[]);
    let text = String::from_utf8_lossy(&answer.stdout);
    assert!(text.contains(",a,string") && text.contains(",b,string"), "{answer:?}");
}

/// A signal ends a question, and leaves nothing behind.
#[test]
fn a_signal_leaves_no_files() {
    let folder = tempfile::TempDir::new().expect("a folder");
    dump(folder.path());
    let (temporary, out) = (folder.path().join("temporary"), folder.path().join("out.csv"));
    std::fs::create_dir(&temporary).expect("a folder");
    let mut child = Command::new(env!("CARGO_BIN_EXE_stillframe-query"))
        .args(["query", &folder.path().join("dump.rdb").display().to_string()])
        .arg("select a.key from keys a, keys b, keys c, keys d")
        .args(["--format", "csv", "--out", &out.display().to_string()])
        .args(["--temp-dir", &temporary.display().to_string()])
        .spawn()
        .expect("the program runs");
    let names = |path: &std::path::Path| {
        let names = std::fs::read_dir(path).expect("a folder");
        names.map(|it| it.expect("a name").file_name()).collect::<Vec<_>>()
    };
    // The answer is under way, and has no end.
    while !names(folder.path()).iter().any(|it| it.to_string_lossy().starts_with(".still")) {
        assert!(child.try_wait().expect("a child").is_none());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    assert_eq!(child.wait().expect("a child").code(), Some(130));
    let mut left = names(folder.path());
    left.sort();
    assert_eq!((left, names(&temporary)), (vec!["dump.rdb".into(), "temporary".into()], vec![]));
}
