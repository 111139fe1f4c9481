//! Requests and replies between two nodes.

use openraft::error::RPCError;
use openraft::network::{RPCOption, RaftNetwork};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, VoteRequest,
};
use openraft::{CommittedLeaderId, Entry, EntryPayload, LogId, SnapshotMeta, Vote};
use stillframe_peers::Random;

use super::*;
use crate::proxy::{Direction, Faults};
use crate::{Error, ForwardError};

/// Node 1, which has no group yet, and the network of node 2 with a proxy between them.
struct Pair {
    raft: Raft<Types>,
    counter: Counter,
    network: Network,
    proxy: Proxy,
    serving: Serving,
    /// Requests that have come to node 1.
    taken: Arc<AtomicU64>,
    _folder: tempfile::TempDir,
}

impl Pair {
    async fn start(change: impl Fn(&mut Settings)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = Plan { heartbeat: 100_000, ..Plan::default() };
        let settings = |node| {
            let mut settings = plan.settings(node);
            change(&mut settings);
            settings
        };
        let listener = Listener::bind("127.0.0.1:0", settings(1)).await.expect("a port");
        let proxy = Proxy::start(listener.address(), 1).await.expect("a port");
        let words = stillframe_durability::Options::words(plan.words).load_threads(1);
        let options = Options::<WordState<Counts>>::state(words);
        let (log, counter) = open(folder.path().join("1"), options).expect("sound");
        let network = Network::new(settings(2)).expect("sound");
        let own = Network::new(settings(1)).expect("sound");
        let raft = Raft::new(1, plan.config(), own, log, counter.clone()).await;
        let raft = raft.expect("it starts");
        let taken = Arc::<AtomicU64>::default();
        let takes = Arc::clone(&taken);
        // Waits as many milliseconds as the first two bytes say.
        let serving = listener.serve(raft.clone(), move |from, request: Vec<u8>| {
            takes.fetch_add(1, Ordering::Relaxed);
            async move {
                let wait = request.first_chunk().map_or(0, |wait| u16::from_le_bytes(*wait));
                tokio::time::sleep(Duration::from_millis(wait.into())).await;
                match request.get(2) {
                    Some(b'!') => Err(format!("not for node {}", from.node)),
                    _ => Ok(request),
                }
            }
        });
        Self { raft, counter, network, proxy, serving, taken, _folder: folder }
    }

    fn member(&self) -> Member {
        Member { raft: self.proxy.address().to_string(), client: String::new() }
    }

    async fn forward(&self, request: &[u8], time: u64) -> Result<Vec<u8>, ForwardError> {
        let member = self.member();
        self.network.forward(1, &member, request, Duration::from_millis(time)).await
    }

    async fn link(&self) -> Link {
        let mut network = self.network.clone();
        RaftNetworkFactory::<Types>::new_client(&mut network, 1, &self.member()).await
    }

    async fn end(self) {
        self.serving.stop().await;
        self.raft.shutdown().await.expect("it ends");
    }
}

/// A request that takes `wait` milliseconds.
fn waiting(wait: u16, rest: &[u8]) -> Vec<u8> {
    [&wait.to_le_bytes(), rest].concat()
}

/// Replies come in another order than requests, some too late.
pub(super) async fn replies_find_their_requests(seed: u64) -> Result<(), String> {
    let pair = Pair::start(|_| ()).await;
    let mut random = Random::with_seed(seed);
    pair.forward(&waiting(0, b"first"), 5_000).await.map_err(|error| error.to_string())?;
    let mut calls = Vec::new();
    let pair = Arc::new(pair);
    for number in 0..60u64 {
        let wait = random.below(300) as u16;
        let gives_up = random.below(4) == 0;
        let request = waiting(wait, &[b"number ", &number.to_le_bytes()[..]].concat());
        let pair = Arc::clone(&pair);
        calls.push(tokio::spawn(async move {
            let time = if gives_up { 30 } else { 20_000 };
            match pair.forward(&request, time).await {
                Ok(answer) if answer == request => Ok(()),
                Ok(_) => Err("the answer to another request".to_owned()),
                Err(ForwardError::Timeout) if gives_up => Ok(()),
                Err(error) => Err(error.to_string()),
            }
        }));
    }
    for call in calls {
        call.await.expect("no panic")?;
    }
    let late = || pair.network.states().iter().map(|state| state.late).sum::<u64>();
    until("late replies come and are dropped", || late() > 0).await;
    Arc::into_inner(pair).expect("all calls are done").end().await;
    Ok(())
}

