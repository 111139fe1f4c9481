//! Members on sockets, with loops that keep no data, and connections that are cut by purpose.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

use openraft::{CommittedLeaderId, Membership, StoredMembership};
use stillframe_raft_net::{Door, Id, Soon, Stream};
use stillframe_server::consensus::Applied;
use stillframe_storage::wake;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::*;
use crate::identity::Owned;
use crate::{offline, received};

const DUMP: &str = "dump.rdb";
const TIMEOUT_MS: u64 = 500;
/// The byte of a handshake that says what the connection is for; of questions.
const LANE: (usize, u8) = (32, 3);

/// Which connections are cut: of which node to which, by whether they are for questions.
type Cut = BTreeSet<(u64, u64, bool)>;

/// What the carriers of all members share.
#[derive(Debug, Default)]
struct Links {
    /// Where each member really listens.
    places: Mutex<BTreeMap<u64, SocketAddr>>,
    cut: Mutex<Cut>,
}

impl Links {
    fn cut(&self) -> MutexGuard<'_, Cut> {
        self.cut.lock().expect("no panic")
    }

    fn is_cut(&self, link: (u64, u64, bool)) -> io::Result<()> {
        if self.cut().contains(&link) { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }
}

/// Sockets of a member. The port of member 1 is 1, wherever it listens.
#[derive(Debug)]
struct Wires {
    of: u64,
    links: Arc<Links>,
    sockets: Arc<dyn Carrier>,
}

impl Carrier for Wires {
    fn look_up<'c>(&'c self, _: &'c str, port: u16) -> Soon<'c, Vec<SocketAddr>> {
        Box::pin(async move { Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]) })
    }

    fn connect(&self, to: SocketAddr) -> Soon<'_, Stream> {
        Box::pin(async move {
            let to = u64::from(to.port());
            let place = self.links.places.lock().expect("no panic").get(&to).copied();
            let place = place.ok_or(io::ErrorKind::ConnectionRefused)?;
            let (stream, links) = (self.sockets.connect(place).await?, Arc::clone(&self.links));
            Ok(Box::new(Wire { stream, links, link: (self.of, to, None) }) as Stream)
        })
    }

    fn listen<'c>(&'c self, at: &'c [SocketAddr]) -> Soon<'c, Box<dyn Door>> {
        Box::pin(async move {
            let door = self.sockets.listen(&[([127, 0, 0, 1], 0).into()]).await?;
            let (member, place) = (u64::from(at[0].port()), door.address()?);
            self.links.places.lock().expect("no panic").insert(member, place);
            Ok(door)
        })
    }
}

/// A connection, and what it is for once that was written.
struct Wire {
    stream: Stream,
    links: Arc<Links>,
    link: (u64, u64, Option<bool>),
}

impl Wire {
    fn check(&self) -> io::Result<()> {
        let (from, to, is_for_questions) = self.link;
        is_for_questions.map_or(Ok(()), |it| self.links.is_cut((from, to, it)))
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.check())
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // The handshake is written at once.
        let is_for_questions = bytes.get(LANE.0).is_some_and(|&lane| lane == LANE.1);
        self.link.2.get_or_insert(is_for_questions);
        self.check()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

fn peer(id: u64) -> Peer {
    Peer { id, raft: format!("127.0.0.1:{id}"), client: format!("127.0.0.1:{}", id + 1000) }
}

/// Members whose threads are those of a runtime.
struct World {
    runtime: Runtime,
    folder: tempfile::TempDir,
    links: Arc<Links>,
    members: BTreeMap<u64, (Box<dyn Consensus>, View)>,
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let (links, members) = Default::default();
        let folder = tempfile::tempdir().expect("a folder");
        Self { runtime: runtime.expect("threads"), folder, links, members }
    }

    fn directory(&self, id: u64) -> std::path::PathBuf {
        self.folder.path().join(id.to_string())
    }

    /// A directory with a dump from which these begin a group that has no id, as earlier versions
    /// have made it.
    fn begin_without_id(&self, id: u64, voters: &[u64]) -> Vec<u8> {
        let directory = self.directory(id);
        let nodes: BTreeMap<u64, Member> =
            voters.iter().map(|&id| (id, member(&peer(id)))).collect();
        let applied = Some(LogId::new(CommittedLeaderId::new(0, 0), 1));
        let membership = Membership::new(vec![voters.iter().copied().collect()], nodes);
        let membership = StoredMembership::new(applied, membership);
        let label =
            Label { applied, membership, ..Label::default() }.encode().expect("it is encoded");
        let mut config = stillframe_server::Config::default();
        config.set("dir", &[directory.display().to_string()]).expect("a setting");
        config.label_dump(label.clone());
        let empty = self.folder.path().join("empty.rdb");
        std::fs::write(&empty, b"REDIS0009\xff\0\0\0\0\0\0\0\0").expect("it is written");
        stillframe_server::import(&empty, config, false).expect("it is made");
        offline::begin_group(&directory, DUMP, "some group", id).expect("it begins");
        label
    }

