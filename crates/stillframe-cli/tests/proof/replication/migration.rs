//! From redis-server to ours by the five commands of docs/replication.md, as they stand there.

use super::{Who, fill, under_load};
use crate::replayed::contents;
use crate::support::{Client, Peer, Random, are_here, own_port, wait_until};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Our server, started by a shell.
struct Typed(Child);

impl Drop for Typed {
    fn drop(&mut self) {
        // It may have ended before; the kill is only there to leave nothing behind.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn shell(line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::null());
    command
}

fn output(line: &str) -> String {
    let output = shell(line).output().expect("a shell");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_five_commands_move_the_data_while_clients_write() {
    if !are_here("the five commands", &[Peer::RedisServer, Peer::RedisCli]) {
        return;
    }
    let page = include_str!("../../../../../docs/replication.md");
    let block = page.split("```").nth(1).expect("the five commands");
    let old = Who::Redis.start("");
    let folder = tempfile::tempdir().expect("a folder");
    let port = own_port();
    let typed: Vec<String> = block
        .lines()
        .skip(1)
        .map(|line| {
            let line = line.split(" #").next().unwrap_or_default().trim();
            line.replace("10.0.0.1 6379", &format!("127.0.0.1 {}", old.port))
                .replace("-h 10.0.0.1", &format!("-p {}", old.port))
                .replace("6380", &port.to_string())
                .replace("--dir data", &format!("--dir {}", folder.path().display()))
                .replace(
                    "stillframe serve",
                    &format!("exec {} serve", env!("CARGO_BIN_EXE_stillframe")),
                )
        })
        .collect();
    let [follow, link, hold, compare, promote] = &typed[..] else { panic!("not five: {typed:?}") };
    let mut random = Random::new("the five commands");
    fill(&old, &mut random, 500);
    let mut started = None;
    under_load(old.port, &mut random, || {
        let mut command = shell(follow);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        started = Some(Typed(command.spawn().expect("a shell")));
        wait_until("the link is up", || output(link).contains("master_link_status:up"));
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(output(hold).trim(), "OK");
        wait_until("the offsets are equal", || {
            let role = output(compare);
            let words: Vec<&str> = role.split_whitespace().collect();
            matches!(words[..], ["master", all, _, _, ours] if all == ours)
        });
        assert_eq!(output(promote).trim(), "OK");
        let mut client = Client::try_connect(port).expect("the new primary takes connections");
        let moved = contents(&mut client);
        assert_eq!(client.info("role"), "master");
        // Keys whose time comes while writes are held are absent on both sides.
        std::thread::sleep(Duration::from_millis(30));
        let mut old = old.client();
        assert!(contents(&mut old).iter().all(|(key, value)| moved.get(key) == Some(value)));
        old.ok("CLIENT UNPAUSE");
    });
}
