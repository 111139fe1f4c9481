//! What the event loop and the consensus of a group say to each other.
//!
//! - The loop is the one writer. A leader runs a request first and proposes its effects; the reply
//!   waits until they are committed. So the memory of a leader may be ahead of the log.
//! - Each batch of effects has a *stamp*, which rises, and the reign in which it was proposed. A
//!   batch that is committed in another reign counts for nobody: what was proposed in a reign is
//!   committed as a prefix, or is lost.
//! - A batch is small, so that it travels in a fraction of a heartbeat; a unit that is larger has
//!   parts in several.
//! - The consensus lives on threads of its own. It sends [`Event`]s and wakes the loop; the loop
//!   answers each by its reply. Events come in the order of the log.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use stillframe_durability::disk::Directory;
use stillframe_storage::wake::Wake;

/// The file that says of which member a data directory is.
pub const MEMBER_FILE: &str = "raft-member";

/// A member of a group, as the loop sees it.
pub trait Consensus: Send {
    /// Puts a batch of effects behind those before. Whether it comes to count is seen by the
    /// entries that are applied.
    fn propose(&mut self, batch: Batch);

    /// Asks the group whether this member still leads it. [`Event::Confirmed`] has the answer.
    fn confirm(&mut self, stamp: u64);

    /// The next event, if there is one.
    fn next_event(&mut self) -> Option<Event>;

    /// Passes a message on to the subscribers of the other members, each at most once: who is out
    /// of reach or too slow misses it.
    fn publish(&mut self, message: Message);

    /// Tells at once, or now and then, how far the other members are.
    fn report_progress(&mut self, closely: bool);

    /// Asks for an image soon; [`Event::Image`] follows unless one is under way.
    fn take_image(&mut self);

    /// Bytes of the log in memory.
    fn log_memory(&self) -> u64;

    /// Changes who belongs to the group, or who leads it.
    fn change(&mut self, change: Change, answer: Reply<Result<(), String>>);

    /// Leaves: nothing is proposed or applied from now on, and all that was acknowledged is on the
    /// disk.
    fn stop(&mut self);
}

/// Starts a member, when the data is loaded.
pub type Start = Box<dyn FnOnce(Begin) -> Result<Box<dyn Consensus>, String>>;

/// What a member starts with.
pub struct Begin {
    /// Its number and addresses, as the settings have them.
    pub settings: Settings,
    /// The data directory, which this process holds.
    pub files: Arc<Directory>,
    /// The name of the dump file in it.
    pub dump: String,
    /// The label of the dump that was loaded.
    pub label: Option<Vec<u8>>,
    /// Wakes the loop.
    pub wake: Wake,
}

/// The settings of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The number of this member.
    pub id: u64,
    /// Where it hears the others: HOST:PORT.
    pub listen: String,
    /// The members that begin the group.
    pub peers: Vec<Peer>,
    /// The group is there already, and takes this member in.
    pub joins: bool,
    /// The name of the group: members of another are refused.
    pub group: String,
    /// How long a leader may be silent, in milliseconds.
    pub election_timeout_ms: u64,
    /// An image is taken after so many entries.
    pub entries_per_image: u64,
    /// Entries that stay behind an image, for members that lag.
    pub entries_kept: u64,
    /// An image is asked for when the log has so many bytes, and as many as the last image.
    pub log_min_bytes: u64,
    /// Most bytes of images a second that are sent to other members; 0: as fast as they go.
    pub image_rate: u64,
    /// Files of mutual TLS between members: certificate, key, authority.
    pub tls: Option<[String; 3]>,
}

/// A member at the start of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its number.
    pub id: u64,
    /// Where the others reach it: HOST:PORT.
    pub raft: String,
    /// Where clients reach it: HOST:PORT.
    pub client: String,
}

/// The time in which one member leads. Later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reign {
    /// The term.
    pub term: u64,
    /// Who leads.
    pub leader: u64,
}

/// Effects that are proposed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The reign of the member that proposes them.
    pub reign: Reign,
    /// Which batch it is. Those that share a unit follow one another.
    pub stamp: u64,
    /// Its end is in the middle of a unit, which goes on in the next batch. A unit counts when its
    /// last part is applied, and never if another reign begins before.
    pub splits_unit: bool,
    /// Units as the log has them, each behind its length in bytes (four, little-endian).
    pub units: Vec<u8>,
}

/// Answers an event, once.
pub type Reply<T> = Box<dyn FnOnce(T) + Send>;

/// Says how an image begins: the last batch in memory that is not applied, by reign and stamp; or
/// why no image begins.
pub type Begun = Reply<Result<Option<(Reign, u64)>, String>>;

/// Ends a wait, once.
pub type GiveUp = Box<dyn FnOnce() + Send>;