    fn start(&mut self, id: u64, peers: &[u64], label: Option<Vec<u8>>) {
        let directory = self.directory(id);
        std::fs::create_dir_all(&directory).expect("a folder");
        let settings = Settings {
            id,
            listen: peer(id).raft,
            peers: peers.iter().map(|&id| peer(id)).collect(),
            joins: peers.is_empty(),
            group: "some group".into(),
            election_timeout_ms: TIMEOUT_MS,
            entries_per_image: 1 << 32,
            entries_kept: 1 << 32,
            log_min_bytes: 1 << 32,
            image_rate: 0,
            tls: None,
        };
        let sockets = NetSettings::new(id, "some group").carrier;
        let carrier = Arc::new(Wires { of: id, links: Arc::clone(&self.links), sockets });
        let files = Arc::new(Directory::existing(&directory).expect("it is there"));
        let begin = Begin { settings, files, dump: DUMP.into(), label, wake: wake::nobody() };
        let started = start_on(self.runtime.handle(), carrier, begin);
        self.members.insert(id, (started.expect("it starts"), View::default()));
    }

    /// Answers members until something is so.
    fn wait_until(&mut self, what: &str, is: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is(self) {
            assert!(began.elapsed() < Duration::from_secs(60), "waited for: {what}");
            for (id, (node, view)) in &mut self.members {
                while let Some(event) = node.next_event() {
                    answer(event, &self.folder.path().join(id.to_string()), view);
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Has a member change the group.
    fn change(&mut self, at: u64, change: Change) -> Result<(), String> {
        let (said, heard) = channel();
        let (node, _) = self.members.get_mut(&at).expect("it runs");
        node.change(change, Box::new(move |answer| drop(said.send(answer))));
        let answer = Mutex::new(None);
        self.wait_until("the group is changed", |_| {
            let mut answer = answer.lock().expect("no panic");
            *answer = answer.take().or_else(|| heard.try_recv().ok());
            answer.is_some()
        });
        answer.into_inner().expect("no panic").expect("it was awaited")
    }

    fn leader(&self) -> Option<u64> {
        let leads = |(id, (_, view)): (&u64, &(_, View))| (view.leader == Some(*id)).then_some(*id);
        self.members.iter().find_map(leads)
    }

    fn group_of(&self, id: u64) -> Option<Id> {
        let files = Directory::existing(self.directory(id)).expect("it is there");
        Owned::read(&files).expect("it is whole").group
    }
}

/// What a loop without data says.
fn answer(event: Event, directory: &Path, view: &mut View) {
    match event {
        Event::Apply(_, reply) => reply(Applied::All),
        Event::Image { begun, .. } => begun(Err("none is taken".into())),
        Event::Reload { install, done } => {
            install.map_or(Ok(()), |install| install()).expect("it is put in place");
            let files = Directory::existing(directory).expect("it is there");
            let label = received::check(&files, DUMP).expect("it is whole");
            done(Ok(Some(label.encode().expect("it is encoded"))));
        }
        Event::Messages(_, reply) => reply(()),
        Event::View(now) => *view = now,
        Event::Confirmed { .. } => {}
        Event::Failed(why) => panic!("{why}"),
    }
}

/// While one of the members is of a version that knows no ids, the group has none. Who was without
/// data when it was taken in is no stranger when the id comes, though it is cut off just then.
#[test]
fn who_joins_a_group_without_an_id_stays_in_it() {
    let mut world = World::new();
    // What asks for the id does not pass between those two: as if one did not know the question.
    world.links.cut().extend([(1, 2, true), (2, 1, true)]);
    for id in [1, 2] {
        let label = world.begin_without_id(id, &[1, 2]);
        world.start(id, &[1, 2], Some(label));
    }
    world.wait_until("one leads", |it| it.leader().is_some());
    world.start(3, &[], None);
    let leader = world.leader().expect("it was awaited");
    assert_eq!(world.change(leader, Change::Add(peer(3))), Ok(()));
    assert_eq!([1, 2, 3].map(|id| world.group_of(id)), [None; 3], "the group has no id");
    // From now on the id may come, and the new member hears nothing but questions.
    let off = [(1, 3, false), (2, 3, false), (3, 1, false), (3, 2, false)];
    *world.links.cut() = Cut::from(off);
    world.wait_until("two know the id", |it| [1, 2].iter().all(|&id| it.group_of(id).is_some()));
    assert_eq!(world.group_of(3), None, "it was cut off");
    // The one that it has met leads no more, and is not there.
    let next = 3 - leader;
    assert_eq!(world.change(leader, Change::Transfer(next)), Ok(()));
    let away =
        |id| [(leader, id, false), (leader, id, true), (id, leader, false), (id, leader, true)];
    *world.links.cut() = Cut::from(away(3));
    world.wait_until("it learns the id", |it| it.group_of(3) == it.group_of(next));
}
