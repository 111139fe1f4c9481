//! Where the arguments of a plain request are, for a thread other than the one that has found them.
//!
//! The lengths alone say it: a header of a plain request is as long as its number demands.

use crate::Limits;
use crate::Plain;
use crate::request::{PLAIN_ARGS_MAX, PLAIN_BULK_BYTES_MAX, begins_plain, plain_args};

const _: () = assert!(PLAIN_BULK_BYTES_MAX <= u16::MAX as usize && PLAIN_ARGS_MAX < 10);

/// The lengths of the arguments of a [`Plain`] request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outline {
    count: u16,
    lengths: [u16; PLAIN_ARGS_MAX],
}

/// What stands at the start of some bytes, which start with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// A plain request of so many bytes.
    Plain(Outline, usize),
    /// What may become a plain request when more bytes come. It is bounded: by the greatest plain
    /// request.
    Cut,
    /// Something else, which takes a [`Parser`](crate::Parser).
    Other,
}

impl Start {
    /// What stands at the start of `bytes`, which are not empty.
    #[inline]
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        if bytes.first() != Some(&b'*') {
            return Self::Other;
        }
        let mut outline = Outline { count: 0, lengths: [0; PLAIN_ARGS_MAX] };
        let note = |at: usize, range: std::ops::Range<usize>| {
            // Plain arguments are shorter than that, as asserted above.
            outline.lengths[at] = range.len() as u16;
        };
        match plain_args(bytes, &Limits::OPEN, note) {
            Some((count, length)) => {
                outline.count = count as u16;
                Self::Plain(outline, length)
            }
            None if begins_plain(bytes) => Self::Cut,
            None => Self::Other,
        }
    }
}

impl Outline {
    /// The request at the start of `bytes`, in which another thread has found it. `None`: these are
    /// other bytes.
    #[inline]
    #[must_use]
    pub fn on<'b>(&self, bytes: &'b [u8]) -> Option<Plain<'b>> {
        let header = |number: usize| match number {
            0..10 => 4,
            10..100 => 5,
            100..1_000 => 6,
            1_000..10_000 => 7,
            _ => 8,
        };
        let count = usize::from(self.count);
        let mut args = [&[][..]; PLAIN_ARGS_MAX];
        let mut at = header(count);
        for (arg, length) in args.iter_mut().zip(self.lengths).take(count) {
            let length = usize::from(length);
            at += header(length);
            *arg = bytes.get(at..at + length)?;
            at += length + 2;
        }
        Some(Plain::new(args, count, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(args: &[&[u8]]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            bytes.extend(format!("${}\r\n", arg.len()).into_bytes());
            bytes.extend_from_slice(arg);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes
    }

    #[test]
    fn an_outline_shows_what_the_parser_finds() {
        let value = vec![b'v'; PLAIN_BULK_BYTES_MAX];
        for length in [0, 1, 9, 10, 99, 100, 999, 1_000, 9_999, 10_000, PLAIN_BULK_BYTES_MAX] {
            for count in 1..=PLAIN_ARGS_MAX {
                let args = vec![&value[..length]; count];
                let mut bytes = request(&args);
                let whole = bytes.len();
                bytes.extend_from_slice(b"*1\r\n$4\r\nPING\r\n");
                let Start::Plain(outline, used) = Start::from_bytes(&bytes) else {
                    panic!("{count} arguments of {length} bytes are plain");
                };
                let plain = outline.on(&bytes).expect("the same bytes");
                assert_eq!((plain.args(), plain.bytes(), used), (&args[..], whole, whole));
                assert!(outline.on(&bytes[..whole - 3]).is_none(), "an argument is cut");
            }
        }
    }

    #[test]
    fn a_plain_request_may_be_cut_anywhere() {
        let long = [b'x'; 1234];
        let whole = request(&[b"SET", &long[..12], &long, b""]);
        for end in 1..whole.len() {
            assert_eq!(Start::from_bytes(&whole[..end]), Start::Cut, "{end} bytes");
        }
        assert!(matches!(Start::from_bytes(&whole), Start::Plain(_, used) if used == whole.len()));
    }

    #[test]
    fn all_else_is_left_to_a_parser() {
        let large = [&b"*1\r\n$16385\r\n"[..], &[b'x'; 16385], b"\r\n"].concat();
        let others = [
            &b"PING\r\n"[..],
            b"P",
            b"*0\r\n",
            b"*-1\r\n",
            b"*9\r\n",
            b"*10\r\n$1\r\n",
            b"*x",
            b"*123456",
            b"*1\r\n:1\r\n",
            b"*1\r\n$-",
            b"*1\r\n$007\r\n",
            &large,
            &large[..12],
        ];
        for bytes in others {
            let shown = bytes.escape_ascii().to_string();
            assert_eq!(Start::from_bytes(bytes), Start::Other, "{:.20}", shown);
        }
    }
}