/// What has happened in the group.
pub enum Event {
    /// Entries are committed: apply them, in this order.
    Apply(Vec<Entry>, Reply<Applied>),
    /// Begin an image of memory as it is now.
    Image {
        /// Comes when all that is in memory now is committed, which takes this loop; never, if the
        /// sender goes before.
        label: Receiver<Vec<u8>>,
        /// Ends the wait for the label: it will not be known.
        give_up: GiveUp,
        /// The answer.
        begun: Begun,
        /// The image is the dump, or why it is not.
        done: Reply<Result<(), String>>,
    },
    /// Drop the data and load the dump, behind what `install` does to it. The reply is its label.
    Reload {
        /// Puts a dump that came from another member in place.
        install: Option<Box<dyn FnOnce() -> Result<(), String> + Send>>,
        /// When the data is that of the dump, or why it is not.
        done: Reply<Result<Option<Vec<u8>>, String>>,
    },
    /// Clients of another member have published messages; the reply asks for more.
    Messages(Vec<Message>, Reply<()>),
    /// What is known of the group has changed.
    View(View),
    /// An answer for all stamps up to this one.
    Confirmed {
        /// The stamp.
        stamp: u64,
        /// The reign in which this member led when it was asked. One that has lost the lead and won
        /// it again has seen nothing of what came between.
        reign: Option<Reign>,
    },
    /// This member can do no more, for a reason: its log has failed, say.
    Failed(String),
}

/// A published message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// By SPUBLISH.
    pub is_sharded: bool,
    /// The channel.
    pub channel: Vec<u8>,
    /// What is said.
    pub payload: Vec<u8>,
}

/// A committed entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The reign in which it came into the log.
    pub reign: Reign,
    /// Its index in the log.
    pub index: u64,
    /// What it is.
    pub content: Content,
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The first of its reign.
    First,
    /// Effects.
    Batch(Batch),
    /// Nothing for the data.
    Other,
}

/// How far entries were applied.
#[derive(Debug, PartialEq, Eq)]
pub enum Applied {
    /// All of them.
    All,
    /// All but so many at the end: memory has batches that the first of these shows to be lost. It
    /// must be loaded anew first.
    Diverged(usize),
    /// One cannot be applied, for a reason.
    Refused(String),
}

/// A change of the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Takes in a member.
    Add(Peer),
    /// Lets go of one.
    Remove(u64),
    /// Has another member lead.
    Transfer(u64),
}

/// The group, as far as a member knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// This member.
    pub id: u64,
    /// The term.
    pub term: u64,
    /// Who leads in that term.
    pub leader: Option<u64>,
    /// A leader has heard of most members of late; true for the others.
    pub has_quorum: bool,
    /// This member is a leader, candidate, follower or learner.
    pub role: &'static str,
    /// The members.
    pub members: Vec<MemberView>,
    /// A change of those who vote has begun and not ended.
    pub changes: bool,
    /// Index of the last entry in the log.
    pub last: u64,
    /// Index of the last entry applied.
    pub applied: u64,
    /// Index of the last entry in the newest image.
    pub image: u64,
    /// The last entry that the log no longer has; 0: it has all.
    pub purged: u64,
    /// How often this member stood for election.
    pub elections: u64,
}

/// A member of a group, as another knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberView {
    /// Number and addresses.
    pub peer: Peer,
    /// It votes.
    pub votes: bool,
    /// False if a leader has lost the connection to it.
    pub reachable: bool,
    /// Index of the last entry that it has, as its leader knows.
    pub matched: Option<u64>,
}

impl View {
    /// Whether this server leads.
    #[inline]
    pub(crate) fn leads(&self) -> bool {
        self.leader == Some(self.id)
    }

    /// The member with this number.
    pub(crate) fn member(&self, id: u64) -> Option<&MemberView> {
        self.members.iter().find(|member| member.peer.id == id)
    }

    /// Whether a member answers, as far as is known here.
    pub(crate) fn answers(&self, member: &MemberView) -> bool {
        member.peer.id == self.id || member.reachable
    }
}

impl MemberView {
    /// Its number.
    pub(crate) fn id(&self) -> u64 {
        self.peer.id
    }

    /// The host at which clients reach it.
    pub(crate) fn host(&self) -> &str {
        address(&self.peer.client).map_or("", |(host, _)| host)
    }

    /// The port at which clients reach it.
    pub(crate) fn port(&self) -> u16 {
        address(&self.peer.client).map_or(0, |(_, port)| port)
    }

    /// The port at which members reach it.
    pub(crate) fn raft_port(&self) -> u16 {
        address(&self.peer.raft).map_or(0, |(_, port)| port)
    }

    /// The last entry that it is known to have, which it applies.
    pub(crate) fn applied(&self) -> u64 {
        self.matched.unwrap_or(0)
    }
}

/// Reads `HOST:PORT`; an IPv6 host loses its brackets.
pub(crate) fn address(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|&port| port > 0)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then_some((host, port))
}
