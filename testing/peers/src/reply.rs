//! Requests and replies as clients see them.

/// A reply's meaning, RESP2 and RESP3 alike; maps and sets are lists.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A simple string, a bulk string, or any scalar but an integer.
    Text(Vec<u8>),
    /// An error, without its sign.
    Error(String),
    /// An integer.
    Int(i64),
    /// Nothing.
    Null,
    /// An array, a set, a map or a push.
    List(Vec<Reply>),
}

impl Reply {
    /// The integer that it is.
    #[must_use]
    pub fn int(&self) -> i64 {
        match self {
            Self::Int(value) => *value,
            other => panic!("not an integer: {other:?}"),
        }
    }

    /// The text that it is, errors included.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Error(text) => text.clone(),
            other => panic!("not a text: {other:?}"),
        }
    }

    /// The bytes of a string; `None` for other replies.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Text(bytes) => Some(bytes),
            Self::Null => None,
            other => panic!("not a value: {other:?}"),
        }
    }

    /// The elements of an array.
    #[must_use]
    pub fn list(&self) -> &[Reply] {
        match self {
            Self::List(elements) => elements,
            other => panic!("not a list: {other:?}"),
        }
    }
}

/// Appends a command as clients send it.
pub fn encode(command: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
    for argument in command {
        out.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

/// The reply at the head of `bytes` and its length in bytes, if it is whole.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<(Reply, usize)> {
    let line_length = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let line = String::from_utf8_lossy(&bytes[1..line_length]);
    let head = line_length + 2;
    let count = || line.parse::<i64>().unwrap_or_else(|_| panic!("a broken reply: {line:?}"));
    let reply = match bytes[0] {
        b'+' | b',' | b'(' | b'#' => Reply::Text(line.as_bytes().to_vec()),
        b'-' => Reply::Error(line.into_owned()),
        b':' => Reply::Int(count()),
        b'_' => Reply::Null,
        b'$' | b'=' | b'!' | b'*' | b'~' | b'>' | b'%' if count() < 0 => Reply::Null,
        b'$' | b'=' | b'!' => {
            let end = head + usize::try_from(count()).expect("not negative");
            let body = bytes.get(head..end)?.to_vec();
            return bytes.get(end..end + 2).map(|_| (Reply::Text(body), end + 2));
        }
        kind @ (b'*' | b'~' | b'>' | b'%') => {
            let elements = count() * if kind == b'%' { 2 } else { 1 };
            return decode_list(bytes, head, elements);
        }
        kind => panic!("no reply starts with byte {kind:#x}"),
    };
    Some((reply, head))
}

fn decode_list(bytes: &[u8], head: usize, elements: i64) -> Option<(Reply, usize)> {
    let mut end = head;
    let mut list = Vec::new();
    for _ in 0..elements {
        let (element, length) = decode(&bytes[end..])?;
        list.push(element);
        end += length;
    }
    Some((Reply::List(list), end))
}
