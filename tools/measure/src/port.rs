//! Ports for servers that run as processes of their own and cannot be told port 0.
//!
//! A port found by binding and letting go may go to a connection or to another test before its
//! server binds it. The ports here lie below those that Linux gives to connections
//! (`net.ipv4.ip_local_port_range`), and no two processes hand out the same one: each holds the
//! first port of every block that it hands out, for as long as it lives.

use std::net::TcpListener;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The ports that are handed out.
const PORTS: Range<u16> = 12_000..32_000;
/// Ports in a block, the first included.
const BLOCK: usize = 50;

/// The blocks of this process.
static BLOCKS: Mutex<Blocks> = Mutex::new(Blocks { firsts: Vec::new(), rest: 0..0 });

struct Blocks {
    /// Keeps the blocks for this process.
    firsts: Vec<TcpListener>,
    /// What is left of the newest block.
    rest: Range<u16>,
}

/// A port of 127.0.0.1 that no other caller in any process gets while this process lives.
///
/// # Panics
/// Other processes have all ports.
pub fn own_port() -> u16 {
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        // A program that knows nothing of this may have taken one.
        for port in blocks.rest.by_ref() {
            if bind(port).is_some() {
                return port;
            }
        }
        let from = blocks.rest.end.max(PORTS.start)..PORTS.end;
        let free = from.step_by(BLOCK).find_map(|start| Some((start, bind(start)?)));
        let (start, first) = free.expect("a block of ports is free");
        blocks.firsts.push(first);
        blocks.rest = start + 1..start + BLOCK as u16;
    }
}

fn bind(port: u16) -> Option<TcpListener> {
    TcpListener::bind(("127.0.0.1", port)).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::thread;

    use super::*;

    #[test]
    fn no_port_is_handed_out_twice() {
        let take = || (0..3 * BLOCK).map(|_| own_port()).collect::<Vec<u16>>();
        let threads: Vec<_> = (0..4).map(|_| thread::spawn(take)).collect();
        let ports: Vec<u16> =
            threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect();
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), ports.len());
        assert!(ports.iter().all(|port| PORTS.contains(port)));
        let first = ports.iter().min().expect("some") - 1;
        assert!(bind(first).is_none(), "the block of {first} is held");
    }
}
