//! A disk of a member is full: the member says so and ends, the group goes on, and nothing
//! acknowledged is lost. With room again the member is back.

use super::load::{Counter, under_load};
use super::{Group, leader, wait_until_equal};
use crate::support::{Disk, Server, wait_until};

/// Fills the disk of the leader, or that of a member that follows; the logs for people may be
/// on it, too, where nobody reads the last lines.
fn fill_disk(of_leader: bool, logs_too: bool) {
    let group = Group::new();
    let ports: Vec<u16> = group.ports.iter().map(|ports| ports[1]).collect();
    let disks = [(); 3].map(|()| Disk::new());
    let start = |member: usize| {
        let setup = disks[member].setup(group.setup(member));
        let log = group.folder.path().join(format!("log-{member}"));
        if logs_too { setup.start() } else { setup.log(&log).start() }
    };
    let mut servers: Vec<Server> = (0..3).map(start).collect();
    let leads = leader(&servers);
    let full = if of_leader { leads } else { (leads + 1) % 3 };
    let mut counters = [Counter::new("a"), Counter::new("b")];
    under_load(&mut counters, &ports, || {
        let applied = |server: &Server| server.client().info_int("raft_applied_index");
        wait_until("they write", || applied(&servers[leads]) > 50);
        disks[full].fill(&servers[full], 20_000);
        let status = servers[full].wait();
        assert!(!status.success(), "it ends by itself, and not well");
        let log = servers[full].log();
        assert!(!log.contains("panicked"), "{log}");
        if !logs_too {
            let last = log.lines().last().unwrap_or_default();
            let names = ["No space left on device", "File too large"];
            assert!(names.iter().any(|it| last.contains(it)), "{log}");
            assert!(last.contains("raft-log") && last.contains("free space there"), "{log}");
        }
        let rest = || servers.iter().enumerate().filter(|(at, _)| *at != full).map(|it| it.1);
        let next = rest().nth(leader(rest().collect::<Vec<_>>())).expect("it was found");
        let before = applied(next);
        wait_until("the others go on", || applied(next) > before + 50);
        disks[full].make_room(&servers[full]);
        servers[full] = start(full);
    });
    wait_until_equal(&servers);
    let leads = leader(&servers);
    for counter in &mut counters {
        counter.check(&mut servers[leads].client());
    }
}

#[test]
fn a_member_that_follows_ends_when_its_disk_is_full() {
    fill_disk(false, false);
    fill_disk(false, true);
}

#[test]
fn a_leader_ends_when_its_disk_is_full() {
    fill_disk(true, false);
    fill_disk(true, true);
}