#[test]
fn replies_find_their_requests_and_late_ones_are_dropped() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let mut random = Random::new("replies_find_their_requests");
    block_on(replies_find_their_requests(random.next())).expect("they do");
}

#[test]
fn forwarded_requests_say_what_became_of_them() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(async {
        let pair = Pair::start(|settings| {
            settings.limits.frame_bytes_max = 1 << 20;
            settings.limits.forwards_max = 4;
        })
        .await;
        let large = Random::with_seed(1).bytes((1 << 20) - 2);
        let large = waiting(0, &large[2..]);
        assert!(pair.forward(&large, 5_000).await.expect("it fits") == large);
        let refused = pair.forward(&waiting(0, b"!"), 5_000).await;
        assert!(matches!(&refused, Err(ForwardError::Refused(text)) if text == "not for node 2"));
        let giant = vec![0; (1 << 20) + 1];
        let error = pair.forward(&giant, 5_000).await.expect_err("it does not fit");
        let ForwardError::NotSent(error) = error else { panic!("{error}") };
        assert!(matches!(*error, Error::TooLarge { .. }), "{error}");
        // One more than the listener takes.
        let request = waiting(1_000, b"");
        let many = (0..5).map(|_| pair.forward(&request, 5_000));
        let mut busy = 0;
        for answer in join(many).await {
            match answer {
                Ok(_) => {}
                Err(ForwardError::NotSent(error)) if matches!(*error, Error::Busy) => busy += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(busy, 1);
        // Cut on its way back: nobody knows whether it was answered.
        let request = waiting(60_000, b"");
        let taken = || pair.taken.load(Ordering::Relaxed);
        let before = taken();
        let (lost, ()) = tokio::join!(pair.forward(&request, 100_000), async {
            until("it has come", || taken() > before).await;
            pair.proxy.cut();
        });
        assert!(matches!(lost, Err(ForwardError::Lost(_))), "{lost:?}");
        let error = pair.forward(&waiting(2_000, b""), 100).await.expect_err("too slow");
        assert!(matches!(error, ForwardError::Timeout | ForwardError::NotSent(_)), "{error}");
        pair.end().await;
    });
}

async fn join<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|cx| {
        for (future, done) in futures.iter_mut().zip(&mut done) {
            if done.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(cx)
            {
                *done = Some(value);
            }
        }
        if done.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// A damaged byte of an answer is found.
pub(super) async fn damage_is_found() -> Result<(), String> {
    let pair = Pair::start(|_| ()).await;
    pair.forward(&waiting(0, b""), 5_000).await.map_err(|error| error.to_string())?;
    let request = waiting(0, &Random::with_seed(9).bytes(10_000));
    for way in [Direction::ToTarget, Direction::ToCaller].into_iter().cycle().take(10) {
        until("there is a connection", || pair.network.states()[0].connected).await;
        pair.proxy.damage(way);
        match pair.forward(&request, 20_000).await {
            Ok(answer) if answer == request => {} // a ping was damaged
            Ok(_) => return Err("a damaged answer".into()),
            Err(ForwardError::Lost(_)) => {}
            Err(error) => println!("{way:?}: {error}"),
        }
        let again = |error: ForwardError| println!("{error}");
        while pair.forward(&request, 5_000).await.map_err(again).is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    pair.end().await;
    Ok(())
}

#[test]
fn damaged_bytes_are_found() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(damage_is_found()).expect("they are");
}

fn entries(from: u64, count: u64, bytes: usize) -> Vec<Entry<Types>> {
    let entry = |index: u64| Entry {
        log_id: LogId::new(CommittedLeaderId::new(1, 2), index),
        payload: EntryPayload::Normal(command(index, bytes)),
    };
    (from..from + count).map(entry).collect()
}

fn append(entries: Vec<Entry<Types>>) -> AppendEntriesRequest<Types> {
    let vote = Vote::new_committed(1, 2);
    let prev_log_id = entries.first().and_then(|entry| {
        let index = entry.log_id.index.checked_sub(1)?;
        Some(LogId::new(CommittedLeaderId::new(1, 2), index))
    });
    AppendEntriesRequest { vote, prev_log_id, entries, leader_commit: None }
}

/// An append of many entries arrives in parts, and each says how far it went.
pub(super) async fn appends_are_cut() -> Result<(), String> {
    let pair = Pair::start(|settings| {
        settings.limits.append_bytes_max = 100_000;
        settings.limits.frame_bytes_max = 1 << 20;
    })
    .await;
    let mut link = pair.link().await;
    let option = || RPCOption::new(Duration::from_secs(10));
    let (total, mut next, mut parts) = (100, 0, 0);
    while next < total {
        let request = append(entries(next, total - next, 5_000));
        let reply = link.append_entries(request, option()).await;
        parts += 1;
        match reply.map_err(|error| error.to_string())? {
            AppendEntriesResponse::Success => break,
            AppendEntriesResponse::PartialSuccess(Some(last)) => next = last.index + 1,
            other => return Err(other.to_string()),
        }
    }
    let metrics = pair.raft.metrics().borrow().clone();
    if metrics.last_log_index != Some(total - 1) {
        return Err(format!("the last entry is {:?}", metrics.last_log_index));
    }
    assert!((5..10).contains(&parts), "{parts} parts of at most 100 kB");
    // One that is larger than the part of an append goes alone; one larger than a frame does not.
    let mut large = entries(total, 1, 900_000);
    large.extend(entries(total + 1, 1, 8));
    let reply = link.append_entries(append(large), option()).await.expect("it fits");
    let AppendEntriesResponse::PartialSuccess(Some(last)) = reply else { panic!("{reply}") };
    assert_eq!(last.index, total);
    let giant = link.append_entries(append(entries(total + 1, 1, 2 << 20)), option()).await;
    assert!(matches!(giant, Err(RPCError::Unreachable(_))), "{giant:?}");
    drop(link);
    pair.end().await;
    Ok(())
}

#[test]
fn long_appends_arrive_in_parts() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(appends_are_cut()).expect("they do");
}

/// On a slow connection appends shrink until they arrive in time; heartbeats go beside them.
#[test]
fn appends_shrink_on_a_slow_connection() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(async {
        let pair = Pair::start(|_| ()).await;
        let mut link = pair.link().await;
        let slow = Faults { bandwidth: Some(100_000), ..Faults::default() };
        pair.proxy.set(Direction::ToTarget, slow);
        let (mut next, mut failed, mut waited) = (0, 0, 0);
        let started = Instant::now();
        while next < 200 {
            let option = RPCOption::new(Duration::from_millis(1_000));
            let request = append(entries(next, 200 - next, 2_000));
            match link.append_entries(request, option).await {
                Ok(AppendEntriesResponse::Success) => break,
                Ok(AppendEntriesResponse::PartialSuccess(last)) => {
                    let now = last.map_or(0, |last| last.index + 1);
                    (next, waited) = (now, waited + u64::from(now == next));
                }
                Ok(other) => panic!("{other}"),
                Err(RPCError::Timeout(_)) => failed += 1,
                Err(error) => println!("{error}"),
            }
            let mut heartbeat = pair.link().await;
            let option = RPCOption::new(Duration::from_millis(5_000));
            let beat = heartbeat.append_entries(append(Vec::new()), option).await;
            assert!(matches!(beat, Ok(AppendEntriesResponse::Success)), "{beat:?}");
            assert!(started.elapsed() < Duration::from_secs(100), "it stays at {next}");
        }
        println!("{failed} failed, {waited} waited on, {:?}", started.elapsed());
        pair.end().await;
    });
}

