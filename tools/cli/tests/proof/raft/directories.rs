//! Members whose directories are not what they were, and groups of one name: nothing acknowledged
//! is lost, and no member takes what is not its group's.

use std::fs;

use stillframe_raft_net::{Id, Identity, Member, Network, Settings, Standing, Starts};

use super::load::Counter;
use super::membership::change;
use super::{Group, leader, put, wait_until_equal};
use crate::support::directories::{copy, empty, lose_last_record, swap};
use crate::support::{Client, Random, Reply, Server, Setup, output_of, rounds, wait_until};

/// Starts a member that is to end by itself, and says why.
fn refused(group: &Group, setup: Setup, member: usize, why: &str) {
    let folder = group.folder.path().join((member + 1).to_string());
    let output = output_of(setup.command(&folder, group.ports[member][1]));
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(!output.status.success() && text.contains(why), "member {}: {text}", member + 1);
    assert!(!text.contains("panicked"), "{text}");
}

const EMPTY: &str = "whose directory is empty here, so it does not know its votes";

/// The directory of a member.
fn folder(group: &Group, member: usize) -> std::path::PathBuf {
    group.folder.path().join((member + 1).to_string())
}

/// A member that is to be taken into the group.
fn joins(group: &Group, member: usize) -> Server {
    empty(&folder(group, member));
    group.setup_as(member, true).start()
}

/// Has a member back that does not know its votes: by an empty directory.
fn replace(group: &Group, servers: &mut [Server], member: usize) {
    let rest: Vec<usize> = (0..servers.len()).filter(|&it| it != member).collect();
    let others = || rest.iter().map(|&it| &servers[it]).collect::<Vec<_>>();
    change(others(), &format!("STILLFRAME RAFT REMOVE {}", member + 1));
    let new = joins(group, member);
    change(others(), &format!("STILLFRAME RAFT ADD {} {}", member + 1, group.addresses(member)));
    servers[member] = new;
    wait_until_equal(&*servers);
}

fn has_not_panicked(servers: &[Server]) {
    for server in servers {
        assert!(!server.log().contains("panicked"), "{}", server.log());
    }
}

#[test]
fn groups_of_one_name_do_not_mix() {
    let (a, b) = (Group::new(), Group::new());
    let (mut of_a, mut of_b) = (a.start_founders(), b.start_founders());
    for number in 0..20 {
        put(&of_a, &format!("a{number}"));
    }
    put(&of_b, "b");
    wait_until_equal(&of_a);
    wait_until_equal(&of_b);
    // Member 3 of B, at the address of A's.
    of_a[2].kill();
    of_b[2].kill();
    let lost = of_b[2].folder.clone();
    let listen = format!("127.0.0.1:{}", a.ports[2][0]);
    let setup = b.setup(2).port(a.ports[2][1]).flags(&["--raft-listen", &listen]);
    let strayed = setup.folder(&lost).start();
    let said = "the peer belongs to another group of the same name";
    wait_until("the members of A say what knocks", || {
        of_a[..2].iter().any(|server| server.log().contains(said))
    });
    put(&of_a[..2], "more of a");
    let reply = strayed.client().ask("GET k");
    assert!(matches!(reply, Reply::Error(_)) || reply.text() == "b", "{reply:?}");
    drop(strayed);
    of_b[2] = b.start(2);
    of_a[2] = a.start(2);
    wait_until_equal(&of_a);
    wait_until_equal(&of_b);
    assert_eq!(of_b[leader(&of_b)].client().ask("GET k").text(), "b");
    assert_eq!(of_a[leader(&of_a)].client().ask("GET k").text(), "more of a");
    // An empty one takes nothing either, nor does it begin anything.
    of_a[2].kill();
    let fresh = tempfile::tempdir().expect("a folder");
    let setup = b.setup(2).port(a.ports[2][1]).flags(&["--raft-listen", &listen]);
    let output = output_of(setup.folder(fresh.path()).command(fresh.path(), a.ports[2][1]));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(EMPTY), "B knows a member 3: {text}");
}

