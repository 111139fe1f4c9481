//! Several commands in one entry.
//!
//! openraft 0.9 waits for the disk after each entry of its leader, one by one: with a sync of a
//! millisecond that is a thousand entries a second, however many clients ask. So commands that come
//! while an entry is on its way go into the next one together, as in a group commit.

use std::fmt::Debug;

use openraft::error::{ClientWriteError, RaftError};
use openraft::impls::OneshotResponder;
use openraft::{AppData, AppDataResponse, Raft, RaftTypeConfig};
use tokio::sync::{mpsc, oneshot};

use crate::words::{Machine, Words};

/// Applies the commands of an entry one after the other: for a configuration with `D = Vec<Q>` and
/// `R = Vec<A>`.
#[derive(Debug)]
pub struct Batched<M>(M);

impl<M: Machine> Machine for Batched<M> {
    type Command = Vec<M::Command>;
    type Reply = Vec<M::Reply>;

    fn open(words: &mut Words<'_>) -> Self {
        Self(M::open(words))
    }

    fn apply(&mut self, words: &mut Words<'_>, commands: Vec<M::Command>) -> Vec<M::Reply> {
        commands.into_iter().map(|command| self.0.apply(words, command)).collect()
    }
}

impl<M> Batched<M> {
    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &M {
        &self.0
    }
}

/// Why a command is not known to be applied: for a client that was sent elsewhere, the leader is in
/// it.
pub type WriteError<C> = RaftError<
    <C as RaftTypeConfig>::NodeId,
    ClientWriteError<<C as RaftTypeConfig>::NodeId, <C as RaftTypeConfig>::Node>,
>;

type Answer<C, A> = oneshot::Sender<Result<A, WriteError<C>>>;

/// Writes commands, several in one entry. Clones share their entries.
pub struct Writer<C: RaftTypeConfig, Q, A> {
    queue: mpsc::Sender<(Q, Answer<C, A>)>,
}

impl<C: RaftTypeConfig, Q, A> Clone for Writer<C, Q, A> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone() }
    }
}

impl<C: RaftTypeConfig, Q, A> Debug for Writer<C, Q, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl<C, Q, A> Writer<C, Q, A>
where
    C: RaftTypeConfig<D = Vec<Q>, R = Vec<A>, Responder = OneshotResponder<C>>,
    Q: AppData,
    A: AppDataResponse,
{
    /// Writes by way of `raft`, `most` commands in an entry at most. A task of the runtime that
    /// this is called on does it, as long as there is a clone.
    #[must_use]
    pub fn new(raft: Raft<C>, most: usize) -> Self {
        let most = most.max(1);
        let (queue, asked) = mpsc::channel(most);
        tokio::spawn(serve(raft, asked, most));
        Self { queue }
    }

    /// Returns what applying the command returned, once it is durable on a majority and applied
    /// here.
    ///
    /// # Errors
    /// [`WriteError`], as `Raft::client_write` has it.
    pub async fn write(&self, command: Q) -> Result<A, WriteError<C>> {
        let stopped = || RaftError::Fatal(openraft::error::Fatal::Stopped);
        let (answer, answered) = oneshot::channel();
        self.queue.send((command, answer)).await.map_err(|_| stopped())?;
        answered.await.unwrap_or_else(|_| Err(stopped()))
    }
}

async fn serve<C, Q, A>(raft: Raft<C>, mut asked: mpsc::Receiver<(Q, Answer<C, A>)>, most: usize)
where
    C: RaftTypeConfig<D = Vec<Q>, R = Vec<A>, Responder = OneshotResponder<C>>,
    Q: AppData,
    A: AppDataResponse,
{
    let mut batch = Vec::with_capacity(most);
    while asked.recv_many(&mut batch, most).await > 0 {
        let (commands, answers): (Vec<Q>, Vec<_>) = batch.drain(..).unzip();
        match raft.client_write(commands).await {
            // Who asked may have gone.
            Ok(done) => answers.into_iter().zip(done.data).for_each(|(answer, reply)| {
                let _ = answer.send(Ok(reply));
            }),
            Err(error) => answers.into_iter().for_each(|answer| {
                let _ = answer.send(Err(error.clone()));
            }),
        }
    }
}
