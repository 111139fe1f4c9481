//! Damaged copies of a text.

/// The text with one letter changed, or cut before one: for each letter both.
///
/// # Panics
/// If the text is not ASCII.
pub fn damaged(text: &str) -> impl Iterator<Item = String> + '_ {
    (0..text.len()).flat_map(|at| {
        let mut bytes = text.to_owned().into_bytes();
        bytes[at] ^= 1;
        [String::from_utf8(bytes).expect("it is still ASCII"), text[..at].to_owned()]
    })
}
