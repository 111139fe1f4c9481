//! What was recorded: operations with their times.

use std::fmt::{self, Display, Formatter};
use std::time::Instant;

use crate::call::{Call, Reply};

/// What a client knows of its call in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It came back.
    Returned {
        /// When, in nanoseconds of the recorder.
        at: u64,
        /// A reply for each command.
        replies: Vec<Reply>,
    },
    /// It surely had no effect and never will.
    Failed,
    /// Nobody knows: it may have its effect at any time after its invocation, or never.
    Unknown,
}

/// A call of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Who called.
    pub client: usize,
    /// What was called.
    pub call: Call,
    /// When, in nanoseconds of the recorder.
    pub invoked: u64,
    /// What came of it.
    pub outcome: Outcome,
}

impl Operation {
    /// A call from `invoked` to `at`, and its replies, or how it ended without.
    ///
    /// A call that has waited and found nothing says what was so at the end of its wait, so it
    /// counts as invoked shortly before that.
    #[must_use]
    pub fn ended(
        client: usize,
        call: Call,
        mut invoked: u64,
        at: u64,
        result: Result<Vec<Reply>, Outcome>,
    ) -> Self {
        if result.as_ref().is_ok_and(|replies| replies[..] == [Reply::Nothing]) {
            // The server may look at its clock some time before it waits.
            let wait = call.wait() * 3 / 4;
            invoked = at.min(invoked + u64::try_from(wait.as_nanos()).expect("a short wait"));
        }
        let outcome = match result {
            Ok(replies) => Outcome::Returned { at, replies },
            Err(outcome) => outcome,
        };
        Self { client, call, invoked, outcome }
    }

    /// Its replies, if it came back.
    #[must_use]
    pub fn replies(&self) -> Option<&[Reply]> {
        match &self.outcome {
            Outcome::Returned { replies, .. } => Some(replies),
            Outcome::Failed | Outcome::Unknown => None,
        }
    }

    /// When it came back.
    pub(crate) fn returned(&self) -> Option<u64> {
        match self.outcome {
            Outcome::Returned { at, .. } => Some(at),
            Outcome::Failed | Outcome::Unknown => None,
        }
    }
}

/// One line for people.
impl Display for Operation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ms = |time: u64| format!("{}.{:03}", time / 1_000_000, time / 1000 % 1000);
        let from = ms(self.invoked);
        let to = self.returned().map_or_else(|| "?".to_owned(), ms);
        write!(f, "client {:<3} {from:>10} to {to:>10} ms  {}", self.client, self.call)?;
        match &self.outcome {
            Outcome::Failed => write!(f, " -> failed"),
            Outcome::Unknown => write!(f, " -> unknown"),
            Outcome::Returned { replies, .. } => {
                let replies: Vec<_> = replies.iter().map(Reply::to_string).collect();
                write!(f, " -> {}", replies.join("; "))
            }
        }
    }
}

/// One clock for all clients, and the operations of one of them.
#[derive(Clone, Debug)]
pub struct Recorder {
    epoch: Instant,
    client: usize,
    operations: Vec<Operation>,
}

impl Recorder {
    /// A recorder for each of `clients`.
    #[must_use]
    pub fn for_clients(clients: usize) -> Vec<Self> {
        let epoch = Instant::now();
        (0..clients).map(|client| Self { epoch, client, operations: Vec::new() }).collect()
    }

    /// Records what `perform` does with `call`: replies, or how it ended without. The last outcome.
    pub fn record(
        &mut self,
        call: Call,
        perform: impl FnOnce(&Call) -> Result<Vec<Reply>, Outcome>,
    ) -> &Outcome {
        let invoked = self.now();
        let result = perform(&call);
        self.operations.push(Operation::ended(self.client, call, invoked, self.now(), result));
        &self.operations[self.operations.len() - 1].outcome
    }

    /// What was recorded.
    #[must_use]
    pub fn into_operations(self) -> Vec<Operation> {
        self.operations
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).expect("a record of less than 500 years")
    }
}
