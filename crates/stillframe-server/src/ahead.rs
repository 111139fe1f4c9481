//! A glance at the keys of pipelined requests before they run, so that their cache misses overlap
//! (see `Keyspace::warm`).
//!
//! Only a hint: whatever is not plainly a whole request of bulk strings ends the glance, and the
//! parser proper judges it in its turn.

use stillframe::Algorithm;
use stillframe_keyspace::{Keyspace, WARM_BATCH};

/// Arguments of the longest request that is glanced at.
const ARGS_MAX: usize = 64;

/// Warms the first keys of the next requests in `bytes`, if there are several.
pub(crate) fn warm<A: Algorithm>(keyspace: &Keyspace<A>, db: usize, bytes: &[u8]) {
    let mut keys = [&[][..]; WARM_BATCH];
    let mut ahead = Ahead { bytes };
    let mut count = 0;
    for (place, key) in keys.iter_mut().zip(&mut ahead) {
        *place = key;
        count += 1;
    }
    if count > 1 {
        keyspace.warm(db, keys[..count].iter().copied());
    }
}

/// The first arguments after the name of requests that are wholly there.
struct Ahead<'a> {
    bytes: &'a [u8],
}

impl<'a> Iterator for Ahead<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let args = self.number(b'*').filter(|&args| args <= ARGS_MAX)?;
            let mut key = None;
            for at in 0..args {
                let length = self.number(b'$')?;
                let (arg, rest) = self.bytes.split_at_checked(length)?;
                self.bytes = rest.strip_prefix(b"\r\n")?;
                if at == 1 {
                    key = Some(arg);
                }
            }
            if key.is_some() {
                return key;
            }
        }
    }
}

impl Ahead<'_> {
    /// Takes a line of `mark` and a number.
    fn number(&mut self, mark: u8) -> Option<usize> {
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
        Ahead { bytes }.collect()
    }

    #[test]
    fn the_first_key_of_each_whole_request_is_seen() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n\
            *3\r\n$3\r\nSET\r\n$2\r\nbc\r\n$0\r\n\r\n*2\r\n$3\r\nGET\r\n$5\r\nhal";
        assert_eq!(keys(bytes), [&b"a"[..], b"bc"]);
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
