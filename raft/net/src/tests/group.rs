//! Elections and writes go on whatever the network does; nothing acknowledged is lost.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use stillframe_peers::Random;

use super::certificates::Certificates;
use super::*;
use crate::proxy::{Direction, Faults};

/// What the writers were told.
#[derive(Default)]
struct Told {
    next: AtomicU64,
    acknowledged: Mutex<Vec<u64>>,
    over: AtomicBool,
}

/// Writes new numbers at the leader of the moment, until it is over.
async fn write(rafts: BTreeMap<u64, Raft<Types>>, told: Arc<Told>, seed: u64) {
    let mut random = Random::with_seed(seed);
    while !told.over.load(Ordering::Relaxed) {
        let number = told.next.fetch_add(1, Ordering::Relaxed);
        // Of two that say so, the one that was elected last.
        let leads = |(node, raft): &(&u64, &Raft<Types>)| {
            raft.metrics().borrow().current_leader == Some(**node)
        };
        let term = |(_, raft): &(&u64, &Raft<Types>)| raft.metrics().borrow().current_term;
        if let Some((_, raft)) = rafts.iter().filter(leads).max_by_key(term) {
            let bytes = [8, 100, 3_000, 60_000][random.below(4)];
            let written = raft.client_write(command(number, bytes));
            let written = tokio::time::timeout(Duration::from_secs(1), written).await;
            if let Ok(Ok(_)) = written {
                told.acknowledged.lock().expect("no panic").push(number);
            }
        }
        tokio::time::sleep(Duration::from_millis(random.below(20) as u64)).await;
    }
}

/// One thing that a network may do to one of its ways.
fn fault(proxy: &Proxy, random: &mut Random) -> String {
    let way = [Direction::ToTarget, Direction::ToCaller][random.below(2)];
    let millis = |random: &mut Random, most| Duration::from_millis(random.below(most) as u64);
    match random.below(8) {
        0 => {
            proxy.cut();
            "cut".into()
        }
        1 => {
            proxy.damage(way);
            format!("damaged {way:?}")
        }
        2 => {
            proxy.double(true);
            proxy.cut();
            "doubled".into()
        }
        3 => {
            proxy.refuse(true);
            proxy.cut();
            "refused".into()
        }
        4 => {
            proxy.set(way, Faults { stalled: true, ..Faults::default() });
            format!("stalled {way:?}")
        }
        5 => {
            let bandwidth = Some(20_000 + random.below(200_000) as u64);
            proxy.set(way, Faults { bandwidth, ..Faults::default() });
            format!("slow {way:?}")
        }
        _ => {
            let (delay, spread) = (millis(random, 60), millis(random, 200));
            proxy.set(way, Faults { delay, spread, ..Faults::default() });
            format!("late {way:?}")
        }
    }
}

/// Faults by seed on all ways, while two clients write.
async fn weather(test: &str, plan: Plan, rounds: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = Plan { words: rounds * 4_000, ..plan }; // more than numbers
    let mut random = Random::new(test);
    let mut group = Group::start(folder.path(), plan, random.next(), 3).await;
    group.led().await;
    let told = Arc::new(Told::default());
    let rafts: BTreeMap<_, _> =
        group.nodes.iter().map(|(&id, node)| (id, node.raft.clone())).collect();
    let writers: Vec<_> =
        (0..2).map(|seed| tokio::spawn(write(rafts.clone(), Arc::clone(&told), seed))).collect();
    for round in 0..rounds {
        let before = told.acknowledged.lock().expect("no panic").len();
        let mut said = Vec::new();
        let lonely = group.leader().filter(|_| random.below(3) == 0);
        for (&(from, to), proxy) in group.proxies.iter().filter(|((from, to), _)| from != to) {
            if lonely.is_some_and(|leader| leader == from || leader == to) {
                proxy.set(Direction::ToTarget, Faults { stalled: true, ..Faults::default() });
            } else if random.below(2) == 0 {
                said.push(format!("{from} to {to} {}", fault(proxy, &mut random)));
            }
        }
        if let Some(leader) = lonely {
            said.push(format!("{leader}, which leads, is alone"));
        }
        let deaf = 1 + random.below(3) as u64;
        let deafens = random.below(4) == 0;
        if deafens {
            group.deafen(deaf).await;
            said.push(format!("{deaf} is deaf"));
        }
        tokio::time::sleep(Duration::from_millis(300 + random.below(2_500) as u64)).await;
        if deafens {
            group.listen_again(deaf).await;
        }
        group.heal();
        let count = || told.acknowledged.lock().expect("no panic").len();
        let during = count() - before;
        until("writes go on", || count() >= before + during + 3).await;
        let (term, said) = (group.term(), said.join(", "));
        println!("round {round}, term {term}: {during} writes during {said}");
    }
    told.over.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.expect("no panic");
    }
    let words = group.agreed().await;
    let acknowledged = told.acknowledged.lock().expect("no panic").clone();
    for &number in &acknowledged {
        assert_eq!(words[number as usize], 1, "write {number} was acknowledged");
    }
    assert!(words.iter().all(|&count| count <= 1), "a write was applied twice");
    println!("{} writes acknowledged of {:?}", acknowledged.len(), told.next);
    group.end().await;
}

