//! Requests that wait: those of a transaction for EXEC, and those that a server has postponed.

use crate::request::request_bytes;

/// Requests that wait, in their order.
#[derive(Default)]
pub struct Requests {
    /// Arguments of all queued requests, names included, end to end.
    bytes: Vec<u8>,
    /// Where each argument ends in `bytes`.
    ends: Vec<usize>,
    queued: Vec<Queued>,
    /// Bytes of the requests, as clients send them.
    sent_bytes: usize,
    /// Flags that the command of some queued request has.
    some: u32,
    /// Flags that the command of some queued request lacks.
    lacked: u32,
}

/// A request in the queue.
struct Queued {
    /// Index of the command in the table.
    command: usize,
    /// How many of the arguments are its own.
    args: usize,
}

/// The transaction that a caller has opened with MULTI.
#[derive(Default)]
pub struct Transaction {
    /// What EXEC will run.
    pub requests: Requests,
    /// A request was refused before it was queued: EXEC will refuse them all.
    pub failed: bool,
}

impl Requests {
    /// Bytes of memory the queue holds.
    pub fn memory(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.queued.capacity() * size_of::<Queued>()
    }

    /// Bytes of the requests, as clients send them.
    pub fn request_bytes(&self) -> usize {
        self.sent_bytes
    }

    /// Requests in the queue.
    pub fn len(&self) -> usize {
        self.queued.len()
    }

    /// Whether the queue holds no request.
    pub fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }

    /// Adds a request: `command` is the index, in the table, of its command, which has `flags`.
    pub fn push(&mut self, command: usize, flags: u32, args: &[&[u8]]) {
        for arg in args {
            self.bytes.extend_from_slice(arg);
            self.ends.push(self.bytes.len());
        }
        self.queued.push(Queued { command, args: args.len() });
        self.sent_bytes += request_bytes(args.iter().map(|arg| arg.len()));
        self.some |= flags;
        self.lacked |= !flags;
    }

    /// Flags that the command of some queued request has, and those that one lacks.
    pub fn flags(&self) -> [u32; 2] {
        [self.some, self.lacked]
    }

    /// Calls `f` with each request, in order.
    pub fn for_each(&self, mut f: impl FnMut(usize, &[&[u8]])) {
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