#[test]
fn wiped_members_lose_nothing() {
    let group = Group::new();
    let mut servers = group.start_founders();
    put(&servers, "acknowledged");
    wait_until_equal(&servers);
    // One among members that run.
    let wiped = (leader(&servers) + 1) % 3;
    servers[wiped].kill();
    empty(&folder(&group, wiped));
    refused(&group, group.setup(wiped), wiped, EMPTY);
    replace(&group, &mut servers, wiped);
    // One that would join again in place of its old self: it is called by members that count on it.
    servers[wiped].kill();
    servers[wiped] = joins(&group, wiped);
    put(&servers, "goes on");
    assert_eq!(servers[wiped].client().info("raft_applied_index"), "0", "it took nothing");
    servers[wiped].kill();
    replace(&group, &mut servers, wiped);
    has_not_panicked(&servers);
    // Two of three, while the third is down: no second group begins.
    servers.iter_mut().for_each(Server::kill);
    let (one, two) = ((wiped + 1) % 3, (wiped + 2) % 3);
    [one, two].iter().for_each(|&it| empty(&folder(&group, it)));
    let mut started = [group.start(one), group.start(two)];
    wait_until("they wait for the third", || {
        started.iter().all(|it| it.log().contains("a new group begins when all of its members"))
    });
    for server in &started {
        assert_eq!(server.client().ask("GET k").text(), "CLUSTERDOWN The cluster is down");
    }
    servers[wiped] = group.start(wiped);
    for server in &mut started {
        assert!(!server.wait().success());
        assert!(server.log().contains(EMPTY), "{}", server.log());
    }
    has_not_panicked(&started);
}

#[test]
fn a_group_begins_when_all_are_there_in_any_order() {
    let mut random = Random::new("a_group_begins_when_all_are_there_in_any_order");
    for _ in 0..rounds(2, 20) {
        let group = Group::new();
        let mut order = vec![0, 1, 2];
        order.swap(0, random.below(3));
        order.swap(1, 1 + random.below(2));
        let mut servers: Vec<(usize, Server)> = Vec::new();
        for &member in &order {
            for (_, server) in &servers {
                assert_eq!(server.client().info("raft_serves"), "0");
            }
            servers.push((member, group.start(member)));
            // One may end before the group begins.
            if random.below(2) == 0 {
                let at = random.below(servers.len());
                let again = servers[at].0;
                servers[at].1.kill();
                servers[at].1 = group.start(again);
            }
        }
        servers.sort_by_key(|(member, _)| *member);
        let servers: Vec<Server> = servers.into_iter().map(|(_, server)| server).collect();
        put(&servers, "begun");
        wait_until_equal(&servers);
        has_not_panicked(&servers);
    }
}

#[test]
fn a_member_that_names_only_itself_is_a_group_that_others_do_not_begin() {
    let group = Group::new();
    let alone = format!("1={}", group.addresses(0));
    let first = group.setup(0).flags(&["--raft-peers", &alone]).start();
    put([&first], "acknowledged");
    for member in [1, 2] {
        refused(&group, group.setup(member), member, "belongs to a group already, of 1: start");
    }
    let second = joins(&group, 1);
    change([&first, &second], &format!("STILLFRAME RAFT ADD 2 {}", group.addresses(1)));
    wait_until_equal([&first, &second]);
    assert_eq!(second.client().info("raft_members"), "2");
    has_not_panicked(&[first, second]);
    // Others that were there before wait for it, and do not begin without it.
    let group = Group::new();
    let alone = format!("1={}", group.addresses(0));
    let mut waiting = [group.start(1), group.start(2)];
    let first = group.setup(0).flags(&["--raft-peers", &alone]).start();
    put([&first], "acknowledged");
    for server in &mut waiting {
        assert!(!server.wait().success());
        assert!(server.log().contains("belongs to a group already"), "{}", server.log());
    }
    // Different ones wait, and say for what.
    let group = Group::new();
    let two = format!("1={},2={}", group.addresses(0), group.addresses(1));
    let servers = [group.setup(0).flags(&["--raft-peers", &two]).start(), group.start(1)];
    wait_until("they say what differs", || {
        servers.iter().all(|it| it.log().contains("has other raft-peers: 1="))
    });
}

#[test]
fn a_directory_that_went_back_is_refused() {
    let group = Group::new();
    let mut servers = group.start_founders();
    put(&servers, "before");
    let back = (leader(&servers) + 1) % 3;
    servers[back].kill();
    let (place, kept) = (folder(&group, back), group.folder.path().join("kept"));
    copy(&place, &kept);
    servers[back] = group.start(back);
    put(&servers, "after");
    wait_until_equal(&servers);
    servers[back].kill();
    copy(&kept, &place);
    // Again and again: it does not become new by being started.
    for _ in 0..3 {
        refused(&group, group.setup(back), back, "went back to an older copy");
    }
    replace(&group, &mut servers, back);
    has_not_panicked(&servers);
}

