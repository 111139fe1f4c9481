//! The log of slow requests.

use std::collections::VecDeque;

use stillframe_commands::Caller;

use crate::node::acl::redacted;
use crate::node::clock::unix_millis;

/// Kept arguments of a slow request.
const ARGS_MAX: usize = 32;
/// Kept bytes of an argument.
const ARG_BYTES_MAX: usize = 128;

/// The last slow requests, the newest first.
#[derive(Default)]
pub(crate) struct SlowLog {
    entries: VecDeque<Slow>,
    next_id: i64,
}

/// A request that was slow.
pub(crate) struct Slow {
    /// Its number, from 0.
    pub(crate) id: i64,
    /// When it ran, in unix seconds.
    pub(crate) at_s: i64,
    /// How long.
    pub(crate) micros: i64,
    /// Its arguments, shortened.
    pub(crate) args: Vec<Vec<u8>>,
    /// The address of its client.
    pub(crate) peer: String,
    /// The name of that client.
    pub(crate) name: Vec<u8>,
}

impl SlowLog {
    /// The requests, the newest first.
    pub(super) fn entries(&self) -> &VecDeque<Slow> {
        &self.entries
    }

    /// Forgets them.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Adds a request of a client with this name.
    pub(super) fn add(&mut self, caller: &Caller, name: &[u8], args: &[&[u8]], micros: i64) {
        let id = self.next_id;
        self.next_id += 1;
        self.entries.push_front(Slow {
            id,
            at_s: unix_millis() / 1000,
            micros,
            args: shortened(&redacted(args)),
            peer: caller.peer.to_string(),
            name: name.to_vec(),
        });
    }

    /// Drops the oldest beyond `most`.
    pub(super) fn shorten(&mut self, most: usize) {
        self.entries.truncate(most);
    }
}

fn shortened(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let kept = if args.len() > ARGS_MAX { ARGS_MAX - 1 } else { args.len() };
    let mut shown: Vec<Vec<u8>> = args[..kept]
        .iter()
        .map(|arg| match arg.get(..ARG_BYTES_MAX) {
            Some(start) if arg.len() > ARG_BYTES_MAX => {
                let more = format!("... ({} more bytes)", arg.len() - ARG_BYTES_MAX);
                [start, more.as_bytes()].concat()
            }
            _ => arg.to_vec(),
        })
        .collect();
    if kept < args.len() {
        shown.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_requests_are_shortened() {
        let long = vec![b'x'; 130];
        let mut args: Vec<&[u8]> = vec![b"set", b"k", &long];
        let shown = shortened(&args);
        assert_eq!(shown[2], [&long[..128], b"... (2 more bytes)"].concat());
        args.resize(33, b"y");
        let shown = shortened(&args);
        assert_eq!((shown.len(), &*shown[31]), (32, &b"... (2 more arguments)"[..]));
    }
}