#[test]
fn writes_go_on_in_any_weather() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let rounds = stillframe_peers::rounds(8, 200);
    block_on(weather("writes_go_on_in_any_weather", Plan::default(), rounds));
}

#[test]
fn writes_go_on_in_any_weather_by_tls() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let Some(files) = Certificates::new("writes_go_on_in_any_weather_by_tls") else { return };
    let plan = Plan { tls: Some(files.tls("node", "ca")), ..Plan::default() };
    let rounds = stillframe_peers::rounds(5, 200);
    block_on(weather("writes_go_on_in_any_weather_by_tls", plan, rounds));
}

/// A leader that reaches nobody is replaced, and writes go on; when it is back, it has them.
#[test]
fn a_leader_that_is_alone_is_replaced() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let group = Group::start(folder.path(), Plan::default(), 1, 3).await;
        let alone = group.led().await;
        let still = Faults { stalled: true, ..Faults::default() };
        for (_, proxy) in
            group.proxies.iter().filter(|((from, to), _)| *from == alone || *to == alone)
        {
            proxy.set(Direction::ToTarget, still.clone());
            proxy.set(Direction::ToCaller, still.clone());
        }
        let others: Vec<u64> = (1..=3).filter(|&node| node != alone).collect();
        let (mut next, mut written, started) = (0, Vec::new(), Instant::now());
        while written.len() < 20 {
            for node in &others {
                // A node that does not lead refuses at once.
                let write = group.nodes[node].raft.client_write(command(next, 1_000));
                if let Ok(Ok(_)) = tokio::time::timeout(Duration::from_secs(5), write).await {
                    written.push(next as usize);
                }
                next += 1;
            }
            assert!(started.elapsed() < Duration::from_secs(100), "nobody took its place");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        println!("{} of {next} writes, {:?}", written.len(), started.elapsed());
        group.heal();
        let words = group.agreed().await;
        assert!(written.iter().all(|&number| words[number] == 1));
        group.end().await;
    });
}

/// A follower that takes no bytes and sends none costs the others nothing: no election, and every
/// write is acknowledged; when it is back, it catches up.
#[test]
fn a_stopped_node_costs_the_others_nothing() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let group = Group::start(folder.path(), Plan::calm(), 1, 3).await;
        let leader = group.led().await;
        let stopped = leader % 3 + 1;
        let term = group.term();
        let still = Faults { stalled: true, ..Faults::default() };
        for (_, proxy) in
            group.proxies.iter().filter(|((from, to), _)| *from == stopped || *to == stopped)
        {
            proxy.set(Direction::ToTarget, still.clone());
            proxy.set(Direction::ToCaller, still.clone());
        }
        for number in 0..100 {
            let written = group.nodes[&leader].raft.client_write(command(number, 20_000)).await;
            written.expect("two of three are a majority");
        }
        let states = group.nodes[&leader].network.states();
        assert_eq!(group.nodes[&leader].raft.metrics().borrow().current_term, term);
        let is_told = |state: &crate::LaneState| state.node == stopped && state.error.is_some();
        until("the leader knows", || group.nodes[&leader].network.states().iter().any(is_told))
            .await;
        println!("{states:?}");
        group.heal();
        let words = group.agreed().await;
        assert!(words[..100].iter().all(|&count| count == 1));
        group.end().await;
    });
}

/// The node behind an address says that it is another one; no vote or entry reaches it.
#[test]
fn a_node_in_the_place_of_another_is_refused() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let group = Group::start(folder.path(), Plan::calm(), 1, 3).await;
        let leader = group.led().await;
        let (one, two) = (leader % 3 + 1, (leader + 1) % 3 + 1);
        let address = |node: u64| group.nodes[&node].serving.as_ref().map(Serving::address);
        // The way to one of them leads to the other.
        let proxy = &group.proxies[&(leader, one)];
        proxy.retarget(address(two).expect("it listens"));
        proxy.cut();
        let is = |state: &crate::LaneState| {
            let error = state.error.as_deref();
            state.node == one
                && matches!(error, Some(crate::Error::OtherNode { wanted, found })
                    if (*wanted, *found) == (one, two))
        };
        until("the leader says so", || group.nodes[&leader].network.states().iter().any(is)).await;
        group.end().await;
    });
}