/// An entry that takes many times the time of a call is sent once, and its leader is known to live
/// meanwhile.
pub(super) async fn slow_appends_arrive() -> Result<(), String> {
    let pair = Pair::start(|_| ()).await;
    let mut link = pair.link().await;
    let first = append(entries(0, 1, 10));
    let reply = link.append_entries(first, RPCOption::new(Duration::from_secs(20))).await;
    reply.map_err(|error| error.to_string())?;
    pair.proxy.set(Direction::ToTarget, Faults { bandwidth: Some(300_000), ..Faults::default() });
    let (started, mut waited) = (Instant::now(), 0);
    loop {
        let request = append(entries(1, 1, 1_000_000));
        match link.append_entries(request, RPCOption::new(Duration::from_millis(400))).await {
            Ok(AppendEntriesResponse::Success) => break,
            Ok(AppendEntriesResponse::PartialSuccess(last)) if last == last_id(Some(0)) => {
                waited += 1;
            }
            Ok(other) => return Err(other.to_string()),
            Err(error) => println!("{error}"),
        }
        if started.elapsed() > Duration::from_secs(25) {
            return Err("an entry of 1 MB does not arrive at 300 kB a second".into());
        }
    }
    println!("after {:?}, waited on {waited} times", started.elapsed());
    assert!(waited > 0, "openraft was told that the node hears of its leader");
    drop(link);
    pair.end().await;
    Ok(())
}

