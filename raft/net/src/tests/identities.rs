//! Groups of one name, and directories that are not what they were.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use super::certificates::Certificates;
use super::hostile::Alone;
use super::*;
use crate::hello::{Hello, Lane, Statement};
use crate::identity::{End, Peer};
use crate::mutant::Mutation;
use crate::{Bindings, Error, ForwardError, Id, Standing, Starts};

/// A standing in this group and directory, which is kept in memory.
fn standing(group: Option<Id>, starts: &Starts) -> Standing {
    let (met, named, bound, voters, removed) = Default::default();
    let (starts, is_blank, joins, is_ready) = (starts.clone(), false, false, true);
    Standing { group, starts, met, named, bound, is_blank, joins, is_ready, voters, removed }
}

fn identity(standing: Standing) -> Identity {
    Identity::new(standing, |_| Ok(()))
}

fn starts(count: usize) -> Starts {
    let mut starts = Starts::new().expect("random bytes");
    for _ in 0..count {
        starts = starts.and_one_more().expect("random bytes");
    }
    starts
}

/// What node 2 of this identity is told by node 1.
async fn said(alone: &Alone, identity: &Identity) -> String {
    let settings = alone.group.plan.settings(2).identity(identity.clone());
    match alone.forward(settings).await {
        Ok(_) => "welcome".to_owned(),
        Err(ForwardError::NotSent(error)) => error.to_string(),
        Err(other) => panic!("{other}"),
    }
}

fn expect(said: &str, wanted: &str) -> Result<(), String> {
    said.contains(wanted).then_some(()).ok_or_else(|| format!("'{said}' in place of '{wanted}'"))
}

pub(super) async fn groups_do_not_mix() -> Result<(), String> {
    let [ours, theirs] = [(); 2].map(|()| Id::draw().expect("random bytes"));
    let home = identity(standing(Some(ours), &starts(1)));
    let alone = Alone::start(Plan { identity: home, ..Plan::calm() }).await;
    let other = identity(standing(Some(theirs), &starts(1)));
    expect(&said(&alone, &other).await, "another group of the same name")?;
    let friend = identity(standing(Some(ours), &starts(1)));
    expect(&said(&alone, &friend).await, "welcome")?;
    alone.group.end().await;
    Ok(())
}

#[test]
fn groups_of_one_name_are_told_apart() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(groups_do_not_mix()).expect("they do not mix");
}

pub(super) async fn replaced_directories_are_refused() -> Result<(), String> {
    let group = Some(Id::draw().expect("random bytes"));
    let kept = Arc::new(Mutex::new(0));
    let (own, keeps) = (starts(1), Arc::clone(&kept));
    let home = Identity::new(standing(group, &own), move |standing| {
        *keeps.lock().expect("no panic") = standing.met.len();
        Ok(())
    });
    let alone = Alone::start(Plan { identity: home.clone(), ..Plan::calm() }).await;
    let then = starts(3);
    let now = then.clone().and_one_more().expect("random bytes");
    expect(&said(&alone, &identity(standing(group, &now))).await, "welcome")?;
    let kept = *kept.lock().expect("no panic");
    expect(&kept.to_string(), if home.read(|it| it.met.len()) == Some(1) { "1" } else { "met" })?;
    let mut copy = identity(standing(group, &then));
    for _ in 0..3 {
        expect(&said(&alone, &copy).await, "older copy")?;
        let told = copy.went_back().expect("it has a standing").borrow().clone();
        expect(&told.unwrap_or_default(), "the directory of node 2 went back")?;
        let starts = copy.read(|it| it.starts.clone()).expect("it has a standing");
        copy = identity(standing(group, &starts.and_one_more().expect("random bytes")));
    }
    expect(&said(&alone, &identity(standing(group, &starts(9)))).await, "another directory")?;
    expect(&said(&alone, &identity(standing(group, &now))).await, "welcome")?;
    // Without data it takes nothing from one that counts on it.
    let blank = Standing { is_blank: true, joins: true, ..standing(None, &starts(1)) };
    home.note(|it| it.voters = BTreeSet::from([2]));
    let meet = async |who: &Identity| {
        let theirs = home.statement(2);
        let (node, end, said, shown) = (1, End::Listener, Some(&theirs), None);
        let peer = Peer { node, end, lane: Lane::Control, said, shown };
        who.meet(peer, Mutation::current()).await
    };
    let met = meet(&identity(blank.clone())).await;
    expect(&met.map_or_else(|error| error.to_string(), |()| "taken".into()), "raft-join yes")?;
    home.note(|it| it.voters.clear());
    let joins = identity(blank);
    meet(&joins).await.map_err(|error| error.to_string())?;
    expect(&format!("{:?}", joins.read(|it| it.group)), &format!("{:?}", Some(group)))?;
    alone.group.end().await;
    Ok(())
}

