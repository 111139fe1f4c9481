//! A glance at the keys of pipelined requests before they run, or at the elements of the one
//! collection that they are about, so that their cache misses overlap (see `Keyspace::warm`).
//!
//! Only a hint: whatever is not plainly a whole request of bulk strings ends the glance, and the
//! parser proper judges it in its turn.

use stillframe::Algorithm;
use stillframe_keyspace::{Keyspace, Named, WARM_BATCH};

use crate::commands;

/// Arguments of the longest request that is glanced at.
const ARGS_MAX: usize = 64;

/// Warms the first keys of the next requests in `bytes`, if there are several; what they name of
/// it, if it is one key.
pub(crate) fn warm<A: Algorithm>(keyspace: &Keyspace<A>, db: usize, bytes: &[u8]) {
    let mut glances = [Glance::default(); WARM_BATCH];
    let mut count = 0;
    for (place, glance) in glances.iter_mut().zip(Ahead { bytes }) {
        *place = glance;
        count += 1;
    }
    let glances = &glances[..count];
    let [first, others @ ..] = glances else { return };
    if others.is_empty() {
        return;
    }
    if others.iter().any(|other| other.key != first.key) {
        return keyspace.warm(db, glances.iter().map(|glance| glance.key));
    }
    let mut named = [Named::default(); WARM_BATCH];
    for (named, glance) in named.iter_mut().zip(glances) {
        let score = commands::whole_score(glance.second);
        *named = Named { name: glance.second, member: glance.last, score };
    }
    keyspace.warm_elements(db, first.key, &named[..count]);
}

/// Arguments of one request: the first, second and last after the name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Glance<'a> {
    key: &'a [u8],
    second: &'a [u8],
    last: &'a [u8],
}

/// The requests that are wholly there, but those without a key.
struct Ahead<'a> {
    bytes: &'a [u8],
}

impl<'a> Iterator for Ahead<'a> {
    type Item = Glance<'a>;

    fn next(&mut self) -> Option<Glance<'a>> {
        loop {
            let args = self.number(b'*').filter(|&args| args <= ARGS_MAX)?;
            let mut glance = Glance::default();
            for at in 0..args {
                let length = self.number(b'$')?;
                let (arg, rest) = self.bytes.split_at_checked(length)?;
                self.bytes = rest.strip_prefix(b"\r\n")?;
                match at {
                    1 => glance.key = arg,
                    2 => glance.second = arg,
                    _ => {}
                }
                glance.last = arg;
            }
            if args > 1 {
                return Some(glance);
            }
        }
    }
}

impl Ahead<'_> {
    /// Takes a line of `mark` and a number.
    #[inline]
    fn number(&mut self, mark: u8) -> Option<usize> {
        let digit = |byte: u8| usize::from(byte - b'0');
        // Nearly all of them.
        let (number, rest) = match self.bytes {
            [first, a @ b'0'..=b'9', b'\r', b'\n', rest @ ..] if *first == mark => {
                (digit(*a), rest)
            }
            [first, a @ b'0'..=b'9', b @ b'0'..=b'9', b'\r', b'\n', rest @ ..]
                if *first == mark =>
            {
                (10 * digit(*a) + digit(*b), rest)
            }
            _ => return self.long_number(mark),
        };
        self.bytes = rest;
        Some(number)
    }

    fn long_number(&mut self, mark: u8) -> Option<usize> {
        /// Longer numbers belong to arguments too large to be there whole.
        const DIGITS_MAX: usize = 7;
        let mut number = 0;
        let rest = self.bytes.strip_prefix(&[mark])?;
        for (at, &byte) in rest.iter().enumerate().take(DIGITS_MAX + 1) {
            match byte {
                b'0'..=b'9' => number = number * 10 + usize::from(byte - b'0'),
                b'\r' => {
                    self.bytes = rest[at + 1..].strip_prefix(b"\n")?;
                    return Some(number);
                }
                _ => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<&[u8]> {
        Ahead { bytes }.map(|glance| glance.key).collect()
    }

    #[test]
    fn the_first_key_of_each_whole_request_is_seen() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n\
            *3\r\n$3\r\nSET\r\n$2\r\nbc\r\n$0\r\n\r\n*2\r\n$3\r\nGET\r\n$5\r\nhal";
        assert_eq!(keys(bytes), [&b"a"[..], b"bc"]);
    }

    #[test]
    fn what_a_request_names_is_seen() {
        let bytes = b"*4\r\n$4\r\nZADD\r\n$1\r\nz\r\n$1\r\n7\r\n$2\r\nme\r\n";
        let glance = Glance { key: b"z", second: b"7", last: b"me" };
        assert_eq!(Ahead { bytes }.collect::<Vec<_>>(), [glance]);
    }

    #[test]
    fn anything_unusual_ends_the_glance() {
        let first = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n".to_vec();
        let unusual: [&[u8]; 8] = [
            b"PING\r\n",
            b"*-1\r\n",
            b"*99999999999999999999\r\n",
            b"*65\r\n",
            b"*2\r\n$9999999\r\n",
            b"*2\r\n$3\r\nGETx",
            b"*2\r\n$-1\r\n",
            b"*",
        ];
        for rest in unusual {
            let bytes = [&first[..], rest].concat();
            assert_eq!(keys(&bytes), [b"a"], "{}", rest.escape_ascii());
        }
    }
}
