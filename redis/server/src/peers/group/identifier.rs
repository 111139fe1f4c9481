//! The identifiers of members for clients.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// The identifier of a member for clients, 40 hexadecimal digits: the same as long as the group
/// lives.
pub(super) fn identifier(group: &str, id: u64) -> String {
    shortened(
        Sha256::new()
            .chain_update(b"stillframe member\0")
            .chain_update(id.to_be_bytes())
            .chain_update(group.as_bytes()),
    )
}

/// The identifier of a group for clients, in the same form.
pub(super) fn of_group(group: &str) -> String {
    shortened(Sha256::new().chain_update(b"stillframe group\0").chain_update(group.as_bytes()))
}

fn shortened(digest: Sha256) -> String {
    digest.finalize().iter().take(20).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_those_of_a_member_of_one_group() {
        let first = identifier("shop", 1);
        assert_eq!(first.len(), 40);
        assert!(first.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
        // Clients know a member by it from one start to the next.
        assert_eq!(first, "8cef9acd25d361463878b5bbe66f8b1bcf94d0aa");
        assert_ne!(first, identifier("shop", 2));
        assert_ne!(first, identifier("shops", 1));
        assert_eq!(of_group("shop").len(), 40);
        assert!(of_group("shop") != of_group("shops") && of_group("shop") != first);
    }
}