#[test]
fn an_append_that_is_under_way_is_waited_for() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(slow_appends_arrive()).expect("it arrives");
}

/// The first entry of a log is no success before it has arrived: openraft panics at a success with
/// nothing.
#[test]
fn a_slow_first_entry_is_no_success_with_nothing() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(async {
        let pair = Pair::start(|_| ()).await;
        let mut link = pair.link().await;
        pair.proxy
            .set(Direction::ToTarget, Faults { bandwidth: Some(300_000), ..Faults::default() });
        let (started, mut waited) = (Instant::now(), 0);
        loop {
            let request = append(entries(0, 1, 1_000_000));
            match link.append_entries(request, RPCOption::new(Duration::from_millis(400))).await {
                Ok(AppendEntriesResponse::Success) => break,
                Ok(other) => panic!("{other}"),
                Err(RPCError::Timeout(_)) => waited += 1,
                Err(error) => println!("{error}"),
            }
            assert!(started.elapsed() < Duration::from_secs(100), "it does not arrive");
        }
        assert!(waited > 0, "it was waited for");
        drop(link);
        pair.end().await;
    });
}

/// More than all that nodes say before their first request.
const SMALL_BYTES: u64 = 10_000;

/// While a chunk of a snapshot takes its time, votes and heartbeats pass.
pub(super) async fn heartbeats_pass() -> Result<(), String> {
    let pair = Pair::start(|_| ()).await;
    let mut link = pair.link().await;
    // Its first piece takes 20 seconds.
    pair.proxy.set(Direction::ToTarget, Faults { bandwidth: Some(3_000), ..Faults::default() });
    let chunk = tokio::spawn(async move {
        let request = InstallSnapshotRequest::<Types> {
            vote: Vote::new_committed(1, 2),
            meta: SnapshotMeta::default(),
            offset: 0,
            data: vec![7; 4_000_000],
            done: false,
        };
        let option = RPCOption::new(Duration::from_secs(100));
        link.install_snapshot(request, option).await
    });
    until("the chunk is under way", || pair.proxy.arrived(Direction::ToTarget) > SMALL_BYTES).await;
    let mut link = pair.link().await;
    for _ in 0..8 {
        let option = RPCOption::new(Duration::from_secs(20));
        let beat = link.append_entries(append(Vec::new()), option).await;
        beat.map_err(|error| error.to_string())?;
    }
    if chunk.is_finished() {
        return Err("the chunk was quicker than heartbeats".into());
    }
    chunk.abort();
    pair.end().await;
    Ok(())
}

#[test]
fn heartbeats_pass_a_snapshot() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(heartbeats_pass()).expect("they do");
}