#[test]
fn directories_that_were_replaced_are_refused() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(replaced_directories_are_refused()).expect("they are refused");
}

/// Calls node 1 as node 2; what it answers.
async fn call(alone: &Alone, lane: Lane, statement: Statement) -> Hello {
    let address = alone.member().raft;
    let mut socket = tokio::net::TcpStream::connect(address).await.expect("it listens");
    let hello = Hello::call(2, 1, lane, GROUP).stating(statement);
    hello.write(&mut socket).await.expect("it reads");
    Hello::read(&mut socket).await.expect("it answers")
}

/// A certificate of the authority is not enough: who does not know the id of the group gets neither
/// a vote nor an entry in, learns none of the ids, and asks as a stranger.
pub(super) async fn strangers_take_no_part() -> Result<(), String> {
    let group = Some(Id::draw().expect("random bytes"));
    let home = identity(standing(group, &starts(1)));
    let alone = Alone::start(Plan { identity: home, ..Plan::calm() }).await;
    let other = Some(Id::draw().expect("random bytes"));
    for lane in [Lane::Control, Lane::Entries, Lane::Snapshots] {
        for group in [None, other] {
            let statement = Statement { group, starts: Some(starts(1)), ..Statement::default() };
            let answer = call(&alone, lane, statement).await;
            expect(&format!("{:?}", answer.verdict()), "OtherIdentity")?;
            expect(&format!("{:?}", answer.statement), "Some(Statement { group: None")?;
        }
    }
    let answer = call(&alone, Lane::Forward, Statement::default()).await;
    expect(&format!("{:?}", answer.verdict()), "Welcome")?;
    expect(&format!("{:?}", answer.statement), "Some(Statement { group: None, starts: None")?;
    for (identity, wanted) in [
        (Identity::default(), "not of the group"),
        (identity(standing(group, &starts(1))), "of the group"),
    ] {
        let settings = alone.group.plan.settings(2).identity(identity);
        let network = Network::new(settings).expect("sound");
        let time = Duration::from_secs(30);
        let said = network.forward(1, &alone.member(), b"?", time).await;
        expect(&String::from_utf8_lossy(&said.map_err(|error| error.to_string())?), wanted)?;
    }
    alone.group.end().await;
    Ok(())
}

#[test]
fn who_does_not_know_the_group_takes_no_part() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(strangers_take_no_part()).expect("they do not");
}

/// In a group without an id nodes know each other by their directories, once they have data: one
/// that has got some shows its own before it asks anything.
#[test]
fn a_node_that_has_got_data_calls_again() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(async {
        let home = identity(standing(None, &starts(1)));
        let plan = Plan { identity: home.clone(), ..Plan::calm() };
        let alone = Alone::start(plan).await;
        let blank = Standing { is_blank: true, joins: true, ..standing(None, &starts(1)) };
        let blank = identity(blank);
        let network = Network::new(alone.group.plan.settings(2).identity(blank.clone()));
        let network = network.expect("sound");
        let met = async || {
            let time = Duration::from_secs(30);
            network.forward(1, &alone.member(), b"?", time).await.expect("it is answered");
            home.read(|standing| standing.met.len())
        };
        assert_eq!(met().await, Some(0), "it has nothing");
        blank.note(|standing| standing.is_blank = false);
        assert_eq!(met().await, Some(1));
        alone.group.end().await;
    });
}

/// A node that has learnt its group says so: it is a stranger no longer.
#[test]
fn a_node_that_learns_its_group_calls_again() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(async {
        let group = Some(Id::draw().expect("random bytes"));
        let home = identity(standing(group, &starts(1)));
        let alone = Alone::start(Plan { identity: home, ..Plan::calm() }).await;
        let joins = Standing { is_blank: true, joins: true, ..standing(None, &starts(1)) };
        let joins = identity(joins);
        let settings = alone.group.plan.settings(2).identity(joins.clone());
        let network = Network::new(settings).expect("sound");
        let who = async || {
            let time = Duration::from_secs(30);
            network.forward(1, &alone.member(), b"?", time).await
        };
        assert_eq!(who().await.expect("a question"), b"2 is not of the group");
        joins.change(|it| it.group = group).expect("it is kept");
        let started = Instant::now();
        while who().await.ok().is_none_or(|said| said != b"2 is of the group") {
            assert!(started.elapsed() < Duration::from_secs(60), "it has not called again");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        alone.group.end().await;
    });
}

