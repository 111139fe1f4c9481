//! A request as clients send it, as bytes.

use stillframe_resp::{Out, Protocol};

/// Bytes of a request with arguments of these lengths, as clients send it.
pub fn request_bytes(lengths: impl ExactSizeIterator<Item = usize>) -> usize {
    let line = |number: usize| 3 + number.checked_ilog10().unwrap_or(0) as usize + 1;
    line(lengths.len()) + lengths.map(|length| line(length) + length + 2).sum::<usize>()
}

/// Writes a request as clients send it.
pub fn write_request(bytes: &mut Vec<u8>, args: &[&[u8]]) {
    let mut out = Out::new(bytes, Protocol::Resp2);
    out.array(args.len());
    for arg in args {
        out.bulk(arg);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_request_are_known_before_it_is_written() {
        for args in [&[&b"PING"[..]][..], &[b"SET", b"", b"0123456789"], &[&[7; 100][..]; 10]] {
            let mut bytes = Vec::new();
            write_request(&mut bytes, args);
            assert_eq!(request_bytes(args.iter().map(|arg| arg.len())), bytes.len());
        }
    }
}