/// What lacks or is damaged is named, with the advice that helps a member.
#[test]
fn a_directory_without_one_of_its_parts_is_refused_by_name() {
    let group = Group::with_members(1, 1, &["--raft-log-keep-entries", "0"]);
    let server = group.start(0);
    leader([&server]);
    let mut client = server.client();
    for number in 0..100 {
        client.ok(&format!("SET k{number} v"));
    }
    client.ok("BGSAVE");
    let last = client.info_int("raft_applied_index");
    assert!(last >= 100, "{last}");
    wait_until("the log is cut", || client.info_int("raft_purged_index") >= last);
    for number in 0..100 {
        client.ok(&format!("SET j{number} v"));
    }
    drop(server);
    let (place, kept) = (folder(&group, 0), group.folder.path().join("kept"));
    copy(&place, &kept);
    let log = |place: &std::path::Path| {
        let files = fs::read_dir(place.join("raft-log")).expect("it is there");
        let files = files.map(|entry| entry.expect("it is there").path());
        files.filter(|path| path.display().to_string().contains("/log-")).max().expect("a segment")
    };
    type Harm<'a> = (&'a dyn Fn(), &'a str);
    let harms: [Harm<'_>; 4] = [
        (
            &|| fs::remove_file(place.join("raft-member")).expect("it is there"),
            "raft-member is missing",
        ),
        (
            &|| fs::remove_dir_all(place.join("raft-log")).expect("it is there"),
            "the log is missing",
        ),
        (&|| fs::remove_file(place.join("dump.rdb")).expect("it is there"), "dump.rdb"),
        (
            &|| {
                let path = log(&place);
                let mut bytes = fs::read(&path).expect("it is there");
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                fs::write(&path, bytes).expect("it is ours");
            },
            "is damaged",
        ),
    ];
    for (harm, why) in harms {
        copy(&kept, &place);
        harm();
        refused(&group, group.setup(0), 0, why);
        refused(&group, group.setup(0), 0, "add it again with an empty directory");
    }
    copy(&kept, &place);
    let server = group.start(0);
    leader([&server]);
    assert_eq!(server.client().ask("DBSIZE"), Reply::Int(200));
}

/// A crash comes while a member checks and loads an image of another: its log is cut for that
/// already, and the dump is an older one, or there is none.
#[test]
fn an_image_that_came_before_a_crash_is_loaded_by_the_next_start() {
    let group = Group::with_members(1, 1, &["--raft-log-keep-entries", "0"]);
    let server = group.start(0);
    leader([&server]);
    let (place, kept) = (folder(&group, 0), group.folder.path().join("kept"));
    let (dump, older) = (place.join("dump.rdb"), group.folder.path().join("older.rdb"));
    let mut client = server.client();
    for round in 0..2 {
        for number in 0..100 {
            client.ok(&format!("SET k{round}:{number} v"));
        }
        client.ok("BGSAVE");
        let last = client.info_int("raft_applied_index");
        wait_until("the log is cut", || client.info_int("raft_purged_index") >= last);
        if round == 0 {
            fs::copy(&dump, &older).expect("it is there");
        }
    }
    client.ok("SET behind v");
    drop(server);
    copy(&place, &kept);
    for (has_older, is_whole) in [(true, true), (false, true), (true, false)] {
        copy(&kept, &place);
        let came = place.join("state-1");
        fs::create_dir(&came).expect("there is none");
        fs::rename(&dump, came.join("dump.rdb")).expect("it is there");
        if has_older {
            fs::copy(&older, &dump).expect("it is there");
        }
        if !is_whole {
            let came = fs::File::options().write(true).open(came.join("dump.rdb"));
            came.and_then(|came| came.set_len(500)).expect("it is there");
            refused(&group, group.setup(0), 0, "add it again with an empty directory");
            continue;
        }
        let server = group.start(0);
        leader([&server]);
        assert_eq!(server.client().ask("DBSIZE"), Reply::Int(201));
    }
}

/// A member that follows loses the end of its log, while the leader has cut its own: it gets an
/// image, and nobody panics.
#[test]
fn a_member_whose_log_lost_its_end_catches_up() {
    let group = Group::with_members(3, 3, &["--raft-log-keep-entries", "0"]);
    let mut servers = group.start_founders();
    put(&servers, "before");
    for is_cut in [false, true] {
        let leads = put(&servers, "the end");
        wait_until_equal(&servers);
        let lost = (leads + 1) % 3;
        servers[lost].kill();
        lose_last_record(&folder(&group, lost).join("raft-log"), 1);
        if is_cut {
            let mut client = servers[leads].client();
            client.ok("BGSAVE");
            let last = client.info_int("raft_applied_index");
            wait_until("the leader has cut its log", || {
                client.info_int("raft_purged_index") >= last
            });
        }
        servers[lost] = group.start(lost);
        wait_until_equal(&servers);
        put(&servers, "goes on");
        wait_until_equal(&servers);
        has_not_panicked(&servers);
    }
}

/// A member of this group that says nothing of its directory.
pub(super) fn as_of(group: Option<Id>) -> Identity {
    let starts = Starts::new().expect("random bytes");
    let (met, named, bound, voters, removed) = Default::default();
    let (is_blank, joins, is_ready) = (false, false, true);
    let standing =
        Standing { group, starts, met, named, bound, is_blank, joins, is_ready, voters, removed };
    Identity::new(standing, |_| Ok(()))
}

