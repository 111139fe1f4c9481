//! The log of slow requests.

use std::collections::VecDeque;

use stillframe_commands::Caller;

use crate::node::acl::redacted;
use crate::node::clock::unix_millis;
use crate::node::config::Config;

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
    pub(super) fn add(&mut self, caller: &Caller, name: &[u8], args: Vec<Vec<u8>>, micros: i64) {
        let id = self.next_id;
        self.next_id += 1;
        self.entries.push_front(Slow {
            id,
            at_s: unix_millis() / 1000,
            micros,
            args,
            peer: caller.peer.to_string(),
            name: name.to_vec(),
        });
    }

    /// Drops the oldest beyond `most`.
    pub(super) fn shorten(&mut self, most: usize) {
        self.entries.truncate(most);
    }
}

/// The arguments of a request as the log keeps them: without passwords, and not too many nor too
/// long.
pub(super) fn shortened(args: &[&[u8]], config: &Config) -> Vec<Vec<u8>> {
    let args = &redacted(args);
    let (args_max, bytes_max) = (config.slowlog_args_max, config.slowlog_arg_bytes_max);
    let kept = if args.len() > args_max { args_max - 1 } else { args.len() };
    let mut shown: Vec<Vec<u8>> = args[..kept]
        .iter()
        .map(|arg| match arg.get(..bytes_max) {
            Some(start) if arg.len() > bytes_max => {
                let more = format!("... ({} more bytes)", arg.len() - bytes_max);
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
        let mut config = Config::default();
        let shown = shortened(&args, &config);
        assert_eq!(shown[2], [&long[..128], b"... (2 more bytes)"].concat());
        args.resize(33, b"y");
        let shown = shortened(&args, &config);
        assert_eq!((shown.len(), &*shown[31]), (32, &b"... (2 more arguments)"[..]));
        (config.slowlog_args_max, config.slowlog_arg_bytes_max) = (2, 1);
        let shown = shortened(&args, &config);
        assert_eq!(shown, [&b"s... (2 more bytes)"[..], b"... (32 more arguments)"]);
    }
}
