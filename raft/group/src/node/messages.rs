//! Messages of clients for the subscribers of the other members.
//!
//! - They go by the members' network and not by the log, as by the bus of a Redis cluster: nobody
//!   is promised that a message comes, so none waits for a disk or a majority.
//! - A task for each member sends what has come meanwhile as one question, in order, and waits for
//!   its answer: so no member gets more than it can deliver. For one that is too slow, messages are
//!   dropped; to one that is out of reach, none is kept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stillframe_raft_net::Member;
use stillframe_server::consensus::Message;
use tokio::sync::mpsc as channel;

use super::Running;
use super::questions::{Question, WireMessage};

/// Bytes of messages that wait for one member; beyond, they are dropped.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Bytes of messages that are sent at once.
const SENT_BYTES: usize = 256 << 10;

/// Messages that wait for the other members.
#[derive(Default)]
pub(super) struct Messages(BTreeMap<u64, Outbox>);

/// Messages that wait for one member. Its task ends with it.
struct Outbox {
    member: Member,
    queue: channel::UnboundedSender<Arc<WireMessage>>,
    waiting: Arc<AtomicUsize>,
    /// Messages were dropped since it last had room.
    drops: bool,
}

impl Messages {
    /// Has a message sent to all other members.
    pub(super) fn pass_on(&mut self, node: &Running, message: Message) {
        let message = Arc::new(WireMessage::from(message));
        let metrics = node.raft.metrics();
        let metrics = metrics.borrow();
        let known = metrics.membership_config.membership();
        self.0.retain(|id, outbox| known.get_node(id) == Some(&outbox.member));
        for (&id, member) in known.nodes().filter(|(id, _)| **id != node.id) {
            self.0.entry(id).or_insert_with(|| Outbox::open(node, id, member)).put(id, &message);
        }
    }
}

impl Outbox {
    fn open(node: &Running, id: u64, member: &Member) -> Self {
        let (queue, queued) = channel::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        tokio::spawn(send(node.clone(), id, member.clone(), queued, Arc::clone(&waiting)));
        Self { member: member.clone(), queue, waiting, drops: false }
    }

    fn put(&mut self, id: u64, message: &Arc<WireMessage>) {
        // Only a bound: nothing is read by it.
        if self.waiting.load(Ordering::Relaxed) > WAITING_BYTES_MAX {
            if !std::mem::replace(&mut self.drops, true) {
                tracing::warn!("member {id} takes messages too slowly: some are dropped");
            }
            return;
        }
        self.drops = false;
        self.waiting.fetch_add(message.bytes(), Ordering::Relaxed);
        let _ = self.queue.send(Arc::clone(message)); // its task ends with this
    }
}

/// Sends what is queued for a member.
async fn send(
    node: Running,
    id: u64,
    member: Member,
    mut queued: channel::UnboundedReceiver<Arc<WireMessage>>,
    waiting: Arc<AtomicUsize>,
) {
    while let Some(first) = queued.recv().await {
        let mut bytes = first.bytes();
        let mut batch = vec![WireMessage::clone(&first)];
        while bytes < SENT_BYTES
            && let Ok(next) = queued.try_recv()
        {
            bytes += next.bytes();
            batch.push(WireMessage::clone(&next));
        }
        let count = batch.len();
        if let Err(why) = node.ask(id, &member, &Question::Deliver(batch)).await {
            tracing::debug!("{count} messages are lost: {why}");
        }
        waiting.fetch_sub(bytes, Ordering::Relaxed);
    }
}