/// A node of the version before, which says nothing of its directory.
#[test]
fn the_version_before_is_spoken_until_the_group_has_an_id() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(async {
        let home = identity(standing(None, &starts(1)));
        let alone = Alone::start(Plan { identity: home.clone(), ..Plan::calm() }).await;
        let call = async || {
            let address = alone.member().raft;
            let mut socket = tokio::net::TcpStream::connect(address).await.expect("it listens");
            let hello = Hello::call(2, 1, Lane::Control, GROUP).older();
            hello.write(&mut socket).await.expect("it reads");
            let answer = Hello::read(&mut socket).await.expect("it answers");
            assert_eq!(answer.statement, None, "in the version of the caller");
            answer.verdict().expect("sound")
        };
        assert_eq!(call().await, crate::hello::Verdict::Welcome);
        home.change(|it| it.group = Some(Id::draw().expect("random bytes"))).expect("it is kept");
        assert_eq!(call().await, crate::hello::Verdict::OtherVersion);
        // A listener of that version: it is called again as it speaks.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let older = tokio::spawn(async move {
            let mut versions = Vec::new();
            for verdict in [crate::hello::Verdict::OtherVersion, crate::hello::Verdict::Welcome] {
                let (mut socket, _) = listener.accept().await.expect("it comes");
                let hello =
                    crate::hello::Hello::read(&mut socket).await.expect("it says who it is");
                versions.push(hello.statement.is_some());
                let other = if versions.len() == 1 { 0 } else { 2 };
                let answer = crate::hello::Hello::answer(1, other, verdict, GROUP).older();
                answer.write(&mut socket).await.expect("it reads");
            }
            versions
        });
        let network = Network::new(Settings::new(2, GROUP)).expect("sound");
        let member = Member { raft: address, client: String::new() };
        let said = network.forward(1, &member, b"hello", Duration::from_secs(30)).await;
        said.expect_err("it was welcome, and the other end is gone");
        assert_eq!(older.await.expect("no panic"), [true, false]);
        alone.group.end().await;
    });
}

/// A member whose certificate has named it is claimed by no certificate that names nobody.
pub(super) async fn names_stay(files: &Certificates) -> Result<(), String> {
    let tls = files.tls("node", "ca");
    let group = Some(Id::draw().expect("random bytes"));
    let (home, own) = (identity(standing(group, &starts(1))), starts(1));
    let plan = Plan { tls: Some(tls), identity: home.clone(), ..Plan::calm() };
    let alone = Alone::start(plan).await;
    let says = async |who: &str| {
        let settings = alone.group.plan.settings(3).identity(identity(standing(group, &own)));
        let answer = alone.forward(settings.tls(files.tls(who, "ca"))).await;
        answer.map_or_else(|error| error.to_string(), |_| "welcome".to_owned())
    };
    expect(&says("node").await, "welcome")?;
    expect(&says("raft-member-3.some.group").await, "welcome")?;
    expect(&says("node").await, "certificate of node 3 is not its own")?;
    expect(&says("raft-member-3.some.group").await, "welcome")?;
    // Removed, it may begin anew.
    home.note(|it| it.named.clear());
    expect(&says("node").await, "welcome")?;
    alone.group.end().await;
    Ok(())
}