/// While a large request takes its time, small ones pass.
pub(super) async fn questions_pass() -> Result<(), String> {
    let pair = Pair::start(|_| ()).await;
    // It takes 20 minutes.
    pair.proxy.set(Direction::ToTarget, Faults { bandwidth: Some(3_000), ..Faults::default() });
    let (network, member) = (pair.network.clone(), pair.member());
    let large = tokio::spawn(async move {
        let request = waiting(0, &vec![7; 4_000_000]);
        network.forward_bulk(1, &member, &request, Duration::from_secs(2_000)).await
    });
    until("it is under way", || pair.proxy.arrived(Direction::ToTarget) > SMALL_BYTES).await;
    for _ in 0..8 {
        let answer = pair.forward(&waiting(0, b"?"), 20_000).await;
        answer.map_err(|error| error.to_string())?;
    }
    if large.is_finished() {
        return Err("the large request was quicker than small ones".into());
    }
    large.abort();
    pair.end().await;
    Ok(())
}

#[test]
fn small_requests_pass_a_large_one() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(questions_pass()).expect("they do");
}

/// A peer that takes bytes and says nothing is given up, and reached again when it speaks.
pub(super) async fn silence_ends() -> Result<(), String> {
    let pair = Pair::start(|_| ()).await;
    pair.forward(&waiting(0, b""), 5_000).await.map_err(|error| error.to_string())?;
    pair.proxy.set(Direction::ToCaller, Faults { stalled: true, ..Faults::default() });
    let started = Instant::now();
    let error = pair.forward(&waiting(0, b"x"), 15_000).await.expect_err("nothing comes back");
    let ForwardError::Lost(error) = error else { return Err(error.to_string()) };
    assert!(matches!(*error, Error::Silent), "{error}");
    println!("given up after {:?}", started.elapsed());
    pair.proxy.heal();
    pair.proxy.cut();
    while pair.forward(&waiting(0, b""), 5_000).await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // A request that takes longer than the silence is waited for: pings are answered.
    let answer = pair.forward(&waiting(3_000, b""), 20_000).await;
    answer.map_err(|error| error.to_string())?;
    pair.end().await;
    Ok(())
}

#[test]
fn a_silent_peer_is_given_up_and_a_slow_answer_is_not() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(silence_ends()).expect("it is");
}

/// Votes fail at once where nobody listens, and in time where nobody answers; openraft gets the
/// errors that make it wait or not.
#[test]
fn errors_are_those_that_openraft_knows() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(async {
        let pair = Pair::start(|_| ()).await;
        let vote = || VoteRequest::<u64>::new(Vote::new(1, 2), None);
        let call = async |link: &mut Link, millis| {
            let option = RPCOption::new(Duration::from_millis(millis));
            RaftNetwork::<Types>::vote(link, vote(), option).await
        };
        let mut link = pair.link().await;
        call(&mut link, 5_000).await.expect("it votes");
        pair.proxy.set(Direction::ToCaller, Faults { stalled: true, ..Faults::default() });
        let error = call(&mut link, 100).await.expect_err("nothing comes back");
        let RPCError::Timeout(timeout) = &error else { panic!("{error}") };
        assert_eq!((timeout.id, timeout.target, timeout.timeout.as_millis()), (2, 1, 100));
        pair.proxy.heal();
        pair.proxy.refuse(true);
        pair.proxy.cut();
        until("it is not reached", || pair.network.states().iter().all(|state| !state.connected))
            .await;
        let error = call(&mut link, 5_000).await.expect_err("nobody is there");
        assert!(matches!(error, RPCError::Unreachable(_)), "{error}");
        pair.proxy.heal();
        while call(&mut link, 5_000).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        pair.raft.shutdown().await.expect("it ends");
        let error = call(&mut link, 5_000).await.expect_err("raft has ended");
        let RPCError::RemoteError(remote) = &error else { panic!("{error}") };
        assert_eq!(remote.target, 1);
        // A vote in the name of another node is not believed.
        let option = RPCOption::new(Duration::from_millis(5_000));
        let foreign = VoteRequest::new(Vote::new(9, 3), None);
        let error = RaftNetwork::<Types>::vote(&mut link, foreign, option).await;
        assert!(matches!(error, Err(RPCError::Network(_))), "{error:?}");
        assert!(pair.counter.read(|_| ()).is_ok());
    });
}

fn last_id(index: Option<u64>) -> Option<LogId<u64>> {
    Some(LogId::new(CommittedLeaderId::new(1, 2), index?))
}
