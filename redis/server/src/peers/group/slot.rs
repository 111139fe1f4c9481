//! The slot of a key: CRC-16/XMODEM of the key, or of its hash tag, modulo 16384, as in the Redis
//! Cluster specification.

use std::sync::OnceLock;

/// Slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// The slot of a key, as in a Redis cluster.
#[must_use]
pub fn slot(key: &[u8]) -> u16 {
    crc16(tag(key).iter().copied()) % SLOTS
}

/// What is hashed of a key: what stands between its first `{` and the next `}`, if anything does.
fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let behind = &key[open + 1..];
    match behind.iter().position(|&byte| byte == b'}') {
        None | Some(0) => key,
        Some(close) => &behind[..close],
    }
}

/// A hash tag with a slot: the first one of up to three letters and digits.
pub(crate) fn tag_of(wanted: u16) -> String {
    static TAGS: OnceLock<Vec<String>> = OnceLock::new();
    TAGS.get_or_init(tags).get(usize::from(wanted)).cloned().unwrap_or_default()
}

/// A tag for each slot.
fn tags() -> Vec<String> {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let letters = || LETTERS.iter().copied();
    let one = letters().map(|a| [a, 0, 0]);
    let two = letters().flat_map(|a| letters().map(move |b| [a, b, 0]));
    let three = two.clone().flat_map(|[a, b, _]| letters().map(move |c| [a, b, c]));
    let text = |tag: [u8; 3]| tag.into_iter().filter(|&byte| byte != 0);
    let (mut found, mut left) = (vec![String::new(); SLOTS.into()], SLOTS);
    for tag in one.chain(two).chain(three).map(text) {
        let found = &mut found[usize::from(crc16(tag.clone()) % SLOTS)];
        if found.is_empty() {
            *found = tag.map(char::from).collect();
            left -= 1;
        }
        if left == 0 {
            break;
        }
    }
    found // a test finds each
}

/// CRC-16/XMODEM: polynomial 0x1021, from 0, most significant bit first.
fn crc16(bytes: impl IntoIterator<Item = u8>) -> u16 {
    bytes.into_iter().fold(0, |crc, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

static TABLE: [u16; 256] = {
    let (mut table, mut byte) = ([0; 256], 0);
    while byte < 256 {
        let (mut crc, mut bit) = ((byte as u16) << 8, 0);
        while bit < 8 {
            let top = crc & 0x8000 != 0;
            crc = (crc << 1) ^ if top { 0x1021 } else { 0 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_is_the_published_one() {
        assert_eq!(crc16(*b"123456789"), 0x31c3);
        assert_eq!(crc16([]), 0);
    }

    #[test]
    fn every_slot_has_a_tag() {
        for wanted in 0..SLOTS {
            let tag = tag_of(wanted);
            assert_eq!(slot(format!("{{{tag}}}").as_bytes()), wanted, "{tag}");
        }
    }

    #[test]
    fn keys_with_one_tag_share_its_slot() {
        let foo = slot(b"foo");
        assert_eq!(foo, 12_182, "as the specification says");
        for same in [&b"{foo}"[..], b"{foo}bar", b"x{foo}y{z}", b"a{foo}}b"] {
            assert_eq!(slot(same), foo, "{}", same.escape_ascii());
        }
        for whole in [&b"{}foo"[..], b"foo{", b"{foo", b"fo}o{", b"foo{}{bar}"] {
            assert_eq!(
                slot(whole),
                crc16(whole.iter().copied()) % SLOTS,
                "{}",
                whole.escape_ascii()
            );
        }
        assert_eq!(slot(b"{{foo}"), crc16(*b"{foo") % SLOTS);
    }
}
