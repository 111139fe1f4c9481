//! From redis-server to ours by the four commands of docs/run/replication.md, as they stand there.

use super::{Who, fill, under_load};
use crate::replayed::contents;
use crate::support::{Client, Peer, Random, Reply, are_here, own_port, wait_until};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

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
fn the_four_commands_move_the_data_while_clients_write() {
    if !are_here("the four commands", &[Peer::RedisServer, Peer::RedisCli]) {
        return;
    }
    let page = include_str!("../../../../../docs/run/replication.md");
    let block = page.split("```").nth(1).expect("the four commands");
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
    let [follow, link, hand_over, role] = &typed[..] else { panic!("not four: {typed:?}") };
    let mut random = Random::new("the four commands");
    fill(&old, &mut random, 500);
    let mut started = None;
    under_load(old.port, &mut random, || {
        let mut command = shell(follow);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        started = Some(Typed(command.spawn().expect("a shell")));
        wait_until("the link is up", || output(link).contains("master_link_status:up"));
        let counters: Vec<_> = (0..4).map(|n| count_until_refused(old.port, n)).collect();
        assert_eq!(output(hand_over).trim(), "OK");
        wait_until("ours is the primary", || {
            let is_primary = output(role).starts_with("master");
            // A FLUSHALL of the load makes Redis end the child that sent the image, and the link
            // with it. Redis takes no replica while it hands over, so that step 3 times out.
            if !is_primary && old.client().info("master_failover_state") == "no-failover" {
                output(hand_over);
            }
            is_primary
        });
        let told: Vec<i64> =
            counters.into_iter().map(|counter| counter.join().expect("it ends")).collect();
        let mut client = Client::try_connect(port).expect("the new primary takes connections");
        for (n, told) in told.iter().enumerate() {
            let counted = client.ask(&format!("GET counter:{n}")).text();
            assert!(*told > 0 && counted.parse::<i64>().is_ok_and(|is| is >= *told), "{counted}");
        }
        wait_until("the old primary follows", || old.client().info("master_link_status") == "up");
        wait_until("both hold the same", || contents(&mut old.client()) == contents(&mut client));
        assert_eq!(client.info("role"), "master");
    });
}

/// Counts as fast as the server replies until it refuses; returns the last number that it told.
fn count_until_refused(port: u16, n: usize) -> JoinHandle<i64> {
    thread::spawn(move || {
        let mut client = Client::try_connect(port).expect("the server takes a connection");
        let mut told = 0;
        while let Reply::Int(number) = client.ask(&format!("INCR counter:{n}")) {
            told = number;
        }
        told
    })
}
