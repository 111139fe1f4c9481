//! A start that cannot succeed says why, in a sentence, with the right exit status.

use crate::support::{Kind, Setup, output_of, own_port, redis_is_here, stillframe};
use std::fs;
use std::net::TcpListener;
use std::path::Path;

#[test]
fn wrong_usage_exits_with_2_and_says_what_is_wrong() {
    let wrong: [(&[&str], &str); 12] = [
        (&["nosuch"], "nosuch"),
        (&["serve", "--nosuch"], "--nosuch"),
        (&["serve", "extra"], "extra"),
        (&["serve", "--port", "abc"], "abc"),
        (&["serve", "--port", "70000"], "70000"),
        (&["serve", "--port"], "--port"),
        (&["serve", "--snapshot", "nosuch"], "nosuch"),
        (&["serve", "--save", "60"], "save"),
        (&["serve", "--save", "soon 1"], "save"),
        (&["serve", "--snapshot-memory", "much"], "much"),
        (&["serve", "--maxclients", "0"], "maxclients"),
        (&["serve", "--config", "/nonexistent/redis.conf"], "/nonexistent/redis.conf"),
    ];
    for (arguments, named) in wrong {
        let output = stillframe(arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(named) && !text.contains("panicked"), "{arguments:?}: {text}");
    }
}

/// Starts our server in vain; its message.
fn refused(folder: &Path, port: u16) -> String {
    let output = output_of(Setup::new(Kind::Ours("imprint")).command(folder, port));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    text
}

#[test]
fn a_busy_port_is_named() {
    let holder = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = holder.local_addr().expect("its address").port();
    let folder = tempfile::tempdir().expect("a folder");
    let text = refused(folder.path(), port);
    assert!(text.contains(&port.to_string()), "{text}");
}

#[test]
fn a_folder_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a-file");
    fs::write(&file, "").expect("a file");
    // Not even root can make a folder in either.
    for place in [file.join("data"), file, Path::new("/proc/stillframe").to_owned()] {
        let text = refused(&place, own_port());
        assert!(text.contains(&place.display().to_string()), "{text}");
    }
}

#[test]
fn a_second_server_on_one_folder_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = Setup::new(Kind::Ours("imprint")).folder(folder.path()).start();
    first.client().ok("SET k v");
    let text = refused(folder.path(), own_port());
    assert!(text.contains(&folder.path().display().to_string()), "{text}");
    assert!(text.contains(&first.pid().to_string()), "it names the other's process: {text}");
    first.client().ok("SAVE");
    // A server that was killed leaves nothing that would keep its successor out.
    first.kill();
    let next = Setup::new(Kind::Ours("imprint")).folder(folder.path()).start();
    assert_eq!(next.client().ask("GET k").text(), "v");
}

#[test]
fn an_address_that_is_not_ours_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display().to_string();
    let output = stillframe(&["serve", "--dir", &path, "--bind", "192.0.2.1", "--port", "0"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("192.0.2.1"), "{text}");
}

/// What is wrong with a dump file stands in the log, in Redis's words, too.
#[test]
fn a_dump_file_with_another_checksum_ends_the_start_and_the_log_says_so() {
    for kind in [Kind::Redis, Kind::Ours("imprint")] {
        if kind == Kind::Redis && !redis_is_here("a_dump_file_with_another_checksum") {
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let mut server = Setup::new(kind).folder(folder.path()).start();
        server.client().ok("SET k v");
        server.client().ok("SAVE");
        server.kill();
        let dump = server.dump();
        let mut bytes = fs::read(&dump).expect("a dump file");
        *bytes.last_mut().expect("a checksum") ^= 1;
        fs::write(&dump, bytes).expect("a damaged dump file");
        let output = output_of(Setup::new(kind).command(folder.path(), own_port()));
        assert!(!output.status.success(), "{kind:?}");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("CRC error"), "{kind:?}: {said}");
    }
}
