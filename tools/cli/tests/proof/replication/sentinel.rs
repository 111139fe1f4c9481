//! Three of Redis's sentinels watch over servers of ours and Redis's: when the primary is killed,
//! one of the replicas takes its place, and the old one follows it when it comes back.

use super::{Who, assert_equal, fill, wait_for_link};
use crate::support::{Client, Random, Server, own_port, redis_is_here, wait_until};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

struct Sentinel {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Sentinel {
    fn watch(primary: u16) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, port) = (folder.path().join("sentinel.conf"), own_port());
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor it 127.0.0.1 {primary} 2\n\
             sentinel down-after-milliseconds it 1500\nsentinel failover-timeout it 20000\n\
             sentinel parallel-syncs it 2\n",
            folder.path().display()
        );
        std::fs::write(&file, text).expect("a configuration file");
        let mut command = Command::new("redis-server");
        command.arg(&file).arg("--sentinel").stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let sentinel = Self { child: child.expect("a sentinel"), port, _folder: folder };
        wait_until("the sentinel answers", || Client::try_connect(port).is_some());
        sentinel
    }

    fn client(&self) -> Client {
        Client::try_connect(self.port).expect("the sentinel takes a connection")
    }

    /// The port of the primary as it knows it.
    fn primary(&self) -> u16 {
        let address = self.client().ask("SENTINEL GET-MASTER-ADDR-BY-NAME it");
        address.list()[1].text().parse().expect("a port")
    }

    /// Whether it knows so many replicas and other sentinels.
    fn knows(&self, replicas: &str, sentinels: &str) -> bool {
        let state = self.client().ask("SENTINEL MASTER it");
        let field = |name: &str| {
            let words = state.list().chunks(2);
            words.into_iter().find(|pair| pair[0].text() == name).map(|pair| pair[1].text())
        };
        field("num-slaves").as_deref() == Some(replicas)
            && field("num-other-sentinels").as_deref() == Some(sentinels)
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_replica_takes_the_place_of_a_killed_primary() {
    if !redis_is_here("sentinel") {
        return;
    }
    let mut random = Random::new("sentinel");
    for (first, second, third) in
        [(Who::Ours, Who::Ours, Who::Redis), (Who::Redis, Who::Ours, Who::Ours)]
    {
        let mut primary = first.start("");
        fill(&primary, &mut random, 100);
        let replicas = [second.follow(primary.port), third.follow(primary.port)];
        replicas.iter().for_each(wait_for_link);
        // Ours is to be promoted.
        replicas[1].client().ok("CONFIG SET replica-priority 200");
        let sentinels = [(); 3].map(|()| Sentinel::watch(primary.port));
        wait_until("the sentinels know all", || sentinels.iter().all(|it| it.knows("2", "2")));
        fill(&primary, &mut random, 50);
        primary.kill();
        let [promoted, other]: &[Server; 2] = &replicas;
        wait_until("the sentinels agree", || {
            sentinels.iter().all(|it| it.primary() == promoted.port)
        });
        assert_eq!(promoted.client().info("role"), "master");
        let mut client = other.client();
        wait_until("the other replica follows", || {
            client.info("role") == "slave"
                && client.info("master_port") == promoted.port.to_string()
        });
        fill(promoted, &mut random, 50);
        assert_equal(promoted, other);
    }
}