/// What a member says beside raft counts only from one that may say it.
#[test]
fn members_are_not_told_by_strangers_to_leave_or_to_stand() {
    let group = Group::new();
    let mut servers = group.start_founders();
    let leads = leader(&servers);
    let (told, stranger) = ((leads + 1) % 3, (leads + 2) % 3 + 1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ask = |question: u8, known: Option<Id>| {
        let settings = Settings::new(stranger as u64, "stillframe").identity(as_of(known));
        let network = Network::new(settings).expect("sound");
        let member: Member = group.addresses(told).parse().expect("its addresses");
        let time = std::time::Duration::from_secs(30);
        let id = told as u64 + 1;
        async move { network.forward(id, &member, &[question, 0], time).await }
    };
    let runtime = runtime.expect("a runtime");
    // To stand for election, that it was let go, and messages.
    for question in [0, 2, 3] {
        let said = runtime.block_on(async { ask(question, None).await });
        let said = said.expect_err("it does not know the group").to_string();
        assert!(said.contains("does not show that it belongs to this group"), "{said}");
    }
    let text = fs::read_to_string(folder(&group, told).join("raft-member")).expect("it is there");
    let id = text.lines().find_map(|line| line.strip_prefix("group-id "));
    let id = id.and_then(|id| id.parse().ok());
    let said = runtime.block_on(async { ask(0, id).await }).expect_err("it may not say so");
    assert!(said.to_string().contains("does not lead in term"), "{said}");
    runtime.block_on(async { ask(2, id).await }).expect("it looks into it");
    wait_until("it has looked into it", || servers[told].log().contains("it stays"));
    // It is elected as before.
    servers[stranger - 1].kill();
    let rest = || [&servers[leads], &servers[told]];
    wait_until("it leads", || {
        let at = leader(rest());
        let request = format!("STILLFRAME RAFT TRANSFER {}", told + 1);
        let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        at == 1 || {
            let _ = Client::try_connect(rest()[at].port).and_then(|mut it| it.try_call(&words));
            false
        }
    });
    put(rest(), "k");
}

/// Directories of one member at a time are lost, go back or are swapped by a seed; the others are
/// whole, so nothing acknowledged is lost.
#[test]
fn nothing_is_lost_while_most_directories_are_whole() {
    let mut random = Random::new("nothing_is_lost_while_most_directories_are_whole");
    let group = Group::with_members(3, 3, &["--raft-log-keep-entries", "5"]);
    let mut servers = group.start_founders();
    let mut counter = Counter::new("n");
    let kept = group.folder.path().join("kept");
    for round in 0..rounds(5, 200) {
        let leads = leader(&servers);
        for _ in 0..1 + random.below(40) {
            counter.count(&mut servers[leads].client());
        }
        if random.below(3) == 0 {
            servers[leads].client().ask("BGSAVE");
        }
        let member = random.below(3);
        let place = folder(&group, member);
        let fate = random.below(5);
        println!("round {round}: fate {fate} of {member}");
        match fate {
            0 => {
                servers[member].kill();
                servers[member] = group.start(member);
            }
            1 => {
                servers[member].kill();
                empty(&place);
                refused(&group, group.setup(member), member, EMPTY);
                replace(&group, &mut servers, member);
            }
            2 => {
                servers[member].kill();
                copy(&place, &kept);
                servers[member] = group.start(member);
                let leads = leader(&servers);
                counter.count(&mut servers[leads].client());
                wait_until_equal(&servers);
                servers[member].kill();
                copy(&kept, &place);
                refused(&group, group.setup(member), member, "went back to an older copy");
                replace(&group, &mut servers, member);
            }
            3 => {
                let other = (member + 1) % 3;
                let two = folder(&group, other);
                servers[member].kill();
                servers[other].kill();
                swap(&place, &two);
                for it in [member, other] {
                    refused(&group, group.setup(it), it, "and not of member");
                }
                swap(&place, &two);
                [member, other].iter().for_each(|&it| servers[it] = group.start(it));
            }
            _ => {
                // All at once, and back in any order.
                servers.iter_mut().for_each(Server::kill);
                for it in [member, (member + 2) % 3, (member + 1) % 3] {
                    servers[it] = group.start(it);
                }
            }
        }
        let leads = leader(&servers);
        if let Some(mut client) = Client::try_connect(servers[leads].port) {
            counter.count(&mut client);
        }
        has_not_panicked(&servers);
    }
    wait_until_equal(&servers);
    counter.check(&mut servers[leader(&servers)].client());
}
