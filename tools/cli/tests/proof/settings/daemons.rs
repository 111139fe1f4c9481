//! `daemonize yes`, with Debian's own configuration file.

use crate::support::{Client, Kind, Peer, are_here, own_port, redis_is_here, wait_until};
use rustix::process::{Pid, Signal, getsid, kill_process, test_kill_process};
use std::fs;
use std::process::{Command, Stdio};
use stillframe_peers::conf;

/// A process that nobody waits for, killed in any case.
struct Daemon(Pid);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL); // it may have ended before
    }
}

#[test]
fn debians_own_file_starts_a_daemon() {
    if !are_here("debians_own_file_starts_a_daemon", &[Peer::RedisConf]) {
        return;
    }
    let text = fs::read_to_string(conf()).expect("a text");
    assert!(text.contains("\ndaemonize yes\n"));
    for kind in [Kind::Ours("imprint"), Kind::Redis] {
        if kind == Kind::Redis && !redis_is_here("debians_own_file_starts_a_daemon") {
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let here = folder.path().display();
        // The folders of the package and its port are the machine's; all else is as it stands.
        let text = text
            .replace("\nport 6379\n", &format!("\nport {}\n", own_port()))
            .replace("/var/lib/redis", &here.to_string())
            .replace("/var/log/redis", &here.to_string())
            .replace("/run/redis", &here.to_string());
        let port = text.lines().find_map(|line| line.strip_prefix("port "));
        let port = port.expect("a port").parse().expect("a number");
        let file = folder.path().join("redis.conf");
        fs::write(&file, text).expect("a file");
        let mut command = match kind {
            Kind::Redis | Kind::Newer(_) => Command::new("redis-server"),
            Kind::Ours(_) => Command::new(env!("CARGO_BIN_EXE_stillframe")),
        };
        if kind != Kind::Redis {
            command.arg("serve");
        }
        let command = command.arg(&file).current_dir("/").env_remove("NOTIFY_SOCKET");
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
        assert!(status.expect("it starts").success(), "{kind:?}: the command is done");
        let pid_file = folder.path().join("redis-server.pid");
        let mut pid = None;
        wait_until("the pidfile is written", || {
            let text = fs::read_to_string(&pid_file).unwrap_or_default();
            pid = text.trim().parse().ok().and_then(Pid::from_raw);
            pid.is_some()
        });
        let daemon = Daemon(pid.expect("it was written"));
        let mut client = None;
        wait_until("it answers", || {
            client = Client::try_connect(port);
            client.as_mut().is_some_and(Client::ready)
        });
        let mut client = client.expect("it answers");
        assert_eq!(client.info("process_id"), daemon.0.as_raw_nonzero().to_string());
        assert_eq!(getsid(Some(daemon.0)), Ok(daemon.0), "{kind:?}: a session of its own");
        assert_eq!(client.ask("CONFIG GET daemonize").list()[1].text(), "yes", "{kind:?}");
        let stdin = format!("/proc/{}/fd/2", daemon.0.as_raw_nonzero());
        assert_eq!(fs::read_link(stdin).expect("it is open").to_str(), Some("/dev/null"));
        client.ok("SET k v");
        client.ok("CONFIG REWRITE");
        client.send(&[b"SHUTDOWN", b"SAVE"]);
        wait_until("it ends", || test_kill_process(daemon.0).is_err());
        assert!(!pid_file.exists() && folder.path().join("dump.rdb").exists(), "{kind:?}");
        let log = fs::read_to_string(folder.path().join("redis-server.log")).expect("the log");
        assert!(!log.is_empty(), "{kind:?}");
        let text = fs::read_to_string(&file).expect("the file");
        assert!(text.contains("\ndaemonize yes\n"), "{kind:?}: it says what it said");
    }
}