/// A member that the log has bound to a key comes with no other, by new connections and by those
/// from before; and so does one that is called.
pub(super) async fn keys_stay(files: &Certificates) -> Result<(), String> {
    let tls = |who: &str| files.tls(who, "ca");
    let group = Some(Id::draw().expect("random bytes"));
    let (home, own) = (identity(standing(group, &starts(1))), starts(1));
    let plan = Plan { tls: Some(tls("node")), identity: home.clone(), ..Plan::calm() };
    let alone = Alone::start(plan).await;
    let member = alone.member();
    let time = Duration::from_secs(30);
    let calls = |who: &str, own: &Identity| {
        let settings = alone.group.plan.settings(3).identity(own.clone());
        Network::new(settings.tls(tls(who))).expect("sound")
    };
    let says = async |network: &Network| {
        let answer = network.forward(1, &member, b"hello", time).await;
        answer.map_or_else(|error| error.to_string(), |_| "welcome".to_owned())
    };
    let caller = || identity(standing(group, &own));
    let bind = |who: &Identity, node, certificate: &str| {
        let of = BTreeMap::from([(node, tls(certificate).bound(node))]);
        who.note(|it| it.bound = Bindings { at: it.bound.at + 1, of });
    };
    // A thief that came before anybody was bound.
    let (thief, honest, named) = (caller(), caller(), caller());
    let thieves = calls("second", &thief);
    expect(&says(&thieves).await, "welcome")?;
    bind(&home, 3, "node");
    let said = says(&thieves).await;
    expect(if said == "welcome" { "it was served" } else { "refused" }, "refused")?;
    expect(&says(&calls("second", &thief)).await, "certificate of node 3 is not its own")?;
    expect(&says(&calls("node", &honest)).await, "welcome")?;
    expect(&says(&calls("raft-member-3.some.group", &named)).await, "welcome")?;
    // It takes no other for node 1, either.
    let network = calls("node", &honest);
    expect(&says(&network).await, "welcome")?;
    bind(&honest, 1, "second");
    expect(&says(&network).await, "has another key than the one")?;
    expect(&says(&calls("node", &honest)).await, "has another key than the one")?;
    bind(&honest, 1, "node");
    expect(&says(&calls("node", &honest)).await, "welcome")?;
    alone.group.end().await;
    Ok(())
}

/// The next request after that is answered, by another connection.
#[test]
fn a_member_that_is_bound_to_another_key_is_called_anew() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let test = "a_member_that_is_bound_to_another_key_is_called_anew";
    let Some(files) = Certificates::new(test) else { return };
    let use_pair = |pair: &str| {
        for end in ["crt", "key"] {
            let [from, to] = [pair, "home"].map(|name| files.path(&format!("{name}.{end}")));
            std::fs::copy(from, to).expect("a file");
        }
    };
    block_on(async {
        let group = Some(Id::draw().expect("random bytes"));
        let [home, caller] = [(); 2].map(|()| identity(standing(group, &starts(1))));
        use_pair("node");
        let tls = files.tls("home", "ca");
        let alone =
            Alone::start(Plan { tls: Some(tls.clone()), identity: home, ..Plan::calm() }).await;
        let settings = alone.group.plan.settings(3).identity(caller.clone());
        let network = Network::new(settings.tls(files.tls("node", "ca"))).expect("sound");
        for pair in ["node", "second"] {
            use_pair(pair);
            tls.reload().expect("they are a pair");
            let of = BTreeMap::from([(1, tls.bound(1))]);
            caller.note(|it| it.bound = Bindings { at: it.bound.at + 1, of });
            let answer = network.forward(1, &alone.member(), b"?", Duration::from_secs(30)).await;
            answer.expect("it is answered");
        }
        alone.group.end().await;
    });
}

#[test]
fn a_member_that_is_bound_to_a_key_shows_no_other() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let test = "a_member_that_is_bound_to_a_key_shows_no_other";
    let Some(files) = Certificates::new(test) else { return };
    block_on(keys_stay(&files)).expect("it does not");
}

#[test]
fn a_member_that_has_shown_its_name_shows_no_other_certificate() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let test = "a_member_that_has_shown_its_name_shows_no_other_certificate";
    let Some(files) = Certificates::new(test) else { return };
    block_on(names_stay(&files)).expect("it does not");
}

#[test]
fn a_certificate_that_names_a_member_is_good_for_that_alone() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let test = "a_certificate_that_names_a_member_is_good_for_that_alone";
    let Some(files) = Certificates::new(test) else { return };
    block_on(async {
        let plan = |who: &str| Plan { tls: Some(files.tls(who, "ca")), ..Plan::calm() };
        let alone = Alone::start(plan("raft-member-1")).await;
        let reason = async |alone: &Alone, node: u64, who: &str| match alone
            .forward(plan(who).settings(node))
            .await
        {
            Ok(_) => "welcome".to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(reason(&alone, 2, "node").await, "welcome");
        assert_eq!(reason(&alone, 3, "raft-member-3.some.group").await, "welcome");
        for who in ["raft-member-1", "raft-member-3.some.group"] {
            let said = reason(&alone, 2, who).await;
            assert!(said.contains("certificate of node 2 is not its own"), "{said}");
        }
        alone.group.end().await;
        // The listener's, too.
        let alone = Alone::start(plan("raft-member-3.some.group")).await;
        let said = reason(&alone, 2, "node").await;
        assert!(said.contains("node 1 is not its own: it names raft-member-3"), "{said}");
        let error = Error::OtherCertificate { node: 1, names: "raft-member-3".into() };
        assert!(said.contains(&error.to_string()), "{said}");
        alone.group.end().await;
    });
}
