//! Where replies end in a stream of bytes that is only passed on.
//!
//! One count for each open array says how many elements are missing; nothing is kept of what the
//! replies hold. What no server sends is taken as if it ended with its line.

/// Follows the replies in a stream, as their bytes come.
#[derive(Debug, Default, Clone)]
pub struct Boundary {
    /// Elements that open arrays lack, the outermost first.
    open: Vec<u64>,
    state: State,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    /// The type of a reply comes next.
    #[default]
    Start,
    /// A line whose end ends the element.
    Line,
    /// A length: what it is of, its digits so far, and whether they are negative.
    Length { of: u8, number: u64, negative: bool },
    /// The bytes left of a string, its line end included.
    Bytes(u64),
}

impl Boundary {
    /// Whether the bytes so far end with a whole reply.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        matches!(self.state, State::Start) && self.open.is_empty()
    }

    /// More bytes have come.
    pub fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let passed = self.pass_one(bytes);
            bytes = &bytes[passed..];
        }
    }

    /// More bytes have come: passes those up to the end of a reply, and returns how many.
    pub fn pass_one(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while let Some((&byte, behind)) = rest.split_first() {
            match self.state {
                State::Bytes(left) => {
                    let count = left.min(rest.len() as u64);
                    rest = &rest[count as usize..];
                    self.state = State::Bytes(left - count);
                    if left == count {
                        self.end();
                    }
                }
                State::Start => (self.state, rest) = (start(byte), behind),
                State::Line if byte == b'\n' => {
                    rest = behind;
                    self.end();
                }
                State::Line => rest = behind,
                State::Length { of, number, negative } => {
                    rest = behind;
                    self.length(of, number, negative, byte);
                }
            }
            if self.is_whole() {
                break;
            }
        }
        bytes.len() - rest.len()
    }

    /// The next byte of a length.
    fn length(&mut self, of: u8, number: u64, negative: bool, byte: u8) {
        self.state = match byte {
            b'0'..=b'9' => {
                let number = number.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
                State::Length { of, number, negative }
            }
            b'-' => State::Length { of, number, negative: true },
            b'\n' => return self.begin(of, if negative { None } else { Some(number) }),
            _ => State::Length { of, number, negative },
        };
    }

    /// A string or an array begins; without a length it is null.
    fn begin(&mut self, of: u8, length: Option<u64>) {
        let count = match (of, length) {
            (_, None) => return self.end(),
            (b'$' | b'!' | b'=', Some(bytes)) => {
                self.state = State::Bytes(bytes.saturating_add(2));
                return;
            }
            (b'%', Some(pairs)) => pairs.saturating_mul(2),
            // What is said of a reply, and the reply.
            (b'|', Some(pairs)) => pairs.saturating_mul(2).saturating_add(1),
            (_, Some(count)) => count,
        };
        if count == 0 {
            return self.end();
        }
        self.open.push(count);
        self.state = State::Start;
    }

    /// An element has ended, and with it the arrays of which it is the last.
    fn end(&mut self) {
        self.state = State::Start;
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return;
            }
            self.open.pop();
        }
    }
}

fn start(byte: u8) -> State {
    match byte {
        b'$' | b'!' | b'=' | b'*' | b'~' | b'>' | b'%' | b'|' => {
            State::Length { of: byte, number: 0, negative: false }
        }
        _ => State::Line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode_reply;

    const REPLIES: [&[u8]; 16] = [
        b"+OK\r\n",
        b"-ERR no\r\n",
        b":12\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"_\r\n",
        b"$0\r\n\r\n",
        b"$12\r\nlong\r\n+OK\r\nx\r\n",
        b"*0\r\n",
        b"*3\r\n:1\r\n*2\r\n$1\r\na\r\n*-1\r\n+x\r\n",
        b"%1\r\n+a\r\n~2\r\n,1.5\r\n#t\r\n",
        b"|1\r\n+ttl\r\n:3\r\n*1\r\n(123\r\n",
        b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\n\r\n\r\n",
        b"=7\r\ntxt:abc\r\n",
        b"!3\r\nERR\r\n",
        b"%0\r\n",
    ];

    #[test]
    fn whole_replies_end_where_a_reader_says() {
        for first in REPLIES {
            for second in REPLIES {
                let both = [first, second].concat();
                let mut boundary = Boundary::default();
                let mut whole = Vec::new();
                for (at, byte) in both.iter().enumerate() {
                    boundary.pass(std::slice::from_ref(byte));
                    if boundary.is_whole() {
                        whole.push(at + 1);
                    }
                }
                assert_eq!(whole, [first.len(), both.len()], "{}", both.escape_ascii());
                let read = decode_reply(&both).expect("they are replies").expect("whole ones");
                assert_eq!(read.1, first.len(), "{}", first.escape_ascii());
                assert_eq!(Boundary::default().pass_one(&both), first.len());
                for cut in 0..both.len() {
                    let mut boundary = Boundary::default();
                    boundary.pass(&both[..cut]);
                    assert_eq!(boundary.is_whole(), cut == 0 || cut == first.len());
                    boundary.pass(&both[cut..]);
                    assert!(boundary.is_whole());
                }
            }
        }
    }
}
