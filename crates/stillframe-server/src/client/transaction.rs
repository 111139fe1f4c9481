//! Requests that wait: for EXEC, or for the end of a pause.

/// An open transaction.
#[derive(Default)]
pub(crate) struct Transaction {
    /// Arguments of all queued requests, names included, end to end.
    bytes: Vec<u8>,
    /// Where each argument ends in `bytes`.
    ends: Vec<usize>,
    queued: Vec<Queued>,
    /// Flags that the command of some queued request has.
    pub(crate) some: u32,
    /// Flags that the command of some queued request lacks.
    pub(crate) lacked: u32,
    /// A request was refused: EXEC will refuse them all.
    pub(crate) failed: bool,
}

/// A request that waits for EXEC.
struct Queued {
    /// Index of the command in the table.
    command: usize,
    /// How many of the arguments are its own.
    args: usize,
}

impl Transaction {
    /// Bytes of memory the queue holds.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.queued.capacity() * size_of::<Queued>()
    }

    /// Requests in the queue.
    pub(crate) fn len(&self) -> usize {
        self.queued.len()
    }

    pub(crate) fn push(&mut self, command: usize, args: &[&[u8]]) {
        for arg in args {
            self.bytes.extend_from_slice(arg);
            self.ends.push(self.bytes.len());
        }
        self.queued.push(Queued { command, args: args.len() });
    }

    /// Calls `f` with each request, in order.
    pub(crate) fn for_each(&self, mut f: impl FnMut(usize, &[&[u8]])) {
        let (mut start, mut ends) = (0, self.ends.iter());
        let mut args = Vec::new();
        for queued in &self.queued {
            args.clear();
            for &end in ends.by_ref().take(queued.args) {
                args.push(&self.bytes[start..end]);
                start = end;
            }
            f(queued.command, &args);
        }
    }
}
